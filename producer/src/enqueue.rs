//! Puts planned jobs into their queues, each once, and only those that are missing.

use std::collections::{BTreeSet, HashMap, HashSet};

use bluefin_common::broker::Broker;
use bluefin_common::campaign;
use bluefin_common::clock::now_ms;
use bluefin_common::decision::follow_ups;
use bluefin_common::job::{GroupId, Job, JobId};
use bluefin_common::priority::{self, Spread};
use bluefin_common::problem::Problem;
use bluefin_common::session::{Session, SessionName, Stage};
use bluefin_common::shelf;
use bluefin_common::standing::{self, Standing};
use bluefin_common::store::{JobState, Planned, Records, Store, Work};
use futures_util::stream::{self, FuturesUnordered, TryStreamExt};

use crate::plan::{Enqueued, Plan, Planning};
use crate::session::revive;
use crate::{Metrics, PlanError};

/// Problems planned at a time: what bounds the memory of a large plan.
const PROBLEMS: usize = 64;
/// Jobs enqueued at a time, and those of a few problems more.
const JOBS: usize = 10_000;
/// Jobs recorded in the store by one call, and published at a time.
const CHUNK: usize = 500;
/// Chunks under way at a time: while some are published, the next is recorded. It takes more than a thousand messages to keep a
/// quorum queue busy while each waits for its confirm.
const CHUNKS: usize = 4;

/// Which jobs are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publish {
    /// Those that are not known to be in a queue.
    Missing,
    /// All without an outcome: the queues were lost, or lived in a process that ended.
    Unfinished,
}

/// Where jobs go to, and which of them.
pub struct Ways<'a> {
    pub store: &'a dyn Store,
    pub broker: &'a dyn Broker,
    pub metrics: &'a Metrics,
    pub publish: Publish,
}

/// Plans `problems`, each once, and enqueues what is missing. The session is made if there is none of its name.
///
/// # Errors
/// If a session of that name is another one, if it is not known of any problem which solvers apply, or if the store or the
/// broker fails; the same call continues where this one ended.
pub async fn enqueue(
    ways: &Ways<'_>,
    session: &Session,
    planning: &dyn Planning,
    problems: Vec<Problem>,
) -> Result<Plan, PlanError> {
    let mut enqueuer = Enqueuer::open(ways.store, ways.broker, session, ways.publish).await?;
    enqueue_by(&mut enqueuer, ways.metrics, planning, problems).await
}

/// The same by an enqueuer that may have enqueued something before, which the plan does not count.
pub(crate) async fn enqueue_by(
    enqueuer: &mut Enqueuer<'_>,
    metrics: &Metrics,
    planning: &dyn Planning,
    mut problems: Vec<Problem>,
) -> Result<Plan, PlanError> {
    let mut seen = HashSet::new();
    problems.retain(|problem| seen.insert(problem.clone()));
    enqueuer.total = Enqueued::default();
    let (store, session) = (enqueuer.store, enqueuer.session.clone());
    let mut plan = Plan::new(&session.name, planning.selects());
    let (of, mut problems) = (problems.len(), problems.chunks(PROBLEMS));
    let (mut enqueued, mut of_jobs) = (0, 0);
    let mut batch = plan_batch(store, &session, planning, &mut problems, &mut plan).await?;
    while !batch.is_empty() {
        of_jobs += batch.jobs.len();
        // The next ones are planned while these travel. What is under way is not left because those can not be planned.
        let (next, sent) =
            tokio::join!(plan_batch(store, &session, planning, &mut problems, &mut plan), enqueuer.enqueue(batch.jobs));
        sent?;
        enqueued += batch.problems;
        metrics.planned(batch.problems as u64, enqueuer.total());
        tracing::info!(problems = enqueued, of, jobs = of_jobs, "enqueued");
        batch = next?;
    }
    if let Some(advice) = plan.advice() {
        return Err(PlanError::Unready(advice.clone()));
    }
    // Last: who removed the session has said so before, or has seen that it was planned since.
    if standing::of(store, &session.name).await? == Standing::Deleted {
        return Err(PlanError::Unready(format!(
            "session {0}: it was deleted while its jobs were enqueued; enqueue them again to make another one",
            session.name
        )));
    }
    plan.set_enqueued(enqueuer.total());
    Ok(plan)
}

