//! GPUs, through CUDA's driver API or through HIP. Both are looked up at run time, so that one program starts everywhere;
//! everything above the table of their calls is the same for both.
#![allow(unsafe_code)]

mod calls;
mod cuda;
mod error;
mod facts;
mod hip;
mod instruments;
mod interface;
mod kernel;
mod library;
mod memory;
mod resources;
mod stream;
mod sysfs;
mod telemetry;

use std::cell::{Cell, OnceCell};
use std::ffi::{CStr, CString};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bluefin_common::arch;
use bluefin_common::archive;
use bluefin_common::artifact::Launch;
use bluefin_common::outcome::{DeviceState, Resources};
use bluefin_common::value::Value;

use self::calls::Handle;
use self::instruments::Instruments;
pub use self::interface::Interface;
use self::kernel::Kernel;
use self::library::{Runtime, Special};
pub use self::memory::Memory;
pub use self::sysfs::driver_version as amd_driver;
use self::telemetry::{Heat, Telemetry};
use super::bindings::{Addresses, Bindings};
use super::info::{DeviceInfo, Listing};
use super::{Buffers, Description, Device, DeviceError, MAX_RUNS, Run, check_memory, image};
use crate::parameters::Parameters;
use crate::timing::{Caches, Sample};

/// Launches of the memory fill that is the spin of a GPU without kernels of ours.
const SPIN_FILLS: u32 = 4;
/// How long a temperature stays true: asking takes longer than a short kernel.
const HEAT_STAYS: Duration = Duration::from_secs(1);

/// All GPUs that `interface` finds, and what it found no use for.
#[must_use]
pub fn list(interface: Interface) -> Listing {
    let runtime = match Runtime::open(interface) {
        Ok(runtime) => runtime,
        Err(reasons) => return Listing { devices: Vec::new(), notes: reasons },
    };
    let mut listing = Listing { devices: Vec::new(), notes: runtime.unused.clone() };
    match runtime.count() {
        Ok(0) => listing.notes.push(format!("{}: it finds no device", runtime.path)),
        Ok(count) => {
            for ordinal in 0..count {
                match runtime.facts(ordinal) {
                    Ok(facts) => listing.devices.push(facts.info),
                    Err(error) => listing.notes.push(format!("{}:{ordinal}: {error}", interface.name())),
                }
            }
        }
        Err(error) => listing.notes.push(format!("{}: {error}", runtime.path)),
    }
    listing
}

/// One GPU, and the stream that all its work goes through.
pub struct Gpu {
    runtime: Rc<Runtime>,
    description: Description,
    info: DeviceInfo,
    stream: Handle,
    /// Around each of the samples that are taken at once.
    events: Vec<[Handle; 2]>,
    /// NVIDIA only.
    instruments: Option<Instruments>,
    telemetry: Telemetry,
    heat: Cell<Option<(Instant, Heat)>>,
    /// What an eviction writes; `None` where memory is too short for it.
    eviction: OnceCell<Option<(Memory, u64)>>,
    broken: Cell<bool>,
}

/// A loaded artifact: its code objects, and what their kernels take.
pub struct Module {
    objects: Rc<[memory::Module]>,
    parameters: Parameters,
}

/// Kernels with the arguments of all copies.
pub struct Bound {
    kernels: Vec<Kernel>,
    bindings: Bindings,
    _memory: [Option<Memory>; 2],
    _module: Rc<[memory::Module]>,
}

