//! The three formats of the vector units: their fields, and the operations that the host does exactly.

use rustc_apfloat::{Float, ieee};

use super::mode::{Behaviour, Mode};

/// A binary format of IEEE 754 and its bits.
pub trait Format: Copy + 'static {
    type Bits: Copy + Eq + std::fmt::Debug + std::fmt::LowerHex;
    /// The same format where every rounding is available.
    type Exact: Float;

    const SIGN: u64;
    /// The exponent's field, which is also infinity.
    const INFINITY: u64;
    const MANTISSA_BITS: u32;
    const BIAS: i32;

    const MANTISSA: u64 = (1 << Self::MANTISSA_BITS) - 1;
    const QUIET: u64 = 1 << (Self::MANTISSA_BITS - 1);
    /// What an invalid operation gives: 0xffc00000 in FP32, as in V_DIV_FIXUP and in the examples of V_SQRT, V_LOG and V_RSQ.
    const DEFAULT_NAN: u64 = Self::SIGN | Self::INFINITY | Self::QUIET;
    const ONE: u64 = (Self::BIAS as u64) << Self::MANTISSA_BITS;

    fn wide(bits: Self::Bits) -> u64;
    /// The low bits of `wide`.
    fn narrow(wide: u64) -> Self::Bits;

    fn behaviour(mode: &Mode) -> Behaviour;
    /// Whether a result that overflows becomes the largest number.
    fn clamps_overflow(_mode: &Mode) -> bool {
        false
    }

    /// Sum, rounded to the nearest even. Of a NaN only that it is one counts; so for the next ones.
    fn add_nearest(a: Self::Bits, b: Self::Bits) -> Self::Bits;
    fn mul_nearest(a: Self::Bits, b: Self::Bits) -> Self::Bits;
    fn fma_nearest(a: Self::Bits, b: Self::Bits, c: Self::Bits) -> Self::Bits;

    /// The value, exactly.
    fn to_f64(bits: Self::Bits) -> f64;
    /// Rounded to the nearest even, once.
    fn from_f64_nearest(value: f64) -> Self::Bits;
    fn from_f32_nearest(value: f32) -> Self::Bits;

    fn exact(bits: Self::Bits) -> Self::Exact {
        Self::Exact::from_bits(u128::from(Self::wide(bits)))
    }

    fn from_exact(value: Self::Exact) -> Self::Bits {
        Self::narrow(value.to_bits() as u64)
    }
}

/// FP16, a register's low or high half.
#[derive(Clone, Copy, Debug)]
pub struct F16;
/// FP32.
#[derive(Clone, Copy, Debug)]
pub struct F32;
/// FP64, a pair of registers.
#[derive(Clone, Copy, Debug)]
pub struct F64;

impl Format for F16 {
    type Bits = u16;
    type Exact = ieee::Half;
    const SIGN: u64 = 0x8000;
    const INFINITY: u64 = 0x7c00;
    const MANTISSA_BITS: u32 = 10;
    const BIAS: i32 = 15;

    fn wide(bits: u16) -> u64 {
        u64::from(bits)
    }
    fn narrow(wide: u64) -> u16 {
        wide as u16
    }
    fn behaviour(mode: &Mode) -> Behaviour {
        mode.half_double
    }
    fn clamps_overflow(mode: &Mode) -> bool {
        mode.clamp_overflow
    }
    // FP32 has more than twice the digits of FP16 plus two, so that rounding a sum or product twice is rounding once.
    fn add_nearest(a: u16, b: u16) -> u16 {
        single_to_half(half_to_single(a) + half_to_single(b))
    }
    fn mul_nearest(a: u16, b: u16) -> u16 {
        single_to_half(half_to_single(a) * half_to_single(b))
    }
    fn fma_nearest(a: u16, b: u16, c: u16) -> u16 {
        let product = f64::from(half_to_single(a)) * f64::from(half_to_single(b));
        single_to_half(odd_single(odd_sum(product, f64::from(half_to_single(c)))))
    }
    fn to_f64(bits: u16) -> f64 {
        f64::from(half_to_single(bits))
    }
    fn from_f32_nearest(value: f32) -> u16 {
        single_to_half(value)
    }
    fn from_f64_nearest(value: f64) -> u16 {
        single_to_half(odd_single(value))
    }
}

