//! AMD's GPUs as the kernel driver describes them: the nodes of KFD's topology.

use std::io;
use std::path::{Path, PathBuf};

use crate::arch;

/// Where the topology is: what `BLUEFIN_KFD_TOPOLOGY` says, else where the kernel puts it.
#[must_use]
pub fn topology() -> PathBuf {
    let named = std::env::var_os("BLUEFIN_KFD_TOPOLOGY").filter(|path| !path.is_empty());
    named.map_or_else(|| PathBuf::from("/sys/class/kfd/kfd/topology"), PathBuf::from)
}

/// A GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Such as `gfx90a`.
    pub arch: String,
    /// Compute units as a target counts them, which on RDNA are work-group processors of two; `None` where it does not say.
    pub cus: Option<u32>,
    /// 0: none.
    pub unique_id: u64,
    /// Domain of its PCI address.
    pub domain: u64,
    /// Its PCI address without the domain: the bus shifted by 8, and device and function.
    pub location: u64,
}

impl Node {
    /// Reads the file `properties` of a node; `None` if it is no GPU: CPUs are nodes as well, of version 0.
    fn parse(properties: &str) -> Option<Self> {
        let value = |name: &str| -> Option<u64> {
            properties.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
        };
        let version = value("gfx_target_version").filter(|version| *version > 0)?;
        let arch = arch_of(version);
        let cus = value("simd_count").zip(value("simd_per_cu")).and_then(|(all, each)| all.checked_div(each));
        let cus = cus.map(|cus| cus / u64::from(arch::of(&arch).map_or(1, |known| known.cus_of_unit)));
        Some(Self {
            arch,
            cus: cus.and_then(|cus| u32::try_from(cus).ok()).filter(|cus| *cus > 0),
            unique_id: value("unique_id").unwrap_or_default(),
            domain: value("domain").unwrap_or_default(),
            location: value("location_id").unwrap_or_default(),
        })
    }
}

/// 90010 is gfx90a, 110001 is gfx1101: two decimal digits each for minor version and stepping, which are hex in names.
fn arch_of(version: u64) -> String {
    format!("gfx{}{:x}{:x}", version / 10_000, version / 100 % 100, version % 100)
}

/// The GPUs of `topology`, in the order of its nodes.
///
/// # Errors
/// If there is no such folder.
pub fn nodes(topology: &Path) -> io::Result<Vec<Node>> {
    let mut nodes: Vec<(u32, PathBuf)> = std::fs::read_dir(topology.join("nodes"))?
        .flatten()
        .filter_map(|node| Some((node.file_name().to_str()?.parse().ok()?, node.path())))
        .collect();
    nodes.sort();
    let texts = nodes.iter().filter_map(|(_, path)| std::fs::read_to_string(path.join("properties")).ok());
    Ok(texts.filter_map(|text| Node::parse(&text)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_architectures() {
        for (version, name) in [
            (90_006, "gfx906"),
            (90_008, "gfx908"),
            (90_010, "gfx90a"),
            (90_402, "gfx942"),
            (90_500, "gfx950"),
            (100_300, "gfx1030"),
            (110_000, "gfx1100"),
            (120_001, "gfx1201"),
        ] {
            assert_eq!(arch_of(version), name);
        }
    }

    #[test]
    fn properties_of_a_node() {
        let node = |text: &str| Node::parse(text).map(|node| (node.arch, node.cus));
        let named = |name: &str, cus| Some((name.to_string(), cus));
        assert_eq!(node("simd_count 416\nsimd_per_cu 4\ngfx_target_version 90010\n"), named("gfx90a", Some(104)));
        assert_eq!(node("simd_count 144\nsimd_per_cu 2\ngfx_target_version 100300\n"), named("gfx1030", Some(36)));
        assert_eq!(node("simd_count 128\nsimd_per_cu 2\ngfx_target_version 120001\n"), named("gfx1201", Some(32)));
        assert_eq!(node("simd_count 4\nsimd_per_cu 0\ngfx_target_version 90010\n"), named("gfx90a", None));
        assert_eq!((node("cpu_cores_count 64\nsimd_count 0\ngfx_target_version 0\n"), node("")), (None, None));
    }

    #[test]
    fn nodes_are_in_their_order() {
        let topology = tempfile::tempdir().unwrap();
        assert!(nodes(topology.path()).is_err());
        for (name, version) in [("0", 0), ("10", 90_402), ("2", 90_010), ("x", 90_006)] {
            let node = topology.path().join("nodes").join(name);
            std::fs::create_dir_all(&node).unwrap();
            let text = format!("gfx_target_version {version}\nunique_id 7\ndomain 1\nlocation_id 768\n");
            std::fs::write(node.join("properties"), text).unwrap();
        }
        let found = nodes(topology.path()).unwrap();
        assert_eq!(found.iter().map(|node| node.arch.as_str()).collect::<Vec<_>>(), ["gfx90a", "gfx942"]);
        assert_eq!((found[0].unique_id, found[0].domain, found[0].location), (7, 1, 768));
    }
}
