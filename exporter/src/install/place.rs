//! Files put into a folder so that each is the old one or the new one at every instant, with a way back.
//!
//! Every step has a folder of its own below `.bluefin/`: `new/` holds what is to come, `old/` what was there, `plan.json`
//! says what is what. From the moment that the plan is there the step is finished by the next command: a file that is
//! still in `new/` is renamed into place. `done` ends it, `undone` says that it was taken back.

mod content;
mod steps;

use std::path::{Path, PathBuf};

use bluefin_common::files::{FileError, FileSet};
use serde::Serialize;

use super::{Item, Merged};
use content::{copy, digest, keep, refuse_log, settled, sync};
use steps::{PLAN, Plan, Planned, Steps};

const FOLDER: &str = ".bluefin";

/// Why files were not put into place.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}: {reason}", path.display())]
    Plan { path: PathBuf, reason: String },
    #[error("{}: {reason}", path.display())]
    Refused { path: PathBuf, reason: String },
}

/// What happens to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    New,
    Replaced,
    /// Records came to those that are there, or stand for some of them.
    Merged,
    /// It is there already.
    Same,
    /// A step was taken back: what was there before is there again.
    Restored,
    /// A step was taken back: nothing was there before.
    Removed,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InstalledFile {
    pub path: PathBuf,
    pub action: Action,
    /// Bytes; 0 for one that was removed.
    pub bytes: u64,
    /// What came of the records that were there; `None` if they were not looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged: Option<Merged>,
}

/// What was done in a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Installed {
    pub folder: PathBuf,
    /// `None` if nothing changed.
    pub step: Option<u64>,
    pub files: Vec<InstalledFile>,
}

/// A step that was begun and not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unfinished {
    pub step: u64,
    /// Files that are not in their places yet.
    pub files: Vec<String>,
}

/// What [`install`] would do with `items`, all of `folder`.
///
/// # Errors
/// If a file can not be read.
pub fn plan(folder: &Path, items: &[Item]) -> Result<Installed, PlaceError> {
    let mut files = Vec::new();
    for item in items {
        let path = folder.join(&item.name);
        let action = match digest(&path)? {
            None => Action::New,
            Some(old) if Some(old) == digest(&item.source)? => Action::Same,
            Some(_) if item.merged.is_some() => Action::Merged,
            Some(_) => Action::Replaced,
        };
        let bytes = std::fs::metadata(&item.source).map_err(FileError::at(&item.source))?.len();
        files.push(InstalledFile { path, action, bytes, merged: item.merged });
    }
    Ok(Installed { folder: folder.to_path_buf(), step: None, files })
}

/// Finishes a step of `folder` that was begun, if there is one.
///
/// # Errors
/// If a file can not be written.
pub fn recover(folder: &Path) -> Result<(), PlaceError> {
    if folder.join(FOLDER).is_dir() { Steps::open(folder)?.recover() } else { Ok(()) }
}

/// Puts `items` into `folder`. Killed at any instant it leaves each file old or new, and the next call finishes it.
///
/// # Errors
/// If a file can not be read or written, or a database that is to be replaced is in use.
pub fn install(folder: &Path, items: &[Item]) -> Result<Installed, PlaceError> {
    let steps = Steps::open(folder)?;
    steps.recover()?;
    let mut installed = plan(folder, items)?;
    let changed: Vec<&Item> = items
        .iter()
        .zip(&installed.files)
        .filter(|(_, file)| file.action != Action::Same)
        .map(|(item, _)| item)
        .collect();
    if changed.is_empty() {
        return Ok(installed);
    }
    for item in &changed {
        let path = folder.join(&item.name);
        refuse_log(&path)?;
        if item.merged.is_some() && digest(&path)? != item.present {
            let reason = "was changed while it was read; the same command again takes that in".to_string();
            return Err(PlaceError::Refused { path, reason });
        }
    }
    let step = steps.all()?.last().copied().unwrap_or(0) + 1;
    let place = steps.place(step);
    for part in ["new", "old"] {
        let part = place.join(part);
        std::fs::create_dir_all(&part).map_err(FileError::at(&part))?;
    }
    let mut planned = Vec::new();
    for item in changed {
        let (path, new) = (folder.join(&item.name), place.join("new").join(&item.name));
        copy(&item.source, &new)?;
        let old = settled(&path)?;
        if old.is_some() {
            keep(&path, &place.join("old").join(&item.name))?;
        }
        let new = settled(&new)?.map(|digest| digest.to_string()).unwrap_or_default();
        planned.push(Planned { name: item.name.clone(), new, old: old.map(|digest| digest.to_string()) });
    }
    sync(&place.join("new"))?;
    sync(&place.join("old"))?;
    let mut plan = FileSet::new(&place)?;
    let path = plan.add(PLAN)?;
    let text = serde_json::to_vec_pretty(&Plan::of(planned)).unwrap_or_default();
    std::fs::write(&path, text).map_err(FileError::at(&path))?;
    sync(&steps.home)?;
    plan.commit()?;
    steps.finish(step)?;
    installed.step = Some(step);
    Ok(installed)
}

/// Takes the last step that was not taken back, back, in each of `folders` that has one: in all of them or in none. Killed at any
/// instant, the same call again finishes it.
///
/// # Errors
/// If there is none in any folder, a file has changed since, is open, or can not be written.
pub fn undo(folders: &[&Path]) -> Result<Vec<Installed>, PlaceError> {
    let mut lasts = Vec::new();
    for folder in folders {
        if folder.join(FOLDER).is_dir() {
            let steps = Steps::open(folder)?;
            steps.recover()?;
            lasts.extend(steps.last()?.map(|step| (steps, step)));
        }
    }
    if lasts.is_empty() {
        let path = folders.first().copied().unwrap_or(Path::new("."));
        let reason = "nothing was installed here that could be taken back".to_string();
        return Err(PlaceError::Refused { path: path.to_path_buf(), reason });
    }
    for (steps, step) in &lasts {
        steps.check_undo(*step)?;
    }
    lasts.iter().map(|(steps, step)| steps.undo(*step)).collect()
}

/// A file that a step put in the place of another one, which is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    pub step: u64,
    pub path: PathBuf,
    /// Where the one is kept that was there.
    pub old: PathBuf,
}

/// The files of `folder` that its steps replaced, by the last step that was not taken back, without touching anything.
///
/// # Errors
/// If they can not be read.
pub fn replaced(folder: &Path) -> Result<Vec<Replaced>, PlaceError> {
    let Some(steps) = Steps::look(folder) else { return Ok(Vec::new()) };
    let Some(step) = steps.last()?.filter(|step| steps.has(*step, PLAN).unwrap_or(false)) else {
        return Ok(Vec::new());
    };
    let files = steps.read(step)?.files.into_iter().filter(|file| file.old.is_some());
    Ok(files
        .map(|file| {
            let old = steps.place(step).join("old").join(&file.name);
            Replaced { step, path: folder.join(&file.name), old }
        })
        .collect())
}

/// Steps of `folder` that were begun and not ended, without touching anything.
///
/// # Errors
/// If they can not be read.
pub fn unfinished(folder: &Path) -> Result<Vec<Unfinished>, PlaceError> {
    let Some(steps) = Steps::look(folder) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for step in steps.all()? {
        if steps.has(step, PLAN)? && !steps.is_done(step)? {
            let files = steps.read(step)?.files.into_iter().map(|file| file.name);
            let waiting = files.filter(|name| steps.place(step).join("new").join(name).is_file());
            found.push(Unfinished { step, files: waiting.collect() });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
