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
