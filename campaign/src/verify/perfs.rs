//! MIOpen's perf dbs: what a solver takes with the params of a row and what it takes without them, in turns. MIOpenDriver launches the solver by its
//! number, in processes of their own, whose perf db has the row or lacks it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bluefin_common::problem::Problem;
use bluefin_common::shutdown;
use bluefin_miopen::db::perf_db::{PerfDb, PerfRow, Solvers};
use bluefin_miopen::db::solvers::{Solvers as Registry, is_own};
use bluefin_miopen::db::{Finding, FindingKind};
use bluefin_miopen::key::PerfDbKey;
use bluefin_serving::files::name_of;
use serde_json::{Map, json};

use super::asked::Shown;
use super::immediate::{Asking, Databases, Immediate, Others, Side};
use super::tries::{Steps, replace, take_out, verified};
use super::verdict::{Verdict, Worth};
use super::{Judged, Verified, beside};
use crate::carry::Watch;

/// What the names of perf dbs end with: as text and in SQLite, installed with MIOpen and a user's.
const SYSTEM: [&str; 2] = [".db.txt", ".db"];
const USER_TEXT: &str = ".udb.txt";
const USER: [&str; 2] = [USER_TEXT, "_1.1.0.udb"];
/// What the names of those of batch norms begin with.
const NORMS: &str = "batchnorm_";
/// What the names end with of all that a build may read in the place of a system's, be it for another number of CUs (MIOpen 3.3,
/// `src/include/miopen/execution_context.hpp`).
const HIDDEN: &[&str] = &[".db", ".db.txt", ".cd.pdb.txt"];
/// How much MIOpen is to say: the params that it reads, and which it does not take.
const LOG_LEVEL: &str = "5";
/// What takes the place of a row that loses.
const NONE: &str = "no row, so that the solver chooses";
/// Why a row is not judged that need not have been read.
const UNSAID: &str = "MIOpen does not say that it reads the row";

/// A perf db of convolutions.
pub struct PerfFile {
    path: PathBuf,
    /// Of a text.
    bytes: Vec<u8>,
    is_text: bool,
    db: PerfDb,
    rows: Vec<Row>,
    known: PerfDb,
    driver: Immediate,
    /// Of a file that is installed with MIOpen: the others.
    others: Option<Others>,
    notes: Vec<String>,
}

/// A row: what a solver takes for a key.
struct Row {
    /// From 1, or its id.
    line: u64,
    key: PerfDbKey,
    solver: Arc<str>,
    params: Arc<str>,
}

/// What MIOpen says of the params of a solver.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    /// It read them, and nothing speaks against it.
    Taken,
    /// Nothing: it need not have read them.
    Nothing,
    /// The params are none that the solver has for the problem.
    Refused,
    /// It finds none.
    Missing,
}

impl PerfFile {
    /// Reads a file for GPUs of `target`, and the other one that `known` names, or that has its name in the folder that `known` is. `driver` is
    /// MIOpenDriver, where it is named.
    ///
    /// # Errors
    /// If one can not be read, is for another GPU, of batch norms, or has no row, and if there is no MIOpenDriver.
    pub(super) fn read(path: &Path, known: Option<&Path>, gpu: &Shown, driver: Option<&Path>) -> anyhow::Result<Self> {
        let (name, base, shown) = (name_of(path), gpu.target.db_basename(), path.display());
        if name.starts_with(NORMS) {
            bail!(
                "{shown}: found a perf db of batch norms, expected one of convolutions: MIOpenDriver launches no solver of a batch norm by name"
            );
        }
        let is_text = name.ends_with(".txt");
        let is_user_text = name.starts_with(&format!("{base}.HIP.")) && name.ends_with(USER_TEXT);
        let is_user = is_user_text || name == format!("{base}_1.1.0.udb");
        let [text, sqlite] = SYSTEM.map(|end| format!("{base}{end}"));
        if !is_user && name != text && name != sqlite {
            let [user_text, user_sqlite] = USER;
            bail!(
                "{shown}: found the name {name}, expected {text} or {sqlite}, or a user's, {base}.HIP.<version>{user_text} or {base}{user_sqlite}, \
                 a perf db of convolutions for {}; --gpu says another GPU",
                gpu.target
            );
        }
        let (bytes, db, rows) = read(path)?;
        if rows.is_empty() {
            bail!("{shown}: found no row, expected some");
        }
        let known = beside(known, &name).map(|other| read(&other)).transpose()?.map(|(_, db, _)| db);
        let driver = Immediate::find(gpu, driver)?;
        if is_user_text {
            driver.check_user(path, &base, USER_TEXT)?;
        }
        let hidden = (gpu.target.arch().to_string(), HIDDEN);
        let others = (!is_user).then(|| Others { folder: driver.others(path), hidden: Some(hidden) });
        let mut notes = Vec::new();
        if db.findings.kept.iter().any(|finding| !is_unused(finding)) {
            notes.push("it has lines that MIOpen does not take, which `bluefin db check` names".to_string());
        }
        notes.extend(
            others.iter().map(|others| format!("MIOpen's other files are those of {}", others.folder.display())),
        );
        if is_user && driver.version.is_none() {
            notes.push("found no include/miopen/version.h, which says what MIOpen's own files are called: this name is believed".to_string());
        }
        let known = known.unwrap_or_default();
        Ok(Self { path: path.to_path_buf(), bytes, is_text, db, rows, known, driver, others, notes })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was left aside, and what else MIOpen reads.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        (!self.notes.is_empty()).then(|| self.notes.join("; "))
    }

