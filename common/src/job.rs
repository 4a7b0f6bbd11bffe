//! What travels on a queue: a [`CompileJob`], then the [`EvalJob`] that it becomes.

use serde::{Deserialize, Serialize};

use crate::artifact::Built;
use crate::candidate::Candidate;
use crate::course::{Course, Worked};
use crate::description::Description;
use crate::digest::{self, Digest};
use crate::failure::Attempt;
use crate::lane::Lane;
use crate::method::{EvaluatedBy, Method};
use crate::problem::Problem;
use crate::session::{SessionName, Stage};
use crate::target::Target;
use crate::task::TaskRef;
use crate::wire::{self, Body, Message, WireError};

/// Identity of a job: the digest of what the job is. Two producers that plan the same work plan the same job.
pub type JobId = Digest;

/// Identity of a group: all jobs of one problem with one kernel spec. The winner is found within a group.
pub type GroupId = Digest;

/// A job, whatever step it is at: a batch of candidates of one problem. In the perf stage all are of one solver; in the
/// find stage each solver sends its best, and some send more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The campaign that it was planned for, which knows its budget.
    pub session: SessionName,
    /// Says whether its candidates are of one solver or of several.
    pub stage: Stage,
    /// What its candidates are built for; names the queue of its evaluation.
    pub target: Target,
    /// The same for all candidates.
    pub problem: Problem,
    /// What kind of work it is.
    pub method: Method,
    /// Digest of the kernel spec's bundle, held in the Store; of nothing where there is no spec.
    pub spec: Digest,
    /// Name of the toolchain that compiles it; that of the method where nothing is compiled.
    pub toolchain: String,
    /// In the order that their outcomes keep; part of the job's id.
    pub candidates: Vec<Candidate>,
    /// The round of its search that it was planned in, from zero: no part of its id, since no candidate is in two rounds.
    pub round: u32,
    /// How it travels: by the lane that its message came by, and what follows from it.
    #[serde(skip)]
    pub lane: Lane,
}

impl Job {
    /// Digest of what the job is. A toolchain is of one method, so that the method need not be part of it.
    #[must_use]
    pub fn id(&self) -> JobId {
        let problem = self.problem.canonical();
        let target = self.target.to_string();
        let candidates: Vec<String> = self.candidates.iter().map(ToString::to_string).collect();
        let head =
            [self.session.as_str().as_bytes(), self.stage.name().as_bytes(), target.as_bytes(), problem.as_bytes()];
        let parts = head.into_iter().chain([self.spec.0.as_slice(), self.toolchain.as_bytes()]);
        Digest::of_parts(digest::JOB, parts.chain(candidates.iter().map(|c| c.as_bytes())))
    }

    /// Whether both have the same [`id`](Self::id), without the work of making one.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        let Self { session, stage, target, problem, method: _, spec, toolchain, candidates, round: _, lane: _ } = self;
        (stage, candidates, problem, spec) == (&other.stage, &other.candidates, &other.problem, &other.spec)
            && (session, target, toolchain) == (&other.session, &other.target, &other.toolchain)
    }

    /// The group that the job belongs to.
    #[must_use]
    pub fn group(&self) -> GroupId {
        group_id(&self.problem, self.spec)
    }

    /// The queue that its compilation waits in.
    #[must_use]
    pub fn compile_queue(&self) -> String {
        compile_queue(&self.toolchain, &self.target)
    }

    /// The queue that its evaluation waits in.
    #[must_use]
    pub fn eval_queue(&self) -> String {
        eval_queue(&self.target, self.method)
    }
}

/// All jobs of `problem` with the kernel spec `spec`.
#[must_use]
pub fn group_id(problem: &Problem, spec: Digest) -> GroupId {
    Digest::of_parts(digest::GROUP, [problem.canonical().as_bytes(), spec.0.as_slice()])
}

/// `bluefin.compile.<toolchain>.<target>`: a device class that nobody serves stops compiling for no other, and a worker meets
/// no job that it can not compile.
#[must_use]
pub fn compile_queue(toolchain: &str, target: &Target) -> String {
    format!("bluefin.compile.{toolchain}.{target}")
}

/// `bluefin.eval.<device class>`, and `bluefin.eval.<device class>.<method>` for jobs that a tool evaluates: a device serves
/// all toolchains, but not every machine has the tool.
#[must_use]
pub fn eval_queue(target: &Target, method: Method) -> String {
    match method.evaluated_by {
        EvaluatedBy::Device => format!("bluefin.eval.{target}"),
        EvaluatedBy::Tool => format!("bluefin.eval.{target}.{method}"),
    }
}

