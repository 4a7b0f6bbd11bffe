//! The shape of outcomes of which every run of the reference said the same: that of versions 1 and 2.

use serde::Deserialize;

use super::{CandidateOutcome, DeviceState};
use crate::course::Course;
use crate::description::Description;
use crate::digest::Digest;
use crate::job::Job;

/// An outcome without its last field.
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
