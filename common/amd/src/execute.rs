//! Execution of one instruction.

mod address;
mod blocks;
mod carried;
mod cross;
mod explain;
mod flow;
mod image;
mod index;
mod lds;
mod matrix;
mod memory;
mod packed;
mod result;
mod sampler;
mod scalar;
mod scratch;
mod skipped;
mod soiled;
mod sources;
mod sync;
#[cfg(test)]
mod tests;
mod to_lds;
mod transpose;
mod unwritten;
mod vector;
mod watched;

pub(crate) use self::lds::Lds;
pub(crate) use self::scratch::Scratch;
use std::rc::Rc;

use crate::instruction::{Action, Destination, Instruction, Scalar, Source, Touches};
use crate::memory::Memory;
use crate::order::{Clock, Places};
use crate::pending::TooEarly;
use crate::races::{Carried, Races};
use crate::registers::EXEC;
use crate::shadow::{How, Toucher};
use crate::target::Target;
use crate::verdict::{Fault, Raised, Site, Step};
use crate::wave::{State, Temporaries, Wave};

/// Addresses of LDS and of scratch in flat accesses ("Flat address space", apertures).
pub(crate) const SHARED_BASE: u64 = 1 << 48;
pub(crate) const PRIVATE_BASE: u64 = 2 << 48;
/// Where the scratch of the first wave is.
pub(crate) const SCRATCH_BASE: u64 = 0x6000_0000_0000;

/// What one lane's access comes to.
type Lane<T> = Result<T, Fault>;

/// A block, without its waves.
#[derive(Default)]
pub(crate) struct Own {
    pub id: [u32; 3],
    pub lds: Lds,
    pub scratch: Scratch,
    /// First number that the block has had, by which others know it.
    pub first: u32,
    /// First number of the block, and the one behind its last.
    pub start: u32,
    pub end: u32,
    /// All its numbers below come before the last barrier.
    pub settled: u32,
    /// The numbers that it has left since then, in the middle of what it does: each first one, and the one behind the last.
    pub left: Vec<(u32, u32)>,
    /// Waves in it.
    pub waves: u32,
    /// Rounds of numbers that were used, the first one behind the last barrier, and the one that all waves have come to.
    pub round: u32,
    pub span: u32,
    pub floor: u32,
    /// Whether a wave has stored anything, so that there is something to release.
    pub stored: bool,
    /// Whether a wave has changed anything by an atomic.
    pub updated: bool,
    /// Reads that reach past the last barrier, by their words.
    pub carried: Vec<Carried>,
    /// What was released at places of LDS.
    pub lds_places: Places,
    /// Waves that have signaled the next barrier.
    pub signals: u32,
}

/// A block whose waves are executed, and what it shares with others.
pub(crate) struct Block<'a> {
    pub own: &'a mut Own,
    pub instructions: &'a [Instruction],
    pub site: &'a dyn Fn(usize) -> Site,
    /// Index of the instruction at an offset of the image.
    pub index_of: &'a dyn Fn(u64) -> Option<usize>,
    pub target: &'static Target,
    pub memory: &'a mut Memory,
    pub temporaries: &'a mut Temporaries,
    pub image: u64,
    /// First number of the launch.
    pub launch_start: u32,
    /// Waves of the block may be on two units, each with a cache of its own.
    pub two_units: bool,
    /// What was released at places of memory.
    pub places: &'a mut Places,
    pub races: &'a mut Races,
    /// The instruction that is left out.
    pub without: usize,
    /// Which instructions that guard something have done anything.
    pub acted: &'a mut [bool],
    /// First number and id of each block that has begun.
    pub starts: &'a mut Vec<(u32, [u32; 3])>,
    /// The buffer that was touched last.
    pub hint: usize,
    pub executed: u64,
}

