//! FP8 and BF8. Of gfx942: E4M3 and E5M2 without infinities and without -0, whose code is the NaN ("FNUZ", of arXiv 2206.02915; the
//! conversions are in the MI300 document's pseudocode of V_CVT). Of gfx950 and gfx12 those of the Open Compute Project ("OCP 8-bit
//! Floating Point Specification"): FP8 without infinities, BF8 with them.

use super::mode::Mode;

/// An 8-bit float format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eight {
    /// FP8: 4 bits of exponent with bias 8, 3 of mantissa; up to 240.
    E4M3,
    /// BF8: 5 bits of exponent with bias 16, 2 of mantissa; up to 57,344.
    E5M2,
    /// FP8 of the Open Compute Project: bias 7, up to 448.
    OcpE4M3,
    /// BF8 of the Open Compute Project: bias 15, up to 57,344, and infinities.
    OcpE5M2,
}

impl Mode {
    /// FP8 or BF8 as the target has it.
    #[must_use]
    pub fn eight(&self, format: Eight) -> Eight {
        match format {
            Eight::E4M3 if self.ocp => Eight::OcpE4M3,
            Eight::E5M2 if self.ocp => Eight::OcpE5M2,
            format => format,
        }
    }
}

/// The one NaN of either format of gfx942.
const NAN: u8 = 0x80;

impl Eight {
    const fn mantissa_bits(self) -> u32 {
        match self {
            Eight::E4M3 | Eight::OcpE4M3 => 3,
            Eight::E5M2 | Eight::OcpE5M2 => 2,
        }
    }

    const fn bias(self) -> i32 {
        match self {
            Eight::E4M3 => 8,
            Eight::E5M2 => 16,
            Eight::OcpE4M3 => 7,
            Eight::OcpE5M2 => 15,
        }
    }

    /// The largest number's code, and that of what is beyond it: a NaN, or an infinity.
    const fn largest(self) -> [u8; 2] {
        match self {
            Eight::E4M3 | Eight::E5M2 => [0x7f, NAN],
            Eight::OcpE4M3 => [0x7e, 0x7f],
            Eight::OcpE5M2 => [0x7b, 0x7c],
        }
    }

    const fn is_ocp(self) -> bool {
        matches!(self, Eight::OcpE4M3 | Eight::OcpE5M2)
    }
}

/// V_CVT_F32_FP8, V_CVT_F32_BF8: exact.
#[inline]
pub fn eight_to_f32(format: Eight, value: u8) -> u32 {
    match format {
        Eight::E4M3 => E4M3[usize::from(value)],
        Eight::E5M2 => E5M2[usize::from(value)],
        Eight::OcpE4M3 => OCP_E4M3[usize::from(value)],
        Eight::OcpE5M2 => OCP_E5M2[usize::from(value)],
    }
}

/// How the digits are lost that a format does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest, ties to the even one.
    Nearest,
    /// Of a source with so many `digits` behind the leading one: those that are lost, plus as many high bits of `random`, carry into those
    /// that stay.
    ///
    /// The document's pseudocode of V_CVT_SR adds 20 bits (FP8) or 21 (BF8) to the mantissa, "wrap around on overflow", and converts to
    /// the nearest even what comes out. Taken literally that would halve values and round twice; what is meant, and is done here as in
    /// HIP's conversions on the host (`amd_hip_ocp_host.hpp`, `from_float_sr`), is adding with carry and cutting off.
    Stochastic { random: u32, digits: u32 },
}

impl Rounding {
    /// Cuts off so many digits of an FP32's significand, for a format that has `mantissa_bits` of them where it is no denormal.
    #[inline]
    fn round(self, significand: u64, shift: u32, mantissa_bits: u32) -> u64 {
        match self {
            Rounding::Nearest => {
                let half = (1u64 << shift) >> 1;
                let odd = significand >> shift & 1;
                (significand + half - 1 + odd) >> shift
            }
            Rounding::Stochastic { random, digits } => {
                let lost = digits - mantissa_bits;
                ((significand >> (shift - lost)) + u64::from(random >> (32 - lost))) >> lost
            }
        }
    }

    /// The code of a finite magnitude of FP32 in a format, were it not limited.
    #[inline]
    fn code(self, magnitude: u32, mantissa_bits: u32, bias: i32) -> u64 {
        let field = (magnitude >> 23) as i32;
        let (field, significand) = if field == 0 { (1, magnitude) } else { (field, magnitude & 0x7f_ffff | 0x80_0000) };
        let exponent = field - 127 + bias;
        // Below the smallest normal exponent, 1, more digits are lost; beyond 32 more nothing is left either way.
        let shift = 23 - mantissa_bits + (1 - exponent).clamp(0, 32) as u32;
        let kept = self.round(u64::from(significand), shift, mantissa_bits);
        ((exponent.max(1) as u64 - 1) << mantissa_bits) + kept
    }
}

/// V_CVT_PK_FP8_F32, V_CVT_PK_BF8_F32, one of the two: to the nearest even whatever MODE says. What is too large is a NaN, or the
/// largest number with MODE's FP16_OVFL; infinities are NaNs always. A zero has no sign.
#[inline]
pub fn eight_from_f32(mode: &Mode, format: Eight, value: u32) -> u8 {
    eight_rounded(mode, format, value, Rounding::Nearest)
}

/// V_CVT_SR_FP8_F32, V_CVT_SR_BF8_F32.
#[inline]
pub fn eight_from_f32_stochastic(mode: &Mode, format: Eight, value: u32, random: u32) -> u8 {
    eight_rounded(mode, format, value, Rounding::Stochastic { random, digits: 23 })
}

