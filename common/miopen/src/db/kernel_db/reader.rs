//! Kernel databases whose rows are read one by one, in an order of one's own: names fit into memory, code objects may not.

use std::path::Path;

use rusqlite::{Connection, Row};

use crate::db::error::ReadError;
use crate::db::findings::{FindingKind, Findings};
use crate::db::kernel_db::{COLUMNS, KernelName, KernelRow};
use crate::db::sqlite;

/// A row without its code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelHead {
    /// What [`KernelReader::row`] finds it by.
    pub id: i64,
    pub kernel: KernelName,
    /// Lowercase hex MD5 of the code object.
    pub hash: String,
    /// Bytes of the code object; 0 for one that is not compressed.
    pub uncompressed_size: u64,
}

/// A kernel database that is open for reading.
#[derive(Debug)]
pub struct KernelReader {
    name: String,
    connection: Connection,
}

impl KernelReader {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// If it is no SQLite database, or not one with this table.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let (name, connection) = (path.display().to_string(), sqlite::open_file(path)?);
        sqlite::check_table(&connection, &name, "kern_db", &COLUMNS)?;
        Ok(Self { name, connection })
    }

    /// The number of rows.
    ///
    /// # Errors
    /// If SQLite fails.
    pub fn count(&self) -> Result<u64, ReadError> {
        let count = self.connection.query_row("SELECT count(*) FROM kern_db", [], |row| row.get::<_, i64>(0));
        Ok(count.map_err(ReadError::sqlite(&self.name))?.unsigned_abs())
    }

    /// Whether the file is whole. Rows can be counted in a damaged one, too.
    ///
    /// # Errors
    /// What SQLite finds wrong with it first, or if it can not even look.
    pub fn check_whole(&self) -> Result<(), ReadError> {
        let found = self.connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
        match found.map_err(ReadError::sqlite(&self.name))? {
            fine if fine == "ok" => Ok(()),
            damage => Err(ReadError::Damaged { name: self.name.clone(), damage: damage.replace('\n', " ") }),
        }
    }

    /// Shows every row to `take`. Rows that make no sense are returned as findings.
    ///
    /// # Errors
    /// If SQLite fails.
    pub fn heads(&self, mut take: impl FnMut(KernelHead)) -> Result<Findings, ReadError> {
        let mut findings = Findings::default();
        let mut read = || {
            // The row id, which is what `id` stands for, finds a row at once in whatever table.
            let sql = "SELECT rowid,kernel_name,kernel_args,kernel_hash,uncompressed_size FROM kern_db ORDER BY rowid";
            let mut statement = self.connection.prepare(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                match head(row) {
                    Ok(head) => take(head),
                    Err(error @ rusqlite::Error::SqliteFailure(..)) => return Err(error),
                    Err(error) => {
                        let id: i64 = row.get(0)?;
                        findings
                            .add(id.unsigned_abs(), FindingKind::Column, || format!("kern_db {id}: {error}; skipped"));
                    }
                }
            }
            Ok(())
        };
        read().map_err(ReadError::sqlite(&self.name))?;
        Ok(findings)
    }

    /// The row that a head belongs to.
    ///
    /// # Errors
    /// If SQLite fails, or its code object is no blob.
    pub fn row(&self, head: KernelHead) -> Result<KernelRow, ReadError> {
        let read = || {
            let mut statement = self.connection.prepare_cached("SELECT kernel_blob FROM kern_db WHERE rowid = ?1")?;
            statement.query_row([head.id], |row| row.get(0))
        };
        let blob = read().map_err(ReadError::sqlite(&self.name))?;
        let KernelHead { kernel, hash, uncompressed_size, .. } = head;
        Ok(KernelRow { kernel, blob, hash, uncompressed_size })
    }
}

fn head(row: &Row<'_>) -> rusqlite::Result<KernelHead> {
    let size: i64 = row.get(4)?;
    let uncompressed_size = u64::try_from(size).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(4, size))?;
    let kernel = KernelName { name: row.get(1)?, args: row.get(2)? };
    Ok(KernelHead { id: row.get(0)?, kernel, hash: row.get(3)?, uncompressed_size })
}
