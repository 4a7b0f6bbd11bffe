//! HIP over an executor of AMD's machine code: real code objects, on the CPU. What a device does is done when it is asked for; its
//! clock counts instructions.

use std::collections::{HashMap, HashSet};
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bluefin_amd::{self as amd, Fault, Launch, LaunchError, Memory, Options, Program};

use crate::codes::{Code, Result};
use crate::devices::Gpu;
use crate::gate::{self, Twist};
use crate::host::{Host, image_of};
use crate::runtime::{Geometry, Order, Runtime};

/// Of the device's clock, for an instruction of a wave: one wave at a time, on a slow GPU.
const INSTRUCTION_MS: f64 = 1e-3;
/// The same for each launch, copy and fill.
const COMMAND_MS: f64 = 1e-2;
/// A launch of more instructions does not end.
const MAX_INSTRUCTIONS: u64 = 1 << 28;

/// The GPUs that this process sees.
pub struct Executed {
    /// Says what they are.
    host: Host,
    devices: Vec<Mutex<Device>>,
}

#[derive(Default)]
struct Device {
    memory: Memory,
    /// Of what is allocated, the bytes.
    sizes: HashMap<u64, u64>,
    clock_ms: f64,
    modules: HashMap<u64, Arc<Program>>,
    functions: HashMap<u64, (u64, Arc<Program>, String)>,
    streams: HashSet<u64>,
    /// When each was recorded.
    events: HashMap<u64, Option<f64>>,
    handles: u64,
}

impl Device {
    fn handle(&mut self) -> u64 {
        self.handles += 1;
        self.handles
    }

    /// Does `work` in order; what it takes on the device.
    fn command(&mut self, order: Order, work: impl FnOnce(&mut Self) -> Result<f64>) -> Result<()> {
        if order.stream != 0 && !self.streams.contains(&order.stream) {
            return Err(Code::INVALID_HANDLE);
        }
        let slower = match order.twist {
            Twist::Skip => return Ok(()),
            Twist::Slow(ms) => ms,
            Twist::None | Twist::Wrong | Twist::Nan | Twist::Time(_) => 0.0,
        };
        std::thread::sleep(Duration::from_secs_f64(slower / 1000.0));
        let took = work(self)?;
        self.clock_ms += COMMAND_MS + took + slower;
        Ok(())
    }
}

impl Executed {
    /// As the environment says.
    pub fn from_environment() -> Self {
        let host = Host::from_environment();
        let devices = host.devices().iter().map(|_| Mutex::default()).collect();
        Self { host, devices }
    }

    fn device(&self, device: usize) -> Result<MutexGuard<'_, Device>> {
        let device = self.devices.get(device).ok_or(Code::INVALID_DEVICE)?;
        Ok(device.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn physical(&self, device: usize) -> Result<usize> {
        self.host.devices().get(device).copied().ok_or(Code::INVALID_DEVICE)
    }

    fn gpu(&self, device: usize) -> Result<&Gpu> {
        self.host.gpu(device).map(|(gpu, _)| gpu)
    }

    /// What a launch that ended so leaves behind.
    fn end(&self, device: usize, failure: &amd::Failure) -> Result<()> {
        let physical = self.physical(device)?;
        match failure {
            amd::Failure::Launch(LaunchError::Lds { .. }) => Err(Code::LAUNCH_OUT_OF_RESOURCES),
            amd::Failure::Launch(LaunchError::Block { .. } | LaunchError::Grid { .. } | LaunchError::Blocks { .. }) => {
                Err(Code::INVALID_CONFIGURATION)
            }
            amd::Failure::Launch(LaunchError::NoKernel { .. }) => Err(Code::NOT_FOUND),
            amd::Failure::Launch(
                LaunchError::Arguments { .. }
                | LaunchError::Count { .. }
                | LaunchError::Argument { .. }
                | LaunchError::Unimplemented { .. },
            ) => Err(Code::INVALID_VALUE),
            amd::Failure::Verdict(verdict) => {
                eprintln!("{verdict}");
                match verdict.fault {
                    Fault::Hang { .. } => gate::hang(physical),
                    Fault::OutOfBounds { .. } | Fault::ReadOnly { .. } | Fault::Misaligned { .. } => {
                        gate::fail(physical, Code::ILLEGAL_ADDRESS);
                    }
                    _ => gate::fail(physical, Code::LAUNCH_FAILURE),
                }
                Ok(())
            }
        }
    }
}

fn outside(error: amd::Outside) -> Code {
    eprintln!("{error}");
    Code::INVALID_VALUE
}

impl Runtime for Executed {
    fn init(&self) -> Result<()> {
        self.host.init()
    }

