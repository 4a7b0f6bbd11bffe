//! MIOpen's find dbs: what MIOpen launches by a row and what it launches without it, in turns. MIOpenDriver asks for it as a program does
//! (immediate mode), in processes of their own, whose databases are the file with the row or without it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use bluefin_common::files::FileSet;
use bluefin_common::problem::Problem;
use bluefin_common::shutdown;
use bluefin_common::target::Target;
use bluefin_miopen::Tool;
use bluefin_miopen::db::find_db::{FindEntry, scan};
use bluefin_miopen::detect::{self, ROCM};
use bluefin_miopen::driver::{Params, arguments};
use bluefin_miopen::place::Place;
use bluefin_miopen::process::{self, Ended, Run, Watch, describe};
use bluefin_serving::files::name_of;
use serde_json::{Map, Value as Json, json};

use super::verdict::{Time, Verdict, Worth};
use super::{Judged, Verified, beside};

/// What the name of a user's find db ends with, and that of one which is installed with MIOpen.
const USER: &str = ".ufdb.txt";
const SYSTEM: &str = ".fdb.txt";
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
}

/// A row.
struct Entry {
    line: u64,
    key: String,
    problem: Option<Problem>,
    entries: Vec<FindEntry>,
}

/// What came of a process.
enum Came {
    /// Microseconds, and the solver that was launched.
    Launched(f64, String),
    Failed(String),
    /// It says nothing that can be read.
    Nothing(String),
}

/// A side of a row.
#[derive(Default)]
struct Side {
    samples_us: Vec<f64>,
    solver: String,
    failure: Option<String>,
    unread: Option<String>,
}

