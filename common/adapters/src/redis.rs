//! The store of a fleet: a Redis that keeps what must last, and the same or a second, volatile one for the artifact cache.
//!
//! # Keys
//!
//! | key | type | holds |
//! | --- | --- | --- |
//! | `bluefin:sessions` | hash | session name → session |
//! | `bluefin:blob:<digest>` | string | kernel spec or winning kernel, zstd |
//! | `bluefin:blob:mark` | string | nothing; written where replicas are waited for |
//! | `bluefin:shelf:<shelf>` | hash | key → record, see [`bluefin_common::shelf`] |
//! | `bluefin:session:<name>:pins` | hash | key → value, the first one written |
//! | `bluefin:session:<name>:plan` | string | a bit for each bucket of the plan, set if it was ever used |
//! | `bluefin:session:<name>:plan:<bucket>` | hash | job id → `p` planned or `e` enqueued; a job with an outcome is not in it; group → jobs without an outcome; every group that ever had a job is in it |
//! | `bluefin:session:<name>:unsettled` | set | groups that have work left, the first 16 bytes of each |
//! | `bluefin:session:<name>:stats` | hash | `planned:<stage>`, `done:<stage>`, `candidates:<result>`, `busy:<stage>` (ms), `groups`, `touched` (how often jobs were planned or outcomes taken back) → count |
//! | `bluefin:session:<name>:best` | hash | group → best median in milliseconds, as text |
//! | `bluefin:session:<name>:group:<group>` | hash | job id → outcome |
//! | `bluefin:cas:<digest>` | string, TTL | artifact, zstd |
//! | `bluefin:ac:<digest>` | string, TTL | compile record |
//!
//! The bucket of a job or a group is the last 14 bits of the first two bytes of its id, as four hex digits: Redis packs small
//! hashes, so that a planned job takes half of the memory. The plan of a session of version 3 is not in buckets: its jobs are
//! in `bluefin:session:<name>:jobs`, its groups in `bluefin:session:<name>:open`, and whole among the unsettled.
//!
//! Digests are 64 hex digits in the name of a key and 32 bytes inside a hash. Sessions, outcomes and compile records are in
//! the envelope of [`bluefin_common::wire`]. The two kinds with a TTL are the cache; reading an artifact renews its TTL.
//!
//! # Servers
//!
//! What must last needs `appendonly yes` and `appendfsync always`; eviction, if any, must be `volatile-lru`. Where a replica
//! may take over, `?replicas=1` behind the URL keeps what was acknowledged: replication is asynchronous, and a replica that
//! was behind has lost the last writes otherwise. Sentinels are asked for the primary, see [`address`]; a cluster is refused.
//! Tried with Redis 7.0 and Valkey 8.1.

mod address;
mod check;
mod idle;
mod keys;
mod link;
mod remedy;
mod rights;
mod scripts;
mod sentinel;
mod size;
mod values;
mod work;

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use lru::LruCache;
use redis::{Cmd, FromRedisValue, cmd};

use self::keys::SessionKeys;
use self::link::{Link, Request};
use self::scripts::Scripts;
use bluefin_common::job::{GroupId, JobId};
use bluefin_common::outcome::Outcome;
use bluefin_common::session::{Pins, Session, SessionName};
use bluefin_common::shelf::STANDINGS;
use bluefin_common::store::{
    EncodedGroup, JobState, Planned, Progress, Records, Right, SessionSize, Sessions, Store, StoreError, Stored,
    Touched, Work,
};
use bluefin_common::wire;
use bluefin_common::wire::Message;

/// How long a call with small values is tried.
const PATIENCE: Duration = Duration::from_secs(10);

/// How much longer a call with an artifact or a blob is tried: many megabytes may be on their way ahead of it.
const BULK: u32 = 3;

/// Connections for what must last; each connects when it is first needed.
const WRITES: usize = 8;

/// Records in one command.
const RECORDS: usize = 1000;

/// Sessions that are kept in memory.
const SESSIONS_KEPT: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// For so long: they never change, but one may be deleted and another one made of its name.
const SESSION_KEPT: Duration = Duration::from_secs(2);

/// How a store is used.
#[derive(Clone, Copy, Debug)]
pub struct ConnectOptions {
    /// How long an artifact is kept after its last use, unless memory runs out first.
    pub artifact_ttl: Duration,
    /// How long a call with small values is tried. One with an artifact or a blob has three times as long.
    pub patience: Duration,
}

impl ConnectOptions {
    /// For a process that works with the store.
    #[must_use]
    pub fn new(artifact_ttl: Duration) -> Self {
        Self { artifact_ttl, patience: PATIENCE }
    }
}

