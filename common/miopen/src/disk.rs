//! Room on the disk that a worker's tools write to.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Between two looks at a disk that is full.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Bytes written to see whether a disk takes them: more than a file system keeps beside its names.
const TRIAL: usize = 64 << 10;

/// Free bytes that are enough on any disk, however large: twice the largest answer of a tool.
const ENOUGH: u64 = 1 << 30;

/// A disk, and how full it may be: a share alone would stop a worker whose large disk has hundreds of gigabytes left.
#[derive(Clone, Debug)]
pub struct Disk {
    path: PathBuf,
    limit: f64,
    enough: u64,
}

impl Default for Disk {
    /// The disk of temporary files, nine tenths full, or with one GiB free where that is less.
    fn default() -> Self {
        Self::new(std::env::temp_dir(), 0.9, ENOUGH)
    }
}

impl Disk {
    /// The disk of `path`; `limit` is the share of it that may be taken, and more where `enough` bytes are free.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, limit: f64, enough: u64) -> Self {
        Self { path: path.into(), limit, enough }
    }

    /// Why no tool should write to it now: it is too full. Only a look.
    #[must_use]
    pub fn lacks_room(&self) -> Option<String> {
        let room = room(&self.path)?;
        let full = room.taken > self.limit && room.free < self.enough;
        full.then(|| {
            let (path, taken, limit) = (self.path.display(), room.taken * 100.0, self.limit * 100.0);
            let (free, enough) = (room.free >> 20, self.enough >> 20);
            format!("disk of {path}: {taken:.0} % taken, {free} MiB free; at most {limit:.0} % may be taken, or {enough} MiB must be free")
        })
    }

    /// Tries to write to it.
    ///
    /// # Errors
    /// Why not: it is full, or read-only, or not there.
    pub fn try_write(&self) -> Result<(), String> {
        let tried = tempfile::tempfile_in(&self.path)
            .and_then(|mut file| file.write_all(&[b'.'; TRIAL]).and_then(|()| file.sync_data()));
        tried.map_err(|error| format!("disk of {}: {error}", self.path.display()))
    }

    /// Waits until there is room. Says so when it begins to wait, and when that is over.
    pub async fn roomy(&self) {
        let mut waited = false;
        while let Some(reason) = self.lacks_room() {
            if !waited {
                tracing::error!(reason, "disk is full; no job is taken");
            }
            waited = true;
            tokio::time::sleep(LOOK_EVERY).await;
        }
        if waited {
            tracing::info!(path = %self.path.display(), "disk has room again");
        }
    }
}

/// What a disk has left.
struct Room {
    /// The share that is taken, as an unprivileged user sees it.
    taken: f64,
    /// Bytes.
    free: u64,
}

/// Of the disk of `path`; `None` where nobody says.
fn room(path: &Path) -> Option<Room> {
    let disk = rustix::fs::statvfs(path).ok()?;
    let all = disk.f_blocks.checked_sub(disk.f_bfree)?.checked_add(disk.f_bavail)?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    (all > 0).then(|| Room { taken: 1.0 - disk.f_bavail as f64 / all as f64, free })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_finds_no_room_waits() {
        let folder = tempfile::tempdir().unwrap();
        let Room { taken, free } = room(folder.path()).unwrap();
        assert!((0.0..=1.0).contains(&taken), "{taken}");
        Disk::new(folder.path(), 1.0, u64::MAX).roomy().await;
        // Looked at again only after seconds.
        let full = Disk::new(folder.path(), -1.0, u64::MAX);
        assert!(tokio::time::timeout(Duration::from_millis(50), full.roomy()).await.is_err());
        Disk::new("/nowhere", -1.0, u64::MAX).roomy().await;
        assert!(full.lacks_room().is_some_and(|reason| reason.contains("% taken, ")));
        assert_eq!(Disk::new(folder.path(), 1.0, u64::MAX).lacks_room(), None);
        // A large disk has room long after nine tenths of it are taken.
        assert_eq!(Disk::new(folder.path(), -1.0, free / 2).lacks_room(), None);
    }

    #[test]
    fn a_disk_is_tried() {
        let folder = tempfile::tempdir().unwrap();
        Disk::new(folder.path(), 1.0, u64::MAX).try_write().unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let error = Disk::new(folder.path().join("gone"), 1.0, u64::MAX).try_write().unwrap_err();
        assert!(error.contains("No such file"), "{error}");
    }
}
