//! How many rounds of a group's search are under way at a time. One waits for all of a round before it plans the next; where few problems are
//! searched on many compilers, those would wait for devices, and devices for them.

use crate::job::GroupId;
use crate::session::SessionName;
use crate::shelf;
use crate::store::{Records, StoreError};

/// Rounds that are under way at most.
pub const MOST: u32 = 4;

/// Rounds of `group` that are under way at a time, one or more: what [`claim`] wrote down.
///
/// # Errors
/// If the store fails.
pub async fn of(store: &dyn Records, session: &SessionName, group: GroupId) -> Result<u32, StoreError> {
    let found = store.records_of(&shelf::searched(session), &[key(group)]).await?;
    Ok(found.into_iter().flatten().next().map_or(1, |record| read(&record)))
}

/// The same of a group that is planned for the first time, which is to have `ahead`; of one that was planned before, what it had then: a round
/// follows from those that it waited for.
///
/// # Errors
/// If the store fails.
pub async fn claim(store: &dyn Records, session: &SessionName, group: GroupId, ahead: u32) -> Result<u32, StoreError> {
    let digits = ahead.to_string().into_bytes();
    Ok(read(&store.claim_record(&shelf::searched(session), &key(group), &digits).await?))
}

fn read(record: &[u8]) -> u32 {
    let number = std::str::from_utf8(record).ok().and_then(|digits| digits.parse().ok());
    number.unwrap_or(1).clamp(1, MOST)
}

/// Beside the record of the group itself.
fn key(group: GroupId) -> String {
    format!("{group}#ahead")
}
