//! `bluefin check`: whether kernels for AMD GPUs are right, without one.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::Context as _;
use bluefin_adapters::sqlite::SqliteStore;
use bluefin_campaign::itself;
use bluefin_campaign::known::known;
use bluefin_campaign::local::Compilers;
use bluefin_common::arch;
use bluefin_common::artifact::{ArtifactRef, Built};
use bluefin_common::candidate::Candidate;
use bluefin_common::clock::now_ms;
use bluefin_common::failure::{Attempt, Failure, FailureKind};
use bluefin_common::job::Job;
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::session::{Session, Stage};
use bluefin_common::store::Store;
use bluefin_common::target::Target;
use bluefin_common::task::{Task, TaskRef};
use bluefin_compile_worker::toolchain::{Compiled, Work};
use bluefin_compile_worker::{self as compile_worker, Limits, Workshop};
use bluefin_eval_worker::executed::{Executed, Executor, ExecutorError, Posed};
use bluefin_producer::plan::{Asked, Plan};
use bluefin_terminal::out;
use bluefin_terminal::width;
use bytes::Bytes;
use comfy_table::CellAlignment;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use indicatif::{ProgressBar, ProgressStyle};
use prometheus::Registry;
use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::input::{Input, InputArgs};

/// Jobs that are compiled or executed at a time, for each CPU.
const JOBS_AHEAD: usize = 2;

/// Check kernels for AMD GPUs on the CPU: each candidate is compiled, executed instruction by instruction, and compared
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  bluefin check --kernel my_kernel.toml --size rows=16 --target gfx942\n  \
    bluefin check problems.txt --target gfx1100 --budget 12\n  \
    bluefin check --kernel my_kernel.toml --target gfx90a-104 --seed 7 --json\n\n\
    No GPU is needed, and nothing is measured: there are no times and no databases. What ends a candidate: a wrong\n\
    result, a touch outside of a buffer or of LDS, a value that nobody wrote, a race, a register that is used before\n\
    its s_waitcnt, a barrier that not all threads reach, a loop without end. Take small sizes that divide by nothing.\n\
    Exit code 1: not all are right.")]
pub struct CheckArgs {
    #[command(flatten)]
    input: InputArgs,
    /// gfx90a, gfx942 or gfx1100; with compute units, as in gfx942-304, where they shape the kernel
    #[arg(long, value_name = "TARGET")]
    target: ArchOrTarget,
    /// Decides the order of blocks and waves, and what inputs hold
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// A launch that executes more instructions of waves than this hangs
    #[arg(long, value_name = "N", default_value_t = 1_000_000_000)]
    max_instructions: u64,
    /// Compilers and executions at a time [default: the number of CPUs]
    #[arg(long, value_name = "N")]
    slots: Option<usize>,
    /// Print every candidate as JSON on standard output, and nothing else there
    #[arg(long)]
    json: bool,
}

/// A target, of which the compute units may be left to what is usual.
#[derive(Clone, Debug)]
struct ArchOrTarget(Target);

impl FromStr for ArchOrTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usual = arch::of(text).and_then(|known| Some(format!("{}-{}", known.name, known.usual_units()?)));
        let target: Target = usual.as_deref().unwrap_or(text).parse().map_err(|error| format!("{error}"))?;
        Ok(Self(target))
    }
}

/// What came of a candidate.
#[derive(Debug, Serialize)]
struct Checked {
    problem: String,
    solver: String,
    params: BTreeMap<String, String>,
    /// `right`, or the kind of failure.
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// Instructions of waves that it executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<u64>,
}

