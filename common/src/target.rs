//! What code is built for, and which queue its evaluations go to.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::arch::{self, Architecture, Vendor};

/// What code is built for: a GPU architecture with its number of compute units, or the machine's own CPU.
///
/// Architectures and CU counts are data, not an enum: a GPU that is not in the table of [`crate::arch`] is taken for its family.
/// Prints as `host`, `gfx90a-104`, `sm_90-132`, in JSON as well; this is also the device class that names the evaluation queue.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// The CPU of the machine that compiles and evaluates.
    Host,
    /// `arch` as the compiler names it (`gfx90a`, `sm_90`), `cus` compute units (AMD) or multiprocessors (NVIDIA).
    Gpu {
        /// `gfx` or `sm_`, then 1 to 16 letters and digits.
        arch: String,
        /// 1 to 65535.
        cus: u32,
    },
}

/// A [`Target`] in messages. One may name an architecture that would lead a path or a queue name astray, so it is not checked yet.
#[derive(Serialize, Deserialize)]
#[serde(rename = "Target")]
enum Unchecked {
    Host,
    Gpu { arch: String, cus: u32 },
}

impl TryFrom<Unchecked> for Target {
    type Error = InvalidTarget;

    fn try_from(fields: Unchecked) -> Result<Self, Self::Error> {
        match fields {
            Unchecked::Host => Ok(Self::Host),
            Unchecked::Gpu { arch, cus } => Self::gpu(&arch, cus)
                .ok_or_else(|| InvalidTarget { found: format!("{arch}-{cus}").chars().take(80).collect() }),
        }
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return serializer.collect_str(self);
        }
        match self {
            Self::Host => Unchecked::Host,
            Self::Gpu { arch, cus } => Unchecked::Gpu { arch: arch.clone(), cus: *cus },
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let target = if deserializer.is_human_readable() {
            String::deserialize(deserializer)?.parse()
        } else {
            Unchecked::deserialize(deserializer)?.try_into()
        };
        target.map_err(de::Error::custom)
    }
}

impl Target {
    /// `None` if no compiler would name an architecture like that, or no GPU has as many units.
    fn gpu(arch: &str, cus: u32) -> Option<Self> {
        (arch::is_name(arch) && (1..=65_535).contains(&cus)).then(|| Self::Gpu { arch: arch.to_string(), cus })
    }

    /// The architecture as the compiler names it; `host` for the CPU.
    #[must_use]
    pub fn arch(&self) -> &str {
        match self {
            Self::Host => "host",
            Self::Gpu { arch, .. } => arch,
        }
    }

    /// Compute units or multiprocessors; 1 for the CPU, whose kernels run on one core.
    #[must_use]
    pub fn cus(&self) -> u32 {
        match self {
            Self::Host => 1,
            Self::Gpu { cus, .. } => *cus,
        }
    }

    /// What is known of the architecture; `None` for the CPU.
    #[must_use]
    pub fn known(&self) -> Option<&'static Architecture> {
        arch::of(self.arch())
    }

    /// Who makes the GPU; `None` for the CPU.
    #[must_use]
    pub fn vendor(&self) -> Option<Vendor> {
        self.known().map(|known| known.vendor)
    }

    /// Threads that run in lockstep: 1 on the CPU.
    #[must_use]
    pub fn wave(&self) -> u32 {
        self.known().map_or(1, Architecture::wave)
    }

    /// MIOpen's literal for the backend in file names (`HIP`); bluefin's own for targets that MIOpen does not know.
    #[must_use]
    pub fn backend(&self) -> &'static str {
        match self.vendor() {
            None => "HOST",
            Some(Vendor::Amd) => "HIP",
            Some(Vendor::Nvidia) => "CUDA",
        }
    }

    /// Base name of MIOpen's database files for this target: [`db_basename`]; the CPU is `host`.
    #[must_use]
    pub fn db_basename(&self) -> String {
        match self {
            Self::Host => "host".to_string(),
            Self::Gpu { arch, cus } => db_basename(arch, *cus),
        }
    }
}

/// Base name of MIOpen's database files for a device with `cus` compute units: `gfx906_60`, `gfx90a68`, `gfx942130`. Devices
/// that MIOpen does not know follow the same rule.
///
/// The CU count follows in decimal behind `_` up to 64, in lowercase hex without separator above (MIOpen `handle.hpp`,
/// `GetDbBasename`).
#[must_use]
pub fn db_basename(id: &str, cus: u32) -> String {
    if cus > 64 { format!("{id}{cus:x}") } else { format!("{id}_{cus}") }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Gpu { arch, cus } => write!(f, "{arch}-{cus}"),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A text that names no target.
#[derive(Debug, thiserror::Error)]
#[error(
    "target: found {found:?}, expected host, gfx…-<CUs> (gfx90a-104), sm_…-<SMs> (sm_90-132) or a GPU by its name (mi300x, h100)"
)]
pub struct InvalidTarget {
    found: String,
}

impl FromStr for Target {
    type Err = InvalidTarget;

    /// Reads what [`Display`](fmt::Display) prints, and names of GPUs that people buy: `rtx4090` is `sm_89-128`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "host" {
            return Ok(Self::Host);
        }
        text.rsplit_once('-')
            .and_then(|(arch, cus)| Self::gpu(arch, cus.parse().ok()?))
            .or_else(|| arch::product(text).and_then(|(known, units)| Self::gpu(known.name, units)))
            .ok_or_else(|| InvalidTarget { found: text.chars().take(80).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basenames_follow_miopen() {
        for (target, name) in [
            ("gfx906-60", "gfx906_60"),
            ("gfx908-120", "gfx90878"),
            ("gfx90a-104", "gfx90a68"),
            ("gfx90a-110", "gfx90a6e"),
            ("gfx942-304", "gfx942130"),
            ("gfx1030-36", "gfx1030_36"),
            ("gfx906-64", "gfx906_64"),
            ("host", "host"),
        ] {
            let parsed: Target = target.parse().unwrap();
            assert_eq!(parsed.db_basename(), name);
            assert_eq!(parsed.to_string(), target);
        }
    }

    #[test]
    fn it_has_one_spelling() {
        for text in ["host", "sm_90-132"] {
            let target: Target = text.parse().unwrap();
            assert_eq!(serde_json::to_value(&target).unwrap(), text);
            assert_eq!(serde_json::from_value::<Target>(text.into()).unwrap(), target);
        }
    }

    #[test]
    fn gpus_have_names_of_their_own() {
        for (text, target) in [
            ("h100", "sm_90-132"),
            ("H100-PCIe", "sm_90-114"),
            ("RTX 3090", "sm_86-82"),
            ("mi300x", "gfx942-304"),
            ("rx7900xtx", "gfx1100-48"),
        ] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), target);
        }
        let error = "rtx9999".parse::<Target>().unwrap_err().to_string();
        assert!(error.contains("a GPU by its name"), "{error}");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "gfx90a", "gfx90a-0", "gfx-4", "sm_90-x", "gfx/../a-4", "cpu"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
        let read = |arch: &str, cus: u32| Target::try_from(Unchecked::Gpu { arch: arch.to_string(), cus });
        assert_eq!(read("gfx90a", 104).unwrap(), "gfx90a-104".parse().unwrap());
        assert!(serde_json::from_str::<Target>("\"gfx90a\"").is_err());
        for (arch, cus) in [("../gfx90a", 104), ("gfx90a", 0), ("gfx90a", 65_536), ("gfx", 1), ("gfx9/a", 4)] {
            assert!(read(arch, cus).is_err(), "{arch}-{cus}");
        }
    }
}
