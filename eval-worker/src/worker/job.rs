//! The way of one job through the worker.

use std::collections::HashSet;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use bluefin_common::broker::{Delivery, delay_after};
use bluefin_common::campaign::{self, now_ms};
use bluefin_common::course::Worked;
use bluefin_common::delivery::{self, Begun, GivenUp, MAX_BEGUN, NOT_MINE, STILL_AT_WORK, Verdict, told};
use bluefin_common::description::{Description, SolverInfo};
use bluefin_common::job::{EvalJob, Job, JobId};
use bluefin_common::lane::Lane;
use bluefin_common::method::EvaluatedBy;
use bluefin_common::metrics::{Settled, Step};
use bluefin_common::outcome::Outcome;
use bluefin_common::standing::Standing;
use tokio::time::timeout;

use super::Worker;
use crate::evaluator::Evaluated;
use crate::evaluator::assignment::Assignment;
use crate::evaluator::stop::Stop;
use crate::supervisor::DeviceError;

/// What forgetting a count may take once the grace period of a drain is over.
const LAST_WORD: Duration = Duration::from_secs(1);

impl Worker {
    /// Takes a job through all steps and settles it.
    ///
    /// # Errors
    /// If the device is gone; the job is handed back.
    pub(super) async fn handle(&self, delivery: Delivery) -> Result<(), DeviceError> {
        let pipeline = &self.post.metrics.pipeline;
        let _in_flight = pipeline.in_flight(Step::Eval);
        let opened = delivery::open::<EvalJob>(delivery, Some(pipeline)).await;
        let Some((mut eval_job, delivery)) = opened else { return Ok(()) };
        eval_job.job.lane = Lane::split(&delivery.queue).1;
        let presence = &self.post.presence;
        let _at_work = presence.works_on(&eval_job.job);
        let mut result = Ok(());
        let verdict = match self.process(&delivery, &eval_job).await {
            Ok(settled) => Verdict::Ack(settled),
            Err(Stop::Settle(verdict)) => verdict,
            Err(Stop::Bury(reason)) => self.bury(&eval_job, reason).await,
            Err(Stop::SendBack) => self.send_back(&eval_job).await,
            Err(Stop::Machine(reason)) => {
                // First, so that the job does not come back to this worker.
                self.stand_still(reason.clone());
                Verdict::later(Duration::ZERO, reason)
            }
            Err(Stop::Suspect(reason)) => self.put_aside(&delivery, &eval_job, reason).await,
            Err(Stop::Device(error)) => {
                tracing::warn!(message = delivery.message_id, problem = %eval_job.job.problem, "job handed back");
                result = Err(error);
                Verdict::HandBack(Duration::ZERO)
            }
        };
        delivery::settle(delivery, (Step::Eval, eval_job.job.stage), verdict, (pipeline, presence)).await;
        result
    }

    async fn process(&self, delivery: &Delivery, eval_job: &EvalJob) -> Result<Settled, Stop> {
        if self.draining.is_cancelled() {
            return Err(Stop::drained());
        }
        let Some(_hold) = self.post.config.at_work.take_up(delivery) else {
            return Err(Verdict::HandBack(STILL_AT_WORK).into());
        };
        // Held to the end: what kills the worker while a suspect has it is that job.
        let turn = self.post.config.at_work.turn(delivery);
        let Some(_turn) = self.draining.run_until_cancelled(turn).await else { return Err(Stop::drained()) };
        let (job, store) = (&eval_job.job, &*self.post.store);
        self.post.metrics.pipeline.started(Step::Eval, eval_job.enqueued_ms, now_ms());
        let is_wanted = || delivery::is_wanted(&self.standings, store, delivery, job);
        if !self.patience.with("look how the session stands", is_wanted).await? {
            return Ok(Settled::Skipped);
        }
        let begin = || delivery::begin(store, &*self.post.broker, job);
        if !self.patience.with("look for outcome", begin).await? {
            return Ok(Settled::Skipped);
        }
        if let Some(reason) = self.mismatch(eval_job) {
            return Err(Stop::Bury(reason));
        }
        let allows = || self.pinned.allows_all(store, &job.session, &self.pins);
        if !self.patience.with("pin", allows).await? {
            self.post.metrics.pipeline.refused(Step::Eval);
            return Err(Verdict::HandBack(NOT_MINE).into());
        }
        match self.patience.with("count", || delivery::begin_again(store, delivery, job)).await? {
            Begun::Now => {}
            Begun::TooOften(workers) => {
                return Err(Stop::Bury(format!("{workers} workers died while they worked on it")));
            }
            Begun::Worn => return Err(Verdict::HandBack(Duration::ZERO).into()),
        }
        let evaluated = self.evaluate(eval_job).await;
        if !matches!(evaluated, Err(Stop::Suspect(_))) {
            self.spare(delivery, job).await;
        }
        self.store_outcome(&self.outcome(eval_job, evaluated?)).await?;
        Ok(Settled::Done)
    }