    fn version(&self) -> Result<i32> {
        self.host.version()
    }

    fn devices(&self) -> &[usize] {
        self.host.devices()
    }

    fn select(&self, device: usize) -> Result<()> {
        self.host.select(device)
    }

    fn name(&self, device: usize) -> Result<String> {
        self.host.name(device)
    }

    fn uuid(&self, device: usize) -> Result<String> {
        self.host.uuid(device)
    }

    fn attribute(&self, device: usize, attribute: i32) -> Result<i32> {
        self.host.attribute(device, attribute)
    }

    fn total_memory(&self, device: usize) -> Result<u64> {
        self.host.total_memory(device)
    }

    fn pci_bus_id(&self, device: usize) -> Result<String> {
        self.host.pci_bus_id(device)
    }

    fn memory(&self, device: usize) -> Result<(u64, u64)> {
        let total = self.total_memory(device)?;
        let used: u64 = self.device(device)?.sizes.values().sum();
        Ok((total.saturating_sub(used), total))
    }

    fn allocate(&self, device: usize, bytes: usize) -> Result<u64> {
        if bytes as u64 > self.memory(device)?.0 {
            return Err(Code::OUT_OF_MEMORY);
        }
        let mut device = self.device(device)?;
        let address = device.memory.allocate("device memory", bytes, 1);
        device.sizes.insert(address, bytes as u64);
        Ok(address)
    }

    fn free(&self, device: usize, address: u64) -> Result<()> {
        let mut device = self.device(device)?;
        device.sizes.remove(&address);
        if device.memory.free(address) { Ok(()) } else { Err(Code::INVALID_VALUE) }
    }

    unsafe fn write(&self, device: usize, to: u64, from: *const c_void, bytes: usize) -> Result<()> {
        // SAFETY: the caller vouches for `from`.
        let data = unsafe { std::slice::from_raw_parts(from.cast::<u8>(), bytes) };
        self.device(device)?.memory.write(to, data).map_err(outside)
    }

    unsafe fn read(&self, device: usize, to: *mut c_void, from: u64, bytes: usize) -> Result<()> {
        let mut data = vec![0; bytes];
        self.device(device)?.memory.read(from, &mut data).map_err(outside)?;
        // SAFETY: the caller vouches for `to`.
        unsafe { to.cast::<u8>().copy_from_nonoverlapping(data.as_ptr(), bytes) };
        Ok(())
    }

    fn fill(&self, device: usize, to: u64, value: u32, width: usize, count: usize, order: Order) -> Result<()> {
        self.device(device)?.command(order, |device| {
            let [byte, ..] = value.to_le_bytes();
            match width {
                1 => device.memory.fill(to, byte, count),
                _ => device.memory.write(to, &value.to_le_bytes().repeat(count)),
            }
            .map_err(outside)?;
            Ok(0.0)
        })
    }

    fn copy(&self, device: usize, to: u64, from: u64, bytes: usize, order: Order) -> Result<()> {
        self.device(device)?.command(order, |device| {
            device.memory.copy(from, to, bytes).map_err(outside)?;
            Ok(0.0)
        })
    }

    unsafe fn load(&self, device: usize, image: *const c_void) -> Result<u64> {
        let target = amd::Target::named(&self.gpu(device)?.arch).ok_or(Code::NOT_SUPPORTED)?;
        // SAFETY: the caller vouches for the image.
        let image = unsafe { image_of(image.cast()) }?;
        let program = Program::load(image, target).map_err(|error| {
            eprintln!("{error}");
            match error {
                amd::LoadError::OtherTarget { .. } | amd::LoadError::NotInBundle { .. } => Code::NO_BINARY_FOR_GPU,
                _ => Code::INVALID_IMAGE,
            }
        })?;
        let mut device = self.device(device)?;
        let handle = device.handle();
        device.modules.insert(handle, Arc::new(program));
        Ok(handle)
    }

