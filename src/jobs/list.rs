//! `bluefin jobs list`: where each job is.

use std::process::ExitCode;

use bluefin_campaign::fleet::steer::named_or_all;
use bluefin_campaign::known::known;
use bluefin_campaign::ports::StoreArgs;
use bluefin_common::clock::now_ms;
use bluefin_common::session::SessionName;
use bluefin_producer::jobs::{Found, JobPlace, Jobs};
use bluefin_terminal::sheet::TableArgs;
use bluefin_terminal::{jobs, out};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Rows of a table where nobody says how many.
const ROWS: usize = 50;

/// Show where jobs are: planned, waiting, delayed until when, in whose hands, done, failed, dead
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  bluefin jobs list --session nightly\n  bluefin jobs list --place compiling,evaluating\n  \
    bluefin jobs list --place failed,dead --json\n\n\
    What a worker has in hand comes first, then what waits in the order in which it was asked for, then what is done. \
    With --json one object a line, and all of them."
)]
pub struct ListArgs {
    /// Only those of this session [default: of all sessions]
    #[arg(long, value_name = "NAME")]
    session: Option<SessionName>,
    /// Only jobs in these places [default: all]
    #[arg(long, value_parser = places(), value_name = "PLACE,...", value_delimiter = ',')]
    place: Vec<JobPlace>,
    /// At most so many [default: 50 in a table]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    table: TableArgs,
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
        let (looked, planners) = (Jobs::look(store).await?, known().planners());
        let mut rows = Rows::new(self.limit, self.json, self.table);
        let ended = self.place.is_empty() || self.place.iter().any(|place| *place >= JobPlace::Done);
        let open = self.place.is_empty() || self.place.iter().any(|place| *place < JobPlace::Done);
        for session in &sessions {
            if rows.is_full() {
                break;
            }
            if open {
                let open = looked.open(session).await?;
                open.tell(&planners, |_, place| self.wants(place), |open| rows.take(open.found)).await?;
            }
            if ended && !rows.is_full() {
                looked
                    .done(
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
    table: TableArgs,
    count: usize,
    kept: Vec<Found>,
}

impl Rows {
    fn new(limit: Option<usize>, json: bool, table: TableArgs) -> Self {
        let usual = if json || table.csv { usize::MAX } else { ROWS };
        Self { limit: limit.unwrap_or(usual), json, table, count: 0, kept: Vec::new() }
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
        if self.kept.is_empty() && !self.table.csv {
            return Ok(out::line("no job is there")?);
        }
        self.table.print(&jobs::sheet(&self.kept, now_ms(), self.table.wide || self.table.csv))?;
        if self.count > self.limit && !self.table.csv {
            out::line(format_args!("and more: --limit N, or --json for all"))?;
        }
        Ok(())
    }
}
