//! What a compile worker lends its toolchains: the store with the compile cache in it, slots, limits, and what is remembered
//! of earlier jobs.

mod cache;
mod fitness;

use std::ffi::OsString;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bluefin_common::artifact::{ArtifactRef, Built, CodeObject};
use bluefin_common::child_file::{self, ChildFileError};
use bluefin_common::digest::{self, Digest};
use bluefin_common::failure::{Attempt, Failure, FailureKind};
use bluefin_common::session::Session;
use bluefin_common::store::Store;
use bluefin_common::task::{Task, TaskRef};
use lru::LruCache;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::backlog::{Backlog, Waiting};
use crate::diagnose::{failure, nothing_made, timed_out};
use crate::error::Error;
use crate::folder::{Folder, Folders};
use crate::lasting::Lasting;
use crate::metrics::{Metrics, Raised};
use crate::process::{Ended, Limits, run};
use crate::shim;
use crate::specs::Specs;
use crate::unit::{Input, Unit};

use cache::Cache;
use fitness::Fitness;

const OUTPUT: &str = "unit.out";
/// Tasks that are known to be in the store: of more groups than a worker has in hand at a time.
const TASKS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// What the toolchains of one worker share.
pub struct Workshop {
    store: Arc<dyn Store>,
    slots: usize,
    free: Semaphore,
    limits: Limits,
    launcher: Option<Vec<OsString>>,
    /// Whether code objects get tables of the source's lines.
    lines: bool,
    metrics: Metrics,
    backlog: Backlog,
    specs: Specs,
    folders: Folders,
    fitness: Fitness,
    cache: Cache,
    /// Digests of tasks that were put.
    tasks: Mutex<LruCache<Digest, ()>>,
}

/// What a compiler made, before it is in the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    pub built: Built,
    /// The bytes of each of its objects, in their order.
    pub code: Vec<Vec<u8>>,
}

impl Made {
    /// One code object, of which no more is known.
    #[must_use]
    pub fn object(code: Vec<u8>) -> Self {
        let object = CodeObject::plain(ArtifactRef::of(&code), "", "");
        Self { built: Built { objects: vec![object], ..Built::default() }, code: vec![code] }
    }
}

/// The right to run a compiler, until it is dropped.
pub struct Slot<'a> {
    _permit: Option<SemaphorePermit<'a>>,
    _busy: Raised,
}

