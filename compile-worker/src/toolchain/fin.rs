//! `fin`: MIOpen's own kernels, compiled by a fin without a GPU, a solver in each of its processes.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bluefin_common::artifact::Built;
use bluefin_common::candidate::Candidate;
use bluefin_common::delivery::pin::Pin;
use bluefin_common::description::{Description, SolverInfo};
use bluefin_common::failure::{Attempt, Failure, FailureKind};
use bluefin_common::problem::{PerfDbKey, Problem};
use bluefin_common::session::{Session, Stage};
use bluefin_common::target::Target;
use bluefin_common::task::TaskRef;
use bluefin_miopen::detect::{self, ROCM, Versions};
use bluefin_miopen::disk::Disk;
use bluefin_miopen::fin::{self, CompiledSolver, Request, Step, Trouble};
use bluefin_miopen::place::Place;
use bluefin_miopen::process::Watch;
use bluefin_miopen::{LibraryPin, Tool, solver};
use tokio::sync::Mutex;

use super::{Compiled, Programs, Toolchain, Work};
use crate::error::Error;
use crate::workshop::Workshop;

const NAME: &str = "fin";
/// What every build of fin knows, to try it with.
const TRIAL: &str = "gfx90a-104";

/// A fin that was tried and compiles.
pub struct Fin {
    fin: fin::Fin,
    library: LibraryPin,
    /// Bounds of one compile: all params of a solver are compiled in it.
    pub watch: Watch,
    /// Where it writes.
    pub disk: Disk,
    /// Whether this build compiles for a target.
    targets: Mutex<HashMap<Target, bool>>,
}

/// The toolchain of the fin that was named, or found.
pub(super) async fn probe(programs: &Programs) -> Result<Arc<dyn Toolchain>, Error> {
    let program = find(programs.fin.as_deref())?;
    let fin = Fin::probe(&program, programs.launcher.clone()).await?;
    tracing::info!(program = %program.display(), library = fin.identity(), backend = "HIPNOGPU", "fin compiles");
    Ok(Arc::new(fin))
}

fn find(named: Option<&Path>) -> Result<PathBuf, Error> {
    detect::find(Tool::Fin, named, Path::new(ROCM)).ok_or_else(|| {
        let program = Tool::Fin.program();
        let reason = match named {
            Some(named) => format!("{}: no file", named.display()),
            None => format!("{program}: not in {ROCM}/bin and not in PATH: name it with --fin"),
        };
        Error::NoTool { reason }
    })
}

impl Fin {
    /// Tries the executable at `program`, behind `launcher` if that is not empty.
    ///
    /// # Errors
    /// If it does not list its solvers, or can not compile.
    pub async fn probe(program: &Path, launcher: Vec<OsString>) -> Result<Self, Error> {
        let fin = fin::Fin::new(program, launcher);
        let broken = |trouble: Trouble| Error::BrokenCompiler {
            toolchain: NAME,
            program: program.to_path_buf(),
            reason: trouble.into_failure().detail,
            install: "fin of a MIOpen that is built with MIOPEN_BACKEND=HIPNOGPU",
        };
        let solvers = fin.solvers().await.map_err(broken)?;
        let trial: Target = TRIAL.parse().map_err(|error| Error::Job { reason: format!("{error}") })?;
        fin.try_compile(&trial).await.map_err(broken)?;
        let library = LibraryPin(solver::identity(&Versions::of_program(program), &solvers));
        // Half an hour without a sign of life: one kernel of composable kernel compiles for minutes.
        let watch = Watch { silence: Duration::from_secs(1800), ..Watch::default() };
        Ok(Self { fin, library, watch, disk: Disk::default(), targets: Mutex::default() })
    }

