//! `bluefin db diff`.

use std::path::PathBuf;
use std::process::ExitCode;

use bluefin_exporter::db::diff::{Diff, DiffRequest, Share, diff};
use bluefin_terminal::{db, out};

use super::Bar;

/// Compare two databases of one kind by what they mean
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  bluefin db diff old/gfx90a68.HIP.fdb.txt new/gfx90a68.HIP.fdb.txt --threshold 10%\n\n\
    Find dbs are compared by the fastest solver of each key; perf dbs by params, kernel dbs by the hash of each kernel. Exit \
    code 1 if a key became slower by more than the threshold."
)]
pub struct DiffArgs {
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    #[command(flatten)]
    judgement: Judgement,
    /// Print as JSON, with every key that is not what it was
    #[arg(long)]
    json: bool,
}

/// What counts as a change, and how much of it is told.
#[derive(clap::Args)]
pub struct Judgement {
    /// Times that differ by less are ties
    #[arg(long, default_value = "5%", value_name = "SHARE")]
    pub noise: Share,
    /// Times that grow by more are regressions
    #[arg(long, default_value = "10%", value_name = "SHARE")]
    pub threshold: Share,
    /// What is no longer there is a regression too
    #[arg(long)]
    pub deny_gone: bool,
    /// Keys that are listed of each change, those that changed most first
    #[arg(long, default_value_t = 10)]
    pub top: usize,
}

impl Judgement {
    /// Says how two databases differ.
    pub fn print(&self, diff: &Diff) -> anyhow::Result<()> {
        db::print_diff(diff, self.top, self.noise, self.threshold)
    }
}

impl DiffArgs {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let request = DiffRequest {
            before: self.before,
            after: self.after,
            noise: self.judgement.noise.0,
            threshold: self.judgement.threshold.0,
        };
        let diff = {
            let bar = Bar::start();
            diff(&request, &|step| bar.show(step))?
        };
        if self.json {
            out::json(&diff)?;
        } else {
            self.judgement.print(&diff)?;
        }
        let failed = diff.regressions() > 0 || (self.judgement.deny_gone && diff.gone() > 0);
        Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}
