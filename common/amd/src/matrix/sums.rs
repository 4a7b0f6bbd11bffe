//! The products themselves, over matrices in memory: A as rows of k (`a[(block * depth + k) * size + row]`), B alike with its
//! columns, the result in rows. Inner loops run over the columns, which are adjacent, so that they become vector instructions.

/// Size of each block: rows and columns, and depth.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub size: usize,
    pub depth: usize,
    pub blocks: usize,
}

/// How the products of a row are summed.
pub(super) trait Rule {
    type Factor: Copy;
    type Value: Copy;

    /// Adds to a row of the result. `a` and `b` are rows of k of its block, `index` is the row's own.
    fn add<const SIZE: usize>(
        &self,
        block: usize,
        index: usize,
        a: &[[Self::Factor; SIZE]],
        b: &[[Self::Factor; SIZE]],
        row: &mut [Self::Value; SIZE],
    );
}

/// A product to be computed with the widest vectors that the host has.
pub(super) struct Product<'a, R: Rule> {
    pub rule: R,
    pub shape: Shape,
    /// The rows of each block that are computed.
    pub rows: std::ops::Range<usize>,
    pub a: &'a [R::Factor],
    pub b: &'a [R::Factor],
    pub result: &'a mut [R::Value],
}

impl<R: Rule> Product<'_, R> {
    pub fn compute(self) {
        pulp::Arch::new().dispatch(self);
    }

    #[inline(always)]
    fn sized<const SIZE: usize>(self) {
        let depth = self.shape.depth;
        let (a, b) = (self.a.as_chunks::<SIZE>().0, self.b.as_chunks::<SIZE>().0);
        let result = self.result.as_chunks_mut::<SIZE>().0;
        for block in 0..self.shape.blocks {
            let factors = block * depth..(block + 1) * depth;
            for index in self.rows.clone() {
                let row = &mut result[block * SIZE + index];
                self.rule.add(block, index, &a[factors.clone()], &b[factors.clone()], row);
            }
        }
    }
}

impl<R: Rule> pulp::WithSimd for Product<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _: S) {
        match self.shape.size {
            4 => self.sized::<4>(),
            16 => self.sized::<16>(),
            _ => self.sized::<32>(),
        }
    }
}

/// [`super::Sum::Fused`] of FP32, and [`super::Sum::Wide`]: the products of FP16 and BF16 are exact in FP32 (those of BF16 but for
/// underflow), so that fusing is adding.
pub(super) struct Fused;

impl Rule for Fused {
    type Factor = f32;
    type Value = f32;

    #[inline(always)]
    fn add<const SIZE: usize>(
        &self,
        _: usize,
        index: usize,
        a: &[[f32; SIZE]],
        b: &[[f32; SIZE]],
        row: &mut [f32; SIZE],
    ) {
        let mut sum = *row;
        for (a, b) in a.iter().zip(b) {
            for column in 0..SIZE {
                sum[column] = a[index].mul_add(b[column], sum[column]);
            }
        }
        *row = sum;
    }
}

/// [`super::Sum::Fused`] of FP64.
pub(super) struct FusedDoubles;

impl Rule for FusedDoubles {
    type Factor = f64;
    type Value = f64;

    #[inline(always)]
    fn add<const SIZE: usize>(
        &self,
        _: usize,
        index: usize,
        a: &[[f64; SIZE]],
        b: &[[f64; SIZE]],
        row: &mut [f64; SIZE],
    ) {
        for (a, b) in a.iter().zip(b) {
            for column in 0..SIZE {
                row[column] = a[index].mul_add(b[column], row[column]);
            }
        }
    }
}

/// [`super::Sum::Exact`].
pub(super) struct Exact {
    pub saturate: bool,
}

impl Rule for Exact {
    type Factor = i32;
    type Value = i32;

    #[inline(always)]
    fn add<const SIZE: usize>(
        &self,
        _: usize,
        index: usize,
        a: &[[i32; SIZE]],
        b: &[[i32; SIZE]],
        row: &mut [i32; SIZE],
    ) {
        // At most 64 products of 8 bits each.
        let mut sum = [0i32; SIZE];
        for (a, b) in a.iter().zip(b) {
            for column in 0..SIZE {
                sum[column] += a[index] * b[column];
            }
        }
        for column in 0..SIZE {
            row[column] = if self.saturate {
                row[column].saturating_add(sum[column])
            } else {
                row[column].wrapping_add(sum[column])
            };
        }
    }
}

/// [`super::Sum::Pairs`] of so many products, over inputs that are flushed by [`drop_denormals`].
pub(super) struct Pairs {
    pub group: usize,
}

impl Rule for Pairs {
    type Factor = f32;
    type Value = f32;

    #[inline(always)]
    fn add<const SIZE: usize>(
        &self,
        _: usize,
        index: usize,
        a: &[[f32; SIZE]],
        b: &[[f32; SIZE]],
        row: &mut [f32; SIZE],
    ) {
        for (a, b) in a.chunks_exact(self.group).zip(b.chunks_exact(self.group)) {
            let mut sum = [0f32; SIZE];
            for column in 0..SIZE {
                sum[column] = flushed(flushed(a[0][index] * b[0][column]) + flushed(a[1][index] * b[1][column]));
            }
            if self.group == 4 {
                for column in 0..SIZE {
                    let second = flushed(flushed(a[2][index] * b[2][column]) + flushed(a[3][index] * b[3][column]));
                    sum[column] = flushed(sum[column] + second);
                }
            }
            for column in 0..SIZE {
                row[column] = flushed(row[column] + sum[column]);
            }
        }
    }
}

