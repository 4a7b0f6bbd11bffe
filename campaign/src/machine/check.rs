//! Whether kernels for AMD GPUs are right, without one: each candidate is compiled, executed on the CPU, and compared.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::artifact::{ArtifactRef, Built};
use bluefin_common::candidate::Candidate;
use bluefin_common::clock::now_ms;
use bluefin_common::digest::Digest;
use bluefin_common::failure::{Attempt, Failure, FailureKind};
use bluefin_common::job::Job;
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::outcome::not_deterministic;
use bluefin_common::problem::Problem;
use bluefin_common::session::{Session, Stage};
use bluefin_common::store::{Artifacts as _, Blobs as _, Sessions as _};
use bluefin_common::target::Target;
use bluefin_common::task::{Task, TaskRef};
use bluefin_compile_worker::toolchain::{CompileAssignment, Compiled};
use bluefin_compile_worker::{self as compile_worker, Limits, Workshop};
use bluefin_eval_worker::executed::{Executed, Executor, Guarded, Mutant, MutantOutcome, Posed, Unreached};
use bluefin_producer::plan::{Asked, Plan};
use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use lru::LruCache;
use prometheus::Registry;
use serde::Serialize;
use tokio::sync::{OnceCell, Semaphore};
use tokio::task::JoinSet;

use crate::listing::planned;
use crate::machine::itself;
use crate::machine::local::Compilers;

/// The toolchain whose compiler spreads values over lanes.
const SPREADING: &str = "triton";
/// Jobs that are compiled or executed at a time, for each CPU.
const JOBS_AHEAD: usize = 2;
/// Tasks that are kept while no job is at work on them, each with all of its buffers twice.
const POSED: NonZeroUsize = NonZeroUsize::new(2).unwrap();

/// What came of a candidate.
#[derive(Debug, Serialize)]
pub struct Checked {
    /// In short.
    pub problem: String,
    /// Which computes it so.
    pub solver: String,
    /// By name.
    pub params: BTreeMap<String, String>,
    /// `right`, or the kind of failure.
    pub result: &'static str,
    /// What is wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Instructions of waves that it executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<u64>,
    /// Outputs in which two runs of the reference differed: it was compared within a tolerance that is as much wider.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_deterministic: Vec<String>,
    /// Outputs that the reference left as they were, in which nothing was tried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unchanged: Vec<String>,
    /// What came of leaving out, one at a time, what keeps it right; only where that was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mutants: Vec<MutantRow>,
}

/// A kernel without one of its waits, barriers or bounds.
#[derive(Clone, Debug, Serialize)]
pub struct MutantRow {
    /// The kernel's symbol.
    pub kernel: String,
    /// `wait`, `barrier` or `bound`.
    pub guard: &'static str,
    /// The instruction that is left out.
    pub instruction: String,
    /// Where it is in the code object.
    pub address: u64,
    /// File and line that it was compiled from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// `found`, `missed`, `idle` (it did nothing), `covered` (another wait does it) or `spare` (no result depends on it).
    pub outcome: &'static str,
    /// What is wrong without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Checked {
    /// What is to be told of the outputs that it was compared in.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let differing = not_deterministic(&self.not_deterministic);
        let differing = differing.map(|said| format!("{said}; compared within a tolerance that is as much wider"));
        let unchanged = self.unchanged.join(", ");
        let unchanged = (!unchanged.is_empty())
            .then(|| format!("the reference leaves {unchanged} as it was: what is computed there was not tried"));
        differing.into_iter().chain(unchanged).collect()
    }
}

impl From<Mutant> for MutantRow {
    fn from(mutant: Mutant) -> Self {
        let Mutant { kernel, guarded: Guarded { site, guard, .. }, outcome } = mutant;
        let detail = match &outcome {
            MutantOutcome::Found(failure) => Some(failure.detail.clone()),
            _ => None,
        };
        Self {
            kernel,
            guard: guard.name(),
            instruction: site.text,
            address: site.address,
            source: site.source.map(|source| source.to_string()),
            outcome: outcome.name(),
            detail,
        }
    }
}

/// Candidates that are to be checked.
pub struct Checking {
    /// What was planned.
    pub plan: Plan,
    jobs: Vec<Job>,
    slots: usize,
    mutates: bool,
    bench: Arc<Bench>,
}

