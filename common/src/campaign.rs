//! What follows from the outcomes of a group: the next round of a search, the find jobs that end it, and that nothing is left
//! to do.
//!
//! A group is one problem with one kernel spec. Its perf jobs may end anywhere, in any order; the worker that stores the last
//! outcome calls [`advance`], and so does a worker that meets a job that is done already, so a crash in between loses nothing.
//! All of it is a pure function of the outcomes plus idempotent writes, so two callers do no harm.

use std::collections::HashSet;
use std::time::Duration;

use crate::ahead;
use crate::artifact::Built;
use crate::broker::{Broker, BrokerError, delay_after};
use crate::candidate::Candidate;
use crate::clock::now_ms;
use crate::decision::{description, follow_ups};
use crate::job::{CompileJob, CompileWork, EvalJob, GroupId, Job, JobId};
use crate::outcome::Outcome;
use crate::session::{Session, SessionName, Stage};
use crate::shelf;
use crate::store::{Planned, Store, StoreError, Stored, Work};
use crate::task::{Task, TaskRef};
use crate::wire::{self, WireError};

/// How often in a row a job may be compiled for nothing: more would go round for ever.
pub const MAX_RECOMPILES: u32 = 8;

/// Why a group could not be advanced.
#[derive(Debug, thiserror::Error)]
pub enum AdvanceError {
    /// A session, its outcomes or its plan could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What follows could not be published.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// A job that follows is too large for its envelope.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The job was planned with another store, or this one was emptied.
    #[error("session {0}: not in the store, though a job of it is")]
    NoSession(SessionName),
}

impl AdvanceError {
    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Store(error) => error.is_transient(),
            Self::Broker(error) => error.is_transient(),
            Self::Wire(_) | Self::NoSession(_) => false,
        }
    }
}

/// Stores an outcome of `session`, and its group's end with it where that is all that can follow. Otherwise [`advance_in`] is
/// next.
///
/// # Errors
/// If the store fails; call again.
pub async fn put_outcome(store: &dyn Work, session: &Session, outcome: &Outcome) -> Result<Stored, StoreError> {
    if session.has_follow_ups() { store.put_outcome(outcome).await } else { store.put_last_outcome(outcome).await }
}

/// Takes the next step of the group of `job`, given that `open` of its planned jobs have no outcome yet: nothing while
/// any is open, unless rounds of its search are planned [ahead](crate::ahead), then what follows, then the end.
///
/// # Errors
/// If the store or the broker fails; call again later.
pub async fn advance(store: &dyn Store, broker: &dyn Broker, job: &Job, open: u64) -> Result<(), AdvanceError> {
    let session = store.session(&job.session).await?.ok_or_else(|| AdvanceError::NoSession(job.session.clone()))?;
    advance_in(store, broker, &session, job, open).await
}

/// The same for callers that have read the session of the job.
///
/// # Errors
/// If the store or the broker fails; call again later.
pub async fn advance_in(
    store: &dyn Store,
    broker: &dyn Broker,
    session: &Session,
    job: &Job,
    open: u64,
) -> Result<(), AdvanceError> {
    let group = job.group();
    // What follows a find job is no round: it came when there was none left.
    let searches = session.search.is_some() && job.stage == Stage::Perf;
    if open > 0 && !(searches && ahead::of(store, &session.name, group).await? > 1) {
        return Ok(());
    }
    if searches {
        return ask_for_round(broker, job).await;
    }
    if !session.has_follow_ups() {
        store.settle_group(&session.name, group).await?;
        return Ok(());
    }
    let outcomes = store.outcomes(&session.name, &[group]).await?;
    conclude(store, broker, session, group, &outcomes).await
}

/// Asks a compile worker to plan what the session's search tries next in the group of `job`: only one knows the tuning space.
/// Nothing says that it was asked, so a worker that meets a finished job of the group asks again; who answers finds nothing to do
/// where jobs are open.
async fn ask_for_round(broker: &dyn Broker, job: &Job) -> Result<(), AdvanceError> {
    let job = Job { stage: Stage::Perf, candidates: Vec::new(), ..job.clone() };
    let (queue, lane, id) = (job.compile_queue(), job.lane, job.id().to_string());
    let asked = CompileJob { job, enqueued_ms: now_ms(), recompiles: 0, work: CompileWork::NextRound };
    Ok(broker.publish(&lane.of(&queue), &id, wire::encode(&asked)?.into()).await?)
}

/// What follows when the perf stage of a group is over, which has these outcomes and no open job: its find jobs, or its end.
///
/// # Errors
/// If the store or the broker fails; call again later.
pub async fn conclude(
    store: &dyn Store,
    broker: &dyn Broker,
    session: &Session,
    group: GroupId,
    outcomes: &[Outcome],
) -> Result<(), AdvanceError> {
    let mut next = follow_ups(session, outcomes);
    let done: HashSet<JobId> =
        outcomes.iter().filter(|outcome| outcome.job.stage == Stage::Find).map(Outcome::job_id).collect();
    next.retain(|job| !done.contains(&job.id()));
    // Only perf was asked of it.
    if !next.is_empty() {
        let alone = store.records_of(&shelf::perf_alone(&session.name), &[group.to_string()]).await?;
        if alone.into_iter().any(|record| record.is_some()) {
            next.clear();
        }
    }
    if next.is_empty() {
        store.settle_group(&session.name, group).await?;
    }
    for job in next {
        // Published before it is planned: planned and not published, it would keep its group open, and a worker that repeats this
        // after a crash would wait for it. Published twice, it is skipped the second time.
        publish(store, broker, &job, outcomes, now_ms()).await?;
    }
    Ok(())
}

