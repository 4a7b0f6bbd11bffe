//! Jobs that may have killed their worker. A delivery comes again when its worker is gone, for whatever reason: a machine that was
//! switched off is no fault of the jobs that it held, nor is a worker that somebody kills as soon as it starts. So a job that came
//! again and again is a suspect: it is worked on [alone](AtWork::turn), by a worker that has lived for a while, and is counted in the
//! Store meanwhile. Who is gone then was killed by it, or by nobody.
//!
//! That count alone gives no job up: the broker has to say as well that it was delivered so often. A worker may write any count.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio::time::{Instant, sleep_until};

use crate::broker::Delivery;
use crate::job::Job;
use crate::shelf;
use crate::store::{Records, StoreError};

/// So many workers may be gone while they worked on a job before it is given up. Generous: a job is isolated in a child, and a
/// machine that fails is not its fault.
pub const MAX_BEGUN: u32 = 20;

/// A message may have come again so often before its job is a suspect: a worker that lost sight of its broker for a moment, or was killed
/// over another job, leaves some that did.
const TRUSTED: u32 = 2;

/// A worker that was killed sooner than this after its start was not killed by a job.
const SETTLED: Duration = Duration::from_secs(5);

/// Deliveries of a message after which it is replaced by a copy: the broker drops one that was delivered fifty times.
const WORN: u32 = 25;

/// What is to become of a delivery that came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Work on it.
    Now,
    /// It was begun so often, and none of those workers lived to settle it.
    TooOften(u32),
    /// Hand it back: its message is worn.
    Worn,
}

/// The messages that a process works on, by their ids. Clones share them.
///
/// A broker that loses sight of a worker delivers again what that still works on, maybe to the same process: such a copy is to
/// wait, not to be begun and counted as if a worker had died.
#[derive(Clone, Debug)]
pub struct AtWork {
    held: Arc<Mutex<HashSet<String>>>,
    /// Written by who works alone.
    alone: Arc<RwLock<()>>,
    settled: Instant,
}

impl Default for AtWork {
    fn default() -> Self {
        Self { held: Arc::default(), alone: Arc::default(), settled: Instant::now() + SETTLED }
    }
}

/// Leave to work on a job; others wait for the end of that of a suspect.
#[derive(Debug)]
pub enum Turn {
    /// Beside others.
    Shared(OwnedRwLockReadGuard<()>),
    /// What kills the process now is this job.
    Alone(OwnedRwLockWriteGuard<()>),
}

fn is_suspect(delivery: &Delivery) -> bool {
    delivery.redeliveries > TRUSTED
}

/// A message that is worked on, until this is dropped.
#[derive(Debug)]
pub struct Hold {
    held: AtWork,
    message_id: String,
}

impl AtWork {
    /// Takes up the message of `delivery`; `None` if the process works on it already.
    #[must_use]
    pub fn take_up(&self, delivery: &Delivery) -> Option<Hold> {
        let message_id = delivery.message_id.clone();
        self.held().insert(message_id.clone()).then(|| Hold { held: self.clone(), message_id })
    }

    /// Waits until the job of `delivery` may be worked on: a suspect once the process has lived for a while and works on nothing
    /// else. Cancel safe.
    pub async fn turn(&self, delivery: &Delivery) -> Turn {
        if !is_suspect(delivery) {
            return Turn::Shared(Arc::clone(&self.alone).read_owned().await);
        }
        sleep_until(self.settled).await;
        Turn::Alone(Arc::clone(&self.alone).write_owned().await)
    }

    fn held(&self) -> MutexGuard<'_, HashSet<String>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.held.held().remove(&self.message_id);
    }
}

/// Counts that `job` is begun, if it is a suspect; it has its [turn](AtWork::turn). [`spare`] is to follow when the work has ended
/// somehow.
///
/// # Errors
/// If the store fails.
pub async fn begin_again(store: &dyn Records, delivery: &Delivery, job: &Job) -> Result<Begun, StoreError> {
    if !is_suspect(delivery) {
        return Ok(Begun::Now);
    }
    let known = known(store, job).await?;
    if known >= MAX_BEGUN && delivery.redeliveries >= MAX_BEGUN {
        return Ok(Begun::TooOften(known));
    }
    if delivery.redeliveries >= WORN {
        return Ok(Begun::Worn);
    }
    count(store, job, known.saturating_add(1).min(MAX_BEGUN)).await?;
    Ok(Begun::Now)
}

/// Its worker lives, but something killed what worked on `job`, and nobody knows who: it counts as begun. Takes the place of
/// [`spare`]; returns how often it was begun by now.
///
/// # Errors
/// If the store fails.
pub async fn suspect(store: &dyn Records, delivery: &Delivery, job: &Job) -> Result<u32, StoreError> {
    let known = known(store, job).await?;
    if is_suspect(delivery) {
        return Ok(known);
    }
    let times = known.saturating_add(1);
    count(store, job, times).await?;
    Ok(times)
}

/// Its worker lives: whatever came of `job`, it did not kill it.
///
/// # Errors
/// If the store fails.
pub async fn spare(store: &dyn Records, delivery: &Delivery, job: &Job) -> Result<(), StoreError> {
    if delivery.redeliveries == 0 {
        return Ok(());
    }
    store.remove_records(&shelf::begun(&job.session), &[job.id().to_string()]).await
}

/// How often it was begun.
async fn known(store: &dyn Records, job: &Job) -> Result<u32, StoreError> {
    let found = store.records_of(&shelf::begun(&job.session), &[job.id().to_string()]).await?;
    Ok(found.into_iter().flatten().next().and_then(|text| String::from_utf8(text).ok()?.parse().ok()).unwrap_or(0))
}

async fn count(store: &dyn Records, job: &Job, count: u32) -> Result<(), StoreError> {
    store.put_records(&shelf::begun(&job.session), &[(job.id().to_string(), count.to_string().into_bytes())]).await
}
