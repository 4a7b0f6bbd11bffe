//! The kernel db: the code objects of the winners, by the names that MIOpen looks them up by. On their way from the store into
//! the file they are fetched and compressed side by side, and written in order.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::path::{Path, PathBuf};

use bluefin_common::artifact::{ArtifactRef, Packed};
use bluefin_common::decision::Decision;
use bluefin_common::problem::Problem;
use bluefin_common::store::{Store, StoreError};
use bluefin_miopen::db::Refused;
use bluefin_miopen::db::kernel_db::{KernelDbWriter, KernelName, KernelRow};
use bluefin_miopen::key::FindDbKey;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use tokio::sync::mpsc;

use super::{AnyRecords, Format, Records};
use crate::error::ExportError;
use crate::fold::{Fold, Group, Warnings};
use crate::output::Output;

/// MIOpen's kernel db.
#[derive(Clone, Copy, Debug)]
pub struct KernelFormat;

impl Format for KernelFormat {
    fn name(&self) -> &'static str {
        "kernel-db"
    }

    fn about(&self) -> &'static str {
        "The kernel db (sqlite): code objects of the winners"
    }

    fn flag(&self) -> Option<char> {
        Some('k')
    }

    fn records(&self) -> AnyRecords {
        AnyRecords::new(KernelRecords::default())
    }
}

/// Code objects of winners.
#[derive(Debug, Default)]
pub struct KernelRecords {
    kernels: BTreeMap<KernelName, Kernel>,
    /// Find-db keys of the convolutions that each code object was built for, where somebody asks.
    keys: Option<Keys>,
}

/// Find-db keys by code object.
pub(crate) type Keys = BTreeMap<KernelName, BTreeSet<String>>;

/// A winner's code object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kernel {
    /// What the store holds.
    artifact: ArtifactRef,
    packed: Option<Packed>,
    /// A problem that it wins, in canonical form.
    problem: String,
    /// Whether that is of a user's own.
    is_own: bool,
}

impl KernelRecords {
    /// None yet, which will tell the find-db keys of the convolutions that each code object was built for.
    pub(crate) fn with_keys() -> Self {
        Self { keys: Some(Keys::new()), ..Self::default() }
    }

    /// Takes those keys out.
    pub(crate) fn take_keys(&mut self) -> Keys {
        self.keys.take().unwrap_or_default()
    }

    fn insert(&mut self, name: KernelName, kernel: Kernel, warnings: &mut Warnings) {
        match self.kernels.entry(name) {
            Entry::Vacant(entry) => {
                entry.insert(kernel);
            }
            Entry::Occupied(mut entry) => {
                // Of an operator that MIOpen does not have nobody looks for the code.
                if entry.get().artifact != kernel.artifact && !kernel.is_own {
                    let KernelName { name, args } = entry.key();
                    warnings.insert(format!(
                        "kernel {name}{args}: winners have several code objects of this name; the kernel db can hold one"
                    ));
                }
                if kernel < *entry.get() {
                    entry.insert(kernel);
                }
            }
        }
    }

    /// Fills the empty file at `path`. Returns the number of rows, and a warning for each code object that is gone.
    pub(crate) async fn fill(self, store: &dyn Store, path: &Path) -> Result<(u64, Vec<String>), ExportError> {
        let threads = std::thread::available_parallelism().map_or(2, NonZero::get);
        let (rows, mut queue) = mpsc::channel::<KernelRow>(threads);
        let file = path.to_path_buf();
        let writer = tokio::task::spawn_blocking(move || {
            let mut writer = KernelDbWriter::create(&file)?;
            while let Some(row) = queue.blocking_recv() {
                writer.add(&row)?;
            }
            writer.finish()
        });
        let mut packed = stream::iter(self.kernels).map(|(name, kernel)| pack(store, name, kernel)).buffered(threads);
        let mut warnings = Vec::new();
        while let Some(row) = packed.next().await {
            match row? {
                Ok(row) => {
                    if rows.send(row).await.is_err() {
                        // The writer has failed; it says why below.
                        break;
                    }
                }
                Err(warning) => warnings.push(warning),
            }
        }
        drop(rows);
        let written = writer.await?.map_err(ExportError::at(path))?;
        Ok((written, warnings))
    }
}

