//! From one unit to its artifact: look into the cache, else compile once and remember what came of it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::Read as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bluefin_common::artifact::{ArtifactRef, Launch};
use bluefin_common::digest::Digest;
use bluefin_common::outcome::{Failure, FailureKind};
use bluefin_common::spec::{Bundle, KernelSpec};
use bluefin_common::store::{CompileRecord, Store};
use tokio::sync::{OnceCell, Semaphore};

use crate::diagnose::{failure, timed_out};
use crate::error::Error;
use crate::metrics::{Lookup, Metrics};
use crate::process::{Ended, Limits, run};
use crate::shim;
use crate::toolchain::Toolchain;

/// Raised whenever equal inputs would give another artifact: a flag of a toolchain's command line, the shim.
const CACHE_VERSION: &str = "bluefin 2026 compile 2";
const OUTPUT: &str = "unit.out";
/// What goes before the source of a reference.
const CHECKS: &str = include_str!("check.hip");

/// An artifact, or why there is none: what the cache keeps.
type Compiled = Result<ArtifactRef, Failure>;

/// Everything that one run of a compiler depends on.
#[derive(Clone, Debug)]
pub struct Unit {
    arch: String,
    bundle: Arc<Bundle>,
    source: String,
    flags: Vec<String>,
    defines: Vec<(String, String)>,
    /// The generated unit, for toolchains that have one.
    shim: Option<String>,
}

impl Unit {
    /// What compiles a candidate of `spec`, given its macros and launches.
    #[must_use]
    pub fn new(
        toolchain: &Toolchain,
        arch: &str,
        bundle: Arc<Bundle>,
        spec: &KernelSpec,
        defines: Vec<(String, String)>,
        launches: &[Launch],
    ) -> Self {
        let shim = toolchain.needs_shim().then(|| shim::unit(&spec.source, launches));
        Self { arch: arch.to_string(), bundle, source: spec.source.clone(), flags: spec.flags.clone(), defines, shim }
    }

    /// The same with the entries by which an eval worker checks on the device, where the toolchain can compile them.
    #[must_use]
    pub fn with_checks(self, toolchain: &Toolchain) -> Self {
        if !toolchain.takes_checks() {
            return self;
        }
        let shim = Some(format!("{CHECKS}#include \"{}\"\n", self.source));
        Self { shim, ..self }
    }

    /// Equal keys mean equal artifacts.
    #[must_use]
    pub fn key(&self, toolchain: &Toolchain) -> Digest {
        let mut parts: Vec<String> = vec![toolchain.name().into(), toolchain.identity().into(), self.arch.clone()];
        // Lengths in front keep one list from running into the next.
        parts.push(self.flags.len().to_string());
        parts.extend(self.flags.iter().cloned());
        parts.push(self.defines.len().to_string());
        parts.extend(self.defines.iter().flat_map(|(name, value)| [name.clone(), value.clone()]));
        parts.extend([self.source.clone(), self.shim.clone().unwrap_or_default()]);
        let files = self.bundle.files.iter().flat_map(|(name, text)| [name.as_bytes(), text.as_bytes()]);
        Digest::of_parts(CACHE_VERSION, parts.iter().map(String::as_bytes).chain(files))
    }
}

/// Compiles units of one toolchain, at most `slots` at a time together with its clones.
pub struct Compiler {
    toolchain: Toolchain,
    store: Arc<dyn Store>,
    slots: Arc<Semaphore>,
    limits: Limits,
    launcher: Option<Vec<OsString>>,
    metrics: Metrics,
    in_flight: Mutex<HashMap<Digest, Arc<OnceCell<Compiled>>>>,
}

impl Compiler {
    /// `launcher` is the command that starts the inner side of the sandbox, such as `bluefin sandbox-exec`; without one
    /// the compiler runs without limits but that of time.
    #[must_use]
    pub fn new(
        toolchain: Toolchain,
        store: Arc<dyn Store>,
        slots: Arc<Semaphore>,
        limits: Limits,
        launcher: Option<Vec<OsString>>,
        metrics: Metrics,
    ) -> Self {
        Self { toolchain, store, slots, limits, launcher, metrics, in_flight: Mutex::default() }
    }

