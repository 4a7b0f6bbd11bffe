//! How many candidates a search may try.

use bluefin_common::job::GroupId;
use bluefin_common::session::{SearchPlan, SessionName};
use bluefin_common::shelf;
use bluefin_common::store::{Store, StoreError};

/// The candidates of each solver that a search by `plan` may try in `group`: as many as the plan says, else as many as the largest
/// budget that was asked for it.
///
/// # Errors
/// If the store fails.
pub async fn limit(
    store: &dyn Store,
    session: &SessionName,
    plan: &SearchPlan,
    group: GroupId,
) -> Result<u64, StoreError> {
    if plan.candidates > 0 {
        return Ok(plan.candidates);
    }
    let found = store.records_of(&shelf::searched(session), &[key(group)]).await?;
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
    group: GroupId,
    budget: u64,
) -> Result<u64, StoreError> {
    let before = limit(store, session, plan, group).await?;
    if plan.candidates > 0 || budget <= before {
        return Ok(before);
    }
    let record = (key(group), budget.to_string().into_bytes());
    store.put_records(&shelf::searched(session), &[record]).await?;
    Ok(budget)
}

/// Beside the record of the group itself, which workers write meanwhile.
fn key(group: GroupId) -> String {
    format!("{group}#budget")
}
