//! The loop: takes deliveries while there is room, settles each, drains when told to.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bluefin_common::broker::{Broker, Delivery};
use bluefin_common::delivery::pin::Pinned;
use bluefin_common::delivery::{self, GivenUp, NOT_MINE, OTHER_VERSION, Patience, Verdict};
use bluefin_common::job::{CompileJob, compile_queue};
use bluefin_common::metrics::{Settled, Step};
use bluefin_common::store::Store;
use bluefin_spec::search::Strategies;
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::gate::Gate;
use crate::job::{Done, Jobs};
use crate::metrics::Metrics;
use crate::process::Limits;
use crate::shortage::{PAUSE, Shortage};
use crate::toolchain::Toolchain;
use crate::workshop::Workshop;

/// What a compile worker is told.
#[derive(Clone)]
pub struct Config {
    /// Its name in logs.
    pub name: String,
    /// The queue of each is served.
    pub toolchains: Vec<Arc<dyn Toolchain>>,
    /// Those that sessions may name.
    pub strategies: Strategies,
    /// Compilers that run at a time, for all toolchains together.
    pub slots: usize,
    /// Deliveries of one queue that are in this worker's hands at a time, at most.
    pub prefetch: u16,
    /// Candidates that wait for a slot before no further delivery is taken; [`Self::new`] sets twice the slots.
    pub backlog: usize,
    /// What is in flight when a drain begins may take this long to end.
    pub grace: Duration,
    /// How long a delivery is kept while broker or store is away, before that counts as a failed attempt. Shorter than
    /// the time after which RabbitMQ takes a delivery for lost (30 minutes).
    pub patience: Duration,
    /// Command that starts the inner side of the sandbox, such as `/usr/bin/bluefin sandbox-exec`. Without it compilers
    /// run with no limit but that of time.
    pub launcher: Option<Vec<OsString>>,
    pub limits: Limits,
    /// Messages in an evaluation queue above which compiling pauses.
    pub high_water: u64,
}

impl Config {
    /// A worker for `toolchains` with `slots` compilers at a time, and defaults for the rest. Where nothing is compiled
    /// many jobs are in flight, as each only waits for broker and store.
    #[must_use]
    pub fn new(name: impl Into<String>, toolchains: Vec<Arc<dyn Toolchain>>, slots: usize) -> Self {
        let idle = !toolchains.is_empty() && toolchains.iter().all(|toolchain| toolchain.only_waits());
        Self {
            name: name.into(),
            toolchains,
            strategies: Strategies::default(),
            slots: if idle { slots.max(1024) } else { slots },
            prefetch: if idle { 256 } else { 64 },
            backlog: if idle { 4096 } else { 2 * slots },
            grace: Duration::from_secs(30),
            patience: Duration::from_secs(600),
            launcher: None,
            limits: Limits::default(),
            high_water: 10_000,
        }
    }

    fn check(&self) -> Result<(), Error> {
        let fail = |field, found: String, expected| Err(Error::Config { field, found, expected });
        if self.toolchains.is_empty() {
            return fail("toolchains", "none".to_string(), "at least one");
        }
        if self.slots == 0 || self.slots > Semaphore::MAX_PERMITS {
            return fail("slots", self.slots.to_string(), "at least 1");
        }
        if self.prefetch == 0 || self.backlog == 0 {
            return fail("prefetch and backlog", format!("{} and {}", self.prefetch, self.backlog), "at least 1");
        }
        Ok(())
    }
}

/// Serves the compile queues of the configured toolchains until `shutdown`, then drains: takes nothing more, finishes
/// what is in flight within the grace period, and hands back the rest.
///
/// # Errors
/// A configuration that makes no sense; a queue that cannot be consumed; too little memory for any compiler.
pub async fn run(
    config: Config,
    broker: Arc<dyn Broker>,
    store: Arc<dyn Store>,
    metrics: Metrics,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    config.check()?;
    metrics.set_slots(config.slots);
    let (limits, launcher) = (config.limits.clone(), config.launcher.clone());
    let jobs = Arc::new(Jobs {
        broker: Arc::clone(&broker),
        workshop: Workshop::new(Arc::clone(&store), config.slots, limits, launcher, metrics.clone()),
        metrics: metrics.clone(),
        gate: Gate::new(config.high_water),
        shortage: Shortage::new(config.slots),
        pinned: Pinned::default(),
        declared: Mutex::default(),
        strategies: config.strategies.clone(),
    });
    let end = End {
        reason: Arc::default(),
        // Ends the gate and the other queues when one of them fails.
        stop: shutdown.child_token(),
        abandon: CancellationToken::new(),
    };
    let serve = config.toolchains.iter().map(|toolchain| {
        let patience = Patience { limit: config.patience, expired: end.abandon.clone() };
        let queue = Queue { jobs: Arc::clone(&jobs), toolchain: Arc::clone(toolchain), patience, end: end.clone() };
        Arc::new(queue).run(&config)
    });
    let gate = jobs.gate.run(&*broker, &*store, &metrics, &end.stop);
    let (results, ()) = tokio::join!(futures_util::future::join_all(serve), gate);
    match end.reason().take() {
        Some(error) => Err(error),
        None => results.into_iter().collect(),
    }
}

/// How a job ends the whole worker, whose fault it is not.
#[derive(Clone)]
struct End {
    reason: Arc<Mutex<Option<Error>>>,
    stop: CancellationToken,
    /// Ends what is in flight, as when the grace period is over.
    abandon: CancellationToken,
}

