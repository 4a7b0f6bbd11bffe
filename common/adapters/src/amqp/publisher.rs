//! A publisher: one channel in confirm mode and the task that publishes on it.
//!
//! Many messages are in flight at a time, and each caller waits for its own confirm only. The one subtle thing is the
//! unroutable message. The broker returns it and then acknowledges it, and lapin hands a return to whichever confirm is
//! completed next, which may be another message's. So a task of its own polls all confirms of a channel: it settles them
//! in batches, each of which holds every confirm that was completed before its last one, and looks through the whole
//! batch for returns before anybody is told that a message is safe.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel, Confirmation};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use crate::amqp::session::Session;
use crate::amqp::topology::Route;
use bluefin_common::broker::BrokerError;

/// Channels that messages are spread over. Two confirm 40,000 messages of 300 bytes a second on two cores that the broker
/// shares; other numbers were not tried.
const PUBLISHERS: usize = 2;

/// Unconfirmed messages of a publisher. Beyond, callers wait.
const IN_FLIGHT: usize = 2048;

const MANDATORY: BasicPublishOptions = BasicPublishOptions { mandatory: true, immediate: false };

/// A message to be published.
pub(super) struct Publication {
    pub(super) route: Route,
    pub(super) properties: BasicProperties,
    pub(super) body: Bytes,
}

struct Order {
    publication: Publication,
    reply: oneshot::Sender<Result<(), BrokerError>>,
}

/// The publishers of a connection, taken in turns.
pub(super) struct Publishers {
    publishers: [mpsc::Sender<Order>; PUBLISHERS],
    turn: AtomicUsize,
}

impl Publishers {
    /// Opens the channels of `session`; the publishers' tasks are tracked by `tasks` and end with the connection.
    pub(super) async fn open(session: &Arc<Session>, tasks: &TaskTracker) -> Result<Self, BrokerError> {
        let mut publishers = Vec::with_capacity(PUBLISHERS);
        for _ in 0..PUBLISHERS {
            let channel = open_channel(session).await?;
            let (sender, orders) = mpsc::channel(IN_FLIGHT);
            let publisher = Publisher::new(Arc::downgrade(session), channel);
            tasks.spawn(publisher.run(orders));
            publishers.push(sender);
        }
        let publishers = publishers.try_into().map_err(|_| session.address.unavailable("channels are missing"))?;
        Ok(Self { publishers, turn: AtomicUsize::new(0) })
    }

    /// Publishes and waits until the message is safe. `None` when the connection has ended, which leaves the fate of
    /// the message open.
    pub(super) async fn publish(&self, publication: Publication) -> Option<Result<(), BrokerError>> {
        let (reply, answer) = oneshot::channel();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % PUBLISHERS;
        self.publishers.get(turn)?.send(Order { publication, reply }).await.ok()?;
        answer.await.ok()
    }
}

async fn open_channel(session: &Session) -> Result<Channel, BrokerError> {
    let channel = session.channel().await?;
    session.answer("confirms", channel.confirm_select(ConfirmSelectOptions::default())).await?;
    Ok(channel)
}

/// A message whose confirm has come, or will never come.
struct Settled {
    sequence: u64,
    /// Its routing key, which is the name of the queue that it went to first.
    queue: ShortString,
    reply: oneshot::Sender<Result<(), BrokerError>>,
    outcome: lapin::Result<Confirmation>,
}

struct Publisher {
    session: Weak<Session>,
    channel: Channel,
    sequence: u64,
    returns: Returns,
}

/// Queues whose messages were returned, each with the last sequence number given out when that was noticed. A message to
/// such a queue up to that number may be the one: it counts as returned. That is too many at worst, never too few.
#[derive(Default)]
struct Returns(HashMap<String, u64>);

impl Returns {
    fn note(&mut self, queue: &str, sequence: u64) {
        self.0.insert(queue.to_owned(), sequence);
    }

    fn hold(&self, queue: &str, sequence: u64) -> bool {
        self.0.get(queue).is_some_and(|last| sequence <= *last)
    }
}

