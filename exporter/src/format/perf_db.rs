//! The perf db: for each convolution the best params of each tunable solver.

use std::collections::HashSet;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use bluefin_common::decision::best_of_each_solver;
use bluefin_common::method::FindJobs;
use bluefin_common::problem::Problem;
use bluefin_miopen::db::find_db::intern;
use bluefin_miopen::db::perf_db::{self, NormDb, PerfDb, Solvers};
use bluefin_miopen::key::{PerfDbKey, batch_norm};

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
    best: perf_db::Records<PerfDbKey, Best>,
    /// Of batch norms, by the text of their keys.
    norms: perf_db::Records<String, Best>,
    /// And params, of which many problems have the same.
    names: HashSet<Arc<str>>,
}

/// The best params of a solver so far.
#[derive(Debug)]
struct Best {
    median_ms: f64,
    params: Arc<str>,
}

impl AsRef<str> for Best {
    fn as_ref(&self) -> &str {
        &self.params
    }
}

impl PerfRecords {
    /// The perf db.
    #[must_use]
    pub fn into_db(self) -> PerfDb {
        PerfDb { records: params(self.best), ..PerfDb::default() }
    }
}

impl Fold for PerfRecords {
    fn add(&mut self, group: &Group<'_>, _: &mut Warnings) {
        if !matches!(group.problem, Problem::Conv(_) | Problem::BatchNorm(_)) {
            return;
        }
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
        for (name, best) in tuned {
            let candidate = &best.outcome.candidate;
            let tunable = group.description.solver(name).is_some_and(|solver| solver.tunable);
            if tunable && !candidate.params.is_empty() {
                let params = intern(&mut self.names, &candidate.params_text());
                let best = Best { median_ms: best.timing.median_ms, params };
                let solver = intern(&mut self.names, name);
                match group.problem {
                    Problem::Conv(conv) => merge(self.best.entry(PerfDbKey::from(conv)).or_default(), solver, best),
                    Problem::BatchNorm(norm) => {
                        merge(self.norms.entry(batch_norm::perf_db_key(norm)).or_default(), solver, best)
                    }
                    _ => {}
                }
            }
        }
    }

    fn merge(&mut self, other: Self, _: &mut Warnings) {
        merge_all(&mut self.best, other.best);
        merge_all(&mut self.norms, other.norms);
        // One copy of each name in the long run, though each part came with its own.
        self.names.extend(other.names);
    }
}

impl Records for PerfRecords {
    async fn write(mut self, out: &mut Output<'_>) -> Result<(), ExportError> {
        if out.omits_empty && self.best.is_empty() && self.norms.is_empty() {
            return Ok(());
        }
        let norms = NormDb { records: params(std::mem::take(&mut self.norms)), ..NormDb::default() };
        if !norms.records.is_empty() {
            let name = format!("{}{}.db.txt", batch_norm::PERF_DB_PREFIX, out.base);
            out.text(&name, move |out| norms.write(out))?;
        }
        let (sqlite, text) = (format!("{}.db", out.base), format!("{}.db.txt", out.base));
        // As it is: a second copy of all keys is what an export of a million outcomes would need most memory for.
        let db = Arc::new(PerfDb { records: self.best, ..PerfDb::default() });
        out.solvers(db.records.values().flat_map(|solvers| solvers.keys()).map(|solver| &**solver));
        let same = db.clone();
        out.blocking(&sqlite, move |path| same.write_sqlite(path))?;
        out.text(&text, move |out| db.write_text(out))
    }
}

/// The params alone.
fn params<K: Ord>(best: perf_db::Records<K, Best>) -> perf_db::Records<K> {
    let of = |solvers: Solvers<Best>| solvers.into_iter().map(|(solver, best)| (solver, best.params)).collect();
    best.into_iter().map(|(key, solvers)| (key, of(solvers))).collect()
}

fn merge_all<K: Ord>(best: &mut perf_db::Records<K, Best>, other: perf_db::Records<K, Best>) {
    for (key, solvers) in other {
        match best.entry(key) {
            Entry::Vacant(entry) => {
                let mut solvers = solvers.into_tuple_vec();
                // There may be hundreds of thousands.
                solvers.shrink_to_fit();
                entry.insert(Solvers::from_sorted_store_unchecked(solvers));
            }
            Entry::Occupied(mut entry) => {
                solvers.into_iter().for_each(|(solver, best)| merge(entry.get_mut(), solver, best));
            }
        }
    }
}

fn merge(solvers: &mut Solvers<Best>, solver: Arc<str>, best: Best) {
    match solvers.get_mut(&solver) {
        Some(known) => {
            let by_time = best.median_ms.total_cmp(&known.median_ms);
            if by_time.then_with(|| best.params.cmp(&known.params)).is_lt() {
                *known = best;
            }
        }
        None => {
            solvers.insert(solver, best);
        }
    }
}
