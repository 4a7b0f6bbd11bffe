//! How many copies of a problem's buffers keep the cache cold.

/// Copies beyond this cost more in page tables than they bring.
const MAX_COPIES: u64 = 65_536;

/// Copies of a set of buffers of `set_bytes` to rotate through, so that each launch finds none of its data in a last-level
/// cache of `cache_bytes`: their sum exceeds twice the cache, within `limit_bytes` of memory. At least one.
#[must_use]
pub fn copies(set_bytes: u64, cache_bytes: u64, limit_bytes: u64) -> usize {
    let set_bytes = set_bytes.max(1);
    let wanted = (cache_bytes.saturating_mul(2) / set_bytes).saturating_add(1);
    let affordable = (limit_bytes / set_bytes).max(1);
    // A set larger than twice the cache evicts itself.
    let wanted = if set_bytes > cache_bytes.saturating_mul(2) { 1 } else { wanted };
    usize::try_from(wanted.min(affordable).min(MAX_COPIES)).unwrap_or(1)
}

/// Whether rotating through `copies` of `set_bytes` keeps a cache of `cache_bytes` cold.
#[must_use]
pub fn is_cold(set_bytes: u64, copies: usize, cache_bytes: u64) -> bool {
    set_bytes.saturating_mul(copies as u64) > cache_bytes.saturating_mul(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_sum_exceeds_twice_the_cache() {
        for set in [4096, MIB, 3 * MIB, 63 * MIB, 64 * MIB] {
            let copies = copies(set, 32 * MIB, 512 * MIB) as u64;
            assert!(copies * set > 64 * MIB, "{set}");
            assert!(is_cold(set, copies as usize, 32 * MIB) && !is_cold(set, copies as usize - 1, 32 * MIB));
            assert!((copies - 1) * set <= 64 * MIB, "{set}: no more than needed");
        }
    }

    #[test]
    fn a_large_set_needs_no_copies_and_memory_is_bounded() {
        assert_eq!(copies(65 * MIB, 32 * MIB, 512 * MIB), 1);
        assert_eq!(copies(100 * MIB, 768 * MIB, 512 * MIB), 5);
        assert_eq!(copies(600 * MIB, 768 * MIB, 512 * MIB), 1);
        assert_eq!(copies(0, 32 * MIB, 512 * MIB), MAX_COPIES as usize);
        assert_eq!(copies(u64::MAX, u64::MAX, u64::MAX), 1);
    }
}
