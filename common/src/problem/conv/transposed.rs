//! Convolutions that were asked for as transposed ones.

use serde::{Deserialize, Serialize};

use super::check::{check_sizes, transposed_size};
use super::{ConvProblem, ConvShape, MAX_SIZE};
use crate::problem::ProblemError;

/// What trans_output_pad is called along each axis.
const OUTPUT_PADS: [&str; 3] = ["trans_output_pad_d", "trans_output_pad_h", "trans_output_pad_w"];

/// Whether a convolution was asked for as a transposed one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Transposed {
    /// A plain one.
    #[default]
    No,
    /// The sizes of its input follow from those of its output.
    Yes,
    /// Its output, which would not be positive along some axis, is 1 there, so that the sizes of its input do not follow from it:
    /// these are they.
    Clamped([u32; 3]),
}

impl Transposed {
    /// Whether it is one, clamped or not.
    #[must_use]
    pub fn is_so(self) -> bool {
        self != Self::No
    }
}

impl ConvShape {
    /// Turns the shape of a transposed convolution, x and y as its user sees them, into the plain convolution that
    /// computes it, and back: the sides change places, forward and backward data too, and the weights stay (their
    /// transposed order c,k/g is the plain order k,c/g of the result). `input` must become the spatial sizes of the
    /// other side.
    pub(super) fn sides_swapped(self, input: [u32; 3]) -> Self {
        Self {
            direction: self.direction.of_transposed(),
            c: self.k,
            k: self.c,
            input,
            x_layout: self.y_layout,
            y_layout: self.x_layout,
            x_type: self.y_type,
            y_type: self.x_type,
            x_cast: self.y_cast,
            y_cast: self.x_cast,
            ..self
        }
    }

    /// The output sizes where `derived` follow from the others: those that were asked for, if the shape says some.
    pub(super) fn asked_output(&self, derived: [u32; 3]) -> Result<[u32; 3], ProblemError> {
        let Transposed::Clamped(asked) = self.transposed else { return Ok(derived) };
        let wrong =
            |expected| ProblemError::new("input size of a transposed convolution", format!("{asked:?}"), expected);
        if asked == derived {
            return Err(wrong("none, since it follows from the other sizes".to_string()));
        }
        let [depth, ..] = asked;
        let fits = |size: &u32| (1..=MAX_SIZE).contains(size);
        if !asked.iter().all(fits) || self.spatial == 2 && depth != 1 {
            return Err(wrong(format!("1 to {MAX_SIZE}")));
        }
        Ok(asked)
    }
}

impl ConvProblem {
    /// The plain convolution that computes a transposed one. `user` is the shape as its user sees it: x is its input,
    /// and its weights lie as c,k/g. `output_pad` is what it adds at the far end of each axis of its output.
    ///
    /// An output size is `stride (in - 1) + 1 + dilation (filter - 1) - 2 pad + output_pad`, and 1 where that is less, as MIOpen has
    /// it (3.3, src/convolution.cpp).
    ///
    /// # Errors
    /// As for [`ConvProblem::new`], and an output pad that is not less than the stride.
    #[expect(clippy::indexing_slicing, reason = "an axis is 0, 1 or 2")]
    pub fn from_transposed(mut user: ConvShape, output_pad: [u32; 3]) -> Result<Self, ProblemError> {
        check_sizes(&user)?;
        let axes = if user.spatial == 3 { 0..3 } else { 1..3 };
        let mut output = [1; 3];
        for axis in axes {
            let (pad, stride) = (output_pad[axis], user.stride[axis]);
            if pad >= stride {
                return Err(ProblemError::new(OUTPUT_PADS[axis], pad, format!("less than the stride {stride}")));
            }
            let size = transposed_size(&user, user.input[axis], axis, pad).max(1);
            output[axis] = u32::try_from(size)
                .ok()
                .filter(|size| *size <= MAX_SIZE)
                .ok_or_else(|| ProblemError::new("transposed output size", size, format!("1 to {MAX_SIZE}")))?;
        }
        if user.spatial == 2 {
            user.input[0] = 1;
        }
        let asked = user.input;
        user.transposed = Transposed::Yes;
        let shape = user.sides_swapped(output);
        let follows = Self::new(ConvShape { transposed: Transposed::No, ..shape.clone() })?.output == asked;
        Self::new(if follows { shape } else { ConvShape { transposed: Transposed::Clamped(asked), ..shape } })
    }