impl CheckArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let target = &self.target.0;
        let slots = self.slots.unwrap_or_else(itself::cpus).max(1);
        let executor = match Executor::new(target.arch(), self.seed, self.max_instructions) {
            Err(error @ ExecutorError::Target { .. }) => return Err(crate::usage(format!("--target: {error}"))),
            executor => executor?,
        };
        let input = self.input.read(target)?;
        input.rejects.iter().for_each(|reject| eprintln!("rejected: {reject}"));
        anyhow::ensure!(!input.problems.is_empty(), "no problem to check in what was named");
        let rejected = !input.rejects.is_empty();
        let compilers = Compilers::probe(&input.specs.toolchains(), Some(slots)).await?.all_for(target)?;
        let store = Arc::new(SqliteStore::in_memory()?);
        let session =
            Session::of_kernels("check".parse()?, self.target.0.clone(), "bluefin check", &[Stage::Perf], now_ms());
        let session = store.create_session(&session).await?;
        let (jobs, plan) = self.plan(&*store, &session, input).await?;
        plan.left_out().iter().for_each(|line| eprintln!("{line}"));
        let workshop = workshop(store.clone(), slots)?;
        workshop.confine(compilers.toolchains()).await;
        let bench = Arc::new(Bench { executor, store, session, workshop, compilers, free: Semaphore::new(slots) });
        let own = clock_gettime(ClockId::ProcessCPUTime);
        let checked = self.check(&bench, jobs, slots).await?;
        say_speed(
            clock_gettime(ClockId::ProcessCPUTime) - own,
            checked.iter().filter(|one| one.result == RIGHT).count(),
            slots,
        );
        let right = checked.iter().filter(|one| one.result == RIGHT).count();
        if self.json {
            out::json(&serde_json::json!({
                "target": target.to_string(),
                "candidates": checked,
                "right": right,
                "unsolved": plan.unsolved,
            }))?;
        } else {
            self.print(&checked)?;
        }
        let all = !checked.is_empty() && right == checked.len() && plan.is_fine() && !rejected;
        Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// The jobs of all problems; nothing is enqueued.
    async fn plan(&self, store: &dyn Store, session: &Session, input: Input) -> anyhow::Result<(Vec<Job>, Plan)> {
        let Input { problems, specs, .. } = input;
        let planners = known().planners();
        let asked = Asked { specs, budget: self.input.budget, ..Asked::default() };
        let planning = planners.begin(store, session, &asked).await?;
        let mut plan = Plan::new(&session.name, planning.selects());
        let mut jobs = Vec::new();
        for (problem, planned) in problems.iter().zip(planning.plan(&problems).await?) {
            jobs.extend(plan.add(problem, planned));
        }
        Ok((jobs, plan))
    }

    /// Compiles and executes all candidates of `jobs`; in their order.
    async fn check(&self, bench: &Arc<Bench>, jobs: Vec<Job>, slots: usize) -> anyhow::Result<Vec<Checked>> {
        let candidates = jobs.iter().map(|job| job.candidates.len() as u64).sum();
        eprintln!("{candidates} candidates are executed for {}; nothing is measured", self.target.0);
        let bar = if self.json || !std::io::stderr().is_terminal() {
            ProgressBar::hidden()
        } else {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {per_sec} {msg}")?;
            ProgressBar::new(candidates).with_style(style)
        };
        let all = stream::iter(jobs).map(|job| bench.check(job, &bar)).buffered(JOBS_AHEAD * slots);
        let checked: Vec<Vec<Checked>> = all.try_collect().await?;
        bar.finish_and_clear();
        Ok(checked.into_iter().flatten().collect())
    }

    fn print(&self, checked: &[Checked]) -> anyhow::Result<()> {
        let mut counts: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
        for one in checked {
            let (right, all) = counts.entry((&one.problem, &one.solver)).or_default();
            *right += usize::from(one.result == RIGHT);
            *all += 1;
        }
        let mut table = width::table();
        table.set_header(["problem", "solver", "right", "of"]);
        for ((problem, solver), (right, all)) in counts {
            table.add_row([problem, solver, &right.to_string(), &all.to_string()]);
        }
        for column in [2, 3] {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        out::line(table)?;
        for one in checked.iter().filter(|one| one.result != RIGHT) {
            let params: Vec<String> = one.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let detail = one.detail.as_deref().unwrap_or_default();
            out::line(format!("{} {} {}: {}: {detail}", one.problem, one.solver, params.join(" "), one.result))?;
        }
        Ok(())
    }
}

/// How fast candidates are executed, apart from the compilers and disassemblers, which are processes of their own.
fn say_speed(own: Timespec, right: usize, slots: usize) {
    let seconds = own.tv_sec as f64 + own.tv_nsec as f64 * 1e-9;
    let rate = right as f64 * slots as f64 / seconds.max(1e-9);
    eprintln!(
        "executed in {seconds:.1} s of CPU time, references included: {rate:.0} right candidates a second on {slots} CPUs"
    );
}

/// What the result of a candidate is called that is right.
const RIGHT: &str = "right";

/// What all candidates share.
struct Bench {
    executor: Executor,
    store: Arc<SqliteStore>,
    session: Session,
    workshop: Workshop,
    compilers: Compilers,
    free: Semaphore,
}

