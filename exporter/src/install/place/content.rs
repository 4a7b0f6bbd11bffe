//! Files, what is in them, and how they are kept.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use bluefin_common::digest::Digest;
use bluefin_common::files::FileError;
use bluefin_miopen::db::is_sqlite;

use super::PlaceError;

/// `None` if there is no file.
pub(super) fn digest(path: &Path) -> Result<Option<Digest>, FileError> {
    match Digest::of_file(path) {
        Ok(digest) => Ok(Some(digest)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FileError { path: path.to_path_buf(), source: error }),
    }
}

/// A durable copy with the usual permissions. Returns its size.
pub(super) fn copy(from: &Path, to: &Path) -> Result<u64, FileError> {
    let mut source = File::open(from).map_err(FileError::at(from))?;
    let mut all = || {
        let mut file = File::create(to)?;
        let bytes = io::copy(&mut source, &mut file)?;
        file.flush()?;
        file.sync_all()?;
        Ok(bytes)
    };
    all().map_err(FileError::at(to))
}

/// Keeps what is there: by another link to it, or by a copy where there are no links.
pub(super) fn keep(path: &Path, old: &Path) -> Result<(), FileError> {
    match std::fs::hard_link(path, old) {
        Ok(()) => Ok(()),
        Err(_) => copy(path, old).map(|_| ()),
    }
}

/// A database in SQLite whose log is there is open somewhere, or was left by a crash: the log of the old file would be
/// taken for one of the new.
pub(super) fn refuse_log(path: &Path) -> Result<(), PlaceError> {
    if std::fs::metadata(with_ending(path, "-wal")).is_ok_and(|log| log.len() > 0) {
        let reason = "has a write-ahead log (-wal): end the processes that use it, or open it once with sqlite3";
        return Err(PlaceError::Refused { path: path.to_path_buf(), reason: reason.to_string() });
    }
    Ok(())
}

/// The digest of a file as it was installed, whatever SQLite counts in its header since: MIOpen has a user's databases keep a log
/// when it opens them, which changes nothing else. `None` if there is no file.
pub(super) fn settled(path: &Path) -> Result<Option<Digest>, FileError> {
    /// Versions of the format, and what SQLite counts at each write: of changes, and of itself.
    const COUNTED: [Range<usize>; 3] = [18..20, 24..28, 92..100];
    let read = || {
        let mut file = File::open(path)?;
        let mut head = Vec::new();
        (&mut file).take(100).read_to_end(&mut head)?;
        if is_sqlite(&head) {
            for counted in COUNTED {
                if let Some(bytes) = head.get_mut(counted) {
                    bytes.fill(0);
                }
            }
        }
        Digest::of_reader(head.as_slice().chain(file))
    };
    match read() {
        Ok(digest) => Ok(Some(digest)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FileError { path: path.to_path_buf(), source: error }),
    }
}

/// A file beside another.
pub(super) fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(ending);
    name.into()
}

/// Removes a file that may not be there.
pub(super) fn remove(path: &Path) -> Result<(), FileError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(FileError { path: path.to_path_buf(), source: error })
        }
        _ => Ok(()),
    }
}

/// Makes the names in a folder durable.
pub(super) fn sync(folder: &Path) -> Result<(), PlaceError> {
    Ok(File::open(folder).and_then(|folder| folder.sync_all()).map_err(FileError::at(folder))?)
}