impl Publisher {
    fn new(session: Weak<Session>, channel: Channel) -> Self {
        Self { session, channel, sequence: 0, returns: Returns::default() }
    }

    async fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        let mut in_flight = FuturesUnordered::new();
        let mut batch = Vec::new();
        let mut open = true;
        while open || !in_flight.is_empty() {
            tokio::select! {
                Some(settled) = in_flight.next(), if !in_flight.is_empty() => {
                    batch.push(settled);
                    while let Some(Some(settled)) = in_flight.next().now_or_never() {
                        batch.push(settled);
                    }
                    let broken = !self.channel.status().connected();
                    self.settle(&mut batch);
                    if in_flight.is_empty() {
                        self.returns = Returns::default();
                        if broken && !self.reopen().await {
                            return;
                        }
                    }
                }
                order = orders.recv(), if open && in_flight.len() < IN_FLIGHT => match order {
                    Some(order) => {
                        self.sequence += 1;
                        in_flight.push(publish(self.channel.clone(), self.sequence, order));
                    }
                    None => open = false,
                },
            }
        }
    }

    fn settle(&mut self, batch: &mut Vec<Settled>) {
        for settled in &*batch {
            if let Ok(Confirmation::Ack(Some(returned)) | Confirmation::Nack(Some(returned))) = &settled.outcome {
                self.returns.note(returned.routing_key.as_str(), self.sequence);
            }
        }
        for Settled { sequence, queue, reply, outcome } in batch.drain(..) {
            let result = match outcome {
                Err(error) => Err(self.failed(queue.as_str(), &error)),
                Ok(_) if self.returns.hold(queue.as_str(), sequence) => {
                    // The next publisher declares it again.
                    if let Some(session) = self.session.upgrade() {
                        session.forget_declared();
                    }
                    Err(BrokerError::Unroutable { queue: queue.to_string() })
                }
                Ok(Confirmation::Ack(_)) => Ok(()),
                Ok(Confirmation::Nack(_)) => Err(BrokerError::Full { queue: queue.to_string() }),
                Ok(Confirmation::NotRequested) => Err(self.unavailable(&"the channel confirms nothing")),
            };
            // A caller that no longer waits has decided that it does not need to know.
            let _ = reply.send(result);
        }
    }

    fn failed(&self, queue: &str, error: &lapin::Error) -> BrokerError {
        match self.session.upgrade() {
            Some(session) => session.address.failed(format!("publishing to queue {queue}"), error),
            None => self.unavailable(error),
        }
    }

    fn unavailable(&self, reason: &dyn std::fmt::Display) -> BrokerError {
        match self.session.upgrade() {
            Some(session) => session.address.unavailable(reason),
            None => BrokerError::Unavailable { broker: "broker".to_owned(), reason: "the connection broke".to_owned() },
        }
    }

    /// After the broker closed the channel alone, which it does when an exchange is gone.
    async fn reopen(&mut self) -> bool {
        let Some(session) = self.session.upgrade().filter(|session| session.is_open()) else { return false };
        session.forget_declared();
        match open_channel(&session).await {
            Ok(channel) => {
                self.channel = channel;
                true
            }
            Err(_) => false,
        }
    }
}

async fn publish(channel: Channel, sequence: u64, order: Order) -> Settled {
    let Order { publication: Publication { route, properties, body }, reply } = order;
    let queue = route.key();
    let outcome = match channel.basic_publish(route.exchange(), queue.clone(), MANDATORY, &body, properties).await {
        Ok(confirm) => confirm.await,
        Err(error) => Err(error),
    };
    Settled { sequence, queue, reply, outcome }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_speaks_for_all_that_was_sent_to_its_queue_before() {
        let mut returns = Returns::default();
        returns.note("a", 7);
        assert!(returns.hold("a", 3) && returns.hold("a", 7));
        assert!(!returns.hold("a", 8) && !returns.hold("b", 3));
    }
}
