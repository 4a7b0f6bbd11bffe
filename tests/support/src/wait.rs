//! Waiting for an event.

use std::thread::{available_parallelism, sleep};
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(10);

/// `limit`, and as many times as long as more threads want to run on this machine than it has CPUs: what is taken for hung or slow by it
/// is not to be what other work slows down.
#[must_use]
pub fn patience(limit: Duration) -> Duration {
    let load = std::fs::read_to_string("/proc/loadavg").ok();
    let load = load.and_then(|text| text.split(' ').next()?.parse::<f64>().ok()).unwrap_or_default();
    let cpus = available_parallelism().map_or(1, usize::from) as f64;
    limit.mul_f64((load / cpus).max(1.0))
}

/// Waits until `check` holds.
///
/// # Panics
/// When it does not within [`patience`] of `timeout`; the message says `what` was waited for.
#[track_caller]
pub fn wait_until(timeout: Duration, what: &str, mut check: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !check() {
        assert!(is_early(begun, timeout), "waited {:?} in vain for {what}", begun.elapsed());
        sleep(POLL);
    }
}

/// [`wait_until`] for a check that has to await.
pub async fn eventually(timeout: Duration, what: &str, mut check: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !check().await {
        assert!(is_early(begun, timeout), "waited {:?} in vain for {what}", begun.elapsed());
        tokio::time::sleep(POLL).await;
    }
}

fn is_early(begun: Instant, timeout: Duration) -> bool {
    begun.elapsed() < timeout || begun.elapsed() < patience(timeout)
}
