//! All lanes of a wave at once, where they go to one buffer or to LDS and nothing about that needs a thought.

use super::lanes_of;
use crate::bank::lanes::Lanes;
use crate::execute::address::Addresses;
use crate::execute::transpose::transpose;
use crate::execute::{Block, PRIVATE_BASE, SHARED_BASE};
use crate::instruction::{Address, Memory};
use crate::operations::memory::{Form, Kind, Space, Transposed};
use crate::pending::LdsTouches;
use crate::registers::{LANES, Registers, any};
use crate::shadow::How;
use crate::wave::{MOST_LOADED, Wave};

/// Upper halves of flat addresses that are in no buffer.
const APERTURES: [u64; 2] = [SHARED_BASE >> 32, PRIVATE_BASE >> 32];

/// One or two accesses of whole dwords: the first register and the offset of each.
struct Parts {
    first: (u16, i64),
    second: Option<(u16, i64)>,
    dwords: usize,
    write: bool,
}

impl Parts {
    fn of(memory: &Memory) -> Option<Self> {
        let (first, second) = ((memory.to, memory.offset), memory.second);
        let (bytes, first, second, write) = match memory.kind {
            Kind::Load { bytes, form: Form::Dwords } => (bytes, first, None, false),
            Kind::LoadTwo { bytes, .. } => (bytes, first, Some((memory.to + u16::from(bytes / 4), second)), false),
            Kind::Store { bytes, form: Form::Dwords } => (bytes, (memory.data, memory.offset), None, true),
            Kind::StoreTwo { bytes, .. } => (bytes, (memory.data, memory.offset), Some((memory.data2, second)), true),
            _ => return None,
        };
        let dwords = usize::from(bytes / 4);
        let all = if second.is_some() { 2 * dwords } else { dwords };
        (1..=MOST_LOADED).contains(&all).then_some(Self { first, second, dwords, write })
    }

    fn each(&self) -> impl Iterator<Item = (u16, i64)> {
        [Some(self.first), self.second].into_iter().flatten()
    }

    fn registers(&self, (at, _): (u16, i64)) -> std::ops::Range<usize> {
        usize::from(at)..usize::from(at) + self.dwords
    }
}

