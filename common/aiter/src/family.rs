//! What is known of the files of one of aiter's operators.

use std::path::Path;

use bluefin_common::arch::{self, Vendor};
use bluefin_common::problem::AiterProblem;
use bluefin_common::target::Target;

use crate::key::whole;
use crate::{Key, Row, Table, Value};

/// An operator of aiter's: the columns of its files, and what their numbers mean.
#[derive(Debug, PartialEq)]
pub struct Family {
    /// As aiter's CI names it; what it has no name for is named alike.
    pub name: &'static str,
    /// What the names of its tuned files hold; those of untuned ones have `untuned` for `tuned`.
    pub file: &'static str,
    /// Columns that say which GPU a row is for.
    pub gpu: &'static [&'static str],
    /// Columns that say which shape it is for: the header of an untuned file.
    pub shape: &'static [&'static str],
    /// Columns of the key that only some files have. A row without one is as one where it is empty.
    pub sometimes: &'static [&'static str],
    /// Columns of the shape that are no part of the key: rows that differ in nothing else are of one key.
    pub aside: &'static [&'static str],
    /// Columns of the key that look-ups do not ask for.
    pub unasked: &'static [&'static str],
    /// Columns of what was found that every file has. A tuner may write more.
    pub results: &'static [&'static str],
    /// Columns of what was found that only some files have, and what a row without one stands for.
    pub optional: &'static [(&'static str, &'static str)],
    /// Columns that rows are sorted by.
    pub sort: &'static [&'static str],
    /// Columns of the share of elements that differ from the reference, or of the distance to it; in percent where they say so.
    pub errors: &'static [&'static str],
    /// The most of it that aiter's tuner takes by default.
    pub error_limit: f64,
    /// What `tflops` and `bw` are computed from.
    pub work: ShapeWork,
    /// How a look-up that finds nothing is repeated.
    pub rounding: Rounding,
    /// What comes of two rows of one key.
    pub duplicates: Duplicates,
    /// Columns of the key that aiter does not compare when it puts files together and raises an error for rows that are alike.
    pub uncounted: &'static [&'static str],
    /// How its look-up reads its files.
    pub reading: Reading,
    /// What tunes it; `None`: nothing that is run on its own.
    pub tuner: Option<Tuner>,
}

/// The cells of a row, by the names of their columns, in its order.
pub type NamedCells = Vec<(String, String)>;

/// A script of aiter's that tunes a family, in aiter's folder.
#[derive(Debug, PartialEq)]
pub struct Tuner {
    /// Takes the arguments that all of them take.
    pub script: &'static str,
    /// What it needs beside those.
    pub arguments: &'static [&'static str],
    /// Names of the scripts that test the operator, of which the first that is there is run; where they are differs by aiter's version.
    pub tests: &'static [&'static str],
    /// Whether aiter's CI tunes the family where nobody names one.
    pub by_default: bool,
}

/// What a shape takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ShapeWork {
    /// A product of matrices, or a batch of them, whose elements are of so many bytes: A, B, C.
    Gemm {
        /// Of an element of each matrix.
        bytes: [f64; 3],
        /// As tuners counted before, whose rows are still there.
        before: Option<[f64; 3]>,
    },
    /// Two or three products for each expert of each token. What it moves depends on how tokens spread.
    Moe,
    /// Not told by the file.
    Unknown,
}

/// How a look-up rounds the number of rows. What that is in numbers, [`crate::Rules`] know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Only rows of their own number are found.
    No,
    /// A GEMM's M, twice, where its own number has no row.
    Gemm,
    /// A batched GEMM's M, once, where its own number has no row.
    Batched,
    /// Tokens of a mixture of experts: always, so that rows of other numbers are never found. Another activation's row is taken where
    /// there is none.
    Tokens,
    /// The same, with neither another activation nor a smaller number in place of what is missing.
    ExactTokens,
    /// The same; a row of another number of compute units is taken where there is none.
    TokensOfAnyUnits,
}

