//! Opening and closing a state file.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::sqlite::lock::{StateLock, Terms};
use bluefin_common::file_system::FileSystem;
use bluefin_common::limits;
use bluefin_common::store::StoreError;

/// In the header of every state file; tells one from any other SQLite database. `BFIN`.
const APPLICATION_ID: i32 = 0x4246_494e;

/// Raised with every change of the schema.
const VERSION: i32 = 1;

/// How long a reader waits for the moments at which the writer has the file for itself.
const BUSY: Duration = Duration::from_secs(5);

/// How long the writer waits for readers to be gone before it closes the file.
const CLOSING: Duration = Duration::from_millis(500);

/// Statements that are kept prepared: more than the store has.
const STATEMENTS: usize = 64;

/// What SQLite keeps beside a file while it is changed, by the end of its name.
const BESIDE: [&str; 4] = ["", "-journal", "-wal", "-shm"];

/// How changes become durable as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Journal {
    /// Fast, and read beside a writer. All who use the file share memory, so they are on one machine.
    WriteAhead,
    /// Needs nothing but files.
    Rollback,
}

/// Opens the file at `path`, or makes it; the caller holds its lock. One that can not be made whole is not left behind.
pub(super) fn open(path: &Path, on: FileSystem) -> Result<Connection, StoreError> {
    refuse_folder(path)?;
    let made = !path.try_exists().unwrap_or(true);
    let journal = if on.is_network() { Journal::Rollback } else { Journal::WriteAhead };
    let opened = Connection::open(path).map_err(|error| failed(path, &error)).and_then(|connection| {
        prepare(&connection, path, journal).map_err(|error| failed(path, &error))??;
        Ok(connection)
    });
    if opened.is_err() && made {
        for end in BESIDE {
            let mut name = path.as_os_str().to_owned();
            name.push(end);
            // Most are not there.
            let _ = std::fs::remove_file(name);
        }
    }
    opened.map_err(|error| match error {
        StoreError::Unavailable { store, reason } if on.is_network() => {
            let reason = format!(
                "{reason}; it is on a file system ({on}) whose locks may not work here: keep it on a local one"
            );
            StoreError::Unavailable { store, reason }
        }
        error => error,
    })
}

pub(super) fn open_in_memory(path: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open_in_memory().map_err(|error| failed(path, &error))?;
    prepare(&connection, path, Journal::WriteAhead).map_err(|error| failed(path, &error))??;
    Ok(connection)
}

pub(super) fn open_read_only(path: &Path) -> Result<Connection, StoreError> {
    refuse_folder(path)?;
    if matches!(path.try_exists(), Ok(false)) {
        let reason = format!("{}: found no such file, expected the state of a `bluefin tune`", path.display());
        return Err(StoreError::Misconfigured { reason });
    }
    let opened = match reader(path) {
        // Its writer was killed amid a change of the file itself: what there is of it only a writer can take back.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ReadOnly) => {
            // One that lives on another machine may be amid it just now, and its locks need not reach this one.
            let lock = StateLock::acquire(&super::real(path)?, FileSystem::of(path), Terms::default())?;
            let rolled_back = roll_back(path);
            drop(lock);
            rolled_back.and_then(|()| reader(path))
        }
        opened => opened,
    };
    let (connection, checked) = opened.map_err(|error| failed(path, &error))?;
    if checked? == Found::Nothing {
        return Err(StoreError::Misconfigured { reason: format!("{}: found an empty file", path.display()) });
    }
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

fn reader(path: &Path) -> rusqlite::Result<(Connection, Result<Found, StoreError>)> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    // Room for what leads to a million outcomes; they are read once each.
    connection.pragma_update(None, "cache_size", -(8 << 10))?;
    let checked = check(&connection, path)?;
    Ok((connection, checked))
}

/// Lets SQLite take back what a killed writer left in the journal. One that is alive holds a lock, and is left alone.
fn roll_back(path: &Path) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
}

