//! `bluefin jobs`: where the jobs of sessions are, and what there is to do with them.

pub mod list;
pub mod one;
pub mod retry;

use std::process::ExitCode;

use clap::Subcommand;

/// Show the jobs of sessions, and try some again
#[derive(Subcommand)]
#[command(
    after_help = "Examples:\n  bluefin jobs list --session nightly\n  bluefin jobs retry --failed compile_timeout --session nightly"
)]
pub enum JobsVerb {
    List(list::ListArgs),
    Retry(retry::RetryArgs),
}

impl JobsVerb {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::List(args) => args.run().await,
            Self::Retry(args) => args.run().await,
        }
    }
}
