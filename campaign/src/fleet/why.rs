//! Why a session does not move, how long it takes still, and what runs now: what queues and roster say of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bluefin_common::broker::{Broker, BrokerError, DEAD_QUEUE, DELAYS, delay_queue};
use bluefin_common::clock::now_ms;
use bluefin_common::job::eval_queue;
use bluefin_common::metrics::Settled;
use bluefin_common::roster::{self, Doing, Entry, Whereabouts};
use bluefin_common::session::Session;
use bluefin_common::spelled::human;
use bluefin_common::store::{Progress, Records};

use crate::fleet::queues::possible_queues;

/// Reasons of one kind that are named.
const NAMED: usize = 3;

/// What is known of a fleet now.
#[derive(Default)]
pub struct Fleet {
    /// Messages that wait, by queue; `None` without a broker that answers.
    pub depths: Option<BTreeMap<String, u64>>,
    /// Messages that come back to a queue, and within which time at most.
    pub delayed: BTreeMap<String, Vec<(Duration, u64)>>,
    /// `None` without a store that answers.
    pub roster: Option<Vec<Entry>>,
    /// Milliseconds since the Unix epoch.
    pub now_ms: u64,
}

impl Fleet {
    /// What concerns `session`.
    ///
    /// # Errors
    /// If broker or store fail.
    pub async fn look(
        broker: &dyn Broker,
        store: &dyn Records,
        session: &Session,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let mut depths = BTreeMap::new();
        for queue in queues_of(session) {
            depths.insert(queue.clone(), broker.depth(&queue).await?);
        }
        let roster = Some(roster::read(store).await?);
        let mut fleet = Self { depths: Some(depths), delayed: BTreeMap::new(), roster, now_ms: now_ms() };
        if fleet.misses_jobs(session, progress) {
            fleet.delayed = delayed(broker, queues_of(session)).await?;
        }
        Ok(fleet)
    }

    fn here(&self) -> impl Iterator<Item = (&Entry, Whereabouts)> + Clone {
        let entries = self.roster.iter().flatten();
        entries.map(|entry| (entry, entry.whereabouts(self.now_ms))).filter(|(_, whereabouts)| whereabouts.is_here())
    }

