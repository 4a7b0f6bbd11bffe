//! Rows of config files brought together in one, also from one engine's file into the other's.

use std::path::Path;

use bluefin_common::files::{FileError, FileSet};
use serde::Serialize;

use crate::check::{Severity, Strictness, check_row};
use crate::engine::{Engine, Precision};
use crate::error::Error;
use crate::file::ConfigFile;
use crate::files::{Found, name_of};
use crate::name::{FileName, Layer};
use crate::row::{Row, SPLIT_K};
use crate::space::launched;

/// Which of two rows of a batch size stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The one that came later.
    #[default]
    Newest,
    /// The one that is there: only batch sizes without a row get one.
    Missing,
}

/// What became of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// It is there to the letter.
    Same,
    /// Its batch size had none.
    Added,
    /// It took the place of another one.
    Replaced,
    /// Another one is there.
    Kept,
    /// The engine of the file could not launch it, or would be wrong by it.
    Refused(String),
}

impl Fate {
    /// As it is printed.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Same => "the same",
            Self::Added => "added",
            Self::Replaced => "replaced",
            Self::Kept => "kept as it was",
            Self::Refused(_) => "refused",
        }
    }
}

/// A row of one of the files that were brought in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Told {
    /// Its batch size.
    pub size: i64,
    /// What became of it.
    pub fate: Fate,
}

/// Brings the rows of `other` into `base`, which the file at `base_found` holds.
///
/// # Errors
/// If they are of different layers or GPUs, or made with different versions of Triton while `any_triton` is not set.
pub fn merge(
    base: &mut ConfigFile,
    base_found: &Found,
    other_found: &Found,
    policy: Policy,
    any_triton: bool,
) -> Result<Vec<Told>, Error> {
    let other = ConfigFile::read(&other_found.path, other_found.engine)?;
    let (name, of_other) = (named(base_found)?, named(other_found)?);
    let wrong = |place: &str, found: String, expected: String| Error::Content {
        path: other_found.path.clone(),
        place: place.to_string(),
        found,
        expected,
    };
    let engine = base_found.engine;
    if !is_of_same((engine, name), (other_found.engine, of_other)) {
        return Err(wrong(
            "name",
            of_other.build(engine),
            format!("a file of the same layer and GPU as {}", name.build(engine)),
        ));
    }
    let versions = |file: &ConfigFile, found: &Found| found.folder.clone().or(file.version.clone());
    let pair = versions(base, base_found).zip(versions(&other, other_found));
    if let Some((ours, theirs)) = pair.as_ref().filter(|(ours, theirs)| !any_triton && ours != theirs) {
        let expected = format!("{ours}, as the first file says; --any-triton takes rows of others nevertheless");
        return Err(wrong("triton_version", theirs.to_string(), expected));
    }
    let rows: Vec<(i64, Row)> =
        other.rows().map(|(size, row)| (size, carried(row, other_found.engine, base_found.engine, name))).collect();
    let told: Vec<Told> =
        rows.into_iter().map(|(size, row)| Told { size, fate: bring(base, base_found, size, row, policy) }).collect();
    let is_brought = |told: &Told| matches!(told.fate, Fate::Added | Fate::Replaced);
    if pair.is_some_and(|(ours, theirs)| ours != theirs) && told.iter().any(is_brought) {
        // No version is that of all rows now.
        base.set_version(None);
    }
    Ok(told)
}

/// Brings rows that were tuned into what an earlier file of the same layer has, as long as both are of the same Triton. Else the new rows alone
/// are the file; told is what is left out then.
#[must_use]
pub fn kept(tuned: ConfigFile, before: ConfigFile, in_folder: bool) -> (ConfigFile, Option<String>) {
    let others: Vec<i64> = before.rows().map(|(size, _)| size).filter(|size| tuned.row(*size).is_none()).collect();
    if others.is_empty() {
        return (tuned, None);
    }
    if !in_folder && (before.version.is_none() || before.version != tuned.version) {
        let shown = |version: Option<&crate::version::Version>| {
            version.map_or("an unknown Triton".to_string(), |version| format!("Triton {version}"))
        };
        let others: Vec<String> = others.iter().map(ToString::to_string).collect();
        let (made_with, by) = (shown(before.version.as_ref()), shown(tuned.version.as_ref()));
        let note = format!(
            "the file's rows for {} were made with {made_with}, not with {by}: they are gone",
            others.join(", ")
        );
        return (tuned, Some(note));
    }
    let mut whole = before;
    for (size, row) in tuned.rows() {
        whole.set(size, row.clone());
    }
    (whole, None)
}

fn named(found: &Found) -> Result<&FileName, Error> {
    found.name.as_ref().map_err(|source| Error::Name { path: found.path.clone(), source: source.clone() })
}

/// Whether two files are for the same layer on the same GPU, however their engines spell it.
fn is_of_same((engine, one): (Engine, &FileName), (of_other, other): (Engine, &FileName)) -> bool {
    let device = |name: &FileName| Engine::VLLM.device_word(&name.device);
    device(one) == device(other)
        && (one.unpacked(engine), one.dtype, one.block_shape, one.down, &one.backend)
            == (other.unpacked(of_other), other.dtype, other.block_shape, other.down, &other.backend)
        && (matches!(one.layer, Layer::Moe { .. }) || one.per_channel == other.per_channel)
}

/// A row as another engine's file has to say it for the same launch.
fn carried(row: &Row, from: Engine, to: Engine, name: &FileName) -> Row {
    if from == to {
        return row.clone();
    }
    // Products are launched as their rows say.
    if matches!(name.layer, Layer::Gemm { .. }) {
        return row.ordered(to);
    }
    let mut row = launched(from, row, name.block_shape.map(|shape| shape.map(i64::from))).without(SPLIT_K);
    if to.info().splits_groups && name.dtype.is_some_and(Precision::has_groups) {
        row.set(SPLIT_K, 1);
    }
    row.ordered(to)
}

fn bring(base: &mut ConfigFile, found: &Found, size: i64, row: Row, policy: Policy) -> Fate {
    if base.row(size).is_some_and(|own| own.is_same(&row)) {
        return Fate::Same;
    }
    if size < 1 {
        return Fate::Refused(format!("found {size}, expected a batch size from 1 on"));
    }
    if let Some(reason) = refusal(found, &row) {
        return Fate::Refused(reason);
    }
    match (base.row(size).is_some(), policy) {
        (true, Policy::Missing) => Fate::Kept,
        (is_there, _) => {
            base.set(size, row);
            if is_there { Fate::Replaced } else { Fate::Added }
        }
    }
}

/// Why the engine of a file does not take a row.
fn refusal(found: &Found, row: &Row) -> Option<String> {
    let findings = check_row(found, row, &Strictness::default());
    findings.into_iter().find(|finding| finding.severity == Severity::Error).map(|finding| finding.message)
}

/// Writes a file as a whole, or not at all.
///
/// # Errors
/// If the system does not let it be written.
pub fn write(path: &Path, text: &str) -> Result<(), Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let whole = |error: FileError| Error::File { path: error.path, source: error.source };
    let mut files = FileSet::new(folder).map_err(whole)?;
    let temporary = files.add(&name_of(path)).map_err(whole)?;
    std::fs::write(&temporary, text).map_err(Error::at(&temporary))?;
    files.commit().map_err(whole)?;
    Ok(())
}

#[cfg(test)]
mod tests;
