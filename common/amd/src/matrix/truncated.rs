//! The products of gfx942's MFMA ([`super::Sum::Truncated`] and [`super::Sum::TruncatedHalves`]): those of which nothing is cut off are
//! sums of FP32, for the others there is [`Truncated`].

use super::rows::Plain;
use super::shape::{MANY, Shape};
use super::sparse::{Chosen, by_rows};
use super::sums::{Lossless, Product};
use super::truncation::{Truncated, exponent_of, power};
use super::{Element, Matrix};

/// Adds the products to the result, so many of each sum at a time.
pub(super) fn compute<const PARTS: usize>(
    matrix: &Matrix,
    shape: Shape,
    group: usize,
    (factors, room): (&[[f32; MANY]; 2], &mut [Wide; 2]),
    chosen: Option<&Chosen>,
    mut result: Plain<'_>,
) {
    let counts = [shape.depth, matrix.depth].map(|depth| shape.size * depth * shape.blocks);
    let smallest = [smallest(matrix.a), smallest(matrix.b)];
    let used = [&factors[0][..counts[0]], &factors[1][..counts[1]]];
    // Of any type that is summed so, each lane of each register has an element.
    let before = result.d.as_flattened();
    let [a, b] = used.map(|values| largest(values.iter().map(|value| value.to_bits())));
    let largest = [a, b, largest(before.iter().copied())];
    // What is no number is not less.
    if 2.0 * bound(shape.depth, largest) < LIMIT {
        let units = used.map(unit);
        if let Some(coarsest) = coarsest(shape.depth, group, largest, units, smallest)
            && are_multiples(before, coarsest)
        {
            let [a, b] = factors;
            return by_rows(chosen, shape, [b], |rows, [b]| {
                Product { rule: Lossless { group }, shape, rows, a, b, result: &mut result }.compute();
            });
        }
    }
    general::<PARTS>(shape, group, (factors, room), (largest, smallest), chosen, result);
}

fn general<const PARTS: usize>(
    shape: Shape,
    group: usize,
    (factors, room): (&[[f32; MANY]; 2], &mut [Wide; 2]),
    (largest, smallest): ([f32; 3], [f64; 2]),
    chosen: Option<&Chosen>,
    mut result: Plain<'_>,
) {
    let finite = largest.iter().all(|value| value.is_finite());
    let special = !finite || bound(shape.depth, largest) >= LIMIT;
    let least = smallest.map(|value| value.log2() as i16);
    let [a, b] = room;
    widen(&factors[0][..shape.size * shape.depth * shape.blocks], least[0], a);
    by_rows(chosen, shape, [&factors[1]], |rows, [singles]| {
        widen(&singles[..shape.size * shape.depth * shape.blocks], least[1], b);
        let (a_exponents, b_exponents) = (&a.1, &b.1);
        let rule = Truncated::<PARTS> { group, a_exponents, b_exponents, smallest, special };
        Product { rule, shape, rows, a: &a.0, b: &b.0, result: &mut result }.compute();
    });
}

/// Factors as FP64, and their exponents.
pub(super) type Wide = ([f64; MANY], [i16; MANY]);

/// Factors as FP64, and their exponents.
fn widen(from: &[f32], least: i16, (values, exponents): &mut Wide) {
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || {
            values.iter_mut().zip(from).for_each(|(value, from)| *value = f64::from(*from));
            exponents.iter_mut().zip(from).for_each(|(exponent, from)| *exponent = exponent_of(*from, least));
        },
    );
}

/// From FP32's largest number on, sums are infinite.
const LIMIT: f64 = (1u128 << 127) as f64;

/// No sum of finite products is beyond this.
fn bound(depth: usize, largest: [f32; 3]) -> f64 {
    let [a, b, before] = largest.map(f64::from);
    a * b * depth as f64 + before
}

/// The unit that C has to be multiples of, a power of two, where then nothing is cut off from any sum, and the sums of groups are exact
/// in FP32; `None` where something may be. All factors are multiples of their unit, so that products are multiples of `unit` and all
/// sums of that and of C's; sums are rounded to multiples of it.
fn coarsest(depth: usize, group: usize, largest: [f32; 3], units: [f64; 2], smallest: [f64; 2]) -> Option<f32> {
    let [a, b, _] = largest.map(f64::from);
    // Sums are rounded: a bound of twice as much is safe.
    let bound = 2.0 * bound(depth, largest);
    // No product's exponent is beyond this one.
    let top = power(a, smallest[0]) * power(b, smallest[1]);
    let unit = units[0] * units[1];
    // Neither products nor sums are cut off 24 digits below the largest product, and the sum of both has no more than 32 digits.
    let least = (top / TWO_24).max(bound / TWO_31);
    let lossless = unit >= least
        // FP32's smallest number.
        && unit >= f64::from(f32::from_bits(1))
        // The sum of a group is not 32 digits below the sum so far.
        && unit * TWO_31 * 2.0 >= top.max(bound)
        // Each sum of products of a group is a number of FP32.
        && group as f64 * a * b <= unit * TWO_24;
    // No power of two is between this one and `least`.
    let coarsest = power(least, 0.0) * if least == power(least, 0.0) { 1.0 } else { 2.0 };
    lossless.then_some(coarsest as f32)
}

/// Whether all values, which are finite, are multiples of a power of two.
fn are_multiples(bits: &[u32], unit: f32) -> bool {
    // All numbers are multiples of the smallest one.
    let unit = unit.max(f32::from_bits(1));
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || {
            let inverse = f64::from(unit).recip();
            bits.iter().fold(true, |all, bits| {
                let units = f64::from(f32::from_bits(*bits)) * inverse;
                all & (units == units.trunc())
            })
        },
    )
}

