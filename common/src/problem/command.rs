//! A driver command, taken apart: its first word, and flags with their values.

mod flags;

use super::{Direction, ProblemError};

pub use flags::{Flag, Flags, Form, int, own_word, size, word};

/// A command that is read: its words, the first of which said whose it is.
#[derive(Clone, Debug)]
pub struct Command<'a> {
    /// The first word.
    pub base: &'a str,
    /// Those behind it.
    pub words: Vec<&'a str>,
    /// The same as flags, where the operator has flags.
    pub flags: Flags,
    /// The direction that stands beside the command, where there is one: a log tells it.
    pub implied: Option<Direction>,
}

impl Command<'_> {
    /// No operator has a base word like this one's.
    #[must_use]
    pub fn unknown(&self) -> DriverError {
        DriverError::UnknownBase(cut(self.base))
    }
}

/// Why a driver command asks for no problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// There is no word at all.
    #[error("driver command: found nothing, expected a base word such as conv")]
    Empty,
    /// MIOpenDriver has this operation, bluefin does not.
    #[error("driver command: operation {0} is not supported yet, expected conv, bnorm, gemm or kernel")]
    Unsupported(String),
    /// Nothing knows this operation.
    #[error("driver command: found base word {0:?}, expected conv, bnorm, gemm or kernel")]
    UnknownBase(String),
    /// A word that is no flag stands where a flag should.
    #[error("driver command: found {found:?}, expected a flag")]
    NotAFlag {
        /// The word.
        found: String,
    },
    /// The operation has no such flag, and one that it has may have been meant.
    #[error("driver command: {base} has no flag {flag:?}, and {missing} is not given")]
    UnknownFlag {
        /// The base word.
        base: String,
        /// The flag as it was written.
        flag: String,
        /// Long name of a size that is missing.
        missing: &'static str,
    },
    /// The command ends after a flag.
    #[error("driver command: flag {flag} has no value")]
    MissingValue {
        /// The flag as it was written.
        flag: String,
    },
    /// A flag's value is not of its kind.
    #[error("driver command: {flag}: found {found:?}, expected {expected}")]
    Value {
        /// The flag's long name.
        flag: &'static str,
        /// The value, cut short.
        found: String,
        /// What it could have been.
        expected: String,
    },
    /// Each value is fine, but together they make no problem.
    #[error("driver command: {0}")]
    Problem(#[from] ProblemError),
}

impl DriverError {
    /// A flag's value that is not `expected`.
    pub fn value(flag: &'static str, found: &str, expected: impl Into<String>) -> Self {
        Self::Value { flag, found: cut(found), expected: expected.into() }
    }
}

/// Enough of a text to recognise it in a message.
pub(super) fn cut(text: &str) -> String {
    text.chars().take(60).collect()
}