/// SQLite opens a folder for reading, and only then fails, as if the disk were broken.
fn refuse_folder(path: &Path) -> Result<(), StoreError> {
    if path.is_dir() {
        return Err(StoreError::Misconfigured {
            reason: format!("{}: found a folder, expected a state file", path.display()),
        });
    }
    Ok(())
}

/// Leaves one file that needs nothing beside it and can be read from a read-only disk, too.
pub(super) fn tidy(path: &Path, connection: &Connection) {
    let tidied = connection
        .busy_timeout(CLOSING)
        .and_then(|()| connection.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(())));
    if let Err(error) = tidied {
        // Someone reads it: nothing is lost, but the file beside it belongs to it until it is opened again.
        tracing::warn!(path = %path.display(), %error, "state file in use, its write-ahead log stays beside it");
    }
}

#[derive(PartialEq, Eq)]
enum Found {
    Nothing,
    State,
}

fn prepare(connection: &Connection, path: &Path, journal: Journal) -> rusqlite::Result<Result<(), StoreError>> {
    connection.busy_timeout(BUSY)?;
    if journal == Journal::Rollback {
        // A log that was carried here is read without shared memory by whoever is alone.
        connection.pragma_update_and_check(None, "locking_mode", "EXCLUSIVE", |_| Ok(()))?;
    }
    // First of all: nothing may be written to a file that is someone else's.
    let found = match check(connection, path)? {
        Ok(found) => found,
        Err(error) => return Ok(Err(error)),
    };
    match journal {
        Journal::WriteAhead => {
            connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
            // On disk before an answer is given.
            connection.pragma_update(None, "synchronous", "FULL")?;
        }
        Journal::Rollback => {
            connection.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
            // The same, which here is also that the journal is gone.
            connection.pragma_update(None, "synchronous", "EXTRA")?;
            connection.pragma_update_and_check(None, "locking_mode", "NORMAL", |_| Ok(()))?;
            // The next to read lets the lock go.
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        }
    }
    connection.pragma_update_and_check(None, "journal_size_limit", 64 << 20, |_| Ok(()))?;
    connection.pragma_update(None, "cache_size", -(32 << 10))?;
    if found == Found::Nothing {
        connection.execute_batch(&format!(
            "BEGIN IMMEDIATE; {}; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}; COMMIT;",
            include_str!("schema.sql").trim_end().trim_end_matches(';')
        ))?;
    }
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(Ok(()))
}

fn check(connection: &Connection, path: &Path) -> rusqlite::Result<Result<Found, StoreError>> {
    let number = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let (application, version) = (number("application_id")?, number("user_version")?);
    let refuse =
        |reason: String| Ok(Err(StoreError::Misconfigured { reason: format!("{}: {reason}", path.display()) }));
    if application == APPLICATION_ID && version == VERSION {
        Ok(Ok(Found::State))
    } else if application == APPLICATION_ID {
        refuse(format!("found state of version {version}, expected {VERSION}; written by another version of bluefin"))
    } else if application == 0 && version == 0 && tables == 0 {
        Ok(Ok(Found::Nothing))
    } else {
        refuse("found another program's database, expected a bluefin state file".to_string())
    }
}

/// What an error of SQLite means to a caller.
pub(super) fn failed(path: &Path, error: &rusqlite::Error) -> StoreError {
    let store = path.display().to_string();
    let written = matches!(error.sqlite_error_code(), Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure));
    if let Some(limit) = limits::file_size_met().filter(|_| written) {
        return StoreError::Lost { store, reason: limit.to_string() };
    }
    match error.sqlite_error_code() {
        Some(
            ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::OutOfMemory,
        ) => StoreError::Unavailable { store, reason: error.to_string() },
        Some(ErrorCode::NotADatabase) => {
            StoreError::Misconfigured { reason: format!("{store}: not a bluefin state file") }
        }
        Some(ErrorCode::ReadOnly) => StoreError::Misconfigured { reason: format!("{store}: open for reading only") },
        _ => StoreError::Misconfigured { reason: format!("{store}: {error}") },
    }
}
