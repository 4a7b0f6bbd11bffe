//! What a compiler's end means: a fault of the source, of the compiler, or of this machine.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::limits::LimitMet;
use rustix::process::Signal;

use crate::error::Error;
use crate::process::Limits;

/// Says that a limit or a signal ended part of the compiler; its driver then exits like after an error in the source.
const CRASHES: [&str; 8] = [
    "internal compiler error",
    "signal terminated program",
    "PLEASE submit a bug report",
    "virtual memory exhausted",
    "out of memory",
    "error while loading shared libraries",
    "LLVM ERROR",
    "CPU time limit exceeded",
];

/// Says that part of the compiler wrote more than it may.
const TOO_LARGE: [&str; 2] = ["File size limit exceeded", "File too large"];

/// Says that the machine is at its end: another attempt, perhaps elsewhere, may go well.
const EXHAUSTED: [&str; 3] = ["No space left on device", "Resource temporarily unavailable", "Too many open files"];

/// Exit codes of a launcher that could not start the compiler, as shells and `sandbox-exec` have them.
const NOT_STARTED: [i32; 3] = [125, 126, 127];

/// The limit that a compile which ended with `status` met, if it is this machine's: it ran under `limits`, where `asked`
/// was to be had.
pub(crate) fn limit_met(status: ExitStatus, output: &str, asked: &Limits, limits: &Limits) -> Option<LimitMet> {
    let lower = limits.file_bytes < asked.file_bytes;
    (lower && is_too_large(status, output)).then_some(LimitMet::FileSize { found: limits.file_bytes })
}

fn is_too_large(status: ExitStatus, output: &str) -> bool {
    status.signal() == Some(Signal::XFSZ.as_raw()) || TOO_LARGE.iter().any(|text| output.contains(text))
}

/// Why a compile that ended with `status` failed. It ran under `limits`, where `asked` was to be had.
pub(crate) fn failure(status: ExitStatus, output: &str, asked: &Limits, limits: &Limits) -> Result<Failure, Error> {
    if let Some(limit) = limit_met(status, output, asked, limits) {
        return Err(Error::Limit(limit));
    }
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
    if crashed || is_too_large(status, output) || code != 1 {
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
        let ended = |raw, output: &str| failure(ExitStatus::from_raw(raw), output, &limits, &limits);
        let kind = |raw, output: &str| ended(raw, output).map(|failure| failure.kind);
        assert!(matches!(kind(1 << 8, "x.c:1: error: expected ;"), Ok(FailureKind::CompileError)));
        assert!(matches!(kind(1 << 8, "cc1: out of memory allocating"), Ok(FailureKind::CompileCrash)));
        assert!(matches!(kind(4 << 8, ""), Ok(FailureKind::CompileCrash)));
        assert!(matches!(kind(9, ""), Ok(FailureKind::CompileCrash)));
        assert!(matches!(kind(1 << 8, "as: No space left on device"), Err(Error::Exhausted { .. })));
        assert!(matches!(kind(126 << 8, "sandbox-exec: cc: not found"), Err(Error::Exhausted { .. })));
        let killed = ended(24, "").unwrap();
        assert!(killed.detail.contains("CPU time"), "{}", killed.detail);
    }

    #[test]
    fn a_limit_that_others_set_is_nobodys_fault() {
        let asked = Limits::default();
        let lower = Limits { file_bytes: 4096, memory_bytes: 1 << 30, ..Limits::default() };
        let met = |raw, output: &str, limits: &Limits| failure(ExitStatus::from_raw(raw), output, &asked, limits);
        let said = "as: x.o: File too large";
        for (raw, output) in
            [(25, ""), (1 << 8, said), (1 << 8, "ld terminated with signal 25 [File size limit exceeded]")]
        {
            let error = met(raw, output, &lower).unwrap_err();
            assert!(error.ends_worker() && error.to_string().contains("RLIMIT_FSIZE"), "{error}");
            // The same limit of bluefin's own is met by a candidate that goes too far.
            assert_eq!(met(raw, output, &asked).unwrap().kind, FailureKind::CompileCrash);
        }
        let memory = met(1 << 8, "cc1: out of memory allocating", &lower).unwrap();
        assert!(memory.detail.contains("1024 MiB of memory"), "{}", memory.detail);
    }
}
