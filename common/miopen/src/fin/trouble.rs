//! What a call of fin that gave no usable answer means.

use rustix::process::Signal;

use crate::process::{Ended, Ran, Watch, describe};
use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::process_group::ended_from_outside;

/// What a disk says that is full, read-only or broken, in lower case, and a process that may open no more files.
const OF_THE_MACHINE: [&str; 7] = [
    "disk i/o error",
    "no space left on device",
    "disk quota exceeded",
    "read-only file system",
    "database is locked",
    "database or disk is full",
    "too many open files",
];

/// Whether `text` tells of this machine's trouble rather than of what was asked for.
#[must_use]
pub fn blames_machine(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    OF_THE_MACHINE.iter().any(|word| text.contains(word))
}

/// Why a call gave no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Trouble {
    /// What was asked for is to blame, as far as anybody can tell.
    Failed(Failure),
    /// This machine is to blame, and the same may go well later: a disk that is full or locked, a service manager that stops
    /// it.
    Machine(String),
    /// Killed, and neither by bluefin nor for want of memory: by whom is not known, and may have been what was asked for.
    Killed(String),
    /// This build of fin can not do what was asked of it: it compiles, or it evaluates, and not both.
    WrongBackend(String),
    /// This build does not know the target.
    WrongTarget(String),
    /// There is no GPU, or none that is visible.
    NoDevice(String),
}

impl Trouble {
    /// What to store where nobody is left to try again.
    #[must_use]
    pub fn into_failure(self) -> Failure {
        match self {
            Self::Failed(failure) => failure,
            Self::Machine(detail) | Self::Killed(detail) => Failure::new(FailureKind::ToolCrash, detail),
            Self::WrongBackend(detail) => Failure::new(FailureKind::WrongBackend, detail),
            Self::WrongTarget(detail) => Failure::new(FailureKind::WrongTarget, detail),
            Self::NoDevice(detail) => Failure::new(FailureKind::DeviceLost, detail),
        }
    }

    /// What a tool that could not be started means.
    #[must_use]
    pub fn not_started(program: &str, error: &std::io::Error) -> Self {
        Self::Machine(format!("{program}: {error}"))
    }

    /// What an end says; `None` if the tool exited with code 0.
    #[must_use]
    pub fn of_end(ran: &Ran, watch: &Watch) -> Option<Self> {
        let printed = || with_tail(String::new(), &ran.tail);
        let failed = |kind, detail: String| Some(Self::Failed(Failure::new(kind, with_tail(detail, &ran.tail))));
        let status = match &ran.ended {
            Ended::Exited(status) => *status,
            Ended::Killed(short_of) => {
                return Some(Self::Machine(format!("the kernel killed it for want of memory: {short_of}")));
            }
            Ended::OutOfTime => {
                let detail = format!("killed after {} s, the time that it may take", watch.time.as_secs_f64());
                return failed(FailureKind::Hang, detail);
            }
            Ended::Silent => {
                let detail = format!("killed after {} s without a sign of life", watch.silence.as_secs_f64());
                return failed(FailureKind::Hang, detail);
            }
            Ended::TooLarge => {
                let detail = format!("killed: its answer grew beyond {} bytes", watch.output_bytes);
                return failed(FailureKind::MalformedOutput, detail);
            }
        };
        if status.success() {
            return None;
        }
        match ended_from_outside(status) {
            Some(Signal::KILL) => return Some(Self::Killed(with_tail(describe(status), &ran.tail))),
            Some(_) => return Some(Self::Machine(format!("{}, which somebody else sent", describe(status)))),
            None => {}
        }
        let said = ran.tail.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
        if blames_machine(&said) {
            return Some(Self::Machine(printed()));
        }
        if has(&["invalid arch name"]) {
            return Some(Self::WrongTarget(printed()));
        }
        if has(&["no rocm-capable device", "hiperrornodevice", "no hip devices", "hsa_status_error_out_of_resources"]) {
            return Some(Self::NoDevice(printed()));
        }
        if has(&["miopen backend", "nogpu backend", "hipnogpu"]) {
            return Some(Self::WrongBackend(printed()));
        }
        if has(&["out of memory", "outofmemory", "bad_alloc"]) {
            return failed(FailureKind::OutOfMemory, describe(status));
        }
        failed(FailureKind::ToolCrash, describe(status))
    }
}

