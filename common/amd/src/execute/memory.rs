//! Loads, stores and atomics: global, flat, scratch, buffer, LDS and scalar.

mod atomic;
mod lanes;
mod load;
mod sample;
mod scalar;
mod store;
mod typed;

use super::address::{Addresses, To};
use super::image;
use super::transpose::transpose;
use super::{Block, Lane};
use crate::bank::{Loaded, Touching};
use crate::instruction::{Address, Memory};
use crate::operations::memory::{Form, Kind, Space, Transposed};
use crate::pending::{LdsTouches, Pending};
use crate::shadow::Toucher;
use crate::verdict::{Access, Fault, Place, Raised, Step, Use};
use crate::wave::{State, Wave};

pub(super) use self::scalar::extended;

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
        if self.races.watch.is_some() {
            self.watch(wave, memory, exec, at);
        }
        if wave.order.released.is_some() && exec != 0 {
            self.behind_release(wave, memory, exec);
        }
        self.races.early = wave.order.signaled;
        if wave.order.signaled {
            self.note_early(wave, memory, exec);
        }
        if exec == 0 {
            self.note(wave, memory, [None, None], at);
        } else if let Some(touches) = self.at_once(wave, memory, exec) {
            if let Some(early) = wave.pending.unlanded(&touches) {
                return Err(self.unwaited(early));
            }
            self.stored(wave, memory);
            self.note(wave, memory, touches, at);
        } else {
            let addresses = self.addresses(wave, memory, exec)?;
            let syncs = memory.sync || matches!(memory.kind, Kind::Atomic { .. }) || self.how(wave, memory, exec).1;
            let done = self.moved(wave, memory, &addresses, exec, at);
            if let Err(raised) = done {
                return Err(self.named(wave, memory, &addresses, raised));
            }
            if let Kind::LoadToLds { .. } = memory.kind {
                return Ok(());
            }
            if syncs {
                wave.state = State::Synced;
            }
            let touches = touches(&mut wave.pending, memory, &addresses, exec);
            if let Some(early) = wave.pending.unlanded(&touches) {
                return Err(self.unwaited(early));
            }
            self.note(wave, memory, touches, at);
        }
        Ok(())
    }

    /// An overflow that is far off is named by the buffer of the base that it went from.
    fn named(&self, wave: &Wave, memory: &Memory, addresses: &Addresses, mut raised: Box<Raised>) -> Box<Raised> {
        let base = match memory.address {
            Address::Base(base, _) => wave.registers.pair(base),
            Address::Descriptor { descriptor, .. } => wave.registers.pair(descriptor) & 0xffff_ffff_ffff,
            _ => return raised,
        };
        let (Some(lane), Fault::OutOfBounds { place, .. }) = (raised.lane, &mut raised.fault) else { return raised };
        let To::Memory(address) = self.resolve(memory, addresses, lane as usize, 1) else { return raised };
        let inside = self.memory.buffer_at(address).is_some();
        if let (false, Place::Buffer { .. } | Place::Nowhere { .. } | Place::Freed { .. }) = (inside, &place)
            && let Some(from) = self.memory.place_from(base, address)
        {
            *place = from;
        }
        raised
    }

    fn moved(&mut self, wave: &mut Wave, memory: &Memory, addresses: &Addresses, exec: u64, at: usize) -> Step {
        match memory.kind {
            Kind::Load { bytes, form: Form::Dwords } => {
                // "EXEC must be all ones, else the operation is undefined."
                let partial = exec.count_ones() as usize != wave.registers.lanes;
                if let (Some(Transposed::Tiles(_)), true) = (memory.transposed, partial) {
                    let what = "a transposing load of which EXEC leaves lanes out".into();
                    return Err(Raised::wave(Fault::Unimplemented { what }));
                }
                self.load(wave, memory, addresses, exec, usize::from(bytes), memory.to, memory.offset)?;
                if let Some(how) = memory.transposed {
                    transpose(&mut wave.registers, memory.to, usize::from(bytes / 4), how);
                }
            }
            Kind::LoadToLds { bytes, form } => {
                let offsets = self.load_to_lds(wave, memory, addresses, exec, (bytes, form))?;
                let mut touch = wave.pending.touch(exec, u32::from(bytes.next_multiple_of(4)), true);
                touch.offsets = offsets;
                wave.pending.vector_to_lds(at, touch);
                return Ok(());
            }
            Kind::Load { bytes, form } => self.load_part(wave, memory, addresses, exec, usize::from(bytes), form)?,
            Kind::LoadTwo { bytes, .. } => {
                let bytes = usize::from(bytes);
                // The address may be overwritten by the first half; addresses were read before.
                self.load(wave, memory, addresses, exec, bytes, memory.to, memory.offset)?;
                let second = memory.to + (bytes / 4) as u16;
                self.load(wave, memory, addresses, exec, bytes, second, memory.second)?;
            }
            Kind::Store { bytes, form } => {
                self.store(wave, memory, addresses, exec, usize::from(bytes), form, memory.data, memory.offset)?;
            }
            Kind::StoreTwo { bytes, .. } => {
                let (bytes, form) = (usize::from(bytes), Form::Dwords);
                self.store(wave, memory, addresses, exec, bytes, form, memory.data, memory.offset)?;
                self.store(wave, memory, addresses, exec, bytes, form, memory.data2, memory.second)?;
            }
            Kind::ExchangeTwo { bytes, .. } => self.exchange_two(wave, memory, addresses, exec, usize::from(bytes))?,
            Kind::ImageSize(which) => image::size(wave, memory, addresses.image.as_ref(), exec, which)?,
            Kind::LoadTyped(typed) => self.load_typed(wave, memory, addresses, exec, typed)?,
            Kind::Sample(typed) => self.sample(wave, memory, addresses, exec, typed)?,
            Kind::StoreTyped(typed) => self.store_typed(wave, memory, addresses, exec, typed)?,
            Kind::Atomic { kind, bytes, returns } => {
                if let Some(image) = &addresses.image {
                    image.check_atomic(usize::from(bytes), self.target.generation)?;
                }
                self.atomic(wave, memory, addresses, exec, kind, usize::from(bytes), returns)?;
            }
        }
        self.stored(wave, memory);
        Ok(())
    }

    /// What a store leaves to be waited for by others.
    fn stored(&mut self, wave: &mut Wave, memory: &Memory) {
        if let Kind::Store { .. } | Kind::StoreTwo { .. } | Kind::StoreTyped(_) = memory.kind {
            self.own.stored = true;
            wave.order.stored = true;
            let shared = !matches!(memory.space, Space::Lds | Space::Scratch);
            // Of gfx942, an atomic store is written through to where others see it.
            wave.order.unseen |= shared && !(memory.sync && self.target.writes_back());
            wave.order.writing_back &= !shared;
        }
    }

    /// What is under way from now on.
    fn note(&self, wave: &mut Wave, memory: &Memory, mut touches: LdsTouches, at: usize) {
        let count = match memory.kind {
            Kind::Load { bytes, .. } => u16::from(bytes.div_ceil(4)),
            Kind::LoadTwo { bytes, .. } => u16::from(bytes / 2),
            Kind::LoadTyped(typed) | Kind::Sample(typed) => typed.registers(),
            Kind::ImageSize(which) => which.count_ones() as u16,
            Kind::ExchangeTwo { bytes, .. } => u16::from(bytes / 2),
            Kind::Store { .. } | Kind::StoreTwo { .. } | Kind::StoreTyped(_) | Kind::LoadToLds { .. } => 0,
            Kind::Atomic { bytes, returns, .. } => {
                if returns {
                    u16::from(bytes / 4)
                } else {
                    0
                }
            }
        };
        // Loads of a half leave the other one alone, on targets that have registers by halves.
        let half = match memory.kind {
            Kind::Load { form: Form::Low { .. }, .. } if !self.target.is_gfx9() => Some(false),
            Kind::Load { form: Form::High { .. }, .. } if !self.target.is_gfx9() => Some(true),
            Kind::LoadTyped(typed) | Kind::Sample(typed) if !self.target.is_gfx9() => typed.half(),
            _ => None,
        };
        let vgprs = (memory.to, count, half);
        match memory.space {
            Space::Flat => wave.pending.flat(at, vgprs),
            Space::Lds => {
                let number = self.toucher(wave, &wave.order.clock).number;
                touches.iter_mut().flatten().for_each(|touch| touch.number = number);
                wave.pending.lds(at, vgprs, touches);
            }
            Space::Image if matches!(memory.kind, Kind::Sample(_)) => wave.pending.sample(at, vgprs),
            Space::Global | Space::Scratch | Space::Buffer | Space::Image => {
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
                let mut touching = Touching { by: &by[0], starts: self.starts, races: self.races };
                let mut loaded = self.memory.load(address, bytes, &mut self.hint, &mut touching)?;
                if self.memory.is_soiled() {
                    self.load_soiled((address, bytes), false, &by[0], &mut loaded);
                }
                Ok(loaded)
            }
            To::Lds(offset) => {
                let mut touching = Touching { by: &by[1], starts: self.starts, races: self.races };
                self.own.lds.load(offset, bytes, &mut touching)
            }
            To::Scratch(offset) => self.own.scratch.load(wave, lane, offset, bytes),
            To::Swizzled(byte) => self.own.scratch.load_at(wave, byte, bytes),
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
                if self.memory.is_soiled() {
                    self.store_soiled((address, data.len()), Access::Write, false, &by[0])?;
                }
                let mut touching = Touching { by: &by[0], starts: self.starts, races: self.races };
                self.memory.store(address, data, &mut self.hint, &mut touching)
            }
            To::Lds(offset) => {
                let mut touching = Touching { by: &by[1], starts: self.starts, races: self.races };
                self.own.lds.store(offset, data, poison, &mut touching)
            }
            To::Scratch(offset) => self.own.scratch.store(wave, lane, offset, data, poison),
            To::Swizzled(byte) => self.own.scratch.store_at(wave, byte, data, poison),
            To::Nowhere => Ok(()),
        }
    }
}

