//! A GPU as the processes of a host share it: whoever works on it has locked a file. Kernel-spec jobs and those of MIOpen's tools
//! may come to one GPU from several workers, and times that were taken side by side are worth nothing.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bluefin_miopen::detect::Gpu;
use bluefin_miopen::process;
use rustix::fs::OFlags;

/// Where the files are: one place for all processes, whatever their environment.
const FOLDER: &str = "/tmp";
/// Of `open`: what anybody could have made to lead elsewhere is not followed, and what waits for a writer, as a pipe does, is not waited for.
const NO_TRAP: i32 = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();
/// Whoever comes locks them, whatever the umask of the first, and nobody writes anything: those that work on the GPU have them open.
const MODE: u32 = 0o444;
/// How often is looked whether it is free: far less than a job takes.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Who waits for so long says so, and again after so long.
const LONG: Duration = Duration::from_secs(30);
const LONGER: Duration = Duration::from_secs(600);
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
    file: Option<Arc<File>>,
}

impl Held {
    /// For processes that work on the GPU: they go on if this one is killed, and keep it from others.
    pub(crate) fn file(&self) -> Option<Arc<File>> {
        self.file.clone()
    }

    /// Says that the work is over. What a process left behind may have the file still: where the work was broken off, it keeps the GPU until it is gone.
    pub(crate) fn end(self) {
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
        held.end();
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
            Ok(file) => Held { file: Some(Arc::new(file)) },
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
    let (begun, mut next) = (Instant::now(), LONG);
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(LOOK_EVERY).await,
            Err(TryLockError::Error(error)) => return Err(error),
        }
        if begun.elapsed() >= next {
            let by = holders(&file).join(", ");
            let by = if by.is_empty() { "a process of another user or container".to_string() } else { by };
            tracing::warn!(file = %path.display(), %by, "the GPU is waited for: another process works on it, or hangs");
            next = begun.elapsed() + LONGER;
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
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(path).and_then(|()| options.open(path)),
        opened => opened,
    };
    let file = opened?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("found no regular file, expected one"));
    }
    if metadata.permissions().mode() & 0o7777 != MODE {
        // Of an earlier version. Those of others stay.
        let _ = file.set_permissions(Permissions::from_mode(MODE));
    }
    Ok(file)
}

/// Makes the file, unless others do, under a name of its own first: nobody is to find one that is not open to all yet.
fn make(path: &Path) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new(FOLDER));
    let own = tempfile::Builder::new().prefix("bluefin-GPU-").tempfile_in(folder)?;
    own.as_file().set_permissions(Permissions::from_mode(MODE))?;
    match own.persist_noclobber(path) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
        _ => Ok(()),
    }
}

/// The processes that have locked `file`, as far as the system tells of them: numbers and names.
fn holders(file: &File) -> Vec<String> {
    let Ok(wanted) = file.metadata() else { return Vec::new() };
    let read = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let has = |process: &Path| {
        read(&process.join("fd")).any(|opened| {
            let is_same = opened.metadata().is_ok_and(|it| (it.dev(), it.ino()) == (wanted.dev(), wanted.ino()));
            let about = opened.file_name().map(|number| process.join("fdinfo").join(number));
            is_same && about.is_some_and(|about| std::fs::read_to_string(about).is_ok_and(|it| it.contains("\nlock:")))
        })
    };
    let name = |process: PathBuf| {
        let number = process.file_name()?.to_str()?.parse::<u32>().ok()?;
        let name = std::fs::read_to_string(process.join("comm")).unwrap_or_default();
        has(&process).then(|| format!("{number} ({})", name.trim()))
    };
    read(Path::new("/proc")).filter_map(name).collect()
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
        let [_, path] = lock.files.clone().unwrap();
        let is_taken = || lock.files.iter().flatten().any(|file| is_locked(file));
        // What somebody left there is not for tools to read.
        std::fs::write(&path, "hello\n").unwrap();
        let told = folder.path().join("told");
        let script = format!("cat > {0}.new; mv {0}.new {0}; sleep 60", told.display());
        let run = process::Run {
            command: ["/bin/sh", "-c", &script].map(Into::into).to_vec(),
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
            folder: folder.path().to_path_buf(),
            output: None,
        };
        let watch = process::Watch::default();
        let held = lock.hold().await;
        // As the kernel does for a process that is killed: closed, and not unlocked.
        let copy = held.file();
        drop(held);
        {
            let mut work = std::pin::pin!(process::holding(copy, process::run(&run, &watch)));
            while !told.exists() {
                let _ = tokio::time::timeout(Duration::from_millis(20), &mut work).await;
            }
            assert_eq!(std::fs::read_to_string(&told).unwrap(), "");
            assert!(is_taken());
            let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, MODE, "of a file of before");
            let by = holders(&open(&path).unwrap());
            assert!(by.iter().any(|by| by.ends_with("(sh)")), "{by:?}");
        }
        // Whoever was killed lets it go when it is gone.
        tokio::time::timeout(Duration::from_secs(30), lock.hold()).await.unwrap();
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
