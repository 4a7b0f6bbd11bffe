//! Tasks of the jobs in hand, and of jobs to come: all jobs of a problem have the same.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use bluefin_common::digest::Digest;
use bluefin_common::task::Task;
use lru::LruCache;

/// Tasks that are remembered.
const TASKS: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// The tasks that were used last, by the digest of their blob.
pub(crate) struct Tasks(Mutex<LruCache<Digest, Arc<Task>>>);

impl Default for Tasks {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(TASKS)))
    }
}

impl Tasks {
    pub(super) fn get(&self, digest: Digest) -> Option<Arc<Task>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&digest).cloned()
    }

    pub(super) fn put(&self, digest: Digest, task: Task) -> Arc<Task> {
        let task = Arc::new(task);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).put(digest, Arc::clone(&task));
        task
    }
}
