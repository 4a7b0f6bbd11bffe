//! The files that a process may touch, where the kernel has Landlock: a compiler reads the system's folders and its own, and writes where it
//! works. A source can include any file otherwise, and finds what it reads in its diagnostics.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, Scope, path_beneath_rules,
};

/// What is asked of the kernel; an older one does what it can.
const ASKED: ABI = ABI::V6;

/// Programs, libraries and headers, and what tells of the processor. None of it is private, and nothing of it is written.
const SYSTEM: [&str; 22] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/etc/alternatives",
    "/etc/clang",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/sys/devices/system/cpu",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
];

/// Whether the kernel has Landlock.
#[must_use]
pub fn can_be_confined() -> bool {
    let strict = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    strict.handle_access(AccessFs::from_all(ABI::V1)).and_then(Ruleset::create).is_ok()
}

/// Whether signals of a confined process reach no other: since Linux 6.12.
pub(super) fn keeps_signals() -> bool {
    let strict = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    strict.scope(Scope::Signal).and_then(Ruleset::create).is_ok()
}

/// From now on this thread, and what it becomes, has no network and reaches no other process. With `readable` it reads that and
/// the system's folders alone, and writes into the folder that it is in. What the kernel can not do of it is left out.
pub(super) fn confine(readable: Option<&[PathBuf]>) -> Result<(), RulesetError> {
    let (read, all) = (AccessFs::from_read(ASKED), AccessFs::from_all(ASKED));
    let ruleset = Ruleset::default().handle_access(AccessNet::from_all(ASKED))?.scope(Scope::from_all(ASKED))?;
    let Some(readable) = readable else {
        ruleset.create()?.restrict_self()?;
        return Ok(());
    };
    ruleset
        .handle_access(all)?
        .create()?
        .add_rules(path_beneath_rules(SYSTEM, read))?
        .add_rules(path_beneath_rules(readable, read))?
        .add_rules(path_beneath_rules([".", "/dev/null"], all))?
        .restrict_self()?;
    Ok(())
}

/// What belongs to the compiler at `program`: the folder that it is installed in. Of one in somebody's home, or at the root,
/// only the parts that compilers have.
#[must_use]
pub fn own(program: &Path) -> Vec<PathBuf> {
    let program = program.canonicalize().unwrap_or_else(|_| program.to_path_buf());
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let holds_more = |folder: &Path| {
        let above = folder.parent();
        above.is_none()
            || above == Some(Path::new("/home"))
            || folder == Path::new("/root")
            || Some(folder) == home.as_deref()
    };
    let Some(folder) = program.parent() else { return vec![program] };
    match folder.parent() {
        Some(prefix) if folder.ends_with("bin") && !holds_more(prefix) => vec![prefix.to_path_buf()],
        Some(prefix) if folder.ends_with("bin") => {
            ["bin", "lib", "lib64", "libexec", "include"].iter().map(|part| prefix.join(part)).collect()
        }
        _ if holds_more(folder) => vec![program],
        _ => vec![folder.to_path_buf()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_brings_its_folder_and_no_home() {
        let of = |program: &str| own(Path::new(program));
        assert_eq!(of("/software/llvm-19/bin/clang++"), [Path::new("/software/llvm-19")]);
        assert_eq!(of("/srv/cc/cc"), [Path::new("/srv/cc")]);
        assert_eq!(of("/home/somebody/cc"), [Path::new("/home/somebody/cc")]);
        let parts = of("/home/somebody/bin/cc");
        assert!(parts.contains(&"/home/somebody/bin".into()) && parts.contains(&"/home/somebody/lib".into()));
        for program in ["/home/somebody/bin/cc", "/root/bin/cc", "/bin2/cc", "/cc"] {
            let folders = of(program);
            let private = ["/", "/root", "/home", "/home/somebody"].map(PathBuf::from);
            assert!(folders.iter().all(|folder| !private.contains(folder)), "{program}: {folders:?}");
        }
    }
}
