//! aiter's CSV files: whole operators with the rows of a file and without them, in turns. aiter's own tuners call them, in processes of their
//! own, since operators are built with their rows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, bail};
use bluefin_aiter::{Key, Row, Sheet, SheetKind, Table, Value, View};
use bluefin_common::scratch::Scratch;
use bluefin_common::shutdown;
use bluefin_common::target::Target;
use bluefin_serving::files::name_of;
use serde_json::{Map, Value as Json, json};

use super::asked::{Shown, ToolArgs};
use super::processes::{Caller, Side, Sides};
use super::tries::{Tries, replace, take_out, verified};
use super::verdict::Worth;
use super::{Judged, Verified, beside};

/// Shapes of one process.
const SHAPES: usize = 24;
/// What takes the place of a row that loses.
const NONE: &str = "no row, so that aiter chooses";

/// A tuned file of one of aiter's operators.
pub struct OperatorFile {
    sheet: Sheet,
    /// Its bytes, as they were read.
    was: Vec<u8>,
    caller: Caller,
    gpu: Shown,
    known: Option<Sheet>,
    rows: Vec<Entry>,
    /// Rows of other GPUs.
    others: usize,
}

/// A row of the file that is for the GPU.
struct Entry {
    line: u64,
    key: Key,
    /// The cells of its shape, by name.
    shape: Vec<(String, String)>,
    /// What it says else.
    says: Map<String, Json>,
}

impl OperatorFile {
    /// Reads a file, and the other one that `known` names, or that has its name in the folder that `known` is.
    ///
    /// # Errors
    /// If one can not be read, is no tuned file of a family whose operator this aiter's tuners call, or has no row for the GPU.
    pub(super) fn read(path: &Path, known: Option<&Path>, args: &ToolArgs, gpu: &Shown) -> anyhow::Result<Self> {
        let target = &gpu.target;
        let sheet = Sheet::read(path, None)?;
        let family = sheet.family;
        if sheet.kind == SheetKind::Untuned || family.tuner.is_none() {
            let (path, name) = (path.display(), family.name);
            bail!(
                "{path}: found a file of {name} that no operator is called by, expected a tuned file of a family that `bluefin aiter tune` knows"
            );
        }
        let known = beside(known, &name_of(path)).map(|other| Sheet::read(&other, Some(family))).transpose()?;
        let rows: Vec<Entry> = of_gpu(&sheet, target).map(|(row, key)| entry(&sheet, row, key)).collect();
        let others = sheet.table.records().count() - rows.len();
        if rows.is_empty() {
            bail!(
                "{}: found no row for {target} among {others}, expected some; --gpu says another GPU",
                path.display()
            );
        }
        let (was, caller) = (sheet.table.to_bytes(), Caller::find(args, family)?);
        Ok(Self { sheet, was, caller, gpu: gpu.clone(), known, rows, others })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.sheet.path()
    }

    /// Whose operator it is for.
    #[must_use]
    pub fn kernel(&self) -> &str {
        self.sheet.family.name
    }

    /// What was left aside.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        (self.others > 0).then(|| format!("{} rows of other GPUs are left aside", self.others))
    }

    /// Times operators with the rows and without them, and takes out of the file those that lose if `fix`. `None`: a signal interrupted it.
    ///
    /// # Errors
    /// If the tuner does not start, nothing runs on any side, or the file can not be written.
    pub async fn verify(&mut self, args: &ToolArgs, fix: bool) -> anyhow::Result<Option<Verified>> {
        let signal = shutdown::on_signal()?;
        let Some(worths) = signal.run_until_cancelled(self.judge(args)).await else { return Ok(None) };
        let worths = worths?;
        let mut judged: Vec<Judged> = self.rows.iter().zip(worths).map(|(entry, worth)| entry.judged(worth)).collect();
        let keys: Vec<&Key> = self.rows.iter().map(|entry| &entry.key).collect();
        let lost = if fix { take_out(&keys, &mut judged, NONE) } else { BTreeSet::new() };
        if !lost.is_empty() {
            let lines: BTreeSet<u64> =
                self.rows.iter().filter(|entry| lost.contains(&&entry.key)).map(|entry| entry.line).collect();
            self.sheet.table.rows.retain(|row| !lines.contains(&row.line));
            replace(self.path(), &self.was, &self.sheet.table.to_bytes())?;
        }
        Ok(Some(verified(judged)))
    }

    /// What each row is worth.
    async fn judge(&self, args: &ToolArgs) -> anyhow::Result<Vec<Worth>> {
        let target = &self.gpu.target;
        let folder = Scratch::new("bluefin-verify-").context("folder of temporary files")?;
        let own: BTreeSet<u64> = self.rows.iter().map(|entry| entry.line).collect();
        let mut with = self.sheet.table.clone();
        with.rows.retain(|row| own.contains(&row.line));
        let mut tables = vec![(Side::With, with), (Side::Without, Table::new(self.path(), columns(&self.sheet)))];
        let mut known_keys = BTreeSet::new();
        if let Some(known) = &self.known {
            let of_gpu: Vec<(&Row, Key)> = of_gpu(known, target).collect();
            known_keys.extend(of_gpu.iter().map(|(_, key)| key.clone()));
            let mut table = Table::new(known.path(), columns(known));
            table.rows.extend(of_gpu.into_iter().map(|(row, _)| row.clone()));
            tables.push((Side::Known, table));
        }
        let sides = Sides::new(args, &self.caller, &self.gpu, folder.path(), &tables)?;
        let mut seen = BTreeSet::new();
        let firsts: Vec<&Entry> = self.rows.iter().filter(|entry| seen.insert(entry.key.clone())).collect();
        let mut measured: BTreeMap<(Side, Key), Tries> = BTreeMap::new();
        for batch in firsts.chunks(SHAPES) {
            let shapes: Vec<(Key, Vec<(String, String)>)> =
                batch.iter().map(|entry| (entry.key.clone(), entry.shape.clone())).collect();
            measured.extend(sides.measure(&shapes, &known_keys).await?);
        }
        let dead: Option<Vec<&str>> = measured.values().map(Tries::dead).collect();
        if let Some(reason) = dead.as_deref().and_then(<[_]>::first) {
            bail!("{}: nothing runs, with its rows or without: {reason}", self.path().display());
        }
        let (turns, mut told) = (args.turns(), BTreeSet::new());
        Ok(self.rows.iter().map(|entry| worth(entry, &measured, turns, told.insert(entry.key.clone()))).collect())
    }
}

