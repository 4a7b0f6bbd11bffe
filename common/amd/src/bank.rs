//! Bytes that waves share: those of a buffer, or the LDS of a block, with what is known of each.

pub(crate) mod lanes;

use std::ops::Range;

use crate::races::{Raced, Races, Side, are_one_sum, rounded_as};
use crate::readers::Seen;
use crate::shadow::{Conflict, How, Met, Shadow, Toucher};
use crate::variables::{Variables, buffer_place};
use crate::verdict::{Access, Fault, LDS, NOBODYS_ATOMIC, Other, Place, Use};

/// What was read: up to four dwords, and a bit for each byte that nobody wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Loaded {
    pub dwords: [u32; 4],
    pub unwritten: u16,
}

/// Who touches memory, and what is remembered from lane to lane.
pub(crate) struct Touching<'a> {
    pub by: &'a Toucher<'a>,
    /// First number and id of each block.
    pub starts: &'a [(u32, [u32; 3])],
    pub races: &'a mut Races,
}

/// What bytes are called.
pub(crate) enum Label<'a> {
    Buffer { name: &'a str, element: u32, base: u64, variables: Option<&'a Variables> },
    Lds,
}

pub(crate) struct Bank<'a> {
    pub bytes: &'a mut [u8],
    /// 1 for each byte that was written.
    pub written: &'a mut [u8],
    pub shadow: &'a mut Shadow,
    pub label: Label<'a>,
}

/// The words of a range, or its halves of words or bytes where it begins or ends within one.
fn pieces(offset: usize, size: usize) -> impl Iterator<Item = Range<usize>> {
    let step = [4, 2].into_iter().find(|step| offset.is_multiple_of(*step) && size.is_multiple_of(*step)).unwrap_or(1);
    (offset..offset + size).step_by(step).map(move |at| at..at + step)
}

