//! `bluefin status`: how far sessions are, what waits, what failed, and why nothing moves.

use std::process::ExitCode;
use std::time::Duration;

use bluefin_campaign::fleet::status::Looker;
use bluefin_campaign::ports::StoreArgs;
use bluefin_common::session::SessionName;
use bluefin_terminal::sheet::TableArgs;
use bluefin_terminal::status::{sheet, tables};
use bluefin_terminal::{out, width};

/// Show how far sessions are, and why one does not move
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin status --watch\n  bluefin status --session nightly --json\n  \
    bluefin status --state bluefin.db\n\n\
    Exit code 1 where broker or store do not answer: what is known is printed all the same, and \"away\" says why.")]
pub struct StatusArgs {
    /// Only this session
    #[arg(long, value_name = "NAME")]
    session: Option<SessionName>,
    /// Show again every second until interrupted
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    watch: bool,
    #[command(flatten)]
    table: TableArgs,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

impl StatusArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let mut looker = Looker::new(&self.store, self.session.as_ref()).await?;
        let away = loop {
            let status = looker.look().await?;
            if self.json {
                out::json(&status)?;
            } else if self.table.csv {
                self.table.print(&sheet(&status))?;
            } else {
                let text = tables(&status, self.table.columns());
                if self.watch {
                    out::clear()?;
                    out::line(width::top_of(text.trim_end()))?;
                } else {
                    out::line(text.trim_end())?;
                }
            }
            if !self.watch {
                break !status.away.is_empty();
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
                _ = tokio::signal::ctrl_c() => break false,
            }
        };
        looker.close().await;
        Ok(if away { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}
