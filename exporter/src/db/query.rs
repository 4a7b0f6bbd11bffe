//! What databases hold for a convolution.

use std::collections::BTreeSet;
use std::path::PathBuf;

use bluefin_common::problem::{FindDbKey, PerfDbKey};
use bluefin_miopen::db::find_db;
use bluefin_miopen::db::kernel_db::KernelReader;
use bluefin_miopen::db::sources::sources;
use serde::Serialize;

use super::name::DbKind;
use super::{DbError, Progress, Source};

/// Kernels of a solver that are named; beyond that they are only counted.
const NAMED: usize = 20;

/// What is there for a key.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    pub find_db_key: String,
    /// In the text form.
    pub perf_db_key: String,
    pub finds: Vec<FoundEntry>,
    pub params: Vec<FoundParams>,
    pub kernels: Vec<FoundKernels>,
}

/// An entry of a find db.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FoundEntry {
    pub path: PathBuf,
    /// From 1.
    pub line: u64,
    pub solver: String,
    pub time_ms: f32,
    /// Bytes.
    pub workspace: u64,
    pub algorithm: String,
}

/// A row of a perf db.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundParams {
    pub path: PathBuf,
    /// Line from 1, or row id.
    pub line: u64,
    pub solver: String,
    pub params: String,
}

/// The kernels in a kernel db that a solver may use. Which of them a convolution needs is known to MIOpen alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundKernels {
    pub path: PathBuf,
    pub solver: String,
    pub total: u64,
    /// Source file and options of the first ones.
    pub kernels: Vec<String>,
}

/// Looks the keys up in the files, each of whatever kind.
///
/// # Errors
/// If one of the files is no database, or can not be read.
pub fn query(keys: &[FindDbKey], files: &[PathBuf], progress: Progress<'_>) -> Result<Vec<Answer>, DbError> {
    let mut wanted: Vec<(PerfDbKey, Answer)> = keys
        .iter()
        .map(|key| {
            let perf = PerfDbKey::from(key);
            let answer = Answer {
                find_db_key: key.to_string(),
                perf_db_key: perf.to_string(),
                finds: Vec::new(),
                params: Vec::new(),
                kernels: Vec::new(),
            };
            (perf, answer)
        })
        .collect();
    let mut sources: Vec<Source> = files.iter().map(|path| Source::open(path, progress)).collect::<Result<_, _>>()?;
    // Kernels are those of the solvers that the other files name.
    sources.sort_by_key(|source| source.content.kind == DbKind::Kernel);
    for source in &sources {
        match source.content.kind {
            DbKind::Find => finds(&mut wanted, source)?,
            DbKind::Perf => params(&mut wanted, source)?,
            DbKind::Kernel => kernels(&mut wanted, source)?,
        }
    }
    Ok(wanted.into_iter().map(|(_, answer)| answer).collect())
}

fn finds(wanted: &mut [(PerfDbKey, Answer)], source: &Source) -> Result<(), DbError> {
    let text = source.text()?;
    find_db::scan(&source.display(), &text, |record| {
        for (_, answer) in wanted.iter_mut().filter(|(_, answer)| answer.find_db_key == record.text) {
            answer.finds.extend(record.entries.iter().map(|entry| FoundEntry {
                path: source.path.clone(),
                line: record.line,
                solver: entry.solver.to_string(),
                time_ms: entry.time_ms,
                workspace: entry.workspace,
                algorithm: entry.algorithm.to_string(),
            }));
        }
    })?;
    for (_, answer) in wanted {
        answer.finds.sort_by(|a, b| a.time_ms.total_cmp(&b.time_ms));
    }
    Ok(())
}

fn params(wanted: &mut [(PerfDbKey, Answer)], source: &Source) -> Result<(), DbError> {
    source.perf_db(|row| {
        for (_, answer) in wanted.iter_mut().filter(|(key, _)| key == row.key) {
            answer.params.push(FoundParams {
                path: source.path.clone(),
                line: row.line,
                solver: row.solver.to_string(),
                params: row.params.to_string(),
            });
        }
    })?;
    Ok(())
}

fn kernels(wanted: &mut [(PerfDbKey, Answer)], source: &Source) -> Result<(), DbError> {
    let start = |solver: &str| FoundKernels {
        path: source.path.clone(),
        solver: solver.to_string(),
        total: 0,
        kernels: Vec::new(),
    };
    let mut places = Vec::new();
    for (_, answer) in wanted.iter_mut() {
        let solvers: BTreeSet<String> = answer
            .finds
            .iter()
            .map(|find| &find.solver)
            .chain(answer.params.iter().map(|row| &row.solver))
            .cloned()
            .collect();
        places.push(answer.kernels.len());
        answer.kernels.extend(solvers.iter().filter(|solver| sources(solver).is_some()).map(|solver| start(solver)));
    }
    let reader = KernelReader::open(source.local()).map_err(|error| source.named(error))?;
    let findings = reader.heads(|head| {
        for ((_, answer), place) in wanted.iter_mut().zip(&places) {
            for found in answer.kernels.iter_mut().skip(*place) {
                let is_its = |prefix: &&str| head.kernel.name.starts_with(*prefix);
                if sources(&found.solver).is_some_and(|prefixes| prefixes.iter().any(is_its)) {
                    found.total += 1;
                    if found.kernels.len() < NAMED {
                        found.kernels.push(format!("{}{}", head.kernel.name, head.kernel.args));
                    }
                }
            }
        }
    });
    findings.map_err(|error| source.named(error))?;
    Ok(())
}
