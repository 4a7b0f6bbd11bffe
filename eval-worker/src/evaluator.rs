//! What evaluates jobs. An implementation of [`Evaluator`] says whose jobs it is for, and what it is once it has started is a
//! [`Running`]. A worker takes the jobs from their queue, hands over each as an [`Assignment`], and stores what came of it.

pub mod aiter;
pub(crate) mod artifacts;
pub mod assignment;
mod budget;
pub mod device;
mod driver;
mod fin;
pub(crate) mod gpu_lock;
mod kernels;
pub mod miopen;
pub mod noop;
pub mod probe;
pub mod stop;
pub(crate) mod tasks;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bluefin_common::delivery::pin::Pin;
use bluefin_common::description::SolverInfo;
use bluefin_common::job::eval_queue;
use bluefin_common::method::Method;
use bluefin_common::outcome::{CandidateOutcome, DeviceState};
use bluefin_common::target::Target;

use self::assignment::Assignment;
use self::stop::Stop;
use crate::metrics::Metrics;
use crate::supervisor::DeviceError;
use crate::timing::Limits;

/// What evaluates the jobs of one queue.
#[async_trait]
pub trait Evaluator: Send + Sync {
    /// As it is named in logs and metrics: `host`, `hip:0`, `fin`.
    fn name(&self) -> &str;

    /// What it runs code for.
    fn target(&self) -> &Target;

    /// The method whose jobs it evaluates. A device evaluates those of all methods that leave it to devices.
    fn method(&self) -> Method;

    /// The queue of its jobs.
    fn queue(&self) -> String {
        eval_queue(self.target(), self.method())
    }

    /// Jobs held at a time. Two are enough where one at work takes longer than it takes to store what came of the last and to
    /// fetch the next.
    fn prefetch(&self) -> u16 {
        2
    }

    /// Starts it. It may be started again: one that did not work is tried anew.
    ///
    /// # Errors
    /// If its device does not work.
    async fn start(&self, metrics: &Metrics) -> Result<Box<dyn Running>, DeviceError>;
}

/// An evaluator that has started.
#[async_trait]
pub trait Running: Send + Sync {
    /// What outcomes were evaluated on, as they say it.
    fn identity(&self) -> &str;

    /// What sessions are pinned to: the times of one are of evaluators that are the same, with samples taken within the same
    /// `limits`. In an order that does not depend on the machine.
    fn pins(&self, limits: &Limits) -> Vec<Arc<dyn Pin>>;

    /// Why no job is to be taken now, if there is a reason in this machine. Only a look: it is called before each job.
    fn lacks(&self) -> Option<String> {
        None
    }

    /// Tries whether this machine is in a state to work, after it was found not to be. Cancel safe.
    ///
    /// # Errors
    /// Why not, for people.
    async fn probe(&self) -> Result<(), String> {
        Ok(())
    }

    /// Evaluates the candidates of a job. Called for several jobs at a time: each fetches what it needs, then does its work
    /// [alone](Assignment::alone). May be cancelled.
    ///
    /// # Errors
    /// Where the job ends without an outcome of its candidates.
    async fn evaluate(&self, assignment: &Assignment<'_>) -> Result<Evaluated, Stop>;
}

/// What came of the candidates of a job.
#[derive(Clone, Debug, Default)]
pub struct Evaluated {
    /// As they are in the outcome.
    pub candidates: Vec<CandidateOutcome>,
    /// What was found out about their solvers; it replaces what the job says of them.
    pub solvers: Vec<SolverInfo>,
    /// Whether any candidate got as far as the device.
    pub ran: bool,
    pub device_state: DeviceState,
    /// Outputs in which two runs of the reference differed.
    pub nondeterministic: Vec<String>,
    /// Version of the timing protocol; 0 where somebody else's tool measures.
    pub protocol: u16,
    /// The worker's time that it took.
    pub busy: Duration,
}
