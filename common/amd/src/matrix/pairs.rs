//! The products of gfx90a's FP16 and BF16 ([`super::Sum::Pairs`]). Where no product and no sum can be a denormal, sums of two products are a
//! fused multiply-add, as the products are numbers of FP32.

use pulp::Simd;

use super::Element;
use super::rows::Flushed;
use super::shape::Shape;
use super::sums::{Product, ROWS, Rule};

/// Adds the products to the result, `GROUP` of each sum at a time.
pub(super) fn compute<const GROUP: usize>(
    element: Element,
    shape: Shape,
    [a, b]: [&[f32]; 2],
    mut result: Flushed<'_>,
) {
    let (rows, used) = (0..shape.size, shape.size * shape.depth * shape.blocks);
    if element == Element::F16 || is_far_from_the_ends(&a[..used], &b[..used]) {
        Product { rule: Normal::<GROUP>, shape, rows, a, b, result: &mut result }.compute();
    } else {
        Product { rule: Flushing::<GROUP>, shape, rows, a, b, result: &mut result }.compute();
    }
}

/// Whether no product of BF16 overflows, and none, nor any sum, is a denormal. (Of FP16 that is so: products that are not 0 are at least
/// 2^-28 and multiples of 2^-48, so sums are multiples of that; a result so far that nearly is the negative of such a sum is a multiple of
/// 2^-72.)
///
/// Of numbers whose exponents are at least e and f the products and their sums are multiples of 2^(e + f - 14), and what remains when such a
/// sum takes the result so far away is one of 2^(e + f - 14 - 24), which is to be no denormal.
fn is_far_from_the_ends(a: &[f32], b: &[f32]) -> bool {
    const BIAS: u32 = 127;
    let [a, b] = [a, b].map(exponents);
    a[0] + b[0] >= 2 * BIAS - 126 + 14 + 24 && a[1] + b[1] <= 2 * BIAS + 125
}

/// The smallest and the largest exponent, biased, of numbers that are no denormals. Zeros have none: of them alone the smallest is large.
fn exponents(values: &[f32]) -> [u32; 2] {
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || {
            values.iter().fold([255, 0], |[least, most], value| {
                let exponent = value.to_bits() >> 23 & 255;
                [least.min(if exponent == 0 { 255 } else { exponent }), most.max(exponent)]
            })
        },
    )
}

/// Each step is rounded, denormals become zeros of their sign. Inputs have none.
struct Flushing<const GROUP: usize>;

impl<const GROUP: usize> Rule for Flushing<GROUP> {
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
        for (a, b) in a.as_chunks::<GROUP>().0.iter().zip(b.as_chunks::<GROUP>().0) {
            for column in 0..SIZE {
                let pair = |(a, b): (&[[f32; SIZE]; 2], &[[f32; SIZE]; 2])| {
                    flushed(flushed(a[0][index] * b[0][column]) + flushed(a[1][index] * b[1][column]))
                };
                let pairs = a.as_chunks::<2>().0.iter().zip(b.as_chunks::<2>().0).map(pair);
                let sum = pairs.reduce(|first, second| flushed(first + second)).unwrap_or_default();
                row[column] = flushed(row[column] + sum);
            }
        }
    }
}

#[inline(always)]
fn flushed(value: f32) -> f32 {
    let kept = if value.abs() < f32::MIN_POSITIVE { 1 << 31 } else { u32::MAX };
    f32::from_bits(value.to_bits() & kept)
}

/// As `Flushing` where there is nothing to flush.
struct Normal<const GROUP: usize>;

