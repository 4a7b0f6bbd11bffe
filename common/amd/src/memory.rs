//! The device's memory: buffers with 64-bit addresses, each with a name, space around it, and a note of which bytes were
//! written and by whom.

mod journal;
mod lines;

use self::journal::Journal;
pub(crate) use self::lines::Line;
use self::lines::Lines;
use crate::bank::lanes::Places;
use crate::bank::{Bank, Label, Loaded, Touching};
use crate::shadow::{LAST_NUMBER, Shadow};
use crate::variables::{Variables, buffer_place};
use crate::verdict::{Access, Fault, LDS, Place};

/// The buffer of a launch's arguments.
pub(crate) const ARGUMENTS: &str = "the kernel's arguments";
/// Where the first buffer begins.
const FIRST_ADDRESS: u64 = 1 << 40;
/// What device pointers are aligned to.
const ALIGNMENT: u64 = 4096;
/// Between buffers at least: more than an index of 32 bits reaches, so that what is too far is in no other buffer, and named by the right one.
const FAR: u64 = 1 << 33;
/// The same of buffers from [`CROWDED`] on; a large one has as much as it is long.
const GUARD: u64 = 1 << 20;
const CROWDED: u64 = 0x5000_0000_0000;
/// Freed buffers that are remembered.
const REMEMBERED: usize = 256;
/// A touch this far from every buffer is near none.
const NEAR: u64 = 1 << 40;

pub(crate) struct Buffer {
    name: String,
    pub base: u64,
    element: u32,
    bytes: Vec<u8>,
    /// 1 for each byte that was written.
    written: Vec<u8>,
    shadow: Shadow,
    /// Ranges that kernels must not write.
    protected: Vec<(u64, u64)>,
    /// A bit for each page that the journal has.
    saved: Vec<u64>,
    /// Of the image of a code object.
    variables: Option<Box<Variables>>,
}

/// A code object in memory.
pub(crate) struct Image {
    pub bytes: Vec<u8>,
    /// Ranges that kernels must not write.
    pub protected: Vec<(u64, u64)>,
    pub variables: Variables,
}

/// The memory of one device.
pub struct Memory {
    /// By address.
    buffers: Vec<Buffer>,
    freed: Vec<(String, u64, u64)>,
    next: u64,
    /// The next number of [`Toucher`].
    pub(crate) numbers: u32,
    images: Vec<(u64, u64)>,
    journal: Journal,
    lines: Lines,
}

/// A range of addresses that is not within one buffer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes at {address:#x} are not within a buffer: {place}")]
pub struct Outside {
    pub address: u64,
    pub bytes: u64,
    pub place: Place,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Buffer {
    fn place(&self, offset: i64) -> Place {
        if let Some(place) = self.variables.as_ref().and_then(|variables| variables.place(offset)) {
            return place;
        }
        buffer_place(&self.name, self.element, self.bytes.len() as u64, offset)
    }

    #[inline]
    fn bank(&mut self) -> Bank<'_> {
        let label = Label::Buffer {
            name: &self.name,
            element: self.element,
            base: self.base,
            variables: self.variables.as_deref(),
        };
        Bank { bytes: &mut self.bytes, written: &mut self.written, shadow: &mut self.shadow, label }
    }
}

impl Memory {
    #[must_use]
    pub fn new() -> Self {
        Self {
            buffers: Vec::new(),
            freed: Vec::new(),
            next: FIRST_ADDRESS,
            numbers: 1,
            images: Vec::new(),
            journal: Journal::default(),
            lines: Lines::default(),
        }
    }

    /// A buffer of `bytes`, none of them written, whose elements have `element` bytes; its address.
    pub fn allocate(&mut self, name: &str, bytes: usize, element: u32) -> u64 {
        let base = self.next + self.guard().max(bytes as u64).next_multiple_of(ALIGNMENT);
        self.next = base + (bytes as u64).next_multiple_of(ALIGNMENT);
        self.buffers.push(Buffer {
            name: name.to_string(),
            base,
            element,
            bytes: vec![0; bytes],
            written: vec![0; bytes],
            shadow: Shadow::default(),
            protected: Vec::new(),
            saved: Vec::new(),
            variables: None,
        });
        base
    }

