//! Databases as files: checked, converted, merged, compared and asked.

pub mod check;
mod convert;
pub mod diff;
mod error;
mod merge;
pub mod name;
pub(crate) mod policy;
pub mod query;
mod source;
pub(crate) mod winner;
mod write;

pub use convert::{ConvertReport, convert};
pub use error::DbError;
pub use merge::{MergeReport, MergeRequest, merge};
pub use policy::Policy;
pub use source::{Content, Source};
pub use write::{Destination, LeftOut, Written};

use std::path::Path;

/// How far the work on a file is: rows or bytes of how many, 0 if that is not known.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    pub path: &'a Path,
    pub done: u64,
    pub total: u64,
}

/// Is told now and then how far the work is.
pub type Progress<'a> = &'a (dyn Fn(Step<'_>) + Sync);

/// `text` on one line, and without what would command a terminal: it may be from a hostile file.
#[must_use]
pub fn printable(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.to_string();
    }
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escape).collect()
}
