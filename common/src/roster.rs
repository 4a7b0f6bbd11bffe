//! The roster: every worker of a fleet says now and then who it is and what it does. It is for people and decides nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::clock::now_ms;
use crate::digest::Digest;
use crate::job::Job;
use crate::metrics::{Settled, Step};
use crate::session::SessionName;
use crate::shelf;
use crate::store::{Records, StoreError};
use crate::waiting::Waiting;

/// Between two entries of a worker.
pub const EVERY: Duration = Duration::from_secs(5);

/// A worker that was not heard of for so many of its intervals is gone: a late entry is no sign.
const MISSED: u64 = 4;
/// One that is gone stays on the roster for so long.
const KEEP_GONE: Duration = Duration::from_secs(24 * 3600);
/// One that ended in order.
const KEEP_ENDED: Duration = Duration::from_secs(3600);
/// Jobs that an entry names.
const DOING: usize = 64;
/// Remarks that an entry holds, the newest.
const REMARKS: usize = 16;
/// Jobs that an entry names as handed back, the newest.
const DELAYED: usize = 64;
/// Bytes of a remark.
const REMARK: usize = 300;

/// What a worker says of itself. Fields that another release does not know are empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// Its name in logs and outcomes.
    pub worker: String,
    /// `compile` or `eval`.
    pub step: String,
    /// The machine that it is on.
    pub host: String,
    /// Its process there.
    pub process: u32,
    /// Version of bluefin.
    pub release: String,
    /// Its toolchains, or its device.
    pub serves: Vec<String>,
    /// The queues that it takes jobs from.
    pub queues: BTreeSet<String>,
    /// Milliseconds since the Unix epoch when it began, and of this entry.
    pub begun_ms: u64,
    /// See there.
    pub seen_ms: u64,
    /// Milliseconds to the next entry.
    pub every_ms: u64,
    /// It has ended in order: there is no next entry.
    pub ended: bool,
    /// Why it takes nothing at the moment.
    pub waits: Option<String>,
    /// Why it takes nothing from some of its queues.
    pub held_up: BTreeMap<String, String>,
    /// Jobs in its hands, oldest first, of which it names some.
    pub doing: Vec<Doing>,
    /// How many those are.
    pub in_hand: u64,
    /// Deliveries settled since it began, by [`Settled::name`].
    pub settled: BTreeMap<String, u64>,
    /// Sessions that are pinned to something else than this worker has.
    pub refuses: Vec<Refusal>,
    /// What went wrong lately, oldest first.
    pub remarks: VecDeque<Remark>,
    /// Jobs that it handed back for a while, oldest first.
    pub delayed: VecDeque<Delayed>,
}

/// A job in the hands of a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doing {
    /// Its id.
    pub job: String,
    /// Its session.
    pub session: SessionName,
    /// Its problem, in short.
    pub problem: String,
    /// Digest of its problem.
    #[serde(default)]
    pub digest: Option<Digest>,
    /// Milliseconds since the Unix epoch when it was begun.
    pub since_ms: u64,
}

/// A session that a worker can not serve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The session.
    pub session: SessionName,
    /// What is pinned: `toolchain.cc`.
    pub pin: String,
    /// To what.
    pub pinned: String,
    /// What the worker has instead.
    pub offered: String,
}

/// Something that went wrong with a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    /// Id of the job.
    pub job: String,
    /// Milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// What went wrong.
    pub words: String,
}

/// A job that comes back to its queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delayed {
    /// Its id.
    pub job: String,
    /// When, in milliseconds since the Unix epoch.
    pub until_ms: u64,
}

/// Where a worker is, as its entry tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Whereabouts {
    /// It has jobs in hand.
    Working,
    /// It would take a job.
    Idle,
    /// It takes none: see [`Entry::waits`].
    Waiting,
    /// It was not heard of for four of its intervals, 20 seconds.
    Gone,
    /// It ended in order.
    Ended,
}