    /// Bytes in front of the next buffer at least.
    fn guard(&self) -> u64 {
        if self.next < CROWDED { FAR } else { GUARD }
    }

    /// Frees the buffer that begins at `address`; whether there is one. What touches it later is told its name.
    pub fn free(&mut self, address: u64) -> bool {
        let Ok(at) = self.buffers.binary_search_by_key(&address, |buffer| buffer.base) else { return false };
        let buffer = self.buffers.remove(at);
        if self.freed.len() == REMEMBERED {
            self.freed.remove(0);
        }
        self.freed.push((buffer.name, buffer.base, buffer.bytes.len() as u64));
        true
    }

    /// Where the next buffer will be.
    pub(crate) fn mark(&self) -> u64 {
        self.next
    }

    /// Frees the buffers that were allocated since the mark, whose addresses no kernel has kept.
    pub(crate) fn release(&mut self, mark: u64) {
        let images = &self.images;
        self.buffers.retain(|buffer| buffer.base < mark || images.iter().any(|(_, base)| *base == buffer.base));
        self.next = self.buffers.iter().map(|buffer| buffer.base + buffer.bytes.len() as u64).fold(mark, u64::max);
        self.next = self.next.next_multiple_of(ALIGNMENT);
    }

    /// What an address means that lies off a buffer which has the byte at `base`.
    pub(crate) fn place_from(&self, base: u64, address: u64) -> Option<Place> {
        let buffer = self.buffers.get(self.find(base, 1)?.0)?;
        Some(buffer.place(address.wrapping_sub(buffer.base) as i64))
    }

    /// Where the last byte ends that kernels touched of the buffer which begins at `address`, from there: zero where they touched none.
    #[must_use]
    pub fn touched(&self, address: u64) -> Option<u64> {
        let at = self.buffers.binary_search_by_key(&address, |buffer| buffer.base).ok()?;
        self.buffers.get(at).map(|buffer| buffer.shadow.end() as u64)
    }

    /// Name and size of the buffer that `address` is in, and the offset there.
    #[must_use]
    pub fn buffer_at(&self, address: u64) -> Option<(&str, u64, u64)> {
        let (at, offset) = self.find(address, 1)?;
        let buffer = self.buffers.get(at)?;
        Some((&buffer.name, offset as u64, buffer.bytes.len() as u64))
    }

    fn find(&self, address: u64, bytes: usize) -> Option<(usize, usize)> {
        let at = self.buffers.partition_point(|buffer| buffer.base <= address).checked_sub(1)?;
        let buffer = &self.buffers[at];
        let offset = usize::try_from(address - buffer.base).ok()?;
        (offset < buffer.bytes.len().max(1) && buffer.bytes.len() - offset >= bytes).then_some((at, offset))
    }

    /// What a place is called among those of atomics, if it is one that waves share.
    pub(crate) fn key_of(&self, place: &Place) -> Option<u64> {
        let Place::Buffer { name, offset, .. } = place else {
            return if let Place::Lds { offset, .. } = place { Some(offset | LDS) } else { None };
        };
        let start = |buffer: &Buffer| match &buffer.variables {
            Some(variables) => variables.all.iter().find(|of| of.name == *name).map(|of| of.range.start),
            None => (buffer.name == *name).then_some(0),
        };
        let address = |buffer: &Buffer| buffer.base.checked_add(start(buffer)?)?.checked_add_signed(*offset);
        self.buffers.iter().rev().find_map(address)
    }

