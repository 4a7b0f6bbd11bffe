//! SQLite files: written so that the same rows give the same bytes, read with distrust.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, MAIN_DB, OpenFlags, OptionalExtension as _};

use crate::db::error::ReadError;

/// Largest file that is read from memory.
const MAX_BYTES: usize = 1 << 30;
/// How long others may have a file that is to be changed.
const BUSY: Duration = Duration::from_secs(30);
/// Where a header says whether the file has a write-ahead log: 2 for yes, 1 for no, for writers and for readers.
const WAL_FLAGS: std::ops::Range<usize> = 18..20;

/// Opens the empty file at `path` to be filled in one transaction. A crash leaves a broken file: it must be one that
/// nobody knows yet.
pub(crate) fn create(path: &Path) -> rusqlite::Result<Connection> {
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    // Neither journal mode nor synchronous leaves a trace in the file.
    connection.execute_batch(
        "PRAGMA page_size = 4096; PRAGMA encoding = 'UTF-8'; PRAGMA auto_vacuum = NONE; PRAGMA user_version = 0; \
         PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; \
         PRAGMA cache_size = -4096; PRAGMA threads = 0;",
    )?;
    Ok(connection)
}

/// Opens the database whose file is `bytes`, read only.
pub(crate) fn open_bytes(name: &str, bytes: &[u8]) -> Result<Connection, ReadError> {
    if bytes.len() > MAX_BYTES {
        let (found, limit) = (bytes.len() as u64, MAX_BYTES as u64);
        return Err(ReadError::Size { name: name.to_string(), found, limit });
    }
    let mut connection = Connection::open_in_memory().map_err(ReadError::sqlite(name))?;
    let mut bytes = bytes.to_vec();
    // A database in memory can have no write-ahead log.
    if let Some(flags) = bytes.get_mut(WAL_FLAGS) {
        flags.fill(1);
    }
    connection.deserialize_read_exact(MAIN_DB, bytes.as_slice(), bytes.len(), true).map_err(ReadError::sqlite(name))?;
    harden(&connection).map_err(ReadError::sqlite(name))?;
    Ok(connection)
}

/// Opens the file at `path` to change what is in it, beside others that have it open.
pub(crate) fn open_to_change(path: &Path) -> Result<Connection, ReadError> {
    let open = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY)?;
        harden(&connection)?;
        Ok(connection)
    };
    open().map_err(ReadError::sqlite(&path.display().to_string()))
}

/// Opens the file at `path`, read only.
pub(crate) fn open_file(path: &Path) -> Result<Connection, ReadError> {
    let open = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        harden(&connection)?;
        Ok(connection)
    };
    open().map_err(ReadError::sqlite(&path.display().to_string()))
}

/// Whether a file that begins with `bytes` is an SQLite database.
#[must_use]
pub fn is_sqlite(bytes: &[u8]) -> bool {
    bytes.starts_with(b"SQLite format 3\0")
}

/// The names of the tables and indexes in the file at `path`.
///
/// # Errors
/// If it is no SQLite database.
pub fn tables(path: &Path) -> Result<BTreeSet<String>, ReadError> {
    let connection = open_file(path)?;
    let read = || {
        // More than any database of MIOpen's has.
        let mut statement = connection.prepare("SELECT name FROM sqlite_schema LIMIT 1000")?;
        let names = statement.query_map([], |row| row.get(0))?;
        names.collect::<rusqlite::Result<_>>()
    };
    read().map_err(ReadError::sqlite(&path.display().to_string()))
}

/// Lets nothing of the schema run code.
fn harden(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.execute_batch("PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0;")
}

/// Checks that `table` is an ordinary table with at least `columns`, as MIOpen does; more may be there.
pub(crate) fn check_table(
    connection: &Connection,
    name: &str,
    table: &'static str,
    columns: &[&str],
) -> Result<(), ReadError> {
    let schema = |reason: String| ReadError::Schema { name: name.to_string(), table, reason };
    let found: Option<(String, Option<String>)> = connection
        .query_row("SELECT type, sql FROM sqlite_schema WHERE name = ?1", [table], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
        .map_err(ReadError::sqlite(name))?;
    let Some((kind, sql)) = found else { return Err(schema("not there".to_string())) };
    // Views and virtual tables can take any time to read.
    let sql = sql.unwrap_or_default().to_ascii_uppercase();
    if kind != "table" || !sql.trim_start().starts_with("CREATE TABLE") {
        return Err(schema(format!("found a {kind} that is not an ordinary table")));
    }
    let mut missing: BTreeSet<&str> = columns.iter().copied().collect();
    let mut info =
        connection.prepare("SELECT name, hidden FROM pragma_table_xinfo(?1)").map_err(ReadError::sqlite(name))?;
    let rows = info.query_map([table], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)));
    for row in rows.map_err(ReadError::sqlite(name))? {
        let (column, hidden) = row.map_err(ReadError::sqlite(name))?;
        if hidden != 0 {
            return Err(schema(format!("column {column}: found a computed one, expected a stored one")));
        }
        missing.remove(column.as_str());
    }
    match missing.first() {
        Some(column) => Err(schema(format!("column {column}: not there"))),
        None => Ok(()),
    }
}

/// Checks of the file header that every writer here must pass.
#[cfg(test)]
pub(crate) fn check_header(bytes: &[u8]) {
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!(&bytes[..16], b"SQLite format 3\0");
    assert_eq!(u16::from_be_bytes([bytes[16], bytes[17]]), 4096, "page size");
    assert_eq!(&bytes[WAL_FLAGS], [1, 1], "journal mode");
    assert_eq!(word(24), word(92), "change counter and the version that it is valid for");
    assert_eq!((word(56), word(60), word(68)), (1, 0, 0), "UTF-8, user version, application id");
    assert_eq!(word(36), 0, "free pages");
}
