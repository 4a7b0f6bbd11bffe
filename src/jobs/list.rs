//! `bluefin jobs list`: where each job is.

use std::process::ExitCode;
use std::time::Duration;

use bluefin_common::campaign::now_ms;
use bluefin_common::session::SessionName;
use comfy_table::{Cell, CellAlignment, Table};

use super::found::{Found, Jobs, Place};
use crate::colour::{self, Tone};
use crate::ports::StoreArgs;
use crate::progress::human;
use crate::session::steer::named_or_all;
use crate::{out, width};

/// Rows of a table where nobody says how many.
const ROWS: usize = 50;

/// Show where jobs are: planned, waiting, in whose hands, done, failed, dead
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  bluefin jobs list --session nightly\n  bluefin jobs list --place compiling,evaluating\n  \
    bluefin jobs list --place failed,dead --json\n\n\
    Without --place those that have no outcome. What waits in a queue is known by its id alone. With --json one object a line, and all of them."
)]
pub struct ListArgs {
    /// Only those of this session [default: of all sessions]
    #[arg(long, value_name = "NAME")]
    session: Option<SessionName>,
    /// Only those that are there
    #[arg(long, value_enum, value_name = "PLACE,...", value_delimiter = ',')]
    place: Vec<Place>,
    /// At most so many [default: 50 in a table]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print as JSON, one job a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

impl ListArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let opened = self.store.open_to_read().await?;
        let store = &*opened.store;
        let sessions = named_or_all(store, self.session.as_ref()).await?;
        let jobs = Jobs::look(store).await?;
        let mut rows = Rows::new(self.limit, self.json);
        let ended = self.place.iter().any(|place| matches!(place, Place::Done | Place::Failed | Place::Dead));
        let open = self.place.is_empty() || self.place.iter().any(|place| *place < Place::Done);
        for session in &sessions {
            if open {
                for found in jobs.open(session).await? {
                    self.take(&mut rows, found)?;
                }
            }
            if ended && !rows.is_full() {
                jobs.done(session, |outcome| {
                    self.take(&mut rows, Found::done(outcome))?;
                    Ok(!rows.is_full())
                })
                .await?;
            }
        }
        rows.print()?;
        Ok(ExitCode::SUCCESS)
    }

    fn take(&self, rows: &mut Rows, found: Found) -> anyhow::Result<()> {
        if self.place.is_empty() || self.place.contains(&found.place) { rows.take(found) } else { Ok(()) }
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

    fn take(&mut self, found: Found) -> anyhow::Result<()> {
        self.count += 1;
        if self.count > self.limit {
            return Ok(());
        }
        if self.json {
            out::line(serde_json::to_string(&found)?)?;
        } else {
            self.kept.push(found);
        }
        Ok(())
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

fn table(jobs: &[Found], now_ms: u64) -> Table {
    let mut table = width::table();
    table.set_header(["job", "session", "place", "stage", "problem", "results", "worker", "since", "took", "error"]);
    for job in jobs {
        let age = |then_ms: u64| human(Duration::from_millis(now_ms.saturating_sub(then_ms)));
        let results: Vec<String> = job.candidates.iter().map(|(name, count)| format!("{count} {name}")).collect();
        let error = job.error.as_deref().and_then(|error| error.lines().next()).unwrap_or_default();
        table.add_row([
            Cell::new(job.job.get(..12).unwrap_or(&job.job)),
            Cell::new(&job.session),
            colour::cell(job.place.name(), tone(job.place)),
            Cell::new(job.stage.unwrap_or_default()),
            Cell::new(job.problem.as_deref().unwrap_or_default()),
            Cell::new(results.join(", ")),
            Cell::new(job.worker.as_deref().unwrap_or_default()),
            Cell::new(job.since_ms.map(age).unwrap_or_default()),
            Cell::new(job.took_ms.map(|took| human(Duration::from_millis(took))).unwrap_or_default()),
            Cell::new(error.chars().take(120).collect::<String>()),
        ]);
    }
    for column in 7..9 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn tone(place: Place) -> Option<Tone> {
    match place {
        Place::Planned | Place::Waiting => None,
        Place::Paused => Some(Tone::Waits),
        Place::Compiling | Place::Evaluating | Place::Done => Some(Tone::Good),
        Place::Failed | Place::Dead => Some(Tone::Bad),
    }
}
