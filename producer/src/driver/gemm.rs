//! `gemm`: the flags of driver/gemm_driver.hpp.

use bluefin_common::problem::{DataType, GemmProblem, Problem};

use super::DriverError;
use super::flags::{Flag, Flags, int, word};

const FLAGS: &[Flag] = &[
    int("forw", 'F', "1"),
    int("batch_count", 'b', "1"),
    int("isColMajor", 'C', "0"),
    int("a_h", 'm', "256"),
    int("a_w", 'k', "256"),
    int("b_w", 'n', "256"),
    word("alpha", 'A', "1.0"),
    word("beta", 'B', "0.0"),
    int("transA", 'u', "0"),
    int("transB", 'v', "0"),
    int("iter", 'i', "10"),
    int("verify", 'V', "0"),
    int("time", 't', "0"),
];

const MAX: u32 = i32::MAX as u32;

/// The problem of the words after a base word of this type.
pub(super) fn parse<'a>(
    base: &str,
    data_type: DataType,
    words: impl Iterator<Item = &'a str>,
) -> Result<Problem, DriverError> {
    let flags = Flags::read(FLAGS, base, words)?;
    // A different alpha or beta would be another operation; a problem has no place for it.
    for (long, only) in [("alpha", 1.0), ("beta", 0.0)] {
        if flags.text(long).parse::<f64>() != Ok(only) {
            return Err(DriverError::value(long, flags.text(long), format!("{only}, for C = A x B")));
        }
    }
    let size = |long| flags.number(long, 1..=MAX);
    let switch = |long| Ok::<_, DriverError>(flags.number(long, 0..=1)? == 1);
    let problem = GemmProblem {
        m: size("a_h")?,
        n: size("b_w")?,
        k: size("a_w")?,
        batch: size("batch_count")?,
        trans_a: switch("transA")?,
        trans_b: switch("transB")?,
        col_major: switch("isColMajor")?,
        data_type,
    };
    Ok(Problem::Gemm(problem.checked()?))
}

#[cfg(test)]
mod tests {
    use super::super::parse as parse_command;
    use super::*;

    #[test]
    fn sizes_have_the_drivers_names() {
        let problems = parse_command("gemmfp16 --a_h 2 --a_w 3 --b_w 4 -u 1 -b 5 -C 1 -i 1 -t 1", None).unwrap();
        let expected = GemmProblem {
            m: 2,
            n: 4,
            k: 3,
            batch: 5,
            trans_a: true,
            trans_b: false,
            col_major: true,
            data_type: DataType::Fp16,
        };
        assert_eq!(problems, [Problem::Gemm(expected)]);
    }

    #[test]
    fn only_plain_products_are_problems() {
        let message = parse_command("gemm -B 1", None).unwrap_err().to_string();
        assert_eq!(message, "driver command: beta: found \"1\", expected 0, for C = A x B");
        assert!(parse_command("gemm -u 2", None).is_err());
        assert!(parse_command("gemm -m 0", None).is_err());
    }
}
