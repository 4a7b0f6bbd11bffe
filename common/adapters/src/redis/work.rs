//! Planned jobs and their outcomes.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use indexmap::{IndexMap, IndexSet};
use redis::cmd;

use crate::redis::keys::{self, SessionKeys};
use crate::redis::link::Request;
use crate::redis::{RedisStore, corrupt, query, scripts};
use crate::tally::{best_ms, tally};
use bluefin_common::digest::Digest;
use bluefin_common::job::{GroupId, JobId};
use bluefin_common::outcome::Outcome;
use bluefin_common::session::SessionName;
use bluefin_common::store::{EncodedGroup, JobState, Planned, Progress, StoreError, Stored};
use bluefin_common::wire;

/// Jobs in one script call, which holds up the server for a few milliseconds.
const PLAN_BATCH: usize = 500;

/// Groups whose outcomes are read in one go.
const READ_GROUPS: usize = 64;
/// Reads under way at once, so that one travels while the next is read.
const READS: usize = 3;
/// Hashes of a plan that are scanned in one go, and entries that one step asks for of each.
const SCANS: usize = 256;
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
        let plan = keys.plan();
        // What is asked for and its bucket; Lua counts from one.
        let mut hashes = IndexMap::new();
        let mut numbered = |hash: String, id: Digest| hashes.insert_full(hash, keys::bucket(id)).0 + 1;
        let groups: IndexSet<GroupId> = batch.iter().map(|job| job.group).collect();
        let jobs: Vec<usize> = batch.iter().map(|job| numbered(plan.job(job.id), job.id)).collect();
        let open: Vec<usize> = groups.iter().map(|group| numbered(plan.open(*group), *group)).collect();
        let mut names = vec![keys.unsettled(), keys.stats(), plan.buckets()];
        names.extend(hashes.keys().cloned());
        names.extend(groups.iter().map(|group| keys.group(*group)));

        let script = &self.scripts.plan;
        let mut command = scripts::invoke(script, &names);
        command.arg(hashes.len()).arg(groups.len());
        for bucket in hashes.values() {
            command.arg(*bucket);
        }
        for (group, hash) in groups.iter().zip(open) {
            command.arg(&group.0).arg(hash).arg(keys::unsettled_name(group));
        }
        for (job, hash) in batch.iter().zip(jobs) {
            let group = groups.get_index_of(&job.group).map(|group| group + 1);
            command.arg(&job.id.0).arg(hash).arg(group).arg(job.stage.name());
        }
        self.writes().write(Request::Script(script, &command)).await
    }

    pub(super) async fn mark_enqueued(&self, session: &SessionName, jobs: &[JobId]) -> Result<(), StoreError> {
        let plan = SessionKeys(session).plan();
        let script = &self.scripts.enqueued;
        for batch in jobs.chunks(PLAN_BATCH) {
            let mut hashes = IndexSet::new();
            let numbers: Vec<usize> = batch.iter().map(|job| hashes.insert_full(plan.job(*job)).0 + 1).collect();
            let names: Vec<String> = hashes.into_iter().collect();
            let mut command = scripts::invoke(script, &names);
            for (job, hash) in batch.iter().zip(numbers) {
                command.arg(&job.0).arg(hash);
            }
            let () = self.writes().write(Request::Script(script, &command)).await?;
        }
        Ok(())
    }

    /// `is_last`: no job follows from it.
    pub(super) async fn store_outcome(&self, outcome: &Outcome, is_last: bool) -> Result<Stored, StoreError> {
        let job = Planned::of(&outcome.job);
        let keys = SessionKeys(&outcome.job.session);
        let plan = keys.plan();
        let names = [
            plan.job(job.id),
            plan.open(job.group),
            keys.unsettled(),
            keys.stats(),
            plan.buckets(),
            keys.best(),
            keys.group(job.group),
        ];
        let bytes = wire::encode(outcome).map_err(|source| corrupt(&format!("outcome {}", job.id), source))?;
        let script = &self.scripts.put_outcome;
        let mut command = scripts::invoke(script, &names);
        command.arg(&job.id.0).arg(&job.group.0).arg(job.stage.name()).arg(bytes);
        // The shortest text that reads back as the same number.
        command.arg(best_ms(outcome).map_or_else(String::new, |best| best.to_string())).arg(u8::from(is_last));
        command.arg(keys::unsettled_name(&job.group)).arg(keys::bucket(job.group));
        for ((kind, name), count) in tally(outcome) {
            command.arg(format!("{kind}:{name}")).arg(count);
        }
        let (first, open): (bool, u64) = self.writes_of(job.id).write(Request::Script(script, &command)).await?;
        Ok(Stored { first, open, settled: is_last && open == 0 })
    }

    /// `again`: its job is planned.
    pub(super) async fn take_back(&self, outcome: &Outcome, again: bool) -> Result<bool, StoreError> {
        let job = Planned::of(&outcome.job);
        let keys = SessionKeys(&outcome.job.session);
        let plan = keys.plan();
        let names = [
            plan.job(job.id),
            plan.open(job.group),
            keys.unsettled(),
            keys.stats(),
            plan.buckets(),
            keys.group(job.group),
        ];
        let script = &self.scripts.retract_outcome;
        let mut command = scripts::invoke(script, &names);
        command.arg(&job.id.0).arg(&job.group.0).arg(job.stage.name());
        command.arg(keys::unsettled_name(&job.group)).arg(keys::bucket(job.id)).arg(u8::from(again));
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
        wanted: impl Fn(u64) -> bool,
    ) -> Result<Vec<GroupId>, StoreError> {
        let mut scan = Scan::begin(self.hashes(session).await?);
        // A scan may name a group twice when a hash grows meanwhile.
        let mut groups = HashSet::new();
        while let Some(entries) = scan.step(self).await? {
            groups.extend(entries.groups.into_iter().filter(|(_, open)| wanted(*open)).map(|(group, _)| group));
        }
        Ok(groups.into_iter().collect())
    }

    pub(super) async fn all_planned(&self, session: &SessionName) -> Result<Vec<(JobId, bool)>, StoreError> {
        let mut scan = Scan::begin(self.hashes(session).await?);
        // Each once, however often a scan names it.
        let mut planned = HashMap::new();
        while let Some(entries) = scan.step(self).await? {
            planned.extend(entries.jobs);
        }
        Ok(planned.into_iter().collect())
    }

    /// All hashes of the plan of `session`.
    pub(super) async fn hashes(&self, session: &SessionName) -> Result<Vec<String>, StoreError> {
        let plan = SessionKeys(session).plan();
        let bitmap: Option<Vec<u8>> = query(&self.main, cmd("GET").arg(plan.buckets())).await?;
        Ok(plan.hashes(&bitmap.unwrap_or_default()))
    }

    pub(super) async fn outcomes_of(
        &self,
        session: &SessionName,
        groups: &[GroupId],
    ) -> Result<Vec<EncodedGroup>, StoreError> {
        let reads: Vec<_> = groups.chunks(READ_GROUPS).map(|chunk| self.read_groups(session, chunk)).collect();
        stream::iter(reads).buffered(READS).try_concat().await
    }

    async fn read_groups(&self, session: &SessionName, groups: &[GroupId]) -> Result<Vec<EncodedGroup>, StoreError> {
        let keys: Vec<String> = groups.iter().map(|group| SessionKeys(session).group(*group)).collect();
        let mut pipeline = redis::pipe();
        for key in &keys {
            pipeline.hgetall(key);
        }
        let stored: Vec<Vec<(Bytes, Bytes)>> = self.blobs.call(Request::Pipeline(&pipeline)).await?;
        let read = |((group, key), fields): ((&GroupId, &String), Vec<(Bytes, Bytes)>)| {
            let outcomes = fields.into_iter().map(|(job, bytes)| Ok((digest_of(key, &job)?, bytes)));
            let mut outcomes = outcomes.collect::<Result<Vec<_>, StoreError>>()?;
            outcomes.sort_unstable_by_key(|(job, _)| *job);
            Ok(EncodedGroup { group: *group, outcomes })
        };
        groups.iter().zip(&keys).zip(stored).map(read).collect()
    }

    pub(super) async fn progress_of(&self, session: &SessionName) -> Result<Progress, StoreError> {
        let keys = SessionKeys(session);
        let mut pipeline = redis::pipe();
        pipeline.atomic().hgetall(keys.stats()).scard(keys.unsettled());
        let (mut stats, unsettled_groups): (BTreeMap<String, u64>, u64) =
            self.main.call(Request::Pipeline(&pipeline)).await?;
        let groups = stats.remove("groups").unwrap_or(0);
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

/// What a step of a [`Scan`] found.
#[derive(Default)]
pub(super) struct Entries {
    /// Jobs without an outcome, and whether they were enqueued.
    pub jobs: Vec<(JobId, bool)>,
    /// Groups, and how many open jobs they have.
    pub groups: Vec<(GroupId, u64)>,
}

/// Reads hashes of a plan, some at a time. What is in them for all of that time is found, perhaps twice.
pub(super) struct Scan {
    /// Hashes that were not read to their end, and how far they were.
    left: Vec<(String, u64)>,
}

impl Scan {
    pub fn begin(hashes: Vec<String>) -> Self {
        Self { left: hashes.into_iter().map(|hash| (hash, 0)).collect() }
    }

    /// `None` when all was read.
    pub async fn step(&mut self, store: &RedisStore) -> Result<Option<Entries>, StoreError> {
        let read = self.left.split_off(self.left.len().saturating_sub(SCANS));
        if read.is_empty() {
            return Ok(None);
        }
        let mut pipeline = redis::pipe();
        for (hash, cursor) in &read {
            pipeline.cmd("HSCAN").arg(hash).arg(*cursor).arg("COUNT").arg(SCAN);
        }
        let found: Vec<(u64, Fields)> = store.main.call(Request::Pipeline(&pipeline)).await?;
        let mut entries = Entries::default();
        for ((hash, _), (cursor, fields)) in read.into_iter().zip(found) {
            for (id, value) in fields {
                let id = digest_of(&hash, &id)?;
                match value.as_slice() {
                    b"p" => entries.jobs.push((id, false)),
                    b"e" => entries.jobs.push((id, true)),
                    open => entries.groups.push((id, count_of(&hash, open)?)),
                }
            }
            if cursor != 0 {
                self.left.push((hash, cursor));
            }
        }
        Ok(Some(entries))
    }
}

fn count_of(key: &str, bytes: &[u8]) -> Result<u64, StoreError> {
    let text = std::str::from_utf8(bytes).ok();
    text.and_then(|text| text.parse().ok()).ok_or_else(|| {
        let (position, reason) = (0, format!("found {:?}, expected a count of jobs", String::from_utf8_lossy(bytes)));
        corrupt(key, wire::WireError::Body { expected: "open jobs of a group", position, reason })
    })
}

fn digest_of(key: &str, bytes: &[u8]) -> Result<Digest, StoreError> {
    bytes.try_into().map(Digest).map_err(|_| {
        let found = bytes.len();
        corrupt(key, wire::WireError::Size { expected: "digest of 32 bytes", found })
    })
}
