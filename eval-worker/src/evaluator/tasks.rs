//! Tasks of the jobs in hand, and of jobs to come: all jobs of a problem have the same. Beside them the data of their buffers.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bluefin_common::digest::Digest;
use bluefin_common::task::Task;
use bytes::Bytes;
use lru::LruCache;

/// Tasks that are remembered.
const TASKS: NonZeroUsize = NonZeroUsize::new(256).unwrap();
/// Bytes of data that are.
const DATA_BYTES: usize = 256 << 20;

/// The tasks that were used last, by the digest of their blob, and data, by its own.
pub(crate) struct Tasks {
    tasks: Mutex<LruCache<Digest, Arc<Task>>>,
    data: Mutex<LruCache<Digest, Bytes>>,
}

impl Default for Tasks {
    fn default() -> Self {
        Self { tasks: Mutex::new(LruCache::new(TASKS)), data: Mutex::new(LruCache::unbounded()) }
    }
}

impl Tasks {
    pub(super) fn get(&self, digest: Digest) -> Option<Arc<Task>> {
        lock(&self.tasks).get(&digest).cloned()
    }

    pub(super) fn put(&self, digest: Digest, task: Task) -> Arc<Task> {
        let task = Arc::new(task);
        lock(&self.tasks).put(digest, Arc::clone(&task));
        task
    }

    pub(super) fn data(&self, digest: Digest) -> Option<Bytes> {
        lock(&self.data).get(&digest).cloned()
    }

    pub(super) fn put_data(&self, digest: Digest, data: Bytes) -> Bytes {
        let mut kept = lock(&self.data);
        kept.put(digest, data.clone());
        let mut bytes: usize = kept.iter().map(|(_, data)| data.len()).sum();
        while bytes > DATA_BYTES && kept.len() > 1 {
            bytes -= kept.pop_lru().map_or(bytes, |(_, data)| data.len());
        }
        data
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_that_was_used_last_is_kept() {
        let tasks = Tasks::default();
        let digest = |byte: u8| Digest::of(&[byte]);
        let most = Bytes::from(vec![0; DATA_BYTES - 1]);
        tasks.put_data(digest(1), Bytes::from_static(b"a"));
        tasks.put_data(digest(2), most);
        assert!(tasks.data(digest(1)).is_some());
        tasks.put_data(digest(3), Bytes::from_static(b"c"));
        assert!([1, 3].iter().all(|byte| tasks.data(digest(*byte)).is_some()) && tasks.data(digest(2)).is_none());
    }
}
