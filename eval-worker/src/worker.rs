//! The worker: takes jobs from the queue of its evaluator, and settles each once what came of it is durable.
//!
//! Every job in hand is a task of its own that goes through the same steps: read, begin, evaluate, store, acknowledge. On a
//! device evaluation is fetching artifacts, then waiting for the device, which is a lock in the middle: while one job is on it,
//! the next one fetches and the last one is stored.

mod job;
pub mod quarantine;

use std::sync::Arc;

use bluefin_common::broker::{Broker, BrokerError, Consumer};
use bluefin_common::delivery::pin::Pinned;
use bluefin_common::delivery::{self, Patience};
use bluefin_common::store::Store;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::evaluator::Running;
use crate::evaluator::artifacts::Artifacts;
use crate::evaluator::tasks::Tasks;
use crate::metrics::Metrics;
use crate::supervisor::DeviceError;

/// Why a worker ended before it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device is of no use any more; its jobs are back in their queue.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// It was asked to end while its device did not work.
    #[error("device {device} is quarantined: {reason}")]
    Quarantined { device: String, reason: String },
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

/// Evaluates jobs as long as the device works.
async fn serve(
    config: Config,
    broker: Arc<dyn Broker>,
    store: Arc<dyn Store>,
    metrics: Metrics,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    let evaluator = &config.evaluator;
    let running = evaluator.start(&metrics).await?;
    metrics.set_quarantined(evaluator.name(), false);
    let queue = evaluator.queue();
    tracing::info!(worker = config.worker, device = running.identity(), queue, "evaluating");
    let mut consumer = broker.consume(&queue, config.prefetch.max(1)).await?;

    let worker = Arc::new(Worker {
        artifacts: Artifacts::new(config.artifact_cache_bytes, metrics.clone()),
        tasks: Tasks::default(),
        pinned: Pinned::default(),
        patience: Patience { limit: config.patience, expired: CancellationToken::new() },
        // A drain of its own, so that a device that is gone ends this worker alone.
        draining: shutdown.child_token(),
        running,
        config,
        broker,
        store,
        metrics,
    });
    let mut jobs = JoinSet::new();
    let result = worker.consume(consumer.as_mut(), &mut jobs).await;
    worker.draining.cancel();
    consumer.stop().await;
    let drained = delivery::drain(&mut jobs, worker.config.grace, &worker.patience.expired, ended).await;
    tracing::info!(worker = worker.config.worker, "stopped");
    result.and(drained)
}

/// What the jobs in hand share.
struct Worker {
    config: Config,
    broker: Arc<dyn Broker>,
    store: Arc<dyn Store>,
    metrics: Metrics,
    running: Box<dyn Running>,
    artifacts: Artifacts,
    tasks: Tasks,
    pinned: Pinned,
    /// It has expired when the grace period of a drain is over.
    patience: Patience,
    /// No job is begun any more.
    draining: CancellationToken,
}

type Jobs = JoinSet<Result<(), DeviceError>>;

impl Worker {
    async fn consume(self: &Arc<Self>, consumer: &mut dyn Consumer, jobs: &mut Jobs) -> Result<(), Error> {
        let slots = usize::from(self.config.prefetch.max(1));
        loop {
            if self.draining.run_until_cancelled(self.running.roomy()).await.is_none() {
                return Ok(());
            }
            tokio::select! {
                biased;
                () = self.draining.cancelled() => return Ok(()),
                Some(done) = jobs.join_next() => ended(done)?,
                delivery = consumer.next(), if jobs.len() < slots => match delivery {
                    Some(delivery) => {
                        let worker = Arc::clone(self);
                        jobs.spawn(async move { worker.handle(delivery).await });
                    }
                    None => return Ok(()),
                },
            }
        }
    }
}

/// What became of a job's task.
fn ended(done: Result<Result<(), DeviceError>, JoinError>) -> Result<(), Error> {
    match done {
        Ok(result) => Ok(result?),
        Err(error) => {
            // Its delivery was dropped on the way, so it comes again, and is counted.
            tracing::error!(%error, "a job was lost by its task");
            Ok(())
        }
    }
}
