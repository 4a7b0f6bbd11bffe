//! MIOpen's perf database: for each convolution the best params of each tunable solver. MIOpen 5.0 to 6.1 read it from
//! SQLite (`.db`), 6.2 and later from a text (`.db.txt`); both forms are written and read here.

mod norms;
mod sqlite_form;
mod sqlite_keys;
mod text_form;

use std::collections::BTreeMap;
use std::sync::Arc;

use litemap::LiteMap;

use crate::db::error::Refused;
use crate::db::findings::Findings;
use crate::db::lines;
use crate::key::PerfDbKey;

pub use norms::NormDb;
pub use sqlite_keys::keys;

const FORMAT: &str = "perf db";

/// Params by key and solver.
pub type Records<K, P = Arc<str>> = BTreeMap<K, Solvers<P>>;

/// Params by solver. They are the solver's own and mean nothing here. Solvers are few, and there may be hundreds of thousands of
/// keys: other maps take room for eleven.
pub type Solvers<P = Arc<str>> = LiteMap<Arc<str>, P>;

/// A perf database of convolutions, and of the fusions that are looked up by them. One that is written may hold more than params.
#[derive(Clone, Debug, PartialEq)]
pub struct PerfDb<P = Arc<str>> {
    pub records: Records<PerfDbKey, P>,
    pub findings: Findings,
}

/// A row that MIOpen would use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfRow<'a> {
    /// Line from 1, or row id.
    pub line: u64,
    pub key: &'a PerfDbKey,
    pub solver: &'a str,
    pub params: &'a str,
}

impl<P> Default for PerfDb<P> {
    fn default() -> Self {
        Self { records: Records::default(), findings: Findings::default() }
    }
}

impl<P> PerfDb<P> {
    /// Number of (key, solver) with params.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.records.values().map(|solvers| solvers.len() as u64).sum()
    }

    /// Keys that have params, each with its solvers.
    fn filled(&self) -> impl Iterator<Item = (&PerfDbKey, &Solvers<P>)> {
        self.records.iter().filter(|(_, solvers)| !solvers.is_empty())
    }
}

impl PerfDb {
    /// Refuses what one of the two forms can not hold.
    ///
    /// # Errors
    /// A solver or params that would be read back as something else.
    pub fn check(solver: &str, params: &str) -> Result<(), Refused> {
        lines::check(FORMAT, "solver", solver, b":=", "a name without : ; = and line breaks")?;
        // Params may be none at all.
        if params.is_empty() {
            return Ok(());
        }
        lines::check(FORMAT, "params", params, b"", "a text without ; and line breaks")
    }
}

#[cfg(test)]
mod tests;
