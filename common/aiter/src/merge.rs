//! Rows of several files in one, which stays as it is where nothing is changed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::sheet::View;
use crate::table::Row;
use crate::{Error, Key, Sheet, Value, exceeds, sheets_of};

/// Which of two rows of a key stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// The later one, as aiter's tuners do it.
    Newest,
    /// The one whose time is less.
    Fastest,
    /// The later one if it takes less time by this many percent.
    Improved(f64),
}

/// What became of a row that was to be merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// There was none of its key.
    Added,
    /// It stands in place of another.
    Replaced,
    /// It is not better by enough.
    Kept,
    /// It is the row that is there.
    Same,
    /// It is no result.
    Refused,
}

/// A row that was to be merged, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Merged {
    /// What it is looked up by.
    pub key: Key,
    /// Where it is from.
    pub file: PathBuf,
    /// The line there.
    pub line: u64,
    /// Whether it stands now.
    pub fate: Fate,
    /// The time of the row that was there, if there was one with a time.
    pub before: Option<f64>,
    /// Its own.
    pub after: Option<f64>,
    /// Why it was refused.
    pub reason: Option<String>,
}

/// How rows are merged.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Which of two rows stands.
    pub policy: Policy,
    /// The most that the output of a new row may differ; `None`: rows are taken at their word.
    pub error_limit: Option<f64>,
}

/// Merges rows of `newer`, in their order, into `base`. Rows that stay keep their bytes; new ones go where they belong if the rows
/// are sorted as aiter sorts them, otherwise to the end. Of rows of `base` that share a key one remains.
///
/// # Errors
/// If a file is of another family, or has a column that `base` has not and that says something.
pub fn merge(base: Sheet, newer: &[Sheet], terms: Terms) -> Result<(Sheet, Vec<Merged>), Error> {
    for sheet in newer {
        if (sheet.family.name, sheet.kind) != (base.family.name, base.kind) {
            return Err(Error::Mixed {
                path: sheet.path().to_path_buf(),
                found: format!("{} ({:?})", sheet.family.name, sheet.kind).to_lowercase(),
                expected: format!("{} ({:?})", base.family.name, base.kind).to_lowercase(),
            });
        }
    }
    let sorted = is_sorted(&base);
    let mut merging = Merging::begin(&base, terms.policy);
    let mut told = Vec::new();
    for sheet in newer {
        for view in sheet.views() {
            told.push(merging.offer(&base, &view, terms)?);
        }
    }
    let Merging { mut rows, mut added, .. } = merging;
    added.sort_by(|(one, _), (other, _)| one.cmp(other));
    rows.extend(added.into_iter().map(|(_, row)| Some(row)));
    let mut merged = base;
    merged.table.rows = rows.into_iter().flatten().collect();
    if sorted {
        let mut rows = std::mem::take(&mut merged.table.rows);
        rows.sort_by_cached_key(|row| order(&merged.view(row)));
        merged.table.rows = rows;
    }
    Ok((merged, told))
}

/// Merges rows into the files of a folder: each into the file that has its key, so that no key is there twice, and what is new into
/// the file of its family. Returns the files that are other than they were, and what became of each row.
///
/// # Errors
/// See [`merge`].
pub fn into_folder(
    folder: &Path,
    sheets: &[Sheet],
    newer: &[Sheet],
    terms: Terms,
) -> Result<(Vec<Sheet>, Vec<Merged>), Error> {
    let (mut changed, mut told) = (Vec::new(), Vec::new());
    for new in newer {
        let own = folder.join(new.family.tuned_file());
        let mut files: Vec<Sheet> = sheets_of(sheets, new.family).cloned().collect();
        if !files.iter().any(|sheet| sheet.path() == own) {
            files.push(Sheet::empty(&own, new.family));
        }
        let mut places: HashMap<Key, usize> = HashMap::new();
        for (place, sheet) in files.iter().enumerate() {
            sheet.views().for_each(|view| {
                places.entry(view.key()).or_insert(place);
            });
        }
        let base = files.iter().position(|sheet| sheet.path() == own).unwrap_or_default();
        for (place, file) in files.into_iter().enumerate() {
            let mut part = new.clone();
            let belongs = |row: &Row| places.get(&new.view(row).key()).copied().unwrap_or(base) == place;
            part.table.rows.retain(|row| !row.is_blank() && belongs(row));
            if part.table.rows.is_empty() {
                continue;
            }
            let before = file.table.to_bytes();
            let (merged, rows) = merge(file, &[part], terms)?;
            told.extend(rows);
            if merged.table.to_bytes() != before {
                changed.push(merged);
            }
        }
    }
    Ok((changed, told))
}

