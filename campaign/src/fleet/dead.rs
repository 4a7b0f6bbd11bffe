//! Messages that were given up: what they were, and how they are tried again.

use std::collections::HashSet;
use std::time::Duration;

use bluefin_common::broker::{Broker, DEAD_QUEUE, Delivery, GivenUp};
use bluefin_common::digest::Digest;
use bluefin_common::failure::FailureKind;
use bluefin_common::job::{CompileJob, EvalJob, Job};
use bluefin_common::outcome::Outcome;
use bluefin_common::store::Store;
use bluefin_common::{retry, wire};
use serde::Serialize;

/// In hand at a time.
const PREFETCH: u16 = 100;
/// For the first message to come, and for the next one.
const SOON: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(1)];

/// A message that was given up.
#[derive(Clone, Debug, Serialize)]
pub struct Dead {
    /// Of its message.
    pub id: String,
    /// Where it was given up.
    pub queue: String,
    /// Why.
    pub reason: String,
    /// When, in milliseconds since the Unix epoch.
    pub at_ms: Option<u64>,
    /// Of its job, where it is one of this release or the one before.
    pub session: Option<String>,
    /// Of its job.
    pub problem: Option<String>,
    /// How long it is.
    pub bytes: usize,
}

impl Dead {
    /// What a message says of itself.
    #[must_use]
    pub fn of(delivery: &Delivery) -> Self {
        let given_up = delivery.given_up.clone();
        let job = job_of(&delivery.body);
        Self {
            id: delivery.message_id.clone(),
            queue: given_up.as_ref().map_or_else(String::new, |given_up| given_up.queue.clone()),
            reason: given_up.as_ref().map_or_else(|| "not said".to_string(), |given_up| given_up.reason.clone()),
            at_ms: given_up.and_then(|given_up| given_up.at_ms),
            session: job.as_ref().map(|job| job.session.to_string()),
            problem: job.as_ref().map(|job| job.problem.to_string()),
            bytes: delivery.body.len(),
        }
    }
}

/// The job that a message is about, where it is one of this release or the one before.
fn job_of(body: &[u8]) -> Option<Job> {
    let compile = wire::decode::<CompileJob>(body).map(|compile_job| compile_job.job);
    compile.or_else(|_| wire::decode::<EvalJob>(body).map(|eval_job| eval_job.job)).ok()
}

/// What became of a message.
pub enum Now {
    /// Behind the others in its queue.
    Back,
    /// Out of its queue.
    Gone,
}

/// Does `work` with every message that is dead now. What that hands back comes behind the others, so that the end is where all
/// come again; how many there are a queue says only roughly.
pub async fn each(
    broker: &dyn Broker,
    mut work: impl AsyncFnMut(Delivery) -> anyhow::Result<Now>,
) -> anyhow::Result<()> {
    let mut consumer = broker.consume(DEAD_QUEUE, PREFETCH).await?;
    let (mut back, mut again, [mut soon, next]) = (HashSet::new(), 0, SOON);
    while let Ok(Some(delivery)) = tokio::time::timeout(soon, consumer.next()).await {
        soon = next;
        let is = identity(&delivery);
        if back.contains(&is) {
            delivery.hand_back(Duration::ZERO).await?;
            again += 1;
            // A reader that has just gone may have left some out of their order.
            if again >= back.len().min(2 * usize::from(PREFETCH)) {
                break;
            }
        } else if let Now::Back = work(delivery).await? {
            again = 0;
            back.insert(is);
        }
    }
    consumer.stop().await;
    Ok(())
}

/// What tells a message from others: the broker may deliver one twice.
fn identity(delivery: &Delivery) -> Digest {
    let (at, reason) = match &delivery.given_up {
        Some(GivenUp { reason, at_ms, .. }) => (at_ms.unwrap_or_default(), reason.as_str()),
        None => (0, ""),
    };
    let head = [delivery.message_id.as_bytes(), reason.as_bytes()].concat();
    Digest::of(&[head.as_slice(), &at.to_le_bytes(), &delivery.body].concat())
}

/// Puts a message back where it was given up. Its job is done already as far as the store knows, and that it was given up is
/// taken back first. A command that dies amid this leaves the message among the dead, and does the same again.
pub async fn revive(store: &dyn Store, broker: &dyn Broker, delivery: &Delivery, dead: &Dead) -> anyhow::Result<()> {
    anyhow::ensure!(!dead.queue.is_empty(), "message {}: nothing says which queue it is of", dead.id);
    if let Some(job) = job_of(&delivery.body) {
        let outcomes = store.outcomes(&job.session, &[job.group()]).await?;
        if let Some(outcome) = outcomes.iter().find(|outcome| outcome.job_id() == job.id() && was_given_up(outcome)) {
            retry::take_back_one(store, &outcomes, outcome, false).await?;
        }
        broker.publish(&dead.queue, &dead.id, delivery.body.clone()).await?;
        return Ok(store.enqueued(&job.session, &[job.id()]).await?);
    }
    Ok(broker.publish(&dead.queue, &dead.id, delivery.body.clone()).await?)
}

fn was_given_up(outcome: &Outcome) -> bool {
    let dead = |result: &Result<_, bluefin_common::failure::Failure>| {
        result.as_ref().err().is_some_and(|failure| failure.kind == FailureKind::Dead)
    };
    outcome.candidates.iter().all(|candidate| dead(&candidate.result))
}
