//! Checks of files, each by itself and against those that aiter puts together with it.

mod lost;
mod row;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::path::PathBuf;

use bluefin_common::target::Target;
use serde::Serialize;

pub use bluefin_common::check_rules::Severity;
pub use rules::Rule;

use crate::family::Duplicates;
use crate::lookup::LookUp;
use crate::table::Row;
use crate::{Error, Family, Files, Key, Rules, Sheet, SheetKind};

/// Findings of a rule in a file that are kept, the rest are counted.
const KEPT: u64 = 1000;

/// How strictly to check.
#[derive(Clone, Debug, Default)]
pub struct Strictness {
    /// Rules whose findings are not reported.
    pub allow: BTreeSet<Rule>,
    /// Rules whose findings are errors.
    pub deny: BTreeSet<Rule>,
    /// The most that an output may differ; `None`: what the tuner of the family takes.
    pub error_limit: Option<f64>,
    /// The GPU that the files are to serve. `None`: any.
    pub gpu: Option<Target>,
    /// How the files are looked up.
    pub rules: Rules,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// From 1; the header is the first.
    pub line: u64,
    /// How bad it is.
    pub severity: Severity,
    /// What is broken.
    pub rule: Rule,
    /// What was found, and what was expected.
    pub message: String,
}

/// What a check of one file found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileReport {
    /// The file.
    pub path: PathBuf,
    /// Name of its family.
    pub family: &'static str,
    /// What it is for.
    pub kind: SheetKind,
    /// Rows that hold something.
    pub rows: u64,
    /// The first thousand of each rule, by line.
    pub findings: Vec<Finding>,
    /// How many there are of each rule.
    pub counts: BTreeMap<Rule, u64>,
}

impl FileReport {
    /// Whether there is more than notes.
    #[must_use]
    pub fn has_findings(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity > Severity::Note)
    }
}

/// A finding and its file, as one line.
pub struct Located<'a>(pub &'a FileReport, pub &'a Finding);

impl fmt::Display for Located<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(file, finding) = self;
        let Finding { line, severity, rule, message } = finding;
        write!(f, "{}:{line}: {severity} {rule}: {message}", file.path.display())
    }
}

/// Findings of a file while it is checked.
struct Findings<'a> {
    strictness: &'a Strictness,
    kept: Vec<Finding>,
    counts: BTreeMap<Rule, u64>,
}

impl Findings<'_> {
    fn add(&mut self, rule: Rule, line: u64, message: impl FnOnce() -> String) {
        if self.strictness.allow.contains(&rule) {
            return;
        }
        let count = self.counts.entry(rule).or_default();
        *count += 1;
        if *count <= KEPT {
            let severity = if self.strictness.deny.contains(&rule) { Severity::Error } else { rule.severity() };
            self.kept.push(Finding { line, severity, rule, message: message() });
        }
    }
}

/// Checks files, those that are torn first. All tuned ones of a family are taken for those that aiter puts together.
#[must_use]
pub fn check(files: &Files, strictness: &Strictness) -> Vec<FileReport> {
    // Where each key was first.
    let mut first: HashMap<(&str, Key), (&Sheet, &Row)> = HashMap::new();
    let torn = files.torn.iter().map(|error| of_torn(error, strictness));
    let mut look_ups: HashMap<&str, LookUp<'_>> = HashMap::new();
    let read = files.sheets.iter().map(|sheet| {
        let family = sheet.family;
        let look_up = look_ups.entry(family.name).or_insert_with(|| LookUp::of(&files.sheets, family));
        check_one(sheet, look_up, strictness, &mut first)
    });
    torn.chain(read).collect()
}

fn of_torn(error: &Error, strictness: &Strictness) -> FileReport {
    let mut findings = Findings { strictness, kept: Vec::new(), counts: BTreeMap::new() };
    if let Error::Line { line, found, expected, .. } = error {
        findings.add(Rule::Torn, *line, || format!("found {found}, expected {expected}"));
    }
    FileReport {
        path: error.path().to_path_buf(),
        family: Family::named_by(error.path()).map_or("of no known family", |family| family.name),
        kind: SheetKind::of(error.path()),
        rows: 0,
        findings: findings.kept,
        counts: findings.counts,
    }
}

