//! A device, through a child process: kernels are checked against their reference and timed.

use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bluefin_common::delivery::pin::{Pin, PlainPin};
use bluefin_common::failure::Failure;
use bluefin_common::job::{GroupId, Job};
use bluefin_common::method::Method;
use bluefin_common::outcome::{CandidateOutcome, DeviceState};
use bluefin_common::session::{SessionName, Stage};
use bluefin_common::target::Target;
use lru::LruCache;
use tokio::sync::Mutex;
use tokio::time::sleep;

use super::assignment::Assignment;
use super::budget;
use super::gpu_lock::GpuLock;
use super::kernels::{self, Kernels, Ran};
use super::stop::Stop;
use super::{Evaluated, Evaluator, Running};
use crate::metrics::Metrics;
use crate::supervisor::{ChildConfig, DeviceError, DeviceWorker, Translators, Work};
use crate::timing::Limits;

/// Candidates of a job that wait to be translated, as a rule: those of small jobs, where the others are known already.
const CANDIDATES_AT_ONCE: usize = 2;
/// Groups whose best time is remembered.
const GROUPS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
/// How often the next in turn asks for the best time again.
const FRESH: Duration = Duration::from_millis(10);

/// A device, and how its child is started.
#[derive(Clone, Debug)]
pub struct DeviceChild {
    /// As it is named in logs and metrics.
    pub device: String,
    pub target: Target,
    pub child: ChildConfig,
}

impl DeviceChild {
    /// The CPU.
    #[must_use]
    pub fn host(child: ChildConfig) -> Self {
        Self { device: "host".to_string(), target: Target::Host, child }
    }
}

/// What is pinned of the devices of a target.
pub(super) fn pin(what: &str, target: &Target, value: &str) -> Arc<dyn Pin> {
    Arc::new(PlainPin { key: format!("{what}.{target}"), value: value.to_string() })
}

/// The pin of the driver, where it tells its version.
pub(super) fn driver_pin(target: &Target, version: &str) -> Option<Arc<dyn Pin>> {
    (!version.is_empty()).then(|| pin("driver", target, version))
}

#[async_trait]
impl Evaluator for DeviceChild {
    fn name(&self) -> &str {
        &self.device
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn method(&self) -> Method {
        Method::KERNELS
    }

    /// Beside the job at work and the next, as many as it takes to keep those busy that translate code ahead: a job has some candidates, and
    /// waits for the slowest of them.
    fn prefetch(&self) -> u16 {
        u16::try_from(2 + self.child.translators / CANDIDATES_AT_ONCE).unwrap_or(u16::MAX)
    }

    async fn start(&self, metrics: &Metrics) -> Result<Box<dyn Running>, DeviceError> {
        let worker = DeviceWorker::start(self.child.clone(), metrics.clone()).await?;
        // Slices of a GPU may share what it calls unique; then it is not by that that the child sees its own.
        let uuid = &self.child.uuid;
        let is_unique = self.child.environment.iter().any(|(_, value)| value.as_ref() == Some(uuid));
        Ok(Box::new(Device {
            target: self.target.clone(),
            identity: worker.device().to_string(),
            lock: GpuLock::of(if is_unique { uuid } else { "" }),
            driver: worker.driver().to_string(),
            worker: Mutex::new(worker),
            translators: Translators::new(self.child.clone()),
            next: Mutex::default(),
            best: Best::default(),
        }))
    }
}

struct Device {
    target: Target,
    identity: String,
    lock: GpuLock,
    driver: String,
    worker: Mutex<DeviceWorker>,
    translators: Option<Translators>,
    /// Held by the job that comes to the device next.
    next: Mutex<()>,
    best: Best,
}

#[async_trait]
impl Running for Device {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn pins(&self, limits: &Limits) -> Vec<Arc<dyn Pin>> {
        let device = pin("device", &self.target, &self.identity);
        let timing = pin("timing", &self.target, &limits.to_string());
        [Some(device), driver_pin(&self.target, &self.driver), Some(timing)].into_iter().flatten().collect()
    }

