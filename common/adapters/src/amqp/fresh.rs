//! Queues that are too new to be trusted.
//!
//! RabbitMQ 3.10.8 that is killed within a second after a quorum queue was declared, and no other after it, comes back with a
//! queue that is there in name alone ([`super::silent`]), and what it confirmed is lost: the table of its Raft members is one of
//! Erlang's `dets`, which are on disk half a second to three seconds later. Ten of ten were lost within 0.8 s, none of eight
//! after 1.2 s and more, on a machine that had little else to do. So a message that went to a new queue is called safe only once
//! the queue is older. Nobody can tell how old a queue is, so each process waits once for each queue.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The three seconds, and some.
const TRUSTED_AFTER: Duration = Duration::from_millis(3500);

/// What was declared so shortly before a connection is known to be lost may be declared anew by whoever comes next: the broker may
/// have come back without it. As long as a connection may be lost before that is known.
const DOUBTED: Duration = Duration::from_secs(30);

/// The queues that this process declared, and when each of them can be trusted.
#[derive(Default)]
pub(super) struct Fresh(Mutex<HashMap<String, Instant>>);

impl Fresh {
    /// The broker has answered that `queue` is there.
    pub(super) fn declared(&self, queue: &str) {
        self.lock().entry(queue.to_owned()).or_insert_with(|| Instant::now() + TRUSTED_AFTER);
    }

    /// Queues that were young count as new when they are declared again.
    pub(super) fn connection_lost(&self) {
        self.lock().retain(|_, trusted| trusted.elapsed() >= DOUBTED);
    }

    /// `queue` was deleted and made anew. Returns when it can be trusted.
    pub(super) fn renewed(&self, queue: &str) -> Instant {
        let trusted = Instant::now() + TRUSTED_AFTER;
        self.lock().insert(queue.to_owned(), trusted);
        trusted
    }

    /// When `queue` can be trusted, if that is still to come at `now`.
    pub(super) fn trusted_at(&self, queue: &str, now: Instant) -> Option<Instant> {
        self.lock().get(queue).copied().filter(|trusted| *trusted > now)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        // Nothing panics under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_fresh_for_a_while() {
        let fresh = Fresh::default();
        fresh.declared("q");
        let now = Instant::now();
        let trusted = fresh.trusted_at("q", now).unwrap();
        assert!(fresh.trusted_at("other", now).is_none());
        assert!(fresh.trusted_at("q", trusted).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_young_queue_of_a_lost_connection_is_new_again() {
        let fresh = Fresh::default();
        fresh.declared("old");
        tokio::time::advance(TRUSTED_AFTER + DOUBTED).await;
        fresh.declared("young");
        tokio::time::advance(TRUSTED_AFTER).await;
        fresh.connection_lost();
        for queue in ["old", "young"] {
            fresh.declared(queue);
        }
        assert!(fresh.trusted_at("old", Instant::now()).is_none());
        assert!(fresh.trusted_at("young", Instant::now()).is_some());
    }
}
