//! The databases of a release in memory: read from a folder, cleaned, written out as files.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use bluefin_common::digest::Digest;
use bluefin_common::files::FileError;
use bluefin_common::target::Target;
use bluefin_miopen::db::WriteError;
use bluefin_miopen::db::find_db::{FindDb, FindEntry};
use bluefin_miopen::db::kernel_db::{KernelDb, KernelDbWriter, KernelName, KernelRow};
use bluefin_miopen::db::perf_db::PerfDb;
use bluefin_miopen::key::FindDbKey;

use super::ReleaseError;
use crate::db::Source;
use crate::db::name::{DbKind, DbName, Keys};

/// What a release is of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Databases {
    pub find: FindDb,
    pub perf: PerfDb,
    pub kernels: BTreeMap<KernelName, KernelRow>,
}

/// Fastest first, times that are none last, equal ones by name.
pub(super) fn by_time(a: &FindEntry, b: &FindEntry) -> std::cmp::Ordering {
    let rank = |entry: &FindEntry| (entry.time_ms <= 0.0 || entry.time_ms.is_nan(), entry.time_ms);
    let ((bad_a, time_a), (bad_b, time_b)) = (rank(a), rank(b));
    bad_a.cmp(&bad_b).then(time_a.total_cmp(&time_b)).then_with(|| a.solver.cmp(&b.solver))
}

/// A file of a folder that a release can be made from.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub path: PathBuf,
    pub name: String,
    pub kind: DbKind,
}

/// The system databases for `target` in `folder`, at most one of each kind. A kernel db for all of an architecture is taken
/// where there is none for the target alone, as MIOpen does.
pub(crate) fn find_files(folder: &Path, target: &Target) -> Result<Vec<Found>, ReleaseError> {
    let mut found: BTreeMap<(DbKind, bool, String), Found> = BTreeMap::new();
    for entry in folder.read_dir().map_err(FileError::at(folder))? {
        let entry = entry.map_err(FileError::at(folder))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let Some(parsed) = DbName::parse(&name) else { continue };
        let Some(device) = parsed.device.filter(|_| parsed.wrong.is_none()) else { continue };
        let ours = device.id == target.arch() && device.cus.is_none_or(|cus| cus == target.cus());
        let kind = parsed.ending.kind;
        let foreign = kind == DbKind::Find && !name.contains(&format!(".{}.", target.backend()));
        if !ours || foreign || parsed.ending.user || parsed.keys != Keys::Convolutions {
            continue;
        }
        // Exact names first; then SQLite before text, which `.db` sorts before `.db.txt`.
        found.insert((kind, device.cus.is_none(), name.clone()), Found { path: entry.path(), name, kind });
    }
    let mut files: Vec<Found> = Vec::new();
    for file in found.into_values() {
        if files.last().is_none_or(|last| last.kind != file.kind) {
            files.push(file);
        }
    }
    if files.is_empty() {
        let expected = format!("{}.{}.fdb.txt", target.db_basename(), target.backend());
        return Err(ReleaseError::NoDatabase { folder: folder.to_path_buf(), target: target.clone(), expected });
    }
    Ok(files)
}

/// What was read, and what of it a release does not keep.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub databases: Databases,
    pub warnings: Vec<String>,
}

impl Loaded {
    /// Reads `files`.
    pub(crate) fn read(files: &[Found]) -> Result<Self, ReleaseError> {
        let mut loaded = Self::default();
        for file in files {
            let source = Source::open(&file.path, &|_| {})?;
            let findings = match file.kind {
                DbKind::Find => {
                    loaded.databases.find = source.find_db()?;
                    std::mem::take(&mut loaded.databases.find.findings)
                }
                DbKind::Perf => {
                    loaded.databases.perf = source.perf_db(|_| {})?;
                    std::mem::take(&mut loaded.databases.perf.findings)
                }
                DbKind::Kernel => {
                    let kernels = &mut loaded.databases.kernels;
                    KernelDb::scan(source.local(), |_, row| {
                        kernels.insert(row.kernel.clone(), row);
                    })?
                }
            };
            if let Some(first) = findings.kept.first() {
                loaded.warnings.push(format!(
                    "{}: {} findings, such as {first}; bluefin db check tells all",
                    file.path.display(),
                    findings.total
                ));
            }
        }
        loaded.clean();
        Ok(loaded)
    }

