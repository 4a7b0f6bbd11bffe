//! A pseudo-random order of `0..length` that is computed as it is walked, so that a space of any size costs nothing
//! until it is looked at.

/// A permutation of `0..length`: a Feistel network over the next even power of two; results outside are walked on until
/// they fall inside, which keeps it a permutation.
#[derive(Clone, Debug)]
pub(super) struct Permutation {
    length: u64,
    half_bits: u32,
    keys: [u64; Self::ROUNDS],
}

impl Permutation {
    const ROUNDS: usize = 6;

    pub(super) fn new(length: u64, seed: &[u8; 32]) -> Self {
        let bits = u64::BITS - length.saturating_sub(1).leading_zeros();
        let (words, _) = seed.as_chunks::<8>();
        let mut state = words.iter().fold(0, |state, word| mix(state ^ u64::from_le_bytes(*word)));
        let keys = [(); Self::ROUNDS].map(|()| {
            state = mix(state);
            state
        });
        Self { length, half_bits: bits.div_ceil(2).max(1), keys }
    }

    /// Where `index` of `0..length` goes.
    pub(super) fn at(&self, index: u64) -> u64 {
        debug_assert!(index < self.length);
        let mut at = self.encrypt(index);
        while at >= self.length {
            at = self.encrypt(at);
        }
        at
    }

    fn encrypt(&self, block: u64) -> u64 {
        let mask = (1_u64 << self.half_bits) - 1;
        let (mut left, mut right) = (block >> self.half_bits, block & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        left << self.half_bits | right
    }
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_index_comes_once(length in 1_u64..5000, seed: [u8; 32]) {
            let permutation = Permutation::new(length, &seed);
            let mut seen: Vec<u64> = (0..length).map(|index| permutation.at(index)).collect();
            seen.sort_unstable();
            prop_assert!(seen.into_iter().eq(0..length));
        }

        #[test]
        fn huge_spaces_stay_inside(length in 1_u64..1 << 60, seed: [u8; 32], index: u64) {
            prop_assert!(Permutation::new(length, &seed).at(index % length) < length);
        }
    }

    #[test]
    fn order_is_fixed_for_all_time() {
        let permutation = Permutation::new(20, &[7; 32]);
        let order: Vec<u64> = (0..20).map(|index| permutation.at(index)).collect();
        assert_eq!(order, GOLDEN);
        let other = Permutation::new(20, &[8; 32]);
        assert_ne!((0..20).map(|index| other.at(index)).collect::<Vec<_>>(), GOLDEN);
    }

    /// Changing it would give sessions that are resumed other candidates.
    const GOLDEN: [u64; 20] = [4, 19, 8, 10, 5, 13, 1, 17, 9, 2, 7, 3, 12, 18, 15, 14, 16, 11, 0, 6];
}
