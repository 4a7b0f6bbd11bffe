//! The products themselves, over matrices in memory: A as rows of k (`a[(block * depth + k) * size + row]`), B alike with its
//! columns, the result in rows. Inner loops run over the columns, which are adjacent, so that they become vector instructions.

use pulp::Simd;

use super::rows::Rows;
use super::shape::Shape;

/// How the products of a row are summed.
pub(super) trait Rule {
    type Factor: Copy;
    type Value: Copy + Default;

    /// Adds to a row of the result. `a` and `b` are rows of k of its block, `index` is the row's own.
    fn add<const SIZE: usize>(
        &self,
        block: usize,
        index: usize,
        a: &[[Self::Factor; SIZE]],
        b: &[[Self::Factor; SIZE]],
        row: &mut [Self::Value; SIZE],
    );

    /// The same of rows from `first` on. Sums that wait for themselves are worth being computed beside each other.
    #[inline(always)]
    fn add_rows<S: Simd, const SIZE: usize>(
        &self,
        _: S,
        block: usize,
        first: usize,
        a: &[[Self::Factor; SIZE]],
        b: &[[Self::Factor; SIZE]],
        rows: &mut [[Self::Value; SIZE]; ROWS],
    ) {
        for (row, index) in rows.iter_mut().zip(first..) {
            self.add(block, index, a, b, row);
        }
    }
}

/// Rows that are computed together.
pub(super) const ROWS: usize = 4;

/// A product to be computed with the widest vectors that the host has.
pub(super) struct Product<'a, R: Rule, W> {
    pub rule: R,
    pub shape: Shape,
    /// The rows of each block that are computed.
    pub rows: std::ops::Range<usize>,
    pub a: &'a [R::Factor],
    pub b: &'a [R::Factor],
    pub result: W,
}

impl<R: Rule, W: Rows<Value = R::Value>> Product<'_, R, W> {
    pub fn compute(self) {
        pulp::Arch::new().dispatch(self);
    }

    #[inline(always)]
    fn sized<S: Simd, const SIZE: usize>(mut self, simd: S) {
        let depth = self.shape.depth;
        let (a, b) = (self.a.as_chunks::<SIZE>().0, self.b.as_chunks::<SIZE>().0);
        for block in 0..self.shape.blocks {
            let factors = block * depth..(block + 1) * depth;
            let (a, b) = (&a[factors.clone()], &b[factors]);
            let alone = self.rows.len() % ROWS;
            for first in self.rows.clone().step_by(ROWS).take(self.rows.len() / ROWS) {
                let mut rows = [[R::Value::default(); SIZE]; ROWS];
                for (row, index) in rows.iter_mut().zip(first..) {
                    *row = self.result.load(block, index);
                }
                self.rule.add_rows(simd, block, first, a, b, &mut rows);
                for (row, index) in rows.iter().zip(first..) {
                    self.result.store(block, index, row);
                }
            }
            for index in self.rows.end - alone..self.rows.end {
                let mut row = self.result.load::<SIZE>(block, index);
                self.rule.add(block, index, a, b, &mut row);
                self.result.store(block, index, &row);
            }
        }
    }
}

impl<R: Rule, W: Rows<Value = R::Value>> pulp::WithSimd for Product<'_, R, W> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.shape.size {
            4 => self.sized::<S, 4>(simd),
            16 => self.sized::<S, 16>(simd),
            _ => self.sized::<S, 32>(simd),
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

    #[inline(always)]
    fn add_rows<S: Simd, const SIZE: usize>(
        &self,
        simd: S,
        _: usize,
        first: usize,
        a: &[[f32; SIZE]],
        b: &[[f32; SIZE]],
        rows: &mut [[f32; SIZE]; ROWS],
    ) {
        fuse_rows(simd, first, a, b, rows);
    }
}

/// Adds products to rows from `first` on.
#[inline(always)]
fn fuse_rows<S: Simd, const SIZE: usize>(
    simd: S,
    first: usize,
    a: &[[f32; SIZE]],
    b: &[[f32; SIZE]],
    rows: &mut [[f32; SIZE]; ROWS],
) {
    let [one, two, three, four] = rows;
    let (one, rest) = S::as_mut_simd_f32s(one);
    if !rest.is_empty() {
        for (row, index) in rows.iter_mut().zip(first..) {
            Fused.add(0, index, a, b, row);
        }
        return;
    }
    let (two, three, four) = (S::as_mut_simd_f32s(two).0, S::as_mut_simd_f32s(three).0, S::as_mut_simd_f32s(four).0);
    for at in 0..one.len() {
        let mut sums = [one[at], two[at], three[at], four[at]];
        for (a, b) in a.iter().zip(b) {
            let b = S::as_simd_f32s(b).0[at];
            sums[0] = simd.mul_add_f32s(simd.splat_f32s(a[first]), b, sums[0]);
            sums[1] = simd.mul_add_f32s(simd.splat_f32s(a[first + 1]), b, sums[1]);
            sums[2] = simd.mul_add_f32s(simd.splat_f32s(a[first + 2]), b, sums[2]);
            sums[3] = simd.mul_add_f32s(simd.splat_f32s(a[first + 3]), b, sums[3]);
        }
        [one[at], two[at], three[at], four[at]] = sums;
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

    #[inline(always)]
    fn add_rows<S: Simd, const SIZE: usize>(
        &self,
        simd: S,
        _: usize,
        first: usize,
        a: &[[f32; SIZE]],
        b: &[[f32; SIZE]],
        rows: &mut [[f32; SIZE]; ROWS],
    ) {
        for (a, b) in a.chunks_exact(self.group).zip(b.chunks_exact(self.group)) {
            let mut sums = [[0.0; SIZE]; ROWS];
            fuse_rows(simd, first, a, b, &mut sums);
            for (row, sum) in rows.iter_mut().zip(&sums) {
                for column in 0..SIZE {
                    row[column] += sum[column];
                }
            }
        }
    }
}
