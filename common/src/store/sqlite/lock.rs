//! One process at a time writes a state file: the one that holds the lock on the file beside it.
//!
//! The state file itself is not locked, because closing a second handle of it would drop the locks that SQLite has on it.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::store::StoreError;

/// The lock, released on drop. The kernel releases it when the process dies.
#[derive(Debug)]
pub(super) struct StateLock {
    path: PathBuf,
    _file: File,
}

impl StateLock {
    /// Locks the state file `state`.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] when another process has it; the message says which.
    pub fn acquire(state: &Path) -> Result<Self, StoreError> {
        let mut name = state.as_os_str().to_owned();
        name.push(".lock");
        let path = PathBuf::from(name);
        let unusable = |error: io::Error| StoreError::Misconfigured { reason: format!("{}: {error}", path.display()) };
        loop {
            let mut file =
                File::options().read(true).write(true).create(true).truncate(false).open(&path).map_err(unusable)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(in_use(state, &mut file)),
                Err(error) => return Err(unusable(error.into())),
            }
            // The holder before may have removed the file after it was opened here: then the lock is worth nothing.
            if is_at(&file, &path) {
                file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(unusable)?;
                return Ok(Self { path, _file: file });
            }
        }
    }
}

impl Drop for StateLock {
    fn drop(&mut self) {
        // Where it can not be removed it stays, unlocked and harmless.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(there)) => (open.dev(), open.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

fn in_use(state: &Path, file: &mut File) -> StoreError {
    let mut holder = String::new();
    let _ = file.rewind().and_then(|()| file.take(20).read_to_string(&mut holder));
    let holder = match holder.trim() {
        "" => "another process".to_string(),
        id => format!("process {id}"),
    };
    StoreError::Misconfigured { reason: format!("state file {} is in use by {holder}", state.display()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("a.db");
        let lock = StateLock::acquire(&state).unwrap();
        let refused = StateLock::acquire(&state).unwrap_err().to_string();
        assert!(refused.ends_with(&format!("a.db is in use by process {}", std::process::id())), "{refused}");
        drop(lock);
        StateLock::acquire(&state).unwrap();
        assert!(!state.with_extension("db.lock").exists());
    }
}
