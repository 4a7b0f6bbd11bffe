//! Evicts chosen lines from all caches of a CPU.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use std::arch::asm;

/// Whether this architecture lets a process evict lines.
pub(super) const BY_LINE: bool = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));

/// Writes the lines of `bytes` bytes from `start` on back to memory, and forgets them; does nothing where that can not be
/// done.
///
/// # Safety
/// The bytes are in one mapping that can be read.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn evict(start: *const u8, bytes: usize) {
    /// Bytes of a line on every processor of this architecture.
    const LINE: usize = 64;
    let end = start.wrapping_add(bytes);
    let mut line = start.wrapping_sub(start.addr() % LINE);
    if has_clflushopt() {
        while line < end {
            // SAFETY: the instruction needs a readable address, which the caller vouches for, and changes no memory.
            unsafe { asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags)) };
            line = line.wrapping_add(LINE);
        }
    } else {
        while line < end {
            // SAFETY: as above.
            unsafe { asm!("clflush [{}]", in(reg) line, options(nostack, preserves_flags)) };
            line = line.wrapping_add(LINE);
        }
    }
    // SAFETY: waits for the evictions, and touches nothing.
    unsafe { asm!("mfence", options(nostack, preserves_flags)) };
}

/// Bit 23 of EBX in leaf 7 of CPUID (Intel's manual, volume 2, CPUID; AMD's, volume 3, appendix E).
#[cfg(target_arch = "x86_64")]
fn has_clflushopt() -> bool {
    use std::arch::x86_64::{__cpuid_count, __get_cpuid_max};
    use std::sync::OnceLock;
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| __get_cpuid_max(0).0 >= 7 && __cpuid_count(7, 0).ebx & (1 << 23) != 0)
}

/// Evicts the lines of `bytes` bytes with the instructions of this architecture, which Linux allows to every process.
///
/// # Safety
/// The bytes are in one mapping that can be read.
#[cfg(target_arch = "aarch64")]
pub(super) unsafe fn evict(start: *const u8, bytes: usize) {
    let cache_type: usize;
    // SAFETY: reads a register that Linux lets every process read.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) cache_type, options(nomem, nostack, preserves_flags)) };
    // Words of the smallest line as a power of two (Arm's architecture reference manual, CTR_EL0.DminLine).
    let line_bytes = 4 << ((cache_type >> 16) & 0xF);
    let end = start.wrapping_add(bytes);
    let mut line = start.wrapping_sub(start.addr() % line_bytes);
    while line < end {
        // SAFETY: the instruction needs a readable address, which the caller vouches for, and changes no memory.
        unsafe { asm!("dc civac, {}", in(reg) line, options(nostack, preserves_flags)) };
        line = line.wrapping_add(line_bytes);
    }
    // SAFETY: waits for the evictions, and touches nothing.
    unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
}

/// Nothing that a process may do evicts a line here.
///
/// # Safety
/// None is needed.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) unsafe fn evict(_: *const u8, _: usize) {}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Bytes of every architecture's line, at the least.
    const LINE: usize = 64;

    #[test]
    fn what_was_written_is_still_there() {
        let bytes: Vec<u8> = (0..10_000_u32).map(|byte| byte as u8).collect();
        for (start, length) in [(0, 10_000), (1, 0), (63, 1), (64, 64), (100, 9_900)] {
            // SAFETY: within the vector.
            unsafe { evict(bytes.as_ptr().wrapping_add(start), length) };
        }
        assert!(bytes.iter().enumerate().all(|(index, byte)| *byte == index as u8));
    }

    #[test]
    fn evicted_lines_take_longer_to_read() {
        if !BY_LINE {
            return;
        }
        // A random cycle through lines, so that nothing is read ahead.
        let lines = 4096;
        let mut memory = vec![0_u8; lines * LINE];
        let mut order: Vec<usize> = (0..lines).collect();
        let mut state = 1_u64;
        for index in (1..lines).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            order.swap(index, (state >> 33) as usize % (index + 1));
        }
        for pair in 0..lines {
            let next = order[(pair + 1) % lines] as u16;
            memory[order[pair] * LINE..][..2].copy_from_slice(&next.to_ne_bytes());
        }
        let walk = |memory: &[u8]| {
            let start = Instant::now();
            let mut line = 0_usize;
            for _ in 0..lines {
                line = u16::from_ne_bytes([memory[line * LINE], memory[line * LINE + 1]]) as usize;
            }
            assert_eq!(line, 0);
            start.elapsed()
        };
        let fastest = |cold: bool| {
            let walks = (0..20).map(|_| {
                if cold {
                    // SAFETY: all of the vector.
                    unsafe { evict(memory.as_ptr(), memory.len()) };
                }
                walk(&memory)
            });
            walks.min().unwrap()
        };
        let (warm, cold) = (fastest(false), fastest(true));
        assert!(cold > warm * 3 / 2, "{cold:?} cold, {warm:?} warm");
    }
}
