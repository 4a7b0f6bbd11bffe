//! Databases put where MIOpen looks for them, under the names that it looks for.

pub(crate) mod combine;
mod known;
mod names;
mod place;
mod rules;
mod version;

pub use combine::{Combine, Merged};
pub use names::{Wanted, names};
pub use place::{
    Action, Installed, InstalledFile, PlaceError, Unfinished, install, plan, recover, replaced, undo, unfinished,
};
pub use rules::{Nearest, SearchMode};
pub use version::{MiopenVersion, PerfForm, RocmVersion, Versions, system_folder};

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bluefin_common::digest::Digest;
use bluefin_common::files::FileError;
use bluefin_miopen::db::kernel_db::{KernelHead, KernelReader};
use bluefin_miopen::db::perf_db::PerfDb;
use bluefin_miopen::db::solvers::{RELEASE, Solvers};
use bluefin_miopen::db::{ReadError, WriteError};
use tempfile::TempDir;

use crate::db::name::{DbKind, Device, Form, Keys};
use crate::db::{DbError, Source};
use combine::{Combiner, Given};
use known::Known;

/// MIOpen refuses a system database in SQLite that is smaller.
pub const MIN_SQLITE: u64 = 512;

/// Why nothing was installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error(transparent)]
    InstallPlace(#[from] PlaceError),
    #[error(transparent)]
    Database(#[from] DbError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{name}: {source}")]
    Write { name: String, source: WriteError },
    /// A file that is there and that nothing can be merged into.
    #[error("{0}; put it aside, or say --replace")]
    Present(Box<DbError>),
    #[error("{}: {reason}", path.display())]
    Refused { path: PathBuf, reason: String },
    #[error("{0}")]
    Version(String),
}

/// For whom files are installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstallPlace {
    /// Everybody: the folder that MIOpen ships its own in.
    System { folder: PathBuf },
    /// One user: their databases, and their kernels.
    User { folder: PathBuf, cache: PathBuf, version: MiopenVersion },
}

impl InstallPlace {
    /// The folders that files go to.
    #[must_use]
    pub fn folders(&self) -> Vec<&Path> {
        match self {
            Self::System { folder } => vec![folder],
            Self::User { folder, cache, .. } => vec![folder, cache],
        }
    }
}

/// The solvers of the MIOpen that will read the files, as far as they are known.
#[derive(Clone, Debug)]
pub struct SolverList<'a> {
    pub solvers: &'a Solvers,
    /// Of which release, or the file that they are from.
    pub name: String,
    /// The MIOpen that will read the files has no others: it is no newer than the list.
    pub is_whole: bool,
}

