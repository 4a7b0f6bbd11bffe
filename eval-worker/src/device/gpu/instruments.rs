//! Kernels of bluefin's own, and what they measure. Only NVIDIA's driver compiles, so AMD's GPUs go without.

use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;

use super::super::{DeviceError, MAX_RUNS};
use super::calls::Handle;
use super::kernel::Kernel;
use super::library::Runtime;
use super::memory::{Memory, Module};

const SOURCE: &[u8] = include_bytes!("instruments.ptx");
/// Bytes of a clock reading.
const SLOT: usize = 16;
/// Readings that there is room for: one before all samples that are taken at once, and one after each.
const MOMENTS: u64 = MAX_RUNS as u64 + 1;
/// Elements that the probe computes.
const PROBED: u32 = 1 << 16;
/// Steps of a spin: about a millisecond on a GPU of today.
const SPIN: u32 = 40_000;

/// The kernels, loaded.
pub(super) struct Instruments {
    runtime: Rc<Runtime>,
    _module: Module,
    clock: Handle,
    probe: Handle,
    spin: Handle,
    /// Readings of all multiprocessors, those of one moment after those of another.
    readings: Memory,
    units: u32,
}

impl Instruments {
    pub(super) fn load(runtime: &Rc<Runtime>, units: u32) -> Result<Self, DeviceError> {
        let module = Module::load(runtime, SOURCE)?;
        let [clock, probe, spin] =
            [c"bluefin_clock", c"bluefin_probe", c"bluefin_spin"].map(|entry| module.function(entry));
        let readings = Memory::allocate(runtime, MOMENTS * SLOT as u64 * u64::from(units))?;
        let runtime = Rc::clone(runtime);
        Ok(Self { runtime, _module: module, clock: clock?, probe: probe?, spin: spin?, readings, units })
    }

    /// Bytes of the readings of `moments` moments.
    fn bytes(&self, moments: u64) -> u64 {
        moments * SLOT as u64 * u64::from(self.units)
    }

    /// Clears the readings of as many moments, so that a multiprocessor that is not asked is told from one that is.
    pub(super) fn forget(&self, moments: usize, stream: Handle) -> Result<(), DeviceError> {
        self.readings.fill(0, 0, self.bytes(moments as u64), stream)
    }

    /// Asks every multiprocessor for its clock, behind what is on `stream`. `moment` is less than [`MOMENTS`].
    pub(super) fn read_clock(&self, stream: Handle, moment: usize) -> Result<(), DeviceError> {
        let slots = self.readings.address() + self.bytes(moment as u64);
        self.launch(kernel(self.clock, self.units, 32), slots, self.units, stream)
    }

    /// The clock between each moment and the next in MHz, once they are over: the median of the multiprocessors that were
    /// read both times.
    pub(super) fn clocks_mhz(&self, moments: usize) -> Result<Vec<Option<f32>>, DeviceError> {
        let one = self.bytes(1) as usize;
        let mut bytes = vec![0; one * moments];
        self.readings.read(0, &mut bytes)?;
        let readings: Vec<&[u8]> = bytes.chunks_exact(one.max(1)).collect();
        Ok(readings.iter().zip(readings.iter().skip(1)).map(|(before, after)| clock_of(before, after)).collect())
    }

    /// Whether kernels compute what they should.
    pub(super) fn probe(&self, stream: Handle) -> Result<(), DeviceError> {
        let out = Memory::allocate(&self.runtime, 4 * u64::from(PROBED))?;
        self.launch(kernel(self.probe, PROBED.div_ceil(256), 256), out.address(), PROBED, stream)?;
        self.runtime.wait(stream)?;
        let mut bytes = vec![0; 4 * PROBED as usize];
        out.read(0, &mut bytes)?;
        let wanted = (0..PROBED).map(|index| index.wrapping_mul(2_654_435_761) ^ 0xB10E_F1A5);
        match bytes.as_chunks().0.iter().zip(wanted).position(|(found, wanted)| *found != wanted.to_ne_bytes()) {
            None => Ok(()),
            Some(index) => Err(DeviceError::Lost(format!("it computes wrong: element {index} of the probe"))),
        }
    }

    pub(super) fn spin(&self, stream: Handle) -> Result<(), DeviceError> {
        self.launch(kernel(self.spin, 4 * self.units, 256), self.readings.address(), SPIN, stream)
    }

    fn launch(&self, kernel: Kernel, mut address: u64, mut count: u32, stream: Handle) -> Result<(), DeviceError> {
        let mut arguments = [ptr::from_mut(&mut address).cast::<c_void>(), ptr::from_mut(&mut count).cast::<c_void>()];
        // SAFETY: all three kernels take an address and a number, which are copied before the call returns.
        unsafe { self.runtime.launch(&kernel, stream, arguments.as_mut_ptr()) }
    }
}

/// One of `blocks` blocks of `threads` threads.
fn kernel(function: Handle, blocks: u32, threads: u32) -> Kernel {
    Kernel { function, grid: [blocks, 1, 1], block: [threads, 1, 1], shared: 0 }
}

/// Median over the multiprocessors of cycles over time, from their readings at two moments.
fn clock_of(before: &[u8], after: &[u8]) -> Option<f32> {
    let numbers =
        |bytes: &[u8]| -> Vec<u64> { bytes.as_chunks().0.iter().map(|chunk| u64::from_ne_bytes(*chunk)).collect() };
    let (before, after) = (numbers(before), numbers(after));
    let mut clocks: Vec<f64> = before
        .as_chunks::<2>()
        .0
        .iter()
        .zip(after.as_chunks::<2>().0)
        .filter_map(|(before, after)| match (before, after) {
            ([cycles, from], [later, to]) if *from > 0 && to > from && later > cycles => {
                Some((later - cycles) as f64 * 1000.0 / (to - from) as f64)
            }
            _ => None,
        })
        .collect();
    clocks.sort_by(f64::total_cmp);
    clocks.get(clocks.len() / 2).map(|mhz| *mhz as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_cycles_over_time() {
        let bytes = |numbers: &[u64]| numbers.iter().flat_map(|number| number.to_ne_bytes()).collect::<Vec<u8>>();
        // Two multiprocessors at 1980 MHz for 10 us, and one that was not read before.
        let before = bytes(&[1000, 5000, 3000, 5000, 0, 0]);
        let after = bytes(&[20_800, 15_000, 22_800, 15_000, 7, 15_000]);
        assert_eq!(clock_of(&before, &after), Some(1980.0));
        assert_eq!(clock_of(&bytes(&[0; 6]), &bytes(&[0; 6])), None);
        assert_eq!(clock_of(&[], &[]), None);
    }

    #[test]
    fn the_source_ends_as_the_driver_needs_it() {
        assert!(!SOURCE.contains(&0), "the loader adds the zero");
        assert!(std::str::from_utf8(SOURCE).unwrap().is_ascii());
    }
}
