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
use bluefin_miopen::key::PerfDbKey;
use bluefin_serving::files::name_of;
use serde_json::{Map, json};

use super::asked::Shown;
use super::immediate::{Asking, Databases, Immediate, Side};
use super::tries::{Steps, replace, take_out, verified};
use super::verdict::{Verdict, Worth};
use super::{Judged, Verified, beside};
use crate::carry::Watch;

/// What the names of perf dbs end with: as text and in SQLite, installed with MIOpen and a user's.
const SYSTEM: [&str; 2] = [".db.txt", ".db"];
const USER: [&str; 2] = [".udb.txt", "_1.1.0.udb"];
/// What the names of those of batch norms begin with.
const NORMS: &str = "batchnorm_";
/// How much MIOpen is to say: which rows it reads, and which it does not take.
const LOG_LEVEL: &str = "5";
/// What takes the place of a row that loses.
const NONE: &str = "no row, so that the solver chooses";

/// A perf db of convolutions.
pub struct PerfFile {
    path: PathBuf,
    bytes: Vec<u8>,
    is_text: bool,
    db: PerfDb,
    rows: Vec<Row>,
    known: PerfDb,
    driver: Immediate,
    /// Of a file that is installed with MIOpen: where the others are.
    others: Option<PathBuf>,
    /// The other form of its perf db there, and the name that a build has without SQLite.
    hidden: Vec<String>,
    notes: Vec<String>,
}

/// A row: what a solver takes for a key.
struct Row {
    key: PerfDbKey,
    solver: Arc<str>,
    params: Arc<str>,
}

