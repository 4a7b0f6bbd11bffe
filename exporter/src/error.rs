//! What can go wrong when files are written, and when they are read.

use std::path::{Path, PathBuf};

use bluefin_common::digest::Digest;
use bluefin_common::session::SessionName;
use bluefin_common::spec::SpecError;
use bluefin_common::store::StoreError;
use bluefin_common::wire::WireError;

/// Why an export wrote nothing.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("session {name}: not in the store, {known}")]
    NoSession {
        name: SessionName,
        /// The sessions that are there, for people.
        known: String,
    },
    #[error("kernel spec {digest}: not in the store, though outcomes name it")]
    NoSpec { digest: Digest },
    #[error("kernel spec {digest}: {source}")]
    SpecBytes { digest: Digest, source: WireError },
    #[error("kernel spec {digest}: {source}")]
    Spec { digest: Digest, source: Box<SpecError> },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{}: {source}", path.display())]
    Sqlite { path: PathBuf, source: rusqlite::Error },
    /// A text that the format has no way to hold.
    #[error("{format}: {field}: found {found:?}, expected {expected}")]
    Refused { format: &'static str, field: &'static str, found: String, expected: &'static str },
    #[error("{}: {source}", path.display())]
    Json { path: PathBuf, source: serde_json::Error },
    #[error("part of the export ended early: {reason}")]
    Task { reason: String },
}

impl ExportError {
    /// Whether the same export may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Store(error) => error.is_transient(),
            Self::Io { .. } | Self::Sqlite { .. } => true,
            Self::NoSession { .. }
            | Self::NoSpec { .. }
            | Self::SpecBytes { .. }
            | Self::Spec { .. }
            | Self::Refused { .. }
            | Self::Json { .. }
            | Self::Task { .. } => false,
        }
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        |source| Self::Io { path, source }
    }

    pub(crate) fn sqlite(path: &Path) -> impl FnOnce(rusqlite::Error) -> Self {
        let path = path.to_path_buf();
        |source| Self::Sqlite { path, source }
    }

    pub(crate) fn refused(format: &'static str, field: &'static str, found: &str, expected: &'static str) -> Self {
        Self::Refused { format, field, found: found.chars().take(120).collect(), expected }
    }
}

impl From<tokio::task::JoinError> for ExportError {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::Task { reason: error.to_string() }
    }
}

/// Why a text database can not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A text that the format has no way to hold.
    #[error(transparent)]
    Refused(#[from] ExportError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl WriteError {
    pub(crate) fn at(path: &Path) -> impl FnOnce(Self) -> ExportError {
        let path = path.to_path_buf();
        |error| match error {
            Self::Refused(error) => error,
            Self::Io(source) => ExportError::Io { path, source },
        }
    }
}

/// Why a file can not be read at all. What is wrong in single lines or rows is a [`Finding`](crate::Finding).
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("{name}: found {found} bytes, expected at most {limit}")]
    Size { name: String, found: u64, limit: u64 },
    #[error("{name}: {source}")]
    Io { name: String, source: std::io::Error },
    #[error("{name}: {source}")]
    Sqlite { name: String, source: rusqlite::Error },
    #[error("{name}: table {table}: {reason}")]
    Schema { name: String, table: &'static str, reason: String },
}

impl ReadError {
    pub(crate) fn sqlite(name: &str) -> impl FnOnce(rusqlite::Error) -> Self {
        let name = name.to_string();
        |source| Self::Sqlite { name, source }
    }
}
