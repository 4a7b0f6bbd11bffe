//! Elements of tensors as bytes: random inputs, poison for outputs, and numbers to compare.

mod eight;
mod nearest;
mod rounded;

use bluefin_common::problem::DataType;

use eight::Eight;
pub use rounded::{encode, fill_uniform};

/// What every byte of an integer output holds before the kernel runs.
const POISON: u8 = 0xA5;
/// Random integers are 1 to this, of either sign: sums of many products stay in range.
const LARGEST_INTEGER: u64 = 4;

/// A small generator (splitmix64) whose numbers are the same on every machine and in every version of bluefin: inputs
/// are part of what a measurement is.
pub struct Random(u64);

impl Random {
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next one.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// Fills `bytes` with random elements: floats uniform in \[-1, 1\], integers between -4 and 4, none of them zero, since a
/// kernel that multiplies by zero may look right and power-save on top.
pub fn fill_random(data_type: DataType, random: &mut Random, bytes: &mut [u8]) {
    for element in bytes.chunks_exact_mut(data_type.size()) {
        let bits = random.next();
        let negative = bits >> 63 == 1;
        // Each magnitude is exact in its type, so that no rounding is needed: fewer bits than the mantissa holds.
        let magnitude = |mantissa: u32| ((bits & ((1 << mantissa) - 1)) + 1) as f64 / (1_u64 << mantissa) as f64;
        let float = |mantissa: u32| if negative { -magnitude(mantissa) } else { magnitude(mantissa) };
        let integer = (bits % LARGEST_INTEGER) as i64 + 1;
        let integer = if negative { -integer } else { integer };
        match data_type {
            DataType::Fp32 => element.copy_from_slice(&(float(20) as f32).to_ne_bytes()),
            DataType::Fp64 => element.copy_from_slice(&float(40).to_ne_bytes()),
            DataType::Fp16 => element.copy_from_slice(&to_fp16(float(10)).to_ne_bytes()),
            DataType::Bf16 => element.copy_from_slice(&to_bf16(float(7)).to_ne_bytes()),
            DataType::Int8 => element.copy_from_slice(&(integer as i8).to_ne_bytes()),
            DataType::Int32 => element.copy_from_slice(&(integer as i32).to_ne_bytes()),
            DataType::Int64 => element.copy_from_slice(&integer.to_ne_bytes()),
            DataType::Int16 => element.copy_from_slice(&(integer as i16).to_ne_bytes()),
            DataType::Uint8 => element.fill(integer.unsigned_abs() as u8),
            DataType::Uint16 => element.copy_from_slice(&(integer.unsigned_abs() as u16).to_ne_bytes()),
            DataType::Uint32 => element.copy_from_slice(&(integer.unsigned_abs() as u32).to_ne_bytes()),
            DataType::Uint64 => element.copy_from_slice(&integer.unsigned_abs().to_ne_bytes()),
            DataType::Bool => element.fill(u8::from(negative)),
            DataType::Fp8 | DataType::Bf8 | DataType::Fp8Fnuz | DataType::Bf8Fnuz => {
                let code = Eight::of(data_type).map(|eight| eight.encode(float(eight.digits())));
                element.fill(code.unwrap_or_default());
            }
        }
    }
}

/// An element that a kernel hardly ever computes: for floats not-a-number with a payload of its own, 0xA5 for integers.
fn poison(data_type: DataType, element: &mut [u8]) {
    match data_type {
        DataType::Fp32 => element.copy_from_slice(&0x7FC0_A5A5_u32.to_ne_bytes()),
        DataType::Fp64 => element.copy_from_slice(&0x7FF8_A5A5_A5A5_A5A5_u64.to_ne_bytes()),
        DataType::Fp16 => element.copy_from_slice(&0x7EA5_u16.to_ne_bytes()),
        DataType::Bf16 => element.copy_from_slice(&0x7FE5_u16.to_ne_bytes()),
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Uint8
        | DataType::Uint16
        | DataType::Uint32
        | DataType::Uint64
        | DataType::Bool => element.fill(POISON),
        DataType::Fp8 | DataType::Bf8 | DataType::Fp8Fnuz | DataType::Bf8Fnuz => {
            element.fill(Eight::of(data_type).map_or(POISON, Eight::poison));
        }
    }
}

/// Fills `bytes` with poison.
pub fn fill_poison(data_type: DataType, bytes: &mut [u8]) {
    bytes.chunks_exact_mut(data_type.size()).for_each(|element| poison(data_type, element));
}

/// Whether the element still holds poison.
#[must_use]
pub fn is_poison(data_type: DataType, element: &[u8]) -> bool {
    let mut wanted = [0; 8];
    wanted.get_mut(..element.len()).is_some_and(|wanted| {
        poison(data_type, wanted);
        wanted == element
    })
}

/// The number that an element is; not-a-number for bytes that are no element of the type.
#[must_use]
pub fn to_f64(data_type: DataType, element: &[u8]) -> f64 {
    fn exact<const N: usize>(element: &[u8]) -> Option<[u8; N]> {
        element.try_into().ok()
    }
    let number = match data_type {
        DataType::Fp32 => exact(element).map(|bytes| f64::from(f32::from_ne_bytes(bytes))),
        DataType::Fp64 => exact(element).map(f64::from_ne_bytes),
        DataType::Fp16 => exact(element).map(|bytes| from_fp16(u16::from_ne_bytes(bytes))),
        DataType::Bf16 => {
            exact(element).map(|bytes| f64::from(f32::from_bits(u32::from(u16::from_ne_bytes(bytes)) << 16)))
        }
        DataType::Int8 => exact(element).map(|bytes| f64::from(i8::from_ne_bytes(bytes))),
        DataType::Int32 => exact(element).map(|bytes| f64::from(i32::from_ne_bytes(bytes))),
        DataType::Int64 => exact(element).map(|bytes| i64::from_ne_bytes(bytes) as f64),
        DataType::Int16 => exact(element).map(|bytes| f64::from(i16::from_ne_bytes(bytes))),
        DataType::Uint8 | DataType::Bool => exact(element).map(|[byte]| f64::from(byte)),
        DataType::Uint16 => exact(element).map(|bytes| f64::from(u16::from_ne_bytes(bytes))),
        DataType::Uint32 => exact(element).map(|bytes| f64::from(u32::from_ne_bytes(bytes))),
        DataType::Uint64 => exact(element).map(|bytes| u64::from_ne_bytes(bytes) as f64),
        DataType::Fp8 | DataType::Bf8 | DataType::Fp8Fnuz | DataType::Bf8Fnuz => {
            exact(element).and_then(|[code]| Some(Eight::of(data_type)?.decode(code)))
        }
    };
    number.unwrap_or(f64::NAN)
}

/// IEEE 754 binary16: 1 sign, 5 exponent, 10 mantissa bits.
fn from_fp16(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from(bits >> 10 & 0x1F);
    let mantissa = f64::from(bits & 0x3FF) / 1024.0;
    match exponent {
        0 => sign * mantissa * 2_f64.powi(-14),
        0x1F if mantissa == 0.0 => sign * f64::INFINITY,
        0x1F => f64::NAN,
        _ => sign * (1.0 + mantissa) * 2_f64.powi(exponent - 15),
    }
}

/// For normal numbers that binary16 holds exactly, which is what [`fill_random`] makes.
fn to_fp16(value: f64) -> u16 {
    let bits = (value as f32).to_bits();
    let exponent = (bits >> 23 & 0xFF).saturating_sub(127 - 15);
    ((bits >> 31 << 15) | (exponent << 10) | (bits >> 13 & 0x3FF)) as u16
}

/// For numbers that bfloat16 holds exactly.
fn to_bf16(value: f64) -> u16 {
    ((value as f32).to_bits() >> 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = DataType> {
        DataType::ALL.into_iter().chain([DataType::Fp8Fnuz, DataType::Bf8Fnuz])
    }

    #[test]
    fn random_elements_are_in_range_never_zero_and_of_both_signs() {
        for data_type in all() {
            let mut bytes = vec![0; 4096 * data_type.size()];
            fill_random(data_type, &mut Random::new(1), &mut bytes);
            let numbers: Vec<f64> = bytes.chunks(data_type.size()).map(|element| to_f64(data_type, element)).collect();
            let limit = match data_type {
                DataType::Int8 | DataType::Int32 | DataType::Int64 => 4.0,
                _ => 1.0,
            };
            assert!(numbers.iter().all(|number| *number != 0.0 && number.abs() <= limit), "{data_type}");
            let positive = numbers.iter().filter(|number| **number > 0.0).count();
            assert!((1800..2300).contains(&positive), "{data_type}: {positive}");
            let mean = numbers.iter().map(|number| number.abs()).sum::<f64>() / numbers.len() as f64;
            // What has few digits has few magnitudes, of which the largest is 1 and none is 0.
            let magnitudes = if limit > 1.0 {
                4.0
            } else {
                Eight::of(data_type).map_or(f64::INFINITY, |eight| f64::from(1 << eight.digits()))
            };
            assert!((mean / limit - 0.5 - 0.5 / magnitudes).abs() < 0.03, "{data_type}: {mean}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes_forever() {
        let mut bytes = [0; 16];
        fill_random(DataType::Fp32, &mut Random::new(42), &mut bytes);
        let mut again = [0; 16];
        fill_random(DataType::Fp32, &mut Random::new(42), &mut again);
        assert_eq!(bytes, again);
        // Known answer of splitmix64 for seed 1234567.
        assert_eq!(Random::new(1_234_567).next(), 6_457_827_717_110_365_317);
    }

    #[test]
    fn poison_is_recognised_and_numbers_are_not() {
        for data_type in all() {
            let mut bytes = vec![0; 8 * data_type.size()];
            fill_poison(data_type, &mut bytes);
            assert!(bytes.chunks(data_type.size()).all(|element| is_poison(data_type, element)), "{data_type}");
            fill_random(data_type, &mut Random::new(3), &mut bytes);
            assert!(!bytes.chunks(data_type.size()).any(|element| is_poison(data_type, element)), "{data_type}");
        }
    }

    #[test]
    fn halves_decode() {
        for (bits, value) in [
            (0x3C00, 1.0),
            (0xC000, -2.0),
            (0x7BFF, 65504.0),
            (0x0001, 2_f64.powi(-24)),
            (0x0400, 2_f64.powi(-14)),
            (0x3555, 0.333_251_953_125),
            (0x7C00, f64::INFINITY),
            (0xFC00, f64::NEG_INFINITY),
            (0x0000, 0.0),
        ] {
            assert_eq!(from_fp16(bits), value, "{bits:#x}");
        }
        assert!(from_fp16(0x7E00).is_nan());
        assert_eq!(to_f64(DataType::Bf16, &0x3F80_u16.to_ne_bytes()), 1.0);
        assert_eq!(to_fp16(1.0), 0x3C00);
        assert_eq!(to_fp16(-1.0 / 1024.0), 0x9400);
        assert_eq!(to_bf16(-0.5), 0xBF00);
    }

    #[test]
    fn bytes_of_another_size_are_no_number() {
        assert!(to_f64(DataType::Fp32, &[0; 3]).is_nan());
    }
}
