//! Problems that are a name with sizes: of users' own kernels, and of operators that are no part of bluefin.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::command::{Command, DriverError};
use super::{Operation, Operator, Problem, ProblemError};
use crate::value::Value;

pub(super) static OPERATOR: Operator = Operator {
    word: "kernel",
    problems: "kernels of your own",
    in_miopen: false,
    variables: &[],
    is_base: |base| base == "kernel",
    flags: &[],
    parse,
};

const MAX_NAME: usize = 64;
const MAX_SIZES: usize = 64;

/// What is computed, by a name that kernel specs have, with the sizes that these leave open.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct KernelProblem {
    /// Name of the spec, or the word of its `problem`: 1 to 64 of `a-z 0-9 -`.
    pub kernel: String,
    /// By name, an identifier each; at most 64. A text is a word that is neither a number nor a truth value, as names of types
    /// and layouts are.
    pub sizes: BTreeMap<String, Value>,
}

/// The same fields before they are checked.
#[derive(Deserialize)]
struct Unchecked {
    kernel: String,
    sizes: BTreeMap<String, Value>,
}

impl TryFrom<Unchecked> for KernelProblem {
    type Error = ProblemError;

    fn try_from(fields: Unchecked) -> Result<Self, Self::Error> {
        Self::new(fields.kernel, fields.sizes)
    }
}

impl KernelProblem {
    /// Checks names and texts: they are words of the canonical form, so they hold no space and no `=`.
    ///
    /// # Errors
    /// A kernel name outside `[a-z0-9-]+`, a size name that is no identifier, a text that reads as something else, or too much of
    /// any.
    pub fn new(kernel: String, sizes: BTreeMap<String, Value>) -> Result<Self, ProblemError> {
        let quoted = |text: &str| format!("{:?}", text.chars().take(MAX_NAME).collect::<String>());
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if kernel.is_empty() || kernel.len() > MAX_NAME || !kernel.chars().all(plain) {
            let expected = format!("1 to {MAX_NAME} of a-z, 0-9 and -");
            return Err(ProblemError::new("kernel name", quoted(&kernel), expected));
        }
        if sizes.len() > MAX_SIZES {
            return Err(ProblemError::new("sizes", sizes.len(), format!("at most {MAX_SIZES}")));
        }
        for (name, size) in &sizes {
            let identifier = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            if !identifier || name.len() > MAX_NAME {
                let expected = format!("an identifier of at most {MAX_NAME} characters");
                return Err(ProblemError::new("size name", quoted(name), expected));
            }
            if let Value::Text(text) = size
                && read_size(text).as_ref() != Some(size)
            {
                let expected = format!("a number, true, false, or a word of at most {MAX_NAME} of A-Z a-z 0-9 _ . -");
                return Err(ProblemError::new("size", quoted(text), expected));
            }
        }
        Ok(Self { kernel, sizes })
    }
}

/// A size as it is written: a number, `true`, `false`, or a word that begins with a letter.
#[must_use]
pub fn read_size(text: &str) -> Option<Value> {
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.len() <= MAX_NAME
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'));
    match text {
        "true" => Some(Value::Bool(true)),
        "false" => Some(Value::Bool(false)),
        _ if is_word => Some(Value::Text(text.to_string())),
        _ => text.parse().ok().map(Value::Int),
    }
}

impl Operation for KernelProblem {
    fn operator(&self) -> &'static Operator {
        &OPERATOR
    }

    /// `kernel NAME a=1 b=2`, the sizes by name.
    fn canonical(&self) -> String {
        let mut text = format!("kernel {}", self.kernel);
        for (name, size) in &self.sizes {
            // Writing to a String cannot fail.
            let _ = write!(text, " {name}={size}");
        }
        text
    }

    /// The sizes, by their names.
    fn variables(&self) -> BTreeMap<String, Value> {
        self.sizes.clone()
    }

    fn kind(&self) -> String {
        format!("kernel {}", self.kernel)
    }
}

/// `NAME a=1 b=FP16`; as with flags, the last of equal names counts.
fn parse(command: &Command<'_>) -> Result<Vec<Problem>, DriverError> {
    let mut words = command.words.iter();
    let name = words.next().ok_or(DriverError::MissingValue { flag: "kernel".to_string() })?;
    let mut sizes = BTreeMap::new();
    for word in words {
        let wrong = || DriverError::value("size", word, "NAME=VALUE, a whole number, true, false or a word");
        let (size, value) = word.split_once('=').ok_or_else(wrong)?;
        sizes.insert(size.to_string(), read_size(value).ok_or_else(wrong)?);
    }
    Ok(vec![Problem::Kernel(KernelProblem::new(name.to_string(), sizes)?)])
}

#[cfg(test)]
mod tests {
    use super::super as problem;
    use super::*;

    #[test]
    fn names_cannot_forge_another_problem() {
        let new =
            |kernel: &str, size: &str| KernelProblem::new(kernel.into(), [(size.to_string(), 1_i64.into())].into());
        assert_eq!(new("saxpy", "n").unwrap().canonical(), "kernel saxpy n=1");
        for (kernel, size) in [("saxpy a=1", "n"), ("", "n"), ("Saxpy", "n"), ("saxpy", "n=1"), ("saxpy", "1n")] {
            assert!(new(kernel, size).is_err(), "{kernel} {size}");
        }
        for text in ["", "1", "-1", "true", "a b", "a=b", "FP16\n", "+1"] {
            let sizes = [("n".to_string(), Value::Text(text.to_string()))];
            assert!(KernelProblem::new("saxpy".to_string(), sizes.into()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn kernels_are_commands_too() {
        let read =
            |command| problem::parse(command, None).map(|problems| problems.iter().map(Problem::canonical).collect());
        let ok = |text: &str| Ok(vec![text.to_string()]);
        assert_eq!(read("kernel saxpy n=1 m=-2 n=3"), ok("kernel saxpy m=-2 n=3"));
        assert_eq!(read("kernel rope type=BF16 wide=true n=3"), ok("kernel rope n=3 type=BF16 wide=true"));
        for wrong in ["kernel", "kernel saxpy n", "kernel saxpy n=1.5", "kernel saxpy n=", "kernel Saxpy"] {
            assert!(problem::parse(wrong, None).is_err(), "{wrong}");
        }
    }
}
