//! `conv`: the flags of driver/conv_driver.hpp and what they mean.

use super::super::command::{Command, DriverError, Flag, Flags, Form, cut, int, own_word, size, word};
use super::super::{DataType, Direction, Layout, Problem};
use super::{ConvProblem, ConvShape};

const fn layout(long: &'static str, short: char) -> Flag {
    Flag { long, short, default: "", is_size: false, form: Form::Layout }
}

/// Every flag of the driver. The last groups only say how the driver runs; they are checked and then ignored. So is
/// `bias`: MIOpen adds it with an operation of its own, and its convolution keys say 0 all the same.
pub(super) const FLAGS: &[Flag] = &[
    int("forw", 'F', "0"),
    size("batchsize", 'n', "100"),
    size("in_channels", 'c', "3"),
    int("in_d", '!', "32"),
    size("in_h", 'H', "32"),
    size("in_w", 'W', "32"),
    size("out_channels", 'k', "32"),
    int("fil_d", '@', "3"),
    size("fil_h", 'y', "3"),
    size("fil_w", 'x', "3"),
    int("group_count", 'g', "1"),
    int("conv_stride_d", '#', "1"),
    int("conv_stride_h", 'u', "1"),
    int("conv_stride_w", 'v', "1"),
    int("pad_d", '$', "0"),
    int("pad_h", 'p', "0"),
    int("pad_w", 'q', "0"),
    int("pad_val", 'r', "0"),
    word("pad_mode", 'z', "default"),
    int("dilation_d", '^', "1"),
    int("dilation_h", 'l', "1"),
    int("dilation_w", 'j', "1"),
    word("mode", 'm', "conv"),
    int("trans_output_pad_d", '%', "0"),
    int("trans_output_pad_h", 'Y', "0"),
    int("trans_output_pad_w", 'X', "0"),
    layout("in_layout", 'I'),
    layout("out_layout", 'O'),
    layout("fil_layout", 'f'),
    int("tensor_vect", 'Z', "0"),
    int("vector_length", 'L', "1"),
    int("spatial_dim", '_', "2"),
    word("in_cast_type", 'U', "-1"),
    word("out_cast_type", 'T', "-1"),
    word("wei_cast_type", 'R', "-1"),
    own_word("wei_type"),
    own_word("out_type"),
    int("iter", 'i', "10"),
    int("verify", 'V', "1"),
    int("time", 't', "0"),
    int("wall", 'w', "0"),
    int("search", 's', "0"),
    word("solution", 'S', "-1"),
    int("gpualloc", 'G', "0"),
    int("printconv", 'P', "1"),
    int("dump_output", 'o', "0"),
    Flag { long: "bias", short: 'b', default: "", is_size: false, form: Form::OptionalInt },
    word("in_data", 'd', ""),
    word("weights", 'e', ""),
    word("in_bias", 'a', ""),
    word("dout_data", 'D', ""),
    word("verification_cache", 'C', ""),
    // Of releases after 3.3.
    int("gpubuffer_check", '~', "0"),
    int("tuning_policy", '&', "0"),
];

const MAX: u32 = i32::MAX as u32;

/// The type of a base word.
pub(super) fn data_type(base: &str) -> Option<DataType> {
    base.strip_prefix("conv").and_then(DataType::from_driver_suffix)
}

pub(super) fn parse(command: &Command<'_>) -> Result<Vec<Problem>, DriverError> {
    let data_type = data_type(command.base).ok_or_else(|| command.unknown())?;
    let flags = &command.flags;
    let shape = shape(flags, data_type)?;
    let output_pad =
        triple(flags, shape.spatial, ["trans_output_pad_d", "trans_output_pad_h", "trans_output_pad_w"], 0)?;
    let transposed = is_transposed(flags)?;
    let problem = |direction| {
        let shape = ConvShape { direction, ..shape.clone() };
        let problem =
            if transposed { ConvProblem::from_transposed(shape, output_pad)? } else { ConvProblem::new(shape)? };
        Ok(Problem::Conv(problem))
    };
    directions(flags, data_type, command.implied)?.into_iter().map(problem).collect()
}

/// `-F` holds a bit for each direction, and 0 stands for all of them: all that the type has, which for INT8 is the forward one.
fn directions(flags: &Flags, data_type: DataType, implied: Option<Direction>) -> Result<Vec<Direction>, DriverError> {
    if let Some(direction) = implied
        && !flags.is_given("forw")
    {
        return Ok(vec![direction]);
    }
    let bits = flags.number("forw", 0..=7)?;
    if data_type == DataType::Int8 && bits == 0 {
        return Ok(vec![Direction::Forward]);
    }
    Ok(Direction::ALL.into_iter().filter(|direction| bits == 0 || bits & direction.driver_bit() != 0).collect())
}

