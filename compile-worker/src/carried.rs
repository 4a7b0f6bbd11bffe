//! Compiled jobs that travel in a store instead of a queue: where compilers are, [`keep`] puts them on a shelf; where the
//! device is and no compiler, [`Carried`] takes them from there.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bluefin_common::broker::Broker;
use bluefin_common::campaign;
use bluefin_common::clock::now_ms;
use bluefin_common::decision::follow_ups;
use bluefin_common::delivery;
use bluefin_common::job::{CompileJob, CompileWork, EvalJob, GroupId, JobId, compile_queue};
use bluefin_common::session::{Session, SessionName};
use bluefin_common::shelf;
use bluefin_common::store::{OpenJobs, Planned, Records, Store};
use bluefin_common::wire;
use tokio_util::sync::CancellationToken;

use crate::error::Error;

/// Deliveries in hand at a time.
const PREFETCH: u16 = 16;

/// Keeps every eval job that comes into `queue`, until `stop`. `kept` counts them; a job that comes twice counts once.
///
/// # Errors
/// If the store or the broker fails.
pub async fn keep(
    broker: &dyn Broker,
    store: &dyn Records,
    queue: &str,
    kept: &AtomicU64,
    stop: &CancellationToken,
) -> Result<(), Error> {
    let mut consumer = broker.consume(queue, PREFETCH).await?;
    let mut seen = HashSet::new();
    while let Some(Some(delivery)) = stop.run_until_cancelled(consumer.next()).await {
        let Some((job, delivery)) = delivery::open::<EvalJob>(delivery).await? else { continue };
        let record = (job.job.id().to_string(), delivery.body.to_vec());
        store.put_records(&shelf::compiled(&job.job.session), &[record]).await?;
        delivery.ack().await?;
        if seen.insert(job.job.id()) {
            kept.fetch_add(1, Ordering::Relaxed);
        }
    }
    consumer.stop().await;
    Ok(())
}

/// The compiled jobs of a session.
#[derive(Debug, Default)]
pub struct Kept(HashMap<GroupId, Vec<EvalJob>>);

impl Kept {
    /// Reads them from the store.
    ///
    /// # Errors
    /// If the store fails, or holds something else on their shelf.
    pub async fn load(store: &dyn Records, session: &SessionName) -> Result<Self, Error> {
        let shelf = shelf::compiled(session);
        let mut kept: HashMap<GroupId, Vec<EvalJob>> = HashMap::new();
        for (key, bytes) in store.records(&shelf).await? {
            let corrupt = |error| Error::Job { reason: format!("{shelf} {key}: {error}") };
            let job: EvalJob = wire::decode(&bytes).map_err(corrupt)?;
            kept.entry(job.job.group()).or_default().push(job);
        }
        Ok(Self(kept))
    }

    /// All of them, in no particular order.
    pub fn jobs(&self) -> impl Iterator<Item = &EvalJob> {
        self.0.values().flatten()
    }

