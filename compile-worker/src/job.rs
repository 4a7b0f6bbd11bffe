//! One job: from its delivery to an eval job, or to an outcome where nothing is left to evaluate.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bluefin_common::broker::{Broker, BrokerError, Delivery};
use bluefin_common::campaign::{self, now_ms};
use bluefin_common::course::{Course, Worked};
use bluefin_common::delivery::pin::Pinned;
use bluefin_common::delivery::{self, Begun, told};
use bluefin_common::job::{CompileJob, CompileWork, EvalJob};
use bluefin_common::metrics::Step;
use bluefin_common::outcome::{CandidateOutcome, Outcome};
use bluefin_common::roster::Presence;
use bluefin_common::session::Stage;
use bluefin_common::standing::{Standing, Standings};
use bluefin_common::store::Store;
use bluefin_common::wire;
use bluefin_spec::search::Strategies;

use crate::error::Error;
use crate::gate::Gate;
use crate::machine::Machine;
use crate::metrics::Metrics;
use crate::toolchain::{Compiled, Toolchain, Work};
use crate::workshop::Workshop;

/// How a job was done with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// Passed on, or its outcome is stored.
    Passed,
    /// There was nothing to do: it had an outcome.
    Skipped,
    /// The session is pinned to another compiler than this worker has.
    NotMine,
    /// It takes a newer release of bluefin.
    Newer,
}

/// What all jobs of a worker share.
pub(crate) struct Jobs {
    /// The worker's name.
    pub(crate) worker: String,
    pub(crate) broker: Arc<dyn Broker>,
    pub(crate) workshop: Workshop,
    pub(crate) metrics: Metrics,
    pub(crate) gate: Gate,
    pub(crate) machine: Machine,
    pub(crate) pinned: Pinned,
    pub(crate) presence: Presence,
    pub(crate) standings: Standings,
    /// Evaluation queues that are known to exist.
    pub(crate) declared: Mutex<HashSet<String>>,
    pub(crate) strategies: Strategies,
}

impl Jobs {
    /// Whether there is anything to do, and whether it may be begun; `None` if not.
    pub(crate) async fn begin(
        &self,
        toolchain: &dyn Toolchain,
        compile_job: &CompileJob,
        delivery: &Delivery,
    ) -> Result<Option<Begun>, Error> {
        let job = &compile_job.job;
        let name = toolchain.name();
        if job.toolchain != name {
            let found = job.toolchain.chars().take(64).collect::<String>();
            return Err(Error::Job { reason: format!("toolchain {found:?} in the queue of {name}") });
        }
        if !delivery::is_wanted(&self.standings, self.store(), delivery, job).await? {
            return Ok(None);
        }
        let is_new = match compile_job.work {
            CompileWork::Candidates => delivery::begin(self.store(), &*self.broker, job).await?,
            CompileWork::NextRound => true,
        };
        if !is_new {
            return Ok(None);
        }
        Ok(Some(delivery::begin_again(self.store(), delivery, job).await?))
    }

    pub(crate) async fn process(&self, toolchain: &dyn Toolchain, compile_job: &CompileJob) -> Result<Done, Error> {
        match compile_job.work {
            CompileWork::Candidates => self.compile(toolchain, compile_job).await,
            CompileWork::NextRound => self.plan_round(toolchain, &compile_job.job).await,
        }
    }

    async fn compile(&self, toolchain: &dyn Toolchain, compile_job: &CompileJob) -> Result<Done, Error> {
        let CompileJob { job, enqueued_ms, recompiles, .. } = compile_job;
        if *recompiles > 0 {
            self.workshop.forget();
        }
        // A play-off comes long after its candidates were compiled: that their artifacts are gone by then says nothing of the queue.
        if *recompiles > u32::from(job.stage == Stage::Find) {
            self.gate.came_back(&job.eval_queue());
        }
        // Asked first: a session is not pinned to a compiler that cannot serve it.
        let serves = toolchain.serves(&job.target).await?;
        if !serves || !self.pinned.allows(self.store(), &job.session, toolchain.pin()).await? {
            return Ok(Done::NotMine);
        }
        let waiting = self.metrics.waiting(job.candidates.len());
        let begun_ms = now_ms();
        let compiled = toolchain.compile(Work { job, workshop: &self.workshop }).await?;
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
            told::compiled(job, failed, worked.ended_ms - worked.begun_ms, &self.presence);
            let (job, compiled) = (job.clone(), Some(worked));
            self.pass_on(EvalJob { job, enqueued_ms, recompiles, compiled, task, description, built }).await?;
        } else {
            let failures = built.into_iter().filter_map(Result::err);
            let candidates = job.candidates.iter().zip(failures).map(|(candidate, failure)| CandidateOutcome {
                candidate: candidate.clone(),
                built: None,
                result: Err(failure),
            });
            let course = Course { enqueued_ms, recompiles, compiled: Some(worked), evaluated: None };
            self.store_outcome(&Outcome {
                course,
                ..Outcome::undone(job, description, candidates.collect(), now_ms())
            })
            .await?;
        }
        Ok(Done::Passed)
    }

    /// Stores the outcome of a job that is given up; of a search that is given up the group goes on with what was tried.
    pub(crate) async fn give_up(&self, compile_job: &CompileJob, reason: &str) -> Result<(), Error> {
        match compile_job.work {
            CompileWork::Candidates => self.store_outcome(&Outcome::dead(&compile_job.job, reason, now_ms())).await,
            CompileWork::NextRound => self.give_up_search(&compile_job.job).await,
        }
    }

    async fn pass_on(&self, job: EvalJob) -> Result<(), Error> {
        let queue = job.job.eval_queue();
        let lane = job.job.lane.of(&queue);
        let body = wire::encode(&job).map_err(|error| Error::Job { reason: error.to_string() })?;
        let declared = self.declared().contains(&lane);
        if !declared {
            self.broker.declare(&lane).await?;
            self.declared().insert(lane.clone());
        }
        let published = self.broker.publish(&lane, &job.job.id().to_string(), body.into()).await;
        if matches!(published, Err(BrokerError::Unroutable { .. })) {
            // Deleted meanwhile: declared again at the next attempt.
            self.declared().remove(&lane);
        }
        published?;
        self.gate.published(&queue);
        Ok(())
    }

    async fn store_outcome(&self, outcome: &Outcome) -> Result<(), Error> {
        if self.standings.of(self.store(), &outcome.job.session).await? == Standing::Deleted {
            return Ok(());
        }
        let stored = campaign::put_outcome(self.store(), outcome).await?;
        if stored.first {
            self.metrics.pipeline.outcome(Step::Compile, outcome);
            told::ended(outcome, &self.presence);
        }
        if !stored.settled {
            campaign::advance(self.store(), &*self.broker, &outcome.job, stored.open).await?;
        }
        Ok(())
    }

    pub(crate) fn store(&self) -> &dyn Store {
        self.workshop.store()
    }

    fn declared(&self) -> MutexGuard<'_, HashSet<String>> {
        self.declared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
