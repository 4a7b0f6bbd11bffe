//! What follows from the outcomes of a group: the find job that ends it, and that nothing is left to do.
//!
//! A group is one problem with one kernel spec. Its perf jobs may end anywhere, in any order; whoever stores the last
//! outcome calls [`advance`], and so does whoever meets a job that is done already, so a crash in between loses nothing.
//! All of it is a pure function of the outcomes plus idempotent writes, so two callers do no harm.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::broker::{Broker, BrokerError, MAX_ATTEMPTS, retry_delay};
use crate::job::{CompileJob, EvalJob, Job, Stage};
use crate::outcome::{CandidateOutcome, Outcome, Timing};
use crate::session::{Session, SessionName};
use crate::store::{Planned, Store, StoreError};
use crate::wire::{self, WireError};

/// Why a group could not be advanced.
#[derive(Debug, thiserror::Error)]
pub enum AdvanceError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Broker(#[from] BrokerError),
    #[error(transparent)]
    Wire(#[from] WireError),
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

/// Milliseconds since the Unix epoch.
#[must_use]
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Takes the next step of the group of `job`, given that `open` of its planned jobs have no outcome yet: nothing while
/// any is open, then the find job, then the end.
///
/// # Errors
/// If the store or the broker fails; call again later.
pub async fn advance(store: &dyn Store, broker: &dyn Broker, job: &Job, open: u64) -> Result<(), AdvanceError> {
    if open > 0 {
        return Ok(());
    }
    let session = store.session(&job.session).await?.ok_or_else(|| AdvanceError::NoSession(job.session.clone()))?;
    let group = job.group();
    if !session.stages.contains(&Stage::Find) {
        store.settle_group(&session.name, group).await?;
        return Ok(());
    }
    let outcomes = store.outcomes(&session.name, &[group]).await?;
    let Some(find) = find_job(&session, &outcomes) else {
        store.settle_group(&session.name, group).await?;
        return Ok(());
    };
    let id = find.id();
    if outcomes.iter().any(|outcome| outcome.job.stage == Stage::Find && outcome.job_id() == id) {
        store.settle_group(&session.name, group).await?;
        return Ok(());
    }
    // Published before it is planned: planned and not published, it would keep its group open, and whoever repeats this
    // after a crash would wait for it. Published twice, it is skipped the second time.
    publish(store, broker, &find, now_ms()).await
}

/// Publishes `job` for compilation, then records that it is planned and in its queue.
///
/// # Errors
/// If the store or the broker fails; the job may then be in its queue and not be recorded.
pub async fn publish(store: &dyn Store, broker: &dyn Broker, job: &Job, enqueued_ms: u64) -> Result<(), AdvanceError> {
    let id = job.id();
    let body = wire::encode(&CompileJob { job: job.clone(), enqueued_ms, recompiles: 0 })?;
    broker.publish(&job.compile_queue(), &id.to_string(), body.into()).await?;
    store.plan(&job.session, &[Planned::of(job)]).await?;
    store.enqueued(&job.session, &[id]).await?;
    Ok(())
}

/// Sends a job whose artifacts are gone back to be compiled: at once the first time, after the delays of a retry then.
/// Returns why not, where it came back too often: a cache that is too small would send it round for ever.
///
/// # Errors
/// If the broker fails; call again later.
pub async fn send_back(broker: &dyn Broker, eval_job: &EvalJob) -> Result<Result<(), String>, AdvanceError> {
    let EvalJob { job, enqueued_ms, recompiles, .. } = eval_job;
    if *recompiles >= MAX_ATTEMPTS {
        return Ok(Err(format!(
            "compiled {} times in a row, and each time its artifacts were gone before they could be evaluated: the artifact \
             cache is too small",
            recompiles + 1
        )));
    }
    let delay = if *recompiles == 0 { Duration::ZERO } else { retry_delay(*recompiles) };
    let body = wire::encode(&CompileJob { job: job.clone(), enqueued_ms: *enqueued_ms, recompiles: recompiles + 1 })?;
    broker.publish_after(delay, &job.compile_queue(), &job.id().to_string(), body.into()).await?;
    Ok(Ok(()))
}

/// The find job of a group, given the outcomes of all its perf jobs: the best candidate of every solver that has one.
/// `None` if the session has no find stage or no candidate has a time.
#[must_use]
pub fn find_job(session: &Session, outcomes: &[Outcome]) -> Option<Job> {
    if !session.stages.contains(&Stage::Find) {
        return None;
    }
    let best = best_of_each_solver(outcomes);
    let candidates: Vec<_> = best.values().map(|best| best.outcome.candidate.clone()).collect();
    let job = &outcomes.iter().find(|outcome| outcome.job.stage == Stage::Perf)?.job;
    (!candidates.is_empty()).then(|| Job { stage: Stage::Find, candidates, ..job.clone() })
}

/// A candidate that has a time.
#[derive(Clone, Copy, Debug)]
pub struct Timed<'a> {
    pub outcome: &'a CandidateOutcome,
    pub timing: &'a Timing,
}

impl Timed<'_> {
    /// Workspace in bytes.
    #[must_use]
    pub fn workspace(&self) -> u64 {
        self.outcome.prepared.as_ref().map_or(0, |prepared| prepared.workspace)
    }

    /// Half of the interval in which the true median lies with little doubt: 2.5 standard errors of the median, and at
    /// least half a percent, below which no two runs of one kernel agree.
    fn half_width_ms(&self) -> f64 {
        let samples = self.timing.samples_ms.len().max(1) as f64;
        (2.5 * 1.2533 * self.timing.spread_ms / samples.sqrt()).max(0.005 * self.timing.median_ms)
    }

    /// Whether the two can not be told apart: their intervals overlap.
    #[must_use]
    pub fn ties_with(&self, other: &Self) -> bool {
        let distance = (self.timing.median_ms - other.timing.median_ms).abs();
        distance <= self.half_width_ms() + other.half_width_ms()
    }

    /// Total order for equal times: less workspace, then name.
    fn preference(&self) -> (u64, &crate::outcome::Candidate) {
        (self.workspace(), &self.outcome.candidate)
    }
}

