//! `bluefin jobs`: what there is to do with the jobs of sessions.

pub mod retry;

use std::process::ExitCode;

use clap::Subcommand;

/// Do something with the jobs of a session
#[derive(Subcommand)]
#[command(after_help = "Example:\n  bluefin jobs retry --failed compile_timeout --session nightly")]
pub enum JobsVerb {
    Retry(retry::RetryArgs),
}

impl JobsVerb {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Retry(args) => args.run().await,
        }
    }
}
