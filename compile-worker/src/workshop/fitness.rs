//! Whether this machine can compile, as far as a failure is to be believed; and which of its compilers can be confined.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bluefin_common::digest::Digest;
use bluefin_common::failure::{Attempt, Failure, FailureKind};
use bluefin_common::isolation::files;
use futures_util::future::BoxFuture;
use lru::LruCache;

use super::{Made, OUTPUT, Workshop, machine};
use crate::error::Error;
use crate::process::Limits;
use crate::toolchain::{Compiler, Toolchain};
use crate::unit::{Input, Unit};

/// How often a unit may come to something that says that the machine is at its end, or that somebody ended its compiler, while the
/// machine is found well, before it is believed to be its own doing: a compiler may be short of something within limits of its own.
const SUSPECTED: u32 = 20;
/// Units of which that is counted.
const SUSPECTS: NonZeroUsize = NonZeroUsize::new(1024).unwrap();
/// What is written to see whether there is room: more than the files of most compiles.
const ROOM: usize = 100 << 10;

/// What is known of the machine.
pub(super) struct Fitness {
    /// By the names of toolchains, when it was found well.
    well: tokio::sync::Mutex<HashMap<String, Instant>>,
    /// How often a unit came to something of the kind.
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
    /// What `compiler` makes of `unit`. What may be the machine's fault is believed to be the unit's once the machine is found
    /// well.
    ///
    /// # Errors
    /// What is not the unit's fault: disk, processes.
    pub(crate) async fn make(&self, compiler: &dyn Compiler, unit: &Unit, key: Digest) -> Result<Attempt<Made>, Error> {
        let error = match compiler.compile(unit, self).await {
            Err(error @ (Error::Suspect(_) | Error::Interrupted { .. })) => error,
            made => return made,
        };
        self.is_well_with(compiler.name(), Instant::now(), compiler.try_out(self)).await?;
        let (failure, says_so) = match error {
            Error::Suspect(suspect) => (suspect.failure, suspect.says_so),
            error => (Failure::new(FailureKind::CompileCrash, error.to_string()), true),
        };
        let times = if says_so { self.suspected(key) } else { SUSPECTED };
        if times < SUSPECTED {
            return Err(Error::Unproven { reason: failure.detail, times });
        }
        Ok(Err(failure))
    }

    /// How often `key` was suspected, with this time.
    fn suspected(&self, key: Digest) -> u32 {
        let mut suspects = self.fitness.suspects.lock().unwrap_or_else(PoisonError::into_inner);
        let times = suspects.get_or_insert_mut(key, || 0);
        *times += 1;
        *times
    }

