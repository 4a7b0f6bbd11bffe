//! The compile stage: how much of the machine the compilers get, and what a warm cache is worth.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bluefin_adapters::embedded::EmbeddedBroker;
use bluefin_adapters::sqlite::SqliteStore;
use bluefin_campaign::machine::itself;
use bluefin_common::broker::Broker;
use bluefin_common::clock::now_ms;
use bluefin_common::job::{Job, eval_queue};
use bluefin_common::method::Method;
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::problem::Problem;
use bluefin_common::problem::driver;
use bluefin_common::session::{Session, Stage};
use bluefin_common::store::Store;
use bluefin_common::target::Target;
use bluefin_compile_worker as compile_worker;
use bluefin_compile_worker::{Programs, toolchain};
use bluefin_producer::enqueue::{Enqueuer, Publish};
use bluefin_producer::plan::CandidateBudget;
use bluefin_producer::plan::kernels::plan_problem;
use bluefin_producer::specs::LoadedSpec;
use prometheus::Registry;
use tokio_util::sync::CancellationToken;

use super::Figure;

/// A layer of ResNet-50 that all host solvers take.
const LAYER: &str = "conv -n 1 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -F 0";
const LOOK_EVERY: Duration = Duration::from_millis(10);

pub async fn run(candidates: usize) -> anyhow::Result<Vec<Figure>> {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory()?);
    let cold = stage(&store, "cold", candidates).await?;
    let warm = stage(&store, "warm", candidates).await?;
    let per_candidate = |stage: &Run| stage.wall.as_secs_f64() / stage.candidates as f64;
    Ok(vec![
        Figure::rate("candidates compiled, cold cache", cold.candidates, cold.wall, "cand/s"),
        Figure::new("of wall time times slots with a compiler running", 100.0 * cold.busy, "%"),
        Figure::new("of wall time times CPUs used by compilers (CPU time)", 100.0 * cold.cpu, "%"),
        Figure::rate("candidates served, warm cache", warm.candidates, warm.wall, "cand/s"),
        Figure::new("warm cache over compiling", per_candidate(&cold) / per_candidate(&warm), "x"),
    ])
}

/// One run of the compile stage.
struct Run {
    candidates: u64,
    wall: Duration,
    /// Share of wall time times slots in which a compiler ran.
    busy: f64,
    /// CPU time of children over wall time times CPUs.
    cpu: f64,
}

async fn stage(store: &Arc<dyn Store>, name: &str, candidates: usize) -> anyhow::Result<Run> {
    let cpus = itself::cpus();
    let broker: Arc<dyn Broker> = Arc::new(EmbeddedBroker::new());
    let session = Session::of_kernels(name.parse()?, Target::Host, "", &[Stage::Perf], now_ms());
    let jobs = jobs(store, &session, candidates).await?;
    let (count, candidates) = (jobs.len() as u64, jobs.iter().map(|job| job.candidates.len() as u64).sum());
    let mut enqueuer = Enqueuer::open(&**store, &*broker, &session, Publish::Missing).await?;
    enqueuer.enqueue(jobs).await?;

    let registry = Registry::new();
    let metrics = compile_worker::Metrics::register(&registry, PipelineMetrics::register(&registry)?)?;
    let toolchain = toolchain::probe("cc", &Programs::default()).await?;
    let mut config = compile_worker::Config::new("bench", vec![toolchain], cpus);
    config.launcher = Some(itself::command("sandbox-exec")?);
    let stop = CancellationToken::new();
    let before = children_cpu()?;
    let started = Instant::now();
    let mut workers = tokio::task::JoinSet::new();
    workers.spawn(compile_worker::run(config, broker.clone(), store.clone(), metrics, stop.clone()));
    while broker.depth(&eval_queue(&Target::Host, Method::KERNELS)).await? < count {
        ensure!(workers.try_join_next().is_none(), "the worker ended");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let wall = started.elapsed();
    let cpu = children_cpu()? - before;
    stop.cancel();
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    broker.close().await;
    let seconds = wall.as_secs_f64() * cpus as f64;
    Ok(Run { candidates, wall, busy: compile_seconds(&registry) / seconds, cpu: cpu / seconds })
}

/// Perf jobs of one layer in all directions, at most `candidates` candidates of each solver.
async fn jobs(store: &Arc<dyn Store>, session: &Session, candidates: usize) -> anyhow::Result<Vec<Job>> {
    let specs: Vec<LoadedSpec> =
        LoadedSpec::shipped()?.into_iter().filter(|spec| spec.spec.toolchain == "cc").collect();
    for spec in &specs {
        store.put_blob(&spec.bundle.encode()?).await?;
    }
    let problems: Vec<Problem> = driver::parse(LAYER, None)?;
    let mut jobs = Vec::new();
    for problem in &problems {
        let each = CandidateBudget::Candidates(candidates.div_ceil(6).max(1));
        jobs.extend(plan_problem(session, problem, &specs, each, None)?.into_iter().flat_map(|group| group.jobs));
    }
    Ok(jobs)
}

/// Seconds in which compilers ran, as the worker's histogram has them.
fn compile_seconds(registry: &Registry) -> f64 {
    let families = registry.gather();
    let histograms = families.iter().filter(|family| family.name() == "bluefin_compile_seconds");
    histograms.flat_map(|family| family.get_metric()).map(|metric| metric.get_histogram().get_sample_sum()).sum()
}

/// CPU seconds of children that have ended, as `/proc/self/stat` counts them.
fn children_cpu() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // Fields 16 and 17, counted behind the command name, which may hold spaces.
    let behind = stat.rsplit_once(')').context("/proc/self/stat")?.1;
    let fields: Vec<&str> = behind.split_whitespace().collect();
    let ticks: u64 =
        fields.get(13..15).context("/proc/self/stat")?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    // Linux counts these in hundredths of a second on every architecture that it runs on.
    Ok(ticks as f64 / 100.0)
}
