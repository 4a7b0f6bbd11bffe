//! The order in which blocks and waves run.
//!
//! A block runs until it has ended, or for a while: one that waits for others is left for as long as it takes to begin them, and goes on in
//! turns with all that are under way.

use std::collections::VecDeque;

use super::{Options, Prepared, Report};
use crate::Site;
use crate::execute::{Block, Lds, Own, Scratch};
use crate::guard::{Guarded, guard};
use crate::instruction::{Action, Instruction};
use crate::memory::Memory;
use crate::operations::memory::Kind;
use crate::order::Places;
use crate::races::{Races, Side};
use crate::random::Random;
use crate::shadow::{LAST_NUMBER, SPARE_ROUNDS};
use crate::verdict::{Fault, Met, Missing, NOBODYS_ATOMIC, Other, Place, Raised, Use};
use crate::wave::{State, Temporaries, Wave};

/// Bit of COMPUTE_PGM_RSRC1: a block's waves are on both units of a pair.
const WGP_MODE: u32 = 29;
/// A wave's scratch is a multiple of this.
const SCRATCH_GRANULE: u64 = 1024;
/// The longest that a wave runs while others could, as a power of two.
const LONGEST_TURN: u64 = 12;
/// Instructions of all its waves that a block runs, each time, before another one does.
const BLOCK_TURN: u64 = 1 << 18;
/// Waves that may be under way.
const MOST_WAVES: usize = 1024;

/// What met a fault: the wave, the instruction, and the first race that left something open which the wave has read, or any wave.
pub(super) struct Stopped {
    pub block: [u32; 3],
    pub wave: u32,
    pub at: usize,
    pub raised: Box<Raised>,
    pub raced: Option<Met>,
    pub first: Option<Met>,
}

/// Whether the first value that nobody wrote came from LDS.
pub(super) fn is_of_lds(fault: &Fault) -> bool {
    match fault {
        Fault::Unwritten { used: Use::Store(Place::Lds { .. }), origin: Some(origin) } if origin == NOBODYS_ATOMIC => {
            true
        }
        Fault::Unwritten { origin: Some(origin), .. } => origin.ends_with("of LDS"),
        _ => false,
    }
}

/// The wave, the instruction and what stopped it.
type Fell = (u32, usize, Box<Raised>);

/// A block that is under way.
#[derive(Default)]
struct Resident {
    own: Own,
    waves: Vec<Wave>,
}

/// One execution of a launch.
pub(super) struct Run<'a> {
    prepared: &'a Prepared<'a>,
    options: &'a Options,
    random: Random,
    pub races: Races,
    starts: Vec<(u32, [u32; 3])>,
    pub launch_start: u32,
    places: Places,
    temporaries: Box<Temporaries>,
    counts: Vec<u64>,
    acted: Vec<bool>,
    without: usize,
    executed: u64,
    hint: usize,
    /// Blocks that have ended, for those to come.
    ended: Vec<Resident>,
}

impl Prepared<'_> {
    fn scratch(&self) -> Scratch {
        let lane_bytes = u64::from(self.kernel.lane_scratch()).next_multiple_of(4);
        let wave_bytes = (lane_bytes * u64::from(self.kernel.lanes)).next_multiple_of(SCRATCH_GRANULE);
        let all = (wave_bytes * u64::from(self.waves)) as usize;
        Scratch { bytes: vec![0; all], written: vec![0; all], lane_bytes, wave_bytes }
    }
}

impl<'a> Run<'a> {
    pub fn new(prepared: &'a Prepared<'a>, memory: &mut Memory, options: &'a Options, mut races: Races) -> Self {
        memory.renumber();
        memory.forget_lines(prepared.code.prefetches);
        races.start = memory.numbers;
        races.spreads = options.spreads;
        Self {
            prepared,
            options,
            random: Random::new(options.seed),
            races,
            starts: Vec::new(),
            launch_start: memory.numbers,
            places: Places::default(),
            temporaries: Temporaries::new(),
            counts: vec![0; prepared.code.instructions.len()],
            acted: vec![false; prepared.code.instructions.len()],
            without: options.without.and_then(|address| prepared.code.index_of(address)).unwrap_or(usize::MAX),
            executed: 0,
            hint: 0,
            ended: Vec::new(),
        }
    }

