//! For which architecture a code object was built, so that one for another is told from one that is broken.

use bluefin_common::arch::{self, Vendor};
use bluefin_common::target::Target;

use super::DeviceError;

/// `e_machine` of ELF files.
const MACHINE_CUDA: u16 = 190;
const MACHINE_AMD: u16 = 224;
/// Bytes at the start of PTX in which its target is looked for, behind the compiler's comment.
const PTX_HEAD: usize = 4096;

/// What a code object says that it is for.
enum Built {
    /// The architecture of that name.
    For(String),
    /// One of NVIDIA's; its driver knows which.
    ForNvidia,
}

/// The architecture that `code` says it is for; `None` where it does not say, or in words of tomorrow.
fn built_for(code: &[u8]) -> Option<Built> {
    if code.starts_with(b"\x7fELF") {
        let machine = u16::from_le_bytes(code.get(18..20)?.try_into().ok()?);
        let flags = u32::from_le_bytes(code.get(48..52)?.try_into().ok()?);
        return match machine {
            // The low byte is `EF_AMDGPU_MACH`.
            MACHINE_AMD => arch::of_machine(flags & 0xff).map(|known| Built::For(known.name.to_string())),
            // The driver knows its own; the number moved with a new version of the format.
            MACHINE_CUDA => Some(Built::ForNvidia),
            _ => None,
        };
    }
    let head = String::from_utf8_lossy(code.get(..PTX_HEAD).unwrap_or(code));
    let target = head.lines().find_map(|line| line.trim().strip_prefix(".target"))?;
    let arch: String = target.trim().chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    (arch::vendor(&arch) == Some(Vendor::Nvidia)).then_some(Built::For(arch))
}

/// Refuses a code object that is for something else than `target`.
pub(super) fn check(code: &[u8], target: &Target) -> Result<(), DeviceError> {
    let Some(built) = built_for(code) else { return Ok(()) };
    let here = target.arch();
    let runs = match &built {
        Built::ForNvidia => target.vendor() == Some(Vendor::Nvidia),
        // PTX runs on what it was made for and on all that came after, but for what names one architecture alone.
        Built::For(built) => match (arch::compute_capability(built), arch::compute_capability(here)) {
            (Some((built, false)), Some((here, false))) => built <= here,
            (Some((built, _)), Some((here, _))) => built == here,
            _ => built == here,
        },
    };
    if runs {
        return Ok(());
    }
    let built = match &built {
        Built::ForNvidia => "NVIDIA",
        Built::For(built) => built,
    };
    Err(DeviceError::WrongTarget(format!("code object: found one for {built}, expected one for {}", target.arch())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(machine: u16, flags: u32) -> Vec<u8> {
        let mut code = vec![0; 64];
        code[..4].copy_from_slice(b"\x7fELF");
        code[18..20].copy_from_slice(&machine.to_le_bytes());
        code[48..52].copy_from_slice(&flags.to_le_bytes());
        code
    }

    #[test]
    fn for_another_architecture() {
        let gfx90a = elf(MACHINE_AMD, 0x53f);
        let cubin = elf(MACHINE_CUDA, 0x005a_055a);
        let ptx = |arch: &str| format!("//\n// made by hand\n//\n.version 7.8\n.target {arch}, debug\n").into_bytes();
        for (code, target, right) in [
            (&gfx90a, "gfx90a-104", true),
            (&gfx90a, "gfx942-304", false),
            (&gfx90a, "sm_90-132", false),
            (&gfx90a, "host", false),
            (&cubin, "sm_90-132", true),
            (&cubin, "gfx90a-104", false),
            (&ptx("sm_80"), "sm_90-132", true),
            (&ptx("sm_90a"), "sm_90-132", true),
            (&ptx("sm_90a"), "sm_100-148", false),
            (&ptx("sm_100"), "sm_90-132", false),
            (&ptx("sm_80"), "gfx90a-104", false),
            (&elf(62, 0), "host", true),
            (&elf(MACHINE_AMD, 0xff), "gfx942-304", true),
            (&b"junk".to_vec(), "gfx942-304", true),
            (&b"\x7fELF".to_vec(), "sm_90-132", true),
        ] {
            assert_eq!(check(code, &target.parse().unwrap()).is_ok(), right, "{target}");
        }
        let error = check(&gfx90a, &"gfx942-304".parse().unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "code object: found one for gfx90a, expected one for gfx942");
    }
}
