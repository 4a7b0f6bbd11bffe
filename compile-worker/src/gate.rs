//! Back-pressure, of each evaluation queue by itself: closed while its evaluation falls behind, or while the artifact cache has
//! no room for what waits for it. A device class that nobody serves stops compiling for no other.
//!
//! A cache that refuses what does not fit has no room when it is nearly full, for nobody. One that evicts is always nearly full,
//! and well as long as what it drops is old. That it drops what is still needed shows when jobs come back because their
//! artifacts were gone: then nothing more is compiled for their queue until all that waits there is done with, and what came
//! back has the cache for itself.

use std::collections::BTreeMap;
use std::time::Duration;

use bluefin_common::broker::Broker;
use bluefin_common::store::{Fullness, Store};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// Between two looks at queues and cache.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Closed above, open again below: without a gap it would flap.
const FULL: f64 = 0.90;
const ROOMY: f64 = 0.80;

/// Lets deliveries through while there is room for what they become.
pub(crate) struct Gate {
    high_water: u64,
    state: watch::Sender<State>,
    /// Somebody wants to know at once.
    look: Notify,
    metrics: Metrics,
}

#[derive(Default)]
struct State {
    /// Evaluation queues that this worker feeds.
    queues: BTreeMap<String, Passage>,
    cache_is_full: bool,
}

/// The way into one evaluation queue.
#[derive(Clone, Copy, Default)]
struct Passage {
    /// Messages in it, when it was looked at.
    depth: u64,
    /// What this worker has added since.
    published: u64,
    /// Jobs that came back since.
    came_back: u64,
    /// More wait than should.
    behind: bool,
    /// The cache drops what still waits.
    overrun: bool,
    /// In the log.
    said_closed: bool,
}

impl Passage {
    fn is_open(&self) -> bool {
        !self.behind && !self.overrun
    }
}

impl State {
    fn is_open(&self, queue: &str) -> bool {
        !self.cache_is_full && self.queues.get(queue).is_none_or(Passage::is_open)
    }
}

impl Gate {
    pub(crate) fn new(high_water: u64, metrics: Metrics) -> Self {
        Self { high_water, state: watch::Sender::default(), look: Notify::new(), metrics }
    }

    /// Watches `queue` from now on.
    pub(crate) fn watch(&self, queue: &str) {
        self.change(queue, |_| {});
    }

    /// A job that waited in `queue` was sent back because its artifacts were gone.
    pub(crate) fn came_back(&self, queue: &str) {
        self.change(queue, |passage| passage.came_back += 1);
    }

    /// Another job is in `queue`. Who compiles fast would be far beyond before the next look, so that it is closed, and looked
    /// at, when as many were added as there was room for.
    pub(crate) fn published(&self, queue: &str) {
        self.change(queue, |passage| {
            passage.published += 1;
            if !passage.behind && passage.depth + passage.published > self.high_water {
                passage.behind = true;
                self.look.notify_one();
            }
        });
    }

    /// Waits until there is room for what becomes of a job that is evaluated in `queue`.
    pub(crate) async fn opened(&self, queue: &str) {
        // The sender lives as long as this.
        let _ = self.state.subscribe().wait_for(|state| state.is_open(queue)).await;
    }

    /// Waits until there is none.
    pub(crate) async fn closed(&self, queue: &str) {
        let _ = self.state.subscribe().wait_for(|state| !state.is_open(queue)).await;
    }

    /// Looks every second, or when asked to, until `stop`.
    pub(crate) async fn run(&self, broker: &dyn Broker, store: &dyn Store, stop: &CancellationToken) {
        // In time, or when asked to: either way it is time to look.
        while stop.run_until_cancelled(timeout(LOOK_EVERY, self.look.notified())).await.is_some() {
            self.look(broker, store).await;
        }
    }

    async fn look(&self, broker: &dyn Broker, store: &dyn Store) {
        self.metrics.pipeline.set_reconnects(broker.reconnects(), store.reconnects());
        let queues: Vec<(String, Passage)> =
            self.state.borrow().queues.iter().map(|(name, passage)| (name.clone(), *passage)).collect();
        for (queue, before) in queues {
            // Who cannot be asked is neither full nor roomy: the gate stays as it is.
            let Ok(depth) = broker.depth(&queue).await else { continue };
            self.metrics.pipeline.set_queue_depth(&queue, depth);
            self.change(&queue, |passage| {
                passage.looked_at(before, depth, self.high_water);
                passage.say(&queue, self.high_water);
            });
        }
        let Ok(fullness) = store.fullness().await else { return };
        self.metrics.pipeline.set_cache_fullness(fullness.ratio);
        self.state.send_if_modified(|state| {
            let was_full = state.cache_is_full;
            state.cache_is_full = is_full(was_full, fullness);
            if state.cache_is_full == was_full {
                return false;
            }
            if was_full {
                tracing::info!(fullness = fullness.ratio, "the artifact cache has room again");
            } else {
                tracing::warn!(fullness = fullness.ratio, "paused: the artifact cache has no room");
            }
            for queue in state.queues.keys() {
                self.metrics.set_paused(queue, !state.is_open(queue));
            }
            true
        });
    }

