//! Who touched a word last, so that two touches which nothing orders are seen.
//!
//! Every wave has a number in every span between two barriers of its block, and a new one behind every release:
//! `block start + round * waves + wave`. Numbers only grow, so one comparison tells what happened in an earlier launch, in another block
//! of this one, or in this block, and before or behind the last barrier.

use std::collections::HashMap;

use crate::order::Clock;
use crate::verdict::Other;

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
/// No block begins with a number beyond: all shadows are cleared before.
pub(crate) const LAST_NUMBER: u32 = NUMBER - BLOCK_NUMBERS - 1;

/// The last writer's number and the last reader's; an array, so that those of a large buffer are zeros that cost nothing before they
/// are touched.
type Mark = [u32; 2];
const WRITER: usize = 0;
const READER: usize = 1;

/// How a place is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Plain,
    /// A load or store that is an atomic one; whether somebody released something there, or the wave itself holds the place.
    Sync {
        handed: bool,
    },
    /// An atomic that reads and writes.
    Atomic,
}

/// A wave between two barriers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Toucher<'a> {
    /// First number of the launch.
    pub launch: u32,
    /// First number of the block.
    pub block: u32,
    /// Waves of the block: a wave's numbers are that far apart.
    pub waves: u32,
    pub number: u32,
    /// First number behind the last barrier.
    pub span: u32,
    /// Whoever has a number below can not conflict: first number of the launch, or in LDS of the span.
    pub quiet: u32,
    /// What else comes before.
    pub clock: &'a Clock,
    pub how: How,
}

/// A touch that nothing orders against this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conflict {
    Wave {
        wave: u32,
        wrote: bool,
    },
    Waves,
    /// A wave's number in another block.
    Block {
        number: u32,
        wrote: bool,
    },
    Blocks,
}

/// A conflict, where it was met, and whether the other one's touch was an atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Met {
    pub at: usize,
    pub conflict: Conflict,
    pub atomic: bool,
}

impl Conflict {
    pub fn wrote(self) -> bool {
        match self {
            Self::Wave { wrote, .. } | Self::Block { wrote, .. } => wrote,
            Self::Waves | Self::Blocks => false,
        }
    }

    pub fn other(self, block_of: impl Fn(u32) -> [u32; 3]) -> Other {
        match self {
            Self::Wave { wave, .. } => Other::Wave(wave),
            Self::Waves => Other::Waves,
            Self::Block { number, .. } => Other::Block(block_of(number)),
            Self::Blocks => Other::Blocks,
        }
    }
}

impl<'a> Toucher<'a> {
    pub fn touching(self, how: How) -> Self {
        Self { how, ..self }
    }

    fn is_own(self, number: u32) -> bool {
        number >= self.block && (number - self.block) % self.waves == (self.number - self.block) % self.waves
    }

    /// Whether nothing orders a touch of that number, of this launch or an earlier one, before this one.
    fn is_unordered(self, number: u32) -> bool {
        number >= self.launch
            && !self.is_own(number)
            && (number < self.block || number >= self.span)
            && !self.clock.contains(number)
    }

    fn against_writer(self, writer: u32) -> Option<Conflict> {
        if !self.is_unordered(writer) {
            None
        } else if writer < self.block {
            Some(Conflict::Block { number: writer, wrote: true })
        } else {
            Some(Conflict::Wave { wave: (writer - self.block) % self.waves, wrote: true })
        }
    }

    fn against_reader(self, reader: u32) -> Option<Conflict> {
        let number = reader & NUMBER;
        // Of several, the last stands for all.
        if number < self.launch || reader == self.number || self.clock.contains(number) {
            None
        } else if reader & BLOCKS != 0 {
            Some(Conflict::Blocks)
        } else if number < self.block {
            Some(Conflict::Block { number, wrote: false })
        } else if number < self.span {
            None
        } else if reader & WAVES != 0 {
            Some(Conflict::Waves)
        } else {
            let wave = (number - self.block) % self.waves;
            (!self.is_own(number)).then_some(Conflict::Wave { wave, wrote: false })
        }
    }

    fn joined(self, reader: u32) -> u32 {
        let number = reader & NUMBER;
        if number < self.launch || reader == self.number || self.clock.contains(number) {
            self.number
        } else if number < self.block {
            self.number | BLOCKS
        } else {
            let kept = reader & BLOCKS;
            if number < self.span || reader & WAVES == 0 && self.is_own(number) {
                self.number | kept
            } else if number == self.number {
                reader
            } else {
                // Also where a read that was not waited for reaches into the next span.
                number.max(self.number) | kept | WAVES
            }
        }
    }