    pub fn report(&self) -> Report {
        let prepared = self.prepared;
        let blocks = prepared.launch.grid.iter().map(|size| u64::from(*size)).product();
        let executed_ones = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        Report {
            kernel: prepared.kernel.name.clone(),
            blocks,
            waves: blocks * u64::from(prepared.waves),
            executed: self.executed,
            instructions: executed_ones.map(|(at, count)| (prepared.code.site(at), *count)).collect(),
            guards: self.guards(),
            ordered: self.races.is_clean() && !self.has_synced(),
        }
    }

    /// Whether anything was executed that tells waves apart by who came first: atomics, loads and stores that are one, questions to barriers
    /// and clocks.
    fn has_synced(&self) -> bool {
        let executed = self.prepared.code.instructions.iter().zip(&self.counts).filter(|(_, count)| **count > 0);
        executed.map(|(instruction, _)| &instruction.action).any(|action| match action {
            Action::Memory(memory) => memory.sync || matches!(memory.kind, Kind::Atomic { .. }),
            Action::Signal { asks, .. } => *asks,
            Action::BarrierState { .. } | Action::Clock { .. } => true,
            _ => false,
        })
    }

    fn guards(&self) -> Vec<Guarded> {
        let code = self.prepared.code;
        let all = code.instructions.iter().zip(&self.counts).zip(&self.acted).enumerate();
        let guarded = |(at, ((instruction, count), acts)): (usize, ((&Instruction, &u64), &bool))| {
            let guard = guard(&instruction.action).filter(|_| *count > 0)?;
            Some(Guarded { site: code.site(at), guard, acts: *acts })
        };
        all.filter_map(guarded).collect()
    }

    pub fn run(&mut self, memory: &mut Memory) -> Result<(), Box<Stopped>> {
        let mut blocks = all_blocks(self.prepared.launch.grid);
        self.random.shuffle(&mut blocks);
        let mut blocks: VecDeque<[u32; 3]> = blocks.into();
        let mut waiting: VecDeque<Resident> = VecDeque::new();
        let most = (MOST_WAVES / self.prepared.waves as usize).max(2);
        let done = loop {
            let begins = waiting.is_empty() || waiting.len() < most && memory.numbers <= LAST_NUMBER;
            let mut resident = match blocks.pop_front().filter(|_| begins) {
                Some(id) => self.begin(memory, id, waiting.is_empty()),
                None => match waiting.pop_front() {
                    Some(resident) => resident,
                    None => break Ok(()),
                },
            };
            match self.turn(memory, &mut resident, None) {
                Ok(true) => {
                    self.end(memory, &resident.own);
                    self.ended.push(resident);
                }
                Ok(false) => {
                    self.leave(memory, &mut resident.own);
                    waiting.push_back(resident);
                }
                Err(stopped) => {
                    let (wave, at, raised) = self.perhaps_early(memory, &mut resident, stopped);
                    let raced_of = |wave: u32| resident.waves.get(wave as usize).and_then(|wave| wave.raced.as_deref());
                    let raced = raced_of(wave).cloned();
                    // What waves write to LDS is not the same, as a race has left open what one of them computes it from.
                    let cause = match (self.races.open_side, &raised.fault) {
                        (Some(Side::Own), _) => raced.as_ref(),
                        (Some(Side::Other), Fault::Race { other: Other::Wave(other), .. }) => raced_of(*other),
                        _ => None,
                    };
                    let cause = cause.filter(|met| !met.is_of_lds()).cloned();
                    let first = self.races.first.take();
                    self.end(memory, &resident.own);
                    let block = resident.own.id;
                    let is_race = raced.is_some() || first.is_some() || matches!(raised.fault, Fault::Race { .. });
                    // Barriers that some waves left out no longer keep in order what they were to.
                    let site = |at: usize| self.prepared.code.site(at);
                    let left_out = is_race.then(|| divergent(&site, &resident.waves)).flatten();
                    break Err(Box::new(match (left_out, cause) {
                        (Some((wave, at, raised)), _) => Stopped { block, wave, at, raised, raced: None, first: None },
                        (None, Some(Met { fault, block, wave, at, lane })) => {
                            let raised = Raised::at(lane, fault);
                            Stopped { block, wave, at, raised, raced: None, first: None }
                        }
                        (None, None) => Stopped { block, wave, at, raised, raced, first },
                    }));
                }
            }
        };
        self.races.close();
        done
    }

