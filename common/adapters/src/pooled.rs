//! A broker whose consumers within this process share what each queue gives them, so that each goes on with what is akin to what it has
//! at hand: RabbitMQ hands the messages of a queue round, and every device would begin every problem.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bluefin_common::broker::{Broker, BrokerError, Consumer, Delivery};
use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::line::{Kin, Line, Rank, Waits};

/// Deliveries of each lane that are held for a consumer among several: enough to choose from, and few where another host is idle.
const HELD: u16 = 8;

/// Another broker, whose deliveries are shared out here.
pub struct PooledBroker {
    inner: Arc<dyn Broker>,
    kin: Kin,
    pools: Mutex<HashMap<String, Arc<Pool>>>,
    /// One for each pool.
    tasks: TaskTracker,
    closed: CancellationToken,
}

impl PooledBroker {
    /// Shares out what `inner` delivers, by what its messages are akin to.
    #[must_use]
    pub fn new(inner: Arc<dyn Broker>, kin: Kin) -> Self {
        Self { inner, kin, pools: Mutex::default(), tasks: TaskTracker::new(), closed: CancellationToken::new() }
    }

    /// Deliveries of `queue` that are held and that no consumer has taken yet.
    pub fn held(&self, queue: &str) -> usize {
        lock(&self.pools).get(queue).map_or(0, |pool| pool.line.depth())
    }

    fn pool(&self, queue: &str) -> Arc<Pool> {
        let mut pools = lock(&self.pools);
        let made = || {
            let (source, sources) = mpsc::unbounded_channel();
            let line = Arc::new(Line::new(Rank { kin: Some(self.kin), depth: None }));
            let closed = self.closed.child_token();
            self.tasks.spawn(fill(Arc::clone(&line), sources, closed.clone()));
            Arc::new(Pool { line, members: Mutex::default(), asking: tokio::sync::Mutex::default(), source, closed })
        };
        Arc::clone(pools.entry(queue.to_owned()).or_insert_with(made))
    }
}

impl Drop for PooledBroker {
    fn drop(&mut self) {
        self.closed.cancel();
    }
}

/// What was delivered of one queue and not taken yet.
struct Pool {
    line: Arc<Line<Delivery>>,
    /// What each consumer may have at a time.
    members: Mutex<HashMap<u64, u16>>,
    /// Held while the broker is asked for more or fewer: what is asked last holds.
    asking: tokio::sync::Mutex<()>,
    source: mpsc::UnboundedSender<Source>,
    closed: CancellationToken,
}

/// Where deliveries come from, from now on.
enum Source {
    Consumer(Box<dyn Consumer>),
    /// From nowhere. Said once all is handed back that nobody has taken.
    Nobody(oneshot::Sender<()>),
}

impl Waits for Delivery {
    fn body(&self) -> &[u8] {
        &self.body
    }
}

impl Pool {
    /// What is asked of the broker for all that consume. Who is alone, or has not proven itself, holds nothing for the others.
    fn prefetch(&self) -> u16 {
        let members = lock(&self.members);
        let several = members.len() > 1;
        let share = |own: &u16| if several && *own > 1 { (*own).max(HELD) } else { *own };
        members.values().map(share).fold(0, u16::saturating_add)
    }

    /// Takes from `inner` what all that consume `queue` may hold.
    async fn ask(&self, inner: &dyn Broker, queue: &str) -> Result<(), BrokerError> {
        let _asking = self.asking.lock().await;
        let prefetch = self.prefetch();
        if prefetch > 0 {
            // None takes it where the task has ended with its runtime.
            let _ = self.source.send(Source::Consumer(inner.consume(queue, prefetch).await?));
        }
        Ok(())
    }

    /// A consumer takes no more. Completes once what nobody is left for is handed back.
    fn leave(&self, number: u64) -> Option<oneshot::Receiver<()>> {
        self.line.leave(number);
        let mut members = lock(&self.members);
        if members.remove(&number).is_none() || !members.is_empty() {
            return None;
        }
        let (done, handed_back) = oneshot::channel();
        self.source.send(Source::Nobody(done)).ok()?;
        Some(handed_back)
    }
}

