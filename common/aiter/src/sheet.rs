//! A file of a family.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::families::{ANY_GEMM, FAMILIES};
use crate::family::{Column, Reading};
use crate::key::flag;
use crate::table::{Row, Table};
use crate::{Error, Family, Key, Value};

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SheetKind {
    /// What operators look up.
    Tuned,
    /// What is to be tuned.
    Untuned,
}

/// A file whose family is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Sheet {
    /// The file.
    pub table: Table,
    /// The one entry that says what its columns mean.
    pub family: &'static Family,
    /// Whether it says what was found.
    pub kind: SheetKind,
}

/// Columns of files that list kernels: what each is called, and the file that has it.
const KERNELS: [&str; 2] = ["knl_name", "co_name"];

impl Sheet {
    /// Reads a file. It is of `family`, or of the one that its name and its header tell.
    ///
    /// # Errors
    /// If it can not be read, is no CSV file, or nothing tells the family.
    pub fn read(path: &Path, family: Option<&'static Family>) -> Result<Self, Error> {
        if path.extension().is_some_and(|extension| extension == "json") {
            let found = "a JSON file: those of aiter's Triton kernels are not read";
            return Err(Error::Other { path: path.to_path_buf(), found });
        }
        Self::of(Table::read(path)?, family)
    }

    /// A table of `family`, or of the one that its name and its header tell.
    ///
    /// # Errors
    /// If nothing tells it.
    pub fn of(table: Table, family: Option<&'static Family>) -> Result<Self, Error> {
        let found = family.or_else(|| Family::named_by(table.path())).or_else(|| by_columns(table.columns()));
        let Some(family) = found else {
            if KERNELS.iter().all(|column| table.column(column).is_some()) {
                let found = "a list of kernels that aiter has assembled";
                return Err(Error::Other { path: table.path().to_path_buf(), found });
            }
            let columns: String = table.columns().join(",").chars().take(200).collect();
            return Err(Error::Family { path: table.path().to_path_buf(), columns });
        };
        let path = table.path().to_path_buf();
        let table = match family.reading {
            Reading::Converted => table.with_comments().ok_or(Error::Empty { path })?,
            Reading::Typed | Reading::Texts => table,
        };
        let found_something = family.results.iter().any(|column| table.column(column).is_some());
        let kind = if found_something { SheetKind::of(table.path()) } else { SheetKind::Untuned };
        Ok(Self { table, family, kind })
    }

    /// A tuned file of no row.
    #[must_use]
    pub fn empty(path: &Path, family: &'static Family) -> Self {
        Self { table: Table::new(path, family.columns()), family, kind: SheetKind::Tuned }
    }

    /// Whether it holds sizes of a GEMM and nothing that tells which family's: several tune those.
    #[must_use]
    pub fn is_of_any_gemm(&self) -> bool {
        self.family.name == ANY_GEMM.name
    }

    /// Where it is from.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.table.path()
    }

    /// A row of it, by the names of columns.
    #[must_use]
    pub fn view<'a>(&'a self, row: &'a Row) -> View<'a> {
        View { sheet: self, cells: row.cells(), bare_cells: row.bare_cells(), row }
    }

    /// Its rows, by the names of columns.
    pub fn views(&self) -> impl Iterator<Item = View<'_>> {
        self.table.records().map(|row| self.view(row))
    }
}

impl SheetKind {
    /// Of a file, by its name.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        if stem(path).contains("untuned") { Self::Untuned } else { Self::Tuned }
    }
}

impl Family {
    /// The family whose files' names hold the longest part of this one.
    #[must_use]
    pub fn named_by(path: &Path) -> Option<&'static Self> {
        let stem = stem(path);
        let part = |family: &&Self| {
            let untuned = family.file.replace("tuned", "untuned");
            stem.contains(family.file) || stem.contains(&untuned)
        };
        FAMILIES.iter().filter(part).max_by_key(|family| family.file.len())
    }
}

/// The name of a file without its extension.
fn stem(path: &Path) -> Cow<'_, str> {
    path.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default()
}

/// The only family that all of these columns are of; [`ANY_GEMM`] if there is nothing but sizes of a GEMM.
fn by_columns(columns: &[String]) -> Option<&'static Family> {
    let named: Vec<&str> = columns.iter().map(String::as_str).filter(|column| !column.is_empty()).collect();
    if named == ANY_GEMM.shape {
        return Some(&ANY_GEMM);
    }
    let mut found = FAMILIES.iter().filter(|family| named.iter().all(|column| family.knows(column)));
    let family = found.next()?;
    found.next().is_none().then_some(family)
}

/// A row of a sheet, by the names of its columns.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// Whose row it is.
    pub sheet: &'a Sheet,
    /// As it stands there.
    pub row: &'a Row,
    /// Without the white space around them.
    pub cells: Vec<Cow<'a, str>>,
    /// With it.
    pub bare_cells: Vec<Cow<'a, str>>,
}

