//! Components of typed buffers in registers, and from there.
//!
//! "Conversion of float32 to float16 uses truncation; conversion of other input data formats uses round-to-nearest-even" (RDNA 3, "D16
//! Instructions"). Stores of floats of fewer bits are not documented; they are taken to be truncated as well.

use super::{Format, Numeric};
use crate::number::{self, F16, F32, Mode};

/// Bits that a float of 11 bits and one of 10 have fewer than FP16, its sign aside.
fn short_of_half(bits: u32) -> u32 {
    15 - bits
}

/// 1 in FP16.
const HALF_ONE: u32 = 0x3c00;

fn signed(raw: u32, bits: u32) -> i32 {
    (raw << (32 - bits)) as i32 >> (32 - bits)
}

fn ones(bits: u32) -> u32 {
    u32::MAX >> (32 - bits)
}

/// FP32 as FP16, rounded towards zero.
fn truncated(value: u32) -> u32 {
    number::pack_round_to_zero(&Mode::default(), value, 0) & 0xffff
}

impl Format {
    /// A component of so many bits as a register has it, or a half of one.
    pub fn load(&self, raw: u32, bits: u32, half: bool) -> u32 {
        let float = |value: f64| {
            if half { u32::from(<F16 as number::Format>::from_f64_nearest(value)) } else { (value as f32).to_bits() }
        };
        match self.numeric {
            Numeric::Uint => raw,
            Numeric::Sint if half => signed(raw, bits) as u32 & 0xffff,
            Numeric::Sint => signed(raw, bits) as u32,
            Numeric::Uscaled | Numeric::Sscaled | Numeric::Unorm | Numeric::Snorm => float(self.value(raw, bits)),
            Numeric::Float => {
                let small = match bits {
                    32 => return if half { truncated(raw) } else { raw },
                    16 => raw as u16,
                    bits => (raw << short_of_half(bits)) as u16,
                };
                if half { u32::from(small) } else { number::half_to_single(small).to_bits() }
            }
        }
    }

    /// The number that a component is.
    pub fn value(&self, raw: u32, bits: u32) -> f64 {
        match self.numeric {
            Numeric::Uint | Numeric::Uscaled => f64::from(raw),
            Numeric::Sint | Numeric::Sscaled => f64::from(signed(raw, bits)),
            Numeric::Unorm => f64::from(raw) / f64::from(ones(bits)),
            Numeric::Snorm => (f64::from(signed(raw, bits)) / f64::from(ones(bits - 1))).max(-1.0),
            Numeric::Float => <F32 as number::Format>::to_f64(self.load(raw, bits, false)),
        }
    }

    /// The bits of a component that is 1.
    pub fn one(&self, bits: u32) -> u32 {
        match self.numeric {
            Numeric::Unorm => ones(bits),
            Numeric::Snorm => ones(bits - 1),
            Numeric::Uint | Numeric::Sint | Numeric::Uscaled | Numeric::Sscaled => 1,
            Numeric::Float if bits == 32 => 1f32.to_bits(),
            Numeric::Float if bits == 16 => HALF_ONE,
            Numeric::Float => HALF_ONE >> short_of_half(bits),
        }
    }

    /// A mean of components of so many bits as a register has it, or a half of one.
    pub fn mean(&self, value: f64, bits: u32, half: bool) -> u32 {
        let single = (value as f32).to_bits();
        match (half, bits) {
            (true, 32) => truncated(single),
            (true, _) => u32::from(<F16 as number::Format>::from_f64_nearest(value)),
            (false, _) => single,
        }
    }

    /// The bits of a component that a register, or a half of one, has.
    ///
    /// # Errors
    /// An integer that the format cannot hold: what becomes of it is not documented.
    pub fn store(&self, value: u32, bits: u32, half: bool) -> Result<u32, &'static str> {
        let single = if half { number::half_to_single(value as u16).to_bits() } else { value };
        let scaled = |lowest: f64, most: u32| {
            let value = <F32 as number::Format>::to_f64(single);
            // 0 of a NaN.
            let value = if value.is_nan() { 0.0 } else { value.clamp(lowest, 1.0) };
            (value * f64::from(most)).round_ties_even() as i64 as u32
        };
        let too_large = "an integer that the format of the buffer cannot hold";
        Ok(match self.numeric {
            Numeric::Unorm => scaled(0.0, ones(bits)),
            Numeric::Snorm => scaled(-1.0, ones(bits - 1)) & ones(bits),
            Numeric::Uint | Numeric::Uscaled if value > ones(bits) => return Err(too_large),
            Numeric::Uint | Numeric::Uscaled => value,
            Numeric::Sint | Numeric::Sscaled => {
                let whole = if half { value as i16 as u32 } else { value };
                if signed(whole & ones(bits), bits) as u32 != whole {
                    return Err(too_large);
                }
                whole & ones(bits)
            }
            Numeric::Float => match bits {
                32 => single,
                16 if half => value,
                16 => truncated(value),
                bits => unsigned_float(if half { value } else { truncated(value) }, short_of_half(bits)),
            },
        })
    }
}

