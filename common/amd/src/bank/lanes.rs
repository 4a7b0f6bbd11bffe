//! The dwords of all lanes of a wave at once, where nothing about them needs a thought: all are within one bank and aligned, nothing races,
//! and somebody wrote them.
//!
//! Lanes that follow each other, and those that go to one place, are runs: a run is done like one access. Where there are too many of
//! them, marks are gathered, looked at together, and put back.

#[cfg(test)]
mod tests;

use std::ops::Range;

use super::{Bank, Label};
use crate::registers::{LANES, Vgpr, choose, mask_where};
use crate::shadow::{Marks, Toucher};

/// Four bytes that were written.
const WRITTEN: u32 = 0x0101_0101;
/// Beyond so many runs, lanes are looked at one by one.
const MOST_RUNS: u32 = 16;
/// Lanes of which others may be copies.
const GROUP: usize = 16;

/// Lanes and their addresses.
#[derive(Clone, Copy)]
pub(crate) struct Lanes<'a> {
    pub addresses: &'a Vgpr,
    /// What is added to each address, so that it begins with the bank.
    pub offset: u32,
    /// Those that take part.
    pub exec: u64,
    /// Lanes of the wave.
    pub count: usize,
    /// Dwords of each lane.
    pub dwords: usize,
}

/// Where lanes go.
pub(crate) struct Places {
    /// By lane; those that do not take part go where the first one goes that does.
    of: Vgpr,
    count: usize,
    /// Dwords of each lane.
    pub dwords: usize,
    is_full: bool,
    /// Lanes whose next one goes to the same place, and those whose next one goes behind them.
    same: u64,
    straight: u64,
}

/// Lanes from one on, which go to one place or one behind the other.
struct Run {
    lanes: Range<usize>,
    straight: bool,
}

impl Lanes<'_> {
    /// Where they go.
    #[inline(always)]
    pub fn places(&self) -> Places {
        let Self { exec, count, dwords, .. } = *self;
        let mut of = self.addresses.map(|address| address.wrapping_add(self.offset));
        let mut next = following(self.addresses).map(|address| address.wrapping_add(self.offset));
        let is_full = exec == u64::MAX >> (LANES - count);
        if !is_full {
            let mut all = [of.get(exec.trailing_zeros() as usize).copied().unwrap_or_default(); LANES];
            choose(&mut all, &of, exec);
            of = all;
            next = following(&of);
        }
        let (step, pairs) = (4 * dwords as u32, u64::MAX >> (LANES + 1 - count));
        let same = mask_where(&of, &next, |at, next| at == next) & pairs;
        let straight = mask_where(&of, &next, |at, next| at.wrapping_add(step) == next) & pairs;
        Places { of, count, dwords, is_full, same, straight }
    }

    /// The lanes that take part, and how many.
    fn numbers(&self) -> ([u8; LANES], usize) {
        let (mut numbers, mut count) = ([0; LANES], 0);
        for lane in (0..self.count).filter(|lane| self.exec >> lane & 1 == 1) {
            numbers[count] = lane as u8;
            count += 1;
        }
        (numbers, count)
    }
}

/// The value of each lane's next one; the last lane has none. In pieces that are not larger than vectors, as what was stored in other
/// pieces is slow to load.
#[inline(always)]
fn following(values: &Vgpr) -> Vgpr {
    const PIECE: usize = 8;
    let mut all = [0; LANES];
    let (pieces, last) = all.split_at_mut(LANES - PIECE);
    for (at, piece) in pieces.as_chunks_mut::<PIECE>().0.iter_mut().enumerate() {
        piece.copy_from_slice(&values[at * PIECE + 1..][..PIECE]);
    }
    let tail: [u32; PIECE] = std::array::from_fn(|at| values[LANES - PIECE + (at + 1) % PIECE]);
    last.copy_from_slice(&tail);
    all
}

impl Places {
    /// Of all lanes of the wave.
    #[inline(always)]
    pub fn all(&self) -> &[u32] {
        &self.of[..self.count]
    }

    /// Of the lanes before all others go where these go: of 16 lanes where groups of 16 are alike, as WMMA wants them.
    #[inline(always)]
    fn own(&self) -> &[u32] {
        let (first, others) = self.all().split_at(GROUP);
        if others.chunks_exact(GROUP).all(|group| group == first) { first } else { self.all() }
    }

