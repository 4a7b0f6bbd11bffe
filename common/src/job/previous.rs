//! What was written of it before.

use serde::{Deserialize, Serialize};

use super::{CompileJob, CompileWork, EvalJob, Job};
use crate::artifact::Built;
use crate::artifact::previous::{KernelV2, SolutionV2};
use crate::candidate::Candidate;
use crate::description::Description;
use crate::description::previous::DescriptionV1;
use crate::digest::Digest;
use crate::failure::Attempt;
use crate::lane::Lane;
use crate::method::Method;
use crate::problem::Problem;
use crate::session::{SessionName, Stage};
use crate::target::Target;
use crate::task::TaskRef;
use crate::task::previous::TaskV2;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct JobV1 {
    session: SessionName,
    stage: Stage,
    target: Target,
    problem: Problem,
    spec: Digest,
    toolchain: String,
    candidates: Vec<Candidate>,
}

impl From<JobV1> for Job {
    fn from(old: JobV1) -> Self {
        let JobV1 { session, stage, target, problem, spec, toolchain, candidates } = old;
        let method = match toolchain.parse() {
            // Where nothing is compiled it was the tool's name.
            Ok(method) => method,
            Err(_) => Method::of_toolchain(&toolchain).unwrap_or_default(),
        };
        Self { session, stage, target, problem, method, spec, toolchain, candidates, lane: Lane::First }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CompileJobV1 {
    job: JobV1,
    enqueued_ms: u64,
    recompiles: u32,
}

impl From<CompileJobV1> for CompileJob {
    fn from(old: CompileJobV1) -> Self {
        let CompileJobV1 { job, enqueued_ms, recompiles } = old;
        Self { job: job.into(), enqueued_ms, recompiles, work: CompileWork::Candidates }
    }
}

/// Of which nobody said who compiled it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EvalJobV3 {
    job: Job,
    enqueued_ms: u64,
    recompiles: u32,
    task: TaskRef,
    description: DescriptionV1,
    built: Vec<Attempt<Built>>,
}

impl From<EvalJobV3> for EvalJob {
    fn from(old: EvalJobV3) -> Self {
        let EvalJobV3 { job, enqueued_ms, recompiles, task, description, built } = old;
        let description = description.into();
        Self { job, enqueued_ms, recompiles, compiled: None, task, description, built }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct EvalJobV2 {
    job: JobV1,
    enqueued_ms: u64,
    recompiles: u32,
    compiled: CompiledV2,
}

#[derive(Debug, Serialize, Deserialize)]
enum CompiledV2 {
    Kernels { task: TaskV2, prepared: Vec<Attempt<KernelV2>> },
    Fin { solutions: Vec<Attempt<SolutionV2>> },
    Driver,
}

impl From<EvalJobV2> for EvalJob {
    fn from(old: EvalJobV2) -> Self {
        let EvalJobV2 { job, enqueued_ms, recompiles, compiled } = old;
        let job = Job::from(job);
        let (task, description, built) = match compiled {
            CompiledV2::Kernels { task, prepared } => {
                let task = TaskRef::Inline(Box::new(task.into()));
                let built = prepared.into_iter().map(|one| one.map(Built::from)).collect();
                (task, Description::default(), built)
            }
            CompiledV2::Fin { solutions } => {
                let named = job.candidates.iter().zip(&solutions);
                let solvers = named.filter_map(|(asked, solution)| Some(solution.as_ref().ok()?.info(&asked.solver)));
                let description = Description::of_tool(&job.method, solvers.collect());
                (TaskRef::None, description, solutions.into_iter().map(|one| one.map(Built::from)).collect())
            }
            CompiledV2::Driver => (TaskRef::None, Description::of_tool(&job.method, Vec::new()), Vec::new()),
        };
        Self { job, enqueued_ms, recompiles, compiled: None, task, description, built }
    }
}