impl Format for F32 {
    type Bits = u32;
    type Exact = ieee::Single;
    const SIGN: u64 = 0x8000_0000;
    const INFINITY: u64 = 0x7f80_0000;
    const MANTISSA_BITS: u32 = 23;
    const BIAS: i32 = 127;

    fn wide(bits: u32) -> u64 {
        u64::from(bits)
    }
    fn narrow(wide: u64) -> u32 {
        wide as u32
    }
    fn behaviour(mode: &Mode) -> Behaviour {
        mode.single
    }
    fn add_nearest(a: u32, b: u32) -> u32 {
        (f32::from_bits(a) + f32::from_bits(b)).to_bits()
    }
    fn mul_nearest(a: u32, b: u32) -> u32 {
        (f32::from_bits(a) * f32::from_bits(b)).to_bits()
    }
    fn fma_nearest(a: u32, b: u32, c: u32) -> u32 {
        f32::from_bits(a).mul_add(f32::from_bits(b), f32::from_bits(c)).to_bits()
    }
    fn to_f64(bits: u32) -> f64 {
        f64::from(f32::from_bits(bits))
    }
    fn from_f32_nearest(value: f32) -> u32 {
        value.to_bits()
    }
    fn from_f64_nearest(value: f64) -> u32 {
        (value as f32).to_bits()
    }
}

impl Format for F64 {
    type Bits = u64;
    type Exact = ieee::Double;
    const SIGN: u64 = 1 << 63;
    const INFINITY: u64 = 0x7ff0_0000_0000_0000;
    const MANTISSA_BITS: u32 = 52;
    const BIAS: i32 = 1023;

    fn wide(bits: u64) -> u64 {
        bits
    }
    fn narrow(wide: u64) -> u64 {
        wide
    }
    fn behaviour(mode: &Mode) -> Behaviour {
        mode.half_double
    }
    fn add_nearest(a: u64, b: u64) -> u64 {
        (f64::from_bits(a) + f64::from_bits(b)).to_bits()
    }
    fn mul_nearest(a: u64, b: u64) -> u64 {
        (f64::from_bits(a) * f64::from_bits(b)).to_bits()
    }
    fn fma_nearest(a: u64, b: u64, c: u64) -> u64 {
        f64::from_bits(a).mul_add(f64::from_bits(b), f64::from_bits(c)).to_bits()
    }
    fn to_f64(bits: u64) -> f64 {
        f64::from_bits(bits)
    }
    fn from_f32_nearest(value: f32) -> u64 {
        f64::from(value).to_bits()
    }
    fn from_f64_nearest(value: f64) -> u64 {
        value.to_bits()
    }
}

/// FP16 to FP32, exactly; a NaN keeps its sign and payload.
#[inline]
pub(crate) fn half_to_single(half: u16) -> f32 {
    let magnitude = f32::from_bits((u32::from(half) & 0x7fff) << 13);
    // Moves the exponent from FP16's bias to FP32's, and makes denormals normal.
    let scaled = (magnitude * f32::from_bits(0x7780_0000)).to_bits();
    let special = if half & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits(scaled | special | (u32::from(half) & 0x8000) << 16)
}

/// FP32 to FP16, to the nearest even; a NaN keeps its sign and the high bits of its payload, quieted.
#[inline]
pub(crate) fn single_to_half(single: f32) -> u16 {
    let bits = single.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    let half = if magnitude >= 0x4780_0000 {
        // 65,536 and more, infinity, NaN.
        if magnitude > 0x7f80_0000 { 0x7e00 | (magnitude >> 13 & 0x1ff) } else { 0x7c00 }
    } else if magnitude < 0x3880_0000 {
        // Below FP16's normal range: adding 0.5 puts the denormal's unit, 2^-24, at FP32's last digit and rounds there.
        (f32::from_bits(magnitude) + 0.5).to_bits() - 0.5f32.to_bits()
    } else {
        let odd = magnitude >> 13 & 1;
        (magnitude - (112 << 23) + 0xfff + odd) >> 13
    };
    sign | half as u16
}

