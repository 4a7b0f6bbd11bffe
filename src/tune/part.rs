//! The parts of `bluefin tune` on machines of their own: the state file is carried from one to the next.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use bluefin_common::broker::embedded::EmbeddedBroker;
use bluefin_common::job::eval_queue;
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::session::Session;
use bluefin_common::shutdown;
use bluefin_common::store::Progress;
use bluefin_common::store::sqlite::SqliteStore;
use bluefin_compile_worker::carried::{self, Kept, Undone};
use bluefin_producer::enqueue::Publish;
use tokio_util::sync::CancellationToken;

use super::{Part, TuneArgs, can_write, interrupted, refused, skipped, wait};
use crate::admin::Admin;
use crate::enqueue::enqueue;
use crate::progress::human;
use crate::workers::{Compilers, LocalDevice, Ports, Running, cache};

impl TuneArgs {
    pub(super) async fn run_part(&self, part: Part) -> anyhow::Result<ExitCode> {
        let named = !self.input.files.is_empty() || !self.input.kernel.is_empty();
        if named && part != Part::Compile {
            return Err(crate::usage(
                "tune --stage eval and --stage export take their problems from --state, not from files",
            ));
        }
        if part == Part::Export {
            can_write(&self.out).with_context(|| format!("--out {}", self.out.display()))?;
        }
        if part != Part::Compile && !self.state.exists() {
            anyhow::bail!("--state {}: not there; tune --stage compile makes it", self.state.display());
        }
        let sqlite = Arc::new(SqliteStore::open(&self.state).await?);
        let ports = Ports { store: sqlite.clone(), broker: Arc::new(EmbeddedBroker::new()) };
        let shutdown = shutdown::on_signal()?;
        let admin = self.admin.start().await?;
        admin.readiness.ready();
        let result = match part {
            Part::Compile => self.compile(&ports, &admin, shutdown).await,
            Part::Eval => self.evaluate(&ports, &admin, shutdown).await,
            Part::Export => self.export_part(&ports).await,
        };
        admin.stop().await;
        ports.broker.close().await;
        sqlite.close().await;
        result
    }

