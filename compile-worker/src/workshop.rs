//! What a compile worker lends its toolchains: the store with the compile cache in it, slots, limits, and what is remembered
//! of earlier jobs.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io::{self, Read as _};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bluefin_common::artifact::{ArtifactRef, Built, CodeObject, CompileRecord};
use bluefin_common::digest::Digest;
use bluefin_common::failure::{Attempt, Failure, FailureKind};
use bluefin_common::job::Job;
use bluefin_common::store::Store;
use bluefin_common::task::{Task, TaskRef};
use futures_util::future::BoxFuture;
use lru::LruCache;
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

use crate::backlog::{Backlog, Waiting};
use crate::confine;
use crate::diagnose::{failure, nothing_made, timed_out};
use crate::error::{Error, Suspect};
use crate::folder::{Folder, Folders};
use crate::metrics::{Lookup, Metrics, Raised};
use crate::process::{Ended, Limits, run};
use crate::shim;
use crate::specs::Specs;
use crate::toolchain::{Compiler, Toolchain};
use crate::unit::{Input, Unit};

const OUTPUT: &str = "unit.out";
/// Tasks that are known to be in the store: of more groups than a worker has in hand at a time.
const TASKS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
/// Kernels that are known to be in the store: those that many jobs have in common, above all references.
const SEEN: NonZeroUsize = NonZeroUsize::new(1024).unwrap();
/// How long they are. One that was evicted nevertheless brings its job back, and then all are looked up again.
const SEEN_FOR: Duration = Duration::from_secs(5);

