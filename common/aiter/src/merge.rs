//! Rows of several files in one, which stays as it is where nothing is changed.

mod folder;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use serde::Serialize;

pub use folder::into_folder;

use crate::family::Duplicates;
use crate::sheet::{View, gfx_of};
use crate::table::Row;
use crate::{Error, Key, Sheet, SheetKind, Value, exceeds};

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
/// are sorted as aiter sorts them, otherwise to the end. Where a row stands in place of others of its key it stands alone, unless
/// look-ups choose among them. A column of a new row that `base` has not is put in, as aiter's tuners do.
///
/// # Errors
/// If a file is of another family.
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
    let named = with_gfx(&base, newer);
    let sorted = named.kind == SheetKind::Tuned && is_sorted(&named);
    let mut merging = Merging::begin(&named, terms);
    let views: Vec<View<'_>> = newer.iter().flat_map(Sheet::views).collect();
    let told: Vec<Merged> = views.iter().map(|view| merging.offer(view)).collect();
    let Merging { taken, gone, mut added, .. } = merging;
    if taken.is_empty() && added.is_empty() {
        return Ok((base, told));
    }
    added.sort_by(|(one, _), (other, _)| one.cmp(other));
    let all: Vec<&View<'_>> = taken.values().chain(added.iter().map(|(_, view)| view)).copied().collect();
    let mut merged = named.clone();
    widen(&mut merged, &all);
    let fitted: Vec<(usize, Row)> = taken.iter().map(|(place, view)| (*place, fit(&merged, view))).collect();
    let behind: Vec<Row> = added.iter().map(|(_, view)| fit(&merged, view)).collect();
    let mut rows: Vec<Option<Row>> = std::mem::take(&mut merged.table.rows).into_iter().map(Some).collect();
    for (place, row) in
        gone.into_iter().map(|place| (place, None)).chain(fitted.into_iter().map(|(place, row)| (place, Some(row))))
    {
        if let Some(standing) = rows.get_mut(place) {
            *standing = row;
        }
    }
    let mut rows: Vec<Row> = rows.into_iter().flatten().chain(behind).collect();
    if sorted {
        rows.sort_by_cached_key(|row| order(&merged.view(row)));
    }
    merged.table.rows = rows;
    Ok((merged, told))
}

/// What a row is known by: what it is looked up by, or what an untuned file tells.
fn identity(view: &View<'_>) -> Key {
    match view.sheet.kind {
        SheetKind::Tuned => view.key(),
        SheetKind::Untuned => view.told(),
    }
}

/// A merge that is under way.
struct Merging<'a> {
    base: &'a Sheet,
    terms: Terms,
    /// Rows of the base, by their place.
    rows: Vec<View<'a>>,
    /// The places of the rows of a key, the one that stands in front.
    places: HashMap<Key, Vec<usize>>,
    /// What stands in place of rows of the base.
    taken: BTreeMap<usize, &'a View<'a>>,
    /// Places of rows that another stands in place of, beside its own.
    gone: Vec<usize>,
    added: Vec<(Key, &'a View<'a>)>,
}

impl<'a> Merging<'a> {
    fn begin(base: &'a Sheet, terms: Terms) -> Self {
        let rows: Vec<View<'a>> = base.table.rows.iter().map(|row| base.view(row)).collect();
        let mut places: HashMap<Key, Vec<usize>> = HashMap::new();
        for (place, view) in rows.iter().enumerate().filter(|(_, view)| !view.row.is_blank()) {
            let known = places.entry(identity(view)).or_default();
            let us = |place: &usize| rows.get(*place).and_then(View::us).unwrap_or(f64::INFINITY);
            let stands = match known.first() {
                Some(first) => terms.policy == Policy::Newest || us(&place) < us(first),
                None => true,
            };
            known.insert(if stands { 0 } else { known.len() }, place);
        }
        Self { base, terms, rows, places, taken: BTreeMap::new(), gone: Vec::new(), added: Vec::new() }
    }

