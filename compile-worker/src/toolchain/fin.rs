//! `fin`: MIOpen's own kernels, compiled by a fin without a GPU, a solver in each of its processes.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bluefin_common::artifact::{ArtifactRef, Built, CodeObject};
use bluefin_common::candidate::Candidate;
use bluefin_common::delivery::pin::Pin;
use bluefin_common::description::{Description, SolverInfo};
use bluefin_common::digest::{self, Digest};
use bluefin_common::failure::{Attempt, Failure, FailureKind};
use bluefin_common::job::Job;
use bluefin_common::problem::Problem;
use bluefin_common::session::{Session, Stage};
use bluefin_common::target::Target;
use bluefin_common::task::TaskRef;
use bluefin_miopen::detect::{self, ROCM, Versions};
use bluefin_miopen::disk::Disk;
use bluefin_miopen::fin::{self, CompiledSolver, Request, Step, Trouble};
use bluefin_miopen::key::PerfDbKey;
use bluefin_miopen::place::Place;
use bluefin_miopen::process::Watch;
use bluefin_miopen::{LibraryPin, Tool, solver};
use tokio::sync::Mutex;

use super::{CompileAssignment, Compiled, Programs, Toolchain};
use crate::error::Error;
use crate::workshop::{Made, Workshop};

const NAME: &str = "fin";
/// What every build of fin knows, to try it with.
const TRIAL: &str = "gfx90a-104";

/// A fin that was tried and compiles.
pub struct Fin {
    fin: fin::Fin,
    library: LibraryPin,
    /// Of the program: builds of one version may differ.
    executable: Digest,
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
        let executable = Digest::of_file(program);
        let executable = executable.map_err(|source| Error::Machine { what: program.display().to_string(), source })?;
        Ok(Self { fin, library, executable, watch, disk: Disk::default(), targets: Mutex::default() })
    }

    /// What one candidate of a job is built into, from the cache or compiled now.
    async fn compile_one(
        &self,
        work: CompileAssignment<'_>,
        candidate: &Candidate,
    ) -> Result<Attempt<(SolverInfo, Built)>, Error> {
        let CompileAssignment { job, session, workshop } = work;
        let step = match job.stage {
            Stage::Perf => Step::PerfCompile,
            Stage::Find => Step::FindCompile,
        };
        let request = match Request::compile(step, &job.target, &job.problem, &candidate.solver) {
            Ok(request) => request,
            Err(error) => return Ok(Err(Failure::new(FailureKind::NotApplicable, error.to_string()))),
        };
        let call = || self.call((step, request), work, candidate);
        let built = workshop.cached(self.key(job, session, candidate), call).await?;
        Ok(built.map(|built| described(candidate, built)))
    }

    /// Of all that what fin makes depends on: equal keys mean equal kernels.
    fn key(&self, job: &Job, session: &Session, candidate: &Candidate) -> Digest {
        let mut parts = vec![NAME.to_string(), self.library.0.clone(), self.executable.to_string()];
        parts.extend([job.stage.name().to_string(), job.target.to_string(), job.problem.canonical()]);
        parts.extend([candidate.solver.clone(), candidate.params_text()]);
        parts.extend(Place::said_by(session).flat_map(|(name, value)| [name, value]));
        Digest::of_parts(digest::COMPILE, parts.iter().map(String::as_bytes))
    }

    /// Has fin compile a candidate.
    async fn call(
        &self,
        (step, request): (Step, Request),
        CompileAssignment { job, session, workshop }: CompileAssignment<'_>,
        candidate: &Candidate,
    ) -> Result<Attempt<Made>, Error> {
        let machine = |source| Error::Machine { what: "a folder for fin".to_string(), source };
        let mut place = Place::new(Some(session)).map_err(machine)?;
        place.set("MIOPEN_COMPILE_PARALLEL_LEVEL", parallel(workshop).to_string());
        if let (Stage::Find, Problem::Conv(conv), false) = (job.stage, &job.problem, candidate.params.is_empty()) {
            let tuned = place.tuned(&job.target, PerfDbKey::from(conv), &candidate.solver, &candidate.params_text());
            tuned.map_err(|error| Error::Exhausted { reason: format!("perf db of one row: {error}") })?;
        }
        let answer = match self.fin.call(&[request], &place, &self.watch).await {
            Ok((answers, _)) => answers.into_iter().next().unwrap_or_default(),
            Err(Trouble::Machine(reason)) => return Err(Error::Exhausted { reason }),
            Err(Trouble::Killed(by)) => return Err(Error::Interrupted { by }),
            Err(trouble) => return Ok(Err(trouble.into_failure())),
        };
        let (problem, name) = (job.problem.clone(), candidate.solver.clone());
        let opened = tokio::task::spawn_blocking(move || fin::compiled(step, answer, &problem, &name)).await;
        let opened = opened.map_err(|error| Error::Exhausted { reason: error.to_string() })?;
        Ok(opened.map(made))
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

    async fn compile(&self, work: CompileAssignment<'_>) -> Result<Compiled, Error> {
        let mut description = Description { library: NAME.to_string(), ..Description::default() };
        let mut built = Vec::with_capacity(work.job.candidates.len());
        for candidate in &work.job.candidates {
            let compiled = self.compile_one(work, candidate).await?;
            built.push(compiled.map(|(solver, built)| {
                if description.solver(&solver.name).is_none() {
                    description.solvers.push(solver);
                }
                built
            }));
        }
        Ok(Compiled { task: TaskRef::None, description, built })
    }
}

