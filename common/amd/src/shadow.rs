//! Who touched a word last, so that two touches which nothing orders are seen.
//!
//! Every wave has a number in every span between two barriers of its block, and a new one behind every release:
//! `block start + round * waves + wave`. Numbers only grow, so one comparison tells what happened in an earlier launch, in another block
//! of this one, or in this block, and before or behind the last barrier.

mod toucher;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

pub(crate) use self::toucher::{Conflict, How, Met, Toucher};

/// Set in a reader's number: several waves read it in that span.
const WAVES: u32 = 1 << 31;
/// Set in a reader's number: several blocks of the launch read it.
const BLOCKS: u32 = 1 << 30;
/// Set in a writer's number: it wrote with an atomic.
const ATOMIC: u32 = 1 << 31;
/// Set in a number of a list: it wrote plainly, and an atomic of somebody who came after it is what the mark says.
const PLAIN: u32 = 1 << 31;
/// Set in such a number: others did that it does not come after; they are in a list.
const SEVERAL: u32 = 1 << 30;
const NUMBER: u32 = BLOCKS - 1;
/// A word whose bytes are looked at one by one, since it was touched in part.
const SPLIT: u32 = u32::MAX;

/// Numbers that a block may use.
pub(crate) const BLOCK_NUMBERS: u32 = 1 << 26;
/// Rounds that a block has left which others overtake.
pub(crate) const SPARE_ROUNDS: u32 = 1 << 12;
/// No block begins with a number beyond: all shadows are cleared before.
pub(crate) const LAST_NUMBER: u32 = NUMBER - BLOCK_NUMBERS - 1;

/// The last writer's number and the last reader's.
type Mark = [u32; 2];
const WRITER: usize = 0;
const READER: usize = 1;

/// By place, who touched it with atomics.
type Lists = HashMap<usize, Vec<u32>>;

/// The marks of one buffer or of a block's LDS. Those of a large buffer are zeros that cost nothing before they are touched.
#[derive(Default)]
pub(crate) struct Shadow {
    writers: Vec<u32>,
    readers: Vec<u32>,
    bytes: Vec<Mark>,
    /// By place, who touched it with atomics, besides the last one.
    lists: Lists,
}

impl Shadow {
    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Notes that words are touched, if nothing about that needs a thought: whether it is done. `length` is that of all.
    #[inline]
    pub fn touch_words(&mut self, length: usize, first: usize, count: usize, write: bool, by: &Toucher<'_>) -> bool {
        let (Some(writers), Some(readers)) =
            (self.writers.get_mut(first..first + count), self.readers.get_mut(first..first + count))
        else {
            self.room(length);
            return false;
        };
        if !write && !by.is_plain() {
            return false;
        }
        note(writers, readers, write, by)
    }

    /// The same of words apart from each other, `count` from each of `firsts` on, which are there.
    #[inline]
    pub fn touch_apart(&mut self, length: usize, firsts: &[u32], count: usize, write: bool, by: &Toucher<'_>) -> bool {
        if self.writers.len() < length.div_ceil(4) {
            self.room(length);
        }
        let mut quick = write || by.is_plain();
        for first in firsts {
            let words = *first as usize..*first as usize + count;
            quick = quick && note(&mut self.writers[words.clone()], &mut self.readers[words], write, by);
        }
        quick
    }

    /// Notes a touch of `size` bytes at `offset` of `length`; the first byte that conflicts.
    #[inline]
    pub fn touch(&mut self, length: usize, offset: usize, size: usize, write: bool, by: &Toucher<'_>) -> Option<Met> {
        let aligned = offset.is_multiple_of(4) && size.is_multiple_of(4);
        if by.how != How::Atomic && aligned && self.touch_words(length, offset / 4, size / 4, write, by) {
            return None;
        }
        self.touch_slowly(length, offset, size, write, by)
    }

