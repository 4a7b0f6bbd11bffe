//! What reaches past barriers, and which lines the caches of scalars hold.
//!
//! A line that a scalar load has brought into a cache stays there as it was. So what another wave or block has written is found by a scalar load that comes
//! behind it, unless one of the line may have come before it.

use std::collections::HashMap;

use super::{ARGUMENTS, Buffer, Memory};
use crate::shadow::{self, Toucher};
use crate::verdict::Met;

/// Bytes of a line: 64 on most targets.
const LINE: usize = 128;
const WORDS: usize = LINE / 4;
/// Of a word: who wrote it may come behind a load of its line.
const OPEN: u32 = u32::MAX;

/// Of one execution of a launch.
#[derive(Default)]
pub(super) struct Lines {
    /// A bit for each line of each buffer that was loaded while nobody had written any of it.
    early: Vec<Vec<u64>>,
    /// Lines that were loaded when somebody had.
    late: HashMap<u64, Late>,
    /// Whether they may also be there without a load.
    prefetches: bool,
    /// By address, the words that scalar stores have written.
    dirty: HashMap<u64, Dirty>,
}

/// A word that a scalar store has written.
pub(crate) struct Dirty {
    /// By which number, and what that comes to.
    pub number: u32,
    pub met: Met,
    /// The number of whoever wrote it back.
    back: Option<u32>,
}

impl Dirty {
    /// Whether it was written back before a touch.
    pub fn is_back(&self, by: &Toucher<'_>) -> bool {
        self.back.is_some_and(|back| !by.is_unordered(back))
    }
}

/// A line that an instruction brings into a cache.
pub(crate) struct Line {
    key: u64,
    /// A bit for each word that may be older there.
    changed: u32,
    /// What a load that came before comes to, as what it found may be old.
    old: Option<Met>,
}

struct Late {
    /// Whose words all loads found.
    writers: [u32; WORDS],
    /// A bit for each word that somebody has loaded for what another one had written.
    trusted: u32,
    /// The last one who did, and what it comes to if that is old.
    met: Option<Met>,
}

/// Who wrote each word of a line last: nobody, one, or [`OPEN`] where that are several.
fn writers(buffer: &Buffer, line: usize, since: u32) -> [u32; WORDS] {
    std::array::from_fn(|word| {
        let first = line * LINE + 4 * word;
        let one = buffer.shadow.only_writer(first);
        one.map_or(OPEN, |writer| if writer < since { 0 } else { writer })
    })
}

impl Lines {
    /// A line is loaded, whose words these have written.
    fn bring(&mut self, key: u64, mut found: [u32; WORDS], by: &Toucher<'_>) -> Line {
        let is_open = |number: &u32| *number != 0 && !by.comes_after(*number);
        found.iter_mut().filter(|number| is_open(number)).for_each(|number| *number = OPEN);
        let is_known = self.late.contains_key(&key);
        let late = self.late.entry(key).or_insert(Late { writers: found, trusted: 0, met: None });
        let (mut changed, mut is_old) = (0, false);
        for (word, (known, found)) in late.writers.iter_mut().zip(found).enumerate() {
            changed |= u32::from(*known != found || is_known && found == OPEN) << word;
            is_old |= late.trusted >> word & 1 == 1 && found == OPEN;
            *known = if *known == found { found } else { OPEN };
        }
        Line { key, changed, old: late.met.clone().filter(|_| is_old) }
    }
}

impl Memory {
    /// Caches of scalars are empty. `prefetches`: they may get any line at any time.
    pub(crate) fn forget_lines(&mut self, prefetches: bool) {
        self.lines = Lines { prefetches, ..Lines::default() };
    }

