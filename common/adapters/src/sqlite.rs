//! The embedded store: one SQLite file, written by one process, that can be carried elsewhere when it is closed.
//!
//! The schema is in `sqlite/schema.sql`. The file `<state>.lock` beside it tells a second process that it is in use, also
//! one of another machine; reading needs no lock. A write-ahead log needs memory that all share who use the file, so on a
//! file system that other machines may have as well there is a rollback journal instead.

mod cache;
mod engine;
mod file;
mod lock;
mod records;
mod size;
mod work;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};

use self::cache::CachedKind;
use self::engine::Engine;
use self::lock::{StateLock, Terms};
use crate::packed::{pack, unpack};
use crate::tally::{best_ms, tally};
use bluefin_common::artifact::{ArtifactRef, CompileRecord};
use bluefin_common::digest::Digest;
use bluefin_common::file_system::FileSystem;
use bluefin_common::job::{GroupId, JobId};
use bluefin_common::outcome::Outcome;
use bluefin_common::session::{Pins, Session, SessionName};
use bluefin_common::shelf::STANDINGS;
use bluefin_common::store::{
    Artifacts, Blobs, EncodedGroup, Fullness, JobState, OpenJobs, Planned, Progress, Records, SessionSize, Sessions,
    Store, StoreError, Stored, Touched, Work,
};
use bluefin_common::wire;

/// Most bytes of artifacts and compile records that are kept, unless [`SqliteStore::with_cache_limit`] says otherwise.
pub const CACHE_LIMIT: u64 = 1 << 30;

/// Groups whose outcomes are read in one go, so that writers need not wait for all.
const READ_GROUPS: usize = 64;
/// Reads under way at once, so that the next is known while one is on disk.
const READS: usize = 2;

/// A [`Store`] in one file. Dropping it closes the file, which may take a moment: prefer [`SqliteStore::close`].
pub struct SqliteStore {
    engine: Engine,
    cache_limit: u64,
}

impl SqliteStore {
    /// Opens the state file at `path`, or makes one.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] when another process has it open, when it is not a state file, or one of another
    /// version.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let path = path.into();
        let file_system = FileSystem::of(&path);
        Self::open_on(path, file_system).await
    }

    /// The same for a file that is known to be on `file_system`.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn open_on(path: impl Into<PathBuf>, file_system: FileSystem) -> Result<Self, StoreError> {
        Self::open_under(path.into(), file_system, Terms::default()).await
    }

    async fn open_under(path: PathBuf, file_system: FileSystem, terms: Terms) -> Result<Self, StoreError> {
        off_thread(move || {
            let path = real(&path)?;
            let lock = StateLock::acquire(&path, file_system, terms)?;
            let connection = file::open(&path, file_system)?;
            Self::start(&path, connection, Some(lock))
        })
        .await
    }

    /// Opens the state file at `path` for reading, also while another process writes it. What would write fails.
    ///
    /// # Errors
    /// [`StoreError::Misconfigured`] when there is none, when it is not a state file, or one of another version.
    pub async fn open_read_only(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let path = path.into();
        off_thread(move || {
            let connection = file::open_read_only(&path)?;
            Self::start(&path, connection, None)
        })
        .await
    }

    /// A store that is gone when it is dropped.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when there is no memory or no thread for it.
    pub fn in_memory() -> Result<Self, StoreError> {
        let path = Path::new("state in memory");
        Self::start(path, file::open_in_memory(path)?, None)
    }

    /// Forgets the jobs of a session that have no outcome, and counts nothing as left to do: the queues that had them lived in
    /// a process that ended. A campaign that wants them plans them again, and what nobody asks for any more is waited for by nobody.
    ///
    /// # Errors
    /// If the file can not be written.
    pub async fn forget_unfinished(&self, session: &SessionName) -> Result<(), StoreError> {
        let session = session.clone();
        self.engine.call(move |connection| work::forget_unfinished(connection, &session)).await
    }

    /// The jobs of a session that are planned and have no outcome.
    ///
    /// # Errors
    /// If the file can not be read.
    pub async fn open_jobs_by_group(&self, session: &SessionName) -> Result<OpenJobs, StoreError> {
        let session = session.clone();
        self.engine.call(move |connection| work::open_jobs_by_group(connection, &session)).await
    }

    /// The groups of a session that have work left.
    ///
    /// # Errors
    /// If the file can not be read.
    pub async fn unsettled_groups(&self, session: &SessionName) -> Result<HashSet<GroupId>, StoreError> {
        let session = session.clone();
        self.engine.call(move |connection| work::unsettled_groups(connection, &session)).await
    }

    /// Keeps at most `bytes` of artifacts and compile records; what has not been used for longest goes.
    #[must_use]
    pub fn with_cache_limit(mut self, bytes: u64) -> Self {
        self.cache_limit = bytes;
        self
    }

    /// Closes the file, which then needs nothing beside it. All calls after it fail. Again is harmless.
    pub async fn close(&self) {
        self.engine.close().await;
    }

    async fn read_groups(&self, session: &SessionName, groups: &[GroupId]) -> Result<Vec<EncodedGroup>, StoreError> {
        let (session, groups) = (session.clone(), groups.to_vec());
        self.engine.call(move |connection| work::outcomes(connection, &session, &groups)).await
    }

    fn start(path: &Path, connection: rusqlite::Connection, lock: Option<StateLock>) -> Result<Self, StoreError> {
        Ok(Self { engine: Engine::start(path, connection, lock)?, cache_limit: CACHE_LIMIT })
    }
}

