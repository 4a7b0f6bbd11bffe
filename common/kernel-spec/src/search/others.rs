//! What a round of a search is told of other problems of its session.
//!
//! Problems are tuned side by side, so what is known of the others is more at every moment. The worker that plans a round first writes down which
//! groups it was told of, and how far each was; a worker that plans it again is told the same.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bluefin_common::digest::Digest;
use bluefin_common::job::{GroupId, Job};
use bluefin_common::outcome::Outcome;
use bluefin_common::problem::Problem;
use bluefin_common::session::{SessionName, Stage};
use bluefin_common::shelf;
use bluefin_common::store::{Store, StoreError};
use bluefin_common::value::Value;
use bluefin_common::wire::{self, Message};
use serde::{Deserialize, Serialize};

use super::{Search, Variables};

/// Groups that a round is told of: the most alike. What a group like these teaches is worth more than what many others do, and each is
/// read with all of its outcomes.
pub const GROUPS: usize = 8;
/// How long a list of groups is not read again.
const FRESH: Duration = Duration::from_secs(2);

/// What a round is told of other problems.
#[derive(Clone, Debug)]
pub struct Others {
    /// The round that is told.
    pub round: u32,
    /// Of other groups with the same spec.
    pub outcomes: Vec<Outcome>,
}

/// The round behind the last one that a group has an outcome of.
#[must_use]
pub fn next_round(outcomes: &[Outcome]) -> u32 {
    let perf = outcomes.iter().filter(|outcome| outcome.job.stage == Stage::Perf);
    perf.map(|outcome| outcome.job.round.saturating_add(1)).max().unwrap_or(0)
}

/// A group that is searched, on the shelf of its session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Searched {
    pub problem: Problem,
    pub spec: Digest,
    /// How many of its rounds others are told of.
    pub rounds: u32,
}

impl Message for Searched {
    const KIND: u8 = 13;
    const VERSION: u8 = 1;
    const NAME: &'static str = "searched group";
}

/// What a round was told: groups, and how many rounds of each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Told(pub Vec<(GroupId, u32)>);

impl Message for Told {
    const KIND: u8 = 14;
    const VERSION: u8 = 1;
    const NAME: &'static str = "groups that a round was told of";
}

type Groups = Arc<Vec<(GroupId, Searched)>>;

/// The groups of sessions that are searched, as they were read last.
#[derive(Debug, Default)]
pub struct Neighbours {
    read: Mutex<HashMap<SessionName, (Instant, Groups)>>,
    /// A round that nobody has planned yet is told of nothing.
    only_read: bool,
}

impl Neighbours {
    /// Those that write nothing down: for verbs that look at what was planned.
    #[must_use]
    pub fn only_read() -> Self {
        Self { only_read: true, ..Self::default() }
    }

    /// What the rounds are told that may be under way in the group of `job`, `ahead` at a time, given its outcomes so far; nothing where `search`
    /// has no use for it.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn of(
        &self,
        search: &dyn Search,
        store: &dyn Store,
        job: &Job,
        outcomes: &[Outcome],
        ahead: u32,
    ) -> Result<Vec<Others>, StoreError> {
        // The first round is planned before anything is known.
        if !search.asks_others() || outcomes.is_empty() {
            return Ok(Vec::new());
        }
        let (next, ahead) = (next_round(outcomes), ahead.max(1));
        if !self.only_read {
            // Others are told of what does not change any more.
            self.note(store, job, next.saturating_sub(ahead - 1)).await?;
        }
        let mut rounds = Vec::new();
        for round in (next.saturating_sub(ahead)..next.saturating_add(ahead)).filter(|round| *round >= ahead) {
            rounds.push((round, self.told(store, job, round).await?));
        }
        read(store, &job.session, rounds).await
    }

    /// Has other groups told of so many rounds of that of `job`.
    async fn note(&self, store: &dyn Store, job: &Job, rounds: u32) -> Result<(), StoreError> {
        let searched = Searched { problem: job.problem.clone(), spec: job.spec, rounds };
        let record = encode(&searched, &job.session)?;
        store.put_records(&shelf::searched(&job.session), &[(job.group().to_string(), record)]).await
    }

    async fn told(&self, store: &dyn Store, job: &Job, round: u32) -> Result<Told, StoreError> {
        let (shelf, key) = (shelf::told(&job.session), format!("{}#{round}", job.group()));
        let found = store.records_of(&shelf, std::slice::from_ref(&key)).await?;
        if let Some(record) = found.into_iter().flatten().next() {
            return decode(&record, &job.session);
        }
        if self.only_read {
            return Ok(Told::default());
        }
        let groups = self.groups(store, &job.session).await?;
        let record = encode(&nearest(job, &groups), &job.session)?;
        decode(&store.claim_record(&shelf, &key, &record).await?, &job.session)
    }

    async fn groups(&self, store: &dyn Store, session: &SessionName) -> Result<Groups, StoreError> {
        let known = self.read.lock().unwrap_or_else(PoisonError::into_inner).get(session).cloned();
        if let Some((_, groups)) = known.filter(|(read, _)| read.elapsed() < FRESH) {
            return Ok(groups);
        }
        let mut groups = Vec::new();
        for (key, record) in store.records(&shelf::searched(session)).await? {
            // Of another release, or of nobody: nothing to begin from.
            if let (Ok(group), Ok(searched)) = (key.parse(), wire::decode(&record)) {
                groups.push((group, searched));
            }
        }
        let groups = Arc::new(groups);
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.retain(|_, (read, _)| read.elapsed() < FRESH);
        read.insert(session.clone(), (Instant::now(), Arc::clone(&groups)));
        Ok(groups)
    }
}

