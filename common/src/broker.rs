//! The broker port: how jobs travel. RabbitMQ and an in-process queue are in `bluefin-adapters`.
//!
//! What every implementation promises (the contract suite there tries both):
//! - [`Broker::publish`] returns once the message is safe, or with an error: then it may or may not have arrived.
//! - A delivery is settled exactly once, by its owner; a delivery that is dropped or whose worker dies comes again, with
//!   [`Delivery::redeliveries`] raised.
//! - What a settlement causes (the message in another queue) is safe before the delivery is acknowledged.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

/// Where given-up messages go, with their reason.
pub const DEAD_QUEUE: &str = "bluefin.dead";

/// What goes wrong between bluefin and its broker.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// Not reachable, or the connection broke: try again later.
    #[error("broker {broker}: {reason}")]
    Unavailable {
        /// Address, without credentials.
        broker: String,
        /// As the client library or the system says it.
        reason: String,
    },
    /// The broker refused a message: the queue is full, or down.
    #[error("broker: queue {queue} takes nothing: it is full, or down")]
    Full {
        /// The one that takes no more for now.
        queue: String,
    },
    /// No queue takes the message.
    #[error("broker: no queue named {queue}")]
    Unroutable {
        /// The name that was published to.
        queue: String,
    },
    /// It answers, and refuses what is asked of it: credentials, permissions, a queue that exists with other properties. Somebody
    /// has to mend that, and nothing is lost until then.
    #[error("broker {broker} refuses: {reason}")]
    Refused {
        /// Address, without credentials.
        broker: String,
        /// What it refuses, in its words.
        reason: String,
    },
    /// What it is given makes no sense: a URL, a name.
    #[error("broker: {reason}")]
    Misconfigured {
        /// What makes no sense, and what was expected.
        reason: String,
    },
    /// The broker was closed by its owner.
    #[error("broker: closed")]
    Closed,
}

impl BrokerError {
    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::Refused { .. } | Self::Full { .. } => true,
            Self::Unroutable { .. } | Self::Misconfigured { .. } | Self::Closed => false,
        }
    }
}

/// A broker. Cheap to share behind an `Arc`. A queue of jobs has [lanes](crate::lane): messages go to the one that is named, and
/// whoever consumes the queue, or asks what waits in it or in its delays, by its own name means all of them.
#[async_trait]
pub trait Broker: Send + Sync + 'static {
    /// Makes sure that `queue` exists. Idempotent.
    async fn declare(&self, queue: &str) -> Result<(), BrokerError>;

    /// Publishes `body` to `queue` and waits until it is safe (confirmed, and routed).
    /// `message_id` is the job's id in hex, for people who look into the queue.
    async fn publish(&self, queue: &str, message_id: &str, body: Bytes) -> Result<(), BrokerError>;

    /// Publishes like [`publish`](Self::publish); the message is in `queue`, which must exist, after `delay`. Delays are
    /// rounded to [`DELAYS`].
    async fn publish_after(
        &self,
        delay: Duration,
        queue: &str,
        message_id: &str,
        body: Bytes,
    ) -> Result<(), BrokerError>;

    /// Starts to consume `queue`, which is declared if need be, with at most `prefetch` deliveries of each lane unsettled.
    async fn consume(&self, queue: &str, prefetch: u16) -> Result<Box<dyn Consumer>, BrokerError>;

    /// Messages that wait in `queue`, which may be a [`delay_queue`], not counting those delivered and unsettled. 0 for a queue that
    /// does not exist.
    async fn depth(&self, queue: &str) -> Result<u64, BrokerError>;

    /// Which of `queues`, and of the queues of their delays, are there in name alone as far as can be told now: they say that they
    /// are empty and do nothing that is asked of them, while another one does. One that is slow may look the same for a while.
    ///
    /// # Errors
    /// [`BrokerError::Unavailable`] if none does what it is asked: then it is the broker.
    async fn silent(&self, queues: &[String]) -> Result<Vec<String>, BrokerError>;

    /// Deletes `queue`, which may be one that [`silent`](Self::silent) named, with all that is in it, and declares it again. Returns
    /// once it can be trusted with messages; after an error it may be gone, until it is declared.
    async fn renew(&self, queue: &str) -> Result<(), BrokerError>;

    /// Reconnections so far, for the metrics.
    fn reconnects(&self) -> u64;

    /// Waits for what is under way, then closes.
    async fn close(&self);
}