    fn change(&self, queue: &str, change: impl FnOnce(&mut Passage)) {
        self.state.send_if_modified(|state| {
            let is_new = !state.queues.contains_key(queue);
            if is_new {
                state.queues.insert(queue.to_string(), Passage::default());
            }
            let Some(passage) = state.queues.get_mut(queue) else { return false };
            let was_open = passage.is_open();
            change(passage);
            let is_open = passage.is_open();
            if is_new || is_open != was_open {
                self.metrics.set_paused(queue, !state.is_open(queue));
            }
            is_open != was_open
        });
    }
}

impl Passage {
    /// It has `depth` messages now, and was as it was `before` that was asked.
    fn looked_at(&mut self, before: Self, depth: u64, high_water: u64) {
        self.depth = depth;
        self.published = self.published.saturating_sub(before.published);
        self.overrun = (self.came_back > 0 || self.overrun) && depth > 0;
        self.came_back = 0;
        self.behind = if self.behind { depth > high_water / 4 * 3 } else { depth > high_water };
    }

    /// Says whether it is open, where that is news.
    fn say(&mut self, queue: &str, high_water: u64) {
        let Self { depth, overrun, behind, .. } = *self;
        if self.said_closed == self.is_open() {
            self.said_closed = !self.said_closed;
            if self.said_closed {
                tracing::warn!(
                    queue,
                    depth,
                    high_water,
                    behind,
                    overrun,
                    "paused: too much waits for evaluation, or is evicted before"
                );
            } else {
                tracing::info!(queue, depth, "compiling again");
            }
        }
    }
}

fn is_full(was_full: bool, fullness: Fullness) -> bool {
    !fullness.evicts && fullness.ratio > if was_full { ROOMY } else { FULL }
}

#[cfg(test)]
mod tests {
    use bluefin_adapters::embedded::EmbeddedBroker;
    use bluefin_adapters::sqlite::SqliteStore;
    use bluefin_common::metrics::PipelineMetrics;
    use prometheus::Registry;

    use super::*;

    const QUEUE: &str = "bluefin.eval.test";
    const OTHER: &str = "bluefin.eval.other";

    fn gate(high_water: u64) -> Gate {
        let registry = Registry::new();
        Gate::new(high_water, Metrics::register(&registry, PipelineMetrics::register(&registry).unwrap()).unwrap())
    }

    #[test]
    fn closes_above_and_opens_well_below() {
        let after = |behind, depth| {
            let mut passage = Passage { behind, ..Passage::default() };
            passage.looked_at(passage, depth, 100);
            !passage.behind
        };
        assert!(after(false, 100) && !after(false, 101));
        assert!(!after(true, 90) && after(true, 75));
        let refuses = |ratio| Fullness { ratio, evicts: false };
        assert!(!is_full(false, refuses(0.85)) && is_full(false, refuses(0.95)));
        assert!(is_full(true, refuses(0.85)) && !is_full(true, refuses(0.5)));
        let full = Fullness { ratio: 1.02, evicts: true };
        assert!(!is_full(true, full) && !is_full(false, full), "one that evicts may be full");
    }

    #[test]
    fn who_is_fast_does_not_get_far_between_two_looks() {
        let gate = gate(10);
        (0..10).for_each(|_| gate.published(QUEUE));
        assert!(gate.state.borrow().is_open(QUEUE));
        gate.published(QUEUE);
        assert!(!gate.state.borrow().is_open(QUEUE) && gate.state.borrow().is_open(OTHER));
    }

    #[tokio::test]
    async fn a_job_that_came_back_closes_its_queue_until_nothing_waits_there() {
        let (broker, store) = (EmbeddedBroker::new(), SqliteStore::in_memory().unwrap());
        let gate = gate(100);
        let look = async || {
            gate.look(&broker, &store).await;
            gate.state.borrow().is_open(QUEUE)
        };
        // Nothing waits that could be dropped, too.
        gate.came_back(QUEUE);
        assert!(look().await);
        broker.publish(QUEUE, "1", Default::default()).await.unwrap();
        assert!(look().await);
        gate.came_back(QUEUE);
        assert!(!look().await);
        assert!(!look().await && gate.state.borrow().is_open(OTHER));
        gate.closed(QUEUE).await;
        let mut consumer = broker.consume(QUEUE, 1).await.unwrap();
        consumer.next().await.unwrap().ack().await.unwrap();
        assert!(look().await);
        gate.opened(QUEUE).await;
    }
}
