//! How the cache is kept cold.

use super::Cache;

/// Copies beyond this cost more in page tables than they bring.
const MAX_COPIES: u64 = 65_536;

/// What keeps the data of a launch out of the last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cooling {
    /// Launches use one of this many copies of the buffers after the other, more than the cache holds. One copy: nothing
    /// needs to be done, since a launch evicts its own data, or nothing is wanted.
    Rotate(usize),
    /// There is one copy, and the cache is flushed before each launch.
    Flush,
}

impl Cooling {
    /// For a set of buffers of `set_bytes`, a last-level cache of `cache_bytes`, and `limit_bytes` of memory: copies whose
    /// sum exceeds twice the cache, or as many as fit if that is one and a half times the cache; else a flush.
    #[must_use]
    pub fn choose(cache: Cache, set_bytes: u64, cache_bytes: u64, limit_bytes: u64) -> Self {
        let (set_bytes, twice) = (set_bytes.max(1), cache_bytes.saturating_mul(2));
        if cache == Cache::Warm || set_bytes > twice {
            return Self::Rotate(1);
        }
        let wanted = (twice / set_bytes).saturating_add(1);
        let copies = wanted.min(limit_bytes / set_bytes).min(MAX_COPIES);
        match usize::try_from(copies) {
            Ok(copies @ 2..) if set_bytes.saturating_mul(copies as u64) >= twice / 4 * 3 => Self::Rotate(copies),
            _ => Self::Flush,
        }
    }

    /// Copies of the buffers that it takes.
    #[must_use]
    pub fn copies(self) -> usize {
        match self {
            Self::Rotate(copies) => copies,
            Self::Flush => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_sum_exceeds_twice_the_cache() {
        for set in [4096, MIB, 3 * MIB, 63 * MIB, 64 * MIB] {
            let Cooling::Rotate(copies) = Cooling::choose(Cache::Cold, set, 32 * MIB, 512 * MIB) else {
                panic!("{set}: there is room for copies")
            };
            assert!(copies as u64 * set > 64 * MIB, "{set}");
            assert!((copies as u64 - 1) * set <= 64 * MIB, "{set}: no more than needed");
        }
    }

    #[test]
    fn a_large_set_evicts_itself() {
        assert_eq!(Cooling::choose(Cache::Cold, 65 * MIB, 32 * MIB, 512 * MIB), Cooling::Rotate(1));
        assert_eq!(Cooling::choose(Cache::Cold, u64::MAX, 32 * MIB, u64::MAX), Cooling::Rotate(1));
    }

    #[test]
    fn where_copies_do_not_fit_the_cache_is_flushed() {
        assert_eq!(Cooling::choose(Cache::Cold, 100 * MIB, 768 * MIB, 512 * MIB), Cooling::Flush);
        assert_eq!(Cooling::choose(Cache::Cold, 64 * MIB, 32 * MIB, 127 * MIB), Cooling::Flush);
        // Too small for the number of copies.
        assert_eq!(Cooling::choose(Cache::Cold, 0, 768 * MIB, 512 * MIB), Cooling::Flush);
        assert_eq!(Cooling::choose(Cache::Cold, u64::MAX, u64::MAX, u64::MAX), Cooling::Flush);
        assert_eq!(Cooling::Flush.copies(), 1);
    }

    #[test]
    fn a_warm_cache_needs_one_copy() {
        assert_eq!(Cooling::choose(Cache::Warm, MIB, 32 * MIB, 512 * MIB), Cooling::Rotate(1));
    }

    #[test]
    fn a_little_less_than_twice_the_cache_will_do() {
        assert_eq!(Cooling::choose(Cache::Cold, MIB, 300 * MIB, 512 * MIB), Cooling::Rotate(512));
        assert_eq!(Cooling::choose(Cache::Cold, MIB, 400 * MIB, 512 * MIB), Cooling::Flush);
    }
}
