//! Who published a message: a signature by a key that publisher and consumer share. Without keys nothing is signed or checked.
//!
//! A signature is the BLAKE3 keyed hash (a MAC) of the id and the body of a message. Whoever can check one can make one, so keys tell
//! those who have them from those who have not, and not from each other.

use std::fmt;

use bluefin_common::broker::BrokerError;

/// What tells this use of a key from any other.
const CONTEXT: &[u8] = b"bluefin message 1\0";

/// The keys of a process: the first one signs, and any of them is accepted, so that a fleet changes its key without a stop.
#[derive(Clone, Default)]
pub struct MessageKeys(Vec<Key>);

#[derive(Clone)]
struct Key {
    /// Tells which one a message was signed with.
    name: String,
    secret: [u8; blake3::KEY_LEN],
}

impl fmt::Debug for MessageKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|key| &key.name)).finish()
    }
}

impl MessageKeys {
    /// Reads `NAME:SECRET,NAME:SECRET,...`; a name is of letters, digits, `-` and `_`, a secret is 64 hex digits.
    ///
    /// # Errors
    /// [`BrokerError::Misconfigured`], which does not say the secret.
    pub fn parse(text: &str) -> Result<Self, BrokerError> {
        let mut keys: Vec<Key> = Vec::new();
        for (index, part) in text.trim().split(',').enumerate() {
            let wrong = |found: &str| BrokerError::Misconfigured {
                reason: format!(
                    "key {} of messages: found {found}, expected NAME:SECRET with a name of letters, digits, - and _, and a \
                     secret of 64 hex digits",
                    index + 1
                ),
            };
            let (name, secret) = part.split_once(':').ok_or_else(|| wrong("no colon"))?;
            let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            if name.is_empty() || !name.chars().all(is_of_name) {
                return Err(wrong("another name"));
            }
            if keys.iter().any(|key| key.name == name) {
                return Err(wrong("the name of a key before it"));
            }
            let secret = blake3::Hash::from_hex(secret).map_err(|_| wrong("another secret"))?;
            keys.push(Key { name: name.to_string(), secret: *secret.as_bytes() });
        }
        Ok(Self(keys))
    }

    /// The signature of a message, `NAME:MAC`; `None` without keys.
    pub(super) fn sign(&self, message_id: &str, body: &[u8]) -> Option<String> {
        let key = self.0.first()?;
        Some(format!("{}:{}", key.name, key.mac(message_id, body).to_hex()))
    }

    /// Whether a message with this signature was published by somebody who has one of these keys. Without keys any was.
    pub(super) fn accept(&self, signature: Option<&str>, message_id: &str, body: &[u8]) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let accepted = || {
            let (name, mac) = signature?.split_once(':')?;
            let key = self.0.iter().find(|key| key.name == name)?;
            // Compared in constant time.
            Some(blake3::Hash::from_hex(mac).ok()? == key.mac(message_id, body))
        };
        accepted().unwrap_or(false)
    }
}

impl Key {
    fn mac(&self, message_id: &str, body: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret);
        hasher.update(CONTEXT).update(&(message_id.len() as u64).to_le_bytes());
        hasher.update(message_id.as_bytes()).update(body);
        hasher.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(digit: char) -> String {
        digit.to_string().repeat(64)
    }

    fn keys(text: &str) -> MessageKeys {
        MessageKeys::parse(text).unwrap()
    }

    #[test]
    fn a_key_is_changed_without_a_stop() {
        let [old, new] = [format!("old:{}", secret('1')), format!("new:{}", secret('2'))];
        let steps = [old.clone(), format!("{old},{new}"), format!("{new},{old}"), new.clone()].map(|text| keys(&text));
        for (at, publisher) in steps.iter().enumerate() {
            let signature = publisher.sign("id", b"body");
            // A fleet is at two steps at a time, next to each other.
            for consumer in &steps[at.saturating_sub(1)..(at + 2).min(steps.len())] {
                assert!(consumer.accept(signature.as_deref(), "id", b"body"));
                assert!(!consumer.accept(signature.as_deref(), "id", b"bodx"));
                assert!(!consumer.accept(signature.as_deref(), "ib", b"body"));
            }
        }
        let signature = steps[0].sign("id", b"body");
        assert!(!steps[3].accept(signature.as_deref(), "id", b"body"), "taken out of use");
        assert!(!keys(&format!("old:{}", secret('3'))).accept(signature.as_deref(), "id", b"body"));
    }

    #[test]
    fn without_keys_nothing_is_checked_and_with_keys_all_is() {
        let none = MessageKeys::default();
        assert_eq!(none.sign("id", b"body"), None);
        assert!(none.accept(None, "id", b"body") && none.accept(Some("x"), "id", b"body"));
        let one = keys(&format!("a:{}", secret('a')));
        for signature in [None, Some(""), Some("a"), Some("a:"), Some("b:00"), Some(&*secret('a'))] {
            assert!(!one.accept(signature, "id", b"body"), "{signature:?}");
        }
        // Golden: a fleet of two releases agrees on it.
        let signature = one.sign("id", b"body").unwrap();
        assert_eq!(signature, "a:417598ca0c17be263657d3799ab71a7c868d6da7237019e2a4f8316a64b96bf3");
    }

    #[test]
    fn a_wrong_key_is_named_by_its_place_and_not_said() {
        let fine = format!("a:{}", secret('a'));
        for wrong in ["", "a", "a:12", &format!(":{}", secret('b')), &format!("b b:{}", secret('b')), &fine] {
            let error = MessageKeys::parse(&format!("{fine},{wrong}")).unwrap_err().to_string();
            assert!(error.contains("key 2 of messages: found"), "{error}");
            assert!(!error.contains(&secret('a')) && !error.contains(&secret('b')), "{error}");
        }
        assert!(!format!("{:?}", keys(&fine)).contains(&secret('a')));
    }
}
