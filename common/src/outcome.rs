//! What came of a job: for each candidate a timing or a failure. A failure is data, never a lost job.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::artifact::Built;
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
    /// Whether the caches of the device were cold before each sample.
    pub cold: bool,
    /// Samples that were dropped because the device's clock was throttled.
    pub throttled: u32,
    /// Median clock of the device during the samples in MHz; 0 where it is not measured.
    pub clock_mhz: u32,
}

impl Timing {
    /// Samples kept.
    pub const MAX_SAMPLES: usize = 64;

    /// A single sample of `ms`, by somebody who says no more.
    #[must_use]
    pub fn single(ms: f64) -> Self {
        Self {
            median_ms: ms,
            spread_ms: 0.0,
            samples_ms: vec![ms as f32],
            pruned: false,
            cold: false,
            throttled: 0,
            clock_mhz: 0,
        }
    }
}

/// The state of a device while a job was on it. Empty or absent: the device does not tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceState {
    pub uuid: String,
    /// Versions of driver and runtime.
    pub driver: String,
    pub temperature_c: Option<i16>,
    pub power_w: Option<u32>,
    /// Clock in MHz that samples were held against.
    pub reference_clock_mhz: Option<u32>,
}

/// What came of one candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CandidateOutcome {
    pub candidate: Candidate,
    /// What ran; absent where it did not compile.
    pub built: Option<Built>,
    pub result: Result<Timing, Failure>,
}

/// What came of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub job: Job,
    /// One for each candidate of the job, in its order; their params are those that a tool of MIOpen's found. MIOpenDriver
    /// finds solvers too: one for each of those.
    pub candidates: Vec<CandidateOutcome>,
    /// The device it was evaluated on, as the device names itself; empty where no candidate got that far.
    pub device: String,
    pub device_state: DeviceState,
    /// Version of the timing protocol; 0 where a tool of MIOpen's measured.
    pub protocol: u16,
    /// Milliseconds of the eval worker's time that it took.
    pub busy_ms: u64,
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

    /// The outcome of a job that never reached a device.
    #[must_use]
    pub fn undone(job: &Job, candidates: Vec<CandidateOutcome>, finished_ms: u64) -> Self {
        let (device, device_state) = (String::new(), DeviceState::default());
        Self { job: job.clone(), candidates, device, device_state, protocol: 0, busy_ms: 0, finished_ms }
    }

    /// The outcome of a job that was given up: every candidate failed with [`FailureKind::Dead`] and `reason`.
    #[must_use]
    pub fn dead(job: &Job, reason: &str, finished_ms: u64) -> Self {
        let result = Err(Failure::new(FailureKind::Dead, reason));
        let candidates = job
            .candidates
            .iter()
            .map(|candidate| CandidateOutcome { candidate: candidate.clone(), built: None, result: result.clone() })
            .collect();
        Self::undone(job, candidates, finished_ms)
    }
}
