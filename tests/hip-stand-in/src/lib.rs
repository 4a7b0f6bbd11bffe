//! A `libamdhip64.so` of our own: the HIP entry points that bluefin uses, over host code or over the CUDA driver, with
//! faults on demand. README.md of this crate says how to use it.
//!
//! Built as a `cdylib` it is the library; as an `rlib` it gives tests the words for what they ask of it.
#![allow(clippy::indexing_slicing, reason = "part of tests: what is amiss here is to be seen at once")]

mod backend;
mod codes;
mod cuda;
pub mod devices;
mod entry;
mod executed;
pub mod faults;
mod gate;
mod host;
mod runtime;
mod symbols;
pub mod topology;

pub use codes::Code;
pub use symbols::SYMBOLS;

/// What the library reads from its environment.
pub mod variables {
    /// Its GPUs, as `gfx90a-104,gfx942-304`. None if absent: test runners show their libraries to every process, and who
    /// finds this one by chance must find no GPU.
    pub const DEVICES: &str = "BLUEFIN_STANDIN_DEVICES";
    /// Which of several machines this is: their GPUs have other UUIDs. 0 if absent.
    pub const MACHINE: &str = "BLUEFIN_STANDIN_MACHINE";
    /// Bytes of memory of each GPU; 1 GiB if absent.
    pub const MEMORY: &str = "BLUEFIN_STANDIN_MEMORY";
    /// What it says of its version, as HIP encodes it; 60443484 (6.4.43484) if absent.
    pub const VERSION: &str = "BLUEFIN_STANDIN_VERSION";
    /// Path of the file with its [`super::faults`].
    pub const FAULTS: &str = "BLUEFIN_STANDIN_FAULTS";
    /// `host` (if absent), `cuda` or `executed`: what runs the kernels.
    pub const BACKEND: &str = "BLUEFIN_STANDIN_BACKEND";
}
