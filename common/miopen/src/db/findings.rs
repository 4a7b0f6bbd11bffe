//! What a reader met that MIOpen's own reader skips, misreads or trips over.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// Findings of a kind that are kept of one file; beyond that they are only counted.
pub const KEPT: u64 = 1000;

/// What is wrong with a line or a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// Not UTF-8: no key of MIOpen's can match. The line is skipped.
    NotText,
    /// No `=`, or nothing in front of it. The line is skipped.
    NoKey,
    /// A key that came before; the first line stands.
    DuplicateKey,
    /// A key without any entry: MIOpen's look-up logs an error and is a miss.
    NoEntry,
    /// An entry without `:`. It is skipped.
    NoName,
    /// A solver that came before in the line; the first one stands.
    DuplicateSolver,
    /// An entry with too few fields: MIOpen reads it as invalid, and throws when it is used.
    MissingFields,
    /// More fields than the format has; they are ignored.
    ExtraFields,
    /// A number that MIOpen reads as another than is written.
    Number,
    /// A time that is not positive.
    Time,
    /// An algorithm that the direction does not have: MIOpen throws when the entry is used.
    Algorithm,
    /// A carriage return, white space or other control characters in an entry.
    Space,
    /// A key of an obsolete shape, which no MIOpen looks up any more.
    LegacyKey,
    /// A key that no convolution has.
    Key,
    /// A row that refers to nothing, or that nothing refers to.
    Reference,
    /// A value of another type than the column's.
    Column,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Line from 1, or row id.
    pub line: u64,
    pub kind: FindingKind,
    /// What was found, for people.
    pub detail: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.detail)
    }
}

/// The findings of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// The first ones of each kind.
    pub kept: Vec<Finding>,
    /// How many there are.
    pub total: u64,
    /// How many there are of each kind.
    pub counts: BTreeMap<FindingKind, u64>,
}

impl Findings {
    pub fn add(&mut self, line: u64, kind: FindingKind, detail: impl FnOnce() -> String) {
        self.total += 1;
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        if *count <= KEPT {
            let detail = detail().chars().take(300).collect();
            self.kept.push(Finding { line, kind, detail });
        }
    }

    /// All but those of `kinds`.
    #[must_use]
    pub fn without(mut self, kinds: &[FindingKind]) -> Self {
        self.kept.retain(|finding| !kinds.contains(&finding.kind));
        self.counts.retain(|kind, _| !kinds.contains(kind));
        self.total = self.counts.values().sum();
        self
    }

    /// Whether there is one of `kind`.
    #[must_use]
    pub fn has(&self, kind: FindingKind) -> bool {
        self.counts.contains_key(&kind)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }
}

/// The beginning of `text`, for a message: a hostile line can be as long as its file.
pub fn short(text: &str) -> String {
    text.chars().take(120).collect()
}
