//! Failures: why a candidate has no time. A failure is data, never a lost job.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::printable::printable_lines;

/// What came of trying something with a candidate. The error that is not the candidate's fault is outside of it.
pub type Attempt<T> = Result<T, Failure>;

/// Why a candidate has no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The compiler refused the source.
    CompileError,
    /// The compiler ran out of time.
    CompileTimeout,
    /// The compiler was killed by a limit on CPU time, memory or file size, or crashed.
    CompileCrash,
    /// The spec gives no valid launch for this candidate.
    InvalidLaunch,
    /// The code object could not be loaded, or a symbol is missing.
    LoadError,
    /// The device refused the launch.
    LaunchFailure,
    /// The output differs from the reference.
    WrongResult,
    /// Some of the output was not written, or is not a number where the reference is.
    OutputNotWritten,
    /// The kernel crashed its process or faulted the device.
    Fault,
    /// The kernel did not end in time.
    Hang,
    /// Not enough memory on the device.
    OutOfMemory,
    /// The job was given up after its last attempt; the detail says why.
    Dead,
    /// The device is gone, or stopped answering.
    DeviceLost,
    /// An output is not a number where the reference is one.
    NotANumber,
    /// The code object is for another architecture.
    WrongTarget,
    /// MIOpen: the solver does not apply to the problem, or is excluded.
    NotApplicable,
    /// MIOpen: it has no solver of this name.
    UnknownSolver,
    /// MIOpen: the solver or its invoker threw, or found no solution.
    SolverError,
    /// MIOpen: reported a time that is not positive.
    InvalidTime,
    /// MIOpen: the tool wrote no output, or none for this solver.
    NoResult,
    /// MIOpen: the output of the tool is not what its protocol says.
    MalformedOutput,
    /// MIOpen: the tool crashed or exited with an error.
    ToolCrash,
    /// MIOpen: the tool was built for another backend than the step needs.
    WrongBackend,
    /// MIOpen: it answered for another problem than it was asked about.
    KeyMismatch,
    /// MIOpen: a solver that needs kernels has none.
    MissingArtifact,
    /// MIOpen: a kernel does not match its size or checksum.
    CorruptArtifact,
    /// MIOpen: a kernel could not be compressed, so its database can not hold it.
    Uncompressed,
    /// The budget of its problem or session was spent before it was begun.
    BudgetSpent,
}

impl FailureKind {
    /// Every kind, in the order in which the wire numbers them.
    pub const ALL: [Self; 28] = [
        Self::CompileError,
        Self::CompileTimeout,
        Self::CompileCrash,
        Self::InvalidLaunch,
        Self::LoadError,
        Self::LaunchFailure,
        Self::WrongResult,
        Self::OutputNotWritten,
        Self::Fault,
        Self::Hang,
        Self::OutOfMemory,
        Self::Dead,
        Self::DeviceLost,
        Self::NotANumber,
        Self::WrongTarget,
        Self::NotApplicable,
        Self::UnknownSolver,
        Self::SolverError,
        Self::InvalidTime,
        Self::NoResult,
        Self::MalformedOutput,
        Self::ToolCrash,
        Self::WrongBackend,
        Self::KeyMismatch,
        Self::MissingArtifact,
        Self::CorruptArtifact,
        Self::Uncompressed,
        Self::BudgetSpent,
    ];

