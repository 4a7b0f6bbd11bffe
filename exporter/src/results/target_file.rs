//! A file of results: written beside its place, and put there when it is whole.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use bluefin_common::files::FileSet;
use bluefin_common::session::Session;

use super::{ParquetRows, Row, SqliteRows, T4Rows, Write};

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    Parquet,
    Sqlite,
    T4,
}

/// One that is being written.
pub struct TargetFile {
    path: PathBuf,
    files: Option<FileSet>,
    writer: Box<dyn Write>,
    bytes: u64,
}

impl TargetFile {
    /// One of `sessions` that will be at `path`. What is there already is only replaced by `force`.
    ///
    /// # Errors
    /// If something is there, or the file can not be made.
    pub fn new(path: &Path, kind: FileKind, sessions: &[Session], force: bool) -> io::Result<Self> {
        let named = |error: io::Error| at(path, &error);
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| named(io::Error::other("found no name, expected a file")))?;
        if path.is_dir() {
            return Err(named(io::Error::other("found a folder, expected a file")));
        }
        if !force && path.try_exists().map_err(named)? {
            return Err(named(io::Error::new(io::ErrorKind::AlreadyExists, "is there already; --force replaces it")));
        }
        let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        let mut files = FileSet::new(folder).map_err(io::Error::other)?;
        let temporary = files.add(name).map_err(io::Error::other)?;
        let open = || OpenOptions::new().write(true).open(&temporary);
        let writer: Box<dyn Write> = match kind {
            FileKind::Parquet => Box::new(ParquetRows::new(open().map_err(named)?).map_err(named)?),
            FileKind::Sqlite => Box::new(SqliteRows::new(&temporary, sessions).map_err(named)?),
            FileKind::T4 => Box::new(T4Rows::new(open().map_err(named)?)),
        };
        Ok(Self { path: path.to_path_buf(), files: Some(files), writer, bytes: 0 })
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How large it is, once it is there.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Write for TargetFile {
    fn rows(&mut self, rows: &[Row]) -> io::Result<()> {
        self.writer.rows(rows).map_err(|error| at(&self.path, &error))
    }

    fn end(&mut self) -> io::Result<()> {
        self.writer.end().map_err(|error| at(&self.path, &error))?;
        if let Some(files) = self.files.take() {
            let written = files.commit().map_err(io::Error::other)?;
            self.bytes = written.iter().map(|(_, bytes)| bytes).sum();
        }
        Ok(())
    }
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::row;
    use super::*;

    #[test]
    fn what_is_there_stays_until_the_new_one_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        std::fs::write(&path, "old").unwrap();
        let error = TargetFile::new(&path, FileKind::T4, &[], false).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("--force"), "{error}");
        let mut file = TargetFile::new(&path, FileKind::T4, &[], true).unwrap();
        file.rows(&[row(1)]).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
        file.end().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with('{') && text.len() as u64 == file.bytes(), "{text}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }
}
