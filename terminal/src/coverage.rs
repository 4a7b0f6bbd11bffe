//! Which problems of a model databases cover, for people.

use bluefin_common::spelled::counted;
use bluefin_exporter::coverage::{Coverage, Presence};

use crate::out;
use crate::sheet::{Sheet, TableArgs, cell, number, text};

/// A row for each problem, then the sums. `list` is where it is known from which solvers MIOpen has.
///
/// # Errors
/// If standard output can not be written to.
pub fn print(coverage: &Coverage, list: &str) -> std::io::Result<()> {
    let mut sheet = Sheet::new([
        text("problem"),
        number("count"),
        text("solver").rank(1),
        number("ms").rank(2),
        text("find"),
        text("params"),
        text("kernel"),
    ]);
    let word = |presence| match presence {
        Presence::Present => "yes",
        Presence::Missing => "missing",
        Presence::NotNeeded => "-",
        Presence::Unknown => "?",
    };
    for row in &coverage.rows {
        sheet.row([
            cell(&row.label),
            cell(row.count),
            cell(row.solver.as_deref().unwrap_or_default()),
            cell(row.time_ms.map(|time| time.to_string()).unwrap_or_default()),
            cell(word(row.find)),
            cell(word(row.params)),
            cell(word(row.kernel)),
        ]);
    }
    if !coverage.rows.is_empty() {
        TableArgs::default().print(&sheet)?;
    }
    let (problems, weighted) = (coverage.problems, coverage.weighted);
    out::line(format_args!(
        "covered: {} of {} ({:.1}%), {} of {} ({:.1}%)",
        problems.covered,
        counted(problems.of, "problem"),
        problems.percent,
        weighted.covered,
        counted(weighted.of, "command"),
        weighted.percent
    ))?;
    out::line(format_args!(
        "missing: {} find records, {} params, {} kernels",
        coverage.without_find, coverage.without_params, coverage.without_kernel
    ))?;
    if let Some(solver) = coverage.rows.iter().find_map(|row| row.ignored.as_deref()) {
        out::line(format_args!(
            "ignored: the records of {}, of solvers such as {solver}, which {list} does not have",
            counted(coverage.ignored, "problem")
        ))?;
    }
    if coverage.not_convolutions > 0 {
        out::line(format_args!(
            "left out: {} that these databases can not hold",
            counted(coverage.not_convolutions, "problem")
        ))?;
    }
    Ok(())
}