    /// Whether a mark can not conflict and needs no thought: of whoever is quiet, of the wave itself, or, for reads, of several waves
    /// in this span.
    #[inline]
    fn is_quick(&self, mark: Mark, write: bool) -> bool {
        let own = |number: u32| number < self.quiet || number == self.number;
        let several = mark[READER] & BLOCKS == 0 && mark[READER] >= WAVES | self.quiet;
        own(mark[WRITER]) && (own(mark[READER]) || !write && several)
    }

    /// `at` is the place, whose atomics by several are in `lists`.
    fn touch(self, mark: &mut Mark, write: bool, lists: &mut Lists, at: usize) -> Option<Met> {
        let writer = mark[WRITER];
        let met = |conflict, atomic| Some(Met { at, conflict, atomic });
        if writer & ATOMIC != 0 {
            let number = writer & NUMBER;
            let releases = write && self.how == How::Sync { handed: true };
            if self.how == How::Atomic || releases {
                let list = lists.get(&at).filter(|_| writer & SEVERAL != 0);
                let plain = list.into_iter().flatten().filter(|number| *number & PLAIN != 0);
                if let Some(conflict) = plain.into_iter().find_map(|number| self.against_writer(number & NUMBER)) {
                    return met(conflict, false);
                }
                mark[WRITER] = self.number | ATOMIC | self.listed(writer, lists, at);
                return self.after_reader(mark).and_then(|conflict| met(conflict, true));
            }
            if let How::Plain | How::Sync { .. } = self.how
                && (write || self.how == How::Plain)
            {
                let list = lists.get(&at).filter(|_| writer & SEVERAL != 0);
                let others = list.into_iter().flatten().copied().chain([number]);
                if let Some(conflict) = others.into_iter().find_map(|number| self.against_writer(number & NUMBER)) {
                    return met(conflict, true);
                }
            }
        } else if writer != self.number
            && (write || self.how != (How::Sync { handed: true }))
            && let Some(conflict) = self.against_writer(writer)
        {
            return met(conflict, false);
        }
        match self.how {
            How::Atomic => {
                mark[WRITER] = self.number | ATOMIC;
                // What nobody can conflict with need not be remembered.
                if writer >= self.quiet {
                    mark[WRITER] |= SEVERAL;
                    lists.insert(at, vec![writer | PLAIN]);
                }
                return self.after_reader(mark).and_then(|conflict| met(conflict, true));
            }
            How::Sync { .. } if !write => return None,
            _ => {}
        }
        if mark[READER] != self.number {
            if write {
                if let Some(conflict) = self.against_reader(mark[READER]) {
                    return met(conflict, false);
                }
            } else {
                mark[READER] = self.joined(mark[READER]);
            }
        }
        if write {
            mark[WRITER] = self.number;
        }
        None
    }

    /// The one wave that read a place plainly before this atomic, and that nothing orders. What the wave itself read is explained by it.
    fn after_reader(self, mark: &mut Mark) -> Option<Conflict> {
        let reader = mark[READER];
        if reader & (WAVES | BLOCKS) != 0 {
            return None;
        }
        if self.is_own(reader) {
            mark[READER] = 0;
            return None;
        }
        self.against_reader(reader)
    }

    /// Notes in the list of a place who touched it with atomics that do not come before this one; the flag that says that there are some.
    fn listed(self, writer: u32, lists: &mut Lists, at: usize) -> u32 {
        let number = writer & NUMBER;
        let unordered = self.is_unordered(number);
        if writer & SEVERAL == 0 && !unordered {
            return 0;
        }
        let list = lists.entry(at).or_default();
        if writer & SEVERAL == 0 {
            list.clear();
        }
        list.retain(|of| *of & PLAIN != 0 || self.is_unordered(*of));
        // One of each wave is enough: its others came before.
        if unordered {
            let same = |of: &u32| {
                *of & PLAIN == 0
                    && *of >= self.block
                    && number >= self.block
                    && (of - self.block) % self.waves == (number - self.block) % self.waves
            };
            list.retain(|of| !same(of));
            list.push(number);
        }
        if list.is_empty() {
            lists.remove(&at);
            return 0;
        }
        SEVERAL
    }
}

type Lists = HashMap<usize, Vec<u32>>;

/// The marks of one buffer or of a block's LDS.
#[derive(Default)]
pub(crate) struct Shadow {
    words: Vec<Mark>,
    bytes: Vec<Mark>,
    /// By place, who touched it with atomics, besides the last one.
    lists: Lists,
}

