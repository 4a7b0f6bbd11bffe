//! The instructions, by target.

use super::Element::{Bf8, Bf16, F16, F32, F64, Fp8, I8, I32, Iu4, Iu8, OcpBf8, OcpFp8, Xf32};
use super::{Element, Matrix, Pattern, Sum, Unit};

pub(super) static MATRICES: [Matrix; 65] = [
    // gfx90a: "MI200 ISA", VOP3P-MAI instructions.
    mfma("v_mfma_f32_32x32x1f32", 32, 1, 2, F32, F32, Sum::Fused),
    mfma("v_mfma_f32_16x16x1f32", 16, 1, 4, F32, F32, Sum::Fused),
    mfma("v_mfma_f32_4x4x1f32", 4, 1, 16, F32, F32, Sum::Fused),
    mfma("v_mfma_f32_32x32x2f32", 32, 2, 1, F32, F32, Sum::Fused),
    mfma("v_mfma_f32_16x16x4f32", 16, 4, 1, F32, F32, Sum::Fused),
    mfma("v_mfma_f32_32x32x4f16", 32, 4, 2, F16, F32, Sum::Pairs(4)),
    mfma("v_mfma_f32_16x16x4f16", 16, 4, 4, F16, F32, Sum::Pairs(4)),
    mfma("v_mfma_f32_4x4x4f16", 4, 4, 16, F16, F32, Sum::Pairs(4)),
    mfma("v_mfma_f32_32x32x8f16", 32, 8, 1, F16, F32, Sum::Pairs(4)),
    mfma("v_mfma_f32_16x16x16f16", 16, 16, 1, F16, F32, Sum::Pairs(4)),
    mfma("v_mfma_f32_32x32x2bf16", 32, 2, 2, Bf16, F32, Sum::Pairs(2)),
    mfma("v_mfma_f32_16x16x2bf16", 16, 2, 4, Bf16, F32, Sum::Pairs(2)),
    mfma("v_mfma_f32_4x4x2bf16", 4, 2, 16, Bf16, F32, Sum::Pairs(2)),
    mfma("v_mfma_f32_32x32x4bf16", 32, 4, 1, Bf16, F32, Sum::Pairs(2)),
    mfma("v_mfma_f32_16x16x8bf16", 16, 8, 1, Bf16, F32, Sum::Pairs(2)),
    mfma("v_mfma_f32_32x32x4bf16_1k", 32, 4, 2, Bf16, F32, Sum::Pairs(4)),
    mfma("v_mfma_f32_16x16x4bf16_1k", 16, 4, 4, Bf16, F32, Sum::Pairs(4)),
    mfma("v_mfma_f32_4x4x4bf16_1k", 4, 4, 16, Bf16, F32, Sum::Pairs(4)),
    mfma("v_mfma_f32_32x32x8bf16_1k", 32, 8, 1, Bf16, F32, Sum::Pairs(4)),
    mfma("v_mfma_f32_16x16x16bf16_1k", 16, 16, 1, Bf16, F32, Sum::Pairs(4)),
    mfma("v_mfma_i32_32x32x4i8", 32, 4, 2, I8, I32, Sum::Exact),
    mfma("v_mfma_i32_16x16x4i8", 16, 4, 4, I8, I32, Sum::Exact),
    mfma("v_mfma_i32_4x4x4i8", 4, 4, 16, I8, I32, Sum::Exact),
    mfma("v_mfma_i32_32x32x8i8", 32, 8, 1, I8, I32, Sum::Exact),
    mfma("v_mfma_i32_16x16x16i8", 16, 16, 1, I8, I32, Sum::Exact),
    double("v_mfma_f64_16x16x4f64", 16, 1, Pattern::None),
    double("v_mfma_f64_4x4x4f64", 4, 4, Pattern::None),
    // gfx942: "MI300 ISA", VOP3P-MAI instructions.
    mfma("v_mfma_f32_32x32x1_2b_f32", 32, 1, 2, F32, F32, Sum::Fused),
    mfma("v_mfma_f32_16x16x1_4b_f32", 16, 1, 4, F32, F32, Sum::Fused),
    mfma("v_mfma_f32_4x4x1_16b_f32", 4, 1, 16, F32, F32, Sum::Fused),
    mfma("v_mfma_f32_32x32x2_f32", 32, 2, 1, F32, F32, Sum::Fused),
    mfma("v_mfma_f32_16x16x4_f32", 16, 4, 1, F32, F32, Sum::Fused),
    mfma("v_mfma_f32_32x32x4_xf32", 32, 4, 1, Xf32, F32, Sum::Truncated(4)),
    mfma("v_mfma_f32_16x16x8_xf32", 16, 8, 1, Xf32, F32, Sum::Truncated(4)),
    mfma("v_mfma_f32_32x32x4_2b_f16", 32, 4, 2, F16, F32, Sum::Truncated(8)),
    mfma("v_mfma_f32_16x16x4_4b_f16", 16, 4, 4, F16, F32, Sum::Truncated(8)),
    mfma("v_mfma_f32_4x4x4_16b_f16", 4, 4, 16, F16, F32, Sum::Truncated(8)),
    mfma("v_mfma_f32_32x32x8_f16", 32, 8, 1, F16, F32, Sum::Truncated(8)),
    mfma("v_mfma_f32_16x16x16_f16", 16, 16, 1, F16, F32, Sum::Truncated(8)),
    mfma("v_mfma_f32_32x32x4_2b_bf16", 32, 4, 2, Bf16, F32, Sum::Truncated(8)),
    mfma("v_mfma_f32_16x16x4_4b_bf16", 16, 4, 4, Bf16, F32, Sum::Truncated(8)),
    mfma("v_mfma_f32_4x4x4_16b_bf16", 4, 4, 16, Bf16, F32, Sum::Truncated(8)),
    mfma("v_mfma_f32_32x32x8_bf16", 32, 8, 1, Bf16, F32, Sum::Truncated(8)),
    mfma("v_mfma_f32_16x16x16_bf16", 16, 16, 1, Bf16, F32, Sum::Truncated(8)),
    mfma("v_mfma_i32_32x32x4_2b_i8", 32, 4, 2, I8, I32, Sum::Exact),
    mfma("v_mfma_i32_16x16x4_4b_i8", 16, 4, 4, I8, I32, Sum::Exact),
    mfma("v_mfma_i32_4x4x4_16b_i8", 4, 4, 16, I8, I32, Sum::Exact),
    mfma("v_mfma_i32_32x32x16_i8", 32, 16, 1, I8, I32, Sum::Exact),
    mfma("v_mfma_i32_16x16x32_i8", 16, 32, 1, I8, I32, Sum::Exact),
    double("v_mfma_f64_16x16x4_f64", 16, 1, Pattern::Negations),
    double("v_mfma_f64_4x4x4_4b_f64", 4, 4, Pattern::Negations),
    eight("v_mfma_f32_32x32x16_fp8_fp8", 32, 16, Fp8, Fp8),
    eight("v_mfma_f32_32x32x16_fp8_bf8", 32, 16, Fp8, Bf8),
    eight("v_mfma_f32_32x32x16_bf8_fp8", 32, 16, Bf8, Fp8),
    eight("v_mfma_f32_32x32x16_bf8_bf8", 32, 16, Bf8, Bf8),
    eight("v_mfma_f32_16x16x32_fp8_fp8", 16, 32, Fp8, Fp8),
    eight("v_mfma_f32_16x16x32_fp8_bf8", 16, 32, Fp8, Bf8),
    eight("v_mfma_f32_16x16x32_bf8_fp8", 16, 32, Bf8, Fp8),
    eight("v_mfma_f32_16x16x32_bf8_bf8", 16, 32, Bf8, Bf8),
    // gfx11: "RDNA 3 ISA", VOP3P instructions.
    wmma("v_wmma_f32_16x16x16_f16", F16, F32),
    wmma("v_wmma_f32_16x16x16_bf16", Bf16, F32),
    wmma("v_wmma_f16_16x16x16_f16", F16, F16),
    wmma("v_wmma_bf16_16x16x16_bf16", Bf16, Bf16),
    wmma("v_wmma_i32_16x16x16_iu8", Iu8, I32),
    wmma("v_wmma_i32_16x16x16_iu4", Iu4, I32),
];

