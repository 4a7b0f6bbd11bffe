//! Consumes a queue through reconnections. For each of its lanes a task subscribes and fills a shelf; the owner takes from them in
//! turns.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use futures_util::{FutureExt, StreamExt, stream};
use lapin::Channel;
use lapin::options::{BasicCancelOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::{FieldTable, ShortString};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::amqp::Shared;
use crate::amqp::link::backoff;
use crate::amqp::message::queue_name;
use crate::amqp::said::Said;
use crate::amqp::session::Session;
use crate::amqp::settle::{self, Arrived};
use crate::amqp::topology::Queue;
use bluefin_common::broker::{BrokerError, Consumer, Delivery};
use bluefin_common::lane::Lane;

/// For the broker to confirm the end of a subscription.
const CANCEL_PATIENCE: Duration = Duration::from_secs(5);
/// For handing back what was prefetched. What is left then comes back by itself, at the cost of a delivery.
const HAND_BACK_PATIENCE: Duration = Duration::from_secs(15);
/// RabbitMQ keeps what a channel acknowledges beyond 32 on one quorum queue (`quorum_commands_soft_limit`) until the queue has
/// come to what was before, and forgets it where the connection ends first: the copy and the message would both be there.
const HAND_BACKS_AT_A_TIME: usize = 16;
/// A subscription that lasted this long was a good one.
const LASTING: Duration = Duration::from_secs(10);
/// Silence after which a subscription is looked after.
const SILENCE: Duration = Duration::from_secs(5);
/// A message that was not taken for so long goes to whoever has time for it: those of a lane may wait for many long jobs of the
/// others, and RabbitMQ takes back what is not settled within half an hour (`consumer_timeout`), at the cost of a delivery.
const STALE: Duration = Duration::from_secs(300);
/// Looks at messages that wait, with nothing in hand and nothing coming, after which a subscription counts as lost.
const LOOKS: u32 = 2;

/// What was prefetched and not taken: at most as much as the prefetch of the consumer.
struct Shelf {
    deliveries: Mutex<VecDeque<Shelved>>,
    /// That of all lanes of the queue.
    arrived: Arc<Notify>,
}

struct Shelved {
    channel: Arc<Channel>,
    delivery: Delivery,
    since: Instant,
}

impl Shelf {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Shelved>> {
        // Nothing panics under this lock.
        self.deliveries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, channel: Arc<Channel>, delivery: Delivery) {
        self.lock().push_back(Shelved { channel, delivery, since: Instant::now() });
        self.arrived.notify_one();
    }

    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// The next that the broker has not taken back.
    fn take(&self) -> Option<Delivery> {
        loop {
            let Shelved { channel, delivery, .. } = self.lock().pop_front()?;
            if channel.status().connected() {
                return Some(delivery);
            }
        }
    }

    fn discard_lost(&self) {
        self.lock().retain(|shelved| shelved.channel.status().connected());
    }

    /// Those that have been here for longer than `limit`.
    fn take_older(&self, limit: Duration) -> Vec<Delivery> {
        let mut shelved = self.lock();
        // In the order in which they came.
        let old = shelved.partition_point(|one| one.since.elapsed() >= limit);
        shelved.drain(..old).map(|one| one.delivery).collect()
    }
}

pub(super) struct AmqpConsumer {
    lanes: Vec<Taken>,
    arrived: Arc<Notify>,
    stop: CancellationToken,
}

/// A lane that is consumed.
struct Taken {
    shelf: Arc<Shelf>,
    stopped: CancellationToken,
    /// See [`Lane::turns`].
    turns: i64,
    /// What it is owed of the turns of all that had something.
    credit: i64,
}

impl AmqpConsumer {
    /// Starts to consume the lanes of `queue`, with at most `prefetch` deliveries of each, through `first` and then through whatever
    /// connection stands.
    pub(super) async fn start(
        shared: &Arc<Shared>,
        first: Arc<Session>,
        queue: &str,
        prefetch: u16,
    ) -> Result<Self, BrokerError> {
        let (arrived, stop) = (Arc::<Notify>::default(), shared.closing.child_token());
        let mut subscribers = Vec::new();
        for name in Lane::names(queue) {
            let shelf = Arc::new(Shelf { deliveries: Mutex::default(), arrived: Arc::clone(&arrived) });
            let turns = Lane::split(&name).1.turns();
            let subscriber = Subscriber {
                shared: Arc::clone(shared),
                shelf,
                queue: queue_name(&name)?,
                prefetch: prefetch.max(1),
                stop: stop.clone(),
            };
            subscribers.push((subscriber, turns));
        }
        // The first subscription tells the caller of a queue that cannot be consumed until somebody has mended something.
        let subscribing = subscribers.iter().map(|(subscriber, _)| subscriber.subscribe(&first));
        let subscriptions = join_all(subscribing).await;
        let (mut lanes, mut refused) = (Vec::new(), None);
        for ((subscriber, turns), subscription) in subscribers.into_iter().zip(subscriptions) {
            let subscription = match subscription {
                Err(error) if !is_passing(&error) => {
                    refused = Some(error);
                    continue;
                }
                subscription => subscription.ok(),
            };
            let (shelf, stopped) = (Arc::clone(&subscriber.shelf), CancellationToken::new());
            let end = stopped.clone().drop_guard();
            shared.consumers.spawn(async move {
                subscriber.run(subscription).await;
                drop(end);
            });
            lanes.push(Taken { shelf, stopped, turns, credit: 0 });
        }
        // Dropped, it stops what it has begun.
        let consumer = Self { lanes, arrived, stop };
        refused.map_or(Ok(consumer), Err)
    }

    /// The next of the lane that is owed the most turns.
    fn take(&mut self) -> Option<Delivery> {
        loop {
            let mut turns = 0;
            for lane in &mut self.lanes {
                if lane.shelf.is_empty() {
                    lane.credit = 0;
                } else {
                    lane.credit += lane.turns;
                    turns += lane.turns;
                }
            }
            let filled = self.lanes.iter_mut().filter(|lane| !lane.shelf.is_empty());
            // Of equals the first.
            let next = filled.reduce(|best, lane| if lane.credit > best.credit { lane } else { best })?;
            next.credit -= turns;
            if let Some(delivery) = next.shelf.take() {
                return Some(delivery);
            }
        }
    }
}

#[async_trait]
impl Consumer for AmqpConsumer {
    async fn next(&mut self) -> Option<Delivery> {
        loop {
            if self.stop.is_cancelled() {
                return None;
            }
            if let Some(delivery) = self.take() {
                return Some(delivery);
            }
            tokio::select! {
                () = self.arrived.notified() => {}
                () = self.stop.cancelled() => {}
            }
        }
    }

    async fn stop(&mut self) {
        self.stop.cancel();
        for lane in &self.lanes {
            lane.stopped.cancelled().await;
        }
    }
}

impl Drop for AmqpConsumer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

struct Subscription {
    session: Arc<Session>,
    channel: Arc<Channel>,
    stream: lapin::Consumer,
}

/// The channel of a subscription that does not stand yet.
struct Opening(Option<Channel>);

impl Opening {
    fn succeeded(mut self) {
        self.0 = None;
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        if let Some(channel) = &self.0 {
            abandon(channel);
        }
    }
}

/// Closes the channel of a subscription that is given up: the broker may get to it later, and deliver where nobody looks.
fn abandon(channel: &Channel) {
    // Its first poll hands it to the connection.
    let _ = channel.close(200, "given up".into()).now_or_never();
}

struct Subscriber {
    shared: Arc<Shared>,
    shelf: Arc<Shelf>,
    queue: ShortString,
    prefetch: u16,
    stop: CancellationToken,
}

impl Subscriber {
    async fn run(self, mut subscription: Option<Subscription>) {
        let mut waits = backoff();
        let mut said = Said::nothing();
        loop {
            let started = Instant::now();
            if let Some(mut subscribed) = subscription.take() {
                let lost = self.stop.run_until_cancelled(self.forward(&mut subscribed)).await;
                if lost.is_none() {
                    self.unsubscribe(&mut subscribed).await;
                    break;
                }
                self.shelf.discard_lost();
                if started.elapsed() > LASTING {
                    waits = backoff();
                }
            }
            let resubscribing = async {
                sleep(waits.next().unwrap_or(LASTING)).await;
                let session = self.shared.consuming.session().await?;
                self.subscribe(&session).await
            };
            match self.stop.run_until_cancelled(resubscribing).await {
                None | Some(Err(BrokerError::Closed)) => break,
                Some(Ok(subscribed)) => {
                    if said.is_something() {
                        tracing::info!(queue = self.queue.as_str(), "consuming again");
                    }
                    said = Said::nothing();
                    subscription = Some(subscribed);
                }
                Some(Err(error)) if said.is_due(is_refusal(&error)) => {
                    let (queue, seconds) = (self.queue.as_str(), said.seconds());
                    tracing::warn!(queue, %error, seconds, "cannot consume, trying again until it can");
                }
                Some(Err(_)) => {}
            }
        }
        self.hand_back(std::iter::from_fn(|| self.shelf.take()).collect()).await;
    }

    async fn subscribe(&self, session: &Arc<Session>) -> Result<Subscription, BrokerError> {
        session.declare(&Queue::named(self.queue.clone())).await?;
        let channel = session.channel().await?;
        let opening = Opening(Some(channel.clone()));
        let what = format!("consuming queue {}", self.queue);
        session.answer(&what, channel.basic_qos(self.prefetch, BasicQosOptions::default())).await?;
        let options = BasicConsumeOptions::default();
        let consuming = channel.basic_consume(self.queue.clone(), "".into(), options, FieldTable::default());
        let stream = session.answer(&what, consuming).await?;
        opening.succeeded();
        Ok(Subscription { session: Arc::clone(session), channel: Arc::new(channel), stream })
    }

    /// Returns when the subscription is lost.
    async fn forward(&self, subscribed: &mut Subscription) {
        let mut looks = 0;
        let reason = loop {
            match timeout(SILENCE, subscribed.stream.next()).await {
                Ok(Some(Ok(found))) => {
                    self.shelve(&subscribed.channel, found);
                    looks = 0;
                }
                Ok(Some(Err(error))) => break self.shared.address.clean(error),
                // The broker ends a subscription so when the queue was deleted.
                Ok(None) => break "the broker ended the subscription".to_owned(),
                Err(_) if self.hand_back(self.shelf.take_older(STALE)).await > 0 => looks = 0,
                Err(_) if self.is_deaf(subscribed).await => {
                    looks += 1;
                    if looks >= LOOKS {
                        abandon(&subscribed.channel);
                        break "messages wait, and none is delivered".to_owned();
                    }
                }
                Err(_) => looks = 0,
            }
        };
        subscribed.session.forget_declared();
        tracing::warn!(queue = self.queue.as_str(), reason, "no longer consuming, will consume again");
    }

    /// Whether messages wait though all that came is settled. Seen with RabbitMQ 3.10.8, one time in three: a queue is
    /// deleted and at once declared again, and those who consumed the old one are never told.
    async fn is_deaf(&self, subscribed: &Subscription) -> bool {
        // Every delivery in hand holds its channel.
        let idle = Arc::strong_count(&subscribed.channel) == 1;
        idle && !matches!(subscribed.session.waiting(self.queue.as_str()).await, Ok(Some(0)) | Err(_))
    }

    fn shelve(&self, channel: &Arc<Channel>, found: lapin::message::Delivery) {
        match settle::arrived(&self.shared, channel, &self.queue, found) {
            Arrived::Whole(delivery) => self.shelf.put(Arc::clone(channel), delivery),
            Arrived::Poison(delivery, reason) => {
                self.shared.consumers.spawn(bury(delivery, reason));
            }
        }
    }

    /// Ends the subscription and shelves what came before the end. The channel stays for what was taken.
    async fn unsubscribe(&self, subscribed: &mut Subscription) {
        let tag = subscribed.stream.tag();
        let cancelling = subscribed.channel.basic_cancel(tag, BasicCancelOptions::default());
        // Without an answer the connection is lost, and the broker has everything back.
        if let Ok(Ok(())) = timeout(CANCEL_PATIENCE, cancelling).await {
            while let Ok(Some(Ok(found))) = timeout(CANCEL_PATIENCE, subscribed.stream.next()).await {
                self.shelve(&subscribed.channel, found);
            }
        }
    }

    /// Hands back what was not taken, and returns how many.
    async fn hand_back(&self, left: Vec<Delivery>) -> usize {
        let count = left.len();
        let handing_back = stream::iter(left).for_each_concurrent(HAND_BACKS_AT_A_TIME, async |delivery| {
            if let Err(error) = delivery.hand_back(Duration::ZERO).await {
                tracing::debug!(queue = self.queue.as_str(), %error, "a prefetched message comes back by itself");
            }
        });
        if timeout(HAND_BACK_PATIENCE, handing_back).await.is_err() {
            tracing::warn!(queue = self.queue.as_str(), count, "could not hand back all prefetched messages in time");
        }
        count
    }
}

/// Whether it may be consumed later with nobody's help.
fn is_passing(error: &BrokerError) -> bool {
    error.is_transient() && !is_refusal(error)
}

fn is_refusal(error: &BrokerError) -> bool {
    matches!(error, BrokerError::Refused { .. })
}

/// No worker is to see what is in `delivery`.
async fn bury(delivery: Delivery, reason: &'static str) {
    let (message, queue) = (delivery.message_id.clone(), delivery.queue.clone());
    tracing::error!(message, queue, reason, "no job; to the dead letters");
    if let Err(error) = delivery.dead(reason).await {
        tracing::warn!(message, queue, %error, "message not settled; it comes again");
    }
}
