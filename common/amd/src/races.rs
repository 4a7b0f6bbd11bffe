//! Touches that nothing orders, until it is known whether they decide anything.
//!
//! A read that races is no fault as long as nothing comes of its value: a compiler lets all lanes load what few of them use. So what it
//! found counts as written by nobody, and is a race where that is used. So does what lanes of one instruction write to one place of LDS, if it
//! differs: compilers have several lanes write what each has computed, of rows that are not there as well, as Triton does. A write is met by a read that came before it, whose value may have
//! been used meanwhile: the launch is executed once more, in the same order, with the values of such reads marked.

use std::collections::{HashMap, HashSet};

use crate::order::Known;
use crate::readers::{Readers, Seen, watch};
use crate::shadow::{How, Toucher};
use crate::verdict::{Fault, LDS, Met};
use crate::watch::Watch;

/// Words that a launch overwrites though others have read them; the next one is a fault at once.
const MOST_WRITES: usize = 1 << 16;

/// Magnitudes that are hardly anything but FP32: small integers are denormals.
const USUAL: std::ops::Range<f32> = 1e-18..1e18;

/// Whether two words are FP32 numbers a few roundings apart, as sums of the same numbers are in another order.
pub(crate) fn differ_by_rounding(one: u32, other: u32) -> bool {
    const FEW: u32 = 4;
    are_neighbours(one, other, FEW)
}

/// The type as which a word or half a word of two are numbers a few roundings apart, if there is one. What it is meant as nobody knows.
pub(crate) fn rounded_as(one: &[u8], other: &[u8]) -> Option<&'static str> {
    let half = |bytes: &[u8], at: usize| Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    if let (Some(one), Some(other)) = (one.first_chunk(), other.first_chunk())
        && differ_by_rounding(u32::from_le_bytes(*one), u32::from_le_bytes(*other))
    {
        return Some("FP32");
    }
    let halves = (0..one.len()).step_by(2).map(|at| (half(one, at), half(other, at)));
    let close =
        |pair: (Option<u16>, Option<u16>)| matches!(pair, (Some(one), Some(other)) if are_near_halves(one, other));
    (one != other && halves.into_iter().all(close)).then_some("FP16 or BF16")
}

/// Whether two halves of words are FP16 and BF16 numbers with few others between: no zeros and denormals of FP16, as small integers have, and neither
/// infinite.
fn are_near_halves(one: u16, other: u16) -> bool {
    const USUAL: std::ops::Range<u16> = 0x0400..0x7c00;
    one.abs_diff(other) <= 2 && [one, other].iter().all(|half| USUAL.contains(&(half & 0x7fff)))
}

/// Whether two words that lanes or waves write to one place of LDS count as the same value: equal, or FP32 numbers that differ by the roundings
/// of a longer sum, of numbers as large as `largest`. What compilers spread over many lanes they also compute in each, as Triton does with
/// reductions (Welford's means and variances come out with other roundings in each of two lanes that exchange theirs). Either value may stay,
/// and what comes of it is compared with the tolerance of the output.
pub(crate) fn are_one_sum(one: u32, other: u32, largest: f32) -> bool {
    const MANY: u32 = 1 << 11;
    const PART: f32 = 1.0 / 65_536.0;
    let [a, b] = [one, other].map(f32::from_bits);
    let is_number = |value: f32| value == 0.0 || USUAL.contains(&value.abs());
    let close = is_number(a) && is_number(b) && (a - b).abs() <= largest * PART;
    one == other || are_neighbours(one, other, MANY) || close
}

/// The largest magnitude of words that are FP32 numbers, as far as is to be seen.
pub(crate) fn largest_of(words: impl Iterator<Item = u32>) -> f32 {
    words.map(|word| f32::from_bits(word).abs()).filter(|value| USUAL.contains(value)).fold(0.0, f32::max)
}

/// Whether two words are FP32 numbers with few others between. What is hardly meant as FP32 is not: small integers, as denormals are, and zeros.
fn are_neighbours(one: u32, other: u32, few: u32) -> bool {
    let usual = |word: u32| USUAL.contains(&f32::from_bits(word).abs());
    // Of one sign, those of neighbours are neighbours.
    usual(one) && usual(other) && one != other && one.abs_diff(other) <= few
}

/// A read of a word that reaches past barriers: it is as if it were of a later number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Carried {
    pub word: u64,
    /// The wave's number as it read, and the one that it counts as.
    pub read: u32,
    pub as_of: u32,
}

/// A write of what others have read, with nothing that orders both.
pub(crate) struct Overwrite {
    /// The word, and its bytes.
    key: u64,
    bytes: u8,
    launch: u32,
    block: u32,
    end: u32,
    waves: u32,
    number: u32,
    span: u32,
    clock: Known,
    met: Met,
    /// The reads of its word that reach past the barrier before it.
    carried: Vec<Carried>,
}