impl Whereabouts {
    /// In tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Idle => "idle",
            Self::Waiting => "waiting",
            Self::Gone => "not heard of",
            Self::Ended => "ended",
        }
    }

    /// Whether it takes part.
    #[must_use]
    pub fn is_here(self) -> bool {
        self < Self::Gone
    }
}

impl Entry {
    /// Where it is at `now_ms`.
    #[must_use]
    pub fn whereabouts(&self, now_ms: u64) -> Whereabouts {
        let unheard_ms = now_ms.saturating_sub(self.seen_ms);
        if self.ended {
            Whereabouts::Ended
        } else if unheard_ms > MISSED * self.every_ms.max(1000) {
            Whereabouts::Gone
        } else if self.waits.is_some() {
            Whereabouts::Waiting
        } else if self.in_hand > 0 {
            Whereabouts::Working
        } else {
            Whereabouts::Idle
        }
    }

    /// Whether nobody needs to know of it any more.
    fn is_stale(&self, now_ms: u64) -> bool {
        let keep = if self.ended { KEEP_ENDED } else { KEEP_GONE };
        u128::from(now_ms.saturating_sub(self.seen_ms)) > keep.as_millis()
    }

    /// What it is on the shelf under.
    fn key(&self) -> String {
        format!("{}/{}/{}/{}", self.host, self.process, self.step, self.serves.join(","))
    }
}

/// Everybody on the roster of `store`, those who are gone included, by name. An entry that can not be read, of a later release, is left out.
///
/// # Errors
/// If the store fails.
pub async fn read(store: &dyn Records) -> Result<Vec<Entry>, StoreError> {
    let records = store.records(shelf::WORKERS).await?;
    let mut entries: Vec<Entry> =
        records.iter().filter_map(|(_, record)| serde_json::from_slice(record).ok()).collect();
    let now = now_ms();
    entries.retain(|entry| !entry.is_stale(now));
    entries.sort_by(|a, b| (&a.step, &a.worker, &a.serves).cmp(&(&b.step, &b.worker, &b.serves)));
    Ok(entries)
}

/// Takes workers off the roster that are not to be remembered.
async fn sweep(store: &dyn Records) -> Result<(), StoreError> {
    let now = now_ms();
    let records = store.records(shelf::WORKERS).await?;
    let stale = |record: &[u8]| serde_json::from_slice::<Entry>(record).is_ok_and(|entry| entry.is_stale(now));
    let keys: Vec<String> = records.into_iter().filter(|(_, record)| stale(record)).map(|(key, _)| key).collect();
    if keys.is_empty() { Ok(()) } else { store.remove_records(shelf::WORKERS, &keys).await }
}

/// One worker's place on the roster. Clones share it. That of [`Default`] is of one that is on none, and keeps nothing.
#[derive(Clone, Debug, Default)]
pub struct Presence(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    every: Duration,
    waiting: Waiting,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// All but what is below and what changes by itself.
    entry: Entry,
    doing: HashMap<u64, Doing>,
    begun: u64,
}

impl Presence {
    /// A worker named `worker` that has `serves` for `step`, and says so every so often; it takes nothing while it is `waiting`.
    #[must_use]
    pub fn new(step: Step, worker: &str, serves: Vec<String>, every: Duration, waiting: &Waiting) -> Self {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let entry = Entry {
            worker: worker.to_string(),
            step: step.name().to_string(),
            host: host.trim().to_string(),
            process: std::process::id(),
            release: env!("CARGO_PKG_VERSION").to_string(),
            serves,
            begun_ms: now_ms(),
            every_ms: u64::try_from(every.as_millis()).unwrap_or(u64::MAX),
            ..Entry::default()
        };
        let state = Mutex::new(State { entry, ..State::default() });
        Self(Some(Arc::new(Inner { every, waiting: waiting.clone(), state })))
    }

