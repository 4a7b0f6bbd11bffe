//! Parts of a campaign on machines of their own: one compiles into the state file, which is then carried to the one that evaluates.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bluefin_common::job::{compile_queue, eval_queue};
use bluefin_common::session::Session;
use bluefin_common::store::Progress;
use bluefin_compile_worker::carried::{self, Carried, Kept, Undone};
use bluefin_producer::plan::Plan;

use crate::carry::{Ended, Watch};
use crate::forgotten;
use crate::machine::local::{Compilers, LocalDevice};
use crate::order::Order;
use crate::ports::Ports;
use crate::site::Site;

/// What compiling came to.
pub enum Compiled {
    /// There was no job.
    Nothing,
    /// By a signal.
    Interrupted,
    /// All that was asked for.
    Done {
        /// What was planned.
        plan: Box<Plan>,
        /// Jobs that are in the state file now, to be evaluated.
        kept: u64,
    },
}

/// What evaluating came to.
pub enum Evaluated {
    /// All that was compiled.
    Done {
        /// Problems with candidates that were never compiled, or whose artifacts are gone.
        left: u64,
        /// How busy the devices were, in words.
        utilisation: String,
    },
    /// By a signal.
    Interrupted,
}

impl Site {
    /// Compiles the jobs of `order` into the state file.
    ///
    /// # Errors
    /// As [`Self::carry_out`].
    pub async fn compile(
        &self,
        order: Order<'_>,
        compilers: Compilers,
        watch: &mut dyn Watch,
    ) -> anyhow::Result<Compiled> {
        let (session, registry) = (order.session.clone(), self.registry());
        let plan = self.plan_in(order, &registry, watch).await?;
        if plan.jobs == 0 {
            return Ok(Compiled::Nothing);
        }
        let before = done(&self.ports.store.progress(&session.name).await?);
        let kept = Arc::new(AtomicU64::new(0));
        let mut running = self.running(&session, &registry)?;
        running.compile(compilers, &[])?;
        let (queue, keeping) = (eval_queue(&session.target, session.method), kept.clone());
        let Ports { store, broker } = self.ports.clone();
        running.spawn(|stop| async move { Ok(carried::keep(&*broker, &*store, &queue, &keeping, &stop).await?) });
        // What was published above comes out compiled or as an outcome. Jobs of other problems may be open as well.
        let complete = async |progress: &Progress| {
            Ok(kept.load(Ordering::Relaxed) + done(progress).saturating_sub(before) >= plan.enqueued)
        };
        Ok(match running.wait(watch, complete).await? {
            Ended::Complete => Compiled::Done { kept: kept.load(Ordering::Relaxed), plan: Box::new(plan) },
            Ended::Interrupted => Compiled::Interrupted,
        })
    }

    /// Evaluates on `device` what was compiled of `session` into the state file.
    ///
    /// # Errors
    /// If nothing was, the device is of another target, or as [`Self::carry_out`].
    pub async fn evaluate(
        &self,
        session: &Session,
        device: LocalDevice,
        watch: &mut dyn Watch,
    ) -> anyhow::Result<Evaluated> {
        let file = self.file()?;
        let kept = Kept::load(&**file, &session.name).await?;
        let toolchains = toolchains(&kept);
        anyhow::ensure!(!toolchains.is_empty(), "session {}: nothing compiled in it", session.name);
        let (found, expected) = (&device.target, &session.target);
        anyhow::ensure!(found == expected, "session {}: found a device of {found}, expected {expected}", session.name);
        let Ports { store, broker } = self.ports.clone();
        for toolchain in &toolchains {
            broker.declare(&compile_queue(toolchain, &session.target)).await?;
        }
        forgotten::recall(file, &session.name).await?;
        let open = file.open_jobs_by_group(&session.name).await?;
        let undone = Arc::new(Undone::default());
        let carried = Carried { store: &*store, broker: &*broker, session, undone: &undone };
        let published = carried.publish(&kept, &open).await?;
        watch.say(&format!("session {}: {published} compiled jobs to evaluate", session.name));

        let mut running = self.running(session, &self.registry())?;
        let utilisation = running.evaluate(device)?;
        for toolchain in toolchains {
            let (ports, session, undone) = (self.ports.clone(), session.clone(), undone.clone());
            running.spawn(|stop| async move {
                let Ports { store, broker } = &ports;
                let carried = Carried { store: &**store, broker: &**broker, session: &session, undone: &undone };
                Ok(carried.serve(&toolchain, &stop).await?)
            });
        }
        // What only the compilers can do is never done, but all else that is here is.
        let complete = async |progress: &Progress| {
            if progress.unsettled_groups > undone.groups() {
                return Ok(false);
            }
            let unsettled = file.unsettled_groups(&session.name).await?;
            Ok(undone.are_all(&unsettled, &file.open_jobs_by_group(&session.name).await?))
        };
        Ok(match running.wait(watch, complete).await? {
            Ended::Complete => Evaluated::Done { left: undone.groups(), utilisation: utilisation.to_string() },
            Ended::Interrupted => Evaluated::Interrupted,
        })
    }
}

/// By which something was compiled.
fn toolchains(kept: &Kept) -> Vec<String> {
    let mut toolchains: Vec<String> = kept.jobs().map(|kept| kept.job.toolchain.clone()).collect();
    toolchains.sort_unstable();
    toolchains.dedup();
    toolchains
}

/// Jobs with an outcome.
fn done(progress: &Progress) -> u64 {
    progress.done.values().sum()
}
