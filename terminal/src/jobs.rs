//! The table of jobs: where each is, and in whose hands.

use std::time::Duration;

use bluefin_common::failure::telling_line;
use bluefin_common::spelled::human;
use bluefin_producer::jobs::{Found, JobPlace};
use comfy_table::{Cell, CellAlignment, ColumnConstraint, Table};

use crate::colour::{self, Tone};
use crate::width;

/// Columns of a terminal from which on there is room for all.
const ROOMY: usize = 120;

/// A column: its name, whether it is of numbers, whether it stays where there is little room, and what is in it.
type Column = (&'static str, bool, bool, fn(&Found, u64) -> String);

const COLUMNS: [Column; 13] = [
    ("job", false, true, |job, _| job.job.get(..12).unwrap_or(&job.job).to_string()),
    ("session", false, false, |job, _| job.session.to_string()),
    ("place", false, true, |job, _| job.place.name().to_string()),
    ("stage", false, true, |job, _| job.stage.unwrap_or_default().to_string()),
    ("problem", false, true, |job, _| job.problem.clone().unwrap_or_default()),
    ("solver", false, true, |job, _| solver(job)),
    ("results", false, false, |job, _| {
        let results = job.candidates.iter().map(|(name, count)| format!("{count} {name}"));
        results.collect::<Vec<_>>().join(", ")
    }),
    ("attempt", true, true, |job, _| if job.attempts > 1 { job.attempts.to_string() } else { String::new() }),
    ("worker", false, true, |job, _| job.worker.clone().unwrap_or_default()),
    ("back in", true, true, |job, now_ms| {
        job.until_ms.map(|then| age(then.saturating_sub(now_ms))).unwrap_or_default()
    }),
    ("since", true, true, |job, now_ms| job.since_ms.map(|then| age(now_ms.saturating_sub(then))).unwrap_or_default()),
    ("took", true, false, |job, _| job.took_ms.map(age).unwrap_or_default()),
    ("error", false, true, |job, _| {
        let error = job.error.as_deref().map(telling_line).unwrap_or_default();
        error.chars().take(if is_roomy() { 120 } else { 40 }).collect()
    }),
];

/// A row for each job, with the columns in which there is something; where there is little room, those that matter most.
#[must_use]
pub fn table(jobs: &[Found], now_ms: u64) -> Table {
    let roomy = is_roomy();
    let columns: Vec<(Column, Vec<String>)> = COLUMNS
        .into_iter()
        .filter(|(_, _, stays, _)| roomy || *stays)
        .map(|column| (column, jobs.iter().map(|job| (column.3)(job, now_ms)).collect()))
        .filter(|(_, cells): &(Column, Vec<String>)| cells.iter().any(|cell| !cell.is_empty()))
        .collect();
    let mut table = width::table();
    table.set_header(columns.iter().map(|((name, ..), _)| *name));
    for (row, job) in jobs.iter().enumerate() {
        table.add_row(columns.iter().map(|((name, ..), cells)| {
            let cell = cells.get(row).cloned().unwrap_or_default();
            if *name == "place" { colour::cell(cell, tone(job.place)) } else { Cell::new(cell) }
        }));
    }
    for (index, ((name, is_number, ..), _)) in columns.iter().enumerate() {
        let Some(column) = table.column_mut(index) else { continue };
        if *is_number {
            column.set_cell_alignment(CellAlignment::Right);
        }
        if matches!(*name, "job" | "place" | "stage") {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table
}

fn is_roomy() -> bool {
    width::of_stdout().is_none_or(|width| width >= ROOMY)
}

fn age(millis: u64) -> String {
    human(Duration::from_millis(millis))
}

fn solver(job: &Found) -> String {
    match job.solvers.as_slice() {
        [one] => one.trim_start_matches("Bluefin").to_string(),
        [] => String::new(),
        several => format!("{} solvers", several.len()),
    }
}

fn tone(place: JobPlace) -> Option<Tone> {
    match place {
        JobPlace::Planned | JobPlace::Waiting => None,
        JobPlace::Paused | JobPlace::Delayed => Some(Tone::Waits),
        JobPlace::Compiling | JobPlace::Evaluating | JobPlace::Done => Some(Tone::Good),
        JobPlace::Failed | JobPlace::Dead => Some(Tone::Bad),
    }
}
