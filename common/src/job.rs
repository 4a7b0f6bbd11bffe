//! What travels on a queue: a [`CompileJob`], then the [`EvalJob`] that it becomes.

use serde::{Deserialize, Serialize};

use crate::artifact::{Prepared, Task};
use crate::digest::Digest;
use crate::miopen::{Solution, Tool};
use crate::outcome::{Candidate, Failure};
use crate::problem::Problem;
use crate::session::SessionName;
use crate::target::Target;

/// Identity of a job: the digest of what the job is. Two producers that plan the same work plan the same job.
pub type JobId = Digest;

/// Identity of a group: all jobs of one problem with one kernel spec. The winner is found within a group.
pub type GroupId = Digest;

/// A step of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Finds the best params of each solver.
    Perf,
    /// Times the best of every solver, and what may be faster, against each other, interleaved.
    Find,
}

impl Stage {
    /// All stages, in the order they run.
    pub const ALL: [Self; 2] = [Self::Perf, Self::Find];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Perf => "perf",
            Self::Find => "find",
        }
    }
}

/// A job, whatever step it is at: a batch of candidates of one problem. In the perf stage all are of one solver; in the
/// find stage each solver sends its best, and some send more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub session: SessionName,
    pub stage: Stage,
    pub target: Target,
    pub problem: Problem,
    /// Digest of the kernel spec's bundle, held in the Store; of nothing where MIOpen's solvers are tuned.
    pub spec: Digest,
    /// Name of the toolchain that compiles it, or of the tool of MIOpen's that evaluates it; names the queues.
    pub toolchain: String,
    pub candidates: Vec<Candidate>,
}

impl Job {
    /// Digest of what the job is.
    #[must_use]
    pub fn id(&self) -> JobId {
        let problem = self.problem.canonical();
        let target = self.target.to_string();
        let candidates: Vec<String> = self.candidates.iter().map(ToString::to_string).collect();
        let head =
            [self.session.as_str().as_bytes(), self.stage.name().as_bytes(), target.as_bytes(), problem.as_bytes()];
        let parts = head.into_iter().chain([self.spec.0.as_slice(), self.toolchain.as_bytes()]);
        Digest::of_parts("bluefin 2026 job", parts.chain(candidates.iter().map(|c| c.as_bytes())))
    }

    /// The group that the job belongs to.
    #[must_use]
    pub fn group(&self) -> GroupId {
        group_id(&self.problem, self.spec)
    }

    /// The queue that its compilation waits in.
    #[must_use]
    pub fn compile_queue(&self) -> String {
        compile_queue(&self.toolchain)
    }

    /// The queue that its evaluation waits in.
    #[must_use]
    pub fn eval_queue(&self) -> String {
        eval_queue(&self.target, Tool::of_toolchain(&self.toolchain))
    }
}

/// All jobs of `problem` with the kernel spec `spec`.
#[must_use]
pub fn group_id(problem: &Problem, spec: Digest) -> GroupId {
    Digest::of_parts("bluefin 2026 group", [problem.canonical().as_bytes(), spec.0.as_slice()])
}

/// `bluefin.compile.<toolchain>`
#[must_use]
pub fn compile_queue(toolchain: &str) -> String {
    format!("bluefin.compile.{toolchain}")
}

/// `bluefin.eval.<device class>`, and `bluefin.eval.<device class>.<tool>` for jobs that one of MIOpen's tools evaluates:
/// a device serves all toolchains, but not every machine has MIOpen.
#[must_use]
pub fn eval_queue(target: &Target, tool: Option<Tool>) -> String {
    match tool {
        Some(tool) => format!("bluefin.eval.{target}.{}", tool.name()),
        None => format!("bluefin.eval.{target}"),
    }
}

/// A job that waits for its artifacts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompileJob {
    pub job: Job,
    /// Milliseconds since the Unix epoch at which the producer enqueued it.
    pub enqueued_ms: u64,
    /// How often in a row it was compiled for nothing: its artifacts were gone before they could be evaluated.
    pub recompiles: u32,
}

/// A job whose candidates are compiled, or have failed to: everything an eval worker needs, with no kernel known to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvalJob {
    pub job: Job,
    pub enqueued_ms: u64,
    /// As in the [`CompileJob`] that it was.
    pub recompiles: u32,
    pub compiled: Compiled,
}

/// What the candidates of a job were compiled into. Each list has one entry for each of `job.candidates`, in their order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Compiled {
    /// Kernels of a spec.
    Kernels { task: Task, prepared: Vec<Result<Prepared, Failure>> },
    /// What fin compiled.
    Fin { solutions: Vec<Result<Solution, Failure>> },
    /// Nothing: MIOpenDriver compiles where it runs.
    Driver,
}

impl Compiled {
    /// The task and the kernels, if it is kernels of a spec.
    #[must_use]
    pub fn kernels(&self) -> Option<(&Task, &[Result<Prepared, Failure>])> {
        match self {
            Self::Kernels { task, prepared } => Some((task, prepared)),
            Self::Fin { .. } | Self::Driver => None,
        }
    }
}
