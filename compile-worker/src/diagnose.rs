//! What a compiler's end means: a fault of the source, of the compiler, or of this machine.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use bluefin_common::outcome::{Failure, FailureKind};
use rustix::process::Signal;

use crate::error::Error;
use crate::process::Limits;

/// Says that a limit or a signal ended part of the compiler; its driver then exits like after an error in the source.
const CRASHES: [&str; 10] = [
    "internal compiler error",
    "signal terminated program",
    "PLEASE submit a bug report",
    "virtual memory exhausted",
    "out of memory",
    "error while loading shared libraries",
    "LLVM ERROR",
    "CPU time limit exceeded",
    "File size limit exceeded",
    "File too large",
];

/// Says that the machine is at its end: another attempt, perhaps elsewhere, may go well.
const EXHAUSTED: [&str; 3] = ["No space left on device", "Resource temporarily unavailable", "Too many open files"];

/// Exit codes of a launcher that could not start the compiler, as shells and `sandbox-exec` have them.
const NOT_STARTED: [i32; 3] = [125, 126, 127];

/// Why a compile that ended with `status` failed.
pub(crate) fn failure(status: ExitStatus, output: &str, limits: &Limits) -> Result<Failure, Error> {
    if let Some(reason) = output.lines().find(|line| EXHAUSTED.iter().any(|text| line.contains(text))) {
        return Err(Error::Exhausted { reason: reason.chars().take(300).collect() });
    }
    if let Some(signal) = status.signal() {
        let reason = format!("killed by signal {signal}: {}\n{output}", cause(signal, limits));
        return Ok(Failure::new(FailureKind::CompileCrash, reason));
    }
    let code = status.code().unwrap_or_default();
    if NOT_STARTED.contains(&code) {
        let reason = format!("the compiler did not start: {}", output.chars().take(300).collect::<String>());
        return Err(Error::Exhausted { reason });
    }
    let crashed = CRASHES.iter().any(|text| output.contains(text));
    if crashed || code != 1 {
        let reason = format!("the compiler crashed or hit a limit ({}), exit code {code}:\n{output}", all(limits));
        return Ok(Failure::new(FailureKind::CompileCrash, reason));
    }
    Ok(Failure::new(FailureKind::CompileError, output))
}

/// A compile that did not end.
pub(crate) fn timed_out(limits: &Limits) -> Failure {
    let reason = format!("not compiled within {} s", limits.time.as_secs_f64());
    Failure::new(FailureKind::CompileTimeout, reason)
}

fn cause(signal: i32, limits: &Limits) -> String {
    if signal == Signal::XCPU.as_raw() {
        format!("the limit of {} s of CPU time", limits.time.as_secs() + 2)
    } else if signal == Signal::XFSZ.as_raw() {
        format!("the limit of {} bytes a file", limits.file_bytes)
    } else if signal == Signal::KILL.as_raw() {
        "most likely the machine ran out of memory".to_string()
    } else {
        format!("a crash of the compiler, perhaps for want of memory ({})", all(limits))
    }
}

fn all(limits: &Limits) -> String {
    format!(
        "limits: {} s, {} MiB of memory, {} MiB a file",
        limits.time.as_secs(),
        limits.memory_bytes >> 20,
        limits.file_bytes >> 20
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_told_apart() {
        let limits = Limits::default();
        // Wait statuses: exit code << 8, or the signal.
        let kind = |raw, output: &str| failure(ExitStatus::from_raw(raw), output, &limits).map(|failure| failure.kind);
        assert!(matches!(kind(1 << 8, "x.c:1: error: expected ;"), Ok(FailureKind::CompileError)));
        assert!(matches!(kind(1 << 8, "cc1: out of memory allocating"), Ok(FailureKind::CompileCrash)));
        assert!(matches!(kind(4 << 8, ""), Ok(FailureKind::CompileCrash)));
        assert!(matches!(kind(9, ""), Ok(FailureKind::CompileCrash)));
        assert!(matches!(kind(1 << 8, "as: No space left on device"), Err(Error::Exhausted { .. })));
        assert!(matches!(kind(126 << 8, "sandbox-exec: cc: not found"), Err(Error::Exhausted { .. })));
        let killed = failure(ExitStatus::from_raw(24), "", &limits).unwrap();
        assert!(killed.detail.contains("CPU time"), "{}", killed.detail);
    }
}