    fn takers<'a>(&'a self, queue: &'a str) -> impl Iterator<Item = (&'a Entry, Whereabouts)> + Clone {
        self.here().filter(move |(entry, _)| entry.queues.contains(queue))
    }

    /// Jobs of `session` that workers have in hand, as far as they name them.
    pub fn doing<'a>(&'a self, session: &'a Session) -> impl Iterator<Item = (&'a Entry, &'a Doing)> + Clone {
        let all = self.here().flat_map(|(entry, _)| entry.doing.iter().map(move |doing| (entry, doing)));
        all.filter(move |(_, doing)| doing.session == session.name)
    }

    /// Devices that take jobs of `session`.
    fn devices(&self, session: &Session) -> usize {
        let queue = eval_queue(&session.target, session.method);
        self.takers(&queue).filter(|(_, whereabouts)| *whereabouts != Whereabouts::Waiting).count()
    }

    /// What keeps `session` from moving; nothing where it moves, or has nothing left to do.
    pub fn why(&self, session: &Session, progress: &Progress) -> Vec<String> {
        if progress.is_settled() {
            return Vec::new();
        }
        let queues = &queues_of(session);
        let mut reasons = self.refusals(session);
        for queue in queues {
            let waiting = self.depths.as_ref().and_then(|depths| depths.get(queue)).copied().unwrap_or(0);
            if waiting > 0 && self.roster.is_some() {
                reasons.extend(self.held_up(queue, waiting));
            }
            for (within, count) in self.delayed.get(queue).into_iter().flatten().filter(|(_, count)| *count > 0) {
                reasons.push(format!("{count} jobs come back to {queue} within {}", human(*within)));
            }
        }
        let delayed = |queue| self.delayed.get(queue).is_some_and(|delays| delays.iter().any(|(_, count)| *count > 0));
        if self.misses_jobs(session, progress) && !queues.iter().any(delayed) {
            let (open, name) = (open(progress), &session.name);
            reasons.push(format!(
                "{open} open jobs are in no queue and in nobody's hands: bluefin reconcile --session {name}"
            ));
        }
        reasons
    }

    fn refusals(&self, session: &Session) -> Vec<String> {
        let refused = |(entry, _): (&Entry, Whereabouts)| {
            let one = entry.refuses.iter().find(|refusal| refusal.session == session.name)?;
            let (pinned, offered) = (one_line(&one.pinned), one_line(&one.offered));
            Some(format!("{} is refused: {} is pinned to {pinned}, it has {offered}", entry.worker, one.pin))
        };
        some(self.here().filter_map(refused).collect(), "workers are refused")
    }

    /// Why nothing of `queue` is taken.
    fn held_up(&self, queue: &str, waiting: u64) -> Option<String> {
        let mut takers = self.takers(queue);
        let Some((first, _)) = takers.clone().next() else {
            return Some(format!("{waiting} jobs wait in {queue}, and no worker takes from it"));
        };
        if takers.clone().all(|(entry, _)| entry.held_up.contains_key(queue)) {
            let reason = first.held_up.get(queue)?;
            return Some(format!("{waiting} jobs wait in {queue}: {reason}"));
        }
        let all_wait = takers.all(|(_, whereabouts)| whereabouts == Whereabouts::Waiting);
        let reason = first.waits.as_ref().filter(|_| all_wait)?;
        Some(format!("{waiting} jobs wait in {queue}, and whoever takes from it waits: {}: {reason}", first.worker))
    }

    /// Whether `session` has open jobs, none of which is in a queue or in somebody's hands, but maybe in a delay.
    pub fn misses_jobs(&self, session: &Session, progress: &Progress) -> bool {
        let (Some(depths), Some(_)) = (&self.depths, &self.roster) else { return false };
        let queues = queues_of(session);
        let waits = queues.iter().any(|queue| depths.get(queue).is_some_and(|waiting| *waiting > 0));
        let takes = |(entry, _): &(&Entry, Whereabouts)| !entry.queues.is_disjoint(&queues);
        let in_hand = self.here().filter(takes).any(|(entry, _)| entry.in_hand > 0);
        open(progress) > 0 && !waits && !in_hand
    }

    /// How long what is left takes its devices at least, as long as each job takes as long as those before did; `None` where
    /// that can not be said.
    pub fn left(&self, session: &Session, progress: &Progress) -> Option<Duration> {
        let (devices, done) = (self.devices(session), progress.done.values().sum::<u64>());
        let busy_ms: u64 = progress.busy_ms.values().sum();
        if progress.is_settled() || devices == 0 || done == 0 {
            return None;
        }
        let left_ms = busy_ms as f64 / done as f64 * left(progress) as f64 / devices as f64;
        // Jobs that overlap are busy at the same time, so that the pace at which they end says more.
        let at_pace = self.pace(session).map(|pace| left(progress) as f64 / pace);
        Some(Duration::from_secs_f64(at_pace.map_or(left_ms, |left| left.min(left_ms)) / 1000.0))
    }

    /// Jobs in a millisecond that those end who take jobs of `session`, since they began; `None` where none ended.
    fn pace(&self, session: &Session) -> Option<f64> {
        let queue = eval_queue(&session.target, session.method);
        let of_worker = |(entry, _): (&Entry, Whereabouts)| {
            let done = entry.settled.get(Settled::Done.name()).copied().unwrap_or(0);
            done as f64 / entry.seen_ms.saturating_sub(entry.begun_ms).max(1) as f64
        };
        Some(self.takers(&queue).map(of_worker).sum()).filter(|pace| *pace > 0.0)
    }
}

/// What comes back to each of `queues`, and within which time.
///
/// # Errors
/// If the broker fails.
pub async fn delayed(
    broker: &dyn Broker,
    queues: BTreeSet<String>,
) -> Result<BTreeMap<String, Vec<(Duration, u64)>>, BrokerError> {
    let mut delayed = BTreeMap::new();
    for queue in queues.into_iter().filter(|queue| queue != DEAD_QUEUE) {
        let mut waiting = Vec::new();
        for delay in DELAYS {
            waiting.push((delay, broker.depth(&delay_queue(&queue, delay)).await?));
        }
        delayed.insert(queue, waiting);
    }
    Ok(delayed)
}

/// The queues that its jobs may be in.
fn queues_of(session: &Session) -> BTreeSet<String> {
    let mut queues = possible_queues(session);
    queues.remove(DEAD_QUEUE);
    queues
}

/// Planned jobs without an outcome.
fn open(progress: &Progress) -> u64 {
    let (planned, done): (u64, u64) = (progress.planned.values().sum(), progress.done.values().sum());
    planned.saturating_sub(done)
}

/// The same, and those that follow when a group is through its perf stage.
fn left(progress: &Progress) -> u64 {
    open(progress).max(progress.unsettled_groups)
}

