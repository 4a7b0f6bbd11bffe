//! Tuned CSV files of aiter's: for each family the rows of a session's winners.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use bluefin_aiter::{FamilyName, Key, NamedCells, Value};
use bluefin_common::problem::Problem;
use bluefin_common::value;

use super::{AnyRecords, Format, Records};
use crate::error::ExportError;
use crate::fold::{Fold, Group, Warnings};
use crate::output::Output;

/// `a8w8_tuned_gemm.csv` and others.
#[derive(Clone, Copy, Debug)]
pub struct AiterFormat;

impl Format for AiterFormat {
    fn name(&self) -> &'static str {
        "aiter"
    }

    fn about(&self) -> &'static str {
        "a8w8_tuned_gemm.csv and others: tuned shapes of aiter's operators, a file for each family that has any"
    }

    fn records(&self) -> AnyRecords {
        AnyRecords::new(AiterRecords::default())
    }
}

/// Rows of families.
#[derive(Debug, Default)]
pub struct AiterRecords {
    /// By the order in which aiter sorts them.
    rows: BTreeMap<&'static str, BTreeMap<(Vec<Value>, Key), NamedCells>>,
}

impl Fold for AiterRecords {
    fn add(&mut self, group: &Group<'_>, warnings: &mut Warnings) {
        let Problem::Aiter(problem) = group.problem else { return };
        let Ok(FamilyName(family)) = problem.family.parse() else {
            warnings.insert(format!("{problem:?}: not in the files: no family is named {}", problem.family));
            return;
        };
        // One that failed has no row; that it failed is told by whoever counts problems.
        let Some(winner) = group.decision.as_ref().and_then(|decision| decision.winner()) else { return };
        let text = |place: usize| match winner.outcome.candidate.params.get(place) {
            Some(value::Value::Text(text)) => Some(text.clone()),
            _ => None,
        };
        let Some(cells) = text(1) else {
            warnings.insert(format!("{}: not in {}: its outcome has no cells", group.problem, family.tuned_file()));
            return;
        };
        // Outcomes of earlier releases have the columns that every file has.
        let columns = text(2).unwrap_or_else(|| family.usual_results());
        let (key, row) = family.row(&group.session.target, problem, (&columns, &cells));
        let order = family.sort.iter().filter_map(|column| key.get(column).cloned()).collect();
        self.rows.entry(family.name).or_default().insert((order, key), row);
    }

    fn merge(&mut self, other: Self, _: &mut Warnings) {
        for (family, rows) in other.rows {
            self.rows.entry(family).or_default().extend(rows);
        }
    }
}

impl Records for AiterRecords {
    async fn write(self, out: &mut Output<'_>) -> Result<(), ExportError> {
        for (name, rows) in self.rows {
            let Ok(FamilyName(family)) = name.parse() else { continue };
            let write = move |out: &mut std::io::BufWriter<std::fs::File>| -> std::io::Result<u64> {
                let table = family.table(Path::new(&family.tuned_file()), rows.values().map(Vec::as_slice));
                out.write_all(&table.to_bytes())?;
                Ok(rows.len() as u64)
            };
            out.text(&family.tuned_file(), write)?;
        }
        Ok(())
    }
}
