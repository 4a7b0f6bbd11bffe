//! The worker: has the jobs that come into the queue of its evaluator evaluated.
//!
//! Every job in hand is a task of its own. On a device evaluation is fetching artifacts, then waiting for the device, which is a
//! lock in the middle: while one job is on it, the next one fetches and the last one is stored.

mod hanging;
mod job;
pub mod quarantine;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bluefin_common::broker::{Broker, BrokerError};
use bluefin_common::delivery::pin::{Pin, Pinned};
use bluefin_common::delivery::{self, Context, Leaving, Patience};
use bluefin_common::job::JobId;
use bluefin_common::roster::Presence;
use bluefin_common::standing::Standings;
use bluefin_common::store::Store;
use bluefin_common::waiting::{Guard, On, Waiting};
use tokio::time::sleep;
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

/// What a worker has for as long as it lives, however often its device is started anew.
struct Post {
    config: Config,
    broker: Arc<dyn Broker>,
    store: Arc<dyn Store>,
    metrics: Metrics,
    /// Its own part of what the process waits for.
    waiting: Waiting,
    leaving: Leaving,
    presence: Presence,
}

/// A device at work, and what the jobs in hand share.
struct Worker {
    post: Arc<Post>,
    context: Context,
    running: Box<dyn Running>,
    pins: Vec<Arc<dyn Pin>>,
    artifacts: Artifacts,
    tasks: Tasks,
    /// Held while this machine is in no state to work.
    unfit: Mutex<Option<Guard>>,
    /// Solvers whose kernels hang.
    hanging: hanging::Hanging,
    /// Jobs whose processes somebody killed, since one went well.
    suspects: Mutex<HashSet<JobId>>,
    /// Why the device is gone, if it is.
    gone: Mutex<Option<DeviceError>>,
}

impl Post {
    /// Evaluates jobs as long as the device works.
    async fn serve(self: &Arc<Self>, running: Box<dyn Running>, shutdown: &CancellationToken) -> Result<(), Error> {
        let config = &self.config;
        let (evaluator, name) = (&config.evaluator, &config.worker);
        self.metrics.set_quarantined(evaluator.name(), false);
        let queue = evaluator.queue();
        tracing::info!(worker = name, device = running.identity(), queue, "evaluating");
        let (expired, waiting) = (CancellationToken::new(), self.waiting.clone());
        let context = Context {
            broker: Arc::clone(&self.broker),
            store: Arc::clone(&self.store),
            metrics: self.metrics.pipeline.clone(),
            presence: self.presence.clone(),
            pinned: Pinned::of(self.presence.clone()),
            standings: Standings::default(),
            at_work: config.at_work.clone(),
            leaving: self.leaving.clone(),
            patience: Patience { limit: config.patience, expired, waiting },
            // One of its own, so that a device that is gone ends this worker alone.
            stop: shutdown.child_token(),
            prefetch: config.prefetch,
            grace: config.grace,
        };
        let worker = Arc::new(Worker {
            post: Arc::clone(self),
            context,
            pins: running.pins(&config.limits),
            running,
            artifacts: Artifacts::new(config.artifact_cache_bytes, self.metrics.clone()),
            tasks: Tasks::default(),
            unfit: Mutex::default(),
            hanging: hanging::Hanging::default(),
            suspects: Mutex::default(),
            gone: Mutex::default(),
        });
        let served = delivery::serve(&worker, &queue).await;
        tracing::info!(worker = name, "stopped");
        match worker.gone().take() {
            Some(error) => Err(error.into()),
            None => Ok(served?),
        }
    }
}

impl Worker {
    /// This machine is in no state to work: nothing is taken until it is [mended](Self::mended).
    fn stand_still(&self, reason: String) {
        let mut unfit = self.unfit();
        match &*unfit {
            Some(guard) => guard.still(reason),
            None => *unfit = Some(self.post.waiting.on(On::Machine, reason)),
        }
    }

    /// Returns once this machine works again, as far as a trial tells.
    async fn mended(&self) {
        loop {
            sleep(self.post.config.look_again).await;
            let tried = self.running.probe().await;
            let mut unfit = self.unfit();
            match (tried, &*unfit) {
                (Err(reason), Some(guard)) => guard.still(reason),
                _ => {
                    *unfit = None;
                    return;
                }
            }
        }
    }

    fn unfit(&self) -> MutexGuard<'_, Option<Guard>> {
        self.unfit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gone(&self) -> MutexGuard<'_, Option<DeviceError>> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
