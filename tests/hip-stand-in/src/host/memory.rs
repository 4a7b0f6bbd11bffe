//! Memory of a device: pages of the host, with pages that fault on either side.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

use crate::codes::{Code, Result};

/// A multiple of the page size of every machine.
const PAGE: usize = 64 << 10;
/// Of every address that HIP gives out.
const ALIGNMENT: usize = 256;

/// Bytes that end where the pages that fault begin, up to their alignment.
pub struct Allocation {
    base: NonNull<c_void>,
    mapped: usize,
    address: u64,
    bytes: usize,
}

// SAFETY: a mapping belongs to no thread.
unsafe impl Send for Allocation {}

impl Allocation {
    pub fn new(bytes: usize) -> Result<Self> {
        let room = bytes.max(1).checked_next_multiple_of(ALIGNMENT).ok_or(Code::OUT_OF_MEMORY)?;
        let usable = room.checked_next_multiple_of(PAGE).ok_or(Code::OUT_OF_MEMORY)?;
        let mapped = usable.checked_add(2 * PAGE).ok_or(Code::OUT_OF_MEMORY)?;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), mapped, ProtFlags::empty(), MapFlags::PRIVATE) };
        let base = base.ok().and_then(NonNull::new).ok_or(Code::OUT_OF_MEMORY)?;
        let address = base.as_ptr().wrapping_byte_add(PAGE + usable - room).expose_provenance() as u64;
        let allocation = Self { base, mapped, address, bytes };
        // SAFETY: the range lies within the mapping, which nobody else knows yet.
        unsafe { mprotect(base.as_ptr().byte_add(PAGE), usable, MprotectFlags::READ | MprotectFlags::WRITE) }
            .map_err(|_| Code::OUT_OF_MEMORY)?;
        Ok(allocation)
    }

    pub fn address(&self) -> u64 {
        self.address
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and it is dropped after all work on it.
        let _ = unsafe { munmap(self.base.as_ptr(), self.mapped) };
    }
}

/// # Safety
/// `from` has `bytes` bytes and so has the allocation at `to`; nobody else writes there.
pub unsafe fn copy_in(to: u64, from: *const c_void, bytes: usize) {
    // SAFETY: as promised.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), ptr::with_exposed_provenance_mut(to as usize), bytes) };
}

/// # Safety
/// `to` has room for `bytes` bytes and the allocation at `from` has them; nobody else writes there.
pub unsafe fn copy_out(to: *mut c_void, from: u64, bytes: usize) {
    // SAFETY: as promised.
    unsafe { ptr::copy_nonoverlapping(ptr::with_exposed_provenance::<u8>(from as usize), to.cast(), bytes) };
}

/// What memory is filled with.
#[derive(Clone, Copy, Debug)]
pub enum Pattern {
    Byte(u8),
    Word(u32),
}

/// # Safety
/// The allocation at `to` has `bytes` bytes, a multiple of the pattern's; nobody else writes there.
pub unsafe fn fill(to: u64, pattern: Pattern, bytes: usize) {
    let start = ptr::with_exposed_provenance_mut::<u8>(to as usize);
    match pattern {
        // SAFETY: as promised. Byte for byte it would take seconds without optimisation.
        Pattern::Byte(byte) => unsafe { start.write_bytes(byte, bytes) },
        Pattern::Word(word) => {
            for offset in (0..bytes).step_by(4) {
                // SAFETY: as promised.
                unsafe { start.add(offset).cast::<u32>().write_unaligned(word) };
            }
        }
    }
}

/// What allocations held at some time.
pub struct Snapshot(Vec<(u64, Vec<u8>)>);

impl Snapshot {
    /// Of allocations that stay while the snapshot is in use, and on which nothing else works.
    pub fn of(allocations: &[(u64, usize)]) -> Self {
        Self(allocations.iter().map(|(start, bytes)| (*start, bytes_at(*start, *bytes))).collect())
    }

    /// Changes the first word that is no longer what it was.
    pub fn damage(&self, change: impl Fn(&mut [u8; 4])) {
        for (start, before) in &self.0 {
            let now = bytes_at(*start, before.len());
            let changed = before.iter().zip(&now).position(|(before, now)| before != now);
            let word = changed.and_then(|byte| Some((byte / 4 * 4, *now[byte / 4 * 4..].first_chunk::<4>()?)));
            if let Some((offset, mut word)) = word {
                change(&mut word);
                // SAFETY: the word lies within the allocation, on which nothing else works.
                unsafe { copy_in(start + offset as u64, word.as_ptr().cast(), word.len()) };
                return;
            }
        }
    }
}

fn bytes_at(address: u64, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    // SAFETY: the caller's allocations are there.
    unsafe { copy_out(bytes.as_mut_ptr().cast(), address, count) };
    bytes
}