    async fn evaluate(&self, eval_job: &EvalJob) -> Result<Evaluated, Stop> {
        let assignment = Assignment {
            eval_job,
            limits: &self.post.config.limits,
            store: &*self.post.store,
            patience: &self.patience,
            artifacts: &self.artifacts,
            tasks: &self.tasks,
            turn: &self.post.config.turn,
            draining: &self.draining,
        };
        let evaluated = self.running.evaluate(&assignment).await?;
        self.suspects().clear();
        Ok(evaluated)
    }

    /// This worker lives, so the job did not kill it. A count that stays costs a job nothing that is done or goes well the next
    /// time.
    async fn spare(&self, delivery: &Delivery, job: &Job) {
        let spare = || delivery::spare(&*self.post.store, delivery, job);
        let spared = match self.patience.with("forget count", spare).await {
            Err(GivenUp::Expired) => timeout(LAST_WORD, spare()).await.is_ok_and(|spared| spared.is_ok()),
            spared => spared.is_ok(),
        };
        if !spared {
            tracing::debug!(job = %job.id().short(), "its count stays");
        }
    }

    /// Somebody killed what worked on a job: it is counted, and given up in the end. Not so the first time where another job met
    /// the same just before: then it is something on this machine that kills.
    async fn put_aside(&self, delivery: &Delivery, eval_job: &EvalJob, reason: String) -> Verdict {
        let job = &eval_job.job;
        if self.draining.is_cancelled() {
            self.spare(delivery, job).await;
            return Verdict::later(Duration::ZERO, reason);
        }
        let (is_new, is_alone) = {
            let mut suspects = self.suspects();
            (suspects.insert(job.id()), suspects.len() == 1)
        };
        if !is_alone {
            self.stand_still(reason.clone());
            if is_new {
                self.spare(delivery, job).await;
                return Verdict::later(Duration::ZERO, reason);
            }
        }
        let count = || delivery::suspect(&*self.post.store, delivery, job);
        match self.patience.with("count", count).await {
            Ok(times) if times >= MAX_BEGUN => {
                self.bury(eval_job, format!("killed {times} times by nobody knows whom; the last time: {reason}")).await
            }
            Ok(times) => Verdict::later(delay_after(times), reason),
            Err(given_up) => given_up.into(),
        }
    }

    fn suspects(&self) -> MutexGuard<'_, HashSet<JobId>> {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is wrong with a job that decodes.
    fn mismatch(&self, eval_job: &EvalJob) -> Option<String> {
        let EvalJob { job, built, .. } = eval_job;
        let evaluator = &self.post.config.evaluator;
        let target = evaluator.target();
        if job.target != *target {
            return Some(format!("target: found {}, expected {target}, which its queue is for", job.target));
        }
        let method = evaluator.method();
        if job.eval_queue() != evaluator.queue() {
            return Some(format!("method: found {}, expected {method}, which its queue is for", job.method));
        }
        let (found, expected) = (built.len(), job.candidates.len());
        let compiled = !job.method.toolchains.is_empty() || job.method.evaluated_by == EvaluatedBy::Device;
        (compiled && found != expected)
            .then(|| format!("built: found {found}, expected one for each of {expected} candidates"))
    }