/// The candidates of `outcomes` that were timed to the end, fastest first; equal times by workspace and name.
#[must_use]
pub fn ranked(outcomes: &[Outcome], stage: Stage) -> Vec<Timed<'_>> {
    let mut timed = in_order(outcomes, stage);
    timed.retain(|timed| !timed.timing.pruned);
    timed
}

/// All candidates with a time, fastest first; those that were only probed last.
fn in_order(outcomes: &[Outcome], stage: Stage) -> Vec<Timed<'_>> {
    let mut timed: Vec<_> = outcomes
        .iter()
        .filter(|outcome| outcome.job.stage == stage)
        .flat_map(|outcome| &outcome.candidates)
        .filter_map(|outcome| {
            let timing = outcome.result.as_ref().ok().filter(|timing| timing.median_ms > 0.0)?;
            Some(Timed { outcome, timing })
        })
        .collect();
    timed.sort_by(|a, b| {
        let pruned = a.timing.pruned.cmp(&b.timing.pruned);
        pruned
            .then_with(|| a.timing.median_ms.total_cmp(&b.timing.median_ms))
            .then_with(|| a.preference().cmp(&b.preference()))
    });
    timed
}

/// The fastest candidate of each solver in the perf stage, by solver name. A solver that is far slower than the best of its
/// group has only probes; the best of those then stands for it, since its params are wanted all the same.
#[must_use]
pub fn best_of_each_solver(outcomes: &[Outcome]) -> BTreeMap<&str, Timed<'_>> {
    let mut best = BTreeMap::new();
    for timed in in_order(outcomes, Stage::Perf) {
        best.entry(timed.outcome.candidate.solver.as_str()).or_insert(timed);
    }
    best
}

/// The end of a group: who won.
#[derive(Clone, Debug)]
pub struct Decision<'a> {
    /// The best of each solver as the play-off timed them, fastest first.
    pub finalists: Vec<Timed<'a>>,
    /// Index into `finalists`.
    pub winner: usize,
    /// Further finalists that can not be told apart from the fastest; the winner was then chosen by less workspace, then
    /// name, so that it is the same every time.
    pub ties: usize,
}

impl Decision<'_> {
    #[must_use]
    pub fn winner(&self) -> Option<&Timed<'_>> {
        self.finalists.get(self.winner)
    }
}

/// Who won the group, by its find stage; by its perf stage in a session without one. `None` while that stage has not
/// ended or if nothing ran.
#[must_use]
pub fn decide<'a>(session: &Session, outcomes: &'a [Outcome]) -> Option<Decision<'a>> {
    let finalists = if session.stages.contains(&Stage::Find) {
        let id = find_job(session, outcomes)?.id();
        let find = outcomes.iter().position(|outcome| outcome.job.stage == Stage::Find && outcome.job.id() == id)?;
        ranked(outcomes.get(find..=find)?, Stage::Find)
    } else {
        let mut best: Vec<_> = best_of_each_solver(outcomes).into_values().collect();
        best.retain(|timed| !timed.timing.pruned);
        best.sort_by(|a, b| a.timing.median_ms.total_cmp(&b.timing.median_ms));
        best
    };
    let fastest = *finalists.first()?;
    let tied: Vec<usize> =
        finalists.iter().enumerate().filter(|(_, timed)| timed.ties_with(&fastest)).map(|(index, _)| index).collect();
    let winner = tied.iter().copied().min_by(|&a, &b| finalists[a].preference().cmp(&finalists[b].preference()))?;
    Some(Decision { ties: tied.len() - 1, winner, finalists })
}
