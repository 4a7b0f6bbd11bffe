//! How many candidates a search may try, and which solvers go on.

use std::collections::BTreeMap;

use bluefin_common::outcome::Outcome;
use bluefin_common::session::{SearchPlan, SessionName, Stage};
use bluefin_common::shelf;
use bluefin_common::store::{Store, StoreError};

/// Where the shelf of groups that are searched has the largest budget that was asked for, in decimal digits: no group has such a name.
const LARGEST_BUDGET: &str = "candidates";

/// How many times slower than the best of all solvers the best of one may be after so many of its rounds and be tried on. What eight
/// candidates of a solver come to is up to three times its best; what more come to says more.
const BEHIND: [f64; 3] = [3.0, 2.0, 1.5];

/// Rounds that a solver has of which nothing ran.
const FAILING: u32 = 2;

/// The candidates of each solver that a search by `plan` may try for a problem: as many as the plan says, else as many as the largest
/// budget that its session was asked for.
///
/// # Errors
/// If the store fails.
pub async fn limit(store: &dyn Store, session: &SessionName, plan: &SearchPlan) -> Result<u64, StoreError> {
    if plan.candidates > 0 {
        return Ok(plan.candidates);
    }
    let found = store.records_of(&shelf::searched(session), &[LARGEST_BUDGET.to_string()]).await?;
    let found = found.into_iter().flatten().next().and_then(|digits| String::from_utf8(digits).ok()?.parse().ok());
    Ok(found.unwrap_or(0))
}

/// The same after somebody asked for `budget` candidates.
///
/// # Errors
/// If the store fails.
pub async fn raise(
    store: &dyn Store,
    session: &SessionName,
    plan: &SearchPlan,
    budget: u64,
) -> Result<u64, StoreError> {
    let before = limit(store, session, plan).await?;
    if plan.candidates > 0 || budget <= before {
        return Ok(before);
    }
    let record = (LARGEST_BUDGET.to_string(), budget.to_string().into_bytes());
    store.put_records(&shelf::searched(session), &[record]).await?;
    Ok(budget)
}

/// How far each solver got in the rounds before one.
#[derive(Debug, Default)]
pub(super) struct Progress<'a> {
    solvers: BTreeMap<&'a str, Solver>,
    best_ms: Option<f64>,
}

#[derive(Debug, Default)]
struct Solver {
    rounds: u32,
    /// Of one that was cut short, what it was cut short at: it is at least as slow.
    best_ms: Option<f64>,
}

impl<'a> Progress<'a> {
    pub(super) fn before(round: u32, outcomes: &'a [Outcome]) -> Self {
        let mut progress = Self::default();
        for outcome in outcomes.iter().filter(|outcome| outcome.job.stage == Stage::Perf && outcome.job.round < round) {
            for one in &outcome.candidates {
                let solver = progress.solvers.entry(&one.candidate.solver).or_default();
                solver.rounds = solver.rounds.max(outcome.job.round + 1);
                let Ok(timing) = &one.result else { continue };
                let less = |best: Option<f64>| Some(best.map_or(timing.median_ms, |best| best.min(timing.median_ms)));
                solver.best_ms = less(solver.best_ms);
                progress.best_ms = less(progress.best_ms);
            }
        }
        progress
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
        let progress = |rounds, own_ms: Option<f64>| Progress {
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
            let progress = progress(rounds, own_ms);
            assert_eq!(progress.goes_on("slow"), goes_on, "{own_ms:?} after {rounds}");
            assert!(progress.goes_on("fast") && progress.goes_on("new"));
        }
        assert!(Progress { best_ms: None, ..progress(5, None) }.goes_on("slow"), "nothing has run");
    }
}