/// Planned at a time.
#[derive(Default)]
struct Batch {
    problems: usize,
    /// All of each group.
    jobs: Vec<Job>,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.problems == 0
    }
}

/// Plans the next problems, until they have [`JOBS`] jobs or are all.
async fn plan_batch(
    store: &dyn Records,
    session: &Session,
    planning: &dyn Planning,
    problems: &mut std::slice::Chunks<'_, Problem>,
    plan: &mut Plan,
) -> Result<Batch, PlanError> {
    let mut batch = Batch::default();
    while batch.jobs.len() < JOBS
        && let Some(chunk) = problems.next()
    {
        let planned = planning.plan(chunk).await?;
        let jobs: Vec<Job> =
            chunk.iter().zip(planned).flat_map(|(problem, planned)| plan.add(problem, planned)).collect();
        note_perf_alone(store, session, planning.is_perf_alone(), &jobs).await?;
        batch.problems += chunk.len();
        batch.jobs.extend(jobs);
    }
    Ok(batch)
}

/// Notes, before the jobs are published, whether find jobs are to follow in their groups.
async fn note_perf_alone(store: &dyn Records, session: &Session, alone: bool, jobs: &[Job]) -> Result<(), PlanError> {
    if session.stages.len() < Stage::ALL.len() {
        return Ok(());
    }
    let groups: BTreeSet<String> = jobs.iter().map(|job| job.group().to_string()).collect();
    let shelf = shelf::perf_alone(&session.name);
    if alone {
        let records: Vec<(String, Vec<u8>)> = groups.into_iter().map(|group| (group, Vec::new())).collect();
        store.put_records(&shelf, &records).await?;
    } else {
        store.remove_records(&shelf, &groups.into_iter().collect::<Vec<_>>()).await?;
    }
    Ok(())
}

/// Whether jobs of `session` can be enqueued: not where workers drop them.
///
/// # Errors
/// If it is cancelled or being deleted, or the store fails.
async fn admit(store: &dyn Store, session: &SessionName) -> Result<(), PlanError> {
    if standing::of(store, session).await? == Standing::Cancelled {
        return Err(PlanError::Unready(format!(
            "session {session}: it is cancelled: bluefin session resume {session}"
        )));
    }
    revive(store, session).await
}

/// Groups, each with a job of it and whether all of its jobs are done.
type Groups = HashMap<GroupId, (Job, bool)>;

/// A job on its way.
struct Placed {
    id: JobId,
    /// The name of its queue at the broker.
    lane: String,
    body: Vec<u8>,
}

/// Enqueues the jobs of one session.
pub struct Enqueuer<'a> {
    store: &'a dyn Store,
    broker: &'a dyn Broker,
    session: Session,
    publish: Publish,
    spread: Spread,
    /// What was published again, and which groups were taken up, where that is not to be seen in the store.
    again: HashSet<JobId>,
    resumed: HashSet<GroupId>,
    total: Enqueued,
}

