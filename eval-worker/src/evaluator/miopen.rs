//! MIOpen's tools: a process for each job, on one GPU, which it has for itself. What is the same for all of them; the tools
//! themselves are in [`super::fin`] and [`super::driver`].

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bluefin_common::candidate::Candidate;
use bluefin_common::delivery::pin::Pin;
use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::job::Job;
use bluefin_common::method::Method;
use bluefin_common::outcome::{CandidateOutcome, DeviceState};
use bluefin_common::session::Session;
use bluefin_common::target::Target;
use bluefin_common::value::Value;
use bluefin_miopen::LibraryPin;
use bluefin_miopen::detect::Versions;
use bluefin_miopen::disk::Disk;
use bluefin_miopen::fin::{Trouble, blames_machine};
use bluefin_miopen::place::Place;
use bluefin_miopen::process::Watch;

use super::assignment::Assignment;
use super::budget;
use super::device::driver_pin;
use super::gpu_lock::GpuLock;
use super::stop::Stop;
use super::{Evaluated, Evaluator, Running};
use crate::metrics::Metrics;
use crate::supervisor::DeviceError;
use crate::timing::Limits;

/// One of MIOpen's tools and the GPU that it evaluates on.
#[derive(Clone)]
pub struct MiopenDevice {
    pub(super) tool: Arc<dyn MiopenTool>,
    pub(super) target: Target,
    /// As `HIP_VISIBLE_DEVICES` takes it; `None`: the first one.
    pub(super) gpu: Option<String>,
    pub(super) uuid: String,
    pub(super) lock: GpuLock,
    pub(super) identity: String,
    pub(super) versions: Versions,
    /// Version of the GPU's driver; empty where it tells none.
    pub(super) driver: String,
    /// Bounds of one process; a session's budget may tighten them.
    pub watch: Watch,
    /// Where it writes.
    pub disk: Disk,
}

/// A tool that was found.
#[async_trait]
pub(super) trait MiopenTool: Send + Sync {
    /// The method whose jobs it evaluates.
    fn method(&self) -> Method;

    /// Evaluates the candidates of a job. Says nothing of the device.
    async fn evaluate(&self, job: &ToolJob<'_>) -> Result<Evaluated, Stop>;

    /// Tries whether the tool starts and the GPU is there, as far as the tool can tell.
    async fn try_gpu(&self, target: &Target, gpu: Option<&str>) -> Result<(), Trouble>;
}

impl MiopenDevice {
    /// What sessions are pinned to: versions, and the solvers of the library where the tool lists them.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    async fn try_write(&self) -> Result<(), String> {
        let disk = self.disk.clone();
        let tried = tokio::task::spawn_blocking(move || disk.try_write()).await;
        tried.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Bounds of one process of `session`.
    fn watch(&self, session: &Session) -> Watch {
        let mut watch = self.watch.clone();
        if let Some(limit) = session.budget.solver_ms.map(Duration::from_millis) {
            watch.time = watch.time.min(limit);
        }
        watch
    }
}

#[async_trait]
impl Evaluator for MiopenDevice {
    fn name(&self) -> &str {
        self.tool.method().name
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn method(&self) -> Method {
        self.tool.method()
    }

    async fn start(&self, metrics: &Metrics) -> Result<Box<dyn Running>, DeviceError> {
        let tried = self.tool.try_gpu(&self.target, self.gpu.as_deref()).await;
        tried.map_err(|trouble| DeviceError::Lost { reason: trouble.into_failure().detail })?;
        Ok(Box::new(RunningTool {
            identity: format!("{} through {}", self.target, self.tool.method()),
            device: self.clone(),
            metrics: metrics.clone(),
        }))
    }
}

/// Its target names its queue; what is left to tell apart is the library.
struct RunningTool {
    identity: String,
    device: MiopenDevice,
    metrics: Metrics,
}

#[async_trait]
impl Running for RunningTool {
    fn identity(&self) -> &str {
        &self.identity
    }

    /// The tools measure by themselves.
    fn pins(&self, _limits: &Limits) -> Vec<Arc<dyn Pin>> {
        let library: Arc<dyn Pin> = Arc::new(LibraryPin(self.device.identity.clone()));
        let driver = driver_pin(&self.device.target, &self.device.driver);
        [Some(library), driver].into_iter().flatten().collect()
    }

    fn lacks(&self) -> Option<String> {
        self.device.disk.lacks_room()
    }

    async fn probe(&self) -> Result<(), String> {
        self.device.disk.lacks_room().map_or(Ok(()), Err)?;
        self.device.try_write().await?;
        let tried = self.device.tool.try_gpu(&self.device.target, self.device.gpu.as_deref()).await;
        tried.map_err(|trouble| trouble.into_failure().detail)
    }

