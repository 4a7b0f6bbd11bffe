//! Which shapes have rows that a look-up finds, on which GPU.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::path::Path;

use bluefin_common::target::Target;
use serde::Serialize;

use crate::family::{Column, Reading, Rounding};
use crate::lookup::LookUp;
use crate::rules::TIERS;
use crate::sheet::View;
use crate::table::Row;
use crate::{Error, Family, Key, Rules, Sheet, SheetKind, Table, Value, sheets_of};

/// A shape that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// The operator.
    pub family: &'static Family,
    /// What is told of it; columns that are not match any row.
    pub key: Key,
    /// How often it is asked for.
    pub times: u64,
}

/// The shapes of an untuned file, each once.
#[must_use]
pub fn shapes_of(sheet: &Sheet) -> Vec<Shape> {
    let keys = sheet.views().map(|view| (view.told(), 1));
    gathered(keys.map(|(key, times)| Shape { family: sheet.family, key, times }))
}

/// What a file of shapes lacks that look-ups of its family ask for: a column, or a cell of one. `None`: nothing.
#[must_use]
pub fn lacking(sheet: &Sheet) -> Option<Error> {
    let family = sheet.family;
    let may_lack = |column: &str| family.optional.iter().any(|(known, _)| *known == column);
    let needed: Vec<&str> =
        family.shape.iter().copied().filter(|column| family.asks_for(column) && !may_lack(column)).collect();
    let lacks = |line: u64, found: String, column: &str| Error::Lacks {
        path: sheet.path().to_path_buf(),
        line,
        column: column.to_string(),
        found,
        expected: format!("{} of {}", needed.join(","), family.name),
    };
    if let Some(column) = needed.iter().find(|column| sheet.table.column(column).is_none()) {
        return Some(lacks(sheet.table.header_line(), sheet.table.columns().join(","), column));
    }
    sheet.views().find_map(|view| {
        let empty = needed.iter().find(|column| view.cell(column).is_none_or(str::is_empty))?;
        Some(lacks(view.row.line, "nothing".to_string(), empty))
    })
}

/// The same shapes, each once, in the order in which they first come.
#[must_use]
pub fn gathered(shapes: impl IntoIterator<Item = Shape>) -> Vec<Shape> {
    let mut places: HashMap<(&str, Key), usize> = HashMap::new();
    let mut all: Vec<Shape> = Vec::new();
    for shape in shapes {
        let place = *places.entry((shape.family.name, shape.key.clone())).or_insert(all.len());
        match all.get_mut(place) {
            Some(known) => known.times += shape.times,
            None => all.push(shape),
        }
    }
    all
}

/// How a shape is looked up with success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// There is a row for it.
    Exact,
    /// There is a row for this many rows of A, or tokens, which aiter falls back to.
    Padded(i64),
    /// There is a row for another activation, which aiter falls back to, with this many tokens.
    OtherActivation(i64),
    /// There is a row for another number of compute units, which aiter falls back to, with this many tokens.
    OtherUnits(i64),
    /// There is none: aiter takes its default.
    Missing,
}

/// A shape on a GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Covered {
    /// Name of the family.
    pub family: &'static str,
    /// What was asked for.
    pub key: Key,
    /// How often.
    pub times: u64,
    /// The GPU, such as `gfx942-304`; `any` for files that name none.
    pub gpu: String,
    /// Whether there is a row for it.
    pub presence: Presence,
}