    /// Times solvers with the params of rows and without them, and takes rows that lose out of the file if `fix`. `None`: a signal interrupted it.
    ///
    /// # Errors
    /// If MIOpenDriver does not start, or a file can not be written.
    pub(super) async fn verify(
        &mut self,
        turns: u32,
        limit: Duration,
        fix: bool,
        watch: &mut dyn Watch,
    ) -> anyhow::Result<Option<Verified>> {
        let is_twice = |finding: &Finding| finding.kind == FindingKind::DuplicateSolver;
        if fix && !self.is_text && self.db.findings.kept.iter().any(is_twice) {
            let shown = self.path.display();
            bail!(
                "--fix: {shown}: found two rows of a solver for a problem, expected one, so that none is left behind it"
            );
        }
        let signal = shutdown::on_signal()?;
        let asking = Asking { turns, limit, log_level: Some(LOG_LEVEL) };
        let Some(judged) = signal.run_until_cancelled(self.judge(asking, watch)).await else { return Ok(None) };
        let mut judged = judged?;
        let keys: Vec<(String, &str)> = self.rows.iter().map(|row| (row.key.to_string(), &*row.solver)).collect();
        let lost = if fix { take_out(&keys, &mut judged, NONE, |_, _| None) } else { BTreeSet::new() };
        if !lost.is_empty() {
            self.remove(&lost)?;
        }
        Ok(Some(verified(judged)))
    }

    async fn judge(&self, asking: Asking, watch: &mut dyn Watch) -> anyhow::Result<Vec<Judged>> {
        let mut judged = Vec::with_capacity(self.rows.len());
        let mut steps = Steps::new(watch, self.rows.len(), asking.turns);
        for row in &self.rows {
            let worth = match row.words() {
                Err(reason) => Worth::unknown(&reason),
                Ok(words) => {
                    let what = format!("{} {}", row.solver, row.key);
                    let (sides, _) = self.driver.sides(&self.sides(row)?, &words, asking, &what, &mut steps).await?;
                    row.worth(&sides, self.known(row), self.others.is_some(), asking.turns)
                }
            };
            steps.end(asking.turns as usize);
            judged.push(row.judged(worth));
        }
        Ok(judged)
    }

    /// The params that are known for the solver and the problem of a row.
    fn known(&self, row: &Row) -> Option<&Arc<str>> {
        self.known.records.get(&row.key)?.get(&row.solver)
    }

    /// The perf dbs with a row, without it, and with the one that is known: of its key alone, since nothing else is asked.
    fn sides(&self, row: &Row) -> anyhow::Result<Vec<Databases>> {
        let all = self.db.records.get(&row.key).cloned().unwrap_or_default();
        let mut without = all.clone();
        without.remove(&row.solver);
        let known = self.known(row).map(|params| {
            let mut known = without.clone();
            known.insert(Arc::clone(&row.solver), Arc::clone(params));
            known
        });
        let database = |solvers: Solvers| {
            let mut db = PerfDb::default();
            db.records.insert(row.key.clone(), solvers);
            Ok(Databases { others: self.others.clone(), name: name_of(&self.path), contents: self.written(&db)? })
        };
        [Some(all), Some(without), known].into_iter().flatten().map(database).collect()
    }

