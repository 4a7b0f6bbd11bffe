//! Temporary folders that outlive nobody: one whose owner was killed is removed by the next process that starts.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use tempfile::TempDir;

/// The file that an owner has locked for as long as it lives.
const OWNER: &str = ".owner";

/// A temporary folder. Gone when dropped.
#[derive(Debug)]
pub struct Scratch {
    // Dropped first: while it is locked, nobody else touches the folder.
    folder: TempDir,
    _owner: File,
}

impl Scratch {
    /// A folder in that of temporary files, whose name begins with `prefix`.
    ///
    /// # Errors
    /// If it can not be made.
    pub fn new(prefix: &str) -> io::Result<Self> {
        Self::within(&std::env::temp_dir(), prefix)
    }

    /// A folder in `parent`, whose name begins with `prefix`.
    ///
    /// # Errors
    /// If it can not be made.
    pub fn within(parent: &Path, prefix: &str) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(parent)?;
        // It has its name once it is locked, so that nobody finds it in between.
        let (unnamed, named) = (folder.path().join(".new"), folder.path().join(OWNER));
        let owner = File::create_new(&unnamed)?;
        // Where a file system has no locks nobody can tell whose folder it is, and it is left.
        let _ = owner.lock();
        fs::rename(unnamed, named)?;
        Ok(Self { folder, _owner: owner })
    }

    /// The folder, there for as long as this lives.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the folders in `parent` whose names begin with `prefix` and whose owners are gone; how many.
pub fn sweep(parent: &Path, prefix: &str) -> usize {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let found = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes()));
    found.filter(|entry| remove_abandoned(&entry.path())).count()
}

/// Whether `folder` was one of somebody who is gone, and is gone now too.
fn remove_abandoned(folder: &Path) -> bool {
    let owner = folder.join(OWNER);
    // Nothing else is opened: the folder may be anybody's.
    if !fs::symlink_metadata(&owner).is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let Ok(owner) = File::open(owner) else { return false };
    match owner.try_lock() {
        Ok(()) => fs::remove_dir_all(folder).is_ok(),
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_owner_left_behind_is_swept_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let alive = Scratch::within(parent.path(), "test-").unwrap();
        // As a process leaves it that is killed: not removed, and not locked any more.
        let Scratch { folder, _owner: owner } = Scratch::within(parent.path(), "test-").unwrap();
        let abandoned = folder.keep();
        drop(owner);
        fs::write(abandoned.join("left"), "behind").unwrap();
        let strange = parent.path().join("test-of-somebody-else");
        fs::create_dir(&strange).unwrap();
        assert_eq!(sweep(parent.path(), "test-"), 1);
        assert!(!abandoned.exists() && strange.is_dir() && alive.path().is_dir());
        let path = alive.path().to_path_buf();
        drop(alive);
        assert!(!path.exists());
    }
}