/// What an instruction touches in LDS.
fn touches(pending: &mut Pending, memory: &Memory, addresses: &Addresses, exec: u64) -> LdsTouches {
    let (bytes, write) = match memory.kind {
        Kind::Load { bytes, .. } | Kind::LoadTwo { bytes, .. } => (bytes, false),
        Kind::Store { bytes, .. } | Kind::StoreTwo { bytes, .. } => (bytes, true),
        // Their places are those of one lane.
        Kind::Atomic { kind, .. } if kind.counts_lanes() => return [None, None],
        Kind::Atomic { bytes, .. } | Kind::ExchangeTwo { bytes, .. } => (bytes, true),
        Kind::LoadToLds { .. } | Kind::LoadTyped(_) | Kind::Sample(_) | Kind::ImageSize(_) | Kind::StoreTyped(_) => {
            return [None, None];
        }
    };
    if memory.space != Space::Lds {
        return [None, None];
    }
    let two = matches!(memory.kind, Kind::LoadTwo { .. } | Kind::StoreTwo { .. } | Kind::ExchangeTwo { .. });
    let atomic = matches!(memory.kind, Kind::Atomic { .. } | Kind::ExchangeTwo { .. });
    let offsets = [Some(memory.offset), two.then_some(memory.second)];
    offsets.map(|offset| {
        let offset = offset? as u32;
        let mut touch = pending.touch(exec, u32::from(bytes), write);
        touch.atomic = atomic;
        touch.offsets = addresses.of.map(|address| (address as u32).wrapping_add(offset));
        Some(touch)
    })
}
