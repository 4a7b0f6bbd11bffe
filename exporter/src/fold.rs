//! The fold: from the outcomes of each group to the records of all databases. Pure; what it yields does not depend on the
//! order in which groups come.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use bluefin_common::artifact::ArtifactRef;
use bluefin_common::campaign::{Decision, best_of_each_solver, decide};
use bluefin_common::digest::Digest;
use bluefin_common::miopen::KernelObject;
use bluefin_common::outcome::Outcome;
use bluefin_common::problem::{ConvProblem, FindDbKey, PerfDbKey, Problem};
use bluefin_common::session::Session;

use crate::library::Library;
use crate::summary;
use bluefin_common::db::find_db::{FindDb, FindEntry, intern};
use bluefin_common::db::kernel_db::KernelName;
use bluefin_common::db::number;
use bluefin_common::db::perf_db::PerfDb;

/// Which records are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub find_db: bool,
    pub perf_db: bool,
    pub kernel_db: bool,
    pub winners: bool,
}

/// The best params of a solver so far.
#[derive(Clone, Debug, PartialEq)]
struct BestParams {
    median_ms: f64,
    params: Box<str>,
}

/// A code object in the store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// As it was compiled.
    Plain(ArtifactRef),
    /// As a tool of MIOpen's compressed it.
    Packed(KernelObject),
}

impl Code {
    /// What the store holds.
    #[must_use]
    pub fn artifact(&self) -> ArtifactRef {
        match self {
            Self::Plain(artifact) => *artifact,
            Self::Packed(kernel) => kernel.blob,
        }
    }
}

/// A winner's code object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelRef {
    pub code: Code,
    /// A problem that it wins, in canonical form.
    pub problem: String,
}

/// Where a summary stands in `winners.json`: problem, name and digest of its spec.
pub type SummaryKey = (String, String, Digest);

/// Records of any number of groups.
#[derive(Debug, Default)]
pub struct Records {
    finds: BTreeMap<String, Vec<FindEntry>>,
    best_params: BTreeMap<PerfDbKey, BTreeMap<Arc<str>, BestParams>>,
    /// Code objects by the name that MIOpen looks them up by.
    pub kernels: BTreeMap<KernelName, KernelRef>,
    /// Find-db keys of the convolutions that each code object was built for.
    pub kernel_keys: BTreeMap<KernelName, BTreeSet<String>>,
    /// Summaries as JSON, which is smaller than the structure.
    pub summaries: BTreeMap<SummaryKey, Box<str>>,
    /// What could not be told in a database.
    pub warnings: BTreeSet<String>,
    names: HashSet<Arc<str>>,
}

impl Records {
    /// Adds what the outcomes of one group tell.
    pub fn add(&mut self, session: &Session, library: Library<'_>, outcomes: &[Outcome], wanted: Wanted) {
        let Some(first) = outcomes.first() else { return };
        let problem = &first.job.problem;
        let decision = decide(session, outcomes, |candidate| library.is_default(candidate));
        if let Problem::Conv(conv) = problem {
            if wanted.find_db
                && let Some(decision) = &decision
            {
                self.add_find(conv, library, decision);
            }
            if wanted.perf_db {
                self.add_perf(conv, library, outcomes, decision.as_ref());
            }
        }
        if wanted.kernel_db
            && let Some(winner) = decision.as_ref().and_then(Decision::winner)
        {
            match library.kernels(session, problem, winner) {
                Ok(kernels) => {
                    for (name, kernel) in kernels {
                        if let Problem::Conv(conv) = problem {
                            let key = FindDbKey::from(conv).to_string();
                            self.kernel_keys.entry(name.clone()).or_default().insert(key);
                        }
                        self.add_kernel(name, kernel);
                    }
                }
                Err(reason) => {
                    let candidate = &winner.outcome.candidate;
                    self.warnings.insert(format!("{problem}: {candidate}: not in the kernel db: {reason}"));
                }
            }
        }
        if wanted.winners
            && let Some(summary) = summary::of_decision(decision.as_ref(), library, outcomes)
        {
            match serde_json::to_string(&summary) {
                Ok(json) => {
                    let key = (summary.problem, summary.spec, first.job.spec);
                    self.summaries.insert(key, json.into());
                }
                Err(error) => {
                    self.warnings.insert(format!("{problem}: not in winners.json: {error}"));
                }
            }
        }
    }

