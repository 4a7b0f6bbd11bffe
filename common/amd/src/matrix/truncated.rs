//! The products of gfx942's MFMA ([`super::Sum::Truncated`] and [`super::Sum::TruncatedHalves`]): those of which nothing is cut off are
//! sums of FP32, for the others there is [`Truncated`].

use super::sparse::{Chosen, by_rows};
use super::sums::{self, Lossless, Product, Shape, Truncated, power};
use super::{Element, Matrix};

/// Adds the products to `result`, so many of each sum at a time.
pub(super) fn compute<const PARTS: usize, const FACTOR: usize>(
    matrix: &Matrix,
    shape: Shape,
    group: usize,
    factors: &[[f32; FACTOR]; 2],
    chosen: Option<&Chosen>,
    result: &mut [f32],
) {
    let counts = [shape.depth, matrix.depth].map(|depth| shape.size * depth * shape.blocks);
    let smallest = [smallest(matrix.a), smallest(matrix.b)];
    let used = [&factors[0][..counts[0]], &factors[1][..counts[1]]];
    let largest = [used[0], used[1], result].map(largest);
    // What is no number is not less.
    if 2.0 * bound(shape.depth, largest) < LIMIT {
        let units = [used[0], used[1], result].map(unit);
        if is_lossless(shape.depth, group, largest, units, smallest) {
            return by_rows(chosen, shape, [&factors[1]], |rows, [b]| {
                Product { rule: Lossless { group }, shape, rows, a: &factors[0], b, result: &mut *result }.compute();
            });
        }
    }
    general::<PARTS, FACTOR>(shape, group, (factors, counts), (largest, smallest), chosen, result);
}

fn general<const PARTS: usize, const FACTOR: usize>(
    shape: Shape,
    group: usize,
    (factors, counts): (&[[f32; FACTOR]; 2], [usize; 2]),
    (largest, smallest): ([f32; 3], [f64; 2]),
    chosen: Option<&Chosen>,
    result: &mut [f32],
) {
    let mut values = [[0f64; FACTOR]; 2];
    let mut powers = [[0f64; FACTOR]; 2];
    for side in 0..2 {
        let both = values[side].iter_mut().zip(&mut powers[side]);
        for ((value, power), factor) in both.zip(&factors[side][..counts[side]]) {
            *value = f64::from(*factor);
            *power = sums::power(*value, smallest[side]);
        }
    }
    let finite = largest.iter().all(|value| value.is_finite());
    let special = !finite || bound(shape.depth, largest) >= LIMIT;
    by_rows(chosen, shape, [&values[1], &powers[1]], |rows, [b, b_powers]| {
        let rule = Truncated::<PARTS> { group, a_powers: &powers[0], b_powers, smallest, special };
        Product { rule, shape, rows, a: &values[0], b, result: &mut *result }.compute();
    });
}

/// From FP32's largest number on, sums are infinite.
const LIMIT: f64 = (1u128 << 127) as f64;

/// No sum of finite products is beyond this.
fn bound(depth: usize, largest: [f32; 3]) -> f64 {
    let [a, b, before] = largest.map(f64::from);
    a * b * depth as f64 + before
}

/// Whether nothing is cut off from any sum, and the sums of groups are exact in FP32. All factors and sums are multiples of their unit,
/// so that products are multiples of `unit` and all sums of `last`; sums are rounded to multiples of it.
fn is_lossless(depth: usize, group: usize, largest: [f32; 3], units: [f64; 3], smallest: [f64; 2]) -> bool {
    let [a, b, _] = largest.map(f64::from);
    // Sums are rounded: a bound of twice as much is safe.
    let bound = 2.0 * bound(depth, largest);
    // No product's exponent is beyond this one.
    let top = power(a, smallest[0]) * power(b, smallest[1]);
    let unit = units[0] * units[1];
    let last = unit.min(units[2]);
    // FP32's smallest number.
    unit >= f64::from(f32::from_bits(1))
        // Neither products nor sums are cut off 24 digits below the largest product.
        && last * TWO_24 >= top
        // The sum of a group is not 32 digits below the sum so far, and the sum of both has no more than 32 digits.
        && unit * TWO_31 * 2.0 >= top.max(bound)
        && last * TWO_31 >= bound
        // Each sum of products of a group is a number of FP32.
        && group as f64 * a * b <= unit * TWO_24
}

const TWO_24: f64 = 16_777_216.0;
const TWO_31: f64 = 2_147_483_648.0;

/// The largest magnitude, no number if any value is none: magnitudes are ordered as their bits are.
fn largest(values: &[f32]) -> f32 {
    let bits = pulp::Arch::new().dispatch(
        #[inline(always)]
        || values.iter().fold(0, |most, value| most.max(value.to_bits() & !(1 << 31))),
    );
    f32::from_bits(bits)
}

/// The largest power of two of which all values, which are finite, are multiples; 2^200 if all are 0.
fn unit(values: &[f32]) -> f64 {
    let least = pulp::Arch::new().dispatch(
        #[inline(always)]
        || values.iter().fold(200, |least, value| least.min(last_digit(*value))),
    );
    f64::from_bits(((1023 + least) as u64) << 52)
}

/// The exponent of the last digit that is not 0.
#[inline(always)]
fn last_digit(value: f32) -> i32 {
    let magnitude = value.to_bits() & !(1 << 31);
    let exponent = (magnitude >> 23).max(1) as i32;
    let leading = if magnitude < 1 << 23 { 0 } else { 1 << 23 };
    let significand = magnitude & 0x7f_ffff | leading;
    // The lowest bit as FP32 has its place as the exponent.
    let lowest = (significand & significand.wrapping_neg()) as i32 as f32;
    let place = (lowest.to_bits() >> 23) as i32 - 127;
    if significand == 0 { 200 } else { exponent + place - 150 }
}

