//! Arithmetic of AMD's vector units on bit patterns: what an instruction computes for one lane, MODE register included.
//!
//! A value is the register's bits (`u16`, `u32`, `u64`), a format is a type parameter: `add::<F32>(&mode, a, b)`. Sources are the
//! documents "AMD Instinct MI200 / MI300 Instruction Set Architecture" (CDNA 2, CDNA 3) and "RDNA 3 Instruction Set Architecture",
//! sections "Instructions" (the pseudocode) and "Mode register"; where these are silent, the comment at the function says what was
//! chosen. Rounding to nearest is done with the host's own operations where they are exact, all else with LLVM's APFloat.

mod arithmetic;
mod compare;
mod convert;
mod division;
mod dot;
mod eight_bit;
mod format;
mod mode;
mod parts;
mod select;
mod transcendental;
mod turn;

pub use self::arithmetic::{add, fma, fma_legacy, mad, mad_legacy, mul, mul_legacy, mul_lit, sub};
pub use self::compare::{Comparison, class, compare};
pub use self::convert::{
    bf16_from_f32, bf16_to_f32, float_from_i32, float_from_u32, float_to_i32, float_to_u32, pack_i16, pack_norm_i16,
    pack_norm_u16, pack_round_to_zero, pack_u8, pack_u16, resize, to_i16, to_i32_floor, to_i32_nearest, to_u16,
    ubyte_to_f32,
};
pub use self::division::{div_fixup, div_fmas, div_scale};
pub use self::dot::{
    Lanes, Part, dot2_bf16, dot2_f16, dot2_f32_bf16, dot2_f32_f16, dot2_i16, dot4_f32, dot4_i8, dot8_i4, fma_mix,
    fma_mix_f16, mix_source,
};
pub use self::eight_bit::{
    Eight, Rounding, eight_from_f32, eight_from_f32_stochastic, eight_rounded, eight_to_f32, sixteen_from_f32,
    small_from_f32, small_to_f32,
};
pub use self::format::{F16, F32, F64, Format};
pub(crate) use self::format::{half_to_single, single_to_half};
pub use self::mode::{Behaviour, Mode};
pub use self::parts::{ceil, floor, fract, frexp_exponent, frexp_mantissa, ldexp, round_even, trunc};
pub use self::select::{clamp, max, max3, median3, min, min3, output_modifier};
pub use self::transcendental::{cos, exp2, log2, rcp, rsq, sin, sqrt};
pub use self::turn::trig_preop;

#[cfg(test)]
pub(crate) mod tests;
