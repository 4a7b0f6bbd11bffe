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
    pub fn each(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let mut left = self.exec;
        std::iter::from_fn(move || {
            let lane = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some((lane, self.of[lane] as usize))
        })
    }

    /// Whether all lanes are within `length` bytes, at whole dwords.
    pub fn is_within(&self, length: usize) -> bool {
        let Some(last) = (length as u64).checked_sub(4 * self.dwords as u64) else { return false };
        let (most, low) = if self.exec == ones(self.count) {
            let all = &self.of[..self.count];
            (all.iter().copied().fold(0, u64::max), all.iter().fold(0, |low, at| low | at))
        } else {
            self.each().fold((0, 0), |(most, low), (_, at)| (most.max(at as u64), low | at as u64))
        };
        most <= last && low & 3 == 0
    }

    /// The first byte, if each lane is behind the one before it.
    pub fn straight(&self) -> Option<usize> {
        let (first, step) = (self.of[0], 4 * self.dwords as u64);
        if self.exec != ones(self.count) {
            return None;
        }
        let all = self.of[..self.count].iter().zip(0_u64..);
        all.fold(true, |all, (at, lane)| all & (*at == first.wrapping_add(step * lane))).then_some(first as usize)
    }

    /// Whether each lane is behind the ones before it, or before them all in turn.
    pub fn is_apart(&self) -> bool {
        let (mut end, mut apart) = (0, true);
        for (_, at) in self.each() {
            apart &= at >= end;
            end = at + 4 * self.dwords;
        }
        apart
    }
}

impl Bank<'_> {
    /// Notes what lanes touch; whether nothing about that needs a thought.
    fn touch_lanes(&mut self, lanes: &Lanes, straight: Option<usize>, write: bool, by: &Toucher<'_>) -> bool {
        let length = self.bytes.len();
        match straight {
            Some(first) => self.shadow.touch_words(length, first / 4, lanes.count * lanes.dwords, write, by),
            None => lanes.each().all(|(_, at)| self.shadow.touch_words(length, at / 4, lanes.dwords, write, by)),
        }
    }

    /// Loads into `to`, a register for each dword of a lane; whether it is done. `lanes` are within.
    pub fn load_lanes(&mut self, lanes: &Lanes, to: &mut [Vgpr], by: &Toucher<'_>) -> bool {
        let straight = lanes.straight();
        if !self.touch_lanes(lanes, straight, false, by) {
            return false;
        }
        let (words, written) = (self.bytes.as_chunks::<4>().0, self.written.as_chunks::<4>().0);
        let is_written = |at: &[[u8; 4]]| at.iter().fold(true, |all, by| all & (u32::from_le_bytes(*by) == WRITTEN));
        if let Some(first) = straight {
            let range = first / 4..first / 4 + lanes.count * lanes.dwords;
            if !is_written(&written[range.clone()]) {
                return false;
            }
            let words = &words[range];
            for (dword, to) in to.iter_mut().enumerate() {
                let of = words.iter().skip(dword).step_by(lanes.dwords);
                to.iter_mut().zip(of).for_each(|(to, word)| *to = u32::from_le_bytes(*word));
            }
            return true;
        }
        if !lanes.each().all(|(_, at)| is_written(&written[at / 4..at / 4 + lanes.dwords])) {
            return false;
        }
        for (lane, at) in lanes.each() {
            for (to, word) in to.iter_mut().zip(&words[at / 4..at / 4 + lanes.dwords]) {
                to[lane] = u32::from_le_bytes(*word);
            }
        }
        true
    }

    /// Stores from `data`, a register for each dword of a lane; whether it is done. `lanes` are within, and apart from each other.
    pub fn store_lanes(&mut self, lanes: &Lanes, data: &[Vgpr], by: &Toucher<'_>) -> bool {
        let straight = lanes.straight();
        if straight.is_none() && !lanes.is_apart() || !self.touch_lanes(lanes, straight, true, by) {
            return false;
        }
        let words = self.bytes.as_chunks_mut::<4>().0;
        if let Some(first) = straight {
            let range = first / 4..first / 4 + lanes.count * lanes.dwords;
            self.written[4 * range.start..4 * range.end].fill(1);
            let words = &mut words[range];
            for (dword, data) in data.iter().enumerate() {
                let of = words.iter_mut().skip(dword).step_by(lanes.dwords);
                of.zip(data).for_each(|(word, value)| *word = value.to_le_bytes());
            }
            return true;
        }
        for (lane, at) in lanes.each() {
            self.written[at..at + 4 * lanes.dwords].fill(1);
            for (word, data) in words[at / 4..at / 4 + lanes.dwords].iter_mut().zip(data) {
                *word = data[lane].to_le_bytes();
            }
        }
        true
    }
}
