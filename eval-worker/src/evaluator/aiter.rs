//! Evaluation by aiter's own tuners: a process for a few shapes of one operator, on one GPU, which it has for itself. To load
//! aiter takes seconds, so that jobs that wait for the GPU at the same time share a process.

mod batch;
mod modules;
mod operators;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bluefin_aiter::harvest::{Found, Verdict};
use bluefin_aiter::operator::Comparison;
use bluefin_aiter::{Family, FamilyName};
use bluefin_common::candidate::Candidate;
use bluefin_common::delivery::pin::{Pin, PlainPin};
use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::job::Job;
use bluefin_common::method::Method;
use bluefin_common::outcome::{CandidateOutcome, DeviceState, Timing};
use bluefin_common::problem::{AiterProblem, Problem};
use bluefin_common::session::{Session, SessionName};
use bluefin_common::shelf;
use bluefin_common::target::Target;
use bluefin_common::value::Value;
use bluefin_miopen::detect::{self, Gpu, HIP_VISIBLE, HIP_VISIBLE_ELSE, ROCR_VISIBLE};
use bluefin_miopen::disk::Disk;
use tokio::sync::oneshot;

use super::assignment::Assignment;
use super::gpu_lock::GpuLock;
use super::stop::Stop;
use super::{Evaluated, Evaluator, Running};
use crate::metrics::Metrics;
use crate::supervisor::DeviceError;
use crate::timing::Limits;
use batch::Batch;
use modules::Modules;
use operators::Operators;

/// Shapes of one process: a crash costs the time of so many.
const SHAPES: usize = 8;
/// Time of one shape where its session says nothing: what aiter gives a kernel until it counts as hung.
const TIME: Duration = Duration::from_secs(1800);

/// aiter in a folder of this machine, and the GPU that it tunes on.
#[derive(Clone)]
pub struct AiterDevice {
    /// Its repository.
    pub(super) root: PathBuf,
    /// What runs its scripts.
    pub(super) python: OsString,
    /// Stands in front of it; may be empty.
    pub(super) launcher: Vec<OsString>,
    pub(super) target: Target,
    /// As `ROCR_VISIBLE_DEVICES` takes it; `None`: the first one.
    pub(super) gpu: Option<String>,
    lock: GpuLock,
    /// What the kernel driver says of its GPUs.
    topology: PathBuf,
    /// Commit and version of ROCm.
    identity: String,
    /// What modules that it builds depend on, but for what they are of; `None` where that can not be told.
    basis: Option<String>,
    disk: Disk,
}

/// Prints what else modules that Python loads depend on.
const ABI: &str = "
import importlib.metadata, sysconfig
try:
    torch = importlib.metadata.version('torch')
except importlib.metadata.PackageNotFoundError:
    torch = 'none'
print(sysconfig.get_config_var('SOABI'), 'torch', torch)
";

impl AiterDevice {
    /// aiter in `root`, for a GPU of `target`.
    ///
    /// # Errors
    /// If there is no aiter, for people.
    pub async fn find(
        root: &Path,
        python: OsString,
        launcher: Vec<OsString>,
        target: Target,
        gpu: Option<String>,
        topology: &Path,
    ) -> Result<Self, String> {
        let scripts = root.join("csrc");
        let found = tokio::fs::metadata(&scripts).await;
        if !found.is_ok_and(|found| found.is_dir()) {
            return Err(format!("{}: found no folder, expected that of aiter's tuners", scripts.display()));
        }
        let root = tokio::fs::canonicalize(root).await.map_err(|error| format!("{}: {error}", root.display()))?;
        let mut git = tokio::process::Command::new("git");
        let commit = git.arg("-C").arg(&root).args(["rev-parse", "HEAD"]).output().await;
        let commit = told(commit);
        let rocm = tokio::fs::read_to_string(Path::new(detect::ROCM).join(".info/version")).await;
        let rocm = rocm.map_or_else(|_| "unknown".to_string(), |version| version.trim().to_string());
        let mut words = launcher.iter().chain([&python]);
        let mut asking = tokio::process::Command::new(words.next().unwrap_or(&python));
        let abi = told(asking.args(words).args(["-c", ABI]).kill_on_drop(true).output().await);
        let basis = commit.as_ref().zip(abi).map(|(commit, abi)| format!("{commit} {rocm} {} {abi}", target.arch()));
        let identity = format!("aiter {}, ROCm {rocm}", commit.as_deref().unwrap_or("unknown"));
        let (disk, gpus) = (Disk::default(), detect::gpus(topology));
        let gpu = gpu.map(|named| within(&named, std::env::var(ROCR_VISIBLE).ok().as_deref())).transpose()?;
        let lock = GpuLock::among(&gpus, &meant(&gpus, gpu.as_deref(), |name| std::env::var(name).ok()));
        Ok(Self { root, python, launcher, target, gpu, lock, topology: topology.to_path_buf(), identity, basis, disk })
    }