impl Bank<'_> {
    pub fn place(&self, offset: usize) -> Place {
        let size = self.bytes.len() as u64;
        match self.label {
            Label::Buffer { name, element, variables, .. } => variables
                .and_then(|variables| variables.place(offset as i64))
                .unwrap_or_else(|| buffer_place(name, element, size, offset as i64)),
            Label::Lds => Place::Lds { offset: offset as u64, size },
        }
    }

    /// What a byte is called among places.
    fn key(&self, offset: usize) -> u64 {
        match self.label {
            Label::Buffer { base, .. } => base + offset as u64,
            Label::Lds => offset as u64 | LDS,
        }
    }

    fn race(&self, access: Access, met: Met, to: &mut Touching<'_>) -> Fault {
        let (place, other) = (self.place(met.at), met.conflict.other(|number| block_of(to.starts, number)));
        let fault = match met.conflict {
            Conflict::Stale { .. } => Fault::Stale { place, other, missing: "buffer_gl0_inv" },
            _ => Fault::Race { access, place, other, by: None, wrote: met.conflict.wrote(), rounding: None },
        };
        if let Some(watch) = &mut to.races.watch {
            watch.meet(&fault);
        }
        fault
    }

    /// Who has read a range is to be found out.
    ///
    /// # Errors
    /// There are too many such places: that is a race as far as anybody can tell.
    fn contend(&self, access: Access, range: Range<usize>, met: Met, to: &mut Touching<'_>) -> Result<(), Fault> {
        if to.races.contend(self.key(range.start), range.len()) { Ok(()) } else { Err(self.race(access, met, to)) }
    }

    /// The same of a read, which a comparing atomic may explain.
    #[cold]
    fn contend_read(&self, range: Range<usize>, met: Met, to: &mut Touching<'_>) {
        if let Err(fault) = self.contend(Access::Read, range.clone(), met, to) {
            to.races
                .suspected
                .extend(Seen::all(self.key(range.start), &self.bytes[range]).map(|seen| (seen, fault.clone())));
        }
    }

    /// A lane's load of 1 to 16 bytes.
    #[inline]
    pub fn load(&mut self, offset: usize, size: usize, to: &mut Touching<'_>) -> Loaded {
        let mut open = 0;
        if let Some(met) = self.shadow.touch(self.bytes.len(), offset, size, false, to.by) {
            if met.conflict == Conflict::Unsure {
                self.contend_read(offset..offset + size, met, to);
            }
            open = self.meet(offset, size, to);
        }
        open |= self.planned(offset, size, to);
        if let (Some(readers), How::Plain) = (&mut to.races.readers, to.by.how) {
            readers.note(self.key(offset), &self.bytes[offset..offset + size]);
        }
        let mut loaded = gather(&self.bytes[offset..offset + size], &self.written[offset..offset + size]);
        loaded.unwritten |= open;
        loaded
    }

    /// The bytes of a load that nothing orders behind a write.
    #[cold]
    fn meet(&mut self, offset: usize, size: usize, to: &mut Touching<'_>) -> u16 {
        let mut open = 0;
        for piece in pieces(offset, size) {
            let met = self.shadow.touch(self.bytes.len(), piece.start, piece.len(), false, to.by);
            let Some(met) = met else { continue };
            if met.conflict == Conflict::Unsure {
                self.contend_read(piece, met, to);
                continue;
            }
            let fault = self.race(Access::Read, met, to);
            if met.atomic {
                to.races.suspected.push((Seen::of(self.key(piece.start), &self.bytes[piece]), fault));
            } else if !to.races.is_trusting() {
                to.races.read.get_or_insert(Raced::Read(fault));
                open |= ((1 << piece.len()) - 1) << (piece.start - offset);
            }
        }
        open
    }

    /// The bytes of a load that are overwritten later, with nothing that orders that.
    #[inline]
    pub fn planned(&self, offset: usize, size: usize, to: &mut Touching<'_>) -> u16 {
        if !to.races.has_planned() {
            return 0;
        }
        let (mut open, key) = (0, self.key(offset));
        for word in (key & !3..key + size as u64).step_by(4) {
            for byte in (0..4).filter(|byte| to.races.open(word, to.by) >> byte & 1 == 1) {
                let at = (word + byte).wrapping_sub(key);
                open |= if at < size as u64 { 1 << at } else { 0 };
            }
        }
        open
    }

    /// A lane's store of 1 to 16 bytes, of which nobody wrote those of `poison`.
    #[inline]
    pub fn store(&mut self, offset: usize, data: &[u8], poison: u16, to: &mut Touching<'_>) -> Result<(), Fault> {
        if poison == 0 && self.is_there(offset, data, to) {
            return self.is_followed(offset, data.len(), to).map_or(Ok(()), Err);
        }
        let mut kept = 0_u16;
        if let Some(met) = self.shadow.touch(self.bytes.len(), offset, data.len(), true, to.by) {
            if met.conflict == Conflict::Unsure || to.by.how == How::Store {
                self.contend(Access::Write, offset..offset + data.len(), met, to)?;
            }
            for piece in pieces(offset, data.len()) {
                let part = &data[piece.start - offset..piece.end - offset];
                if self.store_piece(piece.clone(), part, poison >> (piece.start - offset), to)? {
                    kept |= 1 << (piece.start - offset);
                }
            }
        }
        if kept == 0 {
            self.put(offset, data, poison);
            return Ok(());
        }
        for piece in pieces(offset, data.len()).filter(|piece| kept >> (piece.start - offset) & 1 == 0) {
            let part = &data[piece.start - offset..piece.end - offset];
            self.put(piece.start, part, poison >> (piece.start - offset) & ((1 << piece.len()) - 1));
        }
        Ok(())
    }

    /// Whether a store to LDS changes nothing, as of waves that compute the same: whoever reads there is as well off before it as behind it. To
    /// those that write it is a read.
    fn is_there(&mut self, offset: usize, data: &[u8], to: &Touching<'_>) -> bool {
        let range = offset..offset + data.len();
        let is_same = matches!(self.label, Label::Lds) && to.by.how == How::Plain && self.bytes[range.clone()] == *data;
        if !is_same || self.written[range].iter().any(|by| *by != 1) {
            return false;
        }
        let length = self.bytes.len();
        pieces(offset, data.len()).all(|piece| {
            let met = self.shadow.touch(length, piece.start, piece.len(), false, to.by);
            met.is_none_or(|met| met.conflict == Conflict::Unsure || met.conflict.wrote() && !met.atomic)
        })
    }

    /// What a store of what is there already comes to, if another wave stores something else there later: that one was met by what counts as a read.
    fn is_followed(&self, offset: usize, size: usize, to: &mut Touching<'_>) -> Option<Fault> {
        let open = self.planned(offset, size, to);
        let Some(Raced::Planned(at)) = to.races.read.take_if(|_| open != 0) else { return None };
        let (place, other) = (self.place(offset + open.trailing_zeros() as usize), Other::Wave(to.races.of(at)?.wave));
        Some(Fault::Race { access: Access::Write, place, other, by: None, wrote: true, rounding: None })
    }

    /// Looks at what a store meets; whether what another wave wrote stays, as both are one sum: a third wave's value is compared with the first one.
    fn store_piece(
        &mut self,
        piece: Range<usize>,
        data: &[u8],
        poison: u16,
        to: &mut Touching<'_>,
    ) -> Result<bool, Fault> {
        let met = self.shadow.touch(self.bytes.len(), piece.start, piece.len(), true, to.by);
        let Some(met) = met else { return Ok(false) };
        if met.conflict == Conflict::Unsure {
            self.contend(Access::Write, piece, met, to)?;
            return Ok(false);
        }
        // Whoever writes what is there already changes nothing: a flag that many set, or few elements that are spread over many lanes.
        let stores_open = poison & ((1 << piece.len()) - 1) != 0;
        let clean = !stores_open && self.written[piece.clone()].iter().all(|by| *by == 1);
        let same = clean && self.bytes[piece.clone()] == *data;
        if met.conflict.wrote() && same && !met.atomic {
            return Ok(false);
        }
        let mut fault = self.race(Access::Write, met, to);
        if let (Fault::Race { rounding, wrote, .. }, true) = (&mut fault, clean) {
            let (old, new) = (&self.bytes[piece.clone()], data);
            if let (Some(old), Some(new)) = (old.first_chunk(), new.first_chunk()) {
                let [old, new] = [old, new].map(|bytes| u32::from_le_bytes(*bytes));
                if to.races.spreads && matches!(self.label, Label::Lds) && are_one_sum(old, new, 0.0) && !met.atomic {
                    return Ok(met.conflict.wrote());
                }
            }
            *rounding = rounded_as(old, new).filter(|_| *wrote);
        }
        if met.atomic && !met.conflict.wrote() {
            self.contend(Access::Write, piece, met, to)?;
            return Ok(false);
        }
        if met.conflict.wrote() || to.races.is_full() {
            let of = if stores_open { Side::Own } else { Side::Other };
            to.races.open_side = (!clean && matches!(self.label, Label::Lds)).then_some(of);
            return Err(fault);
        }
        let key = self.key(piece.start);
        let bytes = ((1 << piece.len()) - 1) << (key & 3);
        to.races.wrote.push((key & !3, bytes, fault));
        self.shadow.overwrite(piece.start, piece.len(), to.by);
        Ok(false)
    }

    #[inline]
    fn put(&mut self, offset: usize, data: &[u8], poison: u16) {
        let range = offset..offset + data.len();
        self.bytes[range.clone()].copy_from_slice(data);
        mark(&mut self.written[range], poison);
    }

    /// A lane's atomic of 4 or 8 bytes: what was there and whether somebody wrote that, replaced by what `next` makes of it. It is asked with nothing where
    /// nobody did, and makes nothing of it where that matters.
    pub fn atomic(
        &mut self,
        offset: usize,
        size: usize,
        to: &mut Touching<'_>,
        next: impl FnOnce(Option<u64>) -> Option<u64>,
    ) -> Result<(u64, bool), Fault> {
        if !self.key(offset).is_multiple_of(size as u64) {
            let place = self.place(offset);
            return Err(Fault::Misaligned { access: Access::Atomic, bytes: size as u32, place });
        }
        if let Some(met) = self.shadow.touch(self.bytes.len(), offset, size, true, to.by) {
            if !met.atomic && met.conflict != Conflict::Unsure {
                return Err(self.race(Access::Atomic, met, to));
            }
            self.contend(Access::Atomic, offset..offset + size, met, to)?;
        }
        let range = offset..offset + size;
        let found = gather(&self.bytes[range.clone()], &self.written[range.clone()]);
        let old = u64::from(found.dwords[0]) | u64::from(found.dwords[1]) << 32;
        let Some(new) = next((found.unwritten == 0).then_some(old)) else {
            let used = Use::Store(self.place(offset));
            return Err(Fault::Unwritten { used, origin: Some(NOBODYS_ATOMIC.into()) });
        };
        self.bytes[range.clone()].copy_from_slice(&new.to_le_bytes()[..size]);
        mark(&mut self.written[range], 0);
        Ok((old, found.unwritten == 0))
    }
}

