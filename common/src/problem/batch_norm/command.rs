//! `bnorm`: the flags of driver/bn_driver.hpp.

use super::super::command::{Command, DriverError, Flag, Flags, Form, int, size, word};
use super::super::{DataType, Layout, Problem};
use super::{BatchNormProblem, NormDirection, NormMode};

pub(super) const FLAGS: &[Flag] = &[
    int("forw", 'F', "0"),
    int("back", 'b', "0"),
    size("batchsize", 'n', "32"),
    size("in_channels", 'c', "3"),
    size("in_h", 'H', "32"),
    size("in_w", 'W', "32"),
    int("in_d", 'D', "0"),
    Flag { long: "layout", short: 'L', default: "", is_size: false, form: Form::Layout },
    word("alpha", 'A', "1.0"),
    word("beta", 'B', "0."),
    int("mode", 'm', "0"),
    int("save", 's', "0"),
    int("run", 'r', "0"),
    int("iter", 'i', "1"),
    int("verify", 'V', "1"),
    int("time", 't', "0"),
    int("printconv", 'P', "1"),
    int("wall", 'w', "0"),
    // Of releases after 3.3. Neither a fused activation nor the form of the variance is part of MIOpen's keys, so what is tuned
    // for a batch norm serves it with them as well.
    int("activ_mode", 'f', "0"),
    word("activ_alpha", 'x', "1.0"),
    word("activ_beta", 'y', "1.0"),
    word("activ_gamma", 'z', "1.0"),
    int("inverse_variance", 'I', "0"),
    int("ping_pong_buffers", 'Q', "0"),
    int("gpubuffer_check", '~', "0"),
    int("tuning_policy", '&', "0"),
];

const MAX: u32 = i32::MAX as u32;

/// Types of x, and whether the rest is FP32, of a base word.
pub(super) fn types(base: &str) -> Option<(DataType, bool)> {
    match base.strip_prefix("bnorm")? {
        "" => Some((DataType::Fp32, false)),
        "fp16" => Some((DataType::Fp16, false)),
        "bfp16" => Some((DataType::Bf16, false)),
        "fp16fp32" => Some((DataType::Fp16, true)),
        "bfp16fp32" => Some((DataType::Bf16, true)),
        _ => None,
    }
}

/// One problem for each direction that is asked for.
pub(super) fn parse(command: &Command<'_>) -> Result<Vec<Problem>, DriverError> {
    let (data_type, mixed) = types(command.base).ok_or_else(|| command.unknown())?;
    let flags = &command.flags;
    // As for products: another alpha or beta is another operation.
    for (long, only) in [("alpha", 1.0), ("beta", 0.0)] {
        if flags.text(long).parse::<f64>() != Ok(only) {
            return Err(DriverError::value(long, flags.text(long), format!("{only}")));
        }
    }
    let switch = |long| Ok::<_, DriverError>(flags.number(long, 0..=1)? == 1);
    let depth = flags.number("in_d", 0..=MAX)?;
    let problem = BatchNormProblem {
        direction: NormDirection::Training,
        mode: if switch("mode")? { NormMode::Spatial } else { NormMode::PerActivation },
        n: flags.number("batchsize", 1..=MAX)?,
        c: flags.number("in_channels", 1..=MAX)?,
        input: [depth.max(1), flags.number("in_h", 1..=MAX)?, flags.number("in_w", 1..=MAX)?],
        layout: layout(flags, depth)?,
        data_type,
        mixed,
        save: switch("save")?,
        run: switch("run")?,
    };
    let directions = directions(flags)?.into_iter();
    directions
        .map(|direction| Ok(Problem::BatchNorm(BatchNormProblem { direction, ..problem.clone() }.checked()?)))
        .collect()
}

/// `--forw` is 1 for training, 2 for inference, and `--back` is 1 for backward.
fn directions(flags: &Flags) -> Result<Vec<NormDirection>, DriverError> {
    let bits = flags.number("forw", 0..=2)? + 4 * flags.number("back", 0..=1)?;
    if bits == 0 {
        return Err(DriverError::value("forw", "0 with back 0", "a direction: forw 1 or 2, or back 1"));
    }
    Ok(NormDirection::ALL.into_iter().filter(|direction| bits & direction.bit() != 0).collect())
}

/// A depth makes it three-dimensional.
fn layout(flags: &Flags, depth: u32) -> Result<Layout, DriverError> {
    let spatial = if depth > 0 { 3 } else { 2 };
    let layout: Layout = match flags.text("layout") {
        "" => Layout::default_for(spatial),
        _ => flags.named("layout", "NCHW, NHWC, NCDHW or NDHWC")?,
    };
    if layout.spatial() != spatial {
        let expected = format!("a layout of {spatial} spatial dimensions, as in_d {depth} has them");
        return Err(DriverError::value("layout", layout.name(), expected));
    }
    Ok(layout)
}

#[cfg(test)]
mod tests {
    use super::super::super::parse as parse_command;
    use super::*;

    fn norms(command: &str) -> Vec<String> {
        parse_command(command, None).unwrap().iter().map(Problem::canonical).collect()
    }

    fn message(command: &str) -> String {
        parse_command(command, None).unwrap_err().to_string()
    }

    #[test]
    fn each_direction_is_a_problem() {
        let [training, backward] = <[_; 2]>::try_from(norms("bnormfp16 -n 2 -F 1 -b 1 -s 1")).unwrap();
        assert_eq!(training, "bnormfp16 -n 2 -c 3 -H 32 -W 32 -m 0 --forw 1 -b 0 -s 1 -r 0 --layout NCHW");
        assert_eq!(backward, "bnormfp16 -n 2 -c 3 -H 32 -W 32 -m 0 --forw 0 -b 1 -s 1 -r 0 --layout NCHW");
        assert_eq!(norms("bnorm --forw 2 -m 1 -D 4 -L NDHWC").len(), 1);
        assert!(norms("bnormbfp16fp32 -F 1")[0].starts_with("bnormbfp16fp32 "));
    }

    #[test]
    fn what_makes_no_batch_norm_is_named() {
        for (command, expected) in [
            ("bnorm -n 1", "forw: found \"0 with back 0\", expected a direction: forw 1 or 2, or back 1"),
            ("bnorm -F 3", "forw: found \"3\", expected 0 to 2"),
            ("bnorm -F 1 -m 2", "mode: found \"2\", expected 0 to 1"),
            ("bnorm -F 1 -A 2", "alpha: found \"2\", expected 1"),
            ("bnorm -F 1 -L NCDHW", "layout: found \"NCDHW\", expected a layout of 2 spatial dimensions, as in_d 0"),
            ("bnorm -F 1 --layout chwn", "layout: found CHWN, expected NCHW, NHWC, NCDHW or NDHWC"),
            ("bnorm -F 1 -k 3", "bnorm has no flag \"-k\", and batchsize is not given"),
        ] {
            let found = message(command);
            assert!(found.starts_with(&format!("driver command: {expected}")), "{command}: {found}");
        }
        assert!(message("bnormint8 -F 1").contains("not supported"));
    }

    /// MIOpen's keys know neither of an activation nor of the form of the variance.
    #[test]
    fn commands_of_newer_releases_are_read() {
        let newer = "bnormfp16 -n 64 -c 64 -H 14 -W 14 -f 3 -x 1 -y 0 -z 0 -m 1 -I 1 --forw 2 -b 0 --layout NCHW";
        assert_eq!(norms(newer), norms("bnormfp16 -n 64 -c 64 -H 14 -W 14 -m 1 --forw 2 -b 0 --layout NCHW"));
    }
}
