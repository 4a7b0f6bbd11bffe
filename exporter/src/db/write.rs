//! Databases written under the name that says what they are.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use bluefin_common::files::FileSet;
use bluefin_miopen::db::find_db::{FindDb, check_key};
use bluefin_miopen::db::perf_db::{NormDb, PerfDb, Records};
use bluefin_miopen::db::{FindingKind, Findings, WriteError};
use bluefin_miopen::key::{FindDbKey, KeyError};
use serde::Serialize;

use super::name::{DbKind, DbName, Ending, Form, Keys};
use super::{DbError, Source};

/// What is told of what was left out; beyond that it is only counted.
const TOLD: usize = 100;

/// A file that is to be written.
#[derive(Clone, Debug)]
pub struct Destination {
    pub path: PathBuf,
    pub ending: Ending,
    /// By its name.
    keys: Keys,
    file_name: String,
}

impl Destination {
    /// The file at `path`, whose name says what it will be.
    ///
    /// # Errors
    /// If it does not.
    pub fn parse(path: &Path) -> Result<Self, DbError> {
        const EXPECTED: &str = "a name that ends in .fdb.txt, .ufdb.txt, .db, .udb, .db.txt, .udb.txt, .kdb or .ukdb";
        let file_name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let name = DbName::parse(&file_name).filter(|_| !file_name.ends_with(".bz2"));
        let name = name.ok_or_else(|| DbError::kind(path, file_name.clone(), EXPECTED))?;
        Ok(Self { path: path.to_path_buf(), ending: name.ending, keys: name.keys, file_name })
    }

    /// Refuses to write what a file of this name does not hold.
    ///
    /// # Errors
    /// If `kind` is another.
    pub fn expect(&self, kind: DbKind) -> Result<(), DbError> {
        if self.ending.kind == kind {
            return Ok(());
        }
        let expected = match kind {
            DbKind::Find => "a name that ends in .fdb.txt or .ufdb.txt, since it would hold a find db",
            DbKind::Perf => "a name that ends in .db, .udb, .db.txt or .udb.txt, since it would hold a perf db",
            DbKind::Kernel => "a name that ends in .kdb or .ukdb, since it would hold a kernel db",
        };
        Err(DbError::kind(&self.path, self.file_name.clone(), expected))
    }

    /// Writes a find db, version 2.
    ///
    /// # Errors
    /// If it is to be something else, holds what the format can not, or can not be written.
    pub fn find_db(&self, db: &FindDb) -> Result<Written, DbError> {
        self.expect(DbKind::Find)?;
        self.whole(|path| text(path, |out| db.write(out)).map_err(DbError::writing(&self.path)))
    }

    /// Writes a perf db in the form that the name says.
    ///
    /// # Errors
    /// If it is to be something else, holds what the format can not, or can not be written.
    pub fn perf_db(&self, db: &PerfDb) -> Result<Written, DbError> {
        self.expect(DbKind::Perf)?;
        self.whole(|path| {
            let written = match self.ending.form {
                Form::Text => text(path, |out| db.write_text(out)),
                Form::Sqlite => db.write_sqlite(path),
            };
            written.map_err(DbError::writing(&self.path))
        })
    }

    /// Refuses to write what a file of this name does not hold.
    ///
    /// # Errors
    /// If `keys` are of something else than the name says, or MIOpen does not read them in this form.
    pub(crate) fn expect_keys(&self, keys: Keys) -> Result<(), DbError> {
        let expected = match keys {
            Keys::BatchNorms if self.keys != keys || self.ending.form != Form::Text => {
                "a name such as batchnorm_gfx90a68.db.txt, since it would hold batch norms, which MIOpen reads from a text alone"
            }
            _ if self.keys == keys => return Ok(()),
            Keys::Fusions => "a name such as gfx90a68.HIP.fusion.fdb.txt, since it would hold fusions",
            Keys::Convolutions if self.keys == Keys::BatchNorms => {
                "a name without batchnorm_, since it would hold convolutions"
            }
            _ => "a name without .fusion, since it would hold convolutions",
        };
        Err(DbError::kind(&self.path, self.file_name.clone(), expected))
    }

    /// Writes a perf db of batch norms.
    ///
    /// # Errors
    /// If it is to be something else, holds what the format can not, or can not be written.
    pub(crate) fn norm_db(&self, db: &NormDb) -> Result<Written, DbError> {
        self.expect_keys(Keys::BatchNorms)?;
        self.whole(|path| text(path, |out| db.write(out)).map_err(DbError::writing(&self.path)))
    }