    /// Leaves out what MIOpen would trip over, and orders the rest.
    pub(crate) fn clean(&mut self) {
        let databases = &mut self.databases;
        let (mut dead_keys, mut bad_entries, mut bad_kernels) = (0_u64, 0_u64, 0_u64);
        databases.find.records.retain(|key, entries| {
            let Ok(key) = FindDbKey::parse(key) else {
                dead_keys += 1;
                return false;
            };
            let before = entries.len();
            entries.retain(|entry| entry.has_algorithm_of(key.direction));
            if entries.iter().any(|entry| entry.time_ms > 0.0) {
                entries.retain(|entry| entry.time_ms > 0.0);
            }
            bad_entries += (before - entries.len()) as u64;
            entries.sort_by(by_time);
            !entries.is_empty()
        });
        databases.find.legacy_lines = 0;
        databases.perf.records.retain(|_, solvers| !solvers.is_empty());
        databases.kernels.retain(|name, row| {
            let sound = name.check().is_ok() && row.code().is_ok();
            bad_kernels += u64::from(!sound);
            sound
        });
        let left_out = [
            (dead_keys, "find-db keys that no convolution has"),
            (bad_entries, "find-db entries without a time or an algorithm of their direction"),
            (bad_kernels, "kernels whose size or hash is wrong"),
        ];
        let told = left_out.into_iter().filter(|(count, _)| *count > 0);
        self.warnings.extend(told.map(|(count, what)| format!("left out {count} {what}")));
    }
}

/// A database as a file.
#[derive(Debug)]
pub(crate) struct Written {
    pub name: String,
    pub records: u64,
    pub path: tempfile::TempPath,
}

impl Databases {
    /// Whether there is nothing in them.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.find.records.is_empty() && self.perf.records.is_empty() && self.kernels.is_empty()
    }

    /// Keeps the `top` fastest solvers of each find-db key.
    pub fn keep(&mut self, top: usize) {
        for entries in self.find.records.values_mut() {
            entries.truncate(top);
        }
    }

    /// Writes each database that is not empty to a temporary file, the perf db in both forms.
    pub(crate) fn write(&self, target: &Target) -> Result<Vec<Written>, ReleaseError> {
        let base = target.db_basename();
        let mut files = Vec::new();
        let mut add = |name: String, write: &dyn Fn(&Path) -> Result<u64, WriteError>| {
            let failed = |source| ReleaseError::Write { name: name.clone(), source };
            let path = tempfile::NamedTempFile::new().map_err(|error| failed(error.into()))?.into_temp_path();
            let records = write(&path).map_err(failed)?;
            files.push(Written { name, records, path });
            Ok::<_, ReleaseError>(())
        };
        if !self.find.records.is_empty() {
            add(format!("{base}.{}.fdb.txt", target.backend()), &|path| text(path, |out| self.find.write(out)))?;
        }
        if !self.perf.records.is_empty() {
            add(format!("{base}.db"), &|path| self.perf.write_sqlite(path))?;
            add(format!("{base}.db.txt"), &|path| text(path, |out| self.perf.write_text(out)))?;
        }
        if !self.kernels.is_empty() {
            add(format!("{base}.kdb"), &|path| {
                let mut writer = KernelDbWriter::create(path)?;
                for row in self.kernels.values() {
                    writer.add(row)?;
                }
                Ok(writer.finish()?)
            })?;
        }
        Ok(files)
    }
}

fn text(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<std::fs::File>) -> Result<u64, WriteError>,
) -> Result<u64, WriteError> {
    let mut out = BufWriter::new(std::fs::OpenOptions::new().write(true).open(path)?);
    let records = write(&mut out)?;
    out.flush()?;
    Ok(records)
}

/// Digest of a file of any size.
pub(crate) fn digest(path: &Path) -> Result<Digest, FileError> {
    Digest::of_file(path).map_err(FileError::at(path))
}
