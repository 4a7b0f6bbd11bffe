//! A kernel that is loaded: what is asked of a driver before it is launched, and how that is done.

use super::calls::Handle;

/// A kernel, and how it is launched.
#[derive(Clone, Copy)]
pub(super) struct Kernel {
    /// Of a module that is loaded.
    pub(super) function: Handle,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    /// Dynamic shared memory of a block in bytes.
    pub(super) shared: u32,
}

impl Kernel {
    /// Threads of a block.
    pub(super) fn threads(&self) -> u64 {
        self.block.iter().map(|threads| u64::from(*threads)).product()
    }
}
