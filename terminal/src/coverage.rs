//! Which problems of a model databases cover, for people.

use bluefin_exporter::coverage::{Coverage, Presence};

use crate::{out, width};

/// A row for each problem, then the sums. `list` is where it is known from which solvers MIOpen has.
///
/// # Errors
/// If standard output can not be written to.
pub fn print(coverage: &Coverage, list: &str) -> std::io::Result<()> {
    let mut table = width::table();
    table.set_header(["problem", "count", "solver", "ms", "find", "params", "kernel"]);
    let word = |presence| match presence {
        Presence::Present => "yes",
        Presence::Missing => "missing",
        Presence::NotNeeded => "-",
        Presence::Unknown => "?",
    };
    for row in &coverage.rows {
        table.add_row([
            row.label.clone(),
            row.count.to_string(),
            row.solver.clone().unwrap_or_default(),
            row.time_ms.map(|time| time.to_string()).unwrap_or_default(),
            word(row.find).to_string(),
            word(row.params).to_string(),
            word(row.kernel).to_string(),
        ]);
    }
    if !coverage.rows.is_empty() {
        out::line(table)?;
    }
    let (problems, weighted) = (coverage.problems, coverage.weighted);
    out::line(format_args!(
        "covered: {} of {} problems ({:.1}%), {} of {} commands ({:.1}%)",
        problems.covered, problems.of, problems.percent, weighted.covered, weighted.of, weighted.percent
    ))?;
    out::line(format_args!(
        "missing: {} find records, {} params, {} kernels",
        coverage.without_find, coverage.without_params, coverage.without_kernel
    ))?;
    if let Some(solver) = coverage.rows.iter().find_map(|row| row.ignored.as_deref()) {
        out::line(format_args!(
            "ignored: the records of {} problems, of solvers such as {solver}, which {} does not have",
            coverage.ignored, list
        ))?;
    }
    if coverage.not_convolutions > 0 {
        out::line(format_args!("left out: {} problems that these databases can not hold", coverage.not_convolutions))?;
    }
    Ok(())
}
