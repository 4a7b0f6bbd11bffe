//! What searches that stop by themselves save and lose, and how good the estimates are that they go by. A file of its own, as a score says
//! how good a search is, and this when it is over.

use super::simulate::{Estimate, Run};

/// Where ranges of estimates end, in percent. The last one has no end.
const RANGES: [f64; 4] = [0.3, 1.0, 3.0, 10.0];

/// What a patience comes to.
#[derive(Debug, PartialEq, serde::Serialize)]
pub struct Stop {
    pub patience_percent: f64,
    /// Share of the searches that stop before the budget is spent.
    pub stopped_percent: f64,
    /// Candidates tried, in the mean.
    pub candidates: f64,
    /// The same of searches that do not stop.
    pub candidates_unstopped: f64,
    /// The optimum over what was found, in the mean.
    pub score: f64,
    /// The same of searches that do not stop.
    pub score_unstopped: f64,
}

/// Estimates of what is left to gain by as many candidates as were tried, and what was gained by those.
#[derive(Debug, PartialEq, serde::Serialize)]
pub struct Estimates {
    pub above_percent: f64,
    /// `None`: no matter how large.
    pub up_to_percent: Option<f64>,
    /// How many there are.
    pub estimates: usize,
    /// What they say, in the mean.
    pub estimated_percent: f64,
    /// What was gained, in the mean.
    pub gained_percent: f64,
    /// Share of them after which more was gained than they say.
    pub too_low_percent: f64,
}

impl Stop {
    /// Of `runs`, where they stop at this patience.
    pub fn of(runs: &[Run], patience_percent: f64) -> Self {
        let stops: Vec<Option<usize>> = runs.iter().map(|run| stop(run, patience_percent / 100.0)).collect();
        let mean = |of: &dyn Fn(&Run, Option<usize>) -> f64| {
            runs.iter().zip(&stops).map(|(run, stop)| of(run, *stop)).sum::<f64>() / runs.len().max(1) as f64
        };
        Self {
            patience_percent,
            stopped_percent: 100.0 * mean(&|_, stop| f64::from(u8::from(stop.is_some()))),
            candidates: mean(&|run, stop| stop.unwrap_or(run.best_ms.len()) as f64),
            candidates_unstopped: mean(&|run, _| run.best_ms.len() as f64),
            score: mean(&|run, stop| run.score(stop.unwrap_or(usize::MAX))),
            score_unstopped: mean(&|run, _| run.score(usize::MAX)),
        }
    }
}

/// After how many evaluations `run` stops.
fn stop(run: &Run, patience: f64) -> Option<usize> {
    run.estimates.iter().find(|estimate| estimate.left < patience).map(|estimate| estimate.evaluations)
}

impl Estimates {
    /// Those of `runs` that can be judged, by what they say. None of a range that has none.
    pub fn of(runs: &[Run]) -> Vec<Self> {
        let judged: Vec<(f64, f64)> = runs
            .iter()
            .flat_map(|run| run.estimates.iter().filter_map(|estimate| Some((estimate.left, gained(run, estimate)?))))
            .map(|(left, gained)| (100.0 * left, 100.0 * gained))
            .collect();
        let from = [f64::NEG_INFINITY].into_iter().chain(RANGES);
        let to = RANGES.into_iter().map(Some).chain([None]);
        let ranges = from.zip(to).map(|(above, up_to)| {
            let is_in = |left: f64| left > above && up_to.is_none_or(|up_to| left <= up_to);
            let of_range: Vec<(f64, f64)> = judged.iter().copied().filter(|(left, _)| is_in(*left)).collect();
            let mean = |of: fn(&(f64, f64)) -> f64| of_range.iter().map(of).sum::<f64>() / of_range.len() as f64;
            Self {
                above_percent: above.max(0.0),
                up_to_percent: up_to,
                estimates: of_range.len(),
                estimated_percent: mean(|(left, _)| *left),
                gained_percent: mean(|(_, gained)| *gained),
                too_low_percent: 100.0 * mean(|(left, gained)| f64::from(u8::from(gained > left))),
            }
        });
        ranges.filter(|range| range.estimates > 0).collect()
    }
}

/// The share of the best time by which `run` got better as it tried as many again. `None` where it did not go on for so long.
fn gained(run: &Run, estimate: &Estimate) -> Option<f64> {
    let best = |evaluations: usize| run.best_ms.get(evaluations.checked_sub(1)?).copied().flatten();
    let (before, after) = (best(estimate.evaluations)?, best(2 * estimate.evaluations)?);
    Some((before - after) / before)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One whose best after each evaluation is this, and which expects so much to be left after so many.
    fn run(best_ms: &[f64], estimates: &[(usize, f64)]) -> Run {
        let estimates = estimates.iter().map(|(evaluations, left)| Estimate { evaluations: *evaluations, left: *left });
        Run {
            optimum_ms: 1.0,
            best_ms: best_ms.iter().copied().map(Some).collect(),
            estimates: estimates.collect(),
            ..Run::default()
        }
    }

    #[test]
    fn a_search_stops_where_it_first_expects_less() {
        let runs = [
            run(&[4.0, 2.0, 2.0, 1.0], &[(1, 0.5), (2, 0.005), (3, 0.5)]),
            run(&[2.0, 2.0, 2.0, 1.0], &[(1, 0.02), (2, 0.01)]),
        ];
        let expected = Stop {
            patience_percent: 1.0,
            stopped_percent: 50.0,
            candidates: 3.0,
            candidates_unstopped: 4.0,
            score: 0.75,
            score_unstopped: 1.0,
        };
        assert_eq!(Stop::of(&runs, 1.0), expected);
        let none = Stop { patience_percent: 0.0, stopped_percent: 0.0, candidates: 4.0, score: 1.0, ..expected };
        assert_eq!(Stop::of(&runs, 0.0), none);
    }

    #[test]
    fn estimates_are_judged_by_as_many_candidates_again() {
        let runs =
            [run(&[4.0, 2.0, 2.0, 2.0, 1.0], &[(1, 0.6), (2, 0.004), (3, 0.004)]), run(&[2.0, 1.98], &[(1, 0.005)])];
        let found = Estimates::of(&runs);
        let ranges: Vec<_> = found.iter().map(|range| (range.above_percent, range.up_to_percent)).collect();
        assert_eq!(ranges, [(0.3, Some(1.0)), (10.0, None)]);
        let [few, many] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((few.estimates, many.estimates), (2, 1), "what came after the third is not known");
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        close(few.estimated_percent, 0.45);
        close(few.gained_percent, 0.5);
        close(few.too_low_percent, 50.0);
        close(many.gained_percent, 50.0);
        close(many.too_low_percent, 0.0);
    }
}