    /// Writes the file whole or not at all: `fill` fills an empty one beside it and returns its number of records.
    pub(crate) fn whole(&self, fill: impl FnOnce(&Path) -> Result<u64, DbError>) -> Result<Written, DbError> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut files = FileSet::new(folder)?;
        let temporary = files.add(&self.file_name)?;
        let records = fill(&temporary)?;
        let bytes = files.commit()?.first().map_or(0, |(_, bytes)| *bytes);
        Ok(Written { path: self.path.clone(), kind: self.ending.kind, records, bytes })
    }
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Written {
    pub path: PathBuf,
    pub kind: DbKind,
    /// Keys of a find db, rows of the others.
    pub records: u64,
    pub bytes: u64,
}

fn text(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<std::fs::File>) -> Result<u64, WriteError>,
) -> Result<u64, WriteError> {
    let mut out = BufWriter::with_capacity(1 << 20, OpenOptions::new().write(true).open(path)?);
    let records = write(&mut out)?;
    out.flush()?;
    Ok(records)
}

/// What MIOpen would not have used of the files that were read, and what is therefore not in the one that was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The first hundred, for people.
    pub told: Vec<String>,
    pub total: u64,
}

impl LeftOut {
    fn add(&mut self, message: impl FnOnce() -> String) {
        self.total += 1;
        if self.told.len() < TOLD {
            self.told.push(message());
        }
    }

    /// Adds rows that repeat the name of another one of their file.
    pub(crate) fn repeated(&mut self, path: &Path, rows: u64) {
        if rows > 0 {
            self.add(|| format!("{}: {rows} rows repeat the name and options of another", path.display()));
            self.total += rows - 1;
        }
    }

    /// Reads a find db, less what MIOpen does not use.
    pub(crate) fn find_db(&mut self, source: &Source) -> Result<FindDb, DbError> {
        let mut db = source.find_db()?;
        self.skipped(&source.path, DbKind::Find, &std::mem::take(&mut db.findings));
        self.usable(&source.path, &mut db);
        Ok(db)
    }

    /// Reads a perf db, less what MIOpen does not use.
    pub(crate) fn perf_db(&mut self, source: &Source) -> Result<PerfDb, DbError> {
        let mut db = source.perf_db(|_| {})?;
        self.skipped(&source.path, DbKind::Perf, &std::mem::take(&mut db.findings));
        self.usable_params(&source.path, &mut db.records);
        Ok(db)
    }

    /// Reads a perf db of batch norms, less what MIOpen does not use.
    pub(crate) fn norm_db(&mut self, source: &Source) -> Result<NormDb, DbError> {
        let mut db = source.norm_db(|_, _, _, _| {})?;
        self.skipped(&source.path, DbKind::Perf, &std::mem::take(&mut db.findings));
        self.usable_params(&source.path, &mut db.records);
        Ok(db)
    }

    /// Takes out of `records` what a writer would refuse.
    fn usable_params<K: Display + Ord>(&mut self, path: &Path, records: &mut Records<K>) {
        for (key, solvers) in records {
            solvers.retain(|solver, params| match PerfDb::check(solver, params) {
                Ok(()) => true,
                Err(error) => {
                    self.add(|| format!("{}: key {key}: {error}", path.display()));
                    false
                }
            });
        }
    }

    /// Adds what a reader of a database of `kind` skipped.
    pub(crate) fn skipped(&mut self, path: &Path, kind: DbKind, findings: &Findings) {
        let skips = |finding: FindingKind| match finding {
            FindingKind::NotText
            | FindingKind::NoKey
            | FindingKind::DuplicateKey
            | FindingKind::NoEntry
            | FindingKind::NoName
            | FindingKind::DuplicateSolver
            | FindingKind::MissingFields
            | FindingKind::LegacyKey
            | FindingKind::Reference
            | FindingKind::Column => true,
            // A key that no convolution has stays in a find db: it may be that of a fusion plan.
            FindingKind::Key => kind != DbKind::Find,
            FindingKind::ExtraFields
            | FindingKind::Number
            | FindingKind::Time
            | FindingKind::Algorithm
            | FindingKind::Space => false,
        };
        let before = self.total;
        for finding in findings.kept.iter().filter(|finding| skips(finding.kind)) {
            self.add(|| format!("{}:{}: {}", path.display(), finding.line, finding.detail));
        }
        let all: u64 = findings.counts.iter().filter(|(kind, _)| skips(**kind)).map(|(_, count)| count).sum();
        self.total = before + all;
    }

    /// Takes out of `db` what MIOpen can not use and a writer would refuse.
    fn usable(&mut self, path: &Path, db: &mut FindDb) {
        db.records.retain(|key, entries| {
            if let Err(error) = check_key(key) {
                self.add(|| format!("{}: {error}", path.display()));
                return false;
            }
            // Missing fields and obsolete keys have been told as findings.
            entries.retain(|entry| {
                let read = &*entry.algorithm != "<invalid>";
                if let Some(error) = entry.check().err().filter(|_| read) {
                    self.add(|| format!("{}: key {key}: {error}", path.display()));
                    return false;
                }
                read
            });
            !matches!(FindDbKey::parse(key), Err(KeyError::LegacyShape))
        });
    }
}
