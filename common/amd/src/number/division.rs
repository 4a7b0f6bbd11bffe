//! The three instructions around a division: V_DIV_SCALE, V_DIV_FMAS, V_DIV_FIXUP.

use rustc_apfloat::ieee::Quad;
use rustc_apfloat::{Float, FloatConvert, Round, Status, StatusAnd};

use super::arithmetic::fma;
use super::format::{F16, F32, F64, Format, finish, flush, is_denormal, is_infinite, is_nan, is_zero, quiet};
use super::mode::Mode;
use super::parts::ldexp;

/// A format that has the three instructions in full, with the numbers of its pseudocode.
pub trait Divisible: Format<Exact: FloatConvert<Quad>> {
    /// Numerator's exponent less denominator's from which the quotient is near overflow.
    const LARGE: i32;
    /// Scaling is by two to this.
    const SCALE: i32;
    /// A numerator whose exponent field is at most this is tiny.
    const TINY: i32;

    fn from_quad(round: Round, value: Quad) -> Self::Bits;
}

impl Divisible for F32 {
    const LARGE: i32 = 96;
    const SCALE: i32 = 64;
    const TINY: i32 = 23;

    fn from_quad(round: Round, value: Quad) -> Self::Bits {
        Self::from_exact(value.convert_r(round, &mut false).value)
    }
}

impl Divisible for F64 {
    const LARGE: i32 = 768;
    const SCALE: i32 = 128;
    const TINY: i32 = 53;

    fn from_quad(round: Round, value: Quad) -> Self::Bits {
        Self::from_exact(value.convert_r(round, &mut false).value)
    }
}

/// V_DIV_SCALE: `value`, which is the denominator or the numerator, scaled so that the steps of a division stay in range, and
/// whether V_DIV_FMAS has to undo it (VCC).
///
/// Where the pseudocode asks whether 1 / denominator or the quotient is denormal, the exponents decide; and of a huge denominator
/// with a denormal quotient it says that it is scaled up, which would overflow: down is what hardware does. (Both seen on gfx11 and
/// gfx12, as is VCC beside a zero; with the exponents so, the division that LLVM emits is rounded right for all operands.)
pub fn div_scale<F: Divisible>(
    mode: &Mode,
    value: F::Bits,
    denominator: F::Bits,
    numerator: F::Bits,
) -> (F::Bits, bool) {
    let flush_in = F::behaviour(mode).flush_in;
    let [value, denominator, numerator] = [value, denominator, numerator].map(|bits| flush::<F>(flush_in, bits));
    if is_zero::<F>(numerator) || is_zero::<F>(denominator) {
        return (F::narrow(F::DEFAULT_NAN), true);
    }
    let scaled = |power| ldexp::<F>(mode, value, power);
    let only = |operand, power| if value == operand { scaled(power) } else { value };
    let (over, under) = (field::<F>(numerator), field::<F>(denominator));
    let reciprocal_denormal = under >= 2 * F::BIAS - 1;
    let quotient_denormal = over - under <= 1 - F::BIAS;
    if over - under >= F::LARGE {
        (only(denominator, F::SCALE), true)
    } else if is_denormal::<F>(denominator) {
        (scaled(F::SCALE), false)
    } else if reciprocal_denormal && quotient_denormal {
        (only(denominator, -F::SCALE), true)
    } else if reciprocal_denormal {
        (scaled(-F::SCALE), false)
    } else if quotient_denormal {
        (only(numerator, F::SCALE), true)
    } else if over <= F::TINY {
        (scaled(F::SCALE), false)
    } else {
        (value, false)
    }
}

/// V_DIV_FMAS: a * b + c, times the power of two that undoes V_DIV_SCALE if `vcc`: up for a quotient (c) of 2 and more, down else.
///
/// That is RDNA 3's pseudocode, and what V_DIV_SCALE needs; CDNA 3's says 2^32 (FP32) or 2^64 (FP64) in all cases, which undoes
/// nothing that V_DIV_SCALE does.
pub fn div_fmas<F: Divisible>(mode: &Mode, vcc: bool, a: F::Bits, b: F::Bits, c: F::Bits) -> F::Bits {
    if !vcc {
        return fma::<F>(mode, a, b, c);
    }
    let how = F::behaviour(mode);
    let [a, b, c] = [a, b, c].map(|bits| flush::<F>(how.flush_in, bits));
    let power = if field::<F>(c) > F::BIAS { F::SCALE } else { -F::SCALE };
    // Rounded to odd in FP128 first, so that the one rounding that counts is that of the scaled sum.
    let [wide_a, wide_b, wide_c] = [a, b, c].map(|bits| F::exact(bits).convert_r(Round::TowardZero, &mut false).value);
    let sum: StatusAnd<Quad> = wide_a.mul_add_r(wide_b, wide_c, Round::TowardZero);
    let odd = if sum.status.contains(Status::INEXACT) { Quad::from_bits(sum.value.to_bits() | 1) } else { sum.value };
    let scaled = F::from_quad(how.round.exact(), odd.scalbn(power));
    finish::<F>(mode, how, scaled, &[a, b, c])
}

/// V_DIV_FIXUP (FP16 too): the quotient with the operands' signs, and the special cases of the operands.
pub fn div_fixup<F: Format>(mode: &Mode, quotient: F::Bits, denominator: F::Bits, numerator: F::Bits) -> F::Bits {
    let how = F::behaviour(mode);
    let [quotient, denominator, numerator] =
        [quotient, denominator, numerator].map(|bits| flush::<F>(how.flush_in, bits));
    let sign = (F::wide(denominator) ^ F::wide(numerator)) & F::SIGN;
    if is_nan::<F>(numerator) {
        quiet::<F>(numerator)
    } else if is_nan::<F>(denominator) {
        quiet::<F>(denominator)
    } else if is_zero::<F>(denominator) && is_zero::<F>(numerator)
        || is_infinite::<F>(denominator) && is_infinite::<F>(numerator)
    {
        F::narrow(F::DEFAULT_NAN)
    } else if is_zero::<F>(denominator) || is_infinite::<F>(numerator) {
        F::narrow(sign | F::INFINITY)
    } else if is_infinite::<F>(denominator) || is_zero::<F>(numerator) || vanishes::<F>(denominator, numerator) {
        F::narrow(sign)
    } else if is_nan::<F>(quotient) {
        // A quotient between numbers is none; the steps before it overflowed.
        F::narrow(sign | F::INFINITY)
    } else {
        flush::<F>(how.flush_out, F::narrow(F::wide(quotient) & !F::SIGN | sign))
    }
}

/// Whether a quotient is below all denormals; the pseudocode asks that of FP32 and FP64 only.
fn vanishes<F: Format>(denominator: F::Bits, numerator: F::Bits) -> bool {
    let least = -F::BIAS - F::MANTISSA_BITS as i32;
    F::MANTISSA_BITS > F16::MANTISSA_BITS && field::<F>(numerator) - field::<F>(denominator) < least
}

fn field<F: Format>(bits: F::Bits) -> i32 {
    ((F::wide(bits) & F::INFINITY) >> F::MANTISSA_BITS) as i32
}
