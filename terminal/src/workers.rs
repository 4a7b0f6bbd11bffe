//! The workers of a fleet, for people: a table of them, and below it what stands in their way.

use std::time::Duration;

use bluefin_common::roster::{Entry, Whereabouts};
use bluefin_common::spelled::human;
use comfy_table::{Cell, CellAlignment};
use serde::Serialize;

use crate::colour::{self, Tone};
use crate::width;

/// A worker as it is listed.
#[derive(Serialize)]
pub struct Listed {
    /// What it says of itself.
    #[serde(flatten)]
    pub entry: Entry,
    /// Where it is, by what it said and when.
    pub state: Whereabouts,
}

/// A row for each worker, then what stands in somebody's way.
#[must_use]
pub fn text(listed: &[Listed], now_ms: u64) -> String {
    let since = |then_ms: u64| human(Duration::from_millis(now_ms.saturating_sub(then_ms)));
    let mut table = width::table();
    table.set_header(["worker", "step", "serves", "release", "state", "since", "in hand", "done", "failed"]);
    let mut notes = String::new();
    for Listed { entry, state } in listed {
        let settled = |name: &str| entry.settled.get(name).copied().unwrap_or(0);
        let since_ms = match (state, entry.doing.first()) {
            (Whereabouts::Working, Some(oldest)) => oldest.since_ms,
            (Whereabouts::Gone | Whereabouts::Ended, _) => entry.seen_ms,
            _ => entry.begun_ms,
        };
        table.add_row([
            Cell::new(&entry.worker),
            Cell::new(&entry.step),
            Cell::new(entry.serves.join(" ")),
            Cell::new(&entry.release),
            colour::cell(state.name(), tone(*state)),
            Cell::new(since(since_ms)),
            Cell::new(if state.is_here() { entry.in_hand.to_string() } else { String::new() }),
            Cell::new(settled("done")),
            colour::cell(settled("dead"), (settled("dead") > 0).then_some(Tone::Bad)),
        ]);
        if state.is_here() {
            remarks(entry, &mut notes);
        }
    }
    for column in 5..9 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{table}\n{notes}")
}

fn tone(state: Whereabouts) -> Option<Tone> {
    match state {
        Whereabouts::Working => Some(Tone::Good),
        Whereabouts::Idle => None,
        Whereabouts::Waiting => Some(Tone::Waits),
        Whereabouts::Gone => Some(Tone::Bad),
        Whereabouts::Ended => Some(Tone::Aside),
    }
}

fn remarks(entry: &Entry, notes: &mut String) {
    let worker = &entry.worker;
    if let Some(waits) = &entry.waits {
        notes.push_str(&format!("{worker}: {waits}\n"));
    }
    for (queue, reason) in &entry.held_up {
        notes.push_str(&format!("{worker}: takes nothing from {queue}: {reason}\n"));
    }
    for refusal in &entry.refuses {
        let (session, pin) = (&refusal.session, &refusal.pin);
        notes.push_str(&format!(
            "{worker}: session {session} is pinned to another {pin}: {}, it has {}\n",
            refusal.pinned.replace('\n', " "),
            refusal.offered.replace('\n', " "),
        ));
    }
    if let Some(doing) = entry.doing.first() {
        let job = doing.job.get(..8).unwrap_or(&doing.job);
        notes.push_str(&format!("{worker}: on {} of session {} (job {job})\n", doing.problem, doing.session));
    }
    if let Some(remark) = entry.remarks.back() {
        let job = remark.job.get(..8).unwrap_or(&remark.job);
        notes.push_str(&format!("{worker}: job {job}: {}\n", remark.words));
    }
}
