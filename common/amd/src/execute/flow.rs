//! Branches, calls, barriers and hardware registers.

use super::{Block, scalar};
use crate::instruction::{Action, Condition, Hardware, Instruction};
use crate::registers::{Registers, VCC};
use crate::verdict::{Fault, Raised, Step, Use};
use crate::wave::{State, Wave};

fn undecided() -> Box<Raised> {
    Raised::wave(Fault::Unwritten { used: Use::Branch, origin: None })
}

fn holds(registers: &Registers, condition: Condition) -> Step<bool> {
    Ok(match condition {
        Condition::Always => true,
        Condition::Scc(_) if registers.scc_poison => return Err(undecided()),
        Condition::Scc(set) => registers.scc == set,
        Condition::ExecZero(zero) => (registers.exec() == 0) == zero,
        Condition::VccZero(zero) => {
            let (mask, poison) = (registers.mask(VCC), registers.mask_poison(VCC));
            if poison != 0 && mask & !poison == 0 {
                return Err(undecided());
            }
            (mask == 0) == zero
        }
    })
}

fn field(width: u8) -> u32 {
    u32::MAX >> (32 - u32::from(width.clamp(1, 32)))
}

impl Block<'_> {
    pub(super) fn flow(&mut self, wave: &mut Wave, action: &Action, instruction: &Instruction) -> Step {
        let behind = self.image + instruction.next_address;
        match *action {
            Action::Branch { condition, target } => {
                if holds(&wave.registers, condition)? {
                    wave.at = target;
                }
                Ok(())
            }
            Action::GetPc { to } => wave.registers.set_pair(to, behind, 0),
            Action::SetPc { from } => self.jump(wave, from),
            Action::SwapPc { to, from } => {
                self.jump(wave, from)?;
                wave.registers.set_pair(to, behind, 0)
            }
            Action::Call { to, target } => {
                wave.at = target;
                wave.registers.set_pair(to, behind, 0)
            }
            Action::GetRegister { to, register, offset, width } => {
                let value = match register {
                    Hardware::Mode => wave.mode_bits,
                    Hardware::Unit => 0,
                    Hardware::Cycles => self.executed as u32 & 0xf_ffff,
                    Hardware::CyclesLow => self.executed as u32,
                    Hardware::CyclesHigh => (self.executed >> 32) as u32,
                    // Upper halves of the apertures: private in the lower 16 bits, shared in the upper ones.
                    Hardware::Apertures => {
                        (super::PRIVATE_BASE >> 48) as u32 | ((super::SHARED_BASE >> 48) as u32) << 16
                    }
                };
                wave.registers.set(to, value >> offset & field(width), 0)
            }
            Action::SetRegister { offset, width, value } => {
                let (value, poison) = scalar::read(&wave.registers, value, 1);
                if poison != 0 {
                    return Err(undecided());
                }
                let mask = field(width) << offset;
                wave.set_mode(wave.mode_bits & !mask | (value as u32) << offset & mask);
                Ok(())
            }
            Action::SetMode { shift, value } => {
                wave.set_mode(wave.mode_bits & !(15 << shift) | u32::from(value) << shift);
                Ok(())
            }
            // "!InWorkgroup" of the pseudocode: a wave that is its block has no barrier, and is never the first.
            Action::Signal { asks } => {
                if asks {
                    let first = self.own.waves > 1 && self.own.signals == 0;
                    (wave.registers.scc, wave.registers.scc_poison) = (first, false);
                }
                self.own.signals += 1;
                self.signal(wave);
                Ok(())
            }
            // "{ 9'0, signalCnt.u7, 5'0, memberCnt.u7, 3'0, valid.u1 }"
            Action::BarrierState { to } => {
                let (signals, members) = (self.own.signals & 0x7f, self.own.waves & 0x7f);
                self.answer(wave, (to, 1), (signals << 16 | members << 4 | 1).into())
            }
            Action::Clock { to, dwords } => self.answer(wave, (to, dwords), self.executed),
            Action::Message { to, dwords } => self.answer(wave, (to, dwords), 0),
            Action::Trap(number) => Err(Raised::wave(Fault::Trap { number })),
            _ => Err(Raised::wave(Fault::Unimplemented { what: "an action out of place".into() })),
        }
    }

    /// What comes from elsewhere into scalar registers, and has to be waited for as a scalar load has.
    fn answer(&self, wave: &mut Wave, (to, dwords): (u8, u8), value: u64) -> Step {
        wave.pending.scalar(wave.at.saturating_sub(1), to, dwords);
        match dwords {
            1 => wave.registers.set(to, value as u32, 0),
            _ => wave.registers.set_pair(to, value, 0),
        }
    }

    fn jump(&self, wave: &mut Wave, from: u8) -> Step {
        let (address, poison) = (wave.registers.pair(from), wave.registers.pair_poison(from));
        if poison != 0 {
            return Err(undecided());
        }
        let left = || Raised::wave(Fault::LeftCode { address });
        wave.at = (self.index_of)(address.wrapping_sub(self.image)).ok_or_else(left)?;
        Ok(())
    }

    /// A wave comes to a barrier.
    pub(super) fn arrive(&mut self, wave: &mut Wave) -> Step {
        self.come(wave)?;
        self.explained(wave)?;
        wave.state = State::AtBarrier;
        Ok(())
    }
}
