//! MIOpenDriver's command line: the driver command as the lingua franca for problems.
//!
//! The grammar is MIOpen's (driver/InputFlags.cpp): a base word, then pairs of a flag and its value. Bluefin adds the
//! base words of further types, `--wei_type` and `--out_type` for problems whose types differ, and `kernel NAME a=1` for
//! users' own kernels, so that every problem has a command. MIOpen reads numbers with atoi, which takes `1.` for 1
//! and `12x` for 12; here the second is an error.

mod batch_norm;
mod conv;
mod flags;
mod gemm;

use std::collections::BTreeMap;

use bluefin_common::problem::{AiterProblem, DataType, Direction, KernelProblem, Problem, ProblemError};

/// Why a driver command asks for no problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// There is no word at all.
    #[error("driver command: found nothing, expected a base word such as conv")]
    Empty,
    /// MIOpenDriver has this operation, bluefin does not.
    #[error("driver command: operation {0} is not supported yet, expected conv, bnorm, gemm or kernel")]
    Unsupported(String),
    /// Nothing knows this operation.
    #[error("driver command: found base word {0:?}, expected conv, bnorm, gemm or kernel")]
    UnknownBase(String),
    /// A word that is no flag stands where a flag should.
    #[error("driver command: found {found:?}, expected a flag")]
    NotAFlag {
        /// The word.
        found: String,
    },
    /// The operation has no such flag.
    #[error("driver command: {base} has no flag {flag:?}")]
    UnknownFlag {
        /// The base word.
        base: String,
        /// The flag as it was written.
        flag: String,
    },
    /// The command ends after a flag.
    #[error("driver command: flag {flag} has no value")]
    MissingValue {
        /// The flag as it was written.
        flag: String,
    },
    /// A flag's value is not of its kind.
    #[error("driver command: {flag}: found {found:?}, expected {expected}")]
    Value {
        /// The flag's long name.
        flag: &'static str,
        /// The value, cut short.
        found: String,
        /// What it could have been.
        expected: String,
    },
    /// Each value is fine, but together they make no problem.
    #[error("driver command: {0}")]
    Problem(#[from] ProblemError),
}

/// The operation that a driver command in `line` asks for, where it is one that MIOpenDriver has and nothing tunes: pooling, for
/// one.
#[must_use]
pub fn untuned_operation(line: &str) -> Option<String> {
    let (_, command) = line.split_once("MIOpenDriver").unwrap_or(("", line));
    match parse(command.trim_start_matches(".exe").trim(), None) {
        Err(DriverError::Unsupported(operation)) => Some(operation),
        _ => None,
    }
}

impl DriverError {
    fn value(flag: &'static str, found: &str, expected: impl Into<String>) -> Self {
        Self::Value { flag, found: cut(found), expected: expected.into() }
    }
}

/// Base words of MIOpenDriver that bluefin does not know. Each also comes with the suffix of a type.
const OTHER_OPERATIONS: &[&str] = &[
    "CBAInfer",
    "activ",
    "adam",
    "adamw",
    "addlayernorm",
    "argmax",
    "argmin",
    "bnorm",
    "cat",
    "ctc",
    "dropout",
    "fusion",
    "getitem",
    "glu",
    "groupnorm",
    "kthvalue",
    "layernorm",
    "lrn",
    "mha",
    "pool",
    "prelu",
    "reduce",
    "rnn",
    "rnn_seq",
    "rope",
    "softmax",
    "softmarginloss",
    "sum",
    "t5layernorm",
    "tensorop",
    "transformersadamw",
];

/// What a base word asks for.
enum Operation {
    Conv(DataType),
    Gemm(DataType),
    BatchNorm((DataType, bool)),
    Kernel,
    Aiter,
    Other,
}

fn operation(base: &str) -> Option<Operation> {
    let of_type = |word| base.strip_prefix(word).and_then(DataType::from_driver_suffix);
    if let Some(data_type) = of_type("conv") {
        return Some(Operation::Conv(data_type));
    }
    if let Some(data_type) = of_type("gemm") {
        return Some(Operation::Gemm(data_type));
    }
    if let Some(types) = base.strip_prefix("bnorm").and_then(batch_norm::types) {
        return Some(Operation::BatchNorm(types));
    }
    match base {
        "kernel" => return Some(Operation::Kernel),
        "aiter" => return Some(Operation::Aiter),
        _ => {}
    }
    let suffixes = ["fp16fp32", "bfp16fp32", "fp16", "bfp16", "fp64", "int8", ""];
    let other = suffixes
        .into_iter()
        .filter_map(|suffix| base.strip_suffix(suffix))
        .any(|word| OTHER_OPERATIONS.contains(&word));
    other.then_some(Operation::Other)
}

