//! Which CPU this is.

use std::fs;

use bluefin_common::target::Target;

use super::super::Description;
use super::eviction;
use crate::timing::Caches;

/// Features that change which code compilers make or kernels choose.
const FEATURES: [&str; 22] = [
    "sse4_2",
    "avx",
    "f16c",
    "fma",
    "avx2",
    "avx512f",
    "avx512dq",
    "avx512bw",
    "avx512vl",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "avx_vnni",
    "amx_tile",
    "amx_bf16",
    "amx_int8",
    "asimd",
    "asimdhp",
    "asimddp",
    "bf16",
    "i8mm",
    "sve",
];
/// Assumed where the system does not say.
const USUAL_CACHE: u64 = 32 << 20;

/// The CPU as `/proc/cpuinfo` and sysfs describe it.
pub(super) fn describe() -> Description {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    Description {
        name: name(&cpuinfo),
        target: Target::Host,
        uuid: String::new(),
        memory_bytes: super::memory::total(),
        caches: Caches { bytes: cache_bytes().unwrap_or(USUAL_CACHE), by_line: eviction::BY_LINE },
    }
}

/// Model, its numbers where the model's name may be shared, and features: `AMD EPYC 7763 (25.1.1): sse4_2 avx fma …`
fn name(cpuinfo: &str) -> String {
    let field = |key: &str| {
        cpuinfo
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.trim() == key)
            .map(|(_, v)| v.trim())
    };
    let model = field("model name").unwrap_or(std::env::consts::ARCH);
    let numbers: Vec<_> = ["cpu family", "model", "stepping", "CPU implementer", "CPU part", "CPU variant"]
        .into_iter()
        .filter_map(field)
        .collect();
    let flags = field("flags").or_else(|| field("Features")).unwrap_or_default();
    let features: Vec<_> =
        FEATURES.into_iter().filter(|feature| flags.split_whitespace().any(|f| f == *feature)).collect();
    format!("{model} ({}): {}", numbers.join("."), features.join(" "))
}

/// The largest data cache of the first CPU.
fn cache_bytes() -> Option<u64> {
    let entries = fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    let sizes = entries.flatten().filter_map(|entry| fs::read_to_string(entry.path().join("size")).ok());
    sizes.filter_map(|size| cache_size(&size)).max()
}

/// `32768K` as bytes.
fn cache_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, unit) = match text.strip_suffix('K') {
        Some(digits) => (digits, 1 << 10),
        None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1 << 20)),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let x86 = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC 7763\n\
                   stepping\t: 1\nflags\t\t: fpu sse4_2 avx fma avx2 rdrand\n";
        assert_eq!(name(x86), "AMD EPYC 7763 (25.1.1): sse4_2 avx fma avx2");
        let arm = "processor\t: 0\nFeatures\t: fp asimd sve\nCPU implementer\t: 0x41\nCPU variant\t: 0x1\nCPU part\t: 0xd40\n";
        assert_eq!(name(arm), format!("{} (0x41.0xd40.0x1): asimd sve", std::env::consts::ARCH));
        assert_eq!(name(""), format!("{} (): ", std::env::consts::ARCH));
    }

    #[test]
    fn cache_sizes() {
        assert_eq!(cache_size("32768K\n"), Some(32 << 20));
        assert_eq!(cache_size("8M"), Some(8 << 20));
        assert_eq!(cache_size("x"), None);
        assert!(describe().caches.bytes > 0);
    }
}
