//! What look-ups compare in the rows of a family's tuned files. pandas gives a column one type, so that one odd cell changes what all
//! rows are compared as; and where there are several files, aiter puts them together with pandas first, and look-ups read the result.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use crate::family::{Column, Duplicates, Reading};
use crate::key::{flag, whole};
use crate::sheet::View;
use crate::{Family, Key, Sheet, Value, sheets_of};

/// What pandas takes for no value (`STR_NA_VALUES` in `pandas/_libs/parsers.pyx`).
const NO_VALUE: [&str; 19] = [
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "None", "n/a", "nan", "null",
];

/// What pandas makes of a cell by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CellKind {
    Flag,
    Whole,
    Decimal,
    Text,
    Empty,
}

impl CellKind {
    /// White space may be around numbers, and makes a text of anything else.
    pub(crate) fn of(cell: &str) -> Self {
        let number = number(cell);
        match cell {
            _ if NO_VALUE.contains(&cell) => Self::Empty,
            _ if flag(cell).is_some() => Self::Flag,
            _ if number.parse::<i64>().is_ok() => Self::Whole,
            _ if number.parse::<f64>().is_ok_and(|number| !number.is_nan()) => Self::Decimal,
            _ => Self::Text,
        }
    }

    /// Whether it is a number.
    pub(crate) const fn is_number(self) -> bool {
        matches!(self, Self::Whole | Self::Decimal)
    }
}

/// Without what may be around a number: the white space of ASCII.
fn number(cell: &str) -> &str {
    cell.trim_matches(|sign| matches!(sign, ' ' | '\t'..='\r'))
}

/// How many cells of each kind a column has.
type Kinds = BTreeMap<CellKind, u64>;

/// How pandas stores a column, from which follows what it makes of columns that it puts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum StoredType {
    Bool,
    Int,
    /// Numbers of which some are none, or not whole.
    Float,
    /// Each cell by itself.
    Object,
}

impl StoredType {
    fn of(kinds: &Kinds) -> Self {
        let is_of = |known: &[CellKind]| kinds.keys().all(|kind| known.contains(kind));
        match () {
            () if is_of(&[CellKind::Flag]) => Self::Bool,
            () if is_of(&[CellKind::Whole]) => Self::Int,
            () if is_of(&[CellKind::Whole, CellKind::Decimal, CellKind::Empty]) => Self::Float,
            () => Self::Object,
        }
    }
}

/// The type that pandas gives a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnType {
    Flags,
    Numbers,
    Text,
}

impl ColumnType {
    fn of(kinds: &Kinds) -> Self {
        let has = |wanted: fn(CellKind) -> bool| kinds.keys().any(|kind| wanted(*kind));
        match (has(|kind| kind == CellKind::Flag), has(CellKind::is_number), has(|kind| kind == CellKind::Text)) {
            (true, false, false) => Self::Flags,
            (false, _, false) => Self::Numbers,
            _ => Self::Text,
        }
    }

    /// A cell of such a column.
    fn value(self, cell: &str) -> Value {
        match self {
            _ if CellKind::of(cell) == CellKind::Empty => Value::Text("".into()),
            Self::Text => Value::Text(cell.into()),
            Self::Flags => Value::Integer(i64::from(flag(cell) == Some(true))),
            Self::Numbers => {
                let cell = number(cell);
                whole(cell).map_or_else(|| Value::Text(cell.into()), Value::Integer)
            }
        }
    }
}

/// The tuned files of a family, as its look-ups read them.
pub(crate) struct LookUp<'a> {
    family: &'static Family,
    /// Whether aiter puts files together before.
    pub(crate) several: bool,
    /// What stands in the columns of each file.
    own: HashMap<(&'a Path, &'static str), Kinds>,
    /// The same of all files together.
    all: HashMap<&'static str, Kinds>,
    /// How pandas stores the columns of all files together.
    together: HashMap<&'static str, StoredType>,
    /// Whether something costs the whole table.
    pub(crate) is_lost: bool,
}

