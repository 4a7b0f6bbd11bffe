//! Artifacts of the jobs in hand, and of jobs to come that use the same: the reference is in all jobs of a problem.
//! Those that are to be translated are so here, while other jobs are on the device.

use std::sync::{Arc, Mutex, PoisonError};

use bluefin_common::artifact::ArtifactRef;
use bluefin_common::store::{self, StoreError};
use bytes::Bytes;
use lru::LruCache;
use tokio::sync::OnceCell;

use crate::metrics::{Metrics, ReadFrom};
use crate::supervisor::Translators;

/// A bounded copy of a part of the artifact cache.
pub(crate) struct Artifacts {
    kept: Mutex<Kept>,
    limit: u64,
    metrics: Metrics,
}

struct Kept {
    artifacts: LruCache<ArtifactRef, Entry>,
    bytes: u64,
}

struct Entry {
    slot: Slot,
    /// What it counts for.
    bytes: u64,
}

/// Filled by the first who needs it; the others wait for that.
type Slot = Arc<OnceCell<Artifact>>;

/// An artifact, and what is loaded in its place.
#[derive(Clone, Debug)]
pub struct Artifact {
    pub code: Bytes,
    pub image: Option<Bytes>,
}

impl Artifacts {
    /// Keeps at most `limit` bytes of artifacts.
    pub(crate) fn new(limit: u64, metrics: Metrics) -> Self {
        Self { kept: Mutex::new(Kept { artifacts: LruCache::unbounded(), bytes: 0 }), limit, metrics }
    }

    /// The artifact, translated where there are `translators`; `None` if it was evicted, or was not what it should be and is
    /// gone now.
    pub(super) async fn get(
        &self,
        store: &dyn store::Artifacts,
        artifact: ArtifactRef,
        translators: Option<&Translators>,
    ) -> Result<Option<Artifact>, StoreError> {
        let (slot, bytes) = self.kept.lock().unwrap_or_else(PoisonError::into_inner).slot(artifact, self.limit);
        self.metrics.set_artifact_bytes(bytes);
        if let Some(kept) = slot.get() {
            self.metrics.artifact_read(ReadFrom::Memory);
            return Ok(Some(kept.clone()));
        }
        let fetch = || async {
            let code = match store.artifact(artifact).await {
                Ok(found) => found.ok_or(None)?,
                Err(error @ StoreError::Tampered { .. }) => {
                    tracing::error!(%error, "artifact refused");
                    return Err(None);
                }
                Err(error) => return Err(Some(error)),
            };
            let image = match translators {
                Some(translators) => translators.translate(&code).await,
                None => None,
            };
            Ok(Artifact { code, image })
        };
        match slot.get_or_try_init(fetch).await {
            Ok(found) => {
                self.metrics.artifact_read(ReadFrom::Store);
                let bytes = self.kept.lock().unwrap_or_else(PoisonError::into_inner).filled(artifact, self.limit);
                self.metrics.set_artifact_bytes(bytes);
                Ok(Some(found.clone()))
            }
            Err(Some(error)) => Err(error),
            Err(None) => {
                self.metrics.artifact_read(ReadFrom::Missing);
                Ok(None)
            }
        }
    }
}

impl Kept {
    /// The place of an artifact, at the cost of what was not used for longest; and the bytes of all that have one.
    fn slot(&mut self, artifact: ArtifactRef, limit: u64) -> (Slot, u64) {
        if let Some(entry) = self.artifacts.get(&artifact) {
            return (Arc::clone(&entry.slot), self.bytes);
        }
        let slot = Slot::default();
        if artifact.size <= limit {
            self.artifacts.put(artifact, Entry { slot: Arc::clone(&slot), bytes: artifact.size });
            self.bytes += artifact.size;
        }
        self.trim(limit);
        (slot, self.bytes)
    }

    /// The place of `artifact` is filled: what it was translated into counts as well. Returns the bytes of all.
    fn filled(&mut self, artifact: ArtifactRef, limit: u64) -> u64 {
        if let Some(entry) = self.artifacts.peek_mut(&artifact) {
            let image = entry.slot.get().and_then(|found| found.image.as_ref()).map_or(0, Bytes::len);
            let bytes = artifact.size + image as u64;
            self.bytes += bytes - entry.bytes;
            entry.bytes = bytes;
        }
        self.trim(limit);
        self.bytes
    }

    fn trim(&mut self, limit: u64) {
        while self.bytes > limit {
            let Some((_, oldest)) = self.artifacts.pop_lru() else { break };
            self.bytes -= oldest.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_is_kept() {
        let mut kept = Kept { artifacts: LruCache::unbounded(), bytes: 0 };
        let refs: Vec<_> = (0..3).map(|byte| ArtifactRef::of(&[byte; 40])).collect();
        assert_eq!(kept.slot(refs[0], 100).1, 40);
        assert_eq!(kept.slot(refs[1], 100).1, 80);
        assert_eq!(kept.slot(refs[0], 100).1, 80);
        assert_eq!(kept.slot(refs[2], 100).1, 80);
        assert!(kept.artifacts.contains(&refs[0]) && !kept.artifacts.contains(&refs[1]));
        // One that does not fit at all pushes nothing out.
        let huge = ArtifactRef { size: 101, ..refs[1] };
        assert_eq!(kept.slot(huge, 100).1, 80);

        // What it was translated into counts once it is there, however often that is said.
        let (slot, _) = kept.slot(refs[2], 100);
        let image = Some(Bytes::from_static(&[0; 30]));
        slot.set(Artifact { code: Bytes::from_static(&[2; 40]), image }).unwrap();
        assert_eq!([kept.filled(refs[2], 100), kept.filled(refs[2], 100)], [70, 70], "the other one had to go");
        assert!(!kept.artifacts.contains(&refs[0]));
    }
}
