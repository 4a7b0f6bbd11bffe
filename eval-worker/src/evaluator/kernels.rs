//! Jobs whose candidates are kernels: what is fetched for them, and what is said of them.

use std::sync::Arc;

use bluefin_common::artifact::{ArtifactRef, Built};
use bluefin_common::failure::{Attempt, Failure, FailureKind};
use bluefin_common::outcome::{CandidateOutcome, Resources, Timing};
use bluefin_common::session::Stage;
use bluefin_common::task::Task;
use bytes::Bytes;
use futures_util::future::try_join_all;

use super::Evaluated;
use super::artifacts::Artifact;
use super::assignment::Assignment;
use super::stop::Stop;
use crate::supervisor::{Runnable, Translators};
use crate::timing::PROTOCOL_VERSION;

/// The kernels of a job.
pub(super) struct Kernels {
    pub(super) task: Arc<Task>,
    /// What is loaded of the reference.
    pub(super) reference: Bytes,
    /// The data of the task's buffers.
    pub(super) data: Vec<Bytes>,
    /// Those of its candidates that compiled, in order.
    pub(super) candidates: Vec<Runnable>,
}

impl Kernels {
    /// Fetches them; `None` if no candidate compiled.
    pub(super) async fn fetch(
        assignment: &Assignment<'_>,
        translators: Option<&Translators>,
    ) -> Result<Option<Self>, Stop> {
        let eval_job = assignment.eval_job;
        let mut built = Vec::new();
        let mut wanted = Vec::new();
        for (candidate, one) in assignment.job().candidates.iter().zip(&eval_job.built) {
            let Ok(one) = one else { continue };
            wanted.push(artifact_of(one, candidate)?);
            built.push(one);
        }
        if built.is_empty() {
            return Ok(None);
        }
        let task = assignment.task().await?;
        let data = assignment.data(&task).await?;
        wanted.push(artifact_of(&task.reference, "the reference")?);
        let get = |artifact| assignment.artifact(artifact, translators);
        let mut found = try_join_all(wanted.into_iter().map(get)).await?;
        let reference = found.pop().map(|reference| reference.image.unwrap_or(reference.code)).unwrap_or_default();
        let runnable = |(built, Artifact { code, image }): (&Built, _)| Runnable { built: built.clone(), code, image };
        let candidates = built.into_iter().zip(found).map(runnable).collect();
        Ok(Some(Self { task, reference, data, candidates }))
    }
}

fn artifact_of(built: &Built, whose: impl std::fmt::Display) -> Result<ArtifactRef, Stop> {
    let found = built.objects.len();
    built.artifact().ok_or_else(|| Stop::Bury(format!("built: found {found} code objects of {whose}, expected 1")))
}

/// What came of a candidate on a device.
pub(super) struct Ran {
    pub result: Attempt<Timing>,
    /// What it takes of the device, where that is known.
    pub resources: Option<Resources>,
}

/// What is said of a job, given its kernels and what came of each of them. Those of the find stage that are right last: one of
/// them wins.
pub(super) async fn conclude(
    assignment: &Assignment<'_>,
    kernels: Option<&Kernels>,
    results: Vec<Ran>,
) -> Result<Evaluated, Stop> {
    if assignment.job().stage == Stage::Find {
        let candidates = kernels.iter().flat_map(|kernels| &kernels.candidates);
        for (runnable, _) in candidates.zip(&results).filter(|(_, ran)| ran.result.is_ok()) {
            assignment.keep(&runnable.code).await?;
        }
    }
    let ran = !results.is_empty();
    let mut results = results.into_iter();
    let mut came = |built: &Attempt<Built>| {
        let failed = |failure| Ran { result: Err(failure), resources: None };
        match built {
            Ok(_) => results.next().unwrap_or_else(|| failed(Failure::new(FailureKind::Dead, "not evaluated"))),
            Err(failure) => failed(failure.clone()),
        }
    };
    let outcomes = assignment.job().candidates.iter().zip(&assignment.eval_job.built);
    let outcomes = outcomes.map(|(candidate, built)| {
        let Ran { result, resources } = came(built);
        let of = CandidateOutcome::of(candidate.clone(), built.as_ref().ok().cloned(), result);
        CandidateOutcome { resources, ..of }
    });
    Ok(Evaluated { candidates: outcomes.collect(), ran, protocol: PROTOCOL_VERSION, ..Evaluated::default() })
}