/// Holds shapes against tuned files, for each of `gpus`, or for each that the files of their family name, as look-ups with these
/// `rules` do. What a row's time is, they do not ask.
#[must_use]
pub fn coverage(tuned: &[Sheet], shapes: &[Shape], gpus: &[Target], rules: &Rules) -> Vec<Covered> {
    let mut rows = Rows { tuned, rules, look_ups: HashMap::new(), indices: HashMap::new() };
    let mut named: HashMap<&str, Vec<Gpu>> = HashMap::new();
    let mut all = Vec::new();
    for shape in shapes {
        let family = shape.family;
        let named = named.entry(family.name).or_insert_with(|| named_gpus(tuned, family, gpus));
        for gpu in named.iter().filter(|gpu| gpu.is_meant_by(&shape.key)) {
            let asked =
                shape.key.0.iter().filter(|(column, _)| family.asks_for(column) && !family.gpu.contains(column));
            let key = Key(gpu.key.0.iter().chain(asked).cloned().collect());
            all.push(Covered {
                family: family.name,
                key: shape.key.without(family.gpu),
                times: shape.times,
                gpu: gpu.name.clone(),
                presence: rows.presence(family, &key),
            });
        }
    }
    all
}

/// Which shapes have a row of their own that was measured on `gpu`: what is not tuned once more.
#[must_use]
pub fn measured(tuned: &[Sheet], shapes: &[Shape], gpu: &Target) -> Vec<bool> {
    let mut look_ups: HashMap<&str, LookUp<'_>> = HashMap::new();
    let mut known: HashMap<(&str, Vec<&str>), Index> = HashMap::new();
    let is_measured = |shape: &Shape| {
        let family = shape.family;
        let asked = shape.key.0.iter().filter(|(column, _)| family.asks_for(column) && !family.gpu.contains(column));
        let key = Key(key_of(family, gpu).0.into_iter().chain(asked.cloned()).collect());
        let columns: Vec<&'static str> = key.0.iter().map(|(column, _)| *column).collect();
        let look_up = look_ups.entry(family.name).or_insert_with(|| LookUp::of(tuned, family));
        let rows = known.entry((family.name, columns.clone())).or_insert_with(|| {
            let timed = |view: &View<'_>| family.time().is_none() || view.us().is_some();
            Index::of(sheets_of(tuned, family).flat_map(Sheet::views).filter(timed), look_up, &columns)
        });
        rows.has(&key)
    };
    shapes.iter().map(is_measured).collect()
}

/// What look-ups compare in some columns of a family's rows.
#[derive(Default)]
struct Index {
    rows: HashSet<Key>,
    /// Of rows with an empty cell that is equal to anything, the others.
    open: Vec<Key>,
}

impl Index {
    fn of<'v>(views: impl Iterator<Item = View<'v>>, look_up: &LookUp<'_>, columns: &[&'static str]) -> Self {
        let mut index = Self::default();
        for view in views.filter(|_| !look_up.is_lost) {
            let mut key = Key(columns.iter().map(|column| (*column, look_up.value(&view, column))).collect());
            let is_empty = |value: &Value| matches!(value, Value::Text(text) if text.is_empty());
            if view.sheet.family.reading == Reading::Texts && key.0.iter().any(|(_, value)| is_empty(value)) {
                key.0.retain(|(_, value)| !is_empty(value));
                index.open.push(key);
            } else {
                index.rows.insert(key);
            }
        }
        index
    }

    /// Whether there is a row with these values.
    fn has(&self, key: &Key) -> bool {
        let is_equal = |row: &Key| row.0.iter().all(|(column, value)| key.get(column) == Some(value));
        self.rows.contains(key) || self.open.iter().any(is_equal)
    }
}

/// Rows as look-ups find them.
struct Rows<'a> {
    tuned: &'a [Sheet],
    rules: &'a Rules,
    look_ups: HashMap<&'static str, LookUp<'a>>,
    indices: HashMap<(&'static str, Vec<&'static str>), Index>,
}

