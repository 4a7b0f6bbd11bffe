//! How far sessions are, for people: a table of them, and below it what keeps them, what runs, what failed and what waits.

use std::collections::BTreeMap;
use std::time::Duration;

use bluefin_campaign::fleet::status::{Running, SessionStatus, Status};
use bluefin_common::spelled::human;
use bluefin_common::standing::Standing;
use comfy_table::{Cell, CellAlignment};

use crate::colour::{self, Tone};
use crate::width;

/// Jobs of a session that are named as what runs now.
const RUNNING: usize = 3;

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
#[must_use]
pub fn tables(status: &Status) -> String {
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
