//! The compile cache: what was compiled is in the store, and what is being compiled is compiled once.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bluefin_common::artifact::{Built, CompileRecord};
use bluefin_common::digest::Digest;
use bluefin_common::failure::{Attempt, FailureKind};
use lru::LruCache;
use tokio::sync::OnceCell;

use super::{Made, Workshop};
use crate::error::Error;
use crate::metrics::Lookup;

/// Kernels that are known to be in the store: those that many jobs have in common, above all references.
const SEEN: NonZeroUsize = NonZeroUsize::new(1024).unwrap();
/// How long they are. One that was evicted nevertheless brings its job back, and then all are looked up again.
const SEEN_FOR: Duration = Duration::from_secs(5);

/// How long what took too long is not tried again. Jobs share compiles, and each would keep a slot busy for as long to learn the same;
/// later, or on another machine, it may go well.
const LATE_FOR: Duration = Duration::from_secs(600);

/// What is being compiled, by its key in the cache.
type InFlight = Mutex<HashMap<Digest, Arc<OnceCell<Attempt<Built>>>>>;

/// What is remembered of it.
pub(super) struct Cache {
    in_flight: InFlight,
    /// What was seen to be built and in the store, or to take too long, by its key in the cache, and when.
    seen: Mutex<LruCache<Digest, (Instant, Attempt<Built>)>>,
}

impl Default for Cache {
    fn default() -> Self {
        Self { in_flight: Mutex::default(), seen: Mutex::new(LruCache::new(SEEN)) }
    }
}

impl Cache {
    /// Trusts nothing that was seen.
    pub(super) fn forget(&self) {
        self.seen().clear();
    }

    fn seen(&self) -> MutexGuard<'_, LruCache<Digest, (Instant, Attempt<Built>)>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was seen lately of `key`.
    fn known(&self, key: Digest) -> Option<Attempt<Built>> {
        let mut seen = self.seen();
        let (at, result) = seen.get(&key)?;
        let lately = if result.is_ok() { SEEN_FOR } else { LATE_FOR };
        (at.elapsed() < lately).then(|| result.clone())
    }

    fn see(&self, key: Digest, result: &Attempt<Built>) {
        let lasts = result.as_ref().err().is_none_or(|failure| failure.kind == FailureKind::CompileTimeout);
        if lasts {
            self.seen().put(key, (Instant::now(), result.clone()));
        }
    }
}

impl Workshop {
    /// What all compiler inputs that `key` is the digest of are built into: from the cache, or made now by `compile` in a slot
    /// of this workshop. Of several calls with one key at one time only one compiles.
    ///
    /// # Errors
    /// What is not the inputs' fault: store, disk, processes.
    pub async fn cached<F>(&self, key: Digest, compile: impl FnOnce() -> F) -> Result<Attempt<Built>, Error>
    where
        F: Future<Output = Result<Attempt<Made>, Error>>,
    {
        let flight = Flight::join(&self.cache.in_flight, key);
        let mut first = false;
        let built = flight.cell.get_or_try_init(|| {
            first = true;
            self.seen_or_looked_up(key, compile)
        });
        let result = built.await.cloned();
        if !first {
            self.metrics.lookup(Lookup::Shared);
        }
        result
    }

    async fn seen_or_looked_up<F>(&self, key: Digest, compile: impl FnOnce() -> F) -> Result<Attempt<Built>, Error>
    where
        F: Future<Output = Result<Attempt<Made>, Error>>,
    {
        if let Some(known) = self.cache.known(key) {
            self.metrics.lookup(Lookup::Hit);
            return Ok(known);
        }
        let result = self.look_up_or_compile(key, compile).await?;
        self.cache.see(key, &result);
        Ok(result)
    }

    async fn look_up_or_compile<F>(&self, key: Digest, compile: impl FnOnce() -> F) -> Result<Attempt<Built>, Error>
    where
        F: Future<Output = Result<Attempt<Made>, Error>>,
    {
        // Candidates that share a unit keep no slot busy but one, and one that has its slot waits no more.
        let waiting = self.waiting();
        let lookup = match self.store.compiled(key).await?.map(|record| record.result) {
            Some(Ok(built)) if !self.has_all_of(&built).await? => Lookup::Evicted,
            Some(known) => {
                self.metrics.lookup(Lookup::Hit);
                return Ok(known);
            }
            None => Lookup::Miss,
        };
        self.metrics.lookup(lookup);
        let slot = self.slot().await;
        drop(waiting);
        let started = Instant::now();
        let made = compile().await;
        let took = started.elapsed();
        drop(slot);
        let result = match made? {
            Ok(made) => {
                self.ran(took, Ok(made.code.iter().map(|code| code.len() as u64).sum()));
                Ok(self.keep(made).await?)
            }
            Err(failure) => {
                self.ran(took, Err(failure.kind));
                Err(failure)
            }
        };
        // A time-out or a crash may be the machine's fault, so it is tried again with the next job.
        let repeats = result.as_ref().err().is_none_or(|failure| failure.kind == FailureKind::CompileError);
        if repeats {
            let compile_ms = u32::try_from(took.as_millis()).unwrap_or(u32::MAX);
            self.store.put_compiled(&CompileRecord { key, result: result.clone(), compile_ms }).await?;
        }
        Ok(result)
    }

    async fn has_all_of(&self, built: &Built) -> Result<bool, Error> {
        for object in &built.objects {
            if !self.store.has_artifact(object.artifact).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Stores what was made.
    async fn keep(&self, made: Made) -> Result<Built, Error> {
        let Made { mut built, code } = made;
        for (object, code) in built.objects.iter_mut().zip(&code) {
            object.artifact = self.store.put_artifact(code).await?;
        }
        Ok(built)
    }
}

/// A place in the table of compiles under way; the last to leave removes the entry.
struct Flight<'a> {
    table: &'a InFlight,
    key: Digest,
    cell: Arc<OnceCell<Attempt<Built>>>,
}

impl<'a> Flight<'a> {
    fn join(table: &'a InFlight, key: Digest) -> Self {
        let cell = Arc::clone(table.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default());
        Self { table, key, cell }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        // Ours and the table's. Under the lock nobody can join, so the count does not rise.
        if Arc::strong_count(&self.cell) <= 2 {
            table.remove(&self.key);
        }
    }
}
