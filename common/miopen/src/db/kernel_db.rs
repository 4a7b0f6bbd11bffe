//! MIOpen's kernel database: code objects by source file and compiler options, in SQLite (MIOpen 3.3,
//! src/include/miopen/kern_db.hpp).

mod reader;

use std::path::Path;

use bluefin_common::arch::Vendor;
use bluefin_common::target::Target;
use rusqlite::Connection;

use crate::db::error::{ReadError, Refused};
use crate::db::findings::{FindingKind, Findings};
use crate::db::kernel_codec::{compress, decompress, md5_hex};
use crate::db::sqlite;

pub use reader::{KernelHead, KernelReader};

const FORMAT: &str = "kernel db";
const SCHEMA: &str = "CREATE TABLE `kern_db` (`id` INTEGER PRIMARY KEY ASC,`kernel_name` TEXT NOT NULL,\
    `kernel_args` TEXT NOT NULL,`kernel_blob` BLOB NOT NULL,`kernel_hash` TEXT NOT NULL,\
    `uncompressed_size` INT NOT NULL);";
const INDEX: &str = "CREATE UNIQUE INDEX `idx_kern_db` ON kern_db(kernel_name, kernel_args);";
const COLUMNS: [&str; 6] = ["id", "kernel_name", "kernel_args", "kernel_blob", "kernel_hash", "uncompressed_size"];

/// What MIOpen looks a kernel up by. Both texts must match exactly.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelName {
    /// Source file with its extension, and `.o`.
    pub name: String,
    /// Compiler options, each behind a blank, the first one too.
    pub args: String,
}

impl KernelName {
    /// What MIOpen calls a code object that was compiled for `target` from `file` with `options`, both as a
    /// [`CodeObject`](bluefin_common::artifact::CodeObject) has them. What it compiles itself it calls by the source file and
    /// `.o`, and puts the processor behind the options of all but MLIR, which names its own (`src/hip/handlehip.cpp`).
    #[must_use]
    pub fn of(file: &str, options: &str, target: &Target) -> Self {
        let name = if file.ends_with(".o") { file.to_string() } else { format!("{file}.o") };
        let arch = target.arch();
        let named = options.contains("-mcpu=") || name.ends_with(".mlir.o") || target.vendor() != Some(Vendor::Amd);
        let args = if named { options.to_string() } else { format!("{options} -mcpu={arch}") };
        Self { name, args }
    }

    /// Refuses what MIOpen could not look up: it puts both into SQL between quotes, without escaping.
    ///
    /// # Errors
    /// A quote in either.
    pub fn check(&self) -> Result<(), Refused> {
        for (field, text) in [("kernel_name", &self.name), ("kernel_args", &self.args)] {
            if text.contains(['\'', '\0']) {
                return Err(Refused::new(FORMAT, field, text, "a text without quotes"));
            }
        }
        Ok(())
    }
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelRow {
    pub kernel: KernelName,
    /// bzip2, or the code object itself if `uncompressed_size` is 0.
    pub blob: Vec<u8>,
    /// Lowercase hex MD5 of the code object.
    pub hash: String,
    /// Bytes of the code object; 0 for one that is not compressed.
    pub uncompressed_size: u64,
}

/// What is wrong with a row: MIOpen throws when it meets it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("kernel {name}{args}: {reason}")]
pub struct BadKernel {
    pub name: String,
    pub args: String,
    /// Begins with the column.
    pub reason: String,
}

impl KernelRow {
    /// Compresses `code`, if that makes it smaller.
    ///
    /// # Errors
    /// A name that MIOpen could not look up.
    pub fn new(kernel: KernelName, code: &[u8]) -> Result<Self, Refused> {
        kernel.check()?;
        let hash = md5_hex(code);
        let (blob, uncompressed_size) = match compress(code) {
            Some(blob) => (blob, code.len() as u64),
            None => (code.to_vec(), 0),
        };
        Ok(Self { kernel, blob, hash, uncompressed_size })
    }

