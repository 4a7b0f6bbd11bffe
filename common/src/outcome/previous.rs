//! An outcome of version 1: nobody said what a candidate takes of a device.

use serde::Deserialize;

use super::{DeviceState, Timing};
use crate::artifact::Built;
use crate::candidate::Candidate;
use crate::course::Course;
use crate::description::Description;
use crate::digest::Digest;
use crate::failure::Attempt;
use crate::job::Job;

/// As it was.
#[derive(Deserialize)]
pub(super) struct Outcome {
    job: Job,
    task: Option<Digest>,
    description: Description,
    candidates: Vec<CandidateOutcome>,
    device: String,
    device_state: DeviceState,
    protocol: u16,
    busy_ms: u64,
    finished_ms: u64,
    course: Course,
}

#[derive(Deserialize)]
struct CandidateOutcome {
    candidate: Candidate,
    built: Option<Built>,
    result: Attempt<Timing>,
}

impl From<Outcome> for super::Outcome {
    fn from(outcome: Outcome) -> Self {
        let Outcome {
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
        } = outcome;
        let of = |CandidateOutcome { candidate, built, result }| super::CandidateOutcome::of(candidate, built, result);
        let candidates = candidates.into_iter().map(of).collect();
        Self {
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
            nondeterministic: Vec::new(),
        }
    }
}