    /// In the form that the file has.
    fn written(&self, db: &PerfDb) -> anyhow::Result<Vec<u8>> {
        if self.is_text {
            let mut text = Vec::new();
            db.write_text(&mut text)?;
            return Ok(text);
        }
        let file = tempfile::NamedTempFile::new().context("a temporary file")?;
        db.write_sqlite(file.path())?;
        std::fs::read(file.path()).with_context(|| file.path().display().to_string())
    }

    /// Takes these rows out of the file: all else stays as it is.
    fn remove(&self, lost: &BTreeSet<&(String, &str)>) -> anyhow::Result<()> {
        if self.is_text {
            let lines = self.bytes.split_inclusive(|byte| *byte == b'\n');
            let left: Vec<u8> = lines.filter_map(|line| kept(line, lost)).flatten().collect();
            return replace(&self.path, &self.bytes, &left);
        }
        let is_lost = |row: &&Row| lost.contains(&(row.key.to_string(), &*row.solver));
        let gone = self.rows.iter().filter(is_lost).map(Row::as_read);
        if !PerfDb::remove_sqlite(&self.path, &gone.collect::<Vec<_>>())? {
            bail!("{}: found other rows than were read, expected the same; nothing was written", self.path.display());
        }
        Ok(())
    }
}

impl Row {
    /// What MIOpenDriver is asked.
    ///
    /// # Errors
    /// Why it can not be.
    fn words(&self) -> Result<Vec<OsString>, String> {
        if is_own(&self.solver) {
            return Err("a solver of bluefin's, which MIOpen does not have".to_string());
        }
        let known = Registry::shipped().named(&self.solver);
        if let Some(known) = known.filter(|known| known.primitive != "Convolution") {
            let whose = known.primitive.to_lowercase();
            return Err(format!("a solver of another primitive ({whose}), which MIOpenDriver does not launch by name"));
        }
        // Numbers are taken by all releases, names by later ones alone.
        let solution = known.map_or_else(|| self.solver.to_string(), |known| known.id.to_string());
        let problem = self.key.problem().map_err(|_| "no convolution has such a key".to_string())?;
        let words = Immediate::words(&Problem::Conv(problem), &solution);
        words.map_err(|error| format!("MIOpenDriver has no words for {error}"))
    }

