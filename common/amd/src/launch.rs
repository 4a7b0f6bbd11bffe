//! A launch: what a wave finds in its registers when it begins ("Kernel Dispatch" and "Initial Kernel Execution State" of LLVM's
//! user guide), and the order in which waves run.

use crate::error::LaunchError;
use crate::execute::{Block, Lds, PRIVATE_BASE, SCRATCH_BASE, SHARED_BASE, Scratch};
use crate::memory::Memory;
use crate::object::Kernel;
use crate::order::{Order, Places};
use crate::program::{Code, Program};
use crate::random::Random;
use crate::registers::{EXEC, Registers, TTMP};
use crate::shadow::BLOCK_NUMBERS;
use crate::target::Generation;
use crate::verdict::{Failure, Fault, Missing, Raised, Site, Verdict};
use crate::wave::{State, Temporaries, Wave};

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
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: 0, max_instructions: 1 << 32 }
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

/// Bits of kernel_code_properties: user SGPRs in their order, with how many registers each has.
const USER_SGPRS: [(u16, u8); 7] = [(0, 4), (1, 2), (2, 2), (3, 2), (4, 2), (5, 2), (6, 1)];
/// Room behind the arguments: loads of arguments may be wider than what they load.
const ARGUMENT_ROOM: usize = 64;
const DISPATCH_PACKET: usize = 64;
/// Bit of COMPUTE_PGM_RSRC1: a block's waves are on both units of a pair.
const WGP_MODE: u32 = 29;
/// What is behind arguments that are no whole dwords.
const PADDING: u8 = 0xa5;
/// Blocks of a launch, whose order is made beforehand.
const MAX_BLOCKS: u64 = 1 << 24;
/// A wave's scratch is a multiple of this.
const SCRATCH_GRANULE: u64 = 1024;
/// The longest that a wave runs while others could.
const LONGEST_TURN: u64 = 4096;

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
        let prepared = self.prepare(memory, kernel, launch)?;
        let done = prepared.run(memory, options);
        memory.release(prepared.arguments);
        if prepared.dispatch != 0 {
            memory.release(prepared.dispatch);
        }
        done
    }

    fn prepare<'a>(
        &'a self,
        memory: &mut Memory,
        kernel: &'a Kernel,
        launch: &'a Launch<'a>,
    ) -> Result<Prepared<'a>, LaunchError> {
        let name = || kernel.name.clone();
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
            return Err(LaunchError::Arguments { kernel: kernel.name.clone(), found, expected: end });
        }
        let bytes = (kernel.argument_bytes as usize).next_multiple_of(ARGUMENT_ROOM).max(ARGUMENT_ROOM);
        let base = memory.allocate("the kernel's arguments", bytes, 1);
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

