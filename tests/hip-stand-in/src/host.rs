//! HIP over host code: memory is the host's, a device is a thread.

mod code;
mod context;
mod memory;
mod operation;
mod trap;

use std::ffi::c_void;
use std::sync::OnceLock;

use self::context::Context;
use self::memory::{Pattern, copy_in, copy_out};
use self::operation::{Operation, Stamp};
use crate::codes::{Code, Result, attribute};
use crate::devices::{self, Gpu};
use crate::gate::{self, Twist};
use crate::runtime::{Geometry, Order, Runtime};
use crate::variables;

pub use self::code::image_of;

/// `hipStreamNonBlocking`, the one flag of a stream.
const NON_BLOCKING: u32 = 1;
/// `hipEventDisableTiming`.
const DISABLE_TIMING: u32 = 2;
/// All flags of an event.
const EVENT_FLAGS: u32 = 0xe000_0000 | 7;

/// The GPUs that this process sees.
pub struct Host {
    gpus: Vec<Gpu>,
    /// Of each of `gpus`, its index among all.
    indices: Vec<usize>,
    contexts: Vec<OnceLock<Context>>,
    /// Bytes of each GPU.
    memory: u64,
    version: i32,
    machine: u16,
}

impl Host {
    /// As the environment says.
    pub fn from_environment() -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let list = variable(variables::DEVICES).unwrap_or_default();
        // Whoever sets up a test is told at once that it tests nothing.
        let all = Gpu::list(&list).unwrap_or_else(|error| panic!("{}: {error}", variables::DEVICES));
        let machine = variable(variables::MACHINE).and_then(|number| number.parse().ok()).unwrap_or(0);
        let uuids: Vec<String> = (0..all.len()).map(|index| devices::uuid(machine, index)).collect();
        let (rocr, hip) = (variable("ROCR_VISIBLE_DEVICES"), variable("HIP_VISIBLE_DEVICES"));
        let gone = gate::gone();
        let mut indices = devices::visible(&uuids, rocr.as_deref(), hip.as_deref());
        indices.retain(|index| !gone.contains(index));
        Self {
            gpus: indices.iter().map(|index| all[*index].clone()).collect(),
            contexts: indices.iter().map(|_| OnceLock::new()).collect(),
            indices,
            memory: variable(variables::MEMORY).and_then(|bytes| bytes.parse().ok()).unwrap_or(1 << 30),
            version: variable(variables::VERSION).and_then(|version| version.parse().ok()).unwrap_or(60_443_484),
            machine,
        }
    }

    pub fn gpu(&self, device: usize) -> Result<(&Gpu, usize)> {
        self.gpus.get(device).zip(self.indices.get(device).copied()).ok_or(Code::INVALID_DEVICE)
    }

    fn context(&self, device: usize) -> Result<&Context> {
        let (_, index) = self.gpu(device)?;
        let context = self.contexts.get(device).ok_or(Code::INVALID_DEVICE)?;
        Ok(context.get_or_init(|| Context::start(index, self.memory)))
    }
}

impl Runtime for Host {
    fn init(&self) -> Result<()> {
        Ok(())
    }

    fn version(&self) -> Result<i32> {
        Ok(self.version)
    }

    fn devices(&self) -> &[usize] {
        &self.indices
    }

    fn select(&self, device: usize) -> Result<()> {
        self.gpu(device).map(|_| ())
    }

    fn name(&self, device: usize) -> Result<String> {
        Ok(self.gpu(device)?.0.name().to_string())
    }

    fn uuid(&self, device: usize) -> Result<String> {
        Ok(devices::uuid(self.machine, self.gpu(device)?.1))
    }

