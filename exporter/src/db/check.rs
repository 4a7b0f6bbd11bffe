//! Checks of databases, each by itself and all that are given against each other.

mod across;
mod find;
mod kernel;
mod perf;
mod rules;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use bluefin_miopen::db::solvers::{Solvers, is_own};
use bluefin_miopen::db::{Findings, KEPT};
use serde::Serialize;

pub use bluefin_common::check_rules::Severity;
pub use rules::Rule;

use super::name::{DbKind, DbName, Form};
use bluefin_common::printable::printable;

use super::{Content, Progress, Source};
use across::{Kernels, Params, Winner};

/// MIOpen refuses a system database in SQLite that is smaller.
const MIN_SQLITE: u64 = 512;

/// What to check, and how strictly.
#[derive(Clone, Debug)]
pub struct CheckRequest {
    pub files: Vec<PathBuf>,
    pub solvers: Solvers,
    /// Rules whose findings are not reported.
    pub allow: BTreeSet<Rule>,
    /// Rules whose findings are errors.
    pub deny: BTreeSet<Rule>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckFinding {
    /// Line from 1 or row id; 0 for the whole file.
    pub line: u64,
    pub severity: Severity,
    pub rule: Rule,
    /// What was found, and what was expected.
    pub message: String,
}

/// What a check of one file found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileReport {
    pub path: PathBuf,
    /// `None` if it is no database.
    pub kind: Option<DbKind>,
    /// Keys of a find db, rows of the others.
    pub records: u64,
    /// The first thousand of each rule, by line.
    pub findings: Vec<CheckFinding>,
    /// How many there are of each rule.
    pub counts: BTreeMap<Rule, u64>,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    pub files: Vec<FileReport>,
}

impl CheckReport {
    /// Whether there is more than notes.
    #[must_use]
    pub fn has_findings(&self) -> bool {
        // Every rule that was broken has a finding that is kept.
        self.files.iter().flat_map(|file| &file.findings).any(|finding| finding.severity > Severity::Note)
    }
}

/// A finding and its file, as one line.
pub struct Located<'a>(pub &'a FileReport, pub &'a CheckFinding);

impl fmt::Display for Located<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(file, CheckFinding { line, severity, rule, message }) = self;
        write!(f, "{}:", file.path.display())?;
        if *line > 0 {
            write!(f, "{line}:")?;
        }
        write!(f, " {severity} {rule}: {}", printable(message))
    }
}

/// The findings of one file while it is checked.
struct Report<'a> {
    request: &'a CheckRequest,
    file: FileReport,
    /// For a device that MIOpen does not run on, so that it has no opinion of solvers.
    own_target: bool,
    /// Entries of solvers that bluefin ships.
    own_solvers: BTreeMap<String, u64>,
}

impl Report<'_> {
    fn add(&mut self, line: u64, rule: Rule, message: impl FnOnce() -> String) {
        self.count(rule, 1);
        self.keep(line, rule, message);
    }

    fn count(&mut self, rule: Rule, count: u64) {
        if !self.request.allow.contains(&rule) {
            *self.file.counts.entry(rule).or_default() += count;
        }
    }

    /// Keeps a finding that has been counted.
    fn keep(&mut self, line: u64, rule: Rule, message: impl FnOnce() -> String) {
        if self.file.counts.get(&rule).is_none_or(|count| *count > KEPT) {
            return;
        }
        let severity = if self.request.deny.contains(&rule) { Severity::Error } else { rule.severity() };
        let message = message().chars().take(400).collect();
        self.file.findings.push(CheckFinding { line, severity, rule, message });
    }

    /// Takes over what a reader found.
    fn take(&mut self, findings: Findings) {
        for finding in findings.kept {
            let rule = Rule::from(finding.kind);
            if !self.request.allow.contains(&rule) {
                let severity = if self.request.deny.contains(&rule) { Severity::Error } else { rule.severity() };
                self.file.findings.push(CheckFinding { line: finding.line, severity, rule, message: finding.detail });
            }
        }
        for (kind, count) in findings.counts {
            self.count(Rule::from(kind), count);
        }
    }

    /// A record of a solver that is not among MIOpen's.
    fn unknown_solver(&mut self, line: u64, name: &str) {
        if self.own_target {
            return;
        }
        if is_own(name) {
            *self.own_solvers.entry(name.to_string()).or_default() += 1;
            return;
        }
        let solvers = &self.request.solvers;
        self.add(line, Rule::UnknownSolver, || match solvers.named(name) {
            Some(known) => format!("solver: found {name}, expected the spelling {}", known.name),
            None => format!("solver: found {name}, expected one of MIOpen's"),
        });
    }

    fn finish(mut self) -> FileReport {
        if let Some(name) = self.own_solvers.keys().next().cloned() {
            let (solvers, entries) = (self.own_solvers.len(), self.own_solvers.values().sum::<u64>());
            self.add(0, Rule::OwnSolver, || {
                format!("found {entries} entries of {solvers} solvers such as {name}, expected MIOpen's")
            });
        }
        self.file.findings.sort_by_key(|finding| (finding.line, finding.rule));
        self.file
    }
}

