//! The way of one job through the worker.

use std::time::{Duration, Instant};

use bluefin_common::artifact::{Built, Prepared, Task};
use bluefin_common::broker::Delivery;
use bluefin_common::campaign::{self, now_ms};
use bluefin_common::delivery;
use bluefin_common::digest::Digest;
use bluefin_common::job::{EvalJob, Job, Stage};
use bluefin_common::metrics::{Settled, Step};
use bluefin_common::outcome::{Candidate, CandidateOutcome, DeviceState, Failure, FailureKind, Outcome, Timing};
use bluefin_common::store::Store;
use bytes::Bytes;
use futures_util::future::try_join_all;

use super::Worker;
use super::artifacts::Artifact;
use super::settle::{Stop, Verdict};
use crate::config::DeviceSpec;
use crate::supervisor::{DeviceError, Runnable, Work};
use crate::timing::PROTOCOL_VERSION;

/// Before a job that is not this worker's is offered again.
const NOT_MINE: Duration = Duration::from_secs(5);

impl Worker {
    /// Takes a job through all steps and settles it.
    ///
    /// # Errors
    /// If the device is gone; the job is handed back.
    pub(super) async fn handle(&self, delivery: Delivery) -> Result<(), DeviceError> {
        let _in_flight = self.metrics.pipeline.in_flight(Step::Eval);
        let opened = delivery::open::<EvalJob>(delivery, Some(&self.metrics.pipeline)).await;
        let Some((eval_job, delivery)) = opened else { return Ok(()) };
        let (stage, problem) = (eval_job.job.stage, eval_job.job.problem.clone());
        let (verdict, result) = match self.process(&delivery, eval_job).await {
            Ok(settled) => (Verdict::Ack(settled), Ok(())),
            Err(Stop::Settle(verdict)) => (verdict, Ok(())),
            Err(Stop::Device(error)) => {
                tracing::warn!(message = delivery.message_id, %problem, "job handed back");
                (Verdict::HandBack(Duration::ZERO), Err(error))
            }
        };
        self.settle(delivery, stage, verdict).await;
        result
    }

    async fn process(&self, delivery: &Delivery, eval_job: EvalJob) -> Result<Settled, Stop> {
        if self.draining.is_cancelled() {
            return Err(Verdict::HandBack(Duration::ZERO).into());
        }
        let job = &eval_job.job;
        self.metrics.pipeline.started(Step::Eval, eval_job.enqueued_ms, now_ms());
        if let DeviceSpec::Miopen(device) = &self.config.device {
            return self.process_miopen(device, delivery, &eval_job).await;
        }
        let (task, prepared) = match delivery.exhausted().map_or_else(|| self.kernels(&eval_job), Err) {
            Ok(kernels) => kernels,
            Err(reason) => return self.bury(job, reason).await,
        };
        if !self.may_begin(job).await? {
            return Ok(Settled::Skipped);
        }
        let Some(fetched) = self.fetch(task, prepared).await? else { return self.send_back(&eval_job).await };
        let outcome = self.evaluate(job, task, prepared, fetched).await?;
        self.store_outcome(&outcome).await?;
        Ok(Settled::Done)
    }

    /// Whether the job has no outcome yet. Ends the way of one that is not this worker's.
    pub(super) async fn may_begin(&self, job: &Job) -> Result<bool, Stop> {
        let (group, id) = (job.group(), job.id());
        if self.patiently("look for outcome", || self.store.has_outcome(&job.session, group, id)).await? {
            self.advance(job, None).await?;
            return Ok(false);
        }
        if !self.patiently("pin", || self.pinning.allows(self.store(), &job.session)).await? {
            self.metrics.pipeline.refused(Step::Eval);
            return Err(Verdict::HandBack(NOT_MINE).into());
        }
        Ok(true)
    }

