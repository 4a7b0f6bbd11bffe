//! What atomics, waits and barriers order.

use std::rc::Rc;

use super::Block;
use super::address::{Addresses, To, place};
use super::memory::lanes_of;
use crate::instruction::Memory;
use crate::operations::memory::{Form, Kind, Space};
use crate::order::{Clock, Entry, Known, Order, Suspect};
use crate::registers::LANES;
use crate::shadow::{BLOCK_NUMBERS, How, Toucher};
use crate::verdict::{Access, Fault, Other, Place, Raised, Step};
use crate::wave::{State, Wave};

/// Set in the key of a place of LDS.
const LDS: u64 = 1 << 63;

impl To {
    /// What a place that others reach is called among places, and whether it is in LDS.
    pub(super) fn key(&self) -> Option<(u64, bool)> {
        match self {
            Self::Memory(address) => Some((*address, false)),
            Self::Lds(offset) => Some((offset | LDS, true)),
            Self::Scratch(_) | Self::Swizzled(_) | Self::Nowhere => None,
        }
    }
}

/// The place of a key.
fn key_space(key: u64) -> To {
    if key & LDS == 0 { To::Memory(key) } else { To::Lds(key & !LDS) }
}

impl Block<'_> {
    /// # Errors
    /// The wave read what others touch with atomics, and nothing since has made that right.
    pub(super) fn explained(&mut self, wave: &mut Wave) -> Step {
        self.arrived |= 1 << wave.number;
        if !wave.order.suspects.is_empty() {
            let Suspect { at, lane, fault, .. } = wave.order.suspects.swap_remove(0);
            return Err(Raised::by(at, lane, fault));
        }
        match self.debts.iter().position(|(of, _)| *of == wave.number) {
            Some(found) => {
                let (_, Suspect { at, lane, fault, .. }) = self.debts.swap_remove(found);
                Err(Raised::by(at, lane, fault))
            }
            None => Ok(()),
        }
    }

    /// A wave goes on to an atomic where it had read: that finds what has changed since.
    pub(super) fn explain(&mut self, wave: &mut Wave, key: u64, returns: bool) {
        wave.order.suspects.retain(|suspect| suspect.key != key);
        self.debts.retain(|(of, suspect)| *of != wave.number || suspect.key != key);
        if returns {
            wave.order.hold(key);
        }
    }

    /// An atomic has met a plain read of another wave, which may yet explain it.
    ///
    /// # Errors
    /// It can not any more.
    pub(super) fn accuse(&mut self, wave: &Wave, lane: usize) -> Step {
        let Some((key, fault)) = self.suspected.take() else { return Ok(()) };
        match fault {
            Fault::Race { other: Other::Wave(of), .. } if self.arrived >> of & 1 == 0 => {
                self.debts.push((of, Suspect { key, at: wave.at.saturating_sub(1), lane, fault }));
                Ok(())
            }
            fault => Err(Raised::at(lane, fault)),
        }
    }

    /// A store that releases a place that the wave holds, as of a lock.
    pub(super) fn holding<'c>(
        &self,
        wave: &Wave,
        memory: &Memory,
        addresses: &Addresses,
        lane: usize,
        (bytes, offset): (usize, i64),
        by: [Toucher<'c>; 2],
    ) -> [Toucher<'c>; 2] {
        let key = place(self.resolve(memory, addresses, lane, bytes as u64), offset).key();
        let held = key.is_some_and(|(key, _)| wave.order.holds(key));
        by.map(|by| by.touching(How::Sync { handed: held }))
    }

    /// A wave has waited; how many of its stores may be under way.
    pub(super) fn waited(&self, wave: &mut Wave, stores: Option<u8>) {
        let order = &mut wave.order;
        if let Some(stores) = stores {
            order.keep_stores(usize::from(stores));
        }
        if stores == Some(0) && (!self.target.writes_back() || order.writing_back) {
            (order.unseen, order.writing_back) = (false, false);
        }
    }

    /// How a load or store touches places, and whether it releases.
    pub(super) fn how(&self, wave: &Wave, memory: &Memory, exec: u64) -> (How, bool) {
        let (bytes, writes) = match memory.kind {
            Kind::Load { bytes, .. } => (bytes, false),
            Kind::Store { bytes, .. } => (bytes, true),
            _ => return (How::Plain, false),
        };
        // The store that follows a release is one lane's, and all before it was waited for; LDS is in order.
        let waited = if memory.space == Space::Lds { true } else { wave.pending.is_empty() };
        let alone = exec.is_power_of_two() && bytes <= 8 && waited;
        let releases = writes && (alone || memory.sync && wave.pending.is_scalar_empty());
        let sync = if writes { releases } else { memory.sync };
        let how = if sync && !writes { How::Sync { handed: false } } else { How::Plain };
        (how, releases)
    }

    /// What a wave acquires at a place.
    pub(super) fn acquire(&self, wave: &mut Wave, key: u64, lds: bool) {
        let places = if lds { &self.lds_places } else { &*self.places };
        wave.order.acquire(places, key, self.start);
    }

    pub(super) fn has_released(&self, key: u64, lds: bool) -> bool {
        if lds { self.lds_places.has(key) } else { self.places.has(key) }
    }

    /// What a wave releases, `None` where there is nothing that anybody could wait for.
    pub(super) fn released(&self, wave: &Wave, lds: bool) -> Option<Known> {
        let stored = if lds { wave.order.stored } else { self.stored };
        if !stored && wave.order.clock.is_empty() {
            return None;
        }
        let toucher = self.toucher(wave, &wave.order.clock);
        let heads = vec![(wave.number, toucher.number)];
        let own = Clock::of(Entry { start: self.start, end: toucher.span, waves: self.waves, heads });
        Some(Clock::merged(&wave.order.clock, &own))
    }

    pub(super) fn release(&mut self, wave: &Wave, key: u64, lds: bool, clock: &Known) {
        let (start, device) = (self.start, !wave.order.unseen);
        match lds {
            true => self.lds_places.release(key, clock, start, false),
            false => self.places.release(key, clock, start, device),
        }
    }

    /// What a wave does from now on is behind what it has released.
    pub(super) fn begin_round(&mut self, wave: &mut Wave) {
        if self.round + 1 < BLOCK_NUMBERS / self.waves - 4 {
            self.round += 1;
            wave.order.round = self.round;
        }
    }

    /// All waves have come to a barrier.
    pub(crate) fn pass_barrier(&mut self, waves: &mut [Wave]) {
        let ended = waves.iter().filter(|wave| wave.state == State::Ended);
        self.arrived = ended.fold(0, |all, wave| all | 1 << wave.number);
        self.round += 1;
        self.span = self.round;
        let mut orders: Vec<&mut Order> = waves.iter_mut().map(|wave| &mut wave.order).collect();
        orders.iter_mut().for_each(|order| (order.round, order.stored) = (self.round, false));
        Order::meet(&mut orders);
        for wave in waves {
            self.carry_over(wave);
        }
    }

    /// What a wave has not waited for in LDS is not ordered by the barrier: it reaches into what comes behind it. So do its stores, where
    /// the waves of a block are on two units with caches of their own.
    fn carry_over(&mut self, wave: &Wave) {
        let clock = Rc::clone(&wave.order.clock);
        let by = self.toucher(wave, &clock);
        for (places, bytes) in wave.order.stores() {
            places.iter().for_each(|address| self.memory.carry_over(*address, *bytes, &by));
        }
        let by = self.lds_toucher(wave, &clock);
        let length = self.lds.bytes.len();
        for touch in wave.pending.lds_touches() {
            for lane in (0..64).filter(|lane| touch.exec >> lane & 1 == 1) {
                let offset = touch.offsets[lane] as usize;
                if offset + touch.bytes as usize <= length {
                    // A conflict is another wave's, which has seen it or will.
                    let _other = self.lds.shadow.touch(length, offset, touch.bytes as usize, touch.write, &by);
                }
            }
        }
    }

    /// A read that is suspect until its wave goes on to a comparing atomic there.
    pub(super) fn suspect(&mut self, wave: &mut Wave, lane: usize) {
        if let Some((key, fault)) = self.suspected.take() {
            wave.order.suspects.push(Suspect { key, at: wave.at.saturating_sub(1), lane, fault });
        }
    }

    /// A wave as memory and LDS see it.
    pub(super) fn touchers<'c>(&self, wave: &Wave, clock: &'c Clock, memory: &Memory, exec: u64) -> [Toucher<'c>; 2] {
        let (how, _) = self.how(wave, memory, exec);
        [self.toucher(wave, clock), self.lds_toucher(wave, clock)].map(|by| by.touching(how))
    }

    /// An atomic load: it acquires what was released there.
    pub(super) fn acquiring<'c>(&self, wave: &mut Wave, to: &To, by: [Toucher<'c>; 2]) -> [Toucher<'c>; 2] {
        match to.key() {
            Some((key, lds)) if self.has_released(key, lds) => {
                self.acquire(wave, key, lds);
                by.map(|by| by.touching(How::Sync { handed: true }))
            }
            _ => by,
        }
    }

    /// Looks at the places that a store writes, before it does, and remembers them where other units may see them late.
    ///
    /// # Errors
    /// Two lanes write different values to one place in one instruction: either may stay.
    pub(super) fn same_values(
        &self,
        wave: &mut Wave,
        memory: &Memory,
        addresses: &Addresses,
        exec: u64,
        (bytes, form, data, offset): (usize, Form, u16, i64),
    ) -> Step {
        let mut places = [(0, 0); LANES];
        let (mut count, mut apart) = (0, true);
        for lane in lanes_of(exec) {
            let to = place(self.resolve(memory, addresses, lane, bytes as u64), offset);
            let Some((key, _)) = to.key() else { continue };
            apart &= count == 0 || places[count - 1].0 + bytes as u64 <= key;
            places[count] = (key, lane);
            count += 1;
        }
        if self.two_units {
            let shared = places[..count].iter().map(|(key, _)| *key).filter(|key| key & LDS == 0).collect();
            wave.order.store(shared, bytes);
        }
        if apart {
            return Ok(());
        }
        let places = &mut places[..count];
        places.sort_unstable();
        let byte = |lane: usize, at: u64| {
            let at = at as usize + if let Form::High { .. } = form { 2 } else { 0 };
            wave.registers.v[usize::from(data) + at / 4][lane].to_le_bytes()[at % 4]
        };
        for pair in places.windows(2) {
            let [(first, lane), (second, other)] = [pair[0], pair[1]];
            let differs = |at: &u64| byte(lane, second + at - first) != byte(other, *at);
            let common = (first + bytes as u64).saturating_sub(second);
            if let Some(at) = (0..common).find(differs) {
                let place = match key_space(second + at) {
                    To::Lds(offset) => Place::Lds { offset, size: self.lds.bytes.len() as u64 },
                    To::Memory(address) => self.memory.place(address),
                    _ => continue,
                };
                let fault = Fault::Race { access: Access::Write, place, other: Other::Lane(lane as u32), wrote: true };
                return Err(Raised::at(other, fault));
            }
        }
        Ok(())
    }
}
