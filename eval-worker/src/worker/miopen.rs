//! Jobs that one of MIOpen's tools evaluates.

mod driver;
mod fin;

use std::time::{Duration, Instant};

use bluefin_common::broker::Delivery;
use bluefin_common::campaign::now_ms;
use bluefin_common::job::{Compiled, EvalJob, Job};
use bluefin_common::metrics::Settled;
use bluefin_common::miopen::fin::Trouble;
use bluefin_common::miopen::process::Watch;
use bluefin_common::outcome::{Candidate, CandidateOutcome, DeviceState, Failure, FailureKind, Outcome};
use bluefin_common::session::{Budget, Session};
use bluefin_common::value::Value;

use super::Worker;
use super::settle::{Stop, Verdict};
use crate::miopen::{Executable, MiopenDevice};
use crate::supervisor::DeviceError;

/// What an evaluation came to, and the worker's time that it took.
struct Evaluation {
    candidates: Vec<CandidateOutcome>,
    busy: Duration,
}

impl Worker {
    /// Takes a job of MIOpen's through all steps but the first and the last.
    pub(super) async fn process_miopen(
        &self,
        device: &MiopenDevice,
        delivery: &Delivery,
        eval_job: &EvalJob,
    ) -> Result<Settled, Stop> {
        let job = &eval_job.job;
        if let Some(reason) = delivery.exhausted().or_else(|| mismatch(device, eval_job)) {
            return self.bury(job, reason).await;
        }
        if !self.may_begin(job).await? {
            return Ok(Settled::Skipped);
        }
        let Some(session) = self.patiently("read session", || self.store.session(&job.session)).await? else {
            return Err(Verdict::Dead(format!("session {}: not in the store", job.session)).into());
        };
        let spent = self.spent(&session, job).await?;
        let evaluation = match (&device.tool, &eval_job.compiled) {
            _ if spent.is_some() => {
                let failure = spent.unwrap_or_else(|| Failure::new(FailureKind::BudgetSpent, ""));
                Evaluation { candidates: all_failed(job, &failure), busy: Duration::ZERO }
            }
            (Executable::Fin(fin), Compiled::Fin { solutions }) => {
                match self.evaluate_by_fin(device, fin, &session, job, solutions).await? {
                    Some(evaluation) => evaluation,
                    None => return self.send_back(eval_job).await,
                }
            }
            (Executable::Driver { program, launcher }, Compiled::Driver) => {
                self.evaluate_by_driver(device, program, launcher, &session, job).await?
            }
            _ => return self.bury(job, format!("toolchain: found {}, not this worker's", job.toolchain)).await,
        };
        let Evaluation { candidates, busy } = evaluation;
        let ran = !busy.is_zero();
        let outcome = Outcome {
            job: job.clone(),
            candidates,
            device: if ran { self.device_name.clone() } else { String::new() },
            device_state: DeviceState {
                uuid: if ran { device.uuid.clone() } else { String::new() },
                driver: if ran { device.versions.to_string() } else { String::new() },
                ..DeviceState::default()
            },
            protocol: 0,
            busy_ms: u64::try_from(busy.as_millis()).unwrap_or(u64::MAX),
            finished_ms: now_ms(),
        };
        self.store_outcome(&outcome).await?;
        Ok(Settled::Done)
    }

    /// Which budget is spent, if one is.
    async fn spent(&self, session: &Session, job: &Job) -> Result<Option<Failure>, Stop> {
        let Budget { problem_ms, session_ms, .. } = session.budget;
        if let Some(limit) = problem_ms {
            let groups = [job.group()];
            let outcomes = self.patiently("read outcomes", || self.store.outcomes(&job.session, &groups)).await?;
            let spent = outcomes.iter().map(|outcome| outcome.busy_ms).fold(0, u64::saturating_add);
            if spent >= limit {
                return Ok(Some(over("problem_ms", limit, spent)));
            }
        }
        if let Some(limit) = session_ms {
            let progress = self.patiently("read progress", || self.store.progress(&job.session)).await?;
            let spent = progress.busy_ms.values().copied().fold(0, u64::saturating_add);
            if spent >= limit {
                return Ok(Some(over("session_ms", limit, spent)));
            }
        }
        Ok(None)
    }