    /// What sessions are pinned to.
    #[must_use]
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// How many GPUs the kernel driver has.
    fn gpus(&self) -> usize {
        detect::gpus(&self.topology).len()
    }
}

/// How the runtime names a GPU in all of them that is `named` among those that it shows by `below`: numbers count those alone.
fn within(named: &str, below: Option<&str>) -> Result<String, String> {
    match (below, named.parse::<usize>()) {
        (Some(below), Ok(number)) => below
            .split(',')
            .nth(number)
            .map(|name| name.trim().to_string())
            .ok_or_else(|| format!("GPU {named}: not there; {ROCR_VISIBLE} shows {below}")),
        _ => Ok(named.to_string()),
    }
}

/// The UUID of the GPU that a process of the tuners takes: the first that its environment shows, or the one that is named.
fn meant(gpus: &[Gpu], named: Option<&str>, variable: impl Fn(&str) -> Option<String>) -> String {
    let said = |name| variable(name).filter(|text: &String| !text.is_empty());
    let seen = match named {
        Some(named) => detect::visible(gpus, Some(named), None),
        None => {
            let hip = said(HIP_VISIBLE).or_else(|| said(HIP_VISIBLE_ELSE));
            detect::visible(gpus, variable(ROCR_VISIBLE).as_deref(), hip.as_deref())
        }
    };
    seen.into_iter().next().map_or_else(String::new, |gpu| gpu.uuid)
}