fn check_one<'a>(
    sheet: &'a Sheet,
    look_up: &LookUp<'_>,
    strictness: &Strictness,
    first: &mut HashMap<(&'static str, Key), (&'a Sheet, &'a Row)>,
) -> FileReport {
    let mut findings = Findings { strictness, kept: Vec::new(), counts: BTreeMap::new() };
    header(sheet, &mut findings);
    if sheet.kind == SheetKind::Tuned {
        lost::check(sheet, look_up, &mut findings);
    }
    let mut own = HashMap::new();
    let mut rows = 0;
    for view in sheet.views() {
        rows += 1;
        row::check(&view, look_up, &mut findings);
        if sheet.kind == SheetKind::Untuned {
            let key = view.key();
            if let Some(line) = own.insert(key.clone(), view.row.line) {
                findings.add(Rule::Repeated, view.row.line, || format!("found {key}, which line {line} has already"));
            }
            continue;
        }
        let put_together = look_up.put_together(&view);
        let is_at_start = put_together.is_some();
        match first.entry((sheet.family.name, put_together.unwrap_or_else(|| look_up.key(&view)))) {
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert((sheet, view.row));
            }
            std::collections::hash_map::Entry::Occupied(place) => {
                let (other, earlier) = place.get();
                let there = other.view(earlier);
                let us = |us: Option<f64>| us.map_or("no time".to_string(), |us| format!("{us} us"));
                let (here, before, key) = (us(view.us()), us(there.us()), &place.key().1);
                let found = || format!("found {key} with {here}, which {} has with {before}", there.place());
                match sheet.family.duplicates {
                    _ if is_at_start => findings.add(Rule::Duplicate, view.row.line, || {
                        found() + ": aiter raises an error when it puts the files together"
                    }),
                    Duplicates::Refused => findings.add(Rule::Duplicate, view.row.line, found),
                    Duplicates::RefusedByLookUps => findings.add(Rule::Duplicate, view.row.line, || {
                        found() + ": aiter puts the files together, and its look-up raises an error"
                    }),
                    Duplicates::Allowed => {
                        findings.add(Rule::Dead, view.row.line, || found() + ": look-ups take the faster one");
                    }
                }
            }
        }
    }
    findings.kept.sort_by_key(|finding| finding.line);
    FileReport {
        path: sheet.path().to_path_buf(),
        family: sheet.family.name,
        kind: sheet.kind,
        rows,
        findings: findings.kept,
        counts: findings.counts,
    }
}

/// Columns that are missing, there twice or not known.
fn header(sheet: &Sheet, findings: &mut Findings<'_>) {
    let (family, table, line) = (sheet.family, &sheet.table, sheet.table.header_line());
    let mut seen = BTreeSet::new();
    for (bare, column) in table.bare_columns().iter().zip(table.columns()).filter(|(bare, column)| bare != column) {
        if sheet.kind == SheetKind::Tuned && family.knows(column) {
            findings.add(Rule::Column, line, || {
                format!("column {bare:?}: found white space around it, expected {column:?}: to look-ups it is another")
            });
        }
    }
    for column in table.columns().iter().filter(|column| !column.is_empty()) {
        if !family.knows(column) {
            findings.add(Rule::UnknownColumn, line, || {
                format!("column {column:?}: found in a file of {}, which is not known to have it", family.name)
            });
        }
        if !seen.insert(column) {
            findings.add(Rule::Column, line, || format!("column {column:?}: found twice, expected once"));
        }
    }
    let missing = |column: &str| table.column(column).is_none();
    match sheet.kind {
        SheetKind::Tuned => {
            for column in family.columns().filter(|column| missing(column)) {
                if column == "gfx" && !missing("cu_num") {
                    findings
                        .add(Rule::NoGfx, line, || "found no column gfx, expected it in front of cu_num".to_string());
                } else {
                    findings.add(Rule::Column, line, || {
                        format!("column {column:?}: found none, expected it in a file of {}", family.name)
                    });
                }
            }
        }
        // Those of a model may tell less than the base file of the family.
        SheetKind::Untuned if family.shape.iter().all(|column| missing(column)) => {
            let expected = family.shape.join(",");
            findings.add(Rule::Column, line, || format!("found no column of a shape, expected some of {expected}"));
        }
        SheetKind::Untuned => {}
    }
}
