//! Files that a child process made: the only way in which its parent reads them.
//!
//! A child runs what others wrote, and may put anything in the place of a file that its parent expects: a link to a file that
//! only the parent may read, a FIFO that nobody writes to, a device without end. Nothing of the kind is opened, and no more is
//! read than was asked for. What a kernel spec names beside it is read in the same way, as its folder may be one that others write.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat, openat2, statat, unlinkat};
use rustix::io::Errno;

/// Why a file of a child is not read.
#[derive(Debug, thiserror::Error)]
pub enum ChildFileError {
    /// There is none.
    #[error("{name}: not there")]
    Missing {
        /// As the parent expects it, in the child's folder.
        name: String,
    },
    /// What has its name is not what was expected.
    #[error("{name}: found {found}, expected a regular file")]
    NotRegular {
        /// As the parent expects it, in the child's folder.
        name: String,
        /// What is there, in words.
        found: &'static str,
    },
    /// It is too large.
    #[error("{name}: more than {limit} bytes")]
    TooLarge {
        /// As the parent expects it, in the child's folder.
        name: String,
        /// Bytes that it may have.
        limit: u64,
    },
    /// The name leads out of the child's folder.
    #[error("{name:?}: not the name of a file in the child's folder")]
    Name {
        /// What stands in its place.
        name: String,
    },
    /// What the system says: a fault of this machine.
    #[error("{name}: {source}")]
    Io {
        /// As the parent expects it, in the child's folder.
        name: String,
        /// What it says.
        source: io::Error,
    },
}

/// For callers that name the file themselves.
impl From<ChildFileError> for io::Error {
    fn from(error: ChildFileError) -> Self {
        match error {
            ChildFileError::Missing { .. } => Self::new(io::ErrorKind::NotFound, "not there"),
            ChildFileError::NotRegular { found, .. } => Self::other(format!("found {found}, expected a regular file")),
            ChildFileError::TooLarge { limit, .. } => {
                Self::other(format!("found a larger file, expected at most {limit} bytes"))
            }
            ChildFileError::Io { source, .. } => source,
            error @ ChildFileError::Name { .. } => Self::other(error.to_string()),
        }
    }
}

/// How a file of a child is opened: a link is not followed, a FIFO is not waited for, and no later child inherits it.
const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// The bytes of the file `name` in `folder`, of which there may be `limit`. The folder is one that the parent made and that the
/// child can not replace; a `name` of more than one part leads through folders of the child.
///
/// # Errors
/// If there is no such file, it is not a regular one or too large; if the system fails.
pub fn read(folder: &Path, name: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>, ChildFileError> {
    let name = name.as_ref();
    let mut bytes = Vec::new();
    let read = open_regular(folder, name)?.take(limit.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|source| ChildFileError::Io { name: shown(name), source })?;
    if bytes.len() as u64 > limit {
        return Err(ChildFileError::TooLarge { name: shown(name), limit });
    }
    Ok(bytes)
}

/// The bytes that the file `name` in `folder` has; none if it is not there or no regular file.
#[must_use]
pub fn size(folder: &Path, name: impl AsRef<Path>) -> u64 {
    let stat = open_folder(folder).and_then(|folder| statat(folder, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW));
    match stat {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
            u64::try_from(stat.st_size).unwrap_or_default()
        }
        _ => 0,
    }
}

/// The names in `folder` that end with `suffix`, sorted, at most `most` of them. None if the child put something else in the place
/// of the folder.
#[must_use]
pub fn names(folder: &Path, suffix: &str, most: usize) -> Vec<PathBuf> {
    let entries = open_folder(folder).and_then(Dir::new).into_iter().flatten().map_while(Result::ok);
    let names = entries.map(|entry| PathBuf::from(OsStr::from_bytes(entry.file_name().to_bytes())));
    let mut names: Vec<PathBuf> =
        names.filter(|name| name.as_os_str().as_bytes().ends_with(suffix.as_bytes())).take(most).collect();
    names.sort();
    names
}

/// Writes the file `name` of `folder` anew, whatever a child has put in its place before.
///
/// # Errors
/// If that fails.
pub fn write(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let folder = open_folder(folder)?;
    match unlinkat(&folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&folder, name, new, Mode::RUSR | Mode::WUSR)?;
    File::from(file).write_all(bytes)
}

/// Opens the regular file `name` in `folder`.
fn open_regular(folder: &Path, name: &Path) -> Result<File, ChildFileError> {
    let mut parts = name.components();
    if !parts.clone().all(|part| matches!(part, Component::Normal(_))) || parts.next().is_none() {
        return Err(ChildFileError::Name { name: shown(name) });
    }
    let refused = |errno: Errno| match errno {
        Errno::NOENT => ChildFileError::Missing { name: shown(name) },
        // A link in its place, or on the way there.
        Errno::LOOP | Errno::NOTDIR | Errno::XDEV => ChildFileError::NotRegular { name: shown(name), found: "a link" },
        // A socket, a device without a driver.
        Errno::NXIO | Errno::NODEV => ChildFileError::NotRegular { name: shown(name), found: "no file" },
        // The child took away the right to read it.
        Errno::ACCESS | Errno::PERM => {
            ChildFileError::NotRegular { name: shown(name), found: "one that is locked away" }
        }
        errno => ChildFileError::Io { name: shown(name), source: errno.into() },
    };
    let folder = open_folder(folder).map_err(refused)?;
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let opened = match openat2(&folder, name, FLAGS, Mode::empty(), beneath) {
        // Before Linux 5.6, or where a container's filter does not know it.
        Err(Errno::NOSYS | Errno::PERM) => open_part_by_part(folder, name),
        opened => opened,
    };
    let file = opened.map_err(refused)?;
    let found = match FileType::from_raw_mode(fstat(&file).map_err(refused)?.st_mode) {
        FileType::RegularFile => return Ok(File::from(file)),
        FileType::Directory => "a folder",
        FileType::Fifo => "a FIFO",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "no file",
    };
    Err(ChildFileError::NotRegular { name: shown(name), found })
}

