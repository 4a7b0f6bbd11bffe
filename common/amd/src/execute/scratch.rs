//! The scratch of the waves of a block.

use super::{Lane, SCRATCH_BASE};
use crate::bank::{Loaded, gather, mark};
use crate::verdict::{Access, Fault, Place};
use crate::wave::Wave;

/// The scratch of all waves of a block: dwords of the lanes of a wave side by side.
#[derive(Default)]
pub(crate) struct Scratch {
    pub bytes: Vec<u8>,
    pub written: Vec<u8>,
    /// Bytes of a lane.
    pub lane_bytes: u64,
    /// Bytes of a wave.
    pub wave_bytes: u64,
}

impl Scratch {
    /// The byte of a lane's scratch.
    fn byte(&self, wave: &Wave, lane: usize, offset: u64, bytes: usize, access: Access) -> Lane<u64> {
        let place = Place::Scratch { offset, size: self.lane_bytes };
        if offset > self.lane_bytes || self.lane_bytes - offset < bytes as u64 {
            return Err(Fault::OutOfBounds { access, bytes: bytes as u32, place });
        }
        if offset % 4 + bytes as u64 > 4 {
            return Err(Fault::Misaligned { access, bytes: bytes as u32, place });
        }
        let lanes = wave.registers.lanes as u64;
        Ok(wave.scratch - SCRATCH_BASE + offset / 4 * 4 * lanes + lane as u64 * 4 + offset % 4)
    }

    pub(super) fn load(&self, wave: &Wave, lane: usize, offset: u64, bytes: usize) -> Lane<Loaded> {
        if bytes <= 4 {
            return self.load_at(wave, self.byte(wave, lane, offset, bytes, Access::Read)?, bytes);
        }
        let mut all = Loaded::default();
        for dword in 0..bytes / 4 {
            let byte = self.byte(wave, lane, offset + 4 * dword as u64, 4, Access::Read)?;
            let part = self.load_at(wave, byte, 4)?;
            all.dwords[dword] = part.dwords[0];
            all.unwritten |= part.unwritten << (4 * dword);
        }
        Ok(all)
    }

    /// What a byte of all scratch is in a lane's own.
    pub(super) fn place(&self, wave: &Wave, byte: u64) -> Place {
        let begin = wave.scratch - SCRATCH_BASE;
        let (row, size) = (4 * wave.registers.lanes as u64, self.lane_bytes);
        match byte.checked_sub(begin) {
            Some(within) => Place::Scratch { offset: within / row * 4 + within % 4, size },
            None => Place::Scratch { offset: 0, size },
        }
    }

    /// Bytes of all scratch that are the wave's own.
    fn range(&self, wave: &Wave, byte: u64, bytes: usize, access: Access) -> Lane<std::ops::Range<usize>> {
        let begin = wave.scratch - SCRATCH_BASE;
        let end = begin + 4 * wave.registers.lanes as u64 * (self.lane_bytes / 4);
        if byte < begin || byte > end || end - byte < bytes as u64 {
            return Err(Fault::OutOfBounds { access, bytes: bytes as u32, place: self.place(wave, byte) });
        }
        Ok(byte as usize..byte as usize + bytes)
    }

    pub(super) fn load_at(&self, wave: &Wave, byte: u64, bytes: usize) -> Lane<Loaded> {
        let range = self.range(wave, byte, bytes, Access::Read)?;
        Ok(gather(&self.bytes[range.clone()], &self.written[range]))
    }

    pub(super) fn store(&mut self, wave: &Wave, lane: usize, offset: u64, data: &[u8], poison: u16) -> Lane<()> {
        let step = data.len().min(4);
        for (at, part) in data.chunks(step).enumerate() {
            let byte = self.byte(wave, lane, offset + (step * at) as u64, part.len(), Access::Write)?;
            self.store_at(wave, byte, part, poison >> (step * at) & 15)?;
        }
        Ok(())
    }

    pub(super) fn store_at(&mut self, wave: &Wave, byte: u64, data: &[u8], poison: u16) -> Lane<()> {
        let range = self.range(wave, byte, data.len(), Access::Write)?;
        self.bytes[range.clone()].copy_from_slice(data);
        mark(&mut self.written[range], poison);
        Ok(())
    }
}