    /// Compiles one candidate of `job`.
    async fn compile_one(
        &self,
        Work { job, workshop }: Work<'_>,
        session: &Session,
        candidate: &Candidate,
    ) -> Result<Attempt<CompiledSolver>, Error> {
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
        place.set("MIOPEN_COMPILE_PARALLEL_LEVEL", parallel(workshop).to_string());
        if let (Stage::Find, Problem::Conv(conv), false) = (job.stage, &job.problem, candidate.params.is_empty()) {
            let tuned = place.tuned(&job.target, PerfDbKey::from(conv), &candidate.solver, &candidate.params_text());
            tuned.map_err(|error| Error::Exhausted { reason: format!("perf db of one row: {error}") })?;
        }
        let slot = workshop.slot().await;
        let began = Instant::now();
        let called = self.fin.call(&[request], &place, &self.watch).await;
        drop(slot);
        let answer = match called {
            Ok((answers, _)) => answers.into_iter().next().unwrap_or_default(),
            Err(Trouble::Machine(reason)) => return Err(Error::Exhausted { reason }),
            Err(Trouble::Killed(by)) => return Err(Error::Interrupted { by }),
            Err(trouble) => {
                let failure = trouble.into_failure();
                workshop.ran(began.elapsed(), Err(failure.kind));
                return Ok(Err(failure));
            }
        };
        let (problem, name) = (job.problem.clone(), candidate.solver.clone());
        let opened = tokio::task::spawn_blocking(move || fin::compiled(step, answer, &problem, &name)).await;
        let opened = opened.map_err(|error| Error::Exhausted { reason: error.to_string() })?;
        let bytes = opened.as_ref().map(|solver| solver.kernels.iter().map(|(_, stream)| stream.len() as u64).sum());
        workshop.ran(began.elapsed(), bytes.map_err(|failure| failure.kind));
        Ok(opened)
    }
}

#[async_trait]
impl Toolchain for Fin {
    fn name(&self) -> &str {
        NAME
    }

    fn pin(&self) -> &dyn Pin {
        &self.library
    }

    /// Tried once. Says loudly if not.
    async fn serves(&self, target: &Target) -> Result<bool, Error> {
        let mut targets = self.targets.lock().await;
        if let Some(known) = targets.get(target) {
            return Ok(*known);
        }
        let serves = match self.fin.try_compile(target).await {
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

    async fn try_out(&self, _: &Workshop) -> Result<(), Error> {
        let trial: Target = TRIAL.parse().map_err(|error| Error::Job { reason: format!("{error}") })?;
        let tried = self.fin.try_compile(&trial).await;
        tried.map_err(|trouble| Error::Exhausted { reason: format!("fin: {}", trouble.into_failure().detail) })
    }

    async fn roomy(&self) {
        self.disk.roomy().await;
    }

    async fn compile(&self, work: Work<'_>) -> Result<Compiled, Error> {
        let session = work.session().await?;
        let mut description = Description { library: NAME.to_string(), ..Description::default() };
        let mut built = Vec::with_capacity(work.job.candidates.len());
        for candidate in &work.job.candidates {
            let waiting = work.workshop.waiting();
            let compiled = self.compile_one(work, &session, candidate).await?;
            if let Ok(solver) = &compiled {
                tell(&mut description, candidate, solver);
            }
            built.push(match compiled {
                Ok(solver) => Ok(keep(work.workshop, solver).await?),
                Err(failure) => Err(failure),
            });
            drop(waiting);
        }
        Ok(Compiled { task: TaskRef::None, description, built })
    }
}

/// Compilers that one of its processes may run at a time: each compiles on several cores by itself.
fn parallel(workshop: &Workshop) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / workshop.slots().max(1)).max(1)
}

/// Adds what fin says of a solver.
fn tell(description: &mut Description, candidate: &Candidate, solver: &CompiledSolver) {
    if description.solver(&candidate.solver).is_some() {
        return;
    }
    description.solvers.push(SolverInfo {
        name: candidate.solver.clone(),
        algorithm: Some(solver.algorithm.clone()),
        tunable: solver.tunable,
        ..SolverInfo::default()
    });
}

/// Stores the kernels, raw.
async fn keep(workshop: &Workshop, solver: CompiledSolver) -> Result<Built, Error> {
    let CompiledSolver { workspace, kernels, .. } = solver;
    let mut objects = Vec::with_capacity(kernels.len());
    for (object, stream) in kernels {
        workshop.store().put_artifact(&stream).await?;
        objects.push(object);
    }
    Ok(Built { objects, launches: Vec::new(), workspace })
}