const fn mfma(
    name: &'static str,
    size: usize,
    depth: usize,
    blocks: usize,
    factor: Element,
    result: Element,
    sum: Sum,
) -> Matrix {
    Matrix {
        name,
        rows: size,
        columns: size,
        depth,
        blocks,
        a: factor,
        b: factor,
        result,
        sum,
        sparse: false,
        broadcasts_a: blocks > 1,
        pattern: Pattern::Lanes,
        unit: Unit::Mfma,
    }
}

const fn double(name: &'static str, size: usize, blocks: usize, pattern: Pattern) -> Matrix {
    Matrix { broadcasts_a: false, pattern, ..mfma(name, size, 4, blocks, F64, F64, Sum::Fused) }
}

const fn eight(name: &'static str, size: usize, depth: usize, a: Element, b: Element) -> Matrix {
    Matrix { b, ..mfma(name, size, depth, 1, a, F32, Sum::TruncatedHalves) }
}

const fn wmma(name: &'static str, factor: Element, result: Element) -> Matrix {
    let sum = match result {
        I32 => Sum::Exact,
        _ => Sum::Wide,
    };
    Matrix { pattern: Pattern::None, unit: Unit::Copies, ..mfma(name, 16, 16, 1, factor, result, sum) }
}

/// gfx942's of a sparse A: "MI300 ISA", VOP3P-MAI instructions.
pub(super) static SPARSE: [Matrix; 14] = [
    smfmac("v_smfmac_f32_16x16x32_f16", 16, 32, F16, F16, Sum::Truncated(8)),
    smfmac("v_smfmac_f32_32x32x16_f16", 32, 16, F16, F16, Sum::Truncated(8)),
    smfmac("v_smfmac_f32_16x16x32_bf16", 16, 32, Bf16, Bf16, Sum::Truncated(8)),
    smfmac("v_smfmac_f32_32x32x16_bf16", 32, 16, Bf16, Bf16, Sum::Truncated(8)),
    smfmac("v_smfmac_i32_16x16x64_i8", 16, 64, I8, I8, Sum::Exact),
    smfmac("v_smfmac_i32_32x32x32_i8", 32, 32, I8, I8, Sum::Exact),
    smfmac("v_smfmac_f32_16x16x64_fp8_fp8", 16, 64, Fp8, Fp8, Sum::TruncatedHalves),
    smfmac("v_smfmac_f32_16x16x64_fp8_bf8", 16, 64, Fp8, Bf8, Sum::TruncatedHalves),
    smfmac("v_smfmac_f32_16x16x64_bf8_fp8", 16, 64, Bf8, Fp8, Sum::TruncatedHalves),
    smfmac("v_smfmac_f32_16x16x64_bf8_bf8", 16, 64, Bf8, Bf8, Sum::TruncatedHalves),
    smfmac("v_smfmac_f32_32x32x32_fp8_fp8", 32, 32, Fp8, Fp8, Sum::TruncatedHalves),
    smfmac("v_smfmac_f32_32x32x32_fp8_bf8", 32, 32, Fp8, Bf8, Sum::TruncatedHalves),
    smfmac("v_smfmac_f32_32x32x32_bf8_fp8", 32, 32, Bf8, Fp8, Sum::TruncatedHalves),
    smfmac("v_smfmac_f32_32x32x32_bf8_bf8", 32, 32, Bf8, Bf8, Sum::TruncatedHalves),
];

