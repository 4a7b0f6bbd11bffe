//! Why a database file can not be worked on.

use std::path::{Path, PathBuf};

use bluefin_common::files::FileError;
use bluefin_miopen::db::{ReadError, WriteError};

/// Why nothing was done. What is wrong in single lines or rows is a finding.
#[derive(Debug, thiserror::Error)]
pub enum DbError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}: found {found} bytes, expected at most {limit}", path.display())]
    Size { path: PathBuf, found: u64, limit: u64 },
    #[error("{}: found {found}, expected {expected}", path.display())]
    Kind { path: PathBuf, found: String, expected: &'static str },
    #[error("{}: {source}", path.display())]
    Write { path: PathBuf, source: WriteError },
    #[error("policy fastest: {0}")]
    Fastest(&'static str),
}

impl DbError {
    pub(crate) fn kind(path: &Path, found: impl Into<String>, expected: &'static str) -> Self {
        Self::Kind { path: path.to_path_buf(), found: found.into(), expected }
    }

    /// Names the file of an error.
    pub(crate) fn writing<E: Into<WriteError>>(path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_path_buf();
        |error| Self::Write { path, source: error.into() }
    }
}