/// A [`Store`] in Redis.
pub struct RedisStore {
    /// Small values that last, to read. Large ones have connections of their own, so that nothing waits behind them.
    main: Link,
    blobs: Link,
    /// To write them. Outcomes are spread over these by job: the server reads 16 KiB of a connection between two syncs, so that
    /// one connection alone would write about ten outcomes a sync; and one that waits for replicas does nothing else.
    writes: Vec<Link>,
    cache: Link,
    artifacts: Link,
    scripts: Scripts,
    /// Sessions that were read, and when: every group that ends asks for its own.
    sessions: Mutex<LruCache<SessionName, Kept>>,
    /// Those that were said to be left out.
    unreadable: Mutex<HashSet<String>>,
    artifact_ttl_ms: u64,
    reconnects: Arc<AtomicU64>,
}

/// A session that was read.
struct Kept {
    read: Instant,
    session: Session,
}

impl RedisStore {
    /// [Connects](Self::connect_with) as a process that works with the store does.
    pub async fn connect(url: &str, cache_url: Option<&str>, artifact_ttl: Duration) -> Result<Self, StoreError> {
        Self::connect_with(url, cache_url, ConnectOptions::new(artifact_ttl)).await
    }

    /// Connects to `url` and checks that what is written there lasts. The artifact cache is in `cache_url`, or else in `url`,
    /// too; what has not been used there for a while goes.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the server does not answer, [`StoreError::Refused`] when it wants another password or
    /// denies access, [`StoreError::Misconfigured`] when a URL is wrong, the server would evict outcomes or it is part of a
    /// cluster.
    pub async fn connect_with(url: &str, cache_url: Option<&str>, options: ConnectOptions) -> Result<Self, StoreError> {
        // Fails where the process has chosen a provider before, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let ConnectOptions { artifact_ttl, patience } = options;
        let artifact_ttl_ms = u64::try_from(artifact_ttl.as_millis()).unwrap_or(u64::MAX).min(MAX_TTL_MS);
        if artifact_ttl_ms == 0 {
            return Err(StoreError::Misconfigured { reason: "artifact TTL: found 0, expected at least 1 ms".into() });
        }
        let reconnects = Arc::new(AtomicU64::new(0));
        let link = |url: &str, patience| Link::new(url, patience, Arc::clone(&reconnects));
        let cache_at = cache_url.unwrap_or(url);
        let store = Self {
            main: link(url, patience)?,
            blobs: link(url, patience * BULK)?,
            writes: (0..WRITES).map(|_| link(url, patience)).collect::<Result<_, _>>()?,
            cache: link(cache_at, patience)?,
            artifacts: link(cache_at, patience * BULK)?,
            scripts: Scripts::new(),
            sessions: Mutex::new(LruCache::new(SESSIONS_KEPT)),
            unreadable: Mutex::default(),
            artifact_ttl_ms,
            reconnects,
        };
        check::check_main(&store.main, cache_url.is_none()).await?;
        if cache_url.is_some() {
            check::check_cache(&store.cache).await?;
        }
        Ok(store)
    }

    /// Bytes that the server of what lasts has in use, for whatever it keeps.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn used_memory(&self) -> Result<u64, StoreError> {
        check::used_memory(&self.main).await
    }

    async fn look_up(&self, name: &SessionName) -> Result<Option<Session>, StoreError> {
        let kept = || self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = kept().get(name).filter(|kept| kept.read.elapsed() < SESSION_KEPT) {
            return Ok(Some(kept.session.clone()));
        }
        let stored: Option<Vec<u8>> = query(&self.main, cmd("HGET").arg(keys::SESSIONS).arg(name.as_str())).await?;
        let Some(bytes) = stored else { return Ok(None) };
        let session: Session = decode(&session_key(name.as_str()), &bytes)?;
        kept().put(name.clone(), Kept { read: Instant::now(), session: session.clone() });
        Ok(Some(session))
    }

    /// Where small values are written that are no outcomes.
    fn writes(&self) -> &Link {
        self.writes.first().unwrap_or(&self.main)
    }

    /// Where the outcome of `job` is written.
    fn writes_of(&self, job: JobId) -> &Link {
        self.writes.get(usize::from(job.0[0]) % WRITES).unwrap_or(&self.main)
    }
}

/// A hundred years: more than that overflows the clock of the server.
const MAX_TTL_MS: u64 = 100 * 365 * 24 * 3600 * 1000;

#[async_trait]
impl Sessions for RedisStore {
    async fn create_session(&self, session: &Session) -> Result<Session, StoreError> {
        let name = session.name.as_str();
        let bytes = wire::encode(session).map_err(|source| corrupt(keys::SESSIONS, source))?;
        let mut pipeline = redis::pipe();
        pipeline.hset_nx(keys::SESSIONS, name, bytes).ignore().hget(keys::SESSIONS, name);
        let (stored,): (Vec<u8>,) = self.writes().write(Request::Pipeline(&pipeline)).await?;
        decode(&session_key(name), &stored)
    }

