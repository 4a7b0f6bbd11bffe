//! A store that is away at first.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::artifact::ArtifactRef;
use bluefin_common::artifact::CompileRecord;
use bluefin_common::digest::Digest;
use bluefin_common::job::{GroupId, JobId};
use bluefin_common::outcome::Outcome;
use bluefin_common::session::{Pins, Session, SessionName};
use bluefin_common::store::{
    Artifacts, Blobs, EncodedGroup, Fullness, JobState, Planned, Progress, Records, SessionSize, Sessions, Store,
    StoreError, Stored, Touched, Work,
};
use bytes::Bytes;

/// How often each method was called.
pub type Calls = Arc<Mutex<HashMap<&'static str, u64>>>;

/// Fails the first call of every method, as a store does that restarts at the worst moments, or all calls while it is away.
pub struct Blinking {
    store: Arc<SqliteStore>,
    called: Calls,
    blinks: bool,
    away: Arc<AtomicBool>,
}

impl Blinking {
    pub fn new(store: Arc<SqliteStore>, called: Calls, blinks: bool, away: Arc<AtomicBool>) -> Self {
        Self { store, called, blinks, away }
    }

    fn blink(&self, method: &'static str) -> Result<(), StoreError> {
        let mut called = self.called.lock().unwrap();
        let times = called.entry(method).or_default();
        *times += 1;
        let first = *times == 1;
        if self.away.load(Ordering::Relaxed) || self.blinks && first {
            return Err(StoreError::Unavailable { store: "test".to_string(), reason: "blinks".to_string() });
        }
        Ok(())
    }
}

#[async_trait]
impl Sessions for Blinking {
    async fn create_session(&self, session: &Session) -> Result<Session, StoreError> {
        self.blink("create_session")?;
        self.store.create_session(session).await
    }

    async fn session(&self, name: &SessionName) -> Result<Option<Session>, StoreError> {
        self.blink("session")?;
        self.store.session(name).await
    }

    async fn sessions(&self) -> Result<Vec<Session>, StoreError> {
        self.blink("sessions")?;
        self.store.sessions().await
    }

    async fn pin(&self, session: &SessionName, key: &str, value: &str) -> Result<String, StoreError> {
        self.blink("pin")?;
        self.store.pin(session, key, value).await
    }

    async fn pins(&self, session: &SessionName) -> Result<Pins, StoreError> {
        self.blink("pins")?;
        self.store.pins(session).await
    }

    async fn unpin(&self, session: &SessionName, keys: &[String]) -> Result<(), StoreError> {
        self.blink("unpin")?;
        self.store.unpin(session, keys).await
    }

    async fn remove_session(&self, session: &SessionName) -> Result<(), StoreError> {
        self.blink("remove_session")?;
        self.store.remove_session(session).await
    }

    async fn size(&self, session: &SessionName) -> Result<SessionSize, StoreError> {
        self.blink("size")?;
        self.store.size(session).await
    }

    async fn touched(&self, session: &SessionName) -> Result<Touched, StoreError> {
        self.blink("touched")?;
        self.store.touched(session).await
    }

    async fn stand_unless_touched(
        &self,
        session: &SessionName,
        seen: &Touched,
        standing: &[u8],
    ) -> Result<bool, StoreError> {
        self.blink("stand_unless_touched")?;
        self.store.stand_unless_touched(session, seen, standing).await
    }

    async fn orphans(&self, idle: Duration) -> Result<Vec<SessionName>, StoreError> {
        self.blink("orphans")?;
        self.store.orphans(idle).await
    }
}

#[async_trait]
impl Records for Blinking {
    async fn put_records(&self, shelf: &str, records: &[(String, Vec<u8>)]) -> Result<(), StoreError> {
        self.blink("put_records")?;
        self.store.put_records(shelf, records).await
    }

    async fn claim_record(&self, shelf: &str, key: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        self.blink("claim_record")?;
        self.store.claim_record(shelf, key, value).await
    }

    async fn records_of(&self, shelf: &str, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        self.blink("records_of")?;
        self.store.records_of(shelf, keys).await
    }

    async fn records(&self, shelf: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.blink("records")?;
        self.store.records(shelf).await
    }

    async fn remove_records(&self, shelf: &str, keys: &[String]) -> Result<(), StoreError> {
        self.blink("remove_records")?;
        self.store.remove_records(shelf, keys).await
    }
}

#[async_trait]
impl Blobs for Blinking {
    async fn blob_sizes(&self, digests: &[Digest]) -> Result<Vec<u64>, StoreError> {
        self.blink("blob_sizes")?;
        self.store.blob_sizes(digests).await
    }

    async fn remove_blobs(&self, digests: &[Digest]) -> Result<(), StoreError> {
        self.blink("remove_blobs")?;
        self.store.remove_blobs(digests).await
    }

