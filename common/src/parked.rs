//! Jobs of a paused session that were met in a queue. Their messages are in the store until the session is resumed: in a queue they
//! would go round and round, past everybody else's.
//!
//! A parked message is smaller than the outcome that the job comes to, so that a session which waits takes less than one that
//! is done.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::broker::Broker;
use crate::campaign::AdvanceError;
use crate::job::{CompileJob, EvalJob, Job, JobId};
use crate::priority::{self, Spread};
use crate::session::SessionName;
use crate::shelf::{PARKED_PARTS, parked};
use crate::store::{Records, Store, StoreError};
use crate::wire::{self, WireError};

/// Publishes under way at a time.
const WINDOW: usize = 500;

fn shelf(session: &SessionName, job: JobId) -> String {
    let [first, ..] = job.0;
    parked(session, first % PARKED_PARTS)
}

/// Keeps the message of `job`; the same again changes nothing.
///
/// # Errors
/// If the store fails.
pub async fn park(store: &dyn Records, session: &SessionName, job: JobId, body: &[u8]) -> Result<(), StoreError> {
    store.put_records(&shelf(session, job), &[(job.to_string(), body.to_vec())]).await
}

/// Keeps it no more.
///
/// # Errors
/// If the store fails.
pub async fn unpark(store: &dyn Records, session: &SessionName, job: JobId) -> Result<(), StoreError> {
    store.remove_records(&shelf(session, job), &[job.to_string()]).await
}

/// Publishes what is parked of `session`, each to the queue that it was met in, spread over its
/// lanes anew, and returns how many. What was published when
/// this ends halfway is published once more by the next call, and done once.
///
/// # Errors
/// If the store or the broker fails; call again.
pub async fn publish(store: &dyn Store, broker: &dyn Broker, session: &SessionName) -> Result<u64, AdvanceError> {
    let mut published = 0;
    let mut spread = Spread::new(priority::of(store, session).await?);
    for part in 0..PARKED_PARTS {
        let shelf = parked(session, part);
        let records = store.records(&shelf).await?;
        for chunk in records.chunks(WINDOW) {
            let mut placed = Vec::with_capacity(chunk.len());
            for (key, body) in chunk {
                placed.push((spread.next(broker, &read(body)?.1).await?, key.clone(), body.clone()));
            }
            let publish = |(lane, key, body): (String, String, Vec<u8>)| async move {
                broker.declare(&lane).await?;
                broker.publish(&lane, &key, body.into()).await?;
                Ok::<_, AdvanceError>(key)
            };
            let keys: Vec<String> =
                stream::iter(placed.into_iter().map(publish)).buffer_unordered(WINDOW).try_collect().await?;
            let ids: Vec<JobId> = keys.iter().filter_map(|key| key.parse().ok()).collect();
            store.enqueued(session, &ids).await?;
            store.remove_records(&shelf, &keys).await?;
            published += keys.len() as u64;
        }
    }
    Ok(published)
}

/// The jobs that are parked of `session`.
///
/// # Errors
/// If the store fails, or holds what is of another version.
pub async fn jobs(store: &dyn Records, session: &SessionName) -> Result<Vec<Job>, AdvanceError> {
    let mut jobs = Vec::new();
    for part in 0..PARKED_PARTS {
        for (_, body) in store.records(&parked(session, part)).await? {
            jobs.push(read(&body)?.0);
        }
    }
    Ok(jobs)
}

/// Drops what is parked of `session`.
///
/// # Errors
/// If the store fails.
pub async fn drop_all(store: &dyn Records, session: &SessionName) -> Result<(), StoreError> {
    for part in 0..PARKED_PARTS {
        let shelf = parked(session, part);
        let keys: Vec<String> = store.records(&shelf).await?.into_iter().map(|(key, _)| key).collect();
        store.remove_records(&shelf, &keys).await?;
    }
    Ok(())
}

/// The job of a message of one of the two kinds, and the queue that it goes to.
fn read(body: &[u8]) -> Result<(Job, String), WireError> {
    match wire::decode::<CompileJob>(body) {
        Ok(CompileJob { job, .. }) => {
            let queue = job.compile_queue();
            Ok((job, queue))
        }
        Err(WireError::Kind { .. }) => {
            let EvalJob { job, .. } = wire::decode(body)?;
            let queue = job.eval_queue();
            Ok((job, queue))
        }
        Err(error) => Err(error),
    }
}
