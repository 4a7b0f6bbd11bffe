//! Adds the problems of files to a tag of the library, and says what came of each file.

use std::path::{Path, PathBuf};

use bluefin_common::problem::Problem;
use serde::Serialize;
use thiserror::Error;

use crate::input::{InputError, Overrides, ProblemList, Reject, read_file};
use crate::library::{AddOptions, Added, Library, LibraryError, TagName};
use bluefin_common::problem::driver::untuned_operation;

/// What is imported.
#[derive(Clone, Debug)]
pub struct Import {
    /// What the problems get.
    pub tag: TagName,
    /// To be read; `-` is standard input.
    pub files: Vec<PathBuf>,
    /// What is other than in the files.
    pub overrides: Overrides,
    /// Only problems of one kind; others are rejects.
    pub only: Option<fn(&Problem) -> bool>,
    /// How the library takes them.
    pub options: AddOptions,
}

/// What importing came to.
#[derive(Debug, Default, Serialize)]
pub struct Imported {
    /// What the problems got.
    pub tag: String,
    /// In the order in which they were named.
    pub files: Vec<ImportedFile>,
}

/// What importing one file came to.
#[derive(Debug, Serialize)]
pub struct ImportedFile {
    /// Its name.
    pub file: String,
    /// How often the file asks for a problem, repetitions included.
    pub asked: u64,
    /// Different problems.
    pub problems: u64,
    /// What the library made of them.
    #[serde(flatten)]
    pub added: Added,
    /// Lines of a log that have nothing to do with problems.
    pub skipped: u64,
    /// Lines that were not taken, as `file:line: reason`.
    pub rejects: Vec<String>,
    /// Driver commands of operations that nothing tunes, and flags that were left aside.
    pub passed_over: Vec<String>,
}

impl Imported {
    /// Lines that were not taken.
    #[must_use]
    pub fn rejects(&self) -> usize {
        self.files.iter().map(|file| file.rejects.len()).sum()
    }
}

/// Why nothing was imported.
#[derive(Debug, Error)]
pub enum ImportError {
    /// A file can not be read.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The library does not take it.
    #[error(transparent)]
    Library(#[from] LibraryError),
}

impl Import {
    /// Reads all files, then adds their problems.
    ///
    /// # Errors
    /// If a file can not be read, or the store fails; wrong lines are in what is returned.
    pub async fn import(&self, library: Library<'_>) -> Result<Imported, ImportError> {
        let lists = self.files.iter().map(|file| self.read(file)).collect::<Result<Vec<_>, _>>()?;
        let mut imported = Imported { tag: self.tag.to_string(), files: Vec::new() };
        for list in lists {
            let named = |one: &Reject| format!("{}:{}", list.name, one.line);
            let (passed_over, rejects): (Vec<_>, Vec<_>) =
                list.rejects.iter().partition(|one| untuned_operation(&one.text).is_some());
            let note = |one: &&Reject| {
                let operation = untuned_operation(&one.text).unwrap_or_default();
                format!("{}: note: passed over: MIOpen tunes nothing for {operation}", named(one))
            };
            let added = library.add(&self.tag, &list, self.options).await?;
            imported.files.push(ImportedFile {
                asked: list.problems.iter().map(|one| one.count as u64).sum(),
                problems: list.problems.len() as u64,
                added,
                skipped: list.skipped as u64,
                rejects: rejects.iter().map(|one| format!("{}: {}", named(one), one.reason)).collect(),
                passed_over: passed_over.iter().map(note).chain(list.notes()).collect(),
                file: list.name,
            });
        }
        Ok(imported)
    }

    fn read(&self, file: &Path) -> Result<ProblemList, InputError> {
        let mut list = read_file(file, &self.overrides)?;
        let Some(is_meant) = self.only else { return Ok(list) };
        let (kept, others) = list.problems.into_iter().partition(|one| is_meant(&one.problem));
        list.problems = kept;
        for other in others {
            let label = other.problem.label();
            let reason = format!("found {label}, expected only problems of --config-type");
            list.rejects.push(Reject { line: other.line, text: label, reason });
        }
        list.rejects.sort_by_key(|reject| reject.line);
        Ok(list)
    }
}