    /// Whether all lanes are within `length` bytes, at whole dwords.
    #[inline(always)]
    pub fn is_within(&self, length: usize) -> bool {
        let Some(last) = length.checked_sub(4 * self.dwords) else { return false };
        if u32::try_from(length).is_err() {
            return false;
        }
        let (most, low) = self.all().iter().fold((0, 0), |(most, low), at| (*at.max(&most), low | at));
        most as usize <= last && low & 3 == 0
    }

    /// The bytes that lanes go to, where each is behind the one before it.
    #[inline(always)]
    pub fn straight(&self) -> Option<Range<usize>> {
        let (first, size) = (self.of[0] as usize, self.count * 4 * self.dwords);
        (self.is_full && self.straight == u64::MAX >> (LANES + 1 - self.count)).then_some(first..first + size)
    }

    /// The runs of lanes, `None` if there are too many.
    #[inline(always)]
    fn runs(&self) -> Option<impl Iterator<Item = Run>> {
        let Self { same, straight, count, .. } = *self;
        let changes = (same ^ same >> 1) | !(same | straight);
        if (changes & u64::MAX >> (LANES + 1 - count)).count_ones() > MOST_RUNS {
            return None;
        }
        let mut lane = 0;
        Some(std::iter::from_fn(move || {
            let first = lane;
            if first >= count {
                return None;
            }
            let [straight, same] = [straight, same].map(|with| (!(with >> first)).trailing_zeros() as usize);
            lane = (first + straight.max(same) + 1).min(count);
            Some(Run { lanes: first..lane, straight: straight >= same })
        }))
    }
}

impl Bank<'_> {
    /// Loads into `to`, a register for each dword of a lane; whether it is done, `at` where. Lanes that do not take part load as well.
    pub fn load_lanes(&mut self, lanes: &Lanes<'_>, to: &mut [Vgpr], by: &Toucher<'_>, at: &mut Vgpr) -> bool {
        let length = self.bytes.len();
        let marks = self.shadow.marks(length);
        if !by.is_plain() {
            return false;
        }
        let (bytes, written) = (self.bytes.as_chunks::<4>().0, self.written.as_chunks::<4>().0);
        pulp::Arch::new().dispatch(
            #[inline(always)]
            || {
                let (words, places) = ((bytes, written, marks), lanes.places());
                *at = places.of;
                let within = places.is_within(length);
                match to {
                    _ if !within => false,
                    [a] => load::<1>(words, &places, [a], by),
                    [a, b] => load::<2>(words, &places, [a, b], by),
                    [a, b, c] => load::<3>(words, &places, [a, b, c], by),
                    [a, b, c, d] => load::<4>(words, &places, [a, b, c, d], by),
                    _ => false,
                }
            },
        )
    }

    /// Stores from `data`, a register for each dword of a lane; whether it is done, `at` where.
    pub fn store_lanes(&mut self, lanes: &Lanes<'_>, data: &[Vgpr], by: &Toucher<'_>, at: &mut Vgpr) -> bool {
        let length = self.bytes.len();
        let is_lds = matches!(self.label, Label::Lds);
        let marks = self.shadow.marks(length);
        let (bytes, written) = (self.bytes.as_chunks_mut::<4>().0, self.written.as_chunks_mut::<4>().0);
        pulp::Arch::new().dispatch(
            #[inline(always)]
            || {
                let places = lanes.places();
                *at = places.of;
                let within = places.is_within(length);
                // Looked at lane by lane: see `Bank::is_there`.
                let is_there = is_lds && within && are_there((bytes, written), lanes, &places, data);
                let words = (bytes, written, marks);
                match data {
                    _ if !within || is_there => false,
                    [a] => store::<1>(words, lanes, &places, [a], by),
                    [a, b] => store::<2>(words, lanes, &places, [a, b], by),
                    [a, b, c] => store::<3>(words, lanes, &places, [a, b, c], by),
                    [a, b, c, d] => store::<4>(words, lanes, &places, [a, b, c, d], by),
                    _ => false,
                }
            },
        )
    }
}

/// Whether all that is stored is there already.
#[inline(always)]
fn are_there((bytes, written): (&[[u8; 4]], &[[u8; 4]]), lanes: &Lanes<'_>, places: &Places, data: &[Vgpr]) -> bool {
    (0..lanes.count).filter(|lane| lanes.exec >> lane & 1 == 1).all(|lane| {
        (places.of[lane] as usize / 4..).zip(data).all(|(word, data)| {
            bytes.get(word) == Some(&data[lane].to_le_bytes()) && written.get(word) == Some(&[1; 4])
        })
    })
}

