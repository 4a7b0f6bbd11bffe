//! Declares what [`super`] documents. Declaring what exists already changes nothing.

use std::fmt;
use std::time::Duration;

use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, ErrorKind, ExchangeKind};

use bluefin_common::broker::{DEAD_QUEUE, DELAYS, delay_queue};
use bluefin_common::lane::Lane;

/// The direct exchange that all queues are bound to under their own names.
pub(super) const EXCHANGE: &str = "bluefin";

/// Every message is in the queue that its key names.
const DEFAULT_EXCHANGE: &str = "";

/// Safety net for consumers that do not count themselves. Workers replace a message long before.
const DELIVERY_LIMIT: i64 = 50;

/// Back-pressure: more is refused, and the publisher is told.
const MAX_LENGTH: i64 = 1_000_000;

/// Beyond, the oldest are dropped: they have an outcome, and a full dead queue must not stop the workers.
const DEAD_MAX_LENGTH: i64 = 100_000;

/// Bytes of what stands before the name of a queue in the names of its delays, at most.
const DELAY_PREFIX: usize = "bluefin.delay.125s.".len();

/// Bytes of the name of a queue, at most: AMQP's 255, less what its delays need.
pub(crate) const MAX_QUEUE_NAME: usize = 255 - DELAY_PREFIX;

/// The lanes of `queue` and the queues of their delays, whether they are there or not.
pub(super) fn with_delays(queue: &str) -> Vec<String> {
    let with_its = |lane: String| {
        let delays = DELAYS.map(|delay| delay_queue(&lane, delay));
        std::iter::once(lane).chain(delays)
    };
    Lane::names(queue).into_iter().flat_map(with_its).collect()
}

/// Whether `name` is that of a delay.
pub(super) fn is_delay(name: &str) -> bool {
    delayed(name).is_some()
}

/// The delay that `name` is one of, and the queue behind it.
fn delayed(name: &str) -> Option<(Duration, &str)> {
    DELAYS.into_iter().find_map(|delay| Some((delay, name.strip_prefix(&delay_queue("", delay))?)))
}

/// The queues that the lanes of `name` are, which may be that of a delay.
pub(super) fn lanes_of(name: &str) -> Vec<String> {
    match delayed(name) {
        Some((delay, queue)) => Lane::names(queue).iter().map(|lane| delay_queue(lane, delay)).collect(),
        None => Lane::names(name),
    }
}

/// Rounds up to a delay that exists, or down to the last.
fn existing_delay(delay: Duration) -> Duration {
    let [.., last] = DELAYS;
    DELAYS.into_iter().find(|existing| *existing >= delay).unwrap_or(last)
}

/// How a message comes to a queue.
#[derive(Clone)]
pub(super) struct Route {
    pub(super) queue: ShortString,
    /// Where it waits before, if it has to.
    delay: Option<Duration>,
}

impl Route {
    /// To `queue` after `delay`.
    pub(super) fn new(queue: ShortString, delay: Duration) -> Self {
        Self { queue, delay: (!delay.is_zero()).then(|| existing_delay(delay)) }
    }

    /// The queue that it waits in, which is nobody else's: what cannot be delivered stays at the head of it.
    pub(super) fn delay_queue(&self) -> Option<Queue> {
        let (target, delay) = (self.queue.clone(), self.delay?);
        Some(Queue { name: self.key(), kind: QueueKind::Delay { target, delay } })
    }

    /// The exchange that it is published to, with [`key`](Self::key).
    pub(super) fn exchange(&self) -> ShortString {
        if self.delay.is_some() { DEFAULT_EXCHANGE.into() } else { EXCHANGE.into() }
    }

    pub(super) fn key(&self) -> ShortString {
        match self.delay {
            Some(delay) => delay_queue(self.queue.as_str(), delay).into(),
            None => self.queue.clone(),
        }
    }
}

/// A queue as it is declared.
pub(super) struct Queue {
    pub(super) name: ShortString,
    kind: QueueKind,
}

enum QueueKind {
    Jobs,
    Dead,
    /// Of what comes to `target` later.
    Delay {
        target: ShortString,
        delay: Duration,
    },
}

impl Queue {
    /// The queue of jobs of that name, or that of the dead.
    pub(super) fn named(name: ShortString) -> Self {
        let kind = if name.as_str() == DEAD_QUEUE { QueueKind::Dead } else { QueueKind::Jobs };
        Self { name, kind }
    }

    /// The queue of that name as it is declared, one of a delay included.
    pub(super) fn of(name: ShortString) -> Self {
        match delayed(name.as_str()) {
            Some((delay, target)) => Self { kind: QueueKind::Delay { target: target.into(), delay }, name },
            None => Self::named(name),
        }
    }

