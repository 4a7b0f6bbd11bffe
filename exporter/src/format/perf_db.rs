//! The perf db: for each convolution the best params of each tunable solver.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bluefin_common::decision::best_of_each_solver;
use bluefin_common::method::FindJobs;
use bluefin_common::problem::{BatchNormProblem, PerfDbKey, Problem};
use bluefin_miopen::db::find_db::intern;
use bluefin_miopen::db::perf_db::{self, NormDb, PerfDb};

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
    best: BTreeMap<PerfDbKey, Solvers>,
    /// Of batch norms, by the text of their keys.
    norms: BTreeMap<String, Solvers>,
    names: HashSet<Arc<str>>,
}

/// Each solver once. They are few, and there may be hundreds of thousands of keys: a map takes room for eleven.
type Solvers = Vec<Best>;

/// The best params of a solver so far.
#[derive(Clone, Debug, PartialEq)]
struct Best {
    solver: Arc<str>,
    median_ms: f64,
    params: Box<str>,
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
                let best = Best {
                    solver: intern(&mut self.names, name),
                    median_ms: best.timing.median_ms,
                    params: candidate.params_text().into(),
                };
                match group.problem {
                    Problem::Conv(conv) => merge(self.best.entry(PerfDbKey::from(conv)).or_default(), best),
                    Problem::BatchNorm(norm) => merge(self.norms.entry(norm.perf_db_key()).or_default(), best),
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
        let norms = NormDb { records: params(std::mem::take(&mut self.norms)), ..NormDb::default() };
        if !norms.records.is_empty() {
            let name = format!("{}{}.db.txt", BatchNormProblem::PERF_DB_PREFIX, out.base);
            out.text(&name, move |out| norms.write(out)).await?;
        }
        let (sqlite, text) = (format!("{}.db", out.base), format!("{}.db.txt", out.base));
        let db = Arc::new(self.into_db());
        out.solvers(db.records.values().flat_map(|solvers| solvers.keys()).map(|solver| &**solver));
        let same = db.clone();
        out.blocking(&sqlite, move |path| same.write_sqlite(path)).await?;
        out.text(&text, move |out| db.write_text(out)).await
    }
}

/// The params alone.
fn params<K: Ord>(best: BTreeMap<K, Solvers>) -> perf_db::Records<K> {
    let of = |solvers: Solvers| solvers.into_iter().map(|best| (best.solver, best.params)).collect();
    best.into_iter().map(|(key, solvers)| (key, of(solvers))).collect()
}

fn merge_all<K: Ord>(best: &mut BTreeMap<K, Solvers>, other: BTreeMap<K, Solvers>) {
    for (key, mut solvers) in other {
        match best.entry(key) {
            Entry::Vacant(entry) => {
                solvers.shrink_to_fit();
                entry.insert(solvers);
            }
            Entry::Occupied(mut entry) => solvers.into_iter().for_each(|best| merge(entry.get_mut(), best)),
        }
    }
}

fn merge(solvers: &mut Solvers, best: Best) {
    let Some(known) = solvers.iter_mut().find(|known| known.solver == best.solver) else {
        return solvers.push(best);
    };
    if best.median_ms.total_cmp(&known.median_ms).then_with(|| best.params.cmp(&known.params)).is_lt() {
        *known = best;
    }
}
