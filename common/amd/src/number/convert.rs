//! Conversions between the float formats, to and from integers, and packing.

use rustc_apfloat::{Float, FloatConvert};

use super::arithmetic::add;
use super::format::{F16, F32, Format, finish, flush, half_to_single, is_infinite, is_nan};
use super::mode::{Mode, Round};

/// V_CVT between FP16, FP32 and FP64, `resize::<F32, F16>` being V_CVT_F16_F32. What the target's format cannot hold is rounded as
/// MODE says for FP16 and FP64 (LLVM's backend sets that field, SIModeRegister), denormals are flushed as it says for each format.
#[inline]
pub fn resize<From, To>(mode: &Mode, value: From::Bits) -> To::Bits
where
    From: Format,
    From::Exact: FloatConvert<To::Exact>,
    To: Format,
{
    resize_in::<From, To>(mode, mode.half_double.round, value)
}

#[inline]
fn resize_in<From, To>(mode: &Mode, round: Round, value: From::Bits) -> To::Bits
where
    From: Format,
    From::Exact: FloatConvert<To::Exact>,
    To: Format,
{
    let value = flush::<From>(From::behaviour(mode).flush_in, value);
    if is_nan::<From>(value) {
        return resize_nan::<From, To>(value);
    }
    let result = match round {
        Round::NearestEven if From::MANTISSA_BITS <= F32::MANTISSA_BITS => {
            To::from_f32_nearest(From::to_f64(value) as f32)
        }
        Round::NearestEven => To::from_f64_nearest(From::to_f64(value)),
        _ => resize_exact::<From, To>(round, value),
    };
    // Operands decide whether an infinity is an overflow: one that was infinite before is none.
    let operand = if is_infinite::<From>(value) { result } else { To::narrow(0) };
    finish::<To>(mode, To::behaviour(mode), result, &[operand])
}

/// A NaN keeps its sign and the high digits of its payload, quieted.
#[cold]
fn resize_nan<From: Format, To: Format>(value: From::Bits) -> To::Bits {
    let wide = From::wide(value);
    let sign = if wide & From::SIGN != 0 { To::SIGN } else { 0 };
    let payload = wide & From::MANTISSA;
    let payload = if From::MANTISSA_BITS >= To::MANTISSA_BITS {
        payload >> (From::MANTISSA_BITS - To::MANTISSA_BITS)
    } else {
        payload << (To::MANTISSA_BITS - From::MANTISSA_BITS)
    };
    To::narrow(sign | To::INFINITY | To::QUIET | payload)
}

#[cold]
fn resize_exact<From, To>(round: Round, value: From::Bits) -> To::Bits
where
    From: Format,
    From::Exact: FloatConvert<To::Exact>,
    To: Format,
{
    To::from_exact(From::exact(value).convert_r(round.exact(), &mut false).value)
}

/// V_CVT_PKRTZ_F16_F32: two FP32 to FP16, `low` into the low half, rounded towards zero whatever MODE says.
#[inline]
pub fn pack_round_to_zero(mode: &Mode, low: u32, high: u32) -> u32 {
    let half = |value| u32::from(resize_in::<F32, F16>(mode, Round::ToZero, value));
    half(low) | half(high) << 16
}

/// V_CVT_I32: towards zero; what is out of range becomes the nearest integer in it, a NaN 0.
#[inline]
pub fn float_to_i32<F: Format>(value: F::Bits) -> i32 {
    F::to_f64(value) as i32
}

/// V_CVT_U32: as [`float_to_i32`].
#[inline]
pub fn float_to_u32<F: Format>(value: F::Bits) -> u32 {
    F::to_f64(value) as u32
}

/// V_CVT_I16_F16: as [`float_to_i32`].
#[inline]
pub fn to_i16(value: u16) -> i16 {
    half_to_single(value) as i16
}

/// V_CVT_U16_F16: as [`float_to_i32`].
#[inline]
pub fn to_u16(value: u16) -> u16 {
    half_to_single(value) as u16
}

/// V_CVT_PK_I16_F32: as [`float_to_i32`], `low` into the low half.
#[inline]
pub fn pack_i16(low: u32, high: u32) -> u32 {
    let half = |value| u32::from(f32::from_bits(value) as i16 as u16);
    half(low) | half(high) << 16
}

