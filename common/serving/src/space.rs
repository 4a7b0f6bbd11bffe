//! What the engines' own tuners try: the space of each, and how it is pruned for a layer.

use std::collections::HashSet;

use bluefin_common::arch::Vendor;

use crate::default::Gpu;
use crate::engine::{Engine, Precision};
use crate::row::{GROUP, K, KPACK, M, N, NONKDIM, Row, STAGES, WARPS, WAVES};

/// The batch sizes of both engines' tuners.
pub const LADDER: [i64; 18] = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 1536, 2048, 3072, 4096];

/// What a tuner is told of a layer besides the number of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuned {
    /// The intermediate size of the rank.
    pub intermediate: i64,
    /// Columns of the activations.
    pub hidden: i64,
    /// Experts a token.
    pub topk: i64,
    /// `None` for 16 bits.
    pub dtype: Option<Precision>,
    /// Rows and columns of a quantised block.
    pub block_shape: Option<[i64; 2]>,
}

/// Keys of a row with the values that they may have; the first varies slowest.
pub type Axes = Vec<(&'static str, &'static [i64])>;

/// What the configs of the engine's tuner are combined of.
#[must_use]
pub fn axes(engine: Engine, gpu: Gpu, tuned: &Tuned) -> Axes {
    if engine == Engine::SGLANG { sglang_axes(gpu) } else { vllm_axes(gpu, is_16_bit(tuned)) }
}

/// Values beside those of the engines' tuners.
#[must_use]
pub fn around(gpu: Gpu, key: &str) -> &'static [i64] {
    let is_nvidia = gpu.vendor == Vendor::Nvidia;
    match key {
        N => &[16, 512],
        K if is_nvidia => &[32, 512],
        K => &[512],
        GROUP if is_nvidia => &[4, 8],
        GROUP => &[2, 64],
        WARPS if is_nvidia => &[2, 16],
        STAGES if is_nvidia => &[1, 6],
        STAGES => &[1, 3],
        WAVES => &[0, 1, 2, 3, 4],
        _ => &[],
    }
}

/// The configs that the engine's tuner begins with, in its order.
#[must_use]
pub fn space(engine: Engine, gpu: Gpu, tuned: &Tuned) -> Vec<Row> {
    let mut rows = product(&axes(engine, gpu, tuned));
    if engine == Engine::SGLANG {
        let order = [M, N, K, GROUP, WARPS, STAGES, WAVES];
        rows = rows.into_iter().map(|row| arranged(row, &order)).collect();
    }
    rows.retain(|row| is_of_blocks(engine, row, tuned));
    rows
}

/// The configs that the engine's tuner times for `tokens`.
#[must_use]
pub fn pruned(engine: Engine, gpu: Gpu, tuned: &Tuned, tokens: i64) -> Vec<Row> {
    let rows = space(engine, gpu, tuned);
    if engine != Engine::VLLM || gpu.vendor != Vendor::Amd {
        return rows;
    }
    let gemms = [(2 * tuned.intermediate, tuned.hidden), (tuned.hidden, tuned.intermediate)];
    let gemms = gemms.map(|(n, k)| Gemm { m: tokens * tuned.topk, n, k });
    let is_left = |gemm: Gemm, row: &Row| gemm.keeps(row, is_16_bit(tuned), gpu);
    // Those of the first GEMM, then what the second adds.
    let (mut first, rest): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(|row| is_left(gemms[0], row));
    first.extend(rest.into_iter().filter(|row| is_left(gemms[1], row)));
    first
}

/// Whether the tuners take a layer for one of 16 bits, as they do int8_w8a8: its spaces differ.
pub(crate) fn is_16_bit(tuned: &Tuned) -> bool {
    !matches!(tuned.dtype, Some(Precision::Fp8W8A8 | Precision::Int8W8A16 | Precision::Int4W4A16))
}

fn vllm_axes(gpu: Gpu, is_16_bit: bool) -> Axes {
    if gpu.vendor == Vendor::Nvidia {
        return vec![
            (M, &[16, 32, 64, 128, 256]),
            (N, &[32, 64, 128, 256]),
            (K, &[64, 128, 256]),
            (GROUP, &[1, 16, 32, 64]),
            (WARPS, &[4, 8]),
            (STAGES, &[2, 3, 4, 5]),
        ];
    }
    let k: &[i64] = if is_16_bit { &[16, 32, 64, 128, 256] } else { &[32, 64, 128, 256] };
    let mut axes: Axes = vec![
        (M, &[16, 32, 64, 128, 256]),
        (N, &[16, 32, 64, 128, 256]),
        (K, k),
        (GROUP, &[1, 4, 8, 16, 32]),
        (WARPS, &[1, 2, 4, 8]),
        (STAGES, &[2]),
        (WAVES, &[0, 1, 2, 4]),
    ];
    if is_16_bit && gpu.is_cdna {
        axes.extend([(NONKDIM, &[16, 32][..]), (KPACK, &[1, 2])]);
    }
    axes
}

