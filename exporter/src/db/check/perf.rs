//! Rules of a perf db.

use bluefin_miopen::db::params::{self, Wrong};
use bluefin_miopen::db::perf_db::PerfDb;
use bluefin_miopen::key::PerfDbKey;

use super::{Report, Rule};
use crate::db::name::Keys;
use crate::db::{DbError, Source};

/// Checks a perf db. `None` for one of batch norms, whose keys are others.
pub(super) fn check(report: &mut Report<'_>, source: &Source) -> Result<Option<PerfDb>, DbError> {
    if source.keys() == Keys::BatchNorms {
        let mut db = source.norm_db(|line, _, solver, params| {
            report.file.records += 1;
            check_params(report, line, solver, params);
        })?;
        report.take(std::mem::take(&mut db.findings));
        return Ok(None);
    }
    let mut db = source.perf_db(|row| {
        report.file.records += 1;
        check_params(report, row.line, row.solver, row.params);
        if let Some(wrong) = wrong_key(row.key) {
            report.add(row.line, Rule::PerfKey, || format!("key {}: {wrong}", row.key));
        }
    })?;
    report.take(std::mem::take(&mut db.findings));
    Ok(Some(db))
}

fn check_params(report: &mut Report<'_>, line: u64, solver: &str, params: &str) {
    let solvers = &report.request.solvers;
    match solvers.get(solver) {
        None => report.unknown_solver(line, solver),
        Some(known) if known.tunable == Some(false) => {
            report.add(line, Rule::NotTunable, || format!("solver: found {solver}, expected one that is tunable"));
        }
        Some(_) => {}
    }
    if let Err(error) = PerfDb::check(solver, params) {
        report.add(line, Rule::Params, || error.to_string());
    }
    if let Some(wrong) = params::wrong(solver, params) {
        let rule = if matches!(wrong, Wrong::Missing { .. }) { Rule::Params } else { Rule::Number };
        report.add(line, rule, || format!("params of {solver}: {wrong}"));
    }
}

/// What of a key MIOpen would have written otherwise.
fn wrong_key(key: &PerfDbKey) -> Option<String> {
    let integers = PerfDbKey::COLUMNS.into_iter().skip(PerfDbKey::TEXTS).zip(key.integers);
    let value = |name: &str| integers.clone().find(|(column, _)| *column == name).map_or(0, |(_, value)| value);
    let spatial = value("spatial_dim");
    if spatial != 2 && spatial != 3 {
        return Some(format!("spatial_dim: found {spatial}, expected 2 or 3"));
    }
    let letters = key.layout.to_string().trim_end_matches('c').len();
    if letters != spatial as usize + 2 {
        return Some(format!("layout: found {}, expected one of {spatial} dimensions", key.layout));
    }
    for (column, found) in integers.clone() {
        // What MIOpen has for a depth that is not there.
        let flat = match column {
            "in_d" | "fil_d" => Some(1),
            "pad_d" | "conv_stride_d" | "dilation_d" => Some(0),
            _ => None,
        };
        let wanted = match (column, flat) {
            ("bias", _) => Some(0),
            (_, Some(flat)) if spatial == 2 => Some(flat),
            _ => None,
        };
        if let Some(wanted) = wanted
            && found != wanted
        {
            return Some(format!("{column}: found {found}, expected {wanted}"));
        }
        let may_be_zero = matches!(column, "bias" | "pad_h" | "pad_w" | "pad_d") || flat == Some(0) && spatial == 2;
        if found == 0 && !may_be_zero {
            return Some(format!("{column}: found 0, expected at least 1"));
        }
    }
    None
}
