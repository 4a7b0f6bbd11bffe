//! `bluefin workers`: who works in the fleet, and on what.

use std::process::ExitCode;

use bluefin_campaign::ports::FleetArgs;
use bluefin_common::clock::now_ms;
use bluefin_common::roster;
use bluefin_terminal::out;
use bluefin_terminal::sheet::TableArgs;
use bluefin_terminal::workers::{Listed, notes, sheet};

/// Show the workers of the fleet: where they are, what they do, what they refuse, and who is gone
#[derive(clap::Args)]
#[command(after_help = "Example:\n  \
    bluefin workers\n  \
    bluefin workers --json\n\n\
    Each says so every 5 seconds. A worker that was not heard of for 20 seconds is gone, and stays in the list for a day; one \
    that ended in order, for an hour. Exit code 1: none is here.")]
pub struct WorkersArgs {
    /// Only those that are here
    #[arg(long)]
    here: bool,
    #[command(flatten)]
    table: TableArgs,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    fleet: FleetArgs,
}

impl WorkersArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let store = self.fleet.store().await?;
        let now = now_ms();
        let entries = roster::read(&*store).await?;
        let listed = entries.into_iter().map(|entry| Listed { state: entry.whereabouts(now), entry });
        let listed: Vec<Listed> = listed.filter(|one| !self.here || one.state.is_here()).collect();
        if self.json {
            out::json(&listed)?;
        } else {
            if listed.is_empty() {
                say!("no worker was ever heard of");
            }
            self.table.print(&sheet(&listed, now))?;
            let notes = notes(&listed, now);
            if !self.table.csv && !notes.is_empty() {
                out::prose(notes.trim_end())?;
            }
        }
        Ok(if listed.iter().any(|one| one.state.is_here()) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