    /// Gives a job up, with an outcome that says why.
    pub(super) async fn bury(&self, job: &Job, reason: String) -> Result<Settled, Stop> {
        self.store_outcome(&Outcome::dead(job, &reason, now_ms())).await?;
        Err(Verdict::Dead(reason).into())
    }

    /// Has a job compiled again whose artifacts are gone: nobody else does it, and what it was compiled from is all in the job.
    pub(super) async fn send_back(&self, eval_job: &EvalJob) -> Result<Settled, Stop> {
        let send_back = || campaign::send_back(&*self.broker, eval_job);
        if let Err(reason) = self.patiently("send back to compile", send_back).await? {
            return self.bury(&eval_job.job, reason).await;
        }
        let recompiles = eval_job.recompiles + 1;
        tracing::info!(job = %eval_job.job.id().short(), recompiles, "artifacts are gone; compiling again");
        Ok(Settled::Recompile)
    }

    pub(super) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// What there is to evaluate, or what is wrong with a job that decodes.
    fn kernels<'a>(&self, eval_job: &'a EvalJob) -> Result<Kernels<'a>, String> {
        let (job, target) = (&eval_job.job, self.config.device.target());
        if job.target != target {
            return Err(format!("target: found {}, expected {target}, which its queue is for", job.target));
        }
        let Some((task, prepared)) = eval_job.compiled.kernels() else {
            return Err(format!("toolchain: found {}, expected one that compiles kernels", job.toolchain));
        };
        let (found, expected) = (prepared.len(), job.candidates.len());
        if found != expected {
            return Err(format!("prepared: found {found}, expected one for each of {expected} candidates"));
        }
        Ok((task, prepared))
    }

    /// All artifacts of the job; `None` if one is missing.
    async fn fetch(&self, task: &Task, prepared: &[Result<Prepared, Failure>]) -> Result<Option<Fetched>, Stop> {
        if prepared.iter().all(Result::is_err) {
            return Ok(Some(Fetched { reference: Bytes::new(), candidates: Vec::new() }));
        }
        let get = |artifact| self.patiently("fetch artifact", move || self.artifacts.get(self.store(), artifact));
        let candidates = prepared.iter().flatten().map(|prepared| prepared.artifact);
        let wanted: Vec<_> = std::iter::once(task.reference.artifact).chain(candidates).collect();
        let found = try_join_all(wanted.into_iter().map(get)).await?;
        let Some(found) = found.into_iter().collect::<Option<Vec<Artifact>>>() else { return Ok(None) };
        let mut found = found.into_iter();
        let reference = found.next().map(|reference| reference.image.unwrap_or(reference.code)).unwrap_or_default();
        let candidates = prepared.iter().flatten().cloned().zip(found);
        let candidates =
            candidates.map(|(prepared, Artifact { code, image })| Runnable { prepared, code, image }).collect();
        Ok(Some(Fetched { reference, candidates }))
    }

    /// Runs what can be run.
    async fn evaluate(
        &self,
        job: &Job,
        task: &Task,
        prepared: &[Result<Prepared, Failure>],
        fetched: Fetched,
    ) -> Result<Outcome, Stop> {
        let began = Instant::now();
        let group = job.group();
        let stored_ms = match self.device {
            Some(_) => self.patiently("read best", || self.store.best_ms(&job.session, group)).await?,
            None => None,
        };
        let mut work = Work {
            stage: job.stage,
            task,
            reference: &fetched.reference,
            candidates: &fetched.candidates,
            seed: job.problem.digest().0.iter().fold(0, |seed: u64, byte| seed.rotate_left(8) ^ u64::from(*byte)),
            incumbent_ms: None,
            limits: self.config.limits,
        };
        let mut device_state = DeviceState::default();
        let results = if fetched.candidates.is_empty() {
            Vec::new()
        } else if let Some(device) = &self.device {
            let (_turn, mut device) = tokio::select! {
                biased;
                () = self.draining.cancelled() => return Err(Verdict::HandBack(Duration::ZERO).into()),
                both = async { (self.config.turn.lock().await, device.lock().await) } => both,
            };
            work.incumbent_ms = self.best_of(job, stored_ms);
            let results = tokio::select! {
                results = device.evaluate(&work) => results?,
                () = self.expired.cancelled() => return Err(Verdict::HandBack(Duration::ZERO).into()),
            };
            device_state.clone_from(device.state());
            results
        } else {
            let compiled = job.candidates.iter().zip(prepared).filter(|(_, prepared)| prepared.is_ok());
            compiled.map(|(candidate, _)| Ok(noop_timing(job, candidate))).collect()
        };
        self.best_of(job, best(&results));
        if job.stage == Stage::Find {
            for (runnable, _) in fetched.candidates.iter().zip(&results).filter(|(_, result)| result.is_ok()) {
                self.patiently("keep artifact", || self.store.put_blob(&runnable.code)).await?;
            }
        }

        let device = if results.is_empty() { String::new() } else { self.device_name.clone() };
        let mut results = results.into_iter();
        let mut result = |prepared: &_| match prepared {
            Ok(_) => results.next().unwrap_or_else(|| Err(Failure::new(FailureKind::Dead, "not evaluated"))),
            Err(failure) => Err(Failure::clone(failure)),
        };
        let outcomes = job.candidates.iter().zip(prepared).map(|(candidate, prepared)| CandidateOutcome {
            candidate: candidate.clone(),
            result: result(prepared),
            built: prepared.as_ref().ok().cloned().map(Built::Kernel),
        });
        let candidates = outcomes.collect();
        let busy_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (job, protocol) = (job.clone(), PROTOCOL_VERSION);
        Ok(Outcome { job, candidates, device, device_state, protocol, busy_ms, finished_ms: now_ms() })
    }

    /// Makes an outcome durable, and lets its group take the next step.
    pub(super) async fn store_outcome(&self, outcome: &Outcome) -> Result<(), Stop> {
        let job = &outcome.job;
        let stored = self.patiently("store outcome", || self.store.put_outcome(outcome)).await?;
        if stored.first {
            self.metrics.pipeline.outcome(Step::Eval, outcome);
        }
        self.advance(job, Some(stored.open)).await
    }

    /// Lets the group of `job` take its next step. `open`: its jobs without an outcome, where that is known.
    async fn advance(&self, job: &Job, open: Option<u64>) -> Result<(), Stop> {
        let advance = || async {
            let open = match open {
                Some(open) => open,
                None => self.store.open_jobs(&job.session, job.group()).await?,
            };
            campaign::advance(self.store(), &*self.broker, job, open).await
        };
        Ok(self.patiently("advance group", advance).await?)
    }
}

/// The task of a job and what each of its candidates was compiled into.
type Kernels<'a> = (&'a Task, &'a [Result<Prepared, Failure>]);

/// The artifacts of a job.
struct Fetched {
    /// What is loaded of the reference.
    reference: Bytes,
    /// Those of its candidates that compiled, in order.
    candidates: Vec<Runnable>,
}

/// The best of the times that were measured to the end.
fn best<'a>(results: impl IntoIterator<Item = &'a Result<Timing, Failure>>) -> Option<f64> {
    let times = results.into_iter().flatten().filter(|timing| !timing.pruned).map(|timing| timing.median_ms);
    times.min_by(f64::total_cmp)
}

/// What the device that does nothing measures: a time between 1 and 2 ms that follows from what was asked, so that a
/// session comes to the same end however it gets there.
fn noop_timing(job: &Job, candidate: &Candidate) -> Timing {
    let digest = Digest::of_parts("bluefin 2026 noop", [job.group().0.as_slice(), candidate.to_string().as_bytes()]);
    let [low, high, ..] = digest.0;
    let median_ms = 1.0 + f64::from(u16::from_le_bytes([low, high])) / 65_536.0;
    Timing::single(median_ms)
}
