//! Puts planned jobs into their queues, each once, and only those that are missing.

use std::collections::HashMap;

use bluefin_common::broker::Broker;
use bluefin_common::campaign::{self, now_ms};
use bluefin_common::job::{GroupId, Job, JobId};
use bluefin_common::session::Session;
use bluefin_common::store::{JobState, Planned, Store};
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::PlanError;

/// Jobs recorded in the store by one call.
const CHUNK: usize = 500;
/// Publishes under way at a time: what it takes to keep a quorum queue busy while each waits for its confirm.
const WINDOW: usize = 1000;

/// What [`Enqueuer`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enqueued {
    /// Published now.
    pub published: u64,
    /// In a queue or at a worker already.
    pub waiting: u64,
    /// With an outcome already.
    pub done: u64,
}

/// Which jobs are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publish {
    /// Those that are not known to be in a queue.
    Missing,
    /// All without an outcome: the queues were lost, or lived in a process that ended.
    Unfinished,
}

/// Enqueues the jobs of one session.
pub struct Enqueuer<'a> {
    store: &'a dyn Store,
    broker: &'a dyn Broker,
    session: Session,
    publish: Publish,
    total: Enqueued,
}

impl<'a> Enqueuer<'a> {
    /// Opens the session: creates it, or continues the one of that name.
    ///
    /// # Errors
    /// If a session of that name exists for another target or other stages, or the store fails.
    pub async fn open(
        store: &'a dyn Store,
        broker: &'a dyn Broker,
        session: &Session,
        publish: Publish,
    ) -> Result<Self, PlanError> {
        let stored = store.create_session(session).await?;
        if stored.target != session.target {
            return Err(PlanError::SessionDiffers {
                session: stored.name.to_string(),
                what: "target",
                stored: stored.target.to_string(),
                asked: session.target.to_string(),
            });
        }
        if stored.stages != session.stages {
            return Err(PlanError::SessionDiffers {
                session: stored.name.to_string(),
                what: "stages",
                stored: format!("{:?}", stored.stages),
                asked: format!("{:?}", session.stages),
            });
        }
        Ok(Self { store, broker, session: stored, publish, total: Enqueued::default() })
    }

    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Enqueues what is missing of `jobs`, which hold all perf jobs of each group they are of. Returns once all of it is
    /// safe in its queue.
    ///
    /// # Errors
    /// If the store or the broker fails; the same call continues where this one ended.
    pub async fn enqueue(&mut self, jobs: Vec<Job>) -> Result<(), PlanError> {
        let mut finished: HashMap<GroupId, (Job, bool)> = HashMap::new();
        for chunk in jobs.chunks(CHUNK) {
            let planned: Vec<Planned> = chunk.iter().map(Planned::of).collect();
            let states = self.store.plan(&self.session.name, &planned).await?;
            let mut missing = Vec::new();
            for ((job, planned), state) in chunk.iter().zip(&planned).zip(states) {
                let done = state == JobState::Done;
                let entry = finished.entry(planned.group).or_insert_with(|| (job.clone(), true));
                entry.1 &= done;
                match (state, self.publish) {
                    (JobState::Done, _) => self.total.done += 1,
                    (JobState::Enqueued, Publish::Missing) => self.total.waiting += 1,
                    (JobState::Planned | JobState::Enqueued, _) => missing.push((job, planned.id)),
                }
            }
            self.publish_all(&missing).await?;
            self.total.published += missing.len() as u64;
        }
        for (group, (job, done)) in finished {
            if done {
                self.resume(group, &job).await?;
            }
        }
        Ok(())
    }

    /// What was done so far.
    #[must_use]
    pub fn total(&self) -> Enqueued {
        self.total
    }

    async fn publish_all(&self, jobs: &[(&Job, JobId)]) -> Result<(), PlanError> {
        let enqueued_ms = now_ms();
        let published: Vec<JobId> = stream::iter(jobs.iter().copied().map(|(job, id)| async move {
            let (queue, body) = campaign::first_message(job, enqueued_ms)?;
            self.broker.publish(&queue, &id.to_string(), body.into()).await?;
            Ok::<_, PlanError>(id)
        }))
        .buffer_unordered(WINDOW)
        .try_collect()
        .await?;
        self.store.enqueued(&self.session.name, &published).await?;
        Ok(())
    }

    /// The perf jobs of `group` are done: whatever died in between, its find job must follow.
    async fn resume(&mut self, group: GroupId, job: &Job) -> Result<(), PlanError> {
        let open = self.store.open_jobs(&self.session.name, group).await?;
        if open > 0 && self.publish == Publish::Unfinished {
            let outcomes = self.store.outcomes(&self.session.name, &[group]).await?;
            for find in campaign::follow_ups(&self.session, &outcomes) {
                campaign::publish(self.store, self.broker, &find, now_ms()).await?;
                self.total.published += 1;
            }
            return Ok(());
        }
        campaign::advance(self.store, self.broker, job, open).await?;
        Ok(())
    }
}
