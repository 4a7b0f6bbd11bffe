//! MIOpen's find dbs: what MIOpen launches by a row and what it launches without it, in turns. MIOpenDriver asks for it as a program does
//! (immediate mode), in processes of their own, whose databases are the file with the row or without it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use bluefin_common::problem::Problem;
use bluefin_common::shutdown;
use bluefin_exporter::install::MiopenVersion;
use bluefin_miopen::Tool;
use bluefin_miopen::db::find_db::{FindEntry, scan, write_record};
use bluefin_miopen::detect::{self, ROCM};
use bluefin_miopen::driver::{Params, arguments};
use bluefin_miopen::place::Place;
use bluefin_miopen::process::{self, Run};
use bluefin_serving::files::name_of;
use serde_json::{Map, Value as Json, json};

use super::asked::{Shown, VISIBLE};
use super::tries::{Steps, Tries, Try, replace, take_out, untold, verified};
use super::verdict::{Verdict, Worth};
use super::{Judged, Verified, beside};
use crate::carry::Watch;

/// What the name of a user's find db ends with, and that of one which is installed with MIOpen.
const USER: &str = ".ufdb.txt";
const SYSTEM: &str = ".fdb.txt";
/// Where MIOpen is installed with its databases.
const DATABASES: &str = "share/miopen/db";
/// Launches of a process: the first is not counted.
const LAUNCHES: &str = "11";
/// What takes the place of a row that loses.
const NONE: &str = "no row, so that MIOpen chooses";