    /// What an address means that may be in no buffer: the nearest one names it.
    pub(crate) fn place(&self, address: u64) -> Place {
        let inside = |(_, base, size): &&(String, u64, u64)| address >= *base && address - base < *size;
        if let Some((name, base, _)) = self.freed.iter().rev().find(inside) {
            return Place::Freed { name: name.clone(), offset: (address - base) as i64 };
        }
        let distance = |buffer: &&Buffer| {
            let end = buffer.base + buffer.bytes.len() as u64;
            if address < buffer.base { buffer.base - address } else { address.saturating_sub(end) }
        };
        match self.buffers.iter().min_by_key(distance) {
            Some(buffer) if distance(&buffer) < NEAR => buffer.place(address.wrapping_sub(buffer.base) as i64),
            _ => Place::Nowhere { address },
        }
    }

    fn within(&self, address: u64, bytes: usize) -> Result<(usize, usize), Outside> {
        let outside = || Outside { address, bytes: bytes as u64, place: self.place(address) };
        self.find(address, bytes).ok_or_else(outside)
    }

    /// # Errors
    /// The range is not within one buffer.
    pub fn write(&mut self, address: u64, data: &[u8]) -> Result<(), Outside> {
        let (at, offset) = self.within(address, data.len())?;
        let buffer = &mut self.buffers[at];
        buffer.bytes[offset..offset + data.len()].copy_from_slice(data);
        buffer.written[offset..offset + data.len()].fill(1);
        Ok(())
    }

    /// # Errors
    /// The range is not within one buffer.
    pub fn fill(&mut self, address: u64, byte: u8, count: usize) -> Result<(), Outside> {
        let (at, offset) = self.within(address, count)?;
        let buffer = &mut self.buffers[at];
        buffer.bytes[offset..offset + count].fill(byte);
        buffer.written[offset..offset + count].fill(1);
        Ok(())
    }

    /// The bytes of a range, whether or not anybody wrote them.
    ///
    /// # Errors
    /// The range is not within one buffer.
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Outside> {
        let (at, offset) = self.within(address, into.len())?;
        into.copy_from_slice(&self.buffers[at].bytes[offset..offset + into.len()]);
        Ok(())
    }

    /// Copies within the device, bytes that nobody wrote as such.
    ///
    /// # Errors
    /// A range is not within one buffer.
    pub fn copy(&mut self, from: u64, to: u64, count: usize) -> Result<(), Outside> {
        let ((source, start), (sink, target)) = (self.within(from, count)?, self.within(to, count)?);
        let (bytes, written) = {
            let buffer = &self.buffers[source];
            (buffer.bytes[start..start + count].to_vec(), buffer.written[start..start + count].to_vec())
        };
        let buffer = &mut self.buffers[sink];
        buffer.bytes[target..target + count].copy_from_slice(&bytes);
        buffer.written[target..target + count].copy_from_slice(&written);
        Ok(())
    }

    /// Makes a range one that nobody wrote.
    ///
    /// # Errors
    /// The range is not within one buffer.
    pub fn forget(&mut self, address: u64, count: usize) -> Result<(), Outside> {
        let (at, offset) = self.within(address, count)?;
        self.buffers[at].written[offset..offset + count].fill(0);
        Ok(())
    }

    /// The first byte of a range that nobody wrote, as an offset into the range.
    ///
    /// # Errors
    /// The range is not within one buffer.
    pub fn first_unwritten(&self, address: u64, count: usize) -> Result<Option<usize>, Outside> {
        let (at, offset) = self.within(address, count)?;
        Ok(self.buffers[at].written[offset..offset + count].iter().position(|written| *written == 0))
    }

    /// The image of program `id`, made by `make` at the first use.
    pub(crate) fn image(&mut self, id: u64, make: impl FnOnce(u64) -> Image) -> u64 {
        if let Some((_, base)) = self.images.iter().find(|(of, _)| *of == id) {
            return *base;
        }
        // The size is not known before the image is made, and does not matter: the next buffer begins behind it.
        let base = self.next + self.guard();
        let Image { bytes, protected, variables } = make(base);
        self.next = base + (bytes.len() as u64).next_multiple_of(ALIGNMENT);
        let written = vec![1; bytes.len()];
        let name = "the code object".to_string();
        let shadow = Shadow::default();
        let variables = Some(Box::new(variables)).filter(|variables| !variables.all.is_empty());
        let saved = Vec::new();
        self.buffers.push(Buffer { name, base, element: 1, bytes, written, shadow, protected, saved, variables });
        self.images.push((id, base));
        base
    }

