//! The artifact cache: anything may be gone at any time, and nothing in it is ever wrong.

use async_trait::async_trait;
use bytes::Bytes;

use super::StoreError;
use crate::artifact::{ArtifactRef, CompileRecord};
use crate::digest::Digest;

/// How full the artifact cache is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fullness {
    /// Used memory over its limit; 0 where there is no limit.
    pub ratio: f64,
    /// It makes room by itself, oldest first, so that being full is its usual state; otherwise it refuses.
    pub evicts: bool,
}

/// What compilers made.
#[async_trait]
pub trait Artifacts: Send + Sync + 'static {
    /// Caches `bytes` under their digest; the same bytes again make them young.
    async fn put_artifact(&self, bytes: &[u8]) -> Result<ArtifactRef, StoreError>;
    /// Verified by digest and size. `None`: evicted. [`StoreError::Tampered`]: refused, and removed from the cache.
    async fn artifact(&self, artifact: ArtifactRef) -> Result<Option<Bytes>, StoreError>;
    /// Whether the artifact is there now, without reading it.
    async fn has_artifact(&self, artifact: ArtifactRef) -> Result<bool, StoreError>;
    /// Caches what the compiler inputs of the record's key became.
    async fn put_compiled(&self, record: &CompileRecord) -> Result<(), StoreError>;
    /// `None`: never compiled, evicted, written by a version that can not be read, or a record of another key.
    async fn compiled(&self, key: Digest) -> Result<Option<CompileRecord>, StoreError>;
    /// As it is now; the ratio stays 0 where a cache is pruned before it is full.
    async fn fullness(&self) -> Result<Fullness, StoreError>;
}
