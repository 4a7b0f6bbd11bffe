//! What of MIOpen and of its GPUs is on this machine.

use std::fmt;
use std::path::{Path, PathBuf};

use bluefin_common::kfd;
use bluefin_common::target::Target;

use crate::Tool;

/// Where ROCm is installed unless somebody says otherwise.
pub const ROCM: &str = "/opt/rocm";

/// Versions of what is installed; `None` where it does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    pub rocm: Option<String>,
    pub miopen: Option<String>,
}

impl Versions {
    /// Reads the versions of the installation at `root`.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let rocm = rocm_version(root).map(|text| text.chars().take(64).collect());
        let miopen = miopen_version(root).or_else(|| library_version(&root.join("lib")));
        Self { rocm, miopen }
    }

    /// Reads the versions of the installation that `program` belongs to, if it lies in the folder `bin` of one.
    #[must_use]
    pub fn of_program(program: &Path) -> Self {
        let program = program.canonicalize().unwrap_or_else(|_| program.to_path_buf());
        let own =
            program.parent().and_then(Path::parent).map(Self::read).filter(|versions| *versions != Self::default());
        own.unwrap_or_else(|| Self::read(Path::new(ROCM)))
    }
}

/// `MIOpen 3.3.0, ROCm 6.3.0`
impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |version: &Option<String>| version.clone().unwrap_or_else(|| "of unknown version".to_string());
        write!(f, "MIOpen {}, ROCm {}", known(&self.miopen), known(&self.rocm))
    }
}

/// The release of ROCm that is at `root`, as it writes it: `6.3.0-39`.
#[must_use]
pub fn rocm_version(root: &Path) -> Option<String> {
    let text = std::fs::read_to_string(root.join(".info/version")).ok()?;
    Some(text.trim().to_string()).filter(|text| !text.is_empty())
}

/// The release of MIOpen below `root`, as its generated header has it: `3.3.0`, with the build's tweak behind another point
/// where the header has one, be it empty.
#[must_use]
pub fn miopen_version(root: &Path) -> Option<String> {
    let header = std::fs::read_to_string(root.join("include/miopen/version.h")).ok()?;
    let field = |name: &str| {
        let value = header.lines().find_map(|line| {
            let mut words = line.split_ascii_whitespace();
            (words.next() == Some("#define") && words.next() == Some(name)).then(|| words.next().unwrap_or_default())
        })?;
        let value = value.trim_matches('"');
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        value.bytes().all(plain).then(|| value.to_string())
    };
    let (major, minor, patch) =
        (field("MIOPEN_VERSION_MAJOR")?, field("MIOPEN_VERSION_MINOR")?, field("MIOPEN_VERSION_PATCH")?);
    let tweak = field("MIOPEN_VERSION_TWEAK").map_or_else(String::new, |tweak| format!(".{tweak}"));
    Some(format!("{major}.{minor}.{patch}{tweak}"))
}

/// The version in the name of the shared library: `libMIOpen.so.1.0.60300`.
fn library_version(folder: &Path) -> Option<String> {
    let names = std::fs::read_dir(folder).ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| Some(name.strip_prefix("libMIOpen.so.")?.to_string())).max_by_key(String::len)
}

/// A GPU as the kernel driver describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// As `HIP_VISIBLE_DEVICES` counts them.
    pub index: usize,
    pub target: Target,
    /// As `HIP_VISIBLE_DEVICES` names it: `GPU-…`; empty where it has none.
    pub uuid: String,
}

/// The AMD GPUs that KFD's `topology` describes, in the order of its nodes.
#[must_use]
pub fn gpus(topology: &Path) -> Vec<Gpu> {
    let nodes = kfd::nodes(topology).unwrap_or_default();
    nodes.iter().filter_map(gpu).enumerate().map(|(index, (target, uuid))| Gpu { index, target, uuid }).collect()
}

/// Those of `topology` that the runtime shows this process, by [`ROCR_VISIBLE`]: all where that names none that is known.
#[must_use]
pub fn shown_here(topology: &Path) -> Vec<Gpu> {
    let all = gpus(topology);
    let seen = visible(&all, std::env::var(ROCR_VISIBLE).ok().as_deref(), None);
    if seen.is_empty() { all } else { seen }
}

