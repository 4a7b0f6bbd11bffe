//! The parts of `bluefin tune` on machines of their own: the state file is carried from one to the next.

use std::collections::HashSet;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;
use bluefin_campaign::config;
use bluefin_campaign::listing::arch_or_target;
use bluefin_campaign::machine::local::{Compilers, LocalDevice};
use bluefin_campaign::order::Order;
use bluefin_campaign::parts::{Compiled, Evaluated};
use bluefin_campaign::site::Site;
use bluefin_common::session::Session;
use bluefin_common::spelled::{counted, human};
use bluefin_common::store::Sessions;
use bluefin_producer::plan::Asked;
use bluefin_terminal::failed;

use super::{Part, TuneArgs, can_write};
use crate::input::Input;

impl TuneArgs {
    pub(super) async fn run_part(&self, part: Part) -> anyhow::Result<ExitCode> {
        let named = !self.input.files.is_empty() || self.input.has_own();
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
        let site = Site::open(&self.store(), false, &self.admin).await?;
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
        let target = match self.device.as_deref().or(config::get().device.as_deref()).map(arch_or_target) {
            Some(Ok(target)) => target,
            Some(Err(_)) | None => self.local_device().await?.target,
        };
        let input = self.input.read(&target)?;
        for reject in &input.rejects {
            say!("rejected: {reject}");
        }
        anyhow::ensure!(!input.problems.is_empty(), "no problem to tune in what was named");
        let compilers = Compilers::probe(&input.specs.toolchains_for(&input.problems), self.compile_slots)
            .await?
            .all_for(&target)?;
        let priors = self.search.priors(&*site.ports.store, &target, None).await?;
        let session = self.session(&target, &compilers.versions(), priors)?;
        let Input { problems, specs, rejects, .. } = input;
        let asked = Asked { specs, budget: self.input.budget, ..Asked::default() };
        let order = Order { rejects, ..Order::of(session.clone(), problems, &asked) };
        let compiled = site.compile(order, compilers, &mut self.display(&session).that_only_compiles()).await?;
        let (plan, kept) = match compiled {
            Compiled::Nothing => return Ok(ExitCode::FAILURE),
            Compiled::Interrupted => return Ok(crate::interrupted()),
            Compiled::Done { plan, kept } => (plan, kept),
        };
        say!(
            "compiled in {}: {} of session {} in {}; where the device is: bluefin tune --stage eval --state {}",
            human(started.elapsed()),
            counted(kept, "job"),
            session.name,
            self.state.display(),
            self.state.display()
        );
        failed::say(&*site.ports.store, &session, &plan.groups, &self.store()).await?;
        Ok(if plan.is_fine() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    async fn evaluate(&self, site: &Site) -> anyhow::Result<ExitCode> {
        let started = Instant::now();
        let session = self.carried_session(&*site.ports.store).await?;
        let named = self.device.clone().unwrap_or_else(|| session.target.to_string());
        let device = LocalDevice::find(&named, self.conditions.limits()).await?;
        let evaluated = site.evaluate(&session, device, &mut self.display(&session)).await?;
        let Evaluated::Done { left, utilisation } = evaluated else { return Ok(crate::interrupted()) };
        say!("evaluated in {}{utilisation}", human(started.elapsed()));
        if left > 0 {
            say!(
                "{} with candidates that were never compiled, or whose artifacts are gone: tune --stage compile again, then this",
                counted(left, "problem")
            );
            return Ok(ExitCode::FAILURE);
        }
        say!("anywhere: bluefin tune --stage export --state {}", self.state.display());
        Ok(ExitCode::SUCCESS)
    }

    async fn export_part(&self, site: &Site) -> anyhow::Result<ExitCode> {
        let session = self.carried_session(&*site.ports.store).await?;
        let mut groups = site.ports.store.groups(&session.name).await?;
        groups.sort_unstable();
        let complete = self.export(site, &session, &groups, HashSet::new(), serde_json::json!({})).await?;
        Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// The session that `--session` names, or the only one of the state file.
    async fn carried_session(&self, store: &dyn Sessions) -> anyhow::Result<Session> {
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
