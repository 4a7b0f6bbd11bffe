//! Touches of many words that need no thought.

use std::ops::Range;

use super::toucher::{How, Toucher};
use crate::registers::LANES;

/// Lanes whose marks are looked at together.
const PIECE: usize = 16;

/// The marks of words. What is done to them here is done as [`Toucher::touch`] does it.
pub(crate) struct Marks<'a> {
    pub(super) writers: &'a mut [u32],
    pub(super) readers: &'a mut [u32],
}

impl Marks<'_> {
    /// Notes a read of words by a plain toucher, if none of them needs a thought: whether it is done.
    #[inline(always)]
    pub fn read(&mut self, words: Range<usize>, by: &Toucher<'_>) -> bool {
        note_reads(&self.writers[words.clone()], &mut self.readers[words], *by).0
    }

    /// The same of so many words from each address on.
    #[inline(always)]
    pub fn read_apart<const WORDS: usize>(&mut self, addresses: &[u32], by: &Toucher<'_>) -> bool {
        // Waves have a multiple of so many lanes.
        let mut all = true;
        for addresses in addresses.as_chunks().0 {
            all &= self.read_piece::<WORDS>(addresses, by);
        }
        all
    }

    #[inline(always)]
    fn read_piece<const WORDS: usize>(&mut self, addresses: &[u32; PIECE], by: &Toucher<'_>) -> bool {
        let writers = gathered::<WORDS>(self.writers, addresses);
        let mut readers = gathered::<WORDS>(self.readers, addresses);
        let (all, changed) = note_reads(writers.as_flattened(), readers.as_flattened_mut(), *by);
        // What a wave reads again has its mark already.
        if changed {
            for (address, readers) in addresses.iter().zip(&readers) {
                self.readers[*address as usize / 4..][..WORDS].copy_from_slice(readers);
            }
        }
        all
    }

    /// Notes a write of words, if none of them needs a thought: whether it is done.
    #[inline(always)]
    pub fn write(&mut self, words: Range<usize>, by: &Toucher<'_>) -> bool {
        let writers = &mut self.writers[words.clone()];
        let all = may_write(writers, &self.readers[words], *by);
        if all {
            writers.fill(by.number);
        }
        all
    }

    /// The same of so many words from each address on, none of which is another address's; nothing is noted otherwise.
    #[inline(always)]
    pub fn write_apart<const WORDS: usize>(&mut self, addresses: &[u32], by: &Toucher<'_>) -> bool {
        let mut all = true;
        for addresses in addresses.chunks(PIECE) {
            let writers = gathered::<WORDS>(self.writers, addresses);
            let readers = gathered::<WORDS>(self.readers, addresses);
            let count = addresses.len();
            all &= may_write(writers[..count].as_flattened(), readers[..count].as_flattened(), *by);
        }
        if !all {
            return false;
        }
        let ascending = addresses.windows(2).fold(true, |all, pair| all & (pair[0] + 4 * WORDS as u32 <= pair[1]));
        if !ascending && !self.are_apart::<WORDS>(addresses) {
            return false;
        }
        addresses.iter().for_each(|address| self.writers[*address as usize / 4..][..WORDS].fill(by.number));
        true
    }

    /// Whether no word is of two addresses: each leaves its number there, and finds it again. Otherwise all is as it was before.
    fn are_apart<const WORDS: usize>(&mut self, addresses: &[u32]) -> bool {
        let mut before = [[0; WORDS]; LANES];
        for (before, addresses) in before.chunks_mut(PIECE).zip(addresses.chunks(PIECE)) {
            before.copy_from_slice(&gathered(self.writers, addresses));
        }
        let words = |address: &u32| *address as usize / 4..*address as usize / 4 + WORDS;
        addresses.iter().zip(0..).for_each(|(address, number)| self.writers[words(address)].fill(number));
        let finds = |(address, number): (&u32, u32)| self.writers[words(address)].iter().all(|of| *of == number);
        let apart = addresses.iter().zip(0..).all(finds);
        if !apart {
            let all = addresses.iter().zip(&before);
            all.for_each(|(address, before)| self.writers[words(address)].copy_from_slice(before));
        }
        apart
    }
}

/// The marks of at most so many addresses.
#[inline(always)]
fn gathered<const WORDS: usize>(marks: &[u32], addresses: &[u32]) -> [[u32; WORDS]; PIECE] {
    let mut all = [[0; WORDS]; PIECE];
    for (words, address) in all.iter_mut().zip(addresses) {
        *words = marks[*address as usize / 4..].first_chunk().copied().unwrap_or([0; WORDS]);
    }
    all
}

#[inline(always)]
fn may_write(writers: &[u32], readers: &[u32], by: Toucher<'_>) -> bool {
    writers
        .iter()
        .zip(readers)
        .fold(true, |all, (writer, reader)| all & by.is_quick_writer(*writer, by.span) & by.is_quick_reader(*reader))
}

/// Whether it is done, and whether any mark is another one now. Two passes, as a store under a condition is slow on some CPUs. The toucher is
/// a copy, as what marks may overlap is loaded again for each.
#[inline(always)]
fn note_reads(writers: &[u32], readers: &mut [u32], by: Toucher<'_>) -> (bool, bool) {
    let readable = by.readable();
    let all = writers.iter().fold(true, |all, writer| all & by.is_quick_writer(*writer, readable));
    let mut changed = 0;
    if all && by.how == How::Plain {
        for reader in readers {
            let joined = by.joined_plainly(*reader);
            changed |= *reader ^ joined;
            *reader = joined;
        }
    }
    (all, changed != 0)
}
