//! The folders that compilers work in. A worker that is killed leaves its own behind, and the next one sweeps it away.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bluefin_common::scratch::{self, Scratch};
use tempfile::TempDir;

/// How the folders of workers begin.
const PREFIX: &str = "bluefin-compile-";

/// The folder of a worker, in which each compile has one of its own. Made when it is needed first, and again if somebody tidies
/// it away.
#[derive(Debug, Default)]
pub(crate) struct Folders(Mutex<Option<Arc<Scratch>>>);

/// The folder of one compile. Gone when dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    folder: TempDir,
    // Goes after what is in it.
    _own: Arc<Scratch>,
}

impl Folder {
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Folders {
    /// An empty folder.
    ///
    /// # Errors
    /// If there is no room, or no right, for one.
    pub(crate) fn make(&self) -> io::Result<Folder> {
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..2 {
            let known = match &*own {
                Some(known) => Arc::clone(known),
                None => Arc::clone(own.insert(Arc::new(Scratch::new(PREFIX)?))),
            };
            match tempfile::Builder::new().prefix("").tempdir_in(known.path()) {
                Ok(folder) => return Ok(Folder { folder, _own: known }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => *own = None,
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Removes the folders of workers that are gone; how many.
pub(crate) fn sweep() -> usize {
    scratch::sweep(&std::env::temp_dir(), PREFIX)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_folder_that_somebody_tidied_away_is_made_again() {
        let folders = Folders::default();
        let first = folders.make().unwrap();
        let own = first.path().parent().unwrap().to_path_buf();
        assert!(fs::read_dir(first.path()).unwrap().next().is_none());
        fs::remove_dir_all(&own).unwrap();
        let second = folders.make().unwrap();
        assert!(second.path().exists() && !second.path().starts_with(&own));
        let own = second.path().parent().unwrap().to_path_buf();
        drop((folders, first, second));
        assert!(!own.exists());
    }
}
