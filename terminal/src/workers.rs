//! The workers of a fleet, for people: a table of them, and below it what stands in their way.

use std::time::Duration;

use bluefin_common::roster::{Entry, Whereabouts};
use bluefin_common::spelled::{counted, human};
use serde::Serialize;

use crate::colour::Tone;
use crate::sheet::{Sheet, cell, number, text, toned};

/// A worker as it is listed.
#[derive(Serialize)]
pub struct Listed {
    /// What it says of itself.
    #[serde(flatten)]
    pub entry: Entry,
    /// Where it is, by what it said and when.
    pub state: Whereabouts,
}

/// A row for each worker.
#[must_use]
pub fn sheet(listed: &[Listed], now_ms: u64) -> Sheet {
    let mut sheet = Sheet::new([
        text("worker"),
        text("step").rank(1),
        text("serves").rank(2),
        text("release").rank(4),
        text("state"),
        number("since"),
        number("in hand").rank(3),
        number("done"),
        number("failed"),
    ]);
    for Listed { entry, state } in listed {
        let settled = |name: &str| entry.settled.get(name).copied().unwrap_or(0);
        let since_ms = match (state, entry.doing.first()) {
            (Whereabouts::Working, Some(oldest)) => oldest.since_ms,
            (Whereabouts::Gone | Whereabouts::Ended, _) => entry.seen_ms,
            _ => entry.begun_ms,
        };
        sheet.row([
            cell(&entry.worker),
            cell(&entry.step),
            cell(entry.serves.join(" ")),
            cell(&entry.release),
            toned(state.name(), tone(*state)),
            cell(age(since_ms, now_ms)),
            cell(if state.is_here() { entry.in_hand.to_string() } else { String::new() }),
            cell(settled("done")),
            toned(settled("dead"), (settled("dead") > 0).then_some(Tone::Bad)),
        ]);
    }
    sheet
}

/// What stands in somebody's way, and who was not heard of; a line each.
#[must_use]
pub fn notes(listed: &[Listed], now_ms: u64) -> String {
    let mut notes = String::new();
    for Listed { entry, state } in listed {
        if state.is_here() {
            remarks(entry, &mut notes);
        } else if *state == Whereabouts::Gone {
            let (worker, age) = (&entry.worker, age(entry.seen_ms, now_ms));
            notes.push_str(&format!("{worker}: not heard of for {age}"));
            let held = counted(entry.in_hand, "job");
            let job = entry.doing.first().and_then(|doing| doing.job.get(..8).or(Some(&doing.job)));
            let job = job.map(|job| format!(" (job {job})")).unwrap_or_default();
            notes.push_str(&match entry.in_hand {
                0 => "\n".to_string(),
                _ => format!("; it had {held} in hand{job}, which its broker gives to another worker\n"),
            });
        }
    }
    notes
}

fn age(then_ms: u64, now_ms: u64) -> String {
    human(Duration::from_millis(now_ms.saturating_sub(then_ms)))
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
