//! Perf dbs and kernel dbs: rows that are new, gone or changed. They hold no times.

use std::collections::BTreeMap;
use std::fmt::Display;

use bluefin_miopen::db::kernel_db::{KernelName, KernelReader};
use bluefin_miopen::db::perf_db::Records;
use serde::Serialize;

use crate::db::{DbError, Source};

/// A row that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RowChange {
    /// Key and solver, or source file and options.
    pub row: String,
    /// Params, or the hash of the code object. `None`: the row is new.
    pub before: Option<String>,
    /// `None`: the row is gone.
    pub after: Option<String>,
}

/// How the rows of two databases differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RowsDiff {
    pub same: u64,
    pub changed: u64,
    pub new: u64,
    pub gone: u64,
    /// All but the same, in byte order.
    pub rows: Vec<RowChange>,
}

impl RowsDiff {
    fn add(&mut self, row: impl FnOnce() -> String, before: Option<&str>, after: Option<&str>) {
        match (before, after) {
            (Some(before), Some(after)) if before == after => {
                self.same += 1;
                return;
            }
            (Some(_), Some(_)) => self.changed += 1,
            (None, _) => self.new += 1,
            (Some(_), None) => self.gone += 1,
        }
        let text = |text: Option<&str>| text.map(str::to_string);
        self.rows.push(RowChange { row: row(), before: text(before), after: text(after) });
    }

    fn sorted(mut self) -> Self {
        self.rows.sort_unstable();
        self
    }
}

pub(super) fn perf<K: Ord + Display>(before: &Records<K>, after: &Records<K>) -> RowsDiff {
    let mut diff = RowsDiff::default();
    for (key, solvers) in before {
        for (solver, params) in solvers {
            let now = after.get(key).and_then(|solvers| solvers.get(solver));
            diff.add(|| format!("{key} {solver}"), Some(params), now.map(|params| &**params));
        }
    }
    for (key, solvers) in after {
        let old = before.get(key);
        for (solver, params) in solvers {
            if old.is_none_or(|old| !old.contains_key(solver)) {
                diff.add(|| format!("{key} {solver}"), None, Some(params));
            }
        }
    }
    diff.sorted()
}

/// Compares names and hashes; code objects are not read.
pub(super) fn kernels(before: &Source, after: &Source) -> Result<RowsDiff, DbError> {
    let read = |source: &Source| {
        let mut rows: BTreeMap<KernelName, String> = BTreeMap::new();
        let take = |head: bluefin_miopen::db::kernel_db::KernelHead| {
            // MIOpen reads the first row of a name.
            rows.entry(head.kernel).or_insert(head.hash);
        };
        KernelReader::open(source.local()).and_then(|db| db.heads(take)).map_err(|error| source.named(error))?;
        Ok::<_, DbError>(rows)
    };
    let (old, mut new) = (read(before)?, read(after)?);
    let mut diff = RowsDiff::default();
    for (kernel, hash) in old {
        let now = new.remove(&kernel);
        diff.add(|| format!("{}{}", kernel.name, kernel.args), Some(&hash), now.as_deref());
    }
    for (kernel, hash) in new {
        diff.add(|| format!("{}{}", kernel.name, kernel.args), None, Some(&hash));
    }
    Ok(diff.sorted())
}
