//! What a run of one of aiter's tuners left behind: its tuned file, and the profile of all that it tried. Its exit code says
//! little: it is 1 if any shape failed, although good rows were written.

use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::target::Target;

use crate::family::Column;
use crate::merge::usable;
use crate::sheet::View;
use crate::{Family, Key, Sheet, Value, exceeds};

/// A kernel with its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The library that it is of; the family where the file does not say it.
    pub library: String,
    /// Its name.
    pub kernel: String,
    /// The columns of what was found, as its file has them, separated by commas.
    pub columns: String,
    /// Their cells, separated by commas.
    pub cells: String,
    /// Microseconds, or why they are no time.
    pub result: Result<f64, Failure>,
}

impl Found {
    /// Whether both say the same where both say something: a profile may have other columns than the tuned file.
    fn is_the_same(&self, other: &Self) -> bool {
        let own: Vec<(&str, &str)> = self.columns.split(',').zip(self.cells.split(',')).collect();
        let mut others = other.columns.split(',').zip(other.cells.split(','));
        others.all(|(column, cell)| own.iter().all(|(known, own)| *known != column || *own == cell))
    }
}

/// What came of a shape.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// The first is what the tuner chose, the others are what else it tried.
    Tuned(Vec<Found>),
    /// There is none that can be chosen, and why; what it tried without success.
    Failed(Failure, Vec<Found>),
    /// It did not get that far.
    Missing,
}

/// What a run left behind.
#[derive(Clone, Copy, Debug)]
pub struct Remains<'a> {
    /// What it was run for.
    pub family: &'static Family,
    /// The GPU that it was to tune for.
    pub target: &'a Target,
    /// The tuned file; `None` if there is none.
    pub tuned: Option<&'a Sheet>,
    /// All that was tried; `None` if there is none.
    pub profile: Option<&'a Sheet>,
    /// The most that an output may differ.
    pub error_limit: f64,
}

impl Remains<'_> {
    /// What came of a shape.
    #[must_use]
    pub fn of(&self, shape: &Key) -> Verdict {
        let tried = self.tried(shape);
        let in_vain = |tried: Vec<Found>| tried.into_iter().filter(|found| found.result.is_err()).collect();
        let rows: Vec<View<'_>> = self.tuned.iter().flat_map(|sheet| rows_of(sheet, shape)).collect();
        if let Some(failure) = self.tuned.filter(|_| !rows.is_empty()).and_then(schema) {
            return Verdict::Failed(failure, in_vain(tried));
        }
        let mut best: Option<View<'_>> = None;
        let mut refusal = None;
        for row in rows {
            match self.check(&row) {
                Ok(()) if best.as_ref().is_none_or(|best| row.us() < best.us()) => best = Some(row),
                Ok(()) => {}
                Err(failure) => refusal = Some(failure),
            }
        }
        if let Some(best) = best {
            let best = self.found(&best);
            let others = tried.into_iter().filter(|other| !best.is_the_same(other));
            return Verdict::Tuned(std::iter::once(best.clone()).chain(others).collect());
        }
        if let Some(failure) = refusal {
            return Verdict::Failed(failure, in_vain(tried));
        }
        // What is good and was not chosen: it was ended in between.
        if tried.is_empty() || tried.iter().any(|found| found.result.is_ok()) {
            return Verdict::Missing;
        }
        Verdict::Failed(none_of(&tried), tried)
    }

    /// All kernels that were tried for a shape. Rows that were not written to their end are left out.
    fn tried(&self, shape: &Key) -> Vec<Found> {
        let whole = |view: &View<'_>| view.cells.len() >= view.sheet.table.columns().len();
        let rows = self.profile.iter().flat_map(|sheet| rows_of(sheet, shape));
        rows.filter(whole).map(|view| self.found(&view)).collect()
    }

    fn found(&self, view: &View<'_>) -> Found {
        let cell = |column: &str| view.cell(column).unwrap_or_default();
        let library = Some(cell("libtype")).filter(|library| !library.is_empty()).unwrap_or(self.family.name);
        let (columns, cells): (Vec<&str>, Vec<&str>) =
            results(view.sheet).into_iter().map(|column| (column, cell(column))).unzip();
        let kernel = ["kernelName", "kernelName1"].into_iter().find_map(|column| view.cell(column)).unwrap_or_default();
        let result = self.check(view).map(|()| view.us().unwrap_or_default());
        Found {
            library: library.to_string(),
            kernel: kernel.to_string(),
            columns: columns.join(","),
            cells: cells.join(","),
            result,
        }
    }

    /// Whether a row is what it should be.
    fn check(&self, view: &View<'_>) -> Result<(), Failure> {
        let malformed = |detail: String| Failure::new(FailureKind::MalformedOutput, detail);
        for column in results(view.sheet) {
            let Some(cell) = view.cell(column) else {
                return Err(malformed(format!("{column}: found a row that ends before it")));
            };
            if cell.contains([',', '"']) {
                return Err(malformed(format!("{column}: found {cell:?}, expected a plain cell")));
            }
            if !cell.is_empty() && cell != "Null" {
                let read = Column::of(column).read(cell);
                read.map_err(|expected| malformed(format!("{column}: found {cell:?}, expected {expected}")))?;
            }
        }
        let gpu = [("gfx", self.target.arch().to_string()), ("cu_num", self.target.cus().to_string())];
        for (column, expected) in gpu.iter().filter(|(column, _)| self.family.gpu.contains(column)) {
            let found = view.key().get(column).map(ToString::to_string).unwrap_or_default();
            if found != *expected {
                let detail = format!("{column}: found a row of {found:?}, expected {expected}");
                return Err(Failure::new(FailureKind::WrongTarget, detail));
            }
        }
        let (us, error) = (self.family.time().and_then(|column| view.number(column)), view.error());
        let kind = match us {
            Some(-1.0) => FailureKind::NotApplicable,
            Some(f64::INFINITY) => FailureKind::Hang,
            _ if error.is_some_and(|error| exceeds(error, self.error_limit)) => FailureKind::WrongResult,
            _ => FailureKind::InvalidTime,
        };
        usable(view, Some(self.error_limit)).map_err(|detail| Failure::new(kind, detail))
    }
}

