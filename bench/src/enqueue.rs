//! Enqueueing: planning, recording and confirmed publishing, beside confirmed publishing alone.

use std::time::Instant;

use anyhow::ensure;
use bluefin_campaign::known::known;
use bluefin_campaign::ports::FleetArgs;
use bluefin_common::broker::Broker;
use bluefin_common::job::{CompileJob, CompileWork};
use bluefin_common::lane::Lane;
use bluefin_common::session::Stage;
use bluefin_common::wire;
use bluefin_producer::Metrics;
use bluefin_producer::enqueue::{Publish, Ways, enqueue};
use bluefin_producer::plan::{Asked, CandidateBudget};
use bluefin_producer::specs::Specs;
use bytes::Bytes;
use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt, stream};
use prometheus::Registry;

use super::jobs::{noop_jobs, noop_problem, noop_spec, session};
use super::{Figure, peak_rss_mib};

/// Publishes under way at a time in the bare run.
const WINDOW: usize = 1000;
/// Where the jobs wait.
const QUEUE: &str = "bluefin.compile.noop.gfx000-1";

pub async fn run(count: u64, fleet: &FleetArgs) -> anyhow::Result<Vec<Figure>> {
    let store = fleet.store().await?;
    let broker = fleet.broker().await?;
    let [published, consumed] = bare(&*broker, count).await?;
    let session = session(&[Stage::Perf])?;
    let spec = noop_spec()?;
    let problems = (0..count).map(|n| noop_problem(&spec, n)).collect::<anyhow::Result<Vec<_>>>()?;
    // A process waits once for each queue until it can be trusted, which is a matter of its start.
    try_join_all(Lane::names(QUEUE).iter().map(|lane| broker.publish(lane, "first", Bytes::new()))).await?;
    drain(&*broker, QUEUE, Lane::ALL.len() as u64).await?;
    let started = Instant::now();
    let planners = known().planners();
    let asked = Asked {
        specs: Specs::for_target(vec![spec], &session.target),
        budget: CandidateBudget::QUICK,
        ..Asked::default()
    };
    let planning = planners.begin(&*store, &session, &asked).await?;
    let metrics = Metrics::register(&Registry::new())?;
    let ways = Ways { store: &*store, broker: &*broker, metrics: &metrics, publish: Publish::Missing };
    let plan = enqueue(&ways, &session, &*planning, problems).await?;
    let took = started.elapsed();
    ensure!(plan.enqueued == count, "published {} of {count} jobs", plan.enqueued);
    // No worker of a session serves the queue, so what was published is what waits there.
    drain(&*broker, QUEUE, count).await?;
    let enqueued = Figure::rate("enqueue: planned, recorded, published, confirmed", count, took, "jobs/s");
    let ratio = Figure::new("of the bare publishes beside it", enqueued.value / published.value, "x");
    // Nobody asks for it again.
    store.remove_session(&session.name).await?;
    broker.close().await;
    Ok(vec![published, consumed, enqueued, ratio, Figure::new("peak memory", peak_rss_mib(), "MiB")])
}

/// Confirmed publishes of the same messages, then consumes with acknowledgement, and nothing else.
pub async fn bare(broker: &dyn Broker, count: u64) -> anyhow::Result<[Figure; 2]> {
    let queue = "bluefin.bench.bare";
    // So that the queue is trusted when the clock starts.
    broker.publish(queue, "first", Bytes::new()).await?;
    drain(broker, queue, 1).await?;
    let session = session(&[Stage::Perf])?;
    let job = noop_jobs(&session, &noop_spec()?, 0, 1)?.remove(0);
    let body = bytes_of(&CompileJob { job, enqueued_ms: 0, recompiles: 0, work: CompileWork::Candidates })?;
    let started = Instant::now();
    stream::iter((0..count).map(|_| broker.publish(queue, "bare", body.clone())))
        .buffer_unordered(WINDOW)
        .try_collect::<()>()
        .await?;
    let published = Figure::rate("bare confirmed publishes of the same size", count, started.elapsed(), "msgs/s");
    let started = Instant::now();
    drain(broker, queue, count).await?;
    Ok([published, Figure::rate("bare consumes, acknowledged one by one", count, started.elapsed(), "msgs/s")])
}

fn bytes_of(job: &CompileJob) -> anyhow::Result<Bytes> {
    Ok(wire::encode(job)?.into())
}

/// Takes `count` messages off `queue`.
pub async fn drain(broker: &dyn Broker, queue: &str, count: u64) -> anyhow::Result<()> {
    let mut consumer = broker.consume(queue, 500).await?;
    for _ in 0..count {
        let delivery = consumer.next().await.ok_or_else(|| anyhow::anyhow!("{queue}: closed while draining"))?;
        delivery.ack().await?;
    }
    consumer.stop().await;
    Ok(())
}
