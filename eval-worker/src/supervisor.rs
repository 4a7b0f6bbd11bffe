//! The parent's side of a device: a child that runs candidates, and a new one whenever a candidate takes it down.

mod config;
pub(crate) mod environment;
mod error;
mod own_time;
mod process;
mod proven;
mod translators;

use std::time::{Duration, Instant};

use bluefin_common::artifact::Built;
use bluefin_common::digest::Digest;
use bluefin_common::failure::{Attempt, Failure, FailureKind};
use bluefin_common::outcome::{DeviceState, Resources, Timing};
use bluefin_common::session::Stage;
use bluefin_common::task::Task;
use bluefin_common::wire;
use bytes::Bytes;

pub use self::config::{ChildConfig, Deadlines};
use self::config::{ENDS, TRIES};
pub use self::error::DeviceError;
use self::process::{ChildProcess, Lost, Obituary};
pub use self::proven::Proven;
pub use self::translators::Translators;
use crate::metrics::Metrics;
use crate::protocol::{Cpus, Identity, Reply, Request, Spent};
use crate::timing::{Limits, better};

/// Between tries to start a child.
const PAUSE: Duration = Duration::from_millis(500);

/// A candidate that can be run.
#[derive(Clone, Debug)]
pub struct Runnable {
    pub built: Built,
    /// Its one code object.
    pub code: Bytes,
    /// What is loaded in its place, if it was translated.
    pub image: Option<Bytes>,
}

impl Runnable {
    /// What is loaded.
    #[must_use]
    pub fn loaded(&self) -> &Bytes {
        self.image.as_ref().unwrap_or(&self.code)
    }
}

/// Candidates of one task.
pub struct Work<'a> {
    pub stage: Stage,
    pub task: &'a Task,
    /// What is loaded of the reference.
    pub reference: &'a Bytes,
    /// The data of the task's buffers, as [`Task::data`] names it.
    pub data: &'a [Bytes],
    pub candidates: &'a [Runnable],
    /// Of inputs and of the order in a play-off.
    pub seed: u64,
    /// The best median known for the problem.
    pub incumbent_ms: Option<f64>,
    pub limits: Limits,
}

/// A device and the child that runs it.
pub struct DeviceWorker {
    config: ChildConfig,
    metrics: Metrics,
    /// Taken out while it works, so that it is gone if whoever waits for it is.
    child: Option<ChildProcess>,
    identity: Option<Identity>,
    state: DeviceState,
    spent: Spent,
    /// Outputs in which two runs of the current task's reference differed.
    nondeterministic: Vec<String>,
    /// What a spin took when the device was first warmed up, in milliseconds.
    first_spin_ms: Option<f64>,
    /// Of the candidates that were evaluated last.
    resources: Vec<Option<Resources>>,
}

