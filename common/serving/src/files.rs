//! Config files that are named on a command line: files, and folders with those of all versions of Triton.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bluefin_common::arch::{self, Vendor};

use crate::engine::Engine;
use crate::error::Error;
use crate::file::Document;
use crate::name::{FileName, NameError};
use crate::version::Version;

/// A file as it was found.
#[derive(Debug)]
pub struct Found {
    /// Where.
    pub path: PathBuf,
    /// Whose it is.
    pub engine: Engine,
    /// What its name says.
    pub name: Result<FileName, NameError>,
    /// The version of Triton that its folder says.
    pub folder: Option<Version>,
    /// What it holds.
    pub document: Result<Document, Error>,
}

impl Found {
    /// Reads a file.
    ///
    /// # Errors
    /// If the system does not let it be read.
    pub fn read(path: &Path, engine: Option<Engine>) -> Result<Self, Error> {
        let document = match Document::read(path) {
            Err(error) if !error.is_of_content() => return Err(error),
            document => document,
        };
        let engine = engine.unwrap_or_else(|| Engine::of_path(path));
        let name = FileName::parse(&name_of(path));
        Ok(Self { path: path.to_path_buf(), engine, name, folder: Version::of_folder(path), document })
    }
}

/// The last part of a path.
#[must_use]
pub fn name_of(path: &Path) -> String {
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Reads files, and of folders all whose names begin as config files do, and those of folders of Triton's versions in them, in the order
/// of their names.
///
/// # Errors
/// If the system does not let one be read, or a folder has none.
pub fn read_all(paths: &[PathBuf], engine: Option<Engine>) -> Result<Vec<Found>, Error> {
    let mut found = Vec::new();
    for path in list(paths)? {
        found.push(Found::read(&path, engine)?);
    }
    Ok(found)
}

/// Whether a name is that of a config of aiter's Triton kernels, such as `gfx942-GEMM-A16W16.json`, or lies in a folder of a GPU's.
#[must_use]
pub fn is_aiters(path: &Path) -> bool {
    let is_gpu = |part: std::path::Component<'_>| {
        let name = part.as_os_str().to_str().and_then(|part| part.split(['-', '_', '.']).next());
        name.is_some_and(|name| arch::is_name(name) && arch::vendor(name) == Some(Vendor::Amd))
    };
    let name = name_of(path).to_ascii_uppercase();
    // One of an engine's with a fault in its name has that told.
    let is_engines = name.starts_with("E=") || name.starts_with("N=");
    !is_engines
        && FileName::parse(&name_of(path)).is_err()
        && path.extension().is_some_and(|extension| extension == "json")
        && path.components().any(is_gpu)
}

/// The files that paths stand for, each once.
///
/// # Errors
/// If the system does not let a folder be read, or one has none.
pub fn list(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let before = files.len();
        let (own, folders) = entries(path)?;
        files.extend(own);
        for folder in folders {
            files.extend(entries(&folder)?.0);
        }
        if files.len() == before {
            return Err(Error::NoFile { path: path.clone() });
        }
    }
    let mut seen = BTreeSet::new();
    files.retain(|path| seen.insert(std::path::absolute(path).unwrap_or_else(|_| path.clone())));
    Ok(files)
}

/// Folders that SGLang's loader takes for those of versions of Triton, and that are of none.
///
/// # Errors
/// If the system does not let a folder be read.
pub fn strange_folders(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut strange = Vec::new();
    for path in paths.iter().filter(|path| path.is_dir()) {
        for folder in entries(path)?.1 {
            if !is_of_version(&folder) {
                strange.push(folder);
            }
        }
    }
    Ok(strange)
}