    /// The code object, verified as MIOpen does.
    ///
    /// # Errors
    /// A blob that does not decompress, or not to the size and hash of the row.
    pub fn code(&self) -> Result<Vec<u8>, BadKernel> {
        let bad = |reason| {
            let (name, args) = (self.kernel.name.clone(), self.kernel.args.clone());
            BadKernel { name, args, reason }
        };
        let code = match self.uncompressed_size {
            0 => self.blob.clone(),
            size => decompress(&self.blob, size).map_err(bad)?,
        };
        let hash = md5_hex(&code);
        if hash != self.hash {
            let found: String = self.hash.chars().take(80).collect();
            return Err(bad(format!("kernel_hash: found {found:?}, expected {hash}, of its content")));
        }
        Ok(code)
    }
}

/// A kernel database that is being written. Dropped before [`Self::finish`] it leaves a broken file.
#[derive(Debug)]
pub struct KernelDbWriter {
    connection: Connection,
    rows: u64,
}

impl KernelDbWriter {
    /// Starts to fill the empty file at `path`.
    ///
    /// # Errors
    /// If SQLite fails.
    pub fn create(path: &Path) -> rusqlite::Result<Self> {
        let connection = sqlite::create(path)?;
        connection.execute_batch("BEGIN")?;
        connection.execute_batch(SCHEMA)?;
        Ok(Self { connection, rows: 0 })
    }

    /// Adds a row. Rows in the same order give the same file.
    ///
    /// # Errors
    /// If SQLite fails.
    pub fn add(&mut self, row: &KernelRow) -> rusqlite::Result<()> {
        let mut insert = self.connection.prepare_cached(
            "INSERT INTO kern_db(kernel_name,kernel_args,kernel_blob,kernel_hash,uncompressed_size) VALUES(?1,?2,?3,?4,?5)",
        )?;
        let size = i64::try_from(row.uncompressed_size).unwrap_or(i64::MAX);
        insert.execute((&row.kernel.name, &row.kernel.args, &row.blob, &row.hash, size))?;
        self.rows += 1;
        Ok(())
    }

    /// Ends the file. Returns its number of rows.
    ///
    /// # Errors
    /// If SQLite fails, or two rows have the same name and options.
    pub fn finish(self) -> rusqlite::Result<u64> {
        self.connection.execute_batch(INDEX)?;
        self.connection.execute_batch("COMMIT")?;
        self.connection.close().map_err(|(_, error)| error)?;
        Ok(self.rows)
    }
}

/// A kernel database, read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelDb {
    /// By name and options.
    pub rows: Vec<KernelRow>,
    pub findings: Findings,
}

impl KernelDb {
    /// Reads the bytes of its file; `name` is for errors. Rows are not verified: see [`KernelRow::code`].
    ///
    /// # Errors
    /// If it is too large, no SQLite database, or not one with this table.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, ReadError> {
        let mut db = Self::default();
        let mut findings = Findings::default();
        scan(name, &sqlite::open_bytes(name, bytes)?, &mut findings, |_, row| db.rows.push(row))?;
        db.rows.sort_by(|a, b| a.kernel.cmp(&b.kernel));
        db.findings = findings;
        Ok(db)
    }

    /// Reads its file row by row, each with its id: kernel databases can be larger than memory. Rows that make no sense
    /// are returned as findings.
    ///
    /// # Errors
    /// As for [`Self::parse`].
    pub fn scan(path: &Path, take: impl FnMut(u64, KernelRow)) -> Result<Findings, ReadError> {
        let mut findings = Findings::default();
        scan(&path.display().to_string(), &sqlite::open_file(path)?, &mut findings, take)?;
        Ok(findings)
    }
}

fn scan(
    name: &str,
    connection: &Connection,
    findings: &mut Findings,
    mut take: impl FnMut(u64, KernelRow),
) -> Result<(), ReadError> {
    sqlite::check_table(connection, name, "kern_db", &COLUMNS)?;
    let mut read = || {
        let mut statement = connection.prepare(&format!("SELECT {} FROM kern_db ORDER BY id", COLUMNS.join(",")))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let id = row.get_ref(0)?.as_i64().unwrap_or_default();
            let read = || {
                let kernel = KernelName { name: row.get(1)?, args: row.get(2)? };
                let size: i64 = row.get(5)?;
                let uncompressed_size =
                    u64::try_from(size).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(5, size))?;
                Ok(KernelRow { kernel, blob: row.get(3)?, hash: row.get(4)?, uncompressed_size })
            };
            match read() {
                Ok(row) => take(id.unsigned_abs(), row),
                Err(error @ rusqlite::Error::SqliteFailure(..)) => return Err(error),
                Err(error) => {
                    findings.add(id.unsigned_abs(), FindingKind::Column, || format!("kern_db {id}: {error}; skipped"));
                }
            }
        }
        Ok(())
    };
    read().map_err(ReadError::sqlite(name))
}

#[cfg(test)]
mod tests;
