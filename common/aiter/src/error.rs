//! Why a file can not be worked with.

use std::path::PathBuf;

/// What is wrong with a file, or with what was asked of it.
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
    /// A folder of other things.
    #[error("{}: found no CSV file, expected some", path.display())]
    NoFile {
        /// The folder.
        path: PathBuf,
    },
    /// A line of it is none of a CSV file.
    #[error("{}:{line}: found {found}, expected {expected}", path.display())]
    Line {
        /// Of the file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// What it says.
        found: String,
        /// What it could have said.
        expected: String,
    },
    /// There is nothing in it.
    #[error("{}: found an empty file, expected the names of columns", path.display())]
    Empty {
        /// Of the file.
        path: PathBuf,
    },
    /// Neither its name nor its header tells the family.
    #[error("{}: family: found columns {columns}, expected those of one family, or its name given", path.display())]
    Family {
        /// Of the file.
        path: PathBuf,
        /// Its header.
        columns: String,
    },
    /// What aiter has besides files of rows for shapes.
    #[error("{}: family: found {found}, expected a CSV file of one family, with rows for shapes", path.display())]
    Other {
        /// Of the file.
        path: PathBuf,
        /// What it is.
        found: &'static str,
    },
    /// A file of shapes that does not tell all that look-ups ask for.
    #[error("{}:{line}: column {column:?}: found {found}, expected {expected}", path.display())]
    Lacks {
        /// Of the file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// That is not there, or in which nothing stands.
        column: String,
        /// The columns that are there, or nothing.
        found: String,
        /// The columns that are asked for, and whose.
        expected: String,
    },
    /// Sizes of a GEMM, and nothing that tells whose.
    #[error("{}: family: found M,N,K alone, which several families tune, expected --family, or one family in --shapes, to say which", path.display())]
    AnyGemm {
        /// Of the file.
        path: PathBuf,
    },
    /// Files that do not belong together.
    #[error("{}: found a file of {found}, expected one of {expected}", path.display())]
    Mixed {
        /// The file that is other than the first.
        path: PathBuf,
        /// What it is of.
        found: String,
        /// What the first is of.
        expected: String,
    },
}

impl Error {
    /// Whether it is of a file that may stand beside aiter's and is none of a known family.
    #[must_use]
    pub const fn is_no_sheet(&self) -> bool {
        matches!(self, Self::Family { .. } | Self::Other { .. } | Self::Empty { .. })
    }

    /// Whether it is of a file that is broken as a CSV file.
    #[must_use]
    pub const fn is_torn(&self) -> bool {
        matches!(self, Self::Line { .. })
    }

    /// The file or folder that it is of.
    #[must_use]
    pub fn path(&self) -> &std::path::Path {
        match self {
            Self::File { path, .. }
            | Self::NoFile { path }
            | Self::Line { path, .. }
            | Self::Empty { path }
            | Self::Family { path, .. }
            | Self::Other { path, .. }
            | Self::Lacks { path, .. }
            | Self::AnyGemm { path }
            | Self::Mixed { path, .. } => path,
        }
    }

    /// Names the file of an error of the system.
    pub fn at(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        |source| Self::File { path, source }
    }
}
