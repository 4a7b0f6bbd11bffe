//! `bluefin run`: a campaign from a plan file, from problems to databases.

pub mod plan;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use bluefin_adapters::embedded::EmbeddedBroker;
use bluefin_campaign::admin::Admin;
use bluefin_campaign::admin::AdminArgs;
use bluefin_campaign::carry::Campaign;
use bluefin_campaign::carry::End;
use bluefin_campaign::known::known;
use bluefin_campaign::local::Compilers;
use bluefin_campaign::local::LocalDevice;
use bluefin_campaign::ports::Opened;
use bluefin_campaign::ports::Ports;
use bluefin_campaign::ports::StoreArgs;
use bluefin_campaign::search::SearchArgs;
use bluefin_campaign::tools::LocalTools;
use bluefin_campaign::tools::Tools;
use bluefin_common::broker::Broker;
use bluefin_common::method::EvaluatedBy;
use bluefin_common::priority;
use bluefin_common::problem::Problem;
use bluefin_common::session::Session;
use bluefin_common::shutdown;
use bluefin_eval_worker::timing::Limits;
use bluefin_exporter::db::check::{CheckRequest, Located, check};
use bluefin_exporter::{ExportReport, ExportRequest, FormatName, export};
use bluefin_miopen::db::solvers::Solvers;
use bluefin_miopen::solver::spelling;
use bluefin_producer::Metrics;
use bluefin_producer::enqueue::{Publish, Ways, enqueue};
use bluefin_producer::library::Library;
use bluefin_producer::plan::{Asked, CandidateBudget, Planner};
use bluefin_producer::request;
use bluefin_producer::session::{Wanted, make};
use bluefin_producer::solvers::{Choice, snapshot};
use bluefin_terminal::out;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::applicability;
use crate::enqueue::complain;
use crate::failed;
use crate::input::{Input, InputArgs};
use crate::problems::ImportArgs;
use crate::progress::Display;
use crate::session::{BudgetArgs, NewArgs, tuner_text};
use crate::solvers;
use crate::solvers::default_fin;
use plan::{ExportStep, ImportStep, PlanFile, SessionStep};

/// Run a whole campaign from a plan file: import, session, solvers, applicability, enqueue, wait, export, check
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  bluefin run examples/plan.toml --dry-run\n  bluefin run plan.toml\n\n\
    Each step may be repeated: after an interrupt or a failure the same command continues. With a fleet (--amqp and --redis, \
    or BLUEFIN_AMQP_URL and BLUEFIN_REDIS_URL) its workers do the work; without one, this process does.")]
pub struct RunArgs {
    /// The plan, in TOML
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// Only print what would be done
    #[arg(long)]
    dry_run: bool,
    /// Print what was done as JSON on standard output, and nothing else there
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    store: StoreArgs,
}

