//! Where the project of a source ends: what is above that is nobody's business.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What is in the folder of a project that is under version control.
const MARKS: [&str; 3] = [".git", ".hg", ".svn"];
/// What is in the uppermost folder of others.
const SIGNS: [&str; 10] = [
    "LICENSE",
    "LICENSE.txt",
    "LICENSE.md",
    "COPYING",
    "README",
    "README.md",
    "README.rst",
    "setup.py",
    "CMakeLists.txt",
    "Makefile",
];
/// Folders above that of the source, one of which may be the project's.
pub(crate) const MOST_ABOVE: usize = 8;
/// The right of everybody to write.
const BY_ALL: u32 = 0o002;

/// The folder of the project that has `folder`, a path without links: the next one with version control, else the uppermost with a licence, a readme or a
/// build file. It is never a home folder, `/`, one of another owner, or one in which everybody may write. `None` where nothing says that there is one.
#[must_use]
pub fn project_root(folder: &Path) -> Option<PathBuf> {
    let home = std::env::var_os("HOME").and_then(|home| PathBuf::from(home).canonicalize().ok());
    let owner = folder.metadata().ok()?.uid();
    let is_own = |above: &&Path| {
        let is_shared = above.metadata().map_or(true, |of| of.uid() != owner || of.mode() & BY_ALL != 0);
        Some(*above) != home.as_deref() && above.parent().is_some() && !is_shared
    };
    let above: Vec<&Path> = folder.ancestors().take(MOST_ABOVE + 1).take_while(is_own).collect();
    let has = |folder: &Path, names: &[&str]| names.iter().any(|name| folder.join(name).exists());
    let marked = above.iter().find(|folder| has(folder, &MARKS));
    marked.or_else(|| above.iter().rev().find(|folder| has(folder, &SIGNS))).map(|root| root.to_path_buf())
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, create_dir_all, set_permissions, write};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_project_is_as_large_as_its_signs_say_and_nobody_elses() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        // Whatever lies above it on this machine.
        set_permissions(&real, Permissions::from_mode(0o777)).unwrap();
        let source = real.join("all/one/src");
        create_dir_all(&source).unwrap();
        assert_eq!(project_root(&source), None);
        write(real.join("all/one/Makefile"), "").unwrap();
        assert_eq!(project_root(&source), Some(real.join("all/one")));
        write(real.join("all/README"), "").unwrap();
        assert_eq!(project_root(&source), Some(real.join("all")));
        set_permissions(real.join("all"), Permissions::from_mode(0o777)).unwrap();
        assert_eq!(project_root(&source), Some(real.join("all/one")), "everybody may write above");
        set_permissions(real.join("all"), Permissions::from_mode(0o755)).unwrap();
        create_dir_all(real.join("all/one/.git")).unwrap();
        assert_eq!(project_root(&source), Some(real.join("all/one")));
    }
}
