//! Sums and products.

use rustc_apfloat::Float;

use super::format::{F32, Format, finish, flush, is_zero};
use super::mode::{Behaviour, Mode, Round};

/// V_ADD: a + b.
#[inline]
pub fn add<F: Format>(mode: &Mode, a: F::Bits, b: F::Bits) -> F::Bits {
    add_as::<F>(mode, F::behaviour(mode), a, b)
}

/// V_SUB: a - b; V_SUBREV is this with its sources exchanged.
#[inline]
pub fn sub<F: Format>(mode: &Mode, a: F::Bits, b: F::Bits) -> F::Bits {
    let difference = add_as::<F>(mode, F::behaviour(mode), a, F::narrow(F::wide(b) ^ F::SIGN));
    if super::format::is_nan::<F>(difference) { super::format::nan::<F>(&[a, b]) } else { difference }
}

/// V_MUL: a * b.
#[inline]
pub fn mul<F: Format>(mode: &Mode, a: F::Bits, b: F::Bits) -> F::Bits {
    mul_as::<F>(mode, F::behaviour(mode), a, b)
}

/// V_FMA, V_FMAC: a * b + c, rounded once.
#[inline]
pub fn fma<F: Format>(mode: &Mode, a: F::Bits, b: F::Bits, c: F::Bits) -> F::Bits {
    fma_as::<F>(mode, F::behaviour(mode), a, b, c)
}

/// V_MAD, V_MAC: a * b + c, rounded twice. Denormals are flushed whatever MODE says (LLVM's backend uses these only where
/// denormals are off, for that reason).
#[inline]
pub fn mad<F: Format>(mode: &Mode, a: F::Bits, b: F::Bits, c: F::Bits) -> F::Bits {
    let how = F::behaviour(mode).flushed();
    let product = mul_as::<F>(mode, how, a, b);
    add_as::<F>(mode, how, product, c)
}

/// V_MUL_LEGACY_F32, V_MUL_DX9_ZERO_F32: a * b, but 0 if one of them is a zero, even if the other is no number.
#[inline]
pub fn mul_legacy(mode: &Mode, a: u32, b: u32) -> u32 {
    if has_zero(mode.single, a, b) { 0 } else { mul::<F32>(mode, a, b) }
}

/// V_FMA_LEGACY_F32, V_FMA_DX9_ZERO_F32: [`fma`], but the product is +0 if a or b is a zero, even if the other is no number: LLVM folds
/// it so (`llvm.amdgcn.fma.legacy`).
#[inline]
pub fn fma_legacy(mode: &Mode, a: u32, b: u32, c: u32) -> u32 {
    if has_zero(mode.single, a, b) { add::<F32>(mode, 0, c) } else { fma::<F32>(mode, a, b, c) }
}

/// V_MAD_LEGACY_F32: [`mad`] with the same rule.
#[inline]
pub fn mad_legacy(mode: &Mode, a: u32, b: u32, c: u32) -> u32 {
    let how = mode.single.flushed();
    if has_zero(how, a, b) { add_as::<F32>(mode, how, 0, c) } else { mad::<F32>(mode, a, b, c) }
}

fn has_zero(how: Behaviour, a: u32, b: u32) -> bool {
    [a, b].into_iter().any(|value| is_zero::<F32>(flush::<F32>(how.flush_in, value)))
}

/// V_MULLIT_F32: a * b for lighting, or the lowest number where b is no more than that or no number, or c is neither positive nor a
/// number. "0.0 * x = 0.0", as [`mul_legacy`] has it.
#[inline]
pub fn mul_lit(mode: &Mode, a: u32, b: u32, c: u32) -> u32 {
    let (power, light) = (f32::from_bits(b), f32::from_bits(flush::<F32>(mode.single.flush_in, c)));
    if power > f32::MIN && light > 0.0 { mul_legacy(mode, a, b) } else { f32::MIN.to_bits() }
}

#[inline]
pub(super) fn add_as<F: Format>(mode: &Mode, how: Behaviour, a: F::Bits, b: F::Bits) -> F::Bits {
    let (a, b) = (flush::<F>(how.flush_in, a), flush::<F>(how.flush_in, b));
    let sum = match how.round {
        Round::NearestEven => F::add_nearest(a, b),
        round => add_exact::<F>(round, a, b),
    };
    finish::<F>(mode, how, sum, &[a, b])
}

#[inline]
pub(super) fn mul_as<F: Format>(mode: &Mode, how: Behaviour, a: F::Bits, b: F::Bits) -> F::Bits {
    let (a, b) = (flush::<F>(how.flush_in, a), flush::<F>(how.flush_in, b));
    let product = match how.round {
        Round::NearestEven => F::mul_nearest(a, b),
        round => mul_exact::<F>(round, a, b),
    };
    finish::<F>(mode, how, product, &[a, b])
}

#[inline]
pub(super) fn fma_as<F: Format>(mode: &Mode, how: Behaviour, a: F::Bits, b: F::Bits, c: F::Bits) -> F::Bits {
    let (a, b, c) = (flush::<F>(how.flush_in, a), flush::<F>(how.flush_in, b), flush::<F>(how.flush_in, c));
    let result = match how.round {
        Round::NearestEven => F::fma_nearest(a, b, c),
        round => fma_exact::<F>(round, a, b, c),
    };
    finish::<F>(mode, how, result, &[a, b, c])
}

#[cold]
fn add_exact<F: Format>(round: Round, a: F::Bits, b: F::Bits) -> F::Bits {
    F::from_exact(F::exact(a).add_r(F::exact(b), round.exact()).value)
}

#[cold]
fn mul_exact<F: Format>(round: Round, a: F::Bits, b: F::Bits) -> F::Bits {
    F::from_exact(F::exact(a).mul_r(F::exact(b), round.exact()).value)
}

#[cold]
fn fma_exact<F: Format>(round: Round, a: F::Bits, b: F::Bits, c: F::Bits) -> F::Bits {
    F::from_exact(F::exact(a).mul_add_r(F::exact(b), F::exact(c), round.exact()).value)
}