    fn attribute(&self, device: usize, number: i32) -> Result<i32> {
        let (gpu, index) = self.gpu(device)?;
        let (major, minor, _) = gpu.version();
        Ok(match number {
            attribute::CLOCK_RATE => 1_700_000,
            attribute::L2_CACHE_SIZE => 4 << 20,
            attribute::COMPUTE_CAPABILITY_MAJOR => major as i32,
            attribute::COMPUTE_CAPABILITY_MINOR => minor as i32,
            attribute::MAX_BLOCK_DIM_X
            | attribute::MAX_BLOCK_DIM_Y
            | attribute::MAX_BLOCK_DIM_Z
            | attribute::MAX_THREADS_PER_BLOCK => 1024,
            attribute::MAX_GRID_DIM_X => i32::MAX,
            attribute::MAX_GRID_DIM_Y | attribute::MAX_GRID_DIM_Z => 65_536,
            attribute::MAX_THREADS_PER_MULTIPROCESSOR => 2048,
            attribute::MEMORY_BUS_WIDTH => 4096,
            attribute::MEMORY_CLOCK_RATE => 1_600_000,
            attribute::MULTIPROCESSOR_COUNT => gpu.cus as i32,
            attribute::PCI_BUS_ID => devices::pci_bus(index) as i32,
            attribute::PCI_DEVICE_ID | attribute::PCI_DOMAIN_ID => 0,
            attribute::MAX_REGISTERS_PER_BLOCK => 65_536,
            attribute::MAX_SHARED_MEMORY_PER_BLOCK | attribute::SHARED_MEMORY_PER_MULTIPROCESSOR => 65_536,
            attribute::WARP_SIZE => gpu.wave() as i32,
            attribute::WALL_CLOCK_RATE => 100_000,
            attribute::NUMBER_OF_XCCS => gpu.xccs() as i32,
            _ => return Err(Code::INVALID_VALUE),
        })
    }

    fn total_memory(&self, device: usize) -> Result<u64> {
        self.gpu(device).map(|_| self.memory)
    }

    fn pci_bus_id(&self, device: usize) -> Result<String> {
        Ok(format!("0000:{:02x}:00.0", devices::pci_bus(self.gpu(device)?.1)))
    }

    fn memory(&self, device: usize) -> Result<(u64, u64)> {
        Ok((self.memory - self.context(device)?.lock().used, self.memory))
    }

    fn allocate(&self, device: usize, bytes: usize) -> Result<u64> {
        self.context(device)?.allocate(bytes)
    }

    fn free(&self, device: usize, address: u64) -> Result<()> {
        let context = self.context(device)?;
        context.wait_for_all()?;
        context.free(address)
    }

    unsafe fn write(&self, device: usize, to: u64, from: *const c_void, bytes: usize) -> Result<()> {
        let context = self.context(device)?;
        context.wait_for_all()?;
        context.check_range(to, bytes)?;
        // SAFETY: the caller vouches for `from`; `to` is in an allocation that no kernel runs on now.
        unsafe { copy_in(to, from, bytes) };
        Ok(())
    }

    unsafe fn read(&self, device: usize, to: *mut c_void, from: u64, bytes: usize) -> Result<()> {
        let context = self.context(device)?;
        context.wait_for_all()?;
        context.check_range(from, bytes)?;
        // SAFETY: as in `write`, the other way round.
        unsafe { copy_out(to, from, bytes) };
        Ok(())
    }

    fn fill(&self, device: usize, to: u64, value: u32, width: usize, count: usize, order: Order) -> Result<()> {
        let context = self.context(device)?;
        let bytes = count.checked_mul(width).ok_or(Code::INVALID_VALUE)?;
        context.check_range(to, bytes)?;
        let pattern = if width == 1 { Pattern::Byte(value as u8) } else { Pattern::Word(value) };
        context.submit(order, Operation::Fill { to, pattern, bytes })
    }

    fn copy(&self, device: usize, to: u64, from: u64, bytes: usize, order: Order) -> Result<()> {
        let context = self.context(device)?;
        context.check_range(to, bytes)?;
        context.check_range(from, bytes)?;
        context.submit(order, Operation::Copy { from, to, bytes })
    }

    unsafe fn load(&self, device: usize, image: *const c_void) -> Result<u64> {
        let arch = &self.gpu(device)?.0.arch;
        // SAFETY: the caller vouches for the image.
        let module = unsafe { code::Module::load(image.cast(), arch) }?;
        Ok(self.context(device)?.add_module(module))
    }

