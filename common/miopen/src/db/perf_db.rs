//! MIOpen's perf database: for each convolution the best params of each tunable solver. MIOpen 5.0 to 6.1 read it from
//! SQLite (`.db`), 6.2 and later from a text (`.db.txt`); both forms are written and read here.

mod norms;
mod sqlite_form;
mod sqlite_keys;
mod text_form;

use std::collections::BTreeMap;
use std::sync::Arc;

use bluefin_common::problem::PerfDbKey;

use crate::db::error::Refused;
use crate::db::findings::Findings;
use crate::db::lines;

pub use norms::NormDb;
pub use sqlite_keys::keys;

const FORMAT: &str = "perf db";

/// Params by key and solver. Params are the solver's own and mean nothing here.
pub type Records<K> = BTreeMap<K, BTreeMap<Arc<str>, Box<str>>>;

/// A perf database of convolutions, and of the fusions that are looked up by them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PerfDb {
    pub records: Records<PerfDbKey>,
    pub findings: Findings,
}

/// A row that MIOpen would use.
#[derive(Clone, Copy, Debug)]
pub struct PerfRow<'a> {
    /// Line from 1, or row id.
    pub line: u64,
    pub key: &'a PerfDbKey,
    pub solver: &'a str,
    pub params: &'a str,
}

impl PerfDb {
    /// Number of (key, solver) with params.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.records.values().map(|solvers| solvers.len() as u64).sum()
    }

    /// Keys that have params, each with its solvers.
    fn filled(&self) -> impl Iterator<Item = (&PerfDbKey, &BTreeMap<Arc<str>, Box<str>>)> {
        self.records.iter().filter(|(_, solvers)| !solvers.is_empty())
    }

    /// Refuses what one of the two forms can not hold.
    ///
    /// # Errors
    /// A solver or params that would be read back as something else.
    pub fn check(solver: &str, params: &str) -> Result<(), Refused> {
        lines::check(FORMAT, "solver", solver, &[':', '='], "a name without : ; = and line breaks")?;
        // Params may be none at all.
        if params.is_empty() {
            return Ok(());
        }
        lines::check(FORMAT, "params", params, &[], "a text without ; and line breaks")
    }
}

#[cfg(test)]
mod tests;