impl RunArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let plan = PlanFile::read(&self.plan)?;
        if self.dry_run {
            return self.describe(&plan, &plan.session.args().wanted()?);
        }
        carry_out(plan, self.store, &self.admin, self.json).await
    }

    /// The steps as they would be done.
    fn describe(&self, plan: &PlanFile, wanted: &Wanted) -> anyhow::Result<ExitCode> {
        let steps = steps(plan, wanted);
        if self.json {
            let steps: Vec<Value> = steps.iter().map(|(step, what)| json!({ "step": step, "does": what })).collect();
            out::json(&steps)?;
        } else {
            for (step, what) in steps {
                out::line(format_args!("{step:<14} {what}"))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Carries a plan out, where `store` says.
pub async fn carry_out(plan: PlanFile, store: StoreArgs, admin: &AdminArgs, json: bool) -> anyhow::Result<ExitCode> {
    let wanted = plan.session.args().wanted()?;
    let admin = admin.start().await?;
    let shutdown = shutdown::on_signal()?;
    let opened = store.open_patiently(&shutdown).await?;
    let fleet = store.fleet.names_a_broker() && !plan.wait.local;
    let broker: Arc<dyn Broker> =
        if fleet { store.fleet.patient_broker(&shutdown).await? } else { Arc::new(EmbeddedBroker::new()) };
    admin.readiness.ready();
    let report = Map::new();
    CarriedOut { plan, wanted, opened, broker, fleet, json, admin, store, shutdown, report }.run().await
}

/// Each step and what it does, for people.
fn steps(plan: &PlanFile, wanted: &Wanted) -> Vec<(&'static str, String)> {
    let mut steps = Vec::new();
    for step in &plan.import {
        let files: Vec<String> = step.files.iter().map(|file| file.display().to_string()).collect();
        steps.push(("import", format!("{} into tag {}", files.join(", "), step.tag.0)));
    }
    let session = &wanted.session;
    let name =
        if wanted.named { session.name.to_string() } else { "the next number, or the one that is the same".into() };
    let stages: Vec<&str> = session.stages.iter().map(|stage| stage.name()).collect();
    steps
        .push(("session", format!("{name}: {}, {}, stages {}", session.target, tuner_text(session), stages.join(","))));
    let fin = |fin: &Option<PathBuf>| fin.clone().unwrap_or_else(default_fin).display().to_string();
    if let Some(step) = &plan.solvers {
        let from = step.from.as_ref().map(|path| path.display().to_string());
        steps.push(("solvers", format!("from {}", from.unwrap_or_else(|| fin(&step.fin)))));
    }
    if let Some(step) = &plan.applicability {
        steps.push(("applicability", format!("from {}", fin(&step.fin))));
    }
    let tags: Vec<String> = plan.tags().iter().map(ToString::to_string).collect();
    steps.push(("enqueue", format!("problems of tags {}", tags.join(", "))));
    steps.push(("wait", "until the session is complete".to_string()));
    if let Some(step) = &plan.export {
        steps.push(("export", format!("to {}", step.out.display())));
    }
    if plan.check.is_some() {
        steps.push(("check", "what was exported".to_string()));
    }
    steps
}

/// The workers of this process.
enum Local {
    Device(Compilers, LocalDevice),
    Tools(LocalTools),
}

/// What was put into the queues.
struct Enqueued {
    /// All that was asked for.
    fine: bool,
    jobs: u64,
    /// The workers that this process needs.
    local: Option<Local>,
}

/// A plan that is being carried out.
struct CarriedOut {
    plan: PlanFile,
    wanted: Wanted,
    opened: Opened,
    broker: Arc<dyn Broker>,
    /// The workers are a fleet's.
    fleet: bool,
    json: bool,
    admin: Admin,
    /// Where `opened` is.
    store: StoreArgs,
    shutdown: CancellationToken,
    report: Map<String, Value>,
}

impl CarriedOut {
    async fn run(mut self) -> anyhow::Result<ExitCode> {
        let result = self.steps().await;
        self.broker.close().await;
        self.opened.close().await;
        self.admin.stop().await;
        let code = result?;
        if self.json {
            out::json(&self.report)?;
        }
        Ok(code)
    }

    async fn steps(&mut self) -> anyhow::Result<ExitCode> {
        let shutdown = self.shutdown.clone();
        let Some(prepared) = shutdown.run_until_cancelled(self.prepare()).await else {
            return Ok(crate::interrupted());
        };
        let (session, Enqueued { mut fine, jobs, local }) = prepared?;
        if jobs == 0 {
            return Ok(ExitCode::FAILURE);
        }
        if self.wait(&session, local).await.context("[wait]")? == End::Interrupted {
            return Ok(crate::interrupted());
        }
        if let Some(step) = &self.plan.export {
            let exported = export(&*self.opened.store, &session.name, &request(step)).await.context("[export]")?;
            fine &= exported.warnings.is_empty();
            fine &= self.exported(&exported).await.context("[check]")?;
        }
        self.failed(&session).await?;
        Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// All steps up to where workers are waited for.
    async fn prepare(&mut self) -> anyhow::Result<(Session, Enqueued)> {
        let mut fine = self.import().await.context("[[import]]")?;
        let made = make(&*self.opened.store, &self.wanted).await.context("[session]")?;
        let session = made.session;
        self.note("session", format!("{}", session.name), &session);
        self.solvers(&session).await.context("[solvers]")?;
        fine &= self.applicability(&session).await.context("[applicability]")?;
        let enqueued = self.enqueue(&session).await.context("[enqueue]")?;
        Ok((session, Enqueued { fine: fine && enqueued.fine, ..enqueued }))
    }

    /// Says on standard error what a step did, and keeps it for the report.
    fn note(&mut self, step: &str, text: impl std::fmt::Display, value: &impl serde::Serialize) {
        eprintln!("{step}: {text}");
        self.report.insert(step.to_string(), json!(value));
    }

    async fn import(&mut self) -> anyhow::Result<bool> {
        let (mut fine, mut reports) = (true, Vec::new());
        for step in &self.plan.import {
            let imported = step.args().import(Library::new(&*self.opened.store)).await?;
            for file in &imported.files {
                file.rejects.iter().for_each(|reject| eprintln!("{reject}"));
            }
            fine &= step.allow_rejects || imported.rejects() == 0;
            reports.push(imported);
        }
        let new: u64 = reports.iter().flat_map(|report| &report.files).map(|file| file.added.new).sum();
        self.note("import", format!("{new} new problems"), &reports);
        Ok(fine)
    }

    /// Once for a session: its library does not change.
    async fn solvers(&mut self, session: &Session) -> anyhow::Result<()> {
        let Some(step) = &self.plan.solvers else { return Ok(()) };
        let store = &*self.opened.store;
        let known = snapshot(store, &session.name).await?.len();
        if known > 0 {
            self.note("solvers", format!("{known} are known"), &json!({ "solvers": known }));
            return Ok(());
        }
        let args = solvers::UpdateArgs {
            session: Some(session.name.clone()),
            fin: step.fin.clone().unwrap_or_else(default_fin),
            from: step.from.clone(),
            json: false,
            store: StoreArgs::default(),
        };
        let updated = args.update(store, &session.name).await?;
        self.note("solvers", format!("{} found", updated.solvers), &updated);
        Ok(())
    }

    async fn applicability(&mut self, session: &Session) -> anyhow::Result<bool> {
        let Some(step) = &self.plan.applicability else { return Ok(true) };
        let (mut asked, mut failed) = (0, 0);
        for tag in self.plan.tags() {
            let args = applicability::UpdateArgs {
                session: session.name.clone(),
                tag: Some(tag),
                fin: step.fin.clone().unwrap_or_else(default_fin),
                processes: step.processes,
                again: false,
                json: false,
                store: StoreArgs::default(),
            };
            let updated = args.update(&*self.opened.store).await?;
            asked += updated.asked;
            failed += updated.failed.len();
            for (problem, failure) in &updated.failed {
                eprintln!("{}: {}: {problem}", failure.kind.name(), failure.detail);
            }
        }
        let text = format!("{asked} problems asked about, {failed} failed");
        self.note("applicability", text, &json!({ "asked": asked, "failed": failed }));
        Ok(failed == 0)
    }

    async fn enqueue(&mut self, session: &Session) -> anyhow::Result<Enqueued> {
        let planners = known().planners();
        let planner = planners.get(session.method)?;
        let metrics = Metrics::register(&self.admin.registry)?;
        let (problems, asked) = self.asked(planner, session).await?;
        let local = if self.fleet { None } else { Some(self.local(session, &asked).await?) };
        if !self.fleet {
            self.opened.forget_unfinished(&session.name).await?;
        }
        let (store, broker) = (self.opened.store.clone(), self.broker.clone());
        let publish = if self.fleet { Publish::Missing } else { Publish::Unfinished };
        let ways = Ways { store: &*store, broker: &*broker, metrics: &metrics, publish };
        let planning = planners.begin(&*store, session, &asked).await?;
        request::keep(&*store, session, &asked, &problems).await?;
        if let Some(priority) = self.plan.enqueue.priority.filter(|_| self.fleet) {
            priority::prioritize(&*store, &session.name, priority).await?;
        }
        let planned = enqueue(&ways, session, &*planning, problems).await?;
        complain(&planned);
        self.note("enqueue", planned.sentence(), &planned);
        Ok(Enqueued { fine: planned.is_fine(), jobs: planned.jobs, local })
    }

    /// What this process needs to do all by itself.
    async fn local(&self, session: &Session, asked: &Asked) -> anyhow::Result<Local> {
        let (wait, target) = (&self.plan.wait, &session.target);
        if session.method.evaluated_by == EvaluatedBy::Device {
            let compilers = Compilers::probe(&asked.specs.toolchains(), wait.compile_slots).await?.all_for(target)?;
            return Ok(Local::Device(compilers, LocalDevice::find(&target.to_string(), Limits::default()).await?));
        }
        let from = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
        let compiles = self.plan.solvers.as_ref().and_then(|step| step.fin.clone());
        let tools = Tools {
            fin: compiles.or_else(|| from("BLUEFIN_FIN")),
            fin_gpu: wait.fin.clone().or_else(|| from("BLUEFIN_FIN_GPU")).or_else(|| from("BLUEFIN_FIN")),
            miopen_driver: wait.miopen_driver.clone().or_else(|| from("BLUEFIN_MIOPEN_DRIVER")),
        };
        Ok(Local::Tools(LocalTools::find(tools, session.method, target, wait.compile_slots).await?))
    }

    /// The problems of the plan, and what it asks of them.
    async fn asked(&self, planner: &dyn Planner, session: &Session) -> anyhow::Result<(Vec<Problem>, Asked)> {
        let step = &self.plan.enqueue;
        let mut problems: Vec<Problem> = Vec::new();
        for tag in self.plan.tags() {
            problems.extend(applicability::problems(&*self.opened.store, Some(&tag)).await?);
        }
        problems.sort_unstable();
        problems.dedup();
        if !planner.takes_specs() {
            let choice = Choice {
                names: step.solvers.iter().map(|name| spelling(name)).collect(),
                algorithm: step.algorithm.as_ref().map(|algorithm| algorithm.0),
                tunable: step.tunable,
                dynamic: step.dynamic_only,
            };
            let stages = step.stages.iter().map(|stage| stage.0.0).collect();
            return Ok((problems, Asked { choice, stages, ..Asked::default() }));
        }
        let budget = step.candidates.as_ref().map_or(CandidateBudget::NORMAL, |budget| budget.0);
        let args = InputArgs { kernel: step.kernels.clone(), budget, ..InputArgs::default() };
        let Input { problems, specs, .. } = args.with_specs(&session.target, problems, Vec::new())?;
        let stages = step.stages.iter().map(|stage| stage.0.0).collect();
        Ok((problems, Asked { specs, budget, stages, ..Asked::default() }))
    }

    async fn wait(&mut self, session: &Session, local: Option<Local>) -> anyhow::Result<End> {
        let ports = Ports { store: self.opened.store.clone(), broker: self.broker.clone() };
        let mut campaign = Campaign::new(&ports, session, &self.admin.registry, &self.shutdown)?;
        match local {
            Some(Local::Device(compilers, device)) => drop(campaign.work(compilers, device)?),
            Some(Local::Tools(tools)) => campaign.use_tools(tools)?,
            None => {}
        }
        let end = campaign.wait(&mut Display::start(), async |progress| Ok(progress.is_settled())).await?;
        let progress = self.opened.store.progress(&session.name).await?;
        self.note("wait", progress.state(), &progress);
        Ok(end)
    }

    /// Says what failed, and how to see why.
    async fn failed(&self, session: &Session) -> anyhow::Result<()> {
        let store = &*self.opened.store;
        let by_result = store.progress(&session.name).await?.candidates;
        if by_result.keys().all(|result| ["timed", "pruned"].contains(&result.as_str())) {
            return Ok(());
        }
        failed::say(store, session, &store.groups(&session.name).await?, &self.store).await
    }

    /// Returns whether all is well with the files.
    async fn exported(&mut self, exported: &ExportReport) -> anyhow::Result<bool> {
        for warning in &exported.warnings {
            eprintln!("warning: {warning}");
        }
        let files: Vec<PathBuf> = exported.files.iter().map(|file| file.path.clone()).collect();
        self.note("export", format!("{} files", files.len()), exported);
        let Some(step) = &self.plan.check else { return Ok(true) };
        let databases = files.into_iter().filter(|path| path.extension().is_none_or(|extension| extension != "json"));
        let request = CheckRequest {
            files: databases.collect(),
            solvers: Solvers::shipped().clone(),
            allow: step.allow.iter().map(|rule| rule.0).collect(),
            deny: BTreeSet::new(),
        };
        let report = tokio::task::spawn_blocking(move || check(&request, &|_| ())).await?;
        let findings = report.has_findings();
        for (file, finding) in report.files.iter().flat_map(|file| file.findings.iter().map(move |one| (file, one))) {
            eprintln!("{}", Located(file, finding));
        }
        self.note("check", if findings { "findings" } else { "nothing found" }, &report);
        Ok(!findings)
    }
}

fn request(step: &ExportStep) -> ExportRequest {
    let names: Vec<FormatName> = step.files.iter().map(|named| named.0.0).collect();
    ExportRequest {
        formats: known().formats.chosen(&names),
        top: (step.top > 0).then_some(step.top),
        ..ExportRequest::all(step.out.clone())
    }
}

impl ImportStep {
    fn args(&self) -> ImportArgs {
        ImportArgs {
            tag: self.tag.0.clone(),
            file: self.files.clone(),
            batches: self.batches.iter().map(|n| n.get()).collect(),
            command: self.command.map(|command| command.0),
            tag_only: self.tag_only,
            mark_recurrent: self.mark_recurrent,
            config_type: self.config_type.map(|kind| kind.0),
            allow_rejects: self.allow_rejects,
            json: false,
            store: StoreArgs::default(),
        }
    }
}

impl SessionStep {
    fn args(&self) -> NewArgs {
        let budget = &self.budget;
        NewArgs {
            label: self.label.clone(),
            name: self.name.as_ref().map(|name| name.0.clone()),
            target: Some(self.target.0.clone()),
            arch: None,
            num_cu: None,
            tuner: self.tuner.as_ref().map(|tuner| tuner.0.0),
            exhaustive: self.exhaustive,
            stage: self.stages.iter().map(|stage| stage.0.0).collect(),
            rocm_v: self.rocm_v.clone(),
            miopen_v: self.miopen_v.clone(),
            docker_name: self.docker_name.clone(),
            ticket: self.ticket.clone(),
            find_mode: self.find_mode,
            blacklist: self.blacklist.iter().map(|one| one.0).collect(),
            search: SearchArgs {
                search: self.search.as_ref().map(|search| search.0.clone()),
                search_seed: self.search_seed,
                search_option: self.search_options.clone().into_iter().collect(),
            },
            budget: BudgetArgs {
                solver_budget: budget.solver.map(|time| time.0),
                problem_budget: budget.problem.map(|time| time.0),
                session_budget: budget.session.map(|time| time.0),
                tuning_time: budget.tuning_time.map(|time| time.0),
                tuning_patience: budget.tuning_patience,
                tuning_iterations: budget.tuning_iterations,
            },
            json: false,
            store: StoreArgs::default(),
        }
    }
}
