//! A GPU as the processes of a host share it: whoever works on it has locked a file. Kernel-spec jobs and those of MIOpen's tools
//! may come to one GPU from several workers, and times that were taken side by side are worth nothing.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bluefin_miopen::detect::Gpu;
use bluefin_miopen::process;
use rustix::fs::OFlags;

/// Where the files are: one place for all processes, whatever their environment.
const FOLDER: &str = "/tmp";
/// Of `open`: what anybody could have made to lead elsewhere is not followed, and what waits for a writer, as a pipe does, is not waited for.
const NO_TRAP: i32 = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();
/// Whoever comes locks them, whatever the umask of the first.
const MODE: u32 = 0o666;
/// How often is looked whether it is free: far less than a job takes.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Who waits for so long says so.
const LONG: Duration = Duration::from_secs(30);
/// The most that long work leaves to others behind it, and for how long nobody may come before it goes on.
const MOST_LEFT: Duration = Duration::from_secs(60);
const NOBODY: Duration = Duration::from_millis(200);

/// The right to work on one GPU, which nobody has yet.
#[derive(Clone, Debug)]
pub struct GpuLock {
    /// Locked by whoever is the next, and by whoever works. `None`: a GPU that can not be told from others.
    files: Option<[PathBuf; 2]>,
}

/// The right to work on a GPU, until it is dropped, or its process and all to whom it gave [`Self::file`] end.
#[derive(Debug)]
pub struct Held {
    file: Option<File>,
}

impl Held {
    /// For processes that work on the GPU: they go on if this one is killed, and keep it from others.
    pub(crate) fn file(&self) -> Option<File> {
        self.file.as_ref().and_then(|file| file.try_clone().ok())
    }
}

impl Drop for Held {
    /// Says that it is over. What a process left behind may have the file still.
    fn drop(&mut self) {
        self.file.iter().for_each(|file| {
            let _ = file.unlock();
        });
    }
}

impl GpuLock {
    /// That of the GPU of this UUID; none if it has none.
    #[must_use]
    pub fn of(uuid: &str) -> Self {
        Self::within(Path::new(FOLDER), uuid)
    }

    /// That of one of these GPUs, by its UUID; none if it has none, or shares it, as slices of a GPU may.
    #[must_use]
    pub fn among(gpus: &[Gpu], uuid: &str) -> Self {
        let is_unique = gpus.iter().filter(|gpu| gpu.uuid == uuid).count() == 1;
        Self::of(if is_unique { uuid } else { "" })
    }

    fn within(folder: &Path, uuid: &str) -> Self {
        let plain = !uuid.is_empty() && uuid.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        let file = |what: &str| folder.join(format!("bluefin-{uuid}.{what}"));
        Self { files: plain.then(|| ["next", "lock"].map(file)) }
    }

    /// Does `work` of seconds, such as a process of others, as [`Self::hold`] has it. Jobs that take milliseconds pass it in turns: where some waited
    /// they have as long for themselves behind it, as long as they come.
    pub async fn hold_for_long<T>(&self, work: impl Future<Output = T>) -> T {
        let held = self.hold().await;
        let begun = Instant::now();
        let done = process::holding(held.file(), work).await;
        let is_wanted = self.files.as_ref().is_some_and(|[next, _]| is_locked(next));
        drop(held);
        if is_wanted {
            self.leave(begun.elapsed().min(MOST_LEFT)).await;
        }
        done
    }

    /// Waits for so long, unless nobody works there any more.
    async fn leave(&self, time: Duration) {
        let (begun, mut seen) = (Instant::now(), Instant::now());
        while begun.elapsed() < time && seen.elapsed() < NOBODY {
            tokio::time::sleep(LOOK_EVERY).await;
            if self.files.iter().flatten().any(|file| is_locked(file)) {
                seen = Instant::now();
            }
        }
    }

    /// Waits until nobody else works on the GPU: who waits comes before whoever has just worked. May be cancelled. A machine on which no file can be
    /// locked is one without locks.
    pub async fn hold(&self) -> Held {
        let Some([next, lock]) = &self.files else { return Held { file: None } };
        let held = async {
            // Whoever has just worked comes behind those that wait.
            let _next = locked(next).await?;
            locked(lock).await
        };
        match held.await {
            Ok(file) => Held { file: Some(file) },
            Err(error) => {
                tracing::warn!(file = %lock.display(), %error, "the GPU is not kept from other processes");
                Held { file: None }
            }
        }
    }
}

/// The file at `path`, locked.
async fn locked(path: &Path) -> io::Result<File> {
    let file = open(path)?;
    let (begun, mut is_told) = (Instant::now(), false);
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(LOOK_EVERY).await,
            Err(TryLockError::Error(error)) => return Err(error),
        }
        if !is_told && begun.elapsed() >= LONG {
            tracing::info!(file = %path.display(), "the GPU is waited for: another process works on it");
            is_told = true;
        }
    }
}

