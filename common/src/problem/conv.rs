//! Convolutions.

mod check;
mod command;
mod transposed;
mod view;

use std::ops::Deref;

use serde::{Deserialize, Serialize};

use super::{DataType, Direction, Layout, Operator, ProblemError};
use check::{check_layouts, check_sizes, output_size};
pub use transposed::Transposed;

pub(super) static OPERATOR: Operator = Operator {
    word: "conv",
    problems: "convolutions",
    in_miopen: true,
    variables: &[
        "spatial",
        "direction",
        "n",
        "c",
        "d",
        "h",
        "w",
        "k",
        "g",
        "fz",
        "fy",
        "fx",
        "od",
        "oh",
        "ow",
        "pd",
        "ph",
        "pw",
        "sd",
        "sh",
        "sw",
        "dd",
        "dh",
        "dw",
        "in_layout",
        "wei_layout",
        "out_layout",
        "in_type",
        "wei_type",
        "out_type",
        "transposed",
    ],
    is_base: |base| command::data_type(base).is_some(),
    flags: command::FLAGS,
    parse: command::parse,
};

/// MIOpen keeps lengths in C ints.
const MAX_SIZE: u32 = i32::MAX as u32;
/// Elements of one tensor: what any type's bytes still count in 64 bits.
const MAX_ELEMENTS: u128 = 1 << 60;

/// What a convolution is made of, in the forward sense and unchecked. Arrays are depth, height, width; in two
/// dimensions [`ConvProblem::new`] sets the depths to what keys and expressions expect of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ConvShape {
    /// Which tensor is computed; the sizes stay those of the forward sense.
    pub direction: Direction,
    /// 2 or 3.
    pub spatial: u32,
    /// Batch.
    pub n: u32,
    /// Channels of x, all groups together.
    pub c: u32,
    /// Channels of y, all groups together.
    pub k: u32,
    /// Spatial sizes of x.
    pub input: [u32; 3],
    /// Spatial sizes of w, without dilation.
    pub filter: [u32; 3],
    /// Zeros on either side of x, 0 or more.
    pub pad: [u32; 3],
    /// Elements of x from one place of the filter to the next, at least 1.
    pub stride: [u32; 3],
    /// Elements of x from one tap of the filter to the next, at least 1.
    pub dilation: [u32; 3],
    /// Groups of channels that do not mix; divides c and k.
    pub group: u32,
    /// Of n,c,\[d,\]h,w; its vector length is that of all three.
    pub x_layout: Layout,
    /// Of k,c/g,\[fz,\]fy,fx.
    pub w_layout: Layout,
    /// Of n,k,\[od,\]oh,ow.
    pub y_layout: Layout,
    /// Of the elements of x and dx.
    pub x_type: DataType,
    /// Of the elements of w and dw.
    pub w_type: DataType,
    /// Of the elements of y and dy; usually [`DataType::product`] of that of x.
    pub y_type: DataType,
    /// Types that the values are cast to before the arithmetic, where they are.
    pub x_cast: Option<DataType>,
    /// As `x_cast`, for w and dw.
    pub w_cast: Option<DataType>,
    /// As `x_cast`, for y and dy.
    pub y_cast: Option<DataType>,
    /// Asked for as a transposed convolution. Sizes and direction are those of the plain one that computes it.
    pub transposed: Transposed,
}

impl ConvShape {
    /// A 2D convolution of default layout with unit stride and dilation, no pad and one group: a base to fill in.
    #[must_use]
    pub fn plain(direction: Direction, data_type: DataType) -> Self {
        Self {
            direction,
            spatial: 2,
            n: 1,
            c: 1,
            k: 1,
            input: [1; 3],
            filter: [1; 3],
            pad: [0; 3],
            stride: [1; 3],
            dilation: [1; 3],
            group: 1,
            x_layout: Layout::Nchw,
            w_layout: Layout::Nchw,
            y_layout: Layout::Nchw,
            x_type: data_type,
            w_type: data_type,
            y_type: data_type.product(),
            x_cast: None,
            w_cast: None,
            y_cast: None,
            transposed: Transposed::No,
        }
    }
}

/// A convolution that can exist. Its [`ConvShape`] is read through `Deref`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "ConvShape", into = "ConvShape")]
pub struct ConvProblem {
    shape: ConvShape,
    output: [u32; 3],
}

impl ConvProblem {
    /// Checks a shape and derives the output sizes.
    ///
    /// An output size is `(in + 2 pad - (dilation (filter - 1) + 1)) / stride + 1`, and 1 where that is less: MIOpen
    /// does the same, and the databases it ships hold such problems.
    ///
    /// # Errors
    /// The first field that is out of range or does not fit the others.
    pub fn new(mut shape: ConvShape) -> Result<Self, ProblemError> {
        match shape.spatial {
            2 => {
                (shape.input[0], shape.filter[0], shape.pad[0]) = (1, 1, 0);
                (shape.stride[0], shape.dilation[0]) = (1, 1);
            }
            3 => {}
            other => return Err(ProblemError::new("spatial dimensions", other, "2 or 3")),
        }
        check_sizes(&shape)?;
        check_layouts(&shape)?;
        let mut output = [1; 3];
        for (axis, size) in output.iter_mut().enumerate() {
            *size = output_size(&shape, axis)?;
        }
        let output = shape.asked_output(output)?;
        let problem = Self { shape, output };
        problem.check_elements()?;
        problem.check_transposed()?;
        Ok(problem)
    }