    /// What a transposed convolution adds to its output at the far end of an axis, on top of the size that its strides and filter
    /// give; 0 where it is clamped. `None` if no transposed convolution has these sizes.
    #[expect(clippy::indexing_slicing, reason = "an axis is 0, 1 or 2")]
    pub(super) fn transposed_output_pad(&self, axis: usize) -> Option<u32> {
        let size = transposed_size(&self.shape, self.output[axis], axis, 0);
        let (found, pad) = (i64::from(self.input[axis]), i64::from(self.input[axis]) - size);
        if (0..i64::from(self.stride[axis])).contains(&pad) {
            return u32::try_from(pad).ok();
        }
        (matches!(self.transposed, Transposed::Clamped(_)) && found == 1 && size < 1).then_some(0)
    }

    pub(super) fn check_transposed(&self) -> Result<(), ProblemError> {
        if !self.transposed.is_so() {
            return Ok(());
        }
        for (axis, (field, stride)) in OUTPUT_PADS.into_iter().zip(self.stride).enumerate() {
            if self.transposed_output_pad(axis).is_none() {
                let found = format!("what makes {:?} of {:?}", self.input, self.output);
                return Err(ProblemError::new(field, found, format!("0 or more, and less than the stride {stride}")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{DataType, Direction};

    fn clamped() -> ConvProblem {
        let user = ConvShape {
            c: 8,
            k: 4,
            input: [1, 2, 5],
            filter: [1, 2, 3],
            pad: [0, 9, 1],
            ..ConvShape::plain(Direction::Forward, DataType::Fp32)
        };
        ConvProblem::from_transposed(user, [0; 3]).unwrap()
    }

    /// 1 (2 - 1) + 1 + 1 - 18 is -15, which is 1; from 1 row and these pads there would be 18 rows and not 2.
    #[test]
    fn an_output_that_is_not_positive_is_one() {
        let problem = clamped();
        assert_eq!((problem.input, problem.output()), ([1, 1, 5], [1, 2, 5]));
        assert_eq!((problem.as_asked().input, problem.asked_output_pads()), ([1, 2, 5], [0; 3]));
    }

    #[test]
    fn sizes_that_follow_are_not_said() {
        let problem = clamped();
        let wrong = |input, asked| {
            let shape = ConvShape { input, transposed: Transposed::Clamped(asked), ..problem.clone().into_shape() };
            ConvProblem::new(shape).unwrap_err().field
        };
        assert_eq!(wrong([1, 1, 5], [1, 18, 5]), "input size of a transposed convolution");
        assert_eq!(wrong([1, 1, 5], [1, 0, 5]), "input size of a transposed convolution");
        assert_eq!(wrong([1, 2, 5], [1, 2, 5]), "trans_output_pad_h");
        assert_eq!(wrong([1, 1, 5], [1, 2, 4]), "trans_output_pad_w");
    }

    /// Releases before had a yes or no here.
    #[test]
    fn those_that_are_not_clamped_are_a_yes_or_no_on_the_wire() {
        let config = bincode::config::standard();
        for (transposed, plain) in [(Transposed::No, false), (Transposed::Yes, true)] {
            let bytes = bincode::serde::encode_to_vec(transposed, config).unwrap();
            assert_eq!(bytes, bincode::serde::encode_to_vec(plain, config).unwrap());
        }
    }
}