    /// Gives a job up, with an outcome that says why.
    async fn bury(&self, eval_job: &EvalJob, reason: String) -> Verdict {
        match self.store_outcome(&Outcome::dead_compiled(eval_job, &reason, now_ms())).await {
            Ok(()) => Verdict::Dead(reason),
            Err(given_up) => given_up.into(),
        }
    }

    /// Has a job compiled again whose artifacts are gone: nobody else does it, and what it was compiled from is all in the job.
    async fn send_back(&self, eval_job: &EvalJob) -> Verdict {
        let send_back = || campaign::send_back(&*self.post.broker, eval_job);
        match self.patience.with("send back to compile", send_back).await {
            Ok(Ok(())) => {
                let recompiles = eval_job.recompiles + 1;
                tracing::info!(job = %eval_job.job.id().short(), recompiles, "artifacts are gone; compiling again");
                Verdict::Ack(Settled::Recompile)
            }
            Ok(Err(reason)) => self.bury(eval_job, reason).await,
            Err(given_up) => given_up.into(),
        }
    }

    fn outcome(&self, eval_job: &EvalJob, evaluated: Evaluated) -> Outcome {
        let Evaluated { candidates, solvers, ran, device_state, protocol, busy } = evaluated;
        let (busy_ms, finished_ms) = (u64::try_from(busy.as_millis()).unwrap_or(u64::MAX), now_ms());
        // It may have waited for its device before.
        let begun_ms = finished_ms.saturating_sub(busy_ms);
        let worked = Worked { worker: self.post.config.worker.clone(), begun_ms, ended_ms: finished_ms };
        Outcome {
            job: eval_job.job.clone(),
            task: eval_job.task.digest(),
            description: described(&eval_job.description, solvers),
            candidates,
            device: if ran { self.running.identity().to_string() } else { String::new() },
            device_state,
            protocol,
            busy_ms,
            finished_ms,
            course: eval_job.course(Some(worked)),
        }
    }

    /// Makes an outcome durable, and lets its group take the next step.
    async fn store_outcome(&self, outcome: &Outcome) -> Result<(), GivenUp> {
        let (standings, session) = (&self.standings, &outcome.job.session);
        let standing = || standings.of(&*self.post.store, session);
        if self.patience.with("look how the session stands", standing).await? == Standing::Deleted {
            return Ok(());
        }
        let stored = self.patience.with("store outcome", || campaign::put_outcome(&*self.post.store, outcome)).await?;
        if stored.first {
            self.post.metrics.pipeline.outcome(Step::Eval, outcome);
            told::ended(outcome, &self.post.presence);
        }
        if stored.settled {
            return Ok(());
        }
        let advance = || campaign::advance(&*self.post.store, &*self.post.broker, &outcome.job, stored.open);
        self.patience.with("advance group", advance).await
    }
}

/// What a job says of its solvers, and what was `found` out about them.
fn described(job: &Description, found: Vec<SolverInfo>) -> Description {
    let mut description = job.clone();
    for info in found {
        match description.solvers.iter_mut().find(|known| known.name == info.name) {
            Some(known) => *known = info,
            None => description.solvers.push(info),
        }
    }
    description
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_out_replaces_what_the_job_says() {
        let info = |name: &str, tunable| SolverInfo { name: name.to_string(), tunable, ..SolverInfo::default() };
        let job = Description { solvers: vec![info("a", false), info("b", false)], ..Description::default() };
        let described = described(&job, vec![info("c", true), info("a", true)]);
        assert_eq!(described.solvers, [info("a", true), info("b", false), info("c", true)]);
    }
}
