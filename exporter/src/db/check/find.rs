//! Rules of a find db.

use bluefin_common::problem::Direction;
use bluefin_miopen::db::find_db::{FindRecord, scan};
use bluefin_miopen::key::{FindDbKey, PerfDbKey};

use super::across::Winner;
use super::{Report, Rule};
use crate::db::name::Keys;
use crate::db::winner::winner;
use crate::db::{DbError, Source};

/// Checks a find db. Returns the fastest solver of each key that a convolution has.
pub(super) fn check(report: &mut Report<'_>, source: &Source) -> Result<Vec<Winner>, DbError> {
    let fusion = source.keys() == Keys::Fusions;
    if fusion {
        report.add(0, Rule::Unchecked, || "found keys of fusion plans, expected those of convolutions".to_string());
    }
    let text = source.text()?;
    let mut winners = Vec::new();
    let mut old = 0;
    let findings = scan(&source.display(), &text, |record| {
        report.file.records += 1;
        old += u64::from(record.legacy);
        check_record(report, &record, fusion);
        let Some(key) = record.key.filter(|_| !fusion) else { return };
        if let Some(wrong) = wrong_problem(&key) {
            report.add(record.line, Rule::Problem, || wrong);
        }
        if let Some(winner) = winner(&record.entries, &report.request.solvers) {
            winners.push(Winner { line: record.line, key: PerfDbKey::from(&key), solver: winner.solver.clone() });
        }
    })?;
    if old > 0 {
        report.add(0, Rule::VersionOne, || format!("found {old} lines of version 1, expected version 2"));
    }
    report.take(source.of_its_keys(findings));
    Ok(winners)
}

/// What is wrong with a key that has its form. The output of an application may be one that a pad of one more at the far end
/// gives, as other libraries have it where the input divided by the stride is rounded up: MIOpen asks for its key all the same.
#[expect(clippy::indexing_slicing, reason = "an axis is 0, 1 or 2")]
fn wrong_problem(key: &FindDbKey) -> Option<String> {
    let error = key.problem().err()?;
    let forward = key.direction == Direction::Forward;
    let (input, output) = if forward { (key.input, key.output) } else { (key.output, key.input) };
    let mut derived = [1; 3];
    for (axis, size) in derived.iter_mut().enumerate().skip(if key.spatial == 3 { 0 } else { 1 }) {
        let room = i64::from(input[axis]) + 2 * i64::from(key.pad[axis]);
        let reach = i64::from(key.dilation[axis]) * (i64::from(key.filter[axis]) - 1) + 1;
        let stride = i64::from(key.stride[axis]).max(1);
        let outputs = |room: i64| ((room - reach).div_euclid(stride) + 1).max(1);
        if i64::from(output[axis]) != outputs(room) && i64::from(output[axis]) != outputs(room + 1) {
            return Some(error.to_string());
        }
        *size = u32::try_from(outputs(room)).ok()?;
    }
    // Whatever else may be wrong is wrong of the key with the output that follows, too.
    let mut plain = key.clone();
    *(if forward { &mut plain.output } else { &mut plain.input }) = derived;
    plain.problem().err().map(|error| error.to_string())
}

fn check_record(report: &mut Report<'_>, record: &FindRecord<'_>, fusion: bool) {
    let solvers = &report.request.solvers;
    for entry in &record.entries {
        match solvers.get(&entry.solver) {
            None => report.unknown_solver(record.line, &entry.solver),
            Some(solver) => {
                let fits =
                    fusion || solver.algorithm.is_none_or(|algorithm| entry.algorithm.ends_with(algorithm.name()));
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
