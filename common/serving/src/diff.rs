//! Config files before and after, row by row.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::Error;
use crate::file::ConfigFile;
use crate::files::{Found, name_of};
use crate::row::Row;

/// What is other in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The file, with its folder of a version of Triton.
    pub file: String,
    /// The key of the row; `None` for the file itself, or its version.
    pub size: Option<i64>,
    /// What became of it.
    pub kind: ChangeKind,
    /// The row, or the version, before.
    pub before: Option<String>,
    /// The same after.
    pub after: Option<String>,
}

/// What became of a file, a version or a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// It was not there.
    New,
    /// It is no longer there.
    Removed,
    /// It is other.
    Changed,
}

impl ChangeKind {
    /// As it is printed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "NEW",
            Self::Removed => "REMOVED",
            Self::Changed => "CHANGED",
        }
    }
}

/// All that is other, and how many rows are the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Diff {
    /// Rows that both have.
    pub same: u64,
    /// By file, then by batch size.
    pub changes: Vec<Change>,
}

/// Compares files of the same names. Two single files are compared whatever they are called.
///
/// # Errors
/// If one of them is none that its engine's loader reads.
pub fn diff(before: &[Found], after: &[Found]) -> Result<Diff, Error> {
    if let ([one], [other]) = (before, after) {
        let mut diff = Diff::default();
        diff.compare(&name_of(&other.path), &read(one)?, &read(other)?);
        return Ok(diff);
    }
    let (before, after) = (named(before)?, named(after)?);
    let mut diff = Diff::default();
    for (name, one) in &before {
        match after.get(name) {
            Some(other) => diff.compare(name, one, other),
            None => diff.whole(name, ChangeKind::Removed),
        }
    }
    for name in after.keys().filter(|name| !before.contains_key(*name)) {
        diff.whole(name, ChangeKind::New);
    }
    diff.changes.sort_by(|one, other| (&one.file, one.size).cmp(&(&other.file, other.size)));
    Ok(diff)
}

fn read(found: &Found) -> Result<ConfigFile, Error> {
    match &found.document {
        Ok(document) => ConfigFile::of_document(&found.path, document.clone(), found.engine),
        // Reads it once more, for the error itself.
        Err(_) => ConfigFile::read(&found.path, found.engine),
    }
}

fn named(files: &[Found]) -> Result<BTreeMap<String, ConfigFile>, Error> {
    let name = |file: &Found| match &file.folder {
        Some(version) => format!("{}/{}", version.folder(), name_of(&file.path)),
        None => name_of(&file.path),
    };
    files.iter().map(|file| Ok((name(file), read(file)?))).collect()
}

impl Diff {
    fn whole(&mut self, name: &str, kind: ChangeKind) {
        self.changes.push(Change { file: name.to_string(), size: None, kind, before: None, after: None });
    }

    fn compare(&mut self, name: &str, before: &ConfigFile, after: &ConfigFile) {
        if before.version != after.version {
            let shown = |file: &ConfigFile| file.version.as_ref().map(|version| format!("Triton {version}"));
            self.add(name, None, shown(before), shown(after));
        }
        let mut sizes: Vec<i64> = before.rows().chain(after.rows()).map(|(size, _)| size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        for size in sizes {
            let (one, other) = (before.row(size), after.row(size));
            if one.zip(other).is_some_and(|(one, other)| one.is_same(other)) {
                self.same += 1;
            } else {
                self.add(name, Some(size), one.map(Row::short), other.map(Row::short));
            }
        }
    }

    fn add(&mut self, file: &str, size: Option<i64>, before: Option<String>, after: Option<String>) {
        let kind = match (&before, &after) {
            (None, _) => ChangeKind::New,
            (_, None) => ChangeKind::Removed,
            _ => ChangeKind::Changed,
        };
        self.changes.push(Change { file: file.to_string(), size, kind, before, after });
    }
}