impl<'a> LookUp<'a> {
    /// Of the tuned files of `family` among `sheets`.
    pub(crate) fn of(sheets: &'a [Sheet], family: &'static Family) -> Self {
        let files: Vec<&Sheet> = sheets_of(sheets, family).collect();
        let mut look_up = Self {
            family,
            several: files.len() > 1,
            own: HashMap::new(),
            all: HashMap::new(),
            together: HashMap::new(),
            is_lost: false,
        };
        for sheet in &files {
            for view in sheet.views() {
                for column in read_columns(family) {
                    let Some(cell) = view.bare_cell(column) else { continue };
                    let kinds = look_up.own.entry((sheet.path(), column)).or_default();
                    *kinds.entry(CellKind::of(cell)).or_default() += 1;
                }
            }
        }
        for column in read_columns(family) {
            look_up.put_columns_together(&files, column);
        }
        // pandas does not know comments when it puts files together.
        look_up.is_lost = (look_up.several && files.iter().any(|sheet| sheet.table.comments().next().is_some()))
            || files.iter().flat_map(|sheet| sheet.views()).any(|view| look_up.stops_at(&view).is_some())
            || files.iter().any(|sheet| look_up.lacks_a_name(sheet));
        look_up
    }

    /// Whether a name is there with white space alone, of a column without which pandas raises an error.
    fn lacks_a_name(&self, sheet: &Sheet) -> bool {
        let table = &sheet.table;
        let mut names = table.bare_columns().iter().zip(table.columns()).filter(|(bare, column)| bare != column);
        let is_asked = |column: &str| self.family.asks_for(column) && !self.all.contains_key(column);
        self.family.reading == Reading::Typed && names.any(|(_, column)| is_asked(column))
    }

