//! Checks of config files: whether the engine finds a file, loads it, launches its rows, and is right by them.

mod row;
mod rules;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use bluefin_common::arch::Vendor;
use bluefin_common::spelled::counted;
use serde::Serialize;
use serde_json::Value as Json;

pub use bluefin_common::check_rules::{Severity, UnknownRule};
pub use rules::{Rule, listing};

use crate::default::Gpu;
use crate::device::architecture_of;
use crate::engine::Engine;
use crate::error::Error;
use crate::file::{ConfigFile, Document, VERSION_KEY, batch_size, version_of};
use crate::files::{Found, is_aiters, name_of};
use crate::name::FileName;
use crate::row::{M, Row};
use crate::space::LADDER;
use crate::version::Version;

/// How strictly to check.
#[derive(Clone, Debug, Default)]
pub struct Strictness {
    /// Rules whose findings are not reported.
    pub allow: BTreeSet<Rule>,
    /// Rules whose findings are errors.
    pub deny: BTreeSet<Rule>,
    /// The Triton at hand, if that is known.
    pub triton: Option<Version>,
    /// What files are for whose device's name does not tell its architecture.
    pub gpu: Option<Gpu>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The key of the row, or the part of the file.
    pub place: String,
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
    /// Whose it is.
    pub engine: Engine,
    /// Rows that it has.
    pub rows: usize,
    /// In the order of the file.
    pub findings: Vec<Finding>,
}

impl FileReport {
    /// The findings for people: what is found of several rows alike is said once, with all of them.
    #[must_use]
    pub fn told(&self) -> Vec<Finding> {
        let mut told: Vec<Finding> = Vec::new();
        for finding in &self.findings {
            let is_same = |one: &&mut Finding| {
                (one.severity, one.rule, &one.message) == (finding.severity, finding.rule, &finding.message)
            };
            match told.iter_mut().find(is_same) {
                Some(one) => one.place = format!("{}, {}", one.place, finding.place),
                None => told.push(finding.clone()),
            }
        }
        told
    }

    /// Whether there is more than notes.
    #[must_use]
    pub fn has_findings(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity > Severity::Note)
    }
}

/// A finding and its file, as one line.
pub struct Located<'a>(pub &'a FileReport, pub &'a Finding);

impl fmt::Display for Located<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(file, Finding { place, severity, rule, message }) = self;
        write!(formatter, "{}: {place}: {severity} {rule}: {message}", file.path.display())
    }
}

/// Findings of a file while it is checked.
struct Findings<'a> {
    strictness: &'a Strictness,
    found: Vec<Finding>,
}

impl Findings<'_> {
    fn add(&mut self, rule: Rule, place: &str, message: impl Into<String>) {
        if self.strictness.allow.contains(&rule) {
            return;
        }
        let severity = if self.strictness.deny.contains(&rule) { Severity::Error } else { rule.severity() };
        self.found.push(Finding { place: place.to_string(), severity, rule, message: message.into() });
    }
}

/// Checks files, each by itself, and those of second GEMMs against those of the first among them.
#[must_use]
pub fn check(files: &[Found], strictness: &Strictness) -> Vec<FileReport> {
    files.iter().map(|file| check_one(file, files, strictness)).collect()
}

/// Checks a row as if it were in a file.
#[must_use]
pub fn check_row(file: &Found, row: &Row, strictness: &Strictness) -> Vec<Finding> {
    let mut findings = Findings { strictness, found: Vec::new() };
    row::check(&row::FileFacts::of(file, strictness), "row", &Json::Object(row.0.clone()), &mut findings);
    findings.found
}