    async fn compile(&self, ports: &Ports, admin: &Admin, shutdown: CancellationToken) -> anyhow::Result<ExitCode> {
        let started = Instant::now();
        // A target need not be here; whatever else names a device does.
        let target = match self.device.parse() {
            Ok(target) => target,
            Err(_) => LocalDevice::find(&self.device, cache(self.warm)).await?.target,
        };
        let input = self.input.read(&target)?;
        for reject in &input.rejects {
            eprintln!("rejected: {reject}");
        }
        anyhow::ensure!(!input.problems.is_empty(), "no problem to tune in what was named");
        let compilers = Compilers::probe(&input.specs, self.compile_slots)?;
        let session = self.session(&target, &compilers.versions())?;
        let metrics = bluefin_producer::Metrics::register(&admin.registry)?;
        let Ports { store, broker } = ports.clone();
        let plan =
            enqueue(&*store, &*broker, &session, input, self.input.budget, Publish::Unfinished, &metrics).await?;
        self.say(&skipped(&plan, &self.input));
        plan.tell_unsolved();
        if plan.jobs == 0 {
            return Ok(ExitCode::FAILURE);
        }

        let done = |progress: &Progress| progress.done.values().sum::<u64>();
        let before = done(&store.progress(&session.name).await?);
        let stop = shutdown.child_token();
        let kept = Arc::new(AtomicU64::new(0));
        let mut running = Running::new();
        let pipeline = PipelineMetrics::register(&admin.registry)?;
        let refused = refused(&pipeline, false);
        compilers.spawn(ports, &admin.registry, pipeline, &[], stop.clone(), &mut running)?;
        let (queue, keeping, until) = (eval_queue(&session.target, None), kept.clone(), stop.clone());
        running.spawn(async move { Ok(carried::keep(&*broker, &*store, &queue, &keeping, &until).await?) });
        // What was published above comes out compiled or as an outcome. Jobs of other problems may be open as well.
        let complete =
            |progress: &Progress| kept.load(Ordering::Relaxed) + done(progress).saturating_sub(before) >= plan.enqueued;
        if wait(&*ports.store, &session, running, (complete, refused), &stop, &shutdown).await? {
            return Ok(interrupted());
        }
        let kept = kept.load(Ordering::Relaxed);
        self.say(&format!(
            "compiled in {}: {kept} jobs of session {} are in {}; where the device is: bluefin tune --stage eval --state {}",
            human(started.elapsed()),
            session.name,
            self.state.display(),
            self.state.display()
        ));
        Ok(if plan.is_fine() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn evaluate(&self, ports: &Ports, admin: &Admin, shutdown: CancellationToken) -> anyhow::Result<ExitCode> {
        let started = Instant::now();
        let session = self.carried_session(ports).await?;
        let kept = Arc::new(Kept::load(&*ports.store, &session.name).await?);
        let mut toolchains: Vec<String> = kept.jobs().map(|kept| kept.job.toolchain.clone()).collect();
        toolchains.sort_unstable();
        toolchains.dedup();
        anyhow::ensure!(!toolchains.is_empty(), "session {}: nothing compiled in it", session.name);
        let device = LocalDevice::find(&session.target.to_string(), cache(self.warm)).await?;
        let Ports { store, broker } = ports.clone();
        for toolchain in &toolchains {
            broker.declare(&bluefin_common::job::compile_queue(toolchain)).await?;
        }
        let undone = Arc::new(Undone::default());
        let published = carried::publish_kept(&kept, &session, &*store, &*broker, &undone).await?;
        self.say(&format!("session {}: {published} compiled jobs to evaluate", session.name));

        let done = |progress: &Progress| progress.done.values().sum::<u64>();
        let enough = done(&store.progress(&session.name).await?) + published;
        let stop = shutdown.child_token();
        let mut running = Running::new();
        let pipeline = PipelineMetrics::register(&admin.registry)?;
        let refused = refused(&pipeline, device.is_one());
        let utilisation = device.spawn(ports, &admin.registry, pipeline, stop.clone(), &mut running)?;
        for toolchain in toolchains {
            let (broker, store, kept) = (broker.clone(), store.clone(), kept.clone());
            let (undone, stop) = (undone.clone(), stop.clone());
            running
                .spawn(async move { Ok(carried::serve(&*broker, &*store, &toolchain, &kept, &undone, &stop).await?) });
        }
        // A group with a job that only the compilers can do is never settled, but what is here of it is evaluated.
        let complete = |progress: &Progress| progress.unsettled_groups <= undone.groups() && done(progress) >= enough;
        if wait(&*store, &session, running, (complete, refused), &stop, &shutdown).await? {
            return Ok(interrupted());
        }
        self.say(&format!("evaluated in {}{utilisation}", human(started.elapsed())));
        let left = undone.groups();
        if left > 0 {
            eprintln!(
                "{left} problems have candidates that were never compiled, or whose artifacts are gone: tune --stage compile again, then this"
            );
            return Ok(ExitCode::FAILURE);
        }
        self.say(&format!("anywhere: bluefin tune --stage export --state {}", self.state.display()));
        Ok(ExitCode::SUCCESS)
    }

    async fn export_part(&self, ports: &Ports) -> anyhow::Result<ExitCode> {
        let session = self.carried_session(ports).await?;
        let mut groups = ports.store.groups(&session.name).await?;
        groups.sort_unstable();
        let complete = self.export(ports, &session, &groups, serde_json::json!({})).await?;
        Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// The session that `--session` names, or the only one of the state file.
    async fn carried_session(&self, ports: &Ports) -> anyhow::Result<Session> {
        let mut sessions = ports.store.sessions().await?;
        if let Some(name) = &self.session {
            sessions.retain(|session| session.name == *name);
        }
        let names = sessions.iter().map(|session| session.name.to_string()).collect::<Vec<_>>().join(", ");
        match (<[Session; 1]>::try_from(sessions), &self.session) {
            (Ok([session]), _) => Ok(session),
            (Err(_), Some(name)) => anyhow::bail!("--session {name}: not in {}", self.state.display()),
            (Err(none), None) if none.is_empty() => anyhow::bail!("{}: holds no session", self.state.display()),
            (Err(_), None) => Err(crate::usage(format!(
                "{}: holds several sessions; name one with --session: {names}",
                self.state.display()
            ))),
        }
    }
}
