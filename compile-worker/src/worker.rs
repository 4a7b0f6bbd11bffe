//! The loop: takes deliveries while there is room, settles each, drains when told to.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bluefin_common::broker::{Broker, Delivery};
use bluefin_common::delivery;
use bluefin_common::job::{CompileJob, compile_queue};
use bluefin_common::metrics::{Settled, Step};
use bluefin_common::store::Store;
use lru::LruCache;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::backlog::Backlog;
use crate::compile::Compiler;
use crate::error::Error;
use crate::fin::{FinCompiler, FinToolchain};
use crate::gate::Gate;
use crate::job::{Done, Jobs, SESSIONS, Server};
use crate::metrics::Metrics;
use crate::process::Limits;
use crate::shortage::{PAUSE, Shortage};
use crate::specs::Specs;
use crate::toolchain::Toolchain;

/// How long a job of a session that is pinned to another compiler stays away.
const NOT_MINE: Duration = Duration::from_secs(5);
/// Between two attempts while broker or store is away.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// After the grace period: for handing back what is still in flight.
const HAND_BACK: Duration = Duration::from_secs(5);

/// What a compile worker is told.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its name in logs.
    pub name: String,
    /// One queue is served for each.
    pub toolchains: Vec<Toolchain>,
    /// The one that compiles MIOpen's own kernels; its queue is served too.
    pub fin: Option<FinToolchain>,
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
    /// (`noop`) many jobs are in flight, as each only waits for broker and store.
    #[must_use]
    pub fn new(name: impl Into<String>, toolchains: Vec<Toolchain>, slots: usize) -> Self {
        let idle = !toolchains.is_empty() && toolchains.iter().all(Toolchain::is_noop);
        Self {
            name: name.into(),
            toolchains,
            fin: None,
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
        if self.toolchains.is_empty() && self.fin.is_none() {
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
    // Ends the gate and the other queues when one of them fails.
    let stop = shutdown.child_token();
    let jobs = Arc::new(Jobs {
        broker: Arc::clone(&broker),
        store: Arc::clone(&store),
        metrics: metrics.clone(),
        specs: Specs::new(Arc::clone(&store)),
        gate: Gate::new(config.high_water),
        backlog: Backlog::default(),
        shortage: Shortage::new(config.slots),
        pinned: Mutex::new(LruCache::new(SESSIONS)),
        declared: Mutex::default(),
    });
    let slots = Arc::new(Semaphore::new(config.slots));
    let tasks = TaskTracker::new();
    // Ends what is in flight when the grace period is over.
    let abandon = CancellationToken::new();
    let end = End { reason: Arc::default(), stop: stop.clone(), abandon: abandon.clone() };
    let kernels = config.toolchains.iter().map(|toolchain| {
        Server::Kernels(Compiler::new(
            toolchain.clone(),
            Arc::clone(&store),
            Arc::clone(&slots),
            config.limits.clone(),
            config.launcher.clone(),
            metrics.clone(),
        ))
    });
    let fin = config.fin.iter().map(|toolchain| {
        // Each of its processes compiles on several cores by itself.
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (store, slots) = (Arc::clone(&store), Arc::clone(&slots));
        let parallel = (cores / config.slots).max(1);
        Server::Fin(FinCompiler::new(toolchain.clone(), store, slots, parallel, metrics.clone()))
    });
    let serve = kernels.chain(fin).map(|server| {
        let queue = Queue {
            jobs: Arc::clone(&jobs),
            server: Arc::new(server),
            tasks: tasks.clone(),
            end: end.clone(),
            patience: config.patience,
        };
        let (config, stop) = (&config, &stop);
        async move {
            let result = queue.serve(config, stop).await;
            stop.cancel();
            result
        }
    });
    let gate = jobs.gate.run(&*broker, &*store, &metrics, &stop);
    let (results, ()) = tokio::join!(futures_util::future::join_all(serve), gate);
    tasks.close();
    if timeout(config.grace, tasks.wait()).await.is_err() {
        tracing::warn!(in_flight = tasks.len(), "grace period is over; handing back what is in flight");
        abandon.cancel();
        if timeout(HAND_BACK, tasks.wait()).await.is_err() {
            // Their deliveries are dropped with them, so the broker gives them to others.
            tracing::warn!(in_flight = tasks.len(), "not handed back in time");
        }
    }
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
    server: Arc<Server>,
    tasks: TaskTracker,
    end: End,
    patience: Duration,
}

impl Queue {
    async fn serve(&self, config: &Config, stop: &CancellationToken) -> Result<(), Error> {
        let name = compile_queue(self.server.toolchain());
        let mut consumer = self.jobs.broker.consume(&name, config.prefetch).await?;
        tracing::info!(
            worker = config.name,
            queue = name,
            compiler = self.server.identity(),
            slots = config.slots,
            "serving"
        );
        let in_flight = Arc::new(Semaphore::new(usize::from(config.prefetch)));
        loop {
            let room = async {
                self.jobs.gate.passed().await;
                self.server.roomy().await;
                self.jobs.backlog.below(config.backlog).await;
                // Never closed, so there is always a permit in the end.
                Arc::clone(&in_flight).acquire_owned().await.ok()
            };
            let Some(permit) = stop.run_until_cancelled(room).await else { break };
            let Some(Some(delivery)) = stop.run_until_cancelled(consumer.next()).await else { break };
            // Counts as one candidate until its own are counted, so that a full queue is not taken at once.
            let waiting = self.jobs.backlog.add();
            let (jobs, server, end) = (Arc::clone(&self.jobs), Arc::clone(&self.server), self.end.clone());
            let patience = self.patience;
            self.tasks.spawn(async move {
                handle(&jobs, &server, &end, patience, delivery).await;
                drop((waiting, permit));
            });
        }
        consumer.stop().await;
        Ok(())
    }
}

/// Does one delivery and settles it, whatever comes of it.
async fn handle(jobs: &Jobs, server: &Server, end: &End, patience: Duration, delivery: Delivery) {
    let _in_flight = jobs.metrics.pipeline.in_flight(Step::Compile);
    let opened = delivery::open::<CompileJob>(delivery, Some(&jobs.metrics.pipeline)).await;
    let Some((compile_job, delivery)) = opened else { return };
    let id = delivery.message_id.clone();
    let stage = compile_job.job.stage;
    let given_up = delivery.exhausted();
    let work = async {
        match &given_up {
            Some(reason) => Err(Error::Job { reason: reason.clone() }),
            None => process(jobs, server, &compile_job, patience).await,
        }
    };
    // Dropping the work kills its compilers.
    let result = end.abandon.run_until_cancelled(work).await;
    let (settled, outcome) = match result {
        Some(Ok(Done::Passed)) => {
            jobs.shortage.passed();
            (Settled::Done, delivery.ack().await)
        }
        Some(Ok(Done::Skipped)) => (Settled::Skipped, delivery.ack().await),
        Some(Ok(Done::NotMine)) => {
            jobs.metrics.pipeline.refused(Step::Compile);
            (Settled::HandedBack, delivery.hand_back(NOT_MINE).await)
        }
        None => (Settled::HandedBack, delivery.hand_back(Duration::ZERO).await),
        Some(Err(error)) if error.ends_worker() => {
            end.now(error);
            (Settled::HandedBack, delivery.hand_back(Duration::ZERO).await)
        }
        Some(Err(error @ Error::Killed { .. })) => {
            tracing::warn!(job = id, %error, "handed back");
            if let Some(reason) = jobs.shortage.met(error) {
                end.now(reason);
            }
            (Settled::HandedBack, delivery.hand_back(PAUSE).await)
        }
        Some(Err(error)) if error.is_transient() => {
            tracing::warn!(job = id, attempt = delivery.attempt, %error, "again later");
            (Settled::Retried, delivery.retry().await)
        }
        Some(Err(error)) => {
            let reason = error.to_string();
            tracing::error!(job = id, reason, "given up");
            // The outcome first: a session must not wait for a job that is among the dead letters.
            match jobs.give_up(&compile_job.job, &reason).await {
                Ok(()) => (Settled::Dead, delivery.dead(&reason).await),
                Err(error) if error.is_transient() => {
                    tracing::warn!(job = id, %error, "giving up again later");
                    (Settled::Retried, delivery.retry().await)
                }
                // Its session is gone, so nobody waits for its outcome.
                Err(error) => (Settled::Dead, delivery.dead(&format!("{reason}; no outcome: {error}")).await),
            }
        }
    };
    jobs.metrics.pipeline.settled(Step::Compile, stage, settled);
    log_unsettled(&id, outcome);
}

/// Does a job, again and again while broker or store is away: an outage must not use up the attempts of all jobs.
async fn process(jobs: &Jobs, server: &Server, compile_job: &CompileJob, patience: Duration) -> Result<Done, Error> {
    let give_up_at = Instant::now() + patience;
    let mut pause = FIRST_PAUSE;
    loop {
        match jobs.process(server, compile_job).await {
            Err(error) if error.is_outage() && Instant::now() + pause < give_up_at => {
                if pause == FIRST_PAUSE {
                    tracing::warn!(%error, "waiting for it to come back");
                }
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            result => return result,
        }
    }
}

/// A delivery that could not be settled comes again; what it caused is idempotent.
fn log_unsettled(id: &str, result: Result<(), bluefin_common::broker::BrokerError>) {
    if let Err(error) = result {
        tracing::warn!(job = id, %error, "delivery not settled; it comes again");
    }
}