/// Whether the loader can put a folder in the order of versions, by the numbers in its name.
fn is_of_version(folder: &Path) -> bool {
    let name = name_of(folder);
    let numbers = name.strip_prefix(VERSIONED).unwrap_or_default();
    numbers.split(['_', '.']).all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// What names of folders of versions begin with.
const VERSIONED: &str = "triton_";
/// The folder in the one that SGLANG_MOE_CONFIG_DIR names.
const CONFIGS: &str = "configs";

/// The config files of a folder, also those that are misnamed by their case, and the folders of Triton's versions in it or in its `configs`.
fn entries(folder: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>), Error> {
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for entry in folder.read_dir().map_err(Error::at(folder))? {
        let path = entry.map_err(Error::at(folder))?.path();
        let name = name_of(&path);
        let lower = name.to_ascii_lowercase();
        let begins = lower.starts_with("e=") || lower.starts_with("n=");
        if begins && lower.ends_with(".json") && path.is_file() {
            files.push(path);
        } else if name.starts_with(VERSIONED) && path.is_dir() {
            folders.push(path);
        } else if name == CONFIGS && path.is_dir() {
            let (own, below) = entries(&path)?;
            files.extend(own);
            folders.extend(below);
        }
    }
    files.sort();
    folders.sort();
    Ok((files, folders))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_stands_for_its_files_and_those_of_versions() {
        let folder = tempfile::tempdir().unwrap();
        let error = read_all(&[folder.path().to_path_buf()], None).unwrap_err().to_string();
        assert!(error.contains("found no config file, expected names such as E=8"), "{error}");
        let version = folder.path().join("triton_3_6_0");
        std::fs::create_dir(&version).unwrap();
        std::fs::write(folder.path().join("E=8,N=64,device_name=X.json"), "{").unwrap();
        std::fs::write(folder.path().join("README.md"), "").unwrap();
        std::fs::write(version.join("E=8,N=64,device_name=X_down.json"), "{}").unwrap();
        let found = read_all(&[folder.path().to_path_buf()], None).unwrap();
        let told: Vec<_> =
            found.iter().map(|file| (file.engine, file.folder.is_some(), file.document.is_ok())).collect();
        assert_eq!(told, [(Engine::VLLM, false, false), (Engine::SGLANG, true, true)]);
        assert!(found[1].name.as_ref().unwrap().down);
        // What is named twice is there once.
        let twice = [folder.path().to_path_buf(), found[0].path.clone(), folder.path().join(".")];
        assert_eq!(list(&twice).unwrap().len(), 2);
    }

    #[test]
    fn files_of_aiters_triton_kernels_are_told_apart() {
        let is = |path: &str| is_aiters(Path::new(path));
        assert!(is("configs/gemm/gfx942-GEMM-A16W16-N=1,K=2.json") && is("gfx950/triton/gemm/x/DEFAULT.json"));
        assert!(!is("gfx942/E=8,N=64,device_name=X.json") && !is("DEFAULT.json") && !is("gfx-x.json"));
    }

    #[test]
    fn what_looks_like_a_mistake_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let paths = [folder.path().to_path_buf()];
        for file in ["e=8,n=64,device_name=X.json", "E=8,N=64,device_name=X.JSON", "E=8,N=64,device_name=X.json"] {
            std::fs::write(folder.path().join(file), "{}").unwrap();
        }
        assert_eq!(list(&paths).unwrap().len(), 3);
        for version in ["triton_3_6_0", "triton_abc", "triton_3_5_1+rocm7_1_0"] {
            std::fs::create_dir_all(folder.path().join("configs").join(version)).unwrap();
        }
        let inside = folder.path().join("configs/triton_3_6_0/E=8,N=64,device_name=X.json");
        std::fs::write(&inside, "{}").unwrap();
        assert!(list(&paths).unwrap().contains(&inside), "as SGLANG_MOE_CONFIG_DIR has them");
        let strange: Vec<String> = strange_folders(&paths).unwrap().iter().map(|path| name_of(path)).collect();
        assert_eq!(strange, ["triton_3_5_1+rocm7_1_0", "triton_abc"]);
    }
}
