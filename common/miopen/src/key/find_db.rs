//! The keys of MIOpen's find databases.
//!
//! 2D: `C-H-W-YxX-K-OH-OW-N-PHxPW-SHxSW-DHxDW-BIAS-LAYOUT-DTYPE-DIR[opts]`, and with a depth in front of each group in 3D
//! (MIOpen 3.3, src/conv/problem_description.cpp).

mod parse;

use std::fmt;

use bluefin_common::problem::{
    ConvProblem, ConvShape, DataType, Direction, Layout, ProblemError, Transposed, write_types,
};

use super::label::LayoutLabel;
use super::strides;

pub use parse::KeyError;
pub(super) use parse::parse_size;

/// A find-db key. `in` and `out` are the problem's own: for the backward directions `in` is dy and `out` is x's side.
/// Arrays are depth, height, width; their depths in 2D are those of [`ConvShape`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FindDbKey {
    /// 2 or 3.
    pub spatial: u32,
    /// All groups together; vectors count as one channel.
    pub in_channels: u32,
    /// Spatial sizes of in: of x forward, of dy backward.
    pub input: [u32; 3],
    /// Z, Y, X, without dilation.
    pub filter: [u32; 3],
    /// Counted like those of in.
    pub out_channels: u32,
    /// Spatial sizes of out: of y forward, of x backward.
    pub output: [u32; 3],
    /// N, the same for in and out.
    pub batch: u32,
    /// On either side of x, whatever the direction.
    pub pad: [u32; 3],
    /// In elements of x, whatever the direction.
    pub stride: [u32; 3],
    /// 1 where the filter's taps are neighbours.
    pub dilation: [u32; 3],
    /// Always 0 in the databases that MIOpen ships: its convolutions do not add a bias.
    pub bias: u32,
    /// Of in, weights and out.
    pub layouts: [LayoutLabel; 3],
    /// Of in, weights and out.
    pub types: [DataType; 3],
    /// Printed as its letter; decides which side in and out are.
    pub direction: Direction,
    /// Printed as the option `_g`, unless it is 1.
    pub group: u32,
    /// Of in, weights and out.
    pub casts: [Option<DataType>; 3],
}

/// Exchanges in and out where a key's sides are not those of the forward sense.
fn ordered<T>(direction: Direction, [x, w, y]: [T; 3]) -> [T; 3] {
    match direction {
        Direction::Forward => [x, w, y],
        Direction::BackwardData | Direction::BackwardWeights => [y, w, x],
    }
}

impl From<&ConvProblem> for FindDbKey {
    fn from(problem: &ConvProblem) -> Self {
        let direction = problem.direction;
        let layouts = strides::labels(problem);
        let vector = problem.x_layout.vector_length();
        let [in_channels, _, out_channels] = ordered(direction, [problem.c / vector, 0, problem.k / vector]);
        let [input, filter, output] = ordered(direction, [problem.input, problem.filter, problem.output()]);
        Self {
            spatial: problem.spatial,
            in_channels,
            input,
            filter,
            out_channels,
            output,
            batch: problem.n,
            pad: problem.pad,
            stride: problem.stride,
            dilation: problem.dilation,
            bias: 0,
            layouts: ordered(direction, layouts),
            types: ordered(direction, [problem.x_type, problem.w_type, problem.y_type]),
            direction,
            group: problem.group,
            casts: ordered(direction, [problem.x_cast, problem.w_cast, problem.y_cast]),
        }
    }
}

impl FindDbKey {
    /// A problem with this key. Other problems may have it too: a transposed convolution has the key of the plain one
    /// that computes it, and layouts that lie in memory alike cannot be told apart.
    ///
    /// # Errors
    /// Values that make no problem, an output size that does not follow from the others, a bias, and a combination of
    /// layouts that no problem has.
    pub fn problem(&self) -> Result<ConvProblem, KeyError> {
        if self.bias != 0 {
            return Err(KeyError::malformed("bias", self.bias, "0: MIOpen's convolutions add none"));
        }
        let wanted = ordered(self.direction, self.layouts);
        let named = wanted.map(|label| label.layout().unwrap_or(Layout::default_for(self.spatial)));
        let mut problem = self.with_layouts(named, Transposed::No)?;
        let [_, _, expected] = ordered(self.direction, [self.input, self.filter, self.output]);
        // One that does not follow may be the input of a transposed convolution whose output is clamped.
        let mut transposed = Transposed::No;
        if problem.output() != expected {
            transposed = Transposed::Clamped(expected);
            problem = self.with_layouts(named, transposed).unwrap_or(problem);
        }
        if problem.output() != expected {
            let sizes = |[d, h, w]: [u32; 3]| format!("{d},{h},{w}");
            return Err(KeyError::malformed(
                "size of y",
                sizes(expected),
                format!("{}, from the other sizes", sizes(problem.output())),
            ));
        }
        if strides::labels(&problem) == wanted {
            return Ok(problem);
        }
        // Labels that name no layout come from sizes of one: look for the layouts that print them.
        let candidates = || Layout::ALL.into_iter().filter(|layout| layout.spatial() == self.spatial);
        candidates()
            .flat_map(|x| candidates().flat_map(move |w| candidates().map(move |y| [x, w, y])))
            .filter(|layouts| layouts.iter().all(|layout| layout.vector_length() == 1))
            .filter_map(|layouts| self.with_layouts(layouts, transposed).ok())
            .find(|problem| strides::labels(problem) == wanted)
            .ok_or_else(|| KeyError::malformed("layouts", format!("{:?}", self.layouts), "what a problem can have"))
    }

