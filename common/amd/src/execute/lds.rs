//! The LDS of a block.

use super::Lane;
use crate::memory::{Loaded, gather};
use crate::shadow::{Shadow, Toucher};
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
            let place = Place::Lds { offset, size };
            return Err(Fault::OutOfBounds { access, bytes: bytes as u32, place });
        }
        Ok(offset as usize)
    }

    #[inline]
    pub(super) fn load(
        &mut self,
        offset: u64,
        bytes: usize,
        by: Toucher,
        block_of: &dyn Fn(u32) -> [u32; 3],
    ) -> Lane<Loaded> {
        let at = self.reach(offset, bytes, Access::Read)?;
        let length = self.bytes.len();
        if let Some((found, conflict)) = self.shadow.touch(length, at, bytes, false, by) {
            let place = Place::Lds { offset: found as u64, size: length as u64 };
            let (other, wrote) = (conflict.other(block_of), conflict.wrote());
            return Err(Fault::Race { access: Access::Read, place, other, wrote });
        }
        Ok(gather(&self.bytes[at..at + bytes], &self.written[at..at + bytes]))
    }

    #[inline]
    pub(super) fn store(
        &mut self,
        offset: u64,
        data: &[u8],
        poison: u16,
        by: Toucher,
        block_of: &dyn Fn(u32) -> [u32; 3],
    ) -> Lane<()> {
        let at = self.reach(offset, data.len(), Access::Write)?;
        let length = self.bytes.len();
        let range = at..at + data.len();
        if let Some((found, conflict)) = self.shadow.touch(length, at, data.len(), true, by) {
            let (other, wrote) = (conflict.other(block_of), conflict.wrote());
            // Waves that hold the same write the same, as a compiler has them do that spreads few elements over many lanes.
            let again =
                poison == 0 && self.bytes[range.clone()] == *data && self.written[range].iter().all(|w| *w == 1);
            if wrote && again {
                return Ok(());
            }
            let place = Place::Lds { offset: found as u64, size: length as u64 };
            return Err(Fault::Race { access: Access::Write, place, other, wrote });
        }
        self.bytes[range.clone()].copy_from_slice(data);
        mark(&mut self.written[range], poison);
        Ok(())
    }

    pub(super) fn atomic(&mut self, offset: u64, bytes: usize, next: impl FnOnce(u64) -> u64) -> Lane<u64> {
        let at = self.reach(offset, bytes, Access::Atomic)?;
        let place = Place::Lds { offset, size: self.bytes.len() as u64 };
        if !offset.is_multiple_of(bytes as u64) {
            return Err(Fault::Misaligned { access: Access::Atomic, bytes: bytes as u32, place });
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
