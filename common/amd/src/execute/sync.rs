//! What atomics, waits and barriers order.

use std::collections::BTreeSet;

use super::Block;
use super::address::{Addresses, To, place};
use super::memory::lanes_of;
use crate::instruction::Memory;
use crate::operations::memory::{Kind, Space};
use crate::order::{Clock, Entry, Known, Order};
use crate::races::{Raced, are_one_sum, largest_of, rounded_as};
use crate::registers::LANES;
use crate::shadow::{BLOCK_NUMBERS, How, LAST_NUMBER, SPARE_ROUNDS, Toucher};
use crate::verdict::{Access, Fault, LDS, Met, Other, Place, Raised, Step};
use crate::wave::Wave;

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

/// Rounds that a block gets between two barriers, where it has used up its own.
const RENEWED_ROUNDS: u32 = 8 * SPARE_ROUNDS;

/// Of each lane's store, the bytes that nobody knows: another lane writes them, too, and otherwise.
type Open = [u16; LANES];

/// The place of a key.
fn key_space(key: u64) -> To {
    if key & LDS == 0 { To::Memory(key) } else { To::Lds(key & !LDS) }
}

impl Block<'_> {
    /// A store to a place that the wave holds: one that releases it, as of a lock, or another one.
    pub(super) fn holding<'c>(
        &self,
        wave: &Wave,
        memory: &Memory,
        addresses: &Addresses,
        lane: usize,
        (bytes, offset, releases): (usize, i64, bool),
        by: [Toucher<'c>; 2],
    ) -> [Toucher<'c>; 2] {
        if by[0].how == How::Store {
            return by;
        }
        let key = place(self.resolve(memory, addresses, lane, bytes as u64), offset).key();
        let held = key.is_some_and(|(key, _)| wave.order.holds(key));
        match (releases, held) {
            (true, handed) => by.map(|by| by.touching(How::Sync { handed })),
            (false, true) => by.map(|by| by.touching(How::Held)),
            (false, false) => by,
        }
    }

    /// A wave has waited; how many of its stores may be under way.
    pub(super) fn waited(&mut self, wave: &mut Wave, stores: Option<u8>) {
        let order = &mut wave.order;
        if let Some(stores) = stores {
            self.acted[wave.at - 1] |= order.stores().len() > usize::from(stores) || order.unseen;
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
        let waited = if memory.space == Space::Lds { true } else { wave.pending.has_only_arguments() };
        let alone = exec.is_power_of_two() && bytes <= 8 && waited;
        let releases = writes && (alone || memory.sync && wave.pending.has_no_lds());
        let how = match (writes, memory.sync) {
            (true, _) if memory.device => How::Store,
            (false, true) => How::Sync { handed: false },
            _ => How::Plain,
        };
        (how, releases)
    }

    /// What a wave acquires at a place.
    pub(super) fn acquire(&self, wave: &mut Wave, key: u64, lds: bool) {
        let places = if lds { &self.own.lds_places } else { &*self.places };
        wave.order.acquire(places, key, self.own.first);
    }

    pub(super) fn has_released(&self, key: u64, lds: bool) -> bool {
        if lds { self.own.lds_places.has(key) } else { self.places.has(key) }
    }

    /// What a wave releases by an atomic, `None` where there is nothing that anybody could wait for. Of other atomics that came before it,
    /// one `hands_on` that could be a counter: many are those of histograms. One lane's hands on as well what was only read.
    pub(super) fn released(&self, wave: &Wave, lds: bool, hands_on: bool, is_one: bool) -> Option<Known> {
        let stored = if lds { wave.order.stored } else { self.own.stored } || hands_on && self.own.updated;
        (is_one || stored || !wave.order.clock.is_empty()).then(|| self.done(wave))
    }

    /// All that comes before a wave, and what it has done itself.
    pub(super) fn done(&self, wave: &Wave) -> Known {
        let toucher = self.toucher(wave, &wave.order.clock);
        self.before(wave, vec![(wave.number, toucher.number)])
    }

    /// All that comes before a wave, with some heads of waves of its block.
    fn before(&self, wave: &Wave, heads: Vec<(u32, u32)>) -> Known {
        let end = self.toucher(wave, &wave.order.clock).span;
        let own = Clock::of(Entry { start: self.own.start, end, waves: self.own.waves, heads });
        Clock::merged(&wave.order.clock, &own)
    }

    pub(super) fn release(&mut self, wave: &Wave, key: u64, lds: bool, clock: &Known) {
        let (start, device) = (self.own.first, !wave.order.unseen);
        match lds {
            true => self.own.lds_places.release(key, clock, start, false),
            false => self.places.release(key, clock, start, device),
        }
    }

    /// Rounds that there are numbers for.
    fn rounds(&self) -> u32 {
        let own = &*self.own;
        (own.end - own.start).min(BLOCK_NUMBERS) / own.waves
    }

    /// Whether there are numbers for another round, besides one that a barrier may need.
    fn has_round(&self) -> bool {
        self.own.round + 3 < self.rounds()
    }

    /// From this round on, waves do not go on before there are other numbers. An instruction begins two rounds at most.
    pub(crate) fn last_round(&self) -> u32 {
        self.rounds().saturating_sub(8)
    }

    /// A wave goes on to an access behind a release: that is not what it has released, but for atomics at that very place, and loads that leave no mark.
    #[cold]
    pub(super) fn behind_release(&mut self, wave: &mut Wave, memory: &Memory, exec: u64) {
        let leaves_no_mark = memory.sync && matches!(memory.kind, Kind::Load { .. });
        if !leaves_no_mark && self.only_atomic(wave, memory, exec) != wave.order.released {
            self.begin_round(wave);
        }
    }

    /// The place of an atomic of a single lane.
    fn only_atomic(&self, wave: &Wave, memory: &Memory, exec: u64) -> Option<u64> {
        let is_one = exec.is_power_of_two() && matches!(memory.kind, Kind::Atomic { .. });
        let addresses = if is_one { self.addresses(wave, memory, exec).ok()? } else { return None };
        let to = self.resolve(memory, &addresses, exec.trailing_zeros() as usize, 4);
        place(to, memory.offset).key().map(|(key, _)| key)
    }

    /// What a wave does from now on is behind what it has released.
    pub(super) fn begin_round(&mut self, wave: &mut Wave) {
        if self.has_round() {
            self.own.round += 1;
            wave.order.round = self.own.round;
        }
        wave.order.released = None;
    }

    /// Caches hold nothing old any more. What any wave writes from now on has a later number.
    pub(super) fn invalidate(&mut self, wave: &mut Wave, near: bool, far: bool) {
        wave.order.invalidate(near, far);
        if near && self.two_units {
            // Where nobody has released anything since the barrier, nobody comes behind what is written in this round.
            if self.own.round > self.own.span {
                self.begin_floor();
            }
            wave.order.fresh = self.own.round;
        }
    }

    /// The cache of scalars holds nothing old any more. What the wave itself has stored and not waited for may still be on its way.
    pub(super) fn invalidate_scalars(&mut self, wave: &mut Wave) {
        let has_waited = wave.pending.has_no_vector() && wave.order.stores().is_empty();
        let known = if has_waited { self.done(wave) } else { self.before(wave, Vec::new()) };
        wave.order.invalidate_scalars(&known);
        self.begin_round(wave);
    }

    /// What any wave does from now on has a later number.
    fn begin_floor(&mut self) {
        if self.has_round() {
            self.own.round += 1;
            self.own.floor = self.own.round;
        }
    }

    /// Notes what a lane's access met that nothing orders: a value that a race left open, or words that others have read.
    pub(super) fn raced(&mut self, wave: &mut Wave, lane: usize, by: &[Toucher<'_>; 2], clock: &Known) {
        let (block, number, at) = (self.own.id, wave.number, wave.at.saturating_sub(1));
        let met = |fault| Met { fault, block, wave: number, at, lane };
        for (key, bytes, fault) in std::mem::take(&mut self.races.wrote) {
            self.races.note((key, bytes, met(fault)), &by[usize::from(key & LDS != 0)], clock, &self.own.carried);
        }
        let met = match self.races.read.take() {
            Some(Raced::Read(fault)) => met(fault),
            Some(Raced::Planned(at)) => match self.races.of(at) {
                Some(met) => met.clone(),
                None => return,
            },
            None => return,
        };
        if wave.raced.is_none() {
            wave.raced = Some(Box::new(met.clone()));
        }
        self.races.first.get_or_insert(met);
    }

    /// All waves have come to a barrier.
    ///
    /// # Errors
    /// There are no numbers left, or nothing more can be remembered.
    pub(crate) fn pass_barrier(&mut self, waves: &mut [Wave]) -> Step {
        if !self.has_round() || !self.own.left.is_empty() {
            self.move_on(waves)?;
        }
        (self.own.round, self.own.signals) = (self.own.round + 1, 0);
        self.own.span = self.own.round;
        self.own.settled = self.own.start + self.own.span * self.own.waves;
        let mut orders: Vec<&mut Order> = waves.iter_mut().map(|wave| &mut wave.order).collect();
        orders.iter_mut().for_each(|order| (order.round, order.stored, order.released) = (self.own.round, false, None));
        Order::meet(&mut orders);
        self.own.carried.clear();
        for wave in waves {
            self.carry_over(wave)?;
            (wave.order.signaled, wave.order.early) = (false, Vec::new());
        }
        self.own.carried.sort_unstable();
        self.own.carried.dedup();
        Ok(())
    }

    /// Goes on with other numbers; all that was done by now comes before.
    fn move_on(&mut self, waves: &mut [Wave]) -> Step {
        if self.memory.numbers > LAST_NUMBER || self.own.start == self.memory.numbers {
            return Err(Raised::wave(Fault::Hang { limit: self.executed }));
        }
        let own = &mut *self.own;
        own.left.push((own.start, own.end));
        let all = |(start, end): (u32, u32)| Clock::of(Entry { start, end, waves: own.waves, heads: Vec::new() });
        let known = own.left.drain(..).map(all).fold(Known::default(), |known, next| Clock::merged(&known, &next));
        for wave in waves.iter_mut() {
            let order = &mut wave.order;
            order.clock = Clock::merged(&order.clock, &known);
            order.fresh = 0;
        }
        self.renumber(SPARE_ROUNDS);
        Ok(())
    }

    /// Goes on with other numbers between two barriers. What came before the last barrier, and what a wave has done itself, comes before.
    ///
    /// # Errors
    /// There are no numbers left.
    #[cold]
    pub(crate) fn renew(&mut self, waves: &mut [Wave]) -> Step {
        if self.own.end == u32::MAX {
            self.own.end = self.own.start + (self.own.round + 2) * self.own.waves;
            self.memory.numbers = self.own.end;
        }
        if self.memory.numbers > LAST_NUMBER {
            return Err(Raised::wave(Fault::Hang { limit: self.executed }));
        }
        for wave in waves.iter_mut() {
            let number = self.toucher(wave, &wave.order.clock).number;
            let own = &*self.own;
            let (start, end) = (own.start, own.start + own.span * own.waves);
            let known = Clock::of(Entry { start, end, waves: own.waves, heads: vec![(wave.number, number)] });
            wave.order.clock = Clock::merged(&wave.order.clock, &known);
            (wave.order.round, wave.order.fresh) = (0, 0);
        }
        self.own.left.push((self.own.start, self.own.end));
        self.renumber(RENEWED_ROUNDS);
        Ok(())
    }

    /// Begins with other numbers.
    fn renumber(&mut self, rounds: u32) {
        let own = &mut *self.own;
        self.races.ends.insert(own.start, own.end);
        own.start = self.memory.numbers;
        own.end = own.start + rounds * own.waves;
        self.memory.numbers = own.end;
        (own.round, own.span, own.floor) = (0, 0, 0);
        self.starts.push((own.start, own.id));
    }

    /// A wave as memory and LDS see it.
    pub(super) fn touchers<'c>(&self, wave: &Wave, clock: &'c Clock, memory: &Memory, exec: u64) -> [Toucher<'c>; 2] {
        let (how, _) = self.how(wave, memory, exec);
        let of_lds = if memory.waits { how } else { How::Plain };
        [self.toucher(wave, clock).touching(how), self.lds_toucher(wave, clock).touching(of_lds)]
    }

    /// An atomic load: it acquires what was released there.
    pub(super) fn acquiring<'c>(
        &self,
        wave: &mut Wave,
        memory: &Memory,
        to: &To,
        by: [Toucher<'c>; 2],
    ) -> [Toucher<'c>; 2] {
        match to.key() {
            Some((key, lds)) if (memory.waits || !lds) && self.has_released(key, lds) => {
                self.acquire(wave, key, lds);
                by.map(|by| by.touching(How::Sync { handed: true }))
            }
            _ => by,
        }
    }

    /// Looks at the places that a store writes, before it does, and remembers them where other units may see them late. Where two lanes write
    /// different values to one place of LDS in one instruction, either may stay: the bytes of each lane's store of which that is so, which count
    /// as written by nobody.
    ///
    /// # Errors
    /// Two lanes do so elsewhere.
    pub(super) fn same_values(
        &mut self,
        wave: &mut Wave,
        memory: &Memory,
        addresses: &Addresses,
        exec: u64,
        (reached, bytes, offset): (u64, usize, i64),
        byte: &dyn Fn(&Wave, usize, usize) -> u8,
    ) -> Step<Option<Box<Open>>> {
        let mut places = [(0, 0); LANES];
        let (mut count, mut apart) = (0, true);
        for lane in lanes_of(exec) {
            let to = place(self.resolve(memory, addresses, lane, reached), offset);
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
            return Ok(None);
        }
        let places = &mut places[..count];
        places.sort_unstable();
        let mut open = BTreeSet::new();
        // Each lane is compared with the first one of its place: of a chain, any two neighbours may be as good as the same.
        let mut leader = places[0];
        for &(second, other) in places.iter().skip(1) {
            let (first, lane) = leader;
            if second != first {
                leader = (second, other);
            }
            let differs =
                |at: &u64| byte(wave, lane, (second + at - first) as usize) != byte(wave, other, *at as usize);
            let common = (first + bytes as u64).saturating_sub(second);
            if let Some(at) = (0..common).find(differs) {
                let word = |lane: usize, from: u64| {
                    u32::from_le_bytes([0, 1, 2, 3].map(|at| byte(wave, lane, (from + at) as usize)))
                };
                let alike = |at: u64| {
                    let largest = largest_of(lanes_of(exec).map(|lane| word(lane, at)));
                    are_one_sum(word(lane, at), word(other, at), largest)
                };
                let may_be_sums = self.races.spreads && first & LDS != 0 && first == second && bytes % 4 == 0;
                if may_be_sums && (0..common).step_by(4).all(alike) {
                    continue;
                }
                let place = match key_space(second + at) {
                    To::Lds(offset) => Place::Lds { offset, size: self.own.lds.bytes.len() as u64 },
                    To::Memory(address) => self.memory.place(address),
                    _ => continue,
                };
                // The word of both that the byte is one of, or what there is of it.
                let from = at & !3;
                let part = |lane: usize| (from..common.min(from + 4)).map(|at| byte(wave, lane, at as usize)).collect();
                let [one, two]: [Vec<u8>; 2] = [lane, other].map(part);
                let rounding = if first == second { rounded_as(&one, &two) } else { None };
                let (access, by) = (Access::Write, Other::Lane(lane as u32));
                let fault = Fault::Race { access, place, other: by, by: None, wrote: true, rounding };
                if first & LDS == 0 {
                    return Err(Raised::at(other, fault));
                }
                if self.races.is_trusting() {
                    return Ok(None);
                }
                let (block, number, at) = (self.own.id, wave.number, wave.at.saturating_sub(1));
                self.races.first.get_or_insert(Met { fault, block, wave: number, at, lane: other });
                open.extend((0..common).filter(differs).map(|at| second + at));
            }
        }
        if open.is_empty() {
            return Ok(None);
        }
        let mut bytes_of = Box::new([0; LANES]);
        for (key, lane) in places.iter() {
            bytes_of[*lane] = open.range(*key..*key + bytes as u64).fold(0, |all, at| all | 1 << (at - key));
        }
        Ok(Some(bytes_of))
    }
}