    /// What becomes of a column that has a type in each file. A file without it is filled with 0, but for the architecture.
    fn put_columns_together(&mut self, files: &[&'a Sheet], column: &'static str) {
        let (mut all, mut types) = (Kinds::new(), BTreeSet::new());
        for sheet in files.iter().filter(|sheet| sheet.views().next().is_some()) {
            let zeros = || Kinds::from([(CellKind::Whole, sheet.table.records().count() as u64)]);
            let kinds = match self.own.get(&(sheet.path(), column)) {
                Some(kinds) => kinds.clone(),
                None if column == "gfx" => continue,
                None => zeros(),
            };
            types.insert(StoredType::of(&kinds));
            kinds.into_iter().for_each(|(kind, count)| *all.entry(kind).or_default() += count);
        }
        if !self.own.keys().any(|(_, known)| *known == column) {
            return;
        }
        let is_of = |known: &[StoredType]| types.iter().all(|stored| known.contains(stored));
        let together = match () {
            () if is_of(&[StoredType::Bool]) => StoredType::Bool,
            () if is_of(&[StoredType::Bool, StoredType::Int]) => StoredType::Int,
            () if is_of(&[StoredType::Int, StoredType::Float]) => StoredType::Float,
            () => StoredType::Object,
        };
        if together == StoredType::Int {
            all = Kinds::from([(CellKind::Whole, all.values().sum())]);
        }
        self.all.insert(column, all);
        self.together.insert(column, together);
    }

    fn type_in(&self, view: &View<'_>, column: &'static str) -> ColumnType {
        self.own.get(&(view.sheet.path(), column)).map_or(ColumnType::Text, ColumnType::of)
    }

    /// The text of a cell in the file that look-ups read. `None`: there is no such column.
    pub(crate) fn written<'v>(&self, view: &'v View<'_>, column: &'static str) -> Option<Cow<'v, str>> {
        let Some(cell) = view.bare_cell(column) else {
            return match column {
                "gfx" if self.several || self.family.reading == Reading::Typed => {
                    Some(Cow::Owned(view.value("gfx").to_string()))
                }
                _ => (self.several && self.all.contains_key(column)).then_some(Cow::Borrowed("0")),
            };
        };
        if !self.several {
            return Some(Cow::Borrowed(cell));
        }
        let together = self.together.get(column).copied();
        Some(match (CellKind::of(cell), self.type_in(view, column)) {
            (CellKind::Empty, _) => Cow::Borrowed(""),
            (_, ColumnType::Text) => Cow::Borrowed(cell),
            // Truth values become numbers beside whole numbers.
            (_, ColumnType::Flags) => Cow::Borrowed(match (flag(cell), together == Some(StoredType::Int)) {
                (Some(true), true) => "1",
                (Some(true), false) => "True",
                (_, true) => "0",
                (_, false) => "False",
            }),
            (_, ColumnType::Numbers) => {
                let own = || self.own.get(&(view.sheet.path(), column)).map(StoredType::of);
                let are_floats = match together {
                    Some(StoredType::Object) => own() == Some(StoredType::Float),
                    together => together == Some(StoredType::Float),
                };
                match whole(number(cell)) {
                    Some(whole) if are_floats => Cow::Owned(format!("{whole}.0")),
                    Some(whole) => Cow::Owned(whole.to_string()),
                    None => Cow::Borrowed(number(cell)),
                }
            }
        })
    }

    /// What a look-up compares in a column; an empty text if there is nothing.
    pub(crate) fn value(&self, view: &View<'_>, column: &'static str) -> Value {
        let Some(text) = self.written(view, column) else { return Value::Text("".into()) };
        let stripped = text.trim();
        match self.family.reading {
            // Those of mixtures of experts infer what is not there, and what stands for it.
            Reading::Typed if column == "gfx" && self.family.rounding.is_of_tokens() => match CellKind::of(&text) {
                CellKind::Empty | CellKind::Whole => view.value(column),
                _ => Value::Text(text.into()),
            },
            Reading::Typed => self.all.get(column).map_or(ColumnType::Text, ColumnType::of).value(&text),
            // White space alone is no empty cell.
            Reading::Texts if stripped.is_empty() => Value::Text(text.into()),
            Reading::Texts => match stripped.parse::<i64>() {
                Ok(number) if number.to_string() == stripped => Value::Integer(number),
                _ => Value::Text(stripped.into()),
            },
            Reading::Converted => match Column::of(column) {
                Column::Flag => Value::Integer(i64::from(stripped == "True")),
                Column::Size => stripped.parse().map_or_else(|_| Value::Text(stripped.into()), Value::Integer),
                _ => Value::Text(stripped.into()),
            },
        }
    }

    /// The column of a row at which the reading of the whole table ends.
    pub(crate) fn stops_at(&self, view: &View<'_>) -> Option<&'static str> {
        let text = |column| self.written(view, column);
        let is_blank = |column| text(column).is_none_or(|text| text.trim().is_empty());
        if self.family.reading != Reading::Converted || is_blank("BV") {
            return None;
        }
        let mut columns = read_columns(self.family).filter(|column| self.family.asks_for(column) || *column == "BV");
        columns.find(|column| match Column::of(column) {
            Column::Size if *column == "cu_num" && is_blank(column) => false,
            Column::Size => text(column).is_none_or(|text| text.trim().parse::<i64>().is_err()),
            Column::Flag => text(column).is_none(),
            _ => false,
        })
    }

    /// What the cells of a column should be of, where they are of several kinds, so that pandas takes all for text and no row is
    /// found; `None` if they are not.
    pub(crate) fn mixed(&self, column: &str) -> Option<CellKind> {
        let kinds = self.all.get(column).filter(|kinds| ColumnType::of(kinds) == ColumnType::Text)?;
        let count = |kind: CellKind| kinds.get(&kind).copied().unwrap_or(0);
        if self.family.reading != Reading::Typed || !self.family.asks_for(column) {
            return None;
        }
        match Column::of(column) {
            Column::Size | Column::Integer => Some(CellKind::Whole),
            Column::Flag if count(CellKind::Whole) + count(CellKind::Decimal) > count(CellKind::Flag) => {
                Some(CellKind::Whole)
            }
            Column::Flag => Some(CellKind::Flag),
            _ => None,
        }
    }

    /// What aiter tells rows apart by when it puts files together. `None` where there is one file, or it does not look.
    pub(crate) fn put_together(&self, view: &View<'_>) -> Option<Key> {
        if !self.several || self.family.duplicates == Duplicates::RefusedByLookUps {
            return None;
        }
        let is_compared = |column: &&str| !self.family.uncounted.contains(column) && self.all.contains_key(column);
        let value = |column: &'static str| match view.bare_cell(column) {
            Some(cell) => self.type_in(view, column).value(cell),
            None if column == "gfx" => view.value(column),
            None => Value::Integer(0),
        };
        Some(Key(self.family.key().filter(is_compared).map(|column| (column, value(column))).collect()))
    }

    /// What rows of one file are told apart by: as it is compared where look-ups ask for it.
    pub(crate) fn key(&self, view: &View<'_>) -> Key {
        let is_compared = |column| self.family.reading == Reading::Typed && self.family.asks_for(column);
        let value = |column| if is_compared(column) { self.value(view, column) } else { view.value(column) };
        Key(self.family.key().map(|column| (column, value(column))).collect())
    }
}

