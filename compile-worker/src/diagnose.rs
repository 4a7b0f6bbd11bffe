//! What a compiler's end means: a fault of the source, of the compiler, or of this machine.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::limits::LimitMet;
use rustix::process::Signal;

use crate::error::{Error, Suspect};
use crate::process::Limits;

/// Says that part of the compiler crashed, or met a limit of memory; its driver then exits like after an error in the source.
const CRASHES: [&str; 9] = [
    "internal compiler error",
    "signal terminated program",
    "died due to signal",
    "PLEASE submit a bug report",
    "virtual memory exhausted",
    "out of memory",
    "error while loading shared libraries",
    "LLVM ERROR",
    "MemoryError",
];

/// Says that part of the compiler used more CPU time than it may.
const TOO_SLOW: &str = "CPU time limit exceeded";

/// Says that part of the compiler wrote more than it may.
const TOO_LARGE: [&str; 2] = ["File size limit exceeded", "File too large"];

/// Says that the machine is at its end.
const EXHAUSTED: [&str; 7] = [
    "No space left on device",
    "Disk quota exceeded",
    "Cannot allocate memory",
    "Resource temporarily unavailable",
    "Read-only file system",
    "Input/output error",
    "Too many open files",
];

/// Say that memory ran out within the limit of one compiler, whatever else they say.
const OWN_MEMORY: [&str; 2] = ["virtual memory exhausted", "out of memory"];

/// Exit codes of a launcher that could not start the compiler, as shells and `sandbox-exec` have them.
const NOT_STARTED: [i32; 3] = [125, 126, 127];

/// Signals by which a compiler ends that has a fault.
const OWN: [Signal; 7] =
    [Signal::SEGV, Signal::ABORT, Signal::BUS, Signal::ILL, Signal::FPE, Signal::SYS, Signal::TRAP];

/// Signals by which others end it, and what drivers call them that name those of their parts.
const OUTSIDE: [(Signal, &str); 5] = [
    (Signal::TERM, "Terminated"),
    (Signal::KILL, "Killed"),
    (Signal::INT, "Interrupt"),
    (Signal::HUP, "Hangup"),
    (Signal::QUIT, "Quit"),
];

/// The limit that a compile which ended with `status` met, if it is this machine's: it ran under `limits`, where `asked`
/// was to be had.
pub(crate) fn limit_met(status: ExitStatus, output: &str, asked: &Limits, limits: &Limits) -> Option<LimitMet> {
    let lower = limits.file_bytes < asked.file_bytes;
    (lower && is_too_large(status, output)).then_some(LimitMet::FileSize { found: limits.file_bytes })
}

fn is_too_large(status: ExitStatus, output: &str) -> bool {
    status.signal() == Some(Signal::XFSZ.as_raw()) || TOO_LARGE.iter().any(|text| output.contains(text))
}

fn is_too_slow(status: ExitStatus, output: &str) -> bool {
    status.signal() == Some(Signal::XCPU.as_raw()) || output.contains(TOO_SLOW)
}

/// Who ended a compile from outside, if somebody did: itself, or a part of it.
fn interrupted(status: ExitStatus, output: &str) -> Option<String> {
    if let Some(signal) = status.signal() {
        let own = OWN.iter().chain([&Signal::XCPU, &Signal::XFSZ]).any(|own| own.as_raw() == signal);
        return (!own).then(|| format!("signal {signal}"));
    }
    let code = status.code().unwrap_or_default();
    let (signal, name) = OUTSIDE.iter().find(|(signal, name)| {
        // As a shell says so of a program, then GCC, clang, GCC of its linker, and nvcc.
        code == 128 + signal.as_raw()
            || output.lines().filter(|line| !is_quoted(line)).any(|line| {
                line.contains(&format!("fatal error: {name} signal terminated program"))
                    || line.contains(&format!("error: unable to execute command: {name}"))
                    || line.contains(&format!("terminated with signal {} [{name}", signal.as_raw()))
                    || line.contains(&format!("died due to signal {} ", signal.as_raw()))
            })
    })?;
    Some(format!("signal {} ({name})", signal.as_raw()))
}

/// The line of a compiler's `output` that says that the machine is at its end.
pub(crate) fn exhausted(output: &str) -> Option<&str> {
    output.lines().find(|line| {
        !is_quoted(line)
            && EXHAUSTED.iter().any(|text| line.contains(text))
            && !OWN_MEMORY.iter().any(|text| line.contains(text))
    })
}

/// Whether a line of diagnostics repeats what the source says.
fn is_quoted(line: &str) -> bool {
    let shows_source = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit()).trim_start().starts_with('|');
    shows_source
        || ["#error", "#warning", "#pragma", "static assert", "static_assert"].iter().any(|word| line.contains(word))
}

