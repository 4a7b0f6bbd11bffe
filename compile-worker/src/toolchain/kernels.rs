//! Kernel specs as a toolchain, over any [`Compiler`], or over two, for specs whose solvers are some the one's and some the other's.

use std::sync::Arc;

use async_trait::async_trait;
use bluefin_common::artifact::Built;
use bluefin_common::candidate::Candidate;
use bluefin_common::delivery::pin::{Pin, PlainPin};
use bluefin_common::failure::{Attempt, Failure, FailureKind};
use bluefin_common::job::Job;
use bluefin_common::problem::DataType;
use bluefin_common::search_end::SearchEnd;
use bluefin_common::session::Session;
use bluefin_common::target::Target;
use bluefin_common::task::{Task, TaskRef};
use bluefin_kernel_spec::search::Searching;
use bluefin_kernel_spec::{KernelSpec, Scope};
use futures_util::stream::{self, StreamExt as _};

use super::{Ask, CompileAssignment, Compiled, Compiler, NextRounds, Toolchain};
use crate::error::Error;
use crate::specs::Loaded;
use crate::unit::Unit;
use crate::workshop::Workshop;

/// Candidates of one job that are looked up at a time; the slots bound how many compile.
const LOOKED_UP: usize = 32;

/// Compiles jobs of kernel specs.
pub struct Kernels {
    name: String,
    /// At least one.
    compilers: Vec<Arc<dyn Compiler>>,
    pin: PlainPin,
}

impl Kernels {
    #[must_use]
    pub fn new(compiler: impl Compiler) -> Self {
        Self::of(vec![Arc::new(compiler)])
    }

    /// Those of `compilers`, which go together: `clang+triton`, pinned as one.
    pub(super) fn of(compilers: Vec<Arc<dyn Compiler>>) -> Self {
        let joined = |of: fn(&dyn Compiler) -> &str, by: &str| {
            let texts: Vec<&str> = compilers.iter().map(|compiler| of(&**compiler)).collect();
            texts.join(by)
        };
        let name = joined(|compiler| compiler.name(), "+");
        let pin = PlainPin { key: format!("toolchain.{name}"), value: joined(|compiler| compiler.identity(), " + ") };
        Self { name, compilers, pin }
    }
}

#[async_trait]
impl Toolchain for Kernels {
    fn name(&self) -> &str {
        &self.name
    }

    fn pin(&self) -> &dyn Pin {
        &self.pin
    }

    async fn serves(&self, target: &Target) -> Result<bool, Error> {
        Ok(self.refusal(target).is_none())
    }

    fn refusal(&self, target: &Target) -> Option<String> {
        self.compilers.iter().find_map(|compiler| compiler.refusal(target.arch()))
    }

    fn only_waits(&self) -> bool {
        self.compilers.iter().all(|compiler| compiler.only_waits())
    }

    async fn try_out(&self, workshop: &Workshop) -> Result<(), Error> {
        for compiler in &self.compilers {
            compiler.try_out(workshop).await?;
        }
        Ok(())
    }

    async fn compile(&self, work: CompileAssignment<'_>) -> Result<Compiled, Error> {
        let CompileAssignment { job, session, workshop } = work;
        let loaded = workshop.specs().get(job.spec).await?;
        let description = loaded.spec.describe(job);
        let scope = match scope(&loaded.spec, job) {
            Ok(scope) => scope,
            Err(failure) => return Ok(Compiled::failed(job, description, &failure)),
        };
        let bench = Bench { compilers: &self.compilers, workshop, loaded: &loaded, scope: &scope };
        match bench.build_all(job, session).await? {
            Ok((task, built)) => Ok(Compiled { task, description, built }),
            Err(failure) => Ok(Compiled::failed(job, description, &failure)),
        }
    }

    async fn next_rounds(&self, ask: Ask<'_>) -> Result<NextRounds, Error> {
        let Ask { job, plan, strategies, outcomes, others, priors, ahead, workshop } = ask;
        let loaded = workshop.specs().get(job.spec).await?;
        let (job, plan, strategies) = (job.clone(), plan.clone(), strategies.clone());
        let (outcomes, others, priors) = (Arc::clone(outcomes), Arc::clone(others), priors.cloned());
        // A large tuning space takes a while to walk through.
        let round = tokio::task::spawn_blocking(move || {
            let failed = |error: bluefin_kernel_spec::SpecError| Error::Job { reason: error.to_string() };
            let Some(scope) = loaded.spec.scope(&job.problem, &job.target).map_err(failed)? else {
                return Ok(NextRounds::default());
            };
            let Some(search) = strategies.get(&plan.strategy) else { return Ok(NextRounds::default()) };
            let (plan, problem, priors) = (&plan, &job.problem, priors.as_deref());
            let searching = Searching { search, plan, problem, spec: &loaded.spec, scope: &scope, priors, ahead };
            let rounds = searching.current(&outcomes, &others).map_err(failed)?;
            let end = if rounds.is_empty() {
                searching.end(&outcomes, &others).map_err(failed)?
            } else {
                SearchEnd::default()
            };
            Ok(NextRounds { rounds, end })
        });
        round.await.unwrap_or_else(|error| Err(Error::Exhausted { reason: error.to_string() }))
    }

