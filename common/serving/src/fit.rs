//! Which configs can not run, told before anything is compiled.

use bluefin_common::arch::Vendor;

use crate::default::Gpu;
use crate::engine::Precision;
use crate::row::{GROUP, K, M, N, Row, STAGES, WARPS};
use crate::version::Version;

/// Triton's own value of an option that a row leaves out.
const DEFAULT_WARPS: i64 = 4;
const DEFAULT_STAGES: i64 = 3;

/// Rows of a tile from which on Hopper's products keep a stage more in shared memory than others do.
const WGMMA_ROWS: i64 = 64;

/// Bytes of shared memory that a block has at least. Measured with Triton 3.6 for sm_90: exact for 122 of 122 configs of 16 bits, and
/// at most 1,024 too few for 88 of 88 of FP8 with blocks. Elsewhere it is what the stages of a plain pipeline take.
#[must_use]
pub fn shared_bytes(row: &Row, dtype: Option<Precision>, gpu: Gpu) -> i64 {
    let of = |key: &str, default: i64| row.number(key).unwrap_or(default);
    let (m, n, k) = (of(M, 0), of(N, 0), of(K, 0));
    let stages = of(STAGES, DEFAULT_STAGES);
    let (a, b) = match dtype {
        Some(Precision::Fp8W8A8 | Precision::Int8W8A8) => (1, 1),
        Some(Precision::Float32) => (4, 4),
        // The weights of 8 and 4 bits are unpacked in registers.
        Some(Precision::Fp8W8A16 | Precision::Int8W8A16 | Precision::Int4W4A16) => (2, 0),
        None => (2, 2),
    };
    let is_hopper = gpu.vendor == Vendor::Nvidia && gpu.shared_memory == HOPPER_SHARED_MEMORY;
    let swaps = dtype == Some(Precision::Fp8W8A8) && m < WGMMA_ROWS && n >= WGMMA_ROWS;
    if dtype.is_some_and(Precision::has_groups) {
        // Such loops are not always pipelined, whatever the stages: one tile is there at least.
        return m.saturating_mul(a).saturating_mul(k);
    }
    let kept = if is_hopper && (m >= WGMMA_ROWS || swaps) { stages } else { (stages - 1).max(1) };
    m.saturating_mul(a).saturating_add(n.saturating_mul(b)).saturating_mul(k).saturating_mul(kept)
}

/// Bytes of shared memory of sm_90 and sm_100.
const HOPPER_SHARED_MEMORY: u32 = 232_448;

/// Why a config can not run on a GPU, if that is known without compiling it.
#[must_use]
pub fn misfit(row: &Row, dtype: Option<Precision>, gpu: Gpu) -> Option<String> {
    let (needed, limit) = (shared_bytes(row, dtype, gpu), i64::from(gpu.shared_memory));
    (needed > limit).then(|| format!("{needed} bytes of shared memory a block, of at most {limit}"))
}

/// Threads that a block has at most, on all GPUs.
pub const MOST_THREADS: i64 = 1024;

/// Threads of a warp.
#[must_use]
pub fn wave(gpu: Gpu) -> i64 {
    if gpu.is_cdna { 64 } else { 32 }
}

/// The smallest BLOCK_SIZE_K that Triton compiles products for on NVIDIA's GPUs. (`min_dot_size` of its backend; AMD's has none.)
#[must_use]
pub fn least_k(dtype: Option<Precision>, gpu: Gpu) -> Option<i64> {
    (gpu.vendor == Vendor::Nvidia).then_some(match dtype {
        Some(Precision::Fp8W8A8 | Precision::Int8W8A8) => 32,
        Some(Precision::Float32) => 8,
        // Weights of 8 and 4 bits become as wide as the activations.
        Some(Precision::Fp8W8A16 | Precision::Int8W8A16 | Precision::Int4W4A16) | None => 16,
    })
}

/// Numbers of 32 bits that a thread sums in.
#[must_use]
pub fn accumulators(row: &Row, wave: i64) -> i64 {
    let of = |key: &str, default: i64| row.number(key).unwrap_or(default);
    of(M, 0).saturating_mul(of(N, 0)) / (wave * of(WARPS, DEFAULT_WARPS)).max(1)
}

/// Why Triton's compiler fails for a config, where that is known. Triton 3.6 fails in `TritonGPURemoveLayoutConversions` for such tiles
/// of 16 bits on sm_90, 8 of 8 that were tried; others of 122 compiled.
#[must_use]
pub fn compiler_fails(row: &Row, dtype: Option<Precision>, gpu: Gpu, triton: &Version) -> bool {
    let is = |key: &str, value: i64| row.number(key) == Some(value);
    let is_hopper = gpu.vendor == Vendor::Nvidia && gpu.shared_memory == HOPPER_SHARED_MEMORY;
    is_hopper
        && dtype.is_none()
        && triton.to_string().starts_with("3.6.")
        && is(M, 256)
        && is(WARPS, 4)
        && row.number(N) == row.number(K)
}

/// The keys whose values have to be powers of two, as lengths of ranges in Triton are.
pub const POWERS_OF_TWO: [&str; 4] = [M, N, K, WARPS];

/// The keys whose values have to be whole numbers from 1 on.
pub const COUNTS: [&str; 6] = [M, N, K, GROUP, WARPS, STAGES];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::space::{Tuned, distinct, space};

    const H100: Gpu = Gpu { vendor: Vendor::Nvidia, shared_memory: 232_448, is_cdna: false };

    #[test]
    fn as_many_do_not_fit_as_were_measured() {
        let plain = Tuned { intermediate: 768, hidden: 2048, topk: 8, dtype: None, block_shape: None };
        let rows = space(Engine::VLLM, H100, &plain);
        let misfits = rows.iter().filter(|row| misfit(row, None, H100).is_some()).count();
        assert_eq!(misfits, 616);
        let triton: Version = "3.6.0".parse().unwrap();
        let fails = rows.iter().filter(|row| compiler_fails(row, None, H100, &triton)).count();
        assert_eq!(fails, 48);
        let left = |row: &&Row| misfit(row, None, H100).is_none() && !compiler_fails(row, None, H100, &triton);
        assert_eq!(rows.iter().filter(left).count(), 1284);
        let fp8 = Some(Precision::Fp8W8A8);
        let block_shape = Some([128, 128]);
        let blocks = Tuned { dtype: fp8, block_shape, ..plain };
        let rows = distinct(Engine::VLLM, space(Engine::VLLM, H100, &blocks), block_shape);
        let of_blocks = |row: &&Row| {
            let launched = crate::space::launched(Engine::VLLM, row, block_shape);
            misfit(&launched, fp8, H100).is_some()
        };
        assert_eq!(rows.iter().filter(of_blocks).count(), 32);
        // Compiled for sm_90 by Triton 3.9, vLLM's kernel for weights in groups needs 49,152 bytes.
        let row = Row::of([(M, 128), (N, 64), (K, 128), (STAGES, 5), (WARPS, 8)]);
        assert_eq!(shared_bytes(&row, Some(Precision::Int4W4A16), H100), 32_768);
    }
}
