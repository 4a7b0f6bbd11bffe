//! Room on the disk that a worker's tools write to.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Between two looks at a disk that is full.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Bytes written to see whether a disk takes them: more than a file system keeps beside its names.
const TRIAL: usize = 64 << 10;

/// A disk, and how full it may be.
#[derive(Clone, Debug)]
pub struct Disk {
    path: PathBuf,
    limit: f64,
}

impl Default for Disk {
    /// The disk of temporary files, nine tenths full.
    fn default() -> Self {
        Self { path: std::env::temp_dir(), limit: 0.9 }
    }
}

impl Disk {
    /// The disk of `path`; `limit` is the share of it that may be taken.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, limit: f64) -> Self {
        Self { path: path.into(), limit }
    }

    /// Why no tool should write to it now: it is too full. Only a look.
    #[must_use]
    pub fn lacks_room(&self) -> Option<String> {
        let (path, limit) = (self.path.display(), self.limit);
        let taken = taken(&self.path).filter(|taken| *taken > limit)?;
        Some(format!("disk of {path}: {:.0} % taken, more than the {:.0} % that may be", taken * 100.0, limit * 100.0))
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
        while let Some(taken) = taken(&self.path).filter(|taken| *taken > self.limit) {
            if !waited {
                tracing::error!(path = %self.path.display(), taken, limit = self.limit, "disk is full; no job is taken");
            }
            waited = true;
            tokio::time::sleep(LOOK_EVERY).await;
        }
        if waited {
            tracing::info!(path = %self.path.display(), "disk has room again");
        }
    }
}

/// The share of the disk of `path` that is taken, as an unprivileged user sees it; `None` where nobody says.
fn taken(path: &Path) -> Option<f64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    let all = disk.f_blocks.checked_sub(disk.f_bfree)?.checked_add(disk.f_bavail)?;
    (all > 0).then(|| 1.0 - disk.f_bavail as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_finds_no_room_waits() {
        let folder = tempfile::tempdir().unwrap();
        let taken = taken(folder.path()).unwrap();
        assert!((0.0..=1.0).contains(&taken), "{taken}");
        Disk::new(folder.path(), 1.0).roomy().await;
        // Looked at again only after seconds.
        let full = Disk::new(folder.path(), -1.0);
        assert!(tokio::time::timeout(Duration::from_millis(50), full.roomy()).await.is_err());
        Disk::new("/nowhere", -1.0).roomy().await;
        assert!(full.lacks_room().is_some_and(|reason| reason.contains("% taken")));
        assert_eq!(Disk::new(folder.path(), 1.0).lacks_room(), None);
    }

    #[test]
    fn a_disk_is_tried() {
        let folder = tempfile::tempdir().unwrap();
        Disk::new(folder.path(), 1.0).try_write().unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let error = Disk::new(folder.path().join("gone"), 1.0).try_write().unwrap_err();
        assert!(error.contains("No such file"), "{error}");
    }
}