    #[must_use]
    pub fn toolchain(&self) -> &Toolchain {
        &self.toolchain
    }

    /// The artifact of `unit`, from the cache or compiled now. Of several calls with equal units at one time only one
    /// compiles.
    ///
    /// # Errors
    /// What is not the unit's fault: store, disk, processes.
    pub async fn compile(&self, unit: &Unit) -> Result<Compiled, Error> {
        let key = unit.key(&self.toolchain);
        let flight = Flight::join(&self.in_flight, key);
        let mut first = false;
        let made = flight.cell.get_or_try_init(|| {
            first = true;
            self.look_up_or_compile(key, unit)
        });
        let result = made.await.cloned();
        if !first {
            self.metrics.lookup(Lookup::Shared);
        }
        result
    }

    async fn look_up_or_compile(&self, key: Digest, unit: &Unit) -> Result<Compiled, Error> {
        let lookup = match self.store.compiled(key).await?.map(|record| record.result) {
            Some(Ok(artifact)) if !self.store.has_artifact(artifact).await? => Lookup::Evicted,
            Some(known) => {
                self.metrics.lookup(Lookup::Hit);
                return Ok(known);
            }
            None => Lookup::Miss,
        };
        self.metrics.lookup(lookup);
        // The semaphore is never closed.
        let permit = self.slots.acquire().await;
        let busy = self.metrics.busy();
        let started = Instant::now();
        let made = self.run_compiler(unit).await;
        let took = started.elapsed();
        drop((permit, busy));
        let result = match made? {
            Ok(bytes) => {
                self.metrics.observe_compile(took, Ok(bytes.len() as u64));
                Ok(self.store.put_artifact(&bytes).await?)
            }
            Err(failure) => {
                self.metrics.observe_compile(took, Err(failure.kind));
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

    async fn run_compiler(&self, unit: &Unit) -> Result<Result<Vec<u8>, Failure>, Error> {
        if self.toolchain.is_noop() {
            // Another one for other inputs, as a compiler would make.
            return Ok(Ok(format!("bluefin noop artifact {}\n", unit.key(&self.toolchain)).into_bytes()));
        }
        let machine = |source| Error::machine("temporary folder", source);
        let folder = tempfile::Builder::new().prefix("bluefin-compile-").tempdir().map_err(machine)?;
        for (name, text) in &unit.bundle.files {
            std::fs::write(folder.path().join(name), text).map_err(machine)?;
        }
        let source = match &unit.shim {
            Some(shim) => {
                std::fs::write(folder.path().join(shim::UNIT), shim).map_err(machine)?;
                shim::UNIT
            }
            None => unit.source.as_str(),
        };
        let command = self.toolchain.command(&unit.arch, &unit.flags, &unit.defines, source, OUTPUT);
        match run(self.launcher.as_deref(), &self.limits, &command, folder.path()).await? {
            Ended::TimedOut => Ok(Err(timed_out(&self.limits))),
            Ended::Killed { short_of } => Err(Error::Killed { short_of }),
            Ended::Exited { status, output } if !status.success() => {
                Ok(Err(failure(status, &output, &self.limits, &self.limits.in_force())?))
            }
            Ended::Exited { .. } => self.artifact(&folder.path().join(OUTPUT)),
        }
    }

    /// What the compiler wrote.
    fn artifact(&self, path: &Path) -> Result<Result<Vec<u8>, Failure>, Error> {
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
}

/// A place in the table of compiles under way; the last to leave removes the entry.
struct Flight<'a> {
    table: &'a Mutex<HashMap<Digest, Arc<OnceCell<Compiled>>>>,
    key: Digest,
    cell: Arc<OnceCell<Compiled>>,
}

impl<'a> Flight<'a> {
    fn join(table: &'a Mutex<HashMap<Digest, Arc<OnceCell<Compiled>>>>, key: Digest) -> Self {
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
