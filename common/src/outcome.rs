//! What came of a job: for each candidate a timing or a failure. A failure is data, never a lost job.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::artifact::Prepared;
use crate::job::{GroupId, Job, JobId};
use crate::value::Value;

/// (solver, params) of a job's problem.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Candidate {
    pub solver: String,
    /// In the order in which the spec declares them; empty for a solver that is not tunable.
    pub params: Vec<Value>,
}

impl Candidate {
    /// Params as MIOpen's perf db holds them: values in declaration order, separated by commas.
    #[must_use]
    pub fn params_text(&self) -> String {
        self.params.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }
}

/// `solver:params`
impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.solver, self.params_text())
    }
}

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
}

impl FailureKind {
    pub const ALL: [Self; 12] = [
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
        }
    }
}

/// A failure and what is known of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    pub kind: FailureKind,
    /// For people: compiler diagnostics, the signal, the first wrong element. At most [`Failure::MAX_DETAIL`] bytes.
    pub detail: String,
}

impl Failure {
    /// Bytes kept of a detail; the beginning says what went wrong first.
    pub const MAX_DETAIL: usize = 4096;

    /// Cuts `detail` to [`Self::MAX_DETAIL`] at a character boundary.
    #[must_use]
    pub fn new(kind: FailureKind, detail: impl Into<String>) -> Self {
        let mut detail = detail.into();
        if detail.len() > Self::MAX_DETAIL {
            let cut = detail.floor_char_boundary(Self::MAX_DETAIL);
            detail.truncate(cut);
        }
        Self { kind, detail }
    }
}

/// Times of one candidate. All in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Median of the samples that were kept.
    pub median_ms: f64,
    /// Spread: median absolute deviation, scaled by 1.4826 to estimate a standard deviation.
    pub spread_ms: f64,
    /// Samples in the order they were taken, outliers included, at most [`Timing::MAX_SAMPLES`].
    pub samples_ms: Vec<f32>,
    /// Only probed: clearly slower than the best known of its problem, so not measured to the end.
    pub pruned: bool,
}

impl Timing {
    /// Samples kept.
    pub const MAX_SAMPLES: usize = 64;
}

/// What came of one candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CandidateOutcome {
    pub candidate: Candidate,
    /// How it was launched; absent where it did not compile.
    pub prepared: Option<Prepared>,
    pub result: Result<Timing, Failure>,
}

/// What came of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub job: Job,
    /// One for each candidate of the job, in its order.
    pub candidates: Vec<CandidateOutcome>,
    /// The device it was evaluated on, as the device names itself; empty where no candidate got that far.
    pub device: String,
    /// Version of the timing protocol.
    pub protocol: u16,
    /// Milliseconds since the Unix epoch.
    pub finished_ms: u64,
}

impl Outcome {
    #[must_use]
    pub fn job_id(&self) -> JobId {
        self.job.id()
    }

    #[must_use]
    pub fn group(&self) -> GroupId {
        self.job.group()
    }

    /// The outcome of a job that was given up: every candidate failed with [`FailureKind::Dead`] and `reason`.
    #[must_use]
    pub fn dead(job: &Job, reason: &str, finished_ms: u64) -> Self {
        let result = Err(Failure::new(FailureKind::Dead, reason));
        let candidates = job
            .candidates
            .iter()
            .map(|candidate| CandidateOutcome { candidate: candidate.clone(), prepared: None, result: result.clone() })
            .collect();
        Self { job: job.clone(), candidates, device: String::new(), protocol: 0, finished_ms }
    }
}