/// `detail`, and the end of what was printed.
pub(super) fn with_tail(detail: String, tail: &str) -> String {
    let tail = tail.trim();
    // Its end says more than its beginning, and a detail is cut at its end.
    let room = Failure::MAX_DETAIL - 600;
    let tail = tail.get(tail.ceil_char_boundary(tail.len().saturating_sub(room))..).unwrap_or_default();
    match (detail.is_empty(), tail.is_empty()) {
        (_, true) => detail,
        (true, false) => tail.to_string(),
        (false, false) => format!("{detail}; it printed: {tail}"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;
    use std::time::Duration;

    use super::*;

    fn end(ended: Ended, tail: &str) -> Option<Trouble> {
        let ran = Ran { ended, tail: tail.to_string(), took: Duration::ZERO };
        Trouble::of_end(&ran, &Watch::default())
    }

    fn abort(tail: &str) -> Trouble {
        end(Ended::Exited(ExitStatus::from_raw(6)), tail).unwrap()
    }

    fn kind(trouble: Trouble) -> FailureKind {
        let Trouble::Failed(failure) = trouble else { panic!("{trouble:?}") };
        assert!(failure.detail.len() <= Failure::MAX_DETAIL);
        failure.kind
    }

    #[test]
    fn ends_are_told_apart() {
        assert_eq!(end(Ended::Exited(ExitStatus::from_raw(0)), "terminate"), None);
        assert_eq!(kind(end(Ended::OutOfTime, "").unwrap()), FailureKind::Hang);
        assert_eq!(kind(end(Ended::Silent, "").unwrap()), FailureKind::Hang);
        assert_eq!(kind(end(Ended::TooLarge, "").unwrap()), FailureKind::MalformedOutput);
        assert!(matches!(end(Ended::Killed("2 bytes".to_string()), ""), Some(Trouble::Machine(_))));
        // SIGHUP, SIGINT, SIGQUIT and SIGTERM. Who is told to stop may still say something.
        for signal in [1, 2, 3, 15] {
            let stopped = end(Ended::Exited(ExitStatus::from_raw(signal)), "out of memory");
            assert!(matches!(stopped, Some(Trouble::Machine(_))), "{stopped:?}");
        }
        assert!(matches!(end(Ended::Exited(ExitStatus::from_raw(9)), ""), Some(Trouble::Killed(_))));
        assert_eq!(kind(end(Ended::Exited(ExitStatus::from_raw(11)), "").unwrap()), FailureKind::ToolCrash);
        for said in ["write: Disk quota exceeded", "mkdir: Read-only file system", "open: Too many open files"] {
            assert!(matches!(abort(said), Trouble::Machine(_)), "{said}");
        }
        assert_eq!(kind(abort("terminate called after throwing")), FailureKind::ToolCrash);
        assert_eq!(kind(abort(&"x".repeat(100_000))), FailureKind::ToolCrash);
        assert_eq!(kind(abort("hipMalloc: out of memory")), FailureKind::OutOfMemory);
        assert!(matches!(abort("SQLite: disk I/O error"), Trouble::Machine(_)));
        assert!(matches!(abort("what():  Invalid Arch Name"), Trouble::WrongTarget(_)));
        assert!(matches!(abort("Invalid MIOpen backend: HIPNOGPU"), Trouble::WrongBackend(_)));
        assert!(matches!(abort("no ROCm-capable device is detected"), Trouble::NoDevice(_)));
        let exit = end(Ended::Exited(ExitStatus::from_raw(255 << 8)), "No space left on device");
        assert!(matches!(exit, Some(Trouble::Machine(_))));
    }

    #[test]
    fn the_end_of_a_long_tail_is_kept() {
        let failure = abort(&format!("{}\nthe last word", "x".repeat(20_000))).into_failure();
        assert!(failure.detail.ends_with("the last word") && failure.detail.contains("SIGABRT"), "{}", failure.detail);
    }
}
