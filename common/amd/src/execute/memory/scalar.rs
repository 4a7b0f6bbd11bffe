//! Scalar loads.

use std::rc::Rc;

use crate::bank::{Loaded, Touching};
use crate::execute::{Block, scalar};
use crate::instruction::ScalarLoad;
use crate::races::Raced;
use crate::verdict::{Access, Fault, Raised, Step, Use};
use crate::wave::Wave;

impl Block<'_> {
    /// Scalar loads: of whole dwords, or of one or two bytes, at addresses that are aligned so.
    pub(in crate::execute) fn scalar_load(&mut self, wave: &mut Wave, load: &ScalarLoad, at: usize) -> Step {
        let registers = &wave.registers;
        let (offset, poison) = scalar::read(registers, load.offset, 1);
        let words = if load.buffer { 4 } else { 2 };
        let base = usize::from(load.base);
        if poison != 0 || registers.s_poison[base..base + words].iter().any(|bits| *bits != 0) {
            return Err(Raised::wave(Fault::Unwritten { used: Use::Address, origin: wave.origin.clone() }));
        }
        let offset = offset.wrapping_add_signed(load.immediate);
        let mut start = registers.pair(load.base);
        let mut records = u64::MAX;
        if load.buffer {
            start &= 0xffff_ffff_ffff;
            records = u64::from(registers.s[base + 2]);
            if registers.s[base + 1] >> 16 & 0x3fff != 0 {
                records *= u64::from(registers.s[base + 1] >> 16 & 0x3fff);
            }
        }
        let address = start.wrapping_add(offset);
        let size = load.part.map_or(4, |(bytes, _)| u64::from(bytes));
        if address % size != 0 {
            let bytes = u32::from(load.dwords) * size as u32;
            let (access, place) = (Access::Read, self.memory.place(address));
            return Err(Raised::wave(Fault::Misaligned { access, bytes, place }));
        }
        let clock = Rc::clone(&wave.order.clock);
        let by = [self.toucher(wave, &clock); 2];
        for dword in 0..load.dwords {
            let step = u64::from(dword) * 4;
            let mut loaded = Loaded::default();
            if offset.checked_add(step + size).is_some_and(|end| end <= records) {
                let mut touching = Touching { by: &by[0], starts: self.starts, races: self.races };
                let found = self.memory.load(address.wrapping_add(step), size as usize, &mut self.hint, &mut touching);
                loaded = found.map_err(Raised::wave)?;
                let met = self.races.has_met() || self.races.suspected.is_some();
                if let (false, Some(fault)) = (met, self.stale_scalar(wave, address.wrapping_add(step))) {
                    self.races.read = Some(Raced::Read(fault));
                    loaded.unwritten = if self.races.is_trusting() { 0 } else { (1 << size) - 1 };
                }
            }
            if let Some((bytes, signed)) = load.part {
                loaded = extended(loaded, bytes, signed);
            }
            let poison =
                (0..4).filter(|byte| loaded.unwritten >> byte & 1 == 1).fold(0, |all, byte| all | 0xff << (8 * byte));
            if poison != 0 && wave.origin.is_none() && !self.races.has_met() {
                let place = self.memory.place(address.wrapping_add(step));
                wave.origin = Some(format!("the first that was loaded: {place}"));
            }
            self.settle(wave, 0, &by, &clock);
            wave.registers.set(load.to + dword, loaded.dwords[0], poison)?;
        }
        wave.pending.scalar(at, load.to, load.dwords);
        Ok(())
    }
}

/// The lower bytes of a dword, extended to all of it.
pub(in crate::execute) fn extended(loaded: Loaded, bytes: u8, signed: bool) -> Loaded {
    let shift = 32 - 8 * u32::from(bytes);
    let raw = loaded.dwords[0] << shift;
    let value = if signed { (raw as i32 >> shift) as u32 } else { raw >> shift };
    // The bytes above are as the last one.
    let above = if signed && loaded.unwritten >> (bytes - 1) & 1 == 1 { 15 << bytes & 15 } else { 0 };
    Loaded { dwords: [value, 0, 0, 0], unwritten: loaded.unwritten | above }
}