#[inline(always)]
fn load<const D: usize>(
    (bytes, written, mut marks): (&[[u8; 4]], &[[u8; 4]], Marks<'_>),
    places: &Places,
    mut to: [&mut Vgpr; D],
    by: &Toucher<'_>,
) -> bool {
    let Some(runs) = places.runs() else { return load_apart((bytes, written, marks), places, to, by) };
    let mut all = true;
    for Run { lanes: run, straight } in runs {
        let first = places.of[run.start] as usize / 4;
        if straight {
            let words = first..first + D * run.len();
            all &= marks.read(words.clone(), by);
            all &= written[words.clone()].iter().fold(true, |all, of| all & (u32::from_le_bytes(*of) == WRITTEN));
            let bytes = bytes[words].as_chunks::<D>().0;
            for (dword, to) in to.iter_mut().enumerate() {
                to[run.clone()].iter_mut().zip(bytes).for_each(|(to, bytes)| *to = u32::from_le_bytes(bytes[dword]));
            }
        } else {
            let words = first..first + D;
            all &= marks.read(words.clone(), by);
            all &= written[words.clone()].iter().fold(true, |all, of| all & (u32::from_le_bytes(*of) == WRITTEN));
            for (to, bytes) in to.iter_mut().zip(&bytes[words]) {
                to[run.clone()].fill(u32::from_le_bytes(*bytes));
            }
        }
    }
    all
}

#[inline(always)]
fn load_apart<const D: usize>(
    (bytes, written, mut marks): (&[[u8; 4]], &[[u8; 4]], Marks<'_>),
    places: &Places,
    mut to: [&mut Vgpr; D],
    by: &Toucher<'_>,
) -> bool {
    let mut known = [WRITTEN; D];
    let own = places.own();
    for (lane, at) in own.iter().enumerate() {
        let words = *at as usize / 4..*at as usize / 4 + D;
        for (to, bytes) in to.iter_mut().zip(&bytes[words.clone()]) {
            to[lane] = u32::from_le_bytes(*bytes);
        }
        for (known, of) in known.iter_mut().zip(&written[words]) {
            *known &= u32::from_le_bytes(*of);
        }
    }
    if own.len() < places.count {
        for to in &mut to {
            let (first, others) = to.split_at_mut(own.len());
            others.chunks_exact_mut(first.len()).for_each(|others| others.copy_from_slice(first));
        }
    }
    marks.read_apart::<D>(own, by) & (known == [WRITTEN; D])
}

#[inline(always)]
fn store<const D: usize>(
    (bytes, written, mut marks): (&mut [[u8; 4]], &mut [[u8; 4]], Marks<'_>),
    lanes: &Lanes<'_>,
    places: &Places,
    data: [&Vgpr; D],
    by: &Toucher<'_>,
) -> bool {
    let Some(range) = places.straight() else { return store_apart((bytes, written, marks), lanes, places, data, by) };
    let words = range.start / 4..range.end / 4;
    if !marks.write(words.clone(), by) {
        return false;
    }
    written[words.clone()].fill([1; 4]);
    for (lane, bytes) in bytes[words].as_chunks_mut::<D>().0.iter_mut().enumerate() {
        bytes.iter_mut().zip(data).for_each(|(bytes, data)| *bytes = data[lane].to_le_bytes());
    }
    true
}

#[inline(always)]
fn store_apart<const D: usize>(
    (bytes, written, mut marks): (&mut [[u8; 4]], &mut [[u8; 4]], Marks<'_>),
    lanes: &Lanes<'_>,
    places: &Places,
    data: [&Vgpr; D],
    by: &Toucher<'_>,
) -> bool {
    let (numbers, count) = lanes.numbers();
    let mut firsts = [0; LANES];
    for (first, lane) in firsts.iter_mut().zip(&numbers[..count]) {
        *first = places.of[usize::from(*lane)];
    }
    if !marks.write_apart::<D>(&firsts[..count], by) {
        return false;
    }
    for (first, lane) in firsts.iter().zip(&numbers[..count]) {
        let words = *first as usize / 4..*first as usize / 4 + D;
        written[words.clone()].fill([1; 4]);
        for (bytes, data) in bytes[words].iter_mut().zip(data) {
            *bytes = data[usize::from(*lane)].to_le_bytes();
        }
    }
    true
}