    /// What stopped a block, where a wave was stopped by what nobody wrote in LDS: perhaps others of its waves write it before the next barrier, which
    /// makes it a race. Those go on up to there.
    fn perhaps_early(&mut self, memory: &mut Memory, resident: &mut Resident, stopped: Fell) -> Fell {
        let (wave, _, raised) = &stopped;
        let has_raced = resident.waves.get(*wave as usize).is_none_or(|wave| wave.raced.is_some());
        if !is_of_lds(&raised.fault) || has_raced || self.races.first.is_some() || self.races.is_trusting() {
            return stopped;
        }
        let others = self.turn(memory, resident, Some(*wave));
        // Of reads nothing may come; what is written is looked at in another execution.
        self.races.first = None;
        others.err().unwrap_or(stopped)
    }

    /// Makes a block ready.
    fn begin(&mut self, memory: &mut Memory, id: [u32; 3], alone: bool) -> Resident {
        if alone && memory.renumber() {
            self.launch_start = memory.numbers;
            self.races.renumbered = true;
            self.starts.clear();
            self.places.clear();
            self.ended.clear();
        }
        let prepared = self.prepared;
        let mut resident = self.ended.pop().unwrap_or_else(|| {
            let target = prepared.program.target();
            let waves = (0..prepared.waves).map(|_| Wave::new(target, prepared.kernel.lanes as usize)).collect();
            let lds = Lds::new(prepared.lds_bytes as usize);
            Resident { own: Own { lds, scratch: prepared.scratch(), ..Own::default() }, waves }
        });
        let Own { mut lds, mut scratch, .. } = resident.own;
        lds.written.fill(0);
        scratch.written.fill(0);
        let start = memory.numbers;
        self.starts.push((start, id));
        let wave_scratch = scratch.wave_bytes;
        resident.own = Own {
            id,
            lds,
            scratch,
            first: start,
            settled: start,
            start,
            end: u32::MAX,
            waves: prepared.waves,
            ..Own::default()
        };
        for (number, wave) in resident.waves.iter_mut().enumerate() {
            prepared.begin(wave, number as u32, id, wave_scratch);
        }
        resident
    }

    /// Numbers that a block has not used are the next one's, unless it was overtaken.
    fn end(&mut self, memory: &mut Memory, own: &Own) {
        if own.end == u32::MAX {
            memory.numbers = own.start.saturating_add((own.round + 2).saturating_mul(own.waves));
            self.races.ends.insert(own.start, memory.numbers);
        } else {
            self.races.ends.insert(own.start, own.end);
        }
    }

    /// Lets others overtake a block.
    fn leave(&mut self, memory: &mut Memory, own: &mut Own) {
        if own.end == u32::MAX {
            own.end = own.start.saturating_add((own.round + SPARE_ROUNDS).saturating_mul(own.waves));
            memory.numbers = own.end;
        }
    }

    /// Runs the waves of a block in an order that chance decides, for a while; whether it has ended. What stopped it otherwise. Without a wave, that was
    /// `stopped`: the others up to the next barrier, which a race in LDS alone ends sooner.
    fn turn(&mut self, memory: &mut Memory, resident: &mut Resident, stopped: Option<u32>) -> Result<bool, Fell> {
        let prepared = self.prepared;
        let target = prepared.program.target();
        let site = |at: usize| prepared.code.site(at);
        let index_of = |offset: u64| prepared.code.index_of(offset);
        let mut block = Block {
            own: &mut resident.own,
            instructions: &prepared.code.instructions,
            site: &site,
            index_of: &index_of,
            target,
            memory,
            temporaries: &mut self.temporaries,
            image: prepared.image,
            launch_start: self.launch_start,
            two_units: target.counts_stores && prepared.kernel.resources[0] >> WGP_MODE & 1 == 1,
            places: &mut self.places,
            races: &mut self.races,
            without: self.without,
            acted: &mut self.acted,
            starts: &mut self.starts,
            hint: self.hint,
            executed: self.executed,
        };
        let until = block.executed + BLOCK_TURN;
        let waves = &mut resident.waves;
        let done = match stopped {
            None => waves_in_turns(&mut block, waves, &mut self.random, &mut self.counts, (until, self.options)),
            Some(stopped) => others_up_to_a_barrier(&mut block, waves, stopped),
        };
        (self.hint, self.executed) = (block.hint, block.executed);
        done
    }
}

