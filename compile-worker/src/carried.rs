//! Compiled jobs that travel in a store instead of a queue: where compilers are, [`keep`] puts them on a shelf; where the
//! device is and no compiler, [`publish_kept`] and [`serve`] take them from there.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use bluefin_common::broker::Broker;
use bluefin_common::campaign;
use bluefin_common::delivery;
use bluefin_common::job::{CompileJob, Compiled, EvalJob, GroupId, Job, JobId, compile_queue};
use bluefin_common::outcome::Outcome;
use bluefin_common::session::{Session, SessionName};
use bluefin_common::shelf;
use bluefin_common::store::{Planned, Store};
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
    store: &dyn Store,
    queue: &str,
    kept: &AtomicU64,
    stop: &CancellationToken,
) -> Result<(), Error> {
    let mut consumer = broker.consume(queue, PREFETCH).await?;
    let mut seen = HashSet::new();
    while let Some(Some(delivery)) = stop.run_until_cancelled(consumer.next()).await {
        let Some((job, delivery)) = delivery::open::<EvalJob>(delivery, None).await else { continue };
        keep_one(store, &job, &delivery.body).await?;
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
    pub async fn load(store: &dyn Store, session: &SessionName) -> Result<Self, Error> {
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

    /// `job`, compiled: as it was kept, or put together from jobs of its group that hold its candidates. `None` if one of
    /// them was never compiled.
    #[must_use]
    pub fn find(&self, job: &Job) -> Option<Compiled> {
        let group = self.0.get(&job.group())?;
        let id = job.id();
        if let Some(kept) = group.iter().find(|kept| kept.job.id() == id) {
            return Some(kept.compiled.clone());
        }
        let (task, _) = group.first()?.compiled.kernels()?;
        let prepared = job.candidates.iter().map(|candidate| {
            group.iter().find_map(|kept| {
                let index = kept.job.candidates.iter().position(|known| known == candidate)?;
                kept.compiled.kernels()?.1.get(index).cloned()
            })
        });
        Some(Compiled::Kernels { task: task.clone(), prepared: prepared.collect::<Option<_>>()? })
    }
}

/// Publishes every kept job of `session` that has no outcome for evaluation, and takes the next step of every group that has
/// nothing else open. A group with an open job that was not kept is noted in `undone`. Returns how many were published. Call
/// it before anybody evaluates.
///
/// # Errors
/// If the store or the broker fails.
pub async fn publish_kept(
    kept: &Kept,
    session: &Session,
    store: &dyn Store,
    broker: &dyn Broker,
    undone: &Undone,
) -> Result<u64, Error> {
    let mut published = 0;
    for (id, group) in &kept.0 {
        let Some(EvalJob { job: any, .. }) = group.first() else { continue };
        let mut waiting = 0;
        for kept in group {
            let job = &kept.job;
            if !store.has_outcome(&job.session, *id, job.id()).await? {
                // A run of other problems may have forgotten it.
                store.plan(&job.session, &[Planned::of(job)]).await?;
                publish(broker, kept).await?;
                waiting += 1;
            }
        }
        published += waiting;
        let open = store.open_jobs(&any.session, *id).await?;
        if open > waiting {
            undone.add(*id);
        } else if open == 0 {
            campaign::advance(store, broker, any, open).await?;
        }
    }
    for group in store.groups(&session.name).await? {
        if !kept.0.contains_key(&group) {
            settle_unkept(session, group, store, broker, undone).await?;
        }
    }
    Ok(published)
}

/// Of `group` nothing was kept: the compilers were stopped before they came to it, or all of it failed to compile.
async fn settle_unkept(
    session: &Session,
    group: GroupId,
    store: &dyn Store,
    broker: &dyn Broker,
    undone: &Undone,
) -> Result<(), Error> {
    if store.open_jobs(&session.name, group).await? > 0 {
        undone.add(group);
        return Ok(());
    }
    let outcomes = store.outcomes(&session.name, &[group]).await?;
    let done: HashSet<JobId> = outcomes.iter().map(Outcome::job_id).collect();
    if campaign::follow_ups(session, &outcomes).iter().any(|job| !done.contains(&job.id())) {
        undone.add(group);
    } else if let Some(outcome) = outcomes.first() {
        // Whoever stored the last outcome may have died before the group was settled.
        campaign::advance(store, broker, &outcome.job, 0).await?;
    }
    Ok(())
}

async fn publish(broker: &dyn Broker, job: &EvalJob) -> Result<(), Error> {
    Ok(broker.publish(&job.job.eval_queue(), &job.job.id().to_string(), encode(job)?.into()).await?)
}

async fn keep_one(store: &dyn Store, job: &EvalJob, encoded: &[u8]) -> Result<(), Error> {
    let record = (job.job.id().to_string(), encoded.to_vec());
    Ok(store.put_records(&shelf::compiled(&job.job.session), &[record]).await?)
}

fn encode(job: &EvalJob) -> Result<Vec<u8>, Error> {
    wire::encode(job).map_err(|error| Error::Job { reason: error.to_string() })
}

/// Groups with a job that only a machine with compilers can do.
#[derive(Debug, Default)]
pub struct Undone(Mutex<HashSet<GroupId>>);

impl Undone {
    fn add(&self, group: GroupId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(group);
    }

    /// How many there are.
    #[must_use]
    pub fn groups(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len() as u64
    }
}

/// Answers compile jobs of `toolchain` from what was kept, until `stop`. A job that was never compiled, or whose artifacts
/// are gone, is not done, and its group is noted in `undone`.
///
/// # Errors
/// If the store or the broker fails.
pub async fn serve(
    broker: &dyn Broker,
    store: &dyn Store,
    toolchain: &str,
    kept: &Kept,
    undone: &Undone,
    stop: &CancellationToken,
) -> Result<(), Error> {
    let mut consumer = broker.consume(&compile_queue(toolchain), PREFETCH).await?;
    while let Some(Some(delivery)) = stop.run_until_cancelled(consumer.next()).await {
        let Some((compile_job, delivery)) = delivery::open(delivery, None).await else { continue };
        let CompileJob { job, enqueued_ms, recompiles } = compile_job;
        if store.has_outcome(&job.session, job.group(), job.id()).await? {
            let open = store.open_jobs(&job.session, job.group()).await?;
            campaign::advance(store, broker, &job, open).await?;
        } else if let Some(compiled) = kept.find(&job).filter(|_| recompiles == 0) {
            let eval_job = EvalJob { job, enqueued_ms, recompiles, compiled };
            // Kept first: whoever dies now finds it there again.
            keep_one(store, &eval_job, &encode(&eval_job)?).await?;
            publish(broker, &eval_job).await?;
        } else {
            tracing::warn!(job = %job.id().short(), problem = %job.problem, "not compiled; left for the compile stage");
            undone.add(job.group());
        }
        delivery.ack().await?;
    }
    consumer.stop().await;
    Ok(())
}
