//! What can go wrong when a session is exported.

use std::path::{Path, PathBuf};

use bluefin_common::files::FileError;
use bluefin_common::session::SessionName;
use bluefin_common::store::StoreError;
use bluefin_miopen::db::{Refused, WriteError};

/// Why an export wrote nothing.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("session {name}: there is none of that name; {instead}")]
    NoSession {
        name: SessionName,
        /// The session that may have been meant, or those that are there, for people.
        instead: String,
    },
    #[error("{}: {source}", path.display())]
    Sqlite { path: PathBuf, source: rusqlite::Error },
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("part of the export ended early: {reason}")]
    Task { reason: String },
}

impl ExportError {
    /// Whether the same export may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Store(error) => error.is_transient(),
            Self::File(_) | Self::Sqlite { .. } => true,
            Self::NoSession { .. } | Self::Refused(_) | Self::Task { .. } => false,
        }
    }

    /// Names the file of an error.
    pub(crate) fn at<E: Into<WriteError>>(path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_path_buf();
        |error| match error.into() {
            WriteError::Refused(refused) => Self::Refused(refused),
            WriteError::Io(source) => Self::File(FileError { path, source }),
            WriteError::Sqlite(source) => Self::Sqlite { path, source },
        }
    }
}

impl From<tokio::task::JoinError> for ExportError {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::Task { reason: error.to_string() }
    }
}
