//! `bluefin db`: MIOpen's databases checked, converted, merged, compared and asked.

mod check;
mod convert;
mod diff;
mod query;

pub use diff::Judgement;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use bluefin_exporter::db::Step;
use bluefin_miopen::db::solvers::{RELEASE, Solvers};
use clap::Subcommand;

/// Look after MIOpen's databases
#[derive(Subcommand)]
#[command(after_help = "Example:\n  bluefin db check out/gfx90a68.HIP.fdb.txt out/gfx90a68.db out/gfx90a68.kdb\n\n\
    Find dbs (.fdb.txt, .ufdb.txt), perf dbs (.db, .udb, .db.txt, .udb.txt) and kernel dbs (.kdb, .ukdb), each also \
    packed as .bz2.")]
pub enum DbVerb {
    Check(check::CheckArgs),
    Convert(convert::ConvertArgs),
    Merge(convert::MergeArgs),
    Diff(diff::DiffArgs),
    Query(query::QueryArgs),
}

impl DbVerb {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let work = move || match self {
            Self::Check(args) => args.run(),
            Self::Convert(args) => args.run(),
            Self::Merge(args) => args.run(),
            Self::Diff(args) => args.run(),
            Self::Query(args) => args.run(),
        };
        tokio::task::spawn_blocking(work).await?
    }
}

/// A progress bar for work on files; nothing where there is no terminal.
struct Bar(indicatif::ProgressBar);

impl Bar {
    fn start() -> Self {
        // Draws to standard error, and only if that is a terminal.
        let style = indicatif::ProgressStyle::with_template("{msg} {human_pos}/{human_len} {bar:40} {eta} left")
            .unwrap_or_else(|_| indicatif::ProgressStyle::default_bar());
        Self(indicatif::ProgressBar::no_length().with_style(style))
    }

    fn show(&self, step: Step<'_>) {
        if step.total > 0 {
            self.0.set_length(step.total);
        } else {
            self.0.unset_length();
        }
        self.0.set_message(step.path.display().to_string());
        self.0.set_position(step.done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// The help of `--solvers`.
pub fn solvers_help() -> String {
    format!("MIOpen's solvers as CSV (id,name,primitive,algo,tunable,dynamic) instead of those of {RELEASE}")
}

/// The solvers of a CSV, or those that bluefin knows.
pub fn read_solvers(path: Option<PathBuf>) -> anyhow::Result<Solvers> {
    let Some(path) = path else { return Ok(Solvers::shipped().clone()) };
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Solvers::parse(&text).with_context(|| path.display().to_string())
}
