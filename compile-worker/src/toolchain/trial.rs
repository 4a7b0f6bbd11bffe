//! Compilers are tried out: whether what they come to is to be believed, and which of them can be confined.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use bluefin_common::digest::Digest;
use bluefin_common::failure::{Attempt, Failure, FailureKind};
use bluefin_common::isolation::files;

use super::{Compiler, Toolchain};
use crate::error::Error;
use crate::unit::Unit;
use crate::workshop::{Made, Workshop};

/// How often a unit may come to something that says that the machine is at its end, or that somebody ended its compiler, while the
/// machine is found well, before it is believed to be its own doing: a compiler may be short of something within limits of its own.
const SUSPECTED: u32 = 20;

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

    /// Sees whether the compiler of each toolchain works where it is confined, so that those which need other files as well
    /// are not.
    pub async fn confine(&self, toolchains: &[Arc<dyn Toolchain>]) {
        if !self.confines() {
            return;
        }
        if !files::can_be_confined() {
            tracing::info!("compilers are not confined: this kernel has no Landlock, or has it switched off");
            return;
        }
        let mut seen = HashSet::new();
        for compiler in toolchains.iter().flat_map(|toolchain| toolchain.compilers()) {
            let programs = compiler.programs();
            // One may be of several toolchains.
            if programs.is_empty() || !seen.insert(compiler.name()) {
                continue;
            }
            let Err(error) = compiler.try_out(self).await else { continue };
            programs.iter().for_each(|program| self.set_unconfined(program, true));
            if compiler.try_out(self).await.is_ok() {
                let programs: Vec<_> = programs.iter().map(|program| program.display().to_string()).collect();
                tracing::warn!(
                    program = programs.join(", "),
                    %error,
                    "not confined: it reads files that are neither the system's nor its own, and so can what it compiles"
                );
            } else {
                programs.iter().for_each(|program| self.set_unconfined(program, false));
            }
        }
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
    use crate::process::Limits;
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
            workshop.run(unit, &[], |_| ["/bin/sh", "-c", self.command].map(Into::into).to_vec()).await
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
}
