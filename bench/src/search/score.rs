//! What searches of a space are worth, over their seeds.

use std::time::Duration;

use super::Try;
use super::simulate::Run;
use super::space::Measured;
use super::stop::{Estimates, Stop};

/// How far from the optimum is close to it.
const CLOSE: f64 = 0.01;

/// What a strategy is worth on a space.
#[derive(Debug, PartialEq, serde::Serialize)]
pub struct Worth {
    pub space: String,
    /// More than one where problems are searched side by side; numbers of points are means then.
    pub spaces: usize,
    pub points: usize,
    pub failed: usize,
    /// The sum over the spaces.
    pub optimum_ms: f64,
    pub search: String,
    pub seeds: usize,
    pub budget: usize,
    pub scores: Vec<Score>,
    pub close: Close,
    /// Share of the evaluations that no other problem of the solver had tried before.
    pub compiled_percent: f64,
    /// Mean time of a proposal.
    pub proposal_ms: f64,
    /// One for each patience, of a strategy that expects something.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stops: Vec<Stop>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub estimates: Vec<Estimates>,
}

/// The optimum over what was found after some evaluations: 1 is the best, 0 is nothing.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Score {
    pub evaluations: usize,
    pub mean: f64,
    /// `None` of a single seed.
    pub standard_error: Option<f64>,
}

/// Evaluations until what was found is within 1 % of the optimum.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Close {
    /// Of the seeds, by nearest rank. `None`: more than the budget.
    pub median: Option<usize>,
    pub percentile_90: Option<usize>,
    /// Share of the seeds that got there, in percent.
    pub reached_percent: f64,
}

impl Worth {
    /// Of `runs`, each with another seed, that had `budget` evaluations, scored after each number `at` of them, and where they stop at each
    /// `patience`, in percent.
    pub fn of(tried: &Try<'_>, runs: &[Run], budget: usize, at: &[usize], patience: &[f64]) -> Self {
        let patience = if tried.search.estimates() { patience } else { &[] };
        Self {
            stops: patience.iter().map(|patience| Stop::of(runs, *patience)).collect(),
            estimates: if patience.is_empty() { Vec::new() } else { Estimates::of(runs) },
            ..Self::beside(tried.name(), &tried.spaces, tried.search.name().to_string(), runs, budget, at)
        }
    }

    /// The same of a search by somebody else, who expects nothing.
    pub fn beside(
        space: String,
        spaces: &[&Measured],
        search: String,
        runs: &[Run],
        budget: usize,
        at: &[usize],
    ) -> Self {
        let mean = |count: fn(&Measured) -> usize| {
            spaces.iter().map(|space| count(space)).sum::<usize>() / spaces.len().max(1)
        };
        let proposals: u32 = runs.iter().map(|run| run.proposals).sum();
        let evaluations: usize = runs.iter().map(|run| run.best_ms.len()).sum();
        let compiled: usize = runs.iter().map(|run| run.compiled).sum();
        let proposing: Duration = runs.iter().map(|run| run.proposing).sum();
        Self {
            space,
            spaces: spaces.len(),
            points: mean(|space| space.points.len()),
            failed: mean(Measured::failed),
            optimum_ms: spaces.iter().map(|space| space.optimum_ms()).sum(),
            search,
            seeds: runs.len() / spaces.len().max(1),
            budget,
            scores: at.iter().map(|at| Score::of(runs, *at)).collect(),
            close: Close::of(runs),
            compiled_percent: 100.0 * compiled as f64 / evaluations.max(1) as f64,
            proposal_ms: proposing.as_secs_f64() * 1000.0 / f64::from(proposals.max(1)),
            stops: Vec::new(),
            estimates: Vec::new(),
        }
    }
}

impl Score {
    fn of(runs: &[Run], evaluations: usize) -> Self {
        let scores: Vec<f64> = runs.iter().map(|run| run.score(evaluations)).collect();
        let count = scores.len() as f64;
        let mean = scores.iter().sum::<f64>() / count.max(1.0);
        let squares: f64 = scores.iter().map(|score| (score - mean).powi(2)).sum();
        let standard_error = (scores.len() > 1).then(|| (squares / (count - 1.0) / count).sqrt());
        Self { evaluations, mean, standard_error }
    }
}