impl End {
    /// Takes no more jobs and hands back those in flight. The first reason stands.
    fn now(&self, error: Error) {
        self.reason().get_or_insert(error);
        self.stop.cancel();
        self.abandon.cancel();
    }

    fn reason(&self) -> MutexGuard<'_, Option<Error>> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One compile queue.
struct Queue {
    jobs: Arc<Jobs>,
    toolchain: Arc<dyn Toolchain>,
    patience: Patience,
    end: End,
}

impl Queue {
    /// Serves it until it is to stop, then drains.
    async fn run(self: Arc<Self>, config: &Config) -> Result<(), Error> {
        let mut tasks = JoinSet::new();
        let served = self.serve(config, &mut tasks).await;
        // Of all queues, whatever ended this one.
        self.end.stop.cancel();
        served.and(delivery::drain(&mut tasks, config.grace, &self.end.abandon, ended).await)
    }

    async fn serve(self: &Arc<Self>, config: &Config, tasks: &mut JoinSet<()>) -> Result<(), Error> {
        let name = compile_queue(self.toolchain.name());
        let mut consumer = self.jobs.broker.consume(&name, config.prefetch).await?;
        tracing::info!(
            worker = config.name,
            queue = name,
            compiler = self.toolchain.identity(),
            slots = config.slots,
            "serving"
        );
        let in_flight = Arc::new(Semaphore::new(usize::from(config.prefetch)));
        let stop = &self.end.stop;
        loop {
            while let Some(done) = tasks.try_join_next() {
                ended(done)?;
            }
            let room = async {
                self.jobs.gate.passed().await;
                self.toolchain.roomy().await;
                self.jobs.workshop.backlog().below(config.backlog).await;
                // Never closed, so there is always a permit in the end.
                Arc::clone(&in_flight).acquire_owned().await.ok()
            };
            let Some(permit) = stop.run_until_cancelled(room).await else { break };
            let Some(Some(delivery)) = stop.run_until_cancelled(consumer.next()).await else { break };
            // Counts as one candidate until its own are counted, so that a full queue is not taken at once.
            let waiting = self.jobs.workshop.waiting();
            let queue = Arc::clone(self);
            tasks.spawn(async move {
                queue.handle(delivery).await;
                drop((waiting, permit));
            });
        }
        consumer.stop().await;
        Ok(())
    }

    /// Does one delivery and settles it, whatever comes of it.
    async fn handle(&self, delivery: Delivery) {
        let pipeline = &self.jobs.metrics.pipeline;
        let _in_flight = pipeline.in_flight(Step::Compile);
        let Some((compile_job, delivery)) = delivery::open::<CompileJob>(delivery, Some(pipeline)).await else {
            return;
        };
        let verdict = self.process(&compile_job, delivery.exhausted()).await;
        delivery::settle(delivery, (Step::Compile, compile_job.job.stage), verdict, pipeline).await;
    }

    /// Does a job, again and again while broker or store is away: an outage must not use up the attempts of all jobs.
    /// Dropping the work kills its compilers.
    async fn process(&self, compile_job: &CompileJob, exhausted: Option<String>) -> Verdict {
        let work = || self.jobs.process(&*self.toolchain, compile_job, exhausted.as_deref());
        match self.patience.with_error("compile job", work).await {
            Ok(Done::Passed) => {
                self.jobs.shortage.passed();
                Verdict::Ack(Settled::Done)
            }
            Ok(Done::Skipped) => Verdict::Ack(Settled::Skipped),
            Ok(Done::NotMine) => {
                self.jobs.metrics.pipeline.refused(Step::Compile);
                Verdict::HandBack(NOT_MINE)
            }
            Ok(Done::Newer) => Verdict::HandBack(OTHER_VERSION),
            Err((GivenUp::Failed(_) | GivenUp::Lost, Some(error))) => self.failed(compile_job, error).await,
            Err((given_up, _)) => given_up.into(),
        }
    }

    /// What becomes of a job that came to `error`.
    async fn failed(&self, compile_job: &CompileJob, error: Error) -> Verdict {
        let job = compile_job.job.id();
        if error.ends_worker() {
            self.end.now(error);
            return Verdict::HandBack(Duration::ZERO);
        }
        match error {
            Error::Killed { .. } => {
                tracing::warn!(%job, %error, "handed back");
                if let Some(reason) = self.jobs.shortage.met(error) {
                    self.end.now(reason);
                }
                Verdict::HandBack(PAUSE)
            }
            error if error.is_transient() => Verdict::Retry(error.to_string()),
            error => self.give_up(compile_job, error.to_string()).await,
        }
    }

    /// The outcome first: a session must not wait for a job that is among the dead letters.
    async fn give_up(&self, compile_job: &CompileJob, reason: String) -> Verdict {
        match self.jobs.give_up(compile_job, &reason).await {
            Ok(()) => Verdict::Dead(reason),
            Err(error) if error.ends_worker() => {
                self.end.now(error);
                Verdict::HandBack(Duration::ZERO)
            }
            Err(error) if error.is_of_another_version() => {
                tracing::error!(%error, reason, "given up by workers of that version");
                Verdict::HandBack(OTHER_VERSION)
            }
            Err(error) if error.is_transient() => Verdict::Retry(format!("giving up: {error}")),
            // Its session is gone, so nobody waits for its outcome.
            Err(error) => Verdict::Dead(format!("{reason}; no outcome: {error}")),
        }
    }
}

/// A task that fell over loses its delivery, which comes again and is counted.
fn ended(done: Result<(), JoinError>) -> Result<(), Error> {
    if let Err(error) = done {
        tracing::error!(%error, "a job was lost by its task");
    }
    Ok(())
}
