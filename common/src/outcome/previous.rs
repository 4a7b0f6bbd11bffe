//! What was written of it before. Version 3 was not packed; version 2 is that of the release before.

use serde::{Deserialize, Serialize};

use super::{CandidateOutcome, DeviceState, Outcome, Timing};
use crate::artifact::Built;
use crate::artifact::previous::BuiltV2;
use crate::candidate::Candidate;
use crate::course::Course;
use crate::description::previous::DescriptionV1;
use crate::description::{Description, SolverInfo};
use crate::digest::Digest;
use crate::failure::Attempt;
use crate::job::Job;
use crate::job::previous::JobV1;
use crate::method::Method;
use crate::wire::{Body, WireError};

/// Reads an outcome of an older `version`; `None` if that is not read any more.
pub(super) fn read(version: u8, body: &mut Body<'_>) -> Option<Result<Outcome, WireError>> {
    match version {
        5 => Some(body.read::<Outcome, OutcomeV5>().map(Outcome::from)),
        3 | 4 => Some(body.read::<Outcome, OutcomeV4>().map(Outcome::from)),
        2 => Some(body.read::<Outcome, OutcomeV2>().map(Outcome::from)),
        _ => None,
    }
}

/// Of which nobody said what else the device did.
#[derive(Debug, Serialize, Deserialize)]
struct OutcomeV5 {
    job: Job,
    task: Option<Digest>,
    description: Description,
    candidates: Vec<CandidateOutcome>,
    device: String,
    device_state: DeviceStateV5,
    protocol: u16,
    busy_ms: u64,
    finished_ms: u64,
    course: Course,
}

impl From<OutcomeV5> for Outcome {
    fn from(old: OutcomeV5) -> Self {
        let OutcomeV5 {
            job,
            task,
            description,
            candidates,
            device,
            device_state,
            protocol,
            busy_ms,
            finished_ms,
            course,
        } = old;
        let device_state = device_state.into();
        Self { job, task, description, candidates, device, device_state, protocol, busy_ms, finished_ms, course }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct DeviceStateV5 {
    uuid: String,
    driver: String,
    temperature_c: Option<i16>,
    power_w: Option<u32>,
    reference_clock_mhz: Option<u32>,
}

impl From<DeviceStateV5> for DeviceState {
    fn from(old: DeviceStateV5) -> Self {
        let DeviceStateV5 { uuid, driver, temperature_c, power_w, reference_clock_mhz } = old;
        Self { uuid, driver, temperature_c, power_w, reference_clock_mhz, disturbance: None }
    }
}

/// Of which nobody said who worked on it.
#[derive(Debug, Serialize, Deserialize)]
struct OutcomeV4 {
    job: Job,
    task: Option<Digest>,
    description: DescriptionV1,
    candidates: Vec<CandidateOutcome>,
    device: String,
    device_state: DeviceStateV5,
    protocol: u16,
    busy_ms: u64,
    finished_ms: u64,
}

impl From<OutcomeV4> for Outcome {
    fn from(old: OutcomeV4) -> Self {
        let OutcomeV4 { job, task, description, candidates, device, device_state, protocol, busy_ms, finished_ms } =
            old;
        let (description, device_state, course) = (description.into(), device_state.into(), Course::default());
        Self { job, task, description, candidates, device, device_state, protocol, busy_ms, finished_ms, course }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct OutcomeV2 {
    job: JobV1,
    candidates: Vec<CandidateOutcomeV2>,
    device: String,
    device_state: DeviceStateV5,
    protocol: u16,
    busy_ms: u64,
    finished_ms: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct CandidateOutcomeV2 {
    candidate: Candidate,
    built: Option<BuiltV2>,
    result: Attempt<Timing>,
}

/// What kernels of specs are it did not say: whoever exports asks the spec, while there are such outcomes.
impl From<OutcomeV2> for Outcome {
    fn from(old: OutcomeV2) -> Self {
        let OutcomeV2 { job, candidates, device, device_state, protocol, busy_ms, finished_ms } = old;
        let job = Job::from(job);
        let mut solvers: Vec<SolverInfo> = Vec::new();
        let candidates = candidates.into_iter().map(|CandidateOutcomeV2 { candidate, built, result }| {
            solvers.extend(built.as_ref().and_then(|built| built.info(&candidate.solver)));
            let built = built.map(Built::from);
            CandidateOutcome { candidate, built, result }
        });
        let candidates = candidates.collect();
        let description = if job.method == Method::KERNELS {
            Description::default()
        } else {
            Description::of_tool(&job.method, solvers)
        };
        let (task, device_state, course) = (None, device_state.into(), Course::default());
        Self { job, task, description, candidates, device, device_state, protocol, busy_ms, finished_ms, course }
    }
}