const fn smfmac(name: &'static str, size: usize, depth: usize, a: Element, b: Element, sum: Sum) -> Matrix {
    let result = match a {
        I8 => I32,
        _ => F32,
    };
    Matrix { b, sparse: true, pattern: Pattern::None, ..mfma(name, size, depth, 1, a, result, sum) }
}

/// What gfx950 added, and what has other elements there than on gfx942: "CDNA 4 ISA", VOP3P-MAI instructions.
pub(super) static CDNA4: [Matrix; 38] = [
    mfma("v_mfma_f32_16x16x32_f16", 16, 32, 1, F16, F32, Sum::Truncated(8)),
    mfma("v_mfma_f32_32x32x16_f16", 32, 16, 1, F16, F32, Sum::Truncated(8)),
    mfma("v_mfma_f32_16x16x32_bf16", 16, 32, 1, Bf16, F32, Sum::Truncated(8)),
    mfma("v_mfma_f32_32x32x16_bf16", 32, 16, 1, Bf16, F32, Sum::Truncated(8)),
    mfma("v_mfma_i32_16x16x64_i8", 16, 64, 1, I8, I32, Sum::Exact),
    mfma("v_mfma_i32_32x32x32_i8", 32, 32, 1, I8, I32, Sum::Exact),
    open("v_mfma_f32_16x16x128_f8f6f4", 16, 128, OcpFp8, OcpFp8),
    open("v_mfma_f32_32x32x64_f8f6f4", 32, 64, OcpFp8, OcpFp8),
    open("v_mfma_f32_32x32x16_fp8_fp8", 32, 16, OcpFp8, OcpFp8),
    open("v_mfma_f32_32x32x16_fp8_bf8", 32, 16, OcpFp8, OcpBf8),
    open("v_mfma_f32_32x32x16_bf8_fp8", 32, 16, OcpBf8, OcpFp8),
    open("v_mfma_f32_32x32x16_bf8_bf8", 32, 16, OcpBf8, OcpBf8),
    open("v_mfma_f32_16x16x32_fp8_fp8", 16, 32, OcpFp8, OcpFp8),
    open("v_mfma_f32_16x16x32_fp8_bf8", 16, 32, OcpFp8, OcpBf8),
    open("v_mfma_f32_16x16x32_bf8_fp8", 16, 32, OcpBf8, OcpFp8),
    open("v_mfma_f32_16x16x32_bf8_bf8", 16, 32, OcpBf8, OcpBf8),
    smfmac("v_smfmac_f32_16x16x64_f16", 16, 64, F16, F16, Sum::Truncated(8)),
    smfmac("v_smfmac_f32_32x32x32_f16", 32, 32, F16, F16, Sum::Truncated(8)),
    smfmac("v_smfmac_f32_16x16x64_bf16", 16, 64, Bf16, Bf16, Sum::Truncated(8)),
    smfmac("v_smfmac_f32_32x32x32_bf16", 32, 32, Bf16, Bf16, Sum::Truncated(8)),
    smfmac("v_smfmac_i32_16x16x128_i8", 16, 128, I8, I8, Sum::Exact),
    smfmac("v_smfmac_i32_32x32x64_i8", 32, 64, I8, I8, Sum::Exact),
    smfmac("v_smfmac_f32_16x16x64_fp8_fp8", 16, 64, OcpFp8, OcpFp8, Sum::Wide),
    smfmac("v_smfmac_f32_16x16x64_fp8_bf8", 16, 64, OcpFp8, OcpBf8, Sum::Wide),
    smfmac("v_smfmac_f32_16x16x64_bf8_fp8", 16, 64, OcpBf8, OcpFp8, Sum::Wide),
    smfmac("v_smfmac_f32_16x16x64_bf8_bf8", 16, 64, OcpBf8, OcpBf8, Sum::Wide),
    smfmac("v_smfmac_f32_32x32x32_fp8_fp8", 32, 32, OcpFp8, OcpFp8, Sum::Wide),
    smfmac("v_smfmac_f32_32x32x32_fp8_bf8", 32, 32, OcpFp8, OcpBf8, Sum::Wide),
    smfmac("v_smfmac_f32_32x32x32_bf8_fp8", 32, 32, OcpBf8, OcpFp8, Sum::Wide),
    smfmac("v_smfmac_f32_32x32x32_bf8_bf8", 32, 32, OcpBf8, OcpBf8, Sum::Wide),
    smfmac("v_smfmac_f32_16x16x128_fp8_fp8", 16, 128, OcpFp8, OcpFp8, Sum::Wide),
    smfmac("v_smfmac_f32_16x16x128_fp8_bf8", 16, 128, OcpFp8, OcpBf8, Sum::Wide),
    smfmac("v_smfmac_f32_16x16x128_bf8_fp8", 16, 128, OcpBf8, OcpFp8, Sum::Wide),
    smfmac("v_smfmac_f32_16x16x128_bf8_bf8", 16, 128, OcpBf8, OcpBf8, Sum::Wide),
    smfmac("v_smfmac_f32_32x32x64_fp8_fp8", 32, 64, OcpFp8, OcpFp8, Sum::Wide),
    smfmac("v_smfmac_f32_32x32x64_fp8_bf8", 32, 64, OcpFp8, OcpBf8, Sum::Wide),
    smfmac("v_smfmac_f32_32x32x64_bf8_fp8", 32, 64, OcpBf8, OcpFp8, Sum::Wide),
    smfmac("v_smfmac_f32_32x32x64_bf8_bf8", 32, 64, OcpBf8, OcpBf8, Sum::Wide),
];

