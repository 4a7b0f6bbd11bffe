//! `bluefin enqueue`: plans a session and puts what is missing into the queues.

use std::process::ExitCode;

use anyhow::bail;
use bluefin_common::broker::Broker;
use bluefin_common::campaign::now_ms;
use bluefin_common::job::Stage;
use bluefin_common::session::{Session, SessionName};
use bluefin_common::store::Store;
use bluefin_common::target::Target;
use bluefin_producer::Metrics;
use bluefin_producer::enqueue::{Enqueued, Enqueuer, Publish};
use bluefin_producer::plan::{Budget, plan_problem};
use serde::Serialize;

use crate::admin::AdminArgs;
use crate::input::{Input, InputArgs};
use crate::out;
use crate::ports::FleetArgs;

/// Problems planned at a time: what bounds the memory of a large plan.
const PROBLEMS: usize = 64;

/// Plan a session and enqueue its jobs
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin enqueue examples/resnet50.txt --session nightly --target gfx90a-104\n\n\
    Running it again enqueues only what is missing; a larger --budget adds to what is there.")]
pub struct EnqueueArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Name of the session; created if there is none of that name
    #[arg(long, value_name = "NAME")]
    session: SessionName,
    /// What to tune for: host, gfx90a-104 (architecture and CUs), sm_90-132 [default: the session's, or host]
    #[arg(long)]
    target: Option<Target>,
    /// Stages to run: perf finds the best params of each solver, find times the best of all solvers
    #[arg(long, value_name = "perf,find", value_delimiter = ',', value_parser = parse_stage, default_values = ["perf", "find"])]
    stage: Vec<Stage>,
    /// Why this session is run
    #[arg(short, long, default_value = "")]
    label: String,
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
    Stage::ALL.into_iter().find(|stage| stage.name() == text).ok_or_else(|| "expected perf or find".to_string())
}

/// What planning a session came to.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Plan {
    pub session: String,
    pub problems: u64,
    /// Problems that no solver applies to.
    pub unsolved: Vec<String>,
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
        let mut stages = self.stage.clone();
        stages.sort();
        stages.dedup();
        if !stages.contains(&Stage::Perf) {
            return Err(crate::usage("--stage find needs perf: its candidates are the best of the perf stage"));
        }
        let admin = self.admin.start().await?;
        let store = self.fleet.store().await?;
        let stored = store.session(&self.session).await?;
        let target = self.target.clone().or_else(|| stored.map(|session| session.target)).unwrap_or(Target::Host);
        let input = self.input.read(&target)?;
        let broker = self.fleet.broker().await?;
        let metrics = Metrics::register(&admin.registry)?;
        admin.readiness.ready();
        let session = Session::of_kernels(self.session.clone(), target, &self.label, &stages, now_ms());
        let publish = if self.again { Publish::Unfinished } else { Publish::Missing };
        let plan = enqueue(&*store, &*broker, &session, input, self.input.budget, publish, &metrics).await?;
        broker.close().await;
        admin.stop().await;
        if self.json {
            out::json(&plan)?;
        } else {
            out::line(plan.sentence(self.input.budget))?;
        }
        plan.complain();
        Ok(if plan.rejects.is_empty() && plan.unsolved.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
    metrics.rejected(input.rejects.len() as u64);
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
                plan.unsolved.push(problem.to_string());
            }
            for group in groups {
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

    /// Says what was not taken, on standard error.
    pub fn complain(&self) {
        for reject in &self.rejects {
            eprintln!("rejected: {reject}");
        }
        for problem in &self.unsolved {
            eprintln!("no solver applies: {problem}");
        }
    }
}