    async fn evaluate(&self, assignment: &Assignment<'_>) -> Result<Evaluated, Stop> {
        let session = assignment.session;
        if let Some(failure) = budget::spent(assignment, &session.budget).await? {
            let candidates = CandidateOutcome::all_failed(assignment.job(), &failure);
            return Ok(Evaluated { candidates, ..Evaluated::default() });
        }
        let watch = self.device.watch(session);
        let job = ToolJob { assignment, device: &self.device, session, watch, metrics: &self.metrics };
        let evaluated = self.device.tool.evaluate(&job).await?;
        if evaluated.busy.is_zero() {
            return Ok(evaluated);
        }
        let device_state = DeviceState {
            uuid: self.device.uuid.clone(),
            driver: self.device.versions.to_string(),
            ..DeviceState::default()
        };
        Ok(Evaluated { ran: true, device_state, ..evaluated })
    }
}

/// A job that a tool evaluates, whose budget is not spent.
pub(super) struct ToolJob<'a> {
    pub(super) assignment: &'a Assignment<'a>,
    pub(super) session: &'a Session,
    /// Bounds of one process.
    pub(super) watch: Watch,
    device: &'a MiopenDevice,
    metrics: &'a Metrics,
}

impl ToolJob<'_> {
    pub(super) fn job(&self) -> &Job {
        self.assignment.job()
    }

    /// Where one of its processes runs.
    pub(super) fn place(&self) -> Result<Place, Stop> {
        let mut place = Place::new(Some(self.session))
            .map_err(|error| Stop::Machine(format!("folder of temporary files: {error}")))?;
        if let Some(gpu) = &self.device.gpu {
            place.show_gpu(gpu);
        }
        Ok(place)
    }

    /// Runs `work` while the GPU is this job's alone; what came of it and how long it took.
    pub(super) async fn alone<T>(&self, work: impl Future<Output = T>) -> Result<(T, Duration), Stop> {
        let (result, busy) = self.assignment.alone_on(&self.device.lock, work).await?;
        self.metrics.busy(self.job().stage, busy);
        Ok((result, busy))
    }

    /// What a call that gave no answer means for the job: a failure of it, or that it is for another time or worker.
    pub(super) async fn failure(&self, trouble: Trouble) -> Result<Failure, Stop> {
        match trouble {
            Trouble::Failed(failure) => {
                self.metrics.child_lost(if failure.kind == FailureKind::Hang { "hang" } else { "exit" });
                self.machine_is_fit().await?;
                self.still_there(&failure).await?;
                let limit = self.session.budget.solver_ms.map(Duration::from_millis);
                if failure.kind == FailureKind::Hang && limit == Some(self.watch.time) {
                    let detail = format!("budget solver_ms: {}", failure.detail);
                    return Ok(Failure::new(failure.kind, detail));
                }
                Ok(failure)
            }
            Trouble::Machine(reason) => Err(Stop::Machine(reason)),
            Trouble::Killed(reason) => {
                self.metrics.child_lost("outside");
                Err(Stop::Suspect(reason))
            }
            Trouble::NoDevice(reason) | Trouble::WrongBackend(reason) => Err(DeviceError::Lost { reason }.into()),
            other @ Trouble::WrongTarget(_) => Ok(other.into_failure()),
        }
    }

    /// What an answer that is a failure means for the job. A tool that finds no room to write in may say so in its answer, or
    /// leave half of one and say nothing.
    pub(super) async fn refusal(&self, failure: Failure) -> Result<Failure, Stop> {
        if blames_machine(&failure.detail) {
            return Err(Stop::Machine(failure.detail));
        }
        self.machine_is_fit().await?;
        Ok(failure)
    }

    /// Looks whether temporary files can be written at all, before anything is anybody's failure.
    async fn machine_is_fit(&self) -> Result<(), Stop> {
        self.device.try_write().await.map_err(Stop::Machine)
    }

    /// Looks whether the GPU survived what ended a process on it.
    async fn still_there(&self, failure: &Failure) -> Result<(), Stop> {
        if !matches!(failure.kind, FailureKind::ToolCrash | FailureKind::Hang | FailureKind::OutOfMemory) {
            return Ok(());
        }
        match self.device.tool.try_gpu(&self.device.target, self.device.gpu.as_deref()).await {
            Ok(()) => Ok(()),
            Err(Trouble::Machine(reason) | Trouble::Killed(reason)) => Err(Stop::Machine(reason)),
            Err(trouble) => Err(DeviceError::Lost { reason: trouble.into_failure().detail }.into()),
        }
    }
}

/// A candidate with the params that a tool names.
pub(super) fn candidate(solver: &str, params: &str) -> Candidate {
    let params = if params.is_empty() { Vec::new() } else { vec![Value::Text(params.to_string())] };
    Candidate { solver: solver.to_string(), params }
}
