//! A launch: what is looked at before it begins, and the arguments that a kernel finds ("Kernel Dispatch" of LLVM's user guide).

mod begin;
mod judge;
mod turns;

use crate::error::LaunchError;
use crate::execute::{PRIVATE_BASE, SHARED_BASE};
use crate::guard::Guarded;
use crate::memory::{ARGUMENTS, Memory};
use crate::object::Kernel;
use crate::program::{Code, Program};
use crate::verdict::{Failure, Site, source_name};

/// What is launched, and how.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    pub kernel: &'a str,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// LDS on top of what the kernel itself names.
    pub dynamic_lds: u32,
    /// The arguments as the kernel lays them out ([`Kernel::arguments`]); hidden ones are added.
    pub arguments: &'a [u8],
}

/// How a launch is executed.
#[derive(Clone, Debug)]
pub struct Options {
    /// Decides the order of blocks and waves.
    pub seed: u64,
    /// Instructions of waves, all together, that a launch may execute.
    pub max_instructions: u64,
    /// The address of one of [`Report::guards`], which is left out.
    pub without: Option<u64>,
    /// Whether the compiler of the kernel spreads values over lanes, as Triton's does: what lanes and waves write to one place of LDS is one value
    /// to it, and may differ by the roundings of sums. What an author writes there is a race.
    pub spreads: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: 0, max_instructions: 1 << 32, without: None, spreads: false }
    }
}

/// What a launch did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub kernel: String,
    pub blocks: u64,
    pub waves: u64,
    /// Instructions of waves.
    pub executed: u64,
    /// Those that were executed, and how often.
    pub instructions: Vec<(Site, u64)>,
    /// Those of them that keep the kernel right.
    pub guards: Vec<Guarded>,
    /// Whether barriers alone ordered all touches of a place by two waves, one of them writing something new: then any other order of
    /// waves comes to the same.
    pub ordered: bool,
}

impl Report {
    /// How often each mnemonic was executed.
    #[must_use]
    pub fn mnemonics(&self) -> std::collections::BTreeMap<&str, u64> {
        let mut all = std::collections::BTreeMap::new();
        for (site, count) in &self.instructions {
            *all.entry(site.text.split_whitespace().next().unwrap_or_default()).or_insert(0) += count;
        }
        all
    }
}

/// Room behind the arguments: loads of arguments may be wider than what they load.
const ARGUMENT_ROOM: usize = 64;
const DISPATCH_PACKET: usize = 64;
/// What is behind arguments that are no whole dwords.
const PADDING: u8 = 0xa5;
/// Blocks of a launch, whose order is made beforehand.
const MAX_BLOCKS: u64 = 1 << 24;
/// A launch that was looked at and can begin.
struct Prepared<'a> {
    program: &'a Program,
    kernel: &'a Kernel,
    code: &'a Code,
    launch: &'a Launch<'a>,
    threads: u32,
    waves: u32,
    lds_bytes: u32,
    arguments: u64,
    dispatch: u64,
    image: u64,
    entry: usize,
    /// SGPRs that hold preloaded arguments.
    preloaded: Vec<(u32, u32)>,
}

impl Program {
    /// Executes a launch to its end.
    ///
    /// # Errors
    /// The launch does not fit the kernel, or the kernel does what it must not.
    pub fn run(&self, memory: &mut Memory, launch: &Launch<'_>, options: &Options) -> Result<Report, Failure> {
        let kernel = self.kernel(launch.kernel);
        let kernel = kernel.ok_or_else(|| LaunchError::NoKernel { name: launch.kernel.to_string() })?;
        self.image(memory);
        let mark = memory.mark();
        let done = self.prepare(memory, kernel, launch).map_err(Failure::from);
        let done = done.and_then(|prepared| prepared.run(memory, options));
        memory.release(mark);
        done
    }

