//! The worker: a task for each queue that it serves, begun when the queue is known; drains when told to, or when it is time.

use std::collections::HashSet;
use std::ffi::OsString;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bluefin_common::broker::Broker;
use bluefin_common::delivery::pin::Pinned;
use bluefin_common::delivery::{AtWork, Context, GivenUp, Leave, Leaving, Patience};
use bluefin_common::method::Method;
use bluefin_common::metrics::Step;
use bluefin_common::roster::Presence;
use bluefin_common::standing::Standings;
use bluefin_common::store::Store;
use bluefin_common::target::Target;
use bluefin_common::waiting::Waiting;
use bluefin_kernel_spec::search::{KnownPriors, Neighbours, Strategies};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::end::End;
use crate::error::Error;
use crate::folder;
use crate::gate::Gate;
use crate::job::Jobs;
use crate::machine::{Machine, MachinePatience};
use crate::metrics::Metrics;
use crate::process::Limits;
use crate::queue::Queue;
use crate::toolchain::{self, Toolchain};
use crate::workshop::Workshop;

/// All workers of a fleet look for sessions, and most sessions are of a target that is known.
const SELDOM: u32 = 4;

/// What a compile worker is told.
#[derive(Clone)]
pub struct Config {
    /// Its name in logs.
    pub name: String,
    /// The queues of each are served.
    pub toolchains: Vec<Arc<dyn Toolchain>>,
    /// What it compiles for; `None`: for the targets of all sessions, as they come.
    pub targets: Option<Vec<Target>>,
    /// Between two looks for sessions, at first; up to four times as long while there are no new queues.
    pub look_every: Duration,
    /// Those that sessions may name.
    pub strategies: Strategies,
    /// Compilers that run at a time, for all toolchains together.
    pub slots: usize,
    /// Deliveries of one queue that are in this worker's hands at a time, at most.
    pub prefetch: u16,
    /// Units that wait for a slot, and jobs in hand, before no further delivery is taken; [`Self::new`] sets twice the slots.
    pub backlog: usize,
    /// What is in flight when a drain begins may take this long to end.
    pub grace: Duration,
    /// How long a delivery is kept while broker or store is away, before it is handed back. Shorter than the time after which
    /// RabbitMQ takes a delivery for lost (30 minutes).
    pub patience: Duration,
    /// Command that starts the inner side of the sandbox, such as `/usr/bin/bluefin sandbox-exec`. Without it compilers
    /// run with no limit but that of time.
    pub launcher: Option<Vec<OsString>>,
    pub limits: Limits,
    /// Messages in an evaluation queue above which nothing more is compiled for it.
    pub high_water: u64,
    /// When it ends by itself.
    pub leave: Leave,
    /// Where it says what it waits for.
    pub waiting: Waiting,
    /// Whether it runs in a terminal, where somebody waits for it: it ends with an error where others wait for their machine.
    pub alone: bool,
    /// Before it looks again whether its machine is well, at first and at most; each time twice as long.
    pub pauses: (Duration, Duration),
    /// Ends it with an error when its machine was not well for so long; `None`: never.
    pub give_up: Option<Duration>,
    /// How often it says on the roster who it is and what it does; `None`: it is on none.
    pub on_roster: Option<Duration>,
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
            targets: None,
            look_every: Duration::from_secs(2),
            strategies: Strategies::default(),
            slots: if idle { slots.max(1024) } else { slots },
            prefetch: if idle { 256 } else { 64 },
            backlog: if idle { 4096 } else { 2 * slots },
            grace: Duration::from_secs(30),
            patience: Duration::from_secs(600),
            launcher: None,
            limits: Limits { confine: true, ..Limits::default() },
            high_water: 10_000,
            leave: Leave::default(),
            waiting: Waiting::default(),
            alone: false,
            pauses: (Duration::from_secs(1), Duration::from_secs(30)),
            give_up: None,
            on_roster: None,
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

/// Serves the compile queues of the configured toolchains until `shutdown`, or until it is time to leave, then drains: takes
/// nothing more, finishes what is in flight within the grace period, and hands back the rest.
///
/// # Errors
/// A configuration that makes no sense; a queue that cannot be consumed; a machine that is not well, where that ends the worker.
pub async fn run(
    config: Config,
    broker: Arc<dyn Broker>,
    store: Arc<dyn Store>,
    metrics: Metrics,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    config.check()?;
    let config = Config { toolchains: toolchain::with_pair(config.toolchains.clone()), ..config };
    metrics.set_slots(config.slots);
    let swept = tokio::task::spawn_blocking(folder::sweep).await.unwrap_or_default();
    if swept > 0 {
        tracing::info!(swept, "removed temporary folders of workers that were killed");
    }
    let worker = Worker::new(config, broker, store, metrics, &shutdown);
    worker.jobs.workshop.confine(&worker.config.toolchains).await;
    let ended = CancellationToken::new();
    let served = async {
        let _ended = ended.clone().drop_guard();
        worker.run().await
    };
    tokio::join!(served, worker.jobs.context.presence.keep(worker.jobs.store(), &ended)).0
}

/// A worker that looks for queues, and what all of them share.
struct Worker {
    config: Config,
    jobs: Arc<Jobs>,
}

impl Worker {
    fn new(
        config: Config,
        broker: Arc<dyn Broker>,
        store: Arc<dyn Store>,
        metrics: Metrics,
        shutdown: &CancellationToken,
    ) -> Self {
        let end = End::with(shutdown);
        let Config { waiting, pauses, give_up, alone, .. } = config.clone();
        let waiting = waiting.part();
        let presence = config.on_roster.map(|every| {
            let toolchains = config.toolchains.iter().map(|toolchain| toolchain.name().to_string()).collect();
            Presence::new(Step::Compile, &config.name, toolchains, every, &waiting)
        });
        let presence = presence.unwrap_or_default();
        let context = Context {
            broker,
            store: Arc::clone(&store),
            metrics: metrics.pipeline.clone(),
            pinned: Pinned::of(presence.clone()),
            presence,
            standings: Standings::default(),
            at_work: AtWork::default(),
            leaving: Leaving::new(config.leave),
            patience: Patience { limit: config.patience, expired: end.abandon.clone(), waiting: waiting.clone() },
            stop: end.stop.clone(),
            prefetch: config.prefetch,
            grace: config.grace,
        };
        let jobs = Jobs {
            worker: config.name.clone(),
            context,
            end,
            workshop: Workshop::new(
                store,
                config.slots,
                config.limits.clone(),
                config.launcher.clone(),
                metrics.clone(),
            ),
            gate: Gate::new(config.high_water, metrics.clone()),
            metrics,
            machine: Machine::new(MachinePatience { pauses, give_up, alone }, waiting, config.slots),
            backlog: config.backlog,
            declared: Mutex::default(),
            served: Mutex::default(),
            strategies: config.strategies.clone(),
            neighbours: Neighbours::default(),
            priors: KnownPriors::default(),
        };
        Self { config, jobs: Arc::new(jobs) }
    }

