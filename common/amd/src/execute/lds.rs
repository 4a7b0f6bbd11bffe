//! The LDS of a block.

use super::Lane;
use super::address::To;
use crate::bank::{Bank, Label, Loaded, Touching};
use crate::shadow::Shadow;
use crate::verdict::{Access, Fault, Place};

/// The LDS of a block.
#[derive(Default)]
pub(crate) struct Lds {
    pub bytes: Vec<u8>,
    pub written: Vec<u8>,
    pub shadow: Shadow,
}

impl Lds {
    pub fn new(bytes: usize) -> Self {
        Self { bytes: vec![0; bytes], written: vec![0; bytes], shadow: Shadow::default() }
    }

    /// Whether a place is one of it where these bytes are written already.
    pub(super) fn has(&self, to: &To, data: &[u8]) -> bool {
        let To::Lds(offset) = to else { return false };
        let range = *offset as usize..*offset as usize + data.len();
        let is_written = self.written.get(range.clone()).is_some_and(|of| of.iter().all(|by| *by == 1));
        is_written && self.bytes.get(range).is_some_and(|of| of == data)
    }

    #[inline]
    pub(super) fn bank(&mut self) -> Bank<'_> {
        Bank { bytes: &mut self.bytes, written: &mut self.written, shadow: &mut self.shadow, label: Label::Lds }
    }

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
    pub(super) fn load(&mut self, offset: u64, bytes: usize, to: &mut Touching<'_>) -> Lane<Loaded> {
        let at = self.reach(offset, bytes, Access::Read)?;
        Ok(self.bank().load(at, bytes, to))
    }

    #[inline]
    pub(super) fn store(&mut self, offset: u64, data: &[u8], poison: u16, to: &mut Touching<'_>) -> Lane<()> {
        let at = self.reach(offset, data.len(), Access::Write)?;
        self.bank().store(at, data, poison, to)
    }

    pub(super) fn atomic(
        &mut self,
        offset: u64,
        bytes: usize,
        to: &mut Touching<'_>,
        next: impl FnOnce(Option<u64>) -> Option<u64>,
    ) -> Lane<(u64, bool)> {
        let at = self.reach(offset, bytes, Access::Atomic)?;
        self.bank().atomic(at, bytes, to, next)
    }
}
