//! From signals to a drain.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Exit code after a second signal, as a shell reports an interrupt.
const INTERRUPTED: i32 = 130;

/// Cancels the returned token at the first SIGTERM or SIGINT; a second one ends the process at once.
///
/// # Errors
/// If the signal handlers can not be installed.
pub fn on_signal() -> io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let shutdown = token.clone();
    #[expect(clippy::disallowed_methods, reason = "lives as long as the process: it is what ends it")]
    tokio::spawn(async move {
        let mut received = 0;
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            received += 1;
            if received == 1 {
                tracing::info!("stopping: finishing what is under way; a second signal ends at once");
                shutdown.cancel();
            } else {
                std::process::exit(INTERRUPTED);
            }
        }
    });
    Ok(token)
}
