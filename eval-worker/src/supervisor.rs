//! The parent's side of a device: a child that runs candidates, and a new one whenever a candidate takes it down.

mod process;
mod translators;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bluefin_common::artifact::{Prepared, Task};
use bluefin_common::digest::Digest;
use bluefin_common::job::Stage;
use bluefin_common::outcome::{DeviceState, Failure, FailureKind, Timing};
use bluefin_common::wire;
use bytes::Bytes;

use self::process::{ChildProcess, Lost, Patience};
pub use self::translators::Translators;
use crate::metrics::Metrics;
use crate::protocol::{Identity, Place, Reply, Request, Spent};
use crate::timing::{Limits, MAX_PREPARATION, better};

/// Tries to start a child, to run a reference, or to go on where memory was short, before it is given up.
const TRIES: u32 = 3;
/// Between tries to start a child.
const PAUSE: Duration = Duration::from_millis(500);

/// How to start a child, and how long to wait for it.
#[derive(Clone, Debug)]
pub struct ChildConfig {
    /// Program and arguments: something that calls [`crate::child::main`].
    pub command: Vec<OsString>,
    /// The CPU that it runs on; the last one allowed by default.
    pub cpu: Option<u32>,
    /// CPUs that children of this machine run on: all others are for translators.
    pub taken_cpus: Vec<u32>,
    /// Processes that compile code ahead; none for a device that loads what compile workers make at once.
    pub translators: usize,
    /// Variables of the child's environment that are set, or removed: which devices it sees.
    pub environment: Vec<(&'static str, Option<String>)>,
    /// UUID of the device that it must have; empty if any will do.
    pub uuid: String,
    pub deadlines: Deadlines,
    /// What the files that tell of control groups are below: `/`.
    pub root: PathBuf,
}

impl ChildConfig {
    /// A child that needs nothing said.
    #[must_use]
    pub fn new(command: Vec<OsString>, deadlines: Deadlines) -> Self {
        Self {
            command,
            cpu: None,
            taken_cpus: Vec::new(),
            translators: 0,
            environment: Vec::new(),
            uuid: String::new(),
            deadlines,
            root: PathBuf::from("/"),
        }
    }
}

/// Times that a candidate may take as long as it may be silent: to be loaded, to run, to run again where something is wrong, and
/// for the six samples that are taken whatever the budget.
const STEPS: u32 = 9;

/// How long a child may be silent. How long it may take for a result follows from that and from the timing protocol.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// After it was started.
    pub start: Duration,
    /// While it makes inputs and runs the reference, which may be slow.
    pub reference: Duration,
    /// While it loads a candidate, or between two of its launches.
    pub step: Duration,
    /// The same as a multiple of the best known time, if that is longer.
    pub step_of_incumbent: f64,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(20),
            reference: Duration::from_secs(120),
            step: Duration::from_secs(10),
            step_of_incumbent: 20.0,
        }
    }
}

impl Deadlines {
    fn step(&self, incumbent_ms: Option<f64>) -> Duration {
        let of_incumbent = incumbent_ms.unwrap_or_default() * self.step_of_incumbent / 1000.0;
        Duration::try_from_secs_f64(of_incumbent).map_or(self.step, |of_incumbent| self.step.max(of_incumbent))
    }

    fn of_start(&self) -> Patience {
        Patience { silence: self.start, result: self.start }
    }

    fn of_translation(&self) -> Patience {
        Patience { silence: self.reference, result: self.reference }
    }

    /// Inputs are made, then the reference runs.
    fn of_reference(&self) -> Patience {
        Patience { silence: self.reference, result: self.reference * 2 }
    }

    /// Of one candidate, or of `together` candidates whose results come at the same time.
    fn of_candidates(&self, together: usize, incumbent_ms: Option<f64>, limits: &Limits) -> Patience {
        let silence = self.step(incumbent_ms);
        let budget = Duration::try_from_secs_f64(limits.sample_budget_ms / 1000.0).unwrap_or_default();
        let one = silence.saturating_mul(STEPS).saturating_add(budget).saturating_add(MAX_PREPARATION);
        Patience { silence, result: one.saturating_mul(u32::try_from(together).unwrap_or(u32::MAX)) }
    }
}

/// The device can not be used at all, whatever the candidate.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error("child process {command:?}: {reason}")]
    Start { command: OsString, reason: String },
    #[error("the device does not answer: its child was {reason}")]
    Silent { reason: String },
    #[error("process {pid} can not be killed: it waits in the kernel for a device that does not answer")]
    Stuck { pid: u32 },
    #[error("device: found {found:?}, expected {expected:?}")]
    Changed { found: Box<Identity>, expected: Box<Identity> },
    #[error("device: gone, or not to be used any more: {reason}")]
    Lost { reason: String },
    #[error(
        "the kernel killed the device's child process for want of memory, which is no candidate's fault: {short_of}. Allow \
         more memory, or run less beside it, such as fewer compilers"
    )]
    Killed { short_of: String },
}

