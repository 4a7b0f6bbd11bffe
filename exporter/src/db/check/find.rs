//! Rules of a find db.

use bluefin_common::problem::{ConvProblem, PerfDbKey};
use bluefin_miopen::db::find_db::{FindEntry, FindRecord, scan};

use super::across::Winner;
use super::{Report, Rule};
use crate::db::{DbError, Source};

/// Checks a find db. Returns the fastest solver of each key that a convolution has.
pub(super) fn check(report: &mut Report<'_>, source: &Source) -> Result<Vec<Winner>, DbError> {
    let fusion = source.name.as_ref().is_some_and(|name| name.fusion);
    if fusion {
        report.add(0, Rule::Unchecked, || "found keys of fusion plans, expected those of convolutions".to_string());
    }
    let text = source.text()?;
    let mut winners = Vec::new();
    let mut old = 0;
    let findings = scan(&source.display(), &text, |record| {
        report.file.records += 1;
        old += u64::from(record.legacy);
        check_record(report, &record);
        let Some(key) = record.key.filter(|_| !fusion) else { return };
        if let Err(error) = ConvProblem::from_find_db_key(&key) {
            report.add(record.line, Rule::Problem, || error.to_string());
        }
        if let Some(winner) = winner(&record.entries) {
            winners.push(Winner { line: record.line, key: PerfDbKey::from(&key), solver: winner.solver.clone() });
        }
    })?;
    if old > 0 {
        report.add(0, Rule::VersionOne, || format!("found {old} lines of version 1, expected version 2"));
    }
    report.take(findings, fusion);
    Ok(winners)
}

/// The fastest entry that was measured; of equals the first.
fn winner(entries: &[FindEntry]) -> Option<&FindEntry> {
    entries.iter().filter(|entry| entry.time_ms > 0.0).min_by(|a, b| a.time_ms.total_cmp(&b.time_ms))
}

fn check_record(report: &mut Report<'_>, record: &FindRecord<'_>) {
    let solvers = &report.request.solvers;
    for entry in &record.entries {
        match solvers.get(&entry.solver) {
            None => report.add(record.line, Rule::UnknownSolver, || match solvers.named(&entry.solver) {
                Some(solver) => format!("solver: found {}, expected the spelling {}", entry.solver, solver.name),
                None => format!("solver: found {}, expected one of MIOpen's", entry.solver),
            }),
            Some(solver) => {
                let fits = solver.algorithm.is_none_or(|algorithm| entry.algorithm.ends_with(algorithm.name()));
                // Another direction's algorithm is a finding of the reader.
                if !fits && entry.algorithm.starts_with("miopen") {
                    let expected = solver.algorithm.map_or("", |algorithm| algorithm.name());
                    report.add(record.line, Rule::SolverAlgorithm, || {
                        format!("entry {}: found {}, expected …{expected}", entry.solver, entry.algorithm)
                    });
                }
            }
        }
    }
    let late = record.entries.windows(2).find_map(|pair| match pair {
        [first, second] if first.time_ms > second.time_ms => Some(second),
        _ => None,
    });
    if let Some(entry) = late {
        report.add(record.line, Rule::Order, || {
            format!("entry {}: found a time less than that of the entry before, expected ascending times", entry.solver)
        });
    }
}
