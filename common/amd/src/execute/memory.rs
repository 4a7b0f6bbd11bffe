//! Loads, stores and atomics: global, flat, scratch, buffer, LDS and scalar.

use std::rc::Rc;

use super::address::{Addresses, To, place, unwritten};
use super::transpose::transpose;
use super::{Block, Lane, scalar};
use crate::instruction::{Memory, ScalarLoad};
use crate::memory::{Loaded, Touching};
use crate::operations::memory::{Atomic, Form, Kind, Space};
use crate::order::Known;
use crate::pending::LdsTouch;
use crate::registers::{LANES, Registers};
use crate::shadow::{How, Toucher};
use crate::verdict::{Access, Fault, Place, Raised, Step, Use};
use crate::wave::Wave;

pub(super) fn lanes_of(mask: u64) -> impl Iterator<Item = usize> {
    let mut left = mask;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let lane = left.trailing_zeros() as usize;
        left &= left - 1;
        Some(lane)
    })
}

impl Block<'_> {
    /// Executes a vector memory or LDS instruction.
    pub(super) fn access(&mut self, wave: &mut Wave, memory: &Memory, at: usize) -> Step {
        let exec = wave.registers.exec();
        if exec != 0 {
            let addresses = self.addresses(wave, memory, exec)?;
            match memory.kind {
                Kind::Load { bytes, form: Form::Dwords } => {
                    self.load(wave, memory, &addresses, exec, usize::from(bytes), memory.to, memory.offset)?;
                    if let Some(bits) = memory.transposed {
                        transpose(&mut wave.registers, memory.to, usize::from(bytes / 4), usize::from(bits));
                    }
                }
                Kind::LoadToLds { bytes } => {
                    let offsets = self.load_to_lds(wave, memory, &addresses, exec, usize::from(bytes))?;
                    let touch = LdsTouch { offsets, exec, bytes: u32::from(bytes), write: true };
                    wave.pending.vector_to_lds(at, Box::new(touch));
                    return Ok(());
                }
                Kind::Load { bytes, form } => {
                    self.load_part(wave, memory, &addresses, exec, usize::from(bytes), form)?
                }
                Kind::LoadTwo { bytes, .. } => {
                    let bytes = usize::from(bytes);
                    // The address may be overwritten by the first half; addresses were read before.
                    self.load(wave, memory, &addresses, exec, bytes, memory.to, memory.offset)?;
                    let second = memory.to + (bytes / 4) as u16;
                    self.load(wave, memory, &addresses, exec, bytes, second, memory.second)?;
                }
                Kind::Store { bytes, form } => {
                    self.store(wave, memory, &addresses, exec, usize::from(bytes), form, memory.data, memory.offset)?;
                }
                Kind::StoreTwo { bytes, .. } => {
                    let (bytes, form) = (usize::from(bytes), Form::Dwords);
                    self.store(wave, memory, &addresses, exec, bytes, form, memory.data, memory.offset)?;
                    self.store(wave, memory, &addresses, exec, bytes, form, memory.data2, memory.second)?;
                }
                Kind::Atomic { kind, bytes, returns } => {
                    self.atomic(wave, memory, &addresses, exec, kind, usize::from(bytes), returns)?;
                }
            }
            if let Kind::Store { .. } | Kind::StoreTwo { .. } = memory.kind {
                self.stored = true;
                wave.order.stored = true;
                let shared = !matches!(memory.space, Space::Lds | Space::Scratch);
                // Of gfx942, an atomic store is written through to where others see it.
                wave.order.unseen |= shared && !(memory.sync && self.target.writes_back());
                wave.order.writing_back &= !shared;
            }
            self.note(wave, memory, &addresses, exec, at);
        } else {
            self.note(wave, memory, &Addresses { of: [0; LANES], descriptor: None }, exec, at);
        }
        Ok(())
    }

    /// What is under way from now on.
    fn note(&self, wave: &mut Wave, memory: &Memory, addresses: &Addresses, exec: u64, at: usize) {
        let (count, bytes, write) = match memory.kind {
            Kind::Load { bytes, .. } => (u16::from(bytes.div_ceil(4)), bytes, false),
            Kind::LoadTwo { bytes, .. } => (u16::from(bytes / 2), bytes, false),
            Kind::Store { bytes, .. } | Kind::StoreTwo { bytes, .. } => (0, bytes, true),
            Kind::LoadToLds { bytes } => (0, bytes, true),
            Kind::Atomic { bytes, returns, .. } => (if returns { u16::from(bytes / 4) } else { 0 }, 0, true),
        };
        // Loads of a half leave the other one alone, on targets that have registers by halves.
        let half = match memory.kind {
            Kind::Load { form: Form::Low { .. }, .. } if !self.target.is_gfx9() => Some(false),
            Kind::Load { form: Form::High { .. }, .. } if !self.target.is_gfx9() => Some(true),
            _ => None,
        };
        let vgprs = (memory.to, count, half);
        match memory.space {
            Space::Flat => wave.pending.flat(at, vgprs),
            Space::Lds => {
                let touch = |offset: i64| {
                    let offsets = addresses.of.map(|address| (address as u32).wrapping_add(offset as u32));
                    (bytes > 0).then(|| Box::new(LdsTouch { offsets, exec, bytes: u32::from(bytes), write }))
                };
                let two = matches!(memory.kind, Kind::LoadTwo { .. } | Kind::StoreTwo { .. });
                wave.pending.lds(at, vgprs, [touch(memory.offset), two.then(|| touch(memory.second)).flatten()]);
            }
            Space::Global | Space::Scratch | Space::Buffer => {
                // Stores of targets that count them apart have no registers to wait for.
                if count > 0 || !self.target.counts_stores {
                    wave.pending.vector(at, vgprs);
                }
            }
        }
    }

    #[inline(always)]
    pub(super) fn lane_load(
        &mut self,
        wave: &Wave,
        to: To,
        bytes: usize,
        lane: usize,
        by: &[Toucher<'_>; 2],
    ) -> Lane<Loaded> {
        match to {
            To::Memory(address) => {
                let (hint, block_of, suspected) = (&mut self.hint, self.block_of, &mut self.suspected);
                self.memory.load(address, bytes, &mut Touching { by: &by[0], hint, block_of, suspected })
            }
            To::Lds(offset) => self.lds.load(offset, bytes, &by[1], self.block_of, &mut self.suspected),
            To::Scratch(offset) => self.scratch.load(wave, lane, offset, bytes),
            To::Swizzled(byte) => self.scratch.load_at(byte, bytes),
            To::Nowhere => Ok(Loaded::default()),
        }
    }

    #[inline(always)]
    pub(super) fn lane_store(
        &mut self,
        wave: &Wave,
        to: To,
        data: &[u8],
        poison: u16,
        lane: usize,
        by: &[Toucher<'_>; 2],
    ) -> Lane<()> {
        match to {
            To::Memory(address) => {
                if poison != 0 {
                    let used = Use::Store(self.memory.place(address));
                    return Err(Fault::Unwritten { used, origin: wave.origin.clone() });
                }
                let (hint, block_of, suspected) = (&mut self.hint, self.block_of, &mut self.suspected);
                self.memory.store(address, data, &mut Touching { by: &by[0], hint, block_of, suspected })
            }
            To::Lds(offset) => self.lds.store(offset, data, poison, &by[1], self.block_of),
            To::Scratch(offset) => self.scratch.store(wave, lane, offset, data, poison),
            To::Swizzled(byte) => self.scratch.store_at(byte, data, poison),
            To::Nowhere => Ok(()),
        }
    }

    /// Whole dwords of each lane.
    #[expect(clippy::too_many_arguments, reason = "an access has that many parts")]
    fn load(
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
        let mut half_poison = [[0_u64; 2]; 4];
        for lane in lanes_of(exec) {
            let loaded = if let Some((descriptor, ..)) = addresses.descriptor.as_ref().filter(|(of, ..)| of.swizzle) {
                self.load_swizzled(wave, memory, addresses, descriptor.element, lane, bytes, &by)
            } else {
                let to = place(self.resolve(memory, addresses, lane, bytes as u64), offset);
                let acquiring = memory.sync.then(|| self.acquiring(wave, &to, by));
                self.lane_load(wave, to, bytes, lane, acquiring.as_ref().unwrap_or(&by))
            };
            let loaded = loaded.map_err(|fault| Raised::at(lane, fault))?;
            if self.suspected.is_some() {
                self.suspect(wave, lane);
            }
            for (at, dword) in loaded.dwords.iter().enumerate().take(count) {
                wave.registers.v[usize::from(to) + at][lane] = *dword;
            }
            if loaded.unwritten != 0 {
                self.remember(wave, memory, addresses, lane, bytes, offset);
                for (at, halves) in half_poison.iter_mut().enumerate() {
                    let bits = loaded.unwritten >> (4 * at) & 15;
                    halves[0] |= u64::from(bits & 3 != 0) << lane;
                    halves[1] |= u64::from(bits & 12 != 0) << lane;
                }
            }
        }
        for (at, halves) in half_poison.iter().enumerate().take(count) {
            for (old, new) in wave.registers.poison[usize::from(to) + at].iter_mut().zip(halves) {
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
    fn remember(
        &self,
        wave: &mut Wave,
        memory: &Memory,
        addresses: &Addresses,
        lane: usize,
        bytes: usize,
        offset: i64,
    ) {
        if wave.origin.is_none() {
            let place = match place(self.resolve(memory, addresses, lane, bytes as u64), offset) {
                To::Memory(address) => self.memory.place(address),
                To::Lds(offset) => Place::Lds { offset, size: self.lds.bytes.len() as u64 },
                To::Scratch(offset) | To::Swizzled(offset) => Place::Scratch { offset, size: self.scratch.lane_bytes },
                To::Nowhere => return,
            };
            wave.origin = Some(format!("the first that was loaded: {place}"));
        }
    }

    fn load_part(
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
            let acquiring = memory.sync.then(|| self.acquiring(wave, &to, by));
            let by = acquiring.as_ref().unwrap_or(&by);
            let loaded = self.lane_load(wave, to, bytes, lane, by).map_err(|fault| Raised::at(lane, fault))?;
            if self.suspected.is_some() {
                self.suspect(wave, lane);
            }
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
            let unknown = loaded.unwritten != 0;
            // For each half: whether its poison is set, `None` where it stays.
            let (value, halves) = match form {
                Form::Dwords | Form::Unsigned => (raw, [Some(unknown), Some(false)]),
                Form::Signed => (extended(true), [Some(unknown); 2]),
                Form::Low { signed } => (extended(signed) & 0xffff | old & 0xffff_0000, [Some(unknown), None]),
                Form::High { signed } => (extended(signed) << 16 | old & 0xffff, [None, Some(unknown)]),
            };
            wave.registers.v[at][lane] = value;
            for (poison, half) in wave.registers.poison[at].iter_mut().zip(halves) {
                if let Some(unknown) = half {
                    *poison = *poison & !(1 << lane) | u64::from(unknown) << lane;
                }
            }
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "an access has that many parts")]
    fn store(
        &mut self,
        wave: &mut Wave,
        memory: &Memory,
        addresses: &Addresses,
        exec: u64,
        bytes: usize,
        form: Form,
        data: u16,
        offset: i64,
    ) -> Step {
        let clock = Rc::clone(&wave.order.clock);
        let (how, releases) = self.how(wave, memory, exec);
        let by = [self.toucher(wave, &clock), self.lds_toucher(wave, &clock)].map(|by| by.touching(how));
        let at = usize::from(data);
        let count = bytes.div_ceil(4);
        self.same_values(wave, memory, addresses, exec, (bytes, form, data, offset))?;
        let registers = &wave.registers;
        let any_poison = (at..at + count).any(|at| (registers.poison[at][0] | registers.poison[at][1]) & exec != 0);
        for lane in lanes_of(exec) {
            let mut raw = [0_u8; 16];
            for (chunk, values) in raw.as_chunks_mut().0.iter_mut().zip(&registers.v[at..at + count]) {
                *chunk = values[lane].to_le_bytes();
            }
            let mut poison = 0_u16;
            if any_poison {
                for (dword, [low, high]) in registers.poison[at..at + count].iter().enumerate() {
                    poison |= (if low >> lane & 1 == 1 { 3 } else { 0 }) << (4 * dword);
                    poison |= (if high >> lane & 1 == 1 { 12 } else { 0 }) << (4 * dword);
                }
            }
            if let Form::High { .. } = form {
                (raw[0], raw[1]) = (raw[2], raw[3]);
                poison >>= 2;
            }
            poison &= ((1_u32 << bytes) - 1) as u16;
            let holding = releases.then(|| self.holding(wave, memory, addresses, lane, (bytes, offset), by));
            let by = holding.as_ref().unwrap_or(&by);
            let done = if let Some((descriptor, ..)) = addresses.descriptor.as_ref().filter(|(of, ..)| of.swizzle) {
                let step = bytes.min(descriptor.element as usize).clamp(1, 4);
                (0..bytes).step_by(step).try_for_each(|at| {
                    let to = self.resolve(memory, &addresses.moved(lane, at as u64), lane, step as u64);
                    let part = poison >> at & ((1 << step) - 1);
                    self.lane_store(wave, to, &raw[at..at + step], part, lane, by)
                })
            } else {
                let to = place(self.resolve(memory, addresses, lane, bytes as u64), offset);
                self.lane_store(wave, to, &raw[..bytes], poison, lane, by)
            };
            done.map_err(|fault| Raised::at(lane, fault))?;
        }
        if releases && let Some(clock) = self.released(wave, memory.space == Space::Lds) {
            for lane in lanes_of(exec) {
                let to = place(self.resolve(memory, addresses, lane, bytes as u64), offset);
                if let Some((key, lds)) = to.key() {
                    self.release(wave, key, lds, &clock);
                }
            }
            self.begin_round(wave);
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "an access has that many parts")]
    fn atomic(
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
        let mut operands = vec![memory.data];
        if kind == Atomic::CompareSwap {
            operands.push(memory.compare);
        }
        let mut released: Option<(Known, Option<Known>)> = None;
        // LDS is in order; what goes elsewhere has to be waited for.
        let (may_release, mut has_released) = (wave.pending.is_scalar_empty(), false);
        for lane in lanes_of(exec) {
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
                    To::Lds(offset) => Place::Lds { offset, size: self.lds.bytes.len() as u64 },
                    _ => Place::Nowhere { address: 0 },
                });
                return Err(unwritten(lane, used, wave));
            }
            let (data, compare) = (two(registers, memory.data, lane), two(registers, memory.compare, lane));
            let mode = wave.mode;
            let next = |old: u64| kind.next(&mode, bytes, old, data, compare);
            let old = match to {
                To::Memory(address) => {
                    let (hint, block_of, suspected) = (&mut self.hint, self.block_of, &mut self.suspected);
                    self.memory.atomic(address, bytes, &mut Touching { by: &by[0], hint, block_of, suspected }, next)
                }
                To::Lds(offset) => self.lds.atomic(offset, bytes, &by[1], self.block_of, &mut self.suspected, next),
                To::Nowhere => Ok(0),
                To::Scratch(_) | To::Swizzled(_) => Err(Fault::Unimplemented { what: "an atomic on scratch".into() }),
            };
            let old = old.map_err(|fault| Raised::at(lane, fault))?;
            if let Some((key, lds)) = to.key() {
                self.explain(wave, key, returns);
                self.accuse(wave, lane)?;
                let known = released.take().filter(|(base, _)| Rc::ptr_eq(base, &clock));
                let (_, known) = released.insert(known.unwrap_or_else(|| (clock, self.released(wave, lds))));
                if let (Some(known), true) = (known, lds || may_release) {
                    has_released = true;
                    self.release(wave, key, lds, known);
                }
            }
            if returns {
                for (dword, half) in [old as u32, (old >> 32) as u32].into_iter().enumerate().take(bytes / 4) {
                    let at = usize::from(memory.to) + dword;
                    wave.registers.v[at][lane] = half;
                    wave.registers.poison[at].iter_mut().for_each(|poison| *poison &= !(1 << lane));
                }
            }
        }
        if has_released {
            self.begin_round(wave);
        }
        Ok(())
    }

    /// Scalar loads: of whole dwords, at addresses whose two low bits do not count.
    pub(super) fn scalar_load(&mut self, wave: &mut Wave, load: &ScalarLoad, at: usize) -> Step {
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
        if address % 4 != 0 {
            let (access, bytes, place) = (Access::Read, u32::from(load.dwords) * 4, self.memory.place(address));
            return Err(Raised::wave(Fault::Misaligned { access, bytes, place }));
        }
        let clock = Rc::clone(&wave.order.clock);
        let by = self.toucher(wave, &clock);
        for dword in 0..load.dwords {
            let step = u64::from(dword) * 4;
            let mut loaded = Loaded::default();
            if offset.checked_add(step + 4).is_some_and(|end| end <= records) {
                let (hint, block_of, suspected) = (&mut self.hint, self.block_of, &mut self.suspected);
                let mut touching = Touching { by: &by, hint, block_of, suspected };
                let found = self.memory.load(address.wrapping_add(step), 4, &mut touching);
                loaded = found.map_err(Raised::wave)?;
                if self.suspected.is_some() {
                    self.suspect(wave, 0);
                }
            }
            let poison =
                (0..4).filter(|byte| loaded.unwritten >> byte & 1 == 1).fold(0, |all, byte| all | 0xff << (8 * byte));
            if poison != 0 && wave.origin.is_none() {
                let place = self.memory.place(address.wrapping_add(step));
                wave.origin = Some(format!("the first that was loaded: {place}"));
            }
            wave.registers.set(load.to + dword, loaded.dwords[0], poison)?;
        }
        wave.pending.scalar(at, load.to, load.dwords);
        Ok(())
    }
}
