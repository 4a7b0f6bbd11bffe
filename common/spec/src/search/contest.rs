//! Which solvers of a problem may still win, so that more of their candidates are tried.

use std::collections::BTreeMap;

use bluefin_common::outcome::Outcome;
use bluefin_common::session::Stage;

/// How many times slower than the best of all solvers the best of one may be after so many of its rounds and be tried on. What eight
/// candidates of a solver come to is up to three times its best; what more come to says more.
const BEHIND: [f64; 3] = [3.0, 2.0, 1.5];

/// Rounds that a solver has of which nothing ran.
const FAILING: u32 = 2;

/// How far each solver got in the rounds before one.
#[derive(Debug, Default)]
pub(super) struct Contest<'a> {
    solvers: BTreeMap<&'a str, Solver>,
    best_ms: Option<f64>,
}

#[derive(Debug, Default)]
struct Solver {
    rounds: u32,
    /// Of one that was cut short, what it was cut short at: it is at least as slow.
    best_ms: Option<f64>,
}

impl<'a> Contest<'a> {
    pub(super) fn before(round: u32, outcomes: &'a [Outcome]) -> Self {
        let mut contest = Self::default();
        for outcome in outcomes.iter().filter(|outcome| outcome.job.stage == Stage::Perf && outcome.job.round < round) {
            for one in &outcome.candidates {
                let solver = contest.solvers.entry(&one.candidate.solver).or_default();
                solver.rounds = solver.rounds.max(outcome.job.round + 1);
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
        let (Some(of), Some(best_ms)) = (self.solvers.get(solver), self.best_ms) else { return true };
        let at = usize::try_from(of.rounds).unwrap_or(usize::MAX).saturating_sub(1).min(BEHIND.len() - 1);
        match (of.best_ms, BEHIND.get(at)) {
            (Some(own_ms), Some(behind)) => own_ms <= behind * best_ms,
            _ => of.rounds < FAILING,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_far_behind_is_given_up_the_sooner_the_more_is_known() {
        let contest = |rounds, own_ms: Option<f64>| Contest {
            solvers: [("slow", Solver { rounds, best_ms: own_ms }), ("fast", Solver { rounds, best_ms: Some(1.0) })]
                .into(),
            best_ms: Some(1.0),
        };
        for (rounds, own_ms, goes_on) in [
            (1, Some(2.9), true),
            (1, Some(3.1), false),
            (2, Some(2.1), false),
            (3, Some(1.4), true),
            (9, Some(1.6), false),
            (1, None, true),
            (2, None, false),
        ] {
            let contest = contest(rounds, own_ms);
            assert_eq!(contest.goes_on("slow"), goes_on, "{own_ms:?} after {rounds}");
            assert!(contest.goes_on("fast") && contest.goes_on("new"));
        }
        assert!(Contest { best_ms: None, ..contest(5, None) }.goes_on("slow"), "nothing has run");
    }
}
