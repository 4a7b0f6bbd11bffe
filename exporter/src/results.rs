//! What came of every candidate, one row each: streamed out of a store, so that memory stays bounded however large a session
//! is. A [`Row`] is what is told, a [`Write`] one format to tell it in.

mod before;
mod csv;
mod filter;
mod json;
mod order;
mod parquet;
mod row;
mod sqlite;
mod t4;
mod target_file;

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use bluefin_common::session::{Session, SessionName};
use bluefin_common::store::Store;
use tokio::sync::mpsc;

use crate::bias::{Bias, Pairs};
use crate::error::ExportError;
use crate::fold::{Fold, Group, Warnings};
use crate::stream::{self, Take};

pub use csv::CsvRows;
pub use filter::{Filter, ProblemFilter, is_solver};
pub use json::JsonLines;
pub use order::{Order, SortKey, Sorted};
pub use parquet::ParquetRows;
pub(crate) use row::by_name;
pub use row::{Before, Came, Row};
pub use sqlite::SqliteRows;
pub use t4::T4Rows;
pub use target_file::{FileKind, TargetFile};

/// Slices that wait for the writer.
const WAITING: usize = 2;

/// A format of results. Rows come in the order of their groups, or as they were asked to be sorted.
pub trait Write: Send + 'static {
    /// Writes some more.
    ///
    /// # Errors
    /// If that fails: nothing more is written then.
    fn rows(&mut self, rows: &[Row]) -> io::Result<()>;

    /// Writes what comes last.
    ///
    /// # Errors
    /// If that fails.
    fn end(&mut self) -> io::Result<()>;
}

/// One of each.
impl Write for Vec<Box<dyn Write>> {
    fn rows(&mut self, rows: &[Row]) -> io::Result<()> {
        self.iter_mut().try_for_each(|one| one.rows(rows))
    }

    fn end(&mut self) -> io::Result<()> {
        self.iter_mut().try_for_each(|one| one.end())
    }
}

/// Why there are no results.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// They can not be read.
    #[error(transparent)]
    Read(#[from] ExportError),
    /// They can not be written.
    #[error("{0}")]
    Write(io::Error),
}

/// How many rows there were, and what only all of them tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    pub rows: u64,
    /// By what came of them: `timed`, `pruned`, or the name of a failure kind.
    pub by_result: BTreeMap<&'static str, u64>,
    /// How far devices are apart on the same kernels, by name; of problems that were asked for.
    pub devices: BTreeMap<String, Bias>,
}

/// Streams the candidates of `sessions` that `filter` lets through to `writer`, at most `limit` of them.
///
/// # Errors
/// If the store fails, or the writer does.
pub async fn results<W: Write>(
    store: &dyn Store,
    sessions: &[Session],
    filter: Arc<Filter>,
    limit: Option<u64>,
    mut writer: W,
) -> Result<(Totals, W), ResultsError> {
    let (send, mut receive) = mpsc::channel::<Vec<Row>>(WAITING);
    // On a thread that may wait for the disk, or for who reads.
    let writing = tokio::task::spawn_blocking(move || {
        while let Some(rows) = receive.blocking_recv() {
            writer.rows(&rows)?;
        }
        writer.end()?;
        Ok(writer)
    });
    let left = limit.unwrap_or(u64::MAX);
    let mut pump = Pump {
        store,
        session: None,
        retried: filter.retried,
        send,
        left,
        totals: Totals::default(),
        pairs: Pairs::default(),
    };
    for session in sessions {
        pump.session = Some(session.name.clone());
        if pump.left == 0 {
            break;
        }
        let mut groups = store.groups(&session.name).await.map_err(ExportError::from)?;
        groups.sort_unstable();
        let empty = || Rows { filter: Arc::clone(&filter), rows: Vec::new(), pairs: Pairs::default() };
        stream::slices(store, session, &groups, None, empty, &mut pump).await?;
    }
    let Pump { send, mut totals, pairs, .. } = pump;
    drop(send);
    totals.devices = pairs.biases();
    let writer = writing.await.map_err(ExportError::from)?.map_err(ResultsError::Write)?;
    Ok((totals, writer))
}

/// The rows of a slice.
struct Rows {
    filter: Arc<Filter>,
    rows: Vec<Row>,
    pairs: Pairs,
}

impl Fold for Rows {
    fn add(&mut self, group: &Group<'_>, _: &mut Warnings) {
        if self.filter.takes_problem(group.problem) {
            self.pairs.add(group.outcomes);
            row::of(group, |row| {
                if self.filter.takes(&row) {
                    self.rows.push(row);
                }
            });
        }
    }

    fn merge(&mut self, other: Self, _: &mut Warnings) {
        self.rows.extend(other.rows);
        self.pairs.merge(other.pairs);
    }
}

/// Hands rows to the writer's thread.
struct Pump<'a> {
    store: &'a dyn Store,
    /// The one whose rows come.
    session: Option<SessionName>,
    /// Whether only those are wanted that failed before.
    retried: bool,
    send: mpsc::Sender<Vec<Row>>,
    left: u64,
    totals: Totals,
    pairs: Pairs,
}

impl Take<Rows> for Pump<'_> {
    async fn take(&mut self, Rows { mut rows, pairs, .. }: Rows, _: Warnings) -> Result<ControlFlow<()>, ExportError> {
        self.pairs.merge(pairs);
        if let Some(session) = &self.session {
            before::add(self.store, session, &mut rows).await?;
        }
        rows.retain(|row| !self.retried || !row.before.is_empty());
        rows.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= rows.len() as u64;
        self.totals.rows += rows.len() as u64;
        for row in &rows {
            *self.totals.by_result.entry(row.result.name()).or_default() += 1;
        }
        // A writer that is gone says why when it is joined.
        let gone = !rows.is_empty() && self.send.send(rows).await.is_err();
        Ok(if gone || self.left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}