/// What a value is that a race left open.
#[derive(Clone, Debug)]
pub(crate) enum Raced {
    /// The read itself met a write.
    Read(Fault),
    /// It is overwritten later: which of what was planned.
    Planned(usize),
}

/// Which of two waves that write to one place wrote what a race has left open, or what nobody wrote.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Side {
    /// The one that came second, and is stopped.
    Own,
    Other,
}

/// Of one execution of a launch.
#[derive(Default)]
pub(crate) struct Races {
    /// Values that races left open count as written.
    trusting: bool,
    /// Values in LDS may differ by the roundings of sums: see [`Options::spreads`](crate::Options::spreads).
    pub spreads: bool,
    /// Whose value was open, where what waves write to one place of LDS differs.
    pub open_side: Option<Side>,
    /// Numbers were begun anew, so that no other execution has the same ones.
    pub renumbered: bool,
    /// Plain reads of what atomics touch: what was found, and what it comes to if nothing explains it.
    pub suspected: Vec<(Seen, Fault)>,
    /// Words that atomics change behind plain reads that may have nothing to do with them.
    pub contended: HashSet<u64>,
    /// Who has read words of which an earlier execution has found that.
    pub readers: Option<Box<Readers>>,
    /// The wave that reads has signaled a barrier, and not waited for it.
    pub early: bool,
    /// What the last read met.
    pub read: Option<Raced>,
    /// A write that is to be kept: the word, its bytes, and what it comes to.
    pub wrote: Vec<(u64, u8, Fault)>,
    /// The place of a race whose other side is looked for.
    pub watch: Option<Box<Watch>>,
    /// The first race of the launch that left a value open.
    pub first: Option<Met>,
    /// Of an earlier execution, with the number that it began with.
    planned: Vec<Overwrite>,
    planned_start: u32,
    by_key: HashMap<u64, Vec<usize>>,
    pub found: Vec<Overwrite>,
    pub start: u32,
    /// Behind the last number of each block, by its first.
    pub ends: HashMap<u32, u32>,
}

impl Races {
    /// Those of an execution that follows another one, in which these writes and contended words were found.
    pub fn planned(planned: Vec<Overwrite>, planned_start: u32, contended: HashSet<u64>) -> Self {
        let mut by_key: HashMap<u64, Vec<usize>> = HashMap::new();
        for (at, overwrite) in planned.iter().enumerate() {
            by_key.entry(overwrite.key).or_default().push(at);
        }
        let readers = (!contended.is_empty()).then(|| Box::new(Readers::of(contended)));
        Self { planned, planned_start, by_key, readers, ..Self::default() }
    }

    /// Those of an execution in which values that races left open count as written.
    pub fn trusting() -> Self {
        Self { trusting: true, ..Self::default() }
    }

    /// Those of an execution like the first one, in which a place is watched.
    pub fn watching(watch: Watch) -> Self {
        Self { watch: Some(Box::new(watch)), ..Self::default() }
    }

    /// Whether nothing was met that nothing orders, in an execution of its own.
    pub fn is_clean(&self) -> bool {
        self.first.is_none() && self.found.is_empty() && self.planned.is_empty()
    }

    pub fn is_trusting(&self) -> bool {
        self.trusting
    }

    #[inline]
    pub fn has_planned(&self) -> bool {
        !self.by_key.is_empty() && !self.trusting
    }

    /// Whether each read has to be looked at.
    #[inline]
    pub fn asks_for_reads(&self) -> bool {
        self.readers.is_some() || self.has_planned()
    }

    /// Words are changed behind plain reads that nothing may order before that; whether the next execution looks at all of them.
    pub fn contend(&mut self, key: u64, bytes: usize) -> bool {
        let mut words = (key & !3..key + bytes as u64).step_by(4);
        self.readers.is_some() || words.all(|key| watch(&mut self.contended, key))
    }

    /// Whether the last access read anything that atomics touch.
    #[inline]
    pub fn has_read(&self) -> bool {
        !self.suspected.is_empty() || self.readers.as_ref().is_some_and(|readers| readers.has_noted())
    }

    /// Whether the last access met anything.
    #[inline]
    pub fn has_met(&self) -> bool {
        self.read.is_some() || !self.wrote.is_empty()
    }

    /// Whether the next write that races is a fault at once.
    pub fn is_full(&self) -> bool {
        self.renumbered || self.found.len() + self.wrote.len() >= MOST_WRITES
    }

    /// What a race comes to, if the value that it left open is used.
    pub fn of(&self, at: usize) -> Option<&Met> {
        self.planned.get(at).map(|overwrite| &overwrite.met)
    }

