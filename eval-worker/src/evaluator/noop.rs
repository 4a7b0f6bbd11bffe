//! A device that does nothing: a candidate's time follows from its name. All else is as it always is: for measuring and testing
//! the pipeline.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use bluefin_common::candidate::Candidate;
use bluefin_common::delivery::pin::Pin;
use bluefin_common::digest::{self, Digest};
use bluefin_common::job::Job;
use bluefin_common::method::Method;
use bluefin_common::outcome::Timing;
use bluefin_common::target::Target;

use super::assignment::Assignment;
use super::kernels::{self, Kernels, Ran};
use super::stop::Stop;
use super::{Evaluated, Evaluator, Running, device};
use crate::metrics::Metrics;
use crate::supervisor::DeviceError;
use crate::timing::Limits;

const NAME: &str = "noop";

/// Takes the place of the devices of a target.
#[derive(Clone, Debug)]
pub struct Noop {
    pub target: Target,
}

#[async_trait]
impl Evaluator for Noop {
    fn name(&self) -> &str {
        NAME
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn method(&self) -> Method {
        Method::KERNELS
    }

    fn prefetch(&self) -> u16 {
        128
    }

    async fn start(&self, _metrics: &Metrics) -> Result<Box<dyn Running>, DeviceError> {
        Ok(Box::new(RunningNoop { target: self.target.clone() }))
    }
}

struct RunningNoop {
    target: Target,
}

#[async_trait]
impl Running for RunningNoop {
    fn identity(&self) -> &str {
        NAME
    }

    /// Its times are made up, whatever samples may take.
    fn pins(&self, _limits: &Limits) -> Vec<Arc<dyn Pin>> {
        vec![device::pin("device", &self.target, NAME)]
    }

    async fn evaluate(&self, assignment: &Assignment<'_>) -> Result<Evaluated, Stop> {
        let kernels = Kernels::fetch(assignment, None).await?;
        let began = Instant::now();
        let job = assignment.job();
        let compiled = job.candidates.iter().zip(&assignment.eval_job.built).filter(|(_, built)| built.is_ok());
        let results =
            compiled.map(|(candidate, _)| Ran { result: Ok(timing(job, candidate)), resources: None }).collect();
        let evaluated = kernels::conclude(assignment, kernels.as_ref(), results).await?;
        Ok(Evaluated { busy: began.elapsed(), ..evaluated })
    }
}

/// What it measures: a time between 1 and 2 ms that follows from what was asked, so that a session comes to the same end
/// however it gets there.
fn timing(job: &Job, candidate: &Candidate) -> Timing {
    let digest = Digest::of_parts(digest::NOOP, [job.group().0.as_slice(), candidate.to_string().as_bytes()]);
    let [low, high, ..] = digest.0;
    let median_ms = 1.0 + f64::from(u16::from_le_bytes([low, high])) / 65_536.0;
    Timing::single(median_ms)
}
