//! Which solvers of a problem may still win, so that more of their candidates are tried.

use std::collections::BTreeMap;

use bluefin_common::outcome::Outcome;
use bluefin_common::session::Stage;

/// How many times slower than the best of all solvers the best of one may be and be tried on, until it has so many candidates: what few of them
/// come to is up to some times its best, and what more come to says more. `docs/search.md`
const BEHIND: [(usize, f64); 3] = [(8, 2.5), (16, 1.6), (usize::MAX, 1.3)];
/// The same of one whose first candidates a model of the architecture chose: they are nearer to its best.
const BEHIND_BY_MODEL: [(usize, f64); 4] = [(4, 2.0), (8, 1.5), (16, 1.2), (usize::MAX, 1.1)];
/// Candidates of a solver before what a model makes of their times counts no more than the times do.
pub(super) const FEW: usize = 4;

/// Candidates of a solver of which nothing ran, after which it is given up.
const FAILING: usize = 16;

/// How far each solver got in the rounds before one.
#[derive(Debug, Default)]
pub(super) struct Contest<'a> {
    solvers: BTreeMap<&'a str, Solver>,
    best_ms: Option<f64>,
}

#[derive(Debug, Default)]
struct Solver {
    candidates: usize,
    /// Of one that was cut short, what it was cut short at: it is at least as slow.
    best_ms: Option<f64>,
}

impl<'a> Contest<'a> {
    pub(super) fn before(round: u32, outcomes: &'a [Outcome]) -> Self {
        let mut contest = Self::default();
        for outcome in outcomes.iter().filter(|outcome| outcome.job.stage == Stage::Perf && outcome.job.round < round) {
            for one in &outcome.candidates {
                let solver = contest.solvers.entry(&one.candidate.solver).or_default();
                solver.candidates += 1;
                let Ok(timing) = &one.result else { continue };
                let less = |best: Option<f64>| Some(best.map_or(timing.median_ms, |best| best.min(timing.median_ms)));
                solver.best_ms = less(solver.best_ms);
                contest.best_ms = less(contest.best_ms);
            }
        }
        contest
    }

    /// Whether `solver` may still win, so that more of its candidates are tried.
    pub(super) fn goes_on(&self, solver: &str) -> bool {
        self.is_within(&BEHIND, solver, None)
    }

    /// The same of one whose first candidates a model of the architecture chose, where `expected_ms` is how fast it may be by what few of them
    /// came to.
    pub(super) fn goes_on_by_model(&self, solver: &str, expected_ms: Option<f64>) -> bool {
        self.is_within(&BEHIND_BY_MODEL, solver, expected_ms)
    }

    fn is_within(&self, bounds: &[(usize, f64)], solver: &str, expected_ms: Option<f64>) -> bool {
        let (Some(of), Some(best_ms)) = (self.solvers.get(solver), self.best_ms) else { return true };
        let Some(own_ms) = of.best_ms else { return of.candidates < FAILING };
        let behind = bounds.iter().find(|(until, _)| of.candidates < *until).map_or(1.0, |(_, behind)| *behind);
        expected_ms.map_or(own_ms, |expected| expected.min(own_ms)) <= behind * best_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_far_behind_is_given_up_the_sooner_the_more_is_known() {
        let contest = |candidates, own_ms: Option<f64>| Contest {
            solvers: [
                ("slow", Solver { candidates, best_ms: own_ms }),
                ("fast", Solver { candidates, best_ms: Some(1.0) }),
            ]
            .into(),
            best_ms: Some(1.0),
        };
        for (candidates, own_ms, goes_on) in [
            (1, Some(2.4), true),
            (4, Some(2.4), true),
            (4, Some(2.6), false),
            (8, Some(1.7), false),
            (8, Some(1.5), true),
            (16, Some(1.4), false),
            (99, Some(1.2), true),
            (8, None, true),
            (16, None, false),
        ] {
            let contest = contest(candidates, own_ms);
            assert_eq!(contest.goes_on("slow"), goes_on, "{own_ms:?} after {candidates}");
            assert!(contest.goes_on("fast") && contest.goes_on("new"));
        }
        assert!(Contest { best_ms: None, ..contest(5, None) }.goes_on("slow"), "nothing has run");
        // What a model expects of few counts as if it had been measured.
        for (candidates, own_ms, expected_ms, goes_on) in [
            (1, 90.0, Some(1.9), true),
            (1, 90.0, Some(2.1), false),
            (1, 1.9, Some(90.0), true),
            (3, 90.0, Some(1.0), true),
            (3, 2.1, None, false),
            (4, 1.6, None, false),
            (4, 1.4, None, true),
            (8, 1.3, None, false),
            (16, 1.2, None, false),
            (99, 1.0, None, true),
        ] {
            let contest = contest(candidates, Some(own_ms));
            assert_eq!(contest.goes_on_by_model("slow", expected_ms), goes_on, "{own_ms} after {candidates}");
        }
    }
}