    fn of(&self, group: GroupId) -> &[EvalJob] {
        self.0.get(&group).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Jobs that only a machine with compilers can do, and their groups.
#[derive(Debug, Default)]
pub struct Undone(Mutex<Left>);

#[derive(Debug, Default)]
struct Left {
    groups: HashSet<GroupId>,
    jobs: HashSet<JobId>,
}

impl Undone {
    fn add(&self, group: GroupId, jobs: impl IntoIterator<Item = JobId>) {
        let mut left = self.left();
        left.groups.insert(group);
        left.jobs.extend(jobs);
    }

    /// How many groups there are.
    #[must_use]
    pub fn groups(&self) -> u64 {
        self.left().groups.len() as u64
    }

    /// Whether nothing can be done here but to leave it: `unsettled` and `open` are the groups with work left and the jobs
    /// without an outcome.
    #[must_use]
    pub fn are_all(&self, unsettled: &HashSet<GroupId>, open: &OpenJobs) -> bool {
        let left = self.left();
        unsettled.is_subset(&left.groups) && open.values().flatten().all(|job| left.jobs.contains(job))
    }

    fn left(&self) -> MutexGuard<'_, Left> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session that was carried to where its device is.
#[derive(Clone, Copy)]
pub struct Carried<'a> {
    pub store: &'a dyn Store,
    pub broker: &'a dyn Broker,
    pub session: &'a Session,
    pub undone: &'a Undone,
}

impl Carried<'_> {
    /// Publishes for evaluation what has no outcome yet: every kept job, and every find job that was planned before; then takes
    /// the next step of every group that has nothing open. `open` are the planned jobs of the session without an outcome. A
    /// group with one of them that was never compiled is noted as undone. Returns how many were published. Call it before
    /// anybody evaluates.
    ///
    /// # Errors
    /// If the store or the broker fails.
    pub async fn publish(&self, kept: &Kept, open: &OpenJobs) -> Result<u64, Error> {
        let known = self.store.groups(&self.session.name).await?;
        let groups: BTreeSet<GroupId> = kept.0.keys().chain(&known).copied().collect();
        let mut published = 0;
        for group in groups {
            let open = open.get(&group).into_iter().flatten().copied().collect();
            published += self.publish_group(group, kept.of(group), open).await?;
        }
        Ok(published)
    }

    /// `others` are the open jobs of the group.
    async fn publish_group(&self, group: GroupId, kept: &[EvalJob], mut others: HashSet<JobId>) -> Result<u64, Error> {
        let (name, mut published) = (&self.session.name, 0);
        for kept in kept {
            let id = kept.job.id();
            others.remove(&id);
            if !self.store.has_outcome(name, group, id).await? {
                // A run of other problems may have forgotten it.
                self.store.plan(name, &[Planned::of(&kept.job)]).await?;
                self.publish_kept(kept).await?;
                published += 1;
            }
        }
        let outcomes = self.store.outcomes(name, &[group]).await?;
        // Find jobs were never kept: their queue ended with the process that they were planned in.
        for job in follow_ups(self.session, &outcomes) {
            if others.remove(&job.id()) {
                campaign::publish(self.store, self.broker, &job, &outcomes, now_ms()).await?;
                published += 1;
            }
        }
        if !others.is_empty() {
            self.undone.add(group, others);
        } else if published == 0 {
            // The worker that stored the last outcome may have died before the group took its next step.
            if self.session.search.is_some() || outcomes.is_empty() {
                let any = kept.first().map(|kept| &kept.job).or(outcomes.first().map(|outcome| &outcome.job));
                if let Some(any) = any {
                    campaign::advance(self.store, self.broker, any, 0).await?;
                }
            } else {
                campaign::conclude(self.store, self.broker, self.session, group, &outcomes).await?;
            }
        }
        Ok(published)
    }

    async fn publish_kept(&self, kept: &EvalJob) -> Result<(), Error> {
        let body = wire::encode(kept).map_err(|error| unsendable(&error))?;
        Ok(self.broker.publish(&kept.job.eval_queue(), &kept.job.id().to_string(), body.into()).await?)
    }

    /// Takes the compile jobs of `toolchain`, until `stop`: those whose artifacts are gone, and rounds of a search. None of them
    /// can be done here, and their groups are noted as undone.
    ///
    /// # Errors
    /// If the store or the broker fails.
    pub async fn serve(&self, toolchain: &str, stop: &CancellationToken) -> Result<(), Error> {
        let mut consumer = self.broker.consume(&compile_queue(toolchain, &self.session.target), PREFETCH).await?;
        while let Some(Some(delivery)) = stop.run_until_cancelled(consumer.next()).await {
            let Some((compile_job, delivery)) = delivery::open::<CompileJob>(delivery).await? else { continue };
            let CompileJob { job, work, .. } = compile_job;
            let undone = match work {
                CompileWork::Candidates => delivery::begin(self.store, self.broker, self.session, &job).await?,
                CompileWork::NextRound => true,
            };
            if undone {
                tracing::warn!(job = %job.id().short(), problem = %job.problem, "not compiled; left for the compile stage");
                self.undone.add(job.group(), [job.id()]);
            }
            delivery.ack().await?;
        }
        consumer.stop().await;
        Ok(())
    }
}

fn unsendable(error: &wire::WireError) -> Error {
    Error::Job { reason: error.to_string() }
}
