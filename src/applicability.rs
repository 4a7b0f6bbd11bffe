//! `bluefin applicability`: which of MIOpen's solvers apply to which problems.

use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_campaign::miopen::{AskFin, DEFAULT_FIN, problems};
use bluefin_campaign::ports::StoreArgs;
use bluefin_common::problem::Problem;
use bluefin_common::session::SessionName;
use bluefin_common::store::Store;
use bluefin_producer::applicability::{self, Updated};
use bluefin_producer::library::TagName;
use bluefin_terminal::out;
use clap::Subcommand;
use indicatif::ProgressBar;
use serde_json::json;

use bluefin_terminal::bar;

/// Find out which of MIOpen's solvers apply to which problems
#[derive(Subcommand)]
#[command(after_help = "Example:\n  bluefin applicability update --session 1 -t resnet50\n  \
    bluefin applicability show --session 1")]
pub enum ApplicabilityVerb {
    Update(UpdateArgs),
    Show(ShowArgs),
}

/// Ask fin about the problems that the session does not know yet
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  bluefin applicability update --session 1 -t resnet50\n  \
    bluefin applicability update --session 1 --again --processes 8\n\n\
    Without -t about the problems of all tags. Problems that fin fails on are reported, and asked about the next time.")]
pub struct UpdateArgs {
    /// The session that it is for
    #[arg(long, alias = "session_id", value_name = "NAME")]
    pub session: SessionName,
    /// Only problems of this tag
    #[arg(short, long, value_name = "TAG")]
    pub tag: Option<TagName>,
    /// The fin executable
    #[arg(long, value_name = "PATH", env = "BLUEFIN_FIN", default_value = DEFAULT_FIN)]
    pub fin: PathBuf,
    /// Processes of fin at a time [default: the number of CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub processes: Option<u32>,
    /// Ask about all problems, not only those that are not known
    #[arg(long)]
    pub again: bool,
    /// Print what was done as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Print to how many problems each solver applies, or the solvers of each problem of a tag
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:\n  bluefin applicability show --session 1\n  \
    bluefin applicability show --session 1 -t resnet50 --json")]
pub struct ShowArgs {
    /// The session
    #[arg(long, alias = "session_id", value_name = "NAME")]
    session: SessionName,
    /// The problems of this tag, each with its solvers
    #[arg(short, long, value_name = "TAG")]
    tag: Option<TagName>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

impl ApplicabilityVerb {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Update(args) => args.run().await,
            Self::Show(args) => args.run().await,
        }
    }
}

impl UpdateArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let opened = self.store.open().await?;
        let updated = self.update(&*opened.store).await;
        opened.close().await;
        let Updated { asked, present, applicable, failed } = updated?;
        if self.json {
            let failed: Vec<_> = failed.iter().map(failure).collect();
            out::json(&json!({ "asked": asked, "present": present, "applicable": applicable, "failed": failed }))?;
        } else {
            out::line(format_args!(
                "session {}: {asked} problems asked about, {applicable} solvers apply; {present} were known; {} failed",
                self.session,
                failed.len()
            ))?;
        }
        for (problem, failure) in &failed {
            say!("{}: {}: {problem}", failure.kind.name(), failure.detail);
        }
        Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    /// Asks fin, and keeps what it says.
    async fn update(&self, store: &dyn Store) -> anyhow::Result<Updated> {
        let ask = AskFin { fin: self.fin.clone(), processes: self.processes, again: self.again };
        let mut bar: Option<ProgressBar> = None;
        let progress = |done, all| bar.get_or_insert_with(|| bar::up_to(all, "problems")).set_position(done);
        let updated = ask.update(store, &self.session, self.tag.as_ref(), progress).await;
        bar.iter().for_each(ProgressBar::finish_and_clear);
        updated
    }
}

fn failure((problem, failure): &(Problem, bluefin_common::failure::Failure)) -> serde_json::Value {
    json!({ "problem": problem.canonical(), "kind": failure.kind.name(), "detail": failure.detail })
}

impl ShowArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let opened = self.store.open_to_read().await?;
        let store = &*opened.store;
        let Some(tag) = &self.tag else {
            let (problems, counts) = applicability::counts(store, &self.session).await?;
            if self.json {
                out::json(&json!({ "problems": problems, "solvers": counts }))?;
            } else {
                out::line(format_args!("session {}: {problems} problems are known", self.session))?;
                for (solver, count) in counts {
                    out::line(format_args!("{count:>8}  {solver}"))?;
                }
            }
            return Ok(ExitCode::SUCCESS);
        };
        let problems = problems(store, Some(tag)).await?;
        let found = applicability::of(store, &self.session, &problems).await?;
        let mut unknown = 0;
        for (problem, found) in problems.iter().zip(found) {
            unknown += u64::from(found.is_none());
            let solvers = found.map(|found| found.solvers);
            if self.json {
                out::line(json!({ "problem": problem.canonical(), "solvers": solvers }))?;
            } else {
                let solvers = solvers.map_or_else(|| "not known".to_string(), |solvers| solvers.join(" "));
                out::line(format_args!("{problem}\t{solvers}"))?;
            }
        }
        Ok(if unknown == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
