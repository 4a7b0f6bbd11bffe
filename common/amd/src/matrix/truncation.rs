//! Sums that are cut off ([`super::Sum::Truncated`] and [`super::Sum::TruncatedHalves`]), in FP64, in which all products and sums here
//! are exact.

use super::sums::Rule;

/// So many products at a time, those of even and of odd k apart where there are two `PARTS`.
pub(super) struct Truncated<'a, const PARTS: usize> {
    pub group: usize,
    /// [`exponent_of`] each factor.
    pub a_exponents: &'a [i16],
    pub b_exponents: &'a [i16],
    /// The factors' smallest normal numbers.
    pub smallest: [f64; 2],
    /// Whether something is no number, or may become infinite.
    pub special: bool,
}

impl<const PARTS: usize> Rule for Truncated<'_, PARTS> {
    type Factor = f64;
    type Value = f32;

    #[inline(always)]
    fn add<const SIZE: usize>(
        &self,
        block: usize,
        index: usize,
        a: &[[f64; SIZE]],
        b: &[[f64; SIZE]],
        row: &mut [f32; SIZE],
    ) {
        let all = block * a.len()..(block + 1) * a.len();
        let a_exponents = &self.a_exponents.as_chunks::<SIZE>().0[all.clone()];
        let b_exponents = &self.b_exponents.as_chunks::<SIZE>().0[all];
        for start in (0..a.len()).step_by(self.group) {
            let group = start..start + self.group;
            let (a, b) = (&a[group.clone()], &b[group.clone()]);
            let before = *row;
            if self.special {
                row.iter_mut().for_each(|value| *value = if value.is_finite() { *value } else { 0.0 });
            }
            let exponents = [&a_exponents[group.clone()], &b_exponents[group]];
            let mut top = [[NOTHING; SIZE]; PARTS];
            for (part, top) in top.iter_mut().enumerate() {
                *top = highest::<PARTS, SIZE>(index, part, exponents);
            }
            for first in (0..SIZE).step_by(WIDE) {
                add_group::<PARTS, SIZE>(index, first, [a, b], &top, row);
            }
            if self.special {
                replace_specials::<PARTS, SIZE>(index, a, b, &before, self.smallest, row);
            }
        }
    }
}

/// The exponents of the largest products, far below all if there are none but zeros.
#[inline(always)]
fn highest<const PARTS: usize, const SIZE: usize>(
    index: usize,
    part: usize,
    [a, b]: [&[[i16; SIZE]]; 2],
) -> [i16; SIZE] {
    let mut top = [NOTHING; SIZE];
    for k in (part..a.len()).step_by(PARTS) {
        let (a, b) = (a[k][index], &b[k]);
        for column in 0..SIZE {
            let sum = a.wrapping_add(b[column]);
            top[column] = if sum > top[column] { sum } else { top[column] };
        }
    }
    top
}

/// Columns that are summed at a time, so that their sums stay in the registers of vectors.
const WIDE: usize = 16;

/// One group of products of one row, all of them numbers. `top` has the exponents of each part's largest products.
#[inline(always)]
fn add_group<const PARTS: usize, const SIZE: usize>(
    index: usize,
    first: usize,
    [a, b]: [&[[f64; SIZE]]; 2],
    top: &[[i16; SIZE]; PARTS],
    row: &mut [f32; SIZE],
) {
    let wide = SIZE.min(WIDE);
    let mut powers = [[0f64; WIDE]; PARTS];
    let mut sums = [[0f64; WIDE]; PARTS];
    for part in 0..PARTS {
        let (power, sum) = (&mut powers[part], &mut sums[part]);
        let (mut half, mut zero) = ([0f64; WIDE], [0f64; WIDE]);
        for column in 0..wide {
            power[column] = power_of(top[part][first + column]);
            // A product is cut off at this power / 2^24, the unit here. A product less almost half a unit, added to what is so large that it
            // has no digit below the unit, is rounded to where the product is cut off: no product has more than 22 digits, so that
            // none is nearer to the next unit than 2^-22, and 2^-24 are what lacks of the half.
            half[column] = power[column] * (TWO_24.recip() * (0.5 - TWO_24.recip()));
            zero[column] = power[column] * (1.5 * TWO_52 / TWO_24);
            sum[column] = zero[column];
        }
        for k in (part..a.len()).step_by(PARTS) {
            let a = a[k][index];
            for column in 0..wide {
                let b = b[k][first + column];
                let positive = !(a.to_bits() ^ b.to_bits()) & SIGN;
                sum[column] += a.mul_add(b, f64::from_bits(half[column].to_bits() | positive));
            }
        }
        for column in 0..wide {
            sum[column] -= zero[column];
        }
    }
    for column in 0..wide {
        let mut all = powers[0][column];
        let mut dot = sums[0][column];
        if PARTS == 2 {
            all = maximum(all, powers[1][column]);
            dot = floor_at(dot, all / TWO_24) + floor_at(sums[1][column], all / TWO_24);
        }
        let before = f64::from(row[first + column]);
        let before_power = maximum(exponent(before), NORMAL);
        let larger = maximum(all, before_power);
        let takes_part = PARTS == 1 || before_power >= larger / (2.0 * TWO_24);
        let kept = if takes_part { before } else { 0.0 };
        let total = floor_at(dot, larger / TWO_32) + floor_at(kept, larger / TWO_24);
        let total_power = maximum(exponent(total), NORMAL);
        row[first + column] = floor_at(total, total_power / TWO_31) as f32;
    }
}