impl Gpu {
    /// Opens the GPU of this number.
    ///
    /// # Errors
    /// What is missing, and what was tried.
    pub fn open(interface: Interface, ordinal: i32) -> Result<Self, DeviceError> {
        let runtime = Runtime::open(interface).map_err(|reasons| DeviceError::Lost(reasons.join("; ")))?;
        let count = runtime.count()?;
        if ordinal >= count {
            let name = interface.name();
            return Err(DeviceError::Lost(format!("found {name}:{ordinal}, expected one of {count} {name} devices")));
        }
        let facts = runtime.facts(ordinal)?;
        runtime.open_device(ordinal)?;
        let runtime = Rc::new(runtime);
        let pair = |_| Ok([runtime.event()?, runtime.event()?]);
        let (stream, events) = (runtime.stream()?, (0..MAX_RUNS).map(pair).collect::<Result<_, DeviceError>>()?);
        let instruments = match interface {
            Interface::Cuda => Some(Instruments::load(&runtime, facts.target.cus())?),
            Interface::Hip => None,
        };
        let info = facts.info;
        let mut name = format!("{} ({}, {} GiB", info.name, info.target, info.memory_bytes.div_ceil(1 << 30));
        if let Some(partition) = &info.partition {
            name = format!("{name}, {partition}");
        }
        let description = Description {
            name: format!("{name})"),
            target: facts.target,
            uuid: info.uuid.clone(),
            memory_bytes: info.memory_bytes,
            // Whatever is to be evicted, all is.
            caches: Caches { bytes: facts.cache_bytes, by_line: false },
        };
        let telemetry = Telemetry::new(interface, &info.pci, &info.uuid);
        Ok(Self {
            runtime,
            description,
            info,
            stream,
            events,
            instruments,
            telemetry,
            heat: Cell::new(None),
            eviction: OnceCell::new(),
            broken: Cell::new(false),
        })
    }

    /// Bytes of shared memory that a block may have; 0 where nobody knows.
    fn shared_memory(&self) -> u64 {
        match arch::feature(self.description.target.arch(), "shared_memory") {
            Value::Int(bytes) => u64::try_from(bytes).unwrap_or_default(),
            _ => 0,
        }
    }

    /// Remembers an error that nothing survives.
    fn note<T>(&self, result: Result<T, DeviceError>) -> Result<T, DeviceError> {
        if let Err(DeviceError::Fault(_) | DeviceError::Lost(_)) = result {
            self.broken.set(true);
        }
        result
    }

    /// Milliseconds that `work` takes on the stream for each index below `count`, and the clock meanwhile. `before` is not
    /// timed.
    fn sample(
        &self,
        count: usize,
        work: impl Fn(usize) -> Result<(), DeviceError>,
        before: impl Fn(usize) -> Result<(), DeviceError>,
    ) -> Result<Vec<Sample>, DeviceError> {
        let events = self.events.get(..count).ok_or_else(|| DeviceError::Launch(format!("{count} samples at once")))?;
        let read_clock = |moment| match &self.instruments {
            Some(instruments) => instruments.read_clock(self.stream, moment),
            None => Ok(()),
        };
        let enqueue = || {
            if let Some(instruments) = &self.instruments {
                instruments.forget(count + 1, self.stream)?;
            }
            read_clock(0)?;
            for (index, [start, stop]) in events.iter().enumerate() {
                before(index)?;
                self.runtime.record(*start, self.stream)?;
                work(index)?;
                self.runtime.record(*stop, self.stream)?;
                read_clock(index + 1)?;
            }
            Ok(())
        };
        let enqueued = enqueue();
        // What sysfs says is true for the samples only while they run.
        let seen = match self.instruments {
            Some(_) => None,
            None => self.telemetry.clock_mhz().filter(|_| self.runtime.is_busy(self.stream)),
        };
        // Of a refused launch the ones before it run.
        let waited = self.runtime.wait(self.stream);
        enqueued.and(waited)?;
        let clocks_mhz = match &self.instruments {
            Some(instruments) => instruments.clocks_mhz(count + 1)?,
            None => vec![seen; count],
        };
        let sample = |([start, stop], clock_mhz): (&[Handle; 2], Option<f32>)| {
            Ok(Sample { clock_mhz, ..Sample::of(self.runtime.elapsed(*start, *stop)?) })
        };
        events.iter().zip(clocks_mhz).map(sample).collect()
    }

    fn enqueue(&self, bound: &Bound, copy: usize) -> Result<(), DeviceError> {
        for (kernel, arguments) in bound.kernels.iter().zip(bound.bindings.launches(copy)) {
            // SAFETY: the arguments live as long as `bound` and are copied before the call returns. What the kernel does
            // with them is beyond proof: it is a candidate, and this process exists to be lost to one.
            unsafe { self.runtime.launch(kernel, self.stream, arguments) }?;
        }
        Ok(())
    }