fn check_one(file: &Found, all: &[Found], strictness: &Strictness) -> FileReport {
    let mut findings = Findings { strictness, found: Vec::new() };
    if is_aiters(&file.path) {
        findings.add(Rule::Name, "name", OF_AITER);
        return FileReport { path: file.path.clone(), engine: file.engine, rows: 0, findings: findings.found };
    }
    check_name(file, &mut findings);
    let mut rows = 0;
    match &file.document {
        Err(error) => findings.add(Rule::Torn, "the file", said(error)),
        Ok(document) => {
            let sizes = check_document(file, document, &mut findings);
            rows = sizes.len();
            check_ladder(&sizes, &mut findings);
            if let Some(name) = file.name.as_ref().ok().filter(|name| name.down) {
                check_down(file, name, all, &mut findings);
            }
        }
    }
    FileReport { path: file.path.clone(), engine: file.engine, rows, findings: findings.found }
}

/// What is said of a file of aiter's Triton kernels.
pub const OF_AITER: &str =
    "found a config of aiter's Triton kernels, expected one of vLLM's or SGLang's: those are not read";

/// What is wrong with a folder that SGLang's loader takes for one of a version of Triton.
pub(crate) const NO_VERSION: &str = "found a name that is no version, expected one such as triton_3_6_0: SGLang's loader stops when it looks for other versions";

/// What folders beside those of Triton's versions come to.
#[must_use]
pub fn check_folders(folders: &[PathBuf], strictness: &Strictness) -> Vec<FileReport> {
    let report = |path: &PathBuf| {
        let mut findings = Findings { strictness, found: Vec::new() };
        findings.add(Rule::Version, "folder", NO_VERSION);
        FileReport { path: path.clone(), engine: Engine::SGLANG, rows: 0, findings: findings.found }
    };
    folders.iter().map(report).collect()
}

/// What all reports come to, in one line.
#[must_use]
pub fn total(reports: &[FileReport]) -> String {
    let rows: u64 = reports.iter().map(|report| report.rows as u64).sum();
    let of = |severity| {
        let findings = reports.iter().flat_map(|report| &report.findings);
        counted(findings.filter(|finding| finding.severity == severity).count() as u64, severity.to_string().as_str())
    };
    let found = [Severity::Error, Severity::Warning, Severity::Note].map(of).join(", ");
    format!("{}, {}: {found}", counted(reports.len() as u64, "file"), counted(rows, "row"))
}

/// What an error says besides its file.
pub(crate) fn said(error: &Error) -> String {
    match error {
        Error::Torn { line, column, found, .. } => {
            format!("line {line}, column {column}: found {found}, expected JSON")
        }
        Error::Content { found, expected, .. } => format!("found {found}, expected {expected}"),
        other => other.to_string(),
    }
}

fn check_name(file: &Found, findings: &mut Findings<'_>) {
    let text = name_of(&file.path);
    let engine = file.engine;
    match &file.name {
        Err(error) => findings.add(Rule::Name, "name", error.to_string()),
        Ok(name) => match name.is_built(&text, engine) {
            Ok(()) => {}
            Err(Some(built)) => {
                findings.add(
                    Rule::Name,
                    "name",
                    format!("found {text}, expected {built}, which {engine}'s loader builds"),
                );
            }
            Err(None) => {
                let message = format!("found a file of a type or a variant that {engine}'s loader never asks for");
                findings.add(Rule::Name, "name", message);
            }
        },
    }
    if let Ok(name) = file.name.as_ref() {
        check_device(name, findings);
    }
    if let Some((folder, triton)) = file.folder.as_ref().zip(findings.strictness.triton.clone()) {
        other_triton(folder, &triton, "folder", findings);
    }
}

/// Drivers call GPUs of several architectures `AMD Radeon Graphics`.
fn check_device(name: &FileName, findings: &mut Findings<'_>) {
    if name.backend.is_none() && gpu_of(Some(name), findings.strictness).is_none() {
        let message =
            format!("found {}, expected the name of one GPU, or --target: memory is not checked", name.device);
        findings.add(Rule::Device, "name", message);
    }
}

fn other_triton(made_with: &Version, triton: &Version, place: &str, findings: &mut Findings<'_>) {
    if made_with != triton {
        findings.add(Rule::OtherTriton, place, format!("found Triton {made_with}, expected {triton}"));
    }
}