    async fn run(&self) -> Result<(), Error> {
        let mut queues = JoinSet::new();
        let Jobs { context, end, workshop, .. } = &*self.jobs;
        let gate = self.jobs.gate.run(&*context.broker, &*context.store, &end.stop);
        let machine = async {
            if let Err(error) = self.jobs.machine.watch(workshop, &self.config.toolchains, &end.stop).await {
                end.now(error);
            }
        };
        tokio::join!(self.look_for_queues(&mut queues), gate, machine);
        let mut result = Ok(());
        while let Some(served) = queues.join_next().await {
            result = result.and(outcome(served));
        }
        end.take_reason().map_or(result, Err)
    }

    /// Begins to serve the queues of all targets, as they become known, until the worker is to stop.
    async fn look_for_queues(&self, queues: &mut JoinSet<Result<(), Error>>) {
        let stop = &self.jobs.end.stop;
        let patience = self.jobs.context.endless();
        let mut said = String::new();
        let (mut served, mut pause) = (0, self.config.look_every);
        while !stop.is_cancelled() {
            match self.targets(&patience).await {
                Ok(targets) => {
                    for (toolchain, target) in targets {
                        self.serve(queues, &toolchain, target).await;
                    }
                }
                Err(error) if error.ends_worker() => self.jobs.end.now(error),
                // A session of a newer release, for one.
                Err(error) if error.to_string() != said => {
                    said = error.to_string();
                    tracing::error!(%error, "no new queues are found");
                }
                Err(_) => {}
            }
            pause = if queues.len() > served { self.config.look_every } else { 2 * pause };
            pause = pause.min(SELDOM * self.config.look_every);
            served = queues.len();
            let ended = async {
                tokio::select! {
                    () = tokio::time::sleep(pause) => None,
                    Some(ended) = queues.join_next() => Some(ended),
                }
            };
            // A queue ends with the worker: one that ended before it, as by a panic, would never be served again.
            if let Some(Some(ended)) = stop.run_until_cancelled(ended).await
                && let Err(error) = outcome(ended)
            {
                self.jobs.end.now(error);
            }
        }
    }

    /// What may be compiled, for what.
    async fn targets(&self, patience: &Patience) -> Result<Vec<(Arc<dyn Toolchain>, Target)>, Error> {
        let toolchains = || self.config.toolchains.iter().cloned();
        if let Some(targets) = &self.config.targets {
            let of = |toolchain: Arc<dyn Toolchain>| {
                targets.iter().map(move |target| (Arc::clone(&toolchain), target.clone()))
            };
            return Ok(toolchains().flat_map(of).collect());
        }
        let sessions = match patience.with_error("look for sessions", || self.jobs.store().sessions()).await {
            Ok(sessions) => sessions,
            Err((GivenUp::Expired, _)) => Vec::new(),
            Err((given_up, error)) => {
                let reason = format!("{given_up:?}");
                return Err(error.map_or(Error::Exhausted { reason }, Error::from));
            }
        };
        let of = |toolchain: Arc<dyn Toolchain>| {
            // One that no method names may be any session's.
            let method = Method::of_toolchain(toolchain.name());
            let sessions = sessions.iter().filter(|session| method.is_none_or(|method| method == session.method));
            let targets: HashSet<Target> = sessions.map(|session| session.target.clone()).collect();
            targets.into_iter().map(move |target| (Arc::clone(&toolchain), target)).collect::<Vec<_>>()
        };
        Ok(toolchains().flat_map(of).collect())
    }

    /// Begins to serve the queue of `toolchain` and `target`, unless it is served or not for this worker.
    async fn serve(&self, queues: &mut JoinSet<Result<(), Error>>, toolchain: &Arc<dyn Toolchain>, target: Target) {
        if self.jobs.serves(toolchain.name(), &target) {
            return;
        }
        match toolchain.serves(&target).await {
            Ok(true) => {
                self.jobs.served().entry(toolchain.name().to_string()).or_default().insert(target.clone());
                queues.spawn(Queue::new(&self.jobs, toolchain, target).run());
            }
            Ok(false) => {}
            // Asked again with the next look.
            Err(error) => self.jobs.machine.doubt(error),
        }
    }
}

/// What a task that served a queue ended with.
fn outcome(served: Result<Result<(), Error>, tokio::task::JoinError>) -> Result<(), Error> {
    served.unwrap_or_else(|error| Err(Error::Exhausted { reason: error.to_string() }))
}
