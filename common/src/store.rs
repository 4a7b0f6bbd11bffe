//! The store port: what lasts. SQLite (one file) and Redis are in `bluefin-adapters`.
//!
//! What every implementation promises (the contract suite there tries both):
//! - What a call has returned `Ok` for survives a crash of this process and of the store.
//! - Artifacts are a cache: they may be gone at any time, and are never wrong. Everything else lasts.
//! - Outcomes are idempotent: the first one of a job stands.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::task::JoinError;

use crate::artifact::{ArtifactRef, CompileRecord};
use crate::digest::Digest;
use crate::job::{GroupId, Job, JobId};
use crate::outcome::Outcome;
use crate::session::{Pins, Session, SessionName, Stage};
use crate::wire::{self, WireError};

/// What goes wrong between bluefin and its store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Not reachable, timed out, out of memory or disk: try again later.
    #[error("store {store}: {reason}")]
    Unavailable {
        /// Its address without credentials, or its file.
        store: String,
        /// As the client library or the system says it.
        reason: String,
    },
    /// It answers, and refuses what is asked of it: credentials, permissions. Somebody has to mend that, and nothing is lost until
    /// then.
    #[error("store {store} refuses: {reason}")]
    Refused {
        /// Its address without credentials, or its file.
        store: String,
        /// What it refuses, in its words.
        reason: String,
    },
    /// The URL, the path or the store's configuration is not usable.
    #[error("store: {reason}")]
    Misconfigured {
        /// What is not usable, and what was expected.
        reason: String,
    },
    /// Of no more use to this process, and every later call says the same: a limit of the process, or another process has
    /// taken it over. What was stored before is there.
    #[error("store {store}: {reason}")]
    Lost {
        /// Its address without credentials, or its file.
        store: String,
        /// The limit that was met, or who has taken it over.
        reason: String,
    },
    /// The bytes under a digest are not the ones that were stored.
    #[error("store: {what} {digest}: content does not match its digest; it was changed after it was stored")]
    Tampered {
        /// `blob` or `artifact`.
        what: &'static str,
        /// The one asked for, which the bytes do not have.
        digest: Digest,
    },
    /// A stored value does not decode.
    #[error("store: {key}: {source}")]
    Corrupt {
        /// Where it is stored, in the words of the implementation.
        key: String,
        /// What is wrong with its envelope or body.
        source: WireError,
    },
}

impl StoreError {
    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::Refused { .. } => true,
            Self::Misconfigured { .. } | Self::Lost { .. } | Self::Tampered { .. } | Self::Corrupt { .. } => false,
        }
    }

    /// Whether this process need not go on: the store is of no more use to it, though to others it is.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, Self::Lost { .. })
    }
}

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

/// How full the artifact cache is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fullness {
    /// Used memory over its limit; 0 where there is no limit.
    pub ratio: f64,
    /// It makes room by itself, oldest first, so that being full is its usual state; otherwise it refuses.
    pub evicts: bool,
}

/// What tells whether anybody gave a session work, or changed how it [stands](crate::standing), since this was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    /// How often jobs of it were planned, or outcomes taken back.
    pub times: u64,
    /// Its record on [`crate::shelf::STANDINGS`].
    pub standing: Option<Vec<u8>>,
}

/// What a session takes up in the store, in bytes; where asking exactly would take long, an estimate. Without its blobs, which others
/// may name as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSize {
    /// Outcomes, samples included.
    pub outcomes: u64,
    /// What is planned, and counts.
    pub plan: u64,
    /// On its shelves: solvers, applicability, compiled and parked jobs.
    pub records: u64,
}

impl SessionSize {
    /// All of it.
    #[must_use]
    pub fn total(self) -> u64 {
        self.outcomes + self.plan + self.records
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

/// A right that only some users of a fleet's store have. What takes it is to ask for it before it writes anything: a
/// refusal halfway leaves what nobody with fewer rights can mend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// To remove sessions and blobs.
    Remove,
    /// To take outcomes back.
    Retract,
}

/// A store. Cheap to share behind an `Arc`.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Whether this user has `right`; nothing is changed. A store without users gives every right to whoever opened it to write.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if not.
    async fn may(&self, _right: Right) -> Result<(), StoreError> {
        Ok(())
    }

    // === sessions

