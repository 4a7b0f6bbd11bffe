//! The device layer: the least that a device must do so that everything else is the same for all. Used inside the child
//! process only. The one place of the workspace with `unsafe` code.

mod bindings;
pub mod gpu;
pub mod host;
mod image;
pub mod info;
pub mod nvrtc;

use bluefin_common::artifact::Launch;
use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::outcome::{DeviceState, Resources};
use bluefin_common::target::Target;

use crate::timing::{Caches, Sample};

/// A device that runs kernels. Memory is plain bytes; what lies where is the caller's business.
pub trait Device {
    /// Device memory, freed when the last clone and the last [`Self::Bound`] that uses it are dropped.
    type Memory: Clone;
    /// A loaded code object.
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

    /// Copies `bytes` bytes from one offset to another; the two ranges do not overlap.
    fn copy(&self, from: (&Self::Memory, u64), to: (&Self::Memory, u64), bytes: u64) -> Result<(), DeviceError>;

    /// Sets `bytes` bytes from `offset` on.
    fn fill(&self, memory: &Self::Memory, offset: u64, byte: u8, bytes: u64) -> Result<(), DeviceError>;

    /// Compiles `code` into what [`Self::load`] takes less time for; `None` if there is nothing to gain, or it can not be
    /// done.
    fn translate(&self, _code: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// Loads a code object.
    fn load(&self, code: &[u8]) -> Result<Self::Module, DeviceError>;

    /// Finds the entries of `launches` and binds their arguments, once for every copy of the buffers.
    fn bind(
        &self,
        module: &Self::Module,
        launches: &[Launch],
        buffers: &Buffers<'_, Self::Memory>,
        workspace: Option<&Self::Memory>,
    ) -> Result<Self::Bound, DeviceError>;

    /// What the kernels of `bound` take of the device, where it says so.
    fn resources(&self, _bound: &Self::Bound) -> Option<Resources> {
        None
    }

    /// Runs all launches once on one copy of the buffers, and waits for their end.
    fn run(&self, bound: &Self::Bound, copy: usize) -> Result<(), DeviceError>;

    /// Takes samples one right after the other, at most [`MAX_RUNS`]: a sample for each of `runs`, in their order. The device
    /// has all of them before it is waited for, where it can be told ahead.
    fn time(&self, runs: &[Run<'_, Self::Bound, Self::Memory>]) -> Result<Vec<Sample>, DeviceError>;
}

/// Samples that a device takes before it is waited for.
pub const MAX_RUNS: usize = 16;

/// What one sample is of.
pub struct Run<'a, B, M> {
    pub bound: &'a B,
    /// The copy of the buffers that the first launch uses; each further one uses the next.
    pub first: usize,
    /// How often all launches are made.
    pub count: u32,
    /// Buffers that each launch has to find as they were: those of the copies that are used are filled before, and then there are not more
    /// launches than copies. That is not timed.
    pub refill: Option<Refill<'a, M>>,
    /// Whether all copies of the buffers are evicted from the caches before, behind what is filled; that is not timed.
    pub evict: bool,
}

/// What buffers that are read and written are filled from, in the memory of a task.
#[derive(Debug)]
pub struct Refill<'a, M> {
    pub memory: &'a M,
    pub saved: &'a [Saved],
    /// Bytes from one copy of the buffers to the next.
    pub stride: u64,
}

/// A buffer that is filled before each launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Offset of what it held.
    pub from: u64,
    /// Offset of it in the first copy.
    pub to: u64,
    pub bytes: u64,
}

impl<M> Clone for Refill<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Refill<'_, M> {}

impl<M> Refill<'_, M> {
    /// What is copied for one copy of the buffers: from, to and bytes.
    pub fn of(self, copy: usize) -> impl Iterator<Item = (u64, u64, u64)> {
        let behind = self.stride * copy as u64;
        self.saved.iter().map(move |saved| (saved.from, saved.to + behind, saved.bytes))
    }
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
    pub memory_bytes: u64,
    pub caches: Caches,
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
