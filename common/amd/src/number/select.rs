//! Minimum, maximum, median, and the output modifiers.

use super::format::{Format, flush, is_nan, is_negative, is_signalling, is_zero, quiet};
use super::mode::Mode;

/// V_MIN: the smaller number. A NaN gives way to a number (of two, the second one is the result); with MODE's IEEE a signalling one
/// is the result, quieted. -0 is smaller than +0.
#[inline]
pub fn min<F: Format>(mode: &Mode, a: F::Bits, b: F::Bits) -> F::Bits {
    choose::<F>(mode, a, b, |a, b| a < b)
}

/// V_MAX: the larger number, NaNs as in [`min`].
#[inline]
pub fn max<F: Format>(mode: &Mode, a: F::Bits, b: F::Bits) -> F::Bits {
    choose::<F>(mode, a, b, |a, b| a >= b)
}

/// V_MIN3.
#[inline]
pub fn min3<F: Format>(mode: &Mode, a: F::Bits, b: F::Bits, c: F::Bits) -> F::Bits {
    min::<F>(mode, min::<F>(mode, a, b), c)
}

/// V_MAX3.
#[inline]
pub fn max3<F: Format>(mode: &Mode, a: F::Bits, b: F::Bits, c: F::Bits) -> F::Bits {
    max::<F>(mode, max::<F>(mode, a, b), c)
}

/// V_MED3: the middle one of three numbers; with a NaN among them the minimum of the three.
#[inline]
pub fn median3<F: Format>(mode: &Mode, a: F::Bits, b: F::Bits, c: F::Bits) -> F::Bits {
    if is_nan::<F>(a) || is_nan::<F>(b) || is_nan::<F>(c) {
        return min3::<F>(mode, a, b, c);
    }
    let flush_in = F::behaviour(mode).flush_in;
    let largest = F::to_f64(max3::<F>(mode, a, b, c));
    if largest == F::to_f64(flush::<F>(flush_in, a)) {
        max::<F>(mode, b, c)
    } else if largest == F::to_f64(flush::<F>(flush_in, b)) {
        max::<F>(mode, a, c)
    } else {
        max::<F>(mode, a, b)
    }
}

/// The `clamp` modifier of a float result: into 0 to 1; a NaN becomes 0 with MODE's DX10_CLAMP and stays without.
#[inline]
pub fn clamp<F: Format>(mode: &Mode, value: F::Bits) -> F::Bits {
    if is_nan::<F>(value) {
        if mode.dx10_clamp { F::narrow(0) } else { value }
    } else if is_negative::<F>(value) {
        F::narrow(0)
    } else if F::wide(value) > F::ONE {
        F::narrow(F::ONE)
    } else {
        value
    }
}

/// The `mul:2`, `mul:4` and `div:2` modifiers (1, 2 and 3) of a float result. As the documents say ("Output modifiers"), they are
/// ignored with MODE's IEEE or where denormal results are kept, and they make +0 of -0.
#[inline]
pub fn output_modifier<F: Format>(mode: &Mode, modifier: u8, value: F::Bits) -> F::Bits {
    let how = F::behaviour(mode);
    if modifier == 0 || mode.ieee || !how.flush_out {
        return value;
    }
    let factor = match modifier {
        1 => F::BIAS + 1,
        2 => F::BIAS + 2,
        _ => F::BIAS - 1,
    };
    let factor = F::narrow((factor as u64) << F::MANTISSA_BITS);
    let product = super::arithmetic::mul_as::<F>(mode, how.flushed(), value, factor);
    if is_zero::<F>(product) { F::narrow(0) } else { product }
}

/// The one of two numbers of which `first` says so, by their ranks.
#[inline]
fn choose<F: Format>(mode: &Mode, a: F::Bits, b: F::Bits, first: impl Fn(i64, i64) -> bool) -> F::Bits {
    let how = F::behaviour(mode);
    let (a, b) = (flush::<F>(how.flush_in, a), flush::<F>(how.flush_in, b));
    let chosen = if is_nan::<F>(a) || is_nan::<F>(b) {
        choose_of_nans::<F>(mode, a, b)
    } else if first(rank::<F>(a), rank::<F>(b)) {
        a
    } else {
        b
    };
    flush::<F>(how.flush_out, chosen)
}

#[cold]
fn choose_of_nans<F: Format>(mode: &Mode, a: F::Bits, b: F::Bits) -> F::Bits {
    if mode.ieee && is_signalling::<F>(a) {
        quiet::<F>(a)
    } else if mode.ieee && is_signalling::<F>(b) {
        quiet::<F>(b)
    } else if is_nan::<F>(a) {
        b
    } else {
        a
    }
}

/// A number that is larger for larger values, and for +0 than for -0.
#[inline]
fn rank<F: Format>(bits: F::Bits) -> i64 {
    let magnitude = (F::wide(bits) & !F::SIGN) as i64;
    if is_negative::<F>(bits) { !magnitude } else { magnitude }
}