    async fn put_blob(&self, bytes: &[u8]) -> Result<Digest, StoreError> {
        self.blink("put_blob")?;
        self.store.put_blob(bytes).await
    }

    async fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>, StoreError> {
        self.blink("blob")?;
        self.store.blob(digest).await
    }

    async fn idle_blobs(&self, idle: Duration) -> Result<Vec<Digest>, StoreError> {
        self.blink("idle_blobs")?;
        self.store.idle_blobs(idle).await
    }
}

#[async_trait]
impl Artifacts for Blinking {
    async fn put_artifact(&self, bytes: &[u8]) -> Result<ArtifactRef, StoreError> {
        self.blink("put_artifact")?;
        self.store.put_artifact(bytes).await
    }

    async fn artifact(&self, artifact: ArtifactRef) -> Result<Option<Bytes>, StoreError> {
        self.blink("artifact")?;
        self.store.artifact(artifact).await
    }

    async fn has_artifact(&self, artifact: ArtifactRef) -> Result<bool, StoreError> {
        self.blink("has_artifact")?;
        self.store.has_artifact(artifact).await
    }

    async fn put_compiled(&self, record: &CompileRecord) -> Result<(), StoreError> {
        self.blink("put_compiled")?;
        self.store.put_compiled(record).await
    }

    async fn compiled(&self, key: Digest) -> Result<Option<CompileRecord>, StoreError> {
        self.blink("compiled")?;
        self.store.compiled(key).await
    }

    async fn fullness(&self) -> Result<Fullness, StoreError> {
        self.blink("fullness")?;
        self.store.fullness().await
    }
}

#[async_trait]
impl Work for Blinking {
    async fn retract_outcome(&self, outcome: &Outcome) -> Result<bool, StoreError> {
        self.blink("retract_outcome")?;
        self.store.retract_outcome(outcome).await
    }

    async fn discard_outcome(&self, outcome: &Outcome) -> Result<bool, StoreError> {
        self.blink("discard_outcome")?;
        self.store.discard_outcome(outcome).await
    }

    async fn rewrite_outcomes(&self, outcomes: &[Outcome]) -> Result<(), StoreError> {
        self.blink("rewrite_outcomes")?;
        self.store.rewrite_outcomes(outcomes).await
    }

    async fn plan(&self, session: &SessionName, jobs: &[Planned]) -> Result<Vec<JobState>, StoreError> {
        self.blink("plan")?;
        self.store.plan(session, jobs).await
    }

    async fn enqueued(&self, session: &SessionName, jobs: &[JobId]) -> Result<(), StoreError> {
        self.blink("enqueued")?;
        self.store.enqueued(session, jobs).await
    }

    async fn put_outcome(&self, outcome: &Outcome) -> Result<Stored, StoreError> {
        self.blink("put_outcome")?;
        self.store.put_outcome(outcome).await
    }

    async fn has_outcome(&self, session: &SessionName, group: GroupId, job: JobId) -> Result<bool, StoreError> {
        self.blink("has_outcome")?;
        self.store.has_outcome(session, group, job).await
    }

    async fn open_jobs(&self, session: &SessionName, group: GroupId) -> Result<u64, StoreError> {
        self.blink("open_jobs")?;
        self.store.open_jobs(session, group).await
    }

    async fn open_groups(&self, session: &SessionName) -> Result<Vec<GroupId>, StoreError> {
        self.blink("open_groups")?;
        self.store.open_groups(session).await
    }

    async fn planned_jobs(&self, session: &SessionName) -> Result<Vec<(JobId, bool)>, StoreError> {
        self.blink("planned_jobs")?;
        self.store.planned_jobs(session).await
    }

    async fn groups(&self, session: &SessionName) -> Result<Vec<GroupId>, StoreError> {
        self.blink("groups")?;
        self.store.groups(session).await
    }

    async fn encoded_outcomes(
        &self,
        session: &SessionName,
        groups: &[GroupId],
    ) -> Result<Vec<EncodedGroup>, StoreError> {
        self.blink("encoded_outcomes")?;
        self.store.encoded_outcomes(session, groups).await
    }

    async fn settle_group(&self, session: &SessionName, group: GroupId) -> Result<(), StoreError> {
        self.blink("settle_group")?;
        self.store.settle_group(session, group).await
    }

    async fn progress(&self, session: &SessionName) -> Result<Progress, StoreError> {
        self.blink("progress")?;
        self.store.progress(session).await
    }

    async fn best_ms(&self, session: &SessionName, group: GroupId) -> Result<Option<f64>, StoreError> {
        self.blink("best_ms")?;
        self.store.best_ms(session, group).await
    }
}

#[async_trait]
impl Store for Blinking {
    fn reconnects(&self) -> u64 {
        self.store.reconnects()
    }
}
