//! The broker over RabbitMQ, version 3.10 or later.
//!
//! Everything it declares is durable; declarations happen on first use, once per connection.
//!
//! | name | what | arguments |
//! | --- | --- | --- |
//! | `bluefin` | direct exchange; every queue but those of delays is bound to it under its own name | |
//! | `bluefin.compile.<toolchain>.<target>`, `bluefin.eval.<device class>` | quorum queues of jobs | `x-delivery-limit` 50, then to `bluefin.dead` through the default exchange, at least once; `x-max-length` 1,000,000, `x-overflow` reject-publish |
//! | `bluefin.delay.<1, 5, 25, 125>s.<queue>` | quorum queue of what comes to that queue later, published to through the default exchange | `x-message-ttl`, then to the queue through the default exchange, at least once; `x-max-length` 1,000,000, `x-overflow` reject-publish |
//! | `bluefin.dead` | quorum queue of what was given up | `x-max-length` 100,000, `x-overflow` drop-head |
//!
//! A queue of jobs is one for each of its [lanes](bluefin_common::lane), each with delays of its own; whoever consumes it, or asks for
//! its depth, means all of them.
//!
//! A queue has delays of its own because what is to be moved at least once stays at the head until it can be: a queue that is
//! deleted, or full, holds up nobody else's. A broker that is killed and starts again may move one before the queue that it is for
//! has its leader. That is confirmed by nobody and tried again after `dead_letter_worker_publisher_confirm_timeout`: late, not lost.
//! Of 20 delays each on a busy machine one to eight waited for it, with RabbitMQ's default for three minutes; in
//! `deploy/rabbitmq-advanced.config` it is 15 s.
//!
//! A message carries the job's id as `message_id`, the time it was published as `timestamp`, and as headers
//! `bluefin-digest`, the first 16 hex digits of the BLAKE3 digest of its body, and, in `bluefin.dead`, `bluefin-reason` and
//! `bluefin-queue`. What the broker itself put there at the delivery limit says so in `x-first-death-reason`. A message
//! without a digest, or with a body that does not match it, goes to `bluefin.dead` before a worker sees it; so does one without a
//! `bluefin-signature` that is accepted, where there are [keys](MessageKeys).
//!
//! Publishing and consuming have a connection each, so that a broker which stops taking messages still takes
//! acknowledgements. Delivering again what was handed back with `basic.nack` or `basic.reject` counts as a delivery, so
//! handing back publishes a copy instead, and then acknowledges.

mod address;
mod consumer;
mod fresh;
mod link;
mod message;
mod publisher;
mod said;
mod session;
mod settle;
mod signature;
mod silent;
pub(crate) mod topology;

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::address::Address;
use self::consumer::AmqpConsumer;
use self::fresh::Fresh;
use self::link::Link;
use self::message::{Label, any_queue_name, message_id as id_of, queue_name};
use self::publisher::{Publication, Publishers};
use self::session::Session;
pub use self::signature::MessageKeys;
use self::topology::{Queue, Route, is_delay, lanes_of};
use bluefin_common::broker::{Broker, BrokerError, Consumer, DEAD_QUEUE};

/// Queues of these names are declared by the first that uses them.
const OWN_PREFIX: &str = "bluefin.";

/// How long a message waits for its confirm. A broker that is short of memory or disk reads nothing from the connections
/// that publish until it has room again, which may be never.
const CONFIRM_PATIENCE: Duration = Duration::from_secs(30);

/// How long closing waits for each of: consumers, calls under way, connections.
const CLOSE_PATIENCE: Duration = Duration::from_secs(20);

/// A RabbitMQ.
pub struct AmqpBroker {
    shared: Arc<Shared>,
}

/// The publishers of a connection, opened on first use.
type PublishersOf = (Weak<Session>, Arc<OnceCell<Arc<Publishers>>>);

/// What the broker, its consumers and their deliveries share.
struct Shared {
    address: Arc<Address>,
    keys: MessageKeys,
    publishing: Arc<Link>,
    consuming: Arc<Link>,
    fresh: Arc<Fresh>,
    /// Ends consumers and refuses new calls.
    closing: CancellationToken,
    /// Ends the connections.
    closed: CancellationToken,
    /// Those of the connection that publishes, opened on first use.
    publishers: Mutex<Option<PublishersOf>>,
    /// Keepers of the connections, and publishers.
    tasks: TaskTracker,
    consumers: TaskTracker,
    /// One token for each message on its way out.
    calls: TaskTracker,
}