/// The exponent, as a power of two, that a denormal of the format is at: its smallest normal number.
fn smallest(element: Element) -> f64 {
    match element {
        Element::F16 => 2f64.powi(-14),
        Element::Fp8 => 2f64.powi(-7),
        Element::Bf8 => 2f64.powi(-15),
        _ => f64::from(f32::MIN_POSITIVE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number::tests::Random;

    const FACTOR: usize = 512;

    /// A number of so many digits, at most, whose last one is at 2^`last`; zeros of both signs among them.
    fn number(random: &mut Random, digits: u64, last: i32) -> f32 {
        let significand = random.next() % (1 << digits);
        let value = significand as f32 * 2f32.powi(last);
        if random.next().is_multiple_of(2) { value } else { -value }
    }

    /// Both ways give the same bits wherever nothing is cut off, at the borders of what that is too: few digits and many, sums so far that are
    /// far above the products, far below, and equal to them but for the sign.
    #[test]
    fn sums_that_lose_nothing_are_those_of_the_general_way() {
        let mut random = Random(7);
        let (mut quick, mut refused) = (0, 0);
        for turn in 0..4000_u64 {
            let name = ["v_mfma_f32_16x16x16_f16", "v_mfma_f32_16x16x16_bf16", "v_mfma_f32_16x16x32_fp8_bf8"]
                [(turn % 3) as usize];
            let matrix = Matrix::named(name).expect("a matrix instruction");
            let shape = Shape { size: 16, depth: matrix.depth, blocks: 1 };
            let [of_a, of_b, of_c] = [1 + random.next() % 14, 1 + random.next() % 14, 1 + random.next() % 24];
            let (last_a, last_b) = ((random.next() % 20) as i32 - 14, (random.next() % 20) as i32 - 14);
            let last_c = last_a + last_b + (random.next() % 64) as i32 - 32;
            let mut factors = [[0f32; FACTOR]; 2];
            for (factor, (digits, last)) in factors.iter_mut().zip([(of_a, last_a), (of_b, last_b)]) {
                factor[..16 * matrix.depth].iter_mut().for_each(|value| *value = number(&mut random, digits, last));
            }
            let mut result = [0f32; 256];
            result.iter_mut().for_each(|value| *value = number(&mut random, of_c, last_c));
            if turn.is_multiple_of(5) {
                // The sum so far takes a product away.
                for (at, value) in result.iter_mut().enumerate() {
                    *value = -factors[0][at / 16] * factors[1][at % 16];
                }
            }
            let counts = [16 * matrix.depth; 2];
            let smallest = [smallest(matrix.a), smallest(matrix.b)];
            let used = [&factors[0][..counts[0]], &factors[1][..counts[1]], result.as_slice()];
            let (largest, units) = (used.map(largest), used.map(unit));
            let group = if name.contains("fp8") { 16 } else { 8 };
            let mut expected = result;
            if name.contains("fp8") {
                general::<2, FACTOR>(shape, group, (&factors, counts), (largest, smallest), None, &mut expected);
                compute::<2, FACTOR>(matrix, shape, group, &factors, None, &mut result);
            } else {
                general::<1, FACTOR>(shape, group, (&factors, counts), (largest, smallest), None, &mut expected);
                compute::<1, FACTOR>(matrix, shape, group, &factors, None, &mut result);
            }
            assert_eq!(result.map(f32::to_bits), expected.map(f32::to_bits), "turn {turn}: {name}");
            if is_lossless(matrix.depth, group, largest, units, smallest) { quick += 1 } else { refused += 1 }
        }
        assert!(quick > 500 && refused > 500, "{quick} sums lose nothing, {refused} may");
    }

    #[test]
    fn units_are_the_last_digits() {
        assert_eq!(unit(&[3.0, 0.0, -0.0]), 1.0);
        assert_eq!(unit(&[3.0, -0.5, 8.0]), 0.5);
        assert_eq!(unit(&[1.0 + f32::EPSILON]), f64::from(f32::EPSILON));
        assert_eq!(unit(&[f32::from_bits(6)]), 2.0 * f64::from(f32::from_bits(1)));
        assert_eq!(unit(&[2f32.powi(127)]), 2f64.powi(127));
        assert_eq!(unit(&[0.0]), 2f64.powi(200));
    }

    /// What is cut off, or is no number, is never left to the sums that lose nothing.
    #[test]
    fn what_loses_digits_is_refused() {
        let lossless = |a: f32, b: f32, c: f32| {
            let largest = [a, b, c].map(f32::abs);
            let finite = 2.0 * bound(16, largest) < LIMIT;
            finite && is_lossless(16, 8, largest, [a, b, c].map(|value| unit(&[value])), [2f64.powi(-14); 2])
        };
        assert!(lossless(3.0, 5.0, 1.0) && lossless(1.5, 1.25, 0.0));
        assert!(!lossless(3.0, 5.0, f32::EPSILON * 0.001), "a small sum so far is cut off");
        assert!(!lossless(1.0, 1.0, 2f32.powi(40)), "a small product is cut off");
        assert!(!lossless(2047.0, 2047.0, 0.0), "a sum of eight products has more than 24 digits");
        assert!(!lossless(f32::INFINITY, 1.0, 0.0) && !lossless(1.0, f32::NAN, 0.0));
        assert!(!lossless(2f32.powi(100), 2f32.powi(27), 0.0), "an overflow");
    }
}
