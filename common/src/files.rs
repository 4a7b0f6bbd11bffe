//! Several files that appear together, each whole or not at all.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempPath;

/// Why a file is not where it should be.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct FileError {
    /// Where the file should be; a folder's own path if it is the folder.
    pub path: PathBuf,
    /// What the system says of it.
    pub source: std::io::Error,
}

impl FileError {
    /// Names the file of an error.
    pub fn at(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        |source| Self { path, source }
    }
}

/// Files that are written beside their places. Dropped before [`Self::commit`] they are gone.
#[derive(Debug)]
pub struct FileSet {
    folder: PathBuf,
    files: Vec<(TempPath, PathBuf)>,
}

impl FileSet {
    /// Files of `folder`, which is made if need be.
    ///
    /// # Errors
    /// If it can not be made.
    pub fn new(folder: &Path) -> Result<Self, FileError> {
        std::fs::create_dir_all(folder).map_err(FileError::at(folder))?;
        Ok(Self { folder: folder.to_path_buf(), files: Vec::new() })
    }

    /// An empty file that will be `name` in the folder. Returns where it is now.
    ///
    /// # Errors
    /// If it can not be made.
    pub fn add(&mut self, name: &str) -> Result<PathBuf, FileError> {
        let file = tempfile::Builder::new()
            .prefix(&format!(".{name}."))
            .suffix(".tmp")
            // Less the umask, as for any other file; a temporary file is private by default.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(&self.folder)
            .map_err(FileError::at(&self.folder))?;
        let temporary = file.into_temp_path();
        let path = temporary.to_path_buf();
        self.files.push((temporary, self.folder.join(name)));
        Ok(path)
    }

    /// Makes all files durable, then puts them in their places. Returns each with its size.
    ///
    /// # Errors
    /// If that fails; files that are in place by then are whole.
    pub fn commit(self) -> Result<Vec<(PathBuf, u64)>, FileError> {
        let mut done = Vec::with_capacity(self.files.len());
        for (temporary, path) in &self.files {
            let sync = || {
                let file = File::open(temporary)?;
                file.sync_all()?;
                file.metadata()
            };
            done.push((path.clone(), sync().map_err(FileError::at(path))?.len()));
        }
        for (temporary, path) in self.files {
            temporary.persist(&path).map_err(|error| FileError::at(&path)(error.error))?;
        }
        File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(FileError::at(&self.folder))?;
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn all_or_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("made");
        let mut files = FileSet::new(&folder).unwrap();
        std::fs::write(files.add("a").unwrap(), "1").unwrap();
        files.add("b").unwrap();
        drop(files);
        assert_eq!(names(&folder), [""; 0]);

        let mut files = FileSet::new(&folder).unwrap();
        std::fs::write(files.add("a").unwrap(), "12").unwrap();
        files.add("b").unwrap();
        assert_eq!(files.commit().unwrap(), [(folder.join("a"), 2), (folder.join("b"), 0)]);
        assert_eq!(names(&folder), ["a", "b"]);
    }

    #[test]
    fn what_is_in_the_way_is_named() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a")).unwrap();
        let mut files = FileSet::new(folder.path()).unwrap();
        files.add("a").unwrap();
        let error = files.commit().unwrap_err().to_string();
        assert!(error.starts_with(&folder.path().join("a").display().to_string()), "{error}");
        assert_eq!(names(folder.path()), ["a"]);
    }
}
