//! What a monitor sees of a fleet, also while there is no worker, and what it does about it.

mod mend;

use std::collections::{BTreeMap, BTreeSet};

use bluefin_common::broker::{Broker, DEAD_QUEUE};
use bluefin_common::clock::now_ms;
use bluefin_common::delivery::Passing as _;
use bluefin_common::roster::{self, Entry};
use bluefin_common::session::{Session, SessionName};
use bluefin_common::standing;
use bluefin_common::store::{Progress, Store, StoreError};
use bluefin_common::waiting::{On, Waiting};
use prometheus::{Gauge, GaugeVec, IntGaugeVec, Opts, Registry};

use crate::fleet::queues::{possible_queues, queue_names};

pub use mend::Mender;

/// Sessions with series of their own: those with work left, and the newest.
const SESSIONS: usize = 32;

/// What a look says of a session.
pub struct Seen {
    session: Session,
    outcomes: u64,
    /// Those that its jobs may be in, and that of dead letters.
    queues: BTreeSet<String>,
    has_work_left: bool,
    /// Work waits in one of its queues; what does not is in somebody's hands, or lost.
    waits: bool,
    /// A worker is at work on it, as far as the roster knows.
    in_hand: bool,
}

/// What waits and how far sessions are, as metrics.
pub struct Gauges {
    queue_depth: IntGaugeVec,
    open_jobs: IntGaugeVec,
    outcomes: IntGaugeVec,
    unsettled_groups: IntGaugeVec,
    cache_fullness: Gauge,
    waiting: GaugeVec,
}

impl Gauges {
    /// Registers all of them.
    ///
    /// # Errors
    /// If the registry has some already.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let gauges = |name: &str, help: &str, labels: &[&str]| {
            let gauges = IntGaugeVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(gauges.clone()))?;
            prometheus::Result::Ok(gauges)
        };
        let of_stage = ["session", "stage"];
        let gauges = Self {
            queue_depth: gauges("bluefin_queue_depth", "Messages that wait in a queue.", &["queue"])?,
            open_jobs: gauges("bluefin_session_open_jobs", "Planned jobs without an outcome.", &of_stage)?,
            outcomes: gauges("bluefin_session_outcomes", "Jobs with an outcome.", &of_stage)?,
            unsettled_groups: gauges("bluefin_session_unsettled_groups", "Groups with work left.", &["session"])?,
            cache_fullness: Gauge::new(
                "bluefin_cache_fullness_ratio",
                "Used memory of the artifact cache over its limit.",
            )?,
            waiting: GaugeVec::new(
                Opts::new("bluefin_waiting_seconds", "For how long broker or store have not answered."),
                &["on"],
            )?,
        };
        registry.register(Box::new(gauges.cache_fullness.clone()))?;
        registry.register(Box::new(gauges.waiting.clone()))?;
        Ok(gauges)
    }

    /// Sets them; what there is to see of each session.
    ///
    /// # Errors
    /// What does not answer, and why.
    pub async fn look(&self, broker: &dyn Broker, store: &dyn Store) -> Result<Vec<Seen>, (On, String)> {
        let of_store = |error: StoreError| (On::Store, error.to_string());
        let mut sessions = store.sessions().await.map_err(of_store)?;
        sessions.sort_by_key(|session| std::cmp::Reverse(session.created_ms));
        let mut of_sessions = Vec::new();
        self.open_jobs.reset();
        self.outcomes.reset();
        self.unsettled_groups.reset();
        for (age, session) in sessions.into_iter().enumerate() {
            let progress = store.progress(&session.name).await.map_err(of_store)?;
            if age < SESSIONS || !progress.is_settled() {
                self.set_progress(&session.name, &progress);
            }
            let pins = store.pins(&session.name).await.map_err(of_store)?;
            let queues = queue_names([(&session, &pins)]);
            of_sessions.push((session, progress, queues));
        }
        let mut depths = BTreeMap::new();
        for queue in of_sessions.iter().flat_map(|(.., queues)| queues).chain([&DEAD_QUEUE.to_string()]) {
            if !depths.contains_key(queue) {
                let depth = match broker.depth(queue).await {
                    // A queue that is not to be asked about says nothing of the others.
                    Err(error) if error.is_refusal() => {
                        tracing::error!(queue, %error, "no depth");
                        continue;
                    }
                    depth => depth.map_err(|error| (On::Broker, error.to_string()))?,
                };
                self.queue_depth.with_label_values(&[queue]).set(integer(depth));
                depths.insert(queue.clone(), depth);
            }
        }
        self.cache_fullness.set(store.fullness().await.map_err(of_store)?.ratio);
        let now_ms = now_ms();
        let roster = match roster::read(store).await {
            Ok(mut roster) => {
                roster.retain(|entry| entry.whereabouts(now_ms).is_here());
                Some(roster)
            }
            // A user of the release before may not read it: then anybody may be at work on anything.
            Err(StoreError::Refused { .. }) => None,
            Err(error) => return Err(of_store(error)),
        };
        let standings = standing::all(store).await.map_err(of_store)?;
        let waits = |queue: &String| queue != DEAD_QUEUE && depths.get(queue).is_some_and(|depth| *depth > 0);
        let seen = of_sessions.into_iter().map(|(session, progress, queues)| Seen {
            outcomes: progress.done.values().sum(),
            has_work_left: !progress.is_settled()
                && standings.get(&session.name).is_none_or(|standing| standing.runs()),
            waits: queues.iter().any(waits),
            in_hand: roster.as_ref().is_none_or(|all| all.iter().any(|entry| may_work_on(entry, &session.name))),
            queues: possible_queues(&session),
            session,
        });
        Ok(seen.collect())
    }

    fn set_progress(&self, session: &SessionName, progress: &Progress) {
        for (stage, planned) in &progress.planned {
            let done = progress.done.get(stage).copied().unwrap_or(0);
            let labels = [session.as_str(), stage.as_str()];
            self.outcomes.with_label_values(&labels).set(integer(done));
            self.open_jobs.with_label_values(&labels).set(integer(planned.saturating_sub(done)));
        }
        self.unsettled_groups.with_label_values(&[session.as_str()]).set(integer(progress.unsettled_groups));
    }

    /// For how long broker and store have not answered.
    pub fn set_waiting(&self, waiting: &Waiting) {
        for on in On::ALL {
            self.waiting.with_label_values(&[on.name()]).set(waiting.lasts(on).as_secs_f64());
        }
    }
}

/// Whether a worker has, or may have, a job of the session in hand: it does not name all that it has.
fn may_work_on(entry: &Entry, session: &SessionName) -> bool {
    entry.in_hand > entry.doing.len() as u64 || entry.doing.iter().any(|doing| doing.session == *session)
}

fn integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
