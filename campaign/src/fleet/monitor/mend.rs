//! What a monitor does about sessions that nobody serves any more: it publishes their jobs again, and makes queues anew that are
//! there in name alone.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::known::known;
use bluefin_common::broker::{Broker, DEAD_QUEUE};
use bluefin_common::delivery::Passing as _;
use bluefin_common::session::{Session, SessionName};
use bluefin_common::store::Store;
use bluefin_producer::Metrics;
use bluefin_producer::enqueue::{Publish, Ways};
use bluefin_producer::plan::Planners;
use bluefin_producer::request::reconcile;
use prometheus::{IntCounter, Registry};

use super::Seen;

/// How long a worker may be at work on the last jobs of a session before they are taken for lost: MIOpen's longest search takes 3
/// hours.
const IN_HAND: Duration = Duration::from_secs(4 * 3600);

/// Publishes again what is lost of sessions, and makes queues anew.
pub struct Mender<'a> {
    broker: &'a dyn Broker,
    store: &'a dyn Store,
    planners: Planners,
    metrics: Metrics,
    mend_after: Duration,
    standstill: Standstill,
    renewal: Renewal,
}

impl<'a> Mender<'a> {
    /// Sessions that stand still for `mend_after` are mended, and queues that are silent for `renew_after`; zero: never.
    ///
    /// # Errors
    /// If the registry has such a counter already.
    pub fn new(
        (broker, store): (&'a dyn Broker, &'a dyn Store),
        (mend_after, renew_after): (Duration, Duration),
        registry: &Registry,
    ) -> prometheus::Result<Self> {
        let renewed = IntCounter::new(
            "bluefin_queues_renewed_total",
            "Queues that were there in name alone, and were deleted and declared again.",
        )?;
        registry.register(Box::new(renewed.clone()))?;
        Ok(Self {
            broker,
            store,
            planners: known().planners(),
            metrics: Metrics::register(&Registry::new())?,
            mend_after,
            standstill: Standstill::default(),
            renewal: Renewal::new(renew_after, renewed),
        })
    }

    /// Does what is to be done about what was `seen`.
    pub async fn mend(&mut self, seen: &[Seen]) {
        for session in self.standstill.longer_than(self.mend_after, seen) {
            self.publish_again(session, "stood still").await;
        }
        self.renewal.look(self.broker, seen, Instant::now()).await;
        if !self.renewal.owed.is_empty() {
            let mut all = true;
            for one in seen.iter().filter(|one| one.has_work_left && self.renewal.owes(one)) {
                all &= self.publish_again(&one.session, "its queue was made anew").await;
            }
            if all {
                self.renewal.owed.clear();
            }
        }
    }

    /// Publishes what `session` has open; whether that went well.
    async fn publish_again(&self, session: &Session, why: &str) -> bool {
        let Self { broker, store, metrics, .. } = self;
        let ways = Ways { store: *store, broker: *broker, metrics, publish: Publish::Unfinished };
        match reconcile(&ways, &self.planners, session).await {
            Ok(plans) => {
                let jobs: u64 = plans.iter().map(|plan| plan.enqueued).sum();
                tracing::warn!(session = %session.name, why, jobs, "open jobs are published again");
                true
            }
            Err(error) => {
                tracing::error!(session = %session.name, why, %error, "open jobs can not be published again");
                false
            }
        }
    }
}

/// Since when sessions stand still, and with how many outcomes.
#[derive(Default)]
struct Standstill(HashMap<SessionName, Still>);

#[derive(Clone, Copy)]
struct Still {
    outcomes: u64,
    since: Instant,
    /// How often it was mended since its last outcome: what does not help is tried less and less.
    mended: u32,
}

