//! A session that runs: workers of this process, if there are any, and waiting for it to be complete.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bluefin_common::clock::now_ms;
use bluefin_common::metrics::Step;
use bluefin_common::retry;
use bluefin_common::session::Session;
use bluefin_common::spelled::counted;
use bluefin_common::standing::{Standing, Standings};
use bluefin_common::store::Progress;
use bluefin_eval_worker::{self as eval_worker, Evaluator};
use bluefin_producer::plan::Plan;
use prometheus::Registry;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::fleet::why::Fleet;
pub use crate::machine::local::UnderWay;
use crate::machine::local::{Compilers, Crew, GRACE, LocalDevice, Utilisation};
use crate::machine::tools::LocalTools;
use crate::ports::Ports;

/// Between two looks at how far the session is.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A session that did not move for so long is to say why, and again after as long.
const STILL: Duration = Duration::from_secs(20);

/// A session that runs.
pub(crate) struct Running {
    session: Session,
    crew: Crew,
    /// There is one device here: what its worker hands back nobody else takes.
    one_device: bool,
    /// When devices of this process began to time, in milliseconds since the Unix epoch.
    timed_since_ms: Option<u64>,
    shutdown: CancellationToken,
}

/// Who is told how far a campaign is.
pub trait Watch: Send {
    /// What was planned: its jobs are in the queues.
    fn planned(&mut self, plan: &Plan);
    /// Where the session is now, and what workers of this process do; `None`: others do all.
    fn progress(&mut self, progress: &Progress, under_way: Option<&UnderWay>);
    /// What somebody should know meanwhile.
    fn say(&mut self, text: &str);
    /// The session is over, or the wait for it.
    fn finish(&mut self);
    /// What a step of a whole campaign did, in words and as a report.
    fn step(&mut self, _name: &'static str, text: &str, _report: Value) {
        self.say(text);
    }
    /// Of how many of `all` problems it is known which solvers apply.
    fn asked(&mut self, _done: u64, _all: u64) {}
    /// Of so many turns of rows that other programs launch that many are over, and this begins.
    fn in_turn(&mut self, _done: u64, _all: u64, _what: &str) {}
}

/// How the wait for it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Complete,
    /// By a signal.
    Interrupted,
}