    /// One that is in no list: what it does is seen by who shares it.
    #[must_use]
    pub fn unlisted(step: Step, waiting: &Waiting) -> Self {
        Self::new(step, "", Vec::new(), Duration::ZERO, waiting)
    }

    /// The jobs that it has in hand, oldest first.
    #[must_use]
    pub fn doing(&self) -> Vec<Doing> {
        self.entry(false).map(|entry| entry.doing).unwrap_or_default()
    }

    /// It takes jobs from `queue`.
    pub fn takes_from(&self, queue: &str) {
        if let Some(mut state) = self.state() {
            state.entry.queues.insert(queue.to_string());
        }
    }

    /// It takes nothing from `queue` for this reason; `None`: it does.
    pub fn held_up(&self, queue: &str, reason: Option<&str>) {
        if let Some(mut state) = self.state() {
            match reason {
                Some(reason) => state.entry.held_up.insert(queue.to_string(), reason.to_string()),
                None => state.entry.held_up.remove(queue),
            };
        }
    }

    /// It works on `job` until the guard is dropped.
    #[must_use]
    pub fn works_on(&self, job: &Job) -> AtWorkOn {
        let key = self.state().map(|mut state| {
            let doing = Doing {
                job: job.id().to_string(),
                session: job.session.clone(),
                problem: job.problem.label(),
                digest: Some(job.problem.digest()),
                since_ms: now_ms(),
            };
            state.begun += 1;
            let key = state.begun;
            state.doing.insert(key, doing);
            key
        });
        AtWorkOn { presence: self.clone(), key }
    }

    /// It settled a delivery.
    pub fn settled(&self, settled: Settled) {
        if let Some(mut state) = self.state() {
            *state.entry.settled.entry(settled.name().to_string()).or_default() += 1;
        }
    }

    /// Something went wrong with the job of this id.
    pub fn remark(&self, job: &str, words: &str) {
        if let Some(mut state) = self.state() {
            let words = words.get(..words.floor_char_boundary(REMARK)).unwrap_or_default().to_string();
            let remarks = &mut state.entry.remarks;
            if remarks.len() >= REMARKS {
                remarks.pop_front();
            }
            remarks.push_back(Remark { job: job.to_string(), at_ms: now_ms(), words });
        }
    }

    /// It handed the job of this id back for so long.
    pub fn handed_back(&self, job: &str, delay: Duration) {
        let Some(mut state) = self.state().filter(|_| !delay.is_zero()) else { return };
        let delayed = &mut state.entry.delayed;
        if delayed.len() >= DELAYED {
            delayed.pop_front();
        }
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        delayed.push_back(Delayed { job: job.to_string(), until_ms: now_ms().saturating_add(delay_ms) });
    }

    /// It can not serve a session.
    pub fn refuses(&self, refusal: Refusal) {
        if let Some(mut state) = self.state() {
            let refuses = &mut state.entry.refuses;
            refuses.retain(|one| (&one.session, &one.pin) != (&refusal.session, &refusal.pin));
            if refuses.len() >= REMARKS {
                refuses.remove(0);
            }
            refuses.push(refusal);
        }
    }

    /// It can serve a session that it could not.
    pub fn serves(&self, session: &SessionName, pin: &str) {
        if let Some(mut state) = self.state() {
            state.entry.refuses.retain(|one| one.session != *session || one.pin != pin);
        }
    }

    /// Says who is here, now and then, until `stop`; then that it has ended. A store that is away misses some.
    pub async fn keep(&self, store: &dyn Records, stop: &CancellationToken) {
        let Some(inner) = self.0.as_ref().filter(|inner| !inner.every.is_zero()) else { return };
        if let Err(error) = sweep(store).await {
            tracing::debug!(%error, "the roster is not swept");
        }
        loop {
            self.enter(store, false).await;
            if stop.run_until_cancelled(sleep(inner.every)).await.is_none() {
                break;
            }
        }
        self.enter(store, true).await;
    }

