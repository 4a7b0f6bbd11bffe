//! How far sessions are, for people: a table of them, and below it what keeps them, what runs, what failed and what waits.

use std::collections::BTreeMap;
use std::time::Duration;

use bluefin_campaign::fleet::status::{Running, SessionStatus, Status};
use bluefin_common::spelled::{counted, human};
use bluefin_common::standing::Standing;

use crate::colour::{self, Tone};
use crate::sheet::{Sheet, cell, number, text, toned};
use crate::width::wrapped;

/// Jobs of a session that are named as what runs now.
const RUNNING: usize = 3;

fn tone(status: &SessionStatus) -> Option<Tone> {
    match (status.progress.is_settled(), status.standing) {
        (true, _) => Some(Tone::Good),
        (false, Standing::Running) => None,
        (false, _) => Some(Tone::Waits),
    }
}

/// What keeps it, what runs now, and how long it takes still.
fn notes(status: &SessionStatus, notes: &mut Notes) {
    let name = &status.session.name;
    for reason in &status.why {
        notes.push(format!("{name}: {reason}"), Some(Tone::Waits));
    }
    for Running { worker, step, problem, job, seconds } in status.running.iter().take(RUNNING) {
        let (job, verb) = (job.get(..8).unwrap_or(job), if step == "compile" { "compiles" } else { "evaluates" });
        notes.push(format!("{name}: {worker} {verb} {problem} (job {job}), {seconds}s"), None);
    }
    if status.running.len() > RUNNING {
        let more = counted(status.running.len() - RUNNING, "more job");
        notes.push(format!("{name}: and {more} in hand"), None);
    }
    if let Some(left_s) = status.left_s {
        notes.push(format!("{name}: about {} left", human(Duration::from_secs(left_s))), None);
    }
}

/// Lines below the table.
struct Notes {
    columns: usize,
    text: String,
}

impl Notes {
    fn push(&mut self, note: String, tone: Option<Tone>) {
        for line in wrapped(&note, self.columns, 0) {
            let line = tone.map_or_else(|| line.clone(), |tone| colour::line(&line, tone));
            self.text.push_str(&format!("{line}\n"));
        }
    }
}

/// A row for each session.
#[must_use]
pub fn sheet(status: &Status) -> Sheet {
    let mut sheet = Sheet::new([
        text("session"),
        text("target").rank(1),
        number("perf"),
        number("find"),
        number("groups").rank(3),
        number("timed"),
        number("pruned").rank(2),
        number("failed"),
        text("state"),
    ]);
    for session in &status.sessions {
        let progress = &session.progress;
        let jobs = |stage: &str| {
            let count = |counts: &BTreeMap<String, u64>| counts.get(stage).copied().unwrap_or(0);
            format!("{}/{}", count(&progress.done), count(&progress.planned))
        };
        let candidates = |name: &str| progress.candidates.get(name).copied().unwrap_or(0);
        let failed = progress.candidates.values().sum::<u64>() - candidates("timed") - candidates("pruned");
        sheet.row([
            cell(&session.session.name),
            cell(&session.session.target),
            cell(jobs("perf")),
            cell(jobs("find")),
            cell(format!("{}/{}", progress.groups - progress.unsettled_groups, progress.groups)),
            cell(candidates("timed")),
            cell(candidates("pruned")),
            toned(failed, (failed > 0).then_some(Tone::Bad)),
            toned(session.state(), tone(session)),
        ]);
    }
    sheet
}

/// All of it, for people, in lines of at most `columns` characters.
#[must_use]
pub fn tables(status: &Status, columns: usize) -> String {
    let mut below = Notes { columns, text: String::new() };
    for session in &status.sessions {
        notes(session, &mut below);
    }
    for session in &status.sessions {
        for (kind, count) in &session.progress.candidates {
            if kind != "timed" && kind != "pruned" {
                below.push(format!("{}: {} failed: {kind}", session.session.name, counted(*count, "candidate")), None);
            }
        }
    }
    for (queue, depth) in status.queues.iter().flatten() {
        below.text.push_str(&format!("{depth:>8} {queue}\n"));
    }
    for reason in &status.away {
        below.push(format!("away: {reason}"), Some(Tone::Bad));
    }
    format!("{}\n{}", sheet(status).fitting(columns), below.text)
}