    fn with_layouts(
        &self,
        [x_layout, w_layout, y_layout]: [Layout; 3],
        transposed: Transposed,
    ) -> Result<ConvProblem, ProblemError> {
        let [input, filter, _] = ordered(self.direction, [self.input, self.filter, self.output]);
        let [c, _, k] = ordered(self.direction, [self.in_channels, 0, self.out_channels]);
        let [x_type, w_type, y_type] = ordered(self.direction, self.types);
        let [x_cast, w_cast, y_cast] = ordered(self.direction, self.casts);
        let channels = |channels: u32, layout: Layout| {
            channels.checked_mul(layout.vector_length()).ok_or_else(|| {
                ProblemError::new("channels", channels, format!("vectors of {} to fit", layout.vector_length()))
            })
        };
        ConvProblem::new(ConvShape {
            direction: self.direction,
            spatial: self.spatial,
            n: self.batch,
            c: channels(c, x_layout)?,
            k: channels(k, y_layout)?,
            input,
            filter,
            pad: self.pad,
            stride: self.stride,
            dilation: self.dilation,
            group: self.group,
            x_layout,
            w_layout,
            y_layout,
            x_type,
            w_type,
            y_type,
            x_cast,
            w_cast,
            y_cast,
            transposed,
        })
    }
}

impl fmt::Display for FindDbKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes = |f: &mut fmt::Formatter<'_>, [d, h, w]: [u32; 3], separator: char| {
            if self.spatial == 3 {
                write!(f, "-{d}{separator}{h}{separator}{w}")
            } else {
                write!(f, "-{h}{separator}{w}")
            }
        };
        write!(f, "{}", self.in_channels)?;
        sizes(f, self.input, '-')?;
        sizes(f, self.filter, 'x')?;
        write!(f, "-{}", self.out_channels)?;
        sizes(f, self.output, '-')?;
        write!(f, "-{}", self.batch)?;
        for group in [self.pad, self.stride, self.dilation] {
            sizes(f, group, 'x')?;
        }
        let [first, second, third] = self.layouts;
        write!(f, "-{}-{first}", self.bias)?;
        if !self.layouts.iter().all(|layout| layout.is_default()) {
            write!(f, "-{second}-{third}")?;
        }
        f.write_str("-")?;
        write_types(f, self.types)?;
        write!(f, "-{}", self.direction)?;
        if self.group != 1 {
            write!(f, "_g{}", self.group)?;
        }
        for (prefix, cast) in ["ci", "cw", "co"].into_iter().zip(self.casts) {
            if let Some(data_type) = cast {
                write!(f, "_{prefix}{data_type}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bluefin_common::problem::Operation as _;

    use super::*;

    /// The output of a transposed convolution is 1 where it would be less: its key says both sizes.
    #[test]
    fn a_clamped_output_is_told_from_one_that_follows() {
        let user = ConvShape {
            c: 8,
            k: 4,
            input: [1, 2, 5],
            filter: [1, 2, 3],
            pad: [0, 9, 1],
            ..ConvShape::plain(Direction::Forward, DataType::Fp32)
        };
        let problem = ConvProblem::from_transposed(user, [0; 3]).unwrap();
        let key = FindDbKey::from(&problem);
        assert_eq!(key.to_string(), "8-2-5-2x3-4-1-5-1-9x1-1x1-1x1-0-NCHW-FP32-B");
        let again = key.problem().unwrap();
        assert_eq!((again.canonical(), again), (problem.canonical(), problem));
    }
}
