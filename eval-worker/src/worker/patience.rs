//! Waits for a store or a broker that is away, with a result in hand that took work to get.

use std::time::Duration;

use bluefin_common::broker::BrokerError;
use bluefin_common::campaign::AdvanceError;
use bluefin_common::store::StoreError;
use tokio::time::{Instant, sleep};

use super::Worker;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Why an operation was given up.
#[derive(Debug)]
pub(super) enum GivenUp {
    /// The worker drains, and its grace period is over.
    Expired,
    /// The store is of no more use to this process, which is about to end.
    Lost,
    /// The same would happen again, or did for too long.
    Failed(String),
}

/// An error that may pass.
pub(super) trait Passing: std::fmt::Display {
    fn is_transient(&self) -> bool;

    /// Whether the store is lost to this process.
    fn is_lost(&self) -> bool;
}

impl Passing for StoreError {
    fn is_transient(&self) -> bool {
        Self::is_transient(self)
    }

    fn is_lost(&self) -> bool {
        Self::is_lost(self)
    }
}

impl Passing for BrokerError {
    fn is_transient(&self) -> bool {
        Self::is_transient(self)
    }

    fn is_lost(&self) -> bool {
        false
    }
}

impl Passing for AdvanceError {
    fn is_transient(&self) -> bool {
        Self::is_transient(self)
    }

    fn is_lost(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_lost())
    }
}

impl Worker {
    /// Repeats `operation`, which is idempotent, until it succeeds, its error is here to stay, or patience ends.
    pub(super) async fn patiently<T, E: Passing, F: Future<Output = Result<T, E>>>(
        &self,
        what: &'static str,
        operation: impl Fn() -> F,
    ) -> Result<T, GivenUp> {
        let give_up_at = Instant::now() + self.config.patience;
        let mut pause = FIRST_PAUSE;
        loop {
            let result = tokio::select! {
                result = operation() => result,
                () = self.expired.cancelled() => return Err(GivenUp::Expired),
            };
            let error = match result {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            if error.is_lost() {
                return Err(GivenUp::Lost);
            }
            if !error.is_transient() || Instant::now() + pause > give_up_at {
                return Err(GivenUp::Failed(format!("{what}: {error}")));
            }
            tracing::warn!(what, %error, pause_ms = pause.as_millis(), "trying again");
            tokio::select! {
                () = sleep(pause) => {}
                () = self.expired.cancelled() => return Err(GivenUp::Expired),
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}