/// Whether somebody has locked the file at `path`.
fn is_locked(path: &Path) -> bool {
    open(path).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Opens the file, which others may have made: where anybody may make files, one may not be opened to be made that is another's.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(NO_TRAP);
    let opened = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(path),
        opened => opened,
    };
    let file = match opened {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.open(path),
        opened => opened,
    }?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("found no regular file, expected one")) }
}

/// Makes the file, under a name of its own first: nobody is to find one that is not open to all yet.
fn make(path: &Path) -> io::Result<File> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed)));
    let own = PathBuf::from(name);
    // What a process of this number left that was killed here.
    let _ = std::fs::remove_file(&own);
    let made = OpenOptions::new().read(true).write(true).create_new(true).mode(MODE).open(&own)?;
    let linked = made.set_permissions(Permissions::from_mode(MODE)).and_then(|()| std::fs::hard_link(&own, path));
    std::fs::remove_file(&own)?;
    linked.map(|()| made)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[tokio::test]
    async fn one_works_at_a_time_and_those_that_wait_come_first() {
        let folder = tempfile::tempdir().unwrap();
        let lock = GpuLock::within(folder.path(), "GPU-0b1ef10000000001");
        let first = lock.hold().await;
        let order = RefCell::new(Vec::new());
        let other = async {
            let _held = lock.hold().await;
            order.borrow_mut().push("the other");
        };
        // Polled behind the other one, which waits by then.
        let works = async {
            assert!(tokio::time::timeout(Duration::from_millis(50), lock.hold()).await.is_err());
            assert!(order.borrow().is_empty());
            drop(first);
            let _again = lock.hold().await;
            order.borrow_mut().push("the first");
        };
        tokio::join!(other, works);
        assert_eq!(order.into_inner(), ["the other", "the first"]);
    }

    #[tokio::test]
    async fn long_work_leaves_as_long_to_those_that_wait() {
        let folder = tempfile::tempdir().unwrap();
        let lock = GpuLock::within(folder.path(), "GPU-0b1ef10000000002");
        let turns = Cell::new(0);
        let short = async {
            loop {
                let _held = lock.hold().await;
                turns.set(turns.get() + 1);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let long = async {
            for _ in 0..3 {
                lock.hold_for_long(tokio::time::sleep(Duration::from_millis(300))).await;
            }
        };
        tokio::select! {
            () = long => {}
            () = short => {}
        }
        // In turns alone it would be one for each.
        assert!(turns.get() > 10, "{}", turns.get());
    }

    #[tokio::test]
    async fn all_users_may_lock_and_what_is_no_file_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let lock = GpuLock::within(folder.path(), "GPU-0b1ef10000000003");
        drop(lock.hold().await);
        let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
        assert_eq!(files.len(), 2, "{files:?}");
        assert!(files.iter().all(|file| file.metadata().unwrap().permissions().mode() & 0o777 == MODE), "{files:?}");

        let trapped = GpuLock::within(folder.path(), "GPU-0b1ef10000000004");
        let [next, _] = trapped.files.clone().unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&next).status().unwrap().success());
        let held = tokio::time::timeout(Duration::from_secs(10), trapped.hold()).await.unwrap();
        assert!(held.file.is_none(), "a pipe is no lock, and nobody waits for its writer");
    }

    #[tokio::test]
    async fn who_works_on_the_gpu_keeps_it_when_its_parent_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let lock = GpuLock::within(folder.path(), "GPU-0b1ef10000000005");
        let mut held = lock.hold().await;
        let mut child = std::process::Command::new("sleep").arg("60").stdin(held.file().unwrap()).spawn().unwrap();
        // As the kernel does for a process that is killed: closed, and not unlocked.
        drop(held.file.take());
        let is_taken = || lock.files.iter().flatten().any(|file| is_locked(file));
        assert!(is_taken());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_taken());
    }

    #[test]
    fn slices_of_one_gpu_have_none() {
        let gpu = |index, uuid: &str| Gpu { index, target: "gfx942-304".parse().unwrap(), uuid: uuid.to_string() };
        let gpus = [gpu(0, "GPU-a"), gpu(1, "GPU-b"), gpu(2, "GPU-b"), gpu(3, "")];
        let has = |uuid| GpuLock::among(&gpus, uuid).files.is_some();
        assert_eq!(["GPU-a", "GPU-b", "GPU-c", ""].map(has), [true, false, false, false]);
    }

    #[tokio::test]
    async fn another_gpu_is_another_lock() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["GPU-a", "GPU-b"].map(|uuid| GpuLock::within(folder.path(), uuid));
        let held = (one.hold().await, other.hold().await);
        assert!(held.0.file.is_some() && held.1.file.is_some());
        for nameless in ["", "../GPU-a"] {
            assert!(GpuLock::within(folder.path(), nameless).hold().await.file.is_none());
        }
        assert!(GpuLock::within(&folder.path().join("none"), "GPU-a").hold().await.file.is_none());
    }
}
