//! What is known of this machine: whether it can compile, what came to nothing on it, and which programs can not be confined.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bluefin_common::digest::Digest;
use futures_util::future::BoxFuture;
use lru::LruCache;

use super::{OUTPUT, Workshop, machine};
use crate::error::Error;
use crate::process::Limits;
use crate::unit::Input;

/// Suspected units that are remembered.
const SUSPECTS: NonZeroUsize = NonZeroUsize::new(1024).unwrap();
/// What is written to see whether there is room: more than the files of most compiles.
const ROOM: usize = 100 << 10;

/// What is known of the machine.
pub(super) struct Fitness {
    /// By the names of toolchains, when it was found well.
    well: tokio::sync::Mutex<HashMap<String, Instant>>,
    /// How often a unit was suspected of what may be the machine's doing.
    suspects: Mutex<LruCache<Digest, u32>>,
    /// Programs that work only where they are not confined.
    unconfined: Mutex<HashSet<PathBuf>>,
}

impl Default for Fitness {
    fn default() -> Self {
        Self {
            well: tokio::sync::Mutex::default(),
            suspects: Mutex::new(LruCache::new(SUSPECTS)),
            unconfined: Mutex::default(),
        }
    }
}

impl Fitness {
    /// Whether `program` works only where it is not confined.
    pub(super) fn is_unconfined(&self, program: &Path) -> bool {
        self.unconfined().contains(program)
    }

    fn unconfined(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.unconfined.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Workshop {
    /// How often `key` was suspected, with this time.
    pub(crate) fn suspected(&self, key: Digest) -> u32 {
        let mut suspects = self.fitness.suspects.lock().unwrap_or_else(PoisonError::into_inner);
        let times = suspects.get_or_insert_mut(key, || 0);
        *times += 1;
        *times
    }

    /// Whether there is room where compilers work, and the one of that name compiles what it always does: looked at after `at`
    /// by the first job that asks.
    pub(crate) async fn is_well_with(
        &self,
        name: &str,
        at: Instant,
        try_out: BoxFuture<'_, Result<(), Error>>,
    ) -> Result<(), Error> {
        let mut well = self.fitness.well.lock().await;
        if well.get(name).is_some_and(|found| *found > at) {
            return Ok(());
        }
        let now = Instant::now();
        let folder = self.folder()?;
        let wrote = tokio::task::spawn_blocking(move || {
            let mut file = std::fs::File::create(folder.path().join("room"))?;
            io::Write::write_all(&mut file, &[1; ROOM])?;
            file.sync_all()
        });
        wrote
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)))
            .map_err(|source| machine("temporary folder", source))?;
        try_out.await?;
        well.insert(name.to_string(), now);
        Ok(())
    }

    /// Whether compilers are to be confined.
    pub(crate) fn confines(&self) -> bool {
        self.launcher.is_some() && self.limits.confine
    }

    /// Says whether `program` works only where it is not confined.
    pub(crate) fn set_unconfined(&self, program: &Path, is_unconfined: bool) {
        let mut unconfined = self.fitness.unconfined();
        if is_unconfined {
            unconfined.insert(program.to_path_buf());
        } else {
            unconfined.remove(program);
        }
    }

    /// Runs a compiler for `arch` on the `text` of a file `name`, which always compiles, as it runs on units; `readable` as there.
    ///
    /// # Errors
    /// What is wrong with this machine.
    pub async fn try_out_on(
        &self,
        arch: &str,
        (name, text): (&str, &str),
        readable: &[PathBuf],
        command: impl FnOnce(&Input<'_>) -> Vec<OsString>,
    ) -> Result<(), Error> {
        let folder = self.folder()?;
        std::fs::write(folder.path().join(name), text).map_err(|source| machine("temporary folder", source))?;
        let line = command(&Input { arch, flags: &[], defines: &[], source: name, output: OUTPUT, lines: false });
        // Those of a session may be narrow.
        let Limits { time, memory_bytes, file_bytes, .. } = Limits::default();
        let limits = Limits { time, memory_bytes, file_bytes, ..self.limits.clone() };
        let failure = match self.run_in(&folder, self.limits_of(&limits, &line, readable), &line).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(failure)) => failure,
            Err(Error::Suspect(suspect)) => suspect.failure,
            Err(error) => return Err(error),
        };
        let program = line.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default();
        let said: String = failure.detail.chars().take(600).collect();
        Err(Error::Exhausted { reason: format!("{program} does not compile what it always does: {}", said.trim()) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bluefin_adapters::sqlite::SqliteStore;
    use bluefin_common::metrics::PipelineMetrics;
    use prometheus::Registry;

    use super::*;
    use crate::metrics::Metrics;

    fn workshop() -> Workshop {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry, PipelineMetrics::register(&registry).unwrap()).unwrap();
        Workshop::new(Arc::new(SqliteStore::in_memory().unwrap()), 2, Limits::default(), None, metrics)
    }

    /// As many crashes at a time, one look.
    #[tokio::test]
    async fn a_look_at_the_machine_is_for_all_that_failed_before() {
        let workshop = workshop();
        let looks = AtomicUsize::new(0);
        let look = || {
            let look = async {
                looks.fetch_add(1, Ordering::SeqCst);
                Ok(())
            };
            Box::pin(look)
        };
        let before = Instant::now();
        workshop.is_well_with("cc", before, look()).await.unwrap();
        workshop.is_well_with("cc", before, look()).await.unwrap();
        workshop.is_well_with("clang", before, look()).await.unwrap();
        assert_eq!(looks.load(Ordering::SeqCst), 2);
        workshop.is_well_with("cc", Instant::now(), look()).await.unwrap();
        assert_eq!(looks.load(Ordering::SeqCst), 3);
    }
}
