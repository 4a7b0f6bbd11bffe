//! `bluefin session`: makes sessions and shows them.

pub mod delete;
pub mod steer;

use std::process::ExitCode;

use bluefin_campaign::fleet::overview::Overview;
use bluefin_campaign::fleet::steer::find;
use bluefin_campaign::known::known;
use bluefin_campaign::listing::arch_or_target;
use bluefin_campaign::machine::devices;
use bluefin_campaign::ports::StoreArgs;
use bluefin_campaign::priors::begin_with;
use bluefin_campaign::search::SearchArgs;
use bluefin_campaign::session::{Blacklisted, BudgetArgs, notes, parse_stage, tuners};
use bluefin_common::method::Method;
use bluefin_common::printable::parse_printable;
use bluefin_common::priority::Priority;
use bluefin_common::session::{Session, SessionName, Stage};
use bluefin_common::spelled::bytes;
use bluefin_common::store::Store;
use bluefin_common::target::Target;
use bluefin_producer::session::{Made, NewSession, Wanted, make, tuner_text};
use bluefin_terminal::{out, session};
use clap::Subcommand;

use delete::DeleteArgs;
use steer::{UnpinArgs, Which};

/// Make tuning campaigns, and look at them
#[derive(Subcommand)]
#[command(after_help = "Example:\n  bluefin session new -l \"release 6.4\" --arch gfx90a --num-cu 104")]
pub enum SessionVerb {
    New(Box<NewArgs>),
    /// Prints every session with its progress
    #[command(after_help = "Example:\n  bluefin session list --json")]
    List {
        /// Print as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Prints what a session is and how far it is: stages, failures by kind, pins, budget, time spent
    #[command(after_help = "Example:\n  bluefin session show 1 --json")]
    Show {
        #[arg(value_name = "NAME")]
        name: SessionName,
        /// Print as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Keep the jobs of a session for later: those in work end, the others wait where they block nobody
    #[command(after_help = "Example:\n  bluefin session pause nightly\n\n\
        Workers know within a second. Jobs that they meet are kept in the store until bluefin session resume.")]
    Pause(Which),
    /// Go on with a session that was paused or cancelled: what was kept or dropped is published
    #[command(after_help = "Example:\n  \
        bluefin session resume nightly\n\n\
        If it is interrupted, the same command does the rest. Jobs that wait get another priority by a pause, and then bluefin \
        session resume nightly --priority low.")]
    Resume {
        #[command(flatten)]
        which: Which,
        /// How much it matters from now on, also for the jobs that wait
        #[arg(long, value_name = "high|normal|low")]
        priority: Option<Priority>,
    },
    /// Drop the jobs of a session: those in work end, those in queues are neither compiled nor evaluated
    #[command(after_help = "Example:\n  bluefin session cancel nightly\n\n\
        Outcomes stay, and can be exported. bluefin session resume takes it back: it publishes all that has no outcome.")]
    Cancel(Which),
    Unpin(UnpinArgs),
    Delete(DeleteArgs),
}

/// Make a session; the same again returns the one that is there
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  bluefin session new -l \"release 6.4\" --arch gfx90a --num-cu 104\n  \
    bluefin session new -l nightly --name nightly --target gfx942-304 --tuner miopendriver --exhaustive\n  \
    bluefin session new -l quick --target gfx90a-104 -B FFT,WINOGRAD --solver-budget 10m --tuning-patience 100\n\n\
    Without --name sessions are numbered from 1. Prints the name of the session.")]
