//! What databases hold for a convolution, a batch norm or a fusion.

use std::collections::BTreeSet;
use std::path::PathBuf;

use bluefin_miopen::db::find_db;
use bluefin_miopen::db::kernel_db::KernelReader;
use bluefin_miopen::db::sources::sources;
use bluefin_miopen::key::{FindDbKey, PerfDbKey};
use serde::Serialize;

use super::name::{DbKind, Keys};
use super::{DbError, Progress, Source};

/// Kernels of a solver that are named; beyond that they are only counted.
const NAMED: usize = 20;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    Convolution(Box<FindDbKey>),
    /// By the key that its perf db has of it.
    BatchNorm(String),
    /// By the key that its find db has of it.
    Fusion(String),
}

impl Asked {
    fn keys(&self) -> Keys {
        match self {
            Self::Convolution(_) => Keys::Convolutions,
            Self::BatchNorm(_) => Keys::BatchNorms,
            Self::Fusion(_) => Keys::Fusions,
        }
    }
}

/// What is there for a key.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// `None` for a batch norm, which no find db holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub find_db_key: Option<String>,
    /// In the text form; `None` for a fusion, whose params are those of its convolution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub perf_db_key: Option<String>,
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

/// One question on its way to an answer.
struct Wanted {
    keys: Keys,
    /// Of a convolution, as perf dbs are read.
    perf: Option<PerfDbKey>,
    answer: Answer,
}

impl Wanted {
    fn new(asked: &Asked) -> Self {
        let perf = match asked {
            Asked::Convolution(key) => Some(PerfDbKey::from(&**key)),
            Asked::BatchNorm(_) | Asked::Fusion(_) => None,
        };
        let (find_db_key, perf_db_key) = match asked {
            Asked::Convolution(key) => (Some(key.to_string()), perf.as_ref().map(ToString::to_string)),
            Asked::BatchNorm(key) => (None, Some(key.clone())),
            Asked::Fusion(key) => (Some(key.clone()), None),
        };
        let answer = Answer { find_db_key, perf_db_key, finds: Vec::new(), params: Vec::new(), kernels: Vec::new() };
        Self { keys: asked.keys(), perf, answer }
    }
}

/// Looks the keys up in the files, each of whatever kind.
///
/// # Errors
/// If one of the files is no database, or can not be read.
pub fn query(asked: &[Asked], files: &[PathBuf], progress: Progress<'_>) -> Result<Vec<Answer>, DbError> {
    let mut wanted: Vec<Wanted> = asked.iter().map(Wanted::new).collect();
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
    Ok(wanted.into_iter().map(|wanted| wanted.answer).collect())
}

fn finds(wanted: &mut [Wanted], source: &Source) -> Result<(), DbError> {
    let (text, keys) = (source.text()?, source.keys());
    find_db::scan(&source.display(), &text, |record| {
        let is_its =
            |wanted: &&mut Wanted| wanted.keys == keys && wanted.answer.find_db_key.as_deref() == Some(record.text);
        for Wanted { answer, .. } in wanted.iter_mut().filter(is_its) {
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
    for Wanted { answer, .. } in wanted {
        answer.finds.sort_by(|a, b| a.time_ms.total_cmp(&b.time_ms));
    }
    Ok(())
}

fn params(wanted: &mut [Wanted], source: &Source) -> Result<(), DbError> {
    let row = |line, solver: &str, params: &str| FoundParams {
        path: source.path.clone(),
        line,
        solver: solver.to_string(),
        params: params.to_string(),
    };
    if source.keys() == Keys::BatchNorms {
        source.norm_db(|line, key, solver, params| {
            let is_its = |wanted: &&mut Wanted| {
                wanted.keys == Keys::BatchNorms && wanted.answer.perf_db_key.as_ref() == Some(key)
            };
            for Wanted { answer, .. } in wanted.iter_mut().filter(is_its) {
                answer.params.push(row(line, solver, params));
            }
        })?;
        return Ok(());
    }
    source.perf_db(|found| {
        for Wanted { answer, .. } in wanted.iter_mut().filter(|wanted| wanted.perf.as_ref() == Some(found.key)) {
            answer.params.push(row(found.line, found.solver, found.params));
        }
    })?;
    Ok(())
}

fn kernels(wanted: &mut [Wanted], source: &Source) -> Result<(), DbError> {
    let start = |solver: &str| FoundKernels {
        path: source.path.clone(),
        solver: solver.to_string(),
        total: 0,
        kernels: Vec::new(),
    };
    let mut places = Vec::new();
    for Wanted { answer, .. } in wanted.iter_mut() {
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
        for (Wanted { answer, .. }, place) in wanted.iter_mut().zip(&places) {
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