/// The columns whose cells matter to what rows are found.
fn read_columns(family: &'static Family) -> impl Iterator<Item = &'static str> {
    let converted = (family.reading == Reading::Converted).then_some(family.results);
    family.told().chain(converted.unwrap_or_default().iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Table;

    fn sheet(name: &str, text: &str) -> Sheet {
        Sheet::of(Table::parse(Path::new(name), text.as_bytes().to_vec()).unwrap(), None).unwrap()
    }

    /// As `pandas.read_csv` of 3.1 types columns of these cells.
    #[test]
    fn a_column_has_the_type_that_pandas_gives_it() {
        use ColumnType::{Flags, Numbers, Text};
        for (cells, expected) in [
            (&["True", "tRUE", "fALSE", "FALSE"][..], Flags),
            (&["True", "", "nan"], Flags),
            (&["True "], Text),
            (&[" False"], Text),
            (&["True", "1"], Text),
            (&["False", "0"], Text),
            (&["True", "0.0"], Text),
            (&["1", "0"], Numbers),
            (&["64 ", "\t64\t", "\u{b}64", "+64", "064", "6.4e1", "64.", ".5", "-inf", "Infinity"], Numbers),
            (&["1", "NA", "null", "None", "N/A", ""], Numbers),
            (&["1", "Null"], Text),
            (&["1", "  "], Text),
            (&["\u{a0}64"], Text),
            (&["0x40"], Text),
            (&["1_000"], Text),
            (&["1e"], Text),
            (&["6 4"], Text),
            (&["99999999999999999999", "1e400"], Numbers),
        ] {
            let mut kinds = Kinds::new();
            cells.iter().for_each(|cell| *kinds.entry(CellKind::of(cell)).or_default() += 1);
            assert_eq!(ColumnType::of(&kinds), expected, "{cells:?}");
        }
        assert_eq!(Numbers.value(" 6.4e1"), Value::Integer(64));
        assert_eq!(Text.value("64"), Value::Text("64".into()));
        assert_eq!([Flags.value("fALSE"), Flags.value("TRUE")], [Value::Integer(0), Value::Integer(1)]);
    }

    /// As `pandas.concat` of both files writes them.
    #[test]
    fn several_files_are_read_as_they_are_written_together() {
        let files = |one: &str, other: &str| {
            let file =
                |name: &str, token: &str| sheet(name, &format!("gfx,cu_num,token,topk,us\ngfx1250,256,{token},6,1\n"));
            [file("tuned_grouped_fmoe.csv", one), file("x_tuned_grouped_fmoe.csv", other)]
        };
        let written = |sheets: &[Sheet]| -> Vec<String> {
            let look_up = LookUp::of(sheets, sheets[0].family);
            let views: Vec<View<'_>> = sheets.iter().flat_map(Sheet::views).collect();
            views.iter().map(|view| look_up.written(view, "token").unwrap().into_owned()).collect()
        };
        for (one, other, expected) in [
            (" 064", "32", ["64", "32"]),
            ("64.0", "32", ["64.0", "32.0"]),
            ("64", "", ["64.0", ""]),
            ("64", "x", ["64", "x"]),
            ("64.0", "x", ["64.0", "x"]),
            ("TRUE", "1", ["1", "1"]),
            ("fALSE", "1.5", ["False", "1.5"]),
            ("TRUE", "x", ["True", "x"]),
        ] {
            assert_eq!(written(&files(one, other)), expected, "{one:?} {other:?}");
            let alone = sheet("tuned_grouped_fmoe.csv", &format!("gfx,token,us\ngfx1250,{one},1\n"));
            assert_eq!(written(&[alone]), [one]);
        }
    }
}