/// V_CVT_PK_U16_F32: as [`pack_i16`].
#[inline]
pub fn pack_u16(low: u32, high: u32) -> u32 {
    let half = |value| u32::from(f32::from_bits(value) as u16);
    half(low) | half(high) << 16
}

/// V_CVT_RPI_I32_F32, V_CVT_NEAREST_I32_F32: floor(value + 0.5), the sum in FP32 as the pseudocode has it.
#[inline]
pub fn to_i32_nearest(mode: &Mode, value: u32) -> i32 {
    f32::from_bits(add::<F32>(mode, value, 0.5f32.to_bits())).floor() as i32
}

/// V_CVT_FLR_I32_F32, V_CVT_FLOOR_I32_F32: downwards.
#[inline]
pub fn to_i32_floor(mode: &Mode, value: u32) -> i32 {
    f32::from_bits(flush::<F32>(mode.single.flush_in, value)).floor() as i32
}

/// V_CVT_F32, V_CVT_F64, V_CVT_F16 of a signed integer (I32, I16), rounded as MODE says for the format.
#[inline]
pub fn float_from_i32<F: Format>(mode: &Mode, value: i32) -> F::Bits {
    from_integer::<F>(mode, i64::from(value))
}

/// The same of an unsigned integer (U32, U16).
#[inline]
pub fn float_from_u32<F: Format>(mode: &Mode, value: u32) -> F::Bits {
    from_integer::<F>(mode, i64::from(value))
}

#[inline]
fn from_integer<F: Format>(mode: &Mode, value: i64) -> F::Bits {
    let how = F::behaviour(mode);
    let result = match how.round {
        // Any 33-bit integer is exact in FP64.
        Round::NearestEven => F::from_f64_nearest(value as f64),
        round => F::from_exact(F::Exact::from_i128_r(i128::from(value), round.exact()).value),
    };
    finish::<F>(mode, how, result, &[])
}

/// V_CVT_F32_UBYTE0 to 3.
#[inline]
pub fn ubyte_to_f32(value: u32, byte: u32) -> u32 {
    ((value >> (8 * byte) & 0xff) as f32).to_bits()
}

/// V_CVT_PKNORM_I16: the value, clamped to -1 to 1 (NaN: 0), times 32,767, to the nearest even.
#[inline]
pub fn pack_norm_i16<F: Format>(low: F::Bits, high: F::Bits) -> u32 {
    let norm = |value| {
        let value = F::to_f64(value);
        // The product of at most 24 and 15 bits is exact.
        u32::from((value.clamp(-1.0, 1.0) * 32767.0).round_ties_even() as i16 as u16)
    };
    norm(low) | norm(high) << 16
}

/// V_CVT_PKNORM_U16: the value, clamped to 0 to 1 (NaN: 0), times 65,535, to the nearest even.
#[inline]
pub fn pack_norm_u16<F: Format>(low: F::Bits, high: F::Bits) -> u32 {
    let norm = |value| u32::from((F::to_f64(value).clamp(0.0, 1.0) * 65535.0).round_ties_even() as u16);
    norm(low) | norm(high) << 16
}

/// V_CVT_PK_U8_F32: byte `byte` of `into` replaced by the value as a byte, saturating, a NaN 0. Rounded to the nearest even: the
/// documents do not name the rounding.
#[inline]
pub fn pack_u8(value: u32, byte: u32, into: u32) -> u32 {
    let shift = 8 * (byte & 3);
    let converted = u32::from(f32::from_bits(value).round_ties_even() as u8);
    into & !(0xff << shift) | converted << shift
}

/// BF16 to FP32, which has the same exponents.
#[inline]
pub fn bf16_to_f32(value: u16) -> u32 {
    u32::from(value) << 16
}

/// FP32 to BF16, to the nearest even; a NaN stays one, quieted.
#[inline]
pub fn bf16_from_f32(value: u32) -> u16 {
    if is_nan::<F32>(value) {
        (value >> 16) as u16 | 0x40
    } else {
        ((u64::from(value) + 0x7fff + u64::from(value >> 16 & 1)) >> 16) as u16
    }
}
