//! Memory of control groups, of both versions: what the groups that this process is in leave it, and how often the kernel
//! killed for want of memory in its own.
//!
//! The files are described in proc_pid_cgroup(5), proc_pid_mountinfo(5), and `cgroup-v1/memory.rst` and `cgroup-v2.rst` of the
//! kernel's admin guide.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

/// The control group of this process and those above it, as far as they are mounted here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlGroup {
    version: Version,
    /// The folder of each, the own one first.
    folders: Vec<PathBuf>,
    /// Counters of the whole machine.
    machine: PathBuf,
}

/// What the tightest of the groups leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes that can be had before the kernel kills someone, or slows everybody down.
    pub available: u64,
    /// Bytes that the group may have.
    pub limit: u64,
    /// Where that is written.
    pub file: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl ControlGroup {
    /// The group of this process. `root` is `/`, or a folder that has `proc` and what is mounted in it.
    #[must_use]
    pub fn of_this_process(root: &Path) -> Self {
        let read = |path: &str| fs::read(root.join(path)).unwrap_or_default();
        let (version, group) = membership(&read("proc/self/cgroup"));
        let folders = match folder(&read("proc/self/mountinfo"), version, &group) {
            Some((mounted, inside)) => inside.ancestors().map(|inside| within(root, &mounted, inside)).collect(),
            None => Vec::new(),
        };
        Self { version, folders, machine: root.join("proc/vmstat") }
    }

    /// What the tightest of the groups leaves; `None` if none has a limit.
    #[must_use]
    pub fn room(&self) -> Option<Room> {
        self.folders.iter().filter_map(|folder| self.version.room(folder)).min_by_key(|room| room.available)
    }

    /// Processes of the group that the kernel killed so far for want of memory, be it the group's or the machine's; those of
    /// the whole machine where the group does not count them.
    #[must_use]
    pub fn kills(&self) -> Option<u64> {
        let file = match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        };
        let mut files = self.folders.iter().map(|folder| folder.join(file)).chain([self.machine.clone()]);
        files.find_map(|file| counter(&file, "oom_kill"))
    }

    /// Whether there were more such kills since there were `before`.
    #[must_use]
    pub fn killed_since(&self, before: Option<u64>) -> bool {
        self.kills().zip(before).is_some_and(|(now, before)| now > before)
    }
}

/// For messages: which memory there is too little of.
impl fmt::Display for ControlGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.room() {
            Some(Room { limit, file, .. }) => write!(f, "its control group may have {limit} bytes, {}", file.display()),
            None => f.write_str("no control group limits it, so it is the machine's memory that ran out"),
        }
    }
}

impl Version {
    fn room(self, folder: &Path) -> Option<Room> {
        let (limits, used, cached): (&[&str], _, _) = match self {
            Self::One => {
                let cached = ["total_active_file", "total_inactive_file"];
                (&["memory.limit_in_bytes"], "memory.usage_in_bytes", cached)
            }
            // Who is above `high` is not killed, but made to wait.
            Self::Two => (&["memory.max", "memory.high"], "memory.current", ["active_file", "inactive_file"]),
        };
        // "max", or in version 1 more than any machine has, is no limit.
        let limit = |file: &&str| Some((number(&folder.join(file))?, folder.join(file)));
        let (limit, file) = limits.iter().filter_map(limit).filter(|(limit, _)| *limit < i64::MAX as u64 / 2).min()?;
        // What files left in memory is given up before anyone is killed.
        let stat = folder.join("memory.stat");
        let cached: u64 = cached.iter().filter_map(|name| counter(&stat, name)).sum();
        let used = number(&folder.join(used))?.saturating_sub(cached);
        Some(Room { available: limit.saturating_sub(used), limit, file })
    }
}