    /// What a call that gave no answer means for its job: a failure of it, or that it is for another time or worker.
    async fn trouble(
        &self,
        device: &MiopenDevice,
        session: &Session,
        watch: &Watch,
        trouble: Trouble,
    ) -> Result<Failure, Stop> {
        match trouble {
            Trouble::Failed(failure) => {
                self.metrics.child_lost(if failure.kind == FailureKind::Hang { "hang" } else { "exit" });
                self.still_there(device, &failure).await?;
                let limit = session.budget.solver_ms.map(Duration::from_millis);
                if failure.kind == FailureKind::Hang && limit == Some(watch.time) {
                    let detail = format!("budget solver_ms: {}", failure.detail);
                    return Ok(Failure::new(failure.kind, detail));
                }
                Ok(failure)
            }
            Trouble::Machine(reason) => Err(Verdict::Retry(reason).into()),
            Trouble::NoDevice(reason) | Trouble::WrongBackend(reason) => Err(DeviceError::Lost { reason }.into()),
            other @ Trouble::WrongTarget(_) => Ok(other.into_failure()),
        }
    }

    /// Looks whether the GPU survived what ended a process on it.
    async fn still_there(&self, device: &MiopenDevice, failure: &Failure) -> Result<(), Stop> {
        let Executable::Fin(fin) = &device.tool else { return Ok(()) };
        if !matches!(failure.kind, FailureKind::ToolCrash | FailureKind::Hang | FailureKind::OutOfMemory) {
            return Ok(());
        }
        match fin.try_gpu(&device.target, device.gpu.as_deref()).await {
            Ok(()) => Ok(()),
            Err(Trouble::Machine(reason)) => Err(Verdict::Retry(reason).into()),
            Err(trouble) => Err(DeviceError::Lost { reason: trouble.into_failure().detail }.into()),
        }
    }

    /// Runs `work` while the GPU is this job's alone; what came of it and how long it took. Handed back if the worker
    /// drains before it is begun, or its grace period ends while it runs.
    async fn alone<T>(&self, work: impl Future<Output = T>) -> Result<(T, Duration), Stop> {
        let _turn = tokio::select! {
            biased;
            () = self.draining.cancelled() => return Err(Verdict::HandBack(Duration::ZERO).into()),
            turn = self.config.turn.lock() => turn,
        };
        let began = Instant::now();
        tokio::select! {
            result = work => Ok((result, began.elapsed())),
            () = self.expired.cancelled() => Err(Verdict::HandBack(Duration::ZERO).into()),
        }
    }
}

/// Bounds of one process of `session`.
fn watch(device: &MiopenDevice, session: &Session) -> Watch {
    let mut watch = device.watch.clone();
    if let Some(limit) = session.budget.solver_ms.map(Duration::from_millis) {
        watch.time = watch.time.min(limit);
    }
    watch
}

/// What is wrong with a job that decodes.
fn mismatch(device: &MiopenDevice, eval_job: &EvalJob) -> Option<String> {
    let job = &eval_job.job;
    if job.target != device.target {
        return Some(format!("target: found {}, expected {}, which its queue is for", job.target, device.target));
    }
    let Compiled::Fin { solutions } = &eval_job.compiled else { return None };
    let (found, expected) = (solutions.len(), job.candidates.len());
    (found != expected).then(|| format!("solutions: found {found}, expected one for each of {expected} candidates"))
}

fn over(budget: &str, limit: u64, spent: u64) -> Failure {
    Failure::new(FailureKind::BudgetSpent, format!("budget {budget}: {spent} ms spent of {limit}"))
}

fn all_failed(job: &Job, failure: &Failure) -> Vec<CandidateOutcome> {
    let failed = |candidate: &Candidate| CandidateOutcome {
        candidate: candidate.clone(),
        built: None,
        result: Err(failure.clone()),
    };
    job.candidates.iter().map(failed).collect()
}

/// A candidate with the params that a tool names.
fn candidate(solver: &str, params: &str) -> Candidate {
    let params = if params.is_empty() { Vec::new() } else { vec![Value::Text(params.to_string())] };
    Candidate { solver: solver.to_string(), params }
}
