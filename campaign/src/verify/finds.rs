//! MIOpen's find dbs: what MIOpen launches by a row and what it launches without it, in turns. MIOpenDriver asks for it as a program does
//! (immediate mode), in processes of their own, whose databases are the file with the row or without it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use bluefin_common::problem::Problem;
use bluefin_common::shutdown;
use bluefin_miopen::db::find_db::{FindEntry, scan, write_record};
use bluefin_serving::files::name_of;
use serde_json::{Map, Value as Json, json};

use super::asked::Shown;
use super::immediate::{Asking, CHOICE, Databases, Immediate, Others};
use super::tries::{Steps, replace, take_out, verified};
use super::verdict::{Verdict, Worth};
use super::{Judged, Verified, beside};
use crate::carry::Watch;

/// What the name of a user's find db ends with, and that of one which is installed with MIOpen.
const USER: &str = ".ufdb.txt";
const SYSTEM: &str = ".fdb.txt";
/// What takes the place of a row that loses.
const NONE: &str = "no row, so that MIOpen chooses";

/// A find db.
pub struct FindFile {
    path: PathBuf,
    text: String,
    rows: Vec<Entry>,
    known: Vec<Entry>,
    driver: Immediate,
    /// Of a file that is installed with MIOpen: where the others are.
    others: Option<PathBuf>,
    /// Of a user's file: whether nothing says that MIOpen reads one of this name.
    is_believed: bool,
}

/// A row.
struct Entry {
    /// All lines with its key: MIOpen takes the first.
    lines: BTreeSet<u64>,
    key: String,
    problem: Option<Problem>,
    entries: Vec<FindEntry>,
}

impl FindFile {
    /// Reads a file for GPUs of `target`, and the other one that `known` names, or that has its name in the folder that `known` is. `driver` is
    /// MIOpenDriver, where it is named.
    ///
    /// # Errors
    /// If one can not be read, is for another GPU or has no row, and if there is no MIOpenDriver.
    pub(super) fn read(path: &Path, known: Option<&Path>, gpu: &Shown, driver: Option<&Path>) -> anyhow::Result<Self> {
        let (name, target) = (name_of(path), &gpu.target);
        let (base, known) = (target.db_basename(), beside(known, &name));
        let is_user = name.ends_with(USER);
        if !name.starts_with(&format!("{base}.HIP.")) || !(is_user || name.ends_with(SYSTEM)) {
            bail!(
                "{}: found the name {name}, expected {base}.HIP{SYSTEM} or {base}.HIP.<version>{USER}, a find db of convolutions for {target}; --gpu says another GPU",
                path.display()
            );
        }
        let (text, rows) = rows(path)?;
        if rows.is_empty() {
            bail!("{}: found no row, expected some", path.display());
        }
        let known = known.map(|other| rows_of(&other)).transpose()?.unwrap_or_default();
        let driver = Immediate::find(gpu, driver)?;
        let is_believed = is_user && driver.version.is_none();
        if is_user {
            driver.check_user(path, &base, USER)?;
        }
        let others = (!is_user).then(|| driver.others(path));
        Ok(Self { path: path.to_path_buf(), text, rows, known, driver, others, is_believed })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was left aside, and what else MIOpen reads.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let twice = self.rows.iter().filter(|entry| entry.lines.len() > 1).count();
        let twice =
            (twice > 0).then(|| format!("{twice} keys come twice: MIOpen takes the first, and the others go with it"));
        let others =
            self.others.as_ref().map(|folder| format!("MIOpen's other files are those of {}", folder.display()));
        let believed = self.is_believed.then(|| {
            "found no include/miopen/version.h, which says what MIOpen's own files are called: this name is believed".to_string()
        });
        let notes: Vec<String> = twice.into_iter().chain(others).chain(believed).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// Times what is launched by the rows and without them, in `turns`, and takes those that lose out of the file if `fix`. `None`: a signal
    /// interrupted it.
    ///
    /// # Errors
    /// If MIOpenDriver does not start, it fails with all rows and without them, or a file can not be written.
    pub(super) async fn verify(
        &mut self,
        turns: u32,
        limit: Duration,
        fix: bool,
        watch: &mut dyn Watch,
    ) -> anyhow::Result<Option<Verified>> {
        let signal = shutdown::on_signal()?;
        let Some(judged) = signal.run_until_cancelled(self.judge(turns, limit, watch)).await else { return Ok(None) };
        let mut judged = judged?;
        let keys: Vec<&str> = self.rows.iter().map(|entry| &*entry.key).collect();
        let lost = if fix { take_out(&keys, &mut judged, NONE, |_, _| None) } else { BTreeSet::new() };
        if !lost.is_empty() {
            let lost = self.rows.iter().filter(|entry| lost.contains(&&*entry.key));
            let lines: BTreeSet<u64> = lost.flat_map(|entry| entry.lines.iter().copied()).collect();
            replace(&self.path, self.text.as_bytes(), without(&self.text, &lines).as_bytes())?;
        }
        Ok(Some(verified(judged)))
    }

    async fn judge(&self, turns: u32, limit: Duration, watch: &mut dyn Watch) -> anyhow::Result<Vec<Judged>> {
        let mut judged = Vec::with_capacity(self.rows.len());
        let mut dead: Vec<Option<String>> = Vec::new();
        let mut steps = Steps::new(watch, self.rows.len(), turns);
        for entry in &self.rows {
            let worth = match &entry.problem {
                None => Worth::unknown("no convolution has such a key"),
                Some(problem) => match Immediate::words(problem, CHOICE) {
                    Err(error) => Worth::unknown(&format!("MIOpenDriver has no words for {error}")),
                    Ok(words) => {
                        let asking = Asking { turns, limit, log_level: None };
                        let (worth, reason) = self.worth(entry, &words, asking, &mut steps).await?;
                        dead.push(reason);
                        worth
                    }
                },
            };
            steps.end(turns as usize);
            judged.push(entry.judged(worth));
        }
        let dead: Option<Vec<String>> = dead.into_iter().collect();
        if let Some(reason) = dead.as_deref().and_then(<[_]>::first) {
            bail!("{}: nothing runs, with its rows or without: {reason}", self.path.display());
        }
        Ok(judged)
    }

    /// One row, by processes with it, without it, and with the one that is known; and why no side runs, if none does.
    async fn worth(
        &self,
        entry: &Entry,
        words: &[OsString],
        asking: Asking,
        steps: &mut Steps<'_>,
    ) -> anyhow::Result<(Worth, Option<String>)> {
        let mut without_row = without(&self.text, &entry.lines);
        let mut texts = vec![self.text.clone(), without_row.clone()];
        if let Some(known) = self.known.iter().find(|known| known.key == entry.key) {
            if !without_row.is_empty() && !without_row.ends_with('\n') {
                without_row.push('\n');
            }
            texts.push(format!("{without_row}{}", known.text()?));
        }
        let databases = |text: String| {
            let others = self.others.clone().map(|folder| Others { folder, hidden: None });
            Databases { others, name: name_of(&self.path), contents: text.into_bytes() }
        };
        let databases: Vec<Databases> = texts.into_iter().map(databases).collect();
        let (sides, dead) = self.driver.sides(&databases, words, asking, &entry.key, steps).await?;
        let (turns, mut sides) = (asking.turns, sides.into_iter());
        let (own, default, known) = (sides.next().unwrap_or_default(), sides.next().unwrap_or_default(), sides.next());
        let known = known.map(|known| known.tries.came(turns));
        let mut worth = Worth::between(&own.tries.came(turns), &default.tries.came(turns), known.as_ref());
        if worth.time.is_none() {
            return Ok((worth, dead));
        }
        if worth.default.is_some() && default.solver == own.solver {
            worth.verdict = Verdict::Default;
        }
        if entry.fastest().is_some_and(|entry| *entry.solver != *own.solver) {
            worth.reason = Some(format!("MIOpen launches {}", own.solver));
        }
        if entry.entries.iter().all(|entry| *entry.solver != *own.solver) {
            // It reads another file, or can not launch what the row says.
            worth.verdict = Verdict::Unknown;
        }
        Ok((worth, None))
    }
}

impl Entry {
    /// The one that MIOpen takes.
    fn fastest(&self) -> Option<&FindEntry> {
        self.entries.iter().min_by(|a, b| a.time_ms.total_cmp(&b.time_ms))
    }

