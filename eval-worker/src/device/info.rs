//! What is told of a device before it is used.

use serde::{Deserialize, Serialize};

/// A device as it is found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceInfo {
    /// `cuda:0`, `hip:1`, `host`: interface and number.
    pub device: String,
    /// Model.
    pub name: String,
    pub target: String,
    pub memory_bytes: u64,
    /// Version of the kernel's driver; empty where it does not tell.
    pub driver: String,
    /// Version of the library that it is driven through.
    pub runtime: String,
    /// Highest clock of the compute units.
    pub clock_mhz: Option<u32>,
    pub memory_clock_mhz: Option<u32>,
    /// Compute and memory partition, for GPUs that have them.
    pub partition: Option<String>,
    /// Empty where the device has none.
    pub uuid: String,
    /// PCI address.
    pub pci: String,
}

/// What one interface finds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listing {
    pub devices: Vec<DeviceInfo>,
    /// What was tried and is not used, and why.
    pub notes: Vec<String>,
}
