//! The GPUs that it pretends to have, and which of them a process sees.

use std::fmt;
use std::str::FromStr;

/// A GPU that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// `gfx90a`
    pub arch: String,
    /// Compute units.
    pub cus: u32,
}

impl Gpu {
    /// The list of [`super::variables::DEVICES`].
    ///
    /// # Errors
    /// What was found where a GPU was expected.
    pub fn list(text: &str) -> Result<Vec<Self>, String> {
        text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::parse).collect()
    }

    /// Major, minor and stepping of the architecture: `gfx90a` is 9, 0, 10 and `gfx1100` is 11, 0, 0.
    #[must_use]
    pub fn version(&self) -> (u32, u32, u32) {
        let digits = self.arch.trim_start_matches("gfx");
        let (major, rest) = digits.split_at(digits.len() - 2);
        let digit = |at: usize| u32::from_str_radix(&rest[at..=at], 16).unwrap_or_default();
        (major.parse().unwrap_or_default(), digit(0), digit(1))
    }

    /// Threads that run in lockstep.
    #[must_use]
    pub fn wave(&self) -> u32 {
        if self.version().0 >= 10 { 32 } else { 64 }
    }

    /// Dies that compute.
    #[must_use]
    pub fn xccs(&self) -> u32 {
        if self.arch == "gfx942" { 8 } else { 1 }
    }

    /// What HIP would call it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match (self.arch.as_str(), self.cus) {
            ("gfx90a", 104) => "AMD Instinct MI210",
            ("gfx90a", 110) => "AMD Instinct MI250X",
            ("gfx942", 304) => "AMD Instinct MI300X",
            ("gfx1100", _) => "AMD Radeon RX 7900 XTX",
            _ => "AMD Radeon Graphics",
        }
    }
}

/// As bluefin's targets: `gfx90a-104`.
impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.arch, self.cus)
    }
}

impl FromStr for Gpu {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let gpu = text.rsplit_once('-').and_then(|(arch, cus)| {
            let digits = arch.strip_prefix("gfx")?;
            let known = digits.len() >= 3 && digits.bytes().all(|byte| byte.is_ascii_alphanumeric());
            known.then_some(Self { arch: arch.to_string(), cus: cus.parse().ok()? })
        });
        gpu.ok_or_else(|| format!("GPU: found {text:?}, expected gfx…-<CUs> (gfx90a-104)"))
    }
}

/// KFD's `unique_id` of the GPU at `index` of the list of a [machine](super::variables::MACHINE).
#[must_use]
pub fn unique_id(machine: u16, index: usize) -> u64 {
    0x0b1e_f100_0000_0000 + (u64::from(machine) << 8) + index as u64
}

/// The same as ROCm prints it behind `GPU-`: 16 hexadecimal digits.
#[must_use]
pub fn uuid(machine: u16, index: usize) -> String {
    format!("{:016x}", unique_id(machine, index))
}

/// PCI bus of the GPU at `index`; domain, device and function are 0.
#[must_use]
pub fn pci_bus(index: usize) -> u32 {
    index as u32 + 3
}

/// Indices into `uuids` of those that a process sees, in its order: `ROCR_VISIBLE_DEVICES` selects from all,
/// `HIP_VISIBLE_DEVICES` from what that left. As in ROCm, a list ends at its first word that names no GPU.
#[must_use]
pub fn visible(uuids: &[String], rocr: Option<&str>, hip: Option<&str>) -> Vec<usize> {
    let select = |from: Vec<usize>, list: Option<&str>| {
        let Some(list) = list else { return from };
        let find = |word: &str| match word.trim().strip_prefix("GPU-") {
            Some(uuid) => from.iter().copied().find(|index| uuids[*index].eq_ignore_ascii_case(uuid)),
            None => word.trim().parse().ok().and_then(|index: usize| from.get(index).copied()),
        };
        list.split(',').map_while(find).collect()
    };
    select(select((0..uuids.len()).collect(), rocr), hip)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures() {
        let version = |text: &str| text.parse::<Gpu>().unwrap().version();
        assert_eq!(version("gfx90a-104"), (9, 0, 10));
        assert_eq!(version("gfx942-304"), (9, 4, 2));
        assert_eq!(version("gfx1201-32"), (12, 0, 1));
        assert!("gfx90a".parse::<Gpu>().is_err() && "sm_90-132".parse::<Gpu>().is_err());
        assert_eq!(Gpu::list("").unwrap(), []);
        assert_eq!(Gpu::list("gfx90a-104, gfx942-304").unwrap().len(), 2);
    }

    #[test]
    fn visible_devices() {
        let uuids: Vec<String> = (0..4).map(|index| uuid(0, index)).collect();
        let seen = |rocr, hip| visible(&uuids, rocr, hip);
        assert_eq!(seen(None, None), [0, 1, 2, 3]);
        assert_eq!(seen(Some("2,3"), None), [2, 3]);
        assert_eq!(seen(Some("2,3"), Some("1")), [3]);
        assert_eq!(seen(None, Some("GPU-0b1ef10000000002,0")), [2, 0]);
        assert_eq!(seen(None, Some("1,9,0")), [1]);
        assert_eq!(seen(None, Some("")), []);
    }
}
