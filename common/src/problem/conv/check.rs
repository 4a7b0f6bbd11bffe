//! What sizes and layouts must fulfil to make a convolution.

use super::{ConvShape, MAX_SIZE};
use crate::problem::ProblemError;

/// The output size of a transposed convolution of input size `size` along an axis.
#[expect(clippy::indexing_slicing, reason = "an axis is 0, 1 or 2")]
pub(super) fn transposed_size(shape: &ConvShape, size: u32, axis: usize, output_pad: u32) -> i64 {
    let reach = i64::from(shape.dilation[axis]) * (i64::from(shape.filter[axis]) - 1);
    i64::from(shape.stride[axis]) * (i64::from(size) - 1) + 1 + reach - 2 * i64::from(shape.pad[axis])
        + i64::from(output_pad)
}

#[expect(clippy::indexing_slicing, reason = "an axis is 0, 1 or 2")]
pub(super) fn output_size(shape: &ConvShape, axis: usize) -> Result<u32, ProblemError> {
    let reach = i64::from(shape.dilation[axis]) * (i64::from(shape.filter[axis]) - 1) + 1;
    let room = i64::from(shape.input[axis]) + 2 * i64::from(shape.pad[axis]) - reach;
    let size = (room.div_euclid(i64::from(shape.stride[axis])) + 1).max(1);
    u32::try_from(size)
        .ok()
        .filter(|size| *size <= MAX_SIZE)
        .ok_or_else(|| ProblemError::new("output size", size, format!("at most {MAX_SIZE}")))
}

pub(super) fn check_sizes(shape: &ConvShape) -> Result<(), ProblemError> {
    let check = |field, found: u32, least| {
        if (least..=MAX_SIZE).contains(&found) {
            Ok(())
        } else {
            Err(ProblemError::new(field, found, format!("{least} to {MAX_SIZE}")))
        }
    };
    check("batch size", shape.n, 1)?;
    check("input channels", shape.c, 1)?;
    check("output channels", shape.k, 1)?;
    check("group count", shape.group, 1)?;
    let triples = [
        ("input size", shape.input, 1),
        ("filter size", shape.filter, 1),
        ("pad", shape.pad, 0),
        ("stride", shape.stride, 1),
        ("dilation", shape.dilation, 1),
    ];
    for (field, sizes, least) in triples {
        sizes.into_iter().try_for_each(|size| check(field, size, least))?;
    }
    for (field, channels) in [("input channels", shape.c), ("output channels", shape.k)] {
        if channels % shape.group != 0 {
            return Err(ProblemError::new(field, channels, format!("a multiple of the group count {}", shape.group)));
        }
    }
    Ok(())
}

pub(super) fn check_layouts(shape: &ConvShape) -> Result<(), ProblemError> {
    let length = shape.x_layout.vector_length();
    for (field, layout) in
        [("layout of x", shape.x_layout), ("layout of w", shape.w_layout), ("layout of y", shape.y_layout)]
    {
        if layout.spatial() != shape.spatial {
            return Err(ProblemError::new(field, layout, format!("a layout of {} dimensions", shape.spatial + 2)));
        }
        if layout.vector_length() != length {
            return Err(ProblemError::new(field, layout, format!("vectors of {length}, as x has them")));
        }
    }
    let per_group = shape.c / shape.group;
    for (field, channels) in
        [("input channels", shape.c), ("output channels", shape.k), ("input channels of a group", per_group)]
    {
        if channels % length != 0 {
            return Err(ProblemError::new(field, channels, format!("a multiple of the vector length {length}")));
        }
    }
    Ok(())
}