    /// The bytes of a word that a later write changes, which nothing orders behind this read.
    #[inline]
    pub fn open(&mut self, key: u64, by: &Toucher<'_>) -> u8 {
        if by.how != How::Plain {
            return 0;
        }
        let planned = |number: u32| number.wrapping_sub(self.start).wrapping_add(self.planned_start);
        let (number, launch) = (planned(by.number), planned(by.launch));
        let mut bytes = 0;
        for at in self.by_key.get(&key).into_iter().flatten() {
            let overwrite = &self.planned[*at];
            let is_of_block = (overwrite.block..overwrite.end).contains(&number);
            let by = overwrite.toucher();
            // Behind the next barrier, too, where the wave has signaled that.
            let is_early = self.early && is_of_block && number < overwrite.span && by.comes_after(number);
            let is_carried = |of: &Carried| of.read == number && by.against_reader(of.as_of).is_some();
            if is_early
                || overwrite.carried.iter().any(is_carried)
                || (key & LDS == 0 || overwrite.launch == launch) && by.against_reader(number).is_some()
            {
                bytes |= overwrite.bytes;
                self.read.get_or_insert(Raced::Planned(*at));
            }
        }
        bytes
    }

    /// A write is done: it was planned, and is past, or it is a new one.
    pub fn note(&mut self, (key, bytes, met): (u64, u8, Met), by: &Toucher<'_>, clock: &Known, carried: &[Carried]) {
        let number = by.number.wrapping_sub(self.start).wrapping_add(self.planned_start);
        if let Some(all) = self.by_key.get_mut(&key) {
            let before = all.len();
            all.retain(|at| self.planned[*at].number != number);
            if all.len() < before {
                return;
            }
        }
        let Toucher { launch, block, end, waves, number, span, .. } = *by;
        let clock = Known::clone(clock);
        let first = carried.partition_point(|of| of.word < key);
        let carried = carried.iter().skip(first).take_while(|of| of.word == key).copied().collect();
        self.found.push(Overwrite { key, bytes, launch, block, end, waves, number, span, clock, met, carried });
    }

    /// Says where the numbers of each block end, now that this is known.
    pub fn close(&mut self) {
        let ends = &self.ends;
        self.found.iter_mut().for_each(|overwrite| {
            overwrite.end = ends.get(&overwrite.block).copied().unwrap_or(overwrite.end);
        });
    }
}

impl Overwrite {
    fn toucher(&self) -> Toucher<'_> {
        Toucher {
            launch: self.launch,
            block: self.block,
            end: self.end,
            waves: self.waves,
            number: self.number,
            span: self.span,
            fresh: u32::MAX,
            quiet: self.launch,
            clock: &self.clock,
            how: How::Plain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roundings_are_told_from_other_values() {
        let close = |one: f32, other: f32| differ_by_rounding(one.to_bits(), other.to_bits());
        assert!(close(0.1 + 0.2, 0.3_f32.next_up()) || close(0.1 + 0.2, 0.3_f32.next_down()));
        assert!(close(-1.0, (-1.0_f32).next_up()));
        assert!(!close(1.0, 1.0) && !close(1.0, 1.001) && !close(1.0, -1.0) && !close(0.0, -0.0));
        assert!(!differ_by_rounding(3, 4), "integers");
        assert!(!close(f32::INFINITY, f32::MAX) && !close(f32::NAN, 1.0));
    }

    #[test]
    fn halves_a_rounding_apart_are_named() {
        let said = |one: u32, other: u32| rounded_as(&one.to_le_bytes(), &other.to_le_bytes());
        assert_eq!(said(0x3c01_bc00, 0x3c02_bc01), Some("FP16 or BF16"));
        assert_eq!(said(0x3f80_0000, 0x3f80_0001), Some("FP32"));
        assert_eq!(said(0x3c01_3c00, 0x3c09_3c00), None);
        assert_eq!((said(3, 4), said(0x7c00_7c00, 0x7c01_7c00), said(5, 5)), (None, None, None));
        assert_eq!(said(2000, 2001), None, "integers");
        assert_eq!(rounded_as(&[1, 0x3c], &[2, 0x3c]), Some("FP16 or BF16"));
        assert_eq!((rounded_as(&[1], &[2]), rounded_as(&[1, 0x3c, 1], &[2, 0x3c, 1])), (None, None));
    }

    #[test]
    fn sums_are_the_same_but_for_what_is_small_beside_their_terms() {
        let same = |one: f32, other: f32, largest: f32| are_one_sum(one.to_bits(), other.to_bits(), largest);
        assert!(same(0.1, 0.100_01, 0.0) && !same(0.1, 0.1001, 0.0));
        assert!(same(0.0, 1e-6, 1.0) && same(-1e-6, 1e-6, 1.0) && !same(0.0, 1e-6, 0.01) && !same(0.0, 1e-4, 1.0));
        assert!(!same(f32::NAN, 1.0, 1.0) && !same(f32::INFINITY, 1.0, 1.0));
        assert!(are_one_sum(7, 7, 1.0) && !are_one_sum(7, 8, 1.0) && !are_one_sum(0, 8, 1.0), "integers");
        let words = [3, 0, (-2.0_f32).to_bits(), 1.0_f32.to_bits(), f32::NAN.to_bits()];
        assert_eq!(largest_of(words.into_iter()), 2.0);
    }
}
