//! Back-pressure: closed while evaluation falls behind or the artifact cache fills.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bluefin_common::broker::Broker;
use bluefin_common::store::Store;
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
}

impl Gate {
    pub(crate) fn new(high_water: u64) -> Self {
        Self { high_water, queues: Mutex::default(), open: watch::Sender::new(true) }
    }

    /// Watches `queue` from now on.
    pub(crate) fn watch(&self, queue: &str) {
        let mut queues = self.queues();
        if !queues.contains(queue) {
            queues.insert(queue.to_string());
        }
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
        metrics.pipeline.set_cache_fullness(fullness);
        let was_open = *self.open.borrow();
        let open = decide(was_open, deepest.0, self.high_water, fullness);
        if open == was_open {
            return;
        }
        let (depth, queue) = deepest;
        if open {
            tracing::info!(depth, queue, fullness, "compiling again");
        } else {
            tracing::warn!(
                depth,
                queue,
                fullness,
                high_water = self.high_water,
                "paused: evaluation is behind or the cache is full"
            );
        }
        metrics.set_paused(!open);
        self.open.send_replace(open);
    }

    fn queues(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn decide(was_open: bool, depth: u64, high_water: u64, fullness: f64) -> bool {
    if was_open { depth <= high_water && fullness <= FULL } else { depth <= high_water / 4 * 3 && fullness <= ROOMY }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closes_above_and_opens_well_below() {
        assert!(decide(true, 100, 100, 0.5));
        assert!(!decide(true, 101, 100, 0.5));
        assert!(!decide(false, 90, 100, 0.5));
        assert!(decide(false, 75, 100, 0.5));
        assert!(!decide(true, 0, 100, 0.95));
        assert!(!decide(false, 0, 100, 0.85));
        assert!(decide(false, 0, 100, 0.5));
    }
}
