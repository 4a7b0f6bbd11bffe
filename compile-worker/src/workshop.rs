//! What a compile worker lends its toolchains: the store with the compile cache in it, slots, limits, and what is remembered
//! of earlier jobs.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Read as _;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bluefin_common::artifact::{ArtifactRef, Built, CodeObject, CompileRecord};
use bluefin_common::digest::Digest;
use bluefin_common::failure::{Attempt, Failure, FailureKind};
use bluefin_common::store::Store;
use bluefin_common::task::{Task, TaskRef};
use lru::LruCache;
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

use crate::backlog::{Backlog, Waiting};
use crate::diagnose::{failure, timed_out};
use crate::error::Error;
use crate::metrics::{Lookup, Metrics, Raised};
use crate::process::{Ended, Limits, run};
use crate::shim;
use crate::specs::Specs;
use crate::unit::{Input, Unit};

const OUTPUT: &str = "unit.out";
/// Tasks that are known to be in the store: of more groups than a worker has in hand at a time.
const TASKS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// What is being compiled, by its key in the cache.
type InFlight = Mutex<HashMap<Digest, Arc<OnceCell<Attempt<Built>>>>>;

/// What the toolchains of one worker share.
pub struct Workshop {
    store: Arc<dyn Store>,
    slots: usize,
    free: Semaphore,
    limits: Limits,
    launcher: Option<Vec<OsString>>,
    metrics: Metrics,
    backlog: Backlog,
    specs: Specs,
    in_flight: InFlight,
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
            metrics,
            backlog: Backlog::default(),
            in_flight: Mutex::default(),
            tasks: Mutex::new(LruCache::new(TASKS)),
        }
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

    /// Counts a candidate that is yet to be compiled, until the guard is dropped: a worker takes no further jobs while it has
    /// enough of them.
    #[must_use]
    pub fn waiting(&self) -> Waiting {
        self.backlog.add()
    }

    /// Records what a compiler ran for, and the bytes that it made. [`Self::cached`] does so by itself.
    pub fn ran(&self, took: Duration, made: Result<u64, FailureKind>) {
        self.metrics.observe_compile(took, made);
    }

    /// Puts `task` into the store, unless this worker has, and names it.
    ///
    /// # Errors
    /// If the store fails; a task that is too large.
    pub async fn put_task(&self, task: &Task) -> Result<TaskRef, Error> {
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

    /// Puts the next task into the store whatever this worker has put there: somebody did not find one.
    pub(crate) fn forget_tasks(&self) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// What all compiler inputs that `key` is the digest of are built into: from the cache, or made now by `compile` in a slot
    /// of this workshop. Of several calls with one key at one time only one compiles.
    ///
    /// # Errors
    /// What is not the inputs' fault: store, disk, processes.
    pub async fn cached<F>(&self, key: Digest, compile: impl FnOnce() -> F) -> Result<Attempt<Built>, Error>
    where
        F: Future<Output = Result<Attempt<Made>, Error>>,
    {
        let flight = Flight::join(&self.in_flight, key);
        let mut first = false;
        let built = flight.cell.get_or_try_init(|| {
            first = true;
            self.look_up_or_compile(key, compile)
        });
        let result = built.await.cloned();
        if !first {
            self.metrics.lookup(Lookup::Shared);
        }
        result
    }

    async fn look_up_or_compile<F>(&self, key: Digest, compile: impl FnOnce() -> F) -> Result<Attempt<Built>, Error>
    where
        F: Future<Output = Result<Attempt<Made>, Error>>,
    {
        let lookup = match self.store.compiled(key).await?.map(|record| record.result) {
            Some(Ok(built)) if !self.has_all_of(&built).await? => Lookup::Evicted,
            Some(known) => {
                self.metrics.lookup(Lookup::Hit);
                return Ok(known);
            }
            None => Lookup::Miss,
        };
        self.metrics.lookup(lookup);
        let slot = self.slot().await;
        let started = Instant::now();
        let made = compile().await;
        let took = started.elapsed();
        drop(slot);
        let result = match made? {
            Ok(made) => {
                self.ran(took, Ok(made.code.iter().map(|code| code.len() as u64).sum()));
                Ok(self.keep(made).await?)
            }
            Err(failure) => {
                self.ran(took, Err(failure.kind));
                Err(failure)
            }
        };
        // A time-out or a crash may be the machine's fault, so it is tried again with the next job.
        let repeats = result.as_ref().err().is_none_or(|failure| failure.kind == FailureKind::CompileError);
        if repeats {
            let compile_ms = u32::try_from(took.as_millis()).unwrap_or(u32::MAX);
            self.store.put_compiled(key, &CompileRecord { result: result.clone(), compile_ms }).await?;
        }
        Ok(result)
    }

    async fn has_all_of(&self, built: &Built) -> Result<bool, Error> {
        for object in &built.objects {
            if !self.store.has_artifact(object.artifact).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Stores what was made.
    async fn keep(&self, made: Made) -> Result<Built, Error> {
        let Made { mut built, code } = made;
        for (object, code) in built.objects.iter_mut().zip(&code) {
            object.artifact = self.store.put_artifact(code).await?;
        }
        Ok(built)
    }

    /// Runs a compiler on `unit` in the sandbox, by the command line that `command` makes; what it wrote.
    ///
    /// # Errors
    /// What is not the unit's fault: disk, processes.
    pub async fn run(
        &self,
        unit: &Unit,
        command: impl FnOnce(&Input<'_>) -> Vec<OsString>,
    ) -> Result<Attempt<Vec<u8>>, Error> {
        let machine = |source| Error::machine("temporary folder", source);
        let folder = tempfile::Builder::new().prefix("bluefin-compile-").tempdir().map_err(machine)?;
        for (name, text) in &unit.bundle.files {
            std::fs::write(folder.path().join(name), text).map_err(machine)?;
        }
        if let Some(shim) = &unit.shim {
            std::fs::write(folder.path().join(shim::UNIT), shim).map_err(machine)?;
        }
        let command = command(&unit.input(OUTPUT));
        match run(self.launcher.as_deref(), &self.limits, &command, folder.path()).await? {
            Ended::TimedOut => Ok(Err(timed_out(&self.limits))),
            Ended::Killed { short_of } => Err(Error::Killed { short_of }),
            Ended::Exited { status, output } if !status.success() => {
                Ok(Err(failure(status, &output, &self.limits, &self.limits.in_force())?))
            }
            Ended::Exited { .. } => self.written(&folder.path().join(OUTPUT)),
        }
    }

    /// What the compiler wrote.
    fn written(&self, path: &Path) -> Result<Attempt<Vec<u8>>, Error> {
        let machine = |source| Error::Machine { what: "artifact".to_string(), source };
        let limit = self.limits.file_bytes;
        let mut bytes = Vec::new();
        std::fs::File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes)).map_err(machine)?;
        if bytes.len() as u64 > limit {
            let reason = format!("artifact of more than {limit} bytes");
            return Ok(Err(Failure::new(FailureKind::CompileCrash, reason)));
        }
        Ok(Ok(bytes))
    }

    pub(crate) fn specs(&self) -> &Specs {
        &self.specs
    }

    pub(crate) fn backlog(&self) -> &Backlog {
        &self.backlog
    }
}

/// A place in the table of compiles under way; the last to leave removes the entry.
struct Flight<'a> {
    table: &'a InFlight,
    key: Digest,
    cell: Arc<OnceCell<Attempt<Built>>>,
}

impl<'a> Flight<'a> {
    fn join(table: &'a InFlight, key: Digest) -> Self {
        let cell = Arc::clone(table.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default());
        Self { table, key, cell }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        // Ours and the table's. Under the lock nobody can join, so the count does not rise.
        if Arc::strong_count(&self.cell) <= 2 {
            table.remove(&self.key);
        }
    }
}
