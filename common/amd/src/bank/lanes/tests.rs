//! All lanes at once against one lane after the other.

use super::*;
use crate::bank::{Label, Touching};
use crate::order::Clock;
use crate::races::Races;
use crate::random::Random;
use crate::shadow::{How, Shadow};

const BYTES: usize = 4096;

/// Bytes that lanes go to.
#[derive(Clone, Debug, PartialEq)]
struct Place {
    bytes: Vec<u8>,
    written: Vec<u8>,
    shadow: Shadow,
}

impl Place {
    fn new() -> Self {
        let bytes = (0..BYTES).map(|at| (at * 7 % 251) as u8).collect();
        Self { bytes, written: vec![1; BYTES], shadow: Shadow::default() }
    }

    fn bank(&mut self) -> Bank<'_> {
        Bank { bytes: &mut self.bytes, written: &mut self.written, shadow: &mut self.shadow, label: Label::Lds }
    }
}

/// A wave of a block of four, in a span.
fn by(clock: &Clock, span: u32, wave: u32) -> Toucher<'_> {
    let span = 1000 + span * 4;
    Toucher {
        launch: 1000,
        block: 1000,
        end: 1100,
        waves: 4,
        number: span + wave,
        span,
        fresh: u32::MAX,
        quiet: span,
        clock,
        how: How::Plain,
    }
}

/// Addresses as kernels have them: one behind the other, in rows, all alike, far apart, or any.
fn addresses(random: &mut Random, dwords: u32) -> Vgpr {
    let (first, kind) = (4 * random.below(64) as u32, random.below(7));
    let row = 1 << random.below(5);
    std::array::from_fn(|lane| {
        let lane = lane as u32;
        match kind {
            0 => first + 4 * dwords * lane,
            1 => first + 4 * dwords * (lane % row) + 48 * (lane / row),
            2 => first + 16 * (lane / row),
            3 => first + 48 * (63 - lane),
            4 => first + 48 * lane,
            5 => first + 48 * (lane % 16),
            _ => 4 * random.below(900) as u32,
        }
    })
}

fn exec(random: &mut Random, all: u64) -> u64 {
    match random.below(3) {
        0 => all,
        1 => all & random.below(u64::MAX),
        _ => all >> random.below(31) as u32,
    }
}

#[test]
fn all_lanes_at_once_do_what_they_do_one_after_the_other() {
    let (mut random, clock) = (Random::new(1), Clock::default());
    let (mut done, mut place) = ([0; 2], Place::new());
    for turn in 0..4000 {
        if turn % 40 == 0 {
            place = Place::new();
            place.written[random.below(BYTES as u64) as usize] = 0;
        }
        let dwords = 1 + random.below(4) as usize;
        let addresses = addresses(&mut random, dwords as u32);
        let count = if random.below(2) == 0 { LANES } else { LANES / 2 };
        let exec = exec(&mut random, u64::MAX >> (LANES - count));
        if exec == 0 {
            continue;
        }
        let lanes = Lanes { addresses: &addresses, offset: 4 * random.below(4) as u32, exec, count, dwords };
        let by = by(&clock, turn % 40 / 8, random.below(2) as u32);
        let data: Vec<Vgpr> = (0..dwords).map(|_| std::array::from_fn(|_| random.below(1 << 32) as u32)).collect();
        let (mut at_once, mut to, mut at) = (place.clone(), vec![[0; LANES]; dwords], [0; LANES]);
        let write = random.below(4) == 0;
        let quick = if write {
            at_once.bank().store_lanes(&lanes, &data, &by, &mut at)
        } else {
            at_once.bank().load_lanes(&lanes, &mut to, &by, &mut at)
        };
        let (mut races, size) = (Races::default(), 4 * dwords);
        let mut touching = Touching { by: &by, starts: &[], races: &mut races };
        let mut touched = vec![0; BYTES];
        for lane in (0..count).filter(|lane| exec >> lane & 1 == 1) {
            let from = (addresses[lane] + lanes.offset) as usize;
            assert_eq!(at[lane] as usize, from);
            if from + size > BYTES {
                assert!(!quick);
                continue;
            }
            if write {
                touched[from..from + size].iter_mut().for_each(|count| *count += 1);
                let bytes: Vec<u8> = data.iter().flat_map(|of| of[lane].to_le_bytes()).collect();
                // What conflicts is left to it, and never done at once.
                let stored = place.bank().store(from, &bytes, 0, &mut touching);
                assert!(!quick || stored.is_ok());
            } else {
                let loaded = place.bank().load(from, size, &mut touching);
                let values: Vec<u32> = to.iter().map(|of| of[lane]).collect();
                assert!(!quick || loaded.unwritten == 0 && loaded.dwords[..dwords] == values, "lane {lane}");
            }
        }
        if quick {
            assert_eq!(at_once, place, "turn {turn}");
            assert!(touched.iter().all(|count| *count < 2), "two lanes write one byte");
            assert!(!races.has_met());
            done[usize::from(write)] += 1;
        }
    }
    assert!(done[0] > 1000 && done[1] > 100, "{done:?}");
}
