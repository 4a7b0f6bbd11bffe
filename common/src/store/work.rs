//! Planned jobs, what came of them, and how far sessions are.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::task::JoinError;

use super::StoreError;
use crate::job::{GroupId, Job, JobId};
use crate::outcome::Outcome;
use crate::session::{SessionName, Stage};
use crate::wire;

/// A job as the store counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// What its outcome will be stored under.
    pub id: JobId,
    /// That of which it is open until it has an outcome.
    pub group: GroupId,
    /// What [`Progress`] counts it under.
    pub stage: Stage,
}

impl Planned {
    /// What the store needs to know of `job`.
    #[must_use]
    pub fn of(job: &Job) -> Self {
        Self { id: job.id(), group: job.group(), stage: job.stage }
    }
}

/// Jobs that are planned and have no outcome, by group.
pub type OpenJobs = HashMap<GroupId, Vec<JobId>>;

/// Where a planned job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Planned, now or before, but not known to be in a queue: publish it.
    Planned,
    /// Safely in a queue or in the hands of a worker.
    Enqueued,
    /// Its outcome is stored.
    Done,
}

/// What storing an outcome did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// `false`: the job had an outcome before, which stands. It may be the one of this very call, if the connection broke
    /// before the reply and the call was repeated.
    pub first: bool,
    /// Planned jobs of its group that have no outcome yet.
    pub open: u64,
    /// It marked its group as having nothing left to do.
    pub settled: bool,
}

/// The outcomes of a group as they are stored.
#[derive(Clone, Debug)]
pub struct EncodedGroup {
    /// Which group.
    pub group: GroupId,
    /// Each with the id of its job, ordered by it.
    pub outcomes: Vec<(JobId, Bytes)>,
}

impl EncodedGroup {
    /// The outcomes.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] at the first that can not be read.
    pub fn decode(&self) -> Result<Vec<Outcome>, StoreError> {
        let key = |job: &JobId| format!("outcome {job} of group {}", self.group);
        let decode = |(job, bytes): &(JobId, Bytes)| {
            wire::decode(bytes).map_err(|source| StoreError::Corrupt { key: key(job), source })
        };
        self.outcomes.iter().map(decode).collect()
    }

    /// Bytes of its outcomes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.outcomes.iter().map(|(_, bytes)| bytes.len()).sum()
    }
}

/// How far a session is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Planned jobs by stage name.
    pub planned: BTreeMap<String, u64>,
    /// Jobs with an outcome by stage name.
    pub done: BTreeMap<String, u64>,
    /// Groups (problem and spec) that have work left.
    pub unsettled_groups: u64,
    /// All groups that ever had a job, settled or not.
    pub groups: u64,
    /// Candidates by result: `timed`, `pruned`, or the name of a failure kind.
    pub candidates: BTreeMap<String, u64>,
    /// Milliseconds that eval workers spent, by stage name.
    pub busy_ms: BTreeMap<String, u64>,
}

impl Progress {
    /// Nothing is left to do: what waits for work to end waits for this. So it is where nothing was ever planned.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.unsettled_groups == 0
    }

    /// Something was planned, and nothing of it is left to do.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.groups > 0 && self.is_settled()
    }

    /// `complete`, `open`, or `empty` where nothing was ever planned.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match (self.is_settled(), self.groups) {
            (false, _) => "open",
            (true, 0) => "empty",
            (true, _) => "complete",
        }
    }
}