    fn unload(&self, device: usize, module: u64) -> Result<()> {
        let mut device = self.device(device)?;
        device.functions.retain(|_, (of, ..)| *of != module);
        device.modules.remove(&module).map(drop).ok_or(Code::INVALID_HANDLE)
    }

    fn function(&self, device: usize, module: u64, name: &str) -> Result<u64> {
        let mut device = self.device(device)?;
        let program = Arc::clone(device.modules.get(&module).ok_or(Code::INVALID_HANDLE)?);
        program.kernel(name).ok_or(Code::NOT_FOUND)?;
        let handle = device.handle();
        device.functions.insert(handle, (module, program, name.to_string()));
        Ok(handle)
    }

    unsafe fn launch(
        &self,
        device: usize,
        function: u64,
        geometry: Geometry,
        arguments: *mut *mut c_void,
        order: Order,
    ) -> Result<()> {
        let mut state = self.device(device)?;
        let (_, program, name) = state.functions.get(&function).cloned().ok_or(Code::INVALID_HANDLE)?;
        let kernel = program.kernel(&name).ok_or(Code::NOT_FOUND)?;
        let visible = kernel.arguments.iter().filter(|argument| !argument.is_hidden());
        let value = |(at, argument): (usize, &amd::Argument)| {
            // SAFETY: the caller vouches for as many pointers, each to a value of its type.
            unsafe { std::slice::from_raw_parts(arguments.add(at).read().cast::<u8>(), argument.size as usize) }
        };
        let values: Vec<&[u8]> = visible.enumerate().map(value).collect();
        let bytes = kernel.pack(&values).map_err(|_| Code::INVALID_VALUE)?;
        let mut failure = None;
        state.command(order, |state| {
            let launch = Launch {
                kernel: &name,
                grid: geometry.grid,
                block: geometry.block,
                dynamic_lds: geometry.shared,
                arguments: &bytes,
            };
            // Whose code it is nobody tells a device.
            let options = Options { max_instructions: MAX_INSTRUCTIONS, spreads: true, ..Options::default() };
            match program.run(&mut state.memory, &launch, &options) {
                Ok(report) => Ok(report.executed as f64 * INSTRUCTION_MS),
                Err(met) => {
                    failure = Some(met);
                    Ok(0.0)
                }
            }
        })?;
        failure.map_or(Ok(()), |failure| self.end(device, &failure))
    }

    fn create_stream(&self, device: usize, _: u32) -> Result<u64> {
        let mut device = self.device(device)?;
        let handle = device.handle();
        device.streams.insert(handle);
        Ok(handle)
    }

    fn destroy_stream(&self, device: usize, stream: u64) -> Result<()> {
        if self.device(device)?.streams.remove(&stream) { Ok(()) } else { Err(Code::INVALID_HANDLE) }
    }

    fn synchronize_stream(&self, device: usize, _: u64) -> Result<()> {
        gate::check(self.physical(device)?)
    }

    fn query_stream(&self, device: usize, _: u64) -> Result<()> {
        gate::check(self.physical(device)?)
    }

    fn create_event(&self, device: usize, _: u32) -> Result<u64> {
        let mut device = self.device(device)?;
        let handle = device.handle();
        device.events.insert(handle, None);
        Ok(handle)
    }

    fn record(&self, device: usize, event: u64, _: u64) -> Result<()> {
        let mut device = self.device(device)?;
        let now = device.clock_ms;
        *device.events.get_mut(&event).ok_or(Code::INVALID_HANDLE)? = Some(now);
        Ok(())
    }

    fn synchronize_event(&self, device: usize, event: u64) -> Result<()> {
        self.device(device)?.events.get(&event).map(drop).ok_or(Code::INVALID_HANDLE)
    }

    fn elapsed(&self, device: usize, from: u64, to: u64) -> Result<f32> {
        let device = self.device(device)?;
        let at = |event: u64| device.events.get(&event).copied().flatten().ok_or(Code::INVALID_HANDLE);
        Ok((at(to)? - at(from)?) as f32)
    }

    fn destroy_event(&self, device: usize, event: u64) -> Result<()> {
        self.device(device)?.events.remove(&event).map(drop).ok_or(Code::INVALID_HANDLE)
    }

    fn synchronize(&self, device: usize) -> Result<()> {
        gate::check(self.physical(device)?)
    }
}