impl Checking {
    /// All candidates of `problems` that are `asked` for, of which as many are compiled and executed at a time as there are `slots`.
    /// Nothing is enqueued.
    ///
    /// # Errors
    /// If a compiler is missing, or the problems can not be planned.
    pub async fn begin(
        executor: Executor,
        target: &Target,
        problems: &[Problem],
        asked: &Asked,
        slots: usize,
    ) -> anyhow::Result<Self> {
        let tools = Tools::of(&asked.specs.toolchains_for(problems), target, slots).await?;
        Self::with(&Arc::new(tools), executor, problems, asked, slots).await
    }

    /// The same by `tools` that others use as well, which compile nothing twice.
    pub(super) async fn with(
        tools: &Arc<Tools>,
        executor: Executor,
        problems: &[Problem],
        asked: &Asked,
        slots: usize,
    ) -> anyhow::Result<Self> {
        let (planned, plan) = planned(&*tools.store, &tools.session, problems, asked).await?;
        let jobs = planned.into_iter().flat_map(|(_, jobs)| jobs).collect();
        let (free, posed) = (Semaphore::new(slots), Mutex::new(LruCache::new(POSED)));
        let spreading = asked.specs.solvers_of(SPREADING).map(|(spec, solver)| spreading(spec, solver)).collect();
        let bench = Bench { executor, spreading, tools: Arc::clone(tools), free, posed };
        Ok(Self { plan, jobs, slots, mutates: false, bench: Arc::new(bench) })
    }

    /// The same, and each candidate that is right once more without each of what keeps it so.
    #[must_use]
    pub fn mutating(self) -> Self {
        Self { mutates: true, ..self }
    }

    /// How many candidates there are.
    #[must_use]
    pub fn candidates(&self) -> u64 {
        self.jobs.iter().map(|job| job.candidates.len() as u64).sum()
    }

    /// Compiles and executes all, and tells `done` of as many as are done; in the order of the plan. Also what was planned.
    ///
    /// # Errors
    /// If something fails that no candidate is to blame for.
    pub async fn check(self, done: impl Fn(u64)) -> anyhow::Result<(Vec<Checked>, Plan)> {
        let Self { plan, jobs, slots, mutates, bench } = self;
        let (bench, done) = (&bench, &done);
        let all = stream::iter(jobs).map(|job| bench.check(job, mutates, done)).buffered(JOBS_AHEAD * slots);
        let checked: Vec<Vec<Checked>> = all.try_collect().await?;
        Ok((checked.into_iter().flatten().collect(), plan))
    }

    /// How many elements of each buffer the launches of each candidate go as far as, by the buffers' names, whatever lengths these have; in the
    /// order of the plan.
    ///
    /// # Errors
    /// If something fails that no candidate is to blame for.
    pub async fn reach(self) -> anyhow::Result<Vec<Result<BTreeMap<String, u64>, Unreached>>> {
        let mut all = Vec::new();
        for job in &self.jobs {
            let Compiled { task, built, .. } = self.bench.compile_all(job).await?;
            for built in built {
                all.push(match (&task, built) {
                    (_, Err(failure)) => Err(failure.into()),
                    (TaskRef::Inline(task), Ok(built)) => self.bench.reach(task, built).await?,
                    // No jobs follow here, so that none is a blob.
                    (TaskRef::None | TaskRef::Blob(_), Ok(_)) => Err(no_task().into()),
                });
            }
        }
        Ok(all)
    }
}

/// The session that candidates for `target` are checked in.
///
/// # Errors
/// Never: its name is one.
pub fn session(target: &Target) -> anyhow::Result<Session> {
    Ok(Session::of_kernels("check".parse()?, target.clone(), "bluefin check", &[Stage::Perf], now_ms()))
}

/// What the result of a candidate is called that is right.
pub const RIGHT: &str = "right";

/// Outputs of a reference of which something is to be told.
#[derive(Default)]
struct Said {
    not_deterministic: Vec<String>,
    unchanged: Vec<String>,
}

/// What came of a candidate that is right.
type Tried = (Executed, Vec<Mutant>);

/// Compilers that were tried out, and what they have made.
pub(super) struct Tools {
    store: Arc<SqliteStore>,
    session: Session,
    workshop: Workshop,
    compilers: Compilers,
}

