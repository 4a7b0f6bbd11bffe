//! What an eval worker does with one job.

use std::collections::HashSet;
use std::future::pending;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bluefin_common::campaign;
use bluefin_common::clock::now_ms;
use bluefin_common::course::Worked;
use bluefin_common::delivery::{Context, Given, Halt, Product, Role};
use bluefin_common::description::{Description, SolverInfo};
use bluefin_common::job::{EvalJob, Job, JobId};
use bluefin_common::method::EvaluatedBy;
use bluefin_common::metrics::{Settled, Step};
use bluefin_common::outcome::Outcome;

use super::Worker;
use crate::evaluator::Evaluated;
use crate::evaluator::assignment::Assignment;
use crate::evaluator::stop::Stop;

#[async_trait]
impl Role for Worker {
    type Order = EvalJob;
    type Load = ();
    const STEP: Step = Step::Eval;

    fn context(&self) -> &Context {
        &self.context
    }

    fn misfit(&self, eval_job: &EvalJob) -> Option<String> {
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

    async fn pin(&self, Given { session, .. }: Given<'_, EvalJob>) -> Result<bool, Halt> {
        let Context { patience, pinned, store, .. } = &self.context;
        Ok(patience.with("pin", || pinned.allows_all(&**store, &session.name, &self.pins)).await?)
    }

    async fn work(&self, given: Given<'_, EvalJob>) -> Result<Product, Halt> {
        let eval_job = given.order;
        if let Some(delay) = self.waits(&eval_job.job).await {
            return Err(Halt::Later(delay));
        }
        match self.evaluate(given).await {
            Ok(evaluated) => Ok(self.outcome(eval_job, evaluated).into()),
            Err(Stop::Halt(halt)) => Err(halt),
            Err(Stop::Bury(reason)) => Err(Halt::Hopeless(reason)),
            Err(Stop::SendBack) => self.send_back(eval_job).await,
            Err(Stop::Machine(reason)) => {
                // First, so that the job does not come back to this worker.
                self.stand_still(reason.clone());
                Err(Halt::later(Duration::ZERO, reason))
            }
            Err(Stop::Suspect(reason)) => Err(self.put_aside(&eval_job.job, reason)),
            Err(Stop::Device(error)) => {
                tracing::warn!(job = %eval_job.job.id().short(), problem = %eval_job.job.problem, "job handed back");
                self.gone().get_or_insert(error);
                self.context.stop.cancel();
                Err(Halt::Later(Duration::ZERO))
            }
        }
    }

    async fn give_up(&self, given: Given<'_, EvalJob>, reason: &str) -> Result<Option<Outcome>, Halt> {
        Ok(Some(Outcome::dead_compiled(given.order, reason, now_ms())))
    }

    fn load(&self) {}

    async fn held_up(&self) -> &'static str {
        if let Some(reason) = self.running.lacks() {
            self.stand_still(reason);
        }
        // What the machine is waited for is said elsewhere.
        pending().await
    }

    async fn goes_on(&self) {
        if self.unfit().is_some() {
            self.mended().await;
        }
    }
}

impl Worker {
    async fn evaluate(&self, Given { order, session }: Given<'_, EvalJob>) -> Result<Evaluated, Stop> {
        let assignment = Assignment {
            eval_job: order,
            session,
            limits: &self.post.config.limits,
            store: &*self.context.store,
            patience: &self.context.patience,
            artifacts: &self.artifacts,
            tasks: &self.tasks,
            turn: &self.post.config.turn,
            draining: &self.context.stop,
        };
        let evaluated = self.running.evaluate(&assignment).await?;
        self.hanging.note(&order.job, &evaluated.candidates);
        self.suspects().clear();
        Ok(evaluated)
    }

    /// How long a job waits whose solver hangs, while others are in its queue.
    async fn waits(&self, job: &Job) -> Option<Duration> {
        if !self.hanging.is_suspect(job) {
            return None;
        }
        // Where that can not be said nobody waits.
        let in_queue = self.context.broker.depth(&job.lane.of(&job.eval_queue())).await.unwrap_or_default();
        let delay = self.hanging.waits(job, in_queue)?;
        let (job, delay_s) = (job.id().short(), delay.as_secs());
        tracing::info!(job, delay_s, "its solver hangs: it waits until nothing else does");
        Some(delay)
    }

    /// Somebody killed what worked on a job. That counts, but not the first time where another job met the same just before: then
    /// it is something on this machine that kills.
    fn put_aside(&self, job: &Job, reason: String) -> Halt {
        if self.context.stop.is_cancelled() {
            return Halt::later(Duration::ZERO, reason);
        }
        let (is_new, is_alone) = {
            let mut suspects = self.suspects();
            (suspects.insert(job.id()), suspects.len() == 1)
        };
        if !is_alone {
            self.stand_still(reason.clone());
            if is_new {
                return Halt::later(Duration::ZERO, reason);
            }
        }
        Halt::Suspect(reason)
    }

    fn suspects(&self) -> MutexGuard<'_, HashSet<JobId>> {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a job compiled again whose artifacts are gone: nobody else does it, and what it was compiled from is all in the job.
    async fn send_back(&self, eval_job: &EvalJob) -> Result<Product, Halt> {
        let send_back = || campaign::send_back(&*self.context.broker, eval_job);
        self.context.patience.with("send back to compile", send_back).await?.map_err(Halt::Hopeless)?;
        let recompiles = eval_job.recompiles + 1;
        tracing::info!(job = %eval_job.job.id().short(), recompiles, "artifacts are gone; compiling again");
        Ok(Product::Passed(Settled::Recompile))
    }

    fn outcome(&self, eval_job: &EvalJob, evaluated: Evaluated) -> Outcome {
        let Evaluated { candidates, solvers, ran, device_state, nondeterministic, protocol, busy } = evaluated;
        let (busy_ms, finished_ms) = (u64::try_from(busy.as_millis()).unwrap_or(u64::MAX), now_ms());
        // It may have waited for its device before.
        let begun_ms = finished_ms.saturating_sub(busy_ms);
        let worked = Worked { worker: self.post.config.worker.clone(), begun_ms, ended_ms: finished_ms };
        let course = eval_job.course(Some(worked));
        self.post.metrics.course(self.post.config.evaluator.name(), &course);
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
            course,
            nondeterministic,
        }
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
