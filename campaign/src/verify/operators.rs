//! aiter's CSV files: whole operators with the rows of a file and without them, in turns. aiter's own tuners call them, in processes of their
//! own, since operators are built with their rows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, bail};
use bluefin_aiter::{Key, Row, Rules, Sheet, SheetKind};
use bluefin_common::scratch::Scratch;
use bluefin_common::shutdown;
use bluefin_serving::files::name_of;
use serde_json::{Map, Value as Json, json};

use super::asked::{Shown, ToolArgs};
use super::lookups::{Fallback, fallbacks, of_gpu};
use super::processes::{Caller, Rows, Shape, Side, Sides};
use super::tries::{Steps, Tries, replace, take_out, verified};
use super::verdict::{Verdict, Worth};
use super::{Judged, Verified, beside};
use crate::carry::Watch;

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
    /// Of shapes that find another row where their own is not there.
    fallbacks: BTreeMap<Key, Fallback>,
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
        let fallbacks = fallbacks(&sheet, target, &Rules::of(&args.aiter.aiter));
        Ok(Self { sheet, was, caller, gpu: gpu.clone(), known, rows, others, fallbacks })
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
    pub(super) async fn verify(
        &mut self,
        args: &ToolArgs,
        fix: bool,
        watch: &mut dyn Watch,
    ) -> anyhow::Result<Option<Verified>> {
        let signal = shutdown::on_signal()?;
        let Some(worths) = signal.run_until_cancelled(self.judge(args, watch)).await else { return Ok(None) };
        let worths = worths?;
        let mut judged: Vec<Judged> = self.rows.iter().zip(worths).map(|(entry, worth)| entry.judged(worth)).collect();
        let keys: Vec<&Key> = self.rows.iter().map(|entry| &entry.key).collect();
        let stays = |key: &&Key, lost: &BTreeSet<&&Key>| {
            let fallback = self.fallbacks.get(*key).filter(|it| it.keys.iter().any(|other| lost.contains(&other)))?;
            Some(format!(
                "aiter takes the row of {} in its place, which loses too: to be judged without that",
                fallback.size
            ))
        };
        let lost = if fix { take_out(&keys, &mut judged, NONE, stays) } else { BTreeSet::new() };
        if !lost.is_empty() {
            let lines: BTreeSet<u64> =
                self.rows.iter().filter(|entry| lost.contains(&&entry.key)).map(|entry| entry.line).collect();
            self.sheet.table.rows.retain(|row| !lines.contains(&row.line));
            replace(self.path(), &self.was, &self.sheet.table.to_bytes())?;
        }
        Ok(Some(verified(judged)))
    }

    /// What each row is worth.
    async fn judge(&self, args: &ToolArgs, watch: &mut dyn Watch) -> anyhow::Result<Vec<Worth>> {
        let known_keys: BTreeSet<Key> =
            self.known.iter().flat_map(|known| of_gpu(known, &self.gpu.target)).map(|(_, key)| key).collect();
        let mut measured: BTreeMap<(Side, Key), Tries> = BTreeMap::new();
        let batches = self.batches();
        let mut steps = Steps::new(watch, batches.iter().map(Vec::len).sum(), args.turns());
        for batch in batches {
            let folder = Scratch::new("bluefin-verify-").context("folder of temporary files")?;
            let sides = Sides::new(args, &self.caller, &self.gpu, folder.path(), self.sides(&batch))?;
            let shapes: Vec<Shape> = batch.iter().map(|entry| (entry.key.clone(), entry.shape.clone())).collect();
            measured.extend(sides.measure(&shapes, &known_keys, &mut steps).await?);
        }
        let dead: Option<Vec<&str>> = measured.values().map(Tries::dead).collect();
        if let Some(reason) = dead.as_deref().and_then(<[_]>::first) {
            bail!("{}: nothing runs, with its rows or without: {reason}", self.path().display());
        }
        let own = measured.iter().filter(|((side, _), _)| *side == Side::With);
        let ended: Option<Vec<&str>> = own.map(|(_, tries)| tries.ended()).collect();
        if let Some(reason) = ended.as_deref().and_then(<[_]>::first) {
            // It may be that here nothing is built by any row.
            bail!(
                "{}: nothing runs with any of its rows, and nothing is known of them: {reason}",
                self.path().display()
            );
        }
        let (turns, mut told) = (args.turns(), BTreeSet::new());
        let mut worths: Vec<Worth> =
            self.rows.iter().map(|entry| worth(entry, &measured, turns, told.insert(entry.key.clone()))).collect();
        let own = |entry: &Entry| measured.get(&(Side::With, entry.key.clone()));
        let ends = |(entry, worth): (&Entry, &Worth)| {
            worth.verdict == Verdict::Fails && own(entry).is_some_and(|tries| tries.ended().is_some())
        };
        let is_told = self.rows.iter().zip(&worths).any(ends);
        for (entry, worth) in self.rows.iter().zip(&mut worths).filter(|(_, worth)| worth.time.is_some()) {
            match own(entry).and_then(Tries::apart) {
                Some(end) if is_told => worth.reason = Some(format!("timed by its row alone; with the others: {end}")),
                // No row is known that is to blame.
                Some(end) => *worth = Worth::unknown(&format!("it runs by its row alone; with the others: {end}")),
                None => {}
            }
        }
        Ok(worths)
    }

    /// Shapes that are called together, each once: none finds the row of another where its own is not there.
    fn batches(&self) -> Vec<Vec<&Entry>> {
        let finds = |entry: &Entry, other: &Entry| {
            self.fallbacks.get(&entry.key).is_some_and(|fallback| fallback.keys.contains(&other.key))
        };
        let (mut seen, mut batches) = (BTreeSet::new(), Vec::<Vec<&Entry>>::new());
        for entry in self.rows.iter().filter(|entry| seen.insert(&entry.key)) {
            let is_free = |batch: &&mut Vec<&Entry>| {
                batch.len() < SHAPES && !batch.iter().any(|other| finds(entry, other) || finds(other, entry))
            };
            match batches.iter_mut().find(is_free) {
                Some(batch) => batch.push(entry),
                None => batches.push(vec![entry]),
            }
        }
        batches
    }

    /// The rows of each side for some shapes. Without theirs aiter may find others of the file.
    fn sides(&self, batch: &[&Entry]) -> Vec<Rows> {
        let own: BTreeSet<u64> = self.rows.iter().map(|entry| entry.line).collect();
        let of_shape = |key: &Key| -> BTreeSet<u64> {
            self.rows.iter().filter(|entry| entry.key == *key).map(|entry| entry.line).collect()
        };
        let lines = |key: &Key| self.fallbacks.get(key).map(|it| it.lines.clone()).unwrap_or_default();
        let without: BTreeSet<u64> = batch.iter().flat_map(|entry| lines(&entry.key)).collect();
        let mut sides = vec![
            rows_of(Side::With, &self.sheet, &own, batch, of_shape),
            rows_of(Side::Without, &self.sheet, &without, batch, lines),
        ];
        if let Some(known) = &self.known {
            let mut keys: BTreeMap<Key, BTreeSet<u64>> = BTreeMap::new();
            of_gpu(known, &self.gpu.target).for_each(|(row, key)| {
                keys.entry(key).or_default().insert(row.line);
            });
            let all = keys.values().flatten().copied().collect();
            sides.push(rows_of(Side::Known, known, &all, batch, |key| keys.get(key).cloned().unwrap_or_default()));
        }
        sides
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

/// The rows of these lines, and which of them each shape takes.
fn rows_of(
    side: Side,
    sheet: &Sheet,
    lines: &BTreeSet<u64>,
    batch: &[&Entry],
    of_shape: impl Fn(&Key) -> BTreeSet<u64>,
) -> Rows {
    let mut none = sheet.table.clone();
    let rows = std::mem::take(&mut none.rows);
    let table = |lines: &BTreeSet<u64>| {
        let mut table = none.clone();
        table.rows.extend(rows.iter().filter(|row| lines.contains(&row.line)).cloned());
        table
    };
    let alone = batch.iter().map(|entry| (entry.key.clone(), table(&of_shape(&entry.key)))).collect();
    Rows { side, all: table(lines), alone }
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
