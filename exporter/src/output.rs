//! Where formats write to: files that are written side by side and appear together, each with its number of records.

use std::collections::{BTreeSet, HashSet};
use std::fs::OpenOptions;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use bluefin_common::digest::Digest;
use bluefin_common::files::FileSet;
use bluefin_common::problem::Problem;
use bluefin_common::session::Session;
use bluefin_common::store::Store;
use bluefin_miopen::db::WriteError;
use bluefin_miopen::db::solvers::is_own;
use futures_util::FutureExt as _;
use futures_util::future::{self, BoxFuture};
use serde::Serialize;

use crate::error::ExportError;
use crate::fold::{Fold, Group, Warnings};

/// One file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExportedFile {
    pub path: PathBuf,
    /// Keys of a find db, rows of the others, problems of `winners.json`.
    pub records: u64,
    pub bytes: u64,
}

/// Which of several kernel specs of one name is told of: an edited spec leaves what came of the older one behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhichSpecs {
    /// The one that is in use, if these are; else that with the newest outcome.
    Current(HashSet<Digest>),
    /// All, each with its digest and the time at which it was tuned.
    All,
}

/// Whose the problems are that are exported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owners {
    /// Kernels of users' own.
    pub(crate) own: bool,
    /// Operations that MIOpen may have.
    pub(crate) others: bool,
}

impl Fold for Owners {
    fn add(&mut self, group: &Group<'_>, _: &mut Warnings) {
        let own = matches!(group.problem, Problem::Kernel(_));
        self.own |= own;
        self.others |= !own;
    }

    fn merge(&mut self, other: Self, _: &mut Warnings) {
        self.own |= other.own;
        self.others |= other.others;
    }
}

/// Where a format writes its files, and what it may need for them.
pub struct Output<'a> {
    /// Where code objects are.
    pub store: &'a dyn Store,
    pub session: &'a Session,
    /// What the names of databases begin with.
    pub base: &'a str,
    /// Solvers kept for each find-db key; `None`: all.
    pub top: Option<usize>,
    pub specs: &'a WhichSpecs,
    /// All problems are kernels of a user's own, and nobody asked for databases of MIOpen's by their names: one that would be empty is
    /// not written.
    pub omits_empty: bool,
    /// What was to be written and could not be, for people; told in this order.
    pub warnings: Vec<String>,
    /// Solvers of records in databases that MIOpen does not have.
    pub own_solvers: BTreeSet<String>,
    /// What else there is to say of the files.
    pub notes: Vec<String>,
    files: FileSet,
    /// What comes of writing each of `files`: its number of records.
    written: Vec<Written>,
}

/// A file that is being written, or has been.
type Written = BoxFuture<'static, Result<u64, ExportError>>;

impl<'a> Output<'a> {
    pub(crate) fn new(
        store: &'a dyn Store,
        session: &'a Session,
        base: &'a str,
        top: Option<usize>,
        specs: &'a WhichSpecs,
        files: FileSet,
    ) -> Self {
        Self {
            store,
            session,
            base,
            top,
            specs,
            omits_empty: false,
            warnings: Vec::new(),
            own_solvers: BTreeSet::new(),
            notes: Vec::new(),
            files,
            written: Vec::new(),
        }
    }

    /// Makes the file `name`, while others are written: `fill` gets the path of an empty one that will be there, and returns its
    /// number of records.
    ///
    /// # Errors
    /// If it can not be made, or `fill` fails.
    pub async fn file<F>(&mut self, name: &str, fill: impl FnOnce(PathBuf) -> F) -> Result<(), ExportError>
    where
        F: Future<Output = Result<u64, ExportError>>,
    {
        let path = self.files.add(name)?;
        let records = fill(path).await?;
        self.written.push(future::ready(Ok(records)).boxed());
        Ok(())
    }

    /// Begins to make the file `name` on a thread that may wait for the disk: `fill` gets the path of an empty one that will be
    /// there, and returns its number of records. If it fails, no file will be there.
    ///
    /// # Errors
    /// If the file can not be made.
    pub fn blocking<E: Into<WriteError> + Send + 'static>(
        &mut self,
        name: &str,
        fill: impl FnOnce(&Path) -> Result<u64, E> + Send + 'static,
    ) -> Result<(), ExportError> {
        let path = self.files.add(name)?;
        let filling = tokio::task::spawn_blocking(move || fill(&path).map_err(ExportError::at(&path)));
        self.written.push(async { filling.await? }.boxed());
        Ok(())
    }

    /// Begins to make the text file `name`, as [`Self::blocking`] does: `write` returns its number of records.
    ///
    /// # Errors
    /// If the file can not be made.
    pub fn text<E: Into<WriteError> + Send + 'static>(
        &mut self,
        name: &str,
        write: impl FnOnce(&mut BufWriter<std::fs::File>) -> Result<u64, E> + Send + 'static,
    ) -> Result<(), ExportError> {
        let fill = move |path: &Path| -> Result<u64, WriteError> {
            let mut out = BufWriter::new(OpenOptions::new().write(true).open(path)?);
            let records = write(&mut out).map_err(Into::into)?;
            out.flush()?;
            Ok(records)
        };
        self.blocking(name, fill)
    }

    /// Takes note of the solvers of a database for MIOpen.
    pub fn solvers<'s>(&mut self, names: impl Iterator<Item = &'s str>) {
        for name in names.filter(|name| is_own(name)) {
            if !self.own_solvers.contains(name) {
                self.own_solvers.insert(name.to_string());
            }
        }
    }

    /// What is in the files and does not do what one may expect.
    pub(crate) fn notes(&self) -> Vec<String> {
        let note = |first: &String| {
            let count = self.own_solvers.len();
            format!(
                "{count} solvers such as {first} are bluefin's own: MIOpen does not have them and ignores their records, so \
                 installing them would tune nothing"
            )
        };
        self.own_solvers.first().map(note).into_iter().chain(self.notes.iter().cloned()).collect()
    }

    /// Puts all files in place when they are written.
    pub(crate) async fn commit(self) -> Result<(Vec<ExportedFile>, Vec<String>), ExportError> {
        let (files, warnings) = (self.files, self.warnings);
        // All of them, also where one failed: whoever still writes would make a file anew that is gone.
        let written = future::join_all(self.written).await;
        let records = written.into_iter().collect::<Result<Vec<_>, _>>()?;
        let paths = tokio::task::spawn_blocking(move || files.commit()).await??;
        let named = paths.into_iter().zip(records);
        Ok((named.map(|((path, bytes), records)| ExportedFile { path, records, bytes }).collect(), warnings))
    }
}