/// A find db.
pub struct FindFile {
    path: PathBuf,
    text: String,
    rows: Vec<Entry>,
    known: Vec<Entry>,
    driver: PathBuf,
    gpu: Shown,
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

/// A side of a row.
#[derive(Default)]
struct Side {
    tries: Tries,
    solver: String,
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
        let Some(found) = detect::find(Tool::MiopenDriver, driver, Path::new(ROCM)) else {
            match driver {
                Some(driver) => {
                    bail!("--miopen-driver: {}: found no such file, expected MIOpenDriver", driver.display())
                }
                None => bail!("--miopen-driver: found no MIOpenDriver, expected its path"),
            }
        };
        let program = found.canonicalize().unwrap_or_else(|_| found.clone());
        let root = program.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
        let version = detect::miopen_version(root).and_then(|text| text.parse::<MiopenVersion>().ok());
        let is_believed = is_user && version.is_none();
        if let Some(version) = version.filter(|_| is_user) {
            let expected = format!("{base}.{}{USER}", version.user_suffix("HIP"));
            if name != expected {
                bail!(
                    "{}: found the name {name}, expected {expected}: MIOpen {version} reads no other, and --miopen-driver says another one",
                    path.display()
                );
            }
        }
        let installed = Some(root.join(DATABASES)).filter(|folder| folder.is_dir());
        let here = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let others = (!is_user).then(|| installed.unwrap_or_else(|| here.to_path_buf()));
        Ok(Self { path: path.to_path_buf(), text, rows, known, driver: found, gpu: gpu.clone(), others, is_believed })
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
                Some(problem) => match arguments(problem, Params::Take) {
                    Err(error) => Worth::unknown(&format!("MIOpenDriver has no words for {error}")),
                    Ok(words) => {
                        let (worth, reason) = self.worth(entry, &asked(words), (turns, limit), &mut steps).await?;
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
        (turns, limit): (u32, Duration),
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
        let mut sides: Vec<(Place, String, Side)> = Vec::new();
        for text in texts {
            sides.push((self.place().context("folders of MIOpenDriver")?, text, Side::default()));
        }
        let mut dead = None;
        for turn in 0..turns {
            // Neither side is always the first.
            let count = sides.len();
            for at in 0..count {
                let at = if turn % 2 == 0 { at } else { count - 1 - at };
                let Some((place, text, side)) = sides.get_mut(at) else { continue };
                if side.tries.is_open(turns) {
                    steps.begin(&format!("turn {} of {turns}: {}", turn + 1, entry.key));
                    let (came, solver) = self.process(place, text, words, limit).await?;
                    side.tries.add(came);
                    side.solver = solver.unwrap_or_else(|| std::mem::take(&mut side.solver));
                }
            }
            if turn == 0 && sides.iter().all(|(_, _, side)| side.tries.dead().is_some()) {
                dead = sides.first().and_then(|(_, _, side)| side.tries.dead().map(str::to_string));
                sides.iter_mut().for_each(|(_, _, side)| side.tries.give_up());
            }
        }
        let mut sides = sides.into_iter().map(|(_, _, side)| side);
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

    /// A place whose databases are those that are installed with MIOpen, but for the file.
    fn place(&self) -> std::io::Result<Place> {
        let mut place = Place::new(None)?;
        place.set("MIOPEN_FIND_ENFORCE", "1");
        self.gpu.devices.iter().for_each(|devices| place.set(VISIBLE, devices));
        let Some(others) = &self.others else { return Ok(place) };
        let folder = place.path().join("system-db");
        std::fs::create_dir(&folder)?;
        let name = name_of(&self.path);
        for other in std::fs::read_dir(std::path::absolute(others)?)?.flatten() {
            if other.file_name() != *name {
                std::os::unix::fs::symlink(other.path(), folder.join(other.file_name()))?;
            }
        }
        place.set("MIOPEN_SYSTEM_DB_PATH", folder);
        Ok(place)
    }

    /// What a process tells, and which solver it launched.
    async fn process(
        &self,
        place: &Place,
        text: &str,
        words: &[OsString],
        limit: Duration,
    ) -> anyhow::Result<(Try, Option<String>)> {
        let folder = if self.others.is_none() { place.user_db() } else { place.path().join("system-db") };
        std::fs::write(folder.join(name_of(&self.path)), text).with_context(|| folder.display().to_string())?;
        let mut command = vec![self.driver.clone().into_os_string()];
        command.extend(words.iter().cloned());
        let run = Run { command, environment: place.environment(), folder: place.path().to_path_buf(), output: None };
        let watch = process::Watch { time: limit, silence: limit, ..process::Watch::default() };
        let ran =
            self.gpu.lock.hold_for_long(process::run(&run, &watch)).await.context("MIOpenDriver does not start")?;
        Ok(match read(&ran.tail).filter(|_| ran.is_success()) {
            Some((us, solver)) => (Try::Timed(us), Some(solver)),
            None => (untold(&ran, 3, "MIOpenDriver told no time"), None),
        })
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

/// What MIOpenDriver is asked: the solver that MIOpen chooses, without a search, several times.
fn asked(words: Vec<OsString>) -> Vec<OsString> {
    let mut asked: Vec<OsString> = Vec::with_capacity(words.len() + 2);
    for word in words {
        let is_count = asked.last().is_some_and(|last| last == "-i");
        asked.push(if is_count { LAUNCHES.into() } else { word });
    }
    asked.extend(["-S", "0"].map(OsString::from));
    asked
}

/// The time that MIOpenDriver tells, in microseconds, and the solver that it launched.
fn read(printed: &str) -> Option<(f64, String)> {
    let time = printed.lines().rev().find(|line| line.starts_with("GPU Kernel Time ") && !line.contains(" Bias "))?;
    let ms: f64 = time.split_once("Elapsed: ")?.1.split_whitespace().next()?.parse().ok()?;
    let solution = printed.lines().rev().find_map(|line| line.strip_prefix("MIOpen ")?.split_once(", Solution: "))?;
    let solver = solution.1.split_once('/')?.1.trim();
    (ms.is_finite() && ms > 0.0).then(|| (1000.0 * ms, solver.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_miopendriver_tells_is_read() {
        let printed = "MIOpenDriver conv -n 1\nForward Conv solutions available: 3\nMIOpen Forward Conv. Algorithm: 1, Solution: 84/ConvDirectNaiveConvFwd\n\
            GPU Kernel Time Forward Conv. Elapsed: 0.012500 ms (average)\nstats: name, n, c\n";
        assert_eq!(read(printed), Some((12.5, "ConvDirectNaiveConvFwd".to_string())));
        assert_eq!(read(&printed.replace("0.012500", "-1")), None);
        assert_eq!(read("GPU Kernel Time Forward Conv. Elapsed: nonsense\n"), None);
        let words = asked(["conv", "-t", "1", "-i", "1"].map(OsString::from).to_vec());
        assert_eq!(words, ["conv", "-t", "1", "-i", "11", "-S", "0"]);
        assert_eq!(without("a\nb\nc", &BTreeSet::from([2])), "a\nc");
    }
}