    fn prepare<'a>(
        &'a self,
        memory: &mut Memory,
        kernel: &'a Kernel,
        launch: &'a Launch<'a>,
    ) -> Result<Prepared<'a>, LaunchError> {
        let name = || source_name(&kernel.name).into_owned();
        let threads = launch.block.iter().fold(1_u64, |threads, size| threads.saturating_mul(u64::from(*size)));
        if threads == 0 || threads > u64::from(kernel.max_block.min(1024)) {
            return Err(LaunchError::Block { kernel: name(), found: threads, most: kernel.max_block.min(1024) });
        }
        if launch.grid.contains(&0) {
            return Err(LaunchError::Grid { kernel: name() });
        }
        let blocks = launch.grid.iter().fold(1_u64, |blocks, size| blocks.saturating_mul(u64::from(*size)));
        if blocks > MAX_BLOCKS {
            return Err(LaunchError::Blocks { kernel: name(), found: blocks, most: MAX_BLOCKS });
        }
        let lds = u64::from(kernel.static_lds) + u64::from(launch.dynamic_lds);
        if lds > u64::from(self.target().lds_bytes) {
            return Err(LaunchError::Lds { kernel: name(), found: lds, most: self.target().lds_bytes });
        }
        let code = self.code(kernel.lanes);
        let code = code.ok_or_else(|| LaunchError::Unimplemented { kernel: name(), what: "its waves".into() })?;
        // The first 256 bytes load the preloaded arguments again, for hardware that can not.
        let entry = kernel.entry + if kernel.preload.dwords > 0 { 256 } else { 0 };
        let at = code.index_of(entry);
        let at =
            at.ok_or_else(|| LaunchError::Unimplemented { kernel: name(), what: format!("its entry {entry:#x}") })?;
        let arguments = self.arguments(memory, kernel, launch)?;
        let dispatch =
            if kernel.properties >> 1 & 1 == 1 { dispatch_packet(memory, kernel, launch, lds as u32) } else { 0 };
        let image = self.image(memory);
        Ok(Prepared {
            program: self,
            kernel,
            code,
            launch,
            threads: threads as u32,
            waves: (threads as u32).div_ceil(kernel.lanes),
            lds_bytes: lds as u32,
            arguments,
            dispatch,
            image,
            entry: at,
            preloaded: preloaded(memory, kernel, arguments),
        })
    }

    /// A buffer with the arguments and the hidden ones that are implemented; the others nobody writes.
    fn arguments(&self, memory: &mut Memory, kernel: &Kernel, launch: &Launch<'_>) -> Result<u64, LaunchError> {
        let visible = kernel.arguments.iter().filter(|argument| !argument.is_hidden());
        let end = visible.map(|argument| argument.offset + argument.size).max().unwrap_or(0);
        let found = launch.arguments.len();
        if found < end as usize || found > kernel.argument_bytes as usize {
            return Err(LaunchError::Arguments {
                kernel: source_name(&kernel.name).into_owned(),
                found,
                expected: end,
            });
        }
        let bytes = (kernel.argument_bytes as usize).next_multiple_of(ARGUMENT_ROOM).max(ARGUMENT_ROOM);
        let base = memory.allocate(ARGUMENTS, bytes, 1);
        let given = if kernel.arguments.is_empty() { found } else { end as usize };
        // Loads take whole dwords: what is behind a small argument is something, and does not matter.
        let padding = vec![PADDING; given.next_multiple_of(4) - given];
        let mut put = |offset: u64, data: &[u8]| {
            // Within the buffer, unless the metadata says that an argument is behind all arguments.
            let _outside = memory.write(base + offset, data);
        };
        put(0, &launch.arguments[..given]);
        put(given as u64, &padding);
        let dimensions = if launch.grid[2].max(launch.block[2]) > 1 {
            3
        } else if launch.grid[1].max(launch.block[1]) > 1 {
            2
        } else {
            1
        };
        for argument in &kernel.arguments {
            let value: u64 = match argument.kind.as_str() {
                "hidden_block_count_x" => launch.grid[0].into(),
                "hidden_block_count_y" => launch.grid[1].into(),
                "hidden_block_count_z" => launch.grid[2].into(),
                "hidden_group_size_x" => launch.block[0].into(),
                "hidden_group_size_y" => launch.block[1].into(),
                "hidden_group_size_z" => launch.block[2].into(),
                "hidden_remainder_x" | "hidden_remainder_y" | "hidden_remainder_z" => 0,
                "hidden_global_offset_x" | "hidden_global_offset_y" | "hidden_global_offset_z" => 0,
                "hidden_grid_dims" => dimensions,
                "hidden_dynamic_lds_size" => launch.dynamic_lds.into(),
                "hidden_private_base" => PRIVATE_BASE >> 32,
                "hidden_shared_base" => SHARED_BASE >> 32,
                _ => continue,
            };
            put(argument.offset.into(), &value.to_le_bytes()[..(argument.size as usize).min(8)]);
        }
        Ok(base)
    }
}

/// The packet that asks for the launch ("HSA", kernel dispatch packet).
fn dispatch_packet(memory: &mut Memory, kernel: &Kernel, launch: &Launch<'_>, lds: u32) -> u64 {
    let base = memory.allocate("the dispatch packet", DISPATCH_PACKET, 4);
    let mut packet = Vec::with_capacity(DISPATCH_PACKET);
    packet.extend([0_u16, 3].iter().flat_map(|field| field.to_le_bytes()));
    packet.extend(launch.block.iter().flat_map(|size| (*size as u16).to_le_bytes()));
    packet.extend(0_u16.to_le_bytes());
    let threads = launch.grid.iter().zip(launch.block).map(|(blocks, threads)| blocks.wrapping_mul(threads));
    packet.extend(threads.flat_map(u32::to_le_bytes));
    packet.extend([kernel.lane_scratch(), lds].iter().flat_map(|field| field.to_le_bytes()));
    // It is within what was allocated for it; the addresses behind it nobody writes.
    let _outside = memory.write(base, &packet);
    base
}

fn preloaded(memory: &Memory, kernel: &Kernel, arguments: u64) -> Vec<(u32, u32)> {
    let dword = |at: usize| {
        let (address, mut bytes) = (arguments + 4 * (kernel.preload.offset + at) as u64, [0; 4]);
        let read = memory.read(address, &mut bytes);
        let whole = read.is_ok() && matches!(memory.first_unwritten(address, 4), Ok(None));
        (u32::from_le_bytes(bytes), if whole { 0 } else { u32::MAX })
    };
    (0..kernel.preload.dwords).map(dword).collect()
}