impl Rounding {
    /// Whether all that is looked up are rounded numbers of tokens.
    #[must_use]
    pub const fn is_of_tokens(self) -> bool {
        matches!(self, Self::Tokens | Self::ExactTokens | Self::TokensOfAnyUnits)
    }
}

/// What comes of two rows of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// aiter raises an error when it puts files together, and look-ups do when they read one.
    Refused,
    /// aiter puts files together all the same, as it has no untuned file of the family; the look-up raises an error when it reads them.
    RefusedByLookUps,
    /// Look-ups take the faster one of a file. aiter raises an error when it puts files together.
    Allowed,
}

/// How a look-up reads its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// By pandas' `read_csv`: a column has one type, and texts keep the white space around them.
    Typed,
    /// By Python's `csv`: texts without the white space around them, compared as texts. An empty cell is equal to anything.
    Texts,
    /// By Python's `csv`, without lines that begin with `#`: numbers by `int`, flags are true if they are the text `True`. One row with
    /// anything else costs the whole table.
    Converted,
}

/// What is read of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// A size, from 1.
    Size,
    /// A whole number; -1 stands for what does not apply.
    Integer,
    /// A number.
    Number,
    /// A share: a number that percent stands behind, or in some rows one that does not.
    Percent,
    /// `True`, `False`, 1 or 0.
    Flag,
    /// An architecture.
    Gfx,
    /// Whatever a kernel, a type or an enum is called.
    Text,
}

impl Column {
    /// By its name, which means the same in every family.
    #[must_use]
    pub fn of(name: &str) -> Self {
        match name {
            "B" | "M" | "N" | "K" | "b" | "m" | "n" | "k" | "cu_num" | "token" | "model_dim" | "inter_dim"
            | "expert" | "V" | "BT" | "H" | "Hg" | "T_flat" | "total_chunks" | "max_seq_chunks" | "BV" => Self::Size,
            "kernelId" | "solidx" | "splitK" | "block_m" | "ksplit" | "topk" | "shared_expert_id" | "hidden_pad"
            | "intermediate_pad" | "flat" => Self::Integer,
            "us" | "us1" | "us2" | "tflops" | "bw" | "errRatio" | "err_ratio" => Self::Number,
            "err1" | "err2" => Self::Percent,
            "bias" | "scaleAB" | "bpreshuffle" | "use_g1u1" | "doweight_stage1" | "is_varlen" | "use_h0"
            | "store_fs" | "snapshot_bf16" | "state_bf16" | "run_1stage" | "xbf16" => Self::Flag,
            "gfx" => Self::Gfx,
            _ => Self::Text,
        }
    }

    /// Reads a cell, without the white space around it.
    ///
    /// # Errors
    /// What it should have been.
    pub fn read(self, cell: &str) -> Result<f64, &'static str> {
        let whole = || whole(cell);
        match self {
            Self::Size => whole().filter(|size| *size > 0).map(|size| size as f64).ok_or("a whole number from 1"),
            Self::Integer => whole().filter(|id| *id >= -1).map(|id| id as f64).ok_or("a whole number"),
            Self::Number => cell.parse().map_err(|_| "a number"),
            Self::Percent => {
                let (number, whole) = cell.strip_suffix('%').map_or((cell, 1.0), |percent| (percent, 100.0));
                number.parse::<f64>().map(|number| number / whole).map_err(|_| "a number and %")
            }
            Self::Flag => match Value::of(cell) {
                Value::Integer(flag @ 0..=1) => Ok(flag as f64),
                _ => Err("True, False, 1 or 0"),
            },
            Self::Gfx => {
                let is_one = arch::is_name(cell) && arch::vendor(cell) == Some(Vendor::Amd);
                is_one.then_some(0.0).ok_or("gfx and its number")
            }
            Self::Text => Ok(0.0),
        }
    }
}

