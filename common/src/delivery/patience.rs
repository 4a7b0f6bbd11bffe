//! Waits for a store or a broker that is away, with work in hand.

use std::fmt;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::broker::BrokerError;
use crate::campaign::AdvanceError;
use crate::store::StoreError;
use crate::waiting::{Guard, On, Waiting};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// An operation that fails for longer than this stands still: what passes sooner is not worth a word.
const STANDS_STILL: Duration = Duration::from_secs(1);

/// Why an operation was given up.
#[derive(Debug)]
pub enum GivenUp {
    /// The worker drains, and its grace period is over.
    Expired,
    /// The store is of no more use to this process, which is about to end.
    Lost,
    /// What it read is of another version of bluefin.
    OtherVersion,
    /// It stood still for so long that the delivery is better handed back: RabbitMQ takes one for lost that is held for half an
    /// hour.
    TooLong(String),
    /// The same would happen again.
    Failed(String),
}

/// An error that may pass.
pub trait Passing: fmt::Display {
    /// Whether the same call may succeed later.
    fn is_transient(&self) -> bool;

    /// Whom it takes for that.
    fn on(&self) -> On;

    /// Whether everything else waits too: not where it is about one queue.
    fn holds_up_all(&self) -> bool {
        true
    }

    /// Whether it is refused, which somebody has to mend.
    fn is_refusal(&self) -> bool {
        false
    }

    /// Whether the store is lost to this process.
    fn is_lost(&self) -> bool {
        false
    }

    /// Whether a value in the store is of another version of bluefin, which is for workers of that version.
    fn is_of_another_version(&self) -> bool {
        false
    }
}

impl Passing for StoreError {
    fn is_transient(&self) -> bool {
        Self::is_transient(self)
    }

    fn on(&self) -> On {
        On::Store
    }

    fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }

    fn is_lost(&self) -> bool {
        Self::is_lost(self)
    }

    fn is_of_another_version(&self) -> bool {
        matches!(self, Self::Corrupt { source, .. } if source.is_of_another_version())
    }
}

impl Passing for BrokerError {
    fn is_transient(&self) -> bool {
        Self::is_transient(self)
    }

    fn on(&self) -> On {
        On::Broker
    }

    fn holds_up_all(&self) -> bool {
        !matches!(self, Self::Refused { .. } | Self::Full { .. })
    }

    fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }
}

impl Passing for AdvanceError {
    fn is_transient(&self) -> bool {
        Self::is_transient(self)
    }

    fn on(&self) -> On {
        match self {
            Self::Broker(_) => On::Broker,
            Self::Store(_) | Self::Wire(_) | Self::NoSession(_) => On::Store,
        }
    }

    fn holds_up_all(&self) -> bool {
        !matches!(self, Self::Broker(error) if !error.holds_up_all())
    }

    fn is_lost(&self) -> bool {
        matches!(self, Self::Store(error) if error.is_lost())
    }

    fn is_of_another_version(&self) -> bool {
        matches!(self, Self::Store(error) if Passing::is_of_another_version(error))
    }
}

/// How long a worker waits with a delivery in hand.
#[derive(Clone, Debug)]
pub struct Patience {
    /// For one operation; then the delivery is handed back, at no cost.
    pub limit: Duration,
    /// Cancelled when the grace period of a drain is over.
    pub expired: CancellationToken,
    /// Where it says so.
    pub waiting: Waiting,
}

impl Patience {
    /// Repeats `operation`, which is idempotent, until it succeeds, its error is here to stay, or patience ends. `what` is for
    /// the log.
    ///
    /// # Errors
    /// Why it was given up.
    pub async fn with<T, E: Passing, F: Future<Output = Result<T, E>>>(
        &self,
        what: &str,
        operation: impl Fn() -> F,
    ) -> Result<T, GivenUp> {
        self.with_error(what, operation).await.map_err(|(given_up, _)| given_up)
    }

    /// The same, with the operation's last error, if it came to one.
    ///
    /// # Errors
    /// Why it was given up.
    pub async fn with_error<T, E: Passing, F: Future<Output = Result<T, E>>>(
        &self,
        what: &str,
        operation: impl Fn() -> F,
    ) -> Result<T, (GivenUp, Option<E>)> {
        let started = Instant::now();
        let give_up_at = started + self.limit;
        let mut stands_still: Option<Guard> = None;
        let mut pauses = ExponentialBuilder::default()
            .with_min_delay(FIRST_PAUSE)
            .with_max_delay(LONGEST_PAUSE)
            .without_max_times()
            .build();
        loop {
            let result = tokio::select! {
                result = operation() => result,
                () = self.expired.cancelled() => return Err((GivenUp::Expired, None)),
            };
            let error = match result {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            if error.is_lost() {
                return Err((GivenUp::Lost, Some(error)));
            }
            if error.is_of_another_version() {
                tracing::error!(what, %error, "handed back to workers of that version");
                return Err((GivenUp::OtherVersion, Some(error)));
            }
            let reason = format!("{what}: {error}");
            if !error.is_transient() {
                return Err((GivenUp::Failed(reason), Some(error)));
            }
            let pause = pauses.next().unwrap_or(LONGEST_PAUSE);
            if Instant::now() + pause > give_up_at {
                return Err((GivenUp::TooLong(reason), Some(error)));
            }
            tracing::debug!(what, %error, pause_ms = pause.as_millis(), "trying again");
            match &stands_still {
                Some(guard) => guard.still(reason),
                None if started.elapsed() >= STANDS_STILL => {
                    let waiting = if error.holds_up_all() { &self.waiting } else { self.waiting.aside() };
                    stands_still = Some(waiting.on(error.on(), reason));
                }
                None => {}
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = self.expired.cancelled() => return Err((GivenUp::Expired, Some(error))),
            }
        }
    }
}
