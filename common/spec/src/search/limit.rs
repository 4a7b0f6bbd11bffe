//! How many candidates a search may try.

use bluefin_common::session::{SearchPlan, SessionName};
use bluefin_common::shelf;
use bluefin_common::store::{Store, StoreError};

/// Where the shelf of groups that are searched has the largest budget that was asked for, in decimal digits: no group has such a name.
const LARGEST_BUDGET: &str = "candidates";

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