impl Family {
    /// All columns of the GPU and the shape, in the order of the files.
    pub fn told(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.gpu.iter().chain(self.shape).chain(self.sometimes).copied()
    }

    /// All columns of the key, in the order of the files.
    pub fn key(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.told().filter(|column| !self.aside.contains(column))
    }

    /// Whether look-ups ask for the column.
    #[must_use]
    pub fn asks_for(&self, column: &str) -> bool {
        self.key().any(|known| known == column) && !self.unasked.contains(&column)
    }

    /// All columns that a tuned file has, in their order.
    pub fn columns(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.gpu.iter().chain(self.shape).chain(self.results).copied()
    }

    /// Whether one of its files may have the column.
    #[must_use]
    pub fn knows(&self, column: &str) -> bool {
        self.told().any(|known| known == column)
            || self.results.contains(&column)
            || self.optional.iter().any(|(known, _)| *known == column)
    }

    /// What a row without the column stands for.
    #[must_use]
    pub fn default(&self, column: &str) -> &'static str {
        self.optional.iter().find(|(known, _)| *known == column).map_or("", |(_, default)| default)
    }

    /// The column of the time; `None` if its files have none.
    #[must_use]
    pub fn time(&self) -> Option<&'static str> {
        self.results.iter().find(|column| **column == "us").copied()
    }

    /// The columns of the GPU and the shape that a shape tells.
    #[must_use]
    pub fn key_of(&self, shape: &AiterProblem) -> Key {
        let value =
            |column: &str| shape.shape.iter().find(|(name, _)| name == column).map(|(_, value)| Value::of(value));
        Key(self.told().filter_map(|column| Some((column, value(column)?))).collect())
    }

    /// The row of a shape in a tuned file, by the names of columns, and what it is looked up by. `found`: the columns of what was
    /// found, and their cells, each separated by commas.
    #[must_use]
    pub fn row(&self, target: &Target, shape: &AiterProblem, found: (&str, &str)) -> (Key, NamedCells) {
        let cell = |column: &str| match column {
            "gfx" => target.arch().to_string(),
            "cu_num" => target.cus().to_string(),
            column => {
                let found = shape.shape.iter().find(|(name, _)| name == column);
                found.map_or_else(|| self.default(column).to_string(), |(_, value)| value.clone())
            }
        };
        // Of those that only some files have, those that the shape tells.
        let is_told = |column: &&str| shape.shape.iter().any(|(name, _)| name == column);
        let known: Vec<&'static str> =
            self.told().filter(|column| !self.sometimes.contains(column) || is_told(column)).collect();
        let mut row: NamedCells = known.iter().map(|column| ((*column).to_string(), cell(column))).collect();
        let key = known.iter().filter(|column| !self.aside.contains(column));
        let key = Key(key.map(|column| (*column, Value::of(&cell(column)))).collect());
        let (columns, cells) = found;
        row.extend(
            columns.split(',').zip(cells.split(',')).map(|(column, cell)| (column.to_string(), cell.to_string())),
        );
        (key, row)
    }

    /// The columns of a new untuned file: all that look-ups ask for of a shape.
    pub fn untuned_columns(&self) -> impl Iterator<Item = &'static str> + '_ {
        let asked = self.sometimes.iter().filter(|column| self.asks_for(column));
        self.shape.iter().chain(asked).copied()
    }

    /// The columns of what was found that every file has, separated by commas.
    #[must_use]
    pub fn usual_results(&self) -> String {
        self.results.join(",")
    }

    /// A tuned file of these rows, in their order. A column that not all have stands behind the one that it follows in its row.
    #[must_use]
    pub fn table<'a>(&self, path: &Path, rows: impl IntoIterator<Item = &'a [(String, String)]>) -> Table {
        let rows: Vec<&[(String, String)]> = rows.into_iter().collect();
        let mut columns: Vec<&str> = self.columns().collect();
        for row in &rows {
            let mut before = None;
            for (column, _) in *row {
                if !columns.contains(&column.as_str()) {
                    let known = before.and_then(|before| columns.iter().position(|known| *known == before));
                    columns.insert(known.map_or(columns.len(), |place| place + 1), column);
                }
                before = Some(column.as_str());
            }
        }
        let mut table = Table::new(path, columns.iter().copied());
        for row in rows {
            let cell = |column: &&str| {
                let found = row.iter().find(|(name, _)| name == column);
                found.map_or_else(|| self.default(column), |(_, cell)| cell.as_str())
            };
            table.rows.push(Row::of(columns.iter().map(cell)));
        }
        table
    }

    /// The name of its untuned file.
    #[must_use]
    pub fn untuned_file(&self) -> String {
        format!("{}.csv", self.file.replace("tuned", "untuned"))
    }

    /// The name of its tuned file.
    #[must_use]
    pub fn tuned_file(&self) -> String {
        format!("{}.csv", self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_read_by_their_column() {
        for (column, cell, value) in [
            ("M", "64", 64.0),
            ("cu_num", "304.0", 304.0),
            ("splitK", "0", 0.0),
            ("us", "inf", f64::INFINITY),
            ("err1", "1.5%", 0.015),
            ("err2", "0.0", 0.0),
            ("bias", "False", 0.0),
            ("use_g1u1", "1", 1.0),
        ] {
            assert_eq!(Column::of(column).read(cell), Ok(value), "{column}");
        }
        for (column, cell) in [
            ("M", "0"),
            ("M", "1.5"),
            ("splitK", "-2"),
            ("us", "fast"),
            ("err2", "none"),
            ("bias", "no"),
            ("gfx", "942"),
        ] {
            assert!(Column::of(column).read(cell).is_err(), "{column}");
        }
    }

    #[test]
    fn a_row_has_what_its_shape_tells() {
        let family = crate::families::FAMILIES.iter().find(|family| family.name == "grouped_fmoe").unwrap();
        let shape: Vec<(String, String)> =
            family.told().skip(2).map(|column| (column.to_string(), "1".to_string())).collect();
        let shape = AiterProblem::new(family.name.to_string(), shape).unwrap();
        let target = "gfx1250-256".parse().unwrap();
        let (_, row) = family.row(&target, &shape, (&family.usual_results(), "2"));
        let table = family.table(Path::new("x.csv"), [row.as_slice()]);
        let columns = table.columns().join(",");
        assert!(columns.contains(",doweight_stage1,gate_mode,max_m,tile_m,tile_n,tile_k,m_warp,"), "{columns}");
        assert_eq!(table.rows[0].cells()[14..16], ["1", "2"]);
    }

    #[test]
    fn rows_of_different_columns_make_one_table() {
        let family = crate::families::FAMILIES.iter().find(|family| family.name == "asm_gemm_a8w8").unwrap();
        let shape = |m: &str| {
            let told = [("M", m), ("N", "8"), ("K", "8"), ("bias", "0"), ("outdtype", "x")];
            let told = told.map(|(column, value)| (column.to_string(), value.to_string())).to_vec();
            AiterProblem::new(family.name.to_string(), told).unwrap()
        };
        let target = "gfx942-304".parse().unwrap();
        let row = |m: &str, columns: &str, cells: &str| family.row(&target, &shape(m), (columns, cells)).1;
        // As outcomes of earlier releases have them, and with a column of the tuner's own.
        let rows = [row("1", &family.usual_results(), "2,5.0"), row("2", "splitK,mood,us", "3,good,6.0")];
        let table = family.table(Path::new("x.csv"), rows.iter().map(Vec::as_slice));
        let expected = "M,N,K,bias,outdtype,splitK,mood,us\n1,8,8,0,x,2,,5.0\n2,8,8,0,x,3,good,6.0\n";
        assert_eq!(table.to_bytes(), expected.as_bytes());
    }
}
