//! What travels beside a body: the properties and headers of a message.

use std::time::{SystemTime, UNIX_EPOCH};

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};

use crate::amqp::signature::MessageKeys;
use crate::amqp::topology::MAX_QUEUE_NAME;
use bluefin_common::broker::{BrokerError, GivenUp};
use bluefin_common::digest::Digest;

/// What the body is to have as its [`checksum`].
const DIGEST: &str = "bluefin-digest";
/// Who published it, see [`MessageKeys`].
const SIGNATURE: &str = "bluefin-signature";
/// Why a message is dead, and the queue it came from.
const REASON: &str = "bluefin-reason";
const QUEUE: &str = "bluefin-queue";
/// When it was given up, in milliseconds since the Unix epoch.
const AT: &str = "bluefin-at";
/// Set by quorum queues: how often the message was delivered before.
const DELIVERY_COUNT: &str = "x-delivery-count";
/// Set by the broker on what it dead-letters itself.
const FIRST_DEATH_REASON: &str = "x-first-death-reason";
const FIRST_DEATH_QUEUE: &str = "x-first-death-queue";

/// Why a message is no job.
const NO_DIGEST: &str = "no bluefin-digest header: not published by bluefin";
const DAMAGED: &str = "body does not match its digest: damaged on the way";
const NOT_SIGNED: &str = "not signed with a key of BLUEFIN_MESSAGE_KEYS";

const CONTENT_TYPE: &str = "application/vnd.bluefin";
const PERSISTENT: u8 = 2;

/// Bytes of AMQP's short strings.
const MAX_SHORT: usize = 255;

/// Bytes of a reason that fit well into a frame beside everything else.
const MAX_REASON: usize = 4096;

/// `name` as AMQP writes it, if its delays can have names too.
pub(super) fn queue_name(name: &str) -> Result<ShortString, BrokerError> {
    short("name of a queue", name, MAX_QUEUE_NAME)
}

/// `name` as AMQP writes it, which may be that of a delay.
pub(super) fn any_queue_name(name: &str) -> Result<ShortString, BrokerError> {
    short("name of a queue", name, MAX_SHORT)
}

/// `id` as AMQP writes it.
pub(super) fn message_id(id: &str) -> Result<ShortString, BrokerError> {
    short("id of a message", id, MAX_SHORT)
}

fn short(what: &str, text: &str, most: usize) -> Result<ShortString, BrokerError> {
    let fitting = ShortString::try_new(text).ok().filter(|_| text.len() <= most);
    fitting.ok_or_else(|| BrokerError::Misconfigured {
        reason: format!("{what}: found {} bytes, expected at most {most}", text.len()),
    })
}

/// The first 64 bits of the BLAKE3 digest of `body`, in hex.
fn checksum(body: &[u8]) -> String {
    let [a, b, c, d, e, f, g, h, ..] = Digest::of(body).0;
    format!("{:016x}", u64::from_be_bytes([a, b, c, d, e, f, g, h]))
}

/// What a message says of itself. A copy says the same as the original.
#[derive(Clone)]
pub(super) struct Label {
    pub(super) message_id: ShortString,
    digest: Option<String>,
    signature: Option<String>,
    pub(super) given_up: Option<GivenUp>,
}

impl Label {
    /// Of a new message, signed if there are `keys`.
    pub(super) fn new(message_id: ShortString, body: &[u8], keys: &MessageKeys) -> Self {
        let signature = keys.sign(message_id.as_str(), body);
        Self { message_id, digest: Some(checksum(body)), signature, given_up: None }
    }

    /// The same, of what was given up.
    pub(super) fn dead(&self, given_up: GivenUp) -> Self {
        Self { given_up: Some(given_up), ..self.clone() }
    }