    /// Name in logs, metrics and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CompileError => "compile_error",
            Self::CompileTimeout => "compile_timeout",
            Self::CompileCrash => "compile_crash",
            Self::InvalidLaunch => "invalid_launch",
            Self::LoadError => "load_error",
            Self::LaunchFailure => "launch_failure",
            Self::WrongResult => "wrong_result",
            Self::OutputNotWritten => "output_not_written",
            Self::Fault => "fault",
            Self::Hang => "hang",
            Self::OutOfMemory => "out_of_memory",
            Self::Dead => "dead",
            Self::DeviceLost => "device_lost",
            Self::NotANumber => "not_a_number",
            Self::WrongTarget => "wrong_target",
            Self::NotApplicable => "not_applicable",
            Self::UnknownSolver => "unknown_solver",
            Self::SolverError => "solver_error",
            Self::InvalidTime => "invalid_time",
            Self::NoResult => "no_result",
            Self::MalformedOutput => "malformed_output",
            Self::ToolCrash => "tool_crash",
            Self::WrongBackend => "wrong_backend",
            Self::KeyMismatch => "key_mismatch",
            Self::MissingArtifact => "missing_artifact",
            Self::CorruptArtifact => "corrupt_artifact",
            Self::Uncompressed => "uncompressed",
            Self::BudgetSpent => "budget_spent",
        }
    }
}

/// A failure and what is known of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// What the candidate counts as, in metrics and reports.
    pub kind: FailureKind,
    /// For people: compiler diagnostics, the signal, the first wrong element. At most [`Failure::MAX_DETAIL`] bytes.
    pub detail: String,
}

/// How the words of a failure begin that is not the candidate's own: `the reference NAME failed: ...`, as compile workers say it.
const OF_REFERENCE: &str = "the reference ";
const FAILED: &str = " failed: ";

/// The line of the words of a failure that tells most: the first that a compiler calls an error, or else the first of all. One that is the
/// reference's says so.
#[must_use]
pub fn telling_line(words: &str) -> Cow<'_, str> {
    let mut lines = words.trim_start().lines();
    let reference = lines.clone().next().and_then(|first| first.strip_prefix(OF_REFERENCE)?.split_once(FAILED));
    // `compile_error: ` is a kind, not an error.
    let tells = |line: &&str| line.to_ascii_lowercase().replace("_error: ", "").contains("error: ");
    let error = lines.clone().find(tells);
    let line = error.or_else(|| lines.next()).unwrap_or_default();
    match reference {
        Some((name, _)) if !line.starts_with(OF_REFERENCE) => format!("{OF_REFERENCE}{name}{FAILED}{line}").into(),
        _ => line.into(),
    }
}

impl Failure {
    /// Bytes kept of a detail; the beginning says what went wrong first.
    pub const MAX_DETAIL: usize = 4096;

    /// Makes `detail` printable and cuts it to [`Self::MAX_DETAIL`] at a character boundary.
    #[must_use]
    pub fn new(kind: FailureKind, detail: impl Into<String>) -> Self {
        let detail: String = detail.into();
        let mut detail = match printable_lines(&detail) {
            Cow::Borrowed(_) => detail,
            Cow::Owned(escaped) => escaped,
        };
        if detail.len() > Self::MAX_DETAIL {
            let cut = detail.floor_char_boundary(Self::MAX_DETAIL);
            detail.truncate(cut);
        }
        Self { kind, detail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_tells_most_says_whose_it_is() {
        let words = "In file included from unit.c:1:\na.c:1:94: error: 'U' undeclared\n  1 | x";
        assert_eq!(telling_line(words), "a.c:1:94: error: 'U' undeclared");
        let told = telling_line(&format!("the reference ScaleReference failed: {words}")).into_owned();
        assert_eq!(told, "the reference ScaleReference failed: a.c:1:94: error: 'U' undeclared");
        assert_eq!(telling_line("the reference A failed: hang"), "the reference A failed: hang");
        assert_eq!(telling_line("segmentation fault\nat 0"), "segmentation fault");
    }

    #[test]
    fn words_are_printable_and_bounded() {
        let failure = Failure::new(FailureKind::CompileError, format!("x.c:1:\x1b]0;t\x07\n{}", "ä".repeat(4096)));
        assert!(failure.detail.starts_with("x.c:1:\\u{1b}]0;t\\u{7}\nä"), "{}", failure.detail);
        assert!(failure.detail.len() <= Failure::MAX_DETAIL);
    }
}
