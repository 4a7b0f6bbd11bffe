//! Back-pressure: closed while evaluation falls behind, or while the artifact cache has no room for what waits for it.
//!
//! A cache that refuses what does not fit has no room when it is nearly full. One that evicts is always nearly full, and
//! well as long as what it drops is old. That it drops what is still needed shows when jobs come back because their
//! artifacts were gone: then nothing more is compiled until all that waits for evaluation is done with, and what came back
//! has the cache for itself.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bluefin_common::broker::Broker;
use bluefin_common::store::{Fullness, Store};
use tokio::sync::watch;
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
    /// Evaluation queues that this worker feeds.
    queues: Mutex<BTreeSet<String>>,
    open: watch::Sender<bool>,
    /// Jobs that came back since the last look.
    came_back: AtomicU64,
    /// The cache drops what still waits.
    overrun: AtomicBool,
}

impl Gate {
    pub(crate) fn new(high_water: u64) -> Self {
        Self {
            high_water,
            queues: Mutex::default(),
            open: watch::Sender::new(true),
            came_back: AtomicU64::new(0),
            overrun: AtomicBool::new(false),
        }
    }

    /// Watches `queue` from now on.
    pub(crate) fn watch(&self, queue: &str) {
        let mut queues = self.queues();
        if !queues.contains(queue) {
            queues.insert(queue.to_string());
        }
    }

    /// A job that waited in `queue` was sent back because its artifacts were gone.
    pub(crate) fn came_back(&self, queue: &str) {
        self.watch(queue);
        self.came_back.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until it is open.
    pub(crate) async fn passed(&self) {
        let mut open = self.open.subscribe();
        // The sender lives as long as this.
        let _ = open.wait_for(|open| *open).await;
    }

    /// Looks every second, until `stop`.
    pub(crate) async fn run(
        &self,
        broker: &dyn Broker,
        store: &dyn Store,
        metrics: &Metrics,
        stop: &CancellationToken,
    ) {
        while stop.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_some() {
            self.look(broker, store, metrics).await;
        }
    }

    async fn look(&self, broker: &dyn Broker, store: &dyn Store, metrics: &Metrics) {
        metrics.pipeline.set_reconnects(broker.reconnects(), store.reconnects());
        let queues: Vec<String> = self.queues().iter().cloned().collect();
        let mut deepest = (0, String::new());
        for queue in queues {
            // Who cannot be asked is neither full nor roomy: the gate stays as it is.
            let Ok(depth) = broker.depth(&queue).await else { return };
            metrics.pipeline.set_queue_depth(&queue, depth);
            deepest = deepest.max((depth, queue));
        }
        let Ok(fullness) = store.fullness().await else { return };
        metrics.pipeline.set_cache_fullness(fullness.ratio);
        let came_back = self.came_back.swap(0, Ordering::Relaxed);
        let overrun = (came_back > 0 || self.overrun.load(Ordering::Relaxed)) && deepest.0 > 0;
        self.overrun.store(overrun, Ordering::Relaxed);
        let was_open = *self.open.borrow();
        let open = !overrun && decide(was_open, deepest.0, self.high_water, fullness);
        if open == was_open {
            return;
        }
        let (depth, queue) = deepest;
        if open {
            tracing::info!(depth, queue, fullness = fullness.ratio, "compiling again");
        } else {
            tracing::warn!(
                depth,
                queue,
                fullness = fullness.ratio,
                came_back,
                high_water = self.high_water,
                "paused: evaluation is behind, or the artifact cache has no room"
            );
        }
        metrics.set_paused(!open);
        self.open.send_replace(open);
    }

    fn queues(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn decide(was_open: bool, depth: u64, high_water: u64, fullness: Fullness) -> bool {
    let taken = if fullness.evicts { 0.0 } else { fullness.ratio };
    if was_open { depth <= high_water && taken <= FULL } else { depth <= high_water / 4 * 3 && taken <= ROOMY }
}

#[cfg(test)]
mod tests {
    use bluefin_adapters::embedded::EmbeddedBroker;
    use bluefin_adapters::sqlite::SqliteStore;
    use bluefin_common::metrics::PipelineMetrics;
    use prometheus::Registry;

    use super::*;

    const QUEUE: &str = "bluefin.eval.test";

    #[test]
    fn closes_above_and_opens_well_below() {
        let refuses = |ratio| Fullness { ratio, evicts: false };
        assert!(decide(true, 100, 100, refuses(0.5)));
        assert!(!decide(true, 101, 100, refuses(0.5)));
        assert!(!decide(false, 90, 100, refuses(0.5)));
        assert!(decide(false, 75, 100, refuses(0.5)));
        assert!(!decide(true, 0, 100, refuses(0.95)));
        assert!(!decide(false, 0, 100, refuses(0.85)));
        assert!(decide(false, 0, 100, refuses(0.5)));
    }

    #[test]
    fn a_cache_that_evicts_may_be_full() {
        let full = Fullness { ratio: 1.02, evicts: true };
        assert!(decide(true, 50, 100, full) && decide(false, 50, 100, full));
        assert!(!decide(true, 101, 100, full));
    }

    #[tokio::test]
    async fn a_job_that_came_back_closes_until_nothing_waits() {
        let (broker, store) = (EmbeddedBroker::new(), SqliteStore::in_memory().unwrap());
        let registry = Registry::new();
        let metrics = Metrics::register(&registry, PipelineMetrics::register(&registry).unwrap()).unwrap();
        let gate = Gate::new(100);
        let look = async || {
            gate.look(&broker, &store, &metrics).await;
            *gate.open.borrow()
        };
        // Nothing waits that could be dropped, too.
        gate.came_back(QUEUE);
        assert!(look().await);
        broker.publish(QUEUE, "1", Default::default()).await.unwrap();
        assert!(look().await);
        gate.came_back(QUEUE);
        assert!(!look().await);
        assert!(!look().await);
        let mut consumer = broker.consume(QUEUE, 1).await.unwrap();
        consumer.next().await.unwrap().ack().await.unwrap();
        assert!(look().await);
    }
}