/// What MIOpen says of a row.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    /// Nothing that speaks against it.
    Taken,
    /// The params are none that the solver has for the problem.
    Refused,
    /// It finds none.
    Unread,
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
        let is_user_text = name.starts_with(&format!("{base}.HIP.")) && name.ends_with(".udb.txt");
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
        if let Some(version) = driver.version.as_ref().filter(|_| is_user_text) {
            let expected = format!("{base}.{}{}", version.user_suffix("HIP"), ".udb.txt");
            if name != expected {
                bail!(
                    "{shown}: found the name {name}, expected {expected}: MIOpen {version} reads no other, and --miopen-driver says another one"
                );
            }
        }
        let others = (!is_user).then(|| driver.others(path));
        let mut notes = Vec::new();
        if !db.findings.is_empty() {
            notes.push("it has lines that MIOpen does not take, which `bluefin db check` names".to_string());
        }
        notes.extend(others.iter().map(|folder| format!("MIOpen's other files are those of {}", folder.display())));
        if is_user && driver.version.is_none() {
            notes.push("found no include/miopen/version.h, which says what MIOpen's own files are called: this name is believed".to_string());
        }
        let hidden = vec![text, sqlite, format!("{base}.cd.pdb.txt")];
        let known = known.unwrap_or_default();
        Ok(Self { path: path.to_path_buf(), bytes, is_text, db, rows, known, driver, others, hidden, notes })
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
    /// If MIOpenDriver does not start, it fails with all rows and without them, or a file can not be written.
    pub(super) async fn verify(
        &mut self,
        turns: u32,
        limit: Duration,
        fix: bool,
        watch: &mut dyn Watch,
    ) -> anyhow::Result<Option<Verified>> {
        if fix && !self.is_text && !self.db.findings.is_empty() {
            bail!("--fix: {}: found rows that MIOpen does not take, expected none in SQLite", self.path.display());
        }
        let signal = shutdown::on_signal()?;
        let asking = Asking { turns, limit, log_level: Some(LOG_LEVEL) };
        let Some(judged) = signal.run_until_cancelled(self.judge(asking, watch)).await else { return Ok(None) };
        let mut judged = judged?;
        let keys: Vec<(String, &str)> = self.rows.iter().map(|row| (row.key.to_string(), &*row.solver)).collect();
        let lost = if fix { take_out(&keys, &mut judged, NONE, |_, _| None) } else { BTreeSet::new() };
        if !lost.is_empty() {
            replace(&self.path, &self.bytes, &self.without(&lost)?)?;
        }
        Ok(Some(verified(judged)))
    }

    async fn judge(&self, asking: Asking, watch: &mut dyn Watch) -> anyhow::Result<Vec<Judged>> {
        let mut judged = Vec::with_capacity(self.rows.len());
        let mut dead: Vec<Option<String>> = Vec::new();
        let mut steps = Steps::new(watch, self.rows.len(), asking.turns);
        for row in &self.rows {
            let worth = match row.words() {
                Err(reason) => Worth::unknown(&reason),
                Ok(words) => {
                    let what = format!("{} {}", row.solver, row.key);
                    let (sides, reason) =
                        self.driver.sides(&self.sides(row)?, &words, asking, &what, &mut steps).await?;
                    dead.push(reason);
                    row.worth(&sides, asking.turns)
                }
            };
            steps.end(asking.turns as usize);
            judged.push(row.judged(worth));
        }
        let dead: Option<Vec<String>> = dead.into_iter().collect();
        if let Some(reason) = dead.as_deref().and_then(<[_]>::first) {
            bail!("{}: nothing runs, with its rows or without: {reason}", self.path.display());
        }
        Ok(judged)
    }

    /// The perf dbs with a row, without it, and with the one that is known: of its key alone, since nothing else is asked.
    fn sides(&self, row: &Row) -> anyhow::Result<Vec<Databases>> {
        let all = self.db.records.get(&row.key).cloned().unwrap_or_default();
        let mut without = all.clone();
        without.remove(&row.solver);
        let known = self.known.records.get(&row.key).and_then(|solvers| solvers.get(&row.solver)).map(|params| {
            let mut known = without.clone();
            known.insert(Arc::clone(&row.solver), Arc::clone(params));
            known
        });
        let database = |solvers: Solvers| {
            let mut db = PerfDb::default();
            db.records.insert(row.key.clone(), solvers);
            Ok(Databases {
                others: self.others.clone(),
                hidden: self.hidden.clone(),
                name: name_of(&self.path),
                contents: self.written(&db)?,
            })
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

    /// The file without these rows: of a text all else keeps its bytes.
    fn without(&self, lost: &BTreeSet<&(String, &str)>) -> anyhow::Result<Vec<u8>> {
        if self.is_text {
            let text = std::str::from_utf8(&self.bytes).context("a perf db")?;
            return Ok(text.split_inclusive('\n').filter_map(|line| kept(line, lost)).collect::<String>().into_bytes());
        }
        let mut db = self.db.clone();
        for (key, solvers) in &mut db.records {
            let key = key.to_string();
            let names: Vec<Arc<str>> = solvers.keys().cloned().collect();
            names.iter().filter(|name| lost.contains(&(key.clone(), &***name))).for_each(|name| {
                solvers.remove(name);
            });
        }
        self.written(&db)
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

    fn worth(&self, sides: &[Side], turns: u32) -> Worth {
        let came = |at: usize| sides.get(at).map(|side| side.tries.came(turns));
        let (Some(own), Some(default)) = (came(0), came(1)) else { return Worth::unknown("nothing was timed") };
        let mut worth = Worth::between(&own, &default, came(2).as_ref());
        let Some(side) = sides.first().filter(|_| worth.time.is_some()) else { return worth };
        let launched = &*side.solver;
        let (verdict, reason) = match heard(&side.said, &self.solver) {
            _ if launched != &*self.solver => (Verdict::Unknown, format!("MIOpen launches {launched}")),
            Heard::Unread => (Verdict::Unknown, "MIOpen finds no such row in its perf db".to_string()),
            Heard::Refused => {
                (Verdict::Default, "MIOpen does not take its params, and launches the default".to_string())
            }
            Heard::Taken => return worth,
        };
        worth.verdict = verdict;
        worth.reason = Some(reason);
        worth
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
        rows.push(Row { key: row.key.clone(), solver: row.solver.into(), params: row.params.into() });
    };
    let db = if name_of(path).ends_with(".txt") {
        PerfDb::parse_text_with(&name, &bytes, row)?
    } else {
        PerfDb::read_sqlite_with(path, row)?
    };
    Ok((bytes, db, rows))
}

/// A line without the rows that are lost; `None` if it has no other. MIOpen takes the first line of a key, so that all others lose them as well.
fn kept(line: &str, lost: &BTreeSet<&(String, &str)>) -> Option<String> {
    let body = line.trim_end_matches(['\r', '\n']);
    let end = line.get(body.len()..).unwrap_or_default();
    let Some((key, entries)) = body.split_once('=') else { return Some(line.to_string()) };
    let is_lost = |entry: &&str| {
        let solver = entry.split_once(':').map_or("", |(solver, _)| solver);
        lost.contains(&(key.to_string(), solver))
    };
    if !entries.split(';').any(|entry| is_lost(&entry)) {
        return Some(line.to_string());
    }
    let left: Vec<&str> = entries.split(';').filter(|entry| !is_lost(entry)).collect();
    left.iter().any(|entry| !entry.is_empty()).then(|| format!("{key}={}{end}", left.join(";")))
}

/// What MIOpen says of the params of `solver` in its perf db (MIOpen 3.3, `src/include/miopen/find_solution.hpp` and `db_record.hpp`). Params that it can not
/// read are told, and then that there are none.
fn heard(said: &str, solver: &str) -> Heard {
    let refused = [
        "Invalid config loaded from Perf Db: ".to_string() + solver + ":",
        "Perf db record is obsolete or corrupt: ".to_string(),
    ];
    let unread = format!("Perf Db: record not found for: {solver}");
    if refused.iter().any(|words| said.contains(words)) {
        Heard::Refused
    } else if said.lines().any(|line| line.trim_end().ends_with(&unread)) {
        Heard::Unread
    } else {
        Heard::Taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_go_and_all_else_keeps_its_bytes() {
        let lost = [("k".to_string(), "A")];
        let lost: BTreeSet<&(String, &str)> = lost.iter().collect();
        let kept = |line| kept(line, &lost);
        assert_eq!(kept("k=A:1,2;B:3\r\n").as_deref(), Some("k=B:3\r\n"));
        assert_eq!(kept("k=B:3;A:1;").as_deref(), Some("k=B:3;"));
        assert_eq!(kept("k=A:1\n"), None);
        assert_eq!(kept("k=A:1;\n"), None, "a semicolon at the end is no entry");
        for other in ["k=AA:1\n", "l=A:1\n", "no key\n", "\n"] {
            assert_eq!(kept(other).as_deref(), Some(other));
        }
    }

    #[test]
    fn what_miopen_says_of_a_row_is_heard() {
        let heard = |line: &str| heard(&format!("MIOpen(HIP): {line}\nGPU Kernel Time\n"), "ConvAsm1x1U");
        assert_eq!(heard("Info [FindSolutionImpl] Perf Db: record not found for: ConvAsm1x1U"), Heard::Unread);
        assert_eq!(heard("Info [FindSolutionImpl] Perf Db: record not found for: ConvAsm1x1UV2"), Heard::Taken);
        let invalid =
            "Warning [FindSolutionImpl] Invalid config loaded from Perf Db: ConvAsm1x1U: 9,9. Performance may degrade.";
        assert_eq!(heard(invalid), Heard::Refused);
        let corrupt = "Info [GetValues] Perf db record is obsolete or corrupt: x. Performance may degrade.\nPerf Db: record not found for: ConvAsm1x1U";
        assert_eq!(heard(corrupt), Heard::Refused);
    }
}
