//! The row that an engine takes where no file has one: what `get_default_config` of each engine says.

use bluefin_common::arch::{Architecture, ROWS, Vendor};

use crate::engine::{Engine, Precision};
use crate::row::{GROUP, K, M, N, Row, SPLIT_K, STAGES, WARPS};

/// A layer of one rank with its number of tokens, as look-ups ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Rows of the activations.
    pub tokens: i64,
    /// Experts of the rank.
    pub experts: i64,
    /// Experts a token.
    pub topk: i64,
    /// `None` for 16 bits.
    pub dtype: Option<Precision>,
    /// Rows and columns of a quantised block.
    pub block_shape: Option<[i64; 2]>,
}

/// The GPU, as far as defaults and spaces depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// HIP or CUDA.
    pub vendor: Vendor,
    /// Bytes of shared memory that a block may have.
    pub shared_memory: u32,
    /// Whether its matrix instructions are `v_mfma`: AMD's CDNA.
    pub is_cdna: bool,
}

impl Gpu {
    /// The GPUs of an architecture.
    #[must_use]
    pub fn of(architecture: &Architecture) -> Self {
        let is_cdna = architecture.matrix.iter().any(|matrix| matrix.unit == bluefin_common::arch::MatrixUnit::Mfma);
        Self { vendor: architecture.vendor, shared_memory: architecture.shared_memory, is_cdna }
    }

    /// The GPUs of the architecture that is called so.
    ///
    /// # Errors
    /// If none is.
    pub fn named(name: &str) -> Result<Self, String> {
        let known = ROWS.iter().find(|row| row.name == name).map(Self::of);
        known.ok_or_else(|| "expected an architecture, such as gfx942 or sm_90".to_string())
    }

    fn is_rocm(self) -> bool {
        self.vendor == Vendor::Amd
    }
}

/// On ROCm both engines' defaults are of two stages, as more do not fit.
const ROCM_STAGES: i64 = 2;

/// The row that the engine takes without a file, its keys in the engine's own order.
#[must_use]
pub fn default_row(engine: Engine, gpu: Gpu, question: &Question) -> Row {
    if engine == Engine::SGLANG { sglang(gpu, question) } else { vllm(gpu, question) }
}

/// The row of every size where an engine is told to be deterministic: files are not asked then.
#[must_use]
pub fn deterministic_row(engine: Engine) -> Row {
    let row = Row::of([(M, 64), (N, 64), (K, 32), (GROUP, 8)]);
    if engine == Engine::VLLM { with_split(row) } else { row }
}

/// vLLM's rows name the split of K, always 1, behind the block sizes.
fn with_split(row: Row) -> Row {
    let mut split = Row::default();
    for (key, value) in row.0 {
        let is_last_size = key == GROUP;
        split.0.insert(key, value);
        if is_last_size {
            split.set(SPLIT_K, 1);
        }
    }
    split
}

fn vllm(gpu: Gpu, question: &Question) -> Row {
    let row = match (question.dtype, question.block_shape) {
        (Some(Precision::Fp8W8A8), Some(block)) => vllm_block(gpu, question, block),
        (Some(dtype @ (Precision::Int4W4A16 | Precision::Int8W8A16)), Some(block)) => {
            let m = vllm_grouped(gpu, question, dtype, block);
            Row::of([(M, m), (GROUP, 1)])
        }
        _ => vllm_plain(gpu, question),
    };
    with_split(row)
}

/// FP8 with block scales: small tiles of rows for few tokens, narrow ones for fewer.
fn vllm_block(gpu: Gpu, question: &Question, [block_n, block_k]: [i64; 2]) -> Row {
    let tokens = question.tokens;
    let (n, stages) = if gpu.is_rocm() {
        (block_n, ROCM_STAGES)
    } else if tokens <= 8 && block_n % 64 == 0 {
        (64, if tokens <= 4 { 4 } else { 3 })
    } else {
        (block_n, 3)
    };
    let m = if tokens <= 64 { 16 } else { 64 };
    let group = if tokens <= 16 { 1 } else { 32 };
    Row::of([(M, m), (N, n), (K, block_k), (GROUP, group), (WARPS, 4), (STAGES, stages)])
}

/// Weights of 4 or 8 bits in groups: rows of a tile alone, as the launcher chooses the rest.
fn vllm_grouped(gpu: Gpu, question: &Question, dtype: Precision, [_, group]: [i64; 2]) -> i64 {
    let tokens = question.tokens;
    // A CUDA kernel takes over where there are at most 6 tokens an expert.
    let is_cuda_kernel = gpu.vendor == Vendor::Nvidia
        && dtype == Precision::Int4W4A16
        && [32, 64, 128].contains(&group)
        && tokens * question.topk <= 6 * question.experts;
    match tokens {
        _ if is_cuda_kernel => 16.min(next_power_of_two(tokens)),
        ..=20 => 16,
        21..=40 => 32,
        _ => 64,
    }
}

fn next_power_of_two(number: i64) -> i64 {
    u64::try_from(number)
        .ok()
        .and_then(u64::checked_next_power_of_two)
        .and_then(|power| power.try_into().ok())
        .unwrap_or(1)
}

