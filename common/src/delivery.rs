//! The life of a delivery, the same in every worker: it is [opened](open), is found [done or not](begin), is this worker's or
//! [pinned](pin) to another, is done with [patience](Patience) while store or broker are away, and is [settled](settle).

mod begun;
mod intake;
mod patience;
pub mod pin;
mod steered;
pub mod told;

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::broker::{Broker, Delivery};
use crate::campaign::{self, AdvanceError};
use crate::job::Job;
use crate::metrics::{PipelineMetrics, Settled, Step};
use crate::roster::Presence;
use crate::session::Stage;
use crate::store::Store;
use crate::wire::{self, Message};

pub use begun::{AtWork, Begun, Hold, MAX_BEGUN, Turn, begin_again, spare, suspect};
pub use intake::{InHand, Intake, Leave, Leaving};
pub use patience::{GivenUp, Passing, Patience};
pub use steered::is_wanted;

/// Before a message of another version of bluefin is offered again: until the fleet is upgraded.
pub const OTHER_VERSION: Duration = Duration::from_secs(25);
/// Before a job that is not this worker's is offered again.
pub const NOT_MINE: Duration = Duration::from_secs(5);
/// Before a copy of what a worker still works on is offered again.
pub const STILL_AT_WORK: Duration = Duration::from_secs(5);
/// Before a job is offered again whose worker has lost its store: longer than that takes to end.
const LOST: Duration = Duration::from_secs(5);
/// Before a job is offered again that stood still for as long as a worker waits.
const STOOD_STILL: Duration = Duration::from_secs(25);
/// Before a job is offered again that something in the store stands in the way of, which somebody has to mend.
const STUCK: Duration = Duration::from_secs(125);
/// What handing back takes at most, once the grace period of a drain is over.
const LAST_CALL: Duration = Duration::from_secs(5);

/// The message in `delivery`, which is then the caller's to settle. One of another version of bluefin is handed back at no cost,
/// for a worker of that version; what no version wrote goes to the dead letters. Both are logged, and come to `None`.
pub async fn open<M: Message>(delivery: Delivery, metrics: Option<&PipelineMetrics>) -> Option<(M, Delivery)> {
    let error = match wire::decode(&delivery.body) {
        Ok(message) => return Some((message, delivery)),
        Err(error) => error,
    };
    let (message, queue) = (delivery.message_id.clone(), delivery.queue.clone());
    let settled = if error.is_of_another_version() {
        tracing::error!(message, queue, %error, "handed back to workers of that version");
        delivery.hand_back(OTHER_VERSION).await
    } else {
        tracing::error!(message, queue, %error, "no job; to the dead letters");
        if let Some(metrics) = metrics {
            metrics.undecodable();
        }
        delivery.dead(&error.to_string()).await
    };
    if let Err(error) = settled {
        tracing::warn!(message, %error, "delivery not settled; it comes again");
    }
    None
}

/// Whether there is anything to do for `job`. If it has an outcome, its group takes its next step: whoever stored that may have
/// died before.
///
/// # Errors
/// If the store or the broker fails.
pub async fn begin(store: &dyn Store, broker: &dyn Broker, job: &Job) -> Result<bool, AdvanceError> {
    if !store.has_outcome(&job.session, job.group(), job.id()).await? {
        return Ok(true);
    }
    let open = store.open_jobs(&job.session, job.group()).await?;
    campaign::advance(store, broker, job, open).await?;
    Ok(false)
}

/// What is to become of a delivery.
#[derive(Debug)]
pub enum Verdict {
    /// What it caused is durable.
    Ack(Settled),
    /// Not this worker's, or not now.
    HandBack(Duration),
    /// Given up; an outcome says so.
    Dead(String),
}

impl Verdict {
    /// Not now, for a reason outside the job that is worth a line in the log.
    pub fn later(delay: Duration, reason: impl std::fmt::Display) -> Self {
        tracing::warn!(%reason, again_in = delay.as_secs(), "job handed back");
        Self::HandBack(delay)
    }
}

impl From<GivenUp> for Verdict {
    fn from(given_up: GivenUp) -> Self {
        match given_up {
            GivenUp::Expired => Self::HandBack(Duration::ZERO),
            GivenUp::Lost => Self::HandBack(LOST),
            GivenUp::OtherVersion => Self::HandBack(OTHER_VERSION),
            GivenUp::TooLong(reason) => Self::later(STOOD_STILL, reason),
            GivenUp::Failed(reason) => {
                tracing::error!(reason, again_in = STUCK.as_secs(), "job handed back: somebody has to mend this");
                Self::HandBack(STUCK)
            }
        }
    }
}

/// Settles a delivery of a job of `stage`. One that can not be settled comes again; what it caused is found to be done then.
pub async fn settle(
    delivery: Delivery,
    (step, stage): (Step, Stage),
    verdict: Verdict,
    (metrics, presence): (&PipelineMetrics, &Presence),
) {
    let message = delivery.message_id.clone();
    let (settled, result) = match verdict {
        Verdict::Ack(settled) => (settled, delivery.ack().await),
        Verdict::HandBack(delay) => {
            presence.handed_back(&message, delay);
            (Settled::HandedBack, delivery.hand_back(delay).await)
        }
        Verdict::Dead(reason) => {
            tracing::error!(message, reason, "job given up");
            presence.remark(&message, &format!("given up: {reason}"));
            (Settled::Dead, delivery.dead(&reason).await)
        }
    };
    match result {
        Ok(()) => {
            metrics.settled(step, stage, settled);
            presence.settled(settled);
        }
        Err(error) => tracing::warn!(message, %error, "delivery not settled; it comes again"),
    }
}

/// Waits for the tasks that have deliveries in hand: for `grace` in peace; then `expired` is cancelled, upon which they hand
/// back what they have. What each came to is given to `ended`, and the first error is returned.
///
/// # Errors
/// As `ended` says.
pub async fn drain<T: 'static, E>(
    tasks: &mut JoinSet<T>,
    grace: Duration,
    expired: &CancellationToken,
    ended: impl Fn(Result<T, tokio::task::JoinError>) -> Result<(), E>,
) -> Result<(), E> {
    let rest = async {
        let mut result = Ok(());
        while let Some(done) = tasks.join_next().await {
            result = result.and(ended(done));
        }
        result
    };
    tokio::pin!(rest);
    if let Ok(result) = timeout(grace, &mut rest).await {
        return result;
    }
    tracing::warn!("grace period is over; handing back what is in flight");
    expired.cancel();
    timeout(LAST_CALL, &mut rest).await.unwrap_or_else(|_| {
        // Their deliveries are dropped with them, so the broker gives them to others.
        tracing::warn!("not all was handed back in time; the broker delivers it again");
        Ok(())
    })
}
