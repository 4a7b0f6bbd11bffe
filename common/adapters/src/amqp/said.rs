//! What stands still is said at once, and then every half a minute, however often it is tried.

use std::time::Duration;

use tokio::time::Instant;

const AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Of one thing that may stand still.
pub(super) struct Said {
    /// When it first had to be said.
    since: Instant,
    last: Option<(Instant, bool)>,
}

impl Said {
    pub(super) fn nothing() -> Self {
        Self { since: Instant::now(), last: None }
    }

    /// Whether it is to be said now; at once as well when the broker has begun, or ceased, to refuse.
    pub(super) fn is_due(&mut self, refused: bool) -> bool {
        let now = Instant::now();
        if self.last.is_none() {
            self.since = now;
        }
        let due = self.last.is_none_or(|(last, before)| before != refused || now - last >= AGAIN_AFTER);
        if due {
            self.last = Some((now, refused));
        }
        due
    }

    /// Whether anything was said.
    pub(super) fn is_something(&self) -> bool {
        self.last.is_some()
    }

    /// For how long it has stood still.
    pub(super) fn seconds(&self) -> u64 {
        self.since.elapsed().as_secs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_of_attempts_is_said_every_half_a_minute() {
        let mut said = Said::nothing();
        assert!(!said.is_something());
        let mut lines = 0;
        // Time goes back for the log instead of on for the test.
        for _ in 0..3600 {
            lines += u32::from(said.is_due(false));
            said.last = said.last.map(|(last, refused)| (last - Duration::from_secs(1), refused));
        }
        assert_eq!(lines, 120);
        assert!(said.is_something());
        assert!(said.is_due(true) && !said.is_due(true) && said.is_due(false));
    }
}
