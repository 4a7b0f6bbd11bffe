//! Waiting for an event.

use std::thread::sleep;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(10);

/// Waits until `check` holds.
///
/// # Panics
/// When it does not within `timeout`; the message says `what` was waited for.
#[track_caller]
pub fn wait_until(timeout: Duration, what: &str, mut check: impl FnMut() -> bool) {
    let deadline = Instant::now() + timeout;
    while !check() {
        assert!(Instant::now() < deadline, "waited {timeout:?} in vain for {what}");
        sleep(POLL);
    }
}

/// [`wait_until`] for a check that has to await.
pub async fn eventually(timeout: Duration, what: &str, mut check: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + timeout;
    while !check().await {
        assert!(Instant::now() < deadline, "waited {timeout:?} in vain for {what}");
        tokio::time::sleep(POLL).await;
    }
}
