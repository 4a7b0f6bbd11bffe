//! What a GPU says of itself.

use std::ffi::{CStr, c_char, c_int};

use bluefin_common::arch;
use bluefin_common::kfd;
use bluefin_common::target::Target;

use super::super::DeviceError;
use super::super::info::DeviceInfo;
use super::interface::Interface;
use super::library::{Runtime, Special};
use super::sysfs::{self, Amd};
use super::{cuda, hip, telemetry};

/// A device and what is not for people: its place among the others and its cache.
pub(super) struct Facts {
    pub(super) info: DeviceInfo,
    pub(super) target: Target,
    /// Size of the last-level cache in bytes.
    pub(super) cache_bytes: u64,
}

impl Runtime {
    pub(super) fn count(&self) -> Result<i32, DeviceError> {
        let mut count = 0;
        // SAFETY: a number is written.
        let code = unsafe { (self.calls.count)(&mut count) };
        // 100: there is none, as the two interfaces say it.
        if code == 100 {
            return Ok(0);
        }
        self.check("count devices", code)?;
        Ok(count)
    }

    /// Asks the device of this number about everything.
    pub(super) fn facts(&self, ordinal: i32) -> Result<Facts, DeviceError> {
        let mut device = 0;
        // SAFETY: a number is written.
        self.check("get device", unsafe { (self.calls.device)(&mut device, ordinal) })?;
        let numbers = match self.interface() {
            Interface::Cuda => &cuda::ATTRIBUTES,
            Interface::Hip => &hip::ATTRIBUTES,
        };
        let attribute = |number| -> Result<u32, DeviceError> {
            let mut value = 0;
            // SAFETY: a number is written.
            self.check("get attribute", unsafe { (self.calls.attribute)(&mut value, number, device) })?;
            Ok(u32::try_from(value).unwrap_or_default())
        };
        let name = self.text("get name", |text, length| {
            // SAFETY: at most `length` bytes are written.
            unsafe { (self.calls.name)(text, length, device) }
        })?;
        let pci = self.text("get PCI address", |text, length| {
            // SAFETY: as above.
            unsafe { (self.calls.pci)(text, length, device) }
        });
        let pci = pci.unwrap_or_default().to_ascii_lowercase();
        let mut bytes = [0; 16];
        // SAFETY: 16 bytes are written.
        let known = self.check("get UUID", unsafe { (self.calls.uuid)(&mut bytes, device) }).is_ok();
        let mut memory_bytes = 0;
        // SAFETY: a number is written.
        self.check("get memory", unsafe { (self.calls.total_memory)(&mut memory_bytes, device) })?;

        let units = attribute(numbers.units)?;
        let clock_mhz = attribute(numbers.clock).ok().map(|khz| khz / 1000).filter(|mhz| *mhz > 0);
        let memory_clock_mhz = attribute(numbers.memory_clock).ok().map(|khz| khz / 1000).filter(|mhz| *mhz > 0);
        let (arch, uuid, partition) = match self.interface() {
            Interface::Cuda => {
                let arch = format!("sm_{}{}", attribute(numbers.major)?, attribute(numbers.minor)?);
                // Slices of a device are named as such where they are selected.
                let kind = if name.contains("MIG") { "MIG" } else { "GPU" };
                (arch, cuda_uuid(kind, &bytes), None)
            }
            Interface::Hip => {
                let amd = Amd::at(&pci);
                (hip_arch(&pci)?, hip_uuid(&bytes), amd.partition())
            }
        };
        let text = format!("{arch}-{units}");
        let target: Target = text.parse().map_err(|error| DeviceError::Lost(format!("{name}: {error}")))?;
        let cache_bytes =
            u64::from(attribute(numbers.cache)?).max(arch::of(&arch).map_or(0, |known| known.memory_side_cache));
        let info = DeviceInfo {
            device: format!("{}:{ordinal}", self.interface().name()),
            name,
            target: target.to_string(),
            memory_bytes: memory_bytes as u64,
            driver: self.driver(),
            runtime: self.runtime(),
            clock_mhz,
            memory_clock_mhz,
            partition,
            uuid: uuid.filter(|_| known).unwrap_or_default(),
            pci,
        };
        Ok(Facts { info, target, cache_bytes })
    }

    /// Version of the kernel's driver, as far as it is known.
    fn driver(&self) -> String {
        match self.interface() {
            Interface::Cuda => telemetry::nvidia_driver(),
            Interface::Hip => sysfs::driver_version(),
        }
        .unwrap_or_default()
    }

    /// Version of the library: what the driver supports of CUDA, or HIP's run-time.
    fn runtime(&self) -> String {
        match &self.special {
            Special::Cuda(_) => {
                let mut version = 0;
                // SAFETY: a number is written.
                let code = unsafe { (self.calls.driver_version)(&mut version) };
                // 1000 times the major version and 10 times the minor one.
                let known = (code == 0).then(|| format!("CUDA {}.{}", version / 1000, version % 1000 / 10));
                known.unwrap_or_default()
            }
            Special::Hip(special) => special.version().map(|version| format!("HIP {version}")).unwrap_or_default(),
        }
    }

    fn text(&self, what: &'static str, call: impl FnOnce(*mut c_char, c_int) -> c_int) -> Result<String, DeviceError> {
        let mut bytes = [0_u8; 256];
        self.check(what, call(bytes.as_mut_ptr().cast(), 255))?;
        Ok(CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().trim().to_string()).unwrap_or_default())
    }
}

/// `GPU-6a1f…`, as `nvidia-smi -L` prints it.
fn cuda_uuid(kind: &str, bytes: &[u8; 16]) -> Option<String> {
    if *bytes == [0; 16] {
        return None;
    }
    let digits = hex(bytes);
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    Some(format!("{kind}-{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)))
}

/// `GPU-` and 16 digits, as `rocminfo` prints it: HIP gives the digits themselves. Some GPUs have none.
fn hip_uuid(bytes: &[u8; 16]) -> Option<String> {
    let digits = std::str::from_utf8(bytes).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
    match digits {
        Some(digits) if digits.bytes().any(|byte| byte != b'0') => Some(format!("GPU-{}", digits.to_ascii_lowercase())),
        _ => None,
    }
}

/// What KFD's topology says of the GPU at `pci`; `BLUEFIN_HIP_ARCH` where a container hides the topology.
fn hip_arch(pci: &str) -> Result<String, DeviceError> {
    if let Some(arch) = std::env::var("BLUEFIN_HIP_ARCH").ok().filter(|arch| !arch.is_empty()) {
        return Ok(arch);
    }
    sysfs::arch(&kfd::topology(), pci).map_err(DeviceError::Lost)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids() {
        let bytes = [0x6a, 0x1f, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13];
        assert_eq!(cuda_uuid("GPU", &bytes).unwrap(), "GPU-6a1f0001-0203-0405-0607-08090a0b0c0d");
        assert_eq!(cuda_uuid("GPU", &[0; 16]), None);
        assert_eq!(hip_uuid(b"0b1ef10000000001").unwrap(), "GPU-0b1ef10000000001");
        assert_eq!(hip_uuid(b"0000000000000000"), None);
        assert_eq!(hip_uuid(&[0; 16]), None);
    }
}
