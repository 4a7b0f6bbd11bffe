//! Artifacts of the jobs in hand, and of jobs to come that use the same: the reference is in all jobs of a problem.

use std::sync::{Mutex, PoisonError};

use bluefin_common::artifact::ArtifactRef;
use bluefin_common::store::{Store, StoreError};
use bytes::Bytes;
use lru::LruCache;

use crate::metrics::{Metrics, ReadFrom};

/// A bounded copy of a part of the artifact cache.
pub(super) struct Artifacts {
    kept: Mutex<Kept>,
    limit: u64,
    metrics: Metrics,
}

struct Kept {
    artifacts: LruCache<ArtifactRef, Bytes>,
    bytes: u64,
}

impl Artifacts {
    /// Keeps at most `limit` bytes.
    pub(super) fn new(limit: u64, metrics: Metrics) -> Self {
        Self { kept: Mutex::new(Kept { artifacts: LruCache::unbounded(), bytes: 0 }), limit, metrics }
    }

    /// The artifact; `None` if it was evicted, or was not what it should be and is gone now.
    pub(super) async fn get(&self, store: &dyn Store, artifact: ArtifactRef) -> Result<Option<Bytes>, StoreError> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).artifacts.get(&artifact).cloned();
        if let Some(bytes) = kept {
            self.metrics.artifact_read(ReadFrom::Memory);
            return Ok(Some(bytes));
        }
        let found = match store.artifact(artifact).await {
            Err(error @ StoreError::Tampered { .. }) => {
                tracing::error!(%error, "artifact refused");
                None
            }
            other => other?,
        };
        self.metrics.artifact_read(if found.is_some() { ReadFrom::Store } else { ReadFrom::Missing });
        if let Some(bytes) = &found {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).keep(artifact, bytes, self.limit);
            self.metrics.set_artifact_bytes(kept);
        }
        Ok(found)
    }
}

impl Kept {
    /// Keeps `bytes`, at the cost of what was not used for longest; the bytes kept now.
    fn keep(&mut self, artifact: ArtifactRef, bytes: &Bytes, limit: u64) -> u64 {
        if artifact.size <= limit && self.artifacts.put(artifact, bytes.clone()).is_none() {
            self.bytes += artifact.size;
        }
        while self.bytes > limit {
            let Some((oldest, _)) = self.artifacts.pop_lru() else { break };
            self.bytes -= oldest.size;
        }
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_is_kept() {
        let mut kept = Kept { artifacts: LruCache::unbounded(), bytes: 0 };
        let bytes = |byte| Bytes::from(vec![byte; 40]);
        let refs: Vec<_> = (0..3).map(|byte| ArtifactRef::of(&bytes(byte))).collect();
        assert_eq!(kept.keep(refs[0], &bytes(0), 100), 40);
        assert_eq!(kept.keep(refs[1], &bytes(1), 100), 80);
        assert_eq!(kept.keep(refs[0], &bytes(0), 100), 80);
        assert_eq!(kept.keep(refs[2], &bytes(2), 100), 80);
        assert!(kept.artifacts.contains(&refs[0]) && !kept.artifacts.contains(&refs[1]));
        // One that does not fit at all pushes nothing out.
        let huge = ArtifactRef { size: 101, ..refs[1] };
        assert_eq!(kept.keep(huge, &bytes(1), 100), 80);
    }
}
