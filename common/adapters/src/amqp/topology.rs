//! Declares what [`super`] documents. Declaring what exists already changes nothing.

use std::time::Duration;

use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::protocol::{AMQPErrorKind, AMQPSoftError};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, ErrorKind, ExchangeKind};

use bluefin_common::broker::{DEAD_QUEUE, DELAYS};

/// The direct exchange that all queues are bound to under their own names.
pub(super) const EXCHANGE: &str = "bluefin";

/// Safety net for consumers that do not count themselves; above [`MAX_REDELIVERIES`](bluefin_common::broker::MAX_REDELIVERIES).
const DELIVERY_LIMIT: i64 = 50;

/// Back-pressure: more is refused, and the publisher is told.
const MAX_LENGTH: i64 = 1_000_000;

/// Beyond, the oldest are dropped: they have an outcome, and a full dead queue must not stop the workers.
const DEAD_MAX_LENGTH: i64 = 100_000;

/// The exchange and the queue of a delay: `bluefin.delay.5s`.
pub(super) fn delay_name(delay: Duration) -> String {
    format!("bluefin.delay.{}s", delay.as_secs())
}

/// The exchange that brings a message to the queue it names, after `delay`.
pub(super) fn exchange_for(delay: Duration) -> ShortString {
    if delay.is_zero() { EXCHANGE.into() } else { delay_name(existing_delay(delay)).into() }
}

/// Rounds up to a delay that exists, or down to the last.
fn existing_delay(delay: Duration) -> Duration {
    let [.., last] = DELAYS;
    DELAYS.into_iter().find(|existing| *existing >= delay).unwrap_or(last)
}

/// A declaration that the broker refused.
pub(super) struct Refused {
    pub(super) what: String,
    pub(super) error: lapin::Error,
}

impl Refused {
    /// Something of that name exists with other properties. No retry helps.
    pub(super) fn is_conflict(&self) -> bool {
        is_soft(&self.error, &AMQPSoftError::PRECONDITIONFAILED) || is_soft(&self.error, &AMQPSoftError::ACCESSREFUSED)
    }
}

/// Whether the broker closed the channel with this code.
pub(super) fn is_soft(error: &lapin::Error, code: &AMQPSoftError) -> bool {
    matches!(error.kind(), ErrorKind::ProtocolError(e) if matches!(e.kind(), AMQPErrorKind::Soft(found) if found == code))
}

/// Declares what every queue needs: the exchange, the dead queue and the delays.
pub(super) async fn declare_base(channel: &Channel) -> Result<(), Refused> {
    exchange(channel, EXCHANGE, ExchangeKind::Direct).await?;
    queue(channel, DEAD_QUEUE, &dead_arguments(), EXCHANGE).await?;
    for delay in DELAYS {
        let name = delay_name(delay);
        // Fanout, so that the routing key stays the name of the queue that the message returns to.
        exchange(channel, &name, ExchangeKind::Fanout).await?;
        queue(channel, &name, &delay_arguments(delay), &name).await?;
    }
    Ok(())
}

/// Declares a queue of jobs.
pub(super) async fn declare_queue(channel: &Channel, name: &str) -> Result<(), Refused> {
    queue(channel, name, &job_arguments(), EXCHANGE).await
}

async fn exchange(channel: &Channel, name: &str, kind: ExchangeKind) -> Result<(), Refused> {
    let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    let declared = channel.exchange_declare(name.into(), kind, options, FieldTable::default()).await;
    declared.map_err(|error| Refused { what: format!("exchange {name}"), error })
}

async fn queue(channel: &Channel, name: &str, arguments: &[Argument], exchange: &str) -> Result<(), Refused> {
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let refused = |error| Refused { what: format!("queue {name}"), error };
    channel.queue_declare(name.into(), options, table(arguments)).await.map_err(refused)?;
    let binding = QueueBindOptions::default();
    channel.queue_bind(name.into(), exchange.into(), name.into(), binding, FieldTable::default()).await.map_err(refused)
}

enum Value {
    Text(&'static str),
    Number(i64),
}

type Argument = (&'static str, Value);

fn table(arguments: &[Argument]) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in arguments {
        let value = match value {
            Value::Text(text) => AMQPValue::LongString((*text).into()),
            Value::Number(number) => AMQPValue::LongLongInt(*number),
        };
        table.insert((*name).into(), value);
    }
    table
}

fn job_arguments() -> [Argument; 7] {
    [
        ("x-queue-type", Value::Text("quorum")),
        ("x-delivery-limit", Value::Number(DELIVERY_LIMIT)),
        ("x-dead-letter-exchange", Value::Text("")),
        ("x-dead-letter-routing-key", Value::Text(DEAD_QUEUE)),
        // At-least-once needs reject-publish.
        ("x-dead-letter-strategy", Value::Text("at-least-once")),
        ("x-overflow", Value::Text("reject-publish")),
        ("x-max-length", Value::Number(MAX_LENGTH)),
    ]
}

fn delay_arguments(delay: Duration) -> [Argument; 6] {
    [
        ("x-queue-type", Value::Text("quorum")),
        ("x-message-ttl", Value::Number(i64::try_from(delay.as_millis()).unwrap_or(i64::MAX))),
        ("x-dead-letter-exchange", Value::Text(EXCHANGE)),
        ("x-dead-letter-strategy", Value::Text("at-least-once")),
        ("x-overflow", Value::Text("reject-publish")),
        ("x-max-length", Value::Number(MAX_LENGTH)),
    ]
}

fn dead_arguments() -> [Argument; 3] {
    [
        ("x-queue-type", Value::Text("quorum")),
        ("x-overflow", Value::Text("drop-head")),
        ("x-max-length", Value::Number(DEAD_MAX_LENGTH)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use bluefin_common::broker::MAX_REDELIVERIES;

    #[test]
    fn the_brokers_limit_leaves_workers_time_to_say_why() {
        assert!(DELIVERY_LIMIT > i64::from(MAX_REDELIVERIES));
    }

    #[test]
    fn delays_are_rounded_to_those_that_exist() {
        let rounded = |millis| existing_delay(Duration::from_millis(millis)).as_secs();
        assert_eq!([1, 1000, 1001, 25_000, 26_000, 9_999_999].map(rounded), [1, 1, 5, 25, 125, 125]);
        assert_eq!(exchange_for(Duration::ZERO).as_str(), EXCHANGE);
        assert_eq!(exchange_for(Duration::from_secs(2)).as_str(), "bluefin.delay.5s");
    }

    #[test]
    fn every_delay_has_its_own_queue() {
        assert_eq!(
            DELAYS.map(delay_name),
            ["bluefin.delay.1s", "bluefin.delay.5s", "bluefin.delay.25s", "bluefin.delay.125s"]
        );
    }
}
