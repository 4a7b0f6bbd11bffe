//! Runs an application whose log is captured: its output, its end and the signals that are meant for it pass through.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal as _, Write as _};
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr, Command};
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};

use super::{Capture, Captured};

/// Runs the command to its end.
///
/// # Errors
/// If it can not be started, or its standard error can not be read.
pub async fn run(program: &OsStr, arguments: &[OsString]) -> io::Result<(ExitStatus, Captured)> {
    // Before the child is there: a signal that comes now must not leave it behind.
    let mut signals = PassedOn::listen()?;
    let mut child = Command::new(program)
        .args(arguments)
        .env("MIOPEN_ENABLE_LOGGING_CMD", "1")
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", program.display())))?;
    let mut stderr = child.stderr.take().ok_or_else(|| io::Error::other("the application has no standard error"))?;
    let mut capture = Capture::default();
    let mut status = None;
    let mut open = true;
    while open || status.is_none() {
        tokio::select! {
            read = pass(&mut stderr, &mut capture), if open => open = read?,
            exit = child.wait(), if status.is_none() => status = Some(exit?),
            signal = signals.next() => match status {
                // Somebody else holds its standard error, and the user has waited long enough.
                Some(_) => break,
                None => signals.send(signal, &child),
            },
        }
    }
    let status = status.ok_or_else(|| io::Error::other("the application's exit status is not known"))?;
    Ok((status, capture.finish()))
}

/// Runs the command to its end, with more in its environment, and leaves its output alone.
///
/// # Errors
/// If it can not be started.
pub async fn run_with(
    program: &OsStr,
    arguments: &[OsString],
    environment: impl IntoIterator<Item = (&'static str, OsString)> + Send,
) -> io::Result<ExitStatus> {
    let mut signals = PassedOn::listen()?;
    let mut child = Command::new(program)
        .args(arguments)
        .envs(environment)
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", program.display())))?;
    loop {
        tokio::select! {
            exit = child.wait() => return exit,
            signal = signals.next() => signals.send(signal, &child),
        }
    }
}

/// Passes on what there is to read. `false` at its end.
async fn pass(stderr: &mut ChildStderr, capture: &mut Capture) -> io::Result<bool> {
    let mut bytes = [0; 16 << 10];
    let count = stderr.read(&mut bytes).await?;
    let bytes = bytes.get(..count).unwrap_or_default();
    // Nobody may be there to read it; the capture goes on.
    let _ = io::stderr().write_all(bytes);
    capture.feed(bytes);
    Ok(count > 0)
}

/// Signals that are the application's.
struct PassedOn {
    hangup: Signals,
    interrupt: Signals,
    quit: Signals,
    terminate: Signals,
}

impl PassedOn {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.hangup.recv() => Signal::HUP,
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.quit.recv() => Signal::QUIT,
            _ = self.terminate.recv() => Signal::TERM,
        }
    }

    fn send(&self, signal: Signal, child: &Child) {
        // What is typed at a terminal went to the application as well: two of them could mean another thing than one.
        let typed = [Signal::INT, Signal::QUIT].contains(&signal) && io::stdin().is_terminal();
        let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        if let Some(pid) = pid.filter(|_| !typed) {
            // It may have ended by itself.
            let _ = kill_process(pid, signal);
        }
    }
}