    fn add_find(&mut self, conv: &ConvProblem, library: Library<'_>, decision: &Decision<'_>) {
        let key = FindDbKey::from(conv).to_string();
        for best in &decision.solvers {
            let name = best.solver();
            let Some(algorithm) = library.algorithm(conv.direction, best) else {
                self.warnings.insert(format!(
                    "{key}: {name}: not in the find db: MIOpen has no such algorithm for its direction"
                ));
                continue;
            };
            // As it will be read back, so that the order in the file is the order of what it says.
            let (time_ms, _) = number::read_float(&number::print(best.timing.median_ms as f32));
            if time_ms <= 0.0 || best.timing.median_ms > f64::from(f32::MAX) {
                let median = best.timing.median_ms;
                self.warnings.insert(format!("{key}: {name}: not in the find db: it has no room for {median} ms"));
                continue;
            }
            let entry = FindEntry {
                solver: intern(&mut self.names, name),
                time_ms,
                workspace: best.workspace(),
                algorithm: intern(&mut self.names, &algorithm),
            };
            merge_find(self.finds.entry(key.clone()).or_default(), entry);
        }
    }

    fn add_perf(
        &mut self,
        conv: &ConvProblem,
        library: Library<'_>,
        outcomes: &[Outcome],
        decision: Option<&Decision<'_>>,
    ) {
        let mut tuned = best_of_each_solver(outcomes);
        // A solver of the find db would be run with other params than were timed if its row in the perf db named others.
        for best in decision.iter().flat_map(|decision| &decision.solvers) {
            match library {
                Library::Spec(_) => {
                    tuned.insert(best.solver(), *best);
                }
                // MIOpenDriver tunes and finds in one go; and fin names the params of what it never tuned.
                Library::Miopen(_) => {
                    tuned.entry(best.solver()).or_insert(*best);
                }
            }
        }
        let key = PerfDbKey::from(conv);
        for (name, best) in tuned {
            if library.is_tunable(&best) {
                let params = best.outcome.candidate.params_text().into();
                let best = BestParams { median_ms: best.timing.median_ms, params };
                let solver = intern(&mut self.names, name);
                merge_params(self.best_params.entry(key.clone()).or_default(), solver, best);
            }
        }
    }

    fn add_kernel(&mut self, name: KernelName, kernel: KernelRef) {
        match self.kernels.entry(name) {
            Entry::Vacant(entry) => {
                entry.insert(kernel);
            }
            Entry::Occupied(mut entry) => {
                if entry.get().code.artifact() != kernel.code.artifact() {
                    let KernelName { name, args } = entry.key();
                    self.warnings.insert(format!(
                        "kernel {name}{args}: winners have several code objects of this name; the kernel db can hold one"
                    ));
                }
                if kernel < *entry.get() {
                    entry.insert(kernel);
                }
            }
        }
    }

    /// Adds the records of other groups.
    pub fn merge(&mut self, other: Self) {
        for (key, entries) in other.finds {
            let merged = self.finds.entry(key).or_default();
            for entry in entries {
                merge_find(merged, entry);
            }
        }
        for (key, solvers) in other.best_params {
            let merged = self.best_params.entry(key).or_default();
            for (solver, best) in solvers {
                merge_params(merged, solver, best);
            }
        }
        for (name, kernel) in other.kernels {
            self.add_kernel(name, kernel);
        }
        for (name, keys) in other.kernel_keys {
            self.kernel_keys.entry(name).or_default().extend(keys);
        }
        self.summaries.extend(other.summaries);
        self.warnings.extend(other.warnings);
        // One copy of each name in the long run, though each part came with its own.
        self.names.extend(other.names);
    }

    /// The find db: for each key the `top` fastest solvers, or all; equal times by name.
    pub fn take_find_db(&mut self, top: Option<usize>) -> FindDb {
        let mut records = std::mem::take(&mut self.finds);
        for entries in records.values_mut() {
            entries.sort_by(|a, b| a.time_ms.total_cmp(&b.time_ms).then_with(|| a.solver.cmp(&b.solver)));
            entries.truncate(top.unwrap_or(usize::MAX));
        }
        FindDb { records, ..FindDb::default() }
    }

    /// The perf db.
    pub fn take_perf_db(&mut self) -> PerfDb {
        let records = std::mem::take(&mut self.best_params).into_iter().map(|(key, solvers)| {
            let solvers = solvers.into_iter().map(|(solver, best)| (solver, best.params)).collect();
            (key, solvers)
        });
        PerfDb { records: records.collect(), ..PerfDb::default() }
    }
}

/// Several problems or specs may time one solver for one key: the fastest stands.
fn merge_find(entries: &mut Vec<FindEntry>, entry: FindEntry) {
    let Some(known) = entries.iter_mut().find(|known| known.solver == entry.solver) else {
        return entries.push(entry);
    };
    let rank = |entry: &FindEntry| (entry.workspace, entry.algorithm.clone());
    if entry.time_ms.total_cmp(&known.time_ms).then_with(|| rank(&entry).cmp(&rank(known))).is_lt() {
        *known = entry;
    }
}

fn merge_params(solvers: &mut BTreeMap<Arc<str>, BestParams>, solver: Arc<str>, best: BestParams) {
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
