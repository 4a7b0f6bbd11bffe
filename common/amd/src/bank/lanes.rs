//! The dwords of all lanes of a wave at once, where nothing about them needs a thought: all are within one bank and aligned, nothing races,
//! and somebody wrote them.

use super::Bank;
use crate::registers::{LANES, Vgpr};
use crate::shadow::Toucher;

/// Where lanes go.
pub(crate) struct Lanes {
    /// By lane, from the start of the bank.
    pub of: [u64; LANES],
    pub exec: u64,
    /// Lanes of the wave.
    pub count: usize,
    /// Dwords of each lane.
    pub dwords: usize,
}

/// Four bytes that were written.
const WRITTEN: u32 = 0x0101_0101;

pub(crate) fn ones(lanes: usize) -> u64 {
    if lanes == LANES { u64::MAX } else { (1 << lanes) - 1 }
}

impl Lanes {
    /// Each lane with its byte.
    pub fn each(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let mut left = self.exec;
        std::iter::from_fn(move || {
            let lane = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some((lane, self.of[lane] as usize))
        })
    }

    fn is_full(&self) -> bool {
        self.exec == ones(self.count)
    }

    /// Whether all lanes are within `length` bytes, at whole dwords.
    pub fn is_within(&self, length: usize) -> bool {
        let Some(last) = (length as u64).checked_sub(4 * self.dwords as u64) else { return false };
        let (most, low) = if self.is_full() {
            let all = &self.of[..self.count];
            (all.iter().copied().fold(0, u64::max), all.iter().fold(0, |low, at| low | at))
        } else {
            self.each().fold((0, 0), |(most, low), (_, at)| (most.max(at as u64), low | at as u64))
        };
        most <= last && low & 3 == 0 && u32::try_from(length).is_ok()
    }

    /// The first byte, if each lane is behind the one before it.
    pub fn straight(&self) -> Option<usize> {
        let (first, step) = (self.of[0], 4 * self.dwords as u64);
        if !self.is_full() {
            return None;
        }
        let all = self.of[..self.count].iter().zip(0_u64..);
        all.fold(true, |all, (at, lane)| all & (*at == first.wrapping_add(step * lane))).then_some(first as usize)
    }

    /// The first word of each lane, and how many lanes there are; each with its own number where not all are there.
    fn words(&self) -> ([u32; LANES], [u8; LANES], usize) {
        let (mut words, mut lanes, mut count) = ([0; LANES], [0; LANES], 0);
        if self.is_full() {
            for ((word, lane), (at, number)) in words.iter_mut().zip(&mut lanes).zip(self.of.iter().zip(0..)) {
                (*word, *lane) = ((*at / 4) as u32, number);
            }
            return (words, lanes, self.count);
        }
        for (lane, at) in self.each() {
            (words[count], lanes[count]) = ((at / 4) as u32, lane as u8);
            count += 1;
        }
        (words, lanes, count)
    }
}

/// Whether each lane is behind the one before it.
fn is_apart(words: &[u32], dwords: usize) -> bool {
    words.windows(2).fold(true, |apart, pair| apart & (pair[0] + dwords as u32 <= pair[1]))
}

impl Bank<'_> {
    /// Loads into `to`, a register for each dword of a lane; whether it is done. `lanes` are within.
    pub fn load_lanes(&mut self, lanes: &Lanes, to: &mut [Vgpr], by: &Toucher<'_>) -> bool {
        let (length, dwords) = (self.bytes.len(), lanes.dwords);
        if let Some(first) = lanes.straight() {
            return self.load_straight(first / 4, lanes.count, to, by);
        }
        let (words, numbers, count) = lanes.words();
        let words = &words[..count];
        if !self.shadow.touch_apart(length, words, dwords, false, by) {
            return false;
        }
        let (bytes, written) = (self.bytes.as_chunks::<4>().0, self.written.as_chunks::<4>().0);
        let mut all = true;
        for (word, lane) in words.iter().zip(numbers) {
            let range = *word as usize..*word as usize + dwords;
            for ((to, bytes), written) in to.iter_mut().zip(&bytes[range.clone()]).zip(&written[range]) {
                to[usize::from(lane)] = u32::from_le_bytes(*bytes);
                all &= u32::from_le_bytes(*written) == WRITTEN;
            }
        }
        all
    }

    fn load_straight(&mut self, first: usize, count: usize, to: &mut [Vgpr], by: &Toucher<'_>) -> bool {
        let dwords = to.len();
        if !self.shadow.touch_words(self.bytes.len(), first, count * dwords, false, by) {
            return false;
        }
        let range = first..first + count * dwords;
        let written = &self.written.as_chunks::<4>().0[range.clone()];
        if !written.iter().fold(true, |all, by| all & (u32::from_le_bytes(*by) == WRITTEN)) {
            return false;
        }
        let bytes = &self.bytes.as_chunks::<4>().0[range];
        for (dword, to) in to.iter_mut().enumerate() {
            let of = bytes.iter().skip(dword).step_by(dwords);
            to.iter_mut().zip(of).for_each(|(to, bytes)| *to = u32::from_le_bytes(*bytes));
        }
        true
    }

    /// Stores from `data`, a register for each dword of a lane; whether it is done. `lanes` are within.
    pub fn store_lanes(&mut self, lanes: &Lanes, data: &[Vgpr], by: &Toucher<'_>) -> bool {
        let (length, dwords) = (self.bytes.len(), lanes.dwords);
        let (bytes, written) = (self.bytes.as_chunks_mut::<4>().0, self.written.as_chunks_mut::<4>().0);
        if let Some(first) = lanes.straight() {
            let range = first / 4..first / 4 + lanes.count * dwords;
            if !self.shadow.touch_words(length, range.start, range.len(), true, by) {
                return false;
            }
            written[range.clone()].fill([1; 4]);
            let bytes = &mut bytes[range];
            for (dword, data) in data.iter().enumerate() {
                let of = bytes.iter_mut().skip(dword).step_by(dwords);
                of.zip(data).for_each(|(bytes, value)| *bytes = value.to_le_bytes());
            }
            return true;
        }
        let (words, numbers, count) = lanes.words();
        let words = &words[..count];
        if !is_apart(words, dwords) || !self.shadow.touch_apart(length, words, dwords, true, by) {
            return false;
        }
        for (word, lane) in words.iter().zip(numbers) {
            for (at, data) in (*word as usize..).zip(data) {
                (bytes[at], written[at]) = (data[usize::from(lane)].to_le_bytes(), [1; 4]);
            }
        }
        true
    }
}