    /// Takes a row or leaves it.
    fn offer(&mut self, view: &'a View<'a>) -> Merged {
        let key = identity(view);
        let (file, line, after) = (view.path(), view.row.line, view.us());
        let told = |fate, before, reason| Merged { key: view.key(), file, line, fate, before, after, reason };
        let places = self.places.get(&key).cloned().unwrap_or_default();
        let own = self.added.iter().position(|(known, _)| *known == key);
        let first = places.first().copied();
        let standing: Option<&View<'_>> = match (first, own) {
            (Some(place), _) => self.taken.get(&place).copied().or_else(|| self.rows.get(place)),
            (None, Some(own)) => self.added.get(own).map(|(_, view)| *view),
            (None, None) => None,
        };
        let before = standing.and_then(View::us);
        let is_there = standing.is_some_and(|standing| says_the_same(self.base, standing, view))
            || places.iter().any(|place| {
                let untouched = !self.taken.contains_key(place) && !self.gone.contains(place);
                untouched && self.rows.get(*place).is_some_and(|row| says_the_same(self.base, row, view))
            });
        if is_there {
            return told(Fate::Same, before, None);
        }
        if self.base.kind == SheetKind::Untuned && standing.is_some() {
            return told(Fate::Same, None, None);
        }
        if let Some(reason) = usable(view, self.terms.error_limit).err().filter(|_| self.base.kind == SheetKind::Tuned)
        {
            return told(Fate::Refused, None, Some(reason));
        }
        if standing.is_none() {
            self.added.push((key, view));
            return told(Fate::Added, None, None);
        }
        if !better(before, after, self.terms.policy) {
            return told(Fate::Kept, before, None);
        }
        match (first, own.and_then(|own| self.added.get_mut(own))) {
            (Some(place), _) => {
                self.taken.insert(place, view);
                if self.base.family.duplicates != Duplicates::Allowed {
                    self.gone.extend(places.iter().skip(1));
                }
            }
            (None, Some((_, standing))) => *standing = view,
            (None, None) => {}
        }
        told(Fate::Replaced, before, None)
    }
}

/// Whether a row says what another one says, in the columns of `base`, and no more.
fn says_the_same(base: &Sheet, standing: &View<'_>, view: &View<'_>) -> bool {
    let cell = |view: &View<'_>, column: &str| view.cell(column).map(str::to_string);
    let columns = || base.table.columns().iter().chain(view.sheet.table.columns()).filter(|column| !column.is_empty());
    columns().all(|column| {
        let default = |found: Option<String>| {
            found.filter(|cell| !cell.is_empty()).unwrap_or_else(|| match column.as_str() {
                "gfx" => view.value("gfx").to_string(),
                column => base.family.default(column).to_string(),
            })
        };
        default(cell(standing, column)) == default(cell(view, column))
    })
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

/// A tuned file whose rows have their architecture, if those of `newer` have: what aiter infers, or that of the GPU of the new rows.
fn with_gfx(base: &Sheet, newer: &[Sheet]) -> Sheet {
    let mut named = base.clone();
    let is_without =
        base.kind == SheetKind::Tuned && base.family.gpu.contains(&"gfx") && base.table.column("gfx").is_none();
    let mut new = newer.iter().filter(|sheet| sheet.table.column("gfx").is_some()).flat_map(Sheet::views);
    let Some(own) = new.next().filter(|_| is_without) else { return named };
    let (own, cu_num) = (own.value("gfx").to_string(), base.table.column("cu_num"));
    named.table.insert_column(0, "gfx", |row| {
        let cells = row.cells();
        let cus: Option<f64> = cu_num.and_then(|place| cells.get(place)?.parse().ok());
        let inferred = cus.map_or("", gfx_of);
        if inferred.is_empty() { own.clone() } else { inferred.to_string() }
    });
    named
}

/// Puts those columns of new rows into a table that say something and that it has not. Rows that are there have in them what they
/// stand for without.
fn widen(merged: &mut Sheet, new: &[&View<'_>]) {
    for view in new {
        let mut before: Option<&str> = None;
        for (column, cell) in view.sheet.table.columns().iter().zip(&view.cells) {
            let default = merged.family.default(column);
            let says_something = !column.is_empty() && !cell.is_empty() && **cell != *default;
            if says_something && merged.table.column(column).is_none() {
                let known = before.and_then(|before| merged.table.column(before));
                let place = known.map_or(merged.table.columns().len(), |known| known + 1);
                merged.table.insert_column(place, column, |_| default.to_string());
            }
            before = merged.table.column(column).map(|_| column.as_str()).or(before);
        }
    }
}

/// A row in the columns of `base`.
fn fit(base: &Sheet, view: &View<'_>) -> Row {
    let cell = |column: &String| match view.cell(column) {
        Some(cell) => cell.to_string(),
        None if column == "gfx" => view.value("gfx").to_string(),
        None => base.family.default(column).to_string(),
    };
    let cells: Vec<String> = base.table.columns().iter().map(cell).collect();
    Row::of(cells.iter().map(String::as_str))
}

/// Whether the rows are in the order that aiter's tuners write.
fn is_sorted(sheet: &Sheet) -> bool {
    sheet.table.rows.iter().all(|row| !row.is_blank()) && sheet.views().map(|view| order(&view)).is_sorted()
}

/// What rows are sorted by.
fn order(view: &View<'_>) -> Vec<Value> {
    view.sheet.family.sort.iter().map(|column| view.value(column)).collect()
}
