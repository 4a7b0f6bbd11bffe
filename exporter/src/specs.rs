//! Kernel specs of a session, each loaded once.

use std::collections::HashMap;
use std::sync::Arc;

use bluefin_common::digest::Digest;
use bluefin_common::miopen::Tool;
use bluefin_common::outcome::Outcome;
use bluefin_common::spec::{Bundle, KernelSpec};
use bluefin_common::store::Store;
use bluefin_common::wire;

use crate::error::ExportError;

/// Loaded specs by digest; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Specs(HashMap<Digest, Arc<KernelSpec>>);

impl Specs {
    /// Loads the specs that `outcomes` name and that are not loaded yet.
    pub(crate) async fn load(&mut self, store: &dyn Store, outcomes: &[Outcome]) -> Result<(), ExportError> {
        let of_specs = outcomes.iter().filter(|outcome| Tool::of_toolchain(&outcome.job.toolchain).is_none());
        for digest in of_specs.map(|outcome| outcome.job.spec) {
            if self.0.contains_key(&digest) {
                continue;
            }
            let bytes = store.blob(digest).await?.ok_or(ExportError::NoSpec { digest })?;
            let bundle: Bundle = wire::decode(&bytes).map_err(|source| ExportError::SpecBytes { digest, source })?;
            let spec =
                KernelSpec::load(&bundle).map_err(|source| ExportError::Spec { digest, source: Box::new(source) })?;
            self.0.insert(digest, Arc::new(spec));
        }
        Ok(())
    }

    pub(crate) fn get(&self, digest: Digest) -> Option<&KernelSpec> {
        self.0.get(&digest).map(|spec| &**spec)
    }
}