impl AmqpBroker {
    /// Connects to `url`, `amqp://USER:PASSWORD@HOST:PORT/VHOST` or `amqps://...`, and waits until the broker is there,
    /// for as long as it takes; the log says so. Several `HOST:PORT` with commas between, and several addresses of a host, are
    /// tried in turn whenever it connects. Dropping the future ends the wait.
    ///
    /// # Errors
    /// [`BrokerError::Misconfigured`] if the URL is none, and [`BrokerError::Refused`] if the broker refuses the credentials or
    /// the virtual host, or if `bluefin.dead` exists with other properties.
    pub async fn connect(url: &str) -> Result<Self, BrokerError> {
        Self::connect_with(url, MessageKeys::default()).await
    }

    /// The same, with keys that messages are signed with and have to be.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn connect_with(url: &str, keys: MessageKeys) -> Result<Self, BrokerError> {
        let address = Arc::new(Address::parse(url)?);
        let fresh = Arc::<Fresh>::default();
        let link = |name| Arc::new(Link::new(name, Arc::clone(&address), Arc::clone(&fresh)));
        let broker = Self {
            shared: Arc::new(Shared {
                publishing: link("publishing"),
                consuming: link("consuming"),
                address: Arc::clone(&address),
                keys,
                fresh: Arc::clone(&fresh),
                closing: CancellationToken::new(),
                closed: CancellationToken::new(),
                publishers: Mutex::default(),
                tasks: TaskTracker::new(),
                consumers: TaskTracker::new(),
                calls: TaskTracker::new(),
            }),
        };
        let shared = &broker.shared;
        for link in [&shared.publishing, &shared.consuming] {
            // One after the other: a broker that is away is waited for, and said to be, once.
            shared.tasks.spawn(Arc::clone(link).keep(shared.closed.clone()));
            match link.first_session().await {
                Ok(session) => match session.declare(&Queue::named(DEAD_QUEUE.into())).await {
                    // Broken again already: every later call copes with that.
                    Ok(()) | Err(BrokerError::Unavailable { .. }) => {}
                    Err(error) => return Err(error),
                },
                Err(error) => return Err(error),
            }
        }
        Ok(broker)
    }

    /// The broker's URL without the password.
    #[must_use]
    pub fn url(&self) -> &str {
        self.shared.address.shown()
    }

    fn ensure_open(&self) -> Result<(), BrokerError> {
        if self.shared.closing.is_cancelled() { Err(BrokerError::Closed) } else { Ok(()) }
    }
}

impl Drop for AmqpBroker {
    fn drop(&mut self) {
        // For whoever did not close it; after closing, this changes nothing.
        self.shared.closing.cancel();
        self.shared.closed.cancel();
    }
}

impl Shared {
    /// The publishers of `session`.
    async fn publishers(&self, session: &Arc<Session>) -> Result<Arc<Publishers>, BrokerError> {
        let cell = {
            let mut known = self.publishers.lock().unwrap_or_else(PoisonError::into_inner);
            match &*known {
                // The weak reference keeps another session from having this one's address.
                Some((of, cell)) if of.as_ptr() == Arc::as_ptr(session) => Arc::clone(cell),
                _ => Arc::clone(&known.insert((Arc::downgrade(session), Arc::default())).1),
            }
        };
        let opened =
            cell.get_or_try_init(|| async { Ok(Arc::new(Publishers::open(session, &self.tasks).await?)) }).await?;
        Ok(Arc::clone(opened))
    }

    /// Publishes and waits until the message is safe. Deliveries do so too while the broker is closing.
    async fn publish(&self, publication: Publication) -> Result<(), BrokerError> {
        let _call = self.calls.token();
        let session = self.publishing.standing_session().await?;
        let (queue, delay) = (publication.route.queue.clone(), publication.route.delay_queue());
        let own = queue.as_str().starts_with(OWN_PREFIX);
        session.declare(&Queue::named(if own { queue.clone() } else { DEAD_QUEUE.into() })).await?;
        if let Some(delay) = &delay {
            // Nobody is told later that a queue is missing.
            if !own && session.waiting(queue.as_str()).await?.is_none() {
                return Err(BrokerError::Unroutable { queue: queue.to_string() });
            }
            session.declare(delay).await?;
        }
        let publishers = self.publishers(&session).await?;
        let now = Instant::now();
        let passed = [Some(queue.as_str()), delay.as_ref().map(|delay| delay.name.as_str())];
        let trusted_at = passed.into_iter().flatten().filter_map(|queue| self.fresh.trusted_at(queue, now)).max();
        let declares = own || delay.is_some();
        let Ok(published) = timeout(CONFIRM_PATIENCE, publishers.publish(publication)).await else {
            // It may arrive all the same, as after a connection that broke.
            let reason = if session.is_blocked() { "takes no messages, short of memory or disk" } else { "no confirm" };
            return Err(self.address.unavailable(format!("{reason}, waited {} s", CONFIRM_PATIENCE.as_secs())));
        };
        match published {
            Some(Ok(())) => {
                if let Some(trusted_at) = trusted_at {
                    sleep_until(trusted_at).await;
                    if !session.is_open() {
                        return Err(self.address.unavailable("the connection broke before the new queue was safe"));
                    }
                }
                Ok(())
            }
            None => Err(self.address.unavailable("the connection broke")),
            Some(Err(BrokerError::Unroutable { queue })) if declares => {
                Err(self.address.unavailable(format!("queue {queue} was deleted; the next message declares it again")))
            }
            Some(result) => result,
        }
    }
}

