//! The source of the kernel, out of the engine that is installed, or bluefin's in its place.

mod parameters;

use std::path::{Path, PathBuf};

use self::parameters::{SGLANG_OF_GROUPS, SGLANG_PARAMETERS, VLLM_OF_GROUPS, VLLM_PARAMETERS};
use crate::engine::Engine;
use crate::error::{Error, Unmade};

/// A file with the kernel, as it is where kernels are compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its text.
    pub text: String,
    /// Whose it is: `vllm 0.33.0`, or that it is bluefin's.
    pub from: String,
    /// Whether it is the engine's.
    pub is_engines: bool,
}

/// Where an engine has its kernel, below the folder that it is installed in, and the parameters as they are handed on.
struct KernelOf {
    engine: Engine,
    file: &'static str,
    parameters: &'static [&'static str],
    /// Of the kernel for weights in groups.
    of_groups: &'static [&'static str],
}

static KERNELS: [KernelOf; 2] = [
    KernelOf {
        engine: Engine::VLLM,
        file: "model_executor/layers/fused_moe/fused_moe.py",
        parameters: &VLLM_PARAMETERS,
        of_groups: &VLLM_OF_GROUPS,
    },
    KernelOf {
        engine: Engine::SGLANG,
        file: "kernels/ops/moe/fused_moe_triton_kernels.py",
        parameters: &SGLANG_PARAMETERS,
        of_groups: &SGLANG_OF_GROUPS,
    },
];

/// Bluefin's.
const OWN: &str = include_str!("../kernels/fused_moe.py");
/// The function.
const FUNCTION: &str = "fused_moe_kernel";
/// The one for weights in groups.
pub(crate) const OF_GROUPS: &str = "fused_moe_kernel_gptq_awq";

impl Source {
    /// Bluefin's own, which says that it is.
    #[must_use]
    pub fn own() -> Self {
        let from = "a kernel of bluefin's own, and no engine's".to_string();
        Self { text: OWN.to_string(), from, is_engines: false }
    }

    /// The engine's in `folder`, which it is installed in: that of its package.
    ///
    /// # Errors
    /// If there is none, or its kernel takes other arguments.
    pub fn installed(engine: Engine, folder: &Path) -> Result<Self, Error> {
        let kernel = KERNELS.iter().find(|kernel| kernel.engine == engine);
        let Some(kernel) = kernel.filter(|kernel| folder.join(kernel.file).is_file()) else {
            let file = kernel.map_or("a kernel", |kernel| kernel.file);
            let expected = format!("{file} in it, as the folder of the package {engine} has it");
            return Err(wrong(folder, "installed", format!("no kernel of {engine}"), expected));
        };
        let path = folder.join(kernel.file);
        let text = std::fs::read_to_string(&path).map_err(Error::at(&path))?;
        check_signature(FUNCTION, &text, kernel.parameters)
            .map_err(|Mismatch { place, found, expected }| wrong(&path, &place, found, expected))?;
        let version = version_of(folder).unwrap_or_else(|| "of unknown version".to_string());
        Ok(Self { text, from: format!("{engine} {version}"), is_engines: true })
    }

    /// Whether its kernel for weights in groups takes the arguments that it is given.
    pub(crate) fn check_groups(&self, engine: Engine) -> Result<(), Unmade> {
        let kernel = KERNELS.iter().find(|kernel| self.is_engines && kernel.engine == engine);
        let parameters = kernel.map_or(VLLM_OF_GROUPS.as_slice(), |kernel| kernel.of_groups);
        check_signature(OF_GROUPS, &self.text, parameters).map_err(|Mismatch { place, found, expected }| Unmade {
            found: format!("{found} in {}: {place}", self.from),
            expected: expected.to_string(),
        })
    }
}

/// The first argument of a kernel that is another one.
struct Mismatch<'a> {
    place: String,
    found: String,
    expected: &'a str,
}

fn wrong(path: &Path, place: &str, found: String, expected: impl Into<String>) -> Error {
    Error::Content { path: path.to_path_buf(), place: place.to_string(), found, expected: expected.into() }
}

/// Names the first argument of the kernel that is another one. Arguments that follow have to have defaults.
fn check_signature<'a>(function: &str, text: &str, parameters: &[&'a str]) -> Result<(), Mismatch<'a>> {
    let Some(found) = parameters_in(function, text) else {
        let (found, expected) = ("no such function".to_string(), "the kernel of a mixture of experts");
        return Err(Mismatch { place: function.to_string(), found, expected });
    };
    let place = |at: usize| format!("argument {} of {function}", at + 1);
    for (at, expected) in parameters.iter().enumerate() {
        match found.get(at) {
            Some((name, _)) if name == expected => {}
            other => {
                let found = other.map_or("none".to_string(), |(name, _)| name.clone());
                return Err(Mismatch { place: place(at), found, expected });
            }
        }
    }
    let needed = found.iter().enumerate().skip(parameters.len()).find(|(_, (_, has_default))| !has_default);
    match needed {
        Some((at, (name, _))) => {
            Err(Mismatch { place: place(at), found: name.clone(), expected: "none, or one with a default" })
        }
        None => Ok(()),
    }
}