impl Tools {
    /// The toolchains `names`, for `target`.
    pub(super) async fn of(names: &[&str], target: &Target, slots: usize) -> anyhow::Result<Self> {
        let compilers = Compilers::probe(names, Some(slots)).await?.all_for(target)?;
        let store = Arc::new(SqliteStore::in_memory()?);
        let session = store.create_session(&session(target)?).await?;
        let workshop = workshop(store.clone(), slots)?;
        workshop.confine(compilers.toolchains()).await;
        Ok(Self { store, session, workshop, compilers })
    }
}

/// What all candidates share.
struct Bench {
    executor: Executor,
    /// The solvers whose compiler spreads values over lanes.
    spreading: BTreeSet<(String, String)>,
    tools: Arc<Tools>,
    free: Semaphore,
    /// The tasks of the jobs in hand, with their answers: all jobs of a problem have the same.
    posed: Mutex<LruCache<Digest, Slot>>,
}

/// A spec and a solver of it.
fn spreading(spec: &str, solver: &str) -> (String, String) {
    (spec.to_string(), solver.to_string())
}

/// Filled by the first who needs it; the others wait for that.
type Slot = Arc<OnceCell<Attempt<Arc<Posed>>>>;

fn workshop(store: Arc<SqliteStore>, slots: usize) -> anyhow::Result<Workshop> {
    let registry = Registry::new();
    let metrics = compile_worker::Metrics::register(&registry, PipelineMetrics::register(&registry)?)?;
    Ok(Workshop::new(store, slots, Limits::default(), Some(itself::command("sandbox-exec")?), metrics).with_lines())
}

impl Bench {
    async fn check(self: &Arc<Self>, job: Job, mutates: bool, done: &impl Fn(u64)) -> anyhow::Result<Vec<Checked>> {
        let Compiled { task, description, built } = self.compile_all(&job).await?;
        let (results, Said { not_deterministic, unchanged }) = match task {
            TaskRef::Inline(task) => {
                let library = description.library.as_str();
                let spreads = |candidate: &Candidate| self.spreading.contains(&spreading(library, &candidate.solver));
                let of_reference = description.reference.as_ref().is_some_and(spreads);
                let spreads: Vec<bool> = job.candidates.iter().map(spreads).collect();
                self.execute(*task, &built, mutates, (of_reference, &spreads)).await?
            }
            // No jobs follow here, so that none is a blob.
            TaskRef::None | TaskRef::Blob(_) => {
                (built.into_iter().map(|built| built.and_then(|_| Err(no_task()))).collect(), Said::default())
            }
        };
        done(results.len() as u64);
        let names = |candidate: &Candidate| {
            description.solver(&candidate.solver).map(|solver| solver.params.clone()).unwrap_or_default()
        };
        let checked = |(candidate, result): (&Candidate, Attempt<Tried>)| {
            let names = names(candidate).into_iter().chain((0..).map(|index: usize| index.to_string()));
            let params = names.zip(candidate.params.iter().map(ToString::to_string)).collect();
            let (result, detail, instructions, mutants) = match result {
                Ok((executed, mutants)) => (RIGHT, None, Some(executed.instructions), mutants),
                Err(Failure { kind, detail }) => (kind.name(), Some(detail), None, Vec::new()),
            };
            let mutants = mutants.into_iter().map(MutantRow::from).collect();
            let (problem, solver) = (job.problem.label(), candidate.solver.clone());
            let (not_deterministic, unchanged) = (not_deterministic.clone(), unchanged.clone());
            Checked { problem, solver, params, result, detail, instructions, not_deterministic, unchanged, mutants }
        };
        Ok(job.candidates.iter().zip(results).map(checked).collect())
    }

    async fn compile_all(&self, job: &Job) -> anyhow::Result<Compiled> {
        let Tools { session, workshop, compilers, .. } = &*self.tools;
        let toolchains = compilers.toolchains();
        let toolchain = toolchains.iter().find(|toolchain| toolchain.name() == job.toolchain);
        let toolchain = toolchain.with_context(|| format!("toolchain {}: not here", job.toolchain))?;
        Ok(toolchain.compile(CompileAssignment { job, session, workshop }).await?)
    }