impl Entry {
    fn judged(&self, worth: Worth) -> Judged {
        let shape: Vec<&str> = self.shape.iter().map(|(_, cell)| cell.as_str()).collect();
        let kernel = self.says.iter().find(|(column, _)| column.starts_with("kernelName")).map(|(_, cell)| cell);
        let short = kernel.and_then(Json::as_str).filter(|name| !name.is_empty()).unwrap_or("its row").to_string();
        Judged {
            key: self.shape.iter().map(|(column, cell)| (column.clone(), json!(cell))).collect(),
            row: json!(self.says),
            name: shape.join(" "),
            short,
            worth,
            replaced_by: None,
        }
    }
}

/// The rows of a sheet that are for a GPU, with the keys of their shapes.
fn of_gpu<'a>(sheet: &'a Sheet, target: &'a Target) -> impl Iterator<Item = (&'a Row, Key)> {
    let family = sheet.family;
    let is_here = |view: &View<'_>| {
        family.gpu.iter().all(|column| match *column {
            "gfx" => view.value(column) == Value::of(target.arch()),
            "cu_num" => view.value(column) == Value::of(&target.cus().to_string()),
            _ => true,
        })
    };
    sheet.views().filter(move |view| is_here(view)).map(move |view| (view.row, shape_key(&view)))
}

/// What tells a row's shape from others, as a tuner prints it.
fn shape_key(view: &View<'_>) -> Key {
    let family = view.sheet.family;
    let told: Vec<&str> = family.untuned_columns().collect();
    let is_told = |column: &&'static str| told.contains(column) && !family.gpu.contains(column);
    let value = |column: &'static str| Some((column, Value::of(view.cell(column).filter(|cell| !cell.is_empty())?)));
    Key(family.key().filter(is_told).filter_map(value).collect())
}

fn entry(sheet: &Sheet, row: &Row, key: Key) -> Entry {
    let view = sheet.view(row);
    let cell = |column: &str| Some((column.to_string(), view.cell(column)?.to_string()));
    let shape: Vec<(String, String)> = sheet.family.untuned_columns().filter_map(cell).collect();
    let is_of_shape = |column: &str| shape.iter().any(|(known, _)| known == column);
    let others = sheet.table.columns().iter().filter(|column| !column.is_empty() && !is_of_shape(column));
    let says = others.filter_map(|column| cell(column)).map(|(column, cell)| (column, json!(cell))).collect();
    Entry { line: row.line, key, shape, says }
}

fn columns(sheet: &Sheet) -> impl Iterator<Item = &str> {
    sheet.table.columns().iter().map(String::as_str)
}

/// A row against the operator without it.
fn worth(entry: &Entry, measured: &BTreeMap<(Side, Key), Tries>, turns: u32, is_first: bool) -> Worth {
    if !is_first {
        return Worth::unknown("another row of the file has its shape");
    }
    let of = |side| measured.get(&(side, entry.key.clone())).map(|tries| tries.came(turns));
    let (Some(own), Some(default)) = (of(Side::With), of(Side::Without)) else {
        return Worth::unknown("nothing was measured");
    };
    Worth::between(&own, &default, of(Side::Known).as_ref())
}