impl Close {
    fn of(runs: &[Run]) -> Self {
        let evaluations = |run: &Run| {
            let is_close =
                |best_ms: &Option<f64>| best_ms.is_some_and(|best_ms| best_ms <= run.optimum_ms * (1.0 + CLOSE));
            run.best_ms.iter().position(is_close).map(|before| before + 1)
        };
        let mut evaluations: Vec<usize> = runs.iter().filter_map(evaluations).collect();
        evaluations.sort_unstable();
        // Those that did not get there are behind all others.
        let rank = |tenths: usize| evaluations.get((runs.len() * tenths).div_ceil(10).saturating_sub(1)).copied();
        Self {
            median: rank(5),
            percentile_90: rank(9),
            reached_percent: 100.0 * evaluations.len() as f64 / runs.len().max(1) as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::simulate::tests::{Listed, NONE, alone, measured, rules};
    use super::*;

    fn worth(lists: &[&[i64]], at: &[usize]) -> Worth {
        let space = measured(20);
        let runs: Vec<Run> = lists.iter().map(|list| alone(&Listed(list.to_vec()), &space, &rules(NONE), 0)).collect();
        let tried = Try { spaces: vec![&space], search: &Listed(Vec::new()) };
        Worth::of(&tried, &runs, 40, at, &[])
    }

    #[test]
    fn who_knows_the_optimum_is_done_at_once() {
        let worth = worth(&[&[1, 2, 3], &[1]], &[1, 40]);
        let score = |evaluations| Score { evaluations, mean: 1.0, standard_error: Some(0.0) };
        assert_eq!(worth.scores, [score(1), score(40)]);
        assert_eq!(worth.close, Close { median: Some(1), percentile_90: Some(1), reached_percent: 100.0 });
        assert_eq!((worth.points, worth.failed, worth.optimum_ms, worth.seeds), (20, 1, 1.0, 2));
    }

    #[test]
    fn who_ends_early_is_scored_by_what_there_is() {
        let worth = worth(&[&[4, 2], &[], &[20], &[5, 1]], &[1, 2, 40]);
        let means: Vec<f64> = worth.scores.iter().map(|score| score.mean).collect();
        assert_eq!(means, [(0.25 + 0.2) / 4.0, (0.5 + 1.0) / 4.0, (0.5 + 1.0) / 4.0]);
        assert_eq!(worth.close, Close { median: None, percentile_90: None, reached_percent: 25.0 });
    }

    #[test]
    fn errors_and_ranks_over_the_seeds() {
        let lists: [&[i64]; 10] =
            [&[1], &[2, 1], &[2, 1], &[2, 3, 1], &[4, 3, 2, 1], &[5, 4, 3, 2, 1], &[2, 1], &[1], &[9], &[2, 3, 4, 1]];
        let worth = worth(&lists, &[1]);
        // In order: 1 1 2 2 2 3 4 4 5 and never.
        assert_eq!(worth.close, Close { median: Some(2), percentile_90: Some(5), reached_percent: 90.0 });
        let scores = [1.0, 0.5, 0.5, 0.5, 0.25, 0.2, 0.5, 1.0, 1.0 / 9.0, 0.5];
        let mean: f64 = scores.iter().sum::<f64>() / 10.0;
        let variance: f64 = scores.iter().map(|score: &f64| (score - mean).powi(2)).sum::<f64>() / 9.0;
        assert!((worth.scores[0].mean - mean).abs() < 1e-12);
        assert!((worth.scores[0].standard_error.unwrap() - (variance / 10.0).sqrt()).abs() < 1e-12);
        let space = measured(20);
        let of_none = Try { spaces: vec![&space], search: &Listed(Vec::new()) };
        let single = Worth::of(&of_none, &[], 40, &[1], &[]);
        assert_eq!((single.scores[0].standard_error, single.close.median), (None, None));
    }
}