    /// As a line of a file.
    fn text(&self) -> anyhow::Result<String> {
        let mut line = Vec::new();
        write_record(&self.key, &self.entries, &mut line)?;
        Ok(String::from_utf8(line)?)
    }

    fn judged(&self, worth: Worth) -> Judged {
        let solver = self.fastest().map_or("none", |entry| &*entry.solver).to_string();
        // As many digits as it has, not as many as a wider number.
        let time_ms = |it: &FindEntry| it.time_ms.to_string().parse::<f64>().ok();
        let says = |it: &FindEntry| (it.solver.to_string(), json!({ "time_ms": time_ms(it) }));
        Judged {
            key: Map::from_iter([("key".to_string(), json!(self.key))]),
            row: Json::Object(self.entries.iter().map(says).collect()),
            name: self.key.clone(),
            short: solver,
            worth,
            replaced_by: None,
        }
    }
}

fn rows_of(path: &Path) -> anyhow::Result<Vec<Entry>> {
    Ok(rows(path)?.1)
}

/// The text of a file, and its rows; of a key that comes twice the first one, as MIOpen takes it.
fn rows(path: &Path) -> anyhow::Result<(String, Vec<Entry>)> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let (mut rows, mut lines): (Vec<Entry>, BTreeMap<&str, BTreeSet<u64>>) = (Vec::new(), BTreeMap::new());
    for (number, line) in (1..).zip(text.lines()) {
        let key = line.split_once('=').map_or("", |(key, _)| key);
        lines.entry(key).or_default().insert(number);
    }
    scan(&path.display().to_string(), text.as_bytes(), |record| {
        rows.push(Entry {
            lines: lines.remove(record.text).unwrap_or_else(|| BTreeSet::from([record.line])),
            key: record.text.to_string(),
            problem: record.key.and_then(|key| key.problem().ok()).map(Problem::Conv),
            entries: record.entries,
        });
    })?;
    Ok((text, rows))
}

/// The text without these lines, which are counted from 1.
fn without(text: &str, lines: &BTreeSet<u64>) -> String {
    (1..).zip(text.split_inclusive('\n')).filter(|(line, _)| !lines.contains(line)).map(|(_, text)| text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_out() {
        assert_eq!(without("a\nb\nc", &BTreeSet::from([2])), "a\nc");
    }
}