/// A merge that is under way.
struct Merging {
    /// Those of the base, `None` where one is gone.
    rows: Vec<Option<Row>>,
    /// Where the row of a key is: in `rows`, or behind them in `added`.
    places: HashMap<Key, usize>,
    added: Vec<(Key, Row)>,
}

#[expect(clippy::indexing_slicing, reason = "places are those of rows, and of what was added behind them")]
impl Merging {
    fn begin(base: &Sheet, policy: Policy) -> Self {
        let mut rows: Vec<Option<Row>> = base.table.rows.iter().cloned().map(Some).collect();
        let mut places = HashMap::new();
        for (place, row) in base.table.rows.iter().enumerate().filter(|(_, row)| !row.is_blank()) {
            let view = base.view(row);
            let Some(earlier) = places.insert(view.key(), place) else { continue };
            let stands = |place: usize| base.view(&base.table.rows[place]).us().unwrap_or(f64::INFINITY);
            if policy != Policy::Newest && stands(earlier) <= stands(place) {
                places.insert(view.key(), earlier);
                rows[place] = None;
            } else {
                rows[earlier] = None;
            }
        }
        Self { rows, places, added: Vec::new() }
    }

    /// The row that stands for `key`.
    fn standing(&self, key: &Key) -> Option<&Row> {
        let place = *self.places.get(key)?;
        match place.checked_sub(self.rows.len()) {
            None => self.rows[place].as_ref(),
            Some(behind) => Some(&self.added[behind].1),
        }
    }

    /// Takes a row or leaves it.
    fn offer(&mut self, base: &Sheet, view: &View<'_>, terms: Terms) -> Result<Merged, Error> {
        let key = view.key();
        let (file, line, after) = (view.path(), view.row.line, view.us());
        let told = |fate, before, reason| {
            Ok(Merged { key: view.key(), file: file.clone(), line, fate, before, after, reason })
        };
        if let Err(reason) = usable(view, terms.error_limit) {
            return told(Fate::Refused, None, Some(reason));
        }
        let row = fit(base, view)?;
        let Some(standing) = self.standing(&key) else {
            self.places.insert(key.clone(), self.rows.len() + self.added.len());
            self.added.push((key, row));
            return told(Fate::Added, None, None);
        };
        let before = base.view(standing).us();
        if standing.text() == row.text() {
            return told(Fate::Same, before, None);
        }
        if !better(before, after, terms.policy) {
            return told(Fate::Kept, before, None);
        }
        let place = self.places[&key];
        match place.checked_sub(self.rows.len()) {
            None => self.rows[place] = Some(row),
            Some(behind) => self.added[behind].1 = row,
        }
        told(Fate::Replaced, before, None)
    }
}

/// Whether a row that takes `after` is to stand in place of one that takes `before`. One without a time is none to compare with.
#[must_use]
pub fn better(before: Option<f64>, after: Option<f64>, policy: Policy) -> bool {
    match (policy, before, after) {
        (Policy::Newest, _, _) | (_, None, _) => true,
        (_, Some(_), None) => false,
        (Policy::Fastest, Some(before), Some(after)) => after < before,
        (Policy::Improved(percent), Some(before), Some(after)) => (before - after) / before * 100.0 >= percent,
    }
}

/// Whether a row is a result.
///
/// # Errors
/// Why not.
pub fn usable(view: &View<'_>, error_limit: Option<f64>) -> Result<(), String> {
    if let Some(column) = view.sheet.family.time().filter(|_| view.us().is_none()) {
        let found = view.cell(column).unwrap_or_default();
        return Err(format!("{column}: found {found:?}, expected more than 0 and finite"));
    }
    let mut errors = view.sheet.family.errors.iter().filter_map(|column| Some((column, view.number(column)?)));
    match error_limit.and_then(|limit| Some((limit, errors.find(|(_, error)| exceeds(*error, limit))?))) {
        Some((limit, (column, error))) => Err(format!("{column}: found {error}, expected at most {limit}")),
        None => Ok(()),
    }
}

