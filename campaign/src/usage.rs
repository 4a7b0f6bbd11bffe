//! What a user asked wrongly.

use std::fmt;

/// Wrong usage that only shows after parsing: exit code 2.
#[derive(Debug)]
pub struct Usage(String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Wrong usage, and what is wrong with it.
pub fn usage(message: impl Into<String>) -> anyhow::Error {
    Usage(message.into()).into()
}