impl<'a> Enqueuer<'a> {
    /// Opens the session: creates it, or continues the one of that name.
    ///
    /// # Errors
    /// If a session of that name exists that tunes otherwise, for another target or in other stages, or the store fails.
    pub async fn open(
        store: &'a dyn Store,
        broker: &'a dyn Broker,
        session: &Session,
        publish: Publish,
    ) -> Result<Self, PlanError> {
        admit(store, &session.name).await?;
        // Who plans what a session lost needs no right to make one.
        let stored = match store.session(&session.name).await? {
            Some(stored) => stored,
            None => store.create_session(session).await?,
        };
        if stored.method != session.method {
            return Err(PlanError::differs(&stored, "tuner", stored.method, session.method));
        }
        if stored.target != session.target {
            return Err(PlanError::differs(&stored, "target", &stored.target, &session.target));
        }
        if stored.stages != session.stages {
            let text = |session: &Session| format!("{:?}", session.stages);
            return Err(PlanError::differs(&stored, "stages", text(&stored), text(session)));
        }
        Ok(Self {
            store,
            broker,
            spread: Spread::new(priority::of(store, &session.name).await?),
            session: stored,
            publish,
            again: HashSet::new(),
            resumed: HashSet::new(),
            total: Enqueued::default(),
        })
    }

    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Enqueues what is missing of `jobs`, which hold all perf jobs of each group they are of, or all rounds of its search so
    /// far. Returns once all of it is safe in its queue.
    ///
    /// # Errors
    /// If the store or the broker fails; the same call continues where this one ended.
    pub async fn enqueue(&mut self, jobs: Vec<Job>) -> Result<(), PlanError> {
        let mut finished = Groups::new();
        let (store, broker, session) = (self.store, self.broker, self.session.name.clone());
        let chunks = jobs.chunks(CHUNK);
        let placed = stream::try_unfold((&mut *self, &mut finished, chunks), async |(of, finished, mut chunks)| {
            let Some(chunk) = chunks.next() else { return Ok(None) };
            let placed = of.record(chunk, finished).await?;
            Ok::<_, PlanError>(Some((placed, (of, finished, chunks))))
        });
        let published = placed
            .map_ok(|placed| publish(store, broker, &session, placed))
            .try_buffer_unordered(CHUNKS)
            .try_fold(0, async |all, published| Ok(all + published))
            .await?;
        self.total.published += published;
        for (group, (job, done)) in finished {
            if done && (self.publish == Publish::Missing || self.resumed.insert(group)) {
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

    /// Records `jobs` as planned, notes of their groups what is in the store, and returns what is to be published.
    async fn record(&mut self, jobs: &[Job], finished: &mut Groups) -> Result<Vec<Placed>, PlanError> {
        let planned: Vec<Planned> = jobs.iter().map(Planned::of).collect();
        let states = self.store.plan(&self.session.name, &planned).await?;
        let enqueued_ms = now_ms();
        let mut placed = Vec::new();
        for ((job, planned), state) in jobs.iter().zip(&planned).zip(states) {
            let done = state == JobState::Done;
            let entry = finished.entry(planned.group).or_insert_with(|| (job.clone(), true));
            entry.1 &= done;
            match (state, self.publish) {
                (JobState::Done, _) => self.total.done += 1,
                (JobState::Enqueued, Publish::Missing) => self.total.waiting += 1,
                (_, Publish::Unfinished) if !self.again.insert(planned.id) => self.total.waiting += 1,
                (JobState::Planned | JobState::Enqueued, _) => {
                    let (queue, body) = campaign::first_message(job, enqueued_ms)?;
                    let lane = self.spread.next(self.broker, &queue).await?;
                    placed.push(Placed { id: planned.id, lane, body });
                }
            }
        }
        Ok(placed)
    }

    /// The perf jobs of `group` are done: whatever died in between, what follows must follow.
    async fn resume(&mut self, group: GroupId, job: &Job) -> Result<(), PlanError> {
        let open = self.store.open_jobs(&self.session.name, group).await?;
        if open > 0 && self.publish == Publish::Unfinished {
            let outcomes = self.store.outcomes(&self.session.name, &[group]).await?;
            for find in follow_ups(&self.session, &outcomes) {
                campaign::publish_whole(self.store, self.broker, &find, &outcomes, now_ms()).await?;
                self.total.published += 1;
            }
            return Ok(());
        }
        if open == 0 && self.session.search.is_some() {
            // Another round would have been planned, so there is none: what follows must be planned before anybody waits for it.
            let outcomes = self.store.outcomes(&self.session.name, &[group]).await?;
            campaign::conclude(self.store, self.broker, &self.session, group, &outcomes).await?;
            return Ok(());
        }
        campaign::advance(self.store, self.broker, job, open).await?;
        Ok(())
    }
}

/// Publishes all of `placed`, then notes in the store that they are. Returns how many.
async fn publish(
    store: &dyn Work,
    broker: &dyn Broker,
    session: &SessionName,
    placed: Vec<Placed>,
) -> Result<u64, PlanError> {
    let publishing: FuturesUnordered<_> = placed
        .into_iter()
        .map(|Placed { id, lane, body }| async move {
            broker.publish(&lane, &id.to_string(), body.into()).await?;
            Ok::<_, PlanError>(id)
        })
        .collect();
    let published: Vec<JobId> = publishing.try_collect().await?;
    store.enqueued(session, &published).await?;
    Ok(published.len() as u64)
}
