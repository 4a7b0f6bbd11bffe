//! Two databases of one kind, compared by what they mean.

mod find;
mod rows;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use find::{Best, Change, FindDiff, KeyChange};
pub use rows::{RowChange, RowsDiff};

use super::name::{DbKind, Keys};
use super::{DbError, Progress, Source};

/// What to compare, and how closely.
#[derive(Clone, Debug)]
pub struct DiffRequest {
    pub before: PathBuf,
    pub after: PathBuf,
    /// Times that differ by less are tied: 0.05 for five percent.
    pub noise: f64,
    /// Times that grow by more are regressions.
    pub threshold: f64,
}

/// How two databases differ.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Diff {
    Find(FindDiff),
    Perf(RowsDiff),
    Kernel(RowsDiff),
}

impl Diff {
    /// Keys that became slower by more than the threshold. Only find dbs hold times.
    #[must_use]
    pub fn regressions(&self) -> u64 {
        match self {
            Self::Find(diff) => diff.regressions,
            Self::Perf(_) | Self::Kernel(_) => 0,
        }
    }

    /// Keys, or rows, that are no longer there.
    #[must_use]
    pub fn gone(&self) -> u64 {
        match self {
            Self::Find(diff) => diff.counts.get(&Change::Gone).copied().unwrap_or(0),
            Self::Perf(diff) | Self::Kernel(diff) => diff.gone,
        }
    }
}

/// Compares two databases of one kind.
///
/// # Errors
/// If they are of two kinds, or one of them can not be read.
pub fn diff(request: &DiffRequest, progress: Progress<'_>) -> Result<Diff, DbError> {
    let open = |path: &Path| Source::open(path, progress);
    let (before, after) = (open(&request.before)?, open(&request.after)?);
    after.expect(before.content.kind)?;
    if after.keys() != before.keys() {
        let found = format!("a {}{}", after.content.kind, after.keys().suffix());
        return Err(DbError::kind(&after.path, found, "one with keys of what the other is of"));
    }
    Ok(match before.content.kind {
        DbKind::Find => Diff::Find(find::diff(&before.find_db()?, &after.find_db()?, request.noise, request.threshold)),
        DbKind::Perf if before.keys() == Keys::BatchNorms => {
            let read = |source: &Source| Ok::<_, DbError>(source.norm_db(|_, _, _, _| {})?.records);
            Diff::Perf(rows::perf(&read(&before)?, &read(&after)?))
        }
        DbKind::Perf => Diff::Perf(rows::perf(&before.perf_db(|_| {})?.records, &after.perf_db(|_| {})?.records)),
        DbKind::Kernel => Diff::Kernel(rows::kernels(&before, &after)?),
    })
}

/// A share, read as `5%` or `0.05`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share(pub f64);

impl std::str::FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (number, unit) = match text.strip_suffix('%') {
            Some(percent) => (percent.trim_end(), 100.0),
            None => (text, 1.0),
        };
        let share =
            number.parse::<f64>().ok().map(|number| number / unit).filter(|share| (0.0..=1000.0).contains(share));
        share.map(Self).ok_or_else(|| "expected a share such as 5% or 0.05".to_string())
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0 * 100.0)
    }
}

#[cfg(test)]
mod tests;
