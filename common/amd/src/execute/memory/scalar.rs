//! Scalar loads, and the scalar stores and atomics that gfx9 has.

use std::rc::Rc;

use crate::bank::{Loaded, Touching, block_of};
use crate::execute::{Block, scalar};
use crate::instruction::{ScalarAtomic, ScalarLoad, ScalarPlace, ScalarStore};
use crate::memory::Line;
use crate::order::Touch;
use crate::races::Raced;
use crate::shadow::{How, Toucher};
use crate::verdict::{Access, Fault, Met, Other, Raised, Step, Use};
use crate::wave::Wave;

/// Where an access of scalar memory begins, and which of its bytes there are.
struct Reached {
    address: u64,
    offset: u64,
    records: u64,
}

impl Reached {
    /// Whether bytes so far behind the first one are within the buffer's descriptor.
    fn has(&self, step: u64, bytes: u64) -> bool {
        self.offset.checked_add(step + bytes).is_some_and(|end| end <= self.records)
    }
}

impl Block<'_> {
    /// # Errors
    /// The address is one that nobody wrote, or is not aligned to so many bytes.
    fn reach_scalar(
        &self,
        wave: &Wave,
        place: &ScalarPlace,
        (access, elements, size): (Access, u8, u64),
    ) -> Step<Reached> {
        let registers = &wave.registers;
        let (offset, poison) = scalar::read(registers, place.offset, 1);
        let words = if place.buffer { 4 } else { 2 };
        let base = usize::from(place.base);
        if poison != 0 || registers.s_poison[base..base + words].iter().any(|bits| *bits != 0) {
            return Err(Raised::wave(Fault::Unwritten { used: Use::Address, origin: wave.origin.clone() }));
        }
        let offset = offset.wrapping_add_signed(place.immediate);
        let mut start = registers.pair(place.base);
        let mut records = u64::MAX;
        if place.buffer {
            start &= 0xffff_ffff_ffff;
            records = u64::from(registers.s[base + 2]);
            if registers.s[base + 1] >> 16 & 0x3fff != 0 {
                records *= u64::from(registers.s[base + 1] >> 16 & 0x3fff);
            }
        }
        let address = start.wrapping_add(offset);
        if address % size != 0 {
            let (bytes, place) = (u32::from(elements) * size as u32, self.memory.place(address));
            return Err(Raised::wave(Fault::Misaligned { access, bytes, place }));
        }
        Ok(Reached { address, offset, records })
    }

    /// Scalar loads: of whole dwords, or of one or two bytes, at addresses that are aligned so.
    pub(in crate::execute) fn scalar_load(&mut self, wave: &mut Wave, load: &ScalarLoad, at: usize) -> Step {
        let size = load.part.map_or(4, |(bytes, _)| u64::from(bytes));
        let reached = self.reach_scalar(wave, &load.place, (Access::Read, load.dwords, size))?;
        let address = reached.address;
        if wave.order.released.is_some() {
            self.begin_round(wave);
        }
        let clock = Rc::clone(&wave.order.clock);
        let by = [self.toucher(wave, &clock); 2];
        self.races.early = wave.order.signaled;
        if wave.order.signaled {
            wave.order.early.push((address, usize::from(load.dwords) * size as usize, Touch::Read, by[0].number));
        }
        let mut line = None;
        for dword in 0..load.dwords {
            let step = u64::from(dword) * 4;
            let mut loaded = Loaded::default();
            if reached.has(step, size) {
                let mut touching = Touching { by: &by[0], starts: self.starts, races: self.races };
                let (place, size) = (address.wrapping_add(step), size as usize);
                let found = match dword {
                    0 => self.memory.load(place, size, &mut self.hint, &mut touching),
                    _ => self.memory.load_further(place, size, &mut self.hint, &mut touching),
                };
                loaded = found.map_err(Raised::wave)?;
                if self.memory.is_soiled() {
                    self.load_soiled((place, size), true, &by[0], &mut loaded);
                }
                let met = self.races.has_met() || !self.races.suspected.is_empty();
                match self.stale_scalar(wave, address.wrapping_add(step), &by[0], met, &mut line) {
                    Some(stale) if stale.at == at && stale.wave == wave.number && stale.block == self.own.id => {
                        self.races.read = Some(Raced::Read(stale.fault));
                        loaded.unwritten = if self.races.is_trusting() { 0 } else { (1 << size) - 1 };
                    }
                    Some(met) => return Err(Raised::before(met)),
                    None => {}
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
            self.settle_scalar(wave, &by, &clock);
            wave.registers.set(load.to + dword, loaded.dwords[0], poison)?;
        }
        wave.pending.scalar_load(at, (load.to, load.dwords), self.memory.is_of_arguments(address));
        Ok(())
    }

    /// Scalar stores: of whole dwords, those out of a descriptor's range left out.
    pub(in crate::execute) fn scalar_store(&mut self, wave: &mut Wave, store: &ScalarStore, at: usize) -> Step {
        let reached = self.reach_scalar(wave, &store.place, (Access::Write, store.dwords, 4))?;
        if wave.order.released.is_some() {
            self.begin_round(wave);
        }
        let clock = Rc::clone(&wave.order.clock);
        let by = [self.toucher(wave, &clock); 2];
        for dword in 0..store.dwords {
            let step = u64::from(dword) * 4;
            if !reached.has(step, 4) {
                continue;
            }
            let (address, from) = (reached.address.wrapping_add(step), usize::from(store.data + dword));
            if wave.registers.s_poison[from] != 0 {
                let used = Use::Store(self.memory.place(address));
                return Err(Raised::wave(Fault::Unwritten { used, origin: wave.origin.clone() }));
            }
            if self.memory.is_soiled() {
                self.store_soiled((address, 4), Access::Write, true, &by[0]).map_err(Raised::wave)?;
            }
            let data = wave.registers.s[from].to_le_bytes();
            let mut touching = Touching { by: &by[0], starts: self.starts, races: self.races };
            self.memory.store(address, &data, &mut self.hint, &mut touching).map_err(Raised::wave)?;
            let place = self.memory.place(address);
            let fault = Fault::NotWrittenBack { place: place.clone(), missing: "s_dcache_wb" };
            self.memory.soil(address, by[0].number, Met { fault, block: self.own.id, wave: wave.number, at, lane: 0 });
            wave.order.scalar_store = Some((at, place));
            self.settle_scalar(wave, &by, &clock);
        }
        self.own.stored = true;
        (wave.order.stored, wave.order.unseen, wave.order.writing_back) = (true, true, false);
        wave.pending.scalar(at, store.data, 0);
        Ok(())
    }

    /// What a scalar load finds at an address may be what was there before somebody wrote it: that is in no cache of scalars as it is. Who finds it:
    /// the load, or one that came before. A load that `races` finds nothing by that, though others may.
    fn stale_scalar(
        &mut self,
        wave: &Wave,
        address: u64,
        by: &Toucher<'_>,
        races: bool,
        line: &mut Option<Line>,
    ) -> Option<Met> {
        let writer = self.memory.writer(address);
        let own = &*self.own;
        let is_of_block = (own.start..own.end).contains(&writer);
        let of_wave = writer.wrapping_sub(own.start) % own.waves;
        // What the block stored by scalars is there.
        let is_there = is_of_block && self.memory.soiled(address, 4).any(|(_, of)| of.number == writer);
        let emptied = is_there || wave.order.scalars.contains(writer);
        let met = (!races && writer >= self.launch_start && !emptied).then(|| {
            let other = if is_of_block { Other::Wave(of_wave) } else { Other::Block(block_of(self.starts, writer)) };
            let fault = Fault::Stale { place: self.memory.place(address), other, missing: "s_dcache_inv" };
            Met { fault, block: own.id, wave: wave.number, at: wave.at.saturating_sub(1), lane: 0 }
        });
        // What the block itself stores may be on its way behind a barrier that is enough for loads of vectors.
        let of_block = met.is_some() && is_of_block;
        let found = self.memory.load_scalars(address, by, met.clone().filter(|_| !of_block), line);
        if of_block { met } else { found }
    }

    pub(in crate::execute) fn scalar_atomic(&mut self, wave: &mut Wave, atomic: &ScalarAtomic, at: usize) -> Step {
        let (bytes, data) = (usize::from(atomic.bytes), usize::from(atomic.data));
        let reached = self.reach_scalar(wave, &atomic.place, (Access::Atomic, 1, u64::from(atomic.bytes)))?;
        let address = reached.address;
        if wave.order.released.is_some_and(|released| released != address) {
            self.begin_round(wave);
        }
        let operands = if atomic.kind.has_two_operands() { 2 } else { 1 };
        if wave.registers.s_poison[data..data + operands * bytes / 4].iter().any(|bits| *bits != 0) {
            let used = Use::Store(self.memory.place(address));
            return Err(Raised::wave(Fault::Unwritten { used, origin: wave.origin.clone() }));
        }
        let value = |operand: usize| {
            let first = data + operand * bytes / 4;
            let high = if bytes == 8 { wave.registers.s[first + 1] } else { 0 };
            u64::from(wave.registers.s[first]) | u64::from(high) << 32
        };
        let (new, compare, mode) = (value(0), value(operands - 1), wave.mode);
        let mut old = 0;
        if reached.has(0, u64::from(atomic.bytes)) {
            if atomic.returns {
                self.acquire(wave, address, false);
            }
            let clock = Rc::clone(&wave.order.clock);
            let by = self.toucher(wave, &clock).touching(How::Atomic);
            let next = |old: Option<u64>| Some(atomic.kind.next(&mode, bytes, old?, new, compare));
            let mut touching = Touching { by: &by, starts: self.starts, races: self.races };
            (old, _) = self.memory.atomic(address, bytes, &mut self.hint, &mut touching, next).map_err(Raised::wave)?;
            if atomic.returns {
                wave.order.hold(address);
            }
            self.changed(wave, 0, (address, bytes), atomic.kind.compares().then_some(compare), &[by; 2])?;
            if wave.pending.has_no_lds()
                && let Some(known) = self.released(wave, false, true, true)
            {
                self.release(wave, address, false, &known);
                wave.order.released = Some(address);
            }
        }
        let count = if atomic.returns { atomic.bytes / 4 } else { 0 };
        for (dword, half) in (0..count).zip([old as u32, (old >> 32) as u32]) {
            wave.registers.set(atomic.data + dword, half, 0)?;
        }
        wave.pending.scalar(at, atomic.data, count);
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