impl Prepared<'_> {
    fn scratch(&self) -> Scratch {
        let lane_bytes = u64::from(self.kernel.lane_scratch()).next_multiple_of(4);
        let wave_bytes = (lane_bytes * u64::from(self.kernel.lanes)).next_multiple_of(SCRATCH_GRANULE);
        let all = (wave_bytes * u64::from(self.waves)) as usize;
        Scratch { bytes: vec![0; all], written: vec![0; all], lane_bytes, wave_bytes }
    }

    fn run(&self, memory: &mut Memory, options: &Options) -> Result<Report, Failure> {
        memory.renumber();
        let mut launch_start = memory.numbers;
        let mut random = Random::new(options.seed);
        let mut blocks = all_blocks(self.launch.grid);
        random.shuffle(&mut blocks);
        let mut starts: Vec<(u32, [u32; 3])> = Vec::with_capacity(blocks.len());
        let target = self.program.target();
        let mut waves: Vec<Wave> = (0..self.waves).map(|_| Wave::new(target, self.kernel.lanes as usize)).collect();
        let bytes = self.lds_bytes as usize;
        let mut lds = Lds { bytes: vec![0; bytes], written: vec![0; bytes], ..Lds::default() };
        let mut scratch = self.scratch();
        let mut temporaries = Temporaries::new();
        let mut counts = vec![0_u64; self.code.instructions.len()];
        let mut executed = 0;
        let mut places = Places::default();
        for id in &blocks {
            if memory.renumber() {
                launch_start = memory.numbers;
                starts.clear();
                lds.shadow.clear();
                places.clear();
            }
            lds.written.fill(0);
            scratch.written.fill(0);
            starts.push((memory.numbers, *id));
            let start = memory.numbers;
            let block_of = |number: u32| {
                let at = starts.partition_point(|(start, _)| *start <= number);
                starts.get(at.saturating_sub(1)).map_or([0; 3], |(_, id)| *id)
            };
            let site = |at: usize| self.code.site(at);
            let index_of = |offset: u64| self.code.index_of(offset);
            let mut block = Block {
                instructions: &self.code.instructions,
                site: &site,
                index_of: &index_of,
                target: self.program.target(),
                memory: &mut *memory,
                lds: &mut lds,
                scratch: &mut scratch,
                temporaries: &mut temporaries,
                image: self.image,
                launch_start,
                start,
                waves: self.waves,
                round: 0,
                span: 0,
                stored: false,
                two_units: target.counts_stores && self.kernel.resources[0] >> WGP_MODE & 1 == 1,
                places: &mut places,
                lds_places: Places::default(),
                suspected: None,
                arrived: 0,
                debts: Vec::new(),
                block_of: &block_of,
                hint: 0,
                executed,
            };
            for (number, wave) in waves.iter_mut().enumerate() {
                self.begin(wave, number as u32, *id, &block);
            }
            let done = self.run_block(&mut block, &mut waves, &mut random, &mut counts, options);
            executed = block.executed;
            let rounds = block.round + 2;
            memory.numbers = memory.numbers.saturating_add(rounds.saturating_mul(self.waves));
            done.map_err(|(number, at, raised)| self.verdict(*id, number, raised.at.unwrap_or(at), *raised))?;
        }
        let executed_ones = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        Ok(Report {
            kernel: self.kernel.name.clone(),
            blocks: blocks.len() as u64,
            waves: blocks.len() as u64 * u64::from(self.waves),
            executed,
            instructions: executed_ones.map(|(at, count)| (self.code.site(at), *count)).collect(),
        })
    }

    fn verdict(&self, block: [u32; 3], wave: u32, at: usize, raised: Raised) -> Failure {
        let left = matches!(raised.fault, Fault::LeftCode { .. }) && at >= self.code.instructions.len();
        Failure::Verdict(Box::new(Verdict {
            kernel: self.kernel.name.clone(),
            fault: raised.fault,
            instruction: (!left).then(|| self.code.site(at)),
            block,
            wave,
            lane: raised.lane,
        }))
    }

    /// Runs the waves of a block in an order that `random` decides; the wave and instruction that ended it otherwise.
    fn run_block(
        &self,
        block: &mut Block<'_>,
        waves: &mut [Wave],
        random: &mut Random,
        counts: &mut [u64],
        options: &Options,
    ) -> Result<(), (u32, usize, Box<Raised>)> {
        let mut running: Vec<usize> = Vec::with_capacity(waves.len());
        loop {
            running.clear();
            running.extend((0..waves.len()).filter(|at| waves[*at].state == State::Running));
            if running.is_empty() {
                let waiting = waves.iter().find(|wave| wave.state == State::AtBarrier);
                let Some(waiting) = waiting else { return Ok(()) };
                // Waves that have ended are not waited for.
                let elsewhere = |wave: &&Wave| wave.state == State::AtBarrier && wave.at != waiting.at;
                if let Some(other) = waves.iter().find(elsewhere) {
                    let at = self.code.site(other.at.saturating_sub(1));
                    let fault = Fault::Barrier { missing: Missing::Elsewhere { wave: other.number, at } };
                    return Err((waiting.number, waiting.at.saturating_sub(1), Raised::wave(fault)));
                }
                if block.round + 1 > BLOCK_NUMBERS / self.waves - 4 {
                    return Err((
                        waiting.number,
                        waiting.at.saturating_sub(1),
                        Raised::wave(Fault::Hang { limit: block.executed }),
                    ));
                }
                block.pass_barrier(waves);
                let waiting = waves.iter_mut().filter(|wave| wave.state == State::AtBarrier);
                waiting.for_each(|wave| wave.state = State::Running);
                continue;
            }
            let turn = 1 + random.below(LONGEST_TURN);
            let Some(wave) = running.get(random.below(running.len() as u64) as usize).and_then(|at| waves.get_mut(*at))
            else {
                continue;
            };
            for _ in 0..turn {
                let at = wave.at;
                if let Some(count) = counts.get_mut(at) {
                    *count += 1;
                }
                block.executed += 1;
                if block.executed > options.max_instructions {
                    let fault = Fault::Hang { limit: options.max_instructions };
                    return Err((wave.number, at, Raised::wave(fault)));
                }
                block.step(wave).map_err(|raised| (wave.number, at, raised))?;
                if wave.state != State::Running {
                    break;
                }
            }
        }
    }

    /// A wave's registers at its beginning.
    fn begin(&self, wave: &mut Wave, number: u32, id: [u32; 3], block: &Block<'_>) {
        let lanes = self.kernel.lanes;
        wave.registers.reset(lanes as usize);
        wave.pending.clear();
        (wave.at, wave.state, wave.number, wave.origin) = (self.entry, State::Running, number, None);
        (wave.order, wave.indexed) = (Order::default(), false);
        let [first, second, _] = self.kernel.resources;
        wave.set_mode(first >> 12 & 0xff | (first >> 21 & 1) << 8 | (first >> 23 & 1) << 9 | (first >> 26 & 1) << 23);
        let left = self.threads - number * lanes;
        wave.lanes = if left >= lanes { wave.registers.all() } else { (1 << left) - 1 };
        wave.scratch = SCRATCH_BASE + u64::from(number) * block.scratch.wave_bytes;
        let mut at = 0;
        let registers = &mut wave.registers;
        put(registers, EXEC, wave.lanes as u32, 0);
        put(registers, EXEC + 1, (wave.lanes >> 32) as u32, 0);
        let mut next = |value: u32, poison: u32| {
            put(registers, at, value, poison);
            at += 1;
        };
        for (bit, _) in USER_SGPRS.iter().filter(|(bit, _)| self.kernel.properties >> bit & 1 == 1) {
            match bit {
                // A descriptor of all scratch, swizzled by lanes: an index stride of 64, the lane's number added.
                0 => {
                    let words =
                        [SCRATCH_BASE as u32, (SCRATCH_BASE >> 32) as u32 | 1 << 31, u32::MAX, 1 << 23 | 3 << 21];
                    words.iter().for_each(|word| next(*word, 0));
                }
                1 => pair(&mut next, self.dispatch),
                // There is no queue.
                2 => (0..2).for_each(|_| next(0, u32::MAX)),
                3 => pair(&mut next, self.arguments),
                5 => pair(&mut next, SCRATCH_BASE),
                6 => next(self.kernel.lane_scratch(), 0),
                _ => pair(&mut next, 0),
            }
        }
        self.preloaded.iter().for_each(|(value, poison)| next(*value, *poison));
        // More are counted than are asked for where the hardware wants so many.
        at = at.max((second >> 1 & 31) as u8);
        let mut next = |value: u32, poison: u32| {
            put(registers, at, value, poison);
            at += 1;
        };
        for (axis, block) in id.iter().enumerate() {
            if second >> (7 + axis) & 1 == 1 {
                next(*block, 0);
            }
        }
        if second >> 10 & 1 == 1 {
            next(0, 0);
        }
        if second & 1 == 1 && !block.target.architected_scratch {
            next((wave.scratch - SCRATCH_BASE) as u32, 0);
        }
        if block.target.generation == Generation::Rdna4 {
            put(registers, TTMP + 9, id[0], 0);
            put(registers, TTMP + 7, id[1] & 0xffff | id[2] << 16, 0);
            put(registers, TTMP + 8, number << 25, 0);
        }
        let axes = second >> 11 & 3;
        let [x, y, _] = self.launch.block;
        let packed = block.target.packed_ids;
        for lane in 0..lanes as usize {
            let thread = number * lanes + lane as u32;
            for (axis, of) in [thread % x, thread / x % y, thread / (x * y)].into_iter().enumerate() {
                match (axis <= axes as usize, packed) {
                    (false, _) => {}
                    (true, true) if axis == 0 => registers.v[0][lane] = of,
                    (true, true) => registers.v[0][lane] |= of << (10 * axis),
                    (true, false) => registers.v[axis][lane] = of,
                }
            }
        }
        for axis in 0..if packed { 1 } else { axes as usize + 1 } {
            registers.poison[axis] = [!wave.lanes; 2];
        }
    }
}

fn put(registers: &mut Registers, at: u8, value: u32, poison: u32) {
    registers.s[usize::from(at)] = value;
    registers.s_poison[usize::from(at)] = poison;
}

fn pair(next: &mut impl FnMut(u32, u32), value: u64) {
    next(value as u32, 0);
    next((value >> 32) as u32, 0);
}

fn all_blocks(grid: [u32; 3]) -> Vec<[u32; 3]> {
    let [x, y, z] = grid;
    (0..z).flat_map(|z| (0..y).flat_map(move |y| (0..x).map(move |x| [x, y, z]))).collect()
}
