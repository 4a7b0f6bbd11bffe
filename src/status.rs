//! `bluefin status`: how far sessions are, what waits, what failed, and why nothing moves.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use bluefin_campaign::fleet::status::{Looker, Running, SessionStatus, Status};
use bluefin_campaign::ports::StoreArgs;
use bluefin_common::session::SessionName;
use bluefin_common::spelled::human;
use bluefin_common::standing::Standing;
use bluefin_terminal::colour::{self, Tone};
use bluefin_terminal::{out, width};
use comfy_table::{Cell, CellAlignment};

/// Jobs of a session that are named as what runs now.
const RUNNING: usize = 3;

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
    #[arg(long, conflicts_with = "json")]
    watch: bool,
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
            } else {
                // Clears the terminal and puts the cursor home.
                let text = tables(&status);
                if self.watch {
                    out::line(format_args!("\x1b[2J\x1b[H{}", width::top_of(text.trim_end())))?;
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

fn tone(status: &SessionStatus) -> Option<Tone> {
    match (status.progress.is_settled(), status.standing) {
        (true, _) => Some(Tone::Good),
        (false, Standing::Running) => None,
        (false, _) => Some(Tone::Waits),
    }
}

/// What runs now, and how long it takes still.
fn notes(status: &SessionStatus, text: &mut String) {
    let name = &status.session.name;
    for reason in &status.why {
        let line = colour::line(&format!("{name}: {reason}"), Tone::Waits);
        text.push_str(&format!("{line}\n"));
    }
    for Running { worker, step, problem, job, seconds } in status.running.iter().take(RUNNING) {
        let (job, verb) = (job.get(..8).unwrap_or(job), if step == "compile" { "compiles" } else { "evaluates" });
        text.push_str(&format!("{name}: {worker} {verb} {problem} (job {job}), {seconds}s\n"));
    }
    if status.running.len() > RUNNING {
        text.push_str(&format!("{name}: and {} jobs more in hand\n", status.running.len() - RUNNING));
    }
    if let Some(left_s) = status.left_s {
        text.push_str(&format!("{name}: at least {} left\n", human(Duration::from_secs(left_s))));
    }
}

/// All of it, for people.
fn tables(status: &Status) -> String {
    let mut text = String::new();
    let mut table = width::table();
    table.set_header(["session", "target", "perf", "find", "groups", "timed", "pruned", "failed", "state"]);
    for session in &status.sessions {
        let progress = &session.progress;
        let jobs = |stage: &str| {
            let count = |counts: &BTreeMap<String, u64>| counts.get(stage).copied().unwrap_or(0);
            format!("{}/{}", count(&progress.done), count(&progress.planned))
        };
        let candidates = |name: &str| progress.candidates.get(name).copied().unwrap_or(0);
        let failed = progress.candidates.values().sum::<u64>() - candidates("timed") - candidates("pruned");
        table.add_row([
            Cell::new(&session.session.name),
            Cell::new(&session.session.target),
            Cell::new(jobs("perf")),
            Cell::new(jobs("find")),
            Cell::new(format!("{}/{}", progress.groups - progress.unsettled_groups, progress.groups)),
            Cell::new(candidates("timed")),
            Cell::new(candidates("pruned")),
            colour::cell(failed, (failed > 0).then_some(Tone::Bad)),
            colour::cell(session.state(), tone(session)),
        ]);
    }
    for column in 2..8 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    text.push_str(&format!("{table}\n"));
    for session in &status.sessions {
        notes(session, &mut text);
    }
    for session in &status.sessions {
        for (kind, count) in &session.progress.candidates {
            if kind != "timed" && kind != "pruned" {
                text.push_str(&format!("{}: {count} candidates failed: {kind}\n", session.session.name));
            }
        }
    }
    for (queue, depth) in status.queues.iter().flatten() {
        text.push_str(&format!("{depth:>8} {queue}\n"));
    }
    for reason in &status.away {
        let line = colour::line(&format!("away: {reason}"), Tone::Bad);
        text.push_str(&format!("{line}\n"));
    }
    text
}