impl Standstill {
    /// The sessions that have stood still for longer than `limit`, each once in that time. None where it is zero.
    fn longer_than<'s>(&mut self, limit: Duration, seen: &'s [Seen]) -> Vec<&'s Session> {
        let now = Instant::now();
        let mut known = std::mem::take(&mut self.0);
        let mut stuck = Vec::new();
        for Seen { session, outcomes, in_hand, .. } in seen.iter().filter(|one| one.has_work_left && !one.waits) {
            let before = known.remove(&session.name).filter(|before| before.outcomes == *outcomes);
            let mut still = before.unwrap_or(Still { outcomes: *outcomes, since: now, mended: 0 });
            let limit = if *in_hand && !limit.is_zero() { limit.max(IN_HAND) } else { limit };
            let limit = limit.saturating_mul(2_u32.saturating_pow(still.mended));
            if !limit.is_zero() && now.duration_since(still.since) >= limit {
                still = Still { since: now, mended: still.mended + 1, ..still };
                stuck.push(session);
            }
            self.0.insert(session.name.clone(), still);
        }
        stuck
    }
}

/// Makes queues anew that are there in name alone: those of sessions that have had no new outcome for `limit`, if they are
/// [silent](Broker::silent) at two looks in a row that are `limit` apart. A queue that works gives its sessions outcomes, or answers.
struct Renewal {
    limit: Duration,
    /// Since when sessions have had as many outcomes.
    quiet: HashMap<SessionName, (u64, Instant)>,
    looked: Option<Instant>,
    /// Silent when they were asked last.
    suspects: BTreeSet<String>,
    /// Made anew, and what was in them is not published again yet.
    owed: BTreeSet<String>,
    renewed: IntCounter,
}

impl Renewal {
    fn new(limit: Duration, renewed: IntCounter) -> Self {
        let (quiet, looked) = (HashMap::new(), None);
        Self { limit, quiet, looked, suspects: BTreeSet::new(), owed: BTreeSet::new(), renewed }
    }

    async fn look(&mut self, broker: &dyn Broker, seen: &[Seen], now: Instant) {
        let queues = self.quiet_queues(seen, now);
        if queues.is_empty() {
            self.suspects.clear();
        }
        if queues.is_empty() || self.looked.is_some_and(|looked| now.duration_since(looked) < self.limit) {
            return;
        }
        self.looked = Some(now);
        let before = std::mem::take(&mut self.suspects);
        let silent = match broker.silent(&queues).await {
            Ok(silent) => silent,
            Err(error) => return tracing::warn!(%error, "queues can not be asked whether they work"),
        };
        for queue in silent {
            if before.contains(&queue) {
                self.renew(broker, queue).await;
            } else {
                tracing::warn!(queue, "does nothing that is asked of it, while other queues do");
                self.suspects.insert(queue);
            }
        }
    }

    /// The queues of sessions that have been quiet for long enough. None if the limit is zero.
    fn quiet_queues(&mut self, seen: &[Seen], now: Instant) -> Vec<String> {
        let mut known = std::mem::take(&mut self.quiet);
        let mut queues = BTreeSet::new();
        for one in seen.iter().filter(|one| one.has_work_left) {
            let before = known.remove(&one.session.name).filter(|(outcomes, _)| *outcomes == one.outcomes);
            let (outcomes, since) = before.unwrap_or((one.outcomes, now));
            self.quiet.insert(one.session.name.clone(), (outcomes, since));
            if !self.limit.is_zero() && now.duration_since(since) >= self.limit {
                queues.extend(one.queues.iter().cloned());
            }
        }
        queues.into_iter().collect()
    }

    async fn renew(&mut self, broker: &dyn Broker, queue: String) {
        let cure = format!("rabbitmqctl delete_queue {queue}");
        match broker.renew(&queue).await {
            Ok(()) => {
                tracing::error!(queue, "was there in name alone; deleted and declared again");
                self.renewed.inc();
            }
            Err(error) if error.is_refusal() => {
                return tracing::error!(queue, %error, cure, "is there in name alone, and not to be made anew");
            }
            // It may be gone.
            Err(error) => tracing::error!(queue, %error, cure, "is there in name alone, and could not be made anew"),
        }
        // What is dead has an outcome.
        if queue != DEAD_QUEUE {
            self.owed.insert(queue);
        }
    }

    /// Whether jobs of the session may have been in a queue that was made anew, or in that of a delay.
    fn owes(&self, seen: &Seen) -> bool {
        self.owed.iter().any(|renewed| seen.queues.iter().any(|queue| renewed.ends_with(queue.as_str())))
    }
}

#[cfg(test)]
mod tests;