    async fn session(&self, name: &SessionName) -> Result<Option<Session>, StoreError> {
        self.look_up(name).await
    }

    async fn sessions(&self) -> Result<Vec<Session>, StoreError> {
        let mut stored: Vec<(String, Vec<u8>)> = query(&self.main, cmd("HGETALL").arg(keys::SESSIONS)).await?;
        stored.sort_unstable();
        let readable = |(name, bytes): &(String, Vec<u8>)| match decode(&session_key(name), bytes) {
            Ok(session) => Some(session),
            // One of a newer release, for one, which must not keep anybody from the others.
            Err(error) => {
                if self.unreadable.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone()) {
                    tracing::error!(%error, "session left out");
                }
                None
            }
        };
        Ok(stored.iter().filter_map(readable).collect())
    }

    async fn pin(&self, session: &SessionName, key: &str, value: &str) -> Result<String, StoreError> {
        let pins = SessionKeys(session).pins();
        let mut pipeline = redis::pipe();
        pipeline.hset_nx(&pins, key, value).ignore().hget(&pins, key);
        let (pinned,): (String,) = self.writes().write(Request::Pipeline(&pipeline)).await?;
        Ok(pinned)
    }

    async fn pins(&self, session: &SessionName) -> Result<Pins, StoreError> {
        query(&self.main, cmd("HGETALL").arg(SessionKeys(session).pins())).await
    }

    async fn unpin(&self, session: &SessionName, keys: &[String]) -> Result<(), StoreError> {
        if keys.is_empty() {
            return Ok(());
        }
        let pins = SessionKeys(session).pins();
        self.writes().write(Request::Command(cmd("HDEL").arg(pins).arg(keys))).await
    }

    async fn touched(&self, session: &SessionName) -> Result<Touched, StoreError> {
        let mut pipeline = redis::pipe();
        pipeline.atomic().hget(SessionKeys(session).stats(), keys::TOUCHED);
        pipeline.hget(keys::shelf(STANDINGS), session.as_str());
        let (times, standing): (Option<u64>, Option<Vec<u8>>) = self.main.call(Request::Pipeline(&pipeline)).await?;
        Ok(Touched { times: times.unwrap_or(0), standing })
    }

    async fn stand_unless_touched(
        &self,
        session: &SessionName,
        seen: &Touched,
        standing: &[u8],
    ) -> Result<bool, StoreError> {
        let script = &self.scripts.stand_unless_touched;
        let mut command = scripts::invoke(script, &[SessionKeys(session).stats(), keys::shelf(STANDINGS)]);
        command.arg(session.as_str()).arg(seen.times).arg(seen.standing.as_deref().unwrap_or_default()).arg(standing);
        self.writes().write(Request::Script(script, &command)).await
    }

    async fn remove_session(&self, session: &SessionName) -> Result<(), StoreError> {
        let removed = self.remove_all_of(session).await;
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).pop(session);
        removed
    }

    async fn size(&self, session: &SessionName) -> Result<SessionSize, StoreError> {
        self.size_of(session).await
    }

    async fn orphans(&self, idle: Duration) -> Result<Vec<SessionName>, StoreError> {
        self.orphans_idle_for(idle).await
    }
}

#[async_trait]
impl Records for RedisStore {
    async fn put_records(&self, shelf: &str, records: &[(String, Vec<u8>)]) -> Result<(), StoreError> {
        let key = keys::shelf(shelf);
        for chunk in records.chunks(RECORDS) {
            let mut command = cmd("HSET");
            command.arg(&key);
            for (field, value) in chunk {
                command.arg(field).arg(value);
            }
            let () = self.blobs.write(Request::Command(&command)).await?;
        }
        Ok(())
    }

    async fn claim_record(&self, shelf: &str, key: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        let shelf = keys::shelf(shelf);
        let mut pipeline = redis::pipe();
        pipeline.hset_nx(&shelf, key, value).ignore().hget(&shelf, key);
        let (claimed,): (Vec<u8>,) = self.writes().write(Request::Pipeline(&pipeline)).await?;
        Ok(claimed)
    }

    async fn records_of(&self, shelf: &str, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let shelf = keys::shelf(shelf);
        let mut found = Vec::with_capacity(keys.len());
        for chunk in keys.chunks(RECORDS) {
            let values: Vec<Option<Vec<u8>>> = query(&self.blobs, cmd("HMGET").arg(&shelf).arg(chunk)).await?;
            found.extend(values);
        }
        Ok(found)
    }

