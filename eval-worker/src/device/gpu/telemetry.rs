//! Temperature, power and clock of a device while it works: NVML for NVIDIA, sysfs for AMD. All of it may be missing.

use std::cell::OnceCell;

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};

use super::interface::Interface;
use super::sysfs::Amd;

/// NVML by the names that the driver installs; the first is that of machines without the development package.
fn nvml() -> Option<Box<Nvml>> {
    let folders = ["", "/usr/local/nvidia/lib64/", "/usr/lib/x86_64-linux-gnu/"];
    folders.iter().find_map(|folder| {
        let path = std::ffi::OsString::from(format!("{folder}libnvidia-ml.so.1"));
        Nvml::builder().lib_path(&path).init().ok().map(Box::new)
    })
}

/// Version of NVIDIA's kernel module, `580.65.06`.
pub(super) fn nvidia_driver() -> Option<String> {
    // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 …"
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    let is_version = |word: &&str| word.contains('.') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.split_whitespace().find(is_version).map(|version| format!("NVIDIA {version}"))
}

/// How hot a device is, and what it draws.
#[derive(Clone, Copy, Default)]
pub(super) struct Heat {
    pub(super) temperature_c: Option<i16>,
    pub(super) power_w: Option<u32>,
}

/// What is measured besides times.
pub(super) enum Telemetry {
    Amd(Amd),
    Nvidia {
        /// Opened when it is first asked, since that takes tens of milliseconds.
        nvml: OnceCell<Option<Box<Nvml>>>,
        uuid: String,
    },
}

impl Telemetry {
    pub(super) fn new(interface: Interface, pci: &str, uuid: &str) -> Self {
        match interface {
            Interface::Hip => Self::Amd(Amd::at(pci)),
            Interface::Cuda => Self::Nvidia { nvml: OnceCell::new(), uuid: uuid.to_string() },
        }
    }

    pub(super) fn heat(&self) -> Heat {
        match self {
            Self::Amd(amd) => Heat { temperature_c: amd.temperature_c(), power_w: amd.power_w() },
            Self::Nvidia { nvml: cell, uuid } => {
                let Some(nvml) = cell.get_or_init(nvml) else { return Heat::default() };
                let Ok(device) = nvml.device_by_uuid(uuid.as_str()) else { return Heat::default() };
                let temperature = device.temperature(TemperatureSensor::Gpu).ok();
                let power_w = device.power_usage().ok().map(|milliwatts| milliwatts / 1000);
                Heat { temperature_c: temperature.and_then(|degrees| i16::try_from(degrees).ok()), power_w }
            }
        }
    }

    /// Clock of the compute units at this moment in MHz, for devices that can not measure it themselves.
    pub(super) fn clock_mhz(&self) -> Option<f32> {
        match self {
            Self::Amd(amd) => amd.clock_mhz(),
            Self::Nvidia { nvml: cell, uuid } => {
                let device = cell.get_or_init(nvml).as_ref()?.device_by_uuid(uuid.as_str()).ok()?;
                device.clock_info(Clock::SM).ok().map(|mhz| mhz as f32)
            }
        }
    }
}