fn vllm_plain(gpu: Gpu, question: &Question) -> Row {
    let tokens = question.tokens;
    let m = match tokens {
        ..=32 => 16,
        33..=96 => 32,
        97..=512 => 64,
        _ => 128,
    };
    let n = if tokens <= 64 { 64 } else { 128 };
    let k = if question.dtype == Some(Precision::Fp8W8A8) || tokens <= 64 { 128 } else { 64 };
    let group = if tokens / question.experts.max(1) > 128 { 16 } else { 1 };
    let warps = if tokens <= 128 { 4 } else { 8 };
    let stages = match tokens {
        _ if gpu.is_rocm() => ROCM_STAGES,
        ..=32 => 4,
        _ => 3,
    };
    Row::of([(M, m), (N, n), (K, k), (GROUP, group), (WARPS, warps), (STAGES, stages)])
}

/// Shared memory of a block below which SGLang's FP8 rows are other ones, that fit.
const SGLANG_LOW_MEMORY: u32 = 128 << 10;

fn sglang(gpu: Gpu, question: &Question) -> Row {
    let is_few = question.tokens <= question.experts;
    let stages = |cuda: i64| if gpu.is_rocm() { ROCM_STAGES } else { cuda };
    let is_low = !gpu.is_rocm() && gpu.shared_memory < SGLANG_LOW_MEMORY;
    match (question.dtype, question.block_shape) {
        (Some(Precision::Fp8W8A8), Some([n, k])) => {
            Row::of([(M, 64), (N, n), (K, k), (GROUP, 32), (WARPS, 4), (STAGES, stages(3))])
        }
        (Some(Precision::Fp8W8A8), None) => match (is_low, is_few) {
            (true, true) => Row::of([(M, 32), (N, 64), (K, 256), (GROUP, 1), (WARPS, 4), (STAGES, 4)]),
            (true, false) => Row::of([(M, 64), (N, 128), (K, 256), (GROUP, 64), (WARPS, 4), (STAGES, 2)]),
            (false, true) => Row::of([(M, 64), (N, 128), (K, 128), (GROUP, 1), (WARPS, 4), (STAGES, stages(4))]),
            (false, false) => Row::of([(M, 128), (N, 256), (K, 128), (GROUP, 32), (WARPS, 8), (STAGES, stages(4))]),
        },
        _ if is_few => Row::of([(M, 16), (N, 32), (K, 64), (GROUP, 1)]),
        _ => Row::of([(M, 64), (N, 64), (K, 32), (GROUP, 8)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H100: Gpu = Gpu { vendor: Vendor::Nvidia, shared_memory: 232_448, is_cdna: false };
    const MI300X: Gpu = Gpu { vendor: Vendor::Amd, shared_memory: 65_536, is_cdna: true };

    fn asked(tokens: i64, dtype: Option<Precision>, block_shape: Option<[i64; 2]>) -> Question {
        Question { tokens, experts: 8, topk: 2, dtype, block_shape }
    }

    #[test]
    fn defaults_are_those_of_the_engines() {
        let short = |engine, gpu, question| default_row(engine, gpu, &question).short();
        let vllm = |gpu, question| short(Engine::VLLM, gpu, question);
        assert_eq!(vllm(H100, asked(1, None, None)), "16x64x128 g1 w4 s4 SPLIT_K=1");
        assert_eq!(vllm(H100, asked(4096, None, None)), "128x128x64 g16 w8 s3 SPLIT_K=1");
        assert_eq!(vllm(MI300X, asked(64, None, None)), "32x64x128 g1 w4 s2 SPLIT_K=1");
        let block = Some([128, 128]);
        assert_eq!(vllm(H100, asked(8, Some(Precision::Fp8W8A8), block)), "16x64x128 g1 w4 s3 SPLIT_K=1");
        assert_eq!(vllm(H100, asked(96, Some(Precision::Fp8W8A8), block)), "64x128x128 g32 w4 s3 SPLIT_K=1");
        let grouped = Some([0, 128]);
        assert_eq!(vllm(H100, asked(3, Some(Precision::Int4W4A16), grouped)), "4x-x- g1 SPLIT_K=1");
        assert_eq!(vllm(H100, asked(40, Some(Precision::Int4W4A16), grouped)), "32x-x- g1 SPLIT_K=1");
        let sglang = |gpu, question| short(Engine::SGLANG, gpu, question);
        assert_eq!(sglang(H100, asked(8, None, None)), "16x32x64 g1");
        assert_eq!(sglang(H100, asked(9, Some(Precision::Fp8W8A8), None)), "128x256x128 g32 w8 s4");
        assert_eq!(sglang(MI300X, asked(9, Some(Precision::Fp8W8A8), block)), "64x128x128 g32 w4 s2");
        let small = Gpu { shared_memory: 101_376, ..H100 };
        assert_eq!(sglang(small, asked(8, Some(Precision::Fp8W8A8), None)), "32x64x256 g1 w4 s4");
        assert_eq!(deterministic_row(Engine::VLLM).short(), "64x64x32 g8 SPLIT_K=1");
    }
}
