//! No-op jobs through both hops, beside what broker and store allow at best.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use bluefin_campaign::ports::FleetArgs;
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::session::{SessionName, Stage};
use bluefin_common::store::Store;
use bluefin_compile_worker as compile_worker;
use bluefin_compile_worker::{Programs, toolchain};
use bluefin_eval_worker as eval_worker;
use bluefin_eval_worker::Noop;
use bluefin_producer::enqueue::{Enqueuer, Publish};
use prometheus::Registry;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::enqueue::bare;
use super::jobs::{CHUNK, noop_jobs, noop_spec, session};
use super::{Figure, peak_rss_mib};

/// Between two looks at what is done.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Without a new outcome for this long the run has failed.
const STALLED: Duration = Duration::from_secs(30);

pub async fn run(count: u64, slots: u16, fleet: &FleetArgs) -> anyhow::Result<Vec<Figure>> {
    let store = fleet.store().await?;
    let broker = fleet.broker().await?;
    let [publish, consume] = bare(&*broker, count).await?;

    let session = session(&[Stage::Perf])?;
    let spec = noop_spec()?;
    store.put_blob(&spec.bundle.encode()?).await?;
    let mut enqueuer = Enqueuer::open(&*store, &*broker, &session, Publish::Missing).await?;
    let mut planned = 0;
    while planned < count {
        // In parts, so that the peak of the memory is the workers'.
        let jobs = noop_jobs(&session, &spec, planned, CHUNK.min(count - planned))?;
        planned += jobs.len() as u64;
        enqueuer.enqueue(jobs).await?;
    }
    ensure!(enqueuer.total().published == count, "published {} of {count} jobs", enqueuer.total().published);

    // A worker of each kind, as processes of their own would have them: connections, metrics and all.
    let stop = CancellationToken::new();
    let registry = Registry::new();
    let pipeline = PipelineMetrics::register(&registry)?;
    let compile_metrics = compile_worker::Metrics::register(&registry, pipeline.clone())?;
    let eval_metrics = eval_worker::Metrics::register(&registry, pipeline)?;
    let toolchain = toolchain::probe("noop", &Programs::default()).await?;
    let mut compile = compile_worker::Config::new("bench", vec![toolchain], 1);
    compile.prefetch = slots;
    let mut eval = eval_worker::Config::new("bench", Arc::new(Noop { target: session.target.clone() }));
    eval.prefetch = slots;
    let mut workers = JoinSet::new();
    for worker in [0, 1] {
        let (broker, store, stop) = (fleet.broker().await?, fleet.store().await?, stop.clone());
        let (compile, compile_metrics) = (compile.clone(), compile_metrics.clone());
        let (eval, eval_metrics) = (eval.clone(), eval_metrics.clone());
        workers.spawn(async move {
            let ran: anyhow::Result<()> = match worker {
                0 => {
                    compile_worker::run(compile, broker.clone(), store, compile_metrics, stop).await.map_err(Into::into)
                }
                _ => eval_worker::run(eval, broker.clone(), store, eval_metrics, stop).await.map_err(Into::into),
            };
            broker.close().await;
            ran
        });
    }
    let Timed { jobs: timed, took, cpu } = wait(&*store, &session.name, count).await?;
    stop.cancel();
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    broker.close().await;
    let jobs = Figure::rate("no-op jobs through both hops", timed, took, "jobs/s");
    // A job is published twice and consumed twice; the first publish is before the clock starts.
    let bound = 1.0 / (1.0 / publish.value + 2.0 / consume.value);
    let ratio = Figure::new("of one bare publish and two bare consumes beside it", jobs.value / bound, "x");
    let mut figures = vec![publish, consume, jobs, ratio];
    if let Some(cpu) = cpu {
        let each = cpu.as_secs_f64() * 1e6 / timed as f64;
        figures.push(Figure::new("CPU time of the whole machine for each of them, servers included", each, "us"));
    }
    figures.push(Figure::new("peak memory of both workers and the producer", peak_rss_mib(), "MiB"));
    Ok(figures)
}

/// What was done while the clock ran.
struct Timed {
    jobs: u64,
    took: Duration,
    /// CPU time that all processes of the machine spent meanwhile, where the system tells.
    cpu: Option<Duration>,
}

/// Waits until `count` jobs have outcomes. The clock starts when the first ones have: workers connect, and wait once until
/// a queue can be trusted, which is a matter of their start.
async fn wait(store: &dyn Store, session: &SessionName, count: u64) -> anyhow::Result<Timed> {
    let (mut done, mut moved) = (0, Instant::now());
    let mut first = None;
    loop {
        let now = store.progress(session).await?.done.values().sum();
        if now > done {
            (done, moved) = (now, Instant::now());
        }
        match first {
            None if done > 0 => first = Some((done, moved, cpu_time())),
            Some((before, started, cpu)) if done >= count => {
                let cpu = cpu_time().zip(cpu).map(|(now, then)| now.saturating_sub(then));
                return Ok(Timed { jobs: count - before, took: started.elapsed(), cpu });
            }
            _ => {}
        }
        ensure!(moved.elapsed() < STALLED, "stalled at {done} of {count} jobs");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// CPU time of all processes since the machine was started: what proc(5) counts of user, nice, system, irq and softirq.
pub fn cpu_time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let counts: Vec<u64> =
        stat.lines().next()?.split_whitespace().skip(1).filter_map(|count| count.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, ..] = *counts.as_slice() else { return None };
    let ticks = user + nice + system + irq + softirq;
    Some(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}