/// The variables that show a process some of AMD's GPUs: what HIP heeds, what it takes where that is not set, and what the runtime below it
/// heeds, behind which GPUs are counted anew.
pub const HIP_VISIBLE: &str = "HIP_VISIBLE_DEVICES";
/// See [`HIP_VISIBLE`].
pub const HIP_VISIBLE_ELSE: &str = "CUDA_VISIBLE_DEVICES";
/// See [`HIP_VISIBLE`].
pub const ROCR_VISIBLE: &str = "ROCR_VISIBLE_DEVICES";

/// Those of `all` GPUs that a process sees, in its order, by what `runtime` and `hip` show, the values of [`ROCR_VISIBLE`] and [`HIP_VISIBLE`].
/// Their numbers are those that the latter knows them by.
#[must_use]
pub fn visible(all: &[Gpu], runtime: Option<&str>, hip: Option<&str>) -> Vec<Gpu> {
    let seen = runtime.map_or_else(|| all.to_vec(), |said| shown_by_runtime(all, said));
    let seen: Vec<Gpu> = seen.into_iter().enumerate().map(|(index, gpu)| Gpu { index, ..gpu }).collect();
    hip.filter(|said| !said.is_empty()).map_or_else(|| seen.clone(), |said| shown_by_hip(&seen, said))
}

/// As the runtime below HIP reads a list: numbers as C has them, and beginnings of UUIDs in any case that fit one GPU. It ends at what is unknown and
/// at what comes again, and an empty one shows none.
fn shown_by_runtime(all: &[Gpu], said: &str) -> Vec<Gpu> {
    let named = |name: &str| {
        let name = name.trim().to_ascii_uppercase();
        if name.starts_with("GPU-") {
            let mut fitting = all.iter().filter(|gpu| gpu.uuid.to_ascii_uppercase().starts_with(&name));
            return fitting.next().filter(|_| name.len() > 4 && fitting.next().is_none());
        }
        let (digits, radix) = match name.strip_prefix("0X") {
            Some(digits) => (digits, 16),
            None => (&*name, if name.starts_with('0') { 8 } else { 10 }),
        };
        all.get(usize::from_str_radix(digits, radix).ok()?)
    };
    let mut shown: Vec<Gpu> = Vec::new();
    for name in said.split(',') {
        match named(name) {
            Some(gpu) if shown.iter().all(|other| other.index != gpu.index) => shown.push(gpu.clone()),
            _ => break,
        }
    }
    shown
}

/// As HIP reads a list: decimal numbers, and parts of UUIDs, without blanks. It ends at what is unknown, and what comes again counts once.
fn shown_by_hip(all: &[Gpu], said: &str) -> Vec<Gpu> {
    let named = |name: &str| {
        let by_name = || all.iter().find(|gpu| name.starts_with("GPU-") && gpu.uuid.contains(name));
        all.iter().find(|gpu| gpu.index.to_string() == name).or_else(by_name)
    };
    let mut shown: Vec<Gpu> = Vec::new();
    for gpu in said.split(',').map_while(named) {
        if shown.iter().all(|other| other.index != gpu.index) {
            shown.push(gpu.clone());
        }
    }
    shown
}

/// Target and UUID of a node.
fn gpu(node: &kfd::Node) -> Option<(Target, String)> {
    let uuid = if node.unique_id == 0 { String::new() } else { format!("GPU-{:016x}", node.unique_id) };
    Some((format!("{}-{}", node.arch, node.cus?).parse().ok()?, uuid))
}

