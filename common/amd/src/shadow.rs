//! Who touched a word last, so that two touches which nothing orders are seen.
//!
//! Every wave has a number in every span between two barriers of its block: `block start + span * waves + wave`. Numbers
//! only grow, so one comparison tells what happened in an earlier launch, in another block of this one, or in this block.

use crate::verdict::Other;

/// Set in a reader's number: several waves read it in that span.
const WAVES: u32 = 1 << 31;
/// Set in a reader's number: several blocks of the launch read it.
const BLOCKS: u32 = 1 << 30;
const NUMBER: u32 = BLOCKS - 1;
/// A word whose bytes are looked at one by one, since it was touched in part.
const SPLIT: u32 = u32::MAX;

/// Numbers that a block may use.
pub(crate) const BLOCK_NUMBERS: u32 = 1 << 26;
/// No block begins with a number beyond: all shadows are cleared before.
pub(crate) const LAST_NUMBER: u32 = NUMBER - BLOCK_NUMBERS;

/// The last writer's number and the last reader's; an array, so that those of a large buffer are zeros that cost nothing before they
/// are touched.
type Mark = [u32; 2];
const WRITER: usize = 0;
const READER: usize = 1;

/// A wave between two barriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Toucher {
    /// First number of the launch.
    pub launch: u32,
    /// First number of the block.
    pub block: u32,
    /// How many numbers a span has.
    pub waves: u32,
    pub number: u32,
    /// Whoever has a number below can not conflict: first number of the launch, or in LDS of the span.
    pub quiet: u32,
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

impl Toucher {
    fn span(self, number: u32) -> u32 {
        (number - self.block) / self.waves
    }

    /// The same wave, one barrier later.
    pub fn after_barrier(self) -> Self {
        Self { number: self.number + self.waves, quiet: self.quiet + self.waves, ..self }
    }

    fn against_writer(self, writer: u32) -> Option<Conflict> {
        if writer < self.launch || writer == self.number {
            None
        } else if writer < self.block {
            Some(Conflict::Block { number: writer, wrote: true })
        } else {
            let wave = (writer - self.block) % self.waves;
            let other = (self.number - self.block) % self.waves != wave;
            (other && self.span(writer) >= self.span(self.number)).then_some(Conflict::Wave { wave, wrote: true })
        }
    }

    fn against_reader(self, reader: u32) -> Option<Conflict> {
        let number = reader & NUMBER;
        if number < self.launch || reader == self.number {
            None
        } else if reader & BLOCKS != 0 {
            Some(Conflict::Blocks)
        } else if number < self.block {
            Some(Conflict::Block { number, wrote: false })
        } else if self.span(number) < self.span(self.number) {
            None
        } else if reader & WAVES != 0 {
            Some(Conflict::Waves)
        } else {
            let wave = (number - self.block) % self.waves;
            let other = (self.number - self.block) % self.waves != wave;
            other.then_some(Conflict::Wave { wave, wrote: false })
        }
    }

