//! MIOpenDriver's command line: the driver command as the lingua franca for problems.
//!
//! The grammar is MIOpen's (driver/InputFlags.cpp): a base word, then pairs of a flag and its value. Bluefin adds the
//! base words of further types, `--wei_type` and `--out_type` for problems whose types differ, and `kernel NAME a=1` for
//! users' own kernels, so that every problem has a command. MIOpen reads numbers with atoi, which takes `1.` for 1
//! and `12x` for 12; here the second is an error.

use std::sync::OnceLock;

use super::command::{Command, DriverError, Flags, cut};
use super::{Direction, Operator, Problem, aiter, batch_norm, conv, gemm, kernel};

/// Those that bluefin ships.
static SHIPPED: [&Operator; 5] =
    [&conv::OPERATOR, &gemm::OPERATOR, &batch_norm::OPERATOR, &kernel::OPERATOR, &aiter::OPERATOR];
/// Those that a program brings beside them.
static BROUGHT: OnceLock<Vec<&'static Operator>> = OnceLock::new();

impl Operator {
    /// All operators, in a fixed order.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        SHIPPED.iter().chain(BROUGHT.get().into_iter().flatten()).copied()
    }

    /// Adds operators to those that bluefin ships, for as long as the process lives. Once: what comes later is left out.
    pub fn bring(operators: Vec<&'static Self>) {
        let _ = BROUGHT.set(operators);
    }

    /// The operator whose commands begin with `base`.
    #[must_use]
    pub fn of_base(base: &str) -> Option<&'static Self> {
        Self::all().find(|operator| (operator.is_base)(base))
    }

    /// The operator whose kernel specs know the same of each problem, by its word.
    #[must_use]
    pub fn with_variables(word: &str) -> Option<&'static Self> {
        SHIPPED.iter().find(|operator| operator.word == word && !operator.variables.is_empty()).copied()
    }
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

/// Whether MIOpenDriver has an operation of this base word, which nothing tunes.
fn is_untuned(base: &str) -> bool {
    let suffixes = ["fp16fp32", "bfp16fp32", "fp16", "bfp16", "fp64", "int8", ""];
    let mut words = suffixes.into_iter().filter_map(|suffix| base.strip_suffix(suffix));
    words.any(|word| OTHER_OPERATIONS.contains(&word))
}

/// Whether a command can begin with this word.
#[must_use]
pub fn is_base_word(word: &str) -> bool {
    Operator::of_base(word).is_some() || is_untuned(word)
}

/// What a command asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The problems, which differ in nothing but their direction.
    pub problems: Vec<Problem>,
    /// What was left aside and why: flags of a newer driver, and one of the run that a cut line ends in. `the flag "-J" is not known`.
    pub left_aside: Vec<String>,
    /// Sizes that the command does not give, as the driver has them: `-W 32 -k 32`. A line that was cut off has some.
    pub filled_up: Option<String>,
}

/// The problems that a command asks for: the words after `MIOpenDriver`. A convolution without `-F` asks for all three
/// directions, unless `implied` says which one it was.
///
/// # Errors
/// The first word that is not as the grammar wants it, or sizes that make no problem.
pub fn read(command: &str, implied: Option<Direction>) -> Result<Asked, DriverError> {
    let mut words = command.split_ascii_whitespace();
    let base = words.next().ok_or(DriverError::Empty)?;
    let Some(operator) = Operator::of_base(base) else {
        return Err(if is_untuned(base) {
            DriverError::Unsupported(cut(base))
        } else {
            DriverError::UnknownBase(cut(base))
        });
    };
    let words: Vec<&str> = words.collect();
    let flags = if operator.flags.is_empty() { &[] } else { words.as_slice() };
    let flags = Flags::read(operator.flags, base, flags)?;
    let command = Command { base, words, flags, implied };
    let problems = (operator.parse)(&command)?;
    Ok(Asked { problems, left_aside: command.flags.left_aside(), filled_up: command.flags.filled_up() })
}

/// [`read`], for those who do not ask what was left aside.
///
/// # Errors
/// The same.
pub fn parse(command: &str, implied: Option<Direction>) -> Result<Vec<Problem>, DriverError> {
    read(command, implied).map(|asked| asked.problems)
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
}
