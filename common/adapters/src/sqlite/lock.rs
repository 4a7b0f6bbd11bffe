//! One process at a time writes a state file: the one that holds the lock on the file beside it.
//!
//! The state file itself is not locked, because closing a second handle of it would drop the locks that SQLite has on it.
//!
//! Among processes of one kernel `flock` decides, and a dead one holds nothing. Not every file system carries it to other
//! machines, so the lock file also tells who holds it: a record that its holder touches every few seconds. Whoever finds
//! the record of another machine waits for such a sign of life, takes over only without one, and then looks whether a third
//! did the same at that moment. The holder looks as well, with every sign, and before it writes if the last one is older:
//! one that was stopped for so long that another took over writes nothing more.
//!
//! What that does not cover: two machines that do not see each other's changes of a folder within [`Terms::settle`] when
//! both take over at one moment, or within [`Terms::lease`] at all; and a holder that is stopped amid a transaction.

mod record;

use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Timespec, Timestamps, UTIME_NOW, flock, futimens};
use rustix::io::Errno;

use self::record::{Holder, Sight, options};
use bluefin_common::file_system::FileSystem;
use bluefin_common::store::StoreError;

/// How long holders of locks wait for each other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// Between two signs of life.
    pub beat: Duration,
    /// A holder of another machine without a sign for so long is dead.
    pub lease: Duration,
    /// Within this what one machine writes is seen by another.
    pub settle: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        Self { beat: Duration::from_secs(5), lease: Duration::from_secs(30), settle: Duration::from_secs(1) }
    }
}

/// The lock, released on drop. The kernel releases it when the process dies.
#[derive(Debug)]
pub(super) struct StateLock {
    state: PathBuf,
    path: PathBuf,
    holder: Holder,
    terms: Terms,
    /// When the lock was last seen to be held.
    held: Instant,
    /// When that was last looked at.
    looked: Instant,
    file: File,
}

impl StateLock {
    /// Locks the state file `state`, which is on `file_system`. Where a process of another machine may have it, that takes
    /// as long as it takes to see that it does not.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] when another process has it; the message says which.
    pub fn acquire(state: &Path, file_system: FileSystem, terms: Terms) -> Result<Self, StoreError> {
        Self::acquire_for(Holder::here(), state, file_system, terms)
    }