/// Publishes `job` to the queue that it goes to first, given what its group has come to, then records that it is planned and
/// in its queue.
///
/// # Errors
/// If the store or the broker fails; the job may then be in its queue and not be recorded.
pub async fn publish(
    store: &dyn Work,
    broker: &dyn Broker,
    job: &Job,
    outcomes: &[Outcome],
    enqueued_ms: u64,
) -> Result<(), AdvanceError> {
    let id = job.id();
    match compiled_before(job, outcomes, enqueued_ms) {
        Some(eval_job) => {
            let queue = job.lane.of(&job.eval_queue());
            let body = wire::encode(&eval_job)?;
            // The worker that evaluates has made it, but this may be where none has come to yet.
            broker.declare(&queue).await?;
            broker.publish(&queue, &id.to_string(), body.into()).await?;
        }
        None => {
            let (queue, body) = first_message(job, enqueued_ms)?;
            broker.publish(&job.lane.of(&queue), &id.to_string(), body.into()).await?;
        }
    }
    store.plan(&job.session, &[Planned::of(job)]).await?;
    store.enqueued(&job.session, &[id]).await?;
    Ok(())
}

/// The queue that a planned job goes to first, and what goes there: its compilation, or its evaluation where that does both.
///
/// # Errors
/// If it is too large.
pub fn first_message(job: &Job, enqueued_ms: u64) -> Result<(String, Vec<u8>), WireError> {
    if job.method.toolchains.is_empty() {
        let eval_job = EvalJob::uncompiled(job.clone(), enqueued_ms);
        return Ok((job.eval_queue(), wire::encode(&eval_job)?));
    }
    let compile_job = CompileJob { job: job.clone(), enqueued_ms, recompiles: 0, work: CompileWork::Candidates };
    Ok((job.compile_queue(), wire::encode(&compile_job)?))
}

/// Publishes `job` as [`publish`] does, to be compiled if anything of what it was compiled into is gone. Where the device is on
/// another machine than the compilers it would come back to nobody.
///
/// # Errors
/// If the store or the broker fails.
pub async fn publish_whole(
    store: &dyn Store,
    broker: &dyn Broker,
    job: &Job,
    outcomes: &[Outcome],
    enqueued_ms: u64,
) -> Result<(), AdvanceError> {
    let compiled = compiled_before(job, outcomes, enqueued_ms);
    let whole = match &compiled {
        Some(eval_job) => is_there(store, eval_job).await?,
        None => false,
    };
    publish(store, broker, job, if whole { outcomes } else { &[] }, enqueued_ms).await
}

/// Whether everything that `eval_job` was compiled into is in the store now.
async fn is_there(store: &dyn Store, eval_job: &EvalJob) -> Result<bool, StoreError> {
    let Some(digest) = eval_job.task.digest() else { return Ok(false) };
    let Some(task) = store.blob(digest).await?.and_then(|bytes| wire::decode::<Task>(&bytes).ok()) else {
        return Ok(false);
    };
    let built = eval_job.built.iter().flatten().chain([&task.reference]);
    for object in built.flat_map(|built| &built.objects) {
        if !store.has_artifact(object.artifact).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// `job`, of whose candidates `outcomes` of its group say what they were compiled into: all have run, checked by one task. An
/// artifact that goes meanwhile sends it back to be compiled.
fn compiled_before(job: &Job, outcomes: &[Outcome], enqueued_ms: u64) -> Option<EvalJob> {
    let task = outcomes.iter().find_map(|outcome| outcome.task)?;
    let of_it = |outcome: &&Outcome| outcome.task == Some(task);
    let ran = outcomes.iter().filter(of_it).flat_map(|outcome| &outcome.candidates);
    let built = |wanted: &Candidate| -> Option<Built> {
        let mut ran = ran.clone().filter(|ran| ran.candidate == *wanted && ran.result.is_ok());
        ran.find_map(|ran| ran.built.clone())
    };
    let built = job.candidates.iter().map(|candidate| Some(Ok(built(candidate)?))).collect::<Option<Vec<_>>>()?;
    let mut description = description(outcomes);
    description.solvers.retain(|solver| job.candidates.iter().any(|candidate| candidate.solver == solver.name));
    // Outcomes come in no particular order.
    description.solvers.sort_by(|a, b| a.name.cmp(&b.name));
    let task = TaskRef::Blob(task);
    Some(EvalJob { job: job.clone(), enqueued_ms, recompiles: 0, compiled: None, task, description, built })
}

/// Sends a job whose artifacts are gone back to be compiled: at once the first time, after the delays of a retry then.
/// Returns why not, where it came back too often: a cache that is too small would send it round for ever.
///
/// # Errors
/// If the broker fails; call again later.
pub async fn send_back(broker: &dyn Broker, eval_job: &EvalJob) -> Result<Result<(), String>, AdvanceError> {
    let EvalJob { job, enqueued_ms, recompiles, .. } = eval_job;
    if job.method.toolchains.is_empty() {
        return Ok(Err(format!("method {}: nothing compiles its jobs, so none can be compiled again", job.method)));
    }
    if *recompiles >= MAX_RECOMPILES {
        return Ok(Err(format!(
            "compiled {} times in a row, and each time its artifacts were gone before they could be evaluated: the artifact \
             cache is too small",
            recompiles + 1
        )));
    }
    let delay = if *recompiles == 0 { Duration::ZERO } else { delay_after(*recompiles) };
    let (enqueued_ms, recompiles) = (*enqueued_ms, recompiles + 1);
    let again = CompileJob { job: job.clone(), enqueued_ms, recompiles, work: CompileWork::Candidates };
    let body = wire::encode(&again)?;
    broker.publish_after(delay, &job.lane.of(&job.compile_queue()), &job.id().to_string(), body.into()).await?;
    Ok(Ok(()))
}
