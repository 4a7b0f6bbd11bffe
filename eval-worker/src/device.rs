//! The device layer: the least that a device must do so that everything else is the same for all. Used inside the child
//! process only. The one place of the workspace with `unsafe` code.

mod bindings;
pub mod gpu;
pub mod host;
mod image;

use bluefin_common::artifact::Launch;
use bluefin_common::outcome::{DeviceState, Failure, FailureKind};
use bluefin_common::target::Target;

use crate::timing::Sample;

/// A device that runs kernels. Memory is plain bytes; what lies where is the caller's business.
pub trait Device {
    /// Device memory, freed when the last clone and the last [`Self::Bound`] that uses it are dropped.
    type Memory: Clone;
    /// A loaded code object with the entries of its launches.
    type Module;
    /// A module with its arguments, ready to run without any further look-up.
    type Bound;

    fn description(&self) -> &Description;

    /// What the device says of itself now.
    fn state(&self) -> DeviceState;

    /// Does a little known work and checks what came of it: whether the device is healthy.
    fn probe(&self) -> Result<(), DeviceError>;

    /// Whether an error made the device useless for this process, whatever it is asked next.
    fn is_broken(&self) -> bool;

    /// Does a fixed amount of work that keeps the clock up; the milliseconds that it took, and the clock meanwhile.
    fn spin(&self) -> Result<Sample, DeviceError>;

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

    /// Evicts everything from the caches before the next sample; not timed.
    fn flush(&self) -> Result<(), DeviceError>;

    /// Runs all launches `count` times, on one copy after the other from `first` on; the milliseconds of all, as the
    /// device counts them, and its clock meanwhile.
    fn time(&self, bound: &Self::Bound, first: usize, count: u32) -> Result<Sample, DeviceError>;
}

/// Bytes that [`check_memory`] writes and reads.
const CHECKED_BYTES: usize = 1 << 20;

/// Whether memory holds what is written to it.
pub fn check_memory<D: Device>(device: &D) -> Result<(), DeviceError> {
    let wanted: Vec<u8> = (0..CHECKED_BYTES).map(|index| (index * 31 / 8) as u8).collect();
    let memory = device.allocate(wanted.len() as u64)?;
    device.write(&memory, 0, &wanted)?;
    let mut found = vec![0; wanted.len()];
    device.read(&memory, 0, &mut found)?;
    match wanted.iter().zip(&found).position(|(wanted, found)| wanted != found) {
        None => Ok(()),
        Some(byte) => Err(DeviceError::Lost(format!("its memory does not hold what is written: byte {byte} changed"))),
    }
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
    /// What it runs code for.
    pub target: Target,
    /// Unique over machines; empty where the device has none.
    pub uuid: String,
    /// Size of the last-level cache in bytes.
    pub cache_bytes: u64,
}

/// What a device refuses.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error("{0}")]
    Load(String),
    /// The code object is for another architecture.
    #[error("{0}")]
    WrongTarget(String),
    #[error("{0}")]
    OutOfMemory(String),
    #[error("{0}")]
    Launch(String),
    /// A kernel did something that the device does not forgive: every later call of this process fails as well.
    #[error("{0}")]
    Fault(String),
    /// The device is gone, or in no state to work.
    #[error("{0}")]
    Lost(String),
}

impl DeviceError {
    fn out_of_memory(wanted: u64, available: u64) -> Self {
        Self::OutOfMemory(format!("{wanted} bytes wanted, {available} available"))
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        let kind = match error {
            DeviceError::Load(_) => FailureKind::LoadError,
            DeviceError::WrongTarget(_) => FailureKind::WrongTarget,
            DeviceError::OutOfMemory(_) => FailureKind::OutOfMemory,
            DeviceError::Launch(_) => FailureKind::LaunchFailure,
            DeviceError::Fault(_) => FailureKind::Fault,
            DeviceError::Lost(_) => FailureKind::DeviceLost,
        };
        Self::new(kind, error.to_string())
    }
}