/// A message that has a job done.
pub trait Order: Message + Send + Sync + 'static {
    /// What is to be done.
    fn job(&self) -> &Job;

    /// The same.
    fn job_mut(&mut self) -> &mut Job;

    /// Milliseconds since the Unix epoch at which the producer enqueued it.
    fn enqueued_ms(&self) -> u64;

    /// Whether it is done once the job has an outcome.
    fn has_outcome(&self) -> bool {
        true
    }
}

/// A job that waits for its artifacts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompileJob {
    /// Of a [`CompileWork::NextRound`], any job of the group, without candidates.
    pub job: Job,
    /// Milliseconds since the Unix epoch at which the producer enqueued it.
    pub enqueued_ms: u64,
    /// How often in a row it was compiled for nothing: its artifacts were gone before they could be evaluated.
    pub recompiles: u32,
    /// Whether there are candidates to compile, or a round to plan.
    pub work: CompileWork,
}

/// What a compile worker is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CompileWork {
    /// To compile the candidates of the job.
    Candidates,
    /// To plan what the session's search tries next in the group of the job, whose outcomes so far are all in the Store.
    NextRound,
}

impl Order for CompileJob {
    fn job(&self) -> &Job {
        &self.job
    }

    fn job_mut(&mut self) -> &mut Job {
        &mut self.job
    }

    fn enqueued_ms(&self) -> u64 {
        self.enqueued_ms
    }

    fn has_outcome(&self) -> bool {
        self.work == CompileWork::Candidates
    }
}

impl Message for CompileJob {
    const KIND: u8 = 1;
    const VERSION: u8 = 1;
    const NAME: &'static str = "compile job";
}

/// A job whose candidates are compiled, or have failed to: everything an eval worker needs, with no kernel known to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvalJob {
    /// As it was compiled; its target and method name the queue.
    pub job: Job,
    /// Milliseconds since the Unix epoch at which the producer enqueued the job, not at which it was compiled.
    pub enqueued_ms: u64,
    /// As in the [`CompileJob`] that it was.
    pub recompiles: u32,
    /// Who compiled it, and when; `None` where nobody did, or nobody said.
    pub compiled: Option<Worked>,
    /// Buffers, reference and tolerance that a device checks by; none where a tool evaluates.
    pub task: TaskRef,
    /// Passed on to the outcome.
    pub description: Description,
    /// One for each of `job.candidates`, in their order; none at all where nothing is compiled before.
    pub built: Vec<Attempt<Built>>,
}

impl EvalJob {
    /// The group of the job in the message `body`: a device that has the answer of its problem goes on with it.
    #[must_use]
    pub fn group_in(body: &[u8]) -> Option<GroupId> {
        wire::decode::<Self>(body).ok().map(|job| job.job.group())
    }

    /// A job of a method that compiles where it evaluates.
    #[must_use]
    pub fn uncompiled(job: Job, enqueued_ms: u64) -> Self {
        let description = Description::of_tool(&job.method, Vec::new());
        Self { job, enqueued_ms, recompiles: 0, compiled: None, task: TaskRef::None, description, built: Vec::new() }
    }

    /// What is known of who worked on it, `evaluated` included.
    #[must_use]
    pub fn course(&self, evaluated: Option<Worked>) -> Course {
        let Self { enqueued_ms, recompiles, compiled, .. } = self;
        Course { enqueued_ms: *enqueued_ms, recompiles: *recompiles, compiled: compiled.clone(), evaluated }
    }
}

impl Order for EvalJob {
    fn job(&self) -> &Job {
        &self.job
    }

    fn job_mut(&mut self) -> &mut Job {
        &mut self.job
    }

    fn enqueued_ms(&self) -> u64 {
        self.enqueued_ms
    }
}

impl Message for EvalJob {
    const KIND: u8 = 2;
    const VERSION: u8 = 3;
    const NAME: &'static str = "eval job";

    /// What a job of an older version has is written as it always was.
    fn version(&self) -> u8 {
        let of_task = match &self.task {
            TaskRef::Inline(task) => task.oldest_version(),
            TaskRef::None | TaskRef::Blob(_) => 1,
        };
        self.built.iter().flatten().map(Built::version).fold(of_task, u8::max)
    }

    fn of_previous(version: u8, body: &mut Body<'_>) -> Option<Result<Self, WireError>> {
        (1..Self::VERSION).contains(&version).then(|| body.read::<Self, Self>())
    }
}