fn is_transposed(flags: &Flags) -> Result<bool, DriverError> {
    match flags.text("mode") {
        "conv" => Ok(false),
        "trans" => Ok(true),
        other => Err(DriverError::value("mode", other, "conv or trans")),
    }
}

/// The convolution as its user sees it, which for a transposed one is not yet the plain one that computes it.
fn shape(flags: &Flags, data_type: DataType) -> Result<ConvShape, DriverError> {
    let spatial = flags.number("spatial_dim", 2..=3)?;
    let [x_layout, w_layout, y_layout] = layouts(flags, spatial)?;
    let mut shape = ConvShape {
        spatial,
        n: flags.number("batchsize", 1..=MAX)?,
        c: flags.number("in_channels", 1..=MAX)?,
        k: flags.number("out_channels", 1..=MAX)?,
        // The driver takes 0 for 1.
        group: flags.number("group_count", 0..=MAX)?.max(1),
        x_layout,
        w_layout,
        y_layout,
        w_type: flags.data_type("wei_type", data_type)?,
        y_type: flags.data_type("out_type", data_type.product())?,
        x_cast: cast(flags, "in_cast_type")?,
        w_cast: cast(flags, "wei_cast_type")?,
        y_cast: cast(flags, "out_cast_type")?,
        ..ConvShape::plain(Direction::Forward, data_type)
    };
    let triples = [
        (&mut shape.input, ["in_d", "in_h", "in_w"], 1),
        (&mut shape.filter, ["fil_d", "fil_h", "fil_w"], 1),
        (&mut shape.pad, ["pad_d", "pad_h", "pad_w"], 0),
        (&mut shape.stride, ["conv_stride_d", "conv_stride_h", "conv_stride_w"], 1),
        (&mut shape.dilation, ["dilation_d", "dilation_h", "dilation_w"], 1),
    ];
    for (slot, names, least) in triples {
        *slot = triple(flags, spatial, names, least)?;
    }
    apply_pad_mode(flags, &mut shape)?;
    Ok(shape)
}

