//! What kind of file system a path is on, and whether other machines may have it as well.

use std::fmt;
use std::path::Path;

/// A kind of file system that is shared by machines, or may be.
struct Shared {
    /// `f_type` of statfs(2): linux/magic.h, and what file systems outside the kernel say of themselves.
    magic: u64,
    name: &'static str,
    /// MIOpen 3.3 takes it for a network's, too.
    miopen: bool,
}

const SHARED: [Shared; 25] = [
    shared(0x0102_1997, "9P", true),
    shared(0x5346_414f, "AFS", true),
    shared(0x1983_0326, "BeeGFS", true),
    shared(0x00c3_6400, "Ceph", true),
    shared(0xff53_4d42, "CIFS", true),
    shared(0x7375_7245, "Coda", true),
    // sshfs and many others; a local one can not be told from them.
    shared(0x6573_5546, "FUSE", true),
    shared(0x4750_4653, "GPFS", true),
    shared(0x0bd0_0bd0, "Lustre", true),
    shared(0x564c, "NCP", true),
    shared(0x6969, "NFS", true),
    shared(0x7461_636f, "OCFS2", true),
    shared(0x517b, "SMB", true),
    shared(0xfe53_4d42, "SMB2", true),
    shared(0x6163_6673, "ACFS", false),
    shared(0x0116_1970, "GFS2", false),
    shared(0x0131_11a8, "IBRIX", false),
    shared(0x6b41_4653, "kAFS", false),
    shared(0x2003_0528, "OrangeFS", false),
    shared(0xaad7_aaea, "PanFS", false),
    shared(0x7c7c_6673, "Parallels", false),
    shared(0xbeef_dead, "StorNext", false),
    shared(0x786f_4256, "VirtualBox", false),
    shared(0xbacb_acbc, "VMware", false),
    shared(0xa501_fcf5, "VxFS", false),
];

const fn shared(magic: u64, name: &'static str, miopen: bool) -> Shared {
    Shared { magic, name, miopen }
}

/// The kind of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    magic: u64,
}

impl FileSystem {
    /// One that no other machine has.
    pub const LOCAL: Self = Self { magic: 0 };
    /// The one that most clusters share.
    pub const NFS: Self = Self { magic: 0x6969 };

    /// From `f_type` of statfs(2).
    #[must_use]
    pub fn of_magic(magic: u64) -> Self {
        // Sign extension of a 32-bit constant is no part of it.
        Self { magic: magic & 0xffff_ffff }
    }

    /// That of `path`, or of the nearest folder above it that is there; local where the kernel does not tell.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let above = || std::path::absolute(path).ok();
        let found = above().and_then(|path| path.ancestors().find_map(|path| rustix::fs::statfs(path).ok()));
        found.map_or(Self::LOCAL, |stat| Self::of_magic(stat.f_type as u64))
    }

    /// Whether other machines may have it as well.
    #[must_use]
    pub fn is_network(self) -> bool {
        self.shared().is_some()
    }

    /// Whether MIOpen takes it for a network's.
    #[must_use]
    pub fn is_network_to_miopen(self) -> bool {
        self.shared().is_some_and(|shared| shared.miopen)
    }

    fn shared(self) -> Option<&'static Shared> {
        SHARED.iter().find(|shared| shared.magic == self.magic)
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.shared().map_or("local", |shared| shared.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_their_numbers() {
        for (magic, name) in [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0x0bd0_0bd0, "Lustre"), (0x6573_5546, "FUSE")] {
            let kind = FileSystem::of_magic(magic);
            assert!(kind.is_network() && kind.is_network_to_miopen(), "{kind}");
            assert_eq!(kind.to_string(), name);
        }
        // As statfs has it where f_type is 32 bits wide with a sign.
        assert_eq!(FileSystem::of_magic(0xffff_ffff_ff53_4d42).to_string(), "CIFS");
        let gfs2 = FileSystem::of_magic(0x0116_1970);
        assert!(gfs2.is_network() && !gfs2.is_network_to_miopen());
        // ext4, XFS, tmpfs, overlayfs.
        for magic in [0xef53, 0x5846_5342, 0x0102_1994, 0x794c_7630] {
            assert!(!FileSystem::of_magic(magic).is_network(), "{magic:x}");
        }
        assert_eq!(FileSystem::of_magic(0xef53).to_string(), "local");
    }

    #[test]
    fn what_is_not_there_yet_is_where_its_folder_is() {
        // Of its own kind on every machine, and never a network's.
        let proc = FileSystem::of(Path::new("/proc"));
        assert_eq!(proc, FileSystem::of_magic(0x9fa0));
        assert_eq!(FileSystem::of(Path::new("/proc/no/such/file")), proc);
        let here = FileSystem::of(Path::new("."));
        assert_eq!(FileSystem::of(Path::new("no-such-file")), here);
    }
}
