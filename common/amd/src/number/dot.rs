//! Dot products of packed values, and the mixed-precision multiply-add.
//!
//! The sums are taken as the pseudocode writes them, each step fused and rounded in the format of its type as MODE says. How the
//! hardware rounds is not documented; V_DOT2_F32_F16 of gfx12 has been seen to cut off, up to 2 ULP from this.

use rustc_apfloat::{Float, ieee::BFloat};

use super::arithmetic::fma;
use super::convert::{bf16_to_f32, resize};
use super::eight_bit::{Eight, eight_to_f32};
use super::format::{F16, F32};
use super::mode::Mode;

/// The packed integers of one source of a dot product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    Signed,
    Unsigned,
}

/// Which part of a register a source of V_FMA_MIX is (`op_sel_hi` and `op_sel`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Whole,
    Low,
    High,
}

/// V_DOT2_F32_F16, V_DOT2C_F32_F16, V_DOT2ACC_F32_F16: c + a0 * b0, then + a1 * b1.
#[inline]
pub fn dot2_f32_f16(mode: &Mode, a: u32, b: u32, c: u32) -> u32 {
    let wide = |half| resize::<F16, F32>(mode, half);
    let ([a0, a1], [b0, b1]) = (halves(a), halves(b));
    let sum = fma::<F32>(mode, wide(a0), wide(b0), c);
    fma::<F32>(mode, wide(a1), wide(b1), sum)
}

/// V_DOT2_F32_BF16 (RDNA 3): c + a0 * b0, then + a1 * b1.
#[inline]
pub fn dot2_f32_bf16(mode: &Mode, a: u32, b: u32, c: u32) -> u32 {
    let ([a0, a1], [b0, b1]) = (halves(a), halves(b));
    let sum = fma::<F32>(mode, bf16_to_f32(a0), bf16_to_f32(b0), c);
    fma::<F32>(mode, bf16_to_f32(a1), bf16_to_f32(b1), sum)
}

/// V_DOT4_F32_FP8_FP8 and its like (RDNA 4): c, then + a0 * b0 to + a3 * b3, of bytes that are FP8 or BF8.
#[inline]
pub fn dot4_f32(mode: &Mode, [a_format, b_format]: [Eight; 2], a: u32, b: u32, c: u32) -> u32 {
    let bytes = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
    bytes.fold(c, |sum, (a, b)| fma::<F32>(mode, eight_to_f32(a_format, a), eight_to_f32(b_format, b), sum))
}

/// V_DOT2_F16_F16 (RDNA 3): as V_DOT2_F32_F16 in FP16.
#[inline]
pub fn dot2_f16(mode: &Mode, a: u32, b: u32, c: u16) -> u16 {
    let ([a0, a1], [b0, b1]) = (halves(a), halves(b));
    let sum = fma::<F16>(mode, a0, b0, c);
    fma::<F16>(mode, a1, b1, sum)
}

/// V_DOT2_BF16_BF16 (RDNA 3): the same in BF16; to the nearest even, denormals kept, since MODE has no fields for BF16.
pub fn dot2_bf16(a: u32, b: u32, c: u16) -> u16 {
    let [[a0, a1], [b0, b1]] = [a, b].map(|pair| halves(pair).map(|half| BFloat::from_bits(u128::from(half))));
    let sum = a0.mul_add(b0, BFloat::from_bits(u128::from(c))).value;
    a1.mul_add(b1, sum).value.to_bits() as u16
}

/// V_DOT2_I32_I16, V_DOT2_U32_U16, V_DOT2C_I32_I16; `saturate` is the `clamp` modifier. The result is signed if both sources are.
#[inline]
pub fn dot2_i16(lanes: Lanes, saturate: bool, a: u32, b: u32, c: u32) -> u32 {
    dot_integer::<16>(lanes, lanes, saturate, a, b, c)
}

/// V_DOT4_I32_I8, V_DOT4_U32_U8, V_DOT4C_I32_I8, V_DOT4_I32_IU8 (whose `neg_lo` says which source is signed).
#[inline]
pub fn dot4_i8(a_lanes: Lanes, b_lanes: Lanes, saturate: bool, a: u32, b: u32, c: u32) -> u32 {
    dot_integer::<8>(a_lanes, b_lanes, saturate, a, b, c)
}

/// V_DOT8_I32_I4, V_DOT8_U32_U4, V_DOT8C_I32_I4, V_DOT8_I32_IU4.
#[inline]
pub fn dot8_i4(a_lanes: Lanes, b_lanes: Lanes, saturate: bool, a: u32, b: u32, c: u32) -> u32 {
    dot_integer::<4>(a_lanes, b_lanes, saturate, a, b, c)
}

/// A source of V_FMA_MIX, V_FMA_MIXLO and V_FMA_MIXHI as FP32; `neg` and `abs` are the caller's, behind this.
#[inline]
pub fn mix_source(mode: &Mode, part: Part, register: u32) -> u32 {
    match part {
        Part::Whole => register,
        Part::Low => resize::<F16, F32>(mode, register as u16),
        Part::High => resize::<F16, F32>(mode, (register >> 16) as u16),
    }
}

/// V_FMA_MIX_F32: a * b + c of sources by [`mix_source`].
#[inline]
pub fn fma_mix(mode: &Mode, a: u32, b: u32, c: u32) -> u32 {
    fma::<F32>(mode, a, b, c)
}

/// V_FMA_MIXLO_F16, V_FMA_MIXHI_F16: the same, rounded to FP32 and then to FP16, as the pseudocode has it.
#[inline]
pub fn fma_mix_f16(mode: &Mode, a: u32, b: u32, c: u32) -> u16 {
    resize::<F32, F16>(mode, fma::<F32>(mode, a, b, c))
}

fn halves(pair: u32) -> [u16; 2] {
    [pair as u16, (pair >> 16) as u16]
}

#[inline]
fn dot_integer<const BITS: u32>(a_lanes: Lanes, b_lanes: Lanes, saturate: bool, a: u32, b: u32, c: u32) -> u32 {
    let lane = |lanes, register: u32, shift: u32| {
        let top = register << (32 - BITS - shift);
        match lanes {
            Lanes::Signed => i64::from(top as i32 >> (32 - BITS)),
            Lanes::Unsigned => i64::from(top >> (32 - BITS)),
        }
    };
    let products: i64 =
        (0..32 / BITS).map(|index| lane(a_lanes, a, index * BITS) * lane(b_lanes, b, index * BITS)).sum();
    let unsigned = a_lanes == Lanes::Unsigned && b_lanes == Lanes::Unsigned;
    let sum = products + if unsigned { i64::from(c) } else { i64::from(c as i32) };
    match (saturate, unsigned) {
        (false, _) => sum as u32,
        (true, true) => sum.clamp(0, i64::from(u32::MAX)) as u32,
        (true, false) => sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32 as u32,
    }
}