impl DeviceWorker {
    /// Starts a child.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start(config: ChildConfig, metrics: Metrics) -> Result<Self, DeviceError> {
        let mut worker = Self {
            config,
            metrics,
            child: None,
            identity: None,
            state: DeviceState::default(),
            spent: Spent::default(),
            nondeterministic: Vec::new(),
            first_spin_ms: None,
            resources: Vec::new(),
        };
        let child = worker.start_child().await?;
        worker.identity = Some(child.device.clone());
        worker.child = Some(child);
        // One that was quarantined may answer and still run nothing.
        if worker.config.proven.last().is_some_and(|ready| ready.doubted) {
            worker.still_works().await?;
        }
        Ok(worker)
    }

    /// Versions of the device's driver; empty where it tells none.
    #[must_use]
    pub fn driver(&self) -> &str {
        self.identity.as_ref().map_or("", |identity| &identity.driver)
    }

    /// The device as it names itself.
    #[must_use]
    pub fn device(&self) -> &str {
        self.identity.as_ref().map_or("", |identity| &identity.name)
    }

    /// What the device said of itself after the last candidate.
    #[must_use]
    pub fn state(&self) -> &DeviceState {
        &self.state
    }

    /// Outputs in which two runs of the last task's reference differed.
    #[must_use]
    pub fn nondeterministic(&self) -> &[String] {
        &self.nondeterministic
    }

    /// Where the time of its children went so far.
    #[must_use]
    pub fn spent(&self) -> Spent {
        self.spent
    }

    fn account(&mut self, spent: Spent) {
        self.spent += spent;
        self.metrics.spent(&spent);
    }

    /// Compares the device with itself at the start: the same work, so the ratio of its times.
    fn watch_drift(&mut self, spin_ms: f64) {
        let first_ms = *self.first_spin_ms.get_or_insert(spin_ms);
        let identity = self.identity.as_ref();
        let device =
            identity.map_or("", |identity| if identity.uuid.is_empty() { &identity.target } else { &identity.uuid });
        self.metrics.drift(device, spin_ms / first_ms.max(f64::MIN_POSITIVE));
    }

    /// What each candidate of the last [`Self::evaluate`] takes of the device, where its driver says so.
    #[must_use]
    pub fn resources(&self) -> &[Option<Resources>] {
        &self.resources
    }

    /// Checks and times the candidates of `work`; a result for each, in their order. A candidate that takes the child
    /// down costs only its own result. May be cancelled: the child is then killed.
    ///
    /// # Errors
    /// If no child can be started any more. No candidate is to blame.
    pub async fn evaluate(&mut self, work: &Work<'_>) -> Result<Vec<Attempt<Timing>>, DeviceError> {
        let start = Instant::now();
        let mut results = vec![None; work.candidates.len()];
        self.resources = vec![None; work.candidates.len()];
        let (mut tries, mut open) = (0, results.len());
        while let Err(error) = self.evaluate_open(work, &mut results).await {
            let left = results.iter().filter(|result| result.is_none()).count();
            tries = if left < open { 1 } else { tries + 1 };
            open = left;
            let limit = match &error {
                DeviceError::Killed { .. } => TRIES,
                DeviceError::Ended { .. } => ENDS,
                _ => return Err(error),
            };
            if tries >= limit {
                return Err(error);
            }
            tracing::warn!(%error, tries, "no result is made of that");
            tokio::time::sleep(PAUSE).await;
        }
        self.metrics.busy(work.stage, start.elapsed());
        let missing = || Err(Failure::new(FailureKind::Dead, "not evaluated"));
        Ok(results.into_iter().map(|result| result.unwrap_or_else(missing)).collect())
    }

    /// Evaluates the candidates that have no result yet.
    async fn evaluate_open(
        &mut self,
        work: &Work<'_>,
        results: &mut [Option<Attempt<Timing>>],
    ) -> Result<(), DeviceError> {
        let mut incumbent_ms = results.iter().flatten().fold(work.incumbent_ms, better);
        // Times that something was lost that is nobody's.
        let mut unexplained = 0;
        let mut overruns = 0;
        while let Some(next) = results.iter().position(Option::is_none) {
            let open: Vec<usize> =
                (next..results.len()).filter(|index| matches!(results.get(*index), Some(None))).collect();
            let mut child = match self.child_at(work).await? {
                Ok(child) => child,
                // Without an answer to compare with, nobody can be right.
                Err(failure) => {
                    for result in results.iter_mut().filter(|result| result.is_none()) {
                        *result = Some(Err(failure.clone()));
                    }
                    break;
                }
            };
            let asked = self.ask(&mut child, work, &open, incumbent_ms, unexplained > 0).await;
            self.account(child.spent);
            if let Some(spin_ms) = child.spin_ms {
                self.watch_drift(spin_ms);
            }
            for (index, taken) in std::mem::take(&mut child.resources) {
                let of = open.get(index as usize).and_then(|index| self.resources.get_mut(*index));
                of.into_iter().for_each(|of| *of = Some(taken));
            }
            let evaluated = std::mem::take(&mut child.evaluated);
            let nobody = evaluated.is_empty();
            for (index, new) in evaluated {
                if let Some(result) = open.get(index as usize).and_then(|index| results.get_mut(*index)) {
                    incumbent_ms = better(incumbent_ms, &new);
                    *result = Some(new);
                }
            }
            let overran = matches!(asked, Err(Lost::Overran { .. }));
            let (culprit, failure) = match asked {
                Ok(tainted) => {
                    let failure = if tainted {
                        self.bury(child, Lost::Tainted).await?.1
                    } else {
                        self.child = Some(child);
                        Failure::new(FailureKind::LaunchFailure, "while it was timed against others")
                    };
                    if !nobody {
                        continue;
                    }
                    (None, failure)
                }
                Err(lost) => self.bury(child, lost).await?,
            };
            let culprit = culprit.and_then(|culprit| open.get(culprit as usize).copied());
            // Whoever has a result was done with: the next one had not said yet that it is its turn.
            let culprit = culprit.filter(|culprit| matches!(results.get(*culprit), Some(None)));
            unexplained += u32::from(culprit.is_none());
            overruns += u32::from(culprit.is_none() && overran);
            if culprit.is_none() && overruns > 1 {
                // One after the other would take as long again each.
                results
                    .iter_mut()
                    .filter(|result| result.is_none())
                    .for_each(|result| *result = Some(Err(failure.clone())));
                continue;
            }
            let first_open = || results.iter().position(Option::is_none);
            let culprit = culprit.or_else(|| first_open().filter(|_| unexplained >= TRIES));
            if let Some(result) = culprit.and_then(|culprit| results.get_mut(culprit)) {
                *result = Some(Err(failure));
            }
        }
        if self.child.is_none() {
            // Before the last candidate is blamed: a device that no longer works was not its doing, or not only.
            self.child = Some(self.start_child().await?);
        }
        Ok(())
    }

    /// Lets the child evaluate the candidates at the indices `open`; whether it is not to be trusted any more after that.
    async fn ask(
        &mut self,
        child: &mut ChildProcess,
        work: &Work<'_>,
        open: &[usize],
        incumbent_ms: Option<f64>,
        careful: bool,
    ) -> Result<bool, Lost> {
        let candidates: Vec<&Runnable> = open.iter().filter_map(|index| work.candidates.get(*index)).collect();
        let codes: Vec<&[u8]> = candidates.iter().map(|candidate| candidate.loaded().as_ref()).collect();
        // Finalists have as many samples whatever one takes: with fewer than six nothing can be told apart.
        let limits = match work.stage {
            Stage::Perf => work.limits,
            Stage::Find => work.limits.of_draws(work.task.draws()),
        };
        let candidates = candidates.iter().map(|candidate| candidate.built.clone()).collect();
        let request = match work.stage {
            Stage::Perf => Request::Evaluate { candidates, incumbent_ms, limits },
            Stage::Find => Request::PlayOff { candidates, seed: work.seed, careful, limits },
        };
        let together = if work.stage == Stage::Find { open.len() } else { 1 };
        let reference = child.task.as_ref().map(|(_, ready)| ready.first_run);
        let wait = self.config.deadlines.of_candidates(together, incumbent_ms, reference, &limits);
        match child.ask(&request, &codes, wait).await? {
            Reply::Done { tainted, state, spent } => {
                child.spent += spent;
                self.state = state;
                Ok(tainted)
            }
            other => Err(Lost::Garbled { reason: format!("unexpected reply {other:?}") }),
        }
    }

    /// A child with the task of `work` prepared, or why the reference does not run.
    async fn child_at(&mut self, work: &Work<'_>) -> Result<Result<ChildProcess, Failure>, DeviceError> {
        let request = Request::Prepare { task: work.task.clone(), seed: work.seed, limits: work.limits };
        let key = match wire::encode(&request) {
            Ok(frame) => Digest::of(&frame),
            Err(error) => return Ok(Err(Failure::new(FailureKind::InvalidLaunch, error.to_string()))),
        };
        let mut failure = Failure::new(FailureKind::Fault, String::new());
        for _ in 0..TRIES {
            let mut child = match self.child.take() {
                Some(child) => child,
                None => self.start_child().await?,
            };
            if let Some((task, ready)) = &child.task
                && *task == key
            {
                self.nondeterministic.clone_from(&ready.nondeterministic);
                return Ok(Ok(child));
            }
            child.task = None;
            let wait = self.config.deadlines.of_reference();
            let frames: Vec<&Bytes> = [work.reference].into_iter().chain(work.data).collect();
            let sent: Vec<&[u8]> = frames.iter().map(AsRef::as_ref).collect();
            let reply = child.ask(&request, &sent, wait).await;
            if let Ok(Reply::Prepared { spent, .. }) = &reply {
                self.account(*spent);
            }
            match reply {
                Ok(Reply::Prepared { result: Ok(ready), .. }) => {
                    self.config.proven.note(&request, &frames);
                    self.nondeterministic.clone_from(&ready.nondeterministic);
                    child.task = Some((key, ready));
                    return Ok(Ok(child));
                }
                Ok(Reply::Prepared { result: Err(fault), tainted: true, .. }) => {
                    self.bury(child, Lost::Tainted).await?;
                    failure = fault;
                }
                // Computed, not crashed: it would say the same again.
                Ok(Reply::Prepared { result: Err(refused), .. }) => {
                    self.child = Some(child);
                    return Ok(Err(of_reference(&refused)));
                }
                Ok(other) => {
                    let lost = Lost::Garbled { reason: format!("unexpected reply {other:?}") };
                    failure = self.bury(child, lost).await?.1;
                }
                Err(lost) => {
                    let hung = matches!(lost, Lost::Hung { .. } | Lost::Overran { .. });
                    failure = self.bury(child, lost).await?.1;
                    if hung {
                        break;
                    }
                }
            }
        }
        self.still_works().await?;
        Ok(Err(of_reference(&failure)))
    }

    /// Lets the device do what it did before, if it did anything.
    ///
    /// # Errors
    /// If it does not: what it failed at is not to blame.
    async fn still_works(&mut self) -> Result<(), DeviceError> {
        let Some(ready) = self.config.proven.last() else { return Ok(()) };
        let wait = self.config.deadlines.of_reference();
        let mut child = match self.child.take() {
            Some(child) => child,
            None => self.start_child().await?,
        };
        child.task = None;
        let frames: Vec<&[u8]> = ready.frames.iter().map(AsRef::as_ref).collect();
        let lost = match child.ask(&ready.request, &frames, wait).await {
            Ok(Reply::Prepared { result: Ok(_), .. }) => {
                self.config.proven.tried(true);
                self.child = Some(child);
                return Ok(());
            }
            Ok(other) => Lost::Garbled { reason: format!("unexpected reply {other:?}") },
            Err(lost) => lost,
        };
        self.config.proven.tried(false);
        Err(DeviceError::Broken { how: self.bury(child, lost).await?.1.detail })
    }

    /// What became of a lost child: the candidate that it worked on, and the failure that it is.
    async fn bury(&self, child: ChildProcess, lost: Lost) -> Result<(Option<u32>, Failure), DeviceError> {
        let obituary = child.bury(lost).await;
        self.metrics.child_lost(obituary.cause);
        tracing::debug!(kind = obituary.failure.kind.name(), detail = obituary.failure.detail, "child lost");
        match obituary {
            Obituary { stuck: Some(pid), .. } => Err(DeviceError::Stuck { pid }),
            Obituary { short_of: Some(short_of), .. } => Err(DeviceError::Killed { short_of }),
            Obituary { from_outside: true, failure, .. } => Err(DeviceError::Ended { how: failure.detail }),
            Obituary { candidate, failure, .. } => Ok((candidate, failure)),
        }
    }

    async fn start_child(&self) -> Result<ChildProcess, DeviceError> {
        let mut tries = 0;
        loop {
            tries += 1;
            self.metrics.child_started();
            match ChildProcess::start(&self.config, Cpus::One(self.config.cpu)).await {
                Ok(child) if !self.config.uuid.is_empty() && child.device.uuid != self.config.uuid => {
                    let expected = Identity { uuid: self.config.uuid.clone(), ..child.device.clone() };
                    return Err(DeviceError::Changed {
                        found: Box::new(child.device.clone()),
                        expected: Box::new(expected),
                    });
                }
                Ok(child) => match &self.identity {
                    Some(expected) if *expected != child.device => {
                        let found = Box::new(child.device.clone());
                        return Err(DeviceError::Changed { found, expected: Box::new(expected.clone()) });
                    }
                    _ => return Ok(child),
                },
                Err(error @ (DeviceError::Silent { .. } | DeviceError::Stuck { .. })) => return Err(error),
                Err(error) if tries >= TRIES => return Err(error),
                Err(error) => tracing::warn!(%error, tries, "child did not start"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn of_reference(failure: &Failure) -> Failure {
    Failure::new(failure.kind, format!("the reference failed: {}", failure.detail))
}
