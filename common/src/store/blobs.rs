//! Larger values that last, by their digest: kernel specs, tasks, kernels of winners.

use std::time::Duration;

use async_trait::async_trait;

use super::StoreError;
use crate::digest::Digest;

/// Blobs. They last.
#[async_trait]
pub trait Blobs: Send + Sync + 'static {
    /// Stores `bytes` under their digest; the same bytes again change nothing.
    async fn put_blob(&self, bytes: &[u8]) -> Result<Digest, StoreError>;
    /// Verified; `None` if there is none of that digest.
    async fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>, StoreError>;
    /// Bytes that each of the blobs takes up, in their order; 0 for one that is not there.
    async fn blob_sizes(&self, digests: &[Digest]) -> Result<Vec<u64>, StoreError>;
    /// Removes blobs that nothing names any more; those that are not there do no harm.
    async fn remove_blobs(&self, digests: &[Digest]) -> Result<(), StoreError>;

    /// All blobs that nobody has read or written for `idle`. In a state file, which nobody else works with, all blobs.
    async fn idle_blobs(&self, idle: Duration) -> Result<Vec<Digest>, StoreError>;
}