    async fn evaluate(&self, assignment: &Assignment<'_>) -> Result<Evaluated, Stop> {
        if let Some(failure) = spent(assignment).await? {
            let candidates = CandidateOutcome::all_failed(assignment.job(), &failure);
            return Ok(Evaluated { candidates, ..Evaluated::default() });
        }
        let kernels = Kernels::fetch(assignment, self.translators.as_ref()).await?;
        let began = Instant::now();
        let waited = Instant::now();
        let ran = match &kernels {
            Some(kernels) => self.run(assignment, kernels).await?,
            None => JobRan::default(),
        };
        let JobRan { results, state: device_state, nondeterministic, took } = ran;
        let waited = waited.elapsed().saturating_sub(took);
        let evaluated = kernels::conclude(assignment, kernels.as_ref(), results).await?;
        Ok(Evaluated { device_state, nondeterministic, busy: began.elapsed().saturating_sub(waited), ..evaluated })
    }
}

/// Which budget of its session is spent, if one is, and the job is not to be begun. A play-off always is: it says who won of
/// what was timed.
async fn spent(assignment: &Assignment<'_>) -> Result<Option<Failure>, Stop> {
    if assignment.job().stage == Stage::Find {
        return Ok(None);
    }
    budget::spent(assignment, &assignment.session.budget).await
}

/// What came of the candidates of a job on the device.
#[derive(Default)]
struct JobRan {
    results: Vec<Ran>,
    state: DeviceState,
    nondeterministic: Vec<String>,
    took: Duration,
}

impl Device {
    async fn run(&self, assignment: &Assignment<'_>, kernels: &Kernels) -> Result<JobRan, Stop> {
        let job = assignment.job();
        let group = job.group();
        let read = || assignment.store.best_ms(&job.session, group);
        let mut stored_ms = assignment.patience.with("read best", read).await?;
        let turn = {
            let _next = self.next.lock().await;
            let mut turn = pin!(assignment.turn_on(&self.lock));
            let mut pause = Duration::ZERO;
            // While it waits other devices may tell of better ones, against which less is timed. The device does not wait for that.
            loop {
                let again = async {
                    sleep(pause).await;
                    read().await.ok().flatten()
                };
                tokio::select! {
                    biased;
                    turn = &mut turn => break turn?,
                    best_ms = again => (stored_ms, pause) = (best_ms.or(stored_ms), FRESH),
                }
            }
        };
        let work = async {
            let mut worker = self.worker.lock().await;
            let work = Work {
                stage: job.stage,
                task: &kernels.task,
                reference: &kernels.reference,
                data: &kernels.data,
                candidates: &kernels.candidates,
                seed: job.problem.digest().0.iter().fold(0, |seed: u64, byte| seed.rotate_left(8) ^ u64::from(*byte)),
                incumbent_ms: self.best.of(job, stored_ms),
                limits: *assignment.limits,
            };
            let results = worker.evaluate(&work).await?;
            let resources = worker.resources().to_vec();
            let results = results.into_iter().zip(resources).map(|(result, resources)| Ran { result, resources });
            let nondeterministic = worker.nondeterministic().to_vec();
            Ok::<_, DeviceError>((results.collect::<Vec<_>>(), worker.state().clone(), nondeterministic))
        };
        let (worked, took) = assignment.timed(work).await?;
        let (results, state, nondeterministic) = worked?;
        let timed = results
            .iter()
            .filter_map(|ran| ran.result.as_ref().ok())
            .filter(|timing| !timing.pruned)
            .map(|timing| timing.median_ms);
        self.best.of(job, timed.min_by(f64::total_cmp));
        drop(turn);
        Ok(JobRan { results, state, nondeterministic, took })
    }
}

/// The best times that this worker knows, for those that the store has not been told yet.
struct Best(std::sync::Mutex<LruCache<(SessionName, GroupId), f64>>);

impl Default for Best {
    fn default() -> Self {
        Self(std::sync::Mutex::new(LruCache::new(GROUPS)))
    }
}

impl Best {
    /// The best of `time_ms` and of what is known of the job's group, remembered.
    fn of(&self, job: &Job, time_ms: Option<f64>) -> Option<f64> {
        let group = (job.session.clone(), job.group());
        let mut best = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