    fn compilers(&self) -> Vec<Arc<dyn Compiler>> {
        self.compilers.clone()
    }
}

/// Where the expressions of `spec` have values, or why it is not for the job.
fn scope(spec: &KernelSpec, job: &Job) -> Attempt<Scope> {
    match spec.scope(&job.problem, &job.target) {
        Ok(Some(scope)) => Ok(scope),
        Ok(None) => Err(invalid(format!("kernel spec {} is not for this problem on {}", spec.name, job.target))),
        Err(error) => Err(invalid(error.to_string())),
    }
}

/// One spec on one problem.
struct Bench<'a> {
    compilers: &'a [Arc<dyn Compiler>],
    workshop: &'a Workshop,
    loaded: &'a Loaded,
    scope: &'a Scope,
}

impl Bench<'_> {
    /// Builds the reference and all candidates. The inner error is one that all of them share; a task that nobody needs is
    /// not stored.
    async fn build_all(&self, job: &Job, session: &Session) -> Result<Attempt<(TaskRef, Vec<Attempt<Built>>)>, Error> {
        let spec = &self.loaded.spec;
        let (buffers, tolerance) = match spec.task_parts(self.scope) {
            Ok(parts) => parts,
            Err(error) => return Ok(Err(invalid(error.to_string()))),
        };
        let types: Vec<DataType> = buffers.iter().map(|buffer| buffer.data_type).collect();
        // A source may not go together with the entries that check on the device; then the host checks.
        let reference = async {
            match self.build(spec.reference(), Some(&types)).await? {
                Err(failure) if failure.kind == FailureKind::CompileError => self.build(spec.reference(), None).await,
                built => Ok(built),
            }
        };
        // They do not wait for it: all jobs of a problem share it, and slots would stand idle until it is there.
        let candidates = async {
            let all = stream::iter(job.candidates.iter().cloned()).map(|candidate| self.build(candidate, None));
            let all: Vec<_> = all.buffered(LOOKED_UP).collect().await;
            all.into_iter().collect::<Result<Vec<_>, _>>()
        };
        let (reference, built) = tokio::try_join!(reference, candidates)?;
        let reference = match reference {
            Ok(reference) => reference,
            Err(failure) => {
                let detail = format!("the reference {} failed: {}", spec.reference().solver, failure.detail);
                return Ok(Err(Failure::new(failure.kind, detail)));
            }
        };
        let task = if built.iter().any(Result::is_ok) {
            // Before the task: a worker that has the task looks for them.
            match spec.made(self.scope) {
                Ok(made) => {
                    for bytes in made {
                        self.workshop.put_made(&bytes).await?;
                    }
                }
                Err(error) => return Ok(Err(invalid(error.to_string()))),
            }
            self.workshop.put_task(session, Task { buffers, reference, tolerance }).await?
        } else {
            TaskRef::None
        };
        Ok(Ok((task, built)))
    }

    /// `checked`: with the entries by which elements of these types are checked on the device.
    async fn build(&self, candidate: Candidate, checked: Option<&[DataType]>) -> Result<Attempt<Built>, Error> {
        let build = match self.loaded.spec.build(&candidate, self.scope) {
            Ok(build) => build,
            Err(error) => return Ok(Err(invalid(error.to_string()))),
        };
        let compiler = self.compiler_of(&candidate)?;
        let (bundle, arch) = (self.loaded.bundle(compiler.name()), self.scope.target().arch());
        let unit = Unit::new(compiler, arch, bundle, &self.loaded.spec, build);
        let unit = match checked {
            Some(types) => unit.with_checks(compiler, types),
            None => unit,
        };
        self.workshop.compile(compiler, &unit).await
    }

    /// What compiles `candidate`: of several that which its solver names.
    fn compiler_of(&self, candidate: &Candidate) -> Result<&dyn Compiler, Error> {
        let wanted = self.loaded.spec.solver(&candidate.solver).map_or("", |solver| &solver.toolchain);
        let found = match self.compilers {
            [only] if !self.loaded.spec.has_two_toolchains() => Some(only),
            several => several.iter().find(|compiler| compiler.name() == wanted),
        };
        found.map(|compiler| &**compiler).ok_or_else(|| Error::Job {
            reason: format!("solver {}: of the toolchain {wanted}, which does not compile its jobs", candidate.solver),
        })
    }
}

fn invalid(detail: String) -> Failure {
    Failure::new(FailureKind::InvalidLaunch, detail)
}
