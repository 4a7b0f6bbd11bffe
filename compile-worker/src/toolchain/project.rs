//! The project that a source lies in: headers that it includes from other folders, and files that launch its kernels.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::path::{Component, Path, PathBuf};

use bluefin_common::child_file;
use bluefin_kernel_spec::draft::{include_folders, is_included, kernels_in};
use bluefin_kernel_spec::{may_be_include, project_root, source_text};

/// Files and folders that are looked at, and files that are read for launches.
const MOST_ENTRIES: usize = 40_000;
const MOST_READ: usize = 4_000;
/// Bytes of a file that is read.
const MAX_TEXT: u64 = 1 << 20;
/// Bytes of all that are read for launches.
const MOST_TEXT: usize = 64 << 20;
/// Files with launches of a kernel that are taken.
const MOST_LAUNCHING: usize = 16;

/// The files around a source.
pub(super) struct Project {
    /// That of the source.
    folder: PathBuf,
    /// Nothing above it is read.
    root: PathBuf,
    /// From the folder of the source, the nearest first.
    files: Vec<String>,
    /// Folders in which the build file of the source lets a compiler look for headers.
    folders: Vec<PathBuf>,
    /// The files with their texts, once these are asked for.
    texts: OnceCell<Vec<(String, String)>>,
}

impl Project {
    /// Of a source in `folder`. Where nothing says that there is one, it is that folder alone.
    pub(super) fn of(folder: &Path) -> Self {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
        let root = project_root(&folder);
        let files = root.as_ref().map(|root| listed(root, &folder)).unwrap_or_default();
        let beside = |name: &str| source_text(child_file::read(&folder, name, MAX_TEXT).ok()?).ok();
        let folders = include_folders(beside).iter().map(|path| plain(&folder.join(path))).collect();
        Self { root: root.unwrap_or_else(|| folder.clone()), folder, files, folders, texts: OnceCell::new() }
    }

    /// The header that `from`, a path from the source's folder, includes as `include`: its path from there, and its text. That is where the path
    /// leads to, or else what is in a folder that the build file names, or the nearest that a compiler would find in some folder.
    pub(super) fn header(&self, from: &str, include: &str) -> Option<(String, String)> {
        let ending = Path::new(include.trim_start_matches("../"));
        let name = ending.file_name().filter(|_| ending.is_relative())?;
        let exact = relative(&self.folder, &plain(&self.folder.join(from).parent()?.join(include)));
        // The folders above that of the source are a part of it as well.
        let whole = |path: &str| plain(&self.folder.join(path));
        let is_it = |path: &str| Path::new(path).ends_with(name) && whole(path).ends_with(ending);
        let named = self.folders.iter().map(|folder| relative(&self.folder, &plain(&folder.join(include))));
        let near = self.files.iter().filter(|path| is_it(path)).cloned();
        let mut found = std::iter::once(exact).chain(named).chain(near);
        found.find_map(|path| self.read(&path).map(|text| (path, text)))
    }

    /// The texts of other files that name `kernel`, which `source` defines. Where others define one of that name as well, those alone that include
    /// `source`.
    pub(super) fn launching(&self, source: &str, kernel: &str) -> Vec<String> {
        let (mut including, mut others, mut is_only) = (Vec::new(), Vec::new(), true);
        let naming = self.texts().iter().filter(|(path, text)| path != source && has_word(text, kernel));
        for (_, text) in naming {
            is_only &= !text.contains("__global__") || !kernels_in(text).iter().any(|name| name == kernel);
            let of = if is_included(text, source) { &mut including } else { &mut others };
            if of.len() < MOST_LAUNCHING {
                of.push(text.clone());
            }
        }
        including.extend(others.into_iter().filter(|_| is_only));
        including.truncate(MOST_LAUNCHING);
        including
    }

    fn texts(&self) -> &[(String, String)] {
        self.texts.get_or_init(|| {
            let mut left = MOST_TEXT;
            let read = self.files.iter().take(MOST_READ).map_while(|path| {
                let text = self.read(path).unwrap_or_default();
                left = left.checked_sub(text.len())?;
                Some((path.clone(), text))
            });
            read.collect()
        })
    }

    fn read(&self, path: &str) -> Option<String> {
        let name = path.trim_start_matches("../");
        let above = self.folder.ancestors().nth((path.len() - name.len()) / "../".len())?;
        if !above.starts_with(&self.root) || !may_be_include(path) {
            return None;
        }
        // A spec reads through no links.
        source_text(child_file::read(above, name, MAX_TEXT).ok()?).ok()
    }
}

/// Whether `text` has `word`, and not as a part of another one.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let bytes = text.as_bytes();
    text.match_indices(word).any(|(at, _)| {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        !is_part(before) && !is_part(bytes.get(at + word.len()))
    })
}

/// The files below `root` that a source may include or that may launch its kernels, by their paths from `folder`.
fn listed(root: &Path, folder: &Path) -> Vec<String> {
    let (mut found, mut seen) = (Vec::new(), 0);
    let mut waiting = VecDeque::from([root.to_path_buf()]);
    while let Some(at) = waiting.pop_front() {
        for entry in std::fs::read_dir(at).into_iter().flatten().flatten() {
            seen += 1;
            if seen > MOST_ENTRIES {
                waiting.clear();
                break;
            }
            let (path, kind) = (entry.path(), entry.file_type());
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            match kind {
                Ok(kind) if kind.is_dir() && !is_hidden => waiting.push_back(path),
                Ok(kind) if kind.is_file() && !is_hidden => found.push(relative(folder, &path)),
                _ => {}
            }
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
    use std::os::unix::fs::PermissionsExt as _;

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
        assert_eq!(header("k.cu", "src/common.h").as_deref(), Some("../common.h"));
        assert_eq!(header("k.cu", "none.h"), None);
        write("src/k/Makefile", "all:\n\tnvcc -I../../third -I../../../outside k.cu\n");
        let named = Project::of(&folder.path().join("src/k"));
        assert_eq!(named.header("k.cu", "own/tools.h").unwrap().0, "../../third/own/tools.h");
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("other.h"), "not ours").unwrap();
        let other = outside.path().join("other.h");
        for include in [other.to_str().unwrap(), "", "..", "../../../../../../../../etc/hosts.h"] {
            assert_eq!(header("k.cu", include), None, "{include}");
        }
        let up = format!("../../../{}/other.h", outside.path().file_name().unwrap().to_str().unwrap());
        assert_eq!(header("k.cu", &up), None, "above the project");
        assert_eq!(project.launching("k.cu", "scale"), ["scale<8><<<1, 2>>>(p);\n"]);
        // Two kernels of one name.
        write("src/other.cu", "__global__ void scale(int* p) { }\n");
        assert!(Project::of(&folder.path().join("src/k")).launching("k.cu", "scale").is_empty());
        write("src/all.cu", "#include \"k/k.cu\"\nvoid f() { scale<4><<<1, 2>>>(p); }\n");
        assert_eq!(Project::of(&folder.path().join("src/k")).launching("k.cu", "scale").len(), 1);
        // Nothing says that they belong together, whatever lies above them on this machine.
        std::fs::remove_file(folder.path().join("README.md")).unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let alone = Project::of(&folder.path().join("src/k"));
        assert_eq!(alone.header("k.cu", "own/tools.h"), None);
        assert_eq!(alone.header("k.cu", "../common.h"), None);
    }
}