impl Block<'_> {
    pub fn toucher<'c>(&self, wave: &Wave, clock: &'c Clock) -> Toucher<'c> {
        let own = &*self.own;
        let first = |round: u32| own.start + round * own.waves;
        Toucher {
            launch: self.launch_start,
            block: own.start,
            end: own.end,
            waves: own.waves,
            number: first(wave.order.round.max(own.floor)) + wave.number,
            span: first(self.span_of(wave)),
            fresh: if self.two_units { first(wave.order.fresh) } else { u32::MAX },
            quiet: self.launch_start,
            clock,
            how: How::Plain,
        }
    }

    /// The same for LDS, which no other block touches.
    pub fn lds_toucher<'c>(&self, wave: &Wave, clock: &'c Clock) -> Toucher<'c> {
        let toucher = self.toucher(wave, clock);
        let quiet = toucher.span.min(self.own.settled);
        Toucher { launch: self.own.first, quiet, fresh: u32::MAX, ..toucher }
    }

    /// Executes the wave's next instruction.
    #[inline]
    pub fn step(&mut self, wave: &mut Wave) -> Step {
        let at = wave.at;
        let instructions = self.instructions;
        let Some(instruction) = instructions.get(at) else {
            return Err(Raised::wave(Fault::LeftCode { address: self.behind_code() }));
        };
        if wave.pending.may_have(&instruction.words, instruction.touches.sgprs)
            && let Some(early) = wave.pending.too_early(&instruction.touches)
        {
            return Err(self.unwaited(early));
        }
        if !wave.skipped.is_empty() {
            self.follow(wave, &instruction.action, at)?;
        }
        wave.at = at + 1;
        if at == self.without {
            return self.leave_out(wave, &instruction.action);
        }
        match &instruction.action {
            Action::Vector(vector) if wave.indexed => index::run(wave, self.temporaries, vector, None),
            Action::Vector(vector) if matches!(vector.to, Destination::Exec(_)) => {
                let before = wave.registers.exec();
                vector::run(wave, self.temporaries, vector)?;
                self.acted[at] |= before != wave.registers.exec();
                Ok(())
            }
            Action::Vector(vector) => vector::run(wave, self.temporaries, vector),
            Action::Relative(vector, which) => index::run(wave, self.temporaries, vector, Some(*which)),
            Action::RelativeScalar(scalar, which) => {
                let scalar = index::scalar_move(wave, scalar, *which)?;
                self.waited_for(wave, &scalar)?;
                scalar::run(&mut wave.registers, &scalar)
            }
            Action::Index(index) => index::set(wave, *index),
            Action::Dual(both) => vector::run_dual(wave, self.temporaries, both),
            Action::Matrix(matrix) => matrix::run(wave, self.temporaries, matrix),
            Action::Convert(conversion) => blocks::run(wave, conversion),
            Action::Sums(sums) => blocks::sums(wave, sums),
            Action::Cross(cross) => cross::run(wave, cross),
            Action::Scalar(scalar) if scalar.to == EXEC => {
                let before = wave.registers.exec();
                scalar::run(&mut wave.registers, scalar)?;
                self.acted[at] |= before != wave.registers.exec();
                Ok(())
            }
            Action::Scalar(scalar) => scalar::run(&mut wave.registers, scalar),
            Action::SaveExec { how, to, source } => {
                let before = wave.registers.exec();
                scalar::save_exec(&mut wave.registers, *how, *to, *source)?;
                self.acted[at] |= before != wave.registers.exec();
                Ok(())
            }
            Action::WriteExec { negate_source, to, source } => {
                scalar::write_exec(&mut wave.registers, *negate_source, *to, *source)
            }
            Action::Memory(memory) => self.access(wave, memory, at),
            Action::Exchange(exchange) => {
                cross::exchange(wave, *exchange)?;
                wave.pending.lds(at, (exchange.to(), 1, None), [None, None]);
                Ok(())
            }
            Action::ScalarLoad(load) => self.scalar_load(wave, load, at),
            Action::ScalarStore(store) => self.scalar_store(wave, store, at),
            Action::ScalarAtomic(atomic) => self.scalar_atomic(wave, atomic, at),
            Action::Wait(wait) => {
                self.acted[at] |= wave.pending.wait(*wait);
                let stores = if self.target.counts_stores { wait.stores } else { wait.vector };
                self.waited(wave, stores);
                Ok(())
            }
            Action::Invalidate { near, far } => {
                self.invalidate(wave, *near, *far);
                Ok(())
            }
            Action::InvalidateScalars => {
                self.invalidate_scalars(wave);
                Ok(())
            }
            Action::WriteBackScalars => {
                wave.order.scalar_store = None;
                if wave.order.released.is_some() {
                    self.begin_round(wave);
                }
                let clock = Rc::clone(&wave.order.clock);
                self.memory.write_back_scalars(&self.toucher(wave, &clock));
                wave.pending.scalar(at, 0, 0);
                Ok(())
            }
            Action::WriteBack => {
                wave.order.writing_back = true;
                Ok(())
            }
            Action::Barrier => {
                self.acted[at] |= self.own.waves > 1;
                self.arrive(wave)
            }
            Action::End => {
                wave.state = State::Ended;
                if let Some((at, place)) = wave.order.scalar_store.take() {
                    let fault = Fault::NotWrittenBack { place, missing: "s_dcache_wb" };
                    return Err(Box::new(Raised { at: Some(at), ..Raised::of_wave(fault) }));
                }
                self.explained(wave)
            }
            Action::Nothing => Ok(()),
            Action::Unimplemented(what) => Err(Raised::wave(Fault::Unimplemented { what: what.to_string() })),
            flow => self.flow(wave, flow, instruction),
        }
    }

    /// Whether a load into the registers of a scalar move is still under way, which decoding could not know.
    fn waited_for(&self, wave: &Wave, scalar: &Scalar) -> Step {
        let mut touches = Touches::default();
        let from = if let Source::Sgpr(at) = scalar.sources[0] { Some(at) } else { None };
        for at in from.into_iter().chain([scalar.to]) {
            touches.sgprs |= ((1 << scalar.definition.result) - 1) << at;
        }
        let Some(early) = wave.pending.too_early(&touches) else { return Ok(()) };
        Err(self.unwaited(early))
    }

    fn unwaited(&self, TooEarly { register, counter, instruction }: TooEarly) -> Box<Raised> {
        let counter = self.target.counter(counter, register.starts_with('s'));
        Raised::wave(Fault::Unwaited { register, counter, issued: (self.site)(instruction) })
    }

    fn behind_code(&self) -> u64 {
        self.instructions.last().map_or(0, |last| last.next_address)
    }
}
