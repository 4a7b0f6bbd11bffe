//! One compile queue, as a [`Role`]: when it takes jobs, whose they are, and what becomes of those that come to nothing.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bluefin_common::clock::now_ms;
use bluefin_common::delivery::{self, Context, Given, GivenUp, Halt, NOT_MINE, OTHER_VERSION, Product, Role};
use bluefin_common::job::{CompileJob, CompileWork, compile_queue, eval_queue};
use bluefin_common::method::Method;
use bluefin_common::metrics::Step;
use bluefin_common::outcome::Outcome;
use bluefin_common::target::Target;
use futures_util::FutureExt as _;

use crate::backlog::Waiting;
use crate::error::Error;
use crate::job::{Done, Jobs};
use crate::toolchain::Toolchain;

/// How long a job stays away that came to nothing through this machine: others may do it meanwhile.
const PAUSE: Duration = Duration::from_secs(1);
/// How often that is doubled for one that says each time that the machine is at its end, while that is well.
const DOUBLED: u32 = 5;

/// The compile queue of one toolchain and target.
pub(crate) struct Queue {
    jobs: Arc<Jobs>,
    toolchain: Arc<dyn Toolchain>,
    target: Target,
    /// Where its jobs are evaluated.
    evaluated_in: String,
}

impl Queue {
    pub(crate) fn new(jobs: &Arc<Jobs>, toolchain: &Arc<dyn Toolchain>, target: Target) -> Self {
        let evaluated_in = eval_queue(&target, Method::of_toolchain(toolchain.name()).unwrap_or_default());
        Self { jobs: Arc::clone(jobs), toolchain: Arc::clone(toolchain), target, evaluated_in }
    }

    /// Serves it until the worker is to stop, then drains.
    pub(crate) async fn run(self) -> Result<(), Error> {
        let name = compile_queue(self.toolchain.name(), &self.target);
        self.jobs.gate.watch(&self.evaluated_in);
        let (worker, compiler, slots) = (&self.jobs.worker, self.toolchain.identity(), self.jobs.workshop.slots());
        tracing::info!(worker, queue = name, compiler, slots, "serving");
        Ok(delivery::serve(&Arc::new(self), &name).await?)
    }

    /// Does `operation` again and again while broker or store is away. Dropping the work kills its compilers.
    async fn patiently<T, F: Future<Output = Result<T, Error>>>(
        &self,
        what: &str,
        operation: impl Fn() -> F,
    ) -> Result<T, Halt> {
        let done = self.jobs.context.patience.with_error(what, operation).await;
        done.map_err(|(given_up, error)| self.not_done(given_up, error))
    }

    /// What becomes of a job that came to nothing.
    fn not_done(&self, given_up: GivenUp, error: Option<Error>) -> Halt {
        let end = &self.jobs.end;
        match (given_up, error) {
            (GivenUp::Failed(_) | GivenUp::Lost, Some(error)) if error.ends_worker() => {
                end.now(error);
                Halt::Later(Duration::ZERO)
            }
            (GivenUp::Failed(_), Some(error)) if error.is_of_job() => Halt::Hopeless(error.to_string()),
            (GivenUp::Failed(_), Some(error @ Error::OpenRound)) => Halt::later(NOT_MINE, error),
            (GivenUp::Failed(_), Some(error)) if error.is_of_machine() => {
                // A drain by a program that ends all processes here ends compilers as well.
                if end.stop.is_cancelled() {
                    return Halt::Later(Duration::ZERO);
                }
                // What a unit says of itself holds up no other.
                if let Error::Unproven { times, .. } = error {
                    return Halt::later(PAUSE * 2_u32.pow(times.min(DOUBLED)), error);
                }
                let halt = Halt::later(PAUSE, &error);
                self.jobs.machine.doubt(error);
                halt
            }
            (given_up, _) => given_up.into(),
        }
    }
}

#[async_trait]
impl Role for Queue {
    type Order = CompileJob;
    /// Counts as one beside its units, so that a full queue is not taken at once.
    type Load = Waiting;
    const STEP: Step = Step::Compile;

    fn context(&self) -> &Context {
        &self.jobs.context
    }

    fn misfit(&self, CompileJob { job, .. }: &CompileJob) -> Option<String> {
        let name = self.toolchain.name();
        let found = || job.toolchain.chars().take(64).collect::<String>();
        (job.toolchain != name).then(|| format!("toolchain {:?} in the queue of {name}", found()))
    }

    async fn pin(&self, given: Given<'_, CompileJob>) -> Result<bool, Halt> {
        let CompileJob { job, work, .. } = given.order;
        match work {
            CompileWork::Candidates => self.patiently("pin", || self.jobs.pin(&*self.toolchain, job)).await,
            // What is tried next is the same for all compilers.
            CompileWork::NextRound => Ok(true),
        }
    }

    async fn work(&self, given: Given<'_, CompileJob>) -> Result<Product, Halt> {
        let process = || self.jobs.process(&*self.toolchain, given);
        match self.patiently("compile job", process).await? {
            Done::Passed(product) => {
                self.jobs.machine.passed();
                Ok(product)
            }
            Done::Skipped => Err(Halt::NothingToDo),
            Done::Newer => Err(Halt::Later(OTHER_VERSION)),
        }
    }

    /// Of a search that is given up the group goes on with what was tried.
    async fn give_up(&self, given: Given<'_, CompileJob>, reason: &str) -> Result<Option<Outcome>, Halt> {
        match given.order.work {
            CompileWork::Candidates => Ok(Some(Outcome::dead(&given.order.job, reason, now_ms()))),
            CompileWork::NextRound => {
                self.patiently("give up search", || self.jobs.give_up_search(given)).await?;
                Ok(None)
            }
        }
    }

    fn load(&self) -> Waiting {
        self.jobs.workshop.waiting()
    }

    async fn room(&self) {
        self.jobs.workshop.backlog().below(self.jobs.backlog).await;
    }

    async fn held_up(&self) -> &'static str {
        if self.toolchain.roomy().now_or_never().is_none() {
            return "the disk that its compiler writes to has no room";
        }
        self.jobs.gate.closed(&self.evaluated_in).await;
        "its evaluation has as much as it takes, or the artifact cache is full"
    }

    async fn goes_on(&self) {
        self.toolchain.roomy().await;
        self.jobs.gate.opened(&self.evaluated_in).await;
    }
}
