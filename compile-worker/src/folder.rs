//! The folders that compilers work in. A worker that is killed leaves its own behind, and the next one sweeps it away.
//!
//! Whether the owner of a folder lives is told by a lock on a file in it: the kernel releases it with the process, in whatever
//! PID namespace or container that was.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use tempfile::TempDir;

/// How the folders of workers begin.
const PREFIX: &str = "bluefin-compile-";
/// The file that the owner has locked.
const LOCK: &str = "lock";
/// A folder without such a file was made by the release before, or a moment ago.
const OLD: Duration = Duration::from_secs(24 * 3600);
/// How often a folder is made anew that somebody sweeps away while it is made.
const TRIES: usize = 8;

/// The folder of a worker, in which each compile has one of its own. Made when it is needed first, and again if somebody tidies
/// it away.
#[derive(Debug, Default)]
pub(crate) struct Folders(Mutex<Option<Arc<Own>>>);

#[derive(Debug)]
struct Own {
    folder: TempDir,
    _lock: File,
}

/// The folder of one compile. Gone when dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    folder: TempDir,
    // Goes after what is in it.
    _own: Arc<Own>,
}

impl Folder {
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Folders {
    /// An empty folder.
    ///
    /// # Errors
    /// If there is no room, or no right, for one.
    pub(crate) fn make(&self) -> io::Result<Folder> {
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..2 {
            let known = match &*own {
                Some(known) => Arc::clone(known),
                None => Arc::clone(own.insert(Arc::new(Own::below(&std::env::temp_dir())?))),
            };
            match tempfile::Builder::new().prefix("").tempdir_in(known.folder.path()) {
                Ok(folder) => return Ok(Folder { folder, _own: known }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => *own = None,
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }
}

impl Own {
    fn below(parent: &Path) -> io::Result<Self> {
        for _ in 0..TRIES {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            let path = folder.path().join(LOCK);
            let lock = File::create_new(&path)?;
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                // Whoever sweeps at this moment was quicker.
                Err(Errno::WOULDBLOCK) => continue,
                // Where files can not be locked nobody sweeps.
                Ok(()) | Err(_) if path.exists() => return Ok(Self { folder, _lock: lock }),
                Ok(()) | Err(_) => continue,
            }
        }
        Err(io::Error::other("whatever is made is swept away"))
    }
}

/// Removes the folders below `parent` whose owners are gone; how many.
pub(crate) fn sweep(parent: &Path) -> usize {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| {
        entry.file_name().to_string_lossy().starts_with(PREFIX) && entry.file_type().is_ok_and(|kind| kind.is_dir())
    });
    folders.filter(|entry| is_abandoned(&entry.path()) && fs::remove_dir_all(entry.path()).is_ok()).count()
}

fn is_abandoned(folder: &Path) -> bool {
    let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
    match OpenOptions::new().read(true).write(true).custom_flags(no_link).open(folder.join(LOCK)) {
        // Closed, and thereby released, before the folder goes: its owner looks whether it still has one.
        Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let made = fs::metadata(folder).and_then(|metadata| metadata.modified());
            made.is_ok_and(|made| SystemTime::now().duration_since(made).is_ok_and(|age| age > OLD))
        }
        // Another user's.
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_owns_is_swept() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let folder = parent.path().join(name);
            fs::create_dir(&folder).unwrap();
            folder
        };
        let mine = Own::below(parent.path()).unwrap();
        fs::write(mine.folder.path().join("unit.c"), "").unwrap();
        let abandoned = make("bluefin-compile-abandoned");
        fs::write(abandoned.join(LOCK), "").unwrap();
        fs::create_dir(abandoned.join("x")).unwrap();
        let previous = make("bluefin-compile-previous");
        File::open(&previous).unwrap().set_modified(SystemTime::now() - 2 * OLD).unwrap();
        let kept = [make("bluefin-compile-new"), make("others")];
        assert_eq!(sweep(parent.path()), 2);
        assert!(!abandoned.exists() && !previous.exists());
        assert!(kept.iter().all(|folder| folder.exists()) && mine.folder.path().join("unit.c").exists());
        drop(mine);
        assert_eq!((sweep(parent.path()), sweep(Path::new("/nowhere"))), (0, 0));
    }

    #[test]
    fn a_folder_that_somebody_tidied_away_is_made_again() {
        let folders = Folders::default();
        let first = folders.make().unwrap();
        let own = first.path().parent().unwrap().to_path_buf();
        assert!(own.join(LOCK).exists() && fs::read_dir(first.path()).unwrap().next().is_none());
        fs::remove_dir_all(&own).unwrap();
        let second = folders.make().unwrap();
        assert!(second.path().exists() && !second.path().starts_with(&own));
        let own = second.path().parent().unwrap().to_path_buf();
        drop((folders, first, second));
        assert!(!own.exists());
    }
}
