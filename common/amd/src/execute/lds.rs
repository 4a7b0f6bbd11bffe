//! The LDS of a block.

use super::Lane;
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
