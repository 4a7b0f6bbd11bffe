//! MIOpen's find database: for each convolution the solvers that can do it, with time, workspace and algorithm.
//!
//! `key=solver:time,workspace,algorithm;…` is written (version 2); version 1,
//! `key=algorithm:solver,time,workspace,…`, is read too. The reader does what MIOpen 3.3's does with every line, and
//! says where that is not what its writer can have meant.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::sync::Arc;

use bluefin_common::algorithm::Algorithm;
use bluefin_common::problem::Direction;

use crate::db::error::{ReadError, Refused, WriteError};
use crate::db::findings::{FindingKind, Findings, short};
use crate::db::lines::Line;
use crate::db::{lines, number};
use crate::key::{FindDbKey, KeyError};

const FORMAT: &str = "find db";
/// What MIOpen has in place of an algorithm that it could not read.
const INVALID: &str = "<invalid>";

/// What MIOpen has for a time and a workspace that are not written.
const NO_TIME: f32 = -1.0;
const NO_WORKSPACE: u64 = u64::MAX;

/// One solver for a convolution.
#[derive(Clone, Debug)]
pub struct FindEntry {
    pub solver: Arc<str>,
    /// Milliseconds.
    pub time_ms: f32,
    /// Bytes.
    pub workspace: u64,
    /// With the prefix of its direction: see [`Algorithm::miopen_name`].
    pub algorithm: Arc<str>,
    /// The time as it is written, where MIOpen would write it otherwise: `2.0` for `2`, or more than six digits.
    written: Option<Box<str>>,
}

impl PartialEq for FindEntry {
    /// Whether both say the same, however their times are written.
    fn eq(&self, other: &Self) -> bool {
        let parts = |entry: &Self| (entry.time_ms, entry.workspace);
        parts(self) == parts(other) && self.solver == other.solver && self.algorithm == other.algorithm
    }
}

/// A find database.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FindDb {
    /// Entries by key. A key may be one that no convolution has: files hold such keys.
    pub records: BTreeMap<String, Vec<FindEntry>>,
    /// Lines that hold version 1 entries.
    pub legacy_lines: u64,
    pub findings: Findings,
}

/// A line that MIOpen would use.
#[derive(Debug)]
pub struct FindRecord<'a> {
    /// From 1.
    pub line: u64,
    /// The key as it is written.
    pub text: &'a str,
    /// `None` if no convolution has it, which is among the findings then.
    pub key: Option<FindDbKey>,
    pub entries: Vec<FindEntry>,
    /// Whether it has version 1 entries.
    pub legacy: bool,
}

/// Reads `bytes` line by line; `name` is for errors.
///
/// # Errors
/// If it is too large. Whatever else is wrong is a finding.
pub fn scan<'a>(name: &str, bytes: &'a [u8], mut take: impl FnMut(FindRecord<'a>)) -> Result<Findings, ReadError> {
    let mut findings = Findings::default();
    let mut names = HashSet::new();
    lines::read(name, bytes, &mut findings, |line, findings| take(record(&line, &mut names, findings)))?;
    Ok(findings)
}

fn record<'a>(line: &Line<'a>, names: &mut HashSet<Arc<str>>, findings: &mut Findings) -> FindRecord<'a> {
    let key = match FindDbKey::parse(line.key) {
        Ok(key) => Some(key),
        Err(error) => {
            let legacy = matches!(error, KeyError::LegacyShape);
            let kind = if legacy { FindingKind::LegacyKey } else { FindingKind::Key };
            findings.add(line.number, kind, || error.to_string());
            None
        }
    };
    let directions = key.as_ref().map_or(Direction::ALL.as_slice(), |key| std::slice::from_ref(&key.direction));
    let mut entries: Vec<FindEntry> = Vec::new();
    let mut seen = HashSet::new();
    let mut legacy = false;
    for (first, values) in line.entries(findings) {
        let is_legacy = is_algorithm(first, &Direction::ALL);
        legacy |= is_legacy;
        let read = if is_legacy { legacy_entry(line, first, values, findings) } else { Some((first, values.into())) };
        let Some((solver, values)) = read else { continue };
        if !seen.insert(solver) {
            findings.add(line.number, FindingKind::DuplicateSolver, || {
                format!("solver {} came before in its line; the first one stands", short(solver))
            });
            continue;
        }
        entries.push(entry(line, solver, &values, directions, names, findings));
    }
    FindRecord { line: line.number, text: line.key, key, entries, legacy }
}

/// Whether MIOpen knows `name` as an algorithm of one of `directions`.
fn is_algorithm(name: &str, directions: &[Direction]) -> bool {
    let known = |direction: Direction| {
        Algorithm::of_miopen(name, direction).is_some()
            || (direction == Direction::BackwardData && name == "miopenTransposeBwdDataAlgoGEMM")
    };
    directions.iter().any(|direction| known(*direction))
}

impl FindDb {
    /// Reads `bytes`; `name` is for errors.
    ///
    /// # Errors
    /// If it is too large. Whatever else is wrong is a finding.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Self, ReadError> {
        let mut db = Self::default();
        db.findings = scan(name, bytes, |record| {
            db.legacy_lines += u64::from(record.legacy);
            db.records.insert(record.text.to_string(), record.entries);
        })?;
        Ok(db)
    }

    /// Writes version 2: keys in byte order, entries in the order they are held; keys without entries are left out.
    /// Returns the number of keys written.
    ///
    /// # Errors
    /// A name that the format can not hold, or that `out` fails.
    pub fn write(&self, out: &mut impl Write) -> Result<u64, WriteError> {
        let mut written = 0;
        for (key, entries) in &self.records {
            written += u64::from(write_record(key, entries, out)?);
        }
        Ok(written)
    }
}