/// Where a tool is: where somebody says, or in ROCm's folder, or in PATH.
#[must_use]
pub fn find(tool: Tool, named: Option<&Path>, rocm: &Path) -> Option<PathBuf> {
    if let Some(named) = named {
        return std::path::absolute(named).ok().filter(|path| path.is_file());
    }
    let installed = rocm.join("bin").join(tool.program());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    std::iter::once(installed)
        .chain(folders.iter().map(|folder| folder.join(tool.program())))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_from_what_is_installed() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(Versions::read(root.path()), Versions::default());
        write("lib/libMIOpen.so", "");
        write("lib/libMIOpen.so.1.0.60300", "");
        write(".info/version", "6.3.0-39\n");
        assert_eq!(Versions::read(root.path()).to_string(), "MIOpen 1.0.60300, ROCm 6.3.0-39");
        write(
            "include/miopen/version.h",
            "// x\n#define MIOPEN_VERSION_MAJOR 3\n#define MIOPEN_VERSION_MINOR 3\n#define MIOPEN_VERSION_PATCH 0\n\
             #define MIOPEN_VERSION_TWEAK 2d1fd997\n",
        );
        write("bin/fin", "");
        let versions = Versions::of_program(&root.path().join("bin/fin"));
        assert_eq!(versions.to_string(), "MIOpen 3.3.0.2d1fd997, ROCm 6.3.0-39");
        assert_eq!(find(Tool::Fin, None, root.path()), Some(root.path().join("bin/fin")));
        assert_eq!(find(Tool::Fin, Some(Path::new("/nowhere/fin")), root.path()), None);
        assert_eq!(Versions::default().to_string(), "MIOpen of unknown version, ROCm of unknown version");
    }

    #[test]
    fn what_is_shown_is_counted_anew_below_hip() {
        let gpu = |index| Gpu { index, target: "gfx942-304".parse().unwrap(), uuid: format!("GPU-{index}") };
        let all = [gpu(0), gpu(1), gpu(2)];
        let seen = |runtime, hip| {
            let seen = visible(&all, runtime, hip).into_iter().map(|gpu| format!("{}:{}", gpu.index, gpu.uuid));
            seen.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(seen(None, None), "0:GPU-0 1:GPU-1 2:GPU-2");
        assert_eq!(seen(None, Some("2,GPU-0")), "2:GPU-2 0:GPU-0");
        assert_eq!(seen(None, Some("2, GPU-0")), "2:GPU-2", "HIP leaves no blanks out");
        assert_eq!(seen(None, Some(" 0")), "");
        assert_eq!(seen(None, Some("1,1,0")), "1:GPU-1 0:GPU-0");
        assert_eq!(seen(Some("1,1,0"), None), "0:GPU-1");
        assert_eq!(seen(Some("gpu-2,0x1"), None), "0:GPU-2 1:GPU-1");
        assert_eq!(seen(Some("GPU-"), None), "", "it fits several");
        assert_eq!(seen(Some(""), None), "", "none is shown");
        assert_eq!(seen(Some("GPU-2,1"), None), "0:GPU-2 1:GPU-1");
        assert_eq!(seen(Some("2,1"), Some("1")), "1:GPU-1", "the second of those that are left");
        assert_eq!(seen(Some("1"), Some("1")), "");
        assert_eq!(seen(Some("1,7,0"), None), "0:GPU-1");
    }

    #[test]
    fn gpus_of_the_topology() {
        let root = tempfile::tempdir().unwrap();
        let node = |name: &str, text: &str| {
            let node = root.path().join("nodes").join(name);
            std::fs::create_dir_all(&node).unwrap();
            std::fs::write(node.join("properties"), text).unwrap();
        };
        node("0", "cpu_cores_count 64\nsimd_count 0\ngfx_target_version 0\n");
        node("10", "simd_count 1216\nsimd_per_cu 4\ngfx_target_version 90402\nunique_id 0\n");
        node("2", "simd_count 416\nsimd_per_cu 4\ngfx_target_version 90010\nunique_id 11790358345983562331\n");
        let found: Vec<_> =
            gpus(root.path()).into_iter().map(|gpu| (gpu.index, gpu.target.to_string(), gpu.uuid)).collect();
        let uuid = "GPU-a39fab1eeda3f25b".to_string();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].0, found[0].1.as_str()), (0, "gfx90a-104"));
        assert_eq!(found[0].2.len(), uuid.len());
        assert_eq!(found[1], (1, "gfx942-304".to_string(), String::new()));
        assert_eq!(gpus(Path::new("/nowhere")), []);
    }
}
