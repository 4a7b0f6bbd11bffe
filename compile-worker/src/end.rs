//! How a whole worker ends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::error::Error;

/// Ends all queues of a worker at once.
#[derive(Clone)]
pub(crate) struct End {
    reason: Arc<Mutex<Option<Error>>>,
    /// Nothing more is taken.
    pub(crate) stop: CancellationToken,
    /// Ends what is in flight, as when the grace period is over.
    pub(crate) abandon: CancellationToken,
}

impl End {
    /// When `shutdown` is cancelled, or for a reason of its own.
    pub(crate) fn with(shutdown: &CancellationToken) -> Self {
        Self { reason: Arc::default(), stop: shutdown.child_token(), abandon: CancellationToken::new() }
    }

    /// Takes no more jobs and hands back those in flight. The first reason stands.
    pub(crate) fn now(&self, error: Error) {
        self.reason().get_or_insert(error);
        self.stop.cancel();
        self.abandon.cancel();
    }

    /// Why it ended, if somebody said.
    pub(crate) fn take_reason(&self) -> Option<Error> {
        self.reason().take()
    }

    fn reason(&self) -> MutexGuard<'_, Option<Error>> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
