//! What travels beside a body: the properties and headers of a message.

use std::time::{SystemTime, UNIX_EPOCH};

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};

use bluefin_common::broker::{BrokerError, GivenUp};

/// The attempt; a message without it is a first attempt.
const ATTEMPT: &str = "bluefin-attempt";
/// Why a message is dead, and the queue it came from.
const REASON: &str = "bluefin-reason";
const QUEUE: &str = "bluefin-queue";
/// Set by quorum queues: how often the message was delivered before.
const DELIVERY_COUNT: &str = "x-delivery-count";
/// Set by the broker on what it dead-letters itself.
const FIRST_DEATH_REASON: &str = "x-first-death-reason";
const FIRST_DEATH_QUEUE: &str = "x-first-death-queue";

const CONTENT_TYPE: &str = "application/vnd.bluefin";
const PERSISTENT: u8 = 2;

/// Bytes of a reason that fit well into a frame beside everything else.
const MAX_REASON: usize = 4096;

/// `text` as AMQP writes names, at most 255 bytes long.
pub(super) fn short(what: &str, text: &str) -> Result<ShortString, BrokerError> {
    ShortString::try_new(text).map_err(|_| BrokerError::Misconfigured {
        reason: format!("{what}: found {} bytes, expected at most 255", text.len()),
    })
}

/// What a message says of itself.
pub(super) struct Label {
    pub(super) message_id: ShortString,
    pub(super) attempt: u32,
    pub(super) given_up: Option<GivenUp>,
}

impl Label {
    pub(super) fn properties(&self) -> BasicProperties {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let properties = BasicProperties::default()
            .with_delivery_mode(PERSISTENT)
            .with_content_type(CONTENT_TYPE.into())
            .with_timestamp(now)
            .with_message_id(self.message_id.clone());
        if self.attempt <= 1 && self.given_up.is_none() {
            return properties;
        }
        let mut headers = FieldTable::default();
        headers.insert(ATTEMPT.into(), AMQPValue::LongLongInt(self.attempt.into()));
        if let Some(GivenUp { queue, reason }) = &self.given_up {
            headers.insert(QUEUE.into(), AMQPValue::LongString(queue.as_str().into()));
            let end = (0..=reason.len().min(MAX_REASON)).rev().find(|end| reason.is_char_boundary(*end)).unwrap_or(0);
            headers.insert(REASON.into(), AMQPValue::LongString(reason.get(..end).unwrap_or_default().into()));
        }
        properties.with_headers(headers)
    }

    pub(super) fn read(properties: &BasicProperties) -> Self {
        let headers = properties.headers().as_ref();
        let given_up = text(headers, REASON)
            .map(|reason| GivenUp { queue: text(headers, QUEUE).unwrap_or_default(), reason })
            .or_else(|| dead_lettered(headers));
        Self {
            message_id: properties.message_id().clone().unwrap_or_default(),
            attempt: number(headers, ATTEMPT).map_or(1, |attempt| attempt.max(1)),
            given_up,
        }
    }
}

/// How often a message was delivered before. Queues other than quorum queues tell only whether it was.
pub(super) fn redeliveries(properties: &BasicProperties, redelivered: bool) -> u32 {
    number(properties.headers().as_ref(), DELIVERY_COUNT).unwrap_or(u32::from(redelivered))
}

/// A message that waited in a delay queue has died there too, by its time to live: that is no reason.
fn dead_lettered(headers: Option<&FieldTable>) -> Option<GivenUp> {
    let reason = text(headers, FIRST_DEATH_REASON).filter(|reason| reason != "expired")?;
    Some(GivenUp { queue: text(headers, FIRST_DEATH_QUEUE).unwrap_or_default(), reason })
}

fn find<'a>(headers: Option<&'a FieldTable>, name: &str) -> Option<&'a AMQPValue> {
    headers?.inner().get(name)
}

fn text(headers: Option<&FieldTable>, name: &str) -> Option<String> {
    match find(headers, name)? {
        AMQPValue::LongString(text) => Some(String::from_utf8_lossy(text.as_bytes()).into_owned()),
        AMQPValue::ShortString(text) => Some(text.to_string()),
        _ => None,
    }
}

/// A number whatever its width, since each client and broker picks its own.
fn number(headers: Option<&FieldTable>, name: &str) -> Option<u32> {
    let number = match *find(headers, name)? {
        AMQPValue::ShortShortInt(n) => i64::from(n),
        AMQPValue::ShortShortUInt(n) => i64::from(n),
        AMQPValue::ShortInt(n) => i64::from(n),
        AMQPValue::ShortUInt(n) => i64::from(n),
        AMQPValue::LongInt(n) => i64::from(n),
        AMQPValue::LongUInt(n) => i64::from(n),
        AMQPValue::LongLongInt(n) => n,
        _ => return None,
    };
    Some(u32::try_from(number.max(0)).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(attempt: u32, given_up: Option<GivenUp>) -> Label {
        Label { message_id: "id".into(), attempt, given_up }
    }

    #[test]
    fn a_label_survives_the_journey() {
        let given_up = GivenUp { queue: "q".into(), reason: "worn out".into() };
        for label in [label(1, None), label(3, None), label(8, Some(given_up))] {
            let read = Label::read(&label.properties());
            assert_eq!((read.message_id, read.attempt), (label.message_id, label.attempt));
            assert_eq!(read.given_up, label.given_up);
        }
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let reason = "ä".repeat(MAX_REASON);
        let read = Label::read(&label(1, Some(GivenUp { queue: "q".into(), reason })).properties());
        assert_eq!(read.given_up.unwrap().reason, "ä".repeat(MAX_REASON / 2));
    }

    #[test]
    fn headers_of_others_are_read_with_care() {
        let mut headers = FieldTable::default();
        headers.insert(ATTEMPT.into(), AMQPValue::LongLongInt(-5));
        headers.insert(DELIVERY_COUNT.into(), AMQPValue::LongLongInt(i64::MAX));
        headers.insert(FIRST_DEATH_REASON.into(), AMQPValue::LongString("delivery_limit".into()));
        let properties = BasicProperties::default().with_headers(headers);
        let read = Label::read(&properties);
        assert_eq!((read.attempt, redeliveries(&properties, false)), (1, u32::MAX));
        assert_eq!(read.given_up.unwrap().reason, "delivery_limit");
        assert_eq!(redeliveries(&BasicProperties::default(), true), 1);
    }
}
