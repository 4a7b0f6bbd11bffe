//! The draws of a routing that a run computes.
//!
//! How many blocks a routing fills is a matter of luck: with as many rows of a group as a block has, a draw has some percent more or fewer
//! of them than the next, and a kernel that leads on one draw is last on another. So several are drawn, and those are taken whose blocks are
//! together as many as are to be expected, whatever the size of a block.

use super::{Routing, SplitMix};

/// Sizes of blocks that are counted.
const SIZES: [u64; 5] = [16, 32, 64, 128, 256];
/// Draws that are chosen among.
const POOL: u64 = 64;
/// The same where they are large: the more rows, the less is luck.
const LEAST: u64 = 16;
/// Random numbers of draws between the two, about.
const NUMBERS: u64 = 1 << 22;
/// Choices that are tried.
const TRIED: usize = 4096;

impl Routing {
    /// The groups of all rows, draw by draw.
    pub(super) fn of_all_draws(&self) -> Vec<Vec<u32>> {
        let Some(draws) = self.draws else { return vec![self.groups_of_rows(self.seed)] };
        let numbers = self.rows.saturating_mul(self.groups).max(1);
        let count = (NUMBERS / numbers).clamp(LEAST, POOL).max(draws.into());
        let mut random = SplitMix(self.seed);
        let seeds: Vec<u64> = (0..count).map(|_| random.next()).collect();
        let blocks = seeds.iter().map(|seed| self.blocks(&self.groups_of_rows(*seed))).collect::<Vec<_>>();
        let chosen = typical(&blocks, draws as usize, &mut random);
        chosen.into_iter().filter_map(|place| seeds.get(place)).map(|seed| self.groups_of_rows(*seed)).collect()
    }

    /// How many blocks of each size a draw fills.
    fn blocks(&self, routed: &[u32]) -> [f64; SIZES.len()] {
        let by_group = self.by_group(routed);
        SIZES.map(|size| by_group.iter().map(|rows| (rows.len() as u64).div_ceil(size)).sum::<u64>() as f64)
    }
}

/// Which `count` of the draws fill together as many blocks of each size as is usual for all of them.
fn typical(blocks: &[[f64; SIZES.len()]], count: usize, random: &mut SplitMix) -> Vec<usize> {
    let usual = mean(blocks.iter());
    let mut places: Vec<usize> = (0..blocks.len()).collect();
    let mut best = (f64::INFINITY, Vec::new());
    for _ in 0..TRIED {
        for place in 0..count.min(places.len()) {
            let left = (places.len() - place) as u64;
            let other = place + usize::try_from(random.next() % left).unwrap_or(0);
            places.swap(place, other);
        }
        let chosen = places.get(..count).unwrap_or(&places);
        let found = mean(chosen.iter().filter_map(|place| blocks.get(*place)));
        let error: f64 = found.iter().zip(&usual).map(|(found, usual)| (found / usual - 1.0).powi(2)).sum();
        if error < best.0 {
            best = (error, chosen.to_vec());
        }
    }
    best.1
}

fn mean<'a>(of: impl Iterator<Item = &'a [f64; SIZES.len()]>) -> [f64; SIZES.len()] {
    let (mut sums, mut count) = ([0.0; SIZES.len()], 0.0);
    for one in of {
        sums.iter_mut().zip(one).for_each(|(sum, one)| *sum += one);
        count += 1.0;
    }
    sums.map(|sum| sum / f64::max(count, 1.0))
}