/// Puts infinities and NaNs where they come out.
fn replace_specials<const PARTS: usize, const SIZE: usize>(
    index: usize,
    a: &[[f64; SIZE]],
    b: &[[f64; SIZE]],
    before: &[f32; SIZE],
    smallest: [f64; 2],
    row: &mut [f32; SIZE],
) {
    for column in 0..SIZE {
        let products = a.iter().zip(b).map(|(a, b)| [a[index], b[column]]);
        if let Some(value) = special_sum::<PARTS>(products, before[column], smallest) {
            row[column] = value;
        }
    }
}

/// FP32's smallest normal number.
const NORMAL: f64 = f32::MIN_POSITIVE as f64;
/// Below the exponent of the product of any two numbers, and what zero has: two of it are no overflow.
const NOTHING: i16 = -300;
const ZERO: i16 = -8192;
const TWO_24: f64 = 16_777_216.0;
const TWO_31: f64 = 2_147_483_648.0;
const TWO_32: f64 = 4_294_967_296.0;
const TWO_52: f64 = 4_503_599_627_370_496.0;
const SIGN: u64 = 1 << 63;

/// The exponent of a factor of FP32, denormals having `least`.
#[inline(always)]
pub(super) fn exponent_of(value: f32, least: i16) -> i16 {
    let field = (value.to_bits() >> 23 & 0xff) as i16 - 127;
    if value == 0.0 { ZERO } else { field.max(least) }
}

/// Two to an exponent.
#[inline(always)]
fn power_of(exponent: i16) -> f64 {
    f64::from_bits(((1023 + i64::from(exponent)) as u64) << 52)
}

/// The sum of which something is infinite or NaN, `None` if all is finite.
fn special_sum<const PARTS: usize>(
    products: impl Iterator<Item = [f64; 2]>,
    before: f32,
    smallest: [f64; 2],
) -> Option<f32> {
    let mut sum = 0f64;
    let mut top = 0f64;
    for [a, b] in products {
        let product = a * b;
        // What is no number has the exponent -1 here.
        let of = |value: f64, smallest| if value.is_finite() { power(value, smallest) } else { 0.5 };
        top = maximum(top, of(a, smallest[0]) * of(b, smallest[1]));
        // From 2^128 on a product is infinite.
        let infinite = product.abs() >= 2f64.powi(128);
        sum += if infinite {
            f64::INFINITY.copysign(product)
        } else if product.is_finite() {
            0.0
        } else {
            product
        };
    }
    // With the exponent -1 it is also too small to take part beside a large sum of FP8.
    let dropped = PARTS > 1 && top > TWO_24;
    if !before.is_finite() && !dropped {
        sum += f64::from(before);
    }
    if sum.is_finite() { None } else { Some(sum as f32) }
}

/// Two to the exponent of a value, denormals having that of the smallest normal number; 0 for zero.
#[inline(always)]
pub(super) fn power(value: f64, smallest: f64) -> f64 {
    if value == 0.0 { 0.0 } else { maximum(exponent(value), smallest) }
}

/// Two to the exponent of a value, 0 for what FP64 has as a denormal or zero.
#[inline(always)]
fn exponent(value: f64) -> f64 {
    f64::from_bits(value.to_bits() & 0x7ff0_0000_0000_0000)
}

/// The larger of two numbers, in one instruction.
#[inline(always)]
fn maximum(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// The inverse of a power of two. (Of what is none, nothing in particular: such sums are replaced.)
#[inline(always)]
fn inverse(power: f64) -> f64 {
    f64::from_bits((2046u64 << 52).wrapping_sub(power.to_bits()))
}

/// Down to a multiple of a power of two.
#[inline(always)]
fn floor_at(value: f64, unit: f64) -> f64 {
    (value * inverse(unit)).floor() * unit
}
