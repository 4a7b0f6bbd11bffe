//! How much work a worker has taken: enough to keep its slots busy, no more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Jobs that were taken, and their units that wait for a slot.
#[derive(Clone, Default)]
pub(crate) struct Backlog(Arc<Inner>);

#[derive(Default)]
struct Inner {
    waiting: AtomicUsize,
    fell: Notify,
}

impl Backlog {
    /// Waits until there are less than `limit`.
    pub(crate) async fn below(&self, limit: usize) {
        loop {
            let mut fell = std::pin::pin!(self.0.fell.notified());
            // In line before looking, so that no wake-up is missed.
            fell.as_mut().enable();
            if self.0.waiting.load(Ordering::Acquire) < limit {
                return;
            }
            fell.await;
        }
    }

    /// Adds one, until the guard is dropped.
    pub(crate) fn add(&self) -> Waiting {
        self.0.waiting.fetch_add(1, Ordering::AcqRel);
        Waiting(self.clone())
    }
}

/// One of them.
pub(crate) struct Waiting(Backlog);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.0.waiting.fetch_sub(1, Ordering::AcqRel);
        self.0.0.fell.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::task::TaskTracker;

    use super::*;

    #[tokio::test]
    async fn opens_when_a_candidate_is_done() {
        let backlog = Backlog::default();
        backlog.below(1).await;
        let (first, second) = (backlog.add(), backlog.add());
        let waiter = TaskTracker::new().spawn({
            let backlog = backlog.clone();
            async move { backlog.below(2).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
        drop(first);
        waiter.await.unwrap();
        drop(second);
        backlog.below(1).await;
    }
}