    fn as_read(&self) -> PerfRow<'_> {
        PerfRow { line: self.line, key: &self.key, solver: &self.solver, params: &self.params }
    }

    /// By processes with it, without it, and with the params that are `known`. It counts where MIOpen says that it went by it, and where that made a
    /// difference: without a row that `is_installed` there is none.
    fn worth(&self, sides: &[Side], known: Option<&Arc<str>>, is_installed: bool, turns: u32) -> Worth {
        let came = |at: usize| sides.get(at).map(|side| side.tries.came(turns));
        let (Some(own), Some(default)) = (came(0), came(1)) else { return Worth::unknown("nothing was timed") };
        let known = sides.get(2).zip(known).filter(|(side, _)| !side.solver.is_empty());
        let unknown = known.and_then(|(side, params)| self.not_taken(side, params));
        let known = came(2).filter(|_| unknown.is_none());
        let mut worth = Worth::between(&own, &default, known.as_ref());
        let unknown = unknown.map(|(_, reason)| format!("of the known params: {reason}"));
        let (Some(side), Some(without)) = (sides.first(), sides.get(1)) else { return worth };
        let found = match worth.verdict {
            // Where it fails no process says what it launches.
            Verdict::Fails => match heard(&side.said, &self.solver, &self.params) {
                Heard::Nothing | Heard::Missing => Some((Verdict::Unknown, UNSAID.to_string())),
                Heard::Taken | Heard::Refused => None,
            },
            _ if worth.time.is_none() => None,
            _ => self.not_taken(side, &self.params),
        };
        let is_same = || heard(&without.said, &self.solver, &self.params) == Heard::Taken;
        let is_other = || is_installed && says_params(&without.said, &self.solver);
        let found = found.or_else(|| {
            let is_judged = worth.time.is_some() || worth.verdict == Verdict::Fails;
            match is_judged {
                true if is_same() => Some((Verdict::Default, "MIOpen has the same params without it".to_string())),
                true if is_other() => Some((Verdict::Unknown, "MIOpen has other params without it".to_string())),
                _ => None,
            }
        });
        let reason = found.map(|(verdict, reason)| {
            worth.verdict = verdict;
            reason
        });
        let reasons: Vec<String> = reason.into_iter().chain(worth.reason.take()).chain(unknown).collect();
        worth.reason = (!reasons.is_empty()).then(|| reasons.join("; "));
        worth
    }

    /// Why what processes of a side took is not what the solver takes with `params`, and what it is then.
    fn not_taken(&self, side: &Side, params: &str) -> Option<(Verdict, String)> {
        let launched = &*side.solver;
        if launched != &*self.solver {
            return Some((Verdict::Unknown, format!("MIOpen launches {launched}")));
        }
        match heard(&side.said, &self.solver, params) {
            Heard::Taken => None,
            Heard::Nothing => Some((Verdict::Unknown, UNSAID.to_string())),
            Heard::Missing => Some((Verdict::Unknown, "MIOpen finds no such row in its perf db".to_string())),
            Heard::Refused => {
                Some((Verdict::Default, "MIOpen does not take its params, and launches the default".to_string()))
            }
        }
    }

    fn judged(&self, worth: Worth) -> Judged {
        let key = self.key.to_string();
        Judged {
            key: Map::from_iter([("key".to_string(), json!(key)), ("solver".to_string(), json!(&*self.solver))]),
            row: json!(&*self.params),
            name: key,
            short: format!("{} {}", self.solver, self.params).trim_end().to_string(),
            worth,
            replaced_by: None,
        }
    }
}

/// Bytes, records, and rows in the order of the file.
fn read(path: &Path) -> anyhow::Result<(Vec<u8>, PerfDb, Vec<Row>)> {
    let name = path.display().to_string();
    let bytes = std::fs::read(path).with_context(|| name.clone())?;
    let mut rows = Vec::new();
    let row = |row: PerfRow<'_>| {
        rows.push(Row { line: row.line, key: row.key.clone(), solver: row.solver.into(), params: row.params.into() });
    };
    let db = if name_of(path).ends_with(".txt") {
        PerfDb::parse_text_with(&name, &bytes, row)?
    } else {
        PerfDb::read_sqlite_with(path, row)?
    };
    Ok((bytes, db, rows))
}

/// Whether it is said of what nothing refers to, as MIOpen leaves it where it takes rows out.
fn is_unused(finding: &Finding) -> bool {
    finding.kind == FindingKind::Reference && finding.line == 0
}

/// A line without the rows that are lost; `None` if it has no other. MIOpen takes the first line of a key, so that all others lose them as well.
fn kept(line: &[u8], lost: &BTreeSet<&(String, &str)>) -> Option<Vec<u8>> {
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let (body, end) = line.split_at(line.iter().rposition(|byte| !is_end(byte)).map_or(0, |last| last + 1));
    let split = |text: &[u8], by: u8| text.iter().position(|byte| *byte == by);
    let Some((key, entries)) = split(body, b'=').and_then(|at| Some((body.get(..at)?, body.get(at + 1..)?))) else {
        return Some(line.to_vec());
    };
    let is_lost = |entry: &&[u8]| {
        let solver = split(entry, b':').and_then(|at| entry.get(..at)).unwrap_or_default();
        lost.iter().any(|(lost, name)| lost.as_bytes() == key && name.as_bytes() == solver)
    };
    let entries = || entries.split(|byte| *byte == b';');
    if !entries().any(|entry| is_lost(&entry)) {
        return Some(line.to_vec());
    }
    let left: Vec<&[u8]> = entries().filter(|entry| !is_lost(entry)).collect();
    let left = left.iter().any(|entry| !entry.is_empty()).then(|| left.join(&b';'))?;
    Some([key, b"=", &left, end].concat())
}