    /// Fills what the launches of `run` have to find.
    fn refill(&self, run: &Run<'_, Bound, Memory>) -> Result<(), DeviceError> {
        let Some(refill) = run.refill else { return Ok(()) };
        let copies = run.bound.bindings.copies();
        for launch in 0..(run.count as usize).min(copies) {
            for (from, to, bytes) in refill.of((run.first + launch) % copies) {
                Memory::copy((refill.memory, from), (refill.memory, to), bytes, self.stream)?;
            }
        }
        Ok(())
    }

    /// Writes over more than the caches hold.
    fn evict(&self) -> Result<(), DeviceError> {
        let bytes = self.description.caches.bytes.saturating_mul(2);
        let memory =
            self.eviction.get_or_init(|| Memory::allocate(&self.runtime, bytes).ok().map(|memory| (memory, bytes)));
        match memory {
            Some((memory, bytes)) => memory.fill(0, 0x5A, *bytes, self.stream),
            None => Ok(()),
        }
    }
}

/// The kernel of this name in the first module that has it; valid as long as they are.
fn find(modules: &[memory::Module], entry: &CStr) -> Result<Handle, DeviceError> {
    let mut missing = DeviceError::Load("an archive without code objects".to_string());
    for module in modules {
        match module.function(entry) {
            Err(error @ DeviceError::Load(_)) => missing = error,
            found => return found,
        }
    }
    Err(missing)
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: they were made by this driver, and nobody uses them any more.
        unsafe {
            for event in self.events.iter().flatten() {
                (self.runtime.calls.destroy_event)(*event);
            }
            (self.runtime.calls.destroy_stream)(self.stream);
        }
    }
}

impl Device for Gpu {
    type Memory = Memory;
    type Module = Module;
    type Bound = Bound;

    fn description(&self) -> &Description {
        &self.description
    }

    fn state(&self) -> DeviceState {
        let heat = match self.heat.get() {
            Some((when, heat)) if when.elapsed() < HEAT_STAYS => heat,
            _ => {
                let heat = self.telemetry.heat();
                self.heat.set(Some((Instant::now(), heat)));
                heat
            }
        };
        let versions = [self.info.driver.as_str(), self.info.runtime.as_str()];
        let versions: Vec<&str> = versions.into_iter().filter(|version| !version.is_empty()).collect();
        DeviceState {
            uuid: self.info.uuid.clone(),
            driver: versions.join(", "),
            temperature_c: heat.temperature_c,
            power_w: heat.power_w,
            reference_clock_mhz: self.info.clock_mhz,
            disturbance: None,
        }
    }

    /// Memory that holds what is written to it, fills that arrive, and on NVIDIA a kernel that computes what it should.
    /// AMD's GPUs get no kernel here, since nothing on a machine without compilers could make one for them.
    fn probe(&self) -> Result<(), DeviceError> {
        self.note(check_memory(self))?;
        let filled = || {
            let memory = Memory::allocate(&self.runtime, 4096)?;
            memory.fill(0, 0xA7, 4096, self.stream)?;
            self.runtime.wait(self.stream)?;
            let mut bytes = [0; 4096];
            memory.read(0, &mut bytes)?;
            match bytes.iter().position(|byte| *byte != 0xA7) {
                None => Ok(()),
                Some(byte) => Err(DeviceError::Lost(format!("its memory was not filled: byte {byte}"))),
            }
        };
        self.note(filled())?;
        match &self.instruments {
            Some(instruments) => self.note(instruments.probe(self.stream)),
            None => Ok(()),
        }
    }

    fn is_broken(&self) -> bool {
        self.broken.get()
    }

    fn spin(&self) -> Result<Sample, DeviceError> {
        let spin = |_| match &self.instruments {
            Some(instruments) => instruments.spin(self.stream),
            None => (0..SPIN_FILLS).try_for_each(|_| self.evict()),
        };
        let spun = self.note(self.sample(1, spin, |_| Ok(())))?;
        spun.first().copied().ok_or_else(|| DeviceError::Launch("a spin without a sample".to_string()))
    }