    fn acquire_for(holder: Holder, state: &Path, on: FileSystem, terms: Terms) -> Result<Self, StoreError> {
        let mut name = state.as_os_str().to_owned();
        name.push(".lock");
        let path = PathBuf::from(name);
        let unusable = |error: io::Error| StoreError::Misconfigured { reason: format!("{}: {error}", path.display()) };
        let in_use = |sight: &Sight| {
            let who = sight.name(&holder);
            StoreError::Misconfigured { reason: format!("state file {} is in use by {who}", state.display()) }
        };
        loop {
            let (file, made) = open(&path).map_err(unusable)?;
            let flocked = match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => true,
                Err(Errno::WOULDBLOCK) => match Sight::if_there(&path).map_err(unusable)? {
                    Some(sight) => return Err(in_use(&sight)),
                    // Let go at this moment.
                    None => continue,
                },
                Err(error) if is_absent(error) && on.is_network() => false,
                Err(error) => return Err(unusable(error.into())),
            };
            // The holder before may have removed the file after it was opened here: then the lock is worth nothing.
            if !is_at(&file, &path) {
                continue;
            }
            let Some(found) = Sight::if_there(&path).map_err(unusable)? else { continue };
            let before = Holder::parse(&found.record);
            let free = match &before {
                // Made by this very call, which only one of all machines can.
                None if made => true,
                // One of another boot, on a disk of this machine's own, is gone with that.
                Some(before) => flocked && (!on.is_network() || before.is_of_kernel(&holder)),
                None => false,
            };
            if !free {
                // Nothing in it: its maker is about to write, or died before it did.
                let patience = if before.is_some() { terms.lease } else { terms.settle };
                if before.is_some() {
                    tracing::warn!(
                        state = %state.display(),
                        "it may be in use by {}: waiting {} s for a sign of it",
                        found.name(&holder), patience.as_secs()
                    );
                }
                match watch(&path, &found, patience).map_err(unusable)? {
                    Watched::Silent => {}
                    Watched::Gone => continue,
                    Watched::Alive(sight) => return Err(in_use(&sight)),
                }
            }
            let written = Instant::now();
            write(&path, &holder.record()).map_err(unusable)?;
            if !free || written.elapsed() > terms.settle / 2 {
                sleep(terms.settle);
                let now = Sight::of(&path).map_err(unusable)?;
                if now.record != holder.record() {
                    return Err(in_use(&now));
                }
            }
            let now = Instant::now();
            return Ok(Self { state: state.to_path_buf(), path, holder, terms, held: now, looked: now, file });
        }
    }

    /// When [`Self::beat`] is to be called next, whatever else there is to do.
    pub fn due(&self) -> Instant {
        self.looked + self.terms.beat
    }

    /// Gives a sign of life, and makes sure that nobody has taken over.
    ///
    /// # Errors
    /// [`StoreError::Lost`] if somebody has, or if that could not be told for too long.
    pub fn beat(&mut self) -> Result<(), StoreError> {
        self.looked = Instant::now();
        let lost = |reason: String| StoreError::Lost { store: self.state.display().to_string(), reason };
        match Sight::of(&self.path) {
            Ok(sight) if sight.record == self.holder.record() => match touch(&self.file) {
                Ok(()) => {}
                Err(error) if self.held.elapsed() > self.terms.lease => return Err(lost(format!("its lock: {error}"))),
                Err(error) => {
                    tracing::debug!(%error, "no sign of life in {}", self.path.display());
                    return Ok(());
                }
            },
            Ok(sight) => {
                let who = sight.name(&self.holder);
                return Err(lost(format!(
                    "was taken over by {who} while this process was stopped or could not reach it"
                )));
            }
            // Somebody thought that it was left over.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if let Err(error) = self.make_again() {
                    tracing::warn!(%error, "{} was removed", self.path.display());
                    return Ok(());
                }
            }
            Err(error) if self.held.elapsed() > self.terms.lease => return Err(lost(format!("its lock: {error}"))),
            Err(error) => {
                tracing::debug!(%error, "{} can not be read", self.path.display());
                return Ok(());
            }
        }
        self.held = self.looked;
        Ok(())
    }

    /// Makes the lock file anew, unless somebody else is quicker, who is then found there with the next sign.
    fn make_again(&mut self) -> io::Result<()> {
        let file = options().read(true).write(true).create_new(true).open(&self.path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(error) if !is_absent(error) => return Err(error.into()),
            _ => {}
        }
        write(&self.path, &self.holder.record())?;
        self.file = file;
        Ok(())
    }
}

/// Whether there are no such locks on a file system: the record has to do.
fn is_absent(error: Errno) -> bool {
    matches!(error, Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK | Errno::INVAL)
}

impl Drop for StateLock {
    fn drop(&mut self) {
        // Where it can not be removed it stays, unlocked and harmless.
        if Sight::of(&self.path).is_ok_and(|sight| sight.record == self.holder.record()) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Opens the lock file, and says whether this made it.
fn open(path: &Path) -> io::Result<(File, bool)> {
    loop {
        match options().read(true).write(true).create_new(true).open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return Ok((made?, true)),
        }
        match options().read(true).write(true).open(path) {
            // Removed in between.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            found => return Ok((record::regular(found)?, false)),
        }
    }
}

/// Writes a record, or writes over one.
fn write(path: &Path, record: &str) -> io::Result<()> {
    let file = options().write(true).create(true).truncate(false).open(path);
    let mut file = record::regular(file)?;
    file.set_len(0)?;
    file.write_all(record.as_bytes())
}

/// A time is set at once on a file server, too, while what is written may stay here for a while.
fn touch(file: &File) -> io::Result<()> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    Ok(futimens(file, &Timestamps { last_access: now, last_modification: now })?)
}

enum Watched {
    Alive(Sight),
    Silent,
    Gone,
}