/// The fault of a barrier at which waves met that waited at different ones, if any did.
fn divergent(site: &dyn Fn(usize) -> Site, waves: &[Wave]) -> Option<Fell> {
    let (number, (at, wave, there)) = waves.iter().find_map(|wave| Some((wave.number, wave.elsewhere?)))?;
    let missing = Missing::Elsewhere { wave, at: site(there.saturating_sub(1)) };
    Some((number, at.saturating_sub(1), Raised::wave(Fault::Barrier { missing })))
}

fn waves_in_turns(
    block: &mut Block<'_>,
    waves: &mut [Wave],
    random: &mut Random,
    counts: &mut [u64],
    (until, options): (u64, &Options),
) -> Result<bool, Fell> {
    let mut running: Vec<usize> = Vec::with_capacity(waves.len());
    while block.executed < until {
        running.clear();
        running.extend((0..waves.len()).filter(|at| waves[*at].state == State::Running));
        if running.is_empty() {
            let Some(waiting) = waves.iter().position(|wave| wave.state == State::AtBarrier) else {
                // A barrier counts waves, wherever they wait: those that meet at different ones are as well off, if all pass as many.
                let is_even = waves.windows(2).all(|pair| pair[0].barriers == pair[1].barriers);
                return divergent(block.site, waves).filter(|_| !is_even).map_or(Ok(true), Err);
            };
            let (number, at) = (waves[waiting].number, waves[waiting].at);
            // Waves that have ended are not waited for.
            let elsewhere = |wave: &&Wave| wave.state == State::AtBarrier && wave.at != at;
            let other = waves.iter().find(elsewhere).map(|other| (at, other.number, other.at));
            waves[waiting].elsewhere = waves[waiting].elsewhere.or(other);
            block.pass_barrier(waves).map_err(|raised| (number, at.saturating_sub(1), raised))?;
            for wave in waves.iter_mut().filter(|wave| wave.state == State::AtBarrier) {
                (wave.state, wave.barriers) = (State::Running, wave.barriers + 1);
            }
            continue;
        }
        if let (Some(first), true) = (waves.first(), block.own.round >= block.last_round()) {
            let (number, at) = (first.number, first.at);
            block.renew(waves).map_err(|raised| (number, at, raised))?;
        }
        let last = block.last_round();
        // One turn in four is as often of 16 to 32 instructions as of 2048 to 4096: what is wrong only if a wave is left between two
        // instructions close to each other is met. The others are long, as each turn finds the caches full of another wave's.
        let power = if random.below(4) == 0 { random.below(LONGEST_TURN + 1) } else { LONGEST_TURN };
        let longest = 1 << power;
        let turn = 1 + random.below(longest);
        let chosen = running.get(random.below(running.len() as u64) as usize).and_then(|at| waves.get_mut(*at));
        let Some(wave) = chosen else { continue };
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
            match wave.state {
                State::Running if block.own.round >= last => break,
                State::Running => {}
                State::Synced => {
                    wave.state = State::Running;
                    // Where waves look for each other is where it matters who comes next.
                    if random.below(2) == 0 || block.own.round >= last {
                        break;
                    }
                }
                State::AtBarrier | State::Ended => break,
            }
        }
    }
    Ok(false)
}

fn others_up_to_a_barrier(block: &mut Block<'_>, waves: &mut [Wave], stopped: u32) -> Result<bool, Fell> {
    for wave in waves.iter_mut().filter(|wave| wave.number != stopped) {
        let until = block.executed + BLOCK_TURN;
        while wave.state == State::Running && block.executed < until {
            let at = wave.at;
            block.executed += 1;
            match block.step(wave) {
                Err(raised) if matches!(raised.fault, Fault::Race { place: Place::Lds { .. }, .. }) => {
                    return Err((wave.number, at, raised));
                }
                Err(_) => break,
                Ok(()) if wave.state == State::Synced => wave.state = State::Running,
                Ok(()) => {}
            }
        }
    }
    Ok(false)
}

fn all_blocks(grid: [u32; 3]) -> Vec<[u32; 3]> {
    let [x, y, z] = grid;
    (0..z).flat_map(|z| (0..y).flat_map(move |y| (0..x).map(move |x| [x, y, z]))).collect()
}
