//! Why something captured can not be worked with.

use std::path::PathBuf;

/// What is wrong with a file, a folder, or what is in it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It can not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Of the file.
        path: PathBuf,
        /// What the system says of it.
        source: std::io::Error,
    },
    /// It is no document of its kind.
    #[error("{}: {reason}, expected {expected}", path.display())]
    Document {
        /// Of the file.
        path: PathBuf,
        /// What was found.
        reason: String,
        /// What it was taken for.
        expected: &'static str,
    },
    /// It is of a release that came later.
    #[error("{}: format: found {found}, expected {expected}", path.display())]
    Format {
        /// Of the file.
        path: PathBuf,
        /// What it says.
        found: u32,
        /// What is known.
        expected: u32,
    },
    /// No kernel is in it.
    #[error("{}: found no folder with a capture.json, expected what `bluefin capture --triton` wrote", path.display())]
    Nothing {
        /// The folder.
        path: PathBuf,
    },
}

impl Error {
    pub(crate) fn file(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::File { path: path.into(), source }
    }
}