    fn arguments(&self) -> Vec<(&'static str, AMQPValue)> {
        let text = |text: &str| AMQPValue::LongString(text.into());
        let number = AMQPValue::LongLongInt;
        let quorum = ("x-queue-type", text("quorum"));
        match &self.kind {
            QueueKind::Jobs => vec![
                quorum,
                ("x-delivery-limit", number(DELIVERY_LIMIT)),
                ("x-dead-letter-exchange", text(DEFAULT_EXCHANGE)),
                ("x-dead-letter-routing-key", text(DEAD_QUEUE)),
                // At-least-once needs reject-publish.
                ("x-dead-letter-strategy", text("at-least-once")),
                ("x-overflow", text("reject-publish")),
                ("x-max-length", number(MAX_LENGTH)),
            ],
            QueueKind::Delay { target, delay } => vec![
                quorum,
                ("x-message-ttl", number(i64::try_from(delay.as_millis()).unwrap_or(i64::MAX))),
                ("x-dead-letter-exchange", text(DEFAULT_EXCHANGE)),
                ("x-dead-letter-routing-key", text(target.as_str())),
                ("x-dead-letter-strategy", text("at-least-once")),
                ("x-overflow", text("reject-publish")),
                ("x-max-length", number(MAX_LENGTH)),
            ],
            QueueKind::Dead => {
                vec![quorum, ("x-overflow", text("drop-head")), ("x-max-length", number(DEAD_MAX_LENGTH))]
            }
        }
    }

    /// Declares it. Jobs and the dead are bound to the exchange as well, where everybody publishes them.
    pub(super) async fn declare(&self, channel: &Channel) -> Result<(), Refused> {
        let name = || self.name.clone();
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let mut arguments = FieldTable::default();
        for (name, value) in self.arguments() {
            arguments.insert(name.into(), value);
        }
        let declared = channel.queue_declare(name(), options, arguments).await;
        declared.map_err(|error| Refused { what: format!("{self}"), error })?;
        if matches!(self.kind, QueueKind::Delay { .. }) {
            return Ok(());
        }
        let bound =
            channel.queue_bind(name(), EXCHANGE.into(), name(), QueueBindOptions::default(), FieldTable::default());
        bound
            .await
            .map_err(|error| Refused { what: format!("binding queue {} to exchange {EXCHANGE}", self.name), error })
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "queue {}, which is to be durable with", self.name)?;
        for (at, (name, value)) in self.arguments().iter().enumerate() {
            f.write_str(if at == 0 { " " } else { ", " })?;
            match value {
                AMQPValue::LongString(text) => write!(f, "{name}={:?}", String::from_utf8_lossy(text.as_bytes()))?,
                AMQPValue::LongLongInt(number) => write!(f, "{name}={number}")?,
                other => write!(f, "{name}={other:?}")?,
            }
        }
        Ok(())
    }
}

/// A declaration that failed, and all of what was declared.
pub(super) struct Refused {
    pub(super) what: String,
    pub(super) error: lapin::Error,
}

/// Whether the broker closed the channel because there is no such thing.
pub(super) fn is_missing(error: &lapin::Error) -> bool {
    let ErrorKind::ProtocolError(error) = error.kind() else { return false };
    matches!(error.kind(), AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND))
}

/// Declares what every queue needs: the exchange and the dead queue.
pub(super) async fn declare_base(channel: &Channel) -> Result<(), Refused> {
    let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    let declared =
        channel.exchange_declare(EXCHANGE.into(), ExchangeKind::Direct, options, FieldTable::default()).await;
    declared
        .map_err(|error| Refused { what: format!("exchange {EXCHANGE}, which is to be direct and durable"), error })?;
    Queue::named(DEAD_QUEUE.into()).declare(channel).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_rounded_to_those_that_exist() {
        let rounded = |millis| existing_delay(Duration::from_millis(millis)).as_secs();
        assert_eq!([1, 1000, 1001, 25_000, 26_000, 9_999_999].map(rounded), [1, 1, 5, 25, 125, 125]);
    }

    #[test]
    fn every_delay_of_every_queue_has_a_queue_of_its_own() {
        let at_once = Route::new("bluefin.eval.host".into(), Duration::ZERO);
        assert_eq!((at_once.exchange().as_str(), at_once.key().as_str()), ("bluefin", "bluefin.eval.host"));
        assert!(at_once.delay_queue().is_none());
        let later = Route::new("bluefin.eval.host".into(), Duration::from_secs(2));
        assert_eq!((later.exchange().as_str(), later.key().as_str()), ("", "bluefin.delay.5s.bluefin.eval.host"));
        let queue = later.delay_queue().unwrap();
        assert_eq!(
            queue.to_string(),
            "queue bluefin.delay.5s.bluefin.eval.host, which is to be durable with x-queue-type=\"quorum\", \
             x-message-ttl=5000, x-dead-letter-exchange=\"\", x-dead-letter-routing-key=\"bluefin.eval.host\", \
             x-dead-letter-strategy=\"at-least-once\", x-overflow=\"reject-publish\", x-max-length=1000000"
        );
        // By its name it is declared in the same way.
        assert_eq!(Queue::of(queue.name.clone()).to_string(), queue.to_string());
        for name in ["bluefin.eval.host", DEAD_QUEUE] {
            assert_eq!(Queue::of(name.into()).to_string(), Queue::named(name.into()).to_string());
        }
        assert!(with_delays("bluefin.eval.host").contains(&queue.name.to_string()));
    }

    #[test]
    fn the_longest_name_has_room_for_its_delays() {
        let longest = "x".repeat(MAX_QUEUE_NAME);
        let lengths = DELAYS.map(|delay| Route::new(longest.as_str().into(), delay).key().as_str().len());
        assert_eq!(lengths.into_iter().max(), Some(255));
    }
}
