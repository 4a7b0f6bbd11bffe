//! Compilers that the kernel killed for want of memory: no job is to blame, but a worker must not go on like that for ever.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::error::Error;

/// How long a job stays away: others that compile beside it may be done by then.
pub(crate) const PAUSE: Duration = Duration::from_secs(1);
/// As many kills with no job done in between end the worker, if its slots are not more.
const TOO_MANY: usize = 4;

/// Counts the jobs that come to nothing this way.
pub(crate) struct Shortage {
    in_a_row: AtomicUsize,
    too_many: usize,
}

impl Shortage {
    /// For a worker with `slots` compilers at a time: all of them may be killed before the first job is done.
    pub(crate) fn new(slots: usize) -> Self {
        Self { in_a_row: AtomicUsize::new(0), too_many: slots.max(TOO_MANY) }
    }

    /// A job was done.
    pub(crate) fn passed(&self) {
        self.in_a_row.store(0, Ordering::Relaxed);
    }

    /// A job came to nothing. Returns why the worker has to end, if it has.
    pub(crate) fn met(&self, error: Error) -> Option<Error> {
        let times = self.in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
        (times >= self.too_many).then(|| Error::TooLittleMemory { last: Box::new(error), times })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_gets_nothing_done_ends() {
        let shortage = Shortage::new(1);
        let met = || shortage.met(Error::Killed { short_of: "2 bytes".to_string() });
        assert!((1..TOO_MANY).all(|_| met().is_none()));
        shortage.passed();
        assert!((1..TOO_MANY).all(|_| met().is_none()));
        let error = met().unwrap().to_string();
        assert!(error.contains("2 bytes") && error.contains("4 times"), "{error}");
    }
}
