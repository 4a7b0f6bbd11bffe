//! Outcomes that the release before this one wrote. Those of kernel specs do not say what their solvers and kernels are
//! called; the spec does, which is in the store. So does the spec of a job that was given up before anybody had described it.
//!
//! With the next release only those that were given up are left, and with a description of them from whoever gives them up nothing
//! that the exporter knows of specs.

use std::collections::HashMap;
use std::sync::Arc;

use bluefin_common::candidate::Candidate;
use bluefin_common::decision::decide;
use bluefin_common::digest::Digest;
use bluefin_common::job::Job;
use bluefin_common::method::Method;
use bluefin_common::outcome::Outcome;
use bluefin_common::session::Session;
use bluefin_common::store::Store;
use bluefin_common::wire;
use bluefin_spec::{Bundle, KernelSpec};

use crate::error::ExportError;

/// Kernel specs that such outcomes name, each loaded once; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Specs(HashMap<Digest, Arc<KernelSpec>>);

impl Specs {
    /// The spec that it takes to complete the outcomes of one group, if that is not loaded yet.
    pub(crate) fn lacking(&self, group: &[Outcome]) -> Option<Digest> {
        let mut incomplete = group.iter().filter(|outcome| is_incomplete(outcome)).map(|outcome| outcome.job.spec);
        incomplete.find(|digest| !self.0.contains_key(digest))
    }

    /// Loads a spec, unless it is loaded.
    pub(crate) async fn load(&mut self, store: &dyn Store, digest: Digest) -> Result<(), ExportError> {
        if self.0.contains_key(&digest) {
            return Ok(());
        }
        let bytes = store.blob(digest).await?.ok_or(ExportError::NoSpec { digest })?;
        let bundle: Bundle = wire::decode(&bytes).map_err(|source| ExportError::SpecBytes { digest, source })?;
        let spec =
            KernelSpec::load(&bundle).map_err(|source| ExportError::Spec { digest, source: Box::new(source) })?;
        self.0.insert(digest, Arc::new(spec));
        Ok(())
    }

    /// Lets the outcomes of one group say what those of this release say: all of their solvers, and of code objects those of
    /// the winner. Expressions take their time, and nobody asks what the others are called.
    pub(crate) fn complete(&self, session: &Session, group: &mut [Outcome]) {
        let incomplete = group.iter().find(|outcome| is_incomplete(outcome));
        let Some(spec) = incomplete.and_then(|outcome| self.0.get(&outcome.job.spec)) else { return };
        for outcome in group.iter_mut().filter(|outcome| outcome.description.is_empty()) {
            outcome.description = spec.describe(&outcome.job);
        }
        let decision = decide(session, group);
        let Some(winner) = decision.as_ref().and_then(|decision| decision.winner()) else { return };
        let winner = winner.outcome.candidate.clone();
        let Some((file, options)) = group.first().and_then(|outcome| name(spec, &outcome.job, &winner)) else { return };
        let built = group.iter_mut().flat_map(|outcome| &mut outcome.candidates);
        let built = built.filter(|candidate| candidate.candidate == winner).filter_map(|winner| winner.built.as_mut());
        for object in built.flat_map(|built| &mut built.objects).filter(|object| object.file.is_empty()) {
            (object.file, object.options) = (file.clone(), options.clone());
        }
    }
}

/// Whether the spec of an outcome says what the outcome does not.
fn is_incomplete(outcome: &Outcome) -> bool {
    let objects =
        || outcome.candidates.iter().filter_map(|candidate| candidate.built.as_ref()).flat_map(|built| &built.objects);
    outcome.job.method == Method::KERNELS
        && (outcome.description.is_empty() || objects().any(|object| object.file.is_empty()))
}

/// What a kernel db calls the code object of `candidate` by: its source and options. `None` where the spec can not have made it.
fn name(spec: &KernelSpec, job: &Job, candidate: &Candidate) -> Option<(String, String)> {
    let scope = spec.scope(&job.problem, &job.target).ok()??;
    let build = spec.build(candidate, &scope).ok()?;
    Some((spec.source.clone(), build.options()))
}
