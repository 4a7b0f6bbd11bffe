//! The CPU as a device. A code object is a shared object that exports, for launch `i`, `bluefin_launch_<i>` with the C
//! signature `void f(void **arguments)`; `arguments[k]` points to the value of the k-th argument of the launch, which for
//! a buffer or the workspace is a pointer.
#![allow(unsafe_code)]

mod cpu;
mod library;
mod memory;

use std::ffi::c_void;
use std::hint::black_box;
use std::rc::Rc;
use std::time::Instant;

use bluefin_common::artifact::{Argument, Launch};

use self::library::{Library, Shim};
pub use self::memory::Memory;
use super::{Buffers, Description, Device, DeviceError};

/// Steps of a spin, about a millisecond on a CPU of today.
const SPIN: u64 = 1_000_000;

/// The CPU that this process runs on.
pub struct HostDevice {
    description: Description,
}

impl HostDevice {
    #[must_use]
    pub fn new() -> Self {
        Self { description: cpu::describe() }
    }
}

impl Default for HostDevice {
    fn default() -> Self {
        Self::new()
    }
}

/// A loaded shared object and its shims, one for each launch.
pub struct Module {
    library: Rc<Library>,
    shims: Vec<Shim>,
}

/// Shims with the arguments of all copies.
pub struct Bound {
    /// For each launch, its shim and where its arguments start within those of a copy.
    calls: Vec<(Shim, usize)>,
    /// What `values` of all copies are at; arguments of one copy after those of another.
    pointers: Box<[*mut c_void]>,
    /// Arguments of all launches of one copy.
    stride: usize,
    copies: usize,
    /// What the pointers point to, directly and in turn, and the code behind the shims.
    _values: Box<[u64]>,
    _memory: [Option<Memory>; 2],
    _library: Rc<Library>,
}

impl Device for HostDevice {
    type Memory = Memory;
    type Module = Module;
    type Bound = Bound;

    fn description(&self) -> &Description {
        &self.description
    }

    fn spin(&self) -> Result<f64, DeviceError> {
        let start = Instant::now();
        let mut state = black_box(1_u64);
        for _ in 0..SPIN {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        }
        black_box(state);
        Ok(milliseconds(start))
    }

    fn allocate(&self, bytes: u64) -> Result<Memory, DeviceError> {
        Memory::allocate(bytes)
    }

    fn write(&self, memory: &Memory, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        memory.write(offset, bytes)
    }

    fn read(&self, memory: &Memory, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        memory.read(offset, bytes)
    }

    fn load(&self, code: &[u8], launches: &[Launch]) -> Result<Module, DeviceError> {
        let library = Library::load(code)?;
        let shims = (0..launches.len()).map(|index| library.shim(index)).collect::<Result<_, _>>()?;
        Ok(Module { library: Rc::new(library), shims })
    }

    fn bind(
        &self,
        module: &Module,
        launches: &[Launch],
        buffers: &Buffers<'_, Memory>,
        workspace: Option<&Memory>,
    ) -> Result<Bound, DeviceError> {
        let mut values = Vec::new();
        for copy in 0..buffers.copies {
            for argument in launches.iter().flat_map(|launch| &launch.arguments) {
                values.push(value(*argument, buffers, copy, workspace)?);
            }
        }
        let mut values = values.into_boxed_slice();
        let pointers = values.iter_mut().map(|value| std::ptr::from_mut(value).cast::<c_void>()).collect();
        let mut stride = 0;
        let mut calls = Vec::new();
        for (shim, launch) in module.shims.iter().zip(launches) {
            calls.push((*shim, stride));
            stride += launch.arguments.len();
        }
        Ok(Bound {
            calls,
            pointers,
            stride,
            copies: buffers.copies,
            _values: values,
            _memory: [Some(buffers.memory.clone()), workspace.cloned()],
            _library: Rc::clone(&module.library),
        })
    }

    fn run(&self, bound: &Bound, copy: usize) -> Result<(), DeviceError> {
        bound.call(copy % bound.copies);
        Ok(())
    }

    fn time(&self, bound: &Bound, first: usize, count: u32) -> Result<f64, DeviceError> {
        let mut copy = first % bound.copies;
        let start = Instant::now();
        for _ in 0..count {
            bound.call(copy);
            copy += 1;
            if copy == bound.copies {
                copy = 0;
            }
        }
        Ok(milliseconds(start))
    }
}

impl Bound {
    /// Runs all launches on `copy`, which is less than `self.copies`.
    #[inline]
    fn call(&self, copy: usize) {
        assert!(copy < self.copies);
        for (shim, start) in &self.calls {
            // SAFETY: the pointers of `copy` are in bounds, for `pointers` holds `copies * stride` of them and a launch
            // without arguments may get one past the end. They point into `_values`, whose pointers point into `_memory`;
            // all of them and the code of the shim live as long as `self`. What the code does with them is beyond proof: it
            // is a candidate, and this process exists to be lost to one.
            unsafe { shim(self.pointers.as_ptr().add(copy * self.stride + start).cast_mut()) };
        }
    }
}

/// The bytes of an argument, at the start of a slot.
fn value(
    argument: Argument,
    buffers: &Buffers<'_, Memory>,
    copy: usize,
    workspace: Option<&Memory>,
) -> Result<u64, DeviceError> {
    let slot = |bytes: [u8; 4]| {
        let mut slot = [0; 8];
        slot[..4].copy_from_slice(&bytes);
        u64::from_ne_bytes(slot)
    };
    Ok(match argument {
        Argument::Buffer(index) => {
            let offset = buffers.offsets.get(usize::from(index)).ok_or_else(|| {
                DeviceError::Launch(format!(
                    "argument: found buffer {index}, expected less than {}",
                    buffers.offsets.len()
                ))
            })?;
            buffers.memory.address(offset + buffers.stride * copy as u64)
        }
        // A candidate that asks for none of it gets a null pointer.
        Argument::Workspace => workspace.map_or(0, |memory| memory.address(0)),
        Argument::I32(value) => slot(value.to_ne_bytes()),
        Argument::F32(value) => slot(value.to_ne_bytes()),
        Argument::I64(value) => u64::from_ne_bytes(value.to_ne_bytes()),
        Argument::F64(value) => u64::from_ne_bytes(value.to_ne_bytes()),
    })
}

fn milliseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1000.0
}
