//! Which of MIOpen's solvers apply to which problems, as fin says; kept for each session.

use std::collections::BTreeMap;

use bluefin_common::failure::Failure;
use bluefin_common::problem::Problem;
use bluefin_common::session::{Session, SessionName};
use bluefin_common::shelf;
use bluefin_common::store::Records;
use bluefin_common::wire::{self, Message};
use bluefin_miopen::fin::Fin;
use bluefin_miopen::place::Place;
use bluefin_miopen::process::Watch;
use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize};

use crate::library::LibraryError;

/// Problems that one process of fin is asked about.
const BATCH: usize = 100;
/// Problems that the store is asked about at a time.
const CHUNK: usize = 2000;

/// The solvers that apply to a problem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applicable {
    /// As databases spell them, in fin's order.
    pub solvers: Vec<String>,
}

impl Message for Applicable {
    const KIND: u8 = 9;
    const VERSION: u8 = 1;
    const NAME: &'static str = "applicability";
}

/// What came of [`update`].
#[derive(Debug, Default)]
pub struct Updated {
    /// Problems that fin answered for.
    pub asked: u64,
    /// Problems that were known before.
    pub present: u64,
    /// Solvers that apply, over all problems that fin answered for.
    pub applicable: u64,
    /// Problems without an answer; they are asked about again the next time.
    pub failed: Vec<(Problem, Failure)>,
}

/// What stands in the way of an update.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error("fin: {0}")]
    Fin(String),
}

/// How [`update`] works.
pub struct Plan<'a> {
    pub fin: &'a Fin,
    /// Processes of fin at a time.
    pub processes: usize,
    /// Asks about all problems, not only those without a record.
    pub again: bool,
}

/// Asks fin which solvers apply to `problems` and keeps the answers. `progress` hears how many problems are done.
///
/// # Errors
/// If the store fails, or fin for a reason that no problem is to blame for. What was answered by then is kept.
pub async fn update(
    store: &dyn Records,
    session: &Session,
    problems: &[Problem],
    plan: &Plan<'_>,
    mut progress: impl FnMut(u64),
) -> Result<Updated, UpdateError> {
    let mut updated = Updated::default();
    let mut open = Vec::new();
    for problems in problems.chunks(CHUNK) {
        let known = if plan.again { vec![None; problems.len()] } else { of(store, &session.name, problems).await? };
        open.extend(
            problems.iter().zip(known).filter(|(_, known)| known.is_none()).map(|(problem, _)| problem.clone()),
        );
    }
    updated.present = (problems.len() - open.len()) as u64;
    let mut done = updated.present;
    progress(done);
    let calls = open.chunks(BATCH).map(|batch| call(session, plan.fin, batch));
    let mut calls = stream::iter(calls).buffer_unordered(plan.processes.max(1));
    let shelf = shelf::applicability(&session.name);
    while let Some(answers) = calls.next().await {
        let mut records = Vec::new();
        for (problem, answer) in answers? {
            done += 1;
            match answer {
                Ok(solvers) => {
                    updated.asked += 1;
                    updated.applicable += solvers.len() as u64;
                    let record = wire::encode(&Applicable { solvers }).map_err(LibraryError::from)?;
                    records.push((problem.digest().to_string(), record));
                }
                Err(failure) => updated.failed.push((problem.clone(), failure)),
            }
        }
        store.put_records(&shelf, &records).await.map_err(LibraryError::from)?;
        progress(done);
    }
    Ok(updated)
}

type Answers<'a> = Vec<(&'a Problem, Result<Vec<String>, Failure>)>;

async fn call<'a>(session: &Session, fin: &Fin, problems: &'a [Problem]) -> Result<Answers<'a>, UpdateError> {
    let place = Place::new(Some(session)).map_err(|error| UpdateError::Fin(error.to_string()))?;
    let answers = fin.applicability(&session.target, problems, &place, &Watch::default()).await;
    let answers = answers.map_err(|trouble| UpdateError::Fin(trouble.into_failure().detail))?;
    Ok(problems.iter().zip(answers).collect())
}

/// The records of `problems`, in their order.
///
/// # Errors
/// If the store fails or a record does not decode.
pub async fn of(
    store: &dyn Records,
    session: &SessionName,
    problems: &[Problem],
) -> Result<Vec<Option<Applicable>>, LibraryError> {
    let shelf = shelf::applicability(session);
    let mut all = Vec::with_capacity(problems.len());
    for problems in problems.chunks(CHUNK) {
        let keys: Vec<String> = problems.iter().map(|problem| problem.digest().to_string()).collect();
        for (key, found) in keys.iter().zip(store.records_of(&shelf, &keys).await?) {
            all.push(found.map(|bytes| decode(&shelf, key, &bytes)).transpose()?);
        }
    }
    Ok(all)
}

/// To how many problems of `session` each solver applies, and how many problems are known.
///
/// # Errors
/// If the store fails or a record does not decode.
pub async fn counts(store: &dyn Records, session: &SessionName) -> Result<(u64, BTreeMap<String, u64>), LibraryError> {
    let shelf = shelf::applicability(session);
    let records = store.records(&shelf).await?;
    let mut counts = BTreeMap::new();
    for (key, bytes) in &records {
        for solver in decode(&shelf, key, bytes)?.solvers {
            *counts.entry(solver).or_insert(0) += 1;
        }
    }
    Ok((records.len() as u64, counts))
}

fn decode(shelf: &str, key: &str, bytes: &[u8]) -> Result<Applicable, LibraryError> {
    let corrupt = |source| LibraryError::Corrupt { shelf: shelf.to_string(), key: key.to_string(), source };
    wire::decode(bytes).map_err(corrupt)
}