fn sglang_axes(gpu: Gpu) -> Axes {
    if gpu.vendor == Vendor::Nvidia {
        return vec![
            (STAGES, &[2, 3, 4, 5]),
            (M, &[16, 32, 64, 128, 256]),
            (K, &[64, 128, 256]),
            (N, &[32, 64, 128, 256]),
            (WARPS, &[4, 8]),
            (GROUP, &[1, 16, 32, 64]),
        ];
    }
    vec![
        (STAGES, &[2]),
        (M, &[32, 64, 128, 256]),
        (K, &[32, 64, 128, 256]),
        (N, &[16, 32, 64, 128, 256]),
        (WARPS, &[1, 2, 4, 8]),
        (GROUP, &[1, 4, 8, 16, 32]),
        (WAVES, &[0]),
    ]
}

fn product(axes: &Axes) -> Vec<Row> {
    let mut rows = vec![Row::default()];
    for (key, values) in axes {
        let with = |row: &Row, value: i64| {
            let mut row = row.clone();
            row.set(key, value);
            row
        };
        rows = rows.iter().flat_map(|row| values.iter().map(move |value| with(row, *value))).collect();
    }
    rows
}

fn arranged(row: Row, order: &[&str]) -> Row {
    let fields = order.iter().filter_map(|key| row.0.get_key_value(*key));
    Row(fields.map(|(key, value)| (key.clone(), value.clone())).collect())
}

/// Whether the tiles of a row go with the blocks that have a scale each.
fn is_of_blocks(engine: Engine, row: &Row, tuned: &Tuned) -> bool {
    let Some([block_n, block_k]) = tuned.block_shape else { return true };
    let (n, k) = (row.number(N).unwrap_or(0), row.number(K).unwrap_or(0));
    if engine == Engine::SGLANG {
        return divides(k, block_k);
    }
    // vLLM's tuner does not ask that of weights of 4 bits, nor of layers of 16 bits.
    let aligned = |tile: i64, block: i64| divides(block, tile) || divides(tile, block);
    is_16_bit(tuned) || tuned.dtype == Some(Precision::Int4W4A16) || aligned(n, block_n) && aligned(k, block_k)
}

fn divides(divisor: i64, number: i64) -> bool {
    divisor != 0 && number % divisor == 0
}

/// One of the two products of a layer, as vLLM's tuner prunes for it on ROCm.
#[derive(Clone, Copy)]
struct Gemm {
    m: i64,
    n: i64,
    k: i64,
}

/// Bytes of shared memory of a block on AMD's GPUs, as vLLM's tuner has it.
const ROCM_SHARED_MEMORY: i64 = 65_536;
/// Rows and columns of the matrix instruction of RDNA.
const WMMA: i64 = 16;

impl Gemm {
    /// Whether a config is worth a try.
    fn keeps(self, row: &Row, is_16_bit: bool, gpu: Gpu) -> bool {
        let of = |key: &str| row.number(key).unwrap_or(1);
        let (m, n, k, group, warps) = (of(M), of(N), of(K), of(GROUP), of(WARPS));
        let bytes = if is_16_bit { 2 } else { 1 };
        let is_large = self.m >= 2048 && self.n >= 2048;
        let fits = (m + n) * k * bytes <= ROCM_SHARED_MEMORY;
        let is_small_enough = (self.m * 2 >= m || m == 16) && (self.n * 2 >= n || n == 16);
        let is_large_enough = !is_large || m >= 64 && n >= 64 && k >= 64 && warps >= 4;
        // On RDNA the sums of a wave have to stay in its registers.
        let has_registers = gpu.is_cdna || (m / WMMA) * (n / WMMA) / warps * 8 < 256;
        (!is_16_bit || self.takes_instruction(row.number(NONKDIM).unwrap_or(WMMA), m, n))
            && m * n >= 64
            && is_small_enough
            && divides(k, self.k)
            && (group == 1 || group * m <= self.m)
            && fits
            && is_large_enough
            && has_registers
    }