/// Puts what is delivered into `line`, until it is closed.
async fn fill(line: Arc<Line<Delivery>>, mut sources: mpsc::UnboundedReceiver<Source>, closed: CancellationToken) {
    let mut consumer: Option<Box<dyn Consumer>> = None;
    loop {
        tokio::select! {
            biased;
            () = closed.cancelled() => break,
            source = sources.recv() => match source {
                // The one before ends by itself: to hand back what it holds may take seconds.
                Some(Source::Consumer(new)) => consumer = Some(new),
                Some(Source::Nobody(done)) => {
                    if let Some(mut before) = consumer.take() {
                        before.stop().await;
                    }
                    hand_back(&line).await;
                    let _ = done.send(());
                }
                None => break,
            },
            delivery = next(&mut consumer) => match delivery {
                Some(delivery) => line.push(delivery),
                None => closed.cancel(),
            },
        }
    }
    if let Some(mut consumer) = consumer {
        consumer.stop().await;
    }
    hand_back(&line).await;
}

async fn next(consumer: &mut Option<Box<dyn Consumer>>) -> Option<Delivery> {
    match consumer {
        Some(consumer) => consumer.next().await,
        None => std::future::pending().await,
    }
}

async fn hand_back(line: &Line<Delivery>) {
    for delivery in line.clear() {
        if let Err(error) = delivery.hand_back(Duration::ZERO).await {
            tracing::warn!(%error, "delivery not settled; it comes again");
        }
    }
}

#[async_trait]
impl Broker for PooledBroker {
    async fn declare(&self, queue: &str) -> Result<(), BrokerError> {
        self.inner.declare(queue).await
    }

    async fn publish(&self, queue: &str, message_id: &str, body: Bytes) -> Result<(), BrokerError> {
        self.inner.publish(queue, message_id, body).await
    }

    async fn publish_after(
        &self,
        delay: Duration,
        queue: &str,
        message_id: &str,
        body: Bytes,
    ) -> Result<(), BrokerError> {
        self.inner.publish_after(delay, queue, message_id, body).await
    }

    async fn consume(&self, queue: &str, prefetch: u16) -> Result<Box<dyn Consumer>, BrokerError> {
        let pool = self.pool(queue);
        let number = pool.line.join();
        lock(&pool.members).insert(number, prefetch);
        // Made before it is asked: it leaves if that fails, or is given up.
        let consumer = PooledConsumer { pool: Arc::clone(&pool), number, stopped: CancellationToken::new() };
        pool.ask(&*self.inner, queue).await?;
        Ok(Box::new(consumer))
    }

    async fn depth(&self, queue: &str) -> Result<u64, BrokerError> {
        self.inner.depth(queue).await
    }

    async fn silent(&self, queues: &[String]) -> Result<Vec<String>, BrokerError> {
        self.inner.silent(queues).await
    }

    async fn renew(&self, queue: &str) -> Result<(), BrokerError> {
        self.inner.renew(queue).await
    }

    fn reconnects(&self) -> u64 {
        self.inner.reconnects()
    }

    async fn close(&self) {
        self.closed.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.inner.close().await;
    }
}

struct PooledConsumer {
    pool: Arc<Pool>,
    /// Its own, of the pool's.
    number: u64,
    stopped: CancellationToken,
}

#[async_trait]
impl Consumer for PooledConsumer {
    async fn next(&mut self) -> Option<Delivery> {
        tokio::select! {
            biased;
            () = self.stopped.cancelled() => None,
            () = self.pool.closed.cancelled() => None,
            delivery = self.pool.line.pop(self.number) => Some(delivery),
        }
    }

    async fn stop(&mut self) {
        self.stopped.cancel();
        if let Some(handed_back) = self.pool.leave(self.number) {
            // An error: the task has ended with its runtime.
            let _ = handed_back.await;
        }
    }
}

impl Drop for PooledConsumer {
    fn drop(&mut self) {
        self.pool.leave(self.number);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics under these locks half-way through a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
