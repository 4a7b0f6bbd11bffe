//! What a barrier does not order: accesses that were not waited for, and those between the two parts of a barrier.

use std::rc::Rc;

use super::Block;
use super::address::place;
use super::memory::lanes_of;
use crate::instruction::Memory;
use crate::operations::memory::Kind;
use crate::order::Touch;
use crate::pending::LdsTouch;
use crate::shadow::{How, Toucher};
use crate::verdict::LDS;
use crate::wave::Wave;

impl Block<'_> {
    /// A wave says that it has come to a barrier: what it has not waited for by now, and what it does before it waits for others, is not ordered by it.
    pub(super) fn signal(&self, wave: &mut Wave) {
        let stores = wave.order.stores().iter();
        let stores = stores.flat_map(|(places, bytes)| places.iter().map(|address| (*address, *bytes, Touch::Write)));
        let early: Vec<(u64, usize, Touch)> = stores.chain(wave.pending.lds_touches().flat_map(of_lds)).collect();
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
        let two = matches!(memory.kind, Kind::LoadTwo { .. } | Kind::StoreTwo { .. } | Kind::ExchangeTwo { .. });
        for lane in lanes_of(exec) {
            let to = self.resolve(memory, &addresses, lane, bytes.into());
            for offset in [Some(memory.offset), two.then_some(memory.second)].into_iter().flatten() {
                if let Some((key, _)) = place(to, offset).key() {
                    wave.order.early.push((key, bytes.into(), touch));
                }
            }
        }
    }

    /// What a wave has not waited for in LDS is not ordered by the barrier: it reaches into what comes behind it. So do its stores, where
    /// the waves of a block are on two units with caches of their own, and what it did after it had signaled.
    pub(super) fn carry_over(&mut self, wave: &Wave) {
        let clock = Rc::clone(&wave.order.clock);
        let by = [self.toucher(wave, &clock), self.lds_toucher(wave, &clock)];
        for (places, bytes) in wave.order.stores() {
            places.iter().for_each(|address| self.carry((*address, *bytes, Touch::Write), by));
        }
        wave.pending.lds_touches().flat_map(of_lds).for_each(|touch| self.carry(touch, by));
        wave.order.early.iter().for_each(|touch| self.carry(*touch, by));
    }

    /// A conflict is another wave's, which has seen it or will.
    fn carry(&mut self, (key, bytes, touch): (u64, usize, Touch), by: [Toucher<'_>; 2]) {
        let how = if touch == Touch::Atomic { How::Atomic } else { How::Plain };
        let [by, lds_by] = by.map(|by| by.touching(how));
        let writes = touch != Touch::Read;
        if key & LDS == 0 {
            self.memory.carry_over(key, bytes, writes, &by);
            return;
        }
        let (offset, length) = ((key & !LDS) as usize, self.own.lds.bytes.len());
        if offset + bytes <= length {
            let _other = self.own.lds.shadow.touch(length, offset, bytes, writes, &lds_by);
        }
    }
}

/// What an access touches in LDS.
fn of_lds(touch: &LdsTouch) -> impl Iterator<Item = (u64, usize, Touch)> {
    let how = if touch.write { Touch::Write } else { Touch::Read };
    lanes_of(touch.exec).map(move |lane| (u64::from(touch.offsets[lane]) | LDS, touch.bytes as usize, how))
}
