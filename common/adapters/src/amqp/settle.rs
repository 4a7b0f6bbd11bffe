//! Settles one delivery.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::FutureExt;
use lapin::Channel;
use lapin::options::{BasicAckOptions, BasicRejectOptions};
use lapin::types::ShortString;
use tokio::time::sleep;

use crate::amqp::Shared;
use crate::amqp::link::backoff;
use crate::amqp::message::{Label, redeliveries};
use crate::amqp::publisher::Publication;
use crate::amqp::said::Said;
use crate::amqp::topology::Route;
use bluefin_common::broker::{BrokerError, DEAD_QUEUE, Delivery, GivenUp, Settle};
use bluefin_common::clock::now_ms;

/// A delivery's way back, over the channel it came by: a channel that was lost with its connection refuses, since its
/// numbers mean other messages on the next one.
struct AmqpSettle {
    shared: Arc<Shared>,
    channel: Arc<Channel>,
    tag: u64,
    queue: ShortString,
    label: Label,
    body: Bytes,
    settled: AtomicBool,
}

/// What a subscription brought.
pub(super) enum Arrived {
    Whole(Delivery),
    /// It is not what somebody published who may, and why. For no worker: it may decode all the same.
    Poison(Delivery, &'static str),
}

pub(super) fn arrived(
    shared: &Arc<Shared>,
    channel: &Arc<Channel>,
    queue: &ShortString,
    found: lapin::message::Delivery,
) -> Arrived {
    let label = Label::read(&found.properties);
    let body = Bytes::from(found.data);
    // Whoever looks at the dead gets what there is.
    let misfit = if queue.as_str() == DEAD_QUEUE { None } else { label.misfit(&body, &shared.keys) };
    let delivery = Delivery {
        queue: queue.to_string(),
        message_id: label.message_id.to_string(),
        body: body.clone(),
        redeliveries: redeliveries(&found.properties, found.redelivered),
        given_up: label.given_up.clone(),
        settle: Box::new(AmqpSettle {
            shared: Arc::clone(shared),
            channel: Arc::clone(channel),
            tag: found.delivery_tag,
            queue: queue.clone(),
            label,
            body,
            settled: AtomicBool::new(false),
        }),
    };
    match misfit {
        None => Arrived::Whole(delivery),
        Some(reason) => Arrived::Poison(delivery, reason),
    }
}

#[async_trait]
impl Settle for AmqpSettle {
    async fn ack(&self) -> Result<(), BrokerError> {
        self.settled.store(true, Ordering::Relaxed);
        let acknowledged = self.channel.basic_ack(self.tag, BasicAckOptions::default()).await;
        acknowledged.map_err(|error| self.shared.address.unavailable(error))
    }

    async fn republish(&self, delay: Duration) -> Result<(), BrokerError> {
        self.publish(Route::new(self.queue.clone(), delay), &self.label).await?;
        self.ack().await
    }

    async fn dead(&self, reason: &str) -> Result<(), BrokerError> {
        let given_up = GivenUp { queue: self.queue.to_string(), reason: reason.to_owned(), at_ms: Some(now_ms()) };
        self.publish(Route::new(DEAD_QUEUE.into(), Duration::ZERO), &self.label.dead(given_up)).await?;
        self.ack().await
    }
}

impl AmqpSettle {
    /// Publishes a copy, again and again while the broker can not take it, for as long as the delivery can be acknowledged. To
    /// let go of it would bring it back at once, at the cost of one of the deliveries that it has: a minute without permissions
    /// would use them up.
    async fn publish(&self, route: Route, label: &Label) -> Result<(), BrokerError> {
        let (mut waits, mut said) = (backoff(), Said::nothing());
        loop {
            // A copy for a delivery that cannot be acknowledged any more would be a second message.
            if !self.channel.status().connected() {
                return Err(self.shared.address.unavailable("the delivery was lost with its connection"));
            }
            let (route, body) = (route.clone(), self.body.clone());
            let error = match self.shared.publish(Publication { route, properties: label.properties(), body }).await {
                Err(error) if error.is_transient() && !self.shared.closing.is_cancelled() => error,
                result => return result,
            };
            if said.is_due(matches!(error, BrokerError::Refused { .. })) {
                let (message, queue, seconds) = (self.label.message_id.as_str(), self.queue.as_str(), said.seconds());
                tracing::warn!(message, queue, %error, seconds, "cannot pass a message on, trying again until it can");
            }
            let pause = sleep(waits.next().unwrap_or_default());
            self.shared.closing.run_until_cancelled(pause).await;
        }
    }
}

impl Drop for AmqpSettle {
    fn drop(&mut self) {
        if !*self.settled.get_mut() {
            // Reject counts as a delivery on every version of the broker; nack does not on the newest. Its first poll
            // hands it to the connection; on a lost channel the broker has taken the message back by itself.
            let _ = self.channel.basic_reject(self.tag, BasicRejectOptions { requeue: true }).now_or_never();
        }
    }
}
