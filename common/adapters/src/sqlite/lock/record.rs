//! What a lock file says of its holder.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Of `open`: a lock file may be where others may write, so that one who is somebody else's link is not followed, and a FIFO is not
/// waited for.
const NO_OTHER: i32 = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();

/// Bytes of a record that are read.
const MAX_BYTES: u64 = 1024;

/// How a lock file is opened.
pub(super) fn options() -> OpenOptions {
    let mut options = File::options();
    options.custom_flags(NO_OTHER);
    options
}

/// What was opened, if it is a file.
pub(super) fn regular(opened: io::Result<File>) -> io::Result<File> {
    let refused = |found: &str| io::Error::other(format!("found {found}, expected a regular file"));
    match opened {
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => Err(refused("a link")),
        Ok(file) if !file.metadata()?.is_file() => Err(refused("something else")),
        opened => opened,
    }
}

/// Who holds a lock: what its file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub process: String,
    pub host: String,
    /// Of the kernel since it started, so that another one is another machine, or the same one before it was restarted.
    pub boot: String,
    /// Tells holders apart whose numbers are the same, as containers have them. Nanoseconds since 1970.
    pub since: String,
}

impl Holder {
    pub fn here() -> Self {
        let kernel = |name: &str| std::fs::read_to_string(Path::new("/proc/sys/kernel").join(name)).unwrap_or_default();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            process: std::process::id().to_string(),
            host: kernel("hostname").trim().to_string(),
            boot: kernel("random/boot_id").trim().to_string(),
            since: since.as_nanos().to_string(),
        }
    }

    pub fn parse(record: &str) -> Option<Self> {
        let mut lines = record.lines().map(str::to_string);
        let holder = Self { process: lines.next()?, host: lines.next()?, boot: lines.next()?, since: lines.next()? };
        (!holder.process.is_empty()).then_some(holder)
    }

    pub fn record(&self) -> String {
        let Self { process, host, boot, since } = self;
        format!("{process}\n{host}\n{boot}\n{since}\n")
    }

    /// For people of `here`.
    pub fn name(&self, here: &Self) -> String {
        let process = &self.process;
        if self.is_of_kernel(here) {
            format!("process {process}")
        } else {
            format!("process {process} of host {}", self.host)
        }
    }

    /// Whether both are of one kernel, which releases the locks of the dead.
    pub fn is_of_kernel(&self, other: &Self) -> bool {
        !self.boot.is_empty() && self.boot == other.boot
    }
}

/// What a lock file says at a moment; whatever its holder does changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sight {
    pub record: String,
    pub touched: Option<SystemTime>,
}

impl Sight {
    /// Opened anew, since that is when a network's file system looks what others did.
    pub fn of(path: &Path) -> io::Result<Self> {
        let file = regular(options().read(true).open(path))?;
        let touched = file.metadata()?.modified().ok();
        let record = io::read_to_string(io::Read::take(file, MAX_BYTES))?;
        Ok(Self { record, touched })
    }

    /// `None`: there is no such file.
    pub fn if_there(path: &Path) -> io::Result<Option<Self>> {
        match Self::of(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            sight => sight.map(Some),
        }
    }

    pub fn name(&self, here: &Holder) -> String {
        Holder::parse(&self.record).map_or_else(|| "another process".to_string(), |holder| holder.name(here))
    }
}