/// The path without links, so that all ways to a file lead to the same lock.
fn real(path: &Path) -> Result<PathBuf, StoreError> {
    let unusable = |error: std::io::Error| StoreError::Misconfigured { reason: format!("{}: {error}", path.display()) };
    match std::fs::canonicalize(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let missing_name = || std::io::Error::other("not a path of a file");
            let name = path.file_name().ok_or_else(missing_name).map_err(unusable)?;
            let folder = match path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder,
                _ => Path::new("."),
            };
            Ok(std::fs::canonicalize(folder).map_err(unusable)?.join(name))
        }
        real => real.map_err(unusable),
    }
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    // It fails to join only when the runtime shuts down underneath it.
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| StoreError::Unavailable { store: "state file".into(), reason: error.to_string() })?
}

#[async_trait]
impl Sessions for SqliteStore {
    async fn create_session(&self, session: &Session) -> Result<Session, StoreError> {
        let session = session.clone();
        self.engine.call(move |connection| records::create_session(connection, &session)).await
    }

    async fn session(&self, name: &SessionName) -> Result<Option<Session>, StoreError> {
        let name = name.clone();
        self.engine.call(move |connection| records::session(connection, &name)).await
    }

    async fn sessions(&self) -> Result<Vec<Session>, StoreError> {
        self.engine.call(records::sessions).await
    }

    async fn pin(&self, session: &SessionName, key: &str, value: &str) -> Result<String, StoreError> {
        let (session, key, value) = (session.clone(), key.to_string(), value.to_string());
        self.engine.call(move |connection| records::pin(connection, &session, &key, &value)).await
    }

    async fn pins(&self, session: &SessionName) -> Result<Pins, StoreError> {
        let session = session.clone();
        self.engine.call(move |connection| records::pins(connection, &session)).await
    }

    async fn unpin(&self, session: &SessionName, keys: &[String]) -> Result<(), StoreError> {
        let (session, keys) = (session.clone(), keys.to_vec());
        self.engine.call(move |connection| records::unpin(connection, &session, &keys)).await
    }

    async fn touched(&self, session: &SessionName) -> Result<Touched, StoreError> {
        let session = session.clone();
        self.engine.call(move |connection| work::touched(connection, &session)).await
    }

    async fn stand_unless_touched(
        &self,
        session: &SessionName,
        seen: &Touched,
        standing: &[u8],
    ) -> Result<bool, StoreError> {
        let (session, seen, standing) = (session.clone(), seen.clone(), standing.to_vec());
        self.engine
            .call(move |connection| {
                let is_untouched = work::touched(connection, &session)? == seen;
                if is_untouched {
                    records::put_records(connection, STANDINGS, &[(session.to_string(), standing)])?;
                }
                Ok(is_untouched)
            })
            .await
    }

    async fn remove_session(&self, session: &SessionName) -> Result<(), StoreError> {
        let session = session.clone();
        self.engine.call(move |connection| size::remove(connection, &session)).await
    }

    async fn size(&self, session: &SessionName) -> Result<SessionSize, StoreError> {
        let session = session.clone();
        self.engine.call(move |connection| size::of(connection, &session)).await
    }

    async fn orphans(&self, _idle: Duration) -> Result<Vec<SessionName>, StoreError> {
        self.engine.call(size::orphans).await
    }
}

#[async_trait]
impl Records for SqliteStore {
    async fn put_records(&self, shelf: &str, records: &[(String, Vec<u8>)]) -> Result<(), StoreError> {
        let (shelf, records) = (shelf.to_string(), records.to_vec());
        self.engine.call(move |connection| records::put_records(connection, &shelf, &records)).await
    }

    async fn claim_record(&self, shelf: &str, key: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        let (shelf, key, value) = (shelf.to_string(), key.to_string(), value.to_vec());
        self.engine.call(move |connection| records::claim_record(connection, &shelf, &key, &value)).await
    }

    async fn records_of(&self, shelf: &str, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let (shelf, keys) = (shelf.to_string(), keys.to_vec());
        self.engine.call(move |connection| records::records_of(connection, &shelf, &keys)).await
    }

