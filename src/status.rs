//! `bluefin status`: how far sessions are, what waits, what failed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::broker::{Broker, DEAD_QUEUE};
use bluefin_common::job::{compile_queue, eval_queue};
use bluefin_common::method::Method;
use bluefin_common::session::{Pins, Session, SessionName};
use bluefin_common::store::{Progress, Store};
use bluefin_compile_worker::toolchain;
use comfy_table::{Table, presets};
use serde::Serialize;

use crate::out;
use crate::ports::FleetArgs;

/// Show how far sessions are
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin status --watch\n  bluefin status --session nightly --json\n  \
    bluefin status --state bluefin.db")]
pub struct StatusArgs {
    /// Only this session
    #[arg(long, value_name = "NAME")]
    session: Option<SessionName>,
    /// Show again every second until interrupted
    #[arg(long, conflicts_with = "json")]
    watch: bool,
    /// Read from this state file of bluefin tune instead of Redis
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    fleet: FleetArgs,
}

#[derive(Serialize)]
struct Status {
    sessions: Vec<SessionStatus>,
    /// Messages that wait, by queue; absent without a broker.
    queues: Option<BTreeMap<String, u64>>,
}

#[derive(Serialize)]
struct SessionStatus {
    #[serde(flatten)]
    session: Session,
    pins: Pins,
    #[serde(flatten)]
    progress: Progress,
    complete: bool,
}

impl StatusArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let store: Arc<dyn Store> = match &self.state {
            Some(path) => Arc::new(SqliteStore::open_read_only(path).await?),
            None => self.fleet.store().await?,
        };
        let broker = if self.fleet.names_a_broker() { Some(self.fleet.broker().await?) } else { None };
        loop {
            let status = self.gather(&*store, broker.as_deref()).await?;
            if self.json {
                out::json(&status)?;
            } else {
                // Clears the terminal and puts the cursor home.
                let clear = if self.watch { "\x1b[2J\x1b[H" } else { "" };
                out::line(format_args!("{clear}{}", status.tables().trim_end()))?;
            }
            if !self.watch {
                break;
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
                _ = tokio::signal::ctrl_c() => break,
            }
        }
        if let Some(broker) = broker {
            broker.close().await;
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn gather(&self, store: &dyn Store, broker: Option<&dyn Broker>) -> anyhow::Result<Status> {
        let mut sessions = Vec::new();
        for session in store.sessions().await? {
            if self.session.as_ref().is_some_and(|only| *only != session.name) {
                continue;
            }
            let progress = store.progress(&session.name).await?;
            let pins = store.pins(&session.name).await?;
            sessions.push(SessionStatus { complete: progress.is_complete(), session, pins, progress });
        }
        if let Some(name) = &self.session
            && sessions.is_empty()
        {
            anyhow::bail!("session {name}: there is none of that name");
        }
        let queues = match broker {
            Some(broker) => Some(queue_depths(broker, &sessions).await?),
            None => None,
        };
        Ok(Status { sessions, queues })
    }
}

async fn queue_depths(broker: &dyn Broker, sessions: &[SessionStatus]) -> anyhow::Result<BTreeMap<String, u64>> {
    // Of those that nobody asks for by name.
    let usual: Vec<&str> = toolchain::shipped().iter().filter(|one| one.by_default).map(|one| one.name).collect();
    let of_method = |method: Method| method.toolchains.iter().copied().filter(|name| usual.contains(name));
    let methods = sessions.iter().map(|status| status.session.method).chain([Method::default()]);
    let mut names: Vec<String> = methods.flat_map(of_method).map(compile_queue).collect();
    let pins = sessions.iter().flat_map(|status| status.pins.keys());
    names.extend(pins.filter_map(|pin| pin.strip_prefix("toolchain.")).map(compile_queue));
    names.extend(sessions.iter().map(|status| eval_queue(&status.session.target, status.session.method)));
    names.push(DEAD_QUEUE.to_string());
    let mut depths = BTreeMap::new();
    for name in names {
        let depth = broker.depth(&name).await?;
        depths.insert(name, depth);
    }
    Ok(depths)
}

impl Status {
    fn tables(&self) -> String {
        let mut text = String::new();
        let mut table = Table::new();
        table.load_style(presets::UTF8_FULL_CONDENSED);
        table.set_header(["session", "target", "perf", "find", "groups", "timed", "pruned", "failed", "state"]);
        for status in &self.sessions {
            let progress = &status.progress;
            let jobs = |stage: &str| {
                let count = |counts: &BTreeMap<String, u64>| counts.get(stage).copied().unwrap_or(0);
                format!("{}/{}", count(&progress.done), count(&progress.planned))
            };
            let candidates = |name: &str| progress.candidates.get(name).copied().unwrap_or(0);
            let failed = progress.candidates.values().sum::<u64>() - candidates("timed") - candidates("pruned");
            table.add_row([
                status.session.name.to_string(),
                status.session.target.to_string(),
                jobs("perf"),
                jobs("find"),
                format!("{}/{}", progress.groups - progress.unsettled_groups, progress.groups),
                candidates("timed").to_string(),
                candidates("pruned").to_string(),
                failed.to_string(),
                progress.state().to_string(),
            ]);
        }
        text.push_str(&format!("{table}\n"));
        for status in &self.sessions {
            for (kind, count) in &status.progress.candidates {
                if kind != "timed" && kind != "pruned" {
                    text.push_str(&format!("{}: {count} candidates failed: {kind}\n", status.session.name));
                }
            }
        }
        for (queue, depth) in self.queues.iter().flatten() {
            text.push_str(&format!("{depth:>8} {queue}\n"));
        }
        text
    }
}