/// Rows of a shape.
fn rows_of<'a>(sheet: &'a Sheet, shape: &Key) -> Vec<View<'a>> {
    let asked: Vec<(&'static str, &Value)> = shape.0.iter().map(|(column, value)| (*column, value)).collect();
    let is_of = |view: &View<'_>| asked.iter().all(|(column, value)| view.value(column) == **value);
    sheet.views().filter(is_of).collect()
}

/// The columns of what was found: the family's, and whatever else the tuner writes, in the order of the file.
fn results(sheet: &Sheet) -> Vec<&str> {
    let is_told = |column: &str| sheet.family.told().any(|known| known == column);
    let columns = sheet.table.columns().iter().map(String::as_str);
    columns.filter(|column| !column.is_empty() && !is_told(column)).collect()
}

/// What is wrong with the columns of a tuned file.
fn schema(sheet: &Sheet) -> Option<Failure> {
    let missing = sheet.family.columns().find(|column| sheet.table.column(column).is_none())?;
    let detail = format!("column {missing:?}: found none, expected it in a file of {}", sheet.family.name);
    Some(Failure::new(FailureKind::MalformedOutput, detail))
}

/// Why there is nothing to choose.
fn none_of(tried: &[Found]) -> Failure {
    let kinds: Vec<FailureKind> =
        tried.iter().filter_map(|found| found.result.as_ref().err()).map(|f| f.kind).collect();
    let count = |kind| kinds.iter().filter(|found| **found == kind).count();
    let told = [
        (FailureKind::WrongResult, "differ too much"),
        (FailureKind::Hang, "did not end or crashed"),
        (FailureKind::NotApplicable, "do not take the shape or raised an exception"),
        (FailureKind::InvalidTime, "have no time"),
        (FailureKind::WrongTarget, "are of another GPU"),
        (FailureKind::MalformedOutput, "are no rows of the family"),
    ];
    let text: Vec<String> = told
        .iter()
        .filter(|(kind, _)| count(*kind) > 0)
        .map(|(kind, what)| format!("{} {what}", count(*kind)))
        .collect();
    let kind = told.iter().map(|(kind, _)| *kind).find(|kind| count(*kind) > 0).unwrap_or(FailureKind::NoResult);
    Failure::new(kind, format!("none of {} kernels can be chosen: {}", tried.len(), text.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{FamilyName, Table};

    const COLUMNS: &str = "gfx,cu_num,M,N,K,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio";

    fn family() -> &'static Family {
        "ck_gemm_a8w8_blockscale".parse::<FamilyName>().unwrap().0
    }

    fn sheet(columns: &str, rows: &[&str]) -> Sheet {
        let text = format!("{columns}\n{}", rows.join("\n"));
        let table = Table::parse(Path::new("out.csv"), text.into_bytes()).unwrap();
        Sheet::of(table, Some(family())).unwrap()
    }

    fn verdict(tuned: Option<&Sheet>, profile: Option<&Sheet>) -> Verdict {
        let target = "gfx942-304".parse().unwrap();
        let remains = Remains { family: family(), target: &target, tuned, profile, error_limit: 0.05 };
        remains.of(&Key(vec![("M", Value::Integer(1)), ("N", Value::Integer(2)), ("K", Value::Integer(3))]))
    }

    const GOOD: &str = "gfx942,304,1,2,3,ck,7,0,21.4073,k7,0.0,0.0,0.0012";

    #[test]
    fn the_row_of_a_shape_is_what_was_found() {
        let tuned = sheet(
            COLUMNS,
            &[GOOD, "gfx942,304,9,2,3,ck,7,0,1.0,k7,0.0,0.0,0.0", "gfx942,304,1,2,3,ck,8,0,30.0,k8,0.0,0.0,0.0"],
        );
        let profile = sheet(
            COLUMNS,
            &[
                GOOD,
                "gfx942,304,1,2,3,asm,0,0,-1,a,0.0,0.0,1.0",
                "gfx942,304,1,2,3,asm,1,0,inf,b,0.0,0.0,1.0",
                "gfx942,304,1,2,3,asm,2,0,9.0,c,0.0,0.0,0.2",
                "gfx942,304,1,2,3,as",
            ],
        );
        let Verdict::Tuned(found) = verdict(Some(&tuned), Some(&profile)) else { panic!("it was tuned") };
        assert_eq!((found[0].kernel.as_str(), found[0].result.clone(), found.len()), ("k7", Ok(21.4073), 4));
        assert_eq!(found[0].cells, "ck,7,0,21.4073,k7,0.0,0.0,0.0012");
        let kinds: Vec<_> = found[1..].iter().map(|found| found.result.as_ref().unwrap_err().kind).collect();
        assert_eq!(kinds, [FailureKind::NotApplicable, FailureKind::Hang, FailureKind::WrongResult]);
    }

    #[test]
    fn what_is_no_result_is_a_failure_and_says_why() {
        for (row, kind, detail) in [
            (GOOD.replace("304", "80"), FailureKind::WrongTarget, "cu_num: found a row of \"80\", expected 304"),
            (
                GOOD.replace("gfx942", "gfx950"),
                FailureKind::WrongTarget,
                "gfx: found a row of \"gfx950\", expected gfx942",
            ),
            (
                GOOD.replace("21.4073", "0"),
                FailureKind::InvalidTime,
                "us: found \"0\", expected more than 0 and finite",
            ),
            (GOOD.replace("0.0012", "1.0"), FailureKind::WrongResult, "errRatio: found 1, expected at most 0.05"),
            (GOOD[..40].to_string(), FailureKind::MalformedOutput, "errRatio: found a row that ends before it"),
        ] {
            let Verdict::Failed(failure, _) = verdict(Some(&sheet(COLUMNS, &[&row])), None) else { panic!("{row}") };
            assert_eq!((failure.kind, failure.detail.as_str()), (kind, detail), "{row}");
        }
        let odd = sheet(&COLUMNS.replace(",errRatio", ""), &["gfx942,304,1,2,3,ck,7,0,21.4073,k7,0.0,0.0"]);
        let Verdict::Failed(failure, _) = verdict(Some(&odd), None) else { panic!("a column that is not there") };
        assert!(failure.detail.starts_with("column \"errRatio\": found none"), "{failure:?}");
    }

    #[test]
    fn columns_are_the_tuners_own() {
        let odd = sheet(&COLUMNS.replace(",us", ",flat,us"), &["gfx942,304,1,2,3,ck,7,0,2,21.4073,k7,0.0,0.0,0.0012"]);
        // Its profile has not all of them.
        let profile = sheet(COLUMNS, &[GOOD, "gfx942,304,1,2,3,ck,8,0,30.0,k8,0.0,0.0,0.0012"]);
        let Verdict::Tuned(found) = verdict(Some(&odd), Some(&profile)) else { panic!("it was tuned") };
        assert_eq!(found.iter().map(|found| found.kernel.as_str()).collect::<Vec<_>>(), ["k7", "k8"]);
        assert_eq!(found[0].columns, "libtype,kernelId,splitK,flat,us,kernelName,tflops,bw,errRatio");
        assert_eq!(found[0].cells, "ck,7,0,2,21.4073,k7,0.0,0.0,0.0012");
    }

    #[test]
    fn a_shape_without_a_row_was_not_reached_unless_all_was_tried() {
        assert_eq!(verdict(None, None), Verdict::Missing);
        assert_eq!(verdict(Some(&sheet(COLUMNS, &[])), None), Verdict::Missing);
        assert_eq!(verdict(None, Some(&sheet(COLUMNS, &[GOOD]))), Verdict::Missing);
        let bad = ["gfx942,304,1,2,3,ck,0,0,-1,a,0.0,0.0,1.0", "gfx942,304,1,2,3,ck,1,0,3.0,b,0.0,0.0,0.4"];
        let Verdict::Failed(failure, tried) = verdict(None, Some(&sheet(COLUMNS, &bad))) else {
            panic!("nothing to choose")
        };
        assert_eq!(tried.len(), 2);
        assert_eq!(
            failure.detail,
            "none of 2 kernels can be chosen: 1 differ too much, 1 do not take the shape or raised an exception"
        );
    }
}
