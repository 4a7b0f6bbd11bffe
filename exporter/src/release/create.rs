//! Making a release.

use std::io::Read as _;
use std::path::PathBuf;

use bluefin_common::clock::now_ms;
use bluefin_common::digest::Digest;
use bluefin_common::files::FileError;
use bluefin_common::session::SessionName;
use bluefin_common::store::{Blobs, Store};
use bluefin_common::target::Target;
use bluefin_miopen::db::kernel_db::KernelDb;
use tracing::info;

use super::databases::{Loaded, Written, digest, find_files};
use super::merge::{Contribution, Merged, Policy, merge};
use super::{Base, Catalog, Manifest, Move, Reason, ReleaseError, ReleaseFile, ReleaseName};
use crate::export::{Gathered, gather};
use crate::fold::{Fold, Group, Warnings};
use crate::format::find_db::FindRecords;
use crate::format::kernel_db::KernelRecords;
use crate::format::perf_db::PerfRecords;

/// Bytes of a blob: a kernel db can be larger than any blob may be.
const PART: u64 = 64 << 20;

/// What to make a release of.
#[derive(Clone, Debug)]
pub struct CreateRequest {
    pub name: ReleaseName,
    /// A release of the store, or a folder of databases.
    pub from: Option<String>,
    pub sessions: Vec<SessionName>,
    pub policy: Policy,
    /// Needed where neither a session nor a release tells it.
    pub target: Option<Target>,
    /// The channel that is to point to it.
    pub channel: Option<ReleaseName>,
    pub note: String,
    /// Solvers kept for each find-db key; `None`: all.
    pub top: Option<usize>,
    /// Take sessions that are not finished.
    pub partial: bool,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Created {
    pub manifest: Manifest,
    pub digest: Digest,
    /// `false`: an equal release of this name was there.
    pub new: bool,
    /// What each session brought, in their order.
    pub merged: Vec<Merged>,
    pub moved: Option<Move>,
    pub warnings: Vec<String>,
}

/// Makes a release. The same request again finds it made, and does what is left to do.
///
/// # Errors
/// If the store fails, what it is to be made of is missing, not finished or of several targets, or another release has its
/// name.
pub async fn create(store: &dyn Store, request: &CreateRequest) -> Result<Created, ReleaseError> {
    let catalog = Catalog::new(store);
    let mut gathered = Vec::new();
    let mut target = request.target.clone();
    for name in &request.sessions {
        let part = gather(store, name, None, Records::empty).await?;
        if part.unfinished > 0 && !request.partial {
            let (unfinished, groups) = (part.unfinished, part.groups);
            return Err(ReleaseError::Unfinished { name: name.clone(), unfinished, groups });
        }
        agree(&mut target, &part.session.target, || format!("session {name}"))?;
        gathered.push(part);
    }
    let (base, mut loaded) = load_base(&catalog, request.from.as_deref(), &mut target).await?;
    let target = target.ok_or_else(|| ReleaseError::Nothing {
        reason: "neither a session nor a release tells the target, name it with --target".to_string(),
    })?;

    let mut merged = Vec::new();
    for Gathered { records, mut warnings, .. } in gathered {
        loaded.warnings.append(&mut warnings);
        let contribution = contribution(store, records, &mut loaded.warnings).await?;
        merged.push(merge(&mut loaded.databases, contribution, request.policy));
    }
    if loaded.databases.is_empty() {
        return Err(ReleaseError::Nothing { reason: "no session and no base holds a result".to_string() });
    }
    loaded.databases.keep(request.top.unwrap_or(usize::MAX));

    let (databases, of) = (loaded.databases, target.clone());
    let written =
        tokio::task::spawn_blocking(move || databases.write(&of)).await.map_err(crate::ExportError::from)??;
    let mut files = Vec::new();
    for file in &written {
        files.push(put(store, file).await?);
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    let manifest = Manifest {
        name: request.name.clone(),
        target,
        policy: request.policy,
        base,
        sessions: request.sessions.clone(),
        note: request.note.clone(),
        created_ms: now_ms(),
        files,
    };
    let (manifest, new) = catalog.claim(manifest).await?;
    info!(release = %manifest.name, new, "release made");
    let moved = match &request.channel {
        Some(channel) => Some(catalog.move_channel(channel, &manifest, Reason::Created).await?),
        None => None,
    };
    Ok(Created { digest: manifest.digest(), manifest, new, merged, moved, warnings: loaded.warnings })
}

/// What a release holds of a session.
#[derive(Debug)]
struct Records {
    find: FindRecords,
    perf: PerfRecords,
    kernels: KernelRecords,
}

impl Records {
    fn empty() -> Self {
        Self { find: FindRecords::default(), perf: PerfRecords::default(), kernels: KernelRecords::with_keys() }
    }
}

impl Fold for Records {
    fn add(&mut self, group: &Group<'_>, warnings: &mut Warnings) {
        self.find.add(group, warnings);
        self.perf.add(group, warnings);
        self.kernels.add(group, warnings);
    }

    fn merge(&mut self, other: Self, warnings: &mut Warnings) {
        self.find.merge(other.find, warnings);
        self.perf.merge(other.perf, warnings);
        self.kernels.merge(other.kernels, warnings);
    }
}

/// What a session brings, as databases.
async fn contribution(
    store: &dyn Store,
    mut records: Records,
    warnings: &mut Vec<String>,
) -> Result<Contribution, ReleaseError> {
    let kernel_keys = records.kernels.take_keys();
    let file = tempfile::NamedTempFile::new().map_err(FileError::at(&std::env::temp_dir()))?.into_temp_path();
    let (_, missing) = records.kernels.fill(store, &file).await?;
    warnings.extend(missing);
    let mut theirs = Loaded::default();
    theirs.databases.find = records.find.into_db(None);
    theirs.databases.perf = records.perf.into_db();
    let rows = &mut theirs.databases.kernels;
    KernelDb::scan(&file, |_, row| {
        rows.insert(row.kernel.clone(), row);
    })?;
    theirs.clean();
    warnings.append(&mut theirs.warnings);
    Ok(Contribution { databases: theirs.databases, kernel_keys })
}

/// The base, by name and as databases.
async fn load_base(
    catalog: &Catalog<'_>,
    from: Option<&str>,
    target: &mut Option<Target>,
) -> Result<(Option<Base>, Loaded), ReleaseError> {
    let Some(from) = from else { return Ok((None, Loaded::default())) };
    if let Ok(name) = from.parse::<ReleaseName>()
        && let Some(manifest) = catalog.find(&name).await?
    {
        agree(target, &manifest.target, || format!("release {name}"))?;
        let folder = tempfile::tempdir().map_err(FileError::at(&std::env::temp_dir()))?;
        catalog.export(&manifest, folder.path()).await?;
        let of = manifest.target.clone();
        let read = move || Loaded::read(&find_files(folder.path(), &of)?);
        let loaded = tokio::task::spawn_blocking(read).await.map_err(crate::ExportError::from)??;
        return Ok((Some(Base::Release { digest: manifest.digest(), name }), loaded));
    }
    let folder = PathBuf::from(from);
    if !folder.is_dir() {
        return Err(ReleaseError::NoBase { name: from.to_string() });
    }
    let of = target.clone().ok_or_else(|| ReleaseError::Nothing {
        reason: format!("nothing tells which databases of {from} are meant, name their target with --target"),
    })?;
    let read = move || -> Result<_, ReleaseError> {
        let files = find_files(&folder, &of)?;
        let mut named = Vec::new();
        for file in &files {
            named.push((file.name.clone(), digest(&file.path)?));
        }
        Ok((Some(Base::Files(named)), Loaded::read(&files)?))
    };
    tokio::task::spawn_blocking(read).await.map_err(crate::ExportError::from)?
}

fn agree(target: &mut Option<Target>, found: &Target, what: impl FnOnce() -> String) -> Result<(), ReleaseError> {
    let expected = target.get_or_insert_with(|| found.clone());
    if expected == found {
        return Ok(());
    }
    Err(ReleaseError::Target { what: what(), found: found.clone(), expected: expected.clone() })
}

/// Puts a file into the store.
async fn put(store: &dyn Blobs, file: &Written) -> Result<ReleaseFile, ReleaseError> {
    let mut reader = std::fs::File::open(&file.path).map_err(FileError::at(&file.path))?;
    let mut parts = Vec::new();
    let mut size = 0;
    loop {
        let mut part = Vec::new();
        (&mut reader).take(PART).read_to_end(&mut part).map_err(FileError::at(&file.path))?;
        if part.is_empty() {
            break;
        }
        size += part.len() as u64;
        parts.push(store.put_blob(&part).await?);
    }
    Ok(ReleaseFile { name: file.name.clone(), size, digest: digest(&file.path)?, records: file.records, parts })
}
