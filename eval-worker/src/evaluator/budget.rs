//! What a session may spend of devices' time: once it is spent, nothing more is begun.

use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::session::Budget;

use super::assignment::Assignment;
use super::stop::Stop;

/// Which budget is spent, if one is.
pub(super) async fn spent(assignment: &Assignment<'_>, budget: &Budget) -> Result<Option<Failure>, Stop> {
    let Assignment { store, patience, .. } = assignment;
    let job = assignment.job();
    if let Some(limit) = budget.problem_ms {
        let groups = [job.group()];
        let outcomes = patience.with("read outcomes", || store.outcomes(&job.session, &groups)).await?;
        let spent = outcomes.iter().map(|outcome| outcome.busy_ms).fold(0, u64::saturating_add);
        if spent >= limit {
            return Ok(Some(over("problem_ms", limit, spent)));
        }
    }
    if let Some(limit) = budget.session_ms {
        let progress = patience.with("read progress", || store.progress(&job.session)).await?;
        let spent = progress.busy_ms.values().copied().fold(0, u64::saturating_add);
        if spent >= limit {
            return Ok(Some(over("session_ms", limit, spent)));
        }
    }
    Ok(None)
}

fn over(budget: &str, limit: u64, spent: u64) -> Failure {
    Failure::new(FailureKind::BudgetSpent, format!("budget {budget}: {spent} ms spent of {limit}"))
}
