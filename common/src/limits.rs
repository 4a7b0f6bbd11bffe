//! Limits that others set on this process, as batch systems and shells do (`ulimit`, `prlimit`): how bluefin lives within
//! them, and what it says where it can not.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::SIGXFSZ;

/// Open files that are asked for where the hard limit allows: what most systems give to every process.
const OPEN_FILES: u64 = 1024;

/// A limit that is too low for what is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitMet {
    /// A write would go beyond the limit of this process.
    #[error("limit of file size (RLIMIT_FSIZE, ulimit -f): found {found} bytes, which is not enough")]
    FileSize {
        /// The limit in bytes.
        found: u64,
    },
    /// As many files can not be open at a time.
    #[error("limit of open files (RLIMIT_NOFILE, ulimit -n): found {found}, expected at least {expected}")]
    OpenFiles {
        /// The soft limit.
        found: u64,
        /// Files that are needed.
        expected: u64,
    },
}

/// Set by the kernel's signal when this process writes beyond its limit of file size.
static FILE_SIZE_MET: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on a write beyond the limit of file size is an error, as a full disk is one, and no longer the end of the
/// process without a word. Programs that this one starts are not touched. Call it first thing in `main`.
///
/// # Errors
/// If the kernel refuses.
pub fn survive_file_size() -> io::Result<()> {
    let met = FILE_SIZE_MET.get_or_init(Arc::default);
    // A handler, unlike a signal that is ignored, is not handed down to compilers.
    signal_hook::flag::register(SIGXFSZ, Arc::clone(met)).map(drop)
}

/// The limit of file size, if this process has met it since [`survive_file_size`].
#[must_use]
pub fn file_size_met() -> Option<LimitMet> {
    let met = FILE_SIZE_MET.get().is_some_and(|met| met.load(Ordering::Relaxed));
    let found = || getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
    met.then(|| LimitMet::FileSize { found: found() })
}

/// `wanted`, or the hard limit of this process if that is lower.
#[must_use]
pub fn within(resource: Resource, wanted: u64) -> u64 {
    getrlimit(resource).maximum.map_or(wanted, |hard| hard.min(wanted))
}

/// Files that this process may have open at a time.
#[must_use]
pub fn open_files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Raises a low soft limit of open files as far as the hard one allows.
pub fn raise_open_files() {
    let wanted = within(Resource::Nofile, OPEN_FILES);
    if open_files() < wanted {
        let maximum = getrlimit(Resource::Nofile).maximum;
        // Where it is refused, what needs more says so.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
}

/// Whether `needed` files can be open.
///
/// # Errors
/// If they can not.
pub fn expect_open_files(needed: u64) -> Result<(), LimitMet> {
    match open_files() {
        found if found < needed => Err(LimitMet::OpenFiles { found, expected: needed }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_of_two_is_used() {
        assert_eq!(within(Resource::Nofile, 3), 3);
        assert!(within(Resource::Nofile, u64::MAX) >= open_files());
        expect_open_files(3).unwrap();
    }
}