/// What a program printed that went well.
fn told(output: std::io::Result<std::process::Output>) -> Option<String> {
    let output = output.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

#[async_trait]
impl Evaluator for AiterDevice {
    fn name(&self) -> &str {
        "aiter"
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn method(&self) -> Method {
        Method::AITER
    }

    /// Those of one process, and those of the next.
    fn prefetch(&self) -> u16 {
        2 * SHAPES as u16
    }

    async fn start(&self, metrics: &Metrics) -> Result<Box<dyn Running>, DeviceError> {
        let modules = Modules::new(&self.root, self.basis.clone());
        Ok(Box::new(RunningAiter {
            identity: format!("{} through aiter", self.target),
            gpus: self.gpus(),
            operators: Operators::new(modules.folder()),
            modules,
            device: self.clone(),
            metrics: metrics.clone(),
            waiting: Mutex::default(),
        }))
    }
}

/// A job that waits for the GPU.
struct Waiting {
    session: SessionName,
    family: &'static Family,
    problem: AiterProblem,
    answer: oneshot::Sender<Answer>,
}

impl Waiting {
    /// Whether one process can serve both.
    fn goes_with(&self, other: &Self) -> bool {
        let columns =
            |problem: &AiterProblem| problem.shape.iter().map(|(column, _)| column.clone()).collect::<Vec<_>>();
        (&self.session, self.family.name) == (&other.session, other.family.name)
            && columns(&self.problem) == columns(&other.problem)
    }
}

/// What came of the shape of a job, and its share of the time.
struct Answer {
    verdict: Verdict,
    /// Where operators are compared.
    compared: Option<Comparison>,
    busy: Duration,
}

struct RunningAiter {
    identity: String,
    /// When it was started.
    gpus: usize,
    device: AiterDevice,
    modules: Modules,
    operators: Operators,
    metrics: Metrics,
    /// In the order in which they came.
    waiting: Mutex<Vec<Waiting>>,
}

#[async_trait]
impl Running for RunningAiter {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn pins(&self, _: &Limits) -> Vec<Arc<dyn Pin>> {
        vec![Arc::new(PlainPin { key: "aiter".to_string(), value: self.device.identity.clone() })]
    }

    fn lacks(&self) -> Option<String> {
        self.device.disk.lacks_room()
    }

    async fn probe(&self) -> Result<(), String> {
        self.device.disk.lacks_room().map_or(Ok(()), Err)
    }

    async fn evaluate(&self, assignment: &Assignment<'_>) -> Result<Evaluated, Stop> {
        let job = assignment.job();
        let failed = |failure: Failure| {
            let candidates = CandidateOutcome::all_failed(job, &failure);
            Ok(Evaluated { candidates, ..Evaluated::default() })
        };
        let Problem::Aiter(problem) = &job.problem else {
            return failed(Failure::new(FailureKind::NotApplicable, "found no shape of aiter's, expected one"));
        };
        let family = match problem.family.parse::<FamilyName>() {
            Ok(FamilyName(family)) if family.tuner.is_some() => family,
            Ok(name) => {
                return failed(Failure::new(FailureKind::NotApplicable, format!("aiter has no tuner for {name}")));
            }
            Err(error) => return failed(Failure::new(FailureKind::NotApplicable, error.to_string())),
        };
        let session = assignment.session;
        let answering = self.answer(assignment, session, family, problem);
        let Answer { verdict, compared, busy } = match self.modules.ready(assignment, family).await? {
            None => answering.await?,
            Some(building) => {
                let tuned = |answer: &Answer| matches!(answer.verdict, Verdict::Tuned(_));
                building.during(assignment, answering, tuned).await?
            }
        };
        if let Some(compared) = compared {
            // It has no map whose keys are not text, which is what could fail.
            let record = serde_json::to_vec(&compared).unwrap_or_default();
            let records = [(job.group().to_string(), record)];
            let shelf = shelf::operators(&session.name);
            let put = || assignment.store.put_records(&shelf, &records);
            assignment.patience.with("say what the operator takes", put).await?;
        }
        self.metrics.busy(job.stage, busy);
        Ok(self.evaluated(job, verdict, busy))
    }
}

impl RunningAiter {
    /// What comes of a shape.
    async fn answer(
        &self,
        assignment: &Assignment<'_>,
        session: &Session,
        family: &'static Family,
        problem: &AiterProblem,
    ) -> Result<Answer, Stop> {
        // Once, unless whoever works for several jobs is stopped amid it.
        loop {
            let (answer, mut answered) = oneshot::channel();
            let waiting = Waiting { session: session.name.clone(), family, problem: problem.clone(), answer };
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(waiting);
            let known = || match answered.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) => None,
                known => Some(Ok(known.ok())),
            };
            let work = async { self.serve(session, problem).await.map(|()| None) };
            let served: Option<Answer> = assignment.alone_unless(&self.device.lock, known, work).await??;
            if let Some(answer) = served.or_else(|| answered.try_recv().ok()) {
                return Ok(answer);
            }
        }
    }

    /// Tunes a shape, and what waits and can be served by the same process.
    async fn serve(&self, session: &Session, problem: &AiterProblem) -> Result<(), Stop> {
        let batch = self.take(session, problem);
        let Some(first) = batch.first() else { return Ok(()) };
        let shapes: Vec<&AiterProblem> = batch.iter().map(|waiting| &waiting.problem).collect();
        let tuning = Batch { device: &self.device, session, family: first.family, metrics: &self.metrics };
        let began = Instant::now();
        let verdicts = tuning.tune(&shapes).await?;
        let compared: Vec<Option<Comparison>> = match operators::is_asked(session) {
            true => tuning.compare(&shapes, &verdicts, &self.operators).await?,
            false => shapes.iter().map(|_| None).collect(),
        };
        let in_vain = verdicts.iter().any(|verdict| !matches!(verdict, Verdict::Tuned(_)))
            || compared.iter().flatten().any(|compared| compared.before.us.is_none() || compared.after.us.is_none());
        if in_vain && self.device.gpus() < self.gpus {
            return Err(DeviceError::Lost { reason: "a GPU is gone from the kernel driver's list".to_string() }.into());
        }
        let busy = began.elapsed() / u32::try_from(batch.len()).unwrap_or(u32::MAX);
        for ((waiting, verdict), compared) in batch.into_iter().zip(verdicts).zip(compared) {
            // Whoever waited for it may be gone.
            let _ = waiting.answer.send(Answer { verdict, compared, busy });
        }
        Ok(())
    }

    /// The job of `problem`, and others that go with it.
    fn take(&self, session: &Session, problem: &AiterProblem) -> Vec<Waiting> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|waiting| !waiting.answer.is_closed());
        let own = |waiting: &Waiting| waiting.session == session.name && waiting.problem == *problem;
        let Some(place) = waiting.iter().position(own) else { return Vec::new() };
        let mut batch = vec![waiting.remove(place)];
        for other in std::mem::take(&mut *waiting) {
            let fits = batch.len() < SHAPES && batch.first().is_some_and(|first| first.goes_with(&other));
            if fits { batch.push(other) } else { waiting.push(other) }
        }
        batch
    }

    fn evaluated(&self, job: &Job, verdict: Verdict, busy: Duration) -> Evaluated {
        let (mut candidates, tried) = match verdict {
            Verdict::Tuned(found) => (Vec::new(), found),
            Verdict::Failed(failure, tried) => (CandidateOutcome::all_failed(job, &failure), tried),
            Verdict::Missing => {
                let failure = Failure::new(FailureKind::NoResult, "the tuner wrote nothing of the shape");
                (CandidateOutcome::all_failed(job, &failure), Vec::new())
            }
        };
        candidates.extend(tried.into_iter().map(outcome));
        let device_state = DeviceState { driver: self.device.identity.clone(), ..DeviceState::default() };
        Evaluated { candidates, ran: true, device_state, busy, ..Evaluated::default() }
    }
}