impl Block<'_> {
    /// Executes an access of all lanes at once, and says what it touches in LDS; `None` where each lane has to be looked at, which may be
    /// done from the beginning then.
    pub(super) fn at_once(&mut self, wave: &mut Wave, memory: &Memory, exec: u64) -> Option<LdsTouches> {
        let parts = Parts::of(memory)?;
        let tiles = matches!(memory.transposed, Some(Transposed::Tiles(_))) && exec != wave.registers.all();
        let is_told = if parts.write {
            self.how(wave, memory, exec) != (How::Plain, false) || self.races.readers.is_some()
        } else {
            memory.sync || self.races.asks_for_reads()
        };
        if is_told || tiles {
            return None;
        }
        let is_poisoned = |part| wave.registers.poison[parts.registers(part)].iter().any(|of| any(of) & exec != 0);
        if parts.write && parts.each().any(is_poisoned) {
            return None;
        }
        let touches = match (memory.space, memory.address) {
            (Space::Lds, Address::Lds(at)) => self.lds_at_once(wave, at, &parts, exec)?,
            (Space::Global | Space::Flat | Space::Buffer, _) if parts.second.is_none() && !self.memory.is_soiled() => {
                self.memory_at_once(wave, memory, &parts, exec)?;
                [None, None]
            }
            _ => return None,
        };
        if let Some(how) = memory.transposed {
            transpose(&mut wave.registers, memory.to, parts.dwords, how);
        }
        Some(touches)
    }

    fn lds_at_once(&mut self, wave: &mut Wave, at: u16, parts: &Parts, exec: u64) -> Option<LdsTouches> {
        let (count, dwords) = (wave.registers.lanes, parts.dwords);
        if wave.registers.poisoned(at) & exec != 0 {
            return None;
        }
        let by = self.lds_toucher(wave, &wave.order.clock);
        let mut bank = self.own.lds.bank();
        let (registers, loaded) = (&mut wave.registers, &mut self.temporaries.loaded);
        let mut touches = [None, None];
        for ((part, loaded), touch) in parts.each().zip(loaded.chunks_mut(dwords)).zip(&mut touches) {
            let lanes = Lanes { addresses: &registers.v[usize::from(at)], offset: part.1 as u32, exec, count, dwords };
            let mut touched = wave.pending.touch(exec, 4 * dwords as u32, parts.write);
            let done = if parts.write {
                bank.store_lanes(&lanes, &registers.v[parts.registers(part)], &by, &mut touched.offsets)
            } else {
                bank.load_lanes(&lanes, loaded, &by, &mut touched.offsets)
            };
            if !done {
                return None;
            }
            *touch = Some(touched);
        }
        if !parts.write {
            for (part, loaded) in parts.each().zip(loaded.chunks(dwords)) {
                write(registers, part.0, loaded, exec);
            }
        }
        Some(touches)
    }

    fn memory_at_once(&mut self, wave: &mut Wave, memory: &Memory, parts: &Parts, exec: u64) -> Option<()> {
        let (count, dwords) = (wave.registers.lanes, parts.dwords);
        // Where that is a fault, it is met again.
        let mut found = self.addresses(wave, memory, exec);
        let Ok(addresses) = &mut found else { return None };
        let reached = reached(memory, addresses, exec, count, dwords)?;
        if reached != 0 {
            let first = addresses.of[reached.trailing_zeros() as usize];
            let (_, base) = self.memory.bank_at(first, &mut self.hint)?;
            // Lanes that do not take part go where the first one goes.
            lanes_of(!reached & wave.registers.all()).for_each(|lane| addresses.of[lane] = first);
            let (mut of, mut far) = ([0; LANES], 0);
            for (of, address) in of.iter_mut().zip(&addresses.of[..count]) {
                let offset = address.wrapping_sub(base);
                *of = offset as u32;
                far |= offset >> 32;
            }
            let (lanes, mut at) = (Lanes { addresses: &of, offset: 0, exec: reached, count, dwords }, [0; LANES]);
            let is_ready = !parts.write || self.memory.prepare_store(self.hint, &lanes.places());
            if far != 0 || !is_ready {
                return None;
            }
            let by = self.toucher(wave, &wave.order.clock);
            let mut bank = self.memory.bank_of(self.hint)?;
            let done = if parts.write {
                bank.store_lanes(&lanes, &wave.registers.v[parts.registers(parts.first)], &by, &mut at)
            } else {
                bank.load_lanes(&lanes, &mut self.temporaries.loaded[..dwords], &by, &mut at)
            };
            if !done {
                return None;
            }
        }
        if parts.write {
            if self.two_units {
                let mut places = Vec::with_capacity(LANES);
                places.extend(lanes_of(reached).map(|lane| addresses.of[lane]));
                wave.order.store(places, 4 * dwords);
            }
            return Some(());
        }
        let (loaded, nowhere) = (&mut self.temporaries.loaded[..dwords], exec & !reached);
        for values in loaded.iter_mut().filter(|_| nowhere != 0) {
            lanes_of(nowhere).for_each(|lane| values[lane] = 0);
        }
        write(&mut wave.registers, parts.first.0, loaded, exec);
        Some(())
    }
}

/// The lanes that go to memory; those of a buffer's instruction that are out of range go nowhere. `None` where each has to be looked at.
fn reached(memory: &Memory, addresses: &mut Addresses, exec: u64, count: usize, dwords: usize) -> Option<u64> {
    match (memory.space, &addresses.descriptor) {
        (Space::Global, _) => Some(exec),
        (Space::Flat, _) => {
            let shared = |address: &u64| APERTURES.contains(&(address >> 32));
            let any = addresses.of[..count].iter().fold(false, |any, address| any | shared(address));
            (!any).then_some(exec)
        }
        (Space::Buffer, Some((descriptor, indices, scalar))) if !descriptor.swizzle => {
            let mut reached = 0;
            for (lane, of) in addresses.of[..count].iter_mut().enumerate() {
                let index = indices.as_ref().map_or(0, |indices| indices[lane]);
                if let Some(at) = descriptor.address(index, *of, *scalar, lane, 4 * dwords as u64) {
                    *of = at;
                    reached |= 1 << lane;
                }
            }
            Some(reached & exec)
        }
        _ => None,
    }
}

fn write(registers: &mut Registers, to: u16, loaded: &[[u32; LANES]], exec: u64) {
    (to..).zip(loaded).for_each(|(at, values)| registers.write(at, values, exec, 0));
}