/// What is below the smallest normal number becomes +0.
pub(super) fn drop_denormals(values: &mut [f32], smallest: f32) {
    values.iter_mut().for_each(|value| *value = if value.abs() < smallest { 0.0 } else { *value });
}

#[inline(always)]
fn flushed(value: f32) -> f32 {
    let kept = if value.abs() < f32::MIN_POSITIVE { 1 << 31 } else { u32::MAX };
    f32::from_bits(value.to_bits() & kept)
}

/// [`super::Sum::Truncated`] and [`super::Sum::TruncatedHalves`] where sums of so many products are exact and nothing is cut off: then only
/// the sum with the result so far is rounded.
pub(super) struct Lossless {
    pub group: usize,
}

impl Rule for Lossless {
    type Factor = f32;
    type Value = f32;

    #[inline(always)]
    fn add<const SIZE: usize>(
        &self,
        _: usize,
        index: usize,
        a: &[[f32; SIZE]],
        b: &[[f32; SIZE]],
        row: &mut [f32; SIZE],
    ) {
        let mut all = *row;
        for (a, b) in a.chunks_exact(self.group).zip(b.chunks_exact(self.group)) {
            let mut sum = [0f32; SIZE];
            for (a, b) in a.iter().zip(b) {
                for column in 0..SIZE {
                    sum[column] = a[index].mul_add(b[column], sum[column]);
                }
            }
            for column in 0..SIZE {
                all[column] += sum[column];
            }
        }
        *row = all;
    }
}

/// [`super::Sum::Truncated`] (`PARTS` 1) and [`super::Sum::TruncatedHalves`] (2) of so many products. Factors are FP64, in which all
/// products and sums here are exact.
pub(super) struct Truncated<'a, const PARTS: usize> {
    pub group: usize,
    /// Two to the exponent of each factor: `power` of it.
    pub a_powers: &'a [f64],
    pub b_powers: &'a [f64],
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
        let powers = block * a.len()..(block + 1) * a.len();
        let a_powers = &self.a_powers.as_chunks::<SIZE>().0[powers.clone()];
        let b_powers = &self.b_powers.as_chunks::<SIZE>().0[powers];
        for start in (0..a.len()).step_by(self.group) {
            let group = start..start + self.group;
            let (a, b) = (&a[group.clone()], &b[group.clone()]);
            let before = *row;
            if self.special {
                row.iter_mut().for_each(|value| *value = if value.is_finite() { *value } else { 0.0 });
            }
            add_group::<PARTS, SIZE>(index, a, b, &a_powers[group.clone()], &b_powers[group], row);
            if self.special {
                replace_specials::<PARTS, SIZE>(index, a, b, &before, self.smallest, row);
            }
        }
    }
}

/// One group of products of one row, all of them numbers.
#[inline(always)]
fn add_group<const PARTS: usize, const SIZE: usize>(
    index: usize,
    a: &[[f64; SIZE]],
    b: &[[f64; SIZE]],
    a_powers: &[[f64; SIZE]],
    b_powers: &[[f64; SIZE]],
    row: &mut [f32; SIZE],
) {
    // Two to the exponent of each part's largest product; far below all if there are none but zeros.
    let mut top = [[NOTHING; SIZE]; PARTS];
    let mut sum = [[0f64; SIZE]; PARTS];
    for part in 0..PARTS {
        for k in (part..a.len()).step_by(PARTS) {
            for column in 0..SIZE {
                top[part][column] = maximum(top[part][column], a_powers[k][index] * b_powers[k][column]);
            }
        }
        let mut scale = [0f64; SIZE];
        for column in 0..SIZE {
            scale[column] = inverse(top[part][column]) * TWO_24;
        }
        for k in (part..a.len()).step_by(PARTS) {
            for column in 0..SIZE {
                sum[part][column] += (a[k][index] * b[k][column] * scale[column]).trunc();
            }
        }
        for column in 0..SIZE {
            sum[part][column] *= top[part][column] / TWO_24;
        }
    }
    for column in 0..SIZE {
        let mut all = top[0][column];
        let mut dot = sum[0][column];
        if PARTS == 2 {
            all = maximum(all, top[1][column]);
            dot = floor_at(dot, all / TWO_24) + floor_at(sum[1][column], all / TWO_24);
        }
        let before = f64::from(row[column]);
        let before_power = maximum(exponent(before), NORMAL);
        let larger = maximum(all, before_power);
        let takes_part = PARTS == 1 || before_power >= larger / (2.0 * TWO_24);
        let kept = if takes_part { before } else { 0.0 };
        let total = floor_at(dot, larger / TWO_32) + floor_at(kept, larger / TWO_24);
        let total_power = maximum(exponent(total), NORMAL);
        row[column] = floor_at(total, total_power / TWO_31) as f32;
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
/// Below the product of any two numbers.
const NOTHING: f64 = f64::from_bits(0x2d3 << 52);
const TWO_24: f64 = 16_777_216.0;
const TWO_31: f64 = 2_147_483_648.0;
const TWO_32: f64 = 4_294_967_296.0;

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