/// Checks the fields of a file. Returns the batch sizes that have rows.
fn check_document(file: &Found, document: &Document, findings: &mut Findings<'_>) -> BTreeSet<i64> {
    let mut sizes = BTreeSet::new();
    let place = row::FileFacts::of(file, findings.strictness);
    for (key, value) in &document.fields {
        if key == VERSION_KEY {
            check_version(file.engine, value, findings);
            continue;
        }
        match batch_size(key) {
            None => findings.add(Rule::Key, key, format!("found {key:?}, expected a batch size")),
            Some(..=0) => findings.add(Rule::Key, key, format!("found {key:?}, expected a batch size from 1 on")),
            Some(size) => {
                if !sizes.insert(size) {
                    findings.add(Rule::Key, key, "found the batch size twice, expected once: the last row counts");
                }
                row::check(&place, key, value, findings);
            }
        }
    }
    sizes
}

fn check_version(engine: Engine, value: &Json, findings: &mut Findings<'_>) {
    if !engine.info().has_version_key {
        let message = format!("found {value}, expected no such key: {engine}'s loader takes batch sizes alone");
        findings.add(Rule::Version, VERSION_KEY, message);
        return;
    }
    match version_of(value) {
        Err(found) => {
            findings.add(Rule::Version, VERSION_KEY, format!("found {found}, expected a version such as \"3.6.0\""));
        }
        Ok(version) => {
            if let Some(triton) = findings.strictness.triton.clone() {
                other_triton(&version, &triton, VERSION_KEY, findings);
            }
        }
    }
}

fn check_ladder(sizes: &BTreeSet<i64>, findings: &mut Findings<'_>) {
    let missing: Vec<String> = LADDER.iter().filter(|size| !sizes.contains(size)).map(ToString::to_string).collect();
    if !missing.is_empty() {
        findings.add(Rule::Gap, "rows", format!("found none for {}, expected one for each", missing.join(", ")));
    }
}

/// A file of second GEMMs, against the file of the first that lies with it.
fn check_down(file: &Found, name: &FileName, all: &[Found], findings: &mut Findings<'_>) {
    let up = FileName { down: false, ..name.clone() };
    let is_up = |other: &&Found| other.folder == file.folder && other.name.as_ref() == Ok(&up);
    let Some(first) = all.iter().find(is_up) else {
        if !file.path.with_file_name(up.build(file.engine)).is_file() {
            findings.add(Rule::Down, "name", format!("found no {} beside it, expected one", up.build(file.engine)));
        }
        return;
    };
    let rows = |found: &Found| {
        let document = found.document.as_ref().ok().cloned()?;
        ConfigFile::of_document(&found.path, document, found.engine).ok()
    };
    let Some((firsts, seconds)) = rows(first).zip(rows(file)) else { return };
    for (size, row) in seconds.rows() {
        // The engine takes the nearest of each file.
        let expected = firsts.row_for(size).and_then(|(_, first)| first.number(M));
        let found = row.number(M);
        if expected != found {
            let shown = |value: Option<i64>| value.map_or("none".to_string(), |value| value.to_string());
            let message = format!("{M}: found {}, expected {} as the first GEMM has it", shown(found), shown(expected));
            findings.add(Rule::Down, &size.to_string(), message);
        }
    }
}

/// The GPU of a file's name, if the table of architectures has it, or what was said of the others of its vendor.
fn gpu_of(name: Option<&FileName>, strictness: &Strictness) -> Option<Gpu> {
    let name = name?;
    let lower = name.device.to_ascii_lowercase();
    let others: [&str; 3] = match strictness.gpu.map(|gpu| gpu.vendor) {
        Some(Vendor::Nvidia) => ["amd", "radeon", "intel"],
        _ => ["nvidia", "geforce", "intel"],
    };
    let may_be = |_: &Gpu| !others.iter().any(|vendor| lower.contains(vendor));
    architecture_of(&name.device).map(Gpu::of).or(strictness.gpu.filter(may_be))
}

/// The fields of a row.
fn row_of(value: &Json) -> Option<Row> {
    value.as_object().map(|fields| Row(fields.clone()))
}

#[cfg(test)]
mod tests;