#[async_trait]
impl Broker for AmqpBroker {
    async fn declare(&self, queue: &str) -> Result<(), BrokerError> {
        self.ensure_open()?;
        let queue = Queue::named(queue_name(queue)?);
        self.shared.publishing.standing_session().await?.declare(&queue).await
    }

    async fn publish(&self, queue: &str, message_id: &str, body: Bytes) -> Result<(), BrokerError> {
        self.publish_after(Duration::ZERO, queue, message_id, body).await
    }

    async fn publish_after(
        &self,
        delay: Duration,
        queue: &str,
        message_id: &str,
        body: Bytes,
    ) -> Result<(), BrokerError> {
        self.ensure_open()?;
        let label = Label::new(id_of(message_id)?, &body, &self.shared.keys);
        let route = Route::new(queue_name(queue)?, delay);
        self.shared.publish(Publication { route, properties: label.properties(), body }).await
    }

    async fn consume(&self, queue: &str, prefetch: u16) -> Result<Box<dyn Consumer>, BrokerError> {
        self.ensure_open()?;
        let first = tokio::select! {
            session = self.shared.consuming.standing_session() => session?,
            () = self.shared.closing.cancelled() => return Err(BrokerError::Closed),
        };
        Ok(Box::new(AmqpConsumer::start(&self.shared, first, queue, prefetch).await?))
    }

    async fn depth(&self, queue: &str) -> Result<u64, BrokerError> {
        self.ensure_open()?;
        // A broker that takes no messages for now answers on a connection that publishes none.
        let session = self.shared.consuming.standing_session().await?;
        let mut depth = 0;
        for queue in lanes_of(queue) {
            let name = if is_delay(&queue) { any_queue_name(&queue)? } else { queue_name(&queue)? };
            if queue.starts_with(OWN_PREFIX) {
                // To ask for a queue that is missing costs the channel, and lapin may stumble over that: the next channel
                // opened was seen to count as closing. Ours are made on first use anyway, so they may as well be made now.
                session.declare(&Queue::of(name)).await?;
            }
            depth += session.waiting(&queue).await?.unwrap_or(0);
        }
        Ok(depth)
    }

    async fn silent(&self, queues: &[String]) -> Result<Vec<String>, BrokerError> {
        self.ensure_open()?;
        queues.iter().try_for_each(|queue| queue_name(queue).map(drop))?;
        self.shared.silent(queues).await
    }

    async fn renew(&self, queue: &str) -> Result<(), BrokerError> {
        self.ensure_open()?;
        self.shared.renew(any_queue_name(queue)?).await
    }

    fn reconnects(&self) -> u64 {
        self.shared.publishing.reconnects() + self.shared.consuming.reconnects()
    }

    async fn close(&self) {
        let Shared { closing, closed, publishers, tasks, consumers, calls, .. } = &*self.shared;
        closing.cancel();
        for (what, tracker) in [("consumers", consumers), ("messages under way", calls)] {
            tracker.close();
            if timeout(CLOSE_PATIENCE, tracker.wait()).await.is_err() {
                tracing::warn!(what, count = tracker.len(), "closing the broker without waiting any longer");
            }
        }
        closed.cancel();
        // They end when nobody can send to them any more.
        publishers.lock().unwrap_or_else(PoisonError::into_inner).take();
        tasks.close();
        if timeout(CLOSE_PATIENCE, tasks.wait()).await.is_err() {
            tracing::warn!(count = tasks.len(), "connections to the broker did not close in time");
        }
    }
}