impl FindFile {
    /// Reads a file for GPUs of `target`, and the other one that `known` names, or that has its name in the folder that `known` is. `driver` is
    /// MIOpenDriver, where it is named.
    ///
    /// # Errors
    /// If one can not be read, is for another GPU or has no row, and if there is no MIOpenDriver.
    pub fn read(path: &Path, known: Option<&Path>, target: &Target, driver: Option<&Path>) -> anyhow::Result<Self> {
        let name = name_of(path);
        let (base, known) = (target.db_basename(), beside(known, &name));
        if !name.starts_with(&format!("{base}.HIP.")) || !(name.ends_with(USER) || name.ends_with(SYSTEM)) {
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
        let Some(driver) = detect::find(Tool::MiopenDriver, driver, Path::new(ROCM)) else {
            bail!("--miopen-driver: found no MIOpenDriver, expected its path");
        };
        Ok(Self { path: path.to_path_buf(), text, rows, known, driver })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Times what is launched by the rows and without them, in `turns`, and takes those that lose out of the file if `fix`. `None`: a signal
    /// interrupted it.
    ///
    /// # Errors
    /// If MIOpenDriver does not start, or a file can not be written.
    pub async fn verify(&mut self, turns: u32, limit: Duration, fix: bool) -> anyhow::Result<Option<Verified>> {
        let signal = shutdown::on_signal()?;
        let Some(judged) = signal.run_until_cancelled(self.judge(turns, limit)).await else { return Ok(None) };
        let mut judged = judged?;
        let mut taken_out = BTreeSet::new();
        for (entry, row) in self.rows.iter().zip(&mut judged) {
            if fix && row.worth.verdict.loses() && row.worth.default.is_some() {
                row.replaced_by = Some(NONE.to_string());
                taken_out.insert(entry.line);
            }
        }
        let loses = judged.iter().any(|row| row.worth.verdict.loses() && row.replaced_by.is_none());
        if !taken_out.is_empty() {
            self.text = without(&self.text, &taken_out);
            self.write()?;
        }
        Ok(Some(Verified { rows: judged, replaced: !taken_out.is_empty(), loses }))
    }

    async fn judge(&self, turns: u32, limit: Duration) -> anyhow::Result<Vec<Judged>> {
        let mut judged = Vec::with_capacity(self.rows.len());
        for entry in &self.rows {
            let worth = match &entry.problem {
                None => Worth::unknown("no convolution has such a key"),
                Some(problem) => match arguments(problem, Params::Take) {
                    Err(error) => Worth::unknown(&format!("MIOpenDriver has no words for {error}")),
                    Ok(words) => self.worth(entry, &asked(words), turns, limit).await?,
                },
            };
            judged.push(entry.judged(worth));
        }
        Ok(judged)
    }

    /// One row, by processes with it, without it, and with the one that is known.
    async fn worth(&self, entry: &Entry, words: &[OsString], turns: u32, limit: Duration) -> anyhow::Result<Worth> {
        let line = BTreeSet::from([entry.line]);
        let without_row = without(&self.text, &line);
        let mut texts = vec![self.text.clone(), without_row.clone()];
        if let Some(known) = self.known.iter().find(|known| known.key == entry.key) {
            texts.push(format!("{without_row}{}\n", known.text()));
        }
        let mut sides: Vec<(Place, String, Side)> = Vec::new();
        for text in texts {
            sides.push((self.place().context("folders of MIOpenDriver")?, text, Side::default()));
        }
        for turn in 0..turns {
            // Neither side is always the first.
            let count = sides.len();
            for at in 0..count {
                let at = if turn % 2 == 0 { at } else { count - 1 - at };
                let Some((place, text, side)) = sides.get_mut(at) else { continue };
                if side.failure.is_none() && side.unread.is_none() {
                    side.take(self.process(place, text, words, limit).await?);
                }
            }
        }
        let mut sides = sides.into_iter().map(|(_, _, side)| side);
        let (own, default, known) = (sides.next().unwrap_or_default(), sides.next(), sides.next());
        let time = |side: Option<&Side>| {
            side.filter(|it| it.failure.is_none()).and_then(|it| Time::of_samples(&it.samples_us))
        };
        let (default_time, known_time) = (time(default.as_ref()), time(known.as_ref()));
        if let Some(reason) = &own.unread {
            return Ok(Worth::unknown(reason));
        }
        let own_time = match (&own.failure, time(Some(&own))) {
            (Some(reason), _) => Err(reason.clone()),
            (None, Some(time)) => Ok(time),
            (None, None) => return Ok(Worth::unknown("nothing was timed")),
        };
        let mut worth = Worth::between(own_time, default_time, known_time);
        let fastest = entry.fastest().map(|entry| &*entry.solver);
        if worth.time.is_some() && default.is_some_and(|default| default.solver == own.solver) {
            worth.verdict = Verdict::Default;
        }
        if worth.time.is_some() && fastest.is_some_and(|solver| solver != own.solver) {
            worth.reason = Some(format!("MIOpen launches {}", own.solver));
        }
        Ok(worth)
    }

    /// A place whose databases are those beside the file, where it is installed with MIOpen.
    fn place(&self) -> std::io::Result<Place> {
        let mut place = Place::new(None)?;
        place.set("MIOPEN_FIND_ENFORCE", "1");
        if name_of(&self.path).ends_with(USER) {
            return Ok(place);
        }
        let folder = place.path().join("system-db");
        std::fs::create_dir(&folder)?;
        let name = name_of(&self.path);
        let base = name.split('.').next().unwrap_or_default().to_string();
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        for other in std::fs::read_dir(std::path::absolute(parent)?)?.flatten() {
            let other_name = other.file_name().to_string_lossy().into_owned();
            if other_name != name && other_name.split('.').next() == Some(&base) {
                std::os::unix::fs::symlink(other.path(), folder.join(&other_name))?;
            }
        }
        place.set("MIOPEN_SYSTEM_DB_PATH", folder);
        Ok(place)
    }

    async fn process(&self, place: &Place, text: &str, words: &[OsString], limit: Duration) -> anyhow::Result<Came> {
        let name = name_of(&self.path);
        let folder = if name.ends_with(USER) { place.user_db() } else { place.path().join("system-db") };
        std::fs::write(folder.join(&name), text).with_context(|| folder.display().to_string())?;
        let mut command = vec![self.driver.clone().into_os_string()];
        command.extend(words.iter().cloned());
        let run = Run { command, environment: place.environment(), folder: place.path().to_path_buf(), output: None };
        let watch = Watch { time: limit, silence: limit, ..Watch::default() };
        let ran = process::run(&run, &watch).await.context("MIOpenDriver does not start")?;
        let how = match &ran.ended {
            Ended::Exited(status) => describe(*status),
            Ended::OutOfTime | Ended::Silent => format!("killed after {} s", ran.took.as_secs()),
            Ended::TooLarge => "killed: it wrote too much".to_string(),
            Ended::Killed(reason) => bail!("MIOpenDriver was killed: {reason}"),
        };
        let words: Vec<&str> = ran.tail.lines().rev().filter(|line| !line.trim().is_empty()).take(3).collect();
        let words: Vec<&str> = words.into_iter().rev().collect();
        let told = format!("{how}: {}", words.join(" | "));
        Ok(match read(&ran.tail) {
            _ if !ran.is_success() => Came::Failed(told),
            Some((us, solver)) => Came::Launched(us, solver),
            None => Came::Nothing(format!("MIOpenDriver told no time: {told}")),
        })
    }

    fn write(&self) -> anyhow::Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut files = FileSet::new(folder)?;
        let beside = files.add(&name_of(&self.path))?;
        std::fs::write(&beside, &self.text).with_context(|| self.path.display().to_string())?;
        files.commit()?;
        Ok(())
    }
}

impl Side {
    fn take(&mut self, came: Came) {
        match came {
            Came::Launched(us, solver) => {
                self.samples_us.push(us);
                self.solver = solver;
            }
            Came::Failed(reason) => self.failure = Some(reason),
            Came::Nothing(reason) => self.unread = Some(reason),
        }
    }
}

impl Entry {
    /// The one that MIOpen takes.
    fn fastest(&self) -> Option<&FindEntry> {
        self.entries.iter().min_by(|a, b| a.time_ms.total_cmp(&b.time_ms))
    }

    /// As a line of a file.
    fn text(&self) -> String {
        let entry = |it: &FindEntry| format!("{}:{},{},{}", it.solver, it.time_ms, it.workspace, it.algorithm);
        let entries: Vec<String> = self.entries.iter().map(entry).collect();
        format!("{}={}", self.key, entries.join(";"))
    }

    fn judged(&self, worth: Worth) -> Judged {
        let solver = self.fastest().map_or("none", |entry| &*entry.solver).to_string();
        let says = |it: &FindEntry| (it.solver.to_string(), json!(it.time_ms));
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
    let (mut rows, mut seen) = (Vec::new(), BTreeSet::new());
    scan(&path.display().to_string(), text.as_bytes(), |record| {
        if seen.insert(record.text.to_string()) {
            rows.push(Entry {
                line: record.line,
                key: record.text.to_string(),
                problem: record.key.and_then(|key| key.problem().ok()).map(Problem::Conv),
                entries: record.entries,
            });
        }
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
