//! Planned jobs and their outcomes.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use redis::cmd;

use crate::redis::keys::SessionKeys;
use crate::redis::link::Request;
use crate::redis::{RedisStore, corrupt, decode, query, scripts};
use crate::tally::{best_ms, tally};
use bluefin_common::digest::Digest;
use bluefin_common::job::{GroupId, JobId};
use bluefin_common::outcome::Outcome;
use bluefin_common::session::SessionName;
use bluefin_common::store::{JobState, Planned, Progress, StoreError, Stored};
use bluefin_common::wire;

/// Jobs in one script call, which holds up the server for a few milliseconds.
const PLAN_BATCH: usize = 500;

/// Groups whose outcomes are read in one go.
const READ_GROUPS: usize = 64;
/// Reads under way at once, so that one decodes while the next travels.
const READS: usize = 3;
/// Groups that one step of a scan asks for.
const SCAN: usize = 5_000;

/// Fields of a hash, and their values.
type Fields = Vec<(Vec<u8>, Vec<u8>)>;

impl RedisStore {
    pub(super) async fn plan_jobs(&self, session: &SessionName, jobs: &[Planned]) -> Result<Vec<JobState>, StoreError> {
        let mut states = Vec::with_capacity(jobs.len());
        for batch in jobs.chunks(PLAN_BATCH) {
            let of_batch = self.plan_batch(SessionKeys(session), batch).await?;
            if of_batch.len() != batch.len() {
                let reason = format!("plan: found {} states, expected {}", of_batch.len(), batch.len());
                return Err(self.main.unavailable(reason));
            }
            states.extend(of_batch.into_iter().map(|state| match state {
                0 => JobState::Planned,
                1 => JobState::Enqueued,
                _ => JobState::Done,
            }));
        }
        Ok(states)
    }

    async fn plan_batch(&self, keys: SessionKeys<'_>, batch: &[Planned]) -> Result<Vec<u8>, StoreError> {
        let mut names = vec![keys.jobs(), keys.open(), keys.unsettled(), keys.stats()];
        let mut groups = Vec::new();
        let mut index = HashMap::new();
        for job in batch {
            index.entry(job.group).or_insert_with(|| {
                groups.push(job.group);
                names.push(keys.group(job.group));
                groups.len()
            });
        }
        let script = &self.scripts.plan;
        let mut command = scripts::invoke(script, &names);
        for group in &groups {
            command.arg(&group.0);
        }
        for job in batch {
            command.arg(&job.id.0).arg(index.get(&job.group)).arg(job.stage.name());
        }
        self.writes().write(Request::Script(script, &command)).await
    }

    pub(super) async fn mark_enqueued(&self, session: &SessionName, jobs: &[JobId]) -> Result<(), StoreError> {
        let script = &self.scripts.enqueued;
        for batch in jobs.chunks(PLAN_BATCH) {
            let mut command = scripts::invoke(script, &[SessionKeys(session).jobs()]);
            for job in batch {
                command.arg(&job.0);
            }
            let () = self.writes().write(Request::Script(script, &command)).await?;
        }
        Ok(())
    }

    /// `is_last`: no job follows from it.
    pub(super) async fn store_outcome(&self, outcome: &Outcome, is_last: bool) -> Result<Stored, StoreError> {
        let job = Planned::of(&outcome.job);
        let keys = SessionKeys(&outcome.job.session);
        let names = [keys.jobs(), keys.open(), keys.unsettled(), keys.stats(), keys.best(), keys.group(job.group)];
        let bytes = wire::encode(outcome).map_err(|source| corrupt(&format!("outcome {}", job.id), source))?;
        let script = &self.scripts.put_outcome;
        let mut command = scripts::invoke(script, &names);
        command.arg(&job.id.0).arg(&job.group.0).arg(job.stage.name()).arg(bytes);
        // The shortest text that reads back as the same number.
        command.arg(best_ms(outcome).map_or_else(String::new, |best| best.to_string())).arg(u8::from(is_last));
        for ((kind, name), count) in tally(outcome) {
            command.arg(format!("{kind}:{name}")).arg(count);
        }
        let (first, open): (bool, u64) = self.writes_of(job.id).write(Request::Script(script, &command)).await?;
        Ok(Stored { first, open, settled: is_last && open == 0 })
    }

    pub(super) async fn take_back(&self, outcome: &Outcome) -> Result<bool, StoreError> {
        let job = Planned::of(&outcome.job);
        let keys = SessionKeys(&outcome.job.session);
        let names = [keys.jobs(), keys.open(), keys.unsettled(), keys.stats(), keys.group(job.group)];
        let script = &self.scripts.retract_outcome;
        let mut command = scripts::invoke(script, &names);
        command.arg(&job.id.0).arg(&job.group.0).arg(job.stage.name());
        for ((kind, name), count) in tally(outcome) {
            command.arg(format!("{kind}:{name}")).arg(count);
        }
        self.writes_of(job.id).write(Request::Script(script, &command)).await
    }

