//! The device layer: the least that a device must do so that everything else is the same for all. Used inside the child
//! process only. The one place of the workspace with `unsafe` code.

pub mod host;

use bluefin_common::artifact::Launch;
use bluefin_common::outcome::{Failure, FailureKind};

/// A device that runs kernels. Memory is plain bytes; what lies where is the caller's business.
pub trait Device {
    /// Device memory, freed when the last clone and the last [`Self::Bound`] that uses it are dropped.
    type Memory: Clone;
    /// A loaded code object with the entries of its launches.
    type Module;
    /// A module with its arguments, ready to run without any further look-up.
    type Bound;

    fn description(&self) -> &Description;

    /// Does a fixed amount of work that keeps the clock up; the milliseconds that it took.
    fn spin(&self) -> Result<f64, DeviceError>;

    fn allocate(&self, bytes: u64) -> Result<Self::Memory, DeviceError>;
    fn write(&self, memory: &Self::Memory, offset: u64, bytes: &[u8]) -> Result<(), DeviceError>;
    fn read(&self, memory: &Self::Memory, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError>;

    /// Loads the code object `code` and finds what `launches` need of it.
    fn load(&self, code: &[u8], launches: &[Launch]) -> Result<Self::Module, DeviceError>;

    /// Binds the arguments of `launches` once for every copy of the buffers.
    fn bind(
        &self,
        module: &Self::Module,
        launches: &[Launch],
        buffers: &Buffers<'_, Self::Memory>,
        workspace: Option<&Self::Memory>,
    ) -> Result<Self::Bound, DeviceError>;

    /// Runs all launches once on one copy of the buffers, and waits for their end.
    fn run(&self, bound: &Self::Bound, copy: usize) -> Result<(), DeviceError>;

    /// Runs all launches `count` times, on one copy after the other from `first` on; the milliseconds of all, as the
    /// device counts them.
    fn time(&self, bound: &Self::Bound, first: usize, count: u32) -> Result<f64, DeviceError>;
}

/// The copies of a task's buffers in one piece of memory.
pub struct Buffers<'a, M> {
    pub memory: &'a M,
    /// Offset of each buffer within a copy.
    pub offsets: &'a [u64],
    /// Bytes from one copy to the next.
    pub stride: u64,
    /// At least 1.
    pub copies: usize,
}

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// Model and the features that shape code and times: devices of one name give comparable times.
    pub name: String,
    /// Size of the last-level cache in bytes.
    pub cache_bytes: u64,
}

/// What a device refuses.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error("{0}")]
    Load(String),
    #[error("{wanted} bytes wanted, {available} available")]
    OutOfMemory { wanted: u64, available: u64 },
    #[error("{0}")]
    Launch(String),
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        let kind = match error {
            DeviceError::Load(_) => FailureKind::LoadError,
            DeviceError::OutOfMemory { .. } => FailureKind::OutOfMemory,
            DeviceError::Launch(_) => FailureKind::LaunchFailure,
        };
        Self::new(kind, error.to_string())
    }
}
