//! What a barrier does not order: accesses that were not waited for, and those between the two parts of a barrier.

use std::rc::Rc;

use super::Block;
use super::address::place;
use super::memory::lanes_of;
use crate::instruction::Memory;
use crate::operations::memory::Kind;
use crate::order::{Reach, Touch};
use crate::pending::LdsTouch;
use crate::races::Carried;
use crate::shadow::{Conflict, How, Toucher};
use crate::verdict::{Access, Fault, LDS, Other, Raised, Step};
use crate::wave::Wave;

impl Block<'_> {
    /// A wave says that it has come to a barrier: what it has not waited for by now, and what it does before it waits for others, is not ordered by it.
    pub(super) fn signal(&self, wave: &mut Wave) {
        let stores = wave.order.stores().iter();
        let stores =
            stores.flat_map(|(places, bytes)| places.iter().map(|address| (*address, *bytes, Touch::Write, 0)));
        let early: Vec<Reach> = stores.chain(wave.pending.lds_touches().flat_map(of_lds)).collect();
        wave.order.early.extend(early);
        wave.order.signaled = true;
    }

    /// Notes what a wave touches between the two parts of a barrier. Accesses of images are not told.
    #[cold]
    pub(super) fn note_early(&self, wave: &mut Wave, memory: &Memory, exec: u64) {
        let (bytes, touch) = match memory.kind {
            Kind::Load { bytes, .. } | Kind::LoadTwo { bytes, .. } => (bytes, Touch::Read),
            Kind::Store { bytes, .. } | Kind::StoreTwo { bytes, .. } => (bytes, Touch::Write),
            Kind::Atomic { bytes, .. } | Kind::ExchangeTwo { bytes, .. } => (bytes, Touch::Atomic),
            _ => return,
        };
        // Where an address is a fault, it is met again.
        let Ok(addresses) = self.addresses(wave, memory, exec) else { return };
        let number = self.toucher(wave, &wave.order.clock).number;
        let two = matches!(memory.kind, Kind::LoadTwo { .. } | Kind::StoreTwo { .. } | Kind::ExchangeTwo { .. });
        for lane in lanes_of(exec) {
            let to = self.resolve(memory, &addresses, lane, bytes.into());
            for offset in [Some(memory.offset), two.then_some(memory.second)].into_iter().flatten() {
                if let Some((key, _)) = place(to, offset).key() {
                    wave.order.early.push((key, bytes.into(), touch, number));
                }
            }
        }
    }

    /// What a wave has not waited for in LDS is not ordered by the barrier: it reaches into what comes behind it. So do its stores, where
    /// the waves of a block are on two units with caches of their own, and what it did after it had signaled.
    ///
    /// # Errors
    /// Too many places are to be looked at once more: that is a race as far as anybody can tell.
    pub(super) fn carry_over(&mut self, wave: &Wave) -> Step {
        let clock = Rc::clone(&wave.order.clock);
        let by = [self.toucher(wave, &clock), self.lds_toucher(wave, &clock)];
        for (places, bytes) in wave.order.stores() {
            places.iter().try_for_each(|address| self.carry((*address, *bytes, Touch::Write, 0), wave.number, by))?;
        }
        wave.pending.lds_touches().flat_map(of_lds).try_for_each(|touch| self.carry(touch, wave.number, by))?;
        wave.order.early.iter().try_for_each(|touch| self.carry(*touch, wave.number, by))
    }

    /// A conflict is another wave's, which has seen it or will; a read is there for those who write later all the same.
    fn carry(&mut self, (key, bytes, touch, number): Reach, wave: u32, by: [Toucher<'_>; 2]) -> Step {
        let how = if touch == Touch::Atomic { How::Atomic } else { How::Plain };
        let by = by.map(|by| by.touching(how))[usize::from(key & LDS != 0)];
        let writes = touch != Touch::Read;
        let met = if key & LDS == 0 {
            self.memory.carry_over(key, bytes, writes, &by)
        } else {
            let (offset, length) = ((key & !LDS) as usize, self.own.lds.bytes.len());
            let shadow = &mut self.own.lds.shadow;
            if offset + bytes <= length { shadow.carry_over(length, offset, bytes, writes, &by) } else { None }
        };
        if met.is_some_and(|met| met.conflict == Conflict::Unsure) && !self.races.contend(key, bytes) {
            let access = if writes { Access::Write } else { Access::Read };
            let (place, other) = (self.place_of(key), Other::Waves);
            let fault = Fault::Race { access, place, other, by: None, wrote: false, rounding: None };
            return Err(Box::new(Raised { wave: Some(wave), ..Raised::of_wave(fault) }));
        }
        if writes {
            return Ok(());
        }
        if let Some(readers) = &mut self.races.readers {
            readers.carry((self.own.first, wave), (key, bytes), by.number);
        }
        let words = (key & !3..key + bytes as u64).step_by(4);
        self.own.carried.extend(words.map(|word| Carried { word, read: number, as_of: by.number }));
        Ok(())
    }
}

/// What an access touches in LDS.
fn of_lds(touch: &LdsTouch) -> impl Iterator<Item = Reach> {
    let how = match (touch.atomic, touch.write) {
        (true, _) => Touch::Atomic,
        (false, true) => Touch::Write,
        (false, false) => Touch::Read,
    };
    lanes_of(touch.exec)
        .map(move |lane| (u64::from(touch.offsets[lane]) | LDS, touch.bytes as usize, how, touch.number))
}