/// FP16 without its sign and last bits; 0 of what is below it.
fn unsigned_float(half: u32, fewer: u32) -> u32 {
    let is_nan = half & 0x7fff > 0x7c00;
    match half {
        _ if is_nan => (0x7e00 | half & 0x7fff) >> fewer,
        half if half & 0x8000 != 0 => 0,
        half => half >> fewer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(numeric: Numeric) -> Format {
        Format { bits: [0; 4], numeric }
    }

    #[test]
    fn components_become_floats() {
        let load = |numeric, raw, bits| f32::from_bits(format(numeric).load(raw, bits, false));
        assert_eq!(
            [load(Numeric::Unorm, 255, 8), load(Numeric::Unorm, 51, 8), load(Numeric::Unorm, 0, 8)],
            [1.0, 0.2, 0.0]
        );
        assert_eq!(
            [load(Numeric::Snorm, 0x80, 8), load(Numeric::Snorm, 0x81, 8), load(Numeric::Snorm, 127, 8)],
            [-1.0, -1.0, 1.0]
        );
        // Two bits: -2 and -1 are the same.
        assert_eq!([0, 1, 2, 3].map(|raw| load(Numeric::Snorm, raw, 2)), [0.0, 1.0, -1.0, -1.0]);
        assert_eq!([load(Numeric::Uscaled, 200, 8), load(Numeric::Sscaled, 200, 8)], [200.0, -56.0]);
        assert_eq!([load(Numeric::Float, 0x3c00, 16), load(Numeric::Float, 0xc000, 16)], [1.0, -2.0]);
        // 1, 1.5 and infinity of 5 bits of exponent, 6 and 5 of fraction.
        assert_eq!([load(Numeric::Float, 0x3c0, 11), load(Numeric::Float, 0x1f0, 10)], [1.0, 1.5]);
        assert_eq!(load(Numeric::Float, 0x7c0, 11), f32::INFINITY);
        assert_eq!(format(Numeric::Sint).load(0xfe, 8, false), 0xffff_fffe);
        assert_eq!(format(Numeric::Sint).load(0xfe, 8, true), 0xfffe);
        // 1 / 255 in FP16, to the nearest; FP32 to FP16 is truncated.
        assert_eq!(format(Numeric::Unorm).load(1, 8, true), 0x1c04);
        assert_eq!(format(Numeric::Float).load(0x3f80_3fff, 32, true), 0x3c01);
    }

    #[test]
    fn what_is_stored_is_loaded_again() {
        for numeric in [Numeric::Unorm, Numeric::Snorm, Numeric::Uint, Numeric::Sint, Numeric::Float] {
            let all: &[u32] = if numeric == Numeric::Float { &[10, 11, 16] } else { &[2, 8, 10, 11, 16] };
            for bits in all {
                for (raw, half) in (0..=ones(*bits)).flat_map(|raw| [(raw, false), (raw, true)]) {
                    let loaded = format(numeric).load(raw, *bits, half);
                    // FP16 has fewer digits than fractions of 16 bits.
                    let coarse = half && *bits > 10 && matches!(numeric, Numeric::Unorm | Numeric::Snorm);
                    let lowest = numeric == Numeric::Snorm && raw == 1 << (bits - 1);
                    let single = f32::from_bits(format(numeric).load(raw, *bits, false));
                    let nan = numeric == Numeric::Float && single.is_nan();
                    if !coarse && !lowest && !nan {
                        assert_eq!(format(numeric).store(loaded, *bits, half), Ok(raw), "{numeric:?} of {bits} bits");
                    }
                }
            }
        }
    }

    #[test]
    fn floats_out_of_range_are_clamped_and_integers_refused() {
        let store = |numeric, value: f32| format(numeric).store(value.to_bits(), 8, false);
        assert_eq!(
            [store(Numeric::Unorm, 2.0), store(Numeric::Unorm, -1.0), store(Numeric::Unorm, f32::NAN)],
            [Ok(255), Ok(0), Ok(0)]
        );
        assert_eq!([store(Numeric::Unorm, 0.5), store(Numeric::Snorm, -2.0)], [Ok(128), Ok(0x81)]);
        assert!(format(Numeric::Uint).store(256, 8, false).is_err());
        assert!(format(Numeric::Sint).store(128, 8, false).is_err());
        assert_eq!(format(Numeric::Sint).store(0xffff_ff80, 8, false), Ok(0x80));
        // -1 and a NaN as floats without a sign.
        let small = |value: f32| format(Numeric::Float).store(value.to_bits(), 11, false);
        assert_eq!([small(-1.0), small(f32::NAN)], [Ok(0), Ok(0x7e0)]);
    }
}