fn workshop(store: Arc<SqliteStore>, slots: usize) -> anyhow::Result<Workshop> {
    let registry = Registry::new();
    let metrics = compile_worker::Metrics::register(&registry, PipelineMetrics::register(&registry)?)?;
    Ok(Workshop::new(store, slots, Limits::default(), Some(itself::command("sandbox-exec")?), metrics))
}

impl Bench {
    async fn check(self: &Arc<Self>, job: Job, bar: &ProgressBar) -> anyhow::Result<Vec<Checked>> {
        let toolchains = self.compilers.toolchains();
        let toolchain = toolchains.iter().find(|toolchain| toolchain.name() == job.toolchain);
        let toolchain = toolchain.with_context(|| format!("toolchain {}: not here", job.toolchain))?;
        let Compiled { task, description, built } =
            toolchain.compile(Work { job: &job, session: &self.session, workshop: &self.workshop }).await?;
        let results = match task {
            TaskRef::Inline(task) => self.execute(*task, &built).await?,
            // No jobs follow here, so that none is a blob.
            TaskRef::None | TaskRef::Blob(_) => {
                built.into_iter().map(|built| built.and_then(|_| Err(no_task()))).collect()
            }
        };
        bar.inc(results.len() as u64);
        let names = |candidate: &Candidate| {
            description.solver(&candidate.solver).map(|solver| solver.params.clone()).unwrap_or_default()
        };
        let checked = |(candidate, result): (&Candidate, Attempt<Executed>)| {
            let names = names(candidate).into_iter().chain((0..).map(|index: usize| index.to_string()));
            let params = names.zip(candidate.params.iter().map(ToString::to_string)).collect();
            let (problem, solver) = (job.problem.label(), candidate.solver.clone());
            match result {
                Ok(executed) => {
                    let instructions = Some(executed.instructions);
                    Checked { problem, solver, params, result: RIGHT, detail: None, instructions }
                }
                Err(Failure { kind, detail }) => {
                    Checked { problem, solver, params, result: kind.name(), detail: Some(detail), instructions: None }
                }
            }
        };
        Ok(job.candidates.iter().zip(results).map(checked).collect())
    }

    /// Executes the reference, then all candidates, each on a CPU.
    async fn execute(self: &Arc<Self>, task: Task, built: &[Attempt<Built>]) -> anyhow::Result<Vec<Attempt<Executed>>> {
        let mut code = vec![self.code(&task.reference).await?];
        for built in built.iter().flatten() {
            code.push(self.code(built).await?);
        }
        let executor = self.executor.clone();
        let mut programs = self.on_cpu(move || executor.load(&code)).await?.into_iter();
        let reference = programs.next().context("a reference")?;
        let executor = self.executor.clone();
        let posed = self.on_cpu(move || reference.and_then(|program| executor.pose(task, &program))).await?;
        let posed: Arc<Posed> = match posed {
            Ok(posed) => Arc::new(posed),
            Err(Failure { kind, detail }) => {
                let failure = Failure::new(kind, format!("the reference: {detail}"));
                return Ok(built.iter().map(|built| built.clone().and(Err(failure.clone()))).collect());
            }
        };
        let mut results: Vec<Attempt<Executed>> =
            built.iter().map(|built| built.clone().map(|_| Executed::default())).collect();
        let mut running = JoinSet::new();
        let compiled = built.iter().enumerate().filter_map(|(index, built)| Some((index, built.as_ref().ok()?)));
        for ((index, built), program) in compiled.zip(programs) {
            let (bench, posed, built) = (Arc::clone(self), Arc::clone(&posed), built.clone());
            running.spawn(async move {
                let executor = bench.executor.clone();
                let check = move || program.and_then(|program| executor.check(&posed, &built, &program));
                (index, bench.on_cpu(check).await)
            });
        }
        while let Some(done) = running.join_next().await {
            let (index, result) = done?;
            if let Some(place) = results.get_mut(index) {
                *place = result?;
            }
        }
        Ok(results)
    }

    async fn on_cpu<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> anyhow::Result<T> {
        let _free = self.free.acquire().await?;
        Ok(tokio::task::spawn_blocking(work).await?)
    }

    async fn code(&self, built: &Built) -> anyhow::Result<Bytes> {
        let artifact: ArtifactRef = built.artifact().context("found several code objects, expected one")?;
        let code = self.store.artifact(artifact).await?;
        code.with_context(|| format!("artifact {}: not in the store", artifact.digest))
    }
}

fn no_task() -> Failure {
    Failure::new(FailureKind::InvalidLaunch, "there is no reference to compare with")
}