/// The same without `openat2`: each part of the way by itself, so that none is a link.
fn open_part_by_part(folder: rustix::fd::OwnedFd, name: &Path) -> rustix::io::Result<rustix::fd::OwnedFd> {
    let mut parts = name.components().peekable();
    let mut at = folder;
    while let Some(part) = parts.next() {
        let kind = if parts.peek().is_some() { OFlags::DIRECTORY } else { OFlags::empty() };
        at = openat(&at, part.as_os_str(), FLAGS | kind, Mode::empty())?;
    }
    Ok(at)
}

fn open_folder(folder: &Path) -> rustix::io::Result<rustix::fd::OwnedFd> {
    open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// A name that a child may have chosen, for people.
fn shown(name: &Path) -> String {
    name.to_string_lossy().chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use rustix::fs::{CWD, mknodat};

    use super::*;

    /// Reads `out` of a folder in which a child has done something, with both ways to open it.
    fn after(child: impl Fn(&Path)) -> ChildFileError {
        let folder = tempfile::tempdir().unwrap();
        child(folder.path());
        let opened = open_folder(folder.path()).unwrap();
        if let Ok(file) = open_part_by_part(opened, Path::new("out")) {
            let stat = fstat(&file).unwrap();
            assert_ne!(FileType::from_raw_mode(stat.st_mode), FileType::Symlink);
        }
        read(folder.path(), "out", 100).unwrap_err()
    }

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("deep")).unwrap();
        std::fs::write(folder.path().join("deep/out"), [7; 100]).unwrap();
        assert_eq!(read(folder.path(), "deep/out", 100).unwrap(), [7; 100]);
        assert_eq!(size(folder.path(), "deep/out"), 100);
        let error = read(folder.path(), "deep/out", 99).unwrap_err();
        assert_eq!(error.to_string(), "deep/out: more than 99 bytes");
        assert!(matches!(read(folder.path(), "none", 1), Err(ChildFileError::Missing { .. })));
        assert_eq!(names(folder.path(), "ep", 10), [Path::new("deep")]);
    }

    #[test]
    fn what_is_written_goes_through_no_link() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
        symlink(other.path(), folder.path().join("in")).unwrap();
        write(folder.path(), "in", b"request").unwrap();
        assert_eq!(read(folder.path(), "in", 7).unwrap(), b"request");
        assert_eq!(std::fs::read(other.path()).unwrap(), b"");
        symlink(folder.path(), folder.path().join("deep")).unwrap();
        assert!(write(&folder.path().join("deep"), "in", b"").is_err());
        assert_eq!(names(&folder.path().join("deep"), "", 10), Vec::<PathBuf>::new());
    }

    #[test]
    fn nothing_that_a_child_puts_in_its_place_is_opened() {
        let secret = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(secret.path(), "swordfish").unwrap();
        let link = |to: &Path| {
            let to = to.to_path_buf();
            after(move |folder| symlink(&to, folder.join("out")).unwrap()).to_string()
        };
        for to in [secret.path(), Path::new("/proc/self/environ"), Path::new("/dev/zero"), Path::new("other")] {
            assert_eq!(link(to), "out: found a link, expected a regular file");
        }
        let fifo = after(|folder| {
            mknodat(CWD, folder.join("out"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        });
        assert_eq!(fifo.to_string(), "out: found a FIFO, expected a regular file");
        let folder = after(|folder| std::fs::create_dir(folder.join("out")).unwrap());
        assert_eq!(folder.to_string(), "out: found a folder, expected a regular file");
        let socket = after(|folder| drop(std::os::unix::net::UnixListener::bind(folder.join("out")).unwrap()));
        assert!(matches!(socket, ChildFileError::NotRegular { .. }), "{socket}");
        if !rustix::process::geteuid().is_root() {
            let locked = after(|folder| {
                std::fs::write(folder.join("out"), "").unwrap();
                std::fs::set_permissions(folder.join("out"), std::fs::Permissions::from_mode(0o000)).unwrap();
            });
            assert!(matches!(locked, ChildFileError::NotRegular { .. }), "{locked}");
        }
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(other.path().join("out"), "swordfish").unwrap();
        symlink(other.path(), folder.path().join("deep")).unwrap();
        let error = read(folder.path(), "deep/out", 100).unwrap_err();
        assert!(matches!(error, ChildFileError::NotRegular { .. }), "{error}");
        assert!(open_part_by_part(open_folder(folder.path()).unwrap(), Path::new("deep/out")).is_err());
        assert_eq!(size(folder.path(), "deep"), 0);
        for name in ["", ".", "..", "../out", "/etc/passwd", "a/../../out"] {
            assert!(matches!(read(folder.path(), name, 100), Err(ChildFileError::Name { .. })), "{name}");
        }
        // Nor does a folder that is a link itself.
        assert!(read(&folder.path().join("deep"), "out", 100).is_err());
    }
}
