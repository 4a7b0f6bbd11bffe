//! Plain reads of what atomics change, and the comparing atomics that explain them.

use super::Block;
use crate::bank::block_of;
use crate::order::Known;
use crate::readers::{Compared, Lane, Suspect, explain, suspect};
use crate::shadow::Toucher;
use crate::verdict::{Access, Fault, LDS, Met, Place, Raised, Step};
use crate::wave::Wave;

impl Block<'_> {
    /// # Errors
    /// The wave has read what others change with atomics, and has not gone on to one that finds that.
    pub(super) fn explained(&mut self, wave: &mut Wave) -> Step {
        if !wave.order.suspects.is_empty() {
            let Suspect { lane, at, fault, .. } = wave.order.suspects.swap_remove(0);
            let lane = usize::from(lane.unwrap_or(0));
            return Err(Raised::before(Met { fault, block: self.own.id, wave: wave.number, at, lane }));
        }
        let who = (self.own.first, wave.number);
        match self.races.readers.as_mut().and_then(|readers| readers.close(who)) {
            Some(met) => Err(Raised::before(met)),
            None => Ok(()),
        }
    }

    /// Remembers what a lane, or a scalar load, has read of what atomics change.
    pub(super) fn remember_reads(&mut self, wave: &mut Wave, lane: Lane, by: &[Toucher<'_>; 2]) {
        let at = wave.at.saturating_sub(1);
        for (seen, fault) in self.races.suspected.drain(..) {
            suspect(&mut wave.order.suspects, Suspect { seen, lane, at, fault });
        }
        if let Some(readers) = &mut self.races.readers {
            readers.remember((self.own.first, wave.number), lane, by[0].number, at);
        }
    }

    /// A lane has changed bytes with an atomic, which finds what it has read if it `compares`.
    ///
    /// # Errors
    /// Another wave has read them plainly, with nothing that orders that, and can not go on to a comparing atomic any more.
    pub(super) fn changed(
        &mut self,
        wave: &mut Wave,
        lane: usize,
        (key, bytes): (u64, usize),
        compares: Option<u64>,
        by: &[Toucher<'_>; 2],
    ) -> Step {
        let who = (self.own.first, wave.number);
        let compared = compares.map(|value| Compared { key, bytes, lane, value });
        if let Some(compared) = compared {
            explain(&mut wave.order.suspects, compared);
        }
        let Some(mut readers) = self.races.readers.take() else { return Ok(()) };
        if let Some(compared) = compared {
            readers.explain(who, compared);
        }
        let by = &by[usize::from(key & LDS != 0)];
        let meets = |number: u32, read: usize| {
            let conflict = by.against_reader(number)?;
            let place = self.place_of(key);
            let other = conflict.other(|number| block_of(self.starts, number));
            let site = Some(Box::new((self.site)(read)));
            let fault = Fault::Race { access: Access::Atomic, place, other, by: site, wrote: false, rounding: None };
            Some(Met { fault, block: self.own.id, wave: wave.number, at: wave.at.saturating_sub(1), lane })
        };
        let met = readers.change(who, (key, bytes), meets);
        self.races.readers = Some(readers);
        met.map_or(Ok(()), |met| Err(Raised::before(met)))
    }

    /// A plain store goes over bytes that others have read: nothing orders that for those who are found here, one by one.
    pub(super) fn overwritten(&mut self, (key, bytes): (u64, usize), wave: &Wave, by: &[Toucher<'_>; 2]) {
        let who = (self.own.first, wave.number);
        let by = &by[usize::from(key & LDS != 0)];
        let Some(readers) = self.races.readers.take() else { return };
        for (word, conflict) in readers.met(who, (key, bytes), |number| by.against_reader(number)) {
            let from = key.max(word);
            let bytes = (key + bytes as u64).min(word + 4) - from;
            let other = conflict.other(|number| block_of(self.starts, number));
            let (access, place) = (Access::Write, self.place_of(from));
            let fault = Fault::Race { access, place, other, by: None, wrote: false, rounding: None };
            self.races.wrote.push((word, ((1_u8 << bytes) - 1) << (from & 3), fault));
        }
        self.races.readers = Some(readers);
    }

    pub(super) fn place_of(&self, key: u64) -> Place {
        match key & LDS {
            0 => self.memory.place(key),
            _ => Place::Lds { offset: key & !LDS, size: self.own.lds.bytes.len() as u64 },
        }
    }

    /// What a lane's access has met, if anything.
    #[inline]
    pub(super) fn settle(&mut self, wave: &mut Wave, lane: usize, by: &[Toucher<'_>; 2], clock: &Known) {
        if self.races.has_read() {
            self.remember_reads(wave, Some(lane as u8), by);
        }
        if self.races.has_met() {
            self.raced(wave, lane, by, clock);
        }
    }

    /// The same of a scalar load.
    pub(super) fn settle_scalar(&mut self, wave: &mut Wave, by: &[Toucher<'_>; 2], clock: &Known) {
        if self.races.has_read() {
            self.remember_reads(wave, None, by);
        }
        if self.races.has_met() {
            self.raced(wave, 0, by, clock);
        }
    }
}
