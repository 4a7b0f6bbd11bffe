//! The layouts that MIOpen reads off a problem's tensors.
//!
//! MIOpen does not remember which layout a user asked for: it derives the names in its keys from lengths and strides, so
//! sizes of one make layouts indistinguishable. A key is only found again if the same derivation is done here.

use bluefin_common::problem::{ConvProblem, Layout};

use super::label::LayoutLabel;

/// Dimensions in storage order (n, c, d, h, w), as indices into lengths and strides.
const LETTERS: &[u8; 5] = b"NCDHW";
const STORAGE_2D: [usize; 4] = [0, 1, 3, 4];
const STORAGE_3D: [usize; 5] = [0, 1, 2, 3, 4];

/// The layouts that are tried for all three tensors at once, in this order. NDHWC is not one of them.
const COMMON: [Layout; 4] = [Layout::Nchw, Layout::Nhwc, Layout::Chwn, Layout::Ncdhw];

struct Tensor {
    lengths: [u128; 5],
    strides: [u128; 5],
}

/// The labels of x, w and y that MIOpen would print for a problem.
pub(super) fn labels(problem: &ConvProblem) -> [LayoutLabel; 3] {
    let layouts = [problem.x_layout, problem.w_layout, problem.y_layout];
    // Vector layouts are always kept by name, as are the defaults, which come first among the common ones.
    if problem.x_layout.vector_length() > 1 || layouts == [Layout::default_for(problem.spatial); 3] {
        return layouts.map(LayoutLabel::from);
    }
    let [[d, h, w], [fz, fy, fx], [od, oh, ow]] = [problem.input, problem.filter, problem.output()];
    let x = Tensor::new([problem.n, problem.c, d, h, w], problem.x_layout);
    let weights = Tensor::new([problem.k, problem.c / problem.group, fz, fy, fx], problem.w_layout);
    let y = Tensor::new([problem.n, problem.k, od, oh, ow], problem.y_layout);
    let tensors = [x, weights, y];
    let common = COMMON
        .into_iter()
        .filter(|layout| layout.spatial() == problem.spatial)
        .find(|layout| tensors.iter().all(|tensor| tensor.can_be(*layout)));
    match common {
        Some(layout) => [layout.into(); 3],
        None => tensors.map(|tensor| tensor.label(problem.spatial)),
    }
}

#[expect(clippy::indexing_slicing, reason = "a dimension is 0 to 4")]
impl Tensor {
    fn new(lengths: [u32; 5], layout: Layout) -> Self {
        let lengths = lengths.map(u128::from);
        let mut strides = [1; 5];
        let mut stride = 1;
        for dimension in dimensions(layout).rev() {
            strides[dimension] = stride;
            stride *= lengths[dimension];
        }
        Self { lengths, strides }
    }

    /// Whether the strides do not grow from the outermost to the innermost dimension of `layout`.
    fn can_be(&self, layout: Layout) -> bool {
        dimensions(layout).map(|dimension| self.strides[dimension]).is_sorted_by(|outer, inner| outer >= inner)
    }

    /// The dimensions by stride, then length, largest first; ties keep storage order.
    fn label(&self, spatial: u32) -> LayoutLabel {
        let (mut three, mut two) = (STORAGE_3D, STORAGE_2D);
        let order: &mut [usize] = if spatial == 3 { &mut three } else { &mut two };
        order.sort_by_key(|dimension| std::cmp::Reverse((self.strides[*dimension], self.lengths[*dimension])));
        LayoutLabel::from_letters(order.iter().map(|dimension| LETTERS[*dimension]), false)
    }
}

/// The dimensions of a layout, outermost first.
fn dimensions(layout: Layout) -> impl DoubleEndedIterator<Item = usize> {
    layout.order().bytes().filter_map(|letter| LETTERS.iter().position(|known| *known == letter))
}

#[cfg(test)]
mod tests {
    use bluefin_common::problem::{ConvShape, DataType, Direction};

    use super::*;

    fn texts(shape: ConvShape) -> [String; 3] {
        labels(&ConvProblem::new(shape).unwrap()).map(|label| label.to_string())
    }

    #[test]
    fn pointwise_weights_take_the_layout_of_the_others() {
        let nhwc = ConvShape {
            n: 2,
            c: 8,
            k: 16,
            input: [1, 14, 14],
            x_layout: Layout::Nhwc,
            y_layout: Layout::Nhwc,
            ..ConvShape::plain(Direction::Forward, DataType::Fp16)
        };
        assert_eq!(texts(nhwc.clone()), ["NHWC"; 3]);
        let square = ConvShape { filter: [1, 3, 3], ..nhwc };
        assert_eq!(texts(square), ["NHWC", "NCHW", "NHWC"]);
    }

    #[test]
    fn one_channel_and_width_one_make_an_odd_label() {
        let shape = ConvShape {
            n: 2,
            k: 4,
            input: [1, 5, 1],
            filter: [1, 3, 1],
            x_layout: Layout::Nhwc,
            y_layout: Layout::Nhwc,
            ..ConvShape::plain(Direction::Forward, DataType::Fp32)
        };
        // y is n 2, k 4, h 3, w 1 in NHWC, so no common layout exists: the weights 4,1,3,1 are NCHW.
        assert_eq!(texts(shape), ["NHCW", "NCHW", "NHWC"]);
    }
}
