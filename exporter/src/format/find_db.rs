//! The find db: for each convolution the solvers that can do it, fastest first.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bluefin_common::problem::{FindDbKey, Problem};
use bluefin_miopen::db::find_db::{FindDb, FindEntry, intern};
use bluefin_miopen::db::number;

use super::{AnyRecords, Format, Records};
use crate::error::ExportError;
use crate::fold::{Fold, Group, Warnings};
use crate::output::Output;

/// MIOpen's find db.
#[derive(Clone, Copy, Debug)]
pub struct FindFormat;

impl Format for FindFormat {
    fn name(&self) -> &'static str {
        "find-db"
    }

    fn about(&self) -> &'static str {
        "The find db (text): best solvers of each convolution"
    }

    fn flag(&self) -> Option<char> {
        Some('f')
    }

    fn records(&self) -> AnyRecords {
        AnyRecords::new(FindRecords::default())
    }
}

/// Entries of find dbs.
#[derive(Debug, Default)]
pub struct FindRecords {
    entries: BTreeMap<String, Vec<FindEntry>>,
    names: HashSet<Arc<str>>,
}

impl FindRecords {
    /// The find db: for each key the `top` fastest solvers, or all; equal times by name.
    #[must_use]
    pub fn into_db(self, top: Option<usize>) -> FindDb {
        let mut records = self.entries;
        for entries in records.values_mut() {
            entries.sort_by(|a, b| a.time_ms.total_cmp(&b.time_ms).then_with(|| a.solver.cmp(&b.solver)));
            entries.truncate(top.unwrap_or(usize::MAX));
        }
        FindDb { records, ..FindDb::default() }
    }
}

impl Fold for FindRecords {
    fn add(&mut self, group: &Group<'_>, warnings: &mut Warnings) {
        let (Problem::Conv(conv), Some(decision)) = (group.problem, &group.decision) else { return };
        let key = FindDbKey::from(conv).to_string();
        for best in &decision.solvers {
            let name = best.solver();
            let known = group.description.solver(name).and_then(|solver| solver.algorithm.as_ref());
            let Some(algorithm) = known else {
                warnings.insert(format!(
                    "{key}: {name}: not in the find db: MIOpen has no such algorithm for its direction"
                ));
                continue;
            };
            // As it will be read back, so that the order in the file is the order of what it says.
            let (time_ms, _) = number::read_float(&number::print(best.timing.median_ms as f32));
            if time_ms <= 0.0 || best.timing.median_ms > f64::from(f32::MAX) {
                let median = best.timing.median_ms;
                warnings.insert(format!("{key}: {name}: not in the find db: it has no room for {median} ms"));
                continue;
            }
            let (solver, algorithm) = (intern(&mut self.names, name), intern(&mut self.names, algorithm));
            let entry = FindEntry::new(solver, time_ms, best.workspace(), algorithm);
            merge(self.entries.entry(key.clone()).or_default(), entry);
        }
    }

    fn merge(&mut self, other: Self, _: &mut Warnings) {
        for (mut key, mut entries) in other.entries {
            // There may be hundreds of thousands.
            key.shrink_to_fit();
            match self.entries.entry(key) {
                Entry::Vacant(entry) => {
                    entries.shrink_to_fit();
                    entry.insert(entries);
                }
                Entry::Occupied(mut merged) => entries.into_iter().for_each(|entry| merge(merged.get_mut(), entry)),
            }
        }
        // One copy of each name in the long run, though each part came with its own.
        self.names.extend(other.names);
    }
}

impl Records for FindRecords {
    async fn write(self, out: &mut Output<'_>) -> Result<(), ExportError> {
        let name = format!("{}.{}.fdb.txt", out.base, out.session.target.backend());
        let db = self.into_db(out.top);
        out.solvers(db.records.values().flatten().map(|entry| &*entry.solver));
        out.text(&name, move |out| db.write(out)).await
    }
}

/// Several problems or specs may time one solver for one key: the fastest stands.
fn merge(entries: &mut Vec<FindEntry>, entry: FindEntry) {
    let Some(known) = entries.iter_mut().find(|known| known.solver == entry.solver) else {
        return entries.push(entry);
    };
    let rank = |entry: &FindEntry| (entry.workspace, entry.algorithm.clone());
    if entry.time_ms.total_cmp(&known.time_ms).then_with(|| rank(&entry).cmp(&rank(known))).is_lt() {
        *known = entry;
    }
}
