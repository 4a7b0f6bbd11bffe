//! Files put into a folder so that each is the old one or the new one at every instant, with a way back.
//!
//! Every step has a folder of its own below `.bluefin/`: `new/` holds what is to come, `old/` what was there, `plan.json`
//! says what is what. From the moment that the plan is there the step is finished by whoever comes next: a file that is
//! still in `new/` is renamed into place. `done` ends it, `undone` says that it was taken back.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use bluefin_common::digest::Digest;
use bluefin_common::files::{FileError, FileSet};
use serde::{Deserialize, Serialize};

use super::Item;

const FOLDER: &str = ".bluefin";
const PLAN: &str = "plan.json";
const DONE: &str = "done";
const UNDONE: &str = "undone";
const FORMAT: u32 = 1;
/// Digits of a step, so that names sort as numbers do.
const STEP_DIGITS: usize = 6;

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

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    format: u32,
    files: Vec<Planned>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Planned {
    name: String,
    /// Digest, as hex.
    new: String,
    /// The same of what was there.
    old: Option<String>,
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
            Some(_) => Action::Replaced,
        };
        let bytes = std::fs::metadata(&item.source).map_err(FileError::at(&item.source))?.len();
        files.push(InstalledFile { path, action, bytes });
    }
    Ok(Installed { folder: folder.to_path_buf(), step: None, files })
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
        refuse_log(&folder.join(&item.name))?;
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
        let old = digest(&path)?;
        if old.is_some() {
            keep(&path, &place.join("old").join(&item.name))?;
        }
        let new = digest(&new)?.map(|digest| digest.to_string()).unwrap_or_default();
        planned.push(Planned { name: item.name.clone(), new, old: old.map(|digest| digest.to_string()) });
    }
    sync(&place.join("new"))?;
    sync(&place.join("old"))?;
    let mut plan = FileSet::new(&place)?;
    let path = plan.add(PLAN)?;
    let text = serde_json::to_vec_pretty(&Plan { format: FORMAT, files: planned }).unwrap_or_default();
    std::fs::write(&path, text).map_err(FileError::at(&path))?;
    sync(&steps.home)?;
    plan.commit()?;
    steps.finish(step)?;
    installed.step = Some(step);
    Ok(installed)
}

/// Takes the last step that was not taken back, back. Killed at any instant, the same call again finishes it.
///
/// # Errors
/// If there is none, a file has changed since, or can not be written.
pub fn undo(folder: &Path) -> Result<Installed, PlaceError> {
    let steps = Steps::open(folder)?;
    steps.recover()?;
    let mut last = None;
    for step in steps.all()? {
        if !steps.has(step, UNDONE)? {
            last = Some(step);
        }
    }
    let refused = |path: &Path, reason: String| PlaceError::Refused { path: path.to_path_buf(), reason };
    let step = last.ok_or_else(|| refused(folder, "nothing was installed that could be taken back".to_string()))?;
    let place = steps.place(step);
    let plan = steps.read(step)?;
    for file in &plan.files {
        let path = folder.join(&file.name);
        let found = digest(&path)?.map(|digest| digest.to_string());
        // Old already, if this was interrupted before.
        if found.as_ref() != Some(&file.new) && found != file.old {
            return Err(refused(&path, "has changed since it was installed; put it aside first".to_string()));
        }
        refuse_log(&path)?;
    }
    let mut files = Vec::new();
    for file in &plan.files {
        let path = folder.join(&file.name);
        let (action, bytes) = if file.old.is_some() {
            let again = place.join("new").join(&file.name);
            let bytes = copy(&place.join("old").join(&file.name), &again)?;
            std::fs::rename(&again, &path).map_err(FileError::at(&path))?;
            (Action::Restored, bytes)
        } else {
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(FileError { path, source: error }.into());
                }
                _ => (Action::Removed, 0),
            }
        };
        files.push(InstalledFile { path, action, bytes });
    }
    sync(folder)?;
    steps.mark(step, UNDONE)?;
    Ok(Installed { folder: folder.to_path_buf(), step: Some(step), files })
}

/// Steps of `folder` that were begun and not ended, without touching anything.
///
/// # Errors
/// If they can not be read.
pub fn unfinished(folder: &Path) -> Result<Vec<Unfinished>, PlaceError> {
    let home = folder.join(FOLDER);
    if !home.is_dir() {
        return Ok(Vec::new());
    }
    let steps = Steps { folder: folder.to_path_buf(), home, _lock: None };
    let mut found = Vec::new();
    for step in steps.all()? {
        if steps.has(step, PLAN)? && !steps.has(step, DONE)? {
            let files = steps.read(step)?.files.into_iter().map(|file| file.name);
            let waiting = files.filter(|name| steps.place(step).join("new").join(name).is_file());
            found.push(Unfinished { step, files: waiting.collect() });
        }
    }
    Ok(found)
}

/// The steps of a folder.
struct Steps {
    folder: PathBuf,
    home: PathBuf,
    /// Held while it lives: one at a time.
    _lock: Option<File>,
}

