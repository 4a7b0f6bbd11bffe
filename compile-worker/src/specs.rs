//! Kernel specs by digest, fetched once and kept while they are in use.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use bluefin_common::digest::Digest;
use bluefin_common::store::{Store, StoreError};
use bluefin_common::wire;
use bluefin_kernel_spec::{Bundle, KernelSpec};
use lru::LruCache;

use crate::error::Error;

/// Specs that are kept: more than a fleet tunes at a time.
const KEPT: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// A spec and the files that it came with.
pub(crate) struct Loaded {
    pub(crate) spec: KernelSpec,
    bundle: Arc<Bundle>,
    /// Of a spec that has two toolchains, what each is given.
    parts: BTreeMap<String, Arc<Bundle>>,
}

impl Loaded {
    fn new(bundle: Bundle) -> Result<Self, Error> {
        let spec = KernelSpec::load(&bundle).map_err(|error| Error::Job { reason: error.to_string() })?;
        let mut parts = BTreeMap::new();
        if spec.has_two_toolchains() {
            for solver in &spec.solvers {
                let part = || Arc::new(bundle.for_toolchain(&solver.toolchain));
                parts.entry(solver.toolchain.clone()).or_insert_with(part);
            }
        }
        Ok(Self { spec, bundle: Arc::new(bundle), parts })
    }

    /// What `toolchain` is given.
    pub(crate) fn bundle(&self, toolchain: &str) -> Arc<Bundle> {
        Arc::clone(self.parts.get(toolchain).unwrap_or(&self.bundle))
    }
}

pub(crate) struct Specs {
    store: Arc<dyn Store>,
    kept: Mutex<LruCache<Digest, Arc<Loaded>>>,
}

impl Specs {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, kept: Mutex::new(LruCache::new(KEPT)) }
    }

    /// # Errors
    /// The store; a spec that is not there or does not load, which no other attempt will mend.
    pub(crate) async fn get(&self, digest: Digest) -> Result<Arc<Loaded>, Error> {
        if let Some(found) = self.kept().get(&digest) {
            return Ok(Arc::clone(found));
        }
        let bytes = self.store.blob(digest).await?;
        let bytes = bytes.ok_or_else(|| Error::Missing { what: format!("kernel spec {digest}") })?;
        let bundle: Bundle = wire::decode(&bytes).map_err(|error| {
            if error.is_of_another_version() {
                return Error::Store(StoreError::Corrupt { key: format!("kernel spec {digest}"), source: error });
            }
            Error::Job { reason: error.to_string() }
        })?;
        let loaded = Arc::new(Loaded::new(bundle)?);
        self.kept().put(digest, Arc::clone(&loaded));
        Ok(loaded)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, LruCache<Digest, Arc<Loaded>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