/// A row in the columns of `base`.
fn fit(base: &Sheet, view: &View<'_>) -> Result<Row, Error> {
    let (columns, own) = (base.table.columns(), view.sheet.table.columns());
    let gfx = view.key().get("gfx").map(ToString::to_string).unwrap_or_default();
    for (column, cell) in own.iter().zip(&view.cells) {
        let inferred = column == "gfx" && Row::of([&**cell]).text() == gfx_without(view);
        let says_nothing = cell.is_empty() || **cell == *base.family.default(column) || inferred;
        if !columns.contains(column) && !says_nothing {
            let (path, base, column) = (view.path(), base.path().to_path_buf(), column.clone());
            return Err(Error::Column { path, base, column });
        }
    }
    let cell = |column: &String| match view.cell(column) {
        Some(cell) => cell.to_string(),
        None if column == "gfx" => gfx.clone(),
        None => base.family.default(column).to_string(),
    };
    let cells: Vec<String> = columns.iter().map(cell).collect();
    Ok(Row::of(cells.iter().map(String::as_str)))
}

/// What the row would be taken to be for if its file did not say it.
fn gfx_without(view: &View<'_>) -> &'static str {
    view.number("cu_num").map_or("", crate::sheet::gfx_of)
}

/// Whether the rows are in the order that aiter's tuners write.
fn is_sorted(sheet: &Sheet) -> bool {
    sheet.table.rows.iter().all(|row| !row.is_blank()) && sheet.views().map(|view| order(&view)).is_sorted()
}

/// What rows are sorted by.
fn order(view: &View<'_>) -> Vec<Value> {
    let key = view.key();
    view.sheet.family.sort.iter().filter_map(|column| key.get(column).cloned()).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Table;

    const HEADER: &str = "gfx,cu_num,M,N,K,kernelId,splitK,us,kernelName,tflops,bw,errRatio\n";

    fn sheet(text: &str) -> Sheet {
        sheet_of(&format!("{HEADER}{text}"))
    }

    fn sheet_of(text: &str) -> Sheet {
        let table = Table::parse(Path::new("a4w4_blockscale_tuned_gemm.csv"), text.as_bytes().to_vec()).unwrap();
        Sheet::of(table, None).unwrap()
    }

    fn row(m: u32, us: &str, name: &str) -> String {
        format!("gfx950,256,{m},512,512,1,0,{us},{name},1.0,1.0,0.0\n")
    }

    fn merged(base: &str, newer: &str, policy: Policy) -> (String, Vec<Fate>) {
        let terms = Terms { policy, error_limit: None };
        let (sheet, told) = merge(sheet(base), &[sheet(newer)], terms).unwrap();
        let text = String::from_utf8(sheet.table.to_bytes()).unwrap();
        (text.strip_prefix(HEADER).unwrap().to_string(), told.iter().map(|told| told.fate).collect())
    }

    #[test]
    fn policies_decide_between_rows_of_a_key() {
        let base = row(1, "10.0", "a") + &row(2, "10.0", "a") + &row(4, "-1", "a");
        let newer = row(1, "9.8", "b") + &row(2, "11.0", "b") + &row(4, "50.0", "b");
        let expected = |names: [(&str, &str); 3]| {
            [1, 2, 4].iter().zip(names).map(|(m, (us, name))| row(*m, us, name)).collect::<String>()
        };
        let (text, fates) = merged(&base, &newer, Policy::Newest);
        assert_eq!(text, expected([("9.8", "b"), ("11.0", "b"), ("50.0", "b")]));
        assert_eq!(fates, [Fate::Replaced; 3]);
        let (text, fates) = merged(&base, &newer, Policy::Fastest);
        assert_eq!(text, expected([("9.8", "b"), ("10.0", "a"), ("50.0", "b")]));
        assert_eq!(fates, [Fate::Replaced, Fate::Kept, Fate::Replaced]);
        let (text, fates) = merged(&base, &newer, Policy::Improved(3.0));
        assert_eq!(text, expected([("10.0", "a"), ("10.0", "a"), ("50.0", "b")]));
        assert_eq!(fates, [Fate::Kept, Fate::Kept, Fate::Replaced]);
    }

    #[test]
    fn new_rows_go_where_they_belong_and_bad_ones_nowhere() {
        let base = row(1, "10.0", "a") + &row(4, "10.00", "a");
        let (text, fates) =
            merged(&base, &(row(2, "5.0", "b") + &row(8, "0", "b") + &row(4, "10.00", "a")), Policy::Fastest);
        assert_eq!(text, row(1, "10.0", "a") + &row(2, "5.0", "b") + &row(4, "10.00", "a"));
        assert_eq!(fates, [Fate::Added, Fate::Refused, Fate::Same]);
        // What aiter did not sort is not sorted.
        let base = row(4, "10.0", "a") + " \n" + &row(1, "10.0", "a");
        let (text, _) = merged(&base, &(row(3, "5.0", "b") + &row(2, "5.0", "b")), Policy::Fastest);
        assert_eq!(text, base + &row(2, "5.0", "b") + &row(3, "5.0", "b"));
    }

    #[test]
    fn nothing_new_changes_no_byte() {
        let base = row(4, "10.0", "a") + "gfx950, 256,1,512,512,1,0,3.10,a,1.0,1.0,0.0";
        assert_eq!(merged(&base, &row(4, "20", "b"), Policy::Fastest).0, base);
    }

    #[test]
    fn of_rows_that_share_a_key_one_remains() {
        let base = row(1, "10.0", "a") + &row(1, "9.0", "b") + &row(1, "11.0", "c");
        assert_eq!(merged(&base, "", Policy::Fastest).0, row(1, "9.0", "b"));
        assert_eq!(merged(&base, "", Policy::Newest).0, row(1, "11.0", "c"));
    }

    #[test]
    fn columns_are_matched_by_name() {
        let legacy = sheet_of(
            "cu_num,M,N,K,us,kernelName,kernelId,splitK,tflops,bw,errRatio\n256,2,512,512,5.0,b,1,0,1.0,1.0,0.0\n",
        );
        let terms = Terms { policy: Policy::Fastest, error_limit: Some(0.05) };
        let (sheet, _) = merge(sheet(&row(1, "10.0", "a")), std::slice::from_ref(&legacy), terms).unwrap();
        assert_eq!(
            sheet.table.to_bytes(),
            (HEADER.to_string() + &row(1, "10.0", "a") + &row(2, "5.0", "b")).into_bytes()
        );
        // The other way the architecture is left out where it is inferred, and only there.
        assert!(merge(legacy.clone(), &[sheet_of(&(HEADER.to_string() + &row(1, "10.0", "a")))], terms).is_ok());
        let other = HEADER.to_string() + &row(1, "10.0", "a").replace("gfx950", "gfx1250");
        let error = merge(legacy, &[sheet_of(&other)], terms).unwrap_err().to_string();
        assert!(error.contains("column gfx: found in it and not in"), "{error}");
    }

    #[test]
    fn a_row_goes_into_the_file_that_has_its_key() {
        let folder = Path::new("configs");
        let named = |name: &str, text: &str| {
            let table = Table::parse(&folder.join(name), format!("{HEADER}{text}").into_bytes()).unwrap();
            Sheet::of(table, None).unwrap()
        };
        let sheets = [
            named("a4w4_blockscale_tuned_gemm.csv", &row(1, "10.0", "a")),
            named("x_a4w4_blockscale_tuned_gemm.csv", &row(2, "10.0", "a")),
        ];
        let newer = [named("new_a4w4_blockscale_tuned_gemm.csv", &(row(2, "5.0", "b") + &row(3, "5.0", "b")))];
        let terms = Terms { policy: Policy::Improved(3.0), error_limit: None };
        let (changed, told) = into_folder(folder, &sheets, &newer, terms).unwrap();
        let texts: Vec<_> = changed.iter().map(|sheet| (sheet.path(), sheet.table.to_bytes())).collect();
        let expected = |name: &str, text: String| (folder.join(name), format!("{HEADER}{text}").into_bytes());
        let [one, two] = [
            expected("a4w4_blockscale_tuned_gemm.csv", row(1, "10.0", "a") + &row(3, "5.0", "b")),
            expected("x_a4w4_blockscale_tuned_gemm.csv", row(2, "5.0", "b")),
        ];
        assert_eq!(texts, [(one.0.as_path(), one.1), (two.0.as_path(), two.1)]);
        assert_eq!(told.len(), 2);
        // Where there is none it is made.
        let (changed, _) = into_folder(folder, &[], &newer, terms).unwrap();
        assert_eq!(changed[0].path(), folder.join("a4w4_blockscale_tuned_gemm.csv"));
        let (changed, _) = into_folder(folder, &changed, &newer, terms).unwrap();
        assert!(changed.is_empty(), "again changes nothing");
    }

    #[test]
    fn what_differs_too_much_is_refused() {
        let terms = Terms { policy: Policy::Newest, error_limit: Some(0.05) };
        let wrong = row(1, "1.0", "a").replace(",0.0\n", ",0.06\n");
        let (_, told) = merge(sheet(""), &[sheet(&wrong)], terms).unwrap();
        assert_eq!(told[0].reason.as_deref(), Some("errRatio: found 0.06, expected at most 0.05"));
    }
}
