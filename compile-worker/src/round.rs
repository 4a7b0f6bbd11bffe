//! The next rounds of a search: what of a group is to be tried next becomes perf jobs, or its perf stage is over.
//!
//! Which rounds a group is at follows from its outcomes alone, and the ids of its jobs from what they are. So whoever is asked
//! plans the same jobs again, and a worker that dies in between is repeated: what it planned and did not publish is published
//! then.

use std::sync::Arc;

use bluefin_common::ahead;
use bluefin_common::campaign::{self, AdvanceError};
use bluefin_common::clock::now_ms;
use bluefin_common::delivery::{Given, Product};
use bluefin_common::job::{CompileJob, Job, JobId};
use bluefin_common::metrics::Settled;
use bluefin_common::outcome::Outcome;
use bluefin_common::session::{SearchPlan, Session};
use bluefin_common::store::{JobState, Planned};
use bluefin_kernel_spec::search::{Priors, limit};

use crate::error::Error;
use crate::job::{Done, Jobs};
use crate::toolchain::{Ask, NextRounds, Toolchain};

impl Jobs {
    /// Plans the next rounds of the search that `job` is of, or concludes the perf stage of its group.
    pub(crate) async fn plan_round(
        &self,
        toolchain: &dyn Toolchain,
        given: Given<'_, CompileJob>,
    ) -> Result<Done, Error> {
        let Given { order: CompileJob { job, .. }, session } = given;
        let Some(plan) = &session.search else { return Ok(Done::Skipped) };
        let Some(search) = self.strategies.get(&plan.strategy) else {
            tracing::error!(
                session = %session.name,
                strategy = plan.strategy,
                known = ?self.strategies.names(),
                "search strategy is not known to this release; its rounds are handed back to workers that know it"
            );
            return Ok(Done::Newer);
        };
        let outcomes = self.outcomes(session, job).await?;
        let plan =
            &SearchPlan { candidates: limit(self.store(), &session.name, plan, job.group()).await?, ..plan.clone() };
        let ahead = ahead::of(self.store(), &session.name, job.group()).await?;
        let others = self.neighbours.of(search, self.store(), job, &outcomes, ahead).await?.into();
        let priors = self.priors(session).await?;
        let (strategies, workshop) = (&self.strategies, &self.workshop);
        let (so_far, others, priors) = (&outcomes, &others, priors.as_ref());
        let ask = Ask { job, plan, strategies, outcomes: so_far, others, priors, ahead, workshop };
        let NextRounds { rounds, end } = toolchain.next_rounds(ask).await?;
        if rounds.is_empty() {
            end.put(self.store(), &session.name, job.group()).await?;
            return self.conclude(session, job, &outcomes).await;
        }
        let jobs: Vec<Job> = rounds.iter().flat_map(|round| round.jobs(job)).collect();
        self.publish_rounds(&jobs).await
    }

    /// The search of the group of `job` is given up: with what was tried the group goes on.
    pub(crate) async fn give_up_search(&self, given: Given<'_, CompileJob>) -> Result<(), Error> {
        let Given { order: CompileJob { job, .. }, session } = given;
        let outcomes = self.outcomes(session, job).await?;
        match self.conclude(session, job, &outcomes).await? {
            // Some of its round may be in no queue: nobody would ask again.
            Done::Skipped => Err(Error::OpenRound),
            _ => Ok(()),
        }
    }

    /// What first rounds of `session` begin with.
    async fn priors(&self, session: &Session) -> Result<Option<Arc<Priors>>, Error> {
        let Some(digest) = session.priors else { return Ok(None) };
        let found = self.priors.get(self.store(), digest).await?;
        let missing = || Error::Missing { what: format!("winners of earlier work {digest}") };
        found.map(Some).ok_or_else(missing)
    }

    async fn outcomes(&self, session: &Session, job: &Job) -> Result<Arc<[Outcome]>, Error> {
        Ok(self.store().outcomes(&session.name, &[job.group()]).await?.into())
    }

    /// Nothing is left to try: what follows is published, unless jobs are open, after which it is asked again.
    async fn conclude(&self, session: &Session, job: &Job, outcomes: &[Outcome]) -> Result<Done, Error> {
        if self.store().open_jobs(&session.name, job.group()).await? > 0 {
            return Ok(Done::Skipped);
        }
        campaign::conclude(self.store(), &*self.context.broker, session, job.group(), outcomes).await?;
        Ok(Done::Passed(Product::Passed(Settled::Done)))
    }

    /// Plans all of these rounds, so that their group is not done before all of them are, then publishes what is in no queue yet.
    async fn publish_rounds(&self, jobs: &[Job]) -> Result<Done, Error> {
        let Some(Job { session, .. }) = jobs.first() else { return Ok(Done::Skipped) };
        let planned: Vec<Planned> = jobs.iter().map(Planned::of).collect();
        let states = self.store().plan(session, &planned).await?;
        let missing = jobs.iter().zip(&planned).zip(states).filter(|(_, state)| *state == JobState::Planned);
        let mut published: Vec<JobId> = Vec::new();
        for ((job, planned), _) in missing {
            let (queue, body) = campaign::first_message(job, now_ms()).map_err(AdvanceError::from)?;
            self.context.broker.publish(&job.lane.of(&queue), &planned.id.to_string(), body.into()).await?;
            published.push(planned.id);
        }
        if published.is_empty() {
            return Ok(Done::Skipped);
        }
        self.store().enqueued(session, &published).await?;
        Ok(Done::Passed(Product::Passed(Settled::Done)))
    }
}