/// a + b rounded to odd: an inexact sum gets an odd last digit, so that it can be rounded again without harm
/// (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
#[inline]
pub(crate) fn odd_sum(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let part = sum - a;
    let error = (a - (sum - part)) + (b - part);
    let bits = sum.to_bits();
    // An infinity or a NaN has an error that is NaN and is left alone.
    let inexact = error.abs() > 0.0;
    if inexact && bits & 1 == 0 {
        let away = (error > 0.0) == (sum > 0.0);
        f64::from_bits(if away { bits + 1 } else { bits - 1 })
    } else {
        sum
    }
}

/// FP64 to FP32 rounded to odd, for values in FP32's normal range, zeros, infinities and NaNs.
#[inline]
fn odd_single(value: f64) -> f32 {
    let bits = value.to_bits();
    let lost = bits & 0x1fff_ffff;
    let kept = bits & !0x1fff_ffff;
    let odd = if lost != 0 { kept | 1 << 29 } else { kept };
    let magnitude = value.abs();
    if magnitude > f64::from(f32::MAX) || magnitude < f64::from(f32::MIN_POSITIVE) {
        // Far beyond FP16's range on either side: only that it is beyond counts, and that it is no zero.
        if value == 0.0 || value.is_nan() {
            value as f32
        } else {
            (if magnitude > 1.0 { f32::INFINITY } else { f32::MIN_POSITIVE }).copysign(value as f32)
        }
    } else {
        f64::from_bits(odd) as f32
    }
}

/// Whether the bits are those of a NaN.
#[inline]
pub(crate) fn is_nan<F: Format>(bits: F::Bits) -> bool {
    F::wide(bits) & !F::SIGN > F::INFINITY
}

/// Whether the bits are those of a NaN that is not quiet.
#[inline]
pub(crate) fn is_signalling<F: Format>(bits: F::Bits) -> bool {
    is_nan::<F>(bits) && F::wide(bits) & F::QUIET == 0
}

#[inline]
pub(crate) fn is_denormal<F: Format>(bits: F::Bits) -> bool {
    let wide = F::wide(bits);
    wide & F::INFINITY == 0 && wide & F::MANTISSA != 0
}

#[inline]
pub(crate) fn is_infinite<F: Format>(bits: F::Bits) -> bool {
    F::wide(bits) & !F::SIGN == F::INFINITY
}

#[inline]
pub(crate) fn is_zero<F: Format>(bits: F::Bits) -> bool {
    F::wide(bits) & !F::SIGN == 0
}

#[inline]
pub(crate) fn is_negative<F: Format>(bits: F::Bits) -> bool {
    F::wide(bits) & F::SIGN != 0
}

#[inline]
pub(crate) fn quiet<F: Format>(bits: F::Bits) -> F::Bits {
    F::narrow(F::wide(bits) | F::QUIET)
}

/// A zero of its sign for a denormal, if `flush`.
#[inline]
pub(crate) fn flush<F: Format>(flush: bool, bits: F::Bits) -> F::Bits {
    if flush && is_denormal::<F>(bits) { F::narrow(F::wide(bits) & F::SIGN) } else { bits }
}

/// The NaN that an operation gives: its first operand that is one, quieted, or the default.
#[cold]
pub(crate) fn nan<F: Format>(operands: &[F::Bits]) -> F::Bits {
    operands.iter().find(|bits| is_nan::<F>(**bits)).map_or(F::narrow(F::DEFAULT_NAN), |bits| quiet::<F>(*bits))
}

/// What is done with every result: NaN by the rule, overflow clamped (if no operand was infinite), denormals flushed.
#[inline]
pub(crate) fn finish<F: Format>(mode: &Mode, how: Behaviour, result: F::Bits, operands: &[F::Bits]) -> F::Bits {
    if is_nan::<F>(result) {
        return nan::<F>(operands);
    }
    if F::clamps_overflow(mode) && is_infinite::<F>(result) && !operands.iter().any(|bits| is_infinite::<F>(*bits)) {
        return F::narrow(F::wide(result) - 1);
    }
    flush::<F>(how.flush_out, result)
}
