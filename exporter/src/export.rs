//! The verb: stream, fold, write, put in place.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use bluefin_common::files::FileSet;
use bluefin_common::problem::Problem;
use bluefin_common::session::{Session, SessionName};
use bluefin_common::store::{Sessions, Store};
use bluefin_common::suggest;
use serde::Serialize;
use tracing::info;

use crate::error::ExportError;
use crate::fold::Fold;
use crate::format::{AnyRecords, Format};
use crate::formats::Formats;
use crate::output::{ExportedFile, Output, Owners, WhichSpecs};
use crate::stream::{self, Folded};

/// Warnings that are told one by one.
const MAX_WARNINGS: usize = 100;

/// What to write where.
#[derive(Clone, Debug)]
pub struct ExportRequest {
    /// Each once.
    pub formats: Vec<Arc<dyn Format>>,
    /// Solvers kept for each find-db key; `None`: all.
    pub top: Option<usize>,
    /// Folder; made if need be.
    pub out: PathBuf,
    /// Only these problems; `None`: all.
    pub only: Option<Arc<HashSet<Problem>>>,
    /// Base name of the databases; `None`: the one that MIOpen looks for.
    pub base_name: Option<String>,
    /// Of which specs `winners.json` tells.
    pub specs: WhichSpecs,
    /// Somebody named the formats: databases of MIOpen's are written even if nothing is in them.
    pub is_named: bool,
}

impl ExportRequest {
    /// Everything of a session, with at most four solvers for each find-db key, as MIOpen ships them.
    #[must_use]
    pub fn all(out: PathBuf) -> Self {
        Self {
            formats: Formats::shipped().chosen(&[]),
            top: Some(4),
            out,
            only: None,
            base_name: None,
            specs: WhichSpecs::Current(HashSet::new()),
            is_named: false,
        }
    }
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExportReport {
    pub session: SessionName,
    /// Groups (problem and kernel spec) that were folded.
    pub groups: u64,
    pub outcomes: u64,
    pub files: Vec<ExportedFile>,
    /// What is not in the files and should be.
    pub warnings: Vec<String>,
    /// What is in the files and does not do what one may expect.
    pub notes: Vec<String>,
}

/// Folds the outcomes of a session into files. The same outcomes give the same bytes.
///
/// # Errors
/// If the session does not exist, the store fails or a file can not be written; no file is half-written then.
pub async fn export(
    store: &dyn Store,
    session: &SessionName,
    request: &ExportRequest,
) -> Result<ExportReport, ExportError> {
    let empty = || {
        let records = request.formats.iter().map(|format| format.records()).collect::<Vec<AnyRecords>>();
        (records, Owners::default())
    };
    let gathered = gather(store, session, request.only.clone(), empty).await?;
    let Gathered { session, records: (records, owners), groups, outcomes, unfinished, warnings: told } = gathered;
    let mut warnings = Vec::new();
    if unfinished > 0 {
        warnings.push(format!("{unfinished} of {groups} problems are not finished yet"));
    }
    warnings.extend(told);
    let base = request.base_name.clone().unwrap_or_else(|| session.target.db_basename());
    let mut out = Output::new(store, &session, &base, request.top, &request.specs, FileSet::new(&request.out)?);
    out.omits_empty = owners.own && !owners.others && !request.is_named;
    for records in records {
        records.write(&mut out).await?;
    }
    let notes = out.notes();
    let (files, missing) = out.commit().await?;
    warnings.extend(missing);
    if warnings.len() > MAX_WARNINGS {
        let more = warnings.len() - MAX_WARNINGS;
        warnings.truncate(MAX_WARNINGS);
        warnings.push(format!("{more} more warnings"));
    }
    Ok(ExportReport { session: session.name, groups, outcomes, files, warnings, notes })
}

/// What a session's outcomes tell.
pub(crate) struct Gathered<F> {
    pub session: Session,
    pub records: F,
    pub groups: u64,
    pub outcomes: u64,
    /// Groups that have work left.
    pub unfinished: u64,
    /// What the records can not hold.
    pub warnings: Vec<String>,
}

/// Streams and folds the outcomes of a session, all or `only` those of some problems, into records that begin as `empty` makes
/// them.
pub(crate) async fn gather<F: Fold>(
    store: &dyn Store,
    name: &SessionName,
    only: Option<Arc<HashSet<Problem>>>,
    empty: impl Fn() -> F,
) -> Result<Gathered<F>, ExportError> {
    let session = find_session(store, name).await?;
    let unfinished = store.progress(&session.name).await?.unsettled_groups;
    let mut groups = store.groups(&session.name).await?;
    // The store names them in no particular order.
    groups.sort_unstable();
    let Folded { records, warnings, outcomes } = stream::fold(store, &session, &groups, only, empty).await?;
    info!(session = %session.name, groups = groups.len(), outcomes, "outcomes folded");
    let warnings = warnings.into_iter().collect();
    Ok(Gathered { session, records, groups: groups.len() as u64, outcomes, unfinished, warnings })
}

async fn find_session(store: &dyn Sessions, name: &SessionName) -> Result<Session, ExportError> {
    if let Some(session) = store.session(name).await? {
        return Ok(session);
    }
    let all = store.sessions().await?;
    let instead = suggest::instead(name.as_str(), all.iter().map(|session| session.name.as_str()));
    Err(ExportError::NoSession { name: name.clone(), instead })
}
