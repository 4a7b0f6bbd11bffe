//! Signs of life of what takes long and prints nothing meanwhile.

use std::time::{Duration, Instant};

/// Between two lines.
const INTERVAL: Duration = Duration::from_secs(10);

/// Awaits `work`; `say` is told how long that has taken, again and again.
pub async fn with_signs_of_life<T>(work: impl Future<Output = T>, say: impl Fn(Duration)) -> T {
    let begun = Instant::now();
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(INTERVAL) => say(begun.elapsed()),
        }
    }
}