/// How often a unit may come to something that says that the machine is at its end, while that is found well, before it is
/// believed to be its own doing: a compiler may be short of something within limits of its own.
const SUSPECTED: u32 = 20;
/// Units of which that is counted.
const SUSPECTS: NonZeroUsize = NonZeroUsize::new(1024).unwrap();
/// What is written to see whether there is room: more than the files of most compiles.
const ROOM: usize = 100 << 10;

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
    folders: Folders,
    /// Programs that work only where they are not confined.
    unconfined: Mutex<HashSet<PathBuf>>,
    /// When the machine was found well.
    well: tokio::sync::Mutex<HashMap<String, Instant>>,
    suspects: Mutex<LruCache<Digest, u32>>,
    in_flight: InFlight,
    /// Digests of tasks that were put.
    tasks: Mutex<LruCache<Digest, ()>>,
    /// What was seen to be built and in the store, by its key in the cache, and when.
    seen: Mutex<LruCache<Digest, (Instant, Built)>>,
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
            folders: Folders::default(),
            unconfined: Mutex::default(),
            well: tokio::sync::Mutex::default(),
            suspects: Mutex::new(LruCache::new(SUSPECTS)),
            in_flight: Mutex::default(),
            tasks: Mutex::new(LruCache::new(TASKS)),
            seen: Mutex::new(LruCache::new(SEEN)),
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

    /// Puts the task of `job` into the store, unless this worker has, and names it: jobs that follow in its group are checked
    /// by it. Where none can, it goes with the job alone.
    ///
    /// # Errors
    /// If the store fails; a task that is too large.
    pub async fn put_task(&self, job: &Job, task: Task) -> Result<TaskRef, Error> {
        let session = self.store.session(&job.session).await?;
        if session.is_some_and(|session| !session.has_follow_ups()) {
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

    /// Trusts nothing that this worker has put into the store: somebody did not find it.
    pub(crate) fn forget(&self) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clear();
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
            self.seen_or_looked_up(key, compile)
        });
        let result = built.await.cloned();
        if !first {
            self.metrics.lookup(Lookup::Shared);
        }
        result
    }

    async fn seen_or_looked_up<F>(&self, key: Digest, compile: impl FnOnce() -> F) -> Result<Attempt<Built>, Error>
    where
        F: Future<Output = Result<Attempt<Made>, Error>>,
    {
        let seen = || self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, built)) = seen().get(&key).filter(|(at, _)| at.elapsed() < SEEN_FOR) {
            self.metrics.lookup(Lookup::Hit);
            return Ok(Ok(built.clone()));
        }
        let result = self.look_up_or_compile(key, compile).await?;
        if let Ok(built) = &result {
            seen().put(key, (Instant::now(), built.clone()));
        }
        Ok(result)
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

    /// What `compiler` makes of `unit`. What may be the machine's fault is believed to be the unit's once the machine is found
    /// well.
    ///
    /// # Errors
    /// What is not the unit's fault: disk, processes.
    pub(crate) async fn make(
        &self,
        compiler: &dyn Compiler,
        unit: &Unit,
        key: Digest,
    ) -> Result<Attempt<Vec<u8>>, Error> {
        let suspect = match compiler.compile(unit, self).await {
            Err(Error::Suspect(suspect)) => suspect,
            made => return made,
        };
        self.is_well_with(compiler.name(), Instant::now(), compiler.try_out(self)).await?;
        let Suspect { failure, says_so } = *suspect;
        if says_so && !self.suspected_enough(key) {
            return Err(Error::Exhausted { reason: failure.detail });
        }
        Ok(Err(failure))
    }

    fn suspected_enough(&self, key: Digest) -> bool {
        let mut suspects = self.suspects.lock().unwrap_or_else(PoisonError::into_inner);
        let times = suspects.get_or_insert_mut(key, || 0);
        *times += 1;
        *times >= SUSPECTED
    }

    /// Whether this machine can compile, with each of `toolchains`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) async fn is_well(&self, toolchains: &[Arc<dyn Toolchain>]) -> Result<(), Error> {
        let now = Instant::now();
        for toolchain in toolchains {
            self.is_well_with(toolchain.name(), now, toolchain.try_out(self)).await?;
        }
        Ok(())
    }

    /// Whether there is room where compilers work, and the one of that name compiles what it always does: looked at after `at`
    /// by whoever asks first.
    async fn is_well_with(
        &self,
        name: &str,
        at: Instant,
        try_out: BoxFuture<'_, Result<(), Error>>,
    ) -> Result<(), Error> {
        let mut well = self.well.lock().await;
        if well.get(name).is_some_and(|found| *found > at) {
            return Ok(());
        }
        let now = Instant::now();
        let folder = self.folder()?;
        let wrote = tokio::task::spawn_blocking(move || {
            let mut file = std::fs::File::create(folder.path().join("room"))?;
            io::Write::write_all(&mut file, &[1; ROOM])?;
            file.sync_all()
        });
        wrote
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)))
            .map_err(|source| machine("temporary folder", source))?;
        try_out.await?;
        well.insert(name.to_string(), now);
        Ok(())
    }

    /// Sees whether the compiler of each toolchain works where it is confined, so that those which need other files as well
    /// are not.
    pub(crate) async fn confine(&self, toolchains: &[Arc<dyn Toolchain>]) {
        if self.launcher.is_none() || !self.limits.confine {
            return;
        }
        if !confine::is_possible() {
            tracing::info!("compilers are not confined: this kernel has no Landlock, or has it switched off");
            return;
        }
        for compiler in toolchains.iter().filter_map(|toolchain| toolchain.compiler()) {
            let Some(program) = compiler.program().map(Path::to_path_buf) else { continue };
            let Err(error) = compiler.try_out(self).await else { continue };
            self.unconfined().insert(program.clone());
            if compiler.try_out(self).await.is_ok() {
                tracing::warn!(
                    program = %program.display(),
                    %error,
                    "not confined: it reads files that are neither the system's nor its own, and so can what it compiles"
                );
            } else {
                self.unconfined().remove(&program);
            }
        }
    }

    /// Runs a compiler on `unit` in the sandbox, by the command line that `command` makes; what it wrote.
    ///
    /// # Errors
    /// What is not the unit's fault, or may not be: disk, processes, crashes.
    pub async fn run(
        &self,
        unit: &Unit,
        command: impl FnOnce(&Input<'_>) -> Vec<OsString>,
    ) -> Result<Attempt<Vec<u8>>, Error> {
        let shim = unit.shim.as_ref().map(|shim| (shim::UNIT, shim));
        let files = unit.bundle.files.iter().map(|(name, text)| (name.as_str(), text)).chain(shim);
        let folder = self.folder()?;
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).map_err(|source| machine("temporary folder", source))?;
        }
        self.run_in(&folder, &self.limits, &command(&unit.input(OUTPUT))).await
    }

    /// Runs a compiler for `arch` on the `text` of a file `name`, which always compiles, as it runs on units.
    ///
    /// # Errors
    /// What is wrong with this machine.
    pub async fn try_out_on(
        &self,
        arch: &str,
        (name, text): (&str, &str),
        command: impl FnOnce(&Input<'_>) -> Vec<OsString>,
    ) -> Result<(), Error> {
        let folder = self.folder()?;
        std::fs::write(folder.path().join(name), text).map_err(|source| machine("temporary folder", source))?;
        let line = command(&Input { arch, flags: &[], defines: &[], source: name, output: OUTPUT });
        // Those of a session may be narrow.
        let Limits { time, memory_bytes, file_bytes, .. } = Limits::default();
        let limits = Limits { time, memory_bytes, file_bytes, ..self.limits.clone() };
        let failure = match self.run_in(&folder, &limits, &line).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(failure)) => failure,
            Err(Error::Suspect(suspect)) => suspect.failure,
            Err(error) => return Err(error),
        };
        let program = line.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default();
        let said: String = failure.detail.chars().take(600).collect();
        Err(Error::Exhausted { reason: format!("{program} does not compile what it always does: {}", said.trim()) })
    }

    fn unconfined(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.unconfined.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn folder(&self) -> Result<Folder, Error> {
        self.folders.make().map_err(|source| machine("temporary folder", source))
    }

    async fn run_in(&self, folder: &Folder, limits: &Limits, command: &[OsString]) -> Result<Attempt<Vec<u8>>, Error> {
        let confine =
            limits.confine && !command.first().is_some_and(|program| self.unconfined().contains(Path::new(program)));
        let limits = &Limits { confine, ..limits.clone() };
        match run(self.launcher.as_deref(), limits, command, folder.path()).await? {
            Ended::TimedOut => Ok(Err(timed_out(limits))),
            Ended::Stopped => Err(Error::Interrupted { by: "SIGSTOP".to_string() }),
            Ended::Killed { short_of } => Err(Error::Killed { short_of }),
            Ended::Exited { status, output } if !status.success() => {
                Ok(Err(failure(status, &output, limits, &limits.in_force())?))
            }
            Ended::Exited { output, .. } => written(&folder.path().join(OUTPUT), limits.file_bytes, &output),
        }
    }

    pub(crate) fn specs(&self) -> &Specs {
        &self.specs
    }

    pub(crate) fn backlog(&self) -> &Backlog {
        &self.backlog
    }
}

