//! What nobody has used for a while: blobs, and what is left of sessions that are gone.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use redis::cmd;

use crate::redis::RedisStore;
use crate::redis::keys;
use crate::redis::link::Request;
use bluefin_common::digest::Digest;
use bluefin_common::session::SessionName;
use bluefin_common::shelf;
use bluefin_common::store::StoreError;

/// Keys that one step looks at, and about as many that it is asked for.
const STEP: usize = 5_000;

impl RedisStore {
    pub(super) async fn blobs_idle_for(&self, idle: Duration) -> Result<Vec<Digest>, StoreError> {
        let mut found = Vec::new();
        let mut all = Keys::that_match(keys::blob_pattern());
        while let Some(some) = all.step(self).await? {
            let digest = |key: String| keys::digest_of_blob(&key).map(|digest| (key, digest));
            let blobs: Vec<(String, Digest)> = some.into_iter().filter_map(digest).collect();
            let idle_s = self.idle_seconds(blobs.iter().map(|(key, _)| key)).await?;
            let old = blobs.into_iter().zip(idle_s).filter(|(_, seconds)| is_over(*seconds, idle));
            found.extend(old.map(|((_, digest), _)| digest));
        }
        // A scan may name a key twice.
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    pub(super) async fn orphans_idle_for(&self, idle: Duration) -> Result<Vec<SessionName>, StoreError> {
        let there: HashSet<String> = super::query(&self.main, cmd("HKEYS").arg(keys::SESSIONS)).await?;
        let of_gone = |key: String| {
            let session = keys::session_of(&key).or_else(|| shelf::session_of(keys::shelf_of(&key)?))?;
            (!there.contains(session.as_str())).then_some((key, session))
        };
        // Whether all of it is old.
        let mut sessions: BTreeMap<SessionName, bool> = BTreeMap::new();
        for pattern in [keys::session_pattern(), keys::shelf("*")] {
            let mut all = Keys::that_match(pattern);
            while let Some(some) = all.step(self).await? {
                let left: Vec<(String, SessionName)> = some.into_iter().filter_map(of_gone).collect();
                let idle_s = self.idle_seconds(left.iter().map(|(key, _)| key)).await?;
                for ((_, session), seconds) in left.into_iter().zip(idle_s) {
                    *sessions.entry(session).or_insert(true) &= is_over(seconds, idle);
                }
            }
        }
        Ok(sessions.into_iter().filter(|(_, old)| *old).map(|(session, _)| session).collect())
    }

    /// Since when nobody has used each of `keys`; `None` for one that is gone.
    async fn idle_seconds(&self, keys: impl Iterator<Item = &String>) -> Result<Vec<Option<u64>>, StoreError> {
        let mut pipeline = redis::pipe();
        let mut asked = false;
        for key in keys {
            pipeline.cmd("OBJECT").arg("IDLETIME").arg(key);
            asked = true;
        }
        if asked { self.main.call(Request::Pipeline(&pipeline)).await } else { Ok(Vec::new()) }
    }
}

fn is_over(seconds: Option<u64>, idle: Duration) -> bool {
    seconds.is_some_and(|seconds| seconds >= idle.as_secs())
}

/// All keys that match a pattern, some at a time.
struct Keys {
    pattern: String,
    /// Where the next step begins; `None` behind the last.
    cursor: Option<u64>,
}

impl Keys {
    fn that_match(pattern: String) -> Self {
        Self { pattern, cursor: Some(0) }
    }

    /// `None` when all were read.
    async fn step(&mut self, store: &RedisStore) -> Result<Option<Vec<String>>, StoreError> {
        let Some(cursor) = self.cursor else { return Ok(None) };
        let mut command = cmd("SCAN");
        command.arg(cursor).arg("MATCH").arg(&self.pattern).arg("COUNT").arg(STEP);
        let (next, keys): (u64, Vec<String>) = super::query(&store.main, &command).await?;
        self.cursor = (next != 0).then_some(next);
        Ok(Some(keys))
    }
}
