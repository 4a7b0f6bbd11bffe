//! `bluefin aiter`: aiter's files of tuned and untuned shapes.

mod check;
mod coverage;
mod diff;
mod import;
mod merge;
mod tune;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bluefin_aiter::{Files, Rules};
use clap::Subcommand;

/// Look after aiter's CSV files of tuned shapes
#[derive(Subcommand)]
#[command(after_help = "Example:\n  bluefin aiter check aiter/configs\n\n\
    A file's family is told by its name, otherwise by its columns; --family says it where neither does.")]
pub enum AiterVerb {
    Check(check::CheckArgs),
    Merge(merge::MergeArgs),
    Diff(diff::DiffArgs),
    Coverage(coverage::CoverageArgs),
    Import(import::ImportArgs),
    Tune(Box<tune::TuneArgs>),
}

impl AiterVerb {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let work: Box<dyn FnOnce() -> anyhow::Result<ExitCode> + Send> = match self {
            Self::Check(args) => Box::new(|| args.run()),
            Self::Merge(args) => Box::new(|| args.run()),
            Self::Diff(args) => Box::new(|| args.run()),
            Self::Coverage(args) => Box::new(|| args.run()),
            Self::Import(args) => Box::new(|| args.run()),
            Self::Tune(args) => return args.run().await,
        };
        tokio::task::spawn_blocking(work).await?
    }
}

/// `3%` or `3`, as a number of percent.
fn percent(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number
        .filter(|percent| (0.0..100.0).contains(percent))
        .ok_or_else(|| "expected 0% to 100%, 100% not included".to_string())
}

/// A share from 0 to 1.
fn share(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    number.filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| "expected a number from 0 to 1".to_string())
}

/// A file that is no part of what is asked for.
fn pass_over(error: &bluefin_aiter::Error) {
    say!("note: {error}; passed over");
}

/// Says which files are torn; whether there are any.
fn say_torn(files: &Files) -> bool {
    for error in &files.torn {
        say!("error: {error}; nothing of this file is read");
    }
    !files.torn.is_empty()
}

/// How aiter looks up: as it is at `aiter`, or around these files. Says what is taken for granted.
fn rules(aiter: Option<&Path>, files: &[PathBuf]) -> anyhow::Result<Rules> {
    let rules = match aiter {
        Some(root) => Rules::of(root),
        None => Rules::around(files),
    };
    if let Some(root) = aiter.filter(|_| rules.are_assumed()) {
        let root = root.display();
        anyhow::bail!(
            "--aiter: found no look-ups in {root}, expected aiter/fused_moe.py, csrc or aiter_meta/csrc in it"
        );
    }
    say!("note: {}", rules.said());
    Ok(rules)
}
