//! The toolchain `fin`: MIOpen's own kernels, compiled by a fin without a GPU.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bluefin_common::job::{Job, Stage};
use bluefin_common::miopen::Solution;
use bluefin_common::miopen::detect::Versions;
use bluefin_common::miopen::disk::Disk;
use bluefin_common::miopen::fin::{self, CompiledSolver, Fin, Request, Step, Trouble};
use bluefin_common::miopen::place::Place;
use bluefin_common::miopen::process::Watch;
use bluefin_common::miopen::solver;
use bluefin_common::outcome::{Candidate, Failure, FailureKind};
use bluefin_common::problem::{PerfDbKey, Problem};
use bluefin_common::session::Session;
use bluefin_common::store::Store;
use bluefin_common::target::Target;
use tokio::sync::{Mutex, Semaphore};

use crate::error::Error;
use crate::metrics::Metrics;

/// What every build of fin knows, to try it with.
const TRIAL: &str = "gfx90a-104";

/// A fin that was tried and compiles.
#[derive(Clone, Debug)]
pub struct FinToolchain {
    fin: Fin,
    identity: String,
    /// Bounds of one compile: all params of a solver are compiled in it.
    pub watch: Watch,
    /// Where it writes.
    pub disk: Disk,
}

impl FinToolchain {
    /// Tries the executable at `program`, behind `launcher` if that is not empty.
    ///
    /// # Errors
    /// If it does not list its solvers, or can not compile.
    pub async fn probe(program: &Path, launcher: Vec<OsString>) -> Result<Self, Error> {
        let fin = Fin::new(program, launcher);
        let broken = |trouble: Trouble| Error::BrokenCompiler {
            toolchain: "fin",
            program: program.to_path_buf(),
            reason: trouble.into_failure().detail,
            install: "fin of a MIOpen that is built with MIOPEN_BACKEND=HIPNOGPU",
        };
        let solvers = fin.solvers().await.map_err(broken)?;
        let trial: Target = TRIAL.parse().map_err(|error| Error::Job { reason: format!("{error}") })?;
        fin.try_compile(&trial).await.map_err(broken)?;
        let versions = Versions::of_program(program);
        let identity = solver::identity(&versions, &solvers);
        // Half an hour without a sign of life: one kernel of composable kernel compiles for minutes.
        let watch = Watch { silence: Duration::from_secs(1800), ..Watch::default() };
        Ok(Self { fin, identity, watch, disk: Disk::default() })
    }

    /// What sessions are pinned to.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }
}

/// Compiles jobs of the toolchain `fin`, each in a process of its own.
pub(crate) struct FinCompiler {
    toolchain: FinToolchain,
    store: Arc<dyn Store>,
    slots: Arc<Semaphore>,
    /// Compilers that one process may run at a time.
    parallel: usize,
    metrics: Metrics,
    /// Whether this build compiles for a target.
    targets: Mutex<HashMap<Target, bool>>,
}

impl FinCompiler {
    pub(crate) fn new(
        toolchain: FinToolchain,
        store: Arc<dyn Store>,
        slots: Arc<Semaphore>,
        parallel: usize,
        metrics: Metrics,
    ) -> Self {
        Self { toolchain, store, slots, parallel, metrics, targets: Mutex::default() }
    }

    pub(crate) fn toolchain(&self) -> &FinToolchain {
        &self.toolchain
    }

    /// Whether this fin compiles for `target`; tried once. Says loudly if not.
    pub(crate) async fn serves(&self, target: &Target) -> Result<bool, Error> {
        let mut targets = self.targets.lock().await;
        if let Some(known) = targets.get(target) {
            return Ok(*known);
        }
        let serves = match self.toolchain.fin.try_compile(target).await {
            Ok(()) => true,
            Err(Trouble::Machine(reason)) => return Err(Error::Exhausted { reason }),
            Err(trouble) => {
                let reason = trouble.into_failure().detail;
                tracing::error!(%target, reason, "this fin does not compile for the target; its jobs are handed back");
                false
            }
        };
        targets.insert(target.clone(), serves);
        Ok(serves)
    }

    /// Compiles one candidate of `job`.
    ///
    /// # Errors
    /// What is not the candidate's fault: store, disk, processes.
    pub(crate) async fn compile(
        &self,
        job: &Job,
        session: &Session,
        candidate: &Candidate,
    ) -> Result<Result<Solution, Failure>, Error> {
        let machine = |source| Error::Machine { what: "a folder for fin".to_string(), source };
        let step = match job.stage {
            Stage::Perf => Step::PerfCompile,
            Stage::Find => Step::FindCompile,
        };
        let request = match Request::compile(step, &job.target, &job.problem, &candidate.solver) {
            Ok(request) => request,
            Err(error) => return Ok(Err(Failure::new(FailureKind::NotApplicable, error.to_string()))),
        };
        let mut place = Place::new(Some(session)).map_err(machine)?;
        place.set("MIOPEN_COMPILE_PARALLEL_LEVEL", self.parallel.to_string());
        if let (Stage::Find, Problem::Conv(conv), false) = (job.stage, &job.problem, candidate.params.is_empty()) {
            let tuned = place.tuned(&job.target, PerfDbKey::from(conv), &candidate.solver, &candidate.params_text());
            tuned.map_err(|error| Error::Exhausted { reason: format!("perf db of one row: {error}") })?;
        }
        // The semaphore is never closed.
        let permit = self.slots.acquire().await;
        let busy = self.metrics.busy();
        let began = Instant::now();
        let called = self.toolchain.fin.call(&[request], &place, &self.toolchain.watch).await;
        drop((permit, busy));
        let answer = match called {
            Ok((answers, _)) => answers.into_iter().next().unwrap_or_default(),
            Err(Trouble::Machine(reason)) => return Err(Error::Exhausted { reason }),
            Err(trouble) => {
                let failure = trouble.into_failure();
                self.metrics.observe_compile(began.elapsed(), Err(failure.kind));
                return Ok(Err(failure));
            }
        };
        let (problem, name) = (job.problem.clone(), candidate.solver.clone());
        let opened = tokio::task::spawn_blocking(move || fin::compiled(step, answer, &problem, &name)).await;
        let opened = opened.map_err(|error| Error::Exhausted { reason: error.to_string() })?;
        let bytes = opened.as_ref().map(|solver| solver.kernels.iter().map(|(_, stream)| stream.len() as u64).sum());
        self.metrics.observe_compile(began.elapsed(), bytes.map_err(|failure| failure.kind));
        match opened {
            Ok(solver) => Ok(Ok(self.keep(solver).await?)),
            Err(failure) => Ok(Err(failure)),
        }
    }

    /// Stores the kernels, raw.
    async fn keep(&self, solver: CompiledSolver) -> Result<Solution, Error> {
        let CompiledSolver { algorithm, workspace, tunable, kernels } = solver;
        let mut kept = Vec::with_capacity(kernels.len());
        for (kernel, stream) in kernels {
            self.store.put_artifact(&stream).await?;
            kept.push(kernel);
        }
        Ok(Solution { algorithm, workspace, tunable, kernels: kept })
    }
}
