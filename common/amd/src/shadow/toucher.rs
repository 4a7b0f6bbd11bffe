//! Who touches a place, and what comes before that.

use super::{ATOMIC, BLOCKS, Lists, Mark, NUMBER, PLAIN, READER, SEVERAL, WAVES, WRITER};
use crate::order::Clock;
use crate::verdict::Other;

/// How a place is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Plain,
    /// A load or store that is an atomic one; whether somebody released something there, or the wave itself holds the place.
    Sync {
        handed: bool,
    },
    /// A plain store to a place that the wave has changed with an atomic whose old value it was given.
    Held,
    /// An atomic that only writes.
    Store,
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
    /// Behind the last number of the block.
    pub end: u32,
    /// Waves of the block: a wave's numbers are that far apart.
    pub waves: u32,
    pub number: u32,
    /// First number behind the last barrier.
    pub span: u32,
    /// What other waves of the block wrote from this number on may be in no cache of this one as it is.
    pub fresh: u32,
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
    /// Somebody among several readers, of which the mark has the last one: who they all are is to be found out. The touch is noted.
    Unsure,
    /// A barrier or an atomic orders it, but caches may hold what was there before.
    Stale {
        wave: u32,
    },
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
            Self::Waves | Self::Blocks | Self::Unsure => false,
            Self::Stale { .. } => true,
        }
    }

    pub fn other(self, block_of: impl Fn(u32) -> [u32; 3]) -> Other {
        match self {
            Self::Wave { wave, .. } | Self::Stale { wave } => Other::Wave(wave),
            Self::Waves | Self::Unsure => Other::Waves,
            Self::Block { number, .. } => Other::Block(block_of(number)),
            Self::Blocks => Other::Blocks,
        }
    }
}

impl<'a> Toucher<'a> {
    pub fn touching(self, how: How) -> Self {
        Self { how, ..self }
    }

    /// Whether a number is one of the block's.
    fn is_of_block(self, number: u32) -> bool {
        number >= self.block && number < self.end
    }

    fn is_own(self, number: u32) -> bool {
        self.is_of_block(number) && (number - self.block) % self.waves == (self.number - self.block) % self.waves
    }

    /// Whether nothing orders a touch of that number, of this launch or an earlier one, before this one.
    pub(crate) fn is_unordered(self, number: u32) -> bool {
        number >= self.launch
            && !self.is_own(number)
            && (!self.is_of_block(number) || number >= self.span)
            && !self.clock.contains(number)
    }

    /// Whether a touch of that number, of another wave, comes before this one.
    pub fn comes_after(&self, number: u32) -> bool {
        !self.is_unordered(number) && !self.is_own(number)
    }

    fn against_writer(self, writer: u32) -> Option<Conflict> {
        if !self.is_unordered(writer) {
            None
        } else if self.is_of_block(writer) {
            Some(Conflict::Wave { wave: (writer - self.block) % self.waves, wrote: true })
        } else {
            Some(Conflict::Block { number: writer, wrote: true })
        }
    }

    /// What a plain read meets that comes behind a write of its block, but may find what was there before it.
    fn against_stale(self, writer: u32) -> Option<Conflict> {
        let number = writer & NUMBER;
        let stale = number >= self.fresh && self.is_of_block(number) && !self.is_own(number) && self.how == How::Plain;
        stale.then(|| Conflict::Stale { wave: (number - self.block) % self.waves })
    }

