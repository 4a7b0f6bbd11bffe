//! Several databases of one kind as one.

mod fold;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::PathBuf;

use bluefin_miopen::db::kernel_db::{KernelDbWriter, KernelHead, KernelName, KernelReader};
use serde::Serialize;

use super::name::{DbKind, Keys};
use super::policy::Policy;
use super::write::{Destination, LeftOut, Written};
use super::{DbError, Progress, Source, Step};
use fold::{FindFold, PerfFold, Times};

/// Rows between two reports.
const REPORT_EVERY: u64 = 200;

/// What to merge, and how.
#[derive(Clone, Debug)]
pub struct MergeRequest {
    pub policy: Policy,
    /// From the oldest to the newest.
    pub files: Vec<PathBuf>,
    /// Find dbs with the times of perf dbs, one for each of them; for [`Policy::Fastest`] alone.
    pub times: Vec<PathBuf>,
    pub out: PathBuf,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MergeReport {
    #[serde(flatten)]
    pub written: Written,
    pub left_out: LeftOut,
}

/// Merges databases of one kind.
///
/// # Errors
/// If they are of several kinds, the policy needs times that are not there, or one of the files fails.
pub fn merge(request: &MergeRequest, progress: Progress<'_>) -> Result<MergeReport, DbError> {
    let destination = Destination::parse(&request.out)?;
    let sources: Vec<Source> =
        request.files.iter().map(|path| Source::open(path, progress)).collect::<Result<_, _>>()?;
    for source in &sources {
        source.expect(destination.ending.kind)?;
        destination.expect_keys(source.keys())?;
    }
    let mut left_out = LeftOut::default();
    let written = match destination.ending.kind {
        DbKind::Find => {
            let mut fold = FindFold::new(request.policy);
            for source in &sources {
                fold.add(left_out.find_db(source)?);
            }
            destination.find_db(&fold.finish())?
        }
        DbKind::Perf if sources.iter().any(|source| source.keys() == Keys::BatchNorms) => {
            if request.policy == Policy::Fastest {
                return Err(DbError::Fastest("batch norms have no find db, expected newest, replace or keep-keys"));
            }
            let dbs = sources.iter().map(|source| left_out.norm_db(source)).collect::<Result<Vec<_>, _>>()?;
            destination.norm_db(&fold::norms(request.policy, dbs))?
        }
        DbKind::Perf => {
            let times = times(request, progress)?;
            let mut fold = PerfFold::new(request.policy, times);
            for source in &sources {
                fold.add(left_out.perf_db(source)?);
            }
            destination.perf_db(&fold.finish())?
        }
        DbKind::Kernel => kernels(&sources, request.policy, &destination, &mut left_out, progress)?,
    };
    Ok(MergeReport { written, left_out })
}

/// The times by which perf dbs are compared: of each file, by its find db.
fn times(request: &MergeRequest, progress: Progress<'_>) -> Result<Vec<Times>, DbError> {
    if request.policy != Policy::Fastest {
        return Ok(Vec::new());
    }
    if request.times.len() != request.files.len() {
        return Err(DbError::Fastest(
            "perf dbs hold no times, expected the find db of each of them, in the same order",
        ));
    }
    let read = |path: &PathBuf| Ok(Times::new(&Source::open(path, progress)?.find_db()?));
    request.times.iter().map(read).collect()
}

/// Merges kernel dbs. Names are held in memory, code objects are not.
pub(super) fn kernels(
    sources: &[Source],
    policy: Policy,
    destination: &Destination,
    left_out: &mut LeftOut,
    progress: Progress<'_>,
) -> Result<Written, DbError> {
    if policy == Policy::Fastest {
        return Err(DbError::Fastest("kernel dbs hold no times, expected newest, replace or keep-keys"));
    }
    destination.expect(DbKind::Kernel)?;
    let mut readers = Vec::new();
    let mut chosen: BTreeMap<KernelName, (usize, KernelHead)> = BTreeMap::new();
    for (file, source) in sources.iter().enumerate() {
        let reader = KernelReader::open(source.local()).map_err(|error| source.named(error))?;
        let mut twice = 0;
        let findings = reader.heads(|head| match chosen.entry(head.kernel.clone()) {
            Entry::Vacant(entry) => {
                if file == 0 || policy != Policy::KeepKeys {
                    entry.insert((file, head));
                }
            }
            // MIOpen reads the first row of a name.
            Entry::Occupied(entry) if entry.get().0 == file => twice += 1,
            Entry::Occupied(mut entry) => {
                entry.insert((file, head));
            }
        });
        left_out.skipped(&source.path, DbKind::Kernel, &findings.map_err(|error| source.named(error))?);
        left_out.repeated(&source.path, twice);
        readers.push((reader, source));
    }
    let total = chosen.len() as u64;
    destination.whole(|path| {
        let failed = DbError::writing;
        let mut writer = KernelDbWriter::create(path).map_err(failed(&destination.path))?;
        for ((file, head), done) in chosen.into_values().zip(0..) {
            if done % REPORT_EVERY == 0 {
                progress(Step { path: &destination.path, done, total });
            }
            let Some((reader, source)) = readers.get(file) else { continue };
            let row = reader.row(head).map_err(|error| source.named(error))?;
            writer.add(&row).map_err(failed(&destination.path))?;
        }
        writer.finish().map_err(failed(&destination.path))
    })
}

#[cfg(test)]
mod tests;
