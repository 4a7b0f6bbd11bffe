//! Files whose rows other programs launch, in processes of their own: aiter's operators, and MIOpen.

use std::path::{Path, PathBuf};

use super::asked::ToolArgs;
use super::finds::FindFile;
use super::operators::OperatorFile;
use super::perfs::PerfFile;
use super::{FileKind, Verified};
use crate::carry::Watch;
use crate::usage;

/// A file whose rows another program launches.
pub enum ToolFile {
    /// aiter's.
    Operators(Box<OperatorFile>),
    /// MIOpen's find dbs.
    Finds(Box<FindFile>),
    /// Its perf dbs.
    Perfs(Box<PerfFile>),
}

impl ToolFile {
    /// Reads files of one kind. Better rows are not searched for: other verbs do.
    ///
    /// # Errors
    /// As [`OperatorFile::read`], [`FindFile::read`] and [`PerfFile::read`], if this machine has no GPU of AMD's and none is named, and if `retune`.
    pub fn read_all(
        kind: FileKind,
        files: &[PathBuf],
        known: Option<&Path>,
        args: &ToolArgs,
        retune: bool,
    ) -> anyhow::Result<Vec<Self>> {
        if retune {
            let (found, verb) = (
                kind.name(),
                if kind == FileKind::Operators { "aiter tune --all" } else { "tune --tuner miopendriver" },
            );
            return Err(usage(format!(
                "--retune: found {found}, expected another one: `bluefin {verb}` searches for its rows"
            )));
        }
        let (gpu, driver) = (args.gpu()?, args.miopen_driver.as_deref());
        let read = |path: &PathBuf| match kind {
            FileKind::Operators => OperatorFile::read(path, known, args, &gpu).map(Box::new).map(Self::Operators),
            FileKind::Perfs => PerfFile::read(path, known, &gpu, driver).map(Box::new).map(Self::Perfs),
            _ => FindFile::read(path, known, &gpu, driver).map(Box::new).map(Self::Finds),
        };
        files.iter().map(read).collect()
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Operators(file) => file.path(),
            Self::Finds(file) => file.path(),
            Self::Perfs(file) => file.path(),
        }
    }

    /// Whose kernels are launched.
    #[must_use]
    pub fn kernel(&self) -> &str {
        match self {
            Self::Operators(file) => file.kernel(),
            Self::Finds(_) | Self::Perfs(_) => "MIOpen's own",
        }
    }

    /// What was left aside.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        match self {
            Self::Operators(file) => file.note(),
            Self::Finds(file) => file.note(),
            Self::Perfs(file) => file.note(),
        }
    }

    /// Times what is launched by its rows and without them, and takes those that lose out of it if `fix`. `None`: a signal interrupted it.
    ///
    /// # Errors
    /// As [`OperatorFile::verify`], [`FindFile::verify`] and [`PerfFile::verify`].
    pub async fn verify(
        &mut self,
        args: &ToolArgs,
        fix: bool,
        watch: &mut dyn Watch,
    ) -> anyhow::Result<Option<Verified>> {
        let verified = match self {
            Self::Operators(file) => file.verify(args, fix, watch).await,
            Self::Finds(file) => file.verify(args.turns(), args.limit(), fix, watch).await,
            Self::Perfs(file) => file.verify(args.turns(), args.limit(), fix, watch).await,
        };
        watch.finish();
        verified
    }
}