impl Running {
    /// One without workers of its own, which waits for those of others; `shutdown` interrupts it.
    pub(crate) fn new(
        ports: &Ports,
        session: &Session,
        registry: &Registry,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<Self> {
        let crew = Crew::new(ports.clone(), registry.clone(), shutdown.child_token())?;
        Ok(Self { session: session.clone(), crew, one_device: false, timed_since_ms: None, shutdown: shutdown.clone() })
    }

    /// Starts workers that compile and evaluate.
    pub(crate) fn work(&mut self, compilers: Compilers, device: LocalDevice) -> anyhow::Result<Utilisation> {
        self.compile(compilers, &device.cpus())?;
        self.evaluate(device)
    }

    /// Starts a worker that compiles, and leaves the CPUs in `taken` to kernels that are timed.
    pub(crate) fn compile(&mut self, compilers: Compilers, taken: &[u32]) -> anyhow::Result<()> {
        compilers.spawn(&mut self.crew, &self.session.target, taken)
    }

    /// Starts workers that evaluate.
    pub(crate) fn evaluate(&mut self, device: LocalDevice) -> anyhow::Result<Utilisation> {
        (self.one_device, self.timed_since_ms) = (device.is_one(), Some(now_ms()));
        device.spawn(&mut self.crew)
    }

    /// Starts workers of these evaluators, each of a device of its own.
    pub(crate) fn evaluate_on(&mut self, evaluators: Vec<Arc<dyn Evaluator>>) -> anyhow::Result<()> {
        self.one_device = evaluators.len() == 1;
        let metrics = eval_worker::Metrics::register(&self.crew.registry, self.crew.pipeline.clone())?;
        let configs = evaluators.into_iter().map(|evaluator| eval_worker::Config::new("tune", evaluator)).collect();
        let (Ports { store, broker }, stop) = (self.crew.ports.clone(), self.crew.stop.clone());
        self.crew.running.spawn(async move { Ok(eval_worker::run_all(configs, broker, store, metrics, stop).await?) });
        Ok(())
    }

    /// Starts MIOpen's tools.
    pub(crate) fn use_tools(&mut self, tools: LocalTools) -> anyhow::Result<()> {
        if let Some(compilers) = tools.compilers {
            self.compile(compilers, &[])?;
        }
        self.evaluate_on(tools.evaluators)
    }

    /// Starts something else, which runs until its token is cancelled.
    pub(crate) fn spawn<F>(&mut self, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let stop = self.crew.stop.clone();
        self.crew.running.spawn(task(stop));
    }

    /// Tells `watch` how far the session is until it is `complete`, then stops what was started here. Play-offs that were timed here while the
    /// machine was busy are first repeated, once.
    ///
    /// # Errors
    /// If a worker ends before, the store fails, or the session is pinned to something else than the workers started here.
    pub(crate) async fn wait(
        mut self,
        watch: &mut dyn Watch,
        complete: impl AsyncFn(&Progress) -> anyhow::Result<bool>,
    ) -> anyhow::Result<Ended> {
        let alone = self.crew.running.is_empty();
        let mut moved = (Instant::now(), Progress::default());
        let standings = Standings::default();
        let ended = loop {
            let progress = self.crew.ports.store.progress(&self.session.name).await?;
            watch.progress(&progress, self.crew.under_way().as_ref());
            if progress != moved.1 {
                moved = (Instant::now(), progress.clone());
            } else if alone && moved.0.elapsed() >= STILL {
                moved.0 = Instant::now();
                for reason in self.why(&progress).await {
                    watch.say(&reason);
                }
            }
            if !progress.is_settled() {
                self.stands(standings.of(&*self.crew.ports.store, &self.session.name).await?)?;
            }
            if self.refused() || complete(&progress).await? && !self.measures_again(watch).await? {
                break None;
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = self.shutdown.cancelled() => break None,
                Some(result) = self.crew.running.join_next() => break Some(result),
            }
        };
        watch.finish();
        let interrupted = self.shutdown.is_cancelled();
        if interrupted && !alone {
            let seconds = GRACE.as_secs();
            watch.say(&format!(
                "stopping: what a device or a compiler is at has {seconds} s to end; what does not is done again by the same command. A \
                 second Ctrl-C ends at once"
            ));
        }
        self.crew.stop.cancel();
        if let Some(result) = ended {
            result??;
            // An interrupt ends the workers as well, and one may be gone before it is noticed here.
            anyhow::ensure!(interrupted, "a worker ended before the session was complete");
        }
        while let Some(result) = self.crew.running.join_next().await {
            result??;
        }
        anyhow::ensure!(
            interrupted || !self.refused(),
            "session {}: it is pinned to another compiler or device; name another one with --session",
            self.session.name
        );
        Ok(if interrupted { Ended::Interrupted } else { Ended::Complete })
    }

    /// Begins the play-offs once more whose winner's time is in doubt, unless that was done already. Whether there are any.
    async fn measures_again(&mut self, watch: &mut dyn Watch) -> anyhow::Result<bool> {
        let Some(since_ms) = self.timed_since_ms.take() else { return Ok(false) };
        let Ports { store, broker } = self.crew.ports.clone();
        let problems = retry::repeat_play_offs(&*store, &*broker, &self.session, since_ms).await?;
        if problems > 0 {
            let named = counted(problems, "problem");
            watch.say(&format!("timed while the machine was busy: {named}; the play-offs are repeated"));
        }
        Ok(problems > 0)
    }

    /// What keeps the session, which others work at, from moving. Where that can not be said now, it is tried again later.
    async fn why(&self, progress: &Progress) -> Vec<String> {
        let Ports { store, broker } = &self.crew.ports;
        match Fleet::look(&**broker, &**store, &self.session, progress).await {
            Ok(fleet) => fleet.why(&self.session, progress),
            Err(error) => vec![error.to_string()],
        }
    }

    /// Nobody waits for jobs that are dropped; nor for those that are kept, if it takes another process to go on with them.
    fn stands(&self, standing: Standing) -> anyhow::Result<()> {
        let session = &self.session.name;
        match standing {
            Standing::Cancelled | Standing::Deleted => anyhow::bail!("session {session}: it was {}", standing.name()),
            Standing::Paused if !self.crew.running.is_empty() => {
                anyhow::bail!("session {session}: it is paused: bluefin session resume {session}")
            }
            Standing::Paused | Standing::Running | Standing::Resuming => Ok(()),
        }
    }

    /// Whether the session is pinned to another compiler or, where the device is the only one, another device than those of
    /// this process: what its workers hand back then nobody takes.
    fn refused(&self) -> bool {
        let refusals = |step| self.crew.pipeline.refusals(step) > 0;
        refusals(Step::Compile) || self.one_device && refusals(Step::Eval)
    }
}
