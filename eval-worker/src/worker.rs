//! The worker: takes jobs from the queue of its device, and settles each once what came of it is durable.
//!
//! Every job in hand is a task of its own that goes through the same steps: read, fetch artifacts, wait for the device,
//! evaluate, store, acknowledge. The device is a lock in the middle, so while one job is on it, the next one fetches and
//! the last one is stored.

mod artifacts;
mod job;
mod miopen;
mod patience;
mod pin;
mod quarantine;
mod settle;

use std::num::NonZeroUsize;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bluefin_common::broker::{Broker, BrokerError, Consumer};
use bluefin_common::job::{GroupId, Job, eval_queue};
use bluefin_common::session::SessionName;
use bluefin_common::store::Store;
use lru::LruCache;
use tokio::sync::Mutex;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::artifacts::Artifacts;
use self::pin::Pinning;
use crate::config::{Config, DeviceSpec};
use crate::metrics::Metrics;
use crate::supervisor::{DeviceError, DeviceWorker, Translators};

pub use self::quarantine::{run, run_all};

/// Groups whose best time is remembered.
const GROUPS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
/// What handing back takes at most, once the grace period is over.
const LAST_CALL: Duration = Duration::from_secs(5);

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
    let device = match &config.device {
        DeviceSpec::Child { child, .. } => Some(DeviceWorker::start(child.clone(), metrics.clone()).await?),
        DeviceSpec::Noop(_) | DeviceSpec::Miopen(_) => None,
    };
    let device_name = match (&config.device, &device) {
        (DeviceSpec::Miopen(miopen), _) => format!("{} through {}", miopen.target(), miopen.tool().name()),
        (_, Some(device)) => device.device().to_string(),
        (_, None) => "noop".to_string(),
    };
    if let DeviceSpec::Child { device, .. } = &config.device {
        metrics.set_quarantined(device, false);
    }
    let translators = match &config.device {
        DeviceSpec::Child { child, .. } => Translators::new(child.clone()),
        DeviceSpec::Noop(_) | DeviceSpec::Miopen(_) => None,
    };
    let queue = eval_queue(&config.device.target(), config.device.tool());
    tracing::info!(worker = config.worker, device = device_name, queue, "evaluating");
    let mut consumer = broker.consume(&queue, config.prefetch.max(1)).await?;

    let worker = Arc::new(Worker {
        artifacts: Artifacts::new(config.artifact_cache_bytes, translators, metrics.clone()),
        pinning: Pinning::new(&config.device, &device_name),
        best: std::sync::Mutex::new(LruCache::new(GROUPS)),
        device: device.map(Mutex::new),
        device_name,
        // A drain of its own, so that a device that is gone ends this worker alone.
        draining: shutdown.child_token(),
        expired: CancellationToken::new(),
        config,
        broker,
        store,
        metrics,
    });
    let mut jobs = JoinSet::new();
    let result = worker.consume(consumer.as_mut(), &mut jobs).await;
    worker.draining.cancel();
    consumer.stop().await;
    let drained = worker.drain(&mut jobs).await;
    tracing::info!(worker = worker.config.worker, "stopped");
    result.and(drained)
}

/// What the jobs in hand share.
struct Worker {
    config: Config,
    broker: Arc<dyn Broker>,
    store: Arc<dyn Store>,
    metrics: Metrics,
    artifacts: Artifacts,
    pinning: Pinning,
    /// The best times that this worker knows, for those that the store has not been told yet.
    best: std::sync::Mutex<LruCache<(SessionName, GroupId), f64>>,
    /// `None`: the device that does nothing.
    device: Option<Mutex<DeviceWorker>>,
    device_name: String,
    /// No job is begun any more.
    draining: CancellationToken,
    /// The grace period is over.
    expired: CancellationToken,
}

type Jobs = JoinSet<Result<(), DeviceError>>;

impl Worker {
    async fn consume(self: &Arc<Self>, consumer: &mut dyn Consumer, jobs: &mut Jobs) -> Result<(), Error> {
        let slots = usize::from(self.config.prefetch.max(1));
        loop {
            let room = async {
                if let DeviceSpec::Miopen(device) = &self.config.device {
                    device.disk.roomy().await;
                }
            };
            if self.draining.run_until_cancelled(room).await.is_none() {
                return Ok(());
            }
            tokio::select! {
                biased;
                () = self.draining.cancelled() => return Ok(()),
                Some(done) = jobs.join_next() => self.ended(done)?,
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

    /// Waits for the jobs in hand: for the grace period in peace, then they are handed back.
    async fn drain(&self, jobs: &mut Jobs) -> Result<(), Error> {
        let rest = async {
            let mut result = Ok(());
            while let Some(done) = jobs.join_next().await {
                result = result.and(self.ended(done));
            }
            result
        };
        tokio::pin!(rest);
        if let Ok(result) = timeout(self.config.grace, &mut rest).await {
            return result;
        }
        self.expired.cancel();
        timeout(LAST_CALL, &mut rest).await.unwrap_or_else(|_| {
            tracing::warn!("some jobs could not be handed back; the broker will deliver them again");
            Ok(())
        })
    }

    fn ended(&self, done: Result<Result<(), DeviceError>, JoinError>) -> Result<(), Error> {
        match done {
            Ok(result) => Ok(result?),
            Err(error) => {
                // Its delivery was dropped on the way, so it comes again, and is counted.
                tracing::error!(%error, "a job was lost by its task");
                Ok(())
            }
        }
    }

    /// The best of `time_ms` and of what is known of the job's group, remembered.
    fn best_of(&self, job: &Job, time_ms: Option<f64>) -> Option<f64> {
        let group = (job.session.clone(), job.group());
        let mut best = self.best.lock().unwrap_or_else(PoisonError::into_inner);
        let known = best.get(&group).copied();
        let better = match (known, time_ms) {
            (Some(known), Some(time)) => Some(known.min(time)),
            (known, time) => known.or(time),
        };
        if let Some(better) = better {
            best.put(group, better);
        }
        better
    }
}