    /// Whether a matrix instruction of `nonkdim` rows and columns goes with the tile and the product.
    fn takes_instruction(self, nonkdim: i64, m: i64, n: i64) -> bool {
        let most = if self.m < 32 || self.n < 32 { 16 } else { 32 };
        nonkdim <= most
            && nonkdim <= m
            && nonkdim <= n
            && (nonkdim < self.m || nonkdim == m)
            && (nonkdim < self.n || nonkdim == n)
    }
}

/// What is launched by a row: two rows that come to the same are the same kernel with the same grid.
#[must_use]
pub fn launched(engine: Engine, row: &Row, block_shape: Option<[i64; 2]>) -> Row {
    // The launcher sets the split of K itself.
    let mut launched = row.clone().without(crate::row::SPLIT_K);
    let lowered = block_shape.map(|[n, k]| n.min(k)).filter(|least| engine.info().lowers_block_k && *least > 0);
    if let Some((least, k)) = lowered.zip(row.number(K)) {
        launched.set(K, k.min(least));
    }
    launched
}

/// Rows without those that launch what an earlier one launches.
#[must_use]
pub fn distinct(engine: Engine, rows: Vec<Row>, block_shape: Option<[i64; 2]>) -> Vec<Row> {
    let mut known = HashSet::new();
    let mut is_new = |row: &Row| {
        let launched = launched(engine, row, block_shape);
        let mut fields: Vec<(String, String)> =
            launched.0.into_iter().map(|(key, value)| (key, value.to_string())).collect();
        fields.sort();
        known.insert(fields)
    };
    rows.into_iter().filter(|row| is_new(row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const H100: Gpu = Gpu { vendor: Vendor::Nvidia, shared_memory: 232_448, is_cdna: false };
    const MI300X: Gpu = Gpu { vendor: Vendor::Amd, shared_memory: 65_536, is_cdna: true };
    const MIXTRAL: Tuned = Tuned { intermediate: 7168, hidden: 4096, topk: 2, dtype: None, block_shape: None };
    const QWEN: Tuned = Tuned { intermediate: 768, hidden: 2048, topk: 8, dtype: None, block_shape: None };
    const DEEPSEEK: Tuned = Tuned {
        intermediate: 256,
        hidden: 7168,
        topk: 8,
        dtype: Some(Precision::Fp8W8A8),
        block_shape: Some([128, 128]),
    };

    #[test]
    fn spaces_are_as_large_as_those_of_the_tuners() {
        let count = |engine, gpu, tuned: &Tuned| space(engine, gpu, tuned).len();
        let eight = Tuned { block_shape: None, ..DEEPSEEK };
        assert_eq!(count(Engine::VLLM, H100, &MIXTRAL), 1920);
        assert_eq!(count(Engine::VLLM, H100, &DEEPSEEK), 1920);
        assert_eq!(count(Engine::VLLM, MI300X, &MIXTRAL), 40_000);
        assert_eq!(count(Engine::VLLM, MI300X, &eight), 8000);
        assert_eq!(count(Engine::SGLANG, H100, &MIXTRAL), 1920);
        assert_eq!(count(Engine::SGLANG, H100, &DEEPSEEK), 1280);
        assert_eq!(count(Engine::SGLANG, MI300X, &MIXTRAL), 1600);
    }

    #[test]
    fn what_is_left_on_rocm_is_what_vllm_leaves() {
        let left = |tuned: &Tuned| [1, 64, 1024, 4096].map(|tokens| pruned(Engine::VLLM, MI300X, tuned, tokens).len());
        assert_eq!(left(&MIXTRAL), [704, 7808, 1888, 2240]);
        assert_eq!(left(&QWEN), [704, 15_296, 25_760, 25_760]);
        assert_eq!(pruned(Engine::VLLM, H100, &MIXTRAL, 1).len(), 1920);
    }

    #[test]
    fn a_tile_above_the_block_is_the_same_launch_for_vllm() {
        let rows = space(Engine::VLLM, H100, &DEEPSEEK);
        assert_eq!(distinct(Engine::VLLM, rows, DEEPSEEK.block_shape).len(), 1280);
        let rows = space(Engine::SGLANG, H100, &DEEPSEEK);
        assert_eq!(distinct(Engine::SGLANG, rows, DEEPSEEK.block_shape).len(), 1280);
        let mut row = Row::of([(M, 16), (K, 256), (crate::row::SPLIT_K, 1)]);
        let launched = launched(Engine::VLLM, &row, Some([128, 128]));
        row = row.without(crate::row::SPLIT_K);
        row.set(K, 128);
        assert_eq!(launched, row);
    }
}
