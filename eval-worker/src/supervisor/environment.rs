//! What children get of this process's environment: how drivers are found and told what to do, and nothing of the fleet. A kernel
//! is somebody else's code, and what a child prints ends up in outcomes.

use std::ffi::{OsStr, OsString};

const NAMES: [&str; 9] = [
    "PATH",
    "LD_LIBRARY_PATH",
    "HOME",
    "TMPDIR",
    "LANG",
    "GPU_DEVICE_ORDINAL",
    "GPU_MAX_HW_QUEUES",
    // Of builds that are measured.
    "LLVM_PROFILE_FILE",
    "RUST_BACKTRACE",
];
const PREFIXES: [&str; 10] =
    ["HIP_", "ROCR_", "HSA_", "ROCM_", "AMD_", "COMGR_", "CUDA_", "NVIDIA_", "MIOPEN_", "BLUEFIN_"];

/// The variables that a child inherits.
pub(crate) fn inherited() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| is_inherited(name))
}

fn is_inherited(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let secret = name.starts_with("BLUEFIN_")
        && ["_URL", "_KEYS", "PASSWORD", "SECRET", "TOKEN"].iter().any(|word| name.contains(word));
    !secret && (NAMES.contains(&&*name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
}

#[cfg(test)]
mod tests {
    use bluefin_common::secrets;

    use super::*;

    #[test]
    fn drivers_are_found_and_secrets_are_not() {
        for name in ["PATH", "HSA_OVERRIDE_GFX_VERSION", "CUDA_VISIBLE_DEVICES", "BLUEFIN_HIP_LIBRARY", "NVIDIA_DRIVER"]
        {
            assert!(is_inherited(OsStr::new(name)), "{name}");
        }
        for name in
            secrets::VARIABLES.into_iter().chain(["AWS_SECRET_ACCESS_KEY", "LD_PRELOAD", "BLUEFIN_PASSWORD", "PGPASS"])
        {
            assert!(!is_inherited(OsStr::new(name)), "{name}");
        }
    }
}
