//! What came of a job before it was tried again: an outcome that is taken back leaves its failures here.

use serde::{Deserialize, Serialize};

use crate::candidate::Candidate;
use crate::failure::FailureKind;
use crate::job::JobId;
use crate::outcome::Outcome;
use crate::session::SessionName;
use crate::shelf;
use crate::store::{Records, StoreError};
use crate::wire::{self, Message};

/// Times that are remembered of a job; the oldest goes first.
pub const MAX_TRIED: usize = 8;
/// Bytes of the words of a failure that are kept.
const MAX_WORDS: usize = 1024;

/// One time that a job was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    /// When its outcome was made, in milliseconds since the Unix epoch.
    pub finished_ms: u64,
    /// The device that it was evaluated on; empty where it did not get that far.
    pub device: String,
    /// Who made the outcome, where that is known.
    pub worker: Option<String>,
    /// Candidates that failed.
    pub failed: Vec<Failed>,
}

/// A candidate that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    /// The candidate, as people write it.
    pub candidate: String,
    /// What kind of failure it was.
    pub kind: FailureKind,
    /// The compiler's or the tool's words, at most 1 KiB of them.
    pub words: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct History(Vec<Tried>);

impl Message for History {
    const KIND: u8 = 22;
    const VERSION: u8 = 1;
    const NAME: &'static str = "history";
}

impl Tried {
    fn of(outcome: &Outcome) -> Self {
        let failed = outcome.candidates.iter().filter_map(|candidate| {
            let failure = candidate.result.as_ref().err()?;
            let end = failure.detail.floor_char_boundary(MAX_WORDS);
            let words = failure.detail.get(..end).unwrap_or_default().to_string();
            Some(Failed { candidate: Candidate::to_string(&candidate.candidate), kind: failure.kind, words })
        });
        let course = &outcome.course;
        let worker = course.evaluated.as_ref().or(course.compiled.as_ref()).map(|worked| worked.worker.clone());
        Self { finished_ms: outcome.finished_ms, device: outcome.device.clone(), worker, failed: failed.collect() }
    }
}

/// What came of `job` of `session` before, oldest first; nothing where it was tried once.
///
/// # Errors
/// If the store fails, or holds what is of another version.
pub async fn of(store: &dyn Records, session: &SessionName, job: JobId) -> Result<Vec<Tried>, StoreError> {
    Ok(of_jobs(store, session, &[job]).await?.pop().unwrap_or_default())
}

/// The same for each of `jobs`, in their order.
///
/// # Errors
/// If the store fails, or holds what is of another version.
pub async fn of_jobs(
    store: &dyn Records,
    session: &SessionName,
    jobs: &[JobId],
) -> Result<Vec<Vec<Tried>>, StoreError> {
    let shelf = shelf::history(session);
    let keys: Vec<String> = jobs.iter().map(ToString::to_string).collect();
    let found = store.records_of(&shelf, &keys).await?;
    let decode = |(key, bytes): (&String, Option<Vec<u8>>)| {
        let Some(bytes) = bytes else { return Ok(Vec::new()) };
        let corrupt = |source| StoreError::Corrupt { key: format!("{shelf} {key}"), source };
        Ok(wire::decode::<History>(&bytes).map_err(corrupt)?.0)
    };
    keys.iter().zip(found).map(decode).collect()
}

/// Remembers what `outcome` was, once however often this is called.
///
/// # Errors
/// If the store fails.
pub(crate) async fn remember(store: &dyn Records, outcome: &Outcome) -> Result<(), StoreError> {
    let (session, job) = (&outcome.job.session, outcome.job_id());
    let mut history = of(store, session, job).await?;
    let tried = Tried::of(outcome);
    if history.contains(&tried) {
        return Ok(());
    }
    history.push(tried);
    let beyond = history.len().saturating_sub(MAX_TRIED);
    history.drain(..beyond);
    let shelf = shelf::history(session);
    let corrupt = |source| StoreError::Corrupt { key: format!("{shelf} {job}"), source };
    let bytes = wire::encode(&History(history)).map_err(corrupt)?;
    store.put_records(&shelf, &[(job.to_string(), bytes)]).await
}