/// Whether a command can begin with this word.
#[must_use]
pub fn is_base_word(word: &str) -> bool {
    operation(word).is_some()
}

/// The problems that a command asks for: the words after `MIOpenDriver`. A convolution without `-F` asks for all three
/// directions, unless `implied` says which one it was.
///
/// # Errors
/// The first word that is not as the grammar wants it, or sizes that make no problem.
pub fn parse(command: &str, implied: Option<Direction>) -> Result<Vec<Problem>, DriverError> {
    let mut words = command.split_ascii_whitespace();
    let base = words.next().ok_or(DriverError::Empty)?;
    match operation(base) {
        Some(Operation::Conv(data_type)) => conv::parse(base, data_type, words, implied),
        Some(Operation::Gemm(data_type)) => Ok(vec![gemm::parse(base, data_type, words)?]),
        Some(Operation::BatchNorm(types)) => batch_norm::parse(base, types, words),
        Some(Operation::Kernel) => Ok(vec![parse_kernel(words)?]),
        Some(Operation::Aiter) => Ok(vec![parse_aiter(words)?]),
        Some(Operation::Other) => Err(DriverError::Unsupported(cut(base))),
        None => Err(DriverError::UnknownBase(cut(base))),
    }
}

/// `NAME a=1 b=2`; as with flags, the last of equal names counts.
fn parse_kernel<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Problem, DriverError> {
    let name = words.next().ok_or(DriverError::MissingValue { flag: "kernel".to_string() })?;
    let mut sizes = BTreeMap::new();
    for word in words {
        let wrong = || DriverError::value("size", word, "NAME=INTEGER");
        let (size, value) = word.split_once('=').ok_or_else(wrong)?;
        sizes.insert(size.to_string(), value.parse().map_err(|_| wrong())?);
    }
    Ok(Problem::Kernel(KernelProblem::new(name.to_string(), sizes)?))
}

/// `FAMILY M=1 q_dtype_w=torch.int8`
fn parse_aiter<'a>(mut words: impl Iterator<Item = &'a str>) -> Result<Problem, DriverError> {
    let family = words.next().ok_or(DriverError::MissingValue { flag: "aiter".to_string() })?;
    let mut shape = Vec::new();
    for word in words {
        let (column, value) = word.split_once('=').ok_or_else(|| DriverError::value("column", word, "NAME=VALUE"))?;
        shape.push((column.to_string(), value.to_string()));
    }
    Ok(Problem::Aiter(AiterProblem::new(family.to_string(), shape)?))
}

/// Enough of a text to recognise it in a message.
fn cut(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_that_are_not_known_yet_say_so() {
        let message = |command| parse(command, None).unwrap_err().to_string();
        assert_eq!(
            message("poolfp16 -n 256"),
            "driver command: operation poolfp16 is not supported yet, expected conv, bnorm, gemm or kernel"
        );
        assert!(message("lrnbfp16").contains("not supported yet"));
        assert!(message("convx -n 1").contains("found base word \"convx\""));
        assert!(message(" ").contains("found nothing"));
    }

    #[test]
    fn kernels_are_commands_too() {
        let problems = parse("kernel saxpy n=1 m=-2 n=3", None).unwrap();
        assert_eq!(problems.iter().map(Problem::canonical).collect::<Vec<_>>(), ["kernel saxpy m=-2 n=3"]);
        for wrong in ["kernel", "kernel saxpy n", "kernel saxpy n=1.5", "kernel Saxpy"] {
            assert!(parse(wrong, None).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shapes_of_aiter_are_commands_too() {
        let command = "aiter ck_gemm_a8w8 M=1 N=16 K=32 q_dtype_w=torch.int8";
        let problems = parse(command, None).unwrap();
        assert_eq!(problems.iter().map(Problem::canonical).collect::<Vec<_>>(), [command]);
        for wrong in ["aiter", "aiter x", "aiter x M", "aiter x M=", "aiter x M=1 M=2"] {
            assert!(parse(wrong, None).is_err(), "{wrong}");
        }
    }
}