/// The names of the kernel's parameters, each with whether it has a default.
fn parameters_in(function: &str, text: &str) -> Option<Vec<(String, bool)>> {
    let (_, after) = text.split_once(&format!("def {function}("))?;
    let (inside, _) = after.split_once("):")?;
    let without_comments: Vec<&str> = inside.lines().map(|line| line.split('#').next().unwrap_or_default()).collect();
    let parameters = without_comments.join(" ");
    let named = parameters.split(',').map(str::trim).filter(|parameter| !parameter.is_empty());
    let name = |parameter: &str| {
        let name = parameter.split([':', '=']).next().unwrap_or_default().trim().to_string();
        (name, parameter.contains('='))
    };
    Some(named.map(name).collect())
}

/// The version that the package in `folder` says: in `_version.py`, or by the folder of its metadata beside it.
fn version_of(folder: &Path) -> Option<String> {
    let text = std::fs::read_to_string(folder.join("_version.py")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("__version__ = ") || line.starts_with("version = "));
    let quoted = |line: &str| line.rsplit('=').next().map(|value| value.trim().trim_matches(['\'', '"']).to_string());
    if let Some(version) =
        line.and_then(quoted).filter(|version| version.starts_with(|first: char| first.is_ascii_digit()))
    {
        return Some(version);
    }
    let name = folder.file_name()?.to_str()?.to_string();
    let beside: Vec<PathBuf> = folder.parent()?.read_dir().ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    beside.iter().find_map(|path| {
        let metadata = path.file_name()?.to_str()?.strip_suffix(".dist-info")?;
        metadata.strip_prefix(&format!("{name}-")).map(str::to_string)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_the_installed_engines() {
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("vllm");
        let none = Source::installed(Engine::VLLM, &package).unwrap_err().to_string();
        assert!(none.contains("installed: found no kernel of vllm, expected model_executor/layers"), "{none}");
        let path = package.join(KERNELS[0].file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::create_dir(folder.path().join("vllm-0.33.0.dist-info")).unwrap();
        std::fs::write(&path, OWN).unwrap();
        let source = Source::installed(Engine::VLLM, &package).unwrap();
        assert_eq!((source.from.as_str(), source.is_engines), ("vllm 0.33.0", true));
        std::fs::write(package.join("_version.py"), "__version__ = version = '0.34.1'\n").unwrap();
        assert_eq!(Source::installed(Engine::VLLM, &package).unwrap().from, "vllm 0.34.1");
        assert!(!Source::own().is_engines);
    }

    #[test]
    fn another_signature_is_told_by_the_argument() {
        let error = |from: &str, to: &str| {
            let text = OWN.replacen(from, to, 1);
            let Mismatch { place, found, expected } = check_signature(FUNCTION, &text, &VLLM_PARAMETERS).err().unwrap();
            format!("{place}: found {found}, expected {expected}")
        };
        let renamed = error(" EM, num_valid_tokens,", " EM, num_tokens,");
        assert_eq!(renamed, "argument 14 of fused_moe_kernel: found num_tokens, expected num_valid_tokens");
        let missing = error("SWAP_AB: tl.constexpr, ", "");
        assert_eq!(missing, "argument 45 of fused_moe_kernel: found USE_TD, expected SWAP_AB");
        let more = error("USE_TD: tl.constexpr = False", "USE_TD: tl.constexpr");
        assert_eq!(more, "argument 46 of fused_moe_kernel: found USE_TD, expected none, or one with a default");
        assert!(error("def fused_moe_kernel(", "def moe(").contains("found no such function"));
        let of_groups = |from: &str, to: &str, is_engines| {
            let source = Source { text: OWN.replacen(from, to, 1), from: "vllm 0.40.0".to_string(), is_engines };
            source.check_groups(Engine::VLLM).map_err(|error| error.to_string())
        };
        assert_eq!(of_groups("", "", false), Ok(()));
        let other = "found size in vllm 0.40.0: argument 28 of fused_moe_kernel_gptq_awq, expected group_size";
        assert_eq!(of_groups("group_size: tl", "size: tl", true), Err(other.to_string()));
        let gone = of_groups("def fused_moe_kernel_gptq_awq(", "def gone(", true).unwrap_err();
        assert!(
            gone.starts_with("found no such function in vllm 0.40.0: fused_moe_kernel_gptq_awq, expected the"),
            "{gone}"
        );
    }
}
