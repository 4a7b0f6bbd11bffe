//! The parts of `bluefin tune` on machines of their own: the state file is carried from one to the next.

use std::collections::HashSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Context as _;
use bluefin_adapters::sqlite::SqliteStore;
use bluefin_campaign::carry::End;
use bluefin_campaign::forgotten;
use bluefin_campaign::local::Compilers;
use bluefin_campaign::local::LocalDevice;
use bluefin_campaign::ports::Ports;
use bluefin_campaign::ports::StoreArgs;
use bluefin_common::job::{compile_queue, eval_queue};
use bluefin_common::session::Session;
use bluefin_common::spelled::human;
use bluefin_common::store::{Progress, Store as _};
use bluefin_compile_worker::carried::{self, Carried, Kept, Undone};

use super::site::Site;
use super::{Part, TuneArgs, can_write};
use crate::failed;
use crate::progress::Display;

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
        let site = Site::open(&self.state, &self.admin).await?;
        let result = match part {
            Part::Compile => self.compile(&site).await,
            Part::Eval => self.evaluate(&site).await,
            Part::Export => self.export_part(&site).await,
        };
        site.close().await;
        result
    }

    async fn compile(&self, site: &Site) -> anyhow::Result<ExitCode> {
        let started = Instant::now();
        // A target need not be here; whatever else names a device does.
        let target = match self.device.as_deref().map(str::parse) {
            Some(Ok(target)) => target,
            Some(Err(_)) | None => LocalDevice::chosen(self.device.as_deref(), self.conditions.limits()).await?.target,
        };
        let input = self.input.read(&target)?;
        for reject in &input.rejects {
            eprintln!("rejected: {reject}");
        }
        anyhow::ensure!(!input.problems.is_empty(), "no problem to tune in what was named");
        let compilers = Compilers::probe(&input.specs.toolchains(), self.compile_slots).await?.all_for(&target)?;
        let session = self.session(&target, &compilers.versions())?;
        let plan = self.plan(site, &session, input).await?;
        if plan.jobs == 0 {
            return Ok(ExitCode::FAILURE);
        }
        forgotten::replan(&site.sqlite, &session.name, &plan.groups).await?;

        let before = done(&site.sqlite.progress(&session.name).await?);
        let kept = Arc::new(AtomicU64::new(0));
        let mut campaign = site.campaign(&session)?;
        campaign.compile(compilers, &[])?;
        let (queue, keeping) = (eval_queue(&session.target, session.method), kept.clone());
        let Ports { store, broker } = site.ports.clone();
        campaign.spawn(|stop| async move { Ok(carried::keep(&*broker, &*store, &queue, &keeping, &stop).await?) });
        // What was published above comes out compiled or as an outcome. Jobs of other problems may be open as well.
        let complete = async |progress: &Progress| {
            Ok(kept.load(Ordering::Relaxed) + done(progress).saturating_sub(before) >= plan.enqueued)
        };
        if campaign.wait(&mut Display::start(), complete).await? == End::Interrupted {
            return Ok(crate::interrupted());
        }
        let kept = kept.load(Ordering::Relaxed);
        self.say(&format!(
            "compiled in {}: {kept} jobs of session {} are in {}; where the device is: bluefin tune --stage eval --state {}",
            human(started.elapsed()),
            session.name,
            self.state.display(),
            self.state.display()
        ));
        let state = StoreArgs { state: Some(self.state.clone()), ..StoreArgs::default() };
        failed::say(&*site.sqlite, &session, &plan.groups, &state).await?;
        Ok(if plan.is_fine() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn evaluate(&self, site: &Site) -> anyhow::Result<ExitCode> {
        let Site { sqlite, ports, .. } = site;
        let started = Instant::now();
        let session = self.carried_session(&site.sqlite).await?;
        let kept = Kept::load(&**sqlite, &session.name).await?;
        let mut toolchains: Vec<String> = kept.jobs().map(|kept| kept.job.toolchain.clone()).collect();
        toolchains.sort_unstable();
        toolchains.dedup();
        anyhow::ensure!(!toolchains.is_empty(), "session {}: nothing compiled in it", session.name);
        let device = LocalDevice::find(&session.target.to_string(), self.conditions.limits()).await?;
        let Ports { store, broker } = ports.clone();
        for toolchain in &toolchains {
            broker.declare(&compile_queue(toolchain, &session.target)).await?;
        }
        forgotten::recall(sqlite, &session.name).await?;
        let open = sqlite.open_jobs_by_group(&session.name).await?;
        let undone = Arc::new(Undone::default());
        let carried = Carried { store: &*store, broker: &*broker, session: &session, undone: &undone };
        let published = carried.publish(&kept, &open).await?;
        self.say(&format!("session {}: {published} compiled jobs to evaluate", session.name));

        let mut campaign = site.campaign(&session)?;
        let utilisation = campaign.evaluate(device)?;
        for toolchain in toolchains {
            let (ports, session, undone) = (ports.clone(), session.clone(), undone.clone());
            campaign.spawn(|stop| async move {
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
            let unsettled = sqlite.unsettled_groups(&session.name).await?;
            Ok(undone.are_all(&unsettled, &sqlite.open_jobs_by_group(&session.name).await?))
        };
        if campaign.wait(&mut Display::start(), complete).await? == End::Interrupted {
            return Ok(crate::interrupted());
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

    async fn export_part(&self, site: &Site) -> anyhow::Result<ExitCode> {
        let session = self.carried_session(&site.sqlite).await?;
        let mut groups = site.sqlite.groups(&session.name).await?;
        groups.sort_unstable();
        let complete = self.export(site, &session, &groups, HashSet::new(), serde_json::json!({})).await?;
        Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// The session that `--session` names, or the only one of the state file.
    async fn carried_session(&self, store: &SqliteStore) -> anyhow::Result<Session> {
        let mut sessions = store.sessions().await?;
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

/// Jobs with an outcome.
fn done(progress: &Progress) -> u64 {
    progress.done.values().sum()
}
