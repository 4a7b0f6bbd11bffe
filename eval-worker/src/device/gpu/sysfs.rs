//! What Linux says of AMD's GPUs: their architecture, clocks, temperature, power and partitions.

use std::fs;
use std::path::{Path, PathBuf};

use bluefin_common::kfd;

/// The version of AMD's kernel module; the one that is part of the kernel has none.
pub fn driver_version() -> Option<String> {
    fs::read_to_string("/sys/module/amdgpu/version").ok().map(|version| format!("amdgpu {}", version.trim()))
}

/// Architecture of the GPU at the PCI address `pci` (`0000:c1:00.0`), by the nodes of KFD's topology in `folder`.
///
/// # Errors
/// What is missing, for people.
pub(super) fn arch(folder: &Path, pci: &str) -> Result<String, String> {
    let shown = folder.display();
    let nodes = kfd::nodes(folder).map_err(|error| {
        format!("{shown}: {error}; expected KFD's topology, which names the architecture (or set BLUEFIN_HIP_ARCH)")
    })?;
    let place = location(pci);
    let here = nodes.iter().find(|node| place == Some((node.domain, node.location)));
    // One architecture is no question, wherever its GPUs are.
    let first = nodes.first().filter(|first| nodes.iter().all(|node| node.arch == first.arch));
    here.or(first).map(|node| node.arch.clone()).ok_or_else(|| format!("{shown}: found no GPU at {pci}"))
}

/// Domain and KFD's `location_id` of a PCI address: the bus shifted by 8, and device and function.
fn location(pci: &str) -> Option<(u64, u64)> {
    let (domain, rest) = pci.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (device, function) = rest.split_once('.')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(domain)?, number(bus)? << 8 | number(device)? << 3 | number(function)?))
}

/// The files of one GPU.
pub(super) struct Amd {
    folder: PathBuf,
    monitor: Option<PathBuf>,
}

impl Amd {
    /// The GPU at the PCI address `pci`.
    pub(super) fn at(pci: &str) -> Self {
        let folder = std::env::var_os("BLUEFIN_PCI_DEVICES").filter(|path| !path.is_empty());
        let folder = folder.map_or_else(|| PathBuf::from("/sys/bus/pci/devices"), PathBuf::from).join(pci);
        let monitors = fs::read_dir(folder.join("hwmon"));
        let monitor = monitors.ok().and_then(|mut monitors| Some(monitors.next()?.ok()?.path()));
        Self { folder, monitor }
    }

    /// Compute and memory partition, as `SPX, NPS1`; `None` for GPUs that have none.
    pub(super) fn partition(&self) -> Option<String> {
        let read = |name: &str| fs::read_to_string(self.folder.join(name)).ok().map(|text| text.trim().to_string());
        match (read("current_compute_partition"), read("current_memory_partition")) {
            (Some(compute), Some(memory)) => Some(format!("{compute}, {memory}")),
            (one, other) => one.or(other),
        }
    }

    pub(super) fn temperature_c(&self) -> Option<i16> {
        i16::try_from(self.reading("temp1_input")? / 1000).ok()
    }

    pub(super) fn power_w(&self) -> Option<u32> {
        let microwatts = self.reading("power1_average").or_else(|| self.reading("power1_input"))?;
        u32::try_from(microwatts / 1_000_000).ok()
    }

    /// Clock of the compute units now: the monitor's reading, else the level that is starred.
    pub(super) fn clock_mhz(&self) -> Option<f32> {
        if let Some(hertz) = self.reading("freq1_input").filter(|hertz| *hertz > 0) {
            return Some(hertz as f32 / 1e6);
        }
        starred_level(&fs::read_to_string(self.folder.join("pp_dpm_sclk")).ok()?)
    }

    fn reading(&self, name: &str) -> Option<i64> {
        fs::read_to_string(self.monitor.as_ref()?.join(name)).ok()?.trim().parse().ok()
    }
}

/// `1: 1700Mhz *`
fn starred_level(levels: &str) -> Option<f32> {
    let line = levels.lines().find_map(|line| line.trim().strip_suffix('*'))?;
    let value = line.split_once(':')?.1.trim().to_ascii_lowercase();
    value.strip_suffix("mhz")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_node_at_the_address() {
        let folder = tempfile::tempdir().unwrap();
        let node = |index: u32, text: &str| {
            let node = folder.path().join("nodes").join(index.to_string());
            fs::create_dir_all(&node).unwrap();
            fs::write(node.join("properties"), text).unwrap();
        };
        node(0, "simd_count 0\ngfx_target_version 0\nlocation_id 0\n");
        node(1, "gfx_target_version 90010\nlocation_id 49408\ndomain 0\n");
        assert_eq!(arch(folder.path(), "0000:ff:00.0").unwrap(), "gfx90a", "there is no other");
        node(2, "gfx_target_version 110000\nlocation_id 768\ndomain 0\n");
        assert_eq!(arch(folder.path(), "0000:c1:00.0").unwrap(), "gfx90a");
        assert_eq!(arch(folder.path(), "0000:03:00.0").unwrap(), "gfx1100");
        assert!(arch(folder.path(), "0000:04:00.0").unwrap_err().contains("found no GPU at 0000:04:00.0"));
        assert!(arch(&folder.path().join("x"), "0000:04:00.0").unwrap_err().contains("No such file"));
    }

    #[test]
    fn levels() {
        assert_eq!(starred_level("0: 500Mhz\n1: 1700Mhz *\n"), Some(1700.0));
        assert_eq!(starred_level("0: 500Mhz\n"), None);
    }
}
