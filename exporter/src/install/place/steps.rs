//! What was installed into a folder, step by step.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use bluefin_common::files::FileError;
use serde::{Deserialize, Serialize};

use super::content::{copy, digest, refuse_log, remove, settled, sync, with_ending};
use super::{Action, FOLDER, Installed, InstalledFile, PlaceError};

pub(super) const PLAN: &str = "plan.json";
pub(super) const DONE: &str = "done";
const UNDONE: &str = "undone";
const FORMAT: u32 = 1;
/// Digits of a step, so that names sort as numbers do.
const STEP_DIGITS: usize = 6;

/// What a step is to do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    format: u32,
    pub files: Vec<Planned>,
}

impl Plan {
    pub(super) fn of(files: Vec<Planned>) -> Self {
        Self { format: FORMAT, files }
    }
}

/// A file of a step.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Planned {
    pub name: String,
    /// Digest, as hex, less what SQLite counts in its header.
    pub new: String,
    /// The same of what was there.
    pub old: Option<String>,
}

/// The steps of a folder.
pub(super) struct Steps {
    pub folder: PathBuf,
    pub home: PathBuf,
    /// Held while it lives: one at a time.
    _lock: Option<File>,
}

impl Steps {
    pub(super) fn open(folder: &Path) -> Result<Self, PlaceError> {
        let home = folder.join(FOLDER);
        std::fs::create_dir_all(&home).map_err(FileError::at(&home))?;
        let path = home.join("lock");
        let lock =
            OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(FileError::at(&path))?;
        lock.lock().map_err(FileError::at(&path))?;
        Ok(Self { folder: folder.to_path_buf(), home, _lock: Some(lock) })
    }

    /// The steps of a folder as they are, to look at. `None` if there are none.
    pub(super) fn look(folder: &Path) -> Option<Self> {
        let home = folder.join(FOLDER);
        home.is_dir().then(|| Self { folder: folder.to_path_buf(), home, _lock: None })
    }

    pub(super) fn place(&self, step: u64) -> PathBuf {
        self.home.join(format!("{step:0STEP_DIGITS$}"))
    }

    /// Numbers of all steps, lowest first.
    pub(super) fn all(&self) -> Result<Vec<u64>, PlaceError> {
        let mut steps = Vec::new();
        for entry in self.home.read_dir().map_err(FileError::at(&self.home))? {
            let name = entry.map_err(FileError::at(&self.home))?.file_name();
            steps.extend(name.to_str().and_then(|name| name.parse::<u64>().ok()));
        }
        steps.sort_unstable();
        Ok(steps)
    }

    pub(super) fn has(&self, step: u64, name: &str) -> Result<bool, PlaceError> {
        let path = self.place(step).join(name);
        Ok(path.try_exists().map_err(FileError::at(&path))?)
    }

    /// Whether all files of a step are in their places.
    pub(super) fn is_done(&self, step: u64) -> Result<bool, PlaceError> {
        self.has(step, DONE)
    }

    fn mark(&self, step: u64, name: &str) -> Result<(), PlaceError> {
        let path = self.place(step).join(name);
        File::create(&path).and_then(|file| file.sync_all()).map_err(FileError::at(&path))?;
        sync(&self.place(step))
    }

    pub(super) fn read(&self, step: u64) -> Result<Plan, PlaceError> {
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

    /// The last step that was not taken back.
    pub(super) fn last(&self) -> Result<Option<u64>, PlaceError> {
        let mut last = None;
        for step in self.all()? {
            if !self.has(step, UNDONE)? {
                last = Some(step);
            }
        }
        Ok(last)
    }

    /// Refuses to take back what has changed since, or is open.
    pub(super) fn check_undo(&self, step: u64) -> Result<(), PlaceError> {
        for file in self.read(step)?.files {
            let path = self.folder.join(&file.name);
            refuse_log(&path)?;
            // Earlier versions kept the digest of all bytes.
            let found = [settled(&path)?, digest(&path)?].map(|digest| digest.map(|digest| digest.to_string()));
            // Old already, if this was interrupted before.
            if !found.iter().any(|found| found.as_ref() == Some(&file.new) || *found == file.old) {
                let reason = "has changed since it was installed; put it aside first".to_string();
                return Err(PlaceError::Refused { path, reason });
            }
        }
        Ok(())
    }

    /// Takes a step back that was checked.
    pub(super) fn undo(&self, step: u64) -> Result<Installed, PlaceError> {
        let place = self.place(step);
        let mut files = Vec::new();
        for file in self.read(step)?.files {
            let path = self.folder.join(&file.name);
            let (action, bytes) = if file.old.is_some() {
                let again = place.join("new").join(&file.name);
                let bytes = copy(&place.join("old").join(&file.name), &again)?;
                std::fs::rename(&again, &path).map_err(FileError::at(&path))?;
                (Action::Restored, bytes)
            } else {
                remove(&path)?;
                (Action::Removed, 0)
            };
            // What an empty log left: it belongs to the file that is gone.
            for beside in ["-wal", "-shm"] {
                remove(&with_ending(&path, beside))?;
            }
            files.push(InstalledFile { path, action, bytes, merged: None });
        }
        sync(&self.folder)?;
        self.mark(step, UNDONE)?;
        Ok(Installed { folder: self.folder.clone(), step: Some(step), files })
    }

    /// Removes steps that were never begun, finishes those that were.
    pub(super) fn recover(&self) -> Result<(), PlaceError> {
        for step in self.all()? {
            if !self.has(step, PLAN)? {
                let place = self.place(step);
                std::fs::remove_dir_all(&place).map_err(FileError::at(&place))?;
            } else if !self.is_done(step)? {
                self.finish(step)?;
            }
        }
        Ok(())
    }

    /// Renames what is left into place.
    pub(super) fn finish(&self, step: u64) -> Result<(), PlaceError> {
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
