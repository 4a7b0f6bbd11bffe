//! The perf db: for each convolution the best params of each tunable solver.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bluefin_common::decision::best_of_each_solver;
use bluefin_common::method::FindJobs;
use bluefin_common::problem::{PerfDbKey, Problem};
use bluefin_miopen::db::find_db::intern;
use bluefin_miopen::db::perf_db::PerfDb;

use super::{AnyRecords, Format, Records};
use crate::error::ExportError;
use crate::fold::{Fold, Group, Warnings};
use crate::output::Output;

/// MIOpen's perf db, in both of its forms.
#[derive(Clone, Copy, Debug)]
pub struct PerfFormat;

impl Format for PerfFormat {
    fn name(&self) -> &'static str {
        "perf-db"
    }

    fn about(&self) -> &'static str {
        "The perf db (sqlite and text): best params of each tunable solver"
    }

    fn flag(&self) -> Option<char> {
        Some('p')
    }

    fn records(&self) -> AnyRecords {
        AnyRecords::new(PerfRecords::default())
    }
}

/// Rows of perf dbs.
#[derive(Debug, Default)]
pub struct PerfRecords {
    best: BTreeMap<PerfDbKey, BTreeMap<Arc<str>, Best>>,
    names: HashSet<Arc<str>>,
}

/// The best params of a solver so far.
#[derive(Clone, Debug, PartialEq)]
struct Best {
    median_ms: f64,
    params: Box<str>,
}

impl PerfRecords {
    /// The perf db.
    #[must_use]
    pub fn into_db(self) -> PerfDb {
        let records = self.best.into_iter().map(|(key, solvers)| {
            let solvers = solvers.into_iter().map(|(solver, best)| (solver, best.params)).collect();
            (key, solvers)
        });
        PerfDb { records: records.collect(), ..PerfDb::default() }
    }
}

impl Fold for PerfRecords {
    fn add(&mut self, group: &Group<'_>, _: &mut Warnings) {
        let Problem::Conv(conv) = group.problem else { return };
        let mut tuned = best_of_each_solver(group.outcomes);
        for best in group.decision.iter().flat_map(|decision| &decision.solvers) {
            match group.session.method.find {
                // A solver of the find db would be run with other params than were timed if its row here named others.
                FindJobs::PlayOff => {
                    tuned.insert(best.solver(), *best);
                }
                // What tunes and finds in one go tells of no perf stage; and a tool names the params of what it never tuned.
                FindJobs::EachSolver | FindJobs::Planned => {
                    tuned.entry(best.solver()).or_insert(*best);
                }
            }
        }
        let key = PerfDbKey::from(conv);
        for (name, best) in tuned {
            let candidate = &best.outcome.candidate;
            let tunable = group.description.solver(name).is_some_and(|solver| solver.tunable);
            if tunable && !candidate.params.is_empty() {
                let best = Best { median_ms: best.timing.median_ms, params: candidate.params_text().into() };
                let solver = intern(&mut self.names, name);
                merge(self.best.entry(key.clone()).or_default(), solver, best);
            }
        }
    }

    fn merge(&mut self, other: Self, _: &mut Warnings) {
        for (key, solvers) in other.best {
            let merged = self.best.entry(key).or_default();
            for (solver, best) in solvers {
                merge(merged, solver, best);
            }
        }
        // One copy of each name in the long run, though each part came with its own.
        self.names.extend(other.names);
    }
}

impl Records for PerfRecords {
    async fn write(self, out: &mut Output<'_>) -> Result<(), ExportError> {
        let (sqlite, text) = (format!("{}.db", out.base), format!("{}.db.txt", out.base));
        let db = Arc::new(self.into_db());
        out.solvers(db.records.values().flat_map(|solvers| solvers.keys()).map(|solver| &**solver));
        let same = db.clone();
        out.blocking(&sqlite, move |path| same.write_sqlite(path)).await?;
        out.text(&text, move |out| db.write_text(out)).await
    }
}

fn merge(solvers: &mut BTreeMap<Arc<str>, Best>, solver: Arc<str>, best: Best) {
    match solvers.entry(solver) {
        Entry::Vacant(entry) => {
            entry.insert(best);
        }
        Entry::Occupied(mut entry) => {
            let known = entry.get();
            if best.median_ms.total_cmp(&known.median_ms).then_with(|| best.params.cmp(&known.params)).is_lt() {
                entry.insert(best);
            }
        }
    }
}
