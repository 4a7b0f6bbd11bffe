//! The verb: stream, fold, write, put in place.

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bluefin_common::problem::Problem;
use bluefin_common::session::{Session, SessionName};
use bluefin_common::store::Store;
use serde::Serialize;
use tracing::info;

use crate::error::ExportError;
use crate::fold::{Records, Wanted};
use crate::stream::{self, Group, Slice};
use crate::{kernels, winners};
use bluefin_common::db::WriteError;
use bluefin_common::files::FileSet;

/// Warnings that are told one by one.
const MAX_WARNINGS: usize = 100;

/// What to write where.
#[derive(Clone, Debug)]
pub struct ExportRequest {
    pub find_db: bool,
    pub perf_db: bool,
    pub kernel_db: bool,
    pub winners: bool,
    /// Solvers kept for each find-db key; `None`: all.
    pub top: Option<usize>,
    /// Folder; made if need be.
    pub out: PathBuf,
    /// Only these problems; `None`: all.
    pub only: Option<Arc<HashSet<Problem>>>,
    /// Base name of the databases; `None`: the one that MIOpen looks for.
    pub base_name: Option<String>,
}

impl ExportRequest {
    /// Everything of a session, with at most four solvers for each find-db key, as MIOpen ships them.
    #[must_use]
    pub fn all(out: PathBuf) -> Self {
        Self {
            find_db: true,
            perf_db: true,
            kernel_db: true,
            winners: true,
            top: Some(4),
            out,
            only: None,
            base_name: None,
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
}

/// One file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExportedFile {
    pub path: PathBuf,
    /// Keys of a find db, rows of the others, problems of `winners.json`.
    pub records: u64,
    pub bytes: u64,
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
    let wanted = Wanted {
        find_db: request.find_db,
        perf_db: request.perf_db,
        kernel_db: request.kernel_db,
        winners: request.winners,
    };
    let Gathered { session, mut records, groups, outcomes, unfinished, warnings: told } =
        gather(store, session, wanted, request.only.clone()).await?;
    let mut warnings = Vec::new();
    if unfinished > 0 {
        warnings.push(format!("{unfinished} of {groups} groups are not finished yet"));
    }
    warnings.extend(told);
    let mut files = FileSet::new(&request.out)?;
    let mut counts = Vec::new();
    let base = request.base_name.clone().unwrap_or_else(|| session.target.db_basename());
    if request.kernel_db {
        let path = files.add(&format!("{base}.kdb"))?;
        let (rows, missing) = kernels::write(store, std::mem::take(&mut records.kernels), &path).await?;
        counts.push(rows);
        warnings.extend(missing);
    }
    let top = request.top;
    let name = session.name.clone();
    let write = move || -> Result<_, ExportError> {
        write_files(&session, &base, records, wanted, top, &mut files, &mut counts)?;
        Ok((files.commit()?, counts))
    };
    let (paths, counts) = tokio::task::spawn_blocking(write).await??;
    let files = paths.into_iter().zip(counts).map(|((path, bytes), records)| ExportedFile { path, records, bytes });
    if warnings.len() > MAX_WARNINGS {
        let more = warnings.len() - MAX_WARNINGS;
        warnings.truncate(MAX_WARNINGS);
        warnings.push(format!("{more} more warnings"));
    }
    Ok(ExportReport { session: name, groups, outcomes, files: files.collect(), warnings })
}

/// What a session's outcomes tell.
pub(crate) struct Gathered {
    pub session: Session,
    pub records: Records,
    pub groups: u64,
    pub outcomes: u64,
    /// Groups that have work left.
    pub unfinished: u64,
    /// What the records can not hold.
    pub warnings: Vec<String>,
}

/// Streams and folds the outcomes of a session, all or `only` those of some problems.
pub(crate) async fn gather(
    store: &dyn Store,
    name: &SessionName,
    wanted: Wanted,
    only: Option<Arc<HashSet<Problem>>>,
) -> Result<Gathered, ExportError> {
    let session = find_session(store, name).await?;
    let unfinished = store.progress(&session.name).await?.unsettled_groups;
    let mut groups = store.groups(&session.name).await?;
    // The store names them in no particular order.
    groups.sort_unstable();
    let fold = move |slice: Slice| {
        let mut records = Records::default();
        let asked = |group: &Group<'_>| {
            let problem = group.outcomes.first().map(|outcome| &outcome.job.problem);
            only.as_ref().is_none_or(|only| problem.is_some_and(|problem| only.contains(problem)))
        };
        for group in slice.groups().filter(asked) {
            records.add(slice.session(), group.library, group.outcomes, wanted);
        }
        records
    };
    let mut records = Records::default();
    let outcomes = stream::fold(store, &session, &groups, fold, |part| records.merge(part)).await?;
    info!(session = %session.name, groups = groups.len(), outcomes, "outcomes folded");
    let warnings = std::mem::take(&mut records.warnings).into_iter().collect();
    Ok(Gathered { session, records, groups: groups.len() as u64, outcomes, unfinished, warnings })
}

async fn find_session(store: &dyn Store, name: &SessionName) -> Result<Session, ExportError> {
    if let Some(session) = store.session(name).await? {
        return Ok(session);
    }
    let names: Vec<String> = store.sessions().await?.into_iter().map(|session| session.name.to_string()).collect();
    let known = match names.as_slice() {
        [] => "which holds no session".to_string(),
        names => format!("which holds {}", names.join(", ")),
    };
    Err(ExportError::NoSession { name: name.clone(), known })
}

/// Writes all but the kernel db, and the number of records of each to `counts`.
fn write_files(
    session: &Session,
    base: &str,
    mut records: Records,
    wanted: Wanted,
    top: Option<usize>,
    files: &mut FileSet,
    counts: &mut Vec<u64>,
) -> Result<(), ExportError> {
    if wanted.find_db {
        let db = records.take_find_db(top);
        let path = files.add(&format!("{base}.{}.fdb.txt", session.target.backend()))?;
        counts.push(write_text(&path, |out| db.write(out))?);
    }
    if wanted.perf_db {
        let db = records.take_perf_db();
        let path = files.add(&format!("{base}.db"))?;
        counts.push(db.write_sqlite(&path).map_err(ExportError::at(&path))?);
        counts.push(write_text(&files.add(&format!("{base}.db.txt"))?, |out| db.write_text(out))?);
    }
    if wanted.winners {
        let path = files.add("winners.json")?;
        counts.push(write_text(&path, |out| Ok(winners::write(out, session, &records.summaries)?))?);
    }
    Ok(())
}

fn write_text(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<std::fs::File>) -> Result<u64, WriteError>,
) -> Result<u64, ExportError> {
    let all = || -> Result<_, WriteError> {
        let mut out = BufWriter::new(OpenOptions::new().write(true).open(path)?);
        let records = write(&mut out)?;
        out.flush()?;
        Ok(records)
    };
    all().map_err(ExportError::at(path))
}
