//! A tuning campaign.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::job::Stage;
use crate::target::Target;

/// Name of a session: 1 to 64 of `A-Z a-z 0-9 . _ -`, because it becomes part of keys and file names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionName(String);

impl SessionName {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that can not name a session.
#[derive(Debug, thiserror::Error)]
#[error("session name: found {found:?}, expected 1 to 64 of A-Z a-z 0-9 . _ -")]
pub struct InvalidSessionName {
    found: String,
}

impl FromStr for SessionName {
    type Err = InvalidSessionName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.to_string().try_into()
    }
}

impl TryFrom<String> for SessionName {
    type Error = InvalidSessionName;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
        if text.is_empty() || text.len() > 64 || !plain || text.starts_with('.') {
            return Err(InvalidSessionName { found: text.chars().take(80).collect() });
        }
        Ok(Self(text))
    }
}

impl From<SessionName> for String {
    fn from(name: SessionName) -> Self {
        name.0
    }
}

/// What a session is. What shapes its results beyond this (compiler versions, the device) is pinned in the Store by the
/// first worker that serves it: see [`crate::store::Store::pin`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    pub name: SessionName,
    pub target: Target,
    /// Why it was made, in its maker's words.
    pub label: String,
    /// The stages that it runs, in order.
    pub stages: Vec<Stage>,
    /// Milliseconds since the Unix epoch.
    pub created_ms: u64,
}

/// What a session's results depend on, as its first workers pinned it: `toolchain.cc` → version, `device.host` → model.
pub type Pins = BTreeMap<String, String>;