/// Writes one key and its entries in their order; nothing, and says so, if there are none.
///
/// # Errors
/// A name that the format can not hold, or that `out` fails.
pub fn write_record(key: &str, entries: &[FindEntry], out: &mut impl Write) -> Result<bool, WriteError> {
    if entries.is_empty() {
        return Ok(false);
    }
    check_key(key)?;
    for (index, entry) in entries.iter().enumerate() {
        entry.check()?;
        if index == 0 {
            write!(out, "{key}=")?
        } else {
            write!(out, ";")?
        }
        write!(out, "{}:{},{},{}", entry.solver, entry.time(), entry.workspace, entry.algorithm)?;
    }
    writeln!(out)?;
    Ok(true)
}

impl FindEntry {
    /// An entry whose time is written as MIOpen does.
    #[must_use]
    pub fn new(solver: Arc<str>, time_ms: f32, workspace: u64, algorithm: Arc<str>) -> Self {
        Self { solver, time_ms, workspace, algorithm, written: None }
    }

    /// The time as it is written.
    fn time(&self) -> Cow<'_, str> {
        self.written.as_deref().map_or_else(|| number::print(self.time_ms).into(), Cow::from)
    }

    /// Whether MIOpen has its algorithm for `direction`: else it throws when the entry is used.
    #[must_use]
    pub fn has_algorithm_of(&self, direction: Direction) -> bool {
        is_algorithm(&self.algorithm, &[direction])
    }

    /// Refuses what would be read back as something else.
    ///
    /// # Errors
    /// A name that the format can not hold.
    pub fn check(&self) -> Result<(), Refused> {
        lines::check(FORMAT, "solver", &self.solver, b":= ", "a name without : ; = blanks and line breaks")?;
        if is_algorithm(&self.solver, &Direction::ALL) {
            return Err(Refused::new(FORMAT, "solver", &self.solver, "a name that is not an algorithm's"));
        }
        lines::check(FORMAT, "algorithm", &self.algorithm, b", ", "a name without , ; blanks and line breaks")
    }
}

/// Refuses a key that would be read back as something else.
///
/// # Errors
/// If it is one.
pub fn check_key(key: &str) -> Result<(), Refused> {
    lines::check(FORMAT, "key", key, b"=", "a key without = ; and line breaks")
}

/// Version 1 as version 2: `algorithm:solver,time,workspace,…` as `solver:time,workspace,algorithm`. MIOpen looks for the comma
/// behind the workspace.
fn legacy_entry<'a>(
    line: &Line<'_>,
    algorithm: &str,
    values: &'a str,
    findings: &mut Findings,
) -> Option<(&'a str, Cow<'a, str>)> {
    let mut fields = values.split(',');
    let four = (fields.next(), fields.next(), fields.next(), fields.next());
    let (Some(solver), Some(time), Some(workspace), Some(_)) = four else {
        findings.add(line.number, FindingKind::MissingFields, || {
            format!("entry {algorithm}:{}: expected algorithm:solver,time,workspace,…; skipped", short(values))
        });
        return None;
    };
    Some((solver, format!("{time},{workspace},{algorithm}").into()))
}

fn entry(
    line: &Line<'_>,
    solver: &str,
    values: &str,
    directions: &[Direction],
    names: &mut HashSet<Arc<str>>,
    findings: &mut Findings,
) -> FindEntry {
    let mut add = |kind, what: &str| {
        findings.add(line.number, kind, || format!("entry {}:{}: {what}", short(solver), short(values)));
    };
    if solver.is_empty() || solver.contains(|c: char| c.is_whitespace() || c.is_control()) {
        add(FindingKind::Space, "no solver has this name");
    }
    let mut fields = values.split(',');
    let (Some(time), Some(workspace), Some(algorithm)) = (fields.next(), fields.next(), fields.next()) else {
        add(FindingKind::MissingFields, "expected time,workspace,algorithm; MIOpen throws when it is used");
        return FindEntry::new(intern(names, solver), NO_TIME, NO_WORKSPACE, intern(names, INVALID));
    };
    if fields.next().is_some() {
        add(FindingKind::ExtraFields, "expected time,workspace,algorithm; the rest is ignored");
    }
    let (time_ms, plain_time) = if is_blank(time) { (NO_TIME, false) } else { number::read_float(time) };
    let (workspace, plain_workspace) =
        if is_blank(workspace) { (NO_WORKSPACE, false) } else { number::read_size(workspace) };
    if !plain_time || !plain_workspace {
        add(FindingKind::Number, "time or workspace is not a plain number");
    }
    if time_ms <= 0.0 {
        add(FindingKind::Time, "time is not positive");
    }
    let word = algorithm.split_ascii_whitespace().next().unwrap_or(INVALID);
    // What an editor's line end leaves is skipped as any white space is.
    if word != algorithm.trim_end_matches('\r') {
        add(FindingKind::Space, "white space around the algorithm");
    }
    if !is_algorithm(word, directions) {
        add(FindingKind::Algorithm, "not an algorithm of its direction; MIOpen throws when it is used");
    }
    let written = (plain_time && number::print(time_ms) != time).then(|| time.into());
    FindEntry { written, ..FindEntry::new(intern(names, solver), time_ms, workspace, intern(names, word)) }
}

/// Whether a C++ stream finds nothing to read, and leaves what it reads to as it was.
fn is_blank(text: &str) -> bool {
    text.trim_ascii().is_empty()
}

/// One copy of each name, of which there are few.
pub fn intern(names: &mut HashSet<Arc<str>>, name: &str) -> Arc<str> {
    if let Some(known) = names.get(name) {
        return known.clone();
    }
    let name: Arc<str> = name.into();
    names.insert(name.clone());
    name
}

#[cfg(test)]
mod tests;