const TWO_24: f64 = 16_777_216.0;
const TWO_31: f64 = 2_147_483_648.0;

/// The largest magnitude of numbers of which there are the bits, no number if any is none: magnitudes are ordered as their bits are.
fn largest(bits: impl Iterator<Item = u32>) -> f32 {
    let bits = pulp::Arch::new().dispatch(
        #[inline(always)]
        || bits.fold(0, |most, bits| most.max(bits & !(1 << 31))),
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
    use super::super::layout::Layout;
    use super::super::rows::Rows;
    use super::*;
    use crate::number::tests::Random;

    /// A number of so many digits, at most, whose last one is at 2^`last`; zeros of both signs among them.
    fn number(random: &mut Random, digits: u64, last: i32) -> f32 {
        let significand = random.next() % (1 << digits);
        let value = significand as f32 * 2f32.powi(last);
        if random.next().is_multiple_of(2) { value } else { -value }
    }

    fn result<'a>(layout: &'a Layout, d: &'a mut [[u32; 64]]) -> Plain<'a> {
        Plain { results: &layout.result, d }
    }

    /// Both ways give the same bits wherever nothing is cut off, at the borders of what that is too: few digits and many, sums so far that are
    /// far above the products, far below, and equal to them but for the sign.
    #[test]
    fn sums_that_lose_nothing_are_those_of_the_general_way() {
        let mut random = Random(7);
        let (mut quick, mut refused) = (0, 0);
        let mut room = [([0.0; MANY], [0; MANY]); 2];
        for turn in 0..4000_u64 {
            let name = ["v_mfma_f32_16x16x16_f16", "v_mfma_f32_16x16x16_bf16", "v_mfma_f32_16x16x32_fp8_bf8"]
                [(turn % 3) as usize];
            let matrix = Matrix::named(name).expect("a matrix instruction");
            let shape = Shape { size: 16, depth: matrix.depth, blocks: 1 };
            let [of_a, of_b, of_c] = [1 + random.next() % 14, 1 + random.next() % 14, 1 + random.next() % 24];
            let (last_a, last_b) = ((random.next() % 20) as i32 - 14, (random.next() % 20) as i32 - 14);
            let last_c = last_a + last_b + (random.next() % 64) as i32 - 32;
            let mut factors = [[0f32; MANY]; 2];
            for (factor, (digits, last)) in factors.iter_mut().zip([(of_a, last_a), (of_b, last_b)]) {
                factor[..16 * matrix.depth].iter_mut().for_each(|value| *value = number(&mut random, digits, last));
            }
            let mut before = [[0f32; 16]; 16];
            before.as_flattened_mut().iter_mut().for_each(|value| *value = number(&mut random, of_c, last_c));
            if turn.is_multiple_of(5) {
                // The sum so far takes a product away.
                for (at, value) in before.as_flattened_mut().iter_mut().enumerate() {
                    *value = -factors[0][at / 16] * factors[1][at % 16];
                }
            }
            let layout = Layout::of(matrix, 64);
            let [mut found, mut expected] = [[[0; 64]; 4]; 2];
            for d in [&mut found, &mut expected] {
                let mut rows = result(&layout, d);
                before.iter().enumerate().for_each(|(row, values)| rows.store(0, row, values));
            }
            let smallest = [smallest(matrix.a), smallest(matrix.b)];
            let used = factors.each_ref().map(|factor| &factor[..16 * matrix.depth]);
            let [a, b, c] = [used[0], used[1], before.as_flattened()]
                .map(|values| largest(values.iter().map(|value| value.to_bits())));
            let (largest, units) = ([a, b, c], used.map(unit));
            let group = if name.contains("fp8") { 16 } else { 8 };
            if name.contains("fp8") {
                general::<2>(
                    shape,
                    group,
                    (&factors, &mut room),
                    (largest, smallest),
                    None,
                    result(&layout, &mut expected),
                );
                compute::<2>(matrix, shape, group, (&factors, &mut room), None, result(&layout, &mut found));
            } else {
                general::<1>(
                    shape,
                    group,
                    (&factors, &mut room),
                    (largest, smallest),
                    None,
                    result(&layout, &mut expected),
                );
                compute::<1>(matrix, shape, group, (&factors, &mut room), None, result(&layout, &mut found));
            }
            assert_eq!(found, expected, "turn {turn}: {name}");
            let coarsest = coarsest(matrix.depth, group, largest, units, smallest);
            let is_quick = coarsest
                .is_some_and(|coarsest| are_multiples(&before.map(|row| row.map(f32::to_bits)).concat(), coarsest));
            if is_quick { quick += 1 } else { refused += 1 }
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
            let coarsest = coarsest(16, 8, largest, [a, b].map(|value| unit(&[value])), [2f64.powi(-14); 2]);
            finite && coarsest.is_some_and(|coarsest| are_multiples(&[c.to_bits()], coarsest))
        };
        assert!(lossless(3.0, 5.0, 1.0) && lossless(1.5, 1.25, 0.0));
        assert!(!lossless(3.0, 5.0, f32::EPSILON * 0.001), "a small sum so far is cut off");
        assert!(!lossless(1.0, 1.0, 2f32.powi(40)), "a small product is cut off");
        assert!(!lossless(2047.0, 2047.0, 0.0), "a sum of eight products has more than 24 digits");
        assert!(!lossless(f32::INFINITY, 1.0, 0.0) && !lossless(1.0, f32::NAN, 0.0));
        assert!(!lossless(2f32.powi(100), 2f32.powi(27), 0.0), "an overflow");
    }
}