/// The first of `reasons`, and how many more there are of what they are.
fn some(mut reasons: Vec<String>, more: &str) -> Vec<String> {
    let count = reasons.len();
    reasons.truncate(NAMED);
    if count > NAMED {
        reasons.push(format!("{} more {more}", count - NAMED));
    }
    reasons
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use bluefin_common::method::Method;
    use bluefin_common::roster::Refusal;
    use bluefin_common::session::Stage;

    use super::*;

    const QUEUE: &str = "bluefin.eval.gfx90a-104";
    const NOW: u64 = 1_000_000;

    fn session() -> Session {
        let (name, target) = ("s".parse().unwrap(), "gfx90a-104".parse().unwrap());
        Session::of_kernels(name, target, "", &Stage::ALL, 0)
    }

    fn progress() -> Progress {
        let count = |count| BTreeMap::from([("perf".to_string(), count)]);
        Progress {
            planned: count(100),
            done: count(20),
            busy_ms: count(4000),
            unsettled_groups: 3,
            groups: 9,
            ..Progress::default()
        }
    }

    fn worker() -> Entry {
        let queues = BTreeSet::from([QUEUE.to_string()]);
        Entry { worker: "gpu-7".into(), queues, seen_ms: NOW, every_ms: 10_000, ..Entry::default() }
    }

    fn fleet(waiting: u64, roster: Vec<Entry>) -> Fleet {
        let depths = Some(BTreeMap::from([(QUEUE.to_string(), waiting)]));
        Fleet { depths, roster: Some(roster), now_ms: NOW, ..Fleet::default() }
    }

    fn why(fleet: &Fleet) -> Vec<String> {
        assert_eq!(Method::KERNELS, session().method);
        fleet.why(&session(), &progress())
    }

    #[test]
    fn a_queue_without_a_worker_is_named() {
        let reason = "5 jobs wait in bluefin.eval.gfx90a-104, and no worker takes from it";
        assert_eq!(why(&fleet(5, Vec::new())), [reason]);
        let gone = Entry { seen_ms: NOW - 90_000, ..worker() };
        assert_eq!(why(&fleet(5, vec![gone])), [reason]);
        assert!(why(&fleet(5, vec![worker()])).is_empty());
    }

    #[test]
    fn who_waits_and_who_is_refused_is_said() {
        let waits = Entry { waits: Some("waiting for the machine: disk full".into()), ..worker() };
        let said = why(&fleet(5, vec![waits.clone()]));
        assert!(
            said[0].ends_with("whoever takes from it waits: gpu-7: waiting for the machine: disk full"),
            "{said:?}"
        );
        assert!(why(&fleet(5, vec![waits, worker()])).is_empty());
        let (session, pin) = ("s".parse().unwrap(), "toolchain.cc".to_string());
        let refusal = Refusal { session, pin, pinned: "gcc 12\n-O2".into(), offered: "gcc 13".into() };
        let refused = Entry { refuses: vec![refusal], ..worker() };
        assert_eq!(
            why(&fleet(5, vec![refused.clone()])),
            ["gpu-7 is refused: toolchain.cc is pinned to gcc 12 -O2, it has gcc 13"]
        );
        assert_eq!(why(&fleet(5, vec![refused; 5])).last().unwrap(), "2 more workers are refused");
    }

    #[test]
    fn what_comes_back_and_what_is_lost_is_said() {
        let mut fleet = fleet(0, vec![worker()]);
        assert_eq!(why(&fleet), ["80 open jobs are in no queue and in nobody's hands: bluefin reconcile --session s"]);
        fleet.delayed = BTreeMap::from([(QUEUE.to_string(), vec![(Duration::from_secs(25), 7)])]);
        assert_eq!(why(&fleet), ["7 jobs come back to bluefin.eval.gfx90a-104 within 25s"]);
        fleet.delayed.clear();
        fleet.roster = Some(vec![Entry { in_hand: 1, ..worker() }]);
        assert!(why(&fleet).is_empty());
        fleet.depths = None;
        assert!(why(&fleet).is_empty(), "nothing is known of the queues");
    }

    #[test]
    fn what_is_left_is_shared_among_devices() {
        // 200 ms a job, 80 jobs.
        let left = |roster| fleet(5, roster).left(&session(), &progress());
        assert_eq!(left(vec![worker()]), Some(Duration::from_secs(16)));
        assert_eq!(left(vec![worker(), worker()]), Some(Duration::from_secs(8)));
        assert_eq!(left(Vec::new()), None);
        // Four overlap: 20 ended in a second.
        let settled = BTreeMap::from([("done".to_string(), 20)]);
        assert_eq!(left(vec![Entry { begun_ms: NOW - 1000, settled, ..worker() }]), Some(Duration::from_secs(4)));
    }
}
