//! What runs behind the entry points, whichever it is.

use std::ffi::c_void;

use crate::codes::{Code, Result};
use crate::gate::Twist;

/// Blocks, threads of a block, dynamic shared memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
}

/// HIP by its meaning. A device is an index into the GPUs that this process sees; 0 is no valid handle, but the default
/// stream.
pub trait Runtime: Send + Sync {
    fn init(&self) -> Result<()>;
    /// As HIP encodes it.
    fn version(&self) -> Result<i32>;
    /// What devices can be asked for: their index among all of the machine.
    fn devices(&self) -> &[usize];
    fn select(&self, device: usize) -> Result<()>;
    fn name(&self, device: usize) -> Result<String>;
    /// 16 characters.
    fn uuid(&self, device: usize) -> Result<String>;
    fn attribute(&self, device: usize, attribute: i32) -> Result<i32>;
    fn total_memory(&self, device: usize) -> Result<u64>;
    fn pci_bus_id(&self, device: usize) -> Result<String>;

    // The rest is about the device that this thread selected.

    /// Free and total bytes.
    fn memory(&self, device: usize) -> Result<(u64, u64)>;
    fn allocate(&self, device: usize, bytes: usize) -> Result<u64>;
    fn free(&self, device: usize, address: u64) -> Result<()>;
    /// # Safety
    /// `from` has `bytes` bytes.
    unsafe fn write(&self, device: usize, to: u64, from: *const c_void, bytes: usize) -> Result<()>;
    /// # Safety
    /// `to` has room for `bytes` bytes, which are all its own.
    unsafe fn read(&self, device: usize, to: *mut c_void, from: u64, bytes: usize) -> Result<()>;
    /// Fills `count` elements of `width` bytes, 1 or 4, with `value`.
    fn fill(&self, device: usize, to: u64, value: u32, width: usize, count: usize, order: Order) -> Result<()>;
    /// Copies `bytes` bytes on the device, from one range to another that does not overlap with it.
    fn copy(&self, device: usize, to: u64, from: u64, bytes: usize, order: Order) -> Result<()>;
    /// # Safety
    /// `image` is an ELF file or a text that ends with NUL, or something shorter that is recognisably neither.
    unsafe fn load(&self, device: usize, image: *const c_void) -> Result<u64>;
    fn unload(&self, device: usize, module: u64) -> Result<()>;
    fn function(&self, device: usize, module: u64, name: &str) -> Result<u64>;
    /// What a function takes, or may have; not said by all.
    fn function_attribute(&self, _device: usize, _function: u64, _attribute: i32) -> Result<i32> {
        Err(Code::INVALID_VALUE)
    }
    /// # Safety
    /// `arguments` has an element for each argument of the kernel, and points to their values.
    unsafe fn launch(
        &self,
        device: usize,
        function: u64,
        geometry: Geometry,
        arguments: *mut *mut c_void,
        order: Order,
    ) -> Result<()>;
    fn create_stream(&self, device: usize, flags: u32) -> Result<u64>;
    fn destroy_stream(&self, device: usize, stream: u64) -> Result<()>;
    fn synchronize_stream(&self, device: usize, stream: u64) -> Result<()>;
    fn query_stream(&self, device: usize, stream: u64) -> Result<()>;
    fn create_event(&self, device: usize, flags: u32) -> Result<u64>;
    fn record(&self, device: usize, event: u64, stream: u64) -> Result<()>;
    fn synchronize_event(&self, device: usize, event: u64) -> Result<()>;
    /// Milliseconds.
    fn elapsed(&self, device: usize, from: u64, to: u64) -> Result<f32>;
    fn destroy_event(&self, device: usize, event: u64) -> Result<()>;
    fn synchronize(&self, device: usize) -> Result<()>;
}

/// Where in a stream something happens, and what goes wrong with it.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    pub stream: u64,
    pub twist: Twist,
}