    /// Why `body` is no message that was published with this label by somebody with one of `keys`; `None` if it is.
    pub(super) fn misfit(&self, body: &[u8], keys: &MessageKeys) -> Option<&'static str> {
        match &self.digest {
            None => Some(NO_DIGEST),
            Some(digest) if *digest != checksum(body) => Some(DAMAGED),
            Some(_) if !keys.accept(self.signature.as_deref(), self.message_id.as_str(), body) => Some(NOT_SIGNED),
            Some(_) => None,
        }
    }

    pub(super) fn properties(&self) -> BasicProperties {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let properties = BasicProperties::default()
            .with_delivery_mode(PERSISTENT)
            .with_content_type(CONTENT_TYPE.into())
            .with_timestamp(now)
            .with_message_id(self.message_id.clone());
        let mut headers = FieldTable::default();
        if let Some(digest) = &self.digest {
            headers.insert(DIGEST.into(), AMQPValue::LongString(digest.as_str().into()));
        }
        if let Some(signature) = &self.signature {
            headers.insert(SIGNATURE.into(), AMQPValue::LongString(signature.as_str().into()));
        }
        if let Some(GivenUp { queue, reason, at_ms }) = &self.given_up {
            headers.insert(QUEUE.into(), AMQPValue::LongString(queue.as_str().into()));
            let end = (0..=reason.len().min(MAX_REASON)).rev().find(|end| reason.is_char_boundary(*end)).unwrap_or(0);
            headers.insert(REASON.into(), AMQPValue::LongString(reason.get(..end).unwrap_or_default().into()));
            if let Some(at) = at_ms.and_then(|at| i64::try_from(at).ok()) {
                headers.insert(AT.into(), AMQPValue::LongLongInt(at));
            }
        }
        properties.with_headers(headers)
    }

    pub(super) fn read(properties: &BasicProperties) -> Self {
        let headers = properties.headers().as_ref();
        let given_up = text(headers, REASON)
            .map(|reason| GivenUp { queue: text(headers, QUEUE).unwrap_or_default(), reason, at_ms: at(headers) })
            .or_else(|| dead_lettered(headers));
        Self {
            message_id: properties.message_id().clone().unwrap_or_default(),
            // One that is no text fits nothing.
            digest: find(headers, DIGEST).map(|_| text(headers, DIGEST).unwrap_or_default()),
            signature: text(headers, SIGNATURE),
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
    Some(GivenUp { queue: text(headers, FIRST_DEATH_QUEUE).unwrap_or_default(), reason, at_ms: None })
}

fn at(headers: Option<&FieldTable>) -> Option<u64> {
    let AMQPValue::LongLongInt(at) = *find(headers, AT)? else { return None };
    u64::try_from(at).ok()
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

    fn label(given_up: Option<GivenUp>) -> Label {
        Label { given_up, ..Label::new("id".into(), b"body", &keys()) }
    }

    fn keys() -> MessageKeys {
        MessageKeys::parse(&format!("one:{}", "0f".repeat(32))).unwrap()
    }

    #[test]
    fn a_label_survives_the_journey() {
        let given_up = GivenUp { queue: "q".into(), reason: "worn out".into(), at_ms: Some(7) };
        for label in [label(None), label(Some(given_up)), Label { digest: None, ..label(None) }] {
            let read = Label::read(&label.properties());
            assert_eq!((read.message_id, read.digest), (label.message_id, label.digest));
            assert_eq!(read.signature, label.signature);
            assert_eq!(read.given_up, label.given_up);
        }
    }

    #[test]
    fn a_label_fits_its_body_alone() {
        let read = Label::read(&label(None).properties());
        let none = MessageKeys::default();
        for keys in [&keys(), &none] {
            assert_eq!(read.misfit(b"body", keys), None);
            assert_eq!([b"bodx".as_slice(), b""].map(|body| read.misfit(body, keys)), [Some(DAMAGED); 2]);
        }
        let unsigned = Label::new("id".into(), b"body", &none);
        assert_eq!((unsigned.misfit(b"body", &none), unsigned.misfit(b"body", &keys())), (None, Some(NOT_SIGNED)));
        // A copy under another name is another message.
        let copy = Label { message_id: "other".into(), ..read.clone() };
        assert_eq!(copy.misfit(b"body", &keys()), Some(NOT_SIGNED));
        // Golden: a fleet of two releases agrees on it.
        assert_eq!(checksum(b""), "af1349b9f5f9a1a6");
        assert_eq!(Label::read(&BasicProperties::default()).misfit(b"body", &none), Some(NO_DIGEST));
        let mut headers = FieldTable::default();
        headers.insert(DIGEST.into(), AMQPValue::Void);
        let void = Label::read(&BasicProperties::default().with_headers(headers));
        assert_eq!(void.misfit(b"", &none), Some(DAMAGED));
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let reason = "ä".repeat(MAX_REASON);
        let read = Label::read(&label(Some(GivenUp { queue: "q".into(), reason, at_ms: None })).properties());
        assert_eq!(read.given_up.unwrap().reason, "ä".repeat(MAX_REASON / 2));
    }

    #[test]
    fn headers_of_others_are_read_with_care() {
        let mut headers = FieldTable::default();
        headers.insert(DELIVERY_COUNT.into(), AMQPValue::LongLongInt(i64::MAX));
        headers.insert(FIRST_DEATH_REASON.into(), AMQPValue::LongString("delivery_limit".into()));
        let properties = BasicProperties::default().with_headers(headers);
        let read = Label::read(&properties);
        assert_eq!(redeliveries(&properties, false), u32::MAX);
        assert_eq!(read.given_up.unwrap().reason, "delivery_limit");
        assert_eq!(redeliveries(&BasicProperties::default(), true), 1);
    }
}