    async fn records(&self, shelf: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let mut all: Vec<(String, Vec<u8>)> = query(&self.blobs, cmd("HGETALL").arg(keys::shelf(shelf))).await?;
        all.sort_unstable();
        Ok(all)
    }

    async fn remove_records(&self, shelf: &str, keys: &[String]) -> Result<(), StoreError> {
        let shelf = keys::shelf(shelf);
        for chunk in keys.chunks(RECORDS) {
            let () = self.writes().write(Request::Command(cmd("HDEL").arg(&shelf).arg(chunk))).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Work for RedisStore {
    async fn plan(&self, session: &SessionName, jobs: &[Planned]) -> Result<Vec<JobState>, StoreError> {
        self.plan_jobs(session, jobs).await
    }

    async fn enqueued(&self, session: &SessionName, jobs: &[JobId]) -> Result<(), StoreError> {
        self.mark_enqueued(session, jobs).await
    }

    async fn put_outcome(&self, outcome: &Outcome) -> Result<Stored, StoreError> {
        self.store_outcome(outcome, false).await
    }

    async fn put_last_outcome(&self, outcome: &Outcome) -> Result<Stored, StoreError> {
        self.store_outcome(outcome, true).await
    }

    async fn retract_outcome(&self, outcome: &Outcome) -> Result<bool, StoreError> {
        self.take_back(outcome, true).await
    }

    async fn discard_outcome(&self, outcome: &Outcome) -> Result<bool, StoreError> {
        self.take_back(outcome, false).await
    }

    async fn rewrite_outcomes(&self, outcomes: &[Outcome]) -> Result<(), StoreError> {
        self.replace_outcomes(outcomes).await
    }

    async fn has_outcome(&self, session: &SessionName, group: GroupId, job: JobId) -> Result<bool, StoreError> {
        let has = query(&self.main, cmd("HEXISTS").arg(SessionKeys(session).group(group)).arg(&job.0)).await?;
        if has {
            // The caller takes the job for done: the outcome must not be lost after that, whatever connection wrote it.
            self.writes_of(job).confirm().await?;
        }
        Ok(has)
    }

    async fn open_groups(&self, session: &SessionName) -> Result<Vec<GroupId>, StoreError> {
        self.groups_with(session, |open| open > 0).await
    }

    async fn groups(&self, session: &SessionName) -> Result<Vec<GroupId>, StoreError> {
        self.groups_with(session, |_| true).await
    }

    async fn encoded_outcomes(
        &self,
        session: &SessionName,
        groups: &[GroupId],
    ) -> Result<Vec<EncodedGroup>, StoreError> {
        self.outcomes_of(session, groups).await
    }

    async fn open_jobs(&self, session: &SessionName, group: GroupId) -> Result<u64, StoreError> {
        let plan = SessionKeys(session).plan();
        let open: Option<u64> = query(&self.main, cmd("HGET").arg(plan.open(group)).arg(&group.0)).await?;
        Ok(open.unwrap_or(0))
    }

    async fn planned_jobs(&self, session: &SessionName) -> Result<Vec<(JobId, bool)>, StoreError> {
        self.all_planned(session).await
    }

    async fn settle_group(&self, session: &SessionName, group: GroupId) -> Result<(), StoreError> {
        let keys = SessionKeys(session);
        let plan = keys.plan();
        let script = &self.scripts.settle_group;
        let mut command = scripts::invoke(script, &[plan.open(group), keys.unsettled()]);
        command.arg(&group.0).arg(keys::unsettled_name(&group));
        self.writes().write(Request::Script(script, &command)).await
    }

    async fn progress(&self, session: &SessionName) -> Result<Progress, StoreError> {
        self.progress_of(session).await
    }

    async fn best_ms(&self, session: &SessionName, group: GroupId) -> Result<Option<f64>, StoreError> {
        query(&self.main, cmd("HGET").arg(SessionKeys(session).best()).arg(&group.0)).await
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn may(&self, right: Right) -> Result<(), StoreError> {
        self.try_right(right).await
    }

    fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Relaxed)
    }
}

async fn query<T: FromRedisValue>(link: &Link, command: &Cmd) -> Result<T, StoreError> {
    link.call(Request::Command(command)).await
}

fn session_key(name: &str) -> String {
    format!("{} {name}", keys::SESSIONS)
}

fn corrupt(key: &str, source: wire::WireError) -> StoreError {
    StoreError::Corrupt { key: key.to_string(), source }
}

fn decode<T: Message>(key: &str, bytes: &[u8]) -> Result<T, StoreError> {
    wire::decode(bytes).map_err(|source| corrupt(key, source))
}
