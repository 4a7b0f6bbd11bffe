//! `bluefin enqueue`: plans a session and puts what is missing into the queues.

pub mod miopen;
pub mod unsolved;

use std::collections::HashSet;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::bail;
use bluefin_common::broker::Broker;
use bluefin_common::campaign::now_ms;
use bluefin_common::job::{GroupId, Job, Stage};
use bluefin_common::problem::Problem;
use bluefin_common::session::{Session, SessionName, Tuner};
use bluefin_common::store::Store;
use bluefin_common::target::Target;
use bluefin_producer::Metrics;
use bluefin_producer::enqueue::{Enqueued, Enqueuer, Publish};
use bluefin_producer::library::TagName;
use bluefin_producer::plan::{Budget, plan_problem, why_unsolved};
use serde::Serialize;

use crate::admin::{Admin, AdminArgs};
use crate::input::{Input, InputArgs, nothing};
use crate::ports::FleetArgs;
use crate::{applicability, out};
use unsolved::Unsolved;

/// Problems planned at a time: what bounds the memory of a large plan.
const PROBLEMS: usize = 64;

/// Plan a session and enqueue its jobs
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  bluefin enqueue examples/resnet50.txt --session nightly --target gfx90a-104\n  \
    bluefin enqueue --session 1 -t resnet50 --stage perf,find\n  \
    bluefin enqueue --session 1 -t resnet50 --algorithm Winograd --tunable\n\n\
    A session of MIOpen's solvers is made by bluefin session new, and asks for bluefin solvers update and bluefin \
    applicability update before. Running it again enqueues only what is missing; a larger --budget adds to what is there.")]
pub struct EnqueueArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Problems of this tag of the library
    #[arg(short, long, value_name = "TAG")]
    tag: Option<TagName>,
    /// Problems of all tags of the library
    #[arg(long, alias = "all_configs", conflicts_with = "tag")]
    all_tags: bool,
    /// Name of the session; one of kernel specs is made if there is none of that name
    #[arg(long, alias = "session_id", value_name = "NAME")]
    session: SessionName,
    /// What to tune for: host, gfx90a-104 (architecture and CUs), sm_90-132 [default: the session's, or host]
    #[arg(long)]
    target: Option<Target>,
    /// Stages to run: perf finds the best params of each solver, find times the best of all solvers [default: the
    /// session's, or both]
    #[arg(long, alias = "fin_steps", value_name = "perf,find", value_delimiter = ',', value_parser = parse_stage)]
    stage: Vec<Stage>,
    /// Why this session is run
    #[arg(short, long, default_value = "")]
    label: String,
    #[command(flatten)]
    choice: miopen::ChoiceArgs,
    /// Publish all jobs without an outcome again, also those known to be in a queue: after a broker lost its data
    #[arg(long)]
    again: bool,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    fleet: FleetArgs,
}

/// A stage by its name.
pub fn parse_stage(text: &str) -> Result<Stage, String> {
    // fin's names of its steps hold that of their stage: miopen_perf_compile.
    let word = text.strip_prefix("miopen_").and_then(|step| step.split('_').next()).unwrap_or(text);
    Stage::ALL.into_iter().find(|stage| stage.name() == word).ok_or_else(|| "expected perf or find".to_string())
}

/// What planning a session came to.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Plan {
    pub session: String,
    pub problems: u64,
    /// Problems that no solver applies to.
    pub unsolved: Vec<Unsolved>,
    /// What is planned, in the order of the problems.
    #[serde(skip)]
    pub groups: Vec<GroupId>,
    /// Candidates planned, of those that are valid.
    pub candidates: u64,
    pub valid_candidates: u64,
    pub jobs: u64,
    /// Published now.
    pub enqueued: u64,
    /// In a queue or at a worker already.
    pub waiting: u64,
    /// With an outcome already.
    pub done: u64,
    /// Input lines that were not taken.
    pub rejects: Vec<String>,
}