impl View<'_> {
    /// A cell; `None` if the file has no such column or the row ends before it.
    #[must_use]
    pub fn cell(&self, column: &str) -> Option<&str> {
        self.cells.get(self.sheet.table.column(column)?).map(|cell| &**cell)
    }

    /// A cell as it is, empty if the row ends before it; `None` if no column of the file has exactly this name.
    #[must_use]
    pub fn bare_cell(&self, column: &str) -> Option<&str> {
        let place = self.sheet.table.bare_columns().iter().position(|known| known == column)?;
        Some(self.bare_cells.get(place).map_or("", |cell| &**cell))
    }

    /// What stands in a column of numbers, if it is one.
    #[must_use]
    pub fn number(&self, column: &str) -> Option<f64> {
        Column::of(column).read(self.cell(column)?).ok()
    }

    /// The time, if it is a time.
    #[must_use]
    pub fn us(&self) -> Option<f64> {
        self.number(self.sheet.family.time()?).filter(|us| us.is_finite() && *us > 0.0)
    }

    /// The largest of its errors; `None` if its family tells none.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        self.sheet.family.errors.iter().filter_map(|column| self.number(column)).reduce(f64::max)
    }

    /// What it is looked up by. A file without `gfx` is from the time when the number of compute units told it.
    #[must_use]
    pub fn key(&self) -> Key {
        Key(self.sheet.family.key().map(|column| (column, self.value(column))).collect())
    }

    /// What is meant by a cell, whatever a look-up makes of it; an empty text if there is nothing.
    #[must_use]
    pub fn value(&self, column: &str) -> Value {
        match (column, self.cell(column)) {
            // A file that was put together from one with the column and one without has zeros.
            ("gfx", Some("0" | "nan" | "None" | "")) | ("gfx", None) => {
                Value::of(self.number("cu_num").map_or("", gfx_of))
            }
            (_, Some(cell)) if !cell.is_empty() && self.is_text_flag(column) => {
                Value::Integer(i64::from(flag(cell) == Some(true)))
            }
            (_, Some(cell)) => Value::of(cell),
            (_, None) => Value::of(""),
        }
    }

    /// Whether look-ups compare what stands in a column with the text `True`.
    fn is_text_flag(&self, column: &str) -> bool {
        self.sheet.family.reading == Reading::Converted && Column::of(column) == Column::Flag
    }

    /// The columns of its GPU and shape that it has a value for: what an untuned file tells.
    #[must_use]
    pub fn told(&self) -> Key {
        let told = |column: &&str| self.cell(column).is_some_and(|cell| !cell.is_empty());
        Key(self.sheet.family.told().filter(told).map(|column| (column, self.value(column))).collect())
    }

    /// `FILE:LINE`.
    #[must_use]
    pub fn place(&self) -> String {
        format!("{}:{}", self.sheet.path().display(), self.row.line)
    }

    /// The file of the row.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.sheet.path().to_path_buf()
    }
}

/// The architecture of a GPU of so many compute units, as aiter infers it where a file does not say; empty if it can not.
pub(crate) fn gfx_of(cus: f64) -> &'static str {
    match cus as u32 {
        256 => "gfx950",
        80 | 304 => "gfx942",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet(name: &str, text: &str) -> Result<Sheet, Error> {
        Sheet::of(Table::parse(Path::new(name), text.as_bytes().to_vec()).unwrap(), None)
    }

    #[test]
    fn names_and_headers_tell_the_family() {
        for (name, header, family, kind) in [
            ("a8w8_tuned_gemm.csv", "gfx,us", "ck_gemm_a8w8", SheetKind::Tuned),
            ("dsv4_a8w8_blockscale_tuned_gemm.csv", "us", "ck_gemm_a8w8_blockscale", SheetKind::Tuned),
            (
                "a8w8_blockscale_bpreshuffle_untuned_gemm_x.csv",
                "M",
                "ck_gemm_a8w8_blockscale_bpreshuffle",
                SheetKind::Untuned,
            ),
            ("llama70B_untuned_gemm_bf16.csv", "M,N,K,bias,dtype,outdtype,scaleAB", "gemm_a16w16", SheetKind::Untuned),
            ("llama70B_untuned_gemm.csv", "M,N,K", "gemm", SheetKind::Untuned),
            ("tuned_grouped_fmoe.csv", "us", "grouped_fmoe", SheetKind::Tuned),
            (
                "out.csv",
                "gfx,cu_num,M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,solidx",
                "gemm_a16w16",
                SheetKind::Tuned,
            ),
        ] {
            let sheet = sheet(name, header).unwrap();
            assert_eq!((sheet.family.name, sheet.kind), (family, kind), "{name}");
        }
        let error = sheet("shapes.csv", "M,N,K,bias").unwrap_err().to_string();
        assert_eq!(
            error,
            "shapes.csv: family: found columns M,N,K,bias, expected those of one family, or its name given"
        );
    }

    #[test]
    fn a_row_is_read_by_names() {
        let sheet = sheet("x_tuned_fmoe.csv", "cu_num,token,us,err1,err2\n80, 4 ,1.5,1.5%,0.0%\n\n304").unwrap();
        let rows: Vec<View<'_>> = sheet.views().collect();
        assert_eq!((rows[0].us(), rows[0].error(), rows[1].us()), (Some(1.5), Some(0.015), None));
        assert_eq!(rows[0].told().to_string(), "cu_num=80 token=4");
        assert!(rows[1].key().to_string().starts_with("gfx942 cu_num=304"));
        assert_eq!(rows[1].place(), "x_tuned_fmoe.csv:4");
    }
}
