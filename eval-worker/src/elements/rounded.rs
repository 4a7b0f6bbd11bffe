//! Elements of numbers that are given, rounded to the nearest that their type has: what a spec says that buffers hold.

use bluefin_common::problem::DataType;

use super::Random;
use super::eight::Eight;
use super::nearest::nearest;

/// Fills `bytes` with random elements between `low` and `high`, both included.
pub fn fill_uniform(data_type: DataType, (low, high): (f64, f64), random: &mut Random, bytes: &mut [u8]) {
    let span = (high - low).max(0.0);
    // As many as there are; of 64 bits all that a float tells apart.
    let integers = data_type.integers().map(|_| (high as i128).saturating_sub(low as i128).saturating_add(1).max(1));
    for element in bytes.chunks_exact_mut(data_type.size()) {
        let bits = random.next();
        match integers {
            Some(count) => write_integer(data_type, low as i128 + i128::from(bits).rem_euclid(count), element),
            None => {
                // 53 bits, from 0 to 1, both included.
                let share = (bits >> 11) as f64 / ((1_u64 << 53) - 1) as f64;
                let value = (low + span * share).clamp(low, high.max(low));
                write_float(data_type, value, element);
            }
        }
    }
}

/// Writes the element that `value` is; an integer type gets the nearest that it has.
pub fn encode(data_type: DataType, value: f64, element: &mut [u8]) {
    match data_type.integers() {
        Some((least, most)) => write_integer(data_type, (value.round() as i128).clamp(least, most), element),
        None => write_float(data_type, value, element),
    }
}

/// The low bytes of an integer that the type has.
fn write_integer(data_type: DataType, value: i128, element: &mut [u8]) {
    let bytes = value.to_le_bytes();
    if let Some(bytes) = bytes.get(..data_type.size().min(element.len())) {
        element.copy_from_slice(bytes);
    }
}

fn write_float(data_type: DataType, value: f64, element: &mut [u8]) {
    let single = value as f32;
    let sign = single.to_bits() >> 31;
    match data_type {
        DataType::Fp64 => element.copy_from_slice(&value.to_ne_bytes()),
        DataType::Fp32 => element.copy_from_slice(&single.to_ne_bytes()),
        DataType::Fp16 => {
            element.copy_from_slice(&((sign << 15 | nearest(single, 10, 15, 0x7C00)) as u16).to_ne_bytes())
        }
        DataType::Bf16 => {
            element.copy_from_slice(&((sign << 15 | nearest(single, 7, 127, 0x7F80)) as u16).to_ne_bytes())
        }
        other => {
            let code = Eight::of(other).map_or(0, |eight| eight.nearest(single));
            element.fill(code);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elements::to_f64;

    fn back(data_type: DataType, value: f64) -> f64 {
        let mut element = vec![0; data_type.size()];
        encode(data_type, value, &mut element);
        to_f64(data_type, &element)
    }

    #[test]
    fn numbers_become_the_nearest_element() {
        for (data_type, value, expected) in [
            (DataType::Fp64, 0.1, 0.1),
            (DataType::Fp32, 0.1, f64::from(0.1_f32)),
            (DataType::Fp16, -3.1, -3.099_609_375),
            (DataType::Fp16, 2049.0, 2048.0),
            (DataType::Fp16, 2051.0, 2052.0),
            (DataType::Fp16, 65519.0, 65504.0),
            (DataType::Fp16, 65520.0, f64::INFINITY),
            (DataType::Fp16, 2_f64.powi(-24), 2_f64.powi(-24)),
            (DataType::Fp16, 2_f64.powi(-26), 0.0),
            (DataType::Bf16, 3.1, 3.09375),
            (DataType::Bf16, 1.0 + 2_f64.powi(-8), 1.0),
            (DataType::Bf16, 1.0 + 2_f64.powi(-8) + 2_f64.powi(-20), 1.0 + 2_f64.powi(-7)),
            (DataType::Bf8Fnuz, -1e-9, 0.0),
            (DataType::Fp8, 0.3, 0.3125),
            (DataType::Fp8Fnuz, 1000.0, 240.0),
            (DataType::Bf8, -0.3, -0.3125),
            (DataType::Int8, -7.0, -7.0),
            (DataType::Int64, -4_294_967_297.0, -4_294_967_297.0),
            (DataType::Uint64, 2_f64.powi(63), 2_f64.powi(63)),
            (DataType::Uint16, 65535.0, 65535.0),
            (DataType::Bool, 1.0, 1.0),
        ] {
            assert_eq!(back(data_type, value), expected, "{data_type} {value}");
        }
    }

    #[test]
    fn uniform_elements_fill_their_range() {
        let all = DataType::ALL.into_iter().chain(DataType::OF_BUFFERS).chain([DataType::Fp8Fnuz, DataType::Bf8Fnuz]);
        for data_type in all {
            let (low, high) = match data_type.integers() {
                Some((0, 1)) => (0.0, 1.0),
                Some((0, _)) => (3.0, 9.0),
                Some(_) => (-3.0, 5.0),
                None => (-2.0, 3.0),
            };
            let mut bytes = vec![0; 4096 * data_type.size()];
            fill_uniform(data_type, (low, high), &mut Random::new(5), &mut bytes);
            let numbers: Vec<f64> = bytes.chunks(data_type.size()).map(|element| to_f64(data_type, element)).collect();
            assert!(numbers.iter().all(|number| (low..=high).contains(number)), "{data_type}");
            let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
            assert!((mean - f64::midpoint(low, high)).abs() < 0.1 * (high - low), "{data_type}: {mean}");
            let (least, most) =
                (numbers.iter().copied().fold(f64::INFINITY, f64::min), numbers.iter().copied().fold(-9.0, f64::max));
            assert!(least < low + 0.05 * (high - low) && most > high - 0.05 * (high - low), "{data_type}");
        }
    }
}
