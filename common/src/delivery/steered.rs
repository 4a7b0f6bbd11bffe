//! What becomes of a delivery whose session does not simply run.

use crate::broker::Delivery;
use crate::job::Job;
use crate::parked;
use crate::standing::{self, Standing, Standings};
use crate::store::{Store, StoreError};

/// Whether `job` is to be done. If not, it is done with: its message was dropped, or is kept until its session is resumed, and is
/// to be acknowledged.
///
/// # Errors
/// If the store fails.
pub async fn is_wanted(
    standings: &Standings,
    store: &dyn Store,
    delivery: &Delivery,
    job: &Job,
) -> Result<bool, StoreError> {
    let standing = standings.of(store, &job.session).await?;
    if standing != Standing::Paused {
        return Ok(standing.runs());
    }
    let id = job.id();
    parked::park(store, &job.session, id, &delivery.body).await?;
    // Resuming sets the record first and takes the parked jobs then: either it finds this job, or this finds that record.
    let now = standing::of(store, &job.session).await?;
    if now != Standing::Paused {
        parked::unpark(store, &job.session, id).await?;
    }
    Ok(now.runs())
}