    /// Spatial sizes of y.
    #[must_use]
    pub fn output(&self) -> [u32; 3] {
        self.output
    }

    /// The same problem in another direction. The direction of a transposed convolution is meant as its user sees it.
    #[must_use]
    pub fn with_direction(mut self, direction: Direction) -> Self {
        self.shape.direction = if self.transposed.is_so() { direction.of_transposed() } else { direction };
        self
    }

    /// The shape, to derive another problem from it.
    #[must_use]
    pub fn into_shape(self) -> ConvShape {
        self.shape
    }

    fn check_elements(&self) -> Result<(), ProblemError> {
        let tensors = [
            ("elements of x", [self.n, self.c], self.input),
            ("elements of w", [self.k, self.c / self.group], self.filter),
            ("elements of y", [self.n, self.k], self.output),
        ];
        for (field, [a, b], sizes) in tensors {
            // A product of two 31-bit sizes and three more can pass 128 bits, so it saturates.
            let elements =
                sizes.into_iter().fold(u128::from(a) * u128::from(b), |all, size| all.saturating_mul(size.into()));
            if elements > MAX_ELEMENTS {
                return Err(ProblemError::new(field, elements, format!("at most {MAX_ELEMENTS}")));
            }
        }
        Ok(())
    }
}

impl Deref for ConvProblem {
    type Target = ConvShape;

    fn deref(&self) -> &ConvShape {
        &self.shape
    }
}

impl TryFrom<ConvShape> for ConvProblem {
    type Error = ProblemError;

    fn try_from(shape: ConvShape) -> Result<Self, Self::Error> {
        Self::new(shape)
    }
}

impl From<ConvProblem> for ConvShape {
    fn from(problem: ConvProblem) -> Self {
        problem.shape
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Operation as _;

    fn resnet() -> ConvShape {
        ConvShape {
            n: 128,
            c: 64,
            k: 256,
            input: [9, 57, 56],
            filter: [9, 3, 1],
            pad: [9, 1, 0],
            stride: [9, 2, 1],
            ..ConvShape::plain(Direction::Forward, DataType::Fp32)
        }
    }

    #[test]
    fn output_follows_from_the_sizes() {
        let problem = ConvProblem::new(resnet()).unwrap();
        assert_eq!(problem.output(), [1, 29, 56]);
        assert_eq!((problem.input[0], problem.filter[0], problem.pad[0]), (1, 1, 0));
        assert_eq!(problem.flops(), 2.0 * 128.0 * 256.0 * 29.0 * 56.0 * 64.0 * 3.0);
    }

    #[test]
    fn a_filter_that_does_not_fit_gives_one_output() {
        let shape = ConvShape { input: [1, 2, 2], filter: [1, 3, 3], pad: [0; 3], stride: [1; 3], ..resnet() };
        assert_eq!(ConvProblem::new(shape).unwrap().output(), [1, 1, 1]);
    }

    #[test]
    fn each_wrong_field_is_named() {
        let wrong = [
            (ConvShape { spatial: 4, ..resnet() }, "spatial dimensions: found 4, expected 2 or 3"),
            (ConvShape { n: 0, ..resnet() }, "batch size: found 0, expected 1 to 2147483647"),
            (ConvShape { stride: [1, 0, 1], ..resnet() }, "stride: found 0, expected 1 to 2147483647"),
            (ConvShape { group: 3, ..resnet() }, "input channels: found 64, expected a multiple of the group count 3"),
            (
                ConvShape { y_layout: Layout::Ncdhw, ..resnet() },
                "layout of y: found NCDHW, expected a layout of 4 dimensions",
            ),
            (
                ConvShape { x_layout: Layout::NchwC4, ..resnet() },
                "layout of w: found NCHW, expected vectors of 4, as x has them",
            ),
        ];
        for (shape, message) in wrong {
            assert_eq!(ConvProblem::new(shape).unwrap_err().to_string(), message);
        }
        let huge = ConvShape { spatial: 3, n: 1 << 30, c: 1 << 30, input: [1 << 30; 3], pad: [0; 3], ..resnet() };
        let huge = ConvShape { x_layout: Layout::Ncdhw, w_layout: Layout::Ncdhw, y_layout: Layout::Ncdhw, ..huge };
        assert_eq!(ConvProblem::new(huge).unwrap_err().field, "elements of x");
    }

    #[test]
    fn what_is_not_valid_does_not_decode() {
        let config = bincode::config::standard();
        let problem = ConvProblem::new(resnet()).unwrap();
        let bytes = bincode::serde::encode_to_vec(&problem, config).unwrap();
        let (decoded, _) = bincode::serde::decode_from_slice::<ConvProblem, _>(&bytes, config).unwrap();
        assert_eq!(decoded, problem);
        let bytes = bincode::serde::encode_to_vec(ConvShape { group: 0, ..resnet() }, config).unwrap();
        assert!(bincode::serde::decode_from_slice::<ConvProblem, _>(&bytes, config).is_err());
    }
}