    /// Whether this machine can compile, with each of `toolchains`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) async fn is_well(&self, toolchains: &[Arc<dyn Toolchain>]) -> Result<(), Error> {
        let now = Instant::now();
        for toolchain in toolchains {
            self.is_well_with(toolchain.name(), now, toolchain.try_out(self)).await?;
        }
        Ok(())
    }

    /// Whether there is room where compilers work, and the one of that name compiles what it always does: looked at after `at`
    /// by whoever asks first.
    async fn is_well_with(
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

    /// Sees whether the compiler of each toolchain works where it is confined, so that those which need other files as well
    /// are not.
    pub async fn confine(&self, toolchains: &[Arc<dyn Toolchain>]) {
        if self.launcher.is_none() || !self.limits.confine {
            return;
        }
        if !files::can_be_confined() {
            tracing::info!("compilers are not confined: this kernel has no Landlock, or has it switched off");
            return;
        }
        for compiler in toolchains.iter().filter_map(|toolchain| toolchain.compiler()) {
            let Some(program) = compiler.program().map(Path::to_path_buf) else { continue };
            let Err(error) = compiler.try_out(self).await else { continue };
            self.fitness.unconfined().insert(program.clone());
            if compiler.try_out(self).await.is_ok() {
                tracing::warn!(
                    program = %program.display(),
                    %error,
                    "not confined: it reads files that are neither the system's nor its own, and so can what it compiles"
                );
            } else {
                self.fitness.unconfined().remove(&program);
            }
        }
    }

    /// Runs a compiler for `arch` on the `text` of a file `name`, which always compiles, as it runs on units.
    ///
    /// # Errors
    /// What is wrong with this machine.
    pub async fn try_out_on(
        &self,
        arch: &str,
        (name, text): (&str, &str),
        command: impl FnOnce(&Input<'_>) -> Vec<OsString>,
    ) -> Result<(), Error> {
        let folder = self.folder()?;
        std::fs::write(folder.path().join(name), text).map_err(|source| machine("temporary folder", source))?;
        let line = command(&Input { arch, flags: &[], defines: &[], source: name, output: OUTPUT });
        // Those of a session may be narrow.
        let Limits { time, memory_bytes, file_bytes, .. } = Limits::default();
        let limits = Limits { time, memory_bytes, file_bytes, ..self.limits.clone() };
        let failure = match self.run_in(&folder, &limits, &line).await {
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use bluefin_adapters::sqlite::SqliteStore;
    use bluefin_common::metrics::PipelineMetrics;
    use prometheus::Registry;

    use super::*;
    use crate::metrics::Metrics;
    use crate::unit::{Shapes, tests::unit};

    /// Ends like this, whatever it is given.
    struct Ends {
        command: &'static str,
        runs: AtomicUsize,
        /// Of the machine.
        is_well: bool,
    }

    impl Ends {
        fn with(command: &'static str, is_well: bool) -> Self {
            Self { command, runs: AtomicUsize::new(0), is_well }
        }
    }

    impl Shapes for Ends {
        fn name(&self) -> &'static str {
            "cc"
        }

        fn identity(&self) -> &str {
            "ends 1"
        }
    }

    #[async_trait]
    impl Compiler for Ends {
        async fn try_out(&self, _: &Workshop) -> Result<(), Error> {
            if self.is_well { Ok(()) } else { Err(Error::Exhausted { reason: "its disk is gone".to_string() }) }
        }

        async fn compile(&self, unit: &Unit, workshop: &Workshop) -> Result<Attempt<Made>, Error> {
            self.runs.fetch_add(1, Ordering::SeqCst);
            workshop.run(unit, |_| ["/bin/sh", "-c", self.command].map(Into::into).to_vec()).await
        }
    }

    fn workshop() -> Workshop {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry, PipelineMetrics::register(&registry).unwrap()).unwrap();
        Workshop::new(Arc::new(SqliteStore::in_memory().unwrap()), 2, Limits::default(), None, metrics)
    }

    /// It may be short of something that only this unit takes so much of.
    #[tokio::test]
    async fn a_unit_that_always_finds_a_machine_at_its_end_that_is_well_fails_after_all() {
        let (workshop, greedy) =
            (workshop(), Ends::with("echo 'ld: cannot map: Cannot allocate memory' >&2; exit 1", true));
        let unit = unit(&greedy);
        for run in 1..SUSPECTED {
            let error = workshop.compile(&greedy, &unit).await.expect_err("no result");
            assert!(error.is_of_machine(), "{run}: {error}");
        }
        let failure = workshop.compile(&greedy, &unit).await.unwrap().expect_err("a result");
        assert_eq!((failure.kind, greedy.runs.load(Ordering::SeqCst)), (FailureKind::CompileCrash, SUSPECTED as usize));
        assert!(failure.detail.contains("Cannot allocate memory"), "{}", failure.detail);
    }

    #[tokio::test]
    async fn what_a_machine_that_is_not_well_comes_to_is_no_result() {
        let workshop = workshop();
        for (command, well, ill) in [
            ("kill -SEGV $$", Some(FailureKind::CompileCrash), None),
            ("exit 4", Some(FailureKind::CompileCrash), None),
            // It wrote nothing.
            ("exit 0", Some(FailureKind::CompileCrash), None),
            // Plain diagnostics, for which nobody looks at the machine.
            ("echo 'x.c:1: error: no' >&2; exit 1", Some(FailureKind::CompileError), Some(FailureKind::CompileError)),
        ] {
            for (is_well, expected) in [(false, ill), (true, well)] {
                let ends = Ends::with(command, is_well);
                // Not from the cache.
                let unit = unit(&ends);
                let made = workshop.make(&ends, &unit, unit.key(&ends)).await;
                assert_eq!(
                    made.ok().map(|made| made.expect_err("nothing is made").kind),
                    expected,
                    "{command} {is_well}"
                );
            }
        }
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
