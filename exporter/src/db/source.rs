//! A database file as it is found: packed or not, and what is in it.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use bluefin_common::files::FileError;
use bluefin_miopen::db::find_db::FindDb;
use bluefin_miopen::db::perf_db::{NormDb, PerfDb, PerfRow};
use bluefin_miopen::db::{FindingKind, Findings, ReadError, is_sqlite, tables};
use bluefin_miopen::key::{FindDbKey, PerfDbKey};
use bzip2::bufread::MultiBzDecoder;
use tempfile::TempPath;

use super::name::{DbKind, DbName, Ending, Form, Keys};
use super::{DbError, Progress, Step};

/// Largest text: what the readers take.
const MAX_TEXT: u64 = 1 << 30;
/// Largest SQLite database that is unpacked: what it grows to is only known when it is there.
const MAX_UNPACKED: u64 = 64 << 30;
/// Bytes unpacked between two reports.
const REPORT_EVERY: u64 = 8 << 20;
/// What of a text is looked at to see what it is.
const SNIFFED: usize = 1 << 16;

/// What a file holds, by what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    pub kind: DbKind,
    pub form: Form,
}

/// A database file that can be read.
#[derive(Debug)]
pub struct Source {
    /// As it was given.
    pub path: PathBuf,
    /// Its name, taken apart; `None` if it ends like no database.
    pub name: Option<DbName>,
    pub content: Content,
    /// Whether it was packed by bzip2.
    pub packed: bool,
    /// The unpacked copy, which goes when this does.
    copy: Option<TempPath>,
}

impl Source {
    /// Finds out what the file at `path` is. One that is packed is unpacked into the folder of temporary files.
    ///
    /// # Errors
    /// If it can not be read, or is no database of MIOpen's.
    pub fn open(path: &Path, progress: Progress<'_>) -> Result<Self, DbError> {
        let file_name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut head = Vec::new();
        let read = File::open(path).and_then(|file| file.take(16).read_to_end(&mut head));
        read.map_err(FileError::at(path))?;
        let packed = head.starts_with(b"BZh");
        let copy = if packed { Some(unpack(path, progress)?) } else { None };
        let name = DbName::parse(&file_name);
        let local = copy.as_deref().unwrap_or(path);
        let content = content(path, local, name.as_ref())?;
        Ok(Self { path: path.to_path_buf(), name, content, packed, copy })
    }

    /// Where the unpacked bytes are.
    #[must_use]
    pub fn local(&self) -> &Path {
        self.copy.as_deref().unwrap_or(&self.path)
    }

    /// Bytes, unpacked.
    ///
    /// # Errors
    /// If the file is gone.
    pub fn size(&self) -> Result<u64, DbError> {
        let data = std::fs::metadata(self.local()).map_err(FileError::at(&self.path))?;
        Ok(data.len())
    }

    /// Whether an SQLite database writes to a log beside it.
    ///
    /// # Errors
    /// If it can not be read.
    pub fn has_write_ahead_log(&self) -> Result<bool, DbError> {
        let mut head = Vec::new();
        let read = File::open(self.local()).and_then(|file| file.take(20).read_to_end(&mut head));
        read.map_err(FileError::at(&self.path))?;
        // Versions of the format for writers and for readers, at bytes 18 and 19: 2 with a log.
        Ok(head.get(18..20).is_some_and(|versions| versions.contains(&2)))
    }

    /// All bytes of a text.
    ///
    /// # Errors
    /// If it is too large or can not be read.
    pub fn text(&self) -> Result<Vec<u8>, DbError> {
        let found = self.size()?;
        if found > MAX_TEXT {
            return Err(DbError::Size { path: self.path.clone(), found, limit: MAX_TEXT });
        }
        Ok(std::fs::read(self.local()).map_err(FileError::at(&self.path))?)
    }

    /// The name for errors.
    #[must_use]
    pub fn display(&self) -> String {
        self.path.display().to_string()
    }

    /// Reads a find db.
    ///
    /// # Errors
    /// If it is none, or can not be read.
    pub fn find_db(&self) -> Result<FindDb, DbError> {
        self.expect(DbKind::Find)?;
        let mut db = FindDb::parse(&self.display(), &self.text()?)?;
        db.findings = self.of_its_keys(db.findings);
        Ok(db)
    }

    /// Less what a reader of convolutions says of plans: their keys are others, and MIOpen does not look at the algorithms of their
    /// entries (MIOpen 3.3, src/fusion.cpp).
    pub(crate) fn of_its_keys(&self, findings: Findings) -> Findings {
        match self.keys() {
            Keys::Fusions => findings.without(&[FindingKind::Key, FindingKind::LegacyKey, FindingKind::Algorithm]),
            Keys::Convolutions | Keys::BatchNorms => findings,
        }
    }

