//! Convolutions.

mod check;
mod transposed;
mod view;

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{DataType, Layout, ProblemError};
use check::{check_layouts, check_sizes, output_size};
pub use transposed::Transposed;

/// MIOpen keeps lengths in C ints.
const MAX_SIZE: u32 = i32::MAX as u32;
/// Elements of one tensor: what any type's bytes still count in 64 bits.
const MAX_ELEMENTS: u128 = 1 << 60;

/// Which of a convolution's three tensors is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Direction {
    /// y from x and w.
    Forward,
    /// dx from dy and w.
    BackwardData,
    /// dw from x and dy.
    BackwardWeights,
}

impl Direction {
    /// Every direction, in the order of the driver's bits.
    pub const ALL: [Self; 3] = [Self::Forward, Self::BackwardData, Self::BackwardWeights];

    /// MIOpen's letter: F, B or W.
    #[must_use]
    pub const fn letter(self) -> &'static str {
        match self {
            Self::Forward => "F",
            Self::BackwardData => "B",
            Self::BackwardWeights => "W",
        }
    }

    /// The bit of the driver's `-F`.
    #[must_use]
    pub const fn driver_bit(self) -> u32 {
        match self {
            Self::Forward => 1,
            Self::BackwardData => 2,
            Self::BackwardWeights => 4,
        }
    }

    /// The direction that a transposed convolution's direction is, seen as a plain convolution.
    const fn of_transposed(self) -> Self {
        match self {
            Self::Forward => Self::BackwardData,
            Self::BackwardData => Self::Forward,
            Self::BackwardWeights => Self::BackwardWeights,
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.letter())
    }
}

impl FromStr for Direction {
    type Err = ProblemError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|direction| direction.letter() == text).ok_or_else(|| {
            ProblemError::new("direction", format_args!("{:?}", text.chars().take(32).collect::<String>()), "F, B or W")
        })
    }
}

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
    /// Of the elements of y and dy; usually [`DataType::conv_output`] of that of x.
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
            y_type: data_type.conv_output(),
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

    /// The same problem with another batch size.
    ///
    /// # Errors
    /// A batch size that is out of range, or tensors that become too large.
    pub fn with_batch(self, n: u32) -> Result<Self, ProblemError> {
        Self::new(ConvShape { n, ..self.shape })
    }

    /// The same problem on another type: that of the input as its user sees it, and of the weights. The output gets the
    /// type that MIOpen gives it.
    #[must_use]
    pub fn with_type(mut self, data_type: DataType) -> Self {
        (self.shape.x_type, self.shape.w_type, self.shape.y_type) = if self.transposed.is_so() {
            (data_type.conv_output(), data_type, data_type)
        } else {
            (data_type, data_type, data_type.conv_output())
        };
        self
    }

    /// The shape, to derive another problem from it.
    #[must_use]
    pub fn into_shape(self) -> ConvShape {
        self.shape
    }

    /// Useful work: two operations for each multiply-add, the same in every direction.
    #[must_use]
    pub fn flops(&self) -> f64 {
        let per_group = f64::from(self.c) / f64::from(self.group);
        let product = |sizes: [u32; 3]| sizes.into_iter().map(f64::from).product::<f64>();
        2.0 * f64::from(self.n) * f64::from(self.k) * product(self.output) * per_group * product(self.filter)
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