impl Workshop {
    /// At most `slots` compilers run at a time. `launcher` is the command that starts the inner side of the sandbox, such as
    /// `bluefin sandbox-exec`; without one compilers run without limits but that of time.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        slots: usize,
        limits: Limits,
        launcher: Option<Vec<OsString>>,
        metrics: Metrics,
    ) -> Self {
        Self {
            specs: Specs::new(Arc::clone(&store)),
            store,
            slots,
            free: Semaphore::new(slots.min(Semaphore::MAX_PERMITS)),
            limits,
            launcher,
            lines: false,
            metrics,
            backlog: Backlog::default(),
            folders: Folders::default(),
            fitness: Fitness::default(),
            cache: Cache::default(),
            tasks: Mutex::new(LruCache::new(TASKS)),
        }
    }

    /// The same, whose code objects have tables of the source's lines, where a compiler can make them: they are for reading faults, and
    /// kept apart from those that are timed.
    #[must_use]
    pub fn with_lines(self) -> Self {
        Self { lines: true, ..self }
    }

    /// Whether code objects get tables of lines.
    pub(crate) fn has_lines(&self) -> bool {
        self.lines
    }

    /// `key` of what this workshop compiles.
    pub(crate) fn key(&self, key: Digest) -> Digest {
        if self.lines { Digest::of_parts(digest::COMPILE, [key.to_string().as_bytes(), b"lines"]) } else { key }
    }

    #[must_use]
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Compilers that may run at a time.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Waits until another compiler may run.
    pub async fn slot(&self) -> Slot<'_> {
        // The semaphore is never closed.
        Slot { _permit: self.free.acquire().await.ok(), _busy: self.metrics.busy() }
    }

    /// Counts a job, or a unit that waits for a slot, until the guard is dropped: a worker takes no further jobs while it
    /// has enough of them.
    pub(crate) fn waiting(&self) -> Waiting {
        self.backlog.add()
    }

    /// Records what a compiler ran for, and the bytes that it made. [`Self::cached`] does so by itself.
    pub fn ran(&self, took: Duration, made: Result<u64, FailureKind>) {
        self.metrics.observe_compile(took, made);
    }

    /// Puts the task of a job of `session` into the store, unless this worker has, and names it: jobs that follow in its group are checked
    /// by it. Where none can, it goes with the job alone.
    ///
    /// # Errors
    /// If the store fails; a task that is too large.
    pub async fn put_task(&self, session: &Session, task: Task) -> Result<TaskRef, Error> {
        if !session.has_follow_ups() {
            return Ok(TaskRef::Inline(Box::new(task)));
        }
        let (digest, bytes) = task.encode().map_err(|error| Error::Job { reason: error.to_string() })?;
        let known = |tasks: &Mutex<LruCache<Digest, ()>>| {
            tasks.lock().unwrap_or_else(PoisonError::into_inner).get(&digest).is_some()
        };
        if !known(&self.tasks) {
            self.store.put_blob(&bytes).await?;
            self.tasks.lock().unwrap_or_else(PoisonError::into_inner).put(digest, ());
        }
        Ok(TaskRef::Blob(digest))
    }

    /// Keeps what buffers of a task hold that was made from a recipe.
    ///
    /// # Errors
    /// If the store is away.
    pub async fn put_made(&self, bytes: &[u8]) -> Result<(), Error> {
        let digest = Digest::of(bytes);
        let known = self.tasks.lock().unwrap_or_else(PoisonError::into_inner).get(&digest).is_some();
        if !known {
            self.store.put_blob(bytes).await?;
            self.tasks.lock().unwrap_or_else(PoisonError::into_inner).put(digest, ());
        }
        Ok(())
    }

    /// Trusts nothing that this worker has put into the store: somebody did not find it.
    pub(crate) fn forget(&self) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.cache.forget();
    }

    /// Runs a compiler on `unit` in the sandbox, by the command line that `command` makes; the code object that it wrote. Where it is
    /// confined it also reads what is in the folders `readable`.
    ///
    /// # Errors
    /// What is not the unit's fault, or may not be: disk, processes, crashes.
    pub async fn run(
        &self,
        unit: &Unit,
        readable: &[PathBuf],
        command: impl FnOnce(&Input<'_>) -> Vec<OsString>,
    ) -> Result<Attempt<Made>, Error> {
        let shim = unit.shim.as_ref().map(|shim| (shim::UNIT, shim));
        let files = unit.bundle.files.iter().map(|(name, text)| (name.as_str(), text)).chain(shim);
        let folder = self.folder()?;
        for (name, text) in files {
            write_file(folder.path(), name, text).map_err(|source| machine("temporary folder", source))?;
        }
        let input = Input { lines: self.lines, ..unit.input(OUTPUT) };
        let command = command(&input);
        let wrote = self.run_in(&folder, self.limits_of(&self.limits, &command, readable), &command).await?;
        Ok(wrote.map(Made::object))
    }

    /// Starts a compiler that lives on, in `folder` and in the sandbox: `command`, with a few more variables in its `environment`. Where
    /// it is confined it also reads what is in the folders `readable`.
    pub(crate) fn lasting(
        &self,
        command: &[OsString],
        environment: &[(&str, &str)],
        readable: &[PathBuf],
        folder: Folder,
    ) -> Result<Lasting, Error> {
        let limits = self.limits_of(&self.limits, command, readable);
        Lasting::start(self.launcher.as_deref(), &limits, (command, environment), folder)
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// `limits` for a compiler, which may be one that can not be confined; else it also reads what is in `readable`.
    fn limits_of(&self, limits: &Limits, command: &[OsString], readable: &[PathBuf]) -> Limits {
        let program = command.first().map(Path::new);
        let confine = limits.confine && !program.is_some_and(|program| self.fitness.is_unconfined(program));
        Limits { confine, readable: readable.to_vec(), ..limits.clone() }
    }

    pub(crate) fn folder(&self) -> Result<Folder, Error> {
        self.folders.make().map_err(|source| machine("temporary folder", source))
    }

    /// Runs `command` in `folder` under `limits`, which are for it.
    async fn run_in(&self, folder: &Folder, limits: Limits, command: &[OsString]) -> Result<Attempt<Vec<u8>>, Error> {
        let limits = &limits;
        match run(self.launcher.as_deref(), limits, command, folder.path()).await? {
            Ended::TimedOut => Ok(Err(timed_out(limits))),
            Ended::Stopped => Err(Error::Interrupted { by: "SIGSTOP".to_string() }),
            Ended::Killed { short_of } => Err(Error::Killed { short_of }),
            Ended::Exited { status, output } if !status.success() => {
                Ok(Err(failure(status, &output, limits, &limits.in_force())?))
            }
            Ended::Exited { output, .. } => written(folder.path(), limits.file_bytes, &output),
        }
    }

    pub(crate) fn specs(&self) -> &Specs {
        &self.specs
    }

    pub(crate) fn backlog(&self) -> &Backlog {
        &self.backlog
    }
}

/// Writes a file of a bundle, whose name may have folders.
pub(crate) fn write_file(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    let path = folder.join(name);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(path, text)
}

/// What a compiler wrote into `folder`, which said `output`. What else it left there is its own fault.
fn written(folder: &Path, limit: u64, output: &str) -> Result<Attempt<Vec<u8>>, Error> {
    match child_file::read(folder, OUTPUT, limit) {
        Ok(bytes) => Ok(Ok(bytes)),
        Err(ChildFileError::Missing { .. }) => Err(nothing_made(output)),
        Err(error) => not_taken(error).map(Err),
    }
}

/// What it means that a file of a compiler's is not taken.
pub(crate) fn not_taken(error: ChildFileError) -> Result<Failure, Error> {
    match error {
        ChildFileError::Io { name, source } => Err(machine(&name, source)),
        error => Ok(Failure::new(FailureKind::CompileCrash, format!("artifact {error}"))),
    }
}

fn machine(what: &str, source: io::Error) -> Error {
    Error::machine(what, source)
}
