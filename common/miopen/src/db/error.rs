//! What can go wrong when databases are written, and when they are read.

/// A text that a format has no way to hold.
#[derive(Debug, thiserror::Error)]
#[error("{format}: {field}: found {found:?}, expected {expected}")]
pub struct Refused {
    pub format: &'static str,
    pub field: &'static str,
    pub found: String,
    pub expected: &'static str,
}

impl Refused {
    pub(crate) fn new(format: &'static str, field: &'static str, found: &str, expected: &'static str) -> Self {
        Self { format, field, found: found.chars().take(120).collect(), expected }
    }
}

/// Why a database can not be written. Its path is the caller's to name.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

/// Why a file can not be read at all. What is wrong in single lines or rows is a [`Finding`](super::Finding).
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("{name}: found {found} bytes, expected at most {limit}")]
    Size { name: String, found: u64, limit: u64 },
    #[error("{name}: {source}")]
    Io { name: String, source: std::io::Error },
    #[error("{name}: {source}")]
    Sqlite { name: String, source: rusqlite::Error },
    #[error("{name}: damaged: {damage}")]
    Damaged { name: String, damage: String },
    #[error("{name}: table {table}: {reason}")]
    Schema { name: String, table: &'static str, reason: String },
}

impl ReadError {
    pub(crate) fn sqlite(name: &str) -> impl FnOnce(rusqlite::Error) -> Self {
        let name = name.to_string();
        |source| Self::Sqlite { name, source }
    }
}