impl<'a> SolverList<'a> {
    /// That of `file`, or the one that bluefin has, for a MIOpen of `versions`.
    #[must_use]
    pub fn of(solvers: &'a Solvers, file: Option<&Path>, versions: &Versions) -> Self {
        let name = file.map_or_else(|| RELEASE.to_string(), |file| file.display().to_string());
        Self { solvers, name, is_whole: file.is_some() || !versions.may_have_newer_solvers() }
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct InstallRequest<'a> {
    pub files: &'a [PathBuf],
    pub device: &'a Device,
    /// The names of the files may be those of the same device without its features, as results carry them.
    pub renamed: bool,
    pub place: &'a InstallPlace,
    pub form: PerfForm,
    /// What the MIOpen that will read the files takes where a device has none of its exact name.
    pub nearest: Nearest,
    pub combine: Combine,
    /// The folder of the system databases where they are a user's that are installed; `None` if it is not known.
    pub system: Option<&'a Path>,
    pub solvers: SolverList<'a>,
    /// What MIOpen has no solvers for is installed nevertheless.
    pub forced: bool,
    /// Source files of the kernels that bluefin ships, which MIOpen never asks for.
    pub own_sources: &'a BTreeSet<String>,
}

/// What one file is to become.
#[derive(Clone, Debug)]
pub struct Item {
    pub folder: PathBuf,
    pub name: String,
    /// Where its content is now.
    pub source: PathBuf,
    /// What was there when `source` was made of it.
    pub present: Option<Digest>,
    /// What came of merging with what was there; `None` if it stands for it.
    pub merged: Option<Merged>,
}

/// What is to be installed, with copies of what had to be unpacked or converted.
#[derive(Debug)]
pub struct Prepared {
    pub items: Vec<Item>,
    pub warnings: Vec<String>,
    _copies: TempDir,
    _sources: Vec<Source>,
}

impl Prepared {
    /// What goes into each folder, in the order in which folders are first met.
    #[must_use]
    pub fn by_folder(&self) -> Vec<(PathBuf, Vec<Item>)> {
        let mut folders: Vec<(PathBuf, Vec<Item>)> = Vec::new();
        for item in &self.items {
            let copy = item.clone();
            match folders.iter_mut().find(|(folder, _)| *folder == item.folder) {
                Some((_, items)) => items.push(copy),
                None => folders.push((item.folder.clone(), vec![copy])),
            }
        }
        folders
    }
}

/// Reads what is asked for, refuses what is not for its device or tunes nothing, and makes of it and of what is there what MIOpen
/// looks for.
///
/// # Errors
/// A file that is no database, for another device, of solvers that MIOpen does not have, or that would hide what is found now;
/// or two of one kind and form.
pub fn prepare(request: &InstallRequest<'_>) -> Result<Prepared, InstallError> {
    let &InstallRequest { files, device, renamed, place, form, nearest, combine, system, forced, .. } = request;
    let copies = tempfile::tempdir().map_err(FileError::at(&std::env::temp_dir()))?;
    let mut sources: Vec<Source> = Vec::new();
    let mut warnings = Vec::new();
    let wanted = names(device, place, form);
    for path in files {
        let refused = |reason| InstallError::Refused { path: path.clone(), reason };
        let source = Source::open(path, &|_| {})?;
        match source.name.as_ref().and_then(|name| name.device.as_ref()) {
            Some(found) => {
                let same =
                    found.matches(device) || (renamed && found.arch() == device.arch() && found.cus == device.cus);
                if !same {
                    return Err(refused(format!("is for {found}, expected one for {device}")));
                }
                if source.name.as_ref().is_some_and(|name| name.respelled) {
                    let (path, base) = (path.display(), device.base_name());
                    warnings.push(format!("{path}: no device is called so; it is taken for {device}, as {base}"));
                }
            }
            None => warnings.push(format!("{}: its name tells no device; taken for {device}", path.display())),
        }
        if !wanted.iter().any(|wanted| wanted.kind == source.content.kind && wanted.keys == source.keys()) {
            let reason =
                "is of batch norms: MIOpen before 3.2 (ROCm 6.2) reads perf dbs in SQLite, where it has none of them";
            return Err(refused(reason.to_string()));
        }
        let known = check(&source, request, &mut warnings)?;
        match known.judge(&mut warnings, &source.path) {
            Err(reason) if forced => warnings.push(format!("{}: {reason}", path.display())),
            judged => judged.map_err(refused)?,
        }
        if sources.iter().any(|known| (known.content, known.keys()) == (source.content, source.keys())) {
            return Err(refused(format!("is the second {}{} given", source.content.kind, source.keys().suffix())));
        }
        sources.push(source);
    }
    let mut items = Vec::new();
    let combiner = Combiner { combine, device, place, system, form, nearest, copies: copies.path() };
    let of = |kind, keys| sources.iter().filter(move |source| source.content.kind == kind && source.keys() == keys);
    let times = of(DbKind::Find, Keys::Convolutions).next().map(Source::local);
    for wanted in wanted {
        let Some(name) = wanted.path.file_name() else { continue };
        let copy = copies.path().join(name);
        let mut given = of(wanted.kind, wanted.keys);
        let source = match (given.clone().find(|source| source.content.form == wanted.form), given.next()) {
            (Some(exact), _) => named(exact, &copy)?,
            (None, Some(other)) => convert(other, wanted.form, &copy)?,
            (None, None) => continue,
        };
        let of_convolutions = wanted.kind == DbKind::Perf && wanted.keys == Keys::Convolutions;
        let find = times.filter(|_| of_convolutions);
        items.push(combiner.item(Given { wanted, source, find }, &mut warnings)?);
    }
    Ok(Prepared { items, warnings, _copies: copies, _sources: sources })
}

/// Looks into a file: what MIOpen can not read is not installed. Whether it has solvers for the records is the caller's to judge.
fn check<'a>(
    source: &Source,
    request: &'a InstallRequest<'_>,
    warnings: &mut Vec<String>,
) -> Result<Known<'a>, InstallError> {
    let device = request.device;
    let mut known = Known::new(&request.solvers, request.own_sources);
    let refused = |reason| InstallError::Refused { path: source.path.clone(), reason };
    let size = source.size()?;
    if source.content.form == Form::Sqlite && size < MIN_SQLITE {
        return Err(refused(format!("has {size} bytes; MIOpen refuses less than {MIN_SQLITE}")));
    }
    if source.content.form == Form::Sqlite && source.has_write_ahead_log()? {
        return Err(refused("has a write-ahead log, which MIOpen can not open where it may not write".to_string()));
    }
    let (records, findings) = match source.content.kind {
        DbKind::Find => {
            let db = source.find_db()?;
            db.records.values().flatten().for_each(|entry| known.solver(&entry.solver));
            (db.records.len() as u64, db.findings)
        }
        DbKind::Perf if source.keys() == Keys::BatchNorms => {
            let db = source.norm_db(|_, _, solver, _| known.solver(solver))?;
            (db.rows(), db.findings)
        }
        DbKind::Perf => {
            let db = source.perf_db(|row| known.solver(row.solver))?;
            (db.rows(), db.findings)
        }
        DbKind::Kernel => {
            let (mut rows, mut foreign) = (0, None);
            let look = |head: KernelHead| {
                rows += 1;
                known.kernel(&head.kernel.name);
                let cpu = head.kernel.args.split_ascii_whitespace().find_map(|word| word.strip_prefix("-mcpu="));
                if let Some(cpu) = cpu
                    && cpu.split(':').next() != Some(device.arch())
                {
                    foreign.get_or_insert(format!(
                        "kernel {} is for {cpu}, expected {}",
                        head.kernel.name,
                        device.arch()
                    ));
                }
            };
            let findings = KernelReader::open(source.local()).and_then(|reader| reader.heads(look));
            let findings = findings.map_err(|error| source.named(error))?;
            if let Some(reason) = foreign {
                return Err(refused(reason));
            }
            (rows, findings)
        }
    };
    if records == 0 {
        return Err(refused(format!("is a {} without records", source.content.kind)));
    }
    if let Some(first) = findings.kept.first() {
        let (path, total) = (source.path.display(), findings.total);
        warnings.push(format!("{path}: {total} findings, such as {first}; bluefin db check tells all"));
    }
    Ok(known)
}

/// Where the content is, under a name that says of what its keys are.
fn named(source: &Source, copy: &Path) -> Result<PathBuf, InstallError> {
    if !source.packed || source.keys() == Keys::Convolutions {
        return Ok(source.local().to_path_buf());
    }
    std::fs::copy(source.local(), copy).map_err(FileError::at(copy))?;
    Ok(copy.to_path_buf())
}

/// The perf db in its other form.
fn convert(source: &Source, form: Form, path: &Path) -> Result<PathBuf, InstallError> {
    let failed = |source: WriteError| InstallError::Write { name: path.display().to_string(), source };
    let db: PerfDb = source.perf_db(|_| {})?;
    let file = std::fs::File::create(path).map_err(FileError::at(path))?;
    match form {
        Form::Sqlite => db.write_sqlite(path).map_err(failed)?,
        Form::Text => {
            let mut out = std::io::BufWriter::new(file);
            let rows = db.write_text(&mut out).map_err(failed)?;
            std::io::Write::flush(&mut out).map_err(|error| failed(error.into()))?;
            rows
        }
    };
    Ok(path.to_path_buf())
}
