//! The find db: for each convolution the solvers that can do it, fastest first.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;

use bluefin_common::problem::Problem;
use bluefin_miopen::db::find_db::{self, FindDb, FindEntry};
use bluefin_miopen::db::{WriteError, number};
use bluefin_miopen::key::FindDbKey;

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

/// Entries of find dbs. They are as small as can be, since there may be a million.
#[derive(Debug, Default)]
pub struct FindRecords {
    entries: BTreeMap<Box<str>, Vec<Timed>>,
    ways: HashSet<Arc<Way>>,
}

/// What many entries have in common.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Way {
    solver: Arc<str>,
    /// As MIOpen calls it.
    algorithm: Arc<str>,
}

#[derive(Debug)]
struct Timed {
    way: Arc<Way>,
    /// Bytes.
    workspace: u64,
    time_ms: f32,
}

impl Timed {
    fn entry(&self) -> FindEntry {
        FindEntry::new(self.way.solver.clone(), self.time_ms, self.workspace, self.way.algorithm.clone())
    }
}

impl FindRecords {
    /// The find db: for each key the `top` fastest solvers, or all; equal times by name.
    #[must_use]
    pub fn into_db(self, top: Option<usize>) -> FindDb {
        let of = |entries| fastest(entries, top).iter().map(Timed::entry).collect();
        let records = self.entries.into_iter().map(|(key, entries)| (key.into(), of(entries))).collect();
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
            let way = intern(&mut self.ways, name, algorithm);
            merge(
                self.entries.entry(key.as_str().into()).or_default(),
                Timed { way, workspace: best.workspace(), time_ms },
            );
        }
    }

    fn merge(&mut self, other: Self, _: &mut Warnings) {
        for (key, mut entries) in other.entries {
            match self.entries.entry(key) {
                Entry::Vacant(entry) => {
                    entries.shrink_to_fit();
                    entry.insert(entries);
                }
                Entry::Occupied(mut merged) => entries.into_iter().for_each(|entry| merge(merged.get_mut(), entry)),
            }
        }
        // One copy of each name in the long run, though each part came with its own.
        self.ways.extend(other.ways);
    }
}

impl Records for FindRecords {
    async fn write(self, out: &mut Output<'_>) -> Result<(), ExportError> {
        if out.omits_empty && self.entries.is_empty() {
            return Ok(());
        }
        let name = format!("{}.{}.fdb.txt", out.base, out.session.target.backend());
        let (entries, top) = (self.entries, out.top);
        out.solvers(entries.values().flatten().map(|entry| &*entry.way.solver));
        // Record by record: a million outcomes are not held twice.
        let write = move |out: &mut BufWriter<File>| {
            let mut written = 0;
            for (key, entries) in entries {
                let entries: Vec<FindEntry> = fastest(entries, top).iter().map(Timed::entry).collect();
                written += u64::from(find_db::write_record(&key, &entries, out)?);
            }
            Ok::<_, WriteError>(written)
        };
        out.text(&name, write)
    }
}

/// The `top` fastest, or all; equal times by name.
fn fastest(mut entries: Vec<Timed>, top: Option<usize>) -> Vec<Timed> {
    entries.sort_by(|a, b| a.time_ms.total_cmp(&b.time_ms).then_with(|| a.way.solver.cmp(&b.way.solver)));
    entries.truncate(top.unwrap_or(usize::MAX));
    entries
}

/// Several problems or specs may time one solver for one key: the fastest stands.
fn merge(entries: &mut Vec<Timed>, entry: Timed) {
    let Some(known) = entries.iter_mut().find(|known| known.way.solver == entry.way.solver) else {
        return entries.push(entry);
    };
    let rank = |entry: &Timed| (entry.workspace, entry.way.clone());
    if entry.time_ms.total_cmp(&known.time_ms).then_with(|| rank(&entry).cmp(&rank(known))).is_lt() {
        *known = entry;
    }
}

/// One copy of each way, of which there are few.
fn intern(ways: &mut HashSet<Arc<Way>>, solver: &str, algorithm: &str) -> Arc<Way> {
    if let Some(known) = ways.iter().find(|way| &*way.solver == solver && &*way.algorithm == algorithm) {
        return known.clone();
    }
    let way = Arc::new(Way { solver: solver.into(), algorithm: algorithm.into() });
    ways.insert(way.clone());
    way
}