    async fn reach(&self, task: &Task, built: Built) -> anyhow::Result<Result<BTreeMap<String, u64>, Unreached>> {
        let (executor, task, code) = (self.executor.clone(), task.clone(), self.code(&built).await?);
        let reach = move || {
            let loaded = executor.load(&[code]).pop().unwrap_or_else(|| Err(no_task()))?;
            let lengths = executor.reach(&task, &built, &loaded)?;
            Ok(task.buffers.into_iter().map(|buffer| buffer.name).zip(lengths).collect())
        };
        self.on_cpu(reach).await
    }

    /// Executes the reference, then all candidates, each on a CPU; also what the reference says of its outputs.
    async fn execute(
        self: &Arc<Self>,
        task: Task,
        built: &[Attempt<Built>],
        mutates: bool,
        (of_reference, spreads): (bool, &[bool]),
    ) -> anyhow::Result<(Vec<Attempt<Tried>>, Said)> {
        let slot = self.slot(task.encode()?.0);
        let executor = |spreads| self.executor.clone().spreading(spreads);
        let posed = slot.get_or_try_init(|| self.pose(task, executor(of_reference))).await?.clone();
        let mut code = Vec::new();
        for built in built.iter().flatten() {
            code.push(self.code(built).await?);
        }
        let loader = self.executor.clone();
        let programs = self.on_cpu(move || loader.load(&code)).await?.into_iter();
        let posed: Arc<Posed> = match posed {
            Ok(posed) => posed,
            Err(Failure { kind, detail }) => {
                let failure = Failure::new(kind, format!("the reference: {detail}"));
                return Ok((
                    built.iter().map(|built| built.clone().and(Err(failure.clone()))).collect(),
                    Said::default(),
                ));
            }
        };
        let mut results: Vec<Attempt<Tried>> =
            built.iter().map(|built| built.clone().map(|_| Tried::default())).collect();
        let mut running = JoinSet::new();
        let compiled = built.iter().enumerate().filter_map(|(index, built)| Some((index, built.as_ref().ok()?)));
        for ((index, built), program) in compiled.zip(programs) {
            let (bench, posed, built) = (Arc::clone(self), Arc::clone(&posed), built.clone());
            let executor = executor(spreads.get(index).copied().unwrap_or_default());
            running.spawn(async move {
                let check = move || {
                    let program = program?;
                    let executed = executor.check(&posed, &built, &program)?;
                    let mutants =
                        if mutates { executor.mutate(&posed, &built, &program, &executed) } else { Vec::new() };
                    Ok((executed, mutants))
                };
                (index, bench.on_cpu(check).await)
            });
        }
        while let Some(done) = running.join_next().await {
            let (index, result) = done?;
            if let Some(place) = results.get_mut(index) {
                *place = result?;
            }
        }
        let said = Said { not_deterministic: posed.nondeterministic().to_vec(), unchanged: posed.unchanged().to_vec() };
        Ok((results, said))
    }

    /// Where the task of that digest is, or will be.
    fn slot(&self, task: Digest) -> Slot {
        let mut posed = self.posed.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(posed.get_or_insert(task, Slot::default))
    }

    /// Executes the reference of `task`.
    async fn pose(&self, task: Task, executor: Executor) -> anyhow::Result<Attempt<Arc<Posed>>> {
        let mut data = Vec::new();
        for (buffer, content) in task.data() {
            let found = self.tools.store.blob(content.digest).await?;
            data.push(found.with_context(|| format!("buffer {}: its data is not in the store", buffer.name))?);
        }
        let code = self.code(&task.reference).await?;
        let pose = move || {
            let loaded = executor.load(&[code]).pop().unwrap_or_else(|| Err(no_task()));
            loaded.and_then(|program| executor.pose(task, &data, &program)).map(Arc::new)
        };
        self.on_cpu(pose).await
    }

    async fn on_cpu<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> anyhow::Result<T> {
        let _free = self.free.acquire().await?;
        Ok(tokio::task::spawn_blocking(work).await?)
    }

    async fn code(&self, built: &Built) -> anyhow::Result<Bytes> {
        let artifact: ArtifactRef = built.artifact().context("found several code objects, expected one")?;
        let code = self.tools.store.artifact(artifact).await?;
        code.with_context(|| format!("artifact {}: not in the store", artifact.digest))
    }
}

fn no_task() -> Failure {
    Failure::new(FailureKind::InvalidLaunch, "there is no reference to compare with")
}