    async fn records(&self, shelf: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let shelf = shelf.to_string();
        self.engine.call(move |connection| records::records(connection, &shelf)).await
    }

    async fn remove_records(&self, shelf: &str, keys: &[String]) -> Result<(), StoreError> {
        let (shelf, keys) = (shelf.to_string(), keys.to_vec());
        self.engine.call(move |connection| records::remove_records(connection, &shelf, &keys)).await
    }
}

#[async_trait]
impl Blobs for SqliteStore {
    async fn put_blob(&self, bytes: &[u8]) -> Result<Digest, StoreError> {
        let packed = pack("blob", bytes).await?;
        let digest = packed.artifact.digest;
        self.engine.call(move |connection| records::put_blob(connection, digest, &packed.bytes)).await?;
        Ok(digest)
    }

    async fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>, StoreError> {
        match self.engine.call(move |connection| records::blob(connection, digest)).await? {
            Some(packed) => unpack("blob", packed, digest, None).await.map(Some),
            None => Ok(None),
        }
    }

    async fn blob_sizes(&self, digests: &[Digest]) -> Result<Vec<u64>, StoreError> {
        let digests = digests.to_vec();
        self.engine.call(move |connection| size::blobs(connection, &digests)).await
    }

    async fn remove_blobs(&self, digests: &[Digest]) -> Result<(), StoreError> {
        let digests = digests.to_vec();
        self.engine.call(move |connection| size::remove_blobs(connection, &digests)).await
    }

    async fn idle_blobs(&self, _idle: Duration) -> Result<Vec<Digest>, StoreError> {
        self.engine.call(size::all_blobs).await
    }
}

#[async_trait]
impl Artifacts for SqliteStore {
    async fn put_artifact(&self, bytes: &[u8]) -> Result<ArtifactRef, StoreError> {
        let packed = pack("artifact", bytes).await?;
        let (artifact, limit) = (packed.artifact, self.cache_limit);
        self.engine
            .call(move |connection| cache::put(connection, CachedKind::Artifact, artifact.digest, &packed.bytes, limit))
            .await?;
        Ok(artifact)
    }

    async fn artifact(&self, artifact: ArtifactRef) -> Result<Option<Bytes>, StoreError> {
        let digest = artifact.digest;
        let stored = self.engine.call(move |connection| cache::get(connection, CachedKind::Artifact, digest)).await?;
        let Some(packed) = stored else { return Ok(None) };
        let unpacked = unpack("artifact", packed, digest, Some(artifact.size)).await;
        if let Err(StoreError::Tampered { .. }) = &unpacked {
            self.engine.call(move |connection| cache::remove(connection, CachedKind::Artifact, digest)).await?;
        }
        unpacked.map(|bytes| Some(bytes.into()))
    }

    async fn has_artifact(&self, artifact: ArtifactRef) -> Result<bool, StoreError> {
        self.engine.call(move |connection| cache::has(connection, CachedKind::Artifact, artifact.digest)).await
    }

    async fn put_compiled(&self, record: &CompileRecord) -> Result<(), StoreError> {
        let key = record.key;
        let encode = |source| StoreError::Corrupt { key: format!("compile record {key}"), source };
        let (bytes, limit) = (wire::encode(record).map_err(encode)?, self.cache_limit);
        self.engine.call(move |connection| cache::put(connection, CachedKind::Compiled, key, &bytes, limit)).await
    }

    async fn compiled(&self, key: Digest) -> Result<Option<CompileRecord>, StoreError> {
        let stored = self.engine.call(move |connection| cache::get(connection, CachedKind::Compiled, key)).await?;
        Ok(super::cached_record(key, stored.as_deref()))
    }

    /// Always 0: the cache is pruned before it is full.
    async fn fullness(&self) -> Result<Fullness, StoreError> {
        Ok(Fullness { ratio: 0.0, evicts: true })
    }
}

#[async_trait]
impl Work for SqliteStore {
    async fn plan(&self, session: &SessionName, jobs: &[Planned]) -> Result<Vec<JobState>, StoreError> {
        let (session, jobs) = (session.clone(), jobs.to_vec());
        self.engine.call(move |connection| work::plan(connection, &session, &jobs)).await
    }

    async fn enqueued(&self, session: &SessionName, jobs: &[JobId]) -> Result<(), StoreError> {
        let (session, jobs) = (session.clone(), jobs.to_vec());
        self.engine.call(move |connection| work::enqueued(connection, &session, &jobs)).await
    }