/// What the checks of single files leave for the checks across them.
#[derive(Default)]
struct Gathered {
    /// By the place of their file in the request.
    winners: Vec<(usize, Option<DbName>, Vec<Winner>)>,
    params: Vec<Params>,
    kernels: Vec<Kernels>,
}

/// Checks files, each by itself and against the others.
#[must_use]
pub fn check(request: &CheckRequest, progress: Progress<'_>) -> CheckReport {
    let mut gathered = Gathered::default();
    let mut reports = Vec::new();
    for (index, path) in request.files.iter().enumerate() {
        let file =
            FileReport { path: path.clone(), kind: None, records: 0, findings: Vec::new(), counts: BTreeMap::new() };
        let mut report = Report { request, file, own_target: false, own_solvers: BTreeMap::new() };
        if let Err(error) = check_file(index, &mut report, &mut gathered, progress) {
            // The path stands in front of every finding.
            let message = error.to_string();
            let own = format!("{}: ", path.display());
            report.add(0, Rule::Unreadable, || message.strip_prefix(&own).unwrap_or(&message).to_string());
        }
        reports.push(report);
    }
    across::check(&mut reports, &gathered);
    CheckReport { files: reports.into_iter().map(Report::finish).collect() }
}

fn check_file(
    index: usize,
    report: &mut Report<'_>,
    gathered: &mut Gathered,
    progress: Progress<'_>,
) -> Result<(), super::DbError> {
    let source = Source::open(&report.file.path, progress)?;
    report.file.kind = Some(source.content.kind);
    check_name(report, &source)?;
    let name = source.name.clone();
    match source.content.kind {
        DbKind::Find => gathered.winners.push((index, name, find::check(report, &source)?)),
        DbKind::Perf => {
            if let Some(db) = perf::check(report, &source)? {
                gathered.params.push(Params { name, db });
            }
        }
        DbKind::Kernel => {
            let source_files = kernel::check(report, &source, progress)?;
            gathered.kernels.push(Kernels { name, source_files });
        }
    }
    Ok(())
}

fn check_name(report: &mut Report<'_>, source: &Source) -> Result<(), super::DbError> {
    if source.packed {
        report.add(0, Rule::Packed, || "found a file packed by bzip2, expected it unpacked".to_string());
    }
    let Content { kind, form } = source.content;
    match &source.name {
        None => report.add(0, Rule::FileName, || {
            "found no ending of a database, expected one such as .HIP.fdb.txt, .db, .db.txt or .kdb".to_string()
        }),
        Some(name) => {
            let ending = name.ending;
            if (ending.kind, ending.form) != (kind, form) {
                let words = |form| if form == Form::Text { "a text" } else { "SQLite" };
                report.add(0, Rule::WrongKind, || {
                    let (found, expected) = (words(form), words(ending.form));
                    format!("found a {kind} in {found}, expected a {} in {expected}", ending.kind)
                });
            }
            if let Some(wrong) = &name.wrong {
                let seen = if name.respelled { "; the search for the nearest number alone sees it" } else { "" };
                report.add(0, Rule::FileName, || format!("found {wrong}{seen}"));
            }
            if let Some(device) = name.device.as_ref().filter(|device| !device.is_miopens()) {
                report.own_target = true;
                report.add(0, Rule::OwnTarget, || format!("found target {}, expected gfx…", device.id));
            }
        }
    }
    if form == Form::Sqlite {
        let user = source.name.as_ref().is_some_and(|name| name.ending.user);
        let size = source.size()?;
        if size < MIN_SQLITE {
            report.add(0, Rule::TooSmall, || format!("found {size} bytes, expected at least {MIN_SQLITE}"));
        }
        if !user && source.has_write_ahead_log()? {
            report.add(0, Rule::WriteAheadLog, || "found journal mode WAL, expected another".to_string());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