/// Looks at a lock file for as long as `patience` for a sign of its holder.
fn watch(path: &Path, found: &Sight, patience: Duration) -> io::Result<Watched> {
    let end = Instant::now() + patience;
    loop {
        match Sight::if_there(path)? {
            Some(sight) if sight == *found => {}
            Some(sight) => return Ok(Watched::Alive(sight)),
            None => return Ok(Watched::Gone),
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Watched::Silent);
        }
        sleep(left.min(Duration::from_millis(500)));
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(open), Ok(there)) => (open.dev(), open.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::UNIX_EPOCH;

    use super::*;

    /// Longer than a test lives, and shorter than it takes to notice.
    const TERMS: Terms =
        Terms { beat: Duration::from_secs(600), lease: Duration::from_secs(600), settle: Duration::ZERO };

    fn other() -> Holder {
        let words = ["7", "far", "another boot", "1"].map(String::from);
        let [process, host, boot, since] = words;
        Holder { process, host, boot, since }
    }

    fn acquire(state: &Path, terms: Terms) -> Result<StateLock, StoreError> {
        StateLock::acquire(state, FileSystem::NFS, terms)
    }

    fn lock_file(state: &Path) -> PathBuf {
        state.with_extension("db.lock")
    }

    #[test]
    fn only_one_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("a.db");
        for file_system in [FileSystem::LOCAL, FileSystem::NFS] {
            let mut lock = StateLock::acquire(&state, file_system, TERMS).unwrap();
            let refused = StateLock::acquire(&state, file_system, TERMS).unwrap_err().to_string();
            assert!(refused.ends_with(&format!("a.db is in use by process {}", std::process::id())), "{refused}");
            lock.beat().unwrap();
            drop(lock);
            StateLock::acquire(&state, file_system, TERMS).unwrap();
            assert!(!lock_file(&state).exists());
        }
    }

    /// As anybody may make one where others may write.
    #[test]
    fn no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (state, other) = (folder.path().join("a.db"), folder.path().join("other"));
        std::fs::write(&other, "somebody's").unwrap();
        for to in [&other, &folder.path().join("none")] {
            std::os::unix::fs::symlink(to, lock_file(&state)).unwrap();
            let error = acquire(&state, TERMS).unwrap_err().to_string();
            assert!(error.ends_with("a.db.lock: found a link, expected a regular file"), "{error}");
            std::fs::remove_file(lock_file(&state)).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "somebody's");
        assert!(!folder.path().join("none").exists());
        // Nor one that takes its place later.
        let mut lock = acquire(&state, TERMS).unwrap();
        std::fs::remove_file(lock_file(&state)).unwrap();
        std::os::unix::fs::symlink(&other, lock_file(&state)).unwrap();
        let _ = lock.beat();
        drop(lock);
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "somebody's");
    }

    #[test]
    fn one_that_died_on_this_machine_is_taken_over_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("a.db");
        let dead = Holder { process: "1".to_string(), since: "1".to_string(), ..Holder::here() };
        std::fs::write(lock_file(&state), dead.record()).unwrap();
        acquire(&state, TERMS).unwrap().beat().unwrap();
    }

    #[test]
    fn another_machine_that_lives_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("a.db");
        // As another machine holds it where flock does not reach this one.
        std::fs::write(lock_file(&state), other().record()).unwrap();
        let refused = AtomicBool::new(false);
        let refusal = std::thread::scope(|scope| {
            scope.spawn(|| {
                let file = File::options().write(true).open(lock_file(&state)).unwrap();
                for second in 0.. {
                    file.set_modified(UNIX_EPOCH + Duration::from_secs(second)).unwrap();
                    if refused.load(Ordering::Relaxed) {
                        break;
                    }
                    std::thread::yield_now();
                }
            });
            let refusal = acquire(&state, TERMS);
            refused.store(true, Ordering::Relaxed);
            refusal.unwrap_err().to_string()
        });
        assert!(refusal.ends_with("a.db is in use by process 7 of host far"), "{refusal}");
        assert_eq!(std::fs::read_to_string(lock_file(&state)).unwrap(), other().record());
    }

    #[test]
    fn another_machine_without_a_sign_of_life_is_dead() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("a.db");
        let terms = Terms { lease: Duration::from_millis(20), ..TERMS };
        for record in [other().record(), String::new()] {
            std::fs::write(lock_file(&state), record).unwrap();
            acquire(&state, terms).unwrap().beat().unwrap();
        }
    }

    #[test]
    fn a_holder_notices_that_another_took_over() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("a.db");
        let mut lock = acquire(&state, TERMS).unwrap();
        std::fs::write(lock_file(&state), other().record()).unwrap();
        let lost = lock.beat().unwrap_err();
        assert!(lost.is_lost() && lost.to_string().contains("taken over by process 7 of host far"), "{lost}");
        drop(lock);
        assert_eq!(std::fs::read_to_string(lock_file(&state)).unwrap(), other().record(), "it is the other's");
    }

    #[test]
    fn a_lock_that_somebody_removed_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("a.db");
        let mut lock = acquire(&state, TERMS).unwrap();
        std::fs::remove_file(lock_file(&state)).unwrap();
        lock.beat().unwrap();
        assert!(acquire(&state, TERMS).unwrap_err().to_string().contains("in use"));
    }
}
