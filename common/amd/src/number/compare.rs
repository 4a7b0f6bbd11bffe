//! Comparisons and classes.

use super::format::{Format, flush, is_denormal, is_infinite, is_nan, is_negative, is_signalling, is_zero};
use super::mode::Mode;

/// The condition of a V_CMP or V_CMPX of floats: for which orders it holds. Bit 0 is "less", 1 "equal", 2 "greater", 3 "unordered";
/// the instructions' opcodes have these bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comparison(u8);

impl Comparison {
    /// By the part of the mnemonic behind `v_cmp_`, as in `v_cmp_nle_f32`.
    pub fn named(name: &str) -> Option<Comparison> {
        const NAMES: [&str; 16] =
            ["f", "lt", "eq", "le", "gt", "lg", "ge", "o", "u", "nge", "nlg", "ngt", "nle", "neq", "nlt", "tru"];
        // RDNA 3 writes the last one `t`.
        let name = if name == "t" { "tru" } else { name };
        NAMES.iter().position(|known| *known == name).map(|index| Comparison(index as u8))
    }
}

/// V_CMP: whether the condition holds. Denormal inputs are flushed as MODE says.
#[inline]
pub fn compare<F: Format>(mode: &Mode, comparison: Comparison, a: F::Bits, b: F::Bits) -> bool {
    let flush_in = F::behaviour(mode).flush_in;
    let (a, b) = (F::to_f64(flush::<F>(flush_in, a)), F::to_f64(flush::<F>(flush_in, b)));
    let unordered = a.is_nan() || b.is_nan();
    let order = u8::from(a < b) | u8::from(a == b) << 1 | u8::from(a > b) << 2 | u8::from(unordered) << 3;
    comparison.0 & order != 0
}

/// The classes of V_CMP_CLASS, each the bit of the mask that asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Class {
    SignallingNan = 1 << 0,
    QuietNan = 1 << 1,
    NegativeInfinity = 1 << 2,
    NegativeNormal = 1 << 3,
    NegativeDenormal = 1 << 4,
    NegativeZero = 1 << 5,
    PositiveZero = 1 << 6,
    PositiveDenormal = 1 << 7,
    PositiveNormal = 1 << 8,
    PositiveInfinity = 1 << 9,
}

/// V_CMP_CLASS: the class of a value, which MODE does not change; the instruction's result is `mask & class as u32 != 0`.
#[inline]
pub fn class<F: Format>(value: F::Bits) -> Class {
    let negative = is_negative::<F>(value);
    if is_signalling::<F>(value) {
        Class::SignallingNan
    } else if is_nan::<F>(value) {
        Class::QuietNan
    } else if is_infinite::<F>(value) {
        if negative { Class::NegativeInfinity } else { Class::PositiveInfinity }
    } else if is_zero::<F>(value) {
        if negative { Class::NegativeZero } else { Class::PositiveZero }
    } else if is_denormal::<F>(value) {
        if negative { Class::NegativeDenormal } else { Class::PositiveDenormal }
    } else if negative {
        Class::NegativeNormal
    } else {
        Class::PositiveNormal
    }
}
