//! Which CPU each device's child runs on. Samples are begun by the host, so each child has a CPU to itself, near its device
//! where that is known; what is left over compiles.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rustix::thread::{CpuSet, sched_getaffinity};

/// Device memory that goes with each translator: its context takes some of it.
const BYTES_OF_TRANSLATOR: u64 = 2 << 30;

/// AMD and NVIDIA, as `/sys/bus/pci/devices/*/vendor` has them.
const VENDORS: [&str; 2] = ["0x1002", "0x10de"];

/// Displays, and accelerators without one.
const CLASSES: [&str; 2] = ["0x03", "0x12"];

/// More would start more slowly than they help.
const MOST_TRANSLATORS: usize = 16;

/// CPUs that this process may use, in order.
pub(super) fn allowed_cpus() -> Vec<u32> {
    let Ok(allowed) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).filter_map(|cpu| u32::try_from(cpu).ok()).collect()
}

/// Where the kernel describes what is on the PCI bus.
fn pci_devices() -> PathBuf {
    std::env::var_os("BLUEFIN_PCI_DEVICES").map_or_else(|| PathBuf::from("/sys/bus/pci/devices"), PathBuf::from)
}

/// CPUs that are near the device at this PCI address; none where the machine does not tell.
pub(super) fn near(pci: &str) -> Vec<u32> {
    let file = pci_devices().join(pci.to_lowercase()).join("local_cpulist");
    std::fs::read_to_string(file).map_or_else(|_| Vec::new(), |list| parse(&list))
}

/// PCI addresses of all GPUs of the machine, also of those that a process in a container may not use.
pub(super) fn gpus() -> Vec<String> {
    let folder = pci_devices();
    let says = |address: &str, file: &str, ones: &[&str]| {
        let found = std::fs::read_to_string(folder.join(address).join(file)).unwrap_or_default();
        ones.iter().any(|one| found.starts_with(one))
    };
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let addresses = entries.filter_map(|entry| entry.file_name().into_string().ok());
    addresses.filter(|address| says(address, "vendor", &VENDORS) && says(address, "class", &CLASSES)).collect()
}

/// A list as the kernel writes it: `0-3,8,10-11`.
fn parse(list: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.trim().parse::<u32>().ok().zip(last.trim().parse::<u32>().ok())
    };
    let ranges = list.trim().split(',').filter_map(range).filter(|(_, last)| *last < CpuSet::MAX_CPU as u32);
    ranges.flat_map(|(first, last)| first..=last).collect()
}

/// A CPU for each device, given those near each: the last free one near it, else the last free one, since the first ones
/// serve interrupts and everybody else. Where devices are more than CPUs, some share the last.
pub(super) fn spread(allowed: &[u32], near: &[Vec<u32>]) -> Vec<Option<u32>> {
    let mut taken = BTreeSet::new();
    let mut choose = |near: &Vec<u32>| {
        let free = |cpu: &&u32| !taken.contains(*cpu);
        let nearest = allowed.iter().rev().filter(|cpu| near.contains(cpu)).find(free);
        let chosen = nearest.or_else(|| allowed.iter().rev().find(free)).or(allowed.last()).copied();
        taken.extend(chosen);
        chosen
    };
    near.iter().map(&mut choose).collect()
}

/// CPUs of the children that all GPUs of this machine have or would have, whichever worker serves them: compilers keep off these. None where
/// they are more than a quarter of its CPUs, since not every GPU is served, and compilers are needed.
#[must_use]
pub fn cpus_of_gpus() -> Vec<u32> {
    let mut gpus = gpus();
    gpus.sort();
    let near: Vec<_> = gpus.iter().map(|pci| near(pci)).collect();
    seats_of_gpus(&allowed_cpus(), &near)
}

fn seats_of_gpus(allowed: &[u32], near: &[Vec<u32>]) -> Vec<u32> {
    if near.len() * 4 > allowed.len() {
        return Vec::new();
    }
    spread(allowed, near).into_iter().flatten().collect()
}

/// CPUs that this process may use beside those in `taken`; `None` where that is all of them, or nothing.
#[must_use]
pub fn cpus_left(taken: &[u32]) -> Option<Vec<usize>> {
    let allowed = allowed_cpus();
    let left: Vec<usize> = allowed.iter().filter(|cpu| !taken.contains(cpu)).map(|cpu| *cpu as usize).collect();
    (!left.is_empty() && left.len() < allowed.len()).then_some(left)
}

/// Translators of each of `devices` that have this much memory each, where `spare` CPUs have nothing else to do.
pub(super) fn translators(spare: usize, devices: usize, memory_bytes: u64) -> usize {
    let most = usize::try_from(memory_bytes / BYTES_OF_TRANSLATOR).unwrap_or(usize::MAX).clamp(1, MOST_TRANSLATORS);
    (spare / devices.max(1)).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel() {
        assert_eq!(parse("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse("\n"), [0_u32; 0]);
        assert_eq!(parse("x,0-99999999999,0-4294967295,5"), [5]);
    }

    #[test]
    fn each_device_has_a_cpu_near_it() {
        let allowed: Vec<u32> = (0..8).collect();
        let near = [vec![0, 1, 2, 3], vec![4, 5, 6, 7], vec![0, 1, 2, 3], vec![]];
        assert_eq!(spread(&allowed, &near), [Some(3), Some(7), Some(2), Some(6)]);
        // All near ones are taken.
        assert_eq!(spread(&allowed, &[vec![0], vec![0]]), [Some(0), Some(7)]);
        // More devices than CPUs.
        assert_eq!(spread(&[1, 2], &[vec![], vec![], vec![]]), [Some(2), Some(1), Some(2)]);
        assert_eq!(spread(&[], &[vec![]]), [None]);
    }

    #[test]
    fn compilers_keep_off_the_cpus_of_gpus_where_enough_are_left() {
        let allowed: Vec<u32> = (0..8).collect();
        assert_eq!(seats_of_gpus(&allowed, &[vec![0, 1, 2, 3], vec![4, 5, 6, 7]]), [3, 7]);
        assert_eq!(seats_of_gpus(&allowed, &[vec![], vec![], vec![]]), [0; 0]);
        assert_eq!(seats_of_gpus(&allowed, &[]), [0; 0]);
        let here: Vec<usize> = allowed_cpus().into_iter().map(|cpu| cpu as usize).collect();
        let (last, others) = here.split_last().unwrap();
        let left = cpus_left(&[u32::try_from(*last).unwrap()]);
        assert_eq!(left.unwrap_or_default(), others);
        assert_eq!(cpus_left(&[]), None);
        assert_eq!(cpus_left(&allowed_cpus()), None);
    }

    #[test]
    fn translators_take_what_is_left() {
        assert_eq!(translators(15, 1, 139 << 30), 15);
        assert_eq!(translators(15, 1, 8 << 30), 4);
        assert_eq!(translators(14, 4, 139 << 30), 3);
        assert_eq!(translators(0, 1, 8 << 30), 0);
        assert_eq!(translators(3, 1, 1 << 30), 1);
        assert_eq!(translators(127, 1, 139 << 30), 16);
    }
}