/// What MIOpen says of `params` of `solver` (MIOpen 3.3, `src/include/miopen/find_solution.hpp`, `db_record.hpp` and `src/db_record.cpp`): it prints what it
/// reads, behind any key. Of params that it can not read it says so, and then that there are none.
fn heard(said: &str, solver: &str, params: &str) -> Heard {
    let line_ends = |words: &str| said.lines().any(|line| line.trim_end().ends_with(words));
    let is_read = line_ends(&format!("={solver}:{params}"));
    let is_missing = line_ends(&format!("Perf Db: record not found for: {solver}"));
    let is_corrupt = said.contains(&format!("Perf db record is obsolete or corrupt: {params}. "));
    if said.contains(&format!("Invalid config loaded from Perf Db: {solver}:")) || is_missing && is_corrupt {
        Heard::Refused
    } else if is_missing {
        Heard::Missing
    } else if is_read {
        Heard::Taken
    } else {
        Heard::Nothing
    }
}

/// Whether MIOpen says that it read any params of `solver`.
fn says_params(said: &str, solver: &str) -> bool {
    let named = format!("={solver}:");
    let params = |line: &str| line.rsplit_once(&named).map(|(_, params)| params.trim_end().to_string());
    said.lines().filter_map(params).any(|params| params != "<values not found>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_go_and_all_else_keeps_its_bytes() {
        let lost = [("k".to_string(), "A")];
        let lost: BTreeSet<&(String, &str)> = lost.iter().collect();
        let kept = |line: &[u8]| kept(line, &lost);
        assert_eq!(kept(b"k=A:1,2;B:3\r\n").as_deref(), Some(&b"k=B:3\r\n"[..]));
        assert_eq!(kept(b"k=B:3;A:1;").as_deref(), Some(&b"k=B:3;"[..]));
        assert_eq!(kept(b"k=A:1;B:\xff\n").as_deref(), Some(&b"k=B:\xff\n"[..]));
        assert_eq!(kept(b"k=A:1\n"), None);
        assert_eq!(kept(b"k=A:1;\n"), None, "a semicolon at the end is no entry");
        for other in [&b"k=AA:1\n"[..], b"l=A:1\n", b"no key\n", b"\n", b"\xff=A:1\n"] {
            assert_eq!(kept(other).as_deref(), Some(other));
        }
    }

    #[test]
    fn what_miopen_says_of_a_row_is_heard() {
        let heard = |line: &str| heard(&format!("MIOpen(HIP): {line}\nGPU Kernel Time\n"), "ConvAsm1x1U", "9,9");
        let read = "Info [GetValues] 2x1=ConvAsm1x1U:9,9";
        assert_eq!(heard(read), Heard::Taken);
        assert_eq!(heard("Info [FindSolutionImpl] Perf Db: record not found for: ConvAsm1x1U"), Heard::Missing);
        for silent in [
            "Info [FindSolutionImpl] Perf Db: record not found for: ConvAsm1x1UV2",
            "Info [GetValues] 2x1=ConvAsm1x1U:9,8",
            "Info [GetValues] 2x1=ConvAsm1x1U:<values not found>",
            "Info [FindSolutionImpl] ConvAsm1x1U (not searchable)",
            "Info [FindSolutionImpl] ConvAsm1x1U (db access disabled)",
        ] {
            assert_eq!(heard(silent), Heard::Nothing, "{silent}");
        }
        let invalid =
            "Warning [FindSolutionImpl] Invalid config loaded from Perf Db: ConvAsm1x1U: 9,9. Performance may degrade.";
        assert_eq!(heard(&format!("{read}\n{invalid}")), Heard::Refused);
        let corrupt = |params: &str| {
            format!(
                "{read}\nInfo [GetValues] Perf db record is obsolete or corrupt: {params}. Performance may degrade."
            )
        };
        let none = "\nPerf Db: record not found for: ConvAsm1x1U";
        assert_eq!(heard(&(corrupt("9,9") + none)), Heard::Refused);
        assert_eq!(heard(&corrupt("x")), Heard::Taken, "that of another solver");
        let says = |line: &str| says_params(line, "ConvAsm1x1U");
        assert!(says("k=ConvAsm1x1U:1") && !says("k=ConvAsm1x1U:<values not found>") && !says("k=ConvAsm1x1UV2:1"));
    }
}
