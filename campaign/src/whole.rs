//! A whole campaign in steps: import, session, solvers, applicability, enqueue, wait, export, check. Each may be repeated, so that
//! the same steps continue what was interrupted.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use bluefin_common::method::EvaluatedBy;
use bluefin_common::priority::Priority;
use bluefin_common::problem::Problem;
use bluefin_common::session::{Session, Stage};
use bluefin_eval_worker::timing::Limits;
use bluefin_exporter::db::check::{CheckRequest, Located, Rule, check};
use bluefin_exporter::{ExportReport, ExportRequest, export};
use bluefin_miopen::db::solvers::Solvers;
use bluefin_producer::import::{Import, Imported};
use bluefin_producer::library::{Library, TagName};
use bluefin_producer::plan::{Asked, CandidateBudget};
use bluefin_producer::session::{Wanted, make, tuner_text};
use bluefin_producer::solvers::{Choice, snapshot};
use serde::Serialize;
use serde_json::json;

use crate::carry::Watch;
use crate::kernels::{self, With};
use crate::known::known;
use crate::machine::local::{Compilers, LocalDevice};
use crate::machine::tools::{LocalTools, Tools};
use crate::miopen::{self, AskFin, SolverSource};
use crate::order::{CarriedOut, End, Order, Workers};
use crate::priors::begin_with;
use crate::site::Site;
use crate::timed::{self, TimeLimit};
use crate::usage;

/// The steps of a campaign, in their order.
pub struct Steps {
    /// What is added to the library, and whether lines that can not be taken are no failure.
    pub import: Vec<(Import, bool)>,
    /// Made, or continued.
    pub session: Wanted,
    /// What has winners of earlier work that it begins with: a file, or a release or a session of the store.
    pub from: Option<String>,
    /// Where the solvers of MIOpen's library are from; once for a session.
    pub solvers: Option<SolverSource>,
    /// How it is found out which of them apply.
    pub applicability: Option<AskFin>,
    /// What is tuned.
    pub enqueue: Enqueue,
    /// The workers of this process, where no fleet does the work.
    pub local: Local,
    /// What is written.
    pub export: Option<ExportRequest>,
    /// Whether it is checked, and by which rules not.
    pub check: Option<BTreeSet<Rule>>,
}

/// What is tuned.
#[derive(Default)]
pub struct Enqueue {
    /// Their problems.
    pub tags: Vec<TagName>,
    /// None: those of the session.
    pub stages: Vec<Stage>,
    /// Which of MIOpen's solvers.
    pub choice: Choice,
    /// Candidates of kernel specs.
    pub budget: Option<CandidateBudget>,
    /// How long searches go on, instead of a budget.
    pub time: Option<Duration>,
    /// Kernel specs of one's own.
    pub kernels: Vec<PathBuf>,
    /// Kernels that are tried beside bluefin's own.
    pub with: Option<With>,
    /// How much the session matters beside others of a fleet.
    pub priority: Option<Priority>,
}

/// The workers of this process.
#[derive(Default)]
pub struct Local {
    /// Compilers that run at a time.
    pub compile_slots: Option<usize>,
    /// Where MIOpen's tools are.
    pub tools: Tools,
}

/// How a campaign ended.
pub enum Whole {
    /// There was no job.
    Nothing,
    /// By a signal.
    Interrupted,
    /// All steps were taken.
    Done {
        /// The one that was carried out.
        session: Box<Session>,
        /// All that was asked for was done, and nothing is wrong with it.
        fine: bool,
    },
}

/// What is put into the queues, and who does it.
struct Prepared {
    problems: Vec<Problem>,
    asked: Asked,
    workers: Workers,
}

impl Steps {
    /// Each step and what it does, for people.
    #[must_use]
    pub fn described(&self) -> Vec<(&'static str, String)> {
        let mut steps = Vec::new();
        for (Import { files, tag, .. }, _) in &self.import {
            steps.push(("import", format!("{} into tag {tag}", joined(files.iter().map(|file| file.display())))));
        }
        let Wanted { session, named, .. } = &self.session;
        let name = if *named { session.name.as_str() } else { "the next number, or the one that is the same" };
        let stages: Vec<&str> = session.stages.iter().map(|stage| stage.name()).collect();
        let (target, tuner) = (&session.target, tuner_text(session));
        steps.push(("session", format!("{name}: {target}, {tuner}, stages {}", stages.join(","))));
        if let Some(SolverSource::Fin(from) | SolverSource::Answer(from)) = &self.solvers {
            steps.push(("solvers", format!("from {}", from.display())));
        }
        if let Some(ask) = &self.applicability {
            steps.push(("applicability", format!("from {}", ask.fin.display())));
        }
        steps.push(("enqueue", format!("problems of tags {}", joined(&self.enqueue.tags))));
        steps.push(("wait", "until the session is complete".to_string()));
        if let Some(request) = &self.export {
            steps.push(("export", format!("to {}", request.out.display())));
        }
        if self.check.is_some() {
            steps.push(("check", "what was exported".to_string()));
        }
        steps
    }
}