impl Shadow {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.words = Vec::new();
        self.bytes = Vec::new();
        self.lists = HashMap::new();
    }

    /// Notes a touch of `size` bytes at `offset` of `length`; the first byte that conflicts.
    #[inline]
    pub fn touch(&mut self, length: usize, offset: usize, size: usize, write: bool, by: &Toucher<'_>) -> Option<Met> {
        if by.how != How::Atomic && offset.is_multiple_of(4) && size.is_multiple_of(4) {
            let first = offset / 4;
            if let Some(marks) = self.words.get_mut(first..first + size / 4)
                && marks.iter().all(|mark| by.is_quick(*mark, write))
            {
                if write {
                    marks.iter_mut().for_each(|mark| mark[WRITER] = by.number);
                } else if by.how == How::Plain {
                    // Where several waves read in this span, that stays said.
                    marks.iter_mut().for_each(|mark| mark[READER] = mark[READER].max(by.number));
                }
                return None;
            }
        }
        self.touch_slowly(length, offset, size, write, by)
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
        if self.words.len() < length.div_ceil(4) {
            self.words = vec![[0; 2]; length.div_ceil(4)];
        }
        if offset.is_multiple_of(4) && size.is_multiple_of(4) {
            let first = offset / 4;
            let mut noted = None;
            for (at, mark) in self.words[first..first + size / 4].iter_mut().enumerate() {
                if mark[WRITER] == SPLIT {
                    let byte = offset + at * 4;
                    let found = touch_bytes(&mut self.bytes[byte..byte + 4], byte, write, by, &mut self.lists);
                    noted = noted.or(found);
                } else {
                    noted = noted.or(by.touch(mark, write, &mut self.lists, offset + at * 4));
                }
                // What an atomic meets is only noted.
                if noted.is_some() && by.how != How::Atomic {
                    break;
                }
            }
            return noted;
        }
        self.split(offset, size);
        touch_bytes(&mut self.bytes[offset..offset + size], offset, write, by, &mut self.lists)
    }

    fn split(&mut self, offset: usize, size: usize) {
        if self.bytes.len() < self.words.len() * 4 {
            self.bytes = vec![[0; 2]; self.words.len() * 4];
        }
        for word in offset / 4..(offset + size).div_ceil(4) {
            let mark = self.words[word];
            if mark[WRITER] != SPLIT {
                self.bytes[word * 4..word * 4 + 4].fill(mark);
                self.words[word] = [SPLIT, 0];
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Wave `wave` in span `span` of block `block`, with 4 waves a block and 100 numbers a block.
    fn by(block: u32, span: u32, wave: u32) -> Toucher<'static> {
        let start = 1000 + block * 100;
        let (number, span) = (start + span * 4 + wave, start + span * 4);
        Toucher { launch: 1000, block: start, waves: 4, number, span, quiet: 1000, clock: none(), how: How::Plain }
    }

    fn none() -> &'static Clock {
        Box::leak(Box::default())
    }

    fn run(touches: &[(Toucher<'_>, usize, usize, bool)]) -> Option<(usize, Conflict)> {
        let mut shadow = Shadow::default();
        let mut touch = |(by, offset, size, write): &(Toucher<'_>, usize, usize, bool)| {
            shadow.touch(64, *offset, *size, *write, by)
        };
        touches.iter().find_map(&mut touch).map(|met| (met.at, met.conflict))
    }

    #[test]
    fn waves_race_within_a_span_and_not_across_a_barrier() {
        let wrote = Conflict::Wave { wave: 0, wrote: true };
        assert_eq!(run(&[(by(0, 0, 0), 8, 8, true), (by(0, 0, 1), 12, 4, false)]), Some((12, wrote)));
        assert_eq!(run(&[(by(0, 0, 0), 8, 8, true), (by(0, 1, 1), 12, 4, false)]), None);
        let read = Conflict::Wave { wave: 0, wrote: false };
        assert_eq!(run(&[(by(0, 0, 0), 8, 4, false), (by(0, 0, 1), 8, 4, true)]), Some((8, read)));
        assert_eq!(run(&[(by(0, 0, 0), 8, 4, false), (by(0, 1, 1), 8, 4, true)]), None);
        assert_eq!(run(&[(by(0, 0, 0), 8, 4, true), (by(0, 0, 0), 8, 4, false), (by(0, 0, 0), 8, 4, true)]), None);
    }

    #[test]
    fn a_second_reader_does_not_hide_the_first() {
        let touches = [(by(0, 0, 0), 8, 4, false), (by(0, 0, 1), 8, 4, false), (by(0, 0, 1), 8, 4, true)];
        assert_eq!(run(&touches), Some((8, Conflict::Waves)));
        let touches = [(by(0, 0, 0), 8, 4, false), (by(1, 0, 1), 8, 4, false), (by(1, 5, 1), 8, 4, true)];
        assert_eq!(run(&touches), Some((8, Conflict::Blocks)));
    }

    #[test]
    fn what_earlier_launches_did_hides_nothing() {
        let earlier = |block: u32, wave| Toucher {
            launch: 100,
            block,
            number: block + wave,
            span: block,
            quiet: 100,
            ..by(0, 0, 0)
        };
        let before = [(earlier(100, 0), 0, 4, false), (earlier(200, 0), 0, 4, false), (earlier(200, 1), 0, 4, false)];
        let conflict = Conflict::Block { number: by(0, 0, 0).number, wrote: false };
        let now = [(by(0, 0, 0), 0, 4, false), (by(1, 0, 0), 0, 4, true)];
        assert_eq!(run(&[before.as_slice(), &now].concat()), Some((0, conflict)));
    }

    #[test]
    fn blocks_race_whatever_their_barriers() {
        let conflict = Conflict::Block { number: by(0, 3, 2).number, wrote: true };
        assert_eq!(run(&[(by(0, 3, 2), 0, 4, true), (by(1, 0, 0), 0, 4, true)]), Some((0, conflict)));
        let earlier = Toucher { launch: 100, block: 100, number: 101, span: 100, quiet: 100, ..by(0, 0, 0) };
        assert_eq!(run(&[(earlier, 0, 4, true), (by(1, 0, 0), 0, 4, true)]), None);
    }

    #[test]
    fn halves_of_a_word_are_told_apart() {
        assert_eq!(run(&[(by(0, 0, 0), 8, 2, true), (by(0, 0, 1), 10, 2, true)]), None);
        let conflict = Conflict::Wave { wave: 1, wrote: true };
        let touches = [(by(0, 0, 0), 8, 2, true), (by(0, 0, 1), 10, 2, true), (by(0, 0, 0), 8, 4, false)];
        assert_eq!(run(&touches), Some((10, conflict)));
        let whole = Conflict::Wave { wave: 0, wrote: true };
        assert_eq!(run(&[(by(0, 0, 0), 8, 4, true), (by(0, 0, 1), 10, 1, true)]), Some((10, whole)));
    }

    #[test]
    fn a_write_of_this_span_is_not_ordered() {
        let conflict = Conflict::Wave { wave: 0, wrote: true };
        assert_eq!(run(&[(by(0, 1, 0), 8, 4, true), (by(0, 1, 1), 8, 4, false)]), Some((8, conflict)));
    }

    #[test]
    fn atomics_race_with_plain_touches_and_not_with_each_other() {
        let atomic = |wave| by(0, 0, wave).touching(How::Atomic);
        assert_eq!(run(&[(atomic(0), 8, 4, true), (atomic(1), 8, 4, true), (atomic(0), 8, 4, true)]), None);
        let conflict = Conflict::Wave { wave: 0, wrote: true };
        assert_eq!(run(&[(atomic(0), 8, 4, true), (by(0, 0, 1), 8, 4, false)]), Some((8, conflict)));
        // The last of several is the reader itself.
        let touches = [(atomic(0), 8, 4, true), (atomic(1), 8, 4, true), (by(0, 0, 1), 8, 4, false)];
        assert_eq!(run(&touches), Some((8, conflict)));
        assert_eq!(run(&[(atomic(0), 8, 4, true), (atomic(1), 8, 4, true), (by(0, 1, 1), 8, 4, true)]), None);
        assert_eq!(run(&[(by(0, 0, 0), 8, 4, true), (atomic(1), 8, 4, true)]), Some((8, conflict)));
        let other = by(1, 0, 0).touching(How::Atomic);
        let block = Conflict::Block { number: by(1, 0, 0).number, wrote: true };
        assert_eq!(run(&[(other, 8, 4, true), (by(2, 0, 0), 8, 4, true)]), Some((8, block)));
    }

    #[test]
    fn what_a_clock_knows_comes_before() {
        let known = Clock::of(crate::order::Entry { start: 1000, end: 1000, waves: 4, heads: vec![(0, 1000)] });
        let after = Toucher { clock: &known, ..by(0, 0, 1) };
        assert_eq!(run(&[(by(0, 0, 0), 8, 4, true), (after, 8, 4, false), (after, 8, 4, true)]), None);
        let other = Toucher { clock: &known, ..by(1, 0, 1) };
        assert_eq!(run(&[(by(0, 0, 0), 8, 4, true), (other, 8, 4, true)]), None);
        let conflict = Conflict::Block { number: 1001, wrote: true };
        assert_eq!(run(&[(by(0, 0, 1), 8, 4, true), (other, 8, 4, true)]), Some((8, conflict)));
    }
}
