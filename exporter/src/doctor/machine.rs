//! This machine: its AMD GPUs, as the kernel tells them.

use std::collections::BTreeSet;
use std::path::Path;

use crate::db::name::Device;

/// The kinds of AMD GPUs that the kernel lists below `topology`, each once.
#[must_use]
pub fn devices(topology: &Path) -> Vec<Device> {
    let Ok(nodes) = topology.read_dir() else { return Vec::new() };
    let read = |path: &Path| device(&std::fs::read_to_string(path.join("properties")).ok()?);
    let found: BTreeSet<(String, u32)> = nodes.flatten().filter_map(|node| read(&node.path())).collect();
    found.into_iter().map(|(id, cus)| Device { id, cus: Some(cus) }).collect()
}

/// `gfx_target_version 90010` is gfx90a: two digits each for minor and stepping, the stepping in hex.
fn device(properties: &str) -> Option<(String, u32)> {
    let value = |name: &str| {
        properties.lines().find_map(|line| {
            let mut words = line.split_ascii_whitespace();
            (words.next() == Some(name)).then(|| words.next()?.parse::<u32>().ok())?
        })
    };
    // A CPU is a node as well, of version 0.
    let version = value("gfx_target_version").filter(|version| *version > 0)?;
    let (major, minor, stepping) = (version / 10_000, version / 100 % 100, version % 100);
    let cus = value("simd_count")?.checked_div(value("simd_per_cu")?)?;
    (cus > 0).then(|| (format!("gfx{major}{minor:x}{stepping:x}"), cus))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_numbers_are_names() {
        let node = |version: u32, simds: u32, each: u32| {
            device(&format!(
                "cpu_cores_count 0\nsimd_count {simds}\nsimd_per_cu {each}\ngfx_target_version {version}\n"
            ))
        };
        let named = |name: &str, cus| Some((name.to_string(), cus));
        assert_eq!(node(90_010, 416, 4), named("gfx90a", 104));
        assert_eq!(node(90_402, 1216, 4), named("gfx942", 304));
        assert_eq!(node(90_006, 240, 4), named("gfx906", 60));
        assert_eq!(node(100_300, 72, 2), named("gfx1030", 36));
        assert_eq!(node(110_000, 192, 2), named("gfx1100", 96));
        assert_eq!((node(0, 0, 0), node(90_010, 4, 0), device("")), (None, None, None));
    }
}
