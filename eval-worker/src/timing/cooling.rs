//! How the cache is kept cold.

use std::cell::Cell;

use super::Cache;

/// Copies beyond this cost more in page tables than they bring.
const MAX_COPIES: u64 = 65_536;
/// Bytes of copies that are evicted at a time: more pages than a CPU has translations of at hand, so that those are cold as
/// well.
const EVICTED_BYTES: u64 = 16 << 20;

/// The caches of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caches {
    /// Size of the last level in bytes.
    pub bytes: u64,
    /// Whether chosen lines can be evicted, at a cost that does not depend on the size of the cache.
    pub by_line: bool,
}

/// What keeps the data of a launch out of the last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cooling {
    /// Launches use one of this many copies of the buffers after the other, more than the cache holds. One copy: nothing
    /// needs to be done, since a launch evicts its own data, or nothing is wanted.
    Rotate(usize),
    /// Launches use one of this many copies of the buffers after the other, and all copies are evicted before the first is used
    /// again.
    Evict(usize),
}

impl Cooling {
    /// For a set of buffers of `set_bytes` and `limit_bytes` of memory. Where lines can be evicted, they are. Elsewhere copies
    /// whose sum exceeds twice the cache, or as many as fit if that is one and a half times the cache; else one copy. Where a buffer is
    /// `refilled` before each launch, all copies are evicted after that, since it leaves them in the cache.
    #[must_use]
    pub fn choose(cache: Cache, set_bytes: u64, caches: Caches, limit_bytes: u64, refilled: bool) -> Self {
        let (set_bytes, twice) = (set_bytes.max(1), caches.bytes.saturating_mul(2));
        if refilled && cache != Cache::Warm {
            let copies = (EVICTED_BYTES.min(limit_bytes) / set_bytes).min(MAX_COPIES);
            return Self::Evict(usize::try_from(copies).unwrap_or(1).max(1));
        }
        if cache == Cache::Warm || set_bytes > twice {
            return Self::Rotate(1);
        }
        let copies = |bytes: u64| usize::try_from((bytes.min(limit_bytes) / set_bytes).min(MAX_COPIES)).unwrap_or(1);
        if caches.by_line && cache == Cache::Cold {
            return Self::Evict(copies(EVICTED_BYTES).max(1));
        }
        match copies(twice.saturating_add(set_bytes)) {
            copies @ 2.. if set_bytes.saturating_mul(copies as u64) >= twice / 4 * 3 => Self::Rotate(copies),
            _ => Self::Evict(1),
        }
    }

    /// The first copy for `launches` launches, at most as many as there are copies, and whether all copies are to be evicted
    /// before; `next` is the copy that comes next.
    pub fn turn(self, next: &Cell<usize>, launches: usize) -> (usize, bool) {
        let (copies, first) = (self.copies(), next.get());
        let (first, evict) = match self {
            Self::Rotate(_) => (first, false),
            Self::Evict(_) if first + launches > copies => (0, true),
            Self::Evict(_) => (first, first == 0),
        };
        next.set((first + launches) % copies.max(1));
        (first, evict)
    }

