//! Touches that nothing orders, until it is known whether they decide anything.
//!
//! A read that races is no fault as long as nothing comes of its value: a compiler lets all lanes load what few of them use. So what it
//! found counts as written by nobody, and is a race where that is used. So does what lanes of one instruction write to one place of LDS, if it
//! differs: compilers have several lanes write what each has computed, of rows that are not there as well, as Triton does. A write is met by a read that came before it, whose value may have
//! been used meanwhile: the launch is executed once more, in the same order, with the values of such reads marked.

use std::collections::HashMap;
use std::rc::Rc;

use crate::order::Known;
use crate::shadow::{How, Toucher};
use crate::verdict::{Fault, Other, Place};
use crate::watch::Watch;

/// Words that a launch overwrites though others have read them; the next one is a fault at once.
const MOST_WRITES: usize = 1 << 16;
/// Set in the key of a place of LDS.
pub(crate) const LDS: u64 = 1 << 63;

/// Magnitudes that are hardly anything but FP32: small integers are denormals.
const USUAL: std::ops::Range<f32> = 1e-18..1e38;

/// Whether two words are FP32 numbers a few roundings apart, as sums of the same numbers are in another order.
pub(crate) fn differ_by_rounding(one: u32, other: u32) -> bool {
    const FEW: u32 = 4;
    are_neighbours(one, other, FEW)
}

/// Whether two words that lanes or waves write to one place of LDS count as the same value: equal, or FP32 numbers that differ by the roundings
/// of a longer sum, of numbers as large as `largest`, or pairs of such numbers made shorter. What compilers spread over many lanes they also compute in each, as Triton does with
/// reductions (Welford's means and variances come out with other roundings in each of two lanes that exchange theirs). Either value may stay,
/// and what comes of it is compared with the tolerance of the output.
pub(crate) fn are_one_sum(one: u32, other: u32, largest: f32) -> bool {
    const MANY: u32 = 1 << 11;
    const PART: f32 = 1.0 / 65_536.0;
    let [a, b] = [one, other].map(f32::from_bits);
    let is_number = |value: f32| value == 0.0 || USUAL.contains(&value.abs());
    let close = is_number(a) && is_number(b) && (a - b).abs() <= largest * PART;
    one == other || are_neighbours(one, other, MANY) || close || are_neighbours_in_halves(one, other)
}

