//! The LDS of a block.

use super::Lane;
use super::address::To;
use crate::memory::{Loaded, gather};
use crate::shadow::{Met, Shadow, Toucher};
use crate::verdict::{Access, Fault, Place, Use};

/// The LDS of a block.
#[derive(Default)]
pub(crate) struct Lds {
    pub bytes: Vec<u8>,
    pub written: Vec<u8>,
    pub shadow: Shadow,
}

impl Lds {
    fn reach(&self, offset: u64, bytes: usize, access: Access) -> Lane<usize> {
        let size = self.bytes.len() as u64;
        if offset > size || size - offset < bytes as u64 {
            // Of an access that begins within it, what is behind its end.
            let place = Place::Lds { offset: offset.max(size), size };
            return Err(Fault::OutOfBounds { access, bytes: bytes as u32, place });
        }
        Ok(offset as usize)
    }

    #[inline]
    pub(super) fn load(
        &mut self,
        offset: u64,
        bytes: usize,
        by: &Toucher<'_>,
        block_of: &dyn Fn(u32) -> [u32; 3],
        suspected: &mut Option<(u64, Fault)>,
    ) -> Lane<Loaded> {
        let at = self.reach(offset, bytes, Access::Read)?;
        let length = self.bytes.len();
        if let Some(met) = self.shadow.touch(length, at, bytes, false, by) {
            let fault = race(Access::Read, met, length, block_of);
            if !met.atomic {
                return Err(fault);
            }
            *suspected = To::Lds(offset).key().map(|(key, _)| (key, fault));
        }
        Ok(gather(&self.bytes[at..at + bytes], &self.written[at..at + bytes]))
    }

    #[inline]
    pub(super) fn store(
        &mut self,
        offset: u64,
        data: &[u8],
        poison: u16,
        by: &Toucher<'_>,
        block_of: &dyn Fn(u32) -> [u32; 3],
    ) -> Lane<()> {
        let at = self.reach(offset, data.len(), Access::Write)?;
        let length = self.bytes.len();
        let range = at..at + data.len();
        if let Some(met) = self.shadow.touch(length, at, data.len(), true, by) {
            // Waves that hold the same write the same, as a compiler has them do that spreads few elements over many lanes.
            let again =
                poison == 0 && self.bytes[range.clone()] == *data && self.written[range].iter().all(|w| *w == 1);
            if met.conflict.wrote() && again && !met.atomic {
                return Ok(());
            }
            return Err(race(Access::Write, met, length, block_of));
        }
        self.bytes[range.clone()].copy_from_slice(data);
        mark(&mut self.written[range], poison);
        Ok(())
    }

    pub(super) fn atomic(
        &mut self,
        offset: u64,
        bytes: usize,
        by: &Toucher<'_>,
        block_of: &dyn Fn(u32) -> [u32; 3],
        suspected: &mut Option<(u64, Fault)>,
        next: impl FnOnce(u64) -> u64,
    ) -> Lane<u64> {
        let at = self.reach(offset, bytes, Access::Atomic)?;
        let place = Place::Lds { offset, size: self.bytes.len() as u64 };
        if !offset.is_multiple_of(bytes as u64) {
            return Err(Fault::Misaligned { access: Access::Atomic, bytes: bytes as u32, place });
        }
        let length = self.bytes.len();
        if let Some(met) = self.shadow.touch(length, at, bytes, true, by) {
            let fault = race(Access::Atomic, met, length, block_of);
            if !met.atomic {
                return Err(fault);
            }
            *suspected = To::Lds(offset).key().map(|(key, _)| (key, fault));
        }
        let range = at..at + bytes;
        let found = gather(&self.bytes[range.clone()], &self.written[range.clone()]);
        if found.unwritten != 0 {
            let origin = Some("an atomic on what nobody wrote".to_string());
            return Err(Fault::Unwritten { used: Use::Store(place), origin });
        }
        let old = u64::from(found.dwords[0]) | u64::from(found.dwords[1]) << 32;
        self.bytes[range].copy_from_slice(&next(old).to_le_bytes()[..bytes]);
        Ok(old)
    }
}

fn race(access: Access, met: Met, length: usize, block_of: &dyn Fn(u32) -> [u32; 3]) -> Fault {
    let place = Place::Lds { offset: met.at as u64, size: length as u64 };
    Fault::Race { access, place, other: met.conflict.other(block_of), wrote: met.conflict.wrote() }
}

/// Notes which bytes were written, those of `poison` as ones that nobody wrote.
#[inline]
pub(super) fn mark(written: &mut [u8], poison: u16) {
    if poison == 0 {
        written.fill(1);
    } else {
        for (at, written) in written.iter_mut().enumerate() {
            *written = u8::from(poison >> at & 1 == 0);
        }
    }
}