/// The groups that are most like that of `job`, those before others of which a round or less is known: that was begun before anything was.
fn nearest(job: &Job, groups: &[(GroupId, Searched)]) -> Told {
    let (own, variables) = (job.group(), job.problem.variables());
    let like = groups.iter().filter(|(group, searched)| *group != own && searched.spec == job.spec);
    let mut far: Vec<(bool, f64, GroupId, u32)> = like
        .map(|(group, Searched { problem, rounds, .. })| {
            (*rounds < 2, distance(&variables, &problem.variables()), *group, *rounds)
        })
        .collect();
    far.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
    Told(far.into_iter().take(GROUPS).map(|(_, _, group, rounds)| (group, rounds)).collect())
}

/// How unlike two problems are, before anything is known of either: doublings of each of their sizes, and two for whatever else differs.
#[must_use]
pub fn distance(a: &Variables, b: &Variables) -> f64 {
    let apart = |(name, one): (&String, &Value)| match b.get(name) {
        Some(two) if one == two => 0.0,
        Some(two) => doublings(one).zip(doublings(two)).map_or(2.0, |(one, two)| (one - two).abs()),
        None => 2.0,
    };
    a.iter().map(apart).sum()
}

/// The binary logarithm of a size; none of what is no size. Zero and one are told apart as well.
pub(super) fn doublings(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) if *number >= 0 => Some(libm::log2(*number as f64 + 1.0)),
        _ => None,
    }
}

/// What each of `rounds` is told. Most groups that one is told of are those of the round before: each is read once.
async fn read(store: &dyn Store, session: &SessionName, rounds: Vec<(u32, Told)>) -> Result<Vec<Others>, StoreError> {
    let groups: BTreeSet<GroupId> = rounds.iter().flat_map(|(_, Told(told))| told).map(|(group, _)| *group).collect();
    let groups: Vec<GroupId> = groups.into_iter().collect();
    let mut outcomes = if groups.is_empty() { Vec::new() } else { store.outcomes(session, &groups).await? };
    outcomes.retain(|outcome| outcome.job.stage == Stage::Perf);
    let others = rounds.into_iter().map(|(round, Told(told))| {
        let known: HashMap<GroupId, u32> = told.into_iter().collect();
        let is_told =
            |outcome: &&Outcome| known.get(&outcome.job.group()).is_some_and(|rounds| outcome.job.round < *rounds);
        Others { round, outcomes: outcomes.iter().filter(is_told).cloned().collect() }
    });
    Ok(others.collect())
}

fn encode<M: Message>(message: &M, session: &SessionName) -> Result<Vec<u8>, StoreError> {
    wire::encode(message).map_err(|source| corrupt::<M>(session, source))
}

fn decode<M: Message>(record: &[u8], session: &SessionName) -> Result<M, StoreError> {
    wire::decode(record).map_err(|source| corrupt::<M>(session, source))
}

fn corrupt<M: Message>(session: &SessionName, source: wire::WireError) -> StoreError {
    StoreError::Corrupt { key: format!("{} of session {session}", M::NAME), source }
}
