//! What costs a look-up all rows of a file, or of those that aiter puts together with it.

use super::{Findings, Rule};
use crate::Sheet;
use crate::lookup::{CellKind, LookUp};

/// Lines that a message names.
const NAMED: usize = 5;

/// Holds a tuned file against how its look-up reads it.
pub(super) fn check(sheet: &Sheet, look_up: &LookUp<'_>, findings: &mut Findings<'_>) {
    for column in sheet.family.key() {
        if let Some(expected) = look_up.mixed(column) {
            mixed(sheet, look_up, (column, expected), findings);
        }
    }
    if let Some(line) = sheet.table.comments().next().filter(|_| look_up.several) {
        findings.add(Rule::Lost, line, || {
            "found a comment, expected none: aiter puts the files together with pandas, which takes it for names of columns or a \
            row; aiter raises an error when it starts, or the look-up reads nothing"
                .to_string()
        });
    }
    let stops = sheet.views().find_map(|view| Some((look_up.stops_at(&view)?, view)));
    // That there is no such column is told of the header.
    if let Some((column, view)) = stops.filter(|(column, _)| sheet.table.column(column).is_some()) {
        findings.add(Rule::Lost, view.row.line, || {
            let cell = view.cell(column).unwrap_or_default();
            let written = look_up.written(&view, column).unwrap_or_default();
            let put_together = match look_up.several && *written != *cell {
                true => format!(", which is {written:?} when aiter has put the files together"),
                false => String::new(),
            };
            format!(
                "{column}: found {cell:?}{put_together}, expected a whole number: the look-up reads nothing of the table"
            )
        });
    }
}

/// A column whose cells are of several kinds.
fn mixed(
    sheet: &Sheet,
    look_up: &LookUp<'_>,
    (column, expected): (&'static str, CellKind),
    findings: &mut Findings<'_>,
) {
    let (values, rows) = (
        if expected == CellKind::Flag { "True or False" } else { "a number" },
        if look_up.several { "all files that aiter puts together" } else { "the file" },
    );
    let costs = format!("pandas takes the whole column for text, so that look-ups find no row of {rows}");
    let odd: Vec<(u64, String)> = sheet
        .views()
        .filter_map(|view| {
            let cell = view.bare_cell(column)?;
            let kind = CellKind::of(cell);
            let is_odd = kind != CellKind::Empty && kind != expected && !(kind.is_number() && expected.is_number());
            is_odd.then(|| (view.row.line, cell.chars().take(64).collect()))
        })
        .collect();
    if let Some((line, cell)) = odd.first() {
        let others: Vec<String> = odd.iter().skip(1).take(NAMED).map(|(line, _)| line.to_string()).collect();
        let more = odd.len().saturating_sub(1 + NAMED);
        let others = match (others.is_empty(), more) {
            (true, _) => String::new(),
            (false, 0) => format!(" (so in lines {})", others.join(", ")),
            (false, more) => format!(" (so in lines {} and {more} more)", others.join(", ")),
        };
        findings.add(Rule::Lost, *line, || format!("{column}: found {cell:?}{others}, expected {values}: {costs}"));
    }
    let is_missing = look_up.several && !sheet.table.bare_columns().iter().any(|known| known == column);
    if is_missing && expected == CellKind::Flag && sheet.views().next().is_some() {
        findings.add(Rule::Lost, sheet.table.header_line(), || {
            format!("{column}: found no such column, for which aiter writes 0, expected {values}: {costs}")
        });
    }
}
