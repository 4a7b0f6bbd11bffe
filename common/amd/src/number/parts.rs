//! Exponent and mantissa, integers and fractions.

use rustc_apfloat::Float;

use super::format::{Format, finish, flush, is_infinite, is_nan, is_zero, nan, quiet};
use super::mode::{Mode, Round};

/// V_LDEXP: value * 2^exponent, rounded once.
#[inline]
pub fn ldexp<F: Format>(mode: &Mode, value: F::Bits, exponent: i32) -> F::Bits {
    let how = F::behaviour(mode);
    let value = flush::<F>(how.flush_in, value);
    let wide = F::wide(value);
    let old = (wide & F::INFINITY) >> F::MANTISSA_BITS;
    let new = old as i64 + i64::from(exponent);
    let result = if old != 0 && new > 0 && (new as u64) < F::INFINITY >> F::MANTISSA_BITS {
        if wide & F::INFINITY == F::INFINITY {
            value
        } else {
            F::narrow(wide & !F::INFINITY | (new as u64) << F::MANTISSA_BITS)
        }
    } else {
        // Beyond twice the range of exponents nothing changes any more.
        let limit = 4 * F::BIAS;
        F::from_exact(F::exact(value).scalbn_r(exponent.clamp(-limit, limit), how.round.exact()))
    };
    finish::<F>(mode, how, result, &[value])
}

/// V_FREXP_EXP: the exponent that goes with [`frexp_mantissa`]; 0 for zero, infinity and NaN.
#[inline]
pub fn frexp_exponent<F: Format>(mode: &Mode, value: F::Bits) -> i32 {
    let value = flush::<F>(F::behaviour(mode).flush_in, value);
    let magnitude = F::wide(value) & !F::SIGN;
    if magnitude == 0 || magnitude >= F::INFINITY {
        return 0;
    }
    let field = (magnitude >> F::MANTISSA_BITS) as i32;
    if field != 0 {
        field - F::BIAS + 1
    } else {
        65 - magnitude.leading_zeros() as i32 - F::BIAS - F::MANTISSA_BITS as i32
    }
}

/// V_FREXP_MANT: the value brought to 0.5 (inclusive) to 1; zero, infinity and NaN stay (a NaN is quieted).
#[inline]
pub fn frexp_mantissa<F: Format>(mode: &Mode, value: F::Bits) -> F::Bits {
    let value = flush::<F>(F::behaviour(mode).flush_in, value);
    let wide = F::wide(value);
    let magnitude = wide & !F::SIGN;
    if magnitude > F::INFINITY {
        return quiet::<F>(value);
    }
    if magnitude == 0 || magnitude == F::INFINITY {
        return value;
    }
    let half = ((F::BIAS - 1) as u64) << F::MANTISSA_BITS;
    let mantissa = if magnitude & F::INFINITY != 0 {
        magnitude & F::MANTISSA
    } else {
        magnitude << (magnitude.leading_zeros() - (63 - F::MANTISSA_BITS)) & F::MANTISSA
    };
    F::narrow(wide & F::SIGN | half | mantissa)
}

/// V_TRUNC.
#[inline]
pub fn trunc<F: Format>(mode: &Mode, value: F::Bits) -> F::Bits {
    integral::<F>(mode, value, f64::trunc)
}

/// V_CEIL.
#[inline]
pub fn ceil<F: Format>(mode: &Mode, value: F::Bits) -> F::Bits {
    integral::<F>(mode, value, f64::ceil)
}

/// V_FLOOR.
#[inline]
pub fn floor<F: Format>(mode: &Mode, value: F::Bits) -> F::Bits {
    integral::<F>(mode, value, f64::floor)
}

/// V_RNDNE: to the nearest integer, halves to the even one.
#[inline]
pub fn round_even<F: Format>(mode: &Mode, value: F::Bits) -> F::Bits {
    integral::<F>(mode, value, f64::round_ties_even)
}

/// V_FRACT: value - floor(value), rounded as MODE says but always below 1. Infinity gives NaN.
#[inline]
pub fn fract<F: Format>(mode: &Mode, value: F::Bits) -> F::Bits {
    let how = F::behaviour(mode);
    let value = flush::<F>(how.flush_in, value);
    if is_nan::<F>(value) || is_infinite::<F>(value) {
        return nan::<F>(&[value]);
    }
    let negated = F::narrow(F::wide(floor::<F>(mode, value)) ^ F::SIGN);
    let difference = match how.round {
        Round::NearestEven => F::add_nearest(value, negated),
        round => F::from_exact(F::exact(value).add_r(F::exact(negated), round.exact()).value),
    };
    // A difference of zero is +0 except when rounding down.
    let result = if is_zero::<F>(difference) { F::narrow(0) } else { difference };
    let result = if F::wide(result) >= F::ONE { F::narrow(F::ONE - 1) } else { result };
    flush::<F>(how.flush_out, result)
}

/// The value in one of the host's roundings to integers, which are exact, and keep the sign of a zero.
#[inline]
fn integral<F: Format>(mode: &Mode, value: F::Bits, rounded: fn(f64) -> f64) -> F::Bits {
    let how = F::behaviour(mode);
    let value = flush::<F>(how.flush_in, value);
    if is_nan::<F>(value) {
        return quiet::<F>(value);
    }
    F::from_f64_nearest(rounded(F::to_f64(value)))
}