    fn allocate(&self, bytes: u64) -> Result<Memory, DeviceError> {
        self.note(Memory::allocate(&self.runtime, bytes))
    }

    fn write(&self, memory: &Memory, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.note(memory.write(offset, bytes))
    }

    fn read(&self, memory: &Memory, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.note(memory.read(offset, bytes))
    }

    fn copy(&self, from: (&Memory, u64), to: (&Memory, u64), bytes: u64) -> Result<(), DeviceError> {
        self.note(Memory::copy(from, to, bytes, self.stream).and_then(|()| self.runtime.wait(self.stream)))
    }

    fn fill(&self, memory: &Memory, offset: u64, byte: u8, bytes: u64) -> Result<(), DeviceError> {
        self.note(memory.fill(offset, byte, bytes, self.stream).and_then(|()| self.runtime.wait(self.stream)))
    }

    fn translate(&self, code: &[u8]) -> Option<Vec<u8>> {
        match &self.runtime.special {
            Special::Cuda(special) => special.translate(code),
            // AMD's compiler makes code of the device itself.
            Special::Hip(_) => None,
        }
    }

    fn load(&self, code: &[u8]) -> Result<Module, DeviceError> {
        let objects = archive::unpack(code).map_err(|error| DeviceError::Load(format!("archive: {error}")))?;
        let load = |code: &Vec<u8>| {
            image::check(code, &self.description.target)?;
            self.note(memory::Module::load(&self.runtime, code))
        };
        let parameters = Parameters::of(&objects);
        Ok(Module { objects: objects.iter().map(load).collect::<Result<_, _>>()?, parameters })
    }

    fn bind(
        &self,
        module: &Module,
        launches: &[Launch],
        buffers: &Buffers<'_, Memory>,
        workspace: Option<&Memory>,
    ) -> Result<Bound, DeviceError> {
        let addresses = Addresses::new(buffers, workspace, Memory::address);
        let kernel = |launch: &Launch| {
            let entry = CString::new(launch.entry.as_str())
                .map_err(|_| DeviceError::Load(format!("entry: found {:?}, which has a zero byte", launch.entry)))?;
            module.parameters.fit(launch).map_err(DeviceError::Launch)?;
            let function = find(&module.objects, &entry)?;
            let kernel = Kernel { function, grid: launch.grid, block: launch.block, shared: launch.shared };
            self.runtime.questions.fits(&kernel, &launch.entry, self.shared_memory())?;
            if let Special::Cuda(special) = &self.runtime.special {
                self.runtime.check("allow shared memory", special.allow_shared(function, launch.shared))?;
            }
            Ok(kernel)
        };
        Ok(Bound {
            kernels: self.note(launches.iter().map(kernel).collect())?,
            bindings: Bindings::new(launches, &addresses, &|tensor, address| self.runtime.tensor_map(tensor, address))?,
            _memory: [Some(buffers.memory.clone()), workspace.cloned()],
            _module: Rc::clone(&module.objects),
        })
    }

    fn resources(&self, bound: &Bound) -> Option<Resources> {
        let taken: Option<Vec<Resources>> =
            bound.kernels.iter().map(|kernel| self.runtime.questions.of(kernel)).collect();
        taken?.into_iter().reduce(Resources::and)
    }

    fn run(&self, bound: &Bound, copy: usize) -> Result<(), DeviceError> {
        let copy = copy % bound.bindings.copies();
        let enqueued = self.enqueue(bound, copy);
        // Of a refused launch the ones before it run.
        let waited = self.runtime.wait(self.stream);
        self.note(enqueued.and(waited))
    }

    fn time(&self, runs: &[Run<'_, Bound, Memory>]) -> Result<Vec<Sample>, DeviceError> {
        self.note(self.sample(
            runs.len(),
            |index| {
                let Some(run) = runs.get(index) else { return Ok(()) };
                let copies = run.bound.bindings.copies();
                (0..run.count as usize).try_for_each(|launch| self.enqueue(run.bound, (run.first + launch) % copies))
            },
            |index| {
                let Some(run) = runs.get(index) else { return Ok(()) };
                self.refill(run)?;
                if run.evict { self.evict() } else { Ok(()) }
            },
        ))
    }
}