impl Rows<'_> {
    /// Whether there is a row with these values.
    fn has(&mut self, family: &'static Family, key: &Key) -> bool {
        let columns: Vec<&'static str> = key.0.iter().map(|(column, _)| *column).collect();
        let (tuned, rules) = (self.tuned, self.rules);
        let look_up = self.look_ups.entry(family.name).or_insert_with(|| LookUp::of(tuned, family));
        let index = self.indices.entry((family.name, columns.clone())).or_insert_with(|| {
            let found = |view: &View<'_>| !is_dropped(view, rules);
            Index::of(sheets_of(tuned, family).flat_map(Sheet::views).filter(found), look_up, &columns)
        });
        index.has(key)
    }

    fn presence(&mut self, family: &'static Family, key: &Key) -> Presence {
        if family.rounding.is_of_tokens() {
            return self.of_tokens(family, key);
        }
        if self.has(family, key) {
            return Presence::Exact;
        }
        let size = |names: [&'static str; 2]| {
            names.into_iter().find_map(|name| match key.get(name) {
                Some(Value::Integer(size)) => Some((name, *size)),
                _ => None,
            })
        };
        let (Some((name, m)), Some((_, n))) = (size(["M", "m"]), size(["N", "n"])) else { return Presence::Missing };
        let k = size(["K", "k"]).map_or(0, |(_, k)| k);
        let rounded = match family.rounding {
            Rounding::Gemm => self.rules.gemm(m, n, k),
            Rounding::Batched => self.rules.batched(m, n, k),
            _ => Vec::new(),
        };
        let hit = rounded.into_iter().find(|m| self.has(family, &key.clone().with(name, Value::Integer(*m))));
        hit.map_or(Presence::Missing, Presence::Padded)
    }

    /// Only rounded numbers are looked up, so that a row of any other is never found.
    fn of_tokens(&mut self, family: &'static Family, key: &Key) -> Presence {
        let Some(Value::Integer(tokens)) = key.get("token").cloned() else {
            return if self.has(family, key) { Presence::Exact } else { Presence::Missing };
        };
        let (rounded, experts) = (self.rules.tokens(tokens), self.rules.experts());
        let mut tiers = vec![rounded];
        if family.rounding == Rounding::Tokens && experts.smaller_tiers {
            tiers.extend(TIERS.iter().rev().filter(|tier| **tier < rounded));
        }
        for tier in tiers {
            let key = key.clone().with("token", Value::Integer(tier));
            if self.has(family, &key) {
                return if tier == tokens { Presence::Exact } else { Presence::Padded(tier) };
            }
            if family.rounding == Rounding::Tokens
                && experts.any_activation
                && self.has(family, &key.without(&["act_type"]))
            {
                return Presence::OtherActivation(tier);
            }
            if family.rounding == Rounding::TokensOfAnyUnits && self.has(family, &key.without(&["cu_num"])) {
                return Presence::OtherUnits(tier);
            }
        }
        Presence::Missing
    }
}

/// Whether look-ups leave a row out, whatever they ask for.
pub(crate) fn is_dropped(view: &View<'_>, rules: &Rules) -> bool {
    let is_fallback = || view.cell("_tag") == Some("flydsl_fallback");
    view.sheet.family.rounding == Rounding::Tokens && rules.experts().drops_fallbacks && is_fallback()
}

/// A GPU as rows name it.
struct Gpu {
    name: String,
    key: Key,
}

impl Gpu {
    fn of(key: Key) -> Self {
        let values: Vec<String> = key.0.iter().map(|(_, value)| value.to_string()).collect();
        Self { name: if values.is_empty() { "any".to_string() } else { values.join("-") }, key }
    }

    /// Whether a shape that may tell its GPU is for this one.
    fn is_meant_by(&self, shape: &Key) -> bool {
        self.key.0.iter().all(|(column, value)| shape.get(column).is_none_or(|told| told == value))
    }
}

/// What a family's files have of a GPU.
fn key_of(family: &Family, gpu: &Target) -> Key {
    let all = [("gfx", Value::of(gpu.arch())), ("cu_num", Value::Integer(i64::from(gpu.cus())))];
    Key(all.into_iter().filter(|(column, _)| family.gpu.contains(column)).collect())
}