    fn joined(self, reader: u32) -> u32 {
        let number = reader & NUMBER;
        if number < self.launch || reader == self.number {
            self.number
        } else if number < self.block {
            self.number | BLOCKS
        } else {
            let kept = reader & BLOCKS;
            if self.span(number) < self.span(self.number) {
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
    fn is_quick(self, mark: Mark, write: bool) -> bool {
        let own = |number: u32| number < self.quiet || number == self.number;
        let several = mark[READER] & BLOCKS == 0 && mark[READER] >= WAVES | self.quiet;
        own(mark[WRITER]) && (own(mark[READER]) || !write && several)
    }

    #[inline]
    fn touch(self, mark: &mut Mark, write: bool) -> Option<Conflict> {
        if mark[WRITER] != self.number
            && let Some(conflict) = self.against_writer(mark[WRITER])
        {
            return Some(conflict);
        }
        if mark[READER] != self.number {
            if write {
                if let Some(conflict) = self.against_reader(mark[READER]) {
                    return Some(conflict);
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
}

/// The marks of one buffer or of a block's LDS.
#[derive(Default)]
pub(crate) struct Shadow {
    words: Vec<Mark>,
    bytes: Vec<Mark>,
}

impl Shadow {
    /// Forgets all.
    pub fn clear(&mut self) {
        self.words = Vec::new();
        self.bytes = Vec::new();
    }

    /// Notes a touch of `size` bytes at `offset` of `length`; the first byte that conflicts.
    #[inline]
    pub fn touch(
        &mut self,
        length: usize,
        offset: usize,
        size: usize,
        write: bool,
        by: Toucher,
    ) -> Option<(usize, Conflict)> {
        if offset.is_multiple_of(4) && size.is_multiple_of(4) {
            let first = offset / 4;
            if let Some(marks) = self.words.get_mut(first..first + size / 4)
                && marks.iter().all(|mark| by.is_quick(*mark, write))
            {
                if write {
                    marks.iter_mut().for_each(|mark| mark[WRITER] = by.number);
                } else {
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
        by: Toucher,
    ) -> Option<(usize, Conflict)> {
        if self.words.len() < length.div_ceil(4) {
            self.words = vec![[0; 2]; length.div_ceil(4)];
        }
        if offset.is_multiple_of(4) && size.is_multiple_of(4) {
            let first = offset / 4;
            for (at, mark) in self.words[first..first + size / 4].iter_mut().enumerate() {
                if mark[WRITER] == SPLIT {
                    let byte = offset + at * 4;
                    if let Some(found) = touch_bytes(&mut self.bytes[byte..byte + 4], byte, write, by) {
                        return Some(found);
                    }
                } else if let Some(conflict) = by.touch(mark, write) {
                    return Some((offset + at * 4, conflict));
                }
            }
            return None;
        }
        self.split(offset, size);
        touch_bytes(&mut self.bytes[offset..offset + size], offset, write, by)
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
            }
        }
    }
}

fn touch_bytes(marks: &mut [Mark], offset: usize, write: bool, by: Toucher) -> Option<(usize, Conflict)> {
    for (at, mark) in marks.iter_mut().enumerate() {
        if let Some(conflict) = by.touch(mark, write) {
            return Some((offset + at, conflict));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wave `wave` in span `span` of block `block`, with 4 waves a block and 100 numbers a block.
    fn by(block: u32, span: u32, wave: u32) -> Toucher {
        let start = 1000 + block * 100;
        Toucher { launch: 1000, block: start, waves: 4, number: start + span * 4 + wave, quiet: 1000 }
    }

    fn run(touches: &[(Toucher, usize, usize, bool)]) -> Option<(usize, Conflict)> {
        let mut shadow = Shadow::default();
        touches.iter().find_map(|(by, offset, size, write)| shadow.touch(64, *offset, *size, *write, *by))
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
        let earlier = |block: u32, wave| Toucher { launch: 100, block, waves: 4, number: block + wave, quiet: 100 };
        let before = [(earlier(100, 0), 0, 4, false), (earlier(200, 0), 0, 4, false), (earlier(200, 1), 0, 4, false)];
        let conflict = Conflict::Block { number: by(0, 0, 0).number, wrote: false };
        let now = [(by(0, 0, 0), 0, 4, false), (by(1, 0, 0), 0, 4, true)];
        assert_eq!(run(&[before.as_slice(), &now].concat()), Some((0, conflict)));
    }

    #[test]
    fn blocks_race_whatever_their_barriers() {
        let conflict = Conflict::Block { number: by(0, 3, 2).number, wrote: true };
        assert_eq!(run(&[(by(0, 3, 2), 0, 4, true), (by(1, 0, 0), 0, 4, true)]), Some((0, conflict)));
        let earlier = Toucher { launch: 100, block: 100, waves: 4, number: 101, quiet: 100 };
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
    fn a_write_that_was_not_waited_for_reaches_past_the_barrier() {
        let conflict = Conflict::Wave { wave: 0, wrote: true };
        assert_eq!(run(&[(by(0, 0, 0).after_barrier(), 8, 4, true), (by(0, 1, 1), 8, 4, false)]), Some((8, conflict)));
    }
}