/// Compilers that one of its processes may run at a time: each compiles on several cores by itself.
fn parallel(workshop: &Workshop) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / workshop.slots().max(1)).max(1)
}

/// What the object is called that says of a solver what its kernels do not. It is the last one, and in the cache alone.
const SOLVER: &str = "solver";
const TUNABLE: &str = "tunable ";

/// What fin compiled, as the cache keeps it: the kernels, raw, and what is known of their solver.
fn made(solver: CompiledSolver) -> Made {
    let CompiledSolver { algorithm, workspace, tunable, kernels } = solver;
    let (mut objects, mut code): (Vec<_>, Vec<_>) = kernels.into_iter().unzip();
    let told = format!("{}{algorithm}", if tunable { TUNABLE } else { "" });
    objects.push(CodeObject::plain(ArtifactRef::of(told.as_bytes()), SOLVER, told.clone()));
    code.push(told.into_bytes());
    Made { built: Built { objects, launches: Vec::new(), workspace }, code }
}

/// The reverse of [`made`].
fn described(candidate: &Candidate, mut built: Built) -> (SolverInfo, Built) {
    let told = built.objects.pop_if(|last| last.file == SOLVER).map(|object| object.options).unwrap_or_default();
    let algorithm = told.strip_prefix(TUNABLE);
    let solver = SolverInfo {
        name: candidate.solver.clone(),
        algorithm: Some(algorithm.unwrap_or(&told).to_string()),
        tunable: algorithm.is_some(),
        ..SolverInfo::default()
    };
    (solver, built)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_cache_keeps_comes_back() {
        let object = CodeObject::plain(ArtifactRef::of(b"kernel"), "conv1x1u.s", " -Dx=1");
        for tunable in [true, false] {
            let solver = CompiledSolver {
                algorithm: "miopenConvolutionFwdAlgoDirect".to_string(),
                workspace: 7,
                tunable,
                kernels: vec![(object.clone(), b"kernel".to_vec())],
            };
            let made = made(solver);
            assert_eq!((made.built.objects.len(), made.code.len()), (2, 2));
            let candidate = Candidate { solver: "ConvAsm1x1U".to_string(), params: Vec::new() };
            let (info, built) = described(&candidate, made.built);
            assert_eq!((info.algorithm.as_deref(), info.tunable), (Some("miopenConvolutionFwdAlgoDirect"), tunable));
            assert_eq!((built.objects, built.workspace), (vec![object.clone()], 7));
        }
    }
}
