//! The CPU as a device. A code object is a shared object that exports, for launch `i`, `bluefin_launch_<i>` with the C
//! signature `void f(void **arguments)`; `arguments[k]` points to the value of the k-th argument of the launch, which for
//! a buffer or the workspace is a pointer.
#![allow(unsafe_code)]

mod cpu;
mod eviction;
mod library;
mod memory;
mod meter;
mod stopwatch;

use std::cell::RefCell;
use std::hint::black_box;
use std::path::Path;
use std::rc::Rc;

use bluefin_common::artifact::Launch;
use bluefin_common::control_group::ControlGroup;
use bluefin_common::outcome::DeviceState;

use self::library::{Library, Shim};
pub use self::memory::Memory;
use self::meter::Meter;
use self::stopwatch::Stopwatch;
use super::bindings::{Addresses, Bindings, no_maps};
use super::{Buffers, Description, Device, DeviceError, Refill, Run, check_memory, image};
use crate::timing::Sample;

/// Steps of a spin, about a millisecond on a CPU of today.
const SPIN: u64 = 1_000_000;
/// Bytes that are read to see how fast memory is: more than a core has to itself, about a millisecond.
const STREAM: usize = 8 << 20;
/// Bytes of a cache line, at the least.
const LINE: usize = 64;

/// The CPU that this process runs on.
pub struct HostDevice {
    description: Description,
    /// Limits the memory.
    group: ControlGroup,
    /// What a sweep fills the cache with, twice its size; made by the first sweep.
    filler: RefCell<Vec<u8>>,
    /// From one job to the next.
    meter: RefCell<Meter>,
    /// What is read to see how fast memory is; made by the first job.
    stream: RefCell<Vec<u64>>,
}

impl HostDevice {
    #[must_use]
    pub fn new() -> Self {
        Self {
            description: cpu::describe(),
            group: ControlGroup::of_this_process(Path::new("/")),
            filler: RefCell::default(),
            meter: RefCell::default(),
            stream: RefCell::default(),
        }
    }

    /// Milliseconds that reading a fixed piece of memory takes; `None` where there is no room for it.
    fn stream(&self) -> Option<f64> {
        let mut stream = self.stream.borrow_mut();
        if stream.is_empty() {
            let words = STREAM / size_of::<u64>();
            (memory::fits(STREAM as u64, &self.group) && stream.try_reserve_exact(words).is_ok()).then_some(())?;
            stream.resize(words, 1);
        }
        let watch = Stopwatch::start();
        black_box(stream.iter().fold(0_u64, |sum, word| sum.wrapping_add(*word)));
        Some(watch.sample().ms)
    }

    /// Evicts everything from the caches, where lines can not be evicted.
    fn sweep(&self) -> Result<(), DeviceError> {
        let wanted = self.description.caches.bytes.saturating_mul(2);
        let mut filler = self.filler.borrow_mut();
        if filler.is_empty() {
            let refused = || {
                let refusal = memory::refusal(wanted, &self.group);
                DeviceError::OutOfMemory(format!("to sweep the cache: {refusal}"))
            };
            if !memory::fits(wanted, &self.group) {
                return Err(refused());
            }
            let bytes = usize::try_from(wanted).map_err(|_| refused())?;
            filler.try_reserve_exact(bytes).map_err(|_| refused())?;
            filler.resize(bytes, 0);
        }
        filler.iter_mut().step_by(LINE).for_each(|byte| *byte = byte.wrapping_add(1));
        black_box(&mut *filler);
        Ok(())
    }

    fn refill(&self, refill: Refill<'_, Memory>, copy: usize) -> Result<(), DeviceError> {
        refill.of(copy).try_for_each(|(from, to, bytes)| self.copy((refill.memory, from), (refill.memory, to), bytes))
    }
}

impl Default for HostDevice {
    fn default() -> Self {
        Self::new()
    }
}

/// A loaded shared object.
pub struct Module(Rc<Library>);

/// Shims with the arguments of all copies.
pub struct Bound {
    shims: Vec<Shim>,
    bindings: Bindings,
    /// The copies of the buffers, where the first one starts, and bytes from one to the next.
    buffers: (Memory, u64, u64),
    _workspace: Option<Memory>,
    /// The code behind the shims.
    _library: Rc<Library>,
}

