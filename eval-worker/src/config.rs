//! What an eval worker is told.

use std::sync::Arc;
use std::time::Duration;

use bluefin_common::delivery::{AtWork, Leave};
use bluefin_common::roster::Presence;
use bluefin_common::waiting::Waiting;
use tokio::sync::Mutex;

use crate::evaluator::Evaluator;
use crate::timing::Limits;

/// An eval worker: one evaluator, one queue.
#[derive(Clone)]
pub struct Config {
    /// For logs.
    pub worker: String,
    pub evaluator: Arc<dyn Evaluator>,
    /// Jobs held at a time: the one on the device and the next, where evaluators do not say otherwise.
    pub prefetch: u16,
    pub limits: Limits,
    /// Artifacts kept in memory, in bytes.
    pub artifact_cache_bytes: u64,
    /// How long a store or broker that is away is waited for with a job in hand.
    pub patience: Duration,
    /// How long a drain may take; the job on the device is finished if it ends in that time.
    pub grace: Duration,
    /// Held by the job that is on the device: workers that share a device share this.
    pub turn: Arc<Mutex<()>>,
    /// How often a device that does not work is tried again; without it, the worker ends.
    pub reprobe: Option<Duration>,
    /// How often a machine that is in no state to work is looked at again.
    pub look_again: Duration,
    /// When the worker ends by itself.
    pub leave: Leave,
    /// Where it says what it waits for. Workers of one process may share it: each stands still for its own reasons alone.
    pub waiting: Waiting,
    /// What the process works on: its workers share this.
    pub at_work: AtWork,
    /// How often it says on the roster who it is and what it does; `None`: it is on none.
    pub on_roster: Option<Duration>,
    /// What it is seen by that is on no roster.
    pub seen_by: Presence,
}

impl Config {
    /// The usual values.
    #[must_use]
    pub fn new(worker: impl Into<String>, evaluator: Arc<dyn Evaluator>) -> Self {
        Self {
            worker: worker.into(),
            prefetch: evaluator.prefetch(),
            evaluator,
            limits: Limits::default(),
            artifact_cache_bytes: 256 << 20,
            patience: Duration::from_secs(300),
            grace: Duration::from_secs(25),
            turn: Arc::default(),
            reprobe: None,
            look_again: Duration::from_secs(5),
            leave: Leave::default(),
            waiting: Waiting::default(),
            at_work: AtWork::default(),
            on_roster: None,
            seen_by: Presence::default(),
        }
    }
}
