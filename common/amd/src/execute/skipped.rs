//! Lanes that EXEC leaves out where their wave comes to a barrier. Those that have returned are not waited for; those that go on have left
//! it out. Which they are is not known at the barrier: it shows in what is executed afterwards.

use super::Block;
use crate::instruction::{Action, Cross, SaveExec, Source, Vector};
use crate::operations::memory::Space;
use crate::registers::{EXEC, Registers};
use crate::verdict::{Fault, Missing, Raised, Step};
use crate::wave::{Skipped, Wave};

impl Block<'_> {
    /// Notes which lanes a wave comes to a barrier without.
    ///
    /// # Errors
    /// Lanes come to it that left out an earlier one.
    pub(super) fn come(&self, wave: &mut Wave) -> Step {
        let exec = wave.registers.exec();
        let mut left = wave.lanes & !exec;
        // A wave of which no lane executes comes to it as a whole: the compiler left out the branch around it.
        if exec == 0 || left == 0 && wave.skipped.is_empty() {
            return Ok(());
        }
        let at = wave.at.saturating_sub(1);
        for skipped in &wave.skipped {
            if skipped.lanes & exec != 0 {
                return Err(self.left_out(skipped, exec, at));
            }
            left &= !skipped.lanes;
        }
        if left != 0 {
            wave.skipped.push(Skipped { lanes: left, came: exec, at, span: self.own.span });
        }
        Ok(())
    }

    /// Looks at what a wave executes behind a barrier that lanes of it did not come to. Alone, these lanes may go on to their end, as those of an
    /// early return with stores do, which compilers put behind the rest of the kernel.
    ///
    /// # Errors
    /// They do something together with lanes that came to the barrier.
    #[cold]
    #[inline(never)]
    pub(super) fn follow(&self, wave: &mut Wave, action: &Action, at: usize) -> Step {
        let exec = wave.registers.exec();
        if acts(action) && !wave.whole {
            let together = |skipped: &&Skipped| skipped.lanes & exec != 0 && skipped.came & exec != 0;
            if let Some(skipped) = wave.skipped.iter().find(together) {
                return Err(self.left_out(skipped, exec, at));
            }
        }
        if let Some(whole) = makes_whole(action, &wave.registers) {
            wave.whole = whole;
        }
        Ok(())
    }

    fn left_out(&self, skipped: &Skipped, exec: u64, at: usize) -> Box<Raised> {
        let missing = Missing::Lanes { lanes: skipped.lanes & exec, on: (self.site)(at) };
        Box::new(Raised { at: Some(skipped.at), ..Raised::of_wave(Fault::Barrier { missing }) })
    }

    /// The round of numbers behind the last barrier that all lanes which execute have come to.
    #[inline]
    pub(super) fn span_of(&self, wave: &Wave) -> u32 {
        if wave.skipped.is_empty() { self.own.span } else { self.span_of_skipped(wave) }
    }

    #[cold]
    fn span_of_skipped(&self, wave: &Wave) -> u32 {
        let exec = wave.registers.exec();
        let of_lanes = wave.skipped.iter().filter(|skipped| skipped.lanes & exec != 0).map(|skipped| skipped.span);
        of_lanes.fold(self.own.span, u32::min)
    }
}

/// Whether an instruction does anything with the lanes of EXEC. Copies of registers do not, as compilers have them where branches meet, nor do
/// those between a lane and a scalar register, nor a spill.
fn acts(action: &Action) -> bool {
    let is_copy = |vector: &Vector| vector.count == 1 && vector.bitwise && vector.dpp.is_none();
    match action {
        Action::Vector(vector) => !is_copy(vector),
        Action::Dual(both) => !both.iter().all(is_copy),
        Action::Matrix(_) | Action::Convert(_) | Action::Sums(_) | Action::Exchange(_) => true,
        Action::Cross(Cross::ReadLane { .. } | Cross::ReadFirstLane { .. } | Cross::WriteLane { .. }) => false,
        Action::Cross(_) => true,
        Action::Memory(memory) => memory.space != Space::Scratch,
        _ => false,
    }
}

/// Whether EXEC has all lanes from here on for the compiler's own purposes (LLVM's "whole wave mode"), `None` where it stays as it is.
fn makes_whole(action: &Action, registers: &Registers) -> Option<bool> {
    let all = |source: Source| matches!(source, Source::Constant(value) if value & registers.all() == registers.all());
    match action {
        Action::SaveExec { how, source, .. } => Some(*how == SaveExec::Or && all(*source)),
        Action::Scalar(scalar) if [EXEC, EXEC + 1].contains(&scalar.to) => {
            Some(scalar.definition.sources.len() == 1 && all(scalar.sources[0]))
        }
        Action::WriteExec { .. } => Some(false),
        _ => None,
    }
}
