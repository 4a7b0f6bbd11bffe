//! From signals to a drain.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::process_group;

/// Exit code after a second signal, as a shell reports an interrupt.
const INTERRUPTED: i32 = 130;

/// Where the kernel says what this process ignores.
const STATUS: &str = "/proc/self/status";

/// Cancels the returned token at the first SIGTERM, SIGINT or SIGHUP; a second one ends the process at once, and what it started. SIGHUP stays ignored where
/// it is, as below `nohup`, and is none behind another: who ends a session or a service may send it as well.
///
/// # Errors
/// If the signal handlers can not be installed.
pub fn on_signal() -> io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let is_ignored = std::fs::read_to_string(STATUS).is_ok_and(|status| ignores(&status, SignalKind::hangup()));
    let mut hangup = if is_ignored { None } else { Some(signal(SignalKind::hangup())?) };
    let token = CancellationToken::new();
    let shutdown = token.clone();
    #[expect(clippy::disallowed_methods, reason = "lives as long as the process: it is what ends it")]
    tokio::spawn(async move {
        let mut received = 0;
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                Some(_) = async { hangup.as_mut()?.recv().await }, if received == 0 => {}
            }
            received += 1;
            if received == 1 {
                tracing::info!("stopping: finishing what is under way; a second signal ends at once");
                shutdown.cancel();
            } else {
                process_group::kill_all();
                std::process::exit(INTERRUPTED);
            }
        }
    });
    Ok(token)
}

/// Whether a process of this `/proc/<pid>/status` ignores a signal.
fn ignores(status: &str, signal: SignalKind) -> bool {
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    let bit = u32::try_from(signal.as_raw_value()).ok().and_then(|number| number.checked_sub(1));
    bit.and_then(|bit| 1_u64.checked_shl(bit)).is_some_and(|bit| mask.unwrap_or(0) & bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_is_read() {
        let hangup = |mask: &str| ignores(&format!("Name:\tx\nSigBlk:\tf\nSigIgn:\t{mask}\n"), SignalKind::hangup());
        assert!(hangup("0000000000000001") && hangup("0000000000001001"));
        assert!(!hangup("0000000000001000") && !hangup("no number"));
    }
}