/// The version of the hierarchy that memory is in, and the path of the group there.
fn membership(groups: &[u8]) -> (Version, PathBuf) {
    let mut unified = PathBuf::from("/");
    for line in groups.split(|byte| *byte == b'\n') {
        // A number, controllers, a path, which may have colons.
        let mut fields = line.splitn(3, |byte| *byte == b':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let path = PathBuf::from(OsString::from_vec(path.to_vec()));
        if controllers.split(|byte| *byte == b',').any(|controller| controller == b"memory") {
            return (Version::One, path);
        }
        if controllers.is_empty() {
            unified = path;
        }
    }
    (Version::Two, unified)
}

/// Where the hierarchy of memory is mounted, and the path of `group` from there: empty if the group is not below what is
/// mounted, which a container may have all to itself.
fn folder(mounts: &[u8], version: Version, group: &Path) -> Option<(PathBuf, PathBuf)> {
    let mounts: Vec<_> = mounts.split(|byte| *byte == b'\n').filter_map(|line| mount(line, version)).collect();
    let inside = mounts.iter().filter_map(|(root, point)| {
        let inside = group.strip_prefix(root).ok()?;
        let is_below = inside.components().all(|part| matches!(part, Component::Normal(_)));
        is_below.then(|| (point.clone(), inside.to_path_buf()))
    });
    // The one that shows most of the groups above; of equal ones the first, since others are copies for containers.
    let best = inside.min_by_key(|(_, inside)| Reverse(inside.components().count()));
    best.or_else(|| Some((mounts.first()?.1.clone(), PathBuf::new())))
}

/// Root and mount point of a line of mountinfo, if it is of the hierarchy of memory.
fn mount(line: &[u8], version: Version) -> Option<(PathBuf, PathBuf)> {
    let mut fields = line.split(|byte| *byte == b' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    // Options and optional fields, up to a dash.
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let (kind, options) = (fields.next()?, fields.nth(1)?);
    let is_memory = match version {
        Version::One => kind == b"cgroup" && options.split(|byte| *byte == b',').any(|option| option == b"memory"),
        Version::Two => kind == b"cgroup2",
    };
    is_memory.then(|| (unescaped(root), unescaped(point)))
}

/// A path of mountinfo, in which a blank, a tab, a line feed and a backslash are written in octal.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        let digits =
            (*first == b'\\').then(|| behind.get(..3)).flatten().and_then(|digits| str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = behind.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// `inside` of what is mounted at `point`, seen from `root`.
fn within(root: &Path, point: &Path, inside: &Path) -> PathBuf {
    let point = root.join(point.strip_prefix("/").unwrap_or(point));
    if inside.as_os_str().as_bytes().is_empty() { point } else { point.join(inside) }
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The number behind `name` in a file of lines of a name and a number.
fn counter(file: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    text.lines().find_map(|line| line.split_once(' ').filter(|(found, _)| *found == name)?.1.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A folder with these files.
    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn room(root: &tempfile::TempDir) -> Option<(u64, u64, String)> {
        let Room { available, limit, file } = ControlGroup::of_this_process(root.path()).room()?;
        let file = file.strip_prefix(root.path()).unwrap().display().to_string();
        Some((available, limit, file))
    }

    #[test]
    fn the_tightest_group_of_version_2_counts() {
        const UNIT: &str = "sys/fs/cgroup/system.slice/a\\x2db c.service";
        let of_unit = |file: &str| format!("{UNIT}/{file}");
        let (max, current, events) = (of_unit("memory.max"), of_unit("memory.current"), of_unit("memory.events"));
        let (high, stat) = (of_unit("memory.high"), of_unit("memory.stat"));
        let mut files = vec![
            ("proc/self/cgroup", "0::/system.slice/a\\x2db c.service\n"),
            ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"),
            ("sys/fs/cgroup/system.slice/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/system.slice/memory.current", "524288000\n"),
            (max.as_str(), "max\n"),
            (current.as_str(), "367001600\n"),
            (events.as_str(), "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 0\n"),
        ];
        let slice = "sys/fs/cgroup/system.slice/memory.max".to_string();
        assert_eq!(room(&root(&files)), Some((524 * MIB, 1024 * MIB, slice)));

        // Half of what is used is cache.
        files.extend([(stat.as_str(), "anon 183500800\nactive_file 83500800\ninactive_file 100000000\n")]);
        files[4].1 = "419430400\n";
        assert_eq!(room(&root(&files)), Some((225 * MIB, 400 * MIB, max.clone())));
        files.extend([(high.as_str(), "209715200\n")]);
        assert_eq!(room(&root(&files)), Some((25 * MIB, 200 * MIB, high.clone())));

        let root = root(&files);
        let group = ControlGroup::of_this_process(root.path());
        assert_eq!(group.kills(), Some(2));
        assert!(!group.killed_since(Some(2)) && group.killed_since(Some(1)) && !group.killed_since(None));
        assert!(group.to_string().contains("may have 209715200 bytes"), "{group}");
    }

    #[test]
    fn version_1_beside_version_2() {
        const STEP: &str = "sys/fs/cgroup/memory/slurm/uid_0/job_7/step_0";
        let of_step = |file: &str| format!("{STEP}/{file}");
        let (limit, usage) = (of_step("memory.limit_in_bytes"), of_step("memory.usage_in_bytes"));
        let (stat, control) = (of_step("memory.stat"), of_step("memory.oom_control"));
        let files = [
            ("proc/self/cgroup", "9:name=systemd:/\n4:cpuset,memory:/slurm/uid_0/job_7/step_0\n0::/\n"),
            (
                "proc/self/mountinfo",
                "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
                 34 31 0:32 /slurm/uid_0 /one/group rw,relatime - cgroup cgroup rw,cpuset,memory\n\
                 35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,cpuset,memory\n\
                 36 31 0:32 / /root/of/a/container rw,relatime - cgroup cgroup rw,cpuset,memory\n\
                 41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
            ),
            (limit.as_str(), "367001600\n"),
            (usage.as_str(), "104857600\n"),
            (stat.as_str(), "active_file 0\ntotal_active_file 20971520\ntotal_inactive_file 31457280\n"),
            (control.as_str(), "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n"),
            // No limit at all.
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "7\n"),
        ];
        let root = root(&files);
        assert_eq!(room(&root), Some((300 * MIB, 350 * MIB, limit.clone())));
        assert_eq!(ControlGroup::of_this_process(root.path()).kills(), Some(5));
    }

    #[test]
    fn a_container_sees_its_own_group_alone() {
        // What is mounted is the group itself, under a name that only the host knows, or the namespace's root.
        for (group, mounted) in [("/docker/5f", "/docker/5f"), ("/", "/"), ("/../other", "/"), ("/docker/5f", "/other")]
        {
            let (group, mounts) = (
                format!("0::{group}\n"),
                format!("30 23 0:26 {mounted} /sys/fs/my\\040groups ro - cgroup2 cgroup ro\n"),
            );
            let files = [
                ("proc/self/cgroup", group.as_str()),
                ("proc/self/mountinfo", mounts.as_str()),
                ("sys/fs/my groups/memory.max", "2000000\n"),
                ("sys/fs/my groups/memory.current", "500000\n"),
                ("proc/vmstat", "nr_free_pages 1\noom_kill 4\n"),
            ];
            let root = root(&files);
            let file = "sys/fs/my groups/memory.max".to_string();
            assert_eq!(room(&root), Some((1_500_000, 2_000_000, file)), "{group}");
            // The machine's, where the group has none.
            assert_eq!(ControlGroup::of_this_process(root.path()).kills(), Some(4));
        }
    }

    #[test]
    fn without_groups_there_is_no_limit() {
        let nothing = ControlGroup::of_this_process(root(&[]).path());
        assert_eq!((nothing.room(), nothing.kills()), (None, None));
        let junk =
            [("proc/self/cgroup", "0\n:\n\n1:memory"), ("proc/self/mountinfo", "- - - - -\n\n1 2 3 4 5 - cgroup2\n")];
        assert_eq!(ControlGroup::of_this_process(root(&junk).path()).room(), None);
    }

    #[test]
    fn paths_of_mountinfo() {
        let path = |text: &str| unescaped(text.as_bytes()).display().to_string();
        assert_eq!(path(r"/a\040b\134x2d"), r"/a b\x2d");
        assert_eq!(path(r"/a\04"), r"/a\04");
        assert_eq!(path(r"/\999\777"), r"/\999\777");
    }
}
