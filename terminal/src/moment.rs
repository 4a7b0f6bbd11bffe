//! Points in time as people read them.

use std::time::{Duration, UNIX_EPOCH};

/// `2026-01-31T12:00:00Z`, of milliseconds since 1970.
#[must_use]
pub fn at(ms: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(ms)).to_string()
}