    /// Stores `session` unless one of its name exists; returns the one that is stored now.
    async fn create_session(&self, session: &Session) -> Result<Session, StoreError>;
    /// `None` if none of that name was created.
    async fn session(&self, name: &SessionName) -> Result<Option<Session>, StoreError>;
    /// All sessions, by name.
    async fn sessions(&self) -> Result<Vec<Session>, StoreError>;
    /// Pins `key` of the session to `value` unless it is pinned; returns the value it is pinned to now.
    async fn pin(&self, session: &SessionName, key: &str, value: &str) -> Result<String, StoreError>;
    /// All pins of the session so far; empty if no worker has met it.
    async fn pins(&self, session: &SessionName) -> Result<Pins, StoreError>;
    /// Takes the pins of `keys` off the session; those that are not there do no harm.
    async fn unpin(&self, session: &SessionName, keys: &[String]) -> Result<(), StoreError>;
    /// How often the session was touched.
    async fn touched(&self, session: &SessionName) -> Result<Touched, StoreError>;
    /// Replaces the session's record on [`crate::shelf::STANDINGS`] by `standing`, unless somebody touched it since `seen`; whether
    /// it did. Both in one step: whoever plans jobs of it before is seen, and whoever does so after finds that record.
    async fn stand_unless_touched(
        &self,
        session: &SessionName,
        seen: &Touched,
        standing: &[u8],
    ) -> Result<bool, StoreError>;
    /// Removes the session with its pins, plan, outcomes and [shelves](crate::shelf::of_session), itself last, so that what was
    /// interrupted is repeated. Blobs stay.
    async fn remove_session(&self, session: &SessionName) -> Result<(), StoreError>;
    /// What the session takes up.
    async fn size(&self, session: &SessionName) -> Result<SessionSize, StoreError>;

    // === records: small values that last, by shelf and key. What is on which shelf is its owner's business.

    /// Puts `records`, each a key and its value, on `shelf`; what was there under the same keys is replaced.
    async fn put_records(&self, shelf: &str, records: &[(String, Vec<u8>)]) -> Result<(), StoreError>;
    /// Puts `value` on `shelf` unless something is there under `key`; returns what is there now.
    async fn claim_record(&self, shelf: &str, key: &str, value: &[u8]) -> Result<Vec<u8>, StoreError>;
    /// What is on `shelf` under each of `keys`, in their order.
    async fn records_of(&self, shelf: &str, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>, StoreError>;
    /// All of `shelf`, by key.
    async fn records(&self, shelf: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError>;
    /// Takes `keys` off `shelf`; those that are not there do no harm.
    async fn remove_records(&self, shelf: &str, keys: &[String]) -> Result<(), StoreError>;

    // === blobs: kernel specs, tasks, kernels of winners. They last.

    /// Stores `bytes` under their digest; the same bytes again change nothing.
    async fn put_blob(&self, bytes: &[u8]) -> Result<Digest, StoreError>;
    /// Verified; `None` if there is none of that digest.
    async fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>, StoreError>;
    /// Bytes that each of the blobs takes up, in their order; 0 for one that is not there.
    async fn blob_sizes(&self, digests: &[Digest]) -> Result<Vec<u64>, StoreError>;
    /// Removes blobs that nothing names any more; those that are not there do no harm.
    async fn remove_blobs(&self, digests: &[Digest]) -> Result<(), StoreError>;

    /// All blobs that nobody has read or written for `idle`. In a state file, which nobody else works with, all blobs.
    async fn idle_blobs(&self, idle: Duration) -> Result<Vec<Digest>, StoreError>;
    /// Sessions that are not there and of which something is, that nobody has read or written for `idle`: what a worker stored that
    /// did not hear in time that they were removed. [`remove_session`](Self::remove_session) takes that away.
    async fn orphans(&self, idle: Duration) -> Result<Vec<SessionName>, StoreError>;

    // === the artifact cache: anything may be gone at any time

    /// Caches `bytes` under their digest; the same bytes again make them young.
    async fn put_artifact(&self, bytes: &[u8]) -> Result<ArtifactRef, StoreError>;
    /// Verified by digest and size. `None`: evicted. [`StoreError::Tampered`]: refused, and removed from the cache.
    async fn artifact(&self, artifact: ArtifactRef) -> Result<Option<Bytes>, StoreError>;
    /// Whether the artifact is there now, without reading it.
    async fn has_artifact(&self, artifact: ArtifactRef) -> Result<bool, StoreError>;
    /// Caches what the compiler inputs of the record's key became.
    async fn put_compiled(&self, record: &CompileRecord) -> Result<(), StoreError>;
    /// `None`: never compiled, evicted, written by a version that can not be read, or a record of another key.
    async fn compiled(&self, key: Digest) -> Result<Option<CompileRecord>, StoreError>;
    /// As it is now; the ratio stays 0 where a cache is pruned before it is full.
    async fn fullness(&self) -> Result<Fullness, StoreError>;

    // === planned work and outcomes

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
    /// The same as they are stored, for whoever reads many and decodes them where they are used: each of `groups`, in their order.
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

    /// Reconnections so far, for the metrics.
    fn reconnects(&self) -> u64;
}