/// A kernel that was tried: its name, and its cells as an exporter writes them, with their columns.
fn outcome(found: Found) -> CandidateOutcome {
    let params = vec![Value::Text(found.kernel), Value::Text(found.cells), Value::Text(found.columns)];
    let result = found.result.map(|us| Timing::single(us / 1e3));
    CandidateOutcome::of(Candidate { solver: found.library, params }, None, result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gpu_is_the_one_that_a_tuner_takes() {
        let gpu = |index| Gpu { index, target: "gfx942-304".parse().unwrap(), uuid: format!("GPU-{index}") };
        let gpus = [gpu(0), gpu(1), gpu(2)];
        let of = |named, variables: &[(&str, &str)]| {
            meant(&gpus, named, |name| Some(variables.iter().find(|(known, _)| *known == name)?.1.to_string()))
        };
        assert_eq!(of(None, &[]), "GPU-0");
        assert_eq!(of(None, &[(HIP_VISIBLE, "2")]), "GPU-2");
        assert_eq!(of(None, &[(HIP_VISIBLE_ELSE, "1"), (HIP_VISIBLE, "")]), "GPU-1");
        assert_eq!(of(None, &[(ROCR_VISIBLE, "2,1"), (HIP_VISIBLE, "1")]), "GPU-1");
        assert_eq!(of(Some("GPU-1"), &[(HIP_VISIBLE, "2")]), "GPU-1", "what is named is all that it sees");
        assert_eq!(of(None, &[(HIP_VISIBLE, "7")]), "", "none that is known");
        assert_eq!(within("1", Some("2,GPU-0")).as_deref(), Ok("GPU-0"), "among those that are shown");
        assert_eq!((within("1", None).as_deref(), within("GPU-1", Some("2")).as_deref()), (Ok("1"), Ok("GPU-1")));
        assert!(within("2", Some("2,1")).is_err_and(|error| error.contains("ROCR_VISIBLE_DEVICES shows 2,1")));
    }
}