/// What a compiler wrote to `path`, which said `output`.
fn written(path: &Path, limit: u64, output: &str) -> Result<Attempt<Vec<u8>>, Error> {
    let mut bytes = Vec::new();
    match std::fs::File::open(path).and_then(|file| file.take(limit + 1).read_to_end(&mut bytes)) {
        Ok(_) if bytes.len() as u64 > limit => {
            let reason = format!("artifact of more than {limit} bytes");
            Ok(Err(Failure::new(FailureKind::CompileCrash, reason)))
        }
        Ok(_) => Ok(Ok(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(nothing_made(output)),
        Err(source) => Err(machine("artifact", source)),
    }
}

fn machine(what: &str, source: io::Error) -> Error {
    Error::machine(what, source)
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use bluefin_adapters::sqlite::SqliteStore;
    use bluefin_common::metrics::PipelineMetrics;
    use prometheus::Registry;

    use super::*;
    use crate::unit::{Shapes, tests::unit};

    /// Ends like this, whatever it is given.
    struct Ends {
        command: &'static str,
        runs: AtomicUsize,
        /// Of the machine.
        is_well: bool,
    }

    impl Ends {
        fn with(command: &'static str, is_well: bool) -> Self {
            Self { command, runs: AtomicUsize::new(0), is_well }
        }
    }

    impl Shapes for Ends {
        fn name(&self) -> &'static str {
            "cc"
        }

        fn identity(&self) -> &str {
            "ends 1"
        }
    }

    #[async_trait]
    impl Compiler for Ends {
        async fn try_out(&self, _: &Workshop) -> Result<(), Error> {
            if self.is_well { Ok(()) } else { Err(Error::Exhausted { reason: "its disk is gone".to_string() }) }
        }

        async fn compile(&self, unit: &Unit, workshop: &Workshop) -> Result<Attempt<Vec<u8>>, Error> {
            self.runs.fetch_add(1, Ordering::SeqCst);
            workshop.run(unit, |_| ["/bin/sh", "-c", self.command].map(Into::into).to_vec()).await
        }
    }

    fn workshop() -> Workshop {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry, PipelineMetrics::register(&registry).unwrap()).unwrap();
        Workshop::new(Arc::new(SqliteStore::in_memory().unwrap()), 2, Limits::default(), None, metrics)
    }

    /// It may be short of something that only this unit takes so much of.
    #[tokio::test]
    async fn a_unit_that_always_finds_a_machine_at_its_end_that_is_well_fails_after_all() {
        let (workshop, greedy) =
            (workshop(), Ends::with("echo 'ld: cannot map: Cannot allocate memory' >&2; exit 1", true));
        let unit = unit(&greedy);
        for run in 1..SUSPECTED {
            let error = workshop.compile(&greedy, &unit).await.expect_err("no result");
            assert!(error.is_of_machine(), "{run}: {error}");
        }
        let failure = workshop.compile(&greedy, &unit).await.unwrap().expect_err("a result");
        assert_eq!((failure.kind, greedy.runs.load(Ordering::SeqCst)), (FailureKind::CompileCrash, SUSPECTED as usize));
        assert!(failure.detail.contains("Cannot allocate memory"), "{}", failure.detail);
    }

    #[tokio::test]
    async fn what_a_machine_that_is_not_well_comes_to_is_no_result() {
        let workshop = workshop();
        for (command, well, ill) in [
            ("kill -SEGV $$", Some(FailureKind::CompileCrash), None),
            ("exit 4", Some(FailureKind::CompileCrash), None),
            // It wrote nothing.
            ("exit 0", Some(FailureKind::CompileCrash), None),
            // Plain diagnostics, for which nobody looks at the machine.
            ("echo 'x.c:1: error: no' >&2; exit 1", Some(FailureKind::CompileError), Some(FailureKind::CompileError)),
        ] {
            for (is_well, expected) in [(false, ill), (true, well)] {
                let ends = Ends::with(command, is_well);
                // Not from the cache.
                let unit = unit(&ends);
                let made = workshop.make(&ends, &unit, unit.key(&ends)).await;
                assert_eq!(
                    made.ok().map(|made| made.expect_err("nothing is made").kind),
                    expected,
                    "{command} {is_well}"
                );
            }
        }
    }

    /// As many crashes at a time, one look.
    #[tokio::test]
    async fn a_look_at_the_machine_is_for_all_that_failed_before() {
        let workshop = workshop();
        let looks = AtomicUsize::new(0);
        let look = || {
            let look = async {
                looks.fetch_add(1, Ordering::SeqCst);
                Ok(())
            };
            Box::pin(look)
        };
        let before = Instant::now();
        workshop.is_well_with("cc", before, look()).await.unwrap();
        workshop.is_well_with("cc", before, look()).await.unwrap();
        workshop.is_well_with("clang", before, look()).await.unwrap();
        assert_eq!(looks.load(Ordering::SeqCst), 2);
        workshop.is_well_with("cc", Instant::now(), look()).await.unwrap();
        assert_eq!(looks.load(Ordering::SeqCst), 3);
    }
}
