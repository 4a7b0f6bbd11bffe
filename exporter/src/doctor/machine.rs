//! This machine: its AMD GPUs, as the kernel tells them.

use std::collections::BTreeSet;
use std::path::Path;

use bluefin_common::kfd;

use crate::db::name::Device;

/// The kinds of AMD GPUs that KFD's `topology` has, each once.
#[must_use]
pub fn devices(topology: &Path) -> Vec<Device> {
    let nodes = kfd::nodes(topology).unwrap_or_default();
    let found: BTreeSet<(String, u32)> = nodes.into_iter().filter_map(|node| Some((node.arch, node.cus?))).collect();
    found.into_iter().map(|(id, cus)| Device { id, cus: Some(cus) }).collect()
}