/// Depth, height and width. In two dimensions the driver does not look at the depth, so it may be anything.
fn triple(
    flags: &Flags,
    spatial: u32,
    [depth, height, width]: [&'static str; 3],
    least: u32,
) -> Result<[u32; 3], DriverError> {
    let number = |name| flags.number(name, least..=MAX);
    let depth = if spatial == 3 { number(depth)? } else { least };
    Ok([depth, number(height)?, number(width)?])
}

fn layouts(flags: &Flags, spatial: u32) -> Result<[Layout; 3], DriverError> {
    let length = match (flags.text("tensor_vect"), flags.text("vector_length")) {
        ("0", "1") => 1,
        ("1", "4") => 4,
        ("1", "8") => 8,
        (vector, length) => {
            let found = format!("{vector} with vector_length {length}");
            return Err(DriverError::value("tensor_vect", &found, "0 with 1, or 1 with 4 or 8"));
        }
    };
    let layout = |long| {
        let plain = match flags.text(long) {
            "" => Layout::default_for(spatial),
            _ => flags.named(long, "NCHW, NHWC, CHWN, NCDHW or NDHWC")?,
        };
        let wrong = |expected: String| DriverError::value(long, &plain.to_string(), expected);
        if plain.vector_length() != 1 {
            return Err(wrong("a layout without its vector, which is set by vector_length".to_string()));
        }
        if plain.spatial() != spatial {
            return Err(wrong(format!("a layout of {spatial} spatial dimensions")));
        }
        plain.with_vector(length).ok_or_else(|| wrong("NCHW or CHWN, which can have vectors".to_string()))
    };
    Ok([layout("in_layout")?, layout("fil_layout")?, layout("out_layout")?])
}

fn cast(flags: &Flags, long: &'static str) -> Result<Option<DataType>, DriverError> {
    let text = flags.text(long);
    match text {
        "-1" => Ok(None),
        _ => flags.named(long, &format!("a type name such as fp8, or -1, not {}", cut(text))).map(Some),
    }
}

/// `same` and `valid` replace the pads, for a plain convolution without dilation (or with a filter of one, where
/// dilation does nothing). `same` gives an output of ceil(in / stride) only where the pad is even: half of it goes to
/// each side, rounded down.
#[expect(clippy::indexing_slicing, reason = "an axis is 0, 1 or 2")]
fn apply_pad_mode(flags: &Flags, shape: &mut ConvShape) -> Result<(), DriverError> {
    let mode = flags.text("pad_mode");
    if !["default", "same", "valid"].contains(&mode) {
        return Err(DriverError::value("pad_mode", mode, "same, valid or default"));
    }
    let axes = if shape.spatial == 3 { 0..3 } else { 1..3 };
    let is_one = |sizes: [u32; 3]| sizes.iter().skip(axes.start).all(|size| *size == 1);
    if mode == "default" || is_transposed(flags)? || !(is_one(shape.dilation) || is_one(shape.filter)) {
        return Ok(());
    }
    for axis in axes {
        let (input, filter, stride) = (shape.input[axis], shape.filter[axis], shape.stride[axis]);
        let rest = input % stride;
        let covered = if rest == 0 { stride } else { rest };
        shape.pad[axis] = if mode == "same" { filter.saturating_sub(covered) / 2 } else { 0 };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::super::parse as parse_command;
    use super::*;

    fn convs(command: &str) -> Vec<ConvProblem> {
        let problems = parse_command(command, None).unwrap_or_else(|error| panic!("{command}: {error}"));
        problems
            .into_iter()
            .map(|problem| match problem {
                Problem::Conv(conv) => conv,
                other => panic!("{other}"),
            })
            .collect()
    }

    fn conv(command: &str) -> ConvProblem {
        convs(command).swap_remove(0)
    }

    fn message(command: &str) -> String {
        parse_command(command, None).unwrap_err().to_string()
    }

    #[test]
    fn defaults_are_the_drivers() {
        let problem = conv("conv");
        assert_eq!((problem.n, problem.c, problem.k, problem.group), (100, 3, 32, 1));
        assert_eq!((problem.input, problem.filter, problem.output()), ([1, 32, 32], [1, 3, 3], [1, 30, 30]));
        let problem = conv("convbfp16 -_ 3 -! 5");
        assert_eq!((problem.input, problem.filter, problem.output()), ([5, 32, 32], [3, 3, 3], [3, 30, 30]));
        assert_eq!((problem.x_layout, problem.x_type), (Layout::Ncdhw, DataType::Bf16));
    }

    #[test]
    fn directions_are_bits() {
        let letters = |command| convs(command).iter().map(|problem| problem.direction.letter()).collect::<String>();
        assert_eq!(letters("conv"), "FBW");
        assert_eq!(letters("conv -F 0"), "FBW");
        assert_eq!(letters("conv -F 7"), "FBW");
        assert_eq!(letters("conv --forw 5"), "FW");
        assert_eq!(letters("conv -F 2"), "B");
        assert_eq!((letters("convint8"), letters("convint8 -F 0")), ("F".to_string(), "F".to_string()));
        assert_eq!((letters("conv -F 1."), letters("conv -F 2.5")), ("F".to_string(), "B".to_string()));
        assert_eq!(message("conv -F 8"), "driver command: forw: found \"8\", expected 0 to 7");
        let implied = parse_command("conv -F 0", Some(Direction::Forward)).unwrap();
        assert_eq!(implied.len(), 3);
        assert_eq!(parse_command("conv", Some(Direction::BackwardData)).unwrap().len(), 1);
    }

    #[test]
    fn every_short_flag_is_its_long_flag() {
        for flag in FLAGS.iter().filter(|flag| flag.short != '\0') {
            let value = match flag.long {
                "pad_mode" => "valid",
                "mode" => "trans",
                "tensor_vect" => "0",
                "vector_length" => "1",
                "spatial_dim" => "2",
                "in_cast_type" | "out_cast_type" | "wei_cast_type" => "fp8",
                "trans_output_pad_d" | "trans_output_pad_h" | "trans_output_pad_w" => "0",
                long if long.ends_with("_layout") => "NHWC",
                _ => "1",
            };
            let short = parse_command(&format!("conv -{} {value}", flag.short), None);
            assert!(short.is_ok(), "{}", flag.long);
            assert_eq!(short, parse_command(&format!("conv --{} {value}", flag.long), None), "{}", flag.long);
        }
    }

    #[test]
    fn the_last_flag_counts() {
        assert_eq!(conv("conv -n 1 --batchsize 2 -n 3").n, 3);
    }

    #[test]
    fn wrong_words_are_named() {
        for (command, expected) in [
            ("conv -n 12x", "batchsize: found \"12x\", expected a whole number of 32 bits"),
            ("conv -n 1.x", "batchsize: found \"1.x\", expected a whole number of 32 bits"),
            ("conv -n .", "batchsize: found \"\", expected a whole number of 32 bits"),
            ("conv -n 0", "batchsize: found \"0\", expected 1 to 2147483647"),
            ("conv -n -1", "batchsize: found \"-1\", expected 1 to 2147483647"),
            ("conv -n 4294967297", "batchsize: found \"4294967297\", expected a whole number of 32 bits"),
            ("conv -n", "flag -n has no value"),
            ("conv -t 1 -F", "flag -F has no value"),
            ("conv -n=1", "conv has no flag \"-n=1\", and batchsize is not given"),
            ("conv --batchsize=1 2", "conv has no flag \"--batchsize=1\", and batchsize is not given"),
            ("conv -N 1", "conv has no flag \"-N\", and batchsize is not given"),
            ("conv 7", "found \"7\", expected a flag"),
            ("conv -m deconv", "mode: found \"deconv\", expected conv or trans"),
            ("conv -z full", "pad_mode: found \"full\", expected same, valid or default"),
            ("conv -_ 4", "spatial_dim: found \"4\", expected 2 to 3"),
            ("conv -I nhwc", "in_layout: found \"nhwc\", expected NCHW, NHWC, CHWN, NCDHW or NDHWC"),
            ("conv -I NCDHW", "in_layout: found \"NCDHW\", expected a layout of 2 spatial dimensions"),
            ("conv -Z 2 -L 4", "tensor_vect: found \"2 with vector_length 4\", expected 0 with 1, or 1 with 4 or 8"),
            ("conv -g 2", "input channels: found 3, expected a multiple of the group count 2"),
            ("conv -U fp7", "in_cast_type: found \"fp7\", expected a type name such as fp8, or -1, not fp7"),
            ("conv --wei_type half", "wei_type: found \"half\", expected a type name such as FP16"),
        ] {
            assert_eq!(message(command), format!("driver command: {expected}"), "{command}");
        }
    }

    #[test]
    fn long_layouts_may_be_lower_case() {
        assert_eq!(conv("conv --in_layout nhwc").x_layout, Layout::Nhwc);
    }

    #[test]
    fn vectors_belong_to_all_layouts() {
        let problem = conv("convint8 -c 32 -Z 1 -L 4 -f CHWN");
        let layouts = [problem.x_layout, problem.w_layout, problem.y_layout];
        assert_eq!(layouts, [Layout::NchwC4, Layout::ChwnC4, Layout::NchwC4]);
        assert_eq!(problem.y_type, DataType::Int32);
        assert!(message("conv -c 6 -Z 1 -L 4").contains("multiple of the vector length 4"));
        assert!(message("conv -c 32 -Z 1 -L 4 -I NHWC").contains("which can have vectors"));
    }

    #[test]
    fn pad_modes_replace_the_pads() {
        assert_eq!(conv("conv -z valid -p 5 -q 5").pad, [0, 0, 0]);
        assert_eq!(conv("conv -z same -p 9 -y 5 -x 3").pad, [0, 2, 1]);
        assert_eq!(conv("conv -z same -H 33 -u 2 -y 5").pad, [0, 2, 1]);
        assert_eq!(conv("conv -z same -H 32 -u 2 -y 5").pad, [0, 1, 1]);
        assert_eq!(conv("conv -z same -p 9 -q 9 -l 2").pad, [0, 9, 9]);
    }

    #[test]
    fn a_transposed_convolution_is_the_opposite_direction() {
        let [forward, data, weights] =
            <[_; 3]>::try_from(convs("conv -m trans -n 2 -c 8 -k 4 -H 7 -W 7 -u 2 -v 2 -Y 1"))
                .unwrap_or_else(|problems| panic!("{problems:?}"));
        assert_eq!(forward.direction, Direction::BackwardData);
        assert_eq!(data.direction, Direction::Forward);
        assert_eq!(weights.direction, Direction::BackwardWeights);
        assert_eq!((forward.c, forward.k, forward.input, forward.output()), (4, 8, [1, 16, 15], [1, 7, 7]));
        // An output that is not positive is one of 1: the same convolution as with as much more at the far end.
        let small = conv("conv -m trans -n 2 -c 8 -k 4 -H 2 -W 2 -u 3 -v 3 -p 3 -q 3 -y 2 -x 2 -F 1");
        assert_eq!((small.input, small.output()), ([1, 1, 1], [1, 2, 2]));
        assert!(message("conv -m trans -u 2 -Y 2").contains("trans_output_pad_h: found 2, expected less than"));
    }
}