    pub(super) async fn replace_outcomes(&self, outcomes: &[Outcome]) -> Result<(), StoreError> {
        let script = &self.scripts.rewrite_outcome;
        for outcome in outcomes {
            let job = Planned::of(&outcome.job);
            let bytes = wire::encode(outcome).map_err(|source| corrupt(&format!("outcome {}", job.id), source))?;
            let mut command = scripts::invoke(script, &[SessionKeys(&outcome.job.session).group(job.group)]);
            command.arg(&job.id.0).arg(bytes);
            let () = self.writes_of(job.id).write(Request::Script(script, &command)).await?;
        }
        Ok(())
    }

    /// Those of the groups of `session` whose count of open jobs is `wanted`.
    pub(super) async fn groups_with(
        &self,
        session: &SessionName,
        wanted: impl Fn(i64) -> bool,
    ) -> Result<Vec<GroupId>, StoreError> {
        let open = SessionKeys(session).open();
        // A scan may name a group twice when the hash grows meanwhile.
        let mut groups = HashSet::new();
        let mut cursor: u64 = 0;
        loop {
            let (next, found): (u64, Vec<(Vec<u8>, i64)>) =
                query(&self.main, cmd("HSCAN").arg(&open).arg(cursor).arg("COUNT").arg(SCAN)).await?;
            for (group, _) in found.into_iter().filter(|(_, count)| wanted(*count)) {
                groups.insert(digest_of(&open, &group)?);
            }
            if next == 0 {
                return Ok(groups.into_iter().collect());
            }
            cursor = next;
        }
    }

    pub(super) async fn all_planned(&self, session: &SessionName) -> Result<Vec<(JobId, bool)>, StoreError> {
        let jobs = SessionKeys(session).jobs();
        // Each once, however often a scan names it.
        let mut planned = HashMap::new();
        let mut cursor: u64 = 0;
        loop {
            let (next, found): (u64, Fields) =
                query(&self.main, cmd("HSCAN").arg(&jobs).arg(cursor).arg("COUNT").arg(SCAN)).await?;
            for (id, state) in found {
                planned.insert(digest_of(&jobs, &id)?, state == b"e");
            }
            if next == 0 {
                return Ok(planned.into_iter().collect());
            }
            cursor = next;
        }
    }

    pub(super) async fn outcomes_of(
        &self,
        session: &SessionName,
        groups: &[GroupId],
    ) -> Result<Vec<Outcome>, StoreError> {
        let reads: Vec<_> = groups.chunks(READ_GROUPS).map(|chunk| self.read_groups(session, chunk)).collect();
        stream::iter(reads).buffered(READS).try_concat().await
    }

    async fn read_groups(&self, session: &SessionName, groups: &[GroupId]) -> Result<Vec<Outcome>, StoreError> {
        let keys: Vec<String> = groups.iter().map(|group| SessionKeys(session).group(*group)).collect();
        let mut pipeline = redis::pipe();
        for key in &keys {
            pipeline.hgetall(key);
        }
        let stored: Vec<Vec<(Bytes, Bytes)>> = self.blobs.call(Request::Pipeline(&pipeline)).await?;
        let decoding = tokio::task::spawn_blocking(move || {
            let mut outcomes = Vec::with_capacity(stored.iter().map(Vec::len).sum());
            for (key, mut group) in keys.into_iter().zip(stored) {
                group.sort_unstable();
                for (job, bytes) in group {
                    let job = digest_of(&key, &job)?;
                    outcomes.push(decode(&format!("{key} {job}"), &bytes)?);
                }
            }
            Ok(outcomes)
        });
        decoding.await.map_err(|error| self.blobs.unavailable(error.to_string()))?
    }

    pub(super) async fn progress_of(&self, session: &SessionName) -> Result<Progress, StoreError> {
        let keys = SessionKeys(session);
        let mut pipeline = redis::pipe();
        pipeline.atomic().hgetall(keys.stats()).scard(keys.unsettled()).hlen(keys.open());
        let (stats, unsettled_groups, groups): (BTreeMap<String, u64>, u64, u64) =
            self.main.call(Request::Pipeline(&pipeline)).await?;
        let mut progress = Progress { unsettled_groups, groups, ..Progress::default() };
        for (name, count) in stats {
            match name.split_once(':') {
                Some(("planned", stage)) => progress.planned.insert(stage.to_string(), count),
                Some(("done", stage)) => progress.done.insert(stage.to_string(), count),
                Some(("candidates", result)) => progress.candidates.insert(result.to_string(), count),
                Some(("busy", stage)) => progress.busy_ms.insert(stage.to_string(), count),
                _ => None,
            };
        }
        Ok(progress)
    }
}

fn digest_of(key: &str, bytes: &[u8]) -> Result<Digest, StoreError> {
    bytes.try_into().map(Digest).map_err(|_| {
        let found = bytes.len();
        corrupt(key, wire::WireError::Size { expected: "digest of 32 bytes", found })
    })
}
