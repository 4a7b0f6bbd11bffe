//! A device, through a child process: kernels are checked against their reference and timed.

use std::num::NonZeroUsize;
use std::sync::PoisonError;
use std::time::Instant;

use async_trait::async_trait;
use bluefin_common::delivery::pin::{Pin, PlainPin};
use bluefin_common::failure::Attempt;
use bluefin_common::job::{GroupId, Job};
use bluefin_common::method::Method;
use bluefin_common::outcome::{DeviceState, Timing};
use bluefin_common::session::SessionName;
use bluefin_common::target::Target;
use lru::LruCache;
use tokio::sync::Mutex;

use super::assignment::Assignment;
use super::kernels::{self, Kernels};
use super::stop::Stop;
use super::{Evaluated, Evaluator, Running};
use crate::metrics::Metrics;
use crate::supervisor::{ChildConfig, DeviceError, DeviceWorker, Translators, Work};

/// Groups whose best time is remembered.
const GROUPS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

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

/// The pin of the devices of a target.
pub(super) fn pin(target: &Target, identity: &str) -> PlainPin {
    PlainPin { key: format!("device.{target}"), value: identity.to_string() }
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

    fn prefetch(&self) -> u16 {
        4
    }

    async fn start(&self, metrics: &Metrics) -> Result<Box<dyn Running>, DeviceError> {
        let worker = DeviceWorker::start(self.child.clone(), metrics.clone()).await?;
        let identity = worker.device().to_string();
        Ok(Box::new(Device {
            pin: pin(&self.target, &identity),
            identity,
            worker: Mutex::new(worker),
            translators: Translators::new(self.child.clone()),
            best: Best::default(),
        }))
    }
}

struct Device {
    identity: String,
    pin: PlainPin,
    worker: Mutex<DeviceWorker>,
    translators: Option<Translators>,
    best: Best,
}

#[async_trait]
impl Running for Device {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn pin(&self) -> &dyn Pin {
        &self.pin
    }

    async fn evaluate(&self, assignment: &Assignment<'_>) -> Result<Evaluated, Stop> {
        let kernels = Kernels::fetch(assignment, self.translators.as_ref()).await?;
        let began = Instant::now();
        let (results, device_state) = match &kernels {
            Some(kernels) => self.run(assignment, kernels).await?,
            None => (Vec::new(), DeviceState::default()),
        };
        let evaluated = kernels::conclude(assignment, kernels.as_ref(), results).await?;
        Ok(Evaluated { device_state, busy: began.elapsed(), ..evaluated })
    }
}

impl Device {
    async fn run(
        &self,
        assignment: &Assignment<'_>,
        kernels: &Kernels,
    ) -> Result<(Vec<Attempt<Timing>>, DeviceState), Stop> {
        let job = assignment.job();
        let group = job.group();
        let read = || assignment.store.best_ms(&job.session, group);
        let stored_ms = assignment.patience.with("read best", read).await?;
        let work = async {
            let mut worker = self.worker.lock().await;
            let work = Work {
                stage: job.stage,
                task: &kernels.task,
                reference: &kernels.reference,
                candidates: &kernels.candidates,
                seed: job.problem.digest().0.iter().fold(0, |seed: u64, byte| seed.rotate_left(8) ^ u64::from(*byte)),
                incumbent_ms: self.best.of(job, stored_ms),
                limits: *assignment.limits,
            };
            let results = worker.evaluate(&work).await?;
            Ok::<_, DeviceError>((results, worker.state().clone()))
        };
        let (results, state) = assignment.alone(work).await?.0?;
        let timed = results.iter().flatten().filter(|timing| !timing.pruned).map(|timing| timing.median_ms);
        self.best.of(job, timed.min_by(f64::total_cmp));
        Ok((results, state))
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