    async fn put_outcome(&self, outcome: &Outcome) -> Result<Stored, StoreError> {
        let job = Planned::of(&outcome.job);
        let encode = |source| StoreError::Corrupt { key: format!("outcome {}", job.id), source };
        let bytes = wire::encode(outcome).map_err(encode)?;
        let (session, tally, best_ms) = (outcome.job.session.clone(), tally(outcome), best_ms(outcome));
        self.engine.call(move |connection| work::put_outcome(connection, &session, job, &bytes, &tally, best_ms)).await
    }

    async fn retract_outcome(&self, outcome: &Outcome) -> Result<bool, StoreError> {
        let (session, job, tally) = (outcome.job.session.clone(), Planned::of(&outcome.job), tally(outcome));
        self.engine.call(move |connection| work::retract_outcome(connection, &session, job, &tally, true)).await
    }

    async fn discard_outcome(&self, outcome: &Outcome) -> Result<bool, StoreError> {
        let (session, job, tally) = (outcome.job.session.clone(), Planned::of(&outcome.job), tally(outcome));
        self.engine.call(move |connection| work::retract_outcome(connection, &session, job, &tally, false)).await
    }

    async fn rewrite_outcomes(&self, outcomes: &[Outcome]) -> Result<(), StoreError> {
        let encode = |outcome: &Outcome| {
            let job = Planned::of(&outcome.job);
            let corrupt = |source| StoreError::Corrupt { key: format!("outcome {}", job.id), source };
            Ok((outcome.job.session.clone(), job, wire::encode(outcome).map_err(corrupt)?))
        };
        let encoded = outcomes.iter().map(encode).collect::<Result<Vec<_>, StoreError>>()?;
        self.engine.call(move |connection| work::rewrite_outcomes(connection, &encoded)).await
    }

    async fn has_outcome(&self, session: &SessionName, group: GroupId, job: JobId) -> Result<bool, StoreError> {
        let session = session.clone();
        self.engine.call(move |connection| Ok(work::has_outcome(connection, &session, group, job)?)).await
    }

    async fn open_jobs(&self, session: &SessionName, group: GroupId) -> Result<u64, StoreError> {
        let session = session.clone();
        self.engine.call(move |connection| work::open_jobs(connection, &session, group)).await
    }

    async fn planned_jobs(&self, session: &SessionName) -> Result<Vec<(JobId, bool)>, StoreError> {
        let session = session.clone();
        self.engine.call(move |connection| work::planned_jobs(connection, &session)).await
    }

    async fn open_groups(&self, session: &SessionName) -> Result<Vec<GroupId>, StoreError> {
        let session = session.clone();
        self.engine.call(move |connection| work::open_groups(connection, &session)).await
    }

    async fn groups(&self, session: &SessionName) -> Result<Vec<GroupId>, StoreError> {
        let session = session.clone();
        self.engine.call(move |connection| work::groups(connection, &session)).await
    }

    async fn encoded_outcomes(
        &self,
        session: &SessionName,
        groups: &[GroupId],
    ) -> Result<Vec<EncodedGroup>, StoreError> {
        let reads: Vec<_> = groups.chunks(READ_GROUPS).map(|chunk| self.read_groups(session, chunk)).collect();
        stream::iter(reads).buffered(READS).try_concat().await
    }

    async fn settle_group(&self, session: &SessionName, group: GroupId) -> Result<(), StoreError> {
        let session = session.clone();
        self.engine.call(move |connection| work::settle_group(connection, &session, group)).await
    }

    async fn progress(&self, session: &SessionName) -> Result<Progress, StoreError> {
        let session = session.clone();
        self.engine.call(move |connection| work::progress(connection, &session)).await
    }

    async fn best_ms(&self, session: &SessionName, group: GroupId) -> Result<Option<f64>, StoreError> {
        let session = session.clone();
        self.engine.call(move |connection| records::best_ms(connection, &session, group)).await
    }
}

#[async_trait]
impl Store for SqliteStore {
    /// Always 0: a file does not disconnect.
    fn reconnects(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn whoever_was_taken_over_writes_nothing_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        // A sign of life is due before each write.
        let terms = Terms { beat: Duration::ZERO, ..Terms::default() };
        let store = SqliteStore::open_under(path.clone(), FileSystem::NFS, terms).await.unwrap();
        let before = store.put_blob(b"before").await.unwrap();
        let record = folder.path().join("record");
        std::fs::write(&record, "7\nfar\nanother boot\n1\n").unwrap();
        std::fs::rename(record, path.with_extension("db.lock")).unwrap();
        for _ in 0..2 {
            let error = store.put_blob(b"after").await.unwrap_err();
            assert!(error.is_lost() && error.to_string().contains("host far"), "{error}");
        }
        store.close().await;
        let reader = SqliteStore::open_read_only(&path).await.unwrap();
        assert!(reader.blob(before).await.unwrap().is_some());
        assert!(reader.blob(Digest::of(b"after")).await.unwrap().is_none());
    }
}
