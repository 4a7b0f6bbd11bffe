//! Loads into vector registers.

use std::rc::Rc;

use super::lanes_of;
use crate::bank::Loaded;
use crate::execute::address::{Addresses, To, place};
use crate::execute::{Block, Lane};
use crate::instruction::Memory;
use crate::operations::memory::Form;
use crate::registers::CLEAN;
use crate::shadow::Toucher;
use crate::verdict::{Place, Raised, Step};
use crate::wave::Wave;

impl Block<'_> {
    /// Whole dwords of each lane.
    #[expect(clippy::too_many_arguments, reason = "an access has that many parts")]
    pub(super) fn load(
        &mut self,
        wave: &mut Wave,
        memory: &Memory,
        addresses: &Addresses,
        exec: u64,
        bytes: usize,
        to: u16,
        offset: i64,
    ) -> Step {
        let clock = Rc::clone(&wave.order.clock);
        let by = self.touchers(wave, &clock, memory, exec);
        let count = bytes / 4;
        let mut poison = [CLEAN; 4];
        for lane in lanes_of(exec) {
            let loaded = if let Some((descriptor, ..)) = addresses.descriptor.as_ref().filter(|(of, ..)| of.swizzle) {
                self.load_swizzled(wave, memory, addresses, descriptor.element, lane, bytes, &by)
            } else {
                let to = place(self.resolve(memory, addresses, lane, bytes as u64), offset);
                let acquiring = memory.sync.then(|| self.acquiring(wave, memory, &to, by));
                self.lane_load(wave, to, bytes, lane, acquiring.as_ref().unwrap_or(&by))
            };
            let loaded = loaded.map_err(|fault| Raised::at(lane, fault))?;
            for (at, dword) in loaded.dwords.iter().enumerate().take(count) {
                wave.registers.v[usize::from(to) + at][lane] = *dword;
            }
            if loaded.unwritten != 0 {
                self.remember(wave, memory, addresses, lane, bytes, offset);
                for (at, byte) in poison.as_flattened_mut().iter_mut().enumerate() {
                    *byte |= u64::from(loaded.unwritten >> at & 1) << lane;
                }
            }
            self.settle(wave, lane, &by, &clock);
        }
        for (at, bytes) in poison.iter().enumerate().take(count) {
            for (old, new) in wave.registers.poison[usize::from(to) + at].iter_mut().zip(bytes) {
                *old = *old & !exec | new & exec;
            }
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "an access has that many parts")]
    fn load_swizzled(
        &mut self,
        wave: &Wave,
        memory: &Memory,
        addresses: &Addresses,
        element: u64,
        lane: usize,
        bytes: usize,
        by: &[Toucher<'_>; 2],
    ) -> Lane<Loaded> {
        let (mut all, step) = (Loaded::default(), bytes.min(element as usize).clamp(1, 4));
        for at in (0..bytes).step_by(step) {
            let to = self.resolve(memory, &addresses.moved(lane, at as u64), lane, step as u64);
            let part = self.lane_load(wave, to, step, lane, by)?;
            all.dwords[at / 4] |= part.dwords[0] << (at % 4 * 8);
            all.unwritten |= part.unwritten << at;
        }
        Ok(all)
    }

    /// The first value that is loaded though nobody wrote it.
    pub(super) fn remember(
        &self,
        wave: &mut Wave,
        memory: &Memory,
        addresses: &Addresses,
        lane: usize,
        bytes: usize,
        offset: i64,
    ) {
        if wave.origin.is_none() && !self.races.has_met() {
            let place = match place(self.resolve(memory, addresses, lane, bytes as u64), offset) {
                To::Memory(address) => self.memory.place(address),
                To::Lds(offset) => Place::Lds { offset, size: self.own.lds.bytes.len() as u64 },
                To::Scratch(offset) => Place::Scratch { offset, size: self.own.scratch.lane_bytes },
                To::Swizzled(byte) => self.own.scratch.place(wave, byte),
                To::Nowhere => return,
            };
            wave.origin = Some(format!("the first that was loaded: {place}"));
        }
    }

    pub(super) fn load_part(
        &mut self,
        wave: &mut Wave,
        memory: &Memory,
        addresses: &Addresses,
        exec: u64,
        bytes: usize,
        form: Form,
    ) -> Step {
        let clock = Rc::clone(&wave.order.clock);
        let by = self.touchers(wave, &clock, memory, exec);
        let at = usize::from(memory.to);
        for lane in lanes_of(exec) {
            let to = place(self.resolve(memory, addresses, lane, bytes as u64), memory.offset);
            let acquiring = memory.sync.then(|| self.acquiring(wave, memory, &to, by));
            let by = acquiring.as_ref().unwrap_or(&by);
            let loaded = self.lane_load(wave, to, bytes, lane, by).map_err(|fault| Raised::at(lane, fault))?;
            if loaded.unwritten != 0 {
                self.remember(wave, memory, addresses, lane, bytes, memory.offset);
            }
            let raw = loaded.dwords[0];
            let extended = |signed: bool| match (bytes, signed) {
                (1, true) => raw as i8 as u32,
                (_, true) => raw as i16 as u32,
                (_, false) => raw,
            };
            let old = wave.registers.v[at][lane];
            let unwritten = [loaded.unwritten & 1 != 0, loaded.unwritten & 2 != 0];
            let [low, high] = unwritten.map(Some);
            // Of what is extended with its sign, the bytes above are as the last one.
            let above = |signed: bool| match (bytes, signed) {
                (1, true) => low,
                (1, false) => Some(false),
                _ => high,
            };
            let (no, sign) = (Some(false), above(true));
            // For each byte: whether nobody wrote it, `None` where it stays.
            let (value, poison) = match form {
                Form::Dwords | Form::Unsigned => (raw, [low, above(false), no, no]),
                Form::Signed => (extended(true), [low, sign, sign, sign]),
                Form::Low { signed } => {
                    (extended(signed) & 0xffff | old & 0xffff_0000, [low, above(signed), None, None])
                }
                Form::High { signed } => (extended(signed) << 16 | old & 0xffff, [None, None, low, above(signed)]),
            };
            wave.registers.v[at][lane] = value;
            for (byte, unknown) in wave.registers.poison[at].iter_mut().zip(poison) {
                if let Some(unknown) = unknown {
                    *byte = *byte & !(1 << lane) | u64::from(unknown) << lane;
                }
            }
            self.settle(wave, lane, by, &clock);
        }
        Ok(())
    }
}
