//! How aiter rounds a number of rows up where it has no kernel for it.

/// The numbers of rows whose kernels a GEMM of `m` rows and `n` columns takes, in the order in which they are looked up: its own,
/// then up to a step that grows with it, then up to a power of two. As `getPaddedM` of aiter has it since the summer of 2026; before,
/// it took 16 for whatever is smaller in the first step.
#[must_use]
pub fn padded(m: i64, n: i64) -> Vec<i64> {
    let step = match m {
        ..=256 => 16,
        257..=1024 => 32,
        1025..=4096 => 64,
        _ => 128,
    };
    let power = |m: i64| -> Option<i64> { u64::try_from(m).ok()?.checked_next_power_of_two()?.try_into().ok() };
    let fine = if m < 16 { power(m) } else { m.checked_add(step - 1).map(|m| m / step * step) };
    let coarse = if m > 8192 && n > 4096 { Some(8192) } else { power(m) };
    let mut rows = vec![m];
    for padded in [fine, coarse].into_iter().flatten() {
        if !rows.contains(&padded) {
            rows.push(padded);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_rounded_up_twice() {
        for (m, expected) in [
            (1, vec![1]),
            (3, vec![3, 4]),
            (16, vec![16]),
            (17, vec![17, 32]),
            (100, vec![100, 112, 128]),
            (300, vec![300, 320, 512]),
            (1025, vec![1025, 1088, 2048]),
            (5000, vec![5000, 5120, 8192]),
        ] {
            assert_eq!(padded(m, 512), expected);
        }
        assert_eq!(padded(9000, 7168), [9000, 9088, 8192], "what is large takes the kernel of fewer rows");
        assert_eq!(padded(9000, 512), [9000, 9088, 16384]);
        assert_eq!(padded(i64::MAX, 512), [i64::MAX]);
    }
}
