//! What a session takes up, and how it goes as a whole.

use redis::cmd;

use crate::redis::RedisStore;
use crate::redis::keys::{self, SessionKeys};
use crate::redis::link::Request;
use bluefin_common::digest::Digest;
use bluefin_common::job::GroupId;
use bluefin_common::session::SessionName;
use bluefin_common::shelf;
use bluefin_common::store::{SessionSize, StoreError};

/// Groups whose outcomes are weighed; the others are taken to be like them.
const WEIGHED: usize = 500;
/// Keys that one command removes.
const REMOVED: usize = 500;

impl RedisStore {
    pub(super) async fn size_of(&self, session: &SessionName) -> Result<SessionSize, StoreError> {
        let keys = SessionKeys(session);
        let mut pipeline = redis::pipe();
        pipeline.hlen(keys.open()).cmd("HRANDFIELD").arg(keys.open()).arg(WEIGHED);
        let (groups, some): (u64, Vec<Vec<u8>>) = self.main.call(Request::Pipeline(&pipeline)).await?;
        let some: Vec<String> =
            some.iter().filter_map(|group| Some(keys.group(Digest(group.as_slice().try_into().ok()?)))).collect();
        let weighed = self.weigh(&some).await?;
        let outcomes = u128::from(weighed) * u128::from(groups) / (some.len() as u128).max(1);
        let plan = [keys.jobs(), keys.open(), keys.unsettled(), keys.stats(), keys.best(), keys.pins()];
        let shelves: Vec<String> = shelf::of_session(session).iter().map(|shelf| keys::shelf(shelf)).collect();
        Ok(SessionSize {
            outcomes: u64::try_from(outcomes).unwrap_or(u64::MAX),
            plan: self.weigh(&plan).await?,
            records: self.weigh(&shelves).await?,
        })
    }

    /// Bytes of all of `keys`, as the server estimates them.
    async fn weigh(&self, keys: &[String]) -> Result<u64, StoreError> {
        if keys.is_empty() {
            return Ok(0);
        }
        let mut pipeline = redis::pipe();
        for key in keys {
            pipeline.cmd("MEMORY").arg("USAGE").arg(key);
        }
        let sizes: Vec<Option<u64>> = self.main.call(Request::Pipeline(&pipeline)).await?;
        Ok(sizes.into_iter().flatten().sum())
    }

    /// Groups are known by the hash of open jobs, which therefore goes after their outcomes, and the session last.
    pub(super) async fn remove_all_of(&self, session: &SessionName) -> Result<(), StoreError> {
        let keys = SessionKeys(session);
        let groups: Vec<GroupId> = self.groups_with(session, |_| true).await?;
        for chunk in groups.chunks(REMOVED) {
            self.unlink(chunk.iter().map(|group| keys.group(*group)).collect()).await?;
        }
        self.unlink(shelf::of_session(session).iter().map(|shelf| keys::shelf(shelf)).collect()).await?;
        let rest = [keys.jobs(), keys.open(), keys.unsettled(), keys.stats(), keys.best(), keys.pins()];
        self.unlink(rest.to_vec()).await?;
        self.writes().write(Request::Command(cmd("HDEL").arg(keys::SESSIONS).arg(session.as_str()))).await
    }

    async fn unlink(&self, keys: Vec<String>) -> Result<(), StoreError> {
        self.writes().write(Request::Command(cmd("UNLINK").arg(keys))).await
    }
}