/// gfx12's: "RDNA 4 ISA", VOP3P instructions.
pub(super) static RDNA4: [Matrix; 22] = [
    pairs("v_wmma_f32_16x16x16_f16", 16, F16, F16, F32),
    pairs("v_wmma_f32_16x16x16_bf16", 16, Bf16, Bf16, F32),
    pairs("v_wmma_f16_16x16x16_f16", 16, F16, F16, F16),
    pairs("v_wmma_bf16_16x16x16_bf16", 16, Bf16, Bf16, Bf16),
    pairs("v_wmma_f32_16x16x16_fp8_fp8", 16, OcpFp8, OcpFp8, F32),
    pairs("v_wmma_f32_16x16x16_fp8_bf8", 16, OcpFp8, OcpBf8, F32),
    pairs("v_wmma_f32_16x16x16_bf8_fp8", 16, OcpBf8, OcpFp8, F32),
    pairs("v_wmma_f32_16x16x16_bf8_bf8", 16, OcpBf8, OcpBf8, F32),
    pairs("v_wmma_i32_16x16x16_iu8", 16, Iu8, Iu8, I32),
    pairs("v_wmma_i32_16x16x16_iu4", 16, Iu4, Iu4, I32),
    pairs("v_wmma_i32_16x16x32_iu4", 32, Iu4, Iu4, I32),
    swmmac("v_swmmac_f32_16x16x32_f16", 32, F16, F16, F32),
    swmmac("v_swmmac_f32_16x16x32_bf16", 32, Bf16, Bf16, F32),
    swmmac("v_swmmac_f16_16x16x32_f16", 32, F16, F16, F16),
    swmmac("v_swmmac_bf16_16x16x32_bf16", 32, Bf16, Bf16, Bf16),
    swmmac("v_swmmac_f32_16x16x32_fp8_fp8", 32, OcpFp8, OcpFp8, F32),
    swmmac("v_swmmac_f32_16x16x32_fp8_bf8", 32, OcpFp8, OcpBf8, F32),
    swmmac("v_swmmac_f32_16x16x32_bf8_fp8", 32, OcpBf8, OcpFp8, F32),
    swmmac("v_swmmac_f32_16x16x32_bf8_bf8", 32, OcpBf8, OcpBf8, F32),
    swmmac("v_swmmac_i32_16x16x32_iu8", 32, Iu8, Iu8, I32),
    swmmac("v_swmmac_i32_16x16x32_iu4", 32, Iu4, Iu4, I32),
    swmmac("v_swmmac_i32_16x16x64_iu4", 64, Iu4, Iu4, I32),
];

const fn open(name: &'static str, size: usize, depth: usize, a: Element, b: Element) -> Matrix {
    Matrix { b, ..mfma(name, size, depth, 1, a, F32, Sum::Wide) }
}

const fn pairs(name: &'static str, depth: usize, a: Element, b: Element, result: Element) -> Matrix {
    Matrix { depth, b, unit: Unit::Pairs, ..wmma(name, a, result) }
}

const fn swmmac(name: &'static str, depth: usize, a: Element, b: Element, result: Element) -> Matrix {
    Matrix { sparse: true, ..pairs(name, depth, a, b, result) }
}
