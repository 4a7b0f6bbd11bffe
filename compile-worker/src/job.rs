//! One job: from what it asks for to an eval job, or to an outcome where nothing is left to evaluate.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bluefin_common::broker::BrokerError;
use bluefin_common::clock::now_ms;
use bluefin_common::course::{Course, Worked};
use bluefin_common::delivery::{Context, Given, Product, told};
use bluefin_common::job::{CompileJob, CompileWork, EvalJob, Job};
use bluefin_common::metrics::Settled;
use bluefin_common::outcome::{CandidateOutcome, Outcome};
use bluefin_common::session::Stage;
use bluefin_common::store::Store;
use bluefin_common::target::Target;
use bluefin_common::wire;
use bluefin_kernel_spec::search::{KnownPriors, Neighbours, Strategies};

use crate::end::End;
use crate::error::Error;
use crate::gate::Gate;
use crate::machine::Machine;
use crate::metrics::Metrics;
use crate::toolchain::{CompileAssignment, Compiled, Toolchain};
use crate::workshop::Workshop;

/// How a job was done with.
#[derive(Debug)]
pub(crate) enum Done {
    Passed(Product),
    /// There was nothing to do.
    Skipped,
    /// It takes a newer release of bluefin.
    Newer,
}

/// What all jobs of a worker share.
pub(crate) struct Jobs {
    /// The worker's name.
    pub(crate) worker: String,
    pub(crate) context: Context,
    pub(crate) end: End,
    pub(crate) workshop: Workshop,
    pub(crate) metrics: Metrics,
    pub(crate) gate: Gate,
    pub(crate) machine: Machine,
    /// Units that wait for a slot, and jobs in hand, before no further delivery is taken.
    pub(crate) backlog: usize,
    /// Evaluation queues that are known to exist.
    pub(crate) declared: Mutex<HashSet<String>>,
    /// By the names of toolchains, the targets whose queues are served.
    pub(crate) served: Mutex<HashMap<String, HashSet<Target>>>,
    pub(crate) strategies: Strategies,
    pub(crate) neighbours: Neighbours,
    pub(crate) priors: KnownPriors,
}

impl Jobs {
    /// Whether the queue of these is served.
    pub(crate) fn serves(&self, toolchain: &str, target: &Target) -> bool {
        self.served().get(toolchain).is_some_and(|targets| targets.contains(target))
    }

    /// Whether `toolchain` may compile for the session of `job`. What it can not serve is asked first: a session is not pinned to
    /// such a compiler.
    pub(crate) async fn pin(&self, toolchain: &dyn Toolchain, job: &Job) -> Result<bool, Error> {
        let Context { pinned, .. } = &self.context;
        Ok(toolchain.serves(&job.target).await? && pinned.allows(self.store(), &job.session, toolchain.pin()).await?)
    }

    pub(crate) async fn process(&self, toolchain: &dyn Toolchain, given: Given<'_, CompileJob>) -> Result<Done, Error> {
        match given.order.work {
            CompileWork::Candidates => Ok(Done::Passed(self.compile(toolchain, given).await?)),
            CompileWork::NextRound => self.plan_round(toolchain, given).await,
        }
    }

    async fn compile(&self, toolchain: &dyn Toolchain, given: Given<'_, CompileJob>) -> Result<Product, Error> {
        let Given { order: CompileJob { job, enqueued_ms, recompiles, .. }, session } = given;
        if *recompiles > 0 {
            self.workshop.forget();
        }
        // A play-off comes long after its candidates were compiled: that their artifacts are gone by then says nothing of the queue.
        if *recompiles > u32::from(job.stage == Stage::Find) {
            self.gate.came_back(&job.eval_queue());
        }
        let waiting = self.metrics.waiting(job.candidates.len());
        let begun_ms = now_ms();
        let compiled = toolchain.compile(CompileAssignment { job, session, workshop: &self.workshop }).await?;
        drop(waiting);
        let Compiled { task, description, built } = compiled;
        if built.len() != job.candidates.len() {
            let (made, asked) = (built.len(), job.candidates.len());
            return Err(Error::Job {
                reason: format!("toolchain {}: answered for {made} of {asked} candidates", toolchain.name()),
            });
        }
        let worked = Worked::until_now(&self.worker, begun_ms);
        let (enqueued_ms, recompiles) = (*enqueued_ms, *recompiles);
        if built.iter().any(Result::is_ok) {
            let failed = job.candidates.iter().zip(&built).filter_map(|(of, built)| Some((of, built.as_ref().err()?)));
            told::compiled(job, failed, worked.ended_ms - worked.begun_ms, &self.context.presence);
            let (job, compiled) = (job.clone(), Some(worked));
            self.pass_on(EvalJob { job, enqueued_ms, recompiles, compiled, task, description, built }).await?;
            Ok(Product::Passed(Settled::Done))
        } else {
            let failures = built.into_iter().filter_map(Result::err);
            let candidates = job.candidates.iter().zip(failures).map(|(candidate, failure)| CandidateOutcome {
                candidate: candidate.clone(),
                built: None,
                result: Err(failure),
                resources: None,
            });
            let course = Course { enqueued_ms, recompiles, compiled: Some(worked), evaluated: None };
            Ok(Outcome { course, ..Outcome::undone(job, description, candidates.collect(), now_ms()) }.into())
        }
    }

    async fn pass_on(&self, job: EvalJob) -> Result<(), Error> {
        let queue = job.job.eval_queue();
        let lane = job.job.lane.of(&queue);
        let body = wire::encode(&job).map_err(|error| Error::Job { reason: error.to_string() })?;
        let declared = self.declared().contains(&lane);
        if !declared {
            self.context.broker.declare(&lane).await?;
            self.declared().insert(lane.clone());
        }
        let published = self.context.broker.publish(&lane, &job.job.id().to_string(), body.into()).await;
        if matches!(published, Err(BrokerError::Unroutable { .. })) {
            // Deleted meanwhile: declared again at the next attempt.
            self.declared().remove(&lane);
        }
        published?;
        self.gate.published(&queue);
        Ok(())
    }

    pub(crate) fn store(&self) -> &dyn Store {
        self.workshop.store()
    }

    pub(crate) fn served(&self) -> MutexGuard<'_, HashMap<String, HashSet<Target>>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn declared(&self) -> MutexGuard<'_, HashSet<String>> {
        self.declared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
