//! The broker within one process: queues in memory, nothing to install.
//!
//! Nothing here outlives the process. It need not: what is to be done follows from the session and from the outcomes in
//! the Store, so a run that is started again plans what is missing.
//!
//! A queue is one lane: all of them are of one process, which has one session.
//!
//! Consumers take from the queue itself, one delivery at a time, so there is nothing prefetched to hand back.

mod queue;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::queue::{Message, Queue};
use crate::amqp::topology::MAX_QUEUE_NAME;
use crate::line::Rank;
use bluefin_common::broker::{Broker, BrokerError, Consumer, DEAD_QUEUE, Delivery, GivenUp, Settle};
use bluefin_common::clock::now_ms;
use bluefin_common::lane::Lane;

/// Queues of these names are declared by the first that uses them.
const OWN_PREFIX: &str = "bluefin.";

/// Messages that a queue takes from publishers before it is full.
const MAX_DEPTH: usize = 1_000_000;

/// Bytes of a message's id, as over AMQP, so that what works here works there.
const MAX_ID: usize = 255;

/// Beyond, the oldest dead are forgotten: they have an outcome.
const MAX_DEAD: usize = 100_000;

/// A broker in memory.
pub struct EmbeddedBroker {
    shared: Arc<Shared>,
}

struct Shared {
    rank: Rank,
    queues: Mutex<HashMap<String, Arc<Queue>>>,
    max_depth: usize,
    /// Messages that wait for their delay.
    timers: TaskTracker,
    closed: CancellationToken,
}

impl Default for EmbeddedBroker {
    fn default() -> Self {
        Self::with_max_depth(MAX_DEPTH)
    }
}

impl EmbeddedBroker {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A broker whose queues are full with `max_depth` messages.
    #[must_use]
    pub fn with_max_depth(max_depth: usize) -> Self {
        Self::with(Rank::default(), max_depth)
    }

    /// A broker that gives first what is deepest in what was begun, and each consumer, where a queue has several, what is akin to what it had
    /// last.
    #[must_use]
    pub fn ranked(rank: Rank) -> Self {
        Self::with(rank, MAX_DEPTH)
    }

    fn with(rank: Rank, max_depth: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                rank,
                queues: Mutex::default(),
                max_depth,
                timers: TaskTracker::new(),
                closed: CancellationToken::new(),
            }),
        }
    }

    /// Whether a call that names `queue` may go on.
    fn admit(&self, queue: &str) -> Result<(), BrokerError> {
        if self.shared.closed.is_cancelled() {
            return Err(BrokerError::Closed);
        }
        fits("name of a queue", queue, MAX_QUEUE_NAME)
    }
}

fn fits(what: &str, text: &str, most: usize) -> Result<(), BrokerError> {
    if text.len() <= most {
        return Ok(());
    }
    Err(BrokerError::Misconfigured { reason: format!("{what}: found {} bytes, expected at most {most}", text.len()) })
}

impl Drop for EmbeddedBroker {
    fn drop(&mut self) {
        self.shared.closed.cancel();
    }
}

impl Shared {
    fn find(&self, queue: &str) -> Option<Arc<Queue>> {
        lock(&self.queues).get(Lane::split(queue).0).cloned()
    }

    fn declare(&self, queue: &str) -> Arc<Queue> {
        let (queue, _) = Lane::split(queue);
        let mut queues = lock(&self.queues);
        let made = || Arc::new(Queue::new(queue, self.rank));
        Arc::clone(queues.entry(queue.to_owned()).or_insert_with(made))
    }

    fn push_after(&self, delay: Duration, queue: Arc<Queue>, message: Message) {
        if delay.is_zero() {
            return queue.push(message);
        }
        let closed = self.closed.clone();
        self.timers.spawn(async move {
            if closed.run_until_cancelled(sleep(delay)).await.is_some() {
                queue.push(message);
            }
        });
    }
}

#[async_trait]
impl Broker for EmbeddedBroker {
    async fn declare(&self, queue: &str) -> Result<(), BrokerError> {
        self.admit(queue)?;
        self.shared.declare(queue);
        Ok(())
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
        self.admit(queue)?;
        fits("id of a message", message_id, MAX_ID)?;
        let found = match self.shared.find(queue) {
            Some(found) => found,
            None if queue.starts_with(OWN_PREFIX) => self.shared.declare(queue),
            None => return Err(BrokerError::Unroutable { queue: queue.to_owned() }),
        };
        let message = Message::new(message_id, body);
        if found.depth() >= self.shared.max_depth {
            return Err(BrokerError::Full { queue: queue.to_owned() });
        }
        self.shared.push_after(delay, found, message);
        Ok(())
    }