    /// Begins anew with the numbers where they run out, and forgets who touched what; whether it did.
    pub(crate) fn renumber(&mut self) -> bool {
        let out = self.numbers > LAST_NUMBER;
        if out {
            self.buffers.iter_mut().for_each(|buffer| buffer.shadow.clear());
            self.numbers = 1;
        }
        out
    }

    /// The offset of a range in the buffer that `hint` names from now on.
    #[inline(always)]
    fn reach(&self, address: u64, bytes: usize, access: Access, hint: &mut usize) -> Result<usize, Fault> {
        if let Some(buffer) = self.buffers.get(*hint) {
            let offset = address.wrapping_sub(buffer.base);
            if offset < buffer.bytes.len() as u64 && buffer.bytes.len() as u64 - offset >= bytes as u64 {
                return Ok(offset as usize);
            }
        }
        match self.find(address, bytes) {
            Some((at, offset)) => {
                *hint = at;
                Ok(offset)
            }
            None => {
                // Of an access that begins within a buffer, what is behind its end.
                let inside = self.find(address, 1).and_then(|(at, _)| self.buffers.get(at));
                let wrong = inside.map_or(address, |buffer| buffer.base + buffer.bytes.len() as u64);
                Err(Fault::OutOfBounds { access, bytes: bytes as u32, place: self.place(wrong) })
            }
        }
    }

    /// # Errors
    /// A load begins between the variables of a code object, or another access has a byte there: compilers round what is loaded up alone.
    #[inline]
    fn within_variables(&self, offset: usize, bytes: usize, access: Access, hint: usize) -> Result<(), Fault> {
        let Some(variables) = self.buffers.get(hint).and_then(|buffer| buffer.variables.as_ref()) else {
            return Ok(());
        };
        let looked_at = if access == Access::Read { 1 } else { bytes as u64 };
        let Some(first) = variables.first_in_gap(&(offset as u64..offset as u64 + looked_at)) else { return Ok(()) };
        let place = self.buffers[hint].place(first as i64);
        Err(Fault::OutOfBounds { access, bytes: bytes as u32, place })
    }

    /// A lane's load of 1 to 16 bytes.
    #[inline(always)]
    pub(crate) fn load(
        &mut self,
        address: u64,
        bytes: usize,
        hint: &mut usize,
        to: &mut Touching<'_>,
    ) -> Result<Loaded, Fault> {
        let offset = self.reach(address, bytes, Access::Read, hint)?;
        self.within_variables(offset, bytes, Access::Read, *hint)?;
        Ok(self.buffers[*hint].bank().load(offset, bytes, to))
    }

    /// What follows the first dword of a load: compilers load more than there is of a variable where that begins at a round address.
    pub(crate) fn load_further(
        &mut self,
        address: u64,
        bytes: usize,
        hint: &mut usize,
        to: &mut Touching<'_>,
    ) -> Result<Loaded, Fault> {
        let offset = self.reach(address, bytes, Access::Read, hint)?;
        Ok(self.buffers[*hint].bank().load(offset, bytes, to))
    }

    /// A lane's store of 1 to 16 bytes.
    #[inline]
    pub(crate) fn store(
        &mut self,
        address: u64,
        data: &[u8],
        hint: &mut usize,
        to: &mut Touching<'_>,
    ) -> Result<(), Fault> {
        let offset = self.reach(address, data.len(), Access::Write, hint)?;
        self.within_variables(offset, data.len(), Access::Write, *hint)?;
        let buffer = &self.buffers[*hint];
        let range = offset as u64..(offset + data.len()) as u64;
        if buffer.protected.iter().any(|(from, until)| range.start < *until && *from < range.end) {
            return Err(Fault::ReadOnly { place: buffer.place(offset as i64) });
        }
        self.journal.save(&mut self.buffers, *hint, offset, data.len());
        self.buffers[*hint].bank().store(offset, data, 0, to)
    }