    /// The last one that wrote a byte, by its number.
    pub fn writer(&self, offset: usize) -> u32 {
        match self.writers.get(offset / 4) {
            Some(&SPLIT) => self.bytes.get(offset).map_or(0, |mark| mark[WRITER] & NUMBER),
            writer => writer.map_or(0, |writer| writer & NUMBER),
        }
    }

    /// Notes a write, whatever it conflicts with.
    pub fn overwrite(&mut self, offset: usize, size: usize, by: &Toucher<'_>) {
        for at in offset..offset + size {
            match self.writers.get_mut(at / 4) {
                Some(&mut SPLIT) => {
                    if let Some(mark) = self.bytes.get_mut(at) {
                        mark[WRITER] = by.number;
                    }
                }
                Some(writer) => *writer = by.number,
                None => {}
            }
        }
    }

    fn room(&mut self, length: usize) {
        let words = length.div_ceil(4);
        if self.writers.len() < words {
            (self.writers, self.readers) = (vec![0; words], vec![0; words]);
        }
    }

    #[inline(never)]
    fn touch_slowly(
        &mut self,
        length: usize,
        offset: usize,
        size: usize,
        write: bool,
        by: &Toucher<'_>,
    ) -> Option<Met> {
        self.room(length);
        if !offset.is_multiple_of(4) || !size.is_multiple_of(4) {
            self.split(offset, size);
            return touch_bytes(&mut self.bytes[offset..offset + size], offset, write, by, &mut self.lists);
        }
        let mut noted = None;
        for word in offset / 4..(offset + size) / 4 {
            let at = 4 * word;
            let found = if self.writers[word] == SPLIT {
                touch_bytes(&mut self.bytes[at..at + 4], at, write, by, &mut self.lists)
            } else {
                let mut mark = [self.writers[word], self.readers[word]];
                let found = by.touch(&mut mark, write, &mut self.lists, at);
                [self.writers[word], self.readers[word]] = mark;
                found
            };
            noted = noted.or(found);
            // What an atomic meets is only noted.
            if noted.is_some() && by.how != How::Atomic {
                break;
            }
        }
        noted
    }

    fn split(&mut self, offset: usize, size: usize) {
        if self.bytes.len() < self.writers.len() * 4 {
            self.bytes = vec![[0; 2]; self.writers.len() * 4];
        }
        for word in offset / 4..(offset + size).div_ceil(4) {
            let mark = [self.writers[word], self.readers[word]];
            if mark[WRITER] != SPLIT {
                self.bytes[word * 4..word * 4 + 4].fill(mark);
                (self.writers[word], self.readers[word]) = (SPLIT, 0);
                if mark[WRITER] & (ATOMIC | SEVERAL) == ATOMIC | SEVERAL {
                    let list = self.lists.remove(&(word * 4)).unwrap_or_default();
                    (0..4).for_each(|byte| _ = self.lists.insert(word * 4 + byte, list.clone()));
                }
            }
        }
    }
}

/// Notes a touch of each word that needs no thought: what is done here is done as [`Toucher::touch`] does it. Whether that is all of them.
#[inline(always)]
fn note(writers: &mut [u32], readers: &mut [u32], write: bool, by: &Toucher<'_>) -> bool {
    let mut all = true;
    if write {
        for (writer, reader) in writers.iter_mut().zip(readers.iter()) {
            let quick = by.is_quick_writer(*writer, by.span) & by.is_quick_reader(*reader);
            *writer = if quick { by.number } else { *writer };
            all &= quick;
        }
        return all;
    }
    let (readable, marks) = (by.readable(), by.how == How::Plain);
    for (writer, reader) in writers.iter().zip(readers) {
        let quick = by.is_quick_writer(*writer, readable);
        *reader = if quick & marks { by.joined_plainly(*reader) } else { *reader };
        all &= quick;
    }
    all
}

fn touch_bytes(marks: &mut [Mark], offset: usize, write: bool, by: &Toucher<'_>, lists: &mut Lists) -> Option<Met> {
    marks.iter_mut().enumerate().find_map(|(at, mark)| by.touch(mark, write, lists, offset + at))
}