    /// Notes that a scalar load of a dword brings a line into a cache. `met`: it finds what another wave or block wrote in this launch, no instruction
    /// has emptied the cache, and this is what that comes to if it is old. What is old of this load, or of one that came before. `line` is the one that the
    /// instruction has looked at last.
    pub(crate) fn load_scalars(
        &mut self,
        address: u64,
        by: &Toucher<'_>,
        met: Option<Met>,
        line: &mut Option<Line>,
    ) -> Option<Met> {
        if self.lines.prefetches {
            return met;
        }
        let (at, offset) = self.find(address, 1)?;
        let number = offset / LINE;
        let early = &mut self.lines.early;
        if early.len() <= at {
            early.resize(at + 1, Vec::new());
        }
        if early[at].len() <= number / 64 {
            early[at].resize(number / 64 + 1, 0);
        }
        if early[at][number / 64] >> (number % 64) & 1 == 1 {
            return met;
        }
        let buffer = self.buffers.get(at)?;
        let key = buffer.base + (number * LINE) as u64;
        if line.as_ref().is_none_or(|line| line.key != key) {
            let found = writers(buffer, number, by.launch);
            if found == [0; WORDS] {
                early[at][number / 64] |= 1 << (number % 64);
                return None;
            }
            *line = Some(self.lines.bring(key, found, by));
        }
        let Line { changed, old, .. } = line.as_ref()?;
        let word = offset % LINE / 4;
        if met.is_some() && changed >> word & 1 == 1 {
            return met;
        }
        if old.is_some() {
            return old.clone();
        }
        if let (Some(late), true) = (self.lines.late.get_mut(&key), met.is_some()) {
            late.trusted |= 1 << word;
            late.met = met;
        }
        None
    }

    /// What a scalar store wrote is in the cache of its unit alone.
    pub(crate) fn soil(&mut self, address: u64, number: u32, met: Met) {
        self.lines.dirty.insert(address, Dirty { number, met, back: None });
    }

    /// What a wave has stored by scalars, and what came before it in its block, is written back.
    pub(crate) fn write_back_scalars(&mut self, by: &Toucher<'_>) {
        let all = self.lines.dirty.values_mut().filter(|of| of.back.is_none());
        let is_done = |of: &&mut Dirty| (by.block..by.end).contains(&of.number) && !by.is_unordered(of.number);
        all.filter(is_done).for_each(|of| of.back = Some(by.number));
    }

    /// Whether scalar stores have written anything that other caches may not have.
    #[inline]
    pub(crate) fn is_soiled(&self) -> bool {
        !self.lines.dirty.is_empty()
    }

    /// The words of a range that scalar stores have written: where each is from its beginning.
    pub(crate) fn soiled(&self, address: u64, bytes: usize) -> impl Iterator<Item = (i64, &Dirty)> {
        let words = (address & !3..address + bytes as u64).step_by(4);
        words.filter_map(move |word| Some((word.wrapping_sub(address) as i64, self.lines.dirty.get(&word)?)))
    }

    /// Words are written otherwise.
    pub(crate) fn clean(&mut self, address: u64, bytes: usize) {
        (address & !3..address + bytes as u64).step_by(4).for_each(|word| _ = self.lines.dirty.remove(&word));
    }

    /// An access that was not waited for reaches past a barrier. What it meets.
    pub(crate) fn carry_over(
        &mut self,
        address: u64,
        bytes: usize,
        writes: bool,
        by: &Toucher<'_>,
    ) -> Option<shadow::Met> {
        let (at, offset) = self.find(address, bytes)?;
        let buffer = &mut self.buffers[at];
        buffer.shadow.carry_over(buffer.bytes.len(), offset, bytes, writes, by)
    }

    /// Whether an address is among the arguments of the launch, which nothing changes.
    pub(crate) fn is_of_arguments(&self, address: u64) -> bool {
        self.find(address, 1).and_then(|(at, _)| self.buffers.get(at)).is_some_and(|buffer| buffer.name == ARGUMENTS)
    }

    /// The number of whoever wrote a place last.
    pub(crate) fn writer(&self, address: u64) -> u32 {
        self.find(address, 1).and_then(|(at, offset)| Some(self.buffers.get(at)?.shadow.writer(offset))).unwrap_or(0)
    }
}
