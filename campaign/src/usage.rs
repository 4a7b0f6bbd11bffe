//! What a user is told of an error, and what a user asked wrongly.

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

/// The error and its causes, each once: the messages of most errors end with their cause already.
pub fn message(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_named_once() {
        #[derive(Debug)]
        struct Read(std::io::Error);
        impl fmt::Display for Read {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "list.txt: {}", self.0)
            }
        }
        impl std::error::Error for Read {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        let error = anyhow::Error::new(Read(std::io::Error::other("gone")));
        assert_eq!(message(&error), "list.txt: gone");
        assert_eq!(message(&error.context("--kernel")), "--kernel: list.txt: gone");
    }
}
