//! Who touched a word last, so that two touches which nothing orders are seen.
//!
//! Every wave has a number in every span between two barriers of its block, and a new one behind every release:
//! `block start + round * waves + wave`. Numbers only grow, so one comparison tells what happened in an earlier launch, in another block
//! of this one, or in this block, and before or behind the last barrier.

mod marks;
mod toucher;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::ops::Range;

pub(crate) use self::marks::Marks;
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
#[cfg_attr(test, derive(Clone, Debug, PartialEq))]
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

    /// The marks of all words of `length` bytes.
    #[inline]
    pub fn marks(&mut self, length: usize) -> Marks<'_> {
        self.room(length);
        Marks { writers: &mut self.writers, readers: &mut self.readers }
    }

    /// Notes that words are touched, if nothing about that needs a thought: whether it is done. `length` is that of all.
    #[inline]
    fn touch_words(&mut self, length: usize, words: Range<usize>, write: bool, by: &Toucher<'_>) -> bool {
        let mut marks = self.marks(length);
        if write { marks.write(words, by) } else { by.is_plain() && marks.read(words, by) }
    }

    /// Notes a touch of `size` bytes at `offset` of `length`; the first byte that conflicts.
    #[inline]
    pub fn touch(&mut self, length: usize, offset: usize, size: usize, write: bool, by: &Toucher<'_>) -> Option<Met> {
        let aligned = offset.is_multiple_of(4) && size.is_multiple_of(4);
        if !matches!(by.how, How::Atomic | How::Store)
            && aligned
            && self.touch_words(length, offset / 4..(offset + size) / 4, write, by)
        {
            return None;
        }
        self.touch_slowly(length, offset, size, write, by)
    }

    /// Notes a touch that reaches past a barrier, and what it meets. Others meet a read, whatever it met itself.
    pub fn carry_over(
        &mut self,
        length: usize,
        offset: usize,
        size: usize,
        write: bool,
        by: &Toucher<'_>,
    ) -> Option<Met> {
        let met = self.touch(length, offset, size, write, by)?;
        for at in (offset..offset + size).filter(|_| !write) {
            let split = self.writers.get(at / 4) == Some(&SPLIT);
            let reader =
                if split { self.bytes.get_mut(at).map(|mark| &mut mark[READER]) } else { self.readers.get_mut(at / 4) };
            if let Some(reader) = reader {
                *reader = by.joined_plainly(*reader);
            }
        }
        Some(met)
    }

    /// The last one that wrote a byte, by its number.
    pub fn writer(&self, offset: usize) -> u32 {
        match self.writers.get(offset / 4) {
            Some(&SPLIT) => self.bytes.get(offset).map_or(0, |mark| mark[WRITER] & NUMBER),
            writer => writer.map_or(0, |writer| writer & NUMBER),
        }
    }

    /// The only one that wrote a word last, by its number; `None` where bytes of it are by several, or several atomics are in no order.
    pub fn only_writer(&self, offset: usize) -> Option<u32> {
        let one = |writer: u32| (writer & ATOMIC == 0 || writer & SEVERAL == 0).then_some(writer & NUMBER);
        match self.writers.get(offset / 4) {
            Some(&SPLIT) => {
                let mut bytes = self.bytes.get(offset..offset + 4)?.iter().map(|mark| one(mark[WRITER]));
                let first = bytes.next()??;
                bytes.all(|writer| writer == Some(first)).then_some(first)
            }
            writer => one(*writer.unwrap_or(&0)),
        }
    }

    /// Where the last touched byte ends; zero where none was.
    pub fn end(&self) -> usize {
        let (writers, readers) = (self.writers.iter(), self.readers.iter());
        let Some(last) = writers.zip(readers).rposition(|(writer, reader)| (writer, reader) != (&0, &0)) else {
            return 0;
        };
        let bytes = match self.writers.get(last) {
            Some(&SPLIT) => self.bytes.get(4 * last..4 * last + 4).unwrap_or_default(),
            _ => &[],
        };
        4 * last + bytes.iter().rposition(|mark| *mark != [0; 2]).map_or(4, |byte| byte + 1)
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

    #[inline]
    fn room(&mut self, length: usize) {
        if self.writers.len() < length.div_ceil(4) {
            self.make_room(length.div_ceil(4));
        }
    }

    #[cold]
    fn make_room(&mut self, words: usize) {
        (self.writers, self.readers) = (vec![0; words], vec![0; words]);
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

fn touch_bytes(marks: &mut [Mark], offset: usize, write: bool, by: &Toucher<'_>, lists: &mut Lists) -> Option<Met> {
    marks.iter_mut().enumerate().find_map(|(at, mark)| by.touch(mark, write, lists, offset + at))
}