    /// Reads a perf db of either form.
    ///
    /// # Errors
    /// If it is none, or can not be read.
    pub fn perf_db(&self, visit: impl FnMut(PerfRow<'_>)) -> Result<PerfDb, DbError> {
        self.expect(DbKind::Perf)?;
        Ok(match self.content.form {
            Form::Text => PerfDb::parse_text_with(&self.display(), &self.text()?, visit)?,
            Form::Sqlite => PerfDb::read_sqlite_with(self.local(), visit).map_err(|error| self.named(error))?,
        })
    }

    /// Of what its keys are, by its name.
    #[must_use]
    pub fn keys(&self) -> Keys {
        match (self.content.kind, self.name.as_ref().map(|name| name.keys)) {
            (DbKind::Perf, Some(Keys::BatchNorms)) => Keys::BatchNorms,
            (DbKind::Find, Some(Keys::Fusions)) => Keys::Fusions,
            _ => Keys::Convolutions,
        }
    }

    /// Reads a perf db of batch norms.
    ///
    /// # Errors
    /// If it is in SQLite, where MIOpen reads none of them, or can not be read.
    pub fn norm_db(&self, visit: impl FnMut(u64, &String, &str, &str)) -> Result<NormDb, DbError> {
        if self.content.form == Form::Sqlite {
            return Err(DbError::kind(&self.path, "batch norms in SQLite, which MIOpen does not read", "a text"));
        }
        Ok(NormDb::parse(&self.display(), &self.text()?, visit)?)
    }

    /// Refuses a database of another kind.
    ///
    /// # Errors
    /// If it is one.
    pub fn expect(&self, kind: DbKind) -> Result<(), DbError> {
        if self.content.kind == kind {
            return Ok(());
        }
        let expected = match kind {
            DbKind::Find => "a find db",
            DbKind::Perf => "a perf db",
            DbKind::Kernel => "a kernel db",
        };
        Err(DbError::kind(&self.path, format!("a {}", self.content.kind), expected))
    }

    /// An error of the unpacked copy as one of the file that was given.
    pub(crate) fn named(&self, error: ReadError) -> DbError {
        let name = self.display();
        DbError::Read(match error {
            ReadError::Size { found, limit, .. } => ReadError::Size { name, found, limit },
            ReadError::Io { source, .. } => ReadError::Io { name, source },
            ReadError::Sqlite { source, .. } => ReadError::Sqlite { name, source },
            ReadError::Damaged { damage, .. } => ReadError::Damaged { name, damage },
            ReadError::Schema { table, reason, .. } => ReadError::Schema { name, table, reason },
        })
    }
}

/// The unpacked copy of the file at `path`.
fn unpack(path: &Path, progress: Progress<'_>) -> Result<TempPath, DbError> {
    let at = FileError::at;
    let file = File::open(path).map_err(at(path))?;
    let mut decoder = MultiBzDecoder::new(BufReader::new(file));
    let copy = tempfile::Builder::new().prefix("bluefin-db-").tempfile().map_err(at(&std::env::temp_dir()))?;
    let mut out = BufWriter::with_capacity(1 << 20, copy.as_file());
    let (mut written, mut reported, mut limit) = (0, 0, MAX_TEXT);
    let mut buffer = vec![0; 1 << 17];
    loop {
        let count = decoder.read(&mut buffer).map_err(at(path))?;
        let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else { break };
        if written == 0 && is_sqlite(bytes) {
            limit = MAX_UNPACKED;
        }
        written += count as u64;
        if written > limit {
            return Err(DbError::Size { path: path.to_path_buf(), found: written, limit });
        }
        out.write_all(bytes).map_err(at(copy.path()))?;
        if written - reported >= REPORT_EVERY {
            reported = written;
            progress(Step { path, done: written, total: 0 });
        }
    }
    out.flush().map_err(at(copy.path()))?;
    drop(out);
    Ok(copy.into_temp_path())
}

const EXPECTED: &str = "a find db, perf db or kernel db of MIOpen's";

fn content(path: &Path, local: &Path, name: Option<&DbName>) -> Result<Content, DbError> {
    let mut head = Vec::new();
    let read = File::open(local).and_then(|file| file.take(SNIFFED as u64).read_to_end(&mut head));
    read.map_err(FileError::at(path))?;
    if is_sqlite(&head) {
        let tables = tables(local).map_err(|error| match error {
            ReadError::Sqlite { source, .. } => ReadError::Sqlite { name: path.display().to_string(), source },
            other => other,
        })?;
        let kind = if tables.contains("kern_db") {
            DbKind::Kernel
        } else if tables.contains("perf_db") || tables.contains("config") {
            DbKind::Perf
        } else {
            return Err(DbError::kind(path, "an SQLite database without tables kern_db or perf_db", EXPECTED));
        };
        return Ok(Content { kind, form: Form::Sqlite });
    }
    let named = name.map(|name| name.ending).filter(|ending| ending.form == Form::Text);
    let kind = kind_of_text(&head).or(named.map(|ending: Ending| ending.kind));
    match kind {
        Some(kind) => Ok(Content { kind, form: Form::Text }),
        None if head.is_empty() => Err(DbError::kind(path, "an empty file", EXPECTED)),
        None => Err(DbError::kind(path, "neither an SQLite database nor a text with such keys", EXPECTED)),
    }
}

/// What the first key that can be read tells.
fn kind_of_text(head: &[u8]) -> Option<DbKind> {
    head.split(|byte| *byte == b'\n').find_map(|line| {
        let (key, _) = std::str::from_utf8(line).ok()?.split_once('=')?;
        if key.parse::<PerfDbKey>().is_ok() {
            return Some(DbKind::Perf);
        }
        FindDbKey::parse(key).is_ok().then_some(DbKind::Find)
    })
}
