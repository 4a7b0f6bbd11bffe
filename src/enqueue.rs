//! `bluefin enqueue`: plans a session and puts what is missing into the queues.

mod choice;

use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_campaign::admin::AdminArgs;
use bluefin_campaign::known::known;
use bluefin_campaign::listing::{Listing, arch_or_target};
use bluefin_campaign::miopen;
use bluefin_campaign::order::Order;
use bluefin_campaign::ports::FleetArgs;
use bluefin_campaign::priors::begin_with;
use bluefin_campaign::search::SearchArgs;
use bluefin_campaign::session::parse_stage;
use bluefin_campaign::site::Site;
use bluefin_common::clock::now_ms;
use bluefin_common::printable::parse_printable;
use bluefin_common::priority::Priority;
use bluefin_common::session::{Pins, Session, SessionName, Stage};
use bluefin_common::store::{Right, Store};
use bluefin_common::target::Target;
use bluefin_producer::library::TagName;
use bluefin_producer::plan::{Asked, Plan};
use bluefin_producer::session::Wanted;
use bluefin_producer::specs::Specs;
use bluefin_terminal::listing::{self, ListArgs};
use bluefin_terminal::out;
use bluefin_terminal::progress::Display;

use crate::input::{Input, InputArgs, Listed, nothing};
use choice::ChoiceArgs;

/// Plan a session and enqueue its jobs
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  bluefin enqueue examples/resnet50.txt --session nightly --target gfx90a-104\n  \
    bluefin enqueue --session 1 -t resnet50 --stage perf,find\n  \
    bluefin enqueue --session 1 -t resnet50 --algorithm Winograd --tunable\n\n\
    A session of MIOpen's solvers is made by bluefin session new, and asks for bluefin solvers update and bluefin \
    applicability update before. Without a fleet, bluefin run PLAN does the same in one process, with a state file. Running it again enqueues only what is missing; a larger --budget adds to what is there.")]
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
    /// What to tune for: host, gfx90a-104 (architecture and CUs), sm_90-132, or a GPU by its name, such as mi300x [default: the session's, or host]
    #[arg(long, alias = "device", value_parser = arch_or_target)]
    target: Option<Target>,
    /// Stages to run: perf finds the best params of each solver, find times the best of all solvers [default: the
    /// session's, or both]
    #[arg(long, alias = "fin_steps", value_name = "perf,find", value_delimiter = ',', value_parser = parse_stage)]
    stage: Vec<Stage>,
    /// Why this session is run
    #[arg(short, long, default_value = "", value_parser = parse_printable)]
    label: String,
    #[command(flatten)]
    choice: ChoiceArgs,
    #[command(flatten)]
    search: SearchArgs,
    /// How much the session matters from now on: high goes ahead of others, low has the fewest turns [default: as it was, or normal]
    #[arg(long, value_name = "high|normal|low")]
    priority: Option<Priority>,
    /// Publish all jobs without an outcome again, also those known to be in a queue: after a broker lost its data
    #[arg(long)]
    again: bool,
    /// Plan jobs of these problems again whose candidates failed; what they came to before is remembered
    #[arg(long)]
    retry_failed: bool,
    #[command(flatten)]
    listing: ListArgs,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
    /// Refused, with why: a state file has no queues for a fleet
    #[arg(long, value_name = "FILE", hide = true)]
    state: Option<PathBuf>,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    fleet: FleetArgs,
}