pub struct NewArgs {
    /// Why it is made
    #[arg(short, long, value_parser = parse_printable)]
    pub label: String,
    /// Its name [default: the next number]
    #[arg(long, value_name = "NAME")]
    pub name: Option<SessionName>,
    /// What to tune for: gfx90a-104 (architecture and CUs), host, sm_90-132, or a GPU by its name, such as mi300x [default: the GPU of this machine]
    #[arg(long, alias = "device", conflicts_with_all = ["arch", "num_cu"], value_parser = arch_or_target)]
    pub target: Option<Target>,
    /// Architecture, with --num-cu
    #[arg(short, long, requires = "num_cu")]
    pub arch: Option<String>,
    /// Compute units, with --arch
    #[arg(short, long, alias = "num_cu", requires = "arch")]
    pub num_cu: Option<u32>,
    /// Whose solvers are tuned [default: fin for gfx targets, kernels for others]
    #[arg(long, value_parser = tuners())]
    pub tuner: Option<Method>,
    /// With --tuner miopendriver: tune everything again, not only what MIOpen's perf db lacks
    #[arg(long)]
    pub exhaustive: bool,
    /// Stages to run [default: perf,find; find for miopendriver, which does both at once]
    #[arg(long, value_name = "perf,find", value_delimiter = ',', value_parser = parse_stage)]
    pub stage: Vec<Stage>,
    /// Version of ROCm that its workers must have
    #[arg(long, alias = "rocm_v", value_name = "VERSION")]
    pub rocm_v: Option<String>,
    /// Version of MIOpen that its workers must have
    #[arg(long, alias = "miopen_v", value_name = "VERSION")]
    pub miopen_v: Option<String>,
    /// Container image that it is tuned in, for the record
    #[arg(long, alias = "docker_name", value_name = "IMAGE")]
    pub docker_name: Option<String>,
    /// Ticket that it is for, for the record
    #[arg(long)]
    pub ticket: Option<String>,
    /// MIOPEN_FIND_MODE of its workers
    #[arg(long, alias = "find_mode", value_name = "1|3", value_parser = clap::value_parser!(u8).range(1..=5))]
    pub find_mode: Option<u8>,
    /// Algorithms that MIOpen leaves out
    #[arg(short = 'B', long, value_enum, value_name = "ALGORITHM,...", value_delimiter = ',', ignore_case = true)]
    pub blacklist: Vec<Blacklisted>,
    #[command(flatten)]
    pub search: SearchArgs,
    #[command(flatten)]
    pub budget: BudgetArgs,
    /// Print the session as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

impl NewArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let mut args = self.clone();
        if args.target.is_none() && args.arch.is_none() {
            let target = devices::gpu_here().await?;
            say!("target {target}: the GPU of this machine");
            args.target = Some(target);
        }
        let wanted = args.wanted()?;
        let opened = self.store.open().await?;
        let made = self.make(&*opened.store, wanted).await;
        opened.close().await;
        let made = made?;
        if self.json {
            out::json(&serde_json::json!({ "session": made.session, "new": made.new }))?;
        } else {
            out::line(&made.session.name)?;
            if !made.new {
                say!("session {} is there already, the same in everything", made.session.name);
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Makes it, with the winners of earlier work that it begins with.
    async fn make(&self, store: &dyn Store, mut wanted: Wanted) -> anyhow::Result<Made> {
        if let Some(from) = &self.search.from {
            wanted = begin_with(store, wanted, from).await?;
        }
        Ok(make(store, &wanted).await?)
    }

    /// The session that is asked for.
    fn wanted(&self) -> anyhow::Result<Wanted> {
        let target = match (&self.target, &self.arch, self.num_cu) {
            (Some(target), ..) => target.clone(),
            (None, Some(arch), Some(cus)) => format!("{arch}-{cus}").parse()?,
            _ => return Err(crate::usage("no target: pass --target gfx90a-104, or --arch gfx90a and --num-cu 104")),
        };
        let new = NewSession {
            name: self.name.clone(),
            method: self.tuner,
            exhaustive: self.exhaustive,
            stages: self.stage.clone(),
            pins: notes([&self.rocm_v, &self.miopen_v, &self.docker_name, &self.ticket]),
            find_mode: self.find_mode,
            left_out: self.blacklist.iter().map(|algorithm| algorithm.name()).collect(),
            search: self.search.of_fleet()?,
            budget: self.budget.budget(),
            ..NewSession::of(&self.label, target)
        };
        Ok(new.wanted(&known().planners())?)
    }
}

impl SessionVerb {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::New(args) => return args.run().await,
            Self::Pause(which) => return which.pause().await,
            Self::Resume { which, priority } => return which.resume(priority).await,
            Self::Cancel(which) => return which.cancel().await,
            Self::Unpin(args) => return args.run().await,
            Self::Delete(args) => return args.run().await,
            Self::List { json, store } => {
                let opened = store.open_to_read().await?;
                let mut shown = Vec::new();
                for session in opened.store.sessions().await? {
                    shown.push(Overview::of(&*opened.store, session).await?);
                }
                if json {
                    out::json(&shown)?;
                } else {
                    for one in &shown {
                        let Session { name, target, label, .. } = &one.session;
                        let tuner = tuner_text(&one.session);
                        let size = one.size.map_or_else(|| "-".to_string(), |size| bytes(size.total()));
                        out::line(format_args!("{name}  {target}  {tuner}  {}  {size}  {label}", one.state()))?;
                    }
                }
            }
            Self::Show { name, json, store } => {
                let opened = store.open_to_read().await?;
                let session = find(&*opened.store, &name).await?;
                let shown = Overview::of(&*opened.store, session).await?;
                if json { out::json(&shown)? } else { session::print(&shown)? }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