/// Planned jobs and their outcomes.
#[async_trait]
pub trait Work: Send + Sync + 'static {
    /// Records `jobs` as planned and says where each is. Call before publishing: a group is complete when all of its
    /// planned jobs have outcomes.
    async fn plan(&self, session: &SessionName, jobs: &[Planned]) -> Result<Vec<JobState>, StoreError>;
    /// Records that `jobs` are safely in a queue.
    async fn enqueued(&self, session: &SessionName, jobs: &[JobId]) -> Result<(), StoreError>;
    /// Stores the outcome unless its job has one, and lowers the best median of its group to the best of its timings that
    /// are not pruned. A job that was never planned counts as planned and done at once.
    async fn put_outcome(&self, outcome: &Outcome) -> Result<Stored, StoreError>;
    /// [Stores](Self::put_outcome) an outcome from which no job follows: [settles](Self::settle_group) its group as well, where
    /// it leaves no job of that open.
    async fn put_last_outcome(&self, outcome: &Outcome) -> Result<Stored, StoreError> {
        let stored = self.put_outcome(outcome).await?;
        if stored.open > 0 {
            return Ok(stored);
        }
        self.settle_group(&outcome.job.session, outcome.group()).await?;
        Ok(Stored { settled: true, ..stored })
    }
    /// Takes an outcome back: its job is planned, in no queue, and its group has work left. `false`: there was none.
    async fn retract_outcome(&self, outcome: &Outcome) -> Result<bool, StoreError>;
    /// Takes an outcome back whose job is not to be done again: it is not planned any more, and counts no more. `false`: there was none.
    async fn discard_outcome(&self, outcome: &Outcome) -> Result<bool, StoreError>;
    /// Puts `outcomes` in the place of those of their jobs; what has none stays without. Counts stay as they are.
    async fn rewrite_outcomes(&self, outcomes: &[Outcome]) -> Result<(), StoreError>;
    /// Whether the job is done, without reading its outcome.
    async fn has_outcome(&self, session: &SessionName, group: GroupId, job: JobId) -> Result<bool, StoreError>;
    /// Planned jobs of the group that have no outcome yet.
    async fn open_jobs(&self, session: &SessionName, group: GroupId) -> Result<u64, StoreError>;
    /// All planned jobs of the session that have no outcome, and whether each is known to be in a queue; in no particular order.
    async fn planned_jobs(&self, session: &SessionName) -> Result<Vec<(JobId, bool)>, StoreError>;
    /// The groups that have a planned job without an outcome, in no particular order.
    async fn open_groups(&self, session: &SessionName) -> Result<Vec<GroupId>, StoreError>;
    /// All groups that ever had a job, in no particular order.
    async fn groups(&self, session: &SessionName) -> Result<Vec<GroupId>, StoreError>;
    /// All outcomes of `groups`, in the order of the groups, ordered by job id within each.
    async fn outcomes(&self, session: &SessionName, groups: &[GroupId]) -> Result<Vec<Outcome>, StoreError> {
        let encoded = self.encoded_outcomes(session, groups).await?;
        let decode = move || {
            let mut outcomes = Vec::with_capacity(encoded.iter().map(|group| group.outcomes.len()).sum());
            for group in &encoded {
                outcomes.extend(group.decode()?);
            }
            Ok(outcomes)
        };
        // It fails to join only when the runtime shuts down underneath it.
        let ended = |error: JoinError| StoreError::Unavailable { store: "store".into(), reason: error.to_string() };
        tokio::task::spawn_blocking(decode).await.map_err(ended)?
    }
    /// The same as they are stored, for callers that read many and decode them where they are used: each of `groups`, in their order.
    async fn encoded_outcomes(
        &self,
        session: &SessionName,
        groups: &[GroupId],
    ) -> Result<Vec<EncodedGroup>, StoreError>;
    /// Marks the group as having nothing left to do, unless it has open jobs. Planning a new job of it unmarks it.
    async fn settle_group(&self, session: &SessionName, group: GroupId) -> Result<(), StoreError>;
    /// Counts of the session's jobs and candidates; all 0 where nothing was planned.
    async fn progress(&self, session: &SessionName) -> Result<Progress, StoreError>;

    /// The best median known for the group, in milliseconds: what probes are compared with.
    async fn best_ms(&self, session: &SessionName, group: GroupId) -> Result<Option<f64>, StoreError>;
}