/// Those that are asked for, otherwise those that files of the family name, in order.
fn named_gpus(tuned: &[Sheet], family: &'static Family, gpus: &[Target]) -> Vec<Gpu> {
    let named: BTreeSet<Key> = match gpus {
        [] => sheets_of(tuned, family).flat_map(Sheet::views).map(|view| view.key().only(family.gpu)).collect(),
        gpus => gpus.iter().map(|gpu| key_of(family, gpu)).collect(),
    };
    named.into_iter().map(Gpu::of).collect()
}

/// How many shapes of a family and a GPU have rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// That look-ups find a row for without rounding.
    pub tuned: u64,
    /// Those of them whose row is another activation's, or of another number of compute units.
    pub others: u64,
    /// Whose row is of the number that look-ups round to.
    pub padded: u64,
    /// That have none.
    pub missing: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tuned, others, padded, missing } = self;
        write!(f, "{tuned} tuned, {padded} padded, {missing} missing")?;
        match others {
            0 => Ok(()),
            others => write!(f, "; {others} of the tuned by a row of another activation or number of compute units"),
        }
    }
}

/// The counts of each family and GPU.
#[must_use]
pub fn summary(covered: &[Covered]) -> BTreeMap<(&'static str, String), Counts> {
    let mut all: BTreeMap<(&'static str, String), Counts> = BTreeMap::new();
    for one in covered {
        let counts = all.entry((one.family, one.gpu.clone())).or_default();
        match one.presence {
            Presence::Exact => counts.tuned += 1,
            Presence::OtherActivation(_) | Presence::OtherUnits(_) => {
                counts.tuned += 1;
                counts.others += 1;
            }
            Presence::Padded(_) => counts.padded += 1,
            Presence::Missing => counts.missing += 1,
        }
    }
    all
}

/// Adds shapes to an untuned file, those that it has left out. Returns how many are new.
pub fn extend(table: &mut Table, family: &'static Family, shapes: &[&Shape]) -> u64 {
    let columns: Vec<String> = table.columns().to_vec();
    let told = |key: &Key| Key(key.0.iter().filter(|(name, _)| columns.iter().any(|c| c == name)).cloned().collect());
    let sheet = Sheet { table: table.clone(), family, kind: SheetKind::Untuned };
    let mut known: BTreeSet<Key> = sheet.views().map(|view| told(&view.told())).collect();
    let mut added = 0;
    for shape in shapes {
        let key = told(&as_tuners_read(&shape.key).without(family.gpu));
        if known.insert(key.clone()) {
            let cell = |column: &String| {
                let told = key.get(column).map(|value| spelled(column, value));
                told.unwrap_or_else(|| family.default(column).to_string())
            };
            let cells: Vec<String> = columns.iter().map(cell).collect();
            table.rows.push(Row::of(cells.iter().map(String::as_str)));
            added += 1;
        }
    }
    added
}

/// A shape in the words of tuners: weights of four bits that a model has packed into numbers of 32 bits are `torch.int4` to them.
fn as_tuners_read(key: &Key) -> Key {
    let packed = key.get("q_dtype_w") == Some(&Value::of("torch.uint32"));
    if packed { key.clone().with("q_dtype_w", Value::of("torch.int4")) } else { key.clone() }
}

/// An untuned file of no shape.
#[must_use]
pub fn untuned(path: &Path, family: &'static Family) -> Table {
    Table::new(path, family.untuned_columns())
}

/// As aiter's own files spell it.
#[must_use]
pub fn spelled(column: &str, value: &Value) -> String {
    match (Column::of(column), value) {
        // Those of MoE are numbers.
        (Column::Flag, Value::Integer(flag)) if !matches!(column, "use_g1u1" | "doweight_stage1") => {
            (if *flag == 0 { "False" } else { "True" }).to_string()
        }
        (_, value) => value.to_string(),
    }
}