impl EnqueueArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let library = self.tag.is_some() || self.all_tags;
        if self.input.files.is_empty() && self.input.kernel.is_empty() && !library {
            return Err(nothing());
        }
        let admin = self.admin.start().await?;
        let store = self.fleet.store().await?;
        let stored = store.session(&self.session).await?;
        let (mut problems, rejects) = self.input.listed()?;
        if library {
            problems.extend(applicability::problems(&*store, self.tag.as_ref()).await?);
        }
        let metrics = Metrics::register(&admin.registry)?;
        metrics.rejected(rejects.len() as u64);
        let publish = if self.again { Publish::Unfinished } else { Publish::Missing };
        let code = match stored.filter(|session| session.tuner != Tuner::Kernels) {
            Some(session) => {
                self.check(&session)?;
                let broker = self.fleet.broker().await?;
                admin.readiness.ready();
                let mut seen = HashSet::new();
                problems.retain(|problem| seen.insert(problem.clone()));
                let stages = if self.stage.is_empty() { session.stages.clone() } else { self.stages() };
                let ways = miopen::Ways { store: &*store, broker: &*broker, metrics: &metrics, publish };
                let hint = self.tag.as_ref().map_or_else(String::new, |tag| format!(" -t {tag}"));
                let plan = miopen::enqueue(&ways, &session, &problems, &self.choice.choice(), &stages, &hint).await?;
                let plan = miopen::MiopenPlan { rejects, ..plan };
                broker.close().await;
                if self.json {
                    out::json(&plan)?
                } else {
                    out::line(plan.sentence())?
                }
                plan.complain()
            }
            None => self.kernels(&store, problems, rejects, &admin, &metrics, publish).await?,
        };
        admin.stop().await;
        Ok(code)
    }

    /// What was asked for has to fit a session of MIOpen's solvers.
    fn check(&self, session: &Session) -> anyhow::Result<()> {
        let name = &session.name;
        if !self.input.kernel.is_empty() {
            return Err(crate::usage(format!("--kernel: session {name} tunes MIOpen's solvers")));
        }
        if let Some(target) = self.target.as_ref().filter(|target| **target != session.target) {
            return Err(crate::usage(format!("--target {target}: session {name} is for {}", session.target)));
        }
        if !self.label.is_empty() && self.label != session.label {
            eprintln!("--label: session {name} keeps its own: {:?}", session.label);
        }
        Ok(())
    }

    fn stages(&self) -> Vec<Stage> {
        let mut stages = self.stage.clone();
        stages.sort();
        stages.dedup();
        stages
    }

    /// Plans a session of kernel specs.
    async fn kernels(
        &self,
        store: &Arc<dyn Store>,
        problems: Vec<Problem>,
        rejects: Vec<String>,
        admin: &Admin,
        metrics: &Metrics,
        publish: Publish,
    ) -> anyhow::Result<ExitCode> {
        let stored = store.session(&self.session).await?;
        if !self.choice.is_empty() {
            return Err(crate::usage(format!(
                "--solver, --algorithm, --tunable and --dynamic-only choose among MIOpen's solvers; session {} is none of \
                 those: make it with bluefin session new",
                self.session
            )));
        }
        let own = stored.as_ref().map_or_else(|| Stage::ALL.to_vec(), |session| session.stages.clone());
        let stages = if self.stage.is_empty() { own } else { self.stages() };
        if !stages.contains(&Stage::Perf) {
            return Err(crate::usage("--stage find needs perf: its candidates are the best of the perf stage"));
        }
        let target = self.target.clone().or_else(|| stored.map(|session| session.target)).unwrap_or(Target::Host);
        let input = self.input.with_specs(&target, problems, rejects)?;
        let broker = self.fleet.broker().await?;
        admin.readiness.ready();
        let session = Session::of_kernels(self.session.clone(), target, &self.label, &stages, now_ms());
        let plan = enqueue(&**store, &*broker, &session, input, self.input.budget, publish, metrics).await?;
        broker.close().await;
        if self.json {
            out::json(&plan)?;
        } else {
            out::line(plan.sentence(self.input.budget))?;
        }
        plan.complain();
        Ok(if plan.is_fine() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Plans `input` and enqueues what is missing.
pub async fn enqueue(
    store: &dyn Store,
    broker: &dyn Broker,
    session: &Session,
    input: Input,
    budget: Budget,
    publish: Publish,
    metrics: &Metrics,
) -> anyhow::Result<Plan> {
    if input.specs.is_empty() {
        bail!("no kernel spec is for target {}", session.target);
    }
    for spec in &input.specs {
        store.put_blob(&spec.bundle.encode()?).await?;
    }
    let mut plan = Plan { session: session.name.to_string(), rejects: input.rejects, ..Plan::default() };
    let mut enqueuer = Enqueuer::open(store, broker, session, publish).await?;
    for problems in input.problems.chunks(PROBLEMS) {
        let mut jobs = Vec::new();
        for problem in problems {
            let groups = plan_problem(enqueuer.session(), problem, &input.specs, budget)?;
            plan.problems += 1;
            if groups.is_empty() {
                let reason = why_unsolved(problem, &session.target, input.specs.iter().chain(&input.elsewhere))?;
                plan.unsolved.push(Unsolved { problem: problem.to_string(), reason });
            }
            for group in groups {
                plan.groups.extend(group.jobs.first().map(Job::group));
                plan.candidates += group.chosen;
                plan.valid_candidates += group.valid;
                plan.jobs += group.jobs.len() as u64;
                jobs.extend(group.jobs);
            }
        }
        enqueuer.enqueue(jobs).await?;
        metrics.planned(problems.len() as u64, enqueuer.total());
        tracing::info!(problems = plan.problems, of = input.problems.len(), jobs = plan.jobs, "enqueued");
    }
    let Enqueued { published, waiting, done } = enqueuer.total();
    (plan.enqueued, plan.waiting, plan.done) = (published, waiting, done);
    Ok(plan)
}

impl Plan {
    /// One line for people.
    pub fn sentence(&self, budget: Budget) -> String {
        format!(
            "session {}: {} problems, {} jobs ({} enqueued now, {} waiting, {} done); {} of {} candidates at budget {budget}",
            self.session,
            self.problems,
            self.jobs,
            self.enqueued,
            self.waiting,
            self.done,
            self.candidates,
            self.valid_candidates
        )
    }

    /// Whether there is something to do, and nothing was left out.
    pub fn is_fine(&self) -> bool {
        self.jobs > 0 && self.unsolved.is_empty() && self.rejects.is_empty()
    }

    /// Says what was not taken, on standard error.
    pub fn complain(&self) {
        for reject in &self.rejects {
            eprintln!("rejected: {reject}");
        }
        self.tell_unsolved();
    }

    /// Says what no solver applies to, on standard error.
    pub fn tell_unsolved(&self) {
        unsolved::tell("skipped, no solver applies", &self.unsolved);
        if self.jobs == 0 {
            eprintln!(
                "nothing to do: {}",
                if self.problems == 0 { "no problems" } else { "no solver applies to any problem" }
            );
        }
    }
}
