//! Atomics.

use std::rc::Rc;

use super::lanes_of;
use crate::bank::Touching;
use crate::execute::Block;
use crate::execute::address::{Addresses, To, place, unwritten};
use crate::instruction::Memory;
use crate::operations::memory::Atomic;
use crate::order::{Known, SEVERAL_PLACES};
use crate::registers::Registers;
use crate::shadow::How;
use crate::verdict::{Access, Fault, Place, Raised, Step, Use};
use crate::wave::Wave;

impl Block<'_> {
    /// Two elements of each lane, exchanged for what was there. Both are read before either result is written.
    pub(super) fn exchange_two(
        &mut self,
        wave: &mut Wave,
        memory: &Memory,
        addresses: &Addresses,
        exec: u64,
        bytes: usize,
    ) -> Step {
        let (first, dwords) = (usize::from(memory.to), bytes / 4);
        let second = Memory { offset: memory.second, data: memory.data2, to: memory.to + dwords as u16, ..*memory };
        let result = first..first + dwords;
        let (values, poison) =
            (wave.registers.v[result.clone()].to_vec(), wave.registers.poison[result.clone()].to_vec());
        self.atomic(wave, memory, addresses, exec, Atomic::Swap, bytes, true)?;
        let old = wave.registers.v[result.clone()].to_vec();
        wave.registers.v[result.clone()].copy_from_slice(&values);
        wave.registers.poison[result].copy_from_slice(&poison);
        self.atomic(wave, &second, addresses, exec, Atomic::Swap, bytes, true)?;
        (memory.to..).zip(&old).for_each(|(at, values)| wave.registers.write(at, values, exec, 0));
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "an access has that many parts")]
    pub(super) fn atomic(
        &mut self,
        wave: &mut Wave,
        memory: &Memory,
        addresses: &Addresses,
        exec: u64,
        kind: Atomic,
        bytes: usize,
        returns: bool,
    ) -> Step {
        let two = |registers: &Registers, at: u16, lane: usize| {
            let at = usize::from(at);
            let high = if bytes == 8 { registers.v[at + 1][lane] } else { 0 };
            u64::from(registers.v[at][lane]) | u64::from(high) << 32
        };
        let counts = kind.counts_lanes();
        // One lane does it for all.
        let (doing, count) = if counts { (exec & exec.wrapping_neg(), exec.count_ones()) } else { (exec, 0) };
        let mut operands = if counts { Vec::new() } else { vec![memory.data] };
        if kind.has_two_operands() {
            operands.push(memory.compare);
        }
        let mut released: Option<(Known, Option<Known>)> = None;
        // LDS is in order; what goes elsewhere has to be waited for.
        let (may_release, mut has_released) = (wave.pending.has_no_lds(), None);
        let is_one = exec.is_power_of_two();
        let hands_on = returns || is_one;
        for lane in lanes_of(doing) {
            let to = place(self.resolve(memory, addresses, lane, bytes as u64), memory.offset);
            if let (Some((key, lds)), true) = (to.key(), returns) {
                self.acquire(wave, key, lds);
            }
            let clock = Rc::clone(&wave.order.clock);
            let by = [self.toucher(wave, &clock), self.lds_toucher(wave, &clock)].map(|by| by.touching(How::Atomic));
            let registers = &wave.registers;
            let dwords = operands.iter().flat_map(|at| *at..*at + (bytes / 4) as u16);
            if dwords.into_iter().any(|at| registers.poisoned(at) >> lane & 1 == 1) {
                let used = Use::Store(match to {
                    To::Memory(address) => self.memory.place(address),
                    To::Lds(offset) => Place::Lds { offset, size: self.own.lds.bytes.len() as u64 },
                    _ => Place::Nowhere { address: 0 },
                });
                return Err(unwritten(lane, used, wave));
            }
            let data = if counts { count.into() } else { two(registers, memory.data, lane) };
            let compare = two(registers, memory.compare, lane);
            let mode = wave.mode;
            // An exchange needs nothing of what was there: what it returns is what nobody wrote.
            let next = |old: Option<u64>| {
                let old = old.or((kind == Atomic::Swap).then_some(0))?;
                Some(kind.next(&mode, bytes, old, data, compare))
            };
            let old = match to {
                To::Memory(address) => {
                    if self.memory.is_soiled() {
                        let stored = self.store_soiled((address, bytes), Access::Atomic, false, &by[0]);
                        stored.map_err(|fault| Raised::at(lane, fault))?;
                    }
                    let mut touching = Touching { by: &by[0], starts: self.starts, races: self.races };
                    self.memory.atomic(address, bytes, &mut self.hint, &mut touching, next)
                }
                To::Lds(offset) => {
                    let mut touching = Touching { by: &by[1], starts: self.starts, races: self.races };
                    self.own.lds.atomic(offset, bytes, &mut touching, next)
                }
                To::Nowhere => Ok((0, true)),
                To::Scratch(_) | To::Swizzled(_) => Err(Fault::Unimplemented { what: "an atomic on scratch".into() }),
            };
            let (old, is_written) = old.map_err(|fault| Raised::at(lane, fault))?;
            if let Some((key, lds)) = to.key() {
                if returns {
                    wave.order.hold(key);
                }
                self.changed(wave, lane, (key, bytes), kind.compares().then_some(compare), &by)?;
                let known = released.take().filter(|(base, _)| Rc::ptr_eq(base, &clock));
                let (_, known) =
                    released.insert(known.unwrap_or_else(|| (clock, self.released(wave, lds, hands_on, is_one))));
                if let (Some(known), true) = (known, lds || may_release) {
                    has_released = Some(has_released.map_or(key, |_| SEVERAL_PLACES));
                    self.release(wave, key, lds, known);
                }
            }
            if returns {
                let served = if counts { exec } else { 1 << lane };
                for (dword, half) in [old as u32, (old >> 32) as u32].into_iter().enumerate().take(bytes / 4) {
                    let at = usize::from(memory.to) + dword;
                    lanes_of(served).for_each(|lane| wave.registers.v[at][lane] = half);
                    let unknown = if is_written { 0 } else { served };
                    wave.registers.poison[at].iter_mut().for_each(|poison| *poison = *poison & !served | unknown);
                }
            }
        }
        self.own.updated = true;
        if let Some(released) = has_released {
            wave.order.released = Some(released);
        }
        Ok(())
    }
}
