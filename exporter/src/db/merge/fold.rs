//! Records of several files as those of one. Pure.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bluefin_miopen::db::find_db::{FindDb, FindEntry};
use bluefin_miopen::db::perf_db::{NormDb, PerfDb};
use bluefin_miopen::key::{FindDbKey, PerfDbKey};

use crate::db::policy::{Policy, merge_entries};

/// Find dbs as one.
pub(super) struct FindFold {
    policy: Policy,
    records: Option<BTreeMap<String, Vec<FindEntry>>>,
}

impl FindFold {
    pub(super) fn new(policy: Policy) -> Self {
        Self { policy, records: None }
    }

    /// Adds a file that is newer than those before.
    pub(super) fn add(&mut self, db: FindDb) {
        let Some(records) = &mut self.records else {
            self.records = Some(db.records);
            return;
        };
        for (key, entries) in db.records {
            match records.entry(key) {
                Entry::Vacant(entry) => {
                    if self.policy != Policy::KeepKeys {
                        entry.insert(entries);
                    }
                }
                Entry::Occupied(mut entry) => {
                    let have = entry.get_mut();
                    // The order stays as it is unless something changes.
                    if merge_entries(self.policy, have, entries, |entry| entry) {
                        have.sort_by(|a, b| a.time_ms.total_cmp(&b.time_ms).then_with(|| a.solver.cmp(&b.solver)));
                    }
                }
            }
        }
    }

    pub(super) fn finish(self) -> FindDb {
        FindDb { records: self.records.unwrap_or_default(), ..FindDb::default() }
    }
}

/// The times that a find db has for the rows of a perf db. Several find-db keys may share a perf-db key; the least time
/// counts.
pub(super) struct Times(HashMap<PerfDbKey, HashMap<Arc<str>, f32>>);

impl Times {
    pub(super) fn new(db: &FindDb) -> Self {
        let mut times: HashMap<PerfDbKey, HashMap<Arc<str>, f32>> = HashMap::new();
        for (key, entries) in &db.records {
            let Ok(key) = FindDbKey::parse(key) else { continue };
            let solvers = times.entry(PerfDbKey::from(&key)).or_default();
            for entry in entries.iter().filter(|entry| entry.time_ms > 0.0) {
                let time = solvers.entry(entry.solver.clone()).or_insert(entry.time_ms);
                *time = time.min(entry.time_ms);
            }
        }
        Self(times)
    }

    fn of(&self, key: &PerfDbKey, solver: &str) -> Option<f32> {
        self.0.get(key)?.get(solver).copied()
    }
}

/// Params, and the place of the file that they are from.
type Origin = (Arc<str>, usize);

/// Perf dbs as one.
pub(super) struct PerfFold {
    policy: Policy,
    /// Of each file, for [`Policy::Fastest`].
    times: Vec<Times>,
    files: usize,
    records: BTreeMap<PerfDbKey, BTreeMap<Arc<str>, Origin>>,
}

impl PerfFold {
    pub(super) fn new(policy: Policy, times: Vec<Times>) -> Self {
        Self { policy, times, files: 0, records: BTreeMap::new() }
    }

    /// Adds a file that is newer than those before.
    pub(super) fn add(&mut self, db: PerfDb) {
        let file = self.files;
        self.files += 1;
        for (key, solvers) in db.records {
            let known = self.records.contains_key(&key);
            if solvers.is_empty() || (!known && file > 0 && self.policy == Policy::KeepKeys) {
                continue;
            }
            let times = &self.times;
            let time =
                |key: &PerfDbKey, solver: &str, file: usize| times.get(file).and_then(|times| times.of(key, solver));
            let have = self.records.entry(key.clone()).or_default();
            if self.policy == Policy::Replace {
                have.clear();
            }
            for (solver, params) in solvers {
                let stands = match have.get(&solver) {
                    Some((_, old)) if self.policy == Policy::Fastest => {
                        match (time(&key, &solver, *old), time(&key, &solver, file)) {
                            (Some(old), Some(new)) => old <= new,
                            // Params that were timed before params that were not.
                            (_, new) => new.is_none(),
                        }
                    }
                    _ => false,
                };
                if !stands {
                    have.insert(solver, (params, file));
                }
            }
        }
    }

    pub(super) fn finish(self) -> PerfDb {
        let strip = |solvers: BTreeMap<Arc<str>, Origin>| {
            solvers.into_iter().map(|(solver, (params, _))| (solver, params)).collect()
        };
        let records = self.records.into_iter().map(|(key, solvers)| (key, strip(solvers))).collect();
        PerfDb { records, ..PerfDb::default() }
    }
}

/// Perf dbs of batch norms as one. There are no times of them, so of each solver the later params stand.
pub(super) fn norms(policy: Policy, dbs: Vec<NormDb>) -> NormDb {
    let mut merged = NormDb::default();
    for (file, db) in dbs.into_iter().enumerate() {
        for (key, solvers) in db.records.into_iter().filter(|(_, solvers)| !solvers.is_empty()) {
            if file > 0 && policy == Policy::KeepKeys && !merged.records.contains_key(&key) {
                continue;
            }
            let have = merged.records.entry(key).or_default();
            if policy == Policy::Replace {
                have.clear();
            }
            have.extend(solvers);
        }
    }
    merged
}
