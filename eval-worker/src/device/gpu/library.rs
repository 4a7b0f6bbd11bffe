//! Finds the library of a GPU's driver on this machine, and remembers what it found no use for.

use std::fs;
use std::path::{Path, PathBuf};

use bluefin_common::tensor::Tensor;
use libloading::Library;

use super::super::DeviceError;
use super::super::bindings::{Map, no_maps};
use super::calls::Calls;
use super::error::CallError;
use super::interface::Interface;
use super::resources::Questions;
use super::{cuda, hip};

/// Where driver libraries lie in containers and on systems that do not tell their loader.
const CUDA_FOLDERS: [&str; 4] =
    ["/usr/local/nvidia/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib/wsl/lib"];
/// From the names that development packages have to those of the run-time alone.
const HIP_NAMES: [&str; 4] = ["libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"];

/// An opened driver, initialised.
pub struct Runtime {
    pub(super) calls: Calls,
    pub(super) special: Special,
    pub(super) questions: Questions,
    /// Its file, or the name by which the loader found it.
    pub(super) path: String,
    /// What else was there, and why it is not used.
    pub(super) unused: Vec<String>,
    _library: Library,
}

/// The calls that the two interfaces do not share.
pub(super) enum Special {
    Cuda(cuda::Special),
    Hip(hip::Special),
}

impl Runtime {
    /// Opens the first library that works.
    ///
    /// # Errors
    /// Every library that was tried, and why it is not used.
    pub fn open(interface: Interface) -> Result<Self, Vec<String>> {
        let mut unused = Vec::new();
        let mut candidates = candidates(interface).into_iter();
        while let Some(path) = candidates.next() {
            match Self::load(interface, &path) {
                Ok(runtime) => {
                    let others = candidates.filter(|other| Path::new(other).is_file() && !same_file(other, &path));
                    unused.extend(others.map(|other| format!("{other}: not used, {path} comes first")));
                    return Ok(Self { unused, ..runtime });
                }
                Err(reason) => unused.push(reason),
            }
        }
        unused.dedup();
        Err(unused)
    }

    fn load(interface: Interface, path: &str) -> Result<Self, String> {
        // SAFETY: the libraries of drivers are made to be loaded; one that breaks this process breaks a child.
        let library = unsafe { Library::new(path) }.map_err(|error| format!("{path}: {}", reason(&error, path)))?;
        let lacks = |names: &[&str]| format!("{path}: lacks {}", names.join(", "));
        let cuda = interface == Interface::Cuda;
        let calls = Calls::resolve(&library, cuda).map_err(|missing| lacks(&missing))?;
        let special = if cuda {
            cuda::Special::resolve(&library).map(Special::Cuda)
        } else {
            hip::Special::resolve(&library).map(Special::Hip)
        };
        let special = special.map_err(|missing| lacks(&[missing]))?;
        let questions = Questions::resolve(&library, cuda);
        let runtime = Self { calls, special, questions, path: path.to_string(), unused: Vec::new(), _library: library };
        // SAFETY: no flags are known.
        let initialised = runtime.check("init", unsafe { (runtime.calls.init)(0) });
        initialised.map_err(|error| format!("{path}: {error}"))?;
        Ok(runtime)
    }

    pub(super) fn interface(&self) -> Interface {
        match self.special {
            Special::Cuda(_) => Interface::Cuda,
            Special::Hip(_) => Interface::Hip,
        }
    }

    /// An error if `code` is one.
    pub(super) fn check(&self, call: &'static str, code: i32) -> Result<(), CallError> {
        if code == 0 {
            return Ok(());
        }
        let text = match &self.special {
            Special::Cuda(special) => special.describe(code),
            Special::Hip(special) => special.describe(code),
        };
        Err(CallError { call, code, text })
    }

    /// A map of a tensor whose first element is at `address`.
    pub(super) fn tensor_map(&self, tensor: &Tensor, address: u64) -> Result<Map, DeviceError> {
        match &self.special {
            Special::Cuda(special) => {
                let mut version = 0;
                // SAFETY: a number is written.
                self.check("driver version", unsafe { (self.calls.driver_version)(&mut version) })?;
                let map = special.tensor_map(tensor, address, |code| self.check("encode tensor map", code))?;
                Ok(if version <= cuda::MARKS_SMALL { cuda::unmarked(map, tensor) } else { map })
            }
            Special::Hip(_) => no_maps(tensor, address),
        }
    }

    /// Makes the device of this number the one that this thread's calls are for.
    pub(super) fn open_device(&self, ordinal: i32) -> Result<(), DeviceError> {
        let code = match &self.special {
            Special::Cuda(special) => special.open_device(ordinal),
            Special::Hip(special) => special.open_device(ordinal),
        };
        Ok(self.check("open device", code)?)
    }
}

/// What to try, in order.
fn candidates(interface: Interface) -> Vec<String> {
    let (variable, names): (_, &[&str]) = match interface {
        Interface::Cuda => ("BLUEFIN_CUDA_LIBRARY", &["libcuda.so.1", "libcuda.so"]),
        Interface::Hip => ("BLUEFIN_HIP_LIBRARY", &HIP_NAMES),
    };
    let mut candidates: Vec<String> =
        std::env::var(variable).ok().filter(|path| !path.is_empty()).into_iter().collect();
    candidates.extend(names.iter().map(ToString::to_string));
    let folders = match interface {
        Interface::Cuda => CUDA_FOLDERS.iter().map(PathBuf::from).collect(),
        Interface::Hip => rocm_folders(Path::new("/opt")),
    };
    for folder in folders {
        let files = names.iter().map(|name| folder.join(name)).filter(|file| file.is_file());
        candidates.extend(files.map(|file| file.to_string_lossy().into_owned()));
    }
    candidates
}

/// The library folders of all versions of ROCm in `folder`, the newest first.
fn rocm_folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut versions: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    versions.retain(|name| name.starts_with("rocm"));
    let number = |name: &str| -> Vec<u32> { name.split(|c: char| !c.is_ascii_digit()).flat_map(str::parse).collect() };
    versions.sort_by_key(|name| (name != "rocm", std::cmp::Reverse(number(name))));
    versions.into_iter().map(|name| folder.join(name).join("lib")).collect()
}

fn same_file(a: &str, b: &str) -> bool {
    matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b)
}

/// What the loader says, without the path that it begins with.
fn reason(error: &libloading::Error, path: &str) -> String {
    let text = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    text.strip_prefix(path).map_or(text.as_str(), |rest| rest.trim_start_matches(": ")).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_rocm() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["rocm-6.4.3", "rocm-6.10.0", "rocm", "rocm-5.7.1", "cuda"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let folders = rocm_folders(folder.path());
        let names: Vec<_> =
            folders.iter().map(|path| path.strip_prefix(folder.path()).unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["rocm/lib", "rocm-6.10.0/lib", "rocm-6.4.3/lib", "rocm-5.7.1/lib"]);
    }

    #[test]
    fn what_can_not_be_used_is_named_with_its_reason() {
        let Err(reason) = Runtime::load(Interface::Hip, "libsurely-not-there.so") else { panic!("it is not there") };
        assert!(reason.starts_with("libsurely-not-there.so: cannot open"), "{reason}");
        // A library that is there, and is none of a GPU.
        for (interface, name) in [(Interface::Hip, "hipMalloc"), (Interface::Cuda, "cuMemAlloc_v2")] {
            let Err(reason) = Runtime::load(interface, "libc.so.6") else { panic!("libc is no driver") };
            assert!(reason.starts_with("libc.so.6: lacks ") && reason.contains(name), "{reason}");
        }
    }
}
