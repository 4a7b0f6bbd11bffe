//! The project that a source lies in: headers that it includes from other folders, and files that launch its kernels.

use std::collections::VecDeque;
use std::path::{Component, Path, PathBuf};

use bluefin_kernel_spec::draft::{is_included, kernels_in};
use bluefin_kernel_spec::{may_be_include, source_text};

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
const MOST_ABOVE: usize = 8;
/// Files and folders that are looked at, and files that are read for launches.
const MOST_ENTRIES: usize = 40_000;
const MOST_READ: usize = 4_000;
/// Bytes of a file that is read.
const MAX_TEXT: u64 = 1 << 20;
/// Files with launches of a kernel that are taken.
const MOST_LAUNCHING: usize = 16;

/// The files around a source.
pub(super) struct Project {
    /// That of the source.
    folder: PathBuf,
    /// From there, the nearest first.
    files: Vec<String>,
}

impl Project {
    /// Of a source in `folder`.
    pub(super) fn of(folder: &Path) -> Self {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
        let files = root(&folder).map(|root| listed(root, &folder)).unwrap_or_default();
        Self { folder, files }
    }

    /// The header that `from`, a path from the source's folder, includes as `include`: its path from there, and its text. That is where the path
    /// leads to, or else the nearest that a compiler would find in some folder.
    pub(super) fn header(&self, from: &str, include: &str) -> Option<(String, String)> {
        let beside = self.folder.join(from).parent()?.join(include);
        let exact = relative(&self.folder, &plain(&beside));
        if let Some(text) = self.read(&exact) {
            return Some((exact, text));
        }
        let ending = Path::new(include.trim_start_matches("../"));
        let found = self.files.iter().find(|path| Path::new(path).ends_with(ending))?;
        Some((found.clone(), self.read(found)?))
    }

    /// The texts of other files that name `kernel`, which `source` defines. Where others define one of that name as well, those alone that include
    /// `source`.
    pub(super) fn launching(&self, source: &str, kernel: &str) -> Vec<String> {
        let (mut including, mut others, mut is_only) = (Vec::new(), Vec::new(), true);
        for path in self.files.iter().filter(|path| *path != source).take(MOST_READ) {
            let Some(text) = self.read(path).filter(|text| text.contains(kernel)) else { continue };
            is_only &= !text.contains("__global__") || !kernels_in(&text).iter().any(|name| name == kernel);
            if is_included(&text, source) { including.push(text) } else { others.push(text) }
        }
        including.extend(others.into_iter().filter(|_| is_only));
        including.truncate(MOST_LAUNCHING);
        including
    }

    fn read(&self, path: &str) -> Option<String> {
        let whole = self.folder.join(path);
        // A spec reads through no links.
        let is_fine = may_be_include(path)
            && whole.canonicalize().is_ok_and(|real| real == plain(&whole))
            && whole.metadata().is_ok_and(|found| found.is_file() && found.len() <= MAX_TEXT);
        if is_fine { source_text(std::fs::read(whole).ok()?).ok() } else { None }
    }
}

/// The folder of the project that has `folder`; `None` where nothing says that there is one.
fn root(folder: &Path) -> Option<&Path> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let is_own = |above: &&Path| Some(*above) != home.as_deref() && above.parent().is_some();
    let above: Vec<&Path> = folder.ancestors().take(MOST_ABOVE + 1).take_while(is_own).collect();
    let has = |folder: &Path, names: &[&str]| names.iter().any(|name| folder.join(name).exists());
    let marked = above.iter().find(|folder| has(folder, &MARKS));
    marked.or_else(|| above.iter().rev().find(|folder| has(folder, &SIGNS))).copied()
}

/// The files below `root` that a source may include or that may launch its kernels, by their paths from `folder`.
fn listed(root: &Path, folder: &Path) -> Vec<String> {
    let (mut found, mut seen) = (Vec::new(), 0);
    let mut waiting = VecDeque::from([root.to_path_buf()]);
    while let Some(at) = waiting.pop_front() {
        for entry in std::fs::read_dir(at).into_iter().flatten().flatten() {
            seen += 1;
            let (path, kind) = (entry.path(), entry.file_type());
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            match kind {
                Ok(kind) if kind.is_dir() && !is_hidden => waiting.push_back(path),
                Ok(kind) if kind.is_file() && !is_hidden => found.push(relative(folder, &path)),
                _ => {}
            }
        }
        if seen > MOST_ENTRIES {
            break;
        }
    }
    // What is not above, and no source, is never wanted.
    found.retain(|path| path.rsplit_once('.').is_some_and(|(_, ending)| may_be_include(&format!("../a.{ending}"))));
    found.sort_by_cached_key(|path| (path.matches('/').count(), path.clone()));
    found
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// The path to `path` from `folder`, both from the root.
fn relative(folder: &Path, path: &Path) -> String {
    let common = folder.components().zip(path.components()).take_while(|(one, other)| one == other).count();
    let up = folder.components().skip(common).map(|_| "..".to_string());
    let down = path.components().skip(common).map(|part| part.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_launches_are_found_in_the_project() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("README.md", "");
        write("include/own/tools.h", "near");
        write("src/k/k.cu", "__global__ void scale(float* p) { }\n");
        write("src/common.h", "above");
        write("third/own/tools.h", "far away");
        write("src/main.cpp", "scale<8><<<1, 2>>>(p);\n");
        write("src/notes.txt", "scale<9>");
        let project = Project::of(&folder.path().join("src/k"));
        let header = |from: &str, include: &str| project.header(from, include).map(|(path, _)| path);
        assert_eq!(header("k.cu", "../common.h").as_deref(), Some("../common.h"));
        assert_eq!(header("k.cu", "own/tools.h").as_deref(), Some("../../include/own/tools.h"));
        assert_eq!(header("../../include/own/tools.h", "../../src/common.h").as_deref(), Some("../common.h"));
        assert_eq!(header("k.cu", "none.h"), None);
        assert_eq!(project.launching("k.cu", "scale"), ["scale<8><<<1, 2>>>(p);\n"]);
        // Two kernels of one name.
        write("src/other.cu", "__global__ void scale(int* p) { }\n");
        assert!(Project::of(&folder.path().join("src/k")).launching("k.cu", "scale").is_empty());
        write("src/all.cu", "#include \"k/k.cu\"\nvoid f() { scale<4><<<1, 2>>>(p); }\n");
        assert_eq!(Project::of(&folder.path().join("src/k")).launching("k.cu", "scale").len(), 1);
        // Nothing says that they belong together.
        std::fs::remove_file(folder.path().join("README.md")).unwrap();
        let alone = Project::of(&folder.path().join("src/k"));
        assert_eq!(alone.header("k.cu", "own/tools.h"), None);
        assert_eq!(alone.header("k.cu", "../common.h").map(|(_, text)| text).as_deref(), Some("above"));
    }
}
