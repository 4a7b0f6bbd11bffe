//! HIP over the CUDA driver: real kernels, real events and real times through bluefin's HIP code. Error codes need no
//! translation, since HIP took its numbers from CUDA; code objects are PTX that ends with NUL, or cubins.

mod driver;

use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};
use std::ptr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use self::driver::Driver;
use crate::codes::{Code, Result, attribute};
use crate::devices;
use crate::gate::{self, Twist};
use crate::runtime::{Geometry, Order, Runtime};

/// Dynamic shared memory that a kernel gets without asking, in bytes. HIP's kernels never ask.
const UNASKED: u32 = 48 << 10;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`
const MAX_DYNAMIC_SHARED: c_int = 8;

/// The GPUs that this process sees.
pub struct Cuda {
    driver: Driver,
    /// Of each, its index among all that CUDA shows.
    indices: Vec<usize>,
    /// The primary contexts that are in use, by index into `indices`.
    contexts: Mutex<HashMap<usize, usize>>,
}

impl Cuda {
    /// Loads the driver and looks for GPUs.
    pub fn open() -> Result<Self> {
        let driver = Driver::load().map_err(|error| {
            eprintln!("{error}");
            Code::NOT_INITIALIZED
        })?;
        // SAFETY: as the driver's documentation asks.
        check(unsafe { (driver.init)(0) })?;
        let mut count = 0;
        // SAFETY: room for a count.
        check(unsafe { (driver.device_get_count)(&raw mut count) })?;
        let mut cuda = Self { driver, indices: (0..count as usize).collect(), contexts: Mutex::default() };
        let uuids = (0..count as usize).map(|device| cuda.uuid(device)).collect::<Result<Vec<_>>>()?;
        let variable = |name: &str| std::env::var(name).ok();
        let (rocr, hip) = (variable("ROCR_VISIBLE_DEVICES"), variable("HIP_VISIBLE_DEVICES"));
        let gone = gate::gone();
        cuda.indices = devices::visible(&uuids, rocr.as_deref(), hip.as_deref());
        cuda.indices.retain(|index| !gone.contains(index));
        Ok(cuda)
    }

    fn cu_device(&self, device: usize) -> Result<c_int> {
        let index = self.indices.get(device).ok_or(Code::INVALID_DEVICE)?;
        let mut found = 0;
        // SAFETY: room for a device.
        check(unsafe { (self.driver.device_get)(&raw mut found, *index as c_int) })?;
        Ok(found)
    }

    /// Makes the device's primary context that of this thread.
    fn enter(&self, device: usize) -> Result<()> {
        let mut contexts = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        let context = match contexts.get(&device) {
            Some(context) => *context,
            None => {
                let mut context = ptr::null_mut();
                let cu_device = self.cu_device(device)?;
                // SAFETY: room for a context; it is kept until the process ends.
                check(unsafe { (self.driver.primary_context_retain)(&raw mut context, cu_device) })?;
                contexts.insert(device, context.addr());
                context.addr()
            }
        };
        drop(contexts);
        // SAFETY: a context that is kept.
        check(unsafe { (self.driver.context_set_current)(handle(context as u64)) })
    }

    /// Calls the driver in the context of `device`.
    fn within(&self, device: usize, call: impl FnOnce(&Driver) -> c_int) -> Result<()> {
        self.enter(device)?;
        check(call(&self.driver))
    }

    /// The same for a call that gives out a handle or an address.
    fn get(&self, device: usize, call: impl FnOnce(&Driver, *mut *mut c_void) -> c_int) -> Result<u64> {
        let mut found = ptr::null_mut();
        self.within(device, |driver| call(driver, &raw mut found))?;
        Ok(found.addr() as u64)
    }

    fn ask(&self, device: usize, number: c_int) -> Result<c_int> {
        let (cu_device, mut value) = (self.cu_device(device)?, 0);
        // SAFETY: room for a value.
        check(unsafe { (self.driver.device_get_attribute)(&raw mut value, number, cu_device) })?;
        Ok(value)
    }

    fn text(&self, call: impl FnOnce(*mut i8, c_int) -> c_int) -> Result<String> {
        let mut bytes = [0_u8; 256];
        check(call(bytes.as_mut_ptr().cast(), 256))?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}

/// Carries `call` out, or does what the fault on demand says. Faults in what a kernel computes are for host code.
fn twisted(twist: Twist, call: impl FnOnce() -> Result<()>) -> Result<()> {
    match twist {
        Twist::Skip => return Ok(()),
        Twist::Wrong | Twist::Nan => return Err(Code::NOT_SUPPORTED),
        Twist::Slow(ms) => std::thread::sleep(Duration::from_secs_f64(ms / 1000.0)),
        Twist::None | Twist::Time(_) => {}
    }
    call()
}

fn check(code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(Code(code)) }
}

fn handle(number: u64) -> *mut c_void {
    ptr::without_provenance_mut(number as usize)
}

// SAFETY of all calls below: the driver's contract is HIP's, so what our caller promised us is what the driver asks for.
#[allow(clippy::undocumented_unsafe_blocks)]
impl Runtime for Cuda {
    fn init(&self) -> Result<()> {
        Ok(())
    }

    fn version(&self) -> Result<i32> {
        let mut version = 0;
        check(unsafe { (self.driver.driver_get_version)(&raw mut version) })?;
        // 12080 is 12.8, which HIP writes as 120800000.
        Ok(version / 1000 * 10_000_000 + version % 1000 / 10 * 100_000)
    }

    fn devices(&self) -> &[usize] {
        &self.indices
    }

    fn select(&self, device: usize) -> Result<()> {
        self.enter(device)
    }

    fn name(&self, device: usize) -> Result<String> {
        let cu_device = self.cu_device(device)?;
        self.text(|to, room| unsafe { (self.driver.device_get_name)(to.cast(), room, cu_device) })
    }

    fn uuid(&self, device: usize) -> Result<String> {
        let (cu_device, mut bytes) = (self.cu_device(device)?, [0_u8; 16]);
        check(unsafe { (self.driver.device_get_uuid)(&raw mut bytes, cu_device) })?;
        // AMD's have half as many digits.
        Ok(bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect())
    }

    fn attribute(&self, device: usize, number: i32) -> Result<i32> {
        self.ask(
            device,
            match number {
                attribute::CLOCK_RATE => 13,
                attribute::L2_CACHE_SIZE => 38,
                attribute::COMPUTE_CAPABILITY_MAJOR => 75,
                attribute::COMPUTE_CAPABILITY_MINOR => 76,
                attribute::MAX_BLOCK_DIM_X => 2,
                attribute::MAX_BLOCK_DIM_Y => 3,
                attribute::MAX_BLOCK_DIM_Z => 4,
                attribute::MAX_GRID_DIM_X => 5,
                attribute::MAX_GRID_DIM_Y => 6,
                attribute::MAX_GRID_DIM_Z => 7,
                attribute::MAX_THREADS_PER_BLOCK => 1,
                attribute::MAX_THREADS_PER_MULTIPROCESSOR => 39,
                attribute::MEMORY_BUS_WIDTH => 37,
                attribute::MEMORY_CLOCK_RATE => 36,
                attribute::MULTIPROCESSOR_COUNT => 16,
                attribute::PCI_BUS_ID => 33,
                attribute::PCI_DEVICE_ID => 34,
                attribute::PCI_DOMAIN_ID => 50,
                attribute::MAX_REGISTERS_PER_BLOCK => 12,
                // With opt-in, which `launch` does.
                attribute::MAX_SHARED_MEMORY_PER_BLOCK => 97,
                attribute::SHARED_MEMORY_PER_MULTIPROCESSOR => 81,
                attribute::WARP_SIZE => 10,
                attribute::NUMBER_OF_XCCS => return Ok(1),
                _ => return Err(Code::INVALID_VALUE),
            },
        )
    }

    fn total_memory(&self, device: usize) -> Result<u64> {
        let (cu_device, mut bytes) = (self.cu_device(device)?, 0);
        check(unsafe { (self.driver.device_total_memory)(&raw mut bytes, cu_device) })?;
        Ok(bytes as u64)
    }

    fn pci_bus_id(&self, device: usize) -> Result<String> {
        let cu_device = self.cu_device(device)?;
        let id = self.text(|to, room| unsafe { (self.driver.device_get_pci_bus_id)(to.cast(), room, cu_device) })?;
        // CUDA prints capitals, HIP does not.
        Ok(id.to_lowercase())
    }

    fn memory(&self, device: usize) -> Result<(u64, u64)> {
        let (mut free, mut total) = (0, 0);
        self.within(device, |driver| unsafe { (driver.memory_get_info)(&raw mut free, &raw mut total) })?;
        Ok((free as u64, total as u64))
    }

    fn allocate(&self, device: usize, bytes: usize) -> Result<u64> {
        self.get(device, |driver, found| unsafe { (driver.memory_allocate)(found.cast(), bytes) })
    }

    fn free(&self, device: usize, address: u64) -> Result<()> {
        self.within(device, |driver| unsafe { (driver.memory_free)(address) })
    }

    unsafe fn write(&self, device: usize, to: u64, from: *const c_void, bytes: usize) -> Result<()> {
        self.within(device, |driver| unsafe { (driver.copy_to_device)(to, from, bytes) })
    }

    unsafe fn read(&self, device: usize, to: *mut c_void, from: u64, bytes: usize) -> Result<()> {
        self.within(device, |driver| unsafe { (driver.copy_to_host)(to, from, bytes) })
    }

    fn fill(&self, device: usize, to: u64, value: u32, width: usize, count: usize, order: Order) -> Result<()> {
        let stream = handle(order.stream);
        twisted(order.twist, || {
            self.within(device, |driver| match width {
                1 => unsafe { (driver.fill_bytes)(to, value as u8, count, stream) },
                _ => unsafe { (driver.fill_words)(to, value, count, stream) },
            })
        })
    }

    fn copy(&self, device: usize, to: u64, from: u64, bytes: usize, order: Order) -> Result<()> {
        let stream = handle(order.stream);
        twisted(order.twist, || {
            self.within(device, |driver| unsafe { (driver.copy_on_device)(to, from, bytes, stream) })
        })
    }

    unsafe fn load(&self, device: usize, image: *const c_void) -> Result<u64> {
        self.get(device, |driver, found| unsafe { (driver.module_load)(found, image) })
    }

    fn unload(&self, device: usize, module: u64) -> Result<()> {
        self.within(device, |driver| unsafe { (driver.module_unload)(handle(module)) })
    }

    fn function(&self, device: usize, module: u64, name: &str) -> Result<u64> {
        let name = CString::new(name).map_err(|_| Code::NOT_FOUND)?;
        self.get(device, |driver, found| unsafe { (driver.module_get_function)(found, handle(module), name.as_ptr()) })
    }

    unsafe fn launch(
        &self,
        device: usize,
        function: u64,
        geometry: Geometry,
        arguments: *mut *mut c_void,
        order: Order,
    ) -> Result<()> {
        let ([x, y, z], [block_x, block_y, block_z]) = (geometry.grid, geometry.block);
        let (function, stream, shared) = (handle(function), handle(order.stream), geometry.shared);
        twisted(order.twist, || {
            if shared > UNASKED {
                let ask = MAX_DYNAMIC_SHARED;
                self.within(device, |driver| unsafe {
                    (driver.function_set_attribute)(function, ask, shared as c_int)
                })?;
            }
            self.within(device, |driver| unsafe {
                let none = ptr::null_mut();
                (driver.launch)(function, x, y, z, block_x, block_y, block_z, shared, stream, arguments, none)
            })
        })
    }

    fn create_stream(&self, device: usize, flags: u32) -> Result<u64> {
        self.get(device, |driver, found| unsafe { (driver.stream_create)(found, flags) })
    }

    fn destroy_stream(&self, device: usize, stream: u64) -> Result<()> {
        self.within(device, |driver| unsafe { (driver.stream_destroy)(handle(stream)) })
    }

    fn synchronize_stream(&self, device: usize, stream: u64) -> Result<()> {
        self.within(device, |driver| unsafe { (driver.stream_synchronize)(handle(stream)) })
    }

    fn query_stream(&self, device: usize, stream: u64) -> Result<()> {
        self.within(device, |driver| unsafe { (driver.stream_query)(handle(stream)) })
    }

    fn create_event(&self, device: usize, flags: u32) -> Result<u64> {
        // HIP's own flags, about fences, mean nothing here.
        self.get(device, |driver, found| unsafe { (driver.event_create)(found, flags & 3) })
    }

    fn record(&self, device: usize, event: u64, stream: u64) -> Result<()> {
        self.within(device, |driver| unsafe { (driver.event_record)(handle(event), handle(stream)) })
    }

    fn synchronize_event(&self, device: usize, event: u64) -> Result<()> {
        self.within(device, |driver| unsafe { (driver.event_synchronize)(handle(event)) })
    }

    fn elapsed(&self, device: usize, from: u64, to: u64) -> Result<f32> {
        let mut ms = 0.0;
        self.within(device, |driver| unsafe { (driver.event_elapsed)(&raw mut ms, handle(from), handle(to)) })?;
        Ok(ms)
    }

    fn destroy_event(&self, device: usize, event: u64) -> Result<()> {
        self.within(device, |driver| unsafe { (driver.event_destroy)(handle(event)) })
    }

    fn synchronize(&self, device: usize) -> Result<()> {
        self.within(device, |driver| unsafe { (driver.context_synchronize)() })
    }
}