impl<const GROUP: usize> Rule for Normal<GROUP> {
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
        for (a, b) in a.as_chunks::<GROUP>().0.iter().zip(b.as_chunks::<GROUP>().0) {
            for column in 0..SIZE {
                let pair = |(a, b): (&[[f32; SIZE]; 2], &[[f32; SIZE]; 2])| {
                    a[0][index].mul_add(b[0][column], a[1][index] * b[1][column])
                };
                let pairs = a.as_chunks::<2>().0.iter().zip(b.as_chunks::<2>().0).map(pair);
                row[column] += pairs.reduce(|first, second| first + second).unwrap_or_default();
            }
        }
    }

    #[inline(always)]
    fn add_rows<S: Simd, const SIZE: usize>(
        &self,
        simd: S,
        block: usize,
        first: usize,
        a: &[[f32; SIZE]],
        b: &[[f32; SIZE]],
        rows: &mut [[f32; SIZE]; ROWS],
    ) {
        let (a, b) = (a.as_chunks::<GROUP>().0, b.as_chunks::<GROUP>().0);
        let [one, two, three, four] = rows;
        let (one, rest) = S::as_mut_simd_f32s(one);
        if !rest.is_empty() {
            for (row, index) in rows.iter_mut().zip(first..) {
                self.add(block, index, a.as_flattened(), b.as_flattened(), row);
            }
            return;
        }
        let (two, three, four) =
            (S::as_mut_simd_f32s(two).0, S::as_mut_simd_f32s(three).0, S::as_mut_simd_f32s(four).0);
        for at in 0..one.len() {
            let mut sums = [one[at], two[at], three[at], four[at]];
            for (a, b) in a.iter().zip(b) {
                let columns = b.each_ref().map(|b| S::as_simd_f32s(b).0[at]);
                for (sum, index) in sums.iter_mut().zip(first..) {
                    let pair = |(a, b): (&[[f32; SIZE]; 2], &[S::f32s; 2])| {
                        let second = simd.mul_f32s(simd.splat_f32s(a[1][index]), b[1]);
                        simd.mul_add_f32s(simd.splat_f32s(a[0][index]), b[0], second)
                    };
                    let pairs = a.as_chunks::<2>().0.iter().zip(columns.as_chunks::<2>().0).map(pair);
                    if let Some(all) = pairs.reduce(|first, second| simd.add_f32s(first, second)) {
                        *sum = simd.add_f32s(*sum, all);
                    }
                }
            }
            [one[at], two[at], three[at], four[at]] = sums;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Matrix;
    use super::super::layout::Layout;
    use super::super::rows::{Plain, Rows};
    use super::*;
    use crate::number::tests::Random;

    /// BF16 of any mantissa, with an exponent out of eight from `first` on, some zeros among them.
    fn number(random: &mut Random, first: i32) -> f32 {
        let exponent = (127 + first) as u32 + (random.next() % 8) as u32;
        let bits = (random.next() as u32) << 31 | exponent.clamp(1, 254) << 23 | (random.next() as u32 & 127) << 16;
        if random.next().is_multiple_of(7) { 0.0 } else { f32::from_bits(bits) }
    }

    /// Both rules give the same bits wherever nothing can be a denormal or overflow, at the borders of what that is too, and where the result so
    /// far nearly takes a sum away.
    #[test]
    fn what_flushes_nothing_is_what_flushes() {
        let mut random = Random(11);
        let (mut quick, mut refused) = (0, 0);
        for turn in 0..3000_i32 {
            let matrix = Matrix::named("v_mfma_f32_16x16x16bf16_1k").expect("a matrix instruction");
            let shape = Shape { size: 16, depth: 16, blocks: 1 };
            // Both exponents together from 24 below the smallest that is quick to 24 above it, or around the largest.
            let both = if turn % 3 == 0 { 100 + turn % 31 } else { turn % 48 - 112 };
            let a: Vec<f32> = (0..256).map(|_| number(&mut random, both / 2)).collect();
            let b: Vec<f32> = (0..256).map(|_| number(&mut random, both - both / 2)).collect();
            let layout = Layout::of(matrix, 64);
            let [mut found, mut expected] = [[[0; 64]; 4]; 2];
            for (row, a) in a.iter().take(16).enumerate() {
                let values: [f32; 16] = std::array::from_fn(|column| {
                    let near = -a * b[column];
                    f32::from_bits(near.to_bits() ^ (random.next() % 4) as u32)
                });
                for d in [&mut found, &mut expected] {
                    Plain { results: &layout.result, d }.store(0, row, &values);
                }
            }
            if !is_far_from_the_ends(&a, &b) {
                refused += 1;
                continue;
            }
            quick += 1;
            let factors = [a.as_slice(), b.as_slice()];
            compute::<4>(Element::Bf16, shape, factors, Flushed(Plain { results: &layout.result, d: &mut found }));
            let result = Flushed(Plain { results: &layout.result, d: &mut expected });
            Product { rule: Flushing::<4>, shape, rows: 0..16, a: &a, b: &b, result }.compute();
            assert_eq!(found, expected, "turn {turn}");
        }
        assert!(quick > 500 && refused > 500, "{quick} are quick, {refused} are not");
    }

    #[test]
    fn products_that_may_be_denormals_or_overflow_are_refused() {
        let far = |a: i32, b: i32| is_far_from_the_ends(&[2f32.powi(a), 0.0], &[2f32.powi(b), -1.0]);
        assert!(far(-88, 0) && !far(-89, 0), "what remains of 2^-102 is a multiple of 2^-126");
        assert!(far(62, 63) && !far(63, 63));
        assert!(!is_far_from_the_ends(&[f32::INFINITY], &[1.0]));
        assert!(is_far_from_the_ends(&[0.0, -0.0], &[1.0]), "zeros alone");
    }
}
