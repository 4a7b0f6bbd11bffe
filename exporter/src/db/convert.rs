//! One database as another: a find db of version 1 as version 2, a perf db from SQLite to text and back, a user's database
//! as one that is shipped. The name of the file that is written says what it becomes.

use std::path::Path;

use serde::Serialize;

use super::merge;
use super::name::{DbKind, Keys};
use super::policy::Policy;
use super::write::{Destination, LeftOut, Written};
use super::{DbError, Progress, Source};

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConvertReport {
    #[serde(flatten)]
    pub written: Written,
    pub left_out: LeftOut,
}

/// Reads the database at `input` as MIOpen does, and writes it to `out`.
///
/// # Errors
/// If `input` is no database, `out` not the name of one of its kind, or one of them fails.
pub fn convert(input: &Path, out: &Path, progress: Progress<'_>) -> Result<ConvertReport, DbError> {
    let destination = Destination::parse(out)?;
    let source = Source::open(input, progress)?;
    destination.expect(source.content.kind)?;
    destination.expect_keys(source.keys())?;
    let mut left_out = LeftOut::default();
    let written = match source.content.kind {
        DbKind::Find => destination.find_db(&left_out.find_db(&source)?)?,
        DbKind::Perf if source.keys() == Keys::BatchNorms => destination.norm_db(&left_out.norm_db(&source)?)?,
        DbKind::Perf => destination.perf_db(&left_out.perf_db(&source)?)?,
        DbKind::Kernel => merge::kernels(&[source], Policy::Newest, &destination, &mut left_out, progress)?,
    };
    Ok(ConvertReport { written, left_out })
}
