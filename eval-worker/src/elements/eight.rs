//! Floats of 8 bits: those of the OCP's "8-bit Floating Point Specification", and those without infinities and without -0 ("FNUZ", of
//! arXiv 2206.02915), whose code is their one not-a-number.

use bluefin_common::problem::DataType;

use super::nearest::nearest;

/// An encoding: a sign, then the exponent, then the mantissa.
#[derive(Clone, Copy, Debug)]
pub(super) struct Eight {
    /// Bits.
    mantissa: u32,
    bias: i32,
    kind: Kind,
}

/// What an encoding has beside numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The largest code of either sign is not-a-number.
    Finite,
    /// The largest exponent is that of infinities and of what is no number.
    Ieee,
    Fnuz,
}

impl Eight {
    /// The encoding of a type of 8 bits; `None` of another type.
    pub(super) const fn of(data_type: DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Fp8 => Self { mantissa: 3, bias: 7, kind: Kind::Finite },
            DataType::Bf8 => Self { mantissa: 2, bias: 15, kind: Kind::Ieee },
            DataType::Fp8Fnuz => Self { mantissa: 3, bias: 8, kind: Kind::Fnuz },
            DataType::Bf8Fnuz => Self { mantissa: 2, bias: 16, kind: Kind::Fnuz },
            _ => return None,
        })
    }

    /// One more than are stored: how many bits the magnitude of a normal number has.
    pub(super) const fn digits(self) -> u32 {
        self.mantissa + 1
    }

    /// A code of not-a-number, of several the one that is computed the least.
    pub(super) const fn poison(self) -> u8 {
        match self.kind {
            Kind::Finite => 0xFF,
            Kind::Ieee => 0x7D,
            Kind::Fnuz => 0x80,
        }
    }

    pub(super) fn decode(self, code: u8) -> f64 {
        let sign = if code & 0x80 == 0 { 1.0 } else { -1.0 };
        let magnitude = code & 0x7F;
        let exponent = i32::from(magnitude >> self.mantissa);
        let mantissa = magnitude & ((1 << self.mantissa) - 1);
        let largest = (1 << (7 - self.mantissa)) - 1;
        match self.kind {
            Kind::Finite if magnitude == 0x7F => return f64::NAN,
            Kind::Fnuz if code == 0x80 => return f64::NAN,
            Kind::Ieee if exponent == largest && mantissa == 0 => return sign * f64::INFINITY,
            Kind::Ieee if exponent == largest => return f64::NAN,
            Kind::Finite | Kind::Ieee | Kind::Fnuz => {}
        }
        let fraction = f64::from(mantissa) / f64::from(1 << self.mantissa);
        if exponent == 0 {
            return sign * fraction * 2_f64.powi(1 - self.bias);
        }
        sign * (1.0 + fraction) * 2_f64.powi(exponent - self.bias)
    }

    /// The code of the finite number that is nearest to `value`; of two the one whose last bit is 0.
    pub(super) fn nearest(self, value: f32) -> u8 {
        let code = nearest(value, self.mantissa, self.bias, self.largest().into()) as u8;
        // What has no -0 calls that code no number.
        if value.is_sign_negative() && code > 0 { code | 0x80 } else { code }
    }

    /// The code of the largest finite number.
    fn largest(self) -> u8 {
        match self.kind {
            Kind::Finite => 0x7E,
            Kind::Ieee => 0x7F - (1 << self.mantissa),
            Kind::Fnuz => 0x7F,
        }
    }

    /// For normal numbers that the encoding holds exactly.
    pub(super) fn encode(self, value: f64) -> u8 {
        let bits = (value as f32).to_bits();
        let exponent = (bits >> 23 & 0xFF).wrapping_add_signed(self.bias - 127);
        let mantissa = (bits & 0x7F_FFFF) >> (23 - self.mantissa);
        (bits >> 31 << 7 | exponent << self.mantissa | mantissa) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_numbers_of_their_standards() {
        for (data_type, code, value) in [
            (DataType::Fp8, 0x38, 1.0),
            (DataType::Fp8, 0x7E, 448.0),
            (DataType::Fp8, 0x01, 2_f64.powi(-9)),
            (DataType::Fp8, 0x88, -2_f64.powi(-6)),
            (DataType::Bf8, 0x3C, 1.0),
            (DataType::Bf8, 0x7B, 57344.0),
            (DataType::Bf8, 0x01, 2_f64.powi(-16)),
            (DataType::Bf8, 0xFC, f64::NEG_INFINITY),
            (DataType::Fp8Fnuz, 0x40, 1.0),
            (DataType::Fp8Fnuz, 0x7F, 240.0),
            (DataType::Fp8Fnuz, 0x01, 2_f64.powi(-10)),
            (DataType::Bf8Fnuz, 0x40, 1.0),
            (DataType::Bf8Fnuz, 0xFF, -57344.0),
            (DataType::Bf8Fnuz, 0x01, 2_f64.powi(-17)),
        ] {
            assert_eq!(Eight::of(data_type).unwrap().decode(code), value, "{data_type} {code:#x}");
        }
        for (data_type, codes) in [
            (DataType::Fp8, &[0x7F_u8, 0xFF][..]),
            (DataType::Bf8, &[0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF]),
            (DataType::Fp8Fnuz, &[0x80]),
            (DataType::Bf8Fnuz, &[0x80]),
        ] {
            let eight = Eight::of(data_type).unwrap();
            let no_numbers: Vec<u8> = (0..=u8::MAX).filter(|code| eight.decode(*code).is_nan()).collect();
            assert_eq!(no_numbers, codes, "{data_type}");
        }
    }

    #[test]
    fn normal_numbers_are_encoded_as_they_were() {
        for data_type in [DataType::Fp8, DataType::Bf8, DataType::Fp8Fnuz, DataType::Bf8Fnuz] {
            let eight = Eight::of(data_type).unwrap();
            let normal = |code: &u8| {
                let value = eight.decode(*code);
                value.is_finite() && value.abs() >= 2_f64.powi(1 - eight.bias)
            };
            for code in (0..=u8::MAX).filter(normal) {
                assert_eq!(eight.encode(eight.decode(code)), code, "{data_type} {code:#x}");
            }
        }
    }
}