impl Fold for KernelRecords {
    fn add(&mut self, group: &Group<'_>, warnings: &mut Warnings) {
        let Some(winner) = group.decision.as_ref().and_then(Decision::winner) else { return };
        let problem = group.problem;
        let lost = |reason: &str| {
            let candidate = &winner.outcome.candidate;
            format!("{problem}: {candidate}: not in the kernel db: {reason}")
        };
        let Some(built) = &winner.outcome.built else {
            warnings.insert(lost("its outcome names no code object"));
            return;
        };
        for object in &built.objects {
            if object.file.is_empty() {
                warnings.insert(lost("its outcome does not say what its code object is called"));
                continue;
            }
            let name = KernelName::of(&object.file, &object.options, &group.session.target);
            if let (Some(keys), Problem::Conv(conv)) = (&mut self.keys, problem) {
                keys.entry(name.clone()).or_default().insert(FindDbKey::from(conv).to_string());
            }
            let (artifact, packed) = (object.artifact, object.packed.clone());
            let is_own = matches!(problem, Problem::Kernel(_));
            let kernel = Kernel { artifact, packed, problem: problem.canonical(), is_own };
            self.insert(name, kernel, warnings);
        }
    }

    fn merge(&mut self, other: Self, warnings: &mut Warnings) {
        for (name, kernel) in other.kernels {
            self.insert(name, kernel, warnings);
        }
        let Some(keys) = &mut self.keys else { return };
        for (name, others) in other.keys.into_iter().flatten() {
            keys.entry(name).or_default().extend(others);
        }
    }
}

impl Records for KernelRecords {
    async fn write(self, out: &mut Output<'_>) -> Result<(), ExportError> {
        if out.omits_empty && self.kernels.is_empty() {
            return Ok(());
        }
        let (store, mut missing) = (out.store, Vec::new());
        let fill = async |path: PathBuf| {
            let (rows, gone) = self.fill(store, &path).await?;
            missing = gone;
            Ok(rows)
        };
        out.file(&format!("{}.kdb", out.base), fill).await?;
        out.warnings.extend(missing);
        Ok(())
    }
}

/// The row of a code object, or a warning that it is gone.
async fn pack(store: &dyn Store, name: KernelName, kernel: Kernel) -> Result<Result<KernelRow, String>, ExportError> {
    let Kernel { artifact, packed, problem, is_own: _ } = kernel;
    let told = format!("{problem}: not in the kernel db: {}{}: code object {}", name.name, name.args, artifact.digest);
    match fetch(store, artifact).await? {
        Ok(bytes) => {
            let row = tokio::task::spawn_blocking(move || match packed {
                None => Ok(Ok(KernelRow::new(name, &bytes)?)),
                Some(Packed { md5, size }) => {
                    name.check()?;
                    let row = KernelRow { kernel: name, blob: bytes.into(), hash: md5, uncompressed_size: size };
                    // MIOpen throws over a row that does not match its hash: one more look before it gets there.
                    Ok::<_, Refused>(row.code().map(|_| row).map_err(|error| error.to_string()))
                }
            });
            Ok(row.await??.map_err(|reason| format!("{told}: {reason}")))
        }
        Err(reason) => Ok(Err(format!("{told}: {reason}"))),
    }
}

/// A code object: kept for good, or else still in the artifact cache.
async fn fetch(store: &dyn Store, artifact: ArtifactRef) -> Result<Result<Bytes, String>, StoreError> {
    let mut reason = "gone from the store; tune its problem again".to_string();
    match store.blob(artifact.digest).await {
        Ok(Some(bytes)) if bytes.len() as u64 == artifact.size => return Ok(Ok(bytes.into())),
        Ok(_) => {}
        Err(error @ StoreError::Tampered { .. }) => reason = error.to_string(),
        Err(error) => return Err(error),
    }
    match store.artifact(artifact).await {
        Ok(Some(bytes)) => Ok(Ok(bytes)),
        Ok(None) => Ok(Err(reason)),
        Err(error @ StoreError::Tampered { .. }) => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}