/// A stream of deliveries. Dropping it hands back what was prefetched and not taken.
#[async_trait]
pub trait Consumer: Send {
    /// The next delivery. Waits through reconnections; `None` once the broker is closed. Cancel safe.
    async fn next(&mut self) -> Option<Delivery>;

    /// Stops new deliveries and hands back what was prefetched and not taken, at no cost. Deliveries taken
    /// before can still be settled.
    async fn stop(&mut self);
}

/// One message in the hands of a worker. Settle it with one of [`ack`](Self::ack), [`hand_back`](Self::hand_back) or
/// [`dead`](Self::dead).
pub struct Delivery {
    /// The lane that it waited in: a retry goes back there.
    pub queue: String,
    /// The job's id in hex; only for people, nothing is decided by it.
    pub message_id: String,
    /// A message in its envelope, unless somebody else published it.
    pub body: Bytes,
    /// How often it was delivered before without being settled.
    pub redeliveries: u32,
    /// Why it is in [`DEAD_QUEUE`]; nothing elsewhere.
    pub given_up: Option<GivenUp>,
    /// How the implementation settles it; used up by the methods below.
    pub settle: Box<dyn Settle>,
}

/// What became of a message in [`DEAD_QUEUE`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// The queue that it was given up in.
    pub queue: String,
    /// In the words of who gave it up.
    pub reason: String,
    /// When, in milliseconds since the Unix epoch; not known of what the broker gave up.
    pub at_ms: Option<u64>,
}

/// How an implementation settles a delivery. Called once.
#[async_trait]
pub trait Settle: Send + Sync {
    /// Takes it out of its queue for good.
    async fn ack(&self) -> Result<(), BrokerError>;
    /// Publishes a copy to the same queue, visible after `delay`, waits until it is safe, then acknowledges. The copy was never
    /// delivered.
    async fn republish(&self, delay: Duration) -> Result<(), BrokerError>;
    /// Publishes a copy to [`DEAD_QUEUE`] with the reason, waits until it is safe, then acknowledges.
    async fn dead(&self, reason: &str) -> Result<(), BrokerError>;
}

impl Delivery {
    /// Done: what the message caused is durable.
    pub async fn ack(self) -> Result<(), BrokerError> {
        self.settle.ack().await
    }

    /// Not to be done here and now, through no fault of the job (drain, outage, unhealthy device, wrong version): back to its
    /// queue, at no cost.
    pub async fn hand_back(self, delay: Duration) -> Result<(), BrokerError> {
        self.settle.republish(delay).await
    }

    /// Given up for good.
    pub async fn dead(self, reason: &str) -> Result<(), BrokerError> {
        self.settle.dead(reason).await
    }
}

/// How long something stays away that came back `times` times: 1, 5, 25 and at most 125 seconds, the delays that exist as queues.
#[must_use]
pub fn delay_after(times: u32) -> Duration {
    let [.., last] = DELAYS;
    DELAYS.get(times.saturating_sub(1) as usize).copied().unwrap_or(last)
}

/// The queue in which messages to `queue` wait for `delay`, one of [`DELAYS`], where the broker delays in queues.
#[must_use]
pub fn delay_queue(queue: &str, delay: Duration) -> String {
    format!("bluefin.delay.{}s.{queue}", delay.as_secs())
}

/// The delays that exist; others are rounded up to the next, or down to the last.
pub const DELAYS: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(25), Duration::from_secs(125)];