/// Why a compile that ended with `status` failed. It ran under `limits`, where `asked` was to be had.
///
/// # Errors
/// What is not the source's fault, or may not be.
pub(crate) fn failure(status: ExitStatus, output: &str, asked: &Limits, limits: &Limits) -> Result<Failure, Error> {
    if let Some(limit) = limit_met(status, output, asked, limits) {
        return Err(Error::Limit(limit));
    }
    if let Some(by) = interrupted(status, output) {
        return Err(Error::Interrupted { by });
    }
    let crash = |reason: String| Failure::new(FailureKind::CompileCrash, reason);
    let suspect = |failure, says_so| Err(Error::Suspect(Box::new(Suspect { failure, says_so })));
    if let Some(line) = exhausted(output) {
        return suspect(crash(format!("{}\n{output}", line.chars().take(300).collect::<String>())), true);
    }
    let code = status.code().unwrap_or_default();
    if NOT_STARTED.contains(&code) {
        return suspect(crash(format!("the compiler did not start, exit code {code}:\n{output}")), true);
    }
    if let Some(signal) = status.signal() {
        let failure = crash(format!("killed by signal {signal}: {}\n{output}", cause(signal, limits)));
        let limited = is_too_slow(status, output) || is_too_large(status, output);
        return if limited { Ok(failure) } else { suspect(failure, false) };
    }
    let hit = format!("the compiler crashed or hit a limit ({}), exit code {code}:\n{output}", all(limits));
    if is_too_slow(status, output) || is_too_large(status, output) {
        return Ok(crash(hit));
    }
    let crashed = |line: &str| !is_quoted(line) && CRASHES.iter().any(|text| line.contains(text));
    if code != 1 || output.lines().any(crashed) {
        return suspect(crash(hit), false);
    }
    Ok(Failure::new(FailureKind::CompileError, output))
}

/// A compile that ended well and left nothing.
pub(crate) fn nothing_made(output: &str) -> Error {
    let reason = format!("the compiler ended well and wrote no artifact:\n{output}");
    Error::Suspect(Box::new(Suspect { failure: Failure::new(FailureKind::CompileCrash, reason), says_so: false }))
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

    /// What came of a compile, in short. Wait statuses: exit code << 8, or the signal.
    fn said(raw: i32, output: &str) -> &'static str {
        let limits = Limits::default();
        match failure(ExitStatus::from_raw(raw), output, &limits, &limits) {
            Ok(Failure { kind, .. }) => kind.name(),
            Err(Error::Suspect(suspect)) => {
                assert_eq!(suspect.failure.kind, FailureKind::CompileCrash);
                if suspect.says_so { "machine, if it is not well" } else { "crash, if the machine is well" }
            }
            Err(Error::Interrupted { .. }) => "interrupted",
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn faults_are_told_apart() {
        for (expected, raw, output) in [
            ("compile_error", 1 << 8, "x.c:1: error: expected ;"),
            ("compile_error", 1 << 8, "x.c:1:2: error: #error No space left on device"),
            (
                "compile_error",
                1 << 8,
                "x.c:1:2: error: no\n    1 | #if 0 // gcc: fatal error: Killed signal terminated program cc1",
            ),
            // Its limits.
            ("compile_crash", 24, ""),
            ("compile_crash", 25, ""),
            ("compile_crash", 1 << 8, "cc: fatal error: CPU time limit exceeded signal terminated program cc1"),
            ("compile_crash", 1 << 8, "as: x.o: File too large"),
            ("crash, if the machine is well", 1 << 8, "cc1: out of memory allocating 8 bytes"),
            ("crash, if the machine is well", 1 << 8, "virtual memory exhausted: Cannot allocate memory"),
            // A fault of its own.
            ("crash, if the machine is well", 11, ""),
            ("crash, if the machine is well", 6 | 0x80, ""),
            ("crash, if the machine is well", 7, ""),
            ("crash, if the machine is well", 4, ""),
            ("crash, if the machine is well", 8, ""),
            ("crash, if the machine is well", 31, ""),
            ("crash, if the machine is well", 5, ""),
            ("crash, if the machine is well", 4 << 8, ""),
            (
                "crash, if the machine is well",
                1 << 8,
                "gcc: internal compiler error: Segmentation fault signal terminated program cc1",
            ),
            (
                "crash, if the machine is well",
                1 << 8,
                "nvcc error   : 'cicc' died due to signal 11 (Invalid memory reference)",
            ),
            // The machine's.
            ("machine, if it is not well", 1 << 8, "as: x.o: No space left on device"),
            (
                "machine, if it is not well",
                1 << 8,
                "x.c:1:1: fatal error: error writing to ./x.s: Read-only file system",
            ),
            (
                "machine, if it is not well",
                1 << 8,
                "cc: fatal error: cannot execute 'cc1': vfork: Resource temporarily unavailable",
            ),
            (
                "machine, if it is not well",
                1 << 8,
                "cc: fatal error: cannot execute 'cc1': vfork: Cannot allocate memory",
            ),
            ("machine, if it is not well", 1 << 8, "ld: x.o: Input/output error"),
            ("machine, if it is not well", 1 << 8, "cc1: Too many open files"),
            ("machine, if it is not well", 126 << 8, "sandbox-exec: cc: not found"),
            // Somebody's.
            ("interrupted", 15, ""),
            ("interrupted", 2, ""),
            ("interrupted", 1, ""),
            ("interrupted", 9, ""),
            ("interrupted", 3, ""),
            ("interrupted", 10, ""),
            ("interrupted", 143 << 8, ""),
            ("interrupted", 1 << 8, "cc: fatal error: Terminated signal terminated program cc1"),
            ("interrupted", 1 << 8, "clang++: error: unable to execute command: Killed"),
            ("interrupted", 1 << 8, "collect2: fatal error: ld terminated with signal 9 [Killed]"),
            ("interrupted", 255 << 8, "nvcc error   : 'cicc' died due to signal 15 (Terminate signal)"),
        ] {
            assert_eq!(said(raw, output), expected, "{raw:#x} {output}");
        }
        let limits = Limits::default();
        let slow = failure(ExitStatus::from_raw(24), "", &limits, &limits).unwrap();
        assert!(slow.detail.contains("CPU time"), "{}", slow.detail);
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
        let Err(Error::Suspect(memory)) = met(1 << 8, "cc1: out of memory allocating", &lower) else {
            panic!("a crash")
        };
        assert!(memory.failure.detail.contains("1024 MiB of memory"), "{}", memory.failure.detail);
    }
}
