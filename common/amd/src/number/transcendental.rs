//! Reciprocals, roots, exponentials and the like.
//!
//! The hardware's are off by up to 1 ULP in FP32, 0.51 ULP in FP16 and about 2^29 ULP in FP64 (V_RCP, V_RSQ and V_SQRT there are
//! first guesses for Newton's method); which of the neighbours it gives is not documented. Here all are rounded to the nearest:
//! FP64's by the host's division and root, the others from the host's FP64 result, which is so close that it rounds like the exact
//! value but for one argument in 2^20 or fewer. FP32's flush denormals on both sides whatever MODE says ("1ULP accuracy, denormals
//! are flushed" in the documents); its sine and cosine ("denormals are supported"), FP16's and FP64's go by MODE. MODE's rounding
//! does not matter.

use std::f64::consts::TAU;

use super::format::{F32, Format, flush, is_infinite, is_nan, nan};
use super::mode::{Behaviour, Mode};

/// V_RCP: 1 / value. V_RCP_IFLAG differs in the exception it raises, which nothing sees here.
#[inline]
pub fn rcp<F: Format>(mode: &Mode, value: F::Bits) -> F::Bits {
    apply::<F>(mode, value, |value| 1.0 / value)
}

/// V_RSQ: 1 / sqrt(value); -infinity for -0.
#[inline]
pub fn rsq<F: Format>(mode: &Mode, value: F::Bits) -> F::Bits {
    apply::<F>(mode, value, |value| 1.0 / value.sqrt())
}

/// V_SQRT.
#[inline]
pub fn sqrt<F: Format>(mode: &Mode, value: F::Bits) -> F::Bits {
    apply::<F>(mode, value, f64::sqrt)
}

/// V_EXP: 2^value.
#[inline]
pub fn exp2<F: Format>(mode: &Mode, value: F::Bits) -> F::Bits {
    apply::<F>(mode, value, f64::exp2)
}

/// V_LOG: the logarithm to base 2.
#[inline]
pub fn log2<F: Format>(mode: &Mode, value: F::Bits) -> F::Bits {
    apply::<F>(mode, value, f64::log2)
}

/// V_SIN: the sine of `value` turns (of value * 2 pi), of any number of them ("full range input is supported").
#[inline]
pub fn sin<F: Format>(mode: &Mode, value: F::Bits) -> F::Bits {
    apply_as::<F>(mode, F::behaviour(mode), value, |turns| {
        let rest = turns - turns.round_ties_even();
        if turns == 0.0 {
            turns
        } else if rest == 0.0 || rest.abs() == 0.5 {
            0.0
        } else {
            (rest * TAU).sin()
        }
    })
}

/// V_COS: the cosine of `value` turns.
#[inline]
pub fn cos<F: Format>(mode: &Mode, value: F::Bits) -> F::Bits {
    apply_as::<F>(mode, F::behaviour(mode), value, |turns| {
        let rest = (turns - turns.round_ties_even()).abs();
        if rest == 0.25 { 0.0 } else { (rest * TAU).cos() }
    })
}

#[inline]
fn apply<F: Format>(mode: &Mode, value: F::Bits, function: impl Fn(f64) -> f64) -> F::Bits {
    let how = if F::MANTISSA_BITS == F32::MANTISSA_BITS { Behaviour::IEEE.flushed() } else { F::behaviour(mode) };
    apply_as::<F>(mode, how, value, function)
}

#[inline]
fn apply_as<F: Format>(mode: &Mode, how: Behaviour, value: F::Bits, function: impl Fn(f64) -> f64) -> F::Bits {
    let value = flush::<F>(how.flush_in, value);
    let result = F::from_f64_nearest(function(F::to_f64(value)));
    if is_nan::<F>(result) {
        return nan::<F>(&[value]);
    }
    // A reciprocal of zero is an infinity even where overflow is clamped.
    let clamps = F::clamps_overflow(mode) && is_infinite::<F>(result) && F::wide(value) & !F::SIGN != 0;
    if clamps && !is_infinite::<F>(value) { F::narrow(F::wide(result) - 1) } else { flush::<F>(how.flush_out, result) }
}
