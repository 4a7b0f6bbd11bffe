//! `bluefin jobs list`: where each job is.

use std::process::ExitCode;
use std::time::Duration;

use bluefin_campaign::known::known;
use bluefin_campaign::ports::StoreArgs;
use bluefin_common::clock::now_ms;
use bluefin_common::failure::telling_line;
use bluefin_common::session::SessionName;
use bluefin_common::spelled::human;
use bluefin_producer::jobs::{Found, JobPlace, Jobs};
use bluefin_terminal::colour::{self, Tone};
use bluefin_terminal::{out, width};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use comfy_table::{Cell, CellAlignment, ColumnConstraint, Table};

use bluefin_campaign::fleet::steer::named_or_all;

/// Rows of a table where nobody says how many.
const ROWS: usize = 50;
/// Columns of a terminal from which on there is room for all.
const ROOMY: usize = 120;

/// Show where jobs are: planned, waiting, delayed until when, in whose hands, done, failed, dead
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  bluefin jobs list --session nightly\n  bluefin jobs list --place compiling,evaluating\n  \
    bluefin jobs list --place failed,dead --json\n\n\
    Without --place those that have no outcome: what is in somebody's hands first, then what waits, in the order in which it was \
    asked for. With --json one object a line, and all of them."
)]
pub struct ListArgs {
    /// Only those of this session [default: of all sessions]
    #[arg(long, value_name = "NAME")]
    session: Option<SessionName>,
    /// Only those that are there
    #[arg(long, value_parser = places(), value_name = "PLACE,...", value_delimiter = ',')]
    place: Vec<JobPlace>,
    /// At most so many [default: 50 in a table]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print as JSON, one job a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Names of places, each with what it is.
fn places() -> impl TypedValueParser<Value = JobPlace> {
    let names = JobPlace::ALL.map(|place| PossibleValue::new(place.name()).help(place.about()));
    PossibleValuesParser::new(names).try_map(|name| {
        let named = JobPlace::ALL.into_iter().find(|place| place.name() == name);
        named.ok_or_else(|| format!("found {name:?}, expected a place"))
    })
}

impl ListArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let opened = self.store.open_to_read().await?;
        let store = &*opened.store;
        let sessions = named_or_all(store, self.session.as_ref()).await?;
        let (jobs, planners) = (Jobs::look(store).await?, known().planners());
        let mut rows = Rows::new(self.limit, self.json);
        let ended = self.place.iter().any(|place| matches!(place, JobPlace::Done | JobPlace::Failed | JobPlace::Dead));
        let open = self.place.is_empty() || self.place.iter().any(|place| *place < JobPlace::Done);
        for session in &sessions {
            if rows.is_full() {
                break;
            }
            if open {
                let open = jobs.open(session).await?;
                open.tell(&planners, |_, place| self.wants(place), |open| rows.take(open.found)).await?;
            }
            if ended && !rows.is_full() {
                jobs.done(
                    session,
                    |_| true,
                    |found, _| if self.wants(found.place) { rows.take(found) } else { Ok(true) },
                )
                .await?;
            }
        }
        rows.print()?;
        Ok(ExitCode::SUCCESS)
    }

    fn wants(&self, place: JobPlace) -> bool {
        self.place.is_empty() || self.place.contains(&place)
    }
}

/// What is printed: as it comes as JSON, at the end as a table.
struct Rows {
    limit: usize,
    json: bool,
    count: usize,
    kept: Vec<Found>,
}

impl Rows {
    fn new(limit: Option<usize>, json: bool) -> Self {
        let usual = if json { usize::MAX } else { ROWS };
        Self { limit: limit.unwrap_or(usual), json, count: 0, kept: Vec::new() }
    }

    /// Whether no more are wanted; a table counts a little further, to say that there are more.
    fn is_full(&self) -> bool {
        self.count > self.limit
    }

    /// Whether more are wanted.
    fn take(&mut self, found: Found) -> anyhow::Result<bool> {
        self.count += 1;
        if self.count > self.limit {
            return Ok(false);
        }
        if self.json {
            out::line(serde_json::to_string(&found)?)?;
        } else {
            self.kept.push(found);
        }
        Ok(true)
    }

    fn print(self) -> anyhow::Result<()> {
        if self.json {
            return Ok(());
        }
        if self.kept.is_empty() {
            return Ok(out::line("no job is there")?);
        }
        out::line(table(&self.kept, now_ms()))?;
        if self.count > self.limit {
            out::line(format_args!("and more: --limit N, or --json for all"))?;
        }
        Ok(())
    }
}

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

/// Columns in which there is something; where there is little room, those that matter most.
fn table(jobs: &[Found], now_ms: u64) -> Table {
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