    pub(crate) fn against_reader(self, reader: u32) -> Option<Conflict> {
        let number = reader & NUMBER;
        // Of several, the last stands for all: see [`Self::is_unsure`].
        if number < self.launch || reader == self.number || self.clock.contains(number) {
            None
        } else if reader & BLOCKS != 0 {
            Some(Conflict::Blocks)
        } else if !self.is_of_block(number) {
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

    /// Whether some of several readers may not come before this touch, though the last one does.
    fn is_unsure(self, reader: u32) -> bool {
        let number = reader & NUMBER;
        let of_block = self.is_of_block(number) && number < self.span || self.clock.contains_all_to(number);
        reader & (WAVES | BLOCKS) != 0
            && number >= self.launch
            && self.clock.contains(number)
            && (reader & BLOCKS != 0 || !of_block)
    }

    fn joined(self, reader: u32) -> u32 {
        let number = reader & NUMBER;
        if number < self.launch || reader == self.number || self.clock.contains(number) {
            self.number
        } else if !self.is_of_block(number) {
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

    /// Whether a write of that number needs no thought: of whoever is quiet, of the wave itself, or of the block before a number.
    #[inline(always)]
    pub(super) fn is_quick_writer(&self, writer: u32, before: u32) -> bool {
        (writer < self.quiet) | (writer == self.number) | ((writer >= self.block) & (writer < before))
    }

    /// Up to where writes of the block need no thought of a read.
    #[inline]
    pub(super) fn readable(&self) -> u32 {
        if self.how == How::Plain { self.span.min(self.fresh) } else { self.span }
    }

    /// Whether reads of that number do not hinder a write.
    #[inline(always)]
    pub(super) fn is_quick_reader(&self, reader: u32) -> bool {
        let number = reader & !WAVES;
        (reader & NUMBER < self.quiet) | (reader == self.number) | ((number >= self.block) & (number < self.span))
    }

    /// What a read makes of a mark of reads, where nothing but barriers orders them: see [`Self::joined`].
    #[inline(always)]
    pub(super) fn joined_plainly(&self, reader: u32) -> u32 {
        let number = reader & NUMBER;
        let kept = reader & BLOCKS;
        let within = if number < self.span { self.number | kept } else { number.max(self.number) | kept | WAVES };
        let within = if number == self.number { reader } else { within };
        let all = if (number >= self.block) & (number < self.end) { within } else { self.number | BLOCKS };
        if number < self.launch { self.number } else { all }
    }

    /// Whether [`Self::joined_plainly`] says what is so: the wave has no number but this one in this span, and no atomic orders anything.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.clock.is_empty() && self.number < self.span + self.waves
    }

    /// `at` is the place, whose atomics by several are in `lists`.
    pub(super) fn touch(self, mark: &mut Mark, write: bool, lists: &mut Lists, at: usize) -> Option<Met> {
        if self.how == How::Store {
            return self.store(mark, lists, at);
        }
        let writer = mark[WRITER];
        let met = |conflict, atomic| Some(Met { at, conflict, atomic });
        if writer & ATOMIC != 0 {
            let number = writer & NUMBER;
            // A store does not overtake its wave's own atomic there, which came behind all others; what comes behind the store is another matter.
            if write && self.how == How::Held && self.is_own(number) {
                mark[WRITER] = self.number;
                lists.remove(&at);
                let unsure = || self.is_unsure(mark[READER]).then_some(Conflict::Unsure);
                return self.against_reader(mark[READER]).or_else(unsure).and_then(|conflict| met(conflict, false));
            }
            let releases = write && self.how == How::Sync { handed: true };
            if self.how == How::Atomic || releases {
                let list = lists.get(&at).filter(|_| writer & SEVERAL != 0);
                let plain = list.into_iter().flatten().filter(|number| *number & PLAIN != 0);
                if let Some(conflict) = plain.into_iter().find_map(|number| self.against_writer(number & NUMBER)) {
                    return met(conflict, false);
                }
                mark[WRITER] = self.number | ATOMIC | self.listed(writer, lists, at);
                return self.after_reader(mark, writer).and_then(|conflict| met(conflict, true));
            }
            if let How::Plain | How::Held | How::Sync { .. } = self.how
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
        if !write && let Some(conflict) = self.against_stale(writer) {
            return met(conflict, writer & ATOMIC != 0);
        }
        match self.how {
            How::Atomic => {
                mark[WRITER] = self.number | ATOMIC;
                // What nobody can conflict with need not be remembered.
                if writer >= self.quiet {
                    mark[WRITER] |= SEVERAL;
                    lists.insert(at, vec![writer | PLAIN]);
                }
                return self.after_reader(mark, writer).and_then(|conflict| met(conflict, true));
            }
            How::Sync { .. } if !write => return None,
            _ => {}
        }
        let reader = mark[READER];
        if reader != self.number {
            if write {
                if let Some(conflict) = self.against_reader(reader) {
                    return met(conflict, false);
                }
            } else {
                mark[READER] = self.joined(reader);
            }
        }
        if write {
            mark[WRITER] = self.number;
        }
        if self.is_unsure(reader) { met(Conflict::Unsure, false) } else { None }
    }

    /// An atomic that only writes: it meets those who read or wrote plainly.
    fn store(self, mark: &mut Mark, lists: &mut Lists, at: usize) -> Option<Met> {
        let writer = mark[WRITER];
        let plain = match lists.get(&at).filter(|_| writer & ATOMIC != 0 && writer & SEVERAL != 0) {
            Some(list) => list.iter().copied().filter(|number| number & PLAIN != 0).collect(),
            None if writer & ATOMIC == 0 && writer != self.number => vec![writer],
            None => Vec::new(),
        };
        let written = plain.into_iter().find_map(|number| self.against_writer(number & NUMBER));
        let has_gone_on = self.has_gone_on(mark[READER], writer);
        let read = || if mark[READER] == self.number || has_gone_on { None } else { self.against_reader(mark[READER]) };
        if let Some(conflict) = written.or_else(read) {
            return Some(Met { at, conflict, atomic: false });
        }
        let is_unsure = has_gone_on || self.is_unsure(mark[READER]);
        let unsure = is_unsure.then_some(Met { at, conflict: Conflict::Unsure, atomic: false });
        if has_gone_on {
            mark[READER] = 0;
        }
        if writer & ATOMIC != 0 {
            mark[WRITER] = self.number | ATOMIC | self.listed(writer, lists, at);
        } else {
            mark[WRITER] = self.number | ATOMIC;
            lists.remove(&at);
            if writer >= self.quiet {
                mark[WRITER] |= SEVERAL;
                lists.insert(at, vec![writer | PLAIN]);
            }
        }
        unsure
    }

    /// Who may have read a place plainly before this atomic, with nothing that orders that: another wave, or several of which the mark has the last one.
    /// `writer` is who wrote the place before this one.
    fn after_reader(self, mark: &mut Mark, writer: u32) -> Option<Conflict> {
        let (reader, number) = (mark[READER], mark[READER] & NUMBER);
        if number < self.launch {
            None
        } else if reader & (WAVES | BLOCKS) != 0 {
            // That the last one comes before says nothing of the others, but at a barrier.
            let is_before = reader & BLOCKS == 0 && self.is_of_block(number) && number < self.span;
            (!is_before).then_some(Conflict::Unsure)
        } else if self.is_own(number) {
            None
        } else {
            let met = self.against_reader(reader);
            if self.has_gone_on(reader, writer) {
                mark[READER] = 0;
            }
            met
        }
    }

    /// Whether the one wave that has read a place, which is not ordered before this touch, was the last to change it, with an atomic behind its read. A
    /// plain store has that atomic to meet; whether the read is explained by it is to be found out.
    fn has_gone_on(self, reader: u32, writer: u32) -> bool {
        writer & ATOMIC != 0 && reader == writer & NUMBER && self.is_unordered(reader)
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
                    && self.is_of_block(*of)
                    && self.is_of_block(number)
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