fn joined(all: impl IntoIterator<Item = impl ToString>) -> String {
    all.into_iter().map(|one| one.to_string()).collect::<Vec<_>>().join(", ")
}

impl Site {
    /// Takes `steps`, and tells `watch` of each.
    ///
    /// # Errors
    /// If one of them fails; it is named.
    pub async fn take(&self, steps: Steps, watch: &mut dyn Watch) -> anyhow::Result<Whole> {
        let taking = Taking { steps: &steps, site: self };
        let Some(prepared) = self.shutdown.run_until_cancelled(Box::pin(taking.prepare(watch))).await else {
            return Ok(Whole::Interrupted);
        };
        let (session, Prepared { problems, asked, workers }, mut fine) = prepared?;
        let order = Order {
            priority: steps.enqueue.priority.filter(|_| self.is_fleet()),
            ..Order::of(session.clone(), problems, &asked)
        };
        let (end, all_planned) = match steps.enqueue.time {
            Some(time) => self.in_time(order, time, workers, watch).await?,
            None => {
                let Some(begun) = Box::pin(self.begin(order, watch)).await.context("[enqueue]")? else {
                    return Ok(Whole::Interrupted);
                };
                step(watch, "enqueue", begun.plan.sentence(), &begun.plan);
                let fine = begun.plan.is_fine();
                (Box::pin(begun.finish(workers, watch)).await.context("[wait]")?.end, fine)
            }
        };
        fine &= all_planned;
        if matches!(end, End::Nothing) {
            return Ok(Whole::Nothing);
        }
        let progress = self.ports.store.progress(&session.name).await?;
        step(watch, "wait", progress.state(), &progress);
        if matches!(end, End::Interrupted) {
            return Ok(Whole::Interrupted);
        }
        if let Some(request) = &steps.export {
            let exported = export(&*self.ports.store, &session.name, request).await.context("[export]")?;
            fine &= exported.warnings.is_empty();
            fine &= taking.exported(&exported, watch).await.context("[check]")?;
        }
        Ok(Whole::Done { session: Box::new(session), fine })
    }

    /// Searches for `time`, then plays off: how it ended, and whether everything was planned.
    async fn in_time(
        &self,
        order: Order<'_>,
        time: Duration,
        workers: Workers,
        watch: &mut dyn Watch,
    ) -> anyhow::Result<(End, bool)> {
        timed::check(&order.session).map_err(usage).context("[enqueue]")?;
        let order = Order { time: Some(TimeLimit { time, ..TimeLimit::default() }), ..order };
        let CarriedOut { plan, end, bought } =
            Box::pin(self.carry_out(order, workers, watch)).await.context("[wait]")?;
        step(watch, "enqueue", plan.sentence(), &plan);
        bought.iter().for_each(|stretch| watch.say(&stretch.to_string()));
        Ok((end, plan.is_fine()))
    }
}

/// Tells `watch` what a step did.
fn step(watch: &mut dyn Watch, name: &'static str, text: impl ToString, report: &impl Serialize) {
    watch.step(name, &text.to_string(), json!(report));
}

/// Steps that are being taken.
struct Taking<'a> {
    steps: &'a Steps,
    site: &'a Site,
}