    async fn enter(&self, store: &dyn Records, ended: bool) {
        let Some(entry) = self.entry(ended) else { return };
        let record = match serde_json::to_vec(&entry) {
            Ok(bytes) => [(entry.key(), bytes)],
            Err(error) => return tracing::debug!(%error, "not on the roster"),
        };
        if let Err(error) = store.put_records(shelf::WORKERS, &record).await {
            tracing::debug!(%error, "not on the roster");
        }
    }

    fn entry(&self, ended: bool) -> Option<Entry> {
        let waits = self.0.as_ref()?.waiting.reason();
        let state = self.state()?;
        let mut doing: Vec<Doing> = state.doing.values().cloned().collect();
        doing.sort_by_key(|doing| doing.since_ms);
        let in_hand = doing.len() as u64;
        doing.truncate(DOING);
        Some(Entry { seen_ms: now_ms(), ended, waits, doing, in_hand, ..state.entry.clone() })
    }

    fn state(&self) -> Option<MutexGuard<'_, State>> {
        Some(self.0.as_ref()?.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A job that a worker has in hand.
#[derive(Debug)]
pub struct AtWorkOn {
    presence: Presence,
    key: Option<u64>,
}

impl Drop for AtWorkOn {
    fn drop(&mut self) {
        if let (Some(mut state), Some(key)) = (self.presence.state(), self.key) {
            state.doing.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waiting::On;

    fn presence(waiting: &Waiting) -> Presence {
        Presence::new(Step::Eval, "gpu-7", vec!["gfx90a".into()], EVERY, waiting)
    }

    #[test]
    fn it_is_where_its_last_entry_says() {
        let waiting = Waiting::default();
        let presence = presence(&waiting);
        let now = |ended| presence.entry(ended).unwrap();
        let at = now(false);
        assert_eq!(at.whereabouts(at.seen_ms), Whereabouts::Idle);
        assert_eq!(at.whereabouts(at.seen_ms + 20_000), Whereabouts::Idle);
        assert_eq!(at.whereabouts(at.seen_ms + 20_001), Whereabouts::Gone);
        let guard = waiting.on(On::Store, "away");
        assert_eq!(now(false).whereabouts(at.seen_ms), Whereabouts::Waiting);
        assert_eq!(now(false).waits.unwrap(), "waiting for the store: away");
        drop(guard);
        assert_eq!(now(true).whereabouts(at.seen_ms), Whereabouts::Ended);
        assert!(!at.is_stale(at.seen_ms + 86_400_000) && at.is_stale(at.seen_ms + 86_400_001));
        assert!(now(true).is_stale(now(true).seen_ms + 3_600_001));
    }

    #[test]
    fn what_it_keeps_is_bounded() {
        let presence = presence(&Waiting::default());
        for number in 0..100 {
            presence.remark("ab", &format!("{number}: {}", "ä".repeat(400)));
            presence.refuses(Refusal {
                session: format!("s{}", number % 40).parse().unwrap(),
                pin: "toolchain.cc".into(),
                pinned: "1".into(),
                offered: "2".into(),
            });
            presence.settled(Settled::Done);
            presence.handed_back("ab", Duration::from_secs(number));
        }
        let entry = presence.entry(false).unwrap();
        assert_eq!((entry.remarks.len(), entry.refuses.len(), entry.settled["done"]), (REMARKS, REMARKS, 100));
        assert!(entry.remarks.iter().all(|remark| remark.words.len() <= REMARK));
        assert!(entry.delayed.len() == DELAYED && entry.delayed[63].until_ms >= entry.seen_ms + 90_000);
        assert!(entry.remarks[15].words.starts_with("99: "));
    }

    #[test]
    fn entries_of_other_releases_are_read() {
        let entry: Entry = serde_json::from_str(r#"{"worker": "a", "seen_ms": 5, "tomorrow": [1]}"#).unwrap();
        assert_eq!((entry.worker.as_str(), entry.seen_ms, entry.in_hand), ("a", 5, 0));
    }
}