    /// Copies of the buffers that it takes.
    #[must_use]
    pub fn copies(self) -> usize {
        match self {
            Self::Rotate(copies) | Self::Evict(copies) => copies,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn choose(set_bytes: u64, cache_bytes: u64, limit_bytes: u64) -> Cooling {
        Cooling::choose(Cache::Cold, set_bytes, Caches { bytes: cache_bytes, by_line: false }, limit_bytes, false)
    }

    #[test]
    fn the_sum_exceeds_twice_the_cache() {
        for set in [4096, MIB, 3 * MIB, 63 * MIB, 64 * MIB] {
            let Cooling::Rotate(copies) = choose(set, 32 * MIB, 512 * MIB) else {
                panic!("{set}: there is room for copies")
            };
            assert!(copies as u64 * set > 64 * MIB, "{set}");
            assert!((copies as u64 - 1) * set <= 64 * MIB, "{set}: no more than needed");
        }
    }

    #[test]
    fn a_large_set_evicts_itself() {
        assert_eq!(choose(65 * MIB, 32 * MIB, 512 * MIB), Cooling::Rotate(1));
        assert_eq!(choose(u64::MAX, 32 * MIB, u64::MAX), Cooling::Rotate(1));
    }

    #[test]
    fn where_copies_do_not_fit_all_is_evicted() {
        assert_eq!(choose(100 * MIB, 768 * MIB, 512 * MIB), Cooling::Evict(1));
        assert_eq!(choose(64 * MIB, 32 * MIB, 127 * MIB), Cooling::Evict(1));
        // Too small for the number of copies.
        assert_eq!(choose(0, 768 * MIB, 512 * MIB), Cooling::Evict(1));
        assert_eq!(choose(u64::MAX, u64::MAX, u64::MAX), Cooling::Evict(1));
    }

    #[test]
    fn a_warm_cache_needs_one_copy() {
        for by_line in [false, true] {
            let caches = Caches { bytes: 32 * MIB, by_line };
            assert_eq!(Cooling::choose(Cache::Warm, MIB, caches, 512 * MIB, false), Cooling::Rotate(1));
        }
    }

    #[test]
    fn a_little_less_than_twice_the_cache_will_do() {
        assert_eq!(choose(MIB, 300 * MIB, 512 * MIB), Cooling::Rotate(512));
        assert_eq!(choose(MIB, 400 * MIB, 512 * MIB), Cooling::Evict(1));
    }

    #[test]
    fn where_lines_can_be_evicted_the_size_of_the_cache_is_nobodys_cost() {
        for cache_bytes in [32, 105, 260, 504, 1024].map(|mib| mib * MIB) {
            let caches = Caches { bytes: cache_bytes, by_line: true };
            let choose = |set_bytes| Cooling::choose(Cache::Cold, set_bytes, caches, 512 * MIB, false);
            assert_eq!([choose(MIB), choose(3 * MIB), choose(40 * MIB)], [16, 5, 1].map(Cooling::Evict));
            assert_eq!(choose(1), Cooling::Evict(65_536));
        }
    }

    #[test]
    fn no_copy_is_used_twice_without_an_eviction() {
        let turns = |cooling: Cooling, launches: &[usize]| {
            let next = Cell::new(0);
            launches.iter().map(|launches| cooling.turn(&next, *launches)).collect::<Vec<_>>()
        };
        assert_eq!(turns(Cooling::Evict(1), &[1, 1]), [(0, true), (0, true)]);
        let expected = [(0, true), (4, false), (0, true), (7, false), (0, true), (0, true)];
        assert_eq!(turns(Cooling::Evict(10), &[4, 5, 7, 3, 10, 1]), expected);
        assert_eq!(turns(Cooling::Rotate(3), &[2, 2, 100]), [(0, false), (2, false), (1, false)]);
    }

    #[test]
    fn a_rotation_can_be_wanted_all_the_same() {
        let caches = Caches { bytes: 32 * MIB, by_line: true };
        assert_eq!(Cooling::choose(Cache::Rotated, MIB, caches, 512 * MIB, false), Cooling::Rotate(65));
    }

    #[test]
    fn what_is_refilled_is_evicted_behind_that() {
        let caches = Caches { bytes: 32 * MIB, by_line: false };
        let choose = |cache, set_bytes| Cooling::choose(cache, set_bytes, caches, 512 * MIB, true);
        assert_eq!(choose(Cache::Cold, MIB), Cooling::Evict(16));
        assert_eq!(choose(Cache::Cold, 128 * MIB), Cooling::Evict(1));
        assert_eq!(choose(Cache::Rotated, 4 * MIB), Cooling::Evict(4));
        assert_eq!(choose(Cache::Warm, MIB), Cooling::Rotate(1));
    }
}