impl Taking<'_> {
    /// All steps up to where jobs are put into queues.
    async fn prepare(&self, watch: &mut dyn Watch) -> anyhow::Result<(Session, Prepared, bool)> {
        let mut fine = self.import(watch).await.context("[[import]]")?;
        let session = self.session().await.context("[session]")?;
        step(watch, "session", &session.name, &session);
        self.solvers(&session, watch).await.context("[solvers]")?;
        fine &= self.applicability(&session, watch).await.context("[applicability]")?;
        let work = self.work(&session).await.context("[enqueue]")?;
        Ok((session, work, fine))
    }

    async fn session(&self) -> anyhow::Result<Session> {
        let (store, mut wanted) = (&*self.site.ports.store, self.steps.session.clone());
        if let Some(from) = &self.steps.from {
            wanted = begin_with(store, wanted, from).await?;
        }
        Ok(make(store, &wanted).await?.session)
    }

    async fn import(&self, watch: &mut dyn Watch) -> anyhow::Result<bool> {
        let (mut fine, mut reports) = (true, Vec::<Imported>::new());
        for (import, allow_rejects) in &self.steps.import {
            let imported = import.import(Library::new(&*self.site.ports.store)).await?;
            imported.files.iter().flat_map(|file| &file.rejects).for_each(|reject| watch.say(reject));
            fine &= *allow_rejects || imported.rejects() == 0;
            reports.push(imported);
        }
        let new: u64 = reports.iter().flat_map(|report| &report.files).map(|file| file.added.new).sum();
        step(watch, "import", format!("{new} new problems"), &reports);
        Ok(fine)
    }

    /// Once for a session: its library does not change.
    async fn solvers(&self, session: &Session, watch: &mut dyn Watch) -> anyhow::Result<()> {
        let Some(source) = &self.steps.solvers else { return Ok(()) };
        let store = &*self.site.ports.store;
        let known = snapshot(store, &session.name).await?.len();
        if known > 0 {
            step(watch, "solvers", format!("{known} are known"), &json!({ "solvers": known }));
            return Ok(());
        }
        let updated = source.update(store, &session.name).await?;
        step(watch, "solvers", format!("{} found", updated.solvers), &updated);
        Ok(())
    }

    async fn applicability(&self, session: &Session, watch: &mut dyn Watch) -> anyhow::Result<bool> {
        let Some(ask) = &self.steps.applicability else { return Ok(true) };
        let (mut asked, mut failed) = (0, 0);
        for tag in &self.steps.enqueue.tags {
            let store = &*self.site.ports.store;
            let updated = ask.update(store, &session.name, Some(tag), |done, of| watch.asked(done, of)).await?;
            asked += updated.asked;
            failed += updated.failed.len();
            for (problem, failure) in &updated.failed {
                watch.say(&format!("{}: {}: {problem}", failure.kind.name(), failure.detail));
            }
        }
        let text = format!("{asked} problems asked about, {failed} failed");
        step(watch, "applicability", text, &json!({ "asked": asked, "failed": failed }));
        Ok(failed == 0)
    }

    /// What is tuned, and the workers that do it: whether they are there is known before anything is put into queues.
    async fn work(&self, session: &Session) -> anyhow::Result<Prepared> {
        let (problems, asked) = self.asked(session).await?;
        let workers =
            if self.site.is_fleet() { Workers::Fleet } else { self.workers(session, &asked, &problems).await? };
        Ok(Prepared { problems, asked, workers })
    }

    /// The workers that this process needs to do all by itself.
    async fn workers(&self, session: &Session, asked: &Asked, problems: &[Problem]) -> anyhow::Result<Workers> {
        let (Local { compile_slots, tools }, target) = (&self.steps.local, &session.target);
        if session.method.evaluated_by == EvaluatedBy::Device {
            let compilers =
                Compilers::probe(&asked.specs.toolchains_for(problems), *compile_slots).await?.all_for(target)?;
            let device = LocalDevice::find(&target.to_string(), Limits::default()).await?;
            return Ok(Workers::Device(compilers, device));
        }
        let tools = LocalTools::find(tools.clone(), session.method, target, *compile_slots).await?;
        Ok(Workers::Tools(tools))
    }

    /// The problems, and what is asked of them.
    async fn asked(&self, session: &Session) -> anyhow::Result<(Vec<Problem>, Asked)> {
        let Enqueue { tags, stages, choice, budget, kernels, with, .. } = &self.steps.enqueue;
        let mut problems: Vec<Problem> = Vec::new();
        for tag in tags {
            problems.extend(miopen::problems(&*self.site.ports.store, Some(tag)).await?);
        }
        problems.sort_unstable();
        problems.dedup();
        let asked = Asked { stages: stages.clone(), ..Asked::default() };
        if !known().planners().get(session.method)?.takes_specs() {
            if with.is_some() {
                let method = session.method;
                return Err(usage(format!(
                    "enqueue.with: found triton, expected none: {method} tunes by no kernel specs"
                )));
            }
            return Ok((problems, Asked { choice: choice.clone(), ..asked }));
        }
        let (sizes, has_commands) = ([Default::default()], !problems.is_empty());
        let (specs, problems) = kernels::with_own(kernels, &sizes, *with, has_commands, &session.target, problems)?;
        Ok((problems, Asked { specs, budget: budget.unwrap_or(CandidateBudget::NORMAL), ..asked }))
    }

    /// Returns whether all is well with the files.
    async fn exported(&self, exported: &ExportReport, watch: &mut dyn Watch) -> anyhow::Result<bool> {
        exported.warnings.iter().for_each(|warning| watch.say(&format!("warning: {warning}")));
        let files: Vec<PathBuf> = exported.files.iter().map(|file| file.path.clone()).collect();
        step(watch, "export", format!("{} files", files.len()), exported);
        let Some(allow) = &self.steps.check else { return Ok(true) };
        let databases = files.into_iter().filter(|path| path.extension().is_none_or(|extension| extension != "json"));
        let request = CheckRequest {
            files: databases.collect(),
            solvers: Solvers::shipped().clone(),
            allow: allow.clone(),
            deny: BTreeSet::new(),
        };
        let report = tokio::task::spawn_blocking(move || check(&request, &|_| ())).await?;
        for (file, finding) in report.files.iter().flat_map(|file| file.findings.iter().map(move |one| (file, one))) {
            watch.say(&Located(file, finding).to_string());
        }
        let findings = report.has_findings();
        step(watch, "check", if findings { "findings" } else { "nothing found" }, &report);
        Ok(!findings)
    }
}
