//! What a session takes up, and how it goes as a whole.

use redis::cmd;

use crate::redis::RedisStore;
use crate::redis::keys::{self, SessionKeys};
use crate::redis::link::Request;
use crate::redis::work::Scan;
use bluefin_common::session::SessionName;
use bluefin_common::shelf;
use bluefin_common::store::{SessionSize, StoreError};

/// Groups whose outcomes are weighed, and hashes of a plan; the others are taken to be like them.
const WEIGHED: usize = 500;
/// Keys that one command removes.
const REMOVED: usize = 500;

impl RedisStore {
    pub(super) async fn size_of(&self, session: &SessionName) -> Result<SessionSize, StoreError> {
        let keys = SessionKeys(session);
        let groups = self.progress_of(session).await?.groups;
        let hashes = self.hashes(session).await?;
        let mut scan = Scan::begin(hashes.clone());
        let mut some = Vec::new();
        while some.len() < WEIGHED
            && let Some(entries) = scan.step(self).await?
        {
            some.extend(entries.groups.into_iter().map(|(group, _)| keys.group(group)));
        }
        some.truncate(WEIGHED);
        let shelves: Vec<String> = shelf::of_session(session).iter().map(|shelf| keys::shelf(shelf)).collect();
        let some_hashes = hashes.get(..WEIGHED).unwrap_or(&hashes);
        Ok(SessionSize {
            outcomes: scaled(self.weigh(&some).await?, some.len(), groups),
            plan: scaled(self.weigh(some_hashes).await?, some_hashes.len(), hashes.len() as u64)
                + self.weigh(&self.rest(session).await?).await?,
            records: self.weigh(&shelves).await?,
        })
    }

    /// What a session has once, but for its plan's hashes. What tells of those is the last.
    async fn rest(&self, session: &SessionName) -> Result<[String; 5], StoreError> {
        let keys = SessionKeys(session);
        let plan = keys.plan();
        Ok([keys.unsettled(), keys.stats(), keys.best(), keys.pins(), plan.buckets()])
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

    /// Groups are known by the plan, which therefore goes after their outcomes, and the session last.
    pub(super) async fn remove_all_of(&self, session: &SessionName) -> Result<(), StoreError> {
        let keys = SessionKeys(session);
        let groups: Vec<String> =
            self.groups_with(session, |_| true).await?.into_iter().map(|group| keys.group(group)).collect();
        let shelves: Vec<String> = shelf::of_session(session).iter().map(|shelf| keys::shelf(shelf)).collect();
        let (hashes, rest) = (self.hashes(session).await?, self.rest(session).await?);
        for keys in [&*groups, &shelves, &hashes, &rest] {
            for chunk in keys.chunks(REMOVED) {
                self.writes().write::<()>(Request::Command(cmd("UNLINK").arg(chunk))).await?;
            }
        }
        self.writes().write(Request::Command(cmd("HDEL").arg(keys::SESSIONS).arg(session.as_str()))).await
    }
}

/// The weight of `all`, of which `some` weigh as much as `weight`.
fn scaled(weight: u64, some: usize, all: u64) -> u64 {
    let scaled = u128::from(weight) * u128::from(all) / (some as u128).max(1);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
