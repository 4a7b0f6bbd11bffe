//! Rules across files: what the fastest solver of a key needs must be there too.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bluefin_miopen::db::perf_db::PerfDb;
use bluefin_miopen::db::sources::sources;
use bluefin_miopen::key::PerfDbKey;

use super::{Gathered, Report, Rule};
use crate::db::name::DbName;

/// The fastest solver of a find-db key.
pub(super) struct Winner {
    pub line: u64,
    pub key: PerfDbKey,
    pub solver: Arc<str>,
}

/// A perf db.
pub(super) struct Params {
    pub name: Option<DbName>,
    pub db: PerfDb,
}

/// A kernel db.
pub(super) struct Kernels {
    pub name: Option<DbName>,
    /// Of all rows, each once.
    pub source_files: BTreeSet<String>,
}

/// Whether two files are of one device, as far as their names tell.
fn together(a: Option<&DbName>, b: Option<&DbName>) -> bool {
    let device = |name: Option<&DbName>| name.and_then(|name| name.device.clone());
    match (device(a), device(b)) {
        (Some(a), Some(b)) => a.matches(&b),
        _ => true,
    }
}

pub(super) fn check(reports: &mut [Report<'_>], gathered: &Gathered) {
    for (index, name, winners) in &gathered.winners {
        let Some(report) = reports.get_mut(*index) else { continue };
        let solvers = &report.request.solvers;
        let params: Vec<&PerfDb> = gathered
            .params
            .iter()
            .filter(|params| together(name.as_ref(), params.name.as_ref()))
            .map(|params| &params.db)
            .collect();
        if !params.is_empty() {
            for Winner { line, key, solver } in winners.iter().filter(|winner| solvers.is_tunable(&winner.solver)) {
                let has = |db: &&PerfDb| db.records.get(key).is_some_and(|rows| rows.contains_key(solver));
                if !params.iter().any(has) {
                    report.add(*line, Rule::NoParams, || {
                        format!("winner {solver}: found no row in the perf db, expected its params at {key}")
                    });
                }
            }
        }
        check_kernels(report, name.as_ref(), winners, &gathered.kernels);
    }
}

fn check_kernels(report: &mut Report<'_>, name: Option<&DbName>, winners: &[Winner], kernels: &[Kernels]) {
    let kernels: Vec<&Kernels> = kernels.iter().filter(|kernels| together(name, kernels.name.as_ref())).collect();
    if kernels.is_empty() {
        return;
    }
    // There are few solvers and many winners.
    let mut missing: HashMap<&str, bool> = HashMap::new();
    for Winner { line, solver, .. } in winners {
        let Some(prefixes) = sources(solver) else { continue };
        let is_missing = *missing.entry(solver).or_insert_with(|| {
            let mut files = kernels.iter().flat_map(|kernels| &kernels.source_files);
            !files.any(|file| prefixes.iter().any(|prefix| file.starts_with(prefix)))
        });
        if is_missing {
            report.add(*line, Rule::NoKernel, || {
                let expected = prefixes.join("… or ");
                format!("winner {solver}: found no kernel of it in the kernel db, expected one of {expected}…")
            });
        }
    }
}