    fn unload(&self, device: usize, module: u64) -> Result<()> {
        let context = self.context(device)?;
        context.wait_for_all()?;
        context.lock().modules.remove(&module).map(drop).ok_or(Code::INVALID_HANDLE)
    }

    fn function(&self, device: usize, module: u64, name: &str) -> Result<u64> {
        self.context(device)?.add_function(module, name)
    }

    /// Made up: there are no registers. A block has as many threads as a launch takes.
    fn function_attribute(&self, device: usize, function: u64, attribute: i32) -> Result<i32> {
        self.context(device)?.function(function)?;
        match attribute {
            0 => Ok(1024),
            1 | 3 => Ok(0),
            4 => Ok(64),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    unsafe fn launch(
        &self,
        device: usize,
        function: u64,
        geometry: Geometry,
        arguments: *mut *mut c_void,
        order: Order,
    ) -> Result<()> {
        let context = self.context(device)?;
        let function = context.function(function)?;
        let threads = geometry.block.iter().try_fold(1_u32, |all, dim| all.checked_mul(*dim));
        if geometry.grid.contains(&0) || threads.is_none_or(|threads| !(1..=1024).contains(&threads)) {
            return Err(Code::INVALID_CONFIGURATION);
        }
        if geometry.shared > 65_536 {
            return Err(Code::LAUNCH_OUT_OF_RESOURCES);
        }
        // SAFETY: the caller vouches for the arguments.
        let arguments = unsafe { function.copy_arguments(arguments) }?;
        context.submit(order, Operation::Kernel { function, geometry, arguments })
    }

    fn create_stream(&self, device: usize, flags: u32) -> Result<u64> {
        if flags & !NON_BLOCKING != 0 {
            return Err(Code::INVALID_VALUE);
        }
        Ok(self.context(device)?.add_stream())
    }

    fn destroy_stream(&self, device: usize, stream: u64) -> Result<()> {
        self.context(device)?.lock().streams.remove(&stream).map(drop).ok_or(Code::INVALID_HANDLE)
    }

    fn synchronize_stream(&self, device: usize, stream: u64) -> Result<()> {
        let context = self.context(device)?;
        context.wait(context.last_of(stream)?)
    }

    fn query_stream(&self, device: usize, stream: u64) -> Result<()> {
        let context = self.context(device)?;
        let last = context.last_of(stream)?;
        if context.lock().finished < last { Err(Code::NOT_READY) } else { Ok(()) }
    }

    fn create_event(&self, device: usize, flags: u32) -> Result<u64> {
        if flags & !EVENT_FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        Ok(self.context(device)?.add_event(flags & DISABLE_TIMING == 0))
    }

    fn record(&self, device: usize, event: u64, stream: u64) -> Result<()> {
        let context = self.context(device)?;
        let stamp = Stamp::default();
        context.renew(event, stamp.clone())?;
        context.submit(Order { stream, twist: Twist::None }, Operation::Record(stamp))
    }

    fn synchronize_event(&self, device: usize, event: u64) -> Result<()> {
        let context = self.context(device)?;
        match context.stamp(event)?.1 {
            // One that was never recorded is complete.
            None => Ok(()),
            Some(stamp) => context.wait_until(|_| stamp.get().is_some()),
        }
    }

    fn elapsed(&self, device: usize, from: u64, to: u64) -> Result<f32> {
        let context = self.context(device)?;
        let ((from_timed, from), (to_timed, to)) = (context.stamp(from)?, context.stamp(to)?);
        let (Some(from), Some(to), true) = (from, to, from_timed && to_timed) else { return Err(Code::INVALID_HANDLE) };
        let (Some(from), Some(to)) = (from.get(), to.get()) else { return Err(Code::NOT_READY) };
        let (sign, time) = if to < from { (-1.0, *from - *to) } else { (1.0, *to - *from) };
        Ok(sign * time.as_secs_f32() * 1000.0)
    }

    fn destroy_event(&self, device: usize, event: u64) -> Result<()> {
        self.context(device)?.lock().events.remove(&event).map(drop).ok_or(Code::INVALID_HANDLE)
    }

    fn synchronize(&self, device: usize) -> Result<()> {
        self.context(device)?.wait_for_all()
    }
}
