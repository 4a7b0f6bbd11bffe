//! The course of a job: who worked on it, and when. For people; nothing is decided by it.

use serde::{Deserialize, Serialize};

use crate::clock::now_ms;

/// Who worked on a job, and when. What is not known is empty, or 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Course {
    /// Milliseconds since the Unix epoch at which it was enqueued.
    pub enqueued_ms: u64,
    /// How often it was compiled again, since its artifacts were gone before they could be evaluated.
    pub recompiles: u32,
    /// Its compilation, where there was one: the last.
    pub compiled: Option<Worked>,
    /// Its evaluation, where it got that far.
    pub evaluated: Option<Worked>,
}

/// A worker's part in a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worked {
    /// Its name, as the log has it.
    pub worker: String,
    /// Milliseconds since the Unix epoch: it had the job; of an evaluation, when the device was its own.
    pub begun_ms: u64,
    /// The same: it was done.
    pub ended_ms: u64,
}

impl Worked {
    /// What `worker` began at `begun_ms` and has done now.
    #[must_use]
    pub fn until_now(worker: &str, begun_ms: u64) -> Self {
        Self { worker: worker.to_string(), begun_ms, ended_ms: now_ms().max(begun_ms) }
    }
}