/// An FP32 as FP8 or BF8: sign, range and specials around the rounding.
#[inline]
pub fn eight_rounded(mode: &Mode, format: Eight, value: u32, rounding: Rounding) -> u8 {
    let magnitude = value & 0x7fff_ffff;
    let sign = (value >> 24 & 0x80) as u8;
    let [largest, beyond] = format.largest();
    if magnitude > 0x7f80_0000 {
        return if format.is_ocp() { sign | 0x7f } else { NAN };
    }
    if magnitude == 0x7f80_0000 {
        return match format.is_ocp() {
            true if mode.clamp_overflow => sign | largest,
            true => sign | beyond,
            false => NAN,
        };
    }
    match rounding.code(magnitude, format.mantissa_bits(), format.bias()) {
        0 if format.is_ocp() => sign,
        0 => 0,
        code if code <= u64::from(largest) => sign | code as u8,
        _ if mode.clamp_overflow => sign | largest,
        _ if format.is_ocp() => sign | beyond,
        _ => NAN,
    }
}

/// V_CVT_SR_F16_F32, V_CVT_SR_BF16_F32: an FP32 as FP16, or as BF16 where it is `brain`, rounded by a random number. What is too large is
/// an infinity, or the largest number with MODE's FP16_OVFL.
#[must_use]
pub fn sixteen_from_f32(mode: &Mode, brain: bool, value: u32, random: u32) -> u16 {
    let (mantissa_bits, bias, infinity) = if brain { (7, 127, 0x7f80) } else { (10, 15, 0x7c00) };
    let (sign, magnitude) = ((value >> 16 & 0x8000) as u16, value & 0x7fff_ffff);
    let flushes = mode.single.flush_in && magnitude < 1 << 23;
    let rounding = Rounding::Stochastic { random, digits: 23 };
    let code = match magnitude {
        0x7f80_0001.. => {
            u64::from(infinity | 1 << (mantissa_bits - 1)) | u64::from(magnitude >> (23 - mantissa_bits) & 0x3ff)
        }
        0x7f80_0000 => u64::from(infinity),
        _ if flushes => 0,
        _ => rounding.code(magnitude, mantissa_bits, bias),
    };
    let beyond = code >= u64::from(infinity) && magnitude < 0x7f80_0000;
    match code {
        _ if beyond && mode.clamp_overflow => sign | (infinity - 1),
        _ if beyond => sign | infinity,
        code => sign | code as u16,
    }
}

static E4M3: [u32; 256] = table(Eight::E4M3);
static E5M2: [u32; 256] = table(Eight::E5M2);
static OCP_E4M3: [u32; 256] = table(Eight::OcpE4M3);
static OCP_E5M2: [u32; 256] = table(Eight::OcpE5M2);

const fn table(format: Eight) -> [u32; 256] {
    let mut table = [0; 256];
    let mut code = 0;
    while code < 256 {
        table[code] = decode(format, code as u32);
        code += 1;
    }
    table
}

const fn decode(format: Eight, code: u32) -> u32 {
    let bits = format.mantissa_bits();
    let sign = (code & 0x80) << 24;
    let field = (code & 0x7f) >> bits;
    let mantissa = code & ((1 << bits) - 1);
    let largest = format.largest()[0] as u32;
    if format.is_ocp() && code & 0x7f > largest {
        // An infinity, or NaNs.
        if matches!(format, Eight::OcpE5M2) && mantissa == 0 { sign | 0x7f80_0000 } else { sign | 0x7fc0_0000 }
    } else if !format.is_ocp() && code == NAN as u32 {
        0xffc0_0000
    } else if field != 0 {
        sign | ((field as i32 - format.bias() + 127) as u32) << 23 | mantissa << (23 - bits)
    } else if mantissa == 0 {
        sign
    } else {
        // mantissa * 2^(1 - bias - bits), its leading one brought to the implicit place.
        let top = 31 - mantissa.leading_zeros();
        let exponent = 1 - format.bias() - bits as i32 + top as i32;
        sign | ((exponent + 127) as u32) << 23 | (mantissa ^ 1 << top) << (23 - top)
    }
}

/// A float of 4 or 6 bits of the Open Compute Project ("OCP Microscaling Formats"), which has neither infinities nor NaNs.
#[must_use]
pub fn small_to_f32(code: u32, exponent_bits: u32, mantissa_bits: u32) -> f32 {
    let bias = (1 << (exponent_bits - 1)) - 1;
    let field = code >> mantissa_bits & ((1 << exponent_bits) - 1);
    let mantissa = (code & ((1 << mantissa_bits) - 1)) as f32 / (1_u32 << mantissa_bits) as f32;
    let magnitude = match field {
        0 => mantissa * 2_f32.powi(1 - bias),
        field => (1.0 + mantissa) * 2_f32.powi(field as i32 - bias),
    };
    if code >> (exponent_bits + mantissa_bits) & 1 == 1 { -magnitude } else { magnitude }
}

/// An FP32 as one of them: what is too large is the largest number ("Floating-point handling", CDNA 4), and so is a NaN
/// (`amd_hip_ocp_host.hpp`, `nan`).
#[must_use]
#[inline]
pub fn small_from_f32(value: u32, exponent_bits: u32, mantissa_bits: u32, rounding: Rounding) -> u32 {
    let magnitude = value & 0x7fff_ffff;
    let largest = (1 << (exponent_bits + mantissa_bits)) - 1;
    let sign = value >> 31 << (exponent_bits + mantissa_bits);
    if magnitude >= 0x7f80_0000 {
        return sign | largest;
    }
    let bias = (1 << (exponent_bits - 1)) - 1;
    sign | rounding.code(magnitude, mantissa_bits, bias).min(u64::from(largest)) as u32
}
