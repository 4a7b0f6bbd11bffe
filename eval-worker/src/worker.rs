//! The worker: takes jobs from the queue of its evaluator, and settles each once what came of it is durable.
//!
//! Every job in hand is a task of its own that goes through the same steps: read, begin, evaluate, store, acknowledge. On a
//! device evaluation is fetching artifacts, then waiting for the device, which is a lock in the middle: while one job is on it,
//! the next one fetches and the last one is stored. Nothing is taken while the worker waits for anything.

mod job;
pub mod quarantine;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bluefin_common::broker::{Broker, BrokerError};
use bluefin_common::delivery::pin::{Pin, Pinned};
use bluefin_common::delivery::{self, Intake, Leaving, Patience};
use bluefin_common::job::JobId;
use bluefin_common::roster::Presence;
use bluefin_common::standing::Standings;
use bluefin_common::store::Store;
use bluefin_common::waiting::{Guard, On, Waiting};
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

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

/// What the jobs in hand share.
struct Worker {
    post: Arc<Post>,
    running: Box<dyn Running>,
    pins: Vec<Arc<dyn Pin>>,
    artifacts: Artifacts,
    tasks: Tasks,
    pinned: Pinned,
    standings: Standings,
    /// It has expired when the grace period of a drain is over.
    patience: Patience,
    /// No job is begun any more.
    draining: CancellationToken,
    /// Held while this machine is in no state to work.
    unfit: Mutex<Option<Guard>>,
    /// Jobs whose processes somebody killed, since one went well.
    suspects: Mutex<HashSet<JobId>>,
}

type Jobs = JoinSet<Result<(), DeviceError>>;

impl Post {
    /// Evaluates jobs as long as the device works.
    async fn serve(self: &Arc<Self>, running: Box<dyn Running>, shutdown: &CancellationToken) -> Result<(), Error> {
        let config = &self.config;
        let (evaluator, name) = (&config.evaluator, &config.worker);
        self.metrics.set_quarantined(evaluator.name(), false);
        let queue = evaluator.queue();
        tracing::info!(worker = name, device = running.identity(), queue, "evaluating");
        let (expired, waiting) = (CancellationToken::new(), self.waiting.clone());
        let worker = Arc::new(Worker {
            post: Arc::clone(self),
            pins: running.pins(&config.limits),
            running,
            artifacts: Artifacts::new(config.artifact_cache_bytes, self.metrics.clone()),
            tasks: Tasks::default(),
            pinned: Pinned::of(self.presence.clone()),
            standings: Standings::default(),
            patience: Patience { limit: config.patience, expired, waiting },
            // A drain of its own, so that a device that is gone ends this worker alone.
            draining: shutdown.child_token(),
            unfit: Mutex::default(),
            suspects: Mutex::default(),
        });
        self.presence.takes_from(&queue);
        let Some(mut intake) = worker.open(&queue).await? else { return Ok(()) };
        let mut jobs = JoinSet::new();
        let result = worker.consume(&mut intake, &mut jobs).await;
        worker.draining.cancel();
        intake.pause().await;
        let ended = |done| ended(done).map(drop);
        let drained = delivery::drain(&mut jobs, config.grace, &worker.patience.expired, ended).await;
        tracing::info!(worker = name, "stopped");
        result.and(drained)
    }
}

impl Worker {
    /// Takes jobs until it is told to end, or to leave and nothing is in hand any more.
    async fn consume(self: &Arc<Self>, intake: &mut Intake, jobs: &mut Jobs) -> Result<(), Error> {
        let Post { waiting, leaving, .. } = &*self.post;
        let mut leaves = false;
        leaving.ready();
        loop {
            if leaves && jobs.is_empty() {
                return Ok(());
            }
            if let Some(reason) = self.running.lacks().filter(|_| waiting.is_over()) {
                self.stand_still(reason);
            }
            let stands_still = !waiting.is_over();
            if stands_still || leaves {
                intake.pause().await;
            } else if !self.resume(intake).await? {
                return Ok(());
            }
            tokio::select! {
                biased;
                () = self.draining.cancelled() => return Ok(()),
                Some(done) = jobs.join_next() => if ended(done)? {
                    self.draining.run_until_cancelled(proven(intake)).await.unwrap_or(Ok(()))?;
                },
                () = self.mended(), if self.unfit().is_some() => {}
                () = waiting.over(), if stands_still => {}
                () = waiting.begins(), if !stands_still => {}
                delivery = intake.next(), if jobs.len() < intake.room() && !leaving.has_enough() => match delivery {
                    Some(delivery) => {
                        let (worker, in_hand) = (Arc::clone(self), leaving.took());
                        let span = tracing::info_span!("job", message = delivery.message_id);
                        let work = async move {
                            let _in_hand = in_hand;
                            worker.handle(delivery).await
                        };
                        jobs.spawn(work.instrument(span));
                    }
                    None => return Ok(()),
                },
                // Last: who is slow to look has not waited in vain.
                () = leaving.time(), if !leaves => leaves = true,
            }
        }
    }

    /// Begins to consume; `None` if the worker is to end before the broker lets it.
    async fn open(&self, queue: &str) -> Result<Option<Intake>, Error> {
        let mut stands_still = None;
        loop {
            let opening = Intake::open(&self.post.broker, queue, self.post.config.prefetch);
            let error = match self.draining.run_until_cancelled(opening).await {
                None => return Ok(None),
                Some(Ok(intake)) => return Ok(Some(intake)),
                Some(Err(error)) => error,
            };
            if !self.later(error, &mut stands_still).await? {
                return Ok(None);
            }
        }
    }

    /// Consumes, if it was paused; `false` if the worker is to end before the broker lets it.
    async fn resume(&self, intake: &mut Intake) -> Result<bool, Error> {
        let mut stands_still = None;
        loop {
            match self.draining.run_until_cancelled(intake.resume()).await {
                None => return Ok(false),
                Some(Ok(())) => return Ok(true),
                Some(Err(error)) => {
                    if !self.later(error, &mut stands_still).await? {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Waits a while if the broker may let it consume then; whether it is to try again.
    async fn later(&self, error: BrokerError, stands_still: &mut Option<Guard>) -> Result<bool, Error> {
        if !error.is_transient() {
            return Err(error.into());
        }
        let guard = stands_still.get_or_insert_with(|| self.post.waiting.on(On::Broker, error.to_string()));
        guard.still(error.to_string());
        Ok(self.draining.run_until_cancelled(sleep(self.post.config.look_again)).await.is_some())
    }

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
}

/// A job is settled: from now on as many are taken as may be held. A broker that is away just now is waited for by the loop.
async fn proven(intake: &mut Intake) -> Result<(), Error> {
    match intake.proven().await {
        Err(error) if !error.is_transient() => Err(error.into()),
        _ => Ok(()),
    }
}

/// What became of a job's task; whether it got through.
fn ended(done: Result<Result<(), DeviceError>, JoinError>) -> Result<bool, Error> {
    match done {
        Ok(result) => Ok(result.map(|()| true)?),
        Err(error) => {
            // Its delivery was dropped on the way, so it comes again, and is counted.
            tracing::error!(%error, "a job was lost by its task");
            Ok(false)
        }
    }
}