    async fn consume(&self, queue: &str, prefetch: u16) -> Result<Box<dyn Consumer>, BrokerError> {
        self.admit(queue)?;
        let queue = self.shared.declare(queue);
        Ok(Box::new(EmbeddedConsumer {
            number: queue.join(),
            queue,
            window: Arc::new(Semaphore::new(usize::from(prefetch.max(1)))),
            stop: self.shared.closed.child_token(),
            shared: Arc::clone(&self.shared),
        }))
    }

    async fn depth(&self, queue: &str) -> Result<u64, BrokerError> {
        self.admit(queue)?;
        Ok(self.shared.find(queue).map_or(0, |found| found.depth() as u64))
    }

    async fn silent(&self, _: &[String]) -> Result<Vec<String>, BrokerError> {
        Ok(Vec::new())
    }

    async fn renew(&self, queue: &str) -> Result<(), BrokerError> {
        self.admit(queue)?;
        self.shared.declare(queue).clear();
        Ok(())
    }

    fn reconnects(&self) -> u64 {
        0
    }

    async fn close(&self) {
        self.shared.closed.cancel();
        self.shared.timers.close();
        self.shared.timers.wait().await;
    }
}

struct EmbeddedConsumer {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    /// Its own, of the queue's consumers.
    number: u64,
    /// One permit for each delivery that may be unsettled.
    window: Arc<Semaphore>,
    stop: CancellationToken,
}

#[async_trait]
impl Consumer for EmbeddedConsumer {
    async fn next(&mut self) -> Option<Delivery> {
        let taking = async {
            let permit = Arc::clone(&self.window).acquire_owned().await.ok()?;
            Some((permit, self.queue.pop(self.number).await))
        };
        let (permit, message) = tokio::select! {
            biased;
            () = self.stop.cancelled() => return None,
            taken = taking => taken?,
        };
        Some(Delivery {
            queue: self.queue.name.clone(),
            message_id: message.id.clone(),
            body: message.body.clone(),
            redeliveries: message.redeliveries,
            given_up: message.given_up.clone(),
            settle: Box::new(EmbeddedSettle {
                shared: Arc::clone(&self.shared),
                queue: Arc::clone(&self.queue),
                held: Mutex::new(Some(Held { message, _permit: permit })),
            }),
        })
    }

    async fn stop(&mut self) {
        self.stop.cancel();
    }
}

impl Drop for EmbeddedConsumer {
    fn drop(&mut self) {
        self.queue.leave(self.number);
    }
}

/// A message in a worker's hands.
struct Held {
    message: Message,
    /// Opens the consumer's window when dropped.
    _permit: OwnedSemaphorePermit,
}

struct EmbeddedSettle {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    held: Mutex<Option<Held>>,
}

#[async_trait]
impl Settle for EmbeddedSettle {
    async fn ack(&self) -> Result<(), BrokerError> {
        self.take().map(drop)
    }

    async fn republish(&self, delay: Duration) -> Result<(), BrokerError> {
        let message = self.take()?.message.anew(None);
        self.shared.push_after(delay, Arc::clone(&self.queue), message);
        Ok(())
    }

    async fn dead(&self, reason: &str) -> Result<(), BrokerError> {
        let given_up = GivenUp { queue: self.queue.name.clone(), reason: reason.to_owned(), at_ms: Some(now_ms()) };
        let message = self.take()?.message.anew(Some(given_up));
        let dead = self.shared.declare(DEAD_QUEUE);
        if dead.depth() >= MAX_DEAD {
            dead.drop_first();
        }
        dead.push(message);
        Ok(())
    }
}

impl EmbeddedSettle {
    fn take(&self) -> Result<Held, BrokerError> {
        if self.shared.closed.is_cancelled() {
            return Err(BrokerError::Closed);
        }
        lock(&self.held).take().ok_or(BrokerError::Closed)
    }
}

impl Drop for EmbeddedSettle {
    fn drop(&mut self) {
        if let Some(Held { mut message, _permit }) = lock(&self.held).take() {
            message.redeliveries = message.redeliveries.saturating_add(1);
            self.queue.put_back(message);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics under these locks half-way through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