impl Device for HostDevice {
    type Memory = Memory;
    type Module = Module;
    type Bound = Bound;

    fn description(&self) -> &Description {
        &self.description
    }

    fn state(&self) -> DeviceState {
        let spin = || self.spin().ok().map(|sample| sample.ms);
        let disturbance = self.meter.borrow_mut().read(spin, || self.stream());
        DeviceState { disturbance, ..DeviceState::default() }
    }

    fn probe(&self) -> Result<(), DeviceError> {
        check_memory(self)
    }

    /// Faults of a CPU are signals, which end the process.
    fn is_broken(&self) -> bool {
        false
    }

    fn spin(&self) -> Result<Sample, DeviceError> {
        let watch = Stopwatch::start();
        let mut state = black_box(1_u64);
        for _ in 0..SPIN {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        }
        black_box(state);
        Ok(watch.sample())
    }

    fn allocate(&self, bytes: u64) -> Result<Memory, DeviceError> {
        Memory::allocate(bytes, &self.group)
    }

    fn write(&self, memory: &Memory, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        memory.write(offset, bytes)
    }

    fn read(&self, memory: &Memory, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        memory.read(offset, bytes)
    }

    fn copy(&self, from: (&Memory, u64), to: (&Memory, u64), bytes: u64) -> Result<(), DeviceError> {
        Memory::copy(from, to, bytes)
    }

    fn fill(&self, memory: &Memory, offset: u64, byte: u8, bytes: u64) -> Result<(), DeviceError> {
        memory.fill(offset, byte, bytes)
    }

    fn load(&self, code: &[u8]) -> Result<Module, DeviceError> {
        image::check(code, &self.description.target)?;
        Ok(Module(Rc::new(Library::load(code)?)))
    }

    fn bind(
        &self,
        module: &Module,
        launches: &[Launch],
        buffers: &Buffers<'_, Memory>,
        workspace: Option<&Memory>,
    ) -> Result<Bound, DeviceError> {
        let addresses = Addresses::new(buffers, workspace, Memory::address);
        Ok(Bound {
            shims: (0..launches.len()).map(|index| module.0.shim(index)).collect::<Result<_, _>>()?,
            bindings: Bindings::new(launches, &addresses, &no_maps)?,
            buffers: (
                buffers.memory.clone(),
                buffers.offsets.iter().copied().min().unwrap_or_default(),
                buffers.stride,
            ),
            _workspace: workspace.cloned(),
            _library: Rc::clone(&module.0),
        })
    }

    fn run(&self, bound: &Bound, copy: usize) -> Result<(), DeviceError> {
        bound.call(copy % bound.bindings.copies());
        Ok(())
    }

    fn time(&self, runs: &[Run<'_, Bound, Memory>]) -> Result<Vec<Sample>, DeviceError> {
        let sample = |run: &Run<'_, Bound, Memory>| {
            let copies = run.bound.bindings.copies();
            for copy in (0..(run.count as usize).min(copies)).map(|launch| (run.first + launch) % copies) {
                run.refill.map_or(Ok(()), |refill| self.refill(refill, copy))?;
            }
            if run.evict && eviction::BY_LINE {
                let (memory, first, stride) = &run.bound.buffers;
                memory.evict(*first, stride.saturating_mul(copies as u64));
            } else if run.evict {
                self.sweep()?;
            }
            let mut copy = run.first % copies;
            let watch = Stopwatch::start();
            for _ in 0..run.count {
                run.bound.call(copy);
                copy += 1;
                if copy == copies {
                    copy = 0;
                }
            }
            Ok(watch.sample())
        };
        runs.iter().map(sample).collect()
    }
}

impl Bound {
    /// Runs all launches on `copy`, which is less than the number of copies.
    #[inline]
    fn call(&self, copy: usize) {
        for (shim, arguments) in self.shims.iter().zip(self.bindings.launches(copy)) {
            // SAFETY: the arguments, the memory that they point to and the code of the shim live as long as `self`. What
            // the code does with them is beyond proof: it is a candidate, and this process exists to be lost to one.
            unsafe { shim(arguments) };
        }
    }
}
