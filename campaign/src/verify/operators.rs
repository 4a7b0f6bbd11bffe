//! aiter's CSV files: whole operators with the rows of a file and without them, in turns. aiter's own tuners call them, in processes of their
//! own, since operators are built with their rows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context as _, bail};
use bluefin_aiter::{Key, Row, Sheet, SheetKind, Table, Value, View};
use bluefin_common::files::FileSet;
use bluefin_common::scratch::Scratch;
use bluefin_common::shutdown;
use bluefin_common::target::Target;
use bluefin_serving::files::name_of;
use serde_json::{Map, Value as Json, json};

use super::asked::ToolArgs;
use super::processes::{Measured, Side, Sides};
use super::verdict::{Time, Worth};
use super::{Judged, Verified, beside};

/// Shapes of one process: as many as the end of what it prints tells of.
const SHAPES: usize = 24;
/// What takes the place of a row that loses.
const NONE: &str = "no row, so that aiter chooses";

/// A tuned file of one of aiter's operators.
pub struct OperatorFile {
    sheet: Sheet,
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
    /// If one can not be read, is no tuned file of a family whose operator aiter's tuners call, or has no row for the GPU.
    pub fn read(path: &Path, known: Option<&Path>, target: &Target) -> anyhow::Result<Self> {
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
        Ok(Self { sheet, known, rows, others })
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
    /// If aiter takes no such file by a variable, its tuner does not start, or the file can not be written.
    pub async fn verify(&mut self, args: &ToolArgs, fix: bool) -> anyhow::Result<Option<Verified>> {
        let signal = shutdown::on_signal()?;
        let target = args.target()?;
        let Some(worths) = signal.run_until_cancelled(self.judge(args, &target)).await else { return Ok(None) };
        let worths = worths?;
        let mut judged: Vec<Judged> = self.rows.iter().zip(worths).map(|(entry, worth)| entry.judged(worth)).collect();
        let mut taken_out = BTreeSet::new();
        for (entry, row) in self.rows.iter().zip(&mut judged) {
            let has_better = row.worth.verdict.loses() && row.worth.default.is_some();
            if fix && has_better {
                row.replaced_by = Some(NONE.to_string());
                taken_out.insert(entry.key.clone());
            }
        }
        let loses = judged.iter().any(|row| row.worth.verdict.loses() && row.replaced_by.is_none());
        if !taken_out.is_empty() {
            let lines: BTreeSet<u64> =
                self.rows.iter().filter(|entry| taken_out.contains(&entry.key)).map(|entry| entry.line).collect();
            self.sheet.table.rows.retain(|row| !lines.contains(&row.line));
            self.write()?;
        }
        Ok(Some(Verified { rows: judged, replaced: !taken_out.is_empty(), loses }))
    }

    /// What each row is worth.
    async fn judge(&self, args: &ToolArgs, target: &Target) -> anyhow::Result<Vec<Worth>> {
        let family = self.sheet.family;
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
        let sides = Sides::new(args, family, folder.path(), &tables)?;
        let mut seen = BTreeSet::new();
        let firsts: Vec<&Entry> = self.rows.iter().filter(|entry| seen.insert(entry.key.clone())).collect();
        let mut measured: BTreeMap<(Side, Key), Measured> = BTreeMap::new();
        for batch in firsts.chunks(SHAPES) {
            let shapes: Vec<(Key, Vec<(String, String)>)> =
                batch.iter().map(|entry| (entry.key.clone(), entry.shape.clone())).collect();
            measured.extend(sides.measure(&shapes, &known_keys).await?);
        }
        let mut told = BTreeSet::new();
        Ok(self.rows.iter().map(|entry| worth(entry, &measured, told.insert(entry.key.clone()))).collect())
    }

    fn write(&self) -> anyhow::Result<()> {
        let path = self.path();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut files = FileSet::new(folder)?;
        let beside = files.add(&name_of(path))?;
        std::fs::write(&beside, self.sheet.table.to_bytes()).with_context(|| path.display().to_string())?;
        files.commit()?;
        Ok(())
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
fn worth(entry: &Entry, measured: &BTreeMap<(Side, Key), Measured>, is_first: bool) -> Worth {
    if !is_first {
        return Worth::unknown("another row of the file has its shape");
    }
    let of = |side| measured.get(&(side, entry.key.clone()));
    let time = |side| of(side).and_then(|it| Time::of_samples(&it.samples_us));
    match of(Side::With) {
        None => Worth::unknown("nothing was measured"),
        Some(Measured { unmeasured: Some(reason), .. }) => Worth::unknown(reason),
        Some(Measured { failure: Some(reason), .. }) => {
            Worth::between(Err(reason.clone()), time(Side::Without), time(Side::Known))
        }
        Some(_) => match time(Side::With) {
            Some(own) => Worth::between(Ok(own), time(Side::Without), time(Side::Known)),
            None => Worth::unknown("too few times"),
        },
    }
}