impl Steps {
    fn open(folder: &Path) -> Result<Self, PlaceError> {
        let home = folder.join(FOLDER);
        std::fs::create_dir_all(&home).map_err(FileError::at(&home))?;
        let path = home.join("lock");
        let lock =
            OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(FileError::at(&path))?;
        lock.lock().map_err(FileError::at(&path))?;
        Ok(Self { folder: folder.to_path_buf(), home, _lock: Some(lock) })
    }

    fn place(&self, step: u64) -> PathBuf {
        self.home.join(format!("{step:0STEP_DIGITS$}"))
    }

    /// Numbers of all steps, lowest first.
    fn all(&self) -> Result<Vec<u64>, PlaceError> {
        let mut steps = Vec::new();
        for entry in self.home.read_dir().map_err(FileError::at(&self.home))? {
            let name = entry.map_err(FileError::at(&self.home))?.file_name();
            steps.extend(name.to_str().and_then(|name| name.parse::<u64>().ok()));
        }
        steps.sort_unstable();
        Ok(steps)
    }

    fn has(&self, step: u64, name: &str) -> Result<bool, PlaceError> {
        let path = self.place(step).join(name);
        Ok(path.try_exists().map_err(FileError::at(&path))?)
    }

    fn mark(&self, step: u64, name: &str) -> Result<(), PlaceError> {
        let path = self.place(step).join(name);
        File::create(&path).and_then(|file| file.sync_all()).map_err(FileError::at(&path))?;
        sync(&self.place(step))
    }

    fn read(&self, step: u64) -> Result<Plan, PlaceError> {
        let path = self.place(step).join(PLAN);
        let text = std::fs::read(&path).map_err(FileError::at(&path))?;
        let failed = |reason| PlaceError::Plan { path: path.clone(), reason };
        let plan: Plan = serde_json::from_slice(&text).map_err(|error| failed(error.to_string()))?;
        if plan.format != FORMAT {
            return Err(failed(format!("found format {}, expected {FORMAT}; written by another version", plan.format)));
        }
        // A name that leads elsewhere was not written by this program.
        if let Some(file) = plan.files.iter().find(|file| Path::new(&file.name).file_name() != Some(file.name.as_ref()))
        {
            return Err(failed(format!("found {:?}, expected the name of a file", file.name)));
        }
        Ok(plan)
    }

    /// Removes steps that were never begun, finishes those that were.
    fn recover(&self) -> Result<(), PlaceError> {
        for step in self.all()? {
            if !self.has(step, PLAN)? {
                let place = self.place(step);
                std::fs::remove_dir_all(&place).map_err(FileError::at(&place))?;
            } else if !self.has(step, DONE)? {
                self.finish(step)?;
            }
        }
        Ok(())
    }

    /// Renames what is left into place.
    fn finish(&self, step: u64) -> Result<(), PlaceError> {
        for file in self.read(step)?.files {
            let (new, path) = (self.place(step).join("new").join(&file.name), self.folder.join(&file.name));
            match std::fs::rename(&new, &path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(FileError { path, source: error }.into());
                }
                _ => {}
            }
        }
        sync(&self.folder)?;
        self.mark(step, DONE)
    }
}

/// `None` if there is no file.
fn digest(path: &Path) -> Result<Option<Digest>, FileError> {
    match Digest::of_file(path) {
        Ok(digest) => Ok(Some(digest)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FileError { path: path.to_path_buf(), source: error }),
    }
}

/// A durable copy with the usual permissions. Returns its size.
fn copy(from: &Path, to: &Path) -> Result<u64, FileError> {
    let mut source = File::open(from).map_err(FileError::at(from))?;
    let mut all = || {
        let mut file = File::create(to)?;
        let bytes = io::copy(&mut source, &mut file)?;
        file.flush()?;
        file.sync_all()?;
        Ok(bytes)
    };
    all().map_err(FileError::at(to))
}

/// Keeps what is there: by another link to it, or by a copy where there are no links.
fn keep(path: &Path, old: &Path) -> Result<(), FileError> {
    match std::fs::hard_link(path, old) {
        Ok(()) => Ok(()),
        Err(_) => copy(path, old).map(|_| ()),
    }
}

/// A database in SQLite whose log is there is open somewhere, or was left by a crash: the log of the old file would be
/// taken for one of the new.
fn refuse_log(path: &Path) -> Result<(), PlaceError> {
    let mut log = path.as_os_str().to_os_string();
    log.push("-wal");
    if std::fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        let reason = "has a write-ahead log (-wal): end the processes that use it, or open it once with sqlite3";
        return Err(PlaceError::Refused { path: path.to_path_buf(), reason: reason.to_string() });
    }
    Ok(())
}

fn sync(folder: &Path) -> Result<(), PlaceError> {
    Ok(File::open(folder).and_then(|folder| folder.sync_all()).map_err(FileError::at(folder))?)
}

#[cfg(test)]
mod tests;
