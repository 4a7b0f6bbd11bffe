//! What reaches past barriers, and which lines the caches of scalars hold.
//!
//! A line that a scalar load has brought into a cache stays there as it was. So what another wave or block has written is found by a scalar load that comes
//! behind it, unless one of the line may have come before it.

use std::collections::HashMap;

use super::{ARGUMENTS, Buffer, Memory};
use crate::races::Met;
use crate::shadow::Toucher;

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

impl Memory {
    /// Caches of scalars are empty. `prefetches`: they may get any line at any time.
    pub(crate) fn forget_lines(&mut self, prefetches: bool) {
        self.lines = Lines { prefetches, ..Lines::default() };
    }

    /// Notes that a scalar load of a dword brings a line into a cache. `met`: it finds what another wave or block wrote in this launch, no instruction
    /// has emptied the cache, and this is what that comes to if it is old. What is old of this load, or of one that came before.
    pub(crate) fn load_scalars(&mut self, address: u64, by: &Toucher<'_>, met: Option<Met>) -> Option<Met> {
        if self.lines.prefetches {
            return met;
        }
        let (at, offset) = self.find(address, 1)?;
        let line = offset / LINE;
        let early = &mut self.lines.early;
        if early.len() <= at {
            early.resize(at + 1, Vec::new());
        }
        if early[at].len() <= line / 64 {
            early[at].resize(line / 64 + 1, 0);
        }
        if early[at][line / 64] >> (line % 64) & 1 == 1 {
            return met;
        }
        let buffer = self.buffers.get(at)?;
        let mut found = writers(buffer, line, by.launch);
        if found == [0; WORDS] {
            early[at][line / 64] |= 1 << (line % 64);
            return None;
        }
        let is_open = |number: &u32| *number != 0 && !by.comes_after(*number);
        found.iter_mut().filter(|number| is_open(number)).for_each(|number| *number = OPEN);
        let word = offset % LINE / 4;
        let key = buffer.base + (line * LINE) as u64;
        let is_known = self.lines.late.contains_key(&key);
        let late = self.lines.late.entry(key).or_insert(Late { writers: found, trusted: 0, met: None });
        if met.is_some() && (late.writers[word] != found[word] || is_known && found[word] == OPEN) {
            return met;
        }
        for (known, found) in late.writers.iter_mut().zip(found) {
            *known = if *known == found { found } else { OPEN };
        }
        if (0..WORDS).any(|word| late.trusted >> word & 1 == 1 && found[word] == OPEN) {
            return late.met.clone();
        }
        if met.is_some() {
            late.trusted |= 1 << word;
            late.met = met;
        }
        None
    }

    /// A store that was not waited for reaches past a barrier. A conflict is another wave's, which has seen it or will.
    pub(crate) fn carry_over(&mut self, address: u64, bytes: usize, by: &Toucher<'_>) {
        if let Some((at, offset)) = self.find(address, bytes) {
            let buffer = &mut self.buffers[at];
            let _other = buffer.shadow.touch(buffer.bytes.len(), offset, bytes, true, by);
        }
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