/// The block that a number is one of.
pub(crate) fn block_of(starts: &[(u32, [u32; 3])], number: u32) -> [u32; 3] {
    let at = starts.partition_point(|(start, _)| *start <= number);
    starts.get(at.saturating_sub(1)).map_or([0; 3], |(_, id)| *id)
}

/// Notes which bytes were written, those of `poison` as ones that nobody wrote.
#[inline]
pub(crate) fn mark(written: &mut [u8], poison: u16) {
    if poison == 0 {
        written.fill(1);
    } else {
        for (at, written) in written.iter_mut().enumerate() {
            *written = u8::from(poison >> at & 1 == 0);
        }
    }
}

/// Little-endian dwords of up to 16 bytes, and which bytes nobody wrote.
#[inline(always)]
pub(crate) fn gather(bytes: &[u8], written: &[u8]) -> Loaded {
    let mut loaded = Loaded::default();
    let mut all = bytes.len().is_multiple_of(4);
    let chunks = bytes.as_chunks().0.iter().zip(written.as_chunks().0);
    for (dword, (chunk, written)) in loaded.dwords.iter_mut().zip(chunks) {
        *dword = u32::from_le_bytes(*chunk);
        all &= *written == [1; 4];
    }
    if all { loaded } else { gather_bytes(bytes, written) }
}

#[inline(never)]
fn gather_bytes(bytes: &[u8], written: &[u8]) -> Loaded {
    let mut loaded = Loaded::default();
    for (at, (byte, written)) in bytes.iter().zip(written).enumerate().take(16) {
        loaded.dwords[at / 4] |= u32::from(*byte) << (at % 4 * 8);
        loaded.unwritten |= u16::from(*written == 0) << at;
    }
    loaded
}