/// A candidate that can be run.
#[derive(Clone, Debug)]
pub struct Runnable {
    pub prepared: Prepared,
    /// Its artifact.
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
    /// What a spin took when the device was first warmed up, in milliseconds.
    first_spin_ms: Option<f64>,
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
            first_spin_ms: None,
        };
        let child = worker.start_child().await?;
        worker.identity = Some(child.device.clone());
        worker.child = Some(child);
        Ok(worker)
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

    /// Checks and times the candidates of `work`; a result for each, in their order. A candidate that takes the child
    /// down costs only its own result. May be cancelled: the child is then killed.
    ///
    /// # Errors
    /// If no child can be started any more. No candidate is to blame.
    pub async fn evaluate(&mut self, work: &Work<'_>) -> Result<Vec<Result<Timing, Failure>>, DeviceError> {
        let start = Instant::now();
        let mut results = vec![None; work.candidates.len()];
        let mut tries = 0;
        while let Err(error) = self.evaluate_open(work, &mut results).await {
            tries += 1;
            let DeviceError::Killed { short_of } = &error else { return Err(error) };
            if tries >= TRIES {
                return Err(error);
            }
            tracing::warn!(short_of, tries, "the kernel killed a child for want of memory; no result is made of that");
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
        results: &mut [Option<Result<Timing, Failure>>],
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
        let limits = work.limits;
        let candidates = candidates.iter().map(|candidate| candidate.prepared.clone()).collect();
        let request = match work.stage {
            Stage::Perf => Request::Evaluate { candidates, incumbent_ms, limits },
            Stage::Find => Request::PlayOff { candidates, seed: work.seed, careful, limits },
        };
        let together = if work.stage == Stage::Find { open.len() } else { 1 };
        let patience = self.config.deadlines.of_candidates(together, incumbent_ms, &limits);
        match child.ask(&request, &codes, patience).await? {
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
            if child.task == Some(key) {
                return Ok(Ok(child));
            }
            child.task = None;
            let patience = self.config.deadlines.of_reference();
            let reply = child.ask(&request, &[work.reference.as_ref()], patience).await;
            if let Ok(Reply::Prepared { spent, .. }) = &reply {
                self.account(*spent);
            }
            match reply {
                Ok(Reply::Prepared { result: Ok(()), .. }) => {
                    child.task = Some(key);
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
        Ok(Err(of_reference(&failure)))
    }

    /// What became of a lost child: the candidate that it worked on, and the failure that it is.
    async fn bury(&self, child: ChildProcess, lost: Lost) -> Result<(Option<u32>, Failure), DeviceError> {
        let obituary = child.bury(lost).await;
        self.metrics.child_lost(obituary.cause);
        tracing::debug!(kind = obituary.failure.kind.name(), detail = obituary.failure.detail, "child lost");
        match (obituary.stuck, obituary.short_of) {
            (Some(pid), _) => Err(DeviceError::Stuck { pid }),
            (None, Some(short_of)) => Err(DeviceError::Killed { short_of }),
            (None, None) => Ok((obituary.candidate, obituary.failure)),
        }
    }

    async fn start_child(&self) -> Result<ChildProcess, DeviceError> {
        let mut tries = 0;
        loop {
            tries += 1;
            self.metrics.child_started();
            match ChildProcess::start(&self.config, Place::One(self.config.cpu)).await {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_grow_with_the_incumbent() {
        let deadlines = Deadlines::default();
        assert_eq!(deadlines.step(None), Duration::from_secs(10));
        assert_eq!(deadlines.step(Some(1.0)), Duration::from_secs(10));
        assert_eq!(deadlines.step(Some(2000.0)), Duration::from_secs(40));
        assert_eq!(deadlines.step(Some(f64::NAN)), Duration::from_secs(10));
    }

    #[test]
    fn a_candidate_has_a_limit_that_follows_from_the_protocol() {
        let deadlines = Deadlines { step: Duration::from_secs(1), ..Deadlines::default() };
        let limits = Limits { sample_budget_ms: 500.0, ..Limits::default() };
        let seconds = |together, limits| deadlines.of_candidates(together, None, &limits).result.as_secs_f64();
        assert_eq!([1, 4].map(|together| seconds(together, limits)), [12.5, 50.0]);
        assert_eq!(seconds(1, Limits { sample_budget_ms: f64::INFINITY, ..limits }), 12.0);
        assert!(seconds(usize::MAX, limits) > 1e6);
    }
}
