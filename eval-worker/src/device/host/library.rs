//! Shared objects from memory.

use std::error::Error;
use std::ffi::{c_int, c_void};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};

use libloading::os::unix::{Library as Dl, RTLD_LOCAL, RTLD_NOW};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::fcntl_dupfd_cloexec;

use super::super::DeviceError;

/// Only look whether it is loaded; the same number in glibc and musl.
const RTLD_NOLOAD: c_int = 4;

/// The function of a launch.
pub(super) type Shim = unsafe extern "C" fn(*mut *mut c_void);

/// A shared object that was never a file with a name.
pub(super) struct Library {
    library: Dl,
    /// The loader knows a library by its path, which names this descriptor: open as long as the library is loaded, so
    /// that no other library gets the same path.
    _file: OwnedFd,
}

impl Library {
    pub(super) fn load(code: &[u8]) -> Result<Self, DeviceError> {
        let error = |error: &dyn Error| DeviceError::Load(with_causes(error));
        let file = memfd_create("bluefin-artifact", MemfdFlags::CLOEXEC).map_err(|e| error(&e))?;
        let mut file = std::fs::File::from(file);
        file.write_all(code).map_err(|e| error(&e))?;
        let mut file = OwnedFd::from(file);
        // A library that refuses to be unloaded keeps its path, and the loader would hand it out again in place of this
        // one: take descriptors until the path is new.
        let mut taken = Vec::new();
        while is_loaded(&path(&file)) {
            let other = fcntl_dupfd_cloexec(&file, file.as_raw_fd() + 1).map_err(|e| error(&e))?;
            taken.push(std::mem::replace(&mut file, other));
        }
        // SAFETY: its constructors are code of a candidate, which this process exists to contain.
        let library = unsafe { Dl::open(Some(path(&file)), RTLD_NOW | RTLD_LOCAL) }.map_err(|e| error(&e))?;
        Ok(Self { library, _file: file })
    }

    /// The shim of launch `index`.
    pub(super) fn shim(&self, index: usize) -> Result<Shim, DeviceError> {
        let symbol = format!("bluefin_launch_{index}");
        // SAFETY: the symbol has this signature by the contract of host artifacts; it is called only while the library is
        // loaded, since whoever holds a shim holds the library.
        let shim = unsafe { self.library.get::<Shim>(symbol.as_bytes()) };
        shim.map(|shim| *shim).map_err(|error| DeviceError::Load(format!("symbol {symbol}: {}", with_causes(&error))))
    }
}

/// What the loader says is only in the cause.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn path(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn is_loaded(path: &str) -> bool {
    // SAFETY: loads nothing, so it runs no code of the library.
    unsafe { Dl::open(Some(path), RTLD_NOW | RTLD_NOLOAD) }.is_ok()
}