/// Whether two words are pairs of FP16 or BF16 numbers, of which none is more than a rounding from its like. Both halves are normal numbers, so that small integers
/// of 32 bits are none of them.
fn are_neighbours_in_halves(one: u32, other: u32) -> bool {
    const NORMAL: std::ops::Range<u16> = 0x0400..0x7c00;
    let halves = |word: u32| [word as u16, (word >> 16) as u16];
    let close = |(one, other): (u16, u16)| {
        NORMAL.contains(&(one & 0x7fff)) && NORMAL.contains(&(other & 0x7fff)) && one.abs_diff(other) <= 1
    };
    halves(one).into_iter().zip(halves(other)).all(close)
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

/// Who met a fault, and where.
#[derive(Clone, Debug)]
pub(crate) struct Met {
    pub fault: Fault,
    pub block: [u32; 3],
    pub wave: u32,
    /// Index of the instruction.
    pub at: usize,
    pub lane: usize,
}

impl Met {
    pub fn is_of_lds(&self) -> bool {
        matches!(self.fault, Fault::Race { place: Place::Lds { .. }, .. })
    }

    /// Whether lanes of one instruction wrote different values.
    pub fn is_of_lanes(&self) -> bool {
        matches!(self.fault, Fault::Race { other: Other::Lane(_), .. })
    }
}

/// What is in memory, by where each buffer begins.
pub(crate) type Contents = Vec<(u64, Vec<u8>)>;

/// What is read in place of a value that a race left open.
#[derive(Clone, Debug)]
pub(crate) enum Guess {
    /// What the other order of both gives: what the last write has replaced, where that came first, and what is there in the end otherwise.
    Other { before: Rc<HashMap<u64, u8>>, behind: Rc<Contents> },
    /// Anything, which follows from this number, from the address and from who reads.
    Any(u32),
    /// Each byte is this one.
    Byte(u8),
}

impl Guess {
    /// A byte that is read in place of the one at `address`.
    fn byte(&self, address: u64, number: u32, wrote_before: bool) -> Option<u8> {
        match self {
            Self::Other { before, .. } if wrote_before => before.get(&address).copied(),
            Self::Other { behind, .. } => {
                let at = behind.partition_point(|(base, _)| *base <= address).checked_sub(1)?;
                let (base, bytes) = behind.get(at)?;
                bytes.get(usize::try_from(address - base).ok()?).copied()
            }
            Self::Any(seed) => {
                let mixed =
                    (address ^ u64::from(number) << 40 ^ u64::from(*seed) << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                Some((mixed >> 56) as u8)
            }
            Self::Byte(byte) => Some(*byte),
        }
    }
}

/// A write of what others have read, with nothing that orders both.
#[derive(Clone)]
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
}

/// What a value is that a race left open.
#[derive(Clone, Debug)]
pub(crate) enum Raced {
    /// The read itself met a write.
    Read(Fault),
    /// It is overwritten later: which of what was planned.
    Planned(usize),
}

/// Of one execution of a launch.
#[derive(Default)]
pub(crate) struct Races {
    /// Values that races left open count as written.
    trusting: bool,
    /// What they are, if not what is found.
    guess: Option<Guess>,
    /// What stores to buffers have replaced last, where that is wanted.
    replaced: Option<HashMap<u64, u8>>,
    /// What waves write to one place of LDS differs, and depends on a value that is open or that nobody wrote.
    pub wrote_open: bool,
    /// Something was left open that no guess takes the place of: in LDS, or in a cache.
    pub beside: bool,
    /// Numbers were begun anew, so that no other execution has the same ones.
    pub renumbered: bool,
    /// A plain read of what atomics touch: where, and what it comes to if nothing explains it.
    pub suspected: Option<(u64, Fault)>,
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
    /// Those of an execution that follows another one, in which these writes were found.
    pub fn planned(planned: Vec<Overwrite>, planned_start: u32) -> Self {
        let mut by_key: HashMap<u64, Vec<usize>> = HashMap::new();
        for (at, overwrite) in planned.iter().enumerate() {
            by_key.entry(overwrite.key).or_default().push(at);
        }
        Self { planned, planned_start, by_key, ..Self::default() }
    }

    /// Those of an execution in which values that races left open count as written.
    pub fn trusting() -> Self {
        Self { trusting: true, ..Self::default() }
    }

    /// The same, which remembers what stores have replaced.
    pub fn recording() -> Self {
        Self { replaced: Some(HashMap::new()), ..Self::trusting() }
    }

    /// Those of an execution like that in which these writes were found, with other values in place of those that races left open.
    pub fn guessing(guess: Guess, planned: Vec<Overwrite>, planned_start: u32) -> Self {
        Self { guess: Some(guess), ..Self { trusting: true, ..Self::planned(planned, planned_start) } }
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
        !self.by_key.is_empty() && (!self.trusting || self.guess.is_some())
    }

    #[inline]
    pub fn is_recording(&self) -> bool {
        self.replaced.is_some()
    }

    /// Remembers what a store is about to replace.
    pub fn replace(&mut self, key: u64, bytes: &[u8]) {
        if let Some(replaced) = self.replaced.as_mut().filter(|_| key & LDS == 0) {
            replaced.extend((key..).zip(bytes.iter().copied()));
        }
    }

    /// What stores have replaced.
    pub fn take_replaced(&mut self) -> HashMap<u64, u8> {
        self.replaced.take().unwrap_or_default()
    }

    /// Whether a read that races is to be told which of its bytes are open.
    pub fn marks_reads(&self) -> bool {
        !self.trusting || self.guess.is_some()
    }

    /// Puts other values in the place of bytes that a race left open, if that is wanted; those that are still open.
    pub fn guess(&mut self, key: u64, open: u16, dwords: &mut [u32; 4], by: &Toucher<'_>) -> u16 {
        let Some(guess) = &self.guess else { return open };
        let wrote_before = !matches!(self.read, Some(Raced::Planned(_)));
        for at in (0..16).filter(|at| open >> at & 1 == 1) {
            match guess.byte(key + at as u64, by.number, wrote_before) {
                Some(byte) if key & LDS == 0 => {
                    let (word, shift) = (&mut dwords[at / 4], 8 * (at % 4));
                    *word = *word & !(0xff << shift) | u32::from(byte) << shift;
                }
                _ => self.beside = true,
            }
        }
        0
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
        let number = by.number.wrapping_sub(self.start).wrapping_add(self.planned_start);
        let mut bytes = 0;
        for at in self.by_key.get(&key).into_iter().flatten() {
            let overwrite = &self.planned[*at];
            let meets = key & LDS == 0 || (overwrite.block..overwrite.end).contains(&number);
            if meets && overwrite.toucher().against_reader(number).is_some() {
                bytes |= overwrite.bytes;
                self.read.get_or_insert(Raced::Planned(*at));
            }
        }
        bytes
    }

    /// A write is done: it was planned, and is past, or it is a new one.
    pub fn note(&mut self, (key, bytes, met): (u64, u8, Met), by: &Toucher<'_>, clock: &Known) {
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
        self.found.push(Overwrite { key, bytes, launch, block, end, waves, number, span, clock, met });
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
    fn sums_are_the_same_but_for_what_is_small_beside_their_terms() {
        let same = |one: f32, other: f32, largest: f32| are_one_sum(one.to_bits(), other.to_bits(), largest);
        assert!(same(0.1, 0.100_01, 0.0) && !same(0.1, 0.1001, 0.0));
        assert!(same(0.0, 1e-6, 1.0) && same(-1e-6, 1e-6, 1.0) && !same(0.0, 1e-6, 0.01) && !same(0.0, 1e-4, 1.0));
        assert!(!same(f32::NAN, 1.0, 1.0) && !same(f32::INFINITY, 1.0, 1.0));
        assert!(
            are_one_sum(0xde21_4520, 0xde22_451f, 0.0) && !are_one_sum(0xde21_4520, 0xde23_4520, 0.0),
            "pairs of FP16"
        );
        assert!(!are_one_sum(0x0001_4520, 0x0001_4521, 0.0) && !are_one_sum(0xffff_4520, 0xffff_4521, 0.0), "integers");
        assert!(are_one_sum(7, 7, 1.0) && !are_one_sum(7, 8, 1.0) && !are_one_sum(0, 8, 1.0), "integers");
        let words = [3, 0, (-2.0_f32).to_bits(), 1.0_f32.to_bits(), f32::NAN.to_bits()];
        assert_eq!(largest_of(words.into_iter()), 2.0);
    }
}