impl EnqueueArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        if self.input.files.is_empty() && !self.input.has_own() && !self.of_library() {
            return Err(nothing());
        }
        if self.input.files.is_empty() {
            self.input.nothing_for_files()?;
        }
        if let Some(state) = &self.state {
            return Err(crate::usage(format!(
                "--state {}: jobs are enqueued for a fleet, in RabbitMQ and Redis; with a state file bluefin run and bluefin tune do them \
                 in one process",
                state.display()
            )));
        }
        if self.listing.list {
            return self.list().await;
        }
        let site = Site::of_fleet(&self.fleet, &self.admin).await?;
        let result = match site.shutdown.run_until_cancelled(self.enqueue(&site)).await {
            Some(result) => result,
            // What is planned and not known to be in a queue is published by the same command.
            None => Ok(crate::interrupted()),
        };
        site.close().await;
        result
    }

    /// The candidates that a new session of kernel specs would have.
    async fn list(&self) -> anyhow::Result<ExitCode> {
        if self.of_library() {
            return Err(crate::usage(
                "--list connects to no store, where --tag and --all-tags have their problems: name files of them",
            ));
        }
        self.search.lists_no_priors()?;
        let session = self.session(None)?;
        let Input { problems, specs, rejects, .. } = self.input.read(&session.target)?;
        let asked = Asked {
            stages: self.stages(),
            specs,
            budget: self.input.budget,
            choice: self.choice.choice(),
            ..Asked::default()
        };
        listing::print(&Listing::of(&session, problems, &asked, rejects).await?, self.json)
    }

    async fn enqueue(&self, site: &Site) -> anyhow::Result<ExitCode> {
        let store = &*site.ports.store;
        if self.retry_failed {
            store.may(Right::Retract).await?;
        }
        let Listed { mut problems, rejects, .. } = self.input.listed()?;
        if self.of_library() {
            problems.extend(miopen::problems(store, self.tag.as_ref()).await?);
        }
        let session = self.session(store.session(&self.session).await?)?;
        let session = self.beginning(store, session).await?;
        let planners = known().planners();
        let planner = planners.get(session.method)?;
        let Input { problems, specs, rejects, .. } = if planner.takes_specs() {
            self.input.with_specs(&session.target, problems, rejects)?
        } else if !self.input.has_own() && self.input.with.is_none() {
            Input { problems, specs: Specs::default(), rejects, counts: Default::default() }
        } else {
            return Err(crate::usage(format!(
                "--kernel, --triton and --with: session {} tunes {}",
                session.name,
                planner.tunes()
            )));
        };
        let asked = Asked {
            target: self.target.clone(),
            stages: self.stages(),
            specs,
            budget: self.input.budget,
            choice: self.choice.choice(),
            hint: self.tag.as_ref().map_or_else(String::new, |tag| format!(" -t {tag}")),
            ..Asked::default()
        };
        let order = Order {
            rejects,
            priority: self.priority,
            again: self.again,
            retry_failed: self.retry_failed,
            ..Order::of(session, problems, &asked)
        };
        let plan = site.plan(order, &mut Display::new(|_| ())).await?;
        if self.json {
            out::json(&plan)?;
        } else {
            out::prose(plan.sentence())?;
        }
        complain(&plan);
        Ok(if plan.is_fine() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Whether problems are from the library.
    fn of_library(&self) -> bool {
        self.tag.is_some() || self.all_tags
    }

    /// The session that is `stored`, or a new one of kernel specs.
    fn session(&self, stored: Option<Session>) -> anyhow::Result<Session> {
        let Some(stored) = stored else {
            let search = self.search.of_fleet()?;
            let target = self.target.clone().unwrap_or(Target::Host);
            let stages = if self.stage.is_empty() { Stage::ALL.to_vec() } else { self.stages() };
            let plain = Session::of_kernels(self.session.clone(), target, &self.label, &stages, now_ms());
            return Ok(Session { search, ..plain });
        };
        if !self.label.is_empty() && self.label != stored.label {
            say!("--label: session {} keeps its own: {:?}", stored.name, stored.label);
        }
        if self.search.is_given() && self.search.of_fleet()? != stored.search {
            let found = stored.search_text();
            return Err(crate::usage(format!("--search, --patience: session {} keeps its own: {found}", stored.name)));
        }
        Ok(stored)
    }

    /// `session` with the winners that it begins with; one that is there keeps its own.
    async fn beginning(&self, store: &dyn Store, session: Session) -> anyhow::Result<Session> {
        let Some(from) = &self.search.from else { return Ok(session) };
        let wanted = Wanted { session, named: true, pins: Pins::new() };
        let Wanted { session, .. } = begin_with(store, wanted, from).await?;
        let stored = store.session(&session.name).await?;
        if let Some(stored) = stored.filter(|stored| stored.priors != session.priors) {
            let (name, found) = (&stored.name, stored.priors_text());
            return Err(crate::usage(format!("--from {from}: session {name} keeps its own beginning: {found}")));
        }
        Ok(session)
    }

    /// Those that were named, in order.
    fn stages(&self) -> Vec<Stage> {
        let mut stages = self.stage.clone();
        stages.sort();
        stages.dedup();
        stages
    }
}

/// Says what was not taken and what was left out, on standard error.
pub fn complain(plan: &Plan) {
    plan.rejected().iter().chain(&plan.left_out()).for_each(|line| say!("{line}"));
}