    /// A lane's atomic of 4 or 8 bytes.
    pub(crate) fn atomic(
        &mut self,
        address: u64,
        bytes: usize,
        hint: &mut usize,
        to: &mut Touching<'_>,
        next: impl FnOnce(Option<u64>) -> Option<u64>,
    ) -> Result<(u64, bool), Fault> {
        let offset = self.reach(address, bytes, Access::Atomic, hint)?;
        self.within_variables(offset, bytes, Access::Atomic, *hint)?;
        self.journal.save(&mut self.buffers, *hint, offset, bytes);
        self.buffers[*hint].bank().atomic(offset, bytes, to, next)
    }

    /// The buffer that has the byte at `address`, which `hint` names from now on, and where it begins.
    pub(crate) fn bank_at(&mut self, address: u64, hint: &mut usize) -> Option<(Bank<'_>, u64)> {
        self.reach(address, 1, Access::Read, hint).ok()?;
        // Of variables each lane's is looked at.
        let buffer = self.buffers.get_mut(*hint).filter(|buffer| buffer.variables.is_none())?;
        let base = buffer.base;
        Some((buffer.bank(), base))
    }

    pub(crate) fn bank_of(&mut self, hint: usize) -> Option<Bank<'_>> {
        self.buffers.get_mut(hint).map(Buffer::bank)
    }

    /// Makes ready for stores of all lanes to the buffer that was found; whether they may be done.
    pub(crate) fn prepare_store(&mut self, hint: usize, places: &Places) -> bool {
        let is_open = |buffer: &Buffer| buffer.protected.is_empty() && places.is_within(buffer.bytes.len());
        if !self.buffers.get(hint).is_some_and(is_open) {
            return false;
        }
        match places.straight() {
            Some(range) => self.journal.save(&mut self.buffers, hint, range.start, range.len()),
            None => {
                let size = 4 * places.dwords;
                places.all().iter().for_each(|at| self.journal.save(&mut self.buffers, hint, *at as usize, size));
            }
        }
        true
    }

    /// What was changed is not undone any more.
    pub(crate) fn settle(&mut self) {
        self.journal.clear(&mut self.buffers);
    }

    /// Undoes what was stored since.
    pub(crate) fn undo(&mut self) {
        self.journal.undo(&mut self.buffers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_touch_outside_is_named_by_the_nearest_buffer() {
        let mut memory = Memory::new();
        let (a, b) = (memory.allocate("a", 40, 4), memory.allocate("b", 64, 2));
        assert_eq!(a % 256, 0);
        let place =
            |name: &str, offset, element, elements| Place::Buffer { name: name.into(), offset, element, elements };
        assert_eq!(memory.place(a + 40), place("a", 40, 10, 10));
        assert_eq!(memory.place(b - 2), place("b", -2, -1, 32));
        assert_eq!(memory.place(16), Place::Nowhere { address: 16 });
        assert!(memory.free(a) && !memory.free(a));
        assert_eq!(memory.place(a + 4), Place::Freed { name: "a".into(), offset: 4 });
    }

    #[test]
    fn bytes_are_written_or_not() {
        let mut memory = Memory::new();
        let a = memory.allocate("a", 8, 1);
        assert_eq!(memory.first_unwritten(a, 8), Ok(Some(0)));
        memory.write(a, &[1, 2, 3]).unwrap();
        assert_eq!(memory.first_unwritten(a, 8), Ok(Some(3)));
        memory.copy(a + 2, a + 5, 2).unwrap();
        memory.forget(a, 1).unwrap();
        let mut bytes = [0; 8];
        memory.read(a, &mut bytes).unwrap();
        assert_eq!(bytes, [1, 2, 3, 0, 0, 3, 0, 0]);
        let written: Vec<bool> = (0..8).map(|at| memory.first_unwritten(a + at, 1).unwrap().is_none()).collect();
        assert_eq!(written, [false, true, true, false, false, true, false, false]);
        assert!(memory.write(a + 7, &[0, 0]).is_err() && memory.fill(a, 0, 8).is_ok());
    }
}
