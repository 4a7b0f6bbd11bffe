//! Shapes of aiter's operators, as its CSV files have them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::command::{Command, DriverError};
use super::{Operation, Operator, Problem, ProblemError};
use crate::value::Value;

pub(super) static OPERATOR: Operator = Operator {
    word: "aiter",
    problems: "shapes of aiter's operators",
    in_miopen: false,
    variables: &[],
    is_base: |base| base == "aiter",
    flags: &[],
    parse,
};

/// Characters of a name or a value.
const MAX_TEXT: usize = 128;
/// Columns of a shape; aiter's widest has 16.
const MAX_COLUMNS: usize = 64;

/// A shape of one of aiter's operators.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct AiterProblem {
    /// Name of the operator's family: `ck_gemm_a8w8`.
    pub family: String,
    /// Columns of the shape and their values, in the order of the operator's untuned file.
    pub shape: Vec<(String, String)>,
}

/// The same fields before they are checked.
#[derive(Deserialize)]
struct Unchecked {
    family: String,
    shape: Vec<(String, String)>,
}

impl TryFrom<Unchecked> for AiterProblem {
    type Error = ProblemError;

    fn try_from(fields: Unchecked) -> Result<Self, Self::Error> {
        Self::new(fields.family, fields.shape)
    }
}

impl AiterProblem {
    /// Checks that all of it are words of the canonical form.
    ///
    /// # Errors
    /// A name that is no identifier, a value that is empty or holds white space, a comma or a quote, or too much of either.
    pub fn new(family: String, shape: Vec<(String, String)>) -> Result<Self, ProblemError> {
        let quoted = |text: &str| format!("{:?}", text.chars().take(MAX_TEXT).collect::<String>());
        let identifier = |text: &str| {
            !text.is_empty() && text.len() <= MAX_TEXT && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        if !identifier(&family) {
            return Err(ProblemError::new("aiter family", quoted(&family), "letters, digits and _"));
        }
        if shape.is_empty() || shape.len() > MAX_COLUMNS {
            return Err(ProblemError::new("aiter shape", shape.len(), format!("1 to {MAX_COLUMNS} columns")));
        }
        for (index, (column, value)) in shape.iter().enumerate() {
            if !identifier(column) || shape.iter().take(index).any(|(earlier, _)| earlier == column) {
                return Err(ProblemError::new("aiter column", quoted(column), "a name of letters, digits and _, once"));
            }
            let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b',' | b'"' | b'\'');
            if value.is_empty() || value.len() > MAX_TEXT || !value.bytes().all(plain) {
                return Err(ProblemError::new("aiter value", quoted(value), "a word without commas and quotes"));
            }
        }
        Ok(Self { family, shape })
    }
}

impl Operation for AiterProblem {
    fn operator(&self) -> &'static Operator {
        &OPERATOR
    }

    /// `aiter FAMILY M=1 N=2 q_dtype_w=torch.int8`
    fn canonical(&self) -> String {
        let mut text = format!("aiter {}", self.family);
        for (column, value) in &self.shape {
            // Writing to a String cannot fail.
            let _ = write!(text, " {column}={value}");
        }
        text
    }

    fn kind(&self) -> String {
        format!("aiter {}", self.family)
    }

    /// The columns: whole numbers, and texts.
    fn variables(&self) -> BTreeMap<String, Value> {
        let value = |text: &String| text.parse().map_or_else(|_| Value::Text(text.clone()), Value::Int);
        self.shape.iter().map(|(column, text)| (column.clone(), value(text))).collect()
    }
}

/// `FAMILY M=1 q_dtype_w=torch.int8`
fn parse(command: &Command<'_>) -> Result<Vec<Problem>, DriverError> {
    let mut words = command.words.iter();
    let family = words.next().ok_or(DriverError::MissingValue { flag: "aiter".to_string() })?;
    let mut shape = Vec::new();
    for word in words {
        let (column, value) = word.split_once('=').ok_or_else(|| DriverError::value("column", word, "NAME=VALUE"))?;
        shape.push((column.to_string(), value.to_string()));
    }
    Ok(vec![Problem::Aiter(AiterProblem::new(family.to_string(), shape)?)])
}

#[cfg(test)]
mod tests {
    use super::super as problem;
    use super::*;

    #[test]
    fn shapes_are_commands_too() {
        let command = "aiter ck_gemm_a8w8 M=1 N=16 K=32 q_dtype_w=torch.int8";
        let problems = problem::parse(command, None).unwrap();
        assert_eq!(problems.iter().map(Problem::canonical).collect::<Vec<_>>(), [command]);
        for wrong in ["aiter", "aiter x", "aiter x M", "aiter x M=", "aiter x M=1 M=2"] {
            assert!(problem::parse(wrong, None).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_cannot_forge_another_problem() {
        let new = |family: &str, column: &str, value: &str| {
            AiterProblem::new(family.to_string(), vec![(column.to_string(), value.to_string())])
        };
        assert_eq!(
            new("gemm_a16w16", "dtype", "torch.bfloat16").unwrap().canonical(),
            "aiter gemm_a16w16 dtype=torch.bfloat16"
        );
        assert_eq!(new("x", "M", "64").unwrap().variables()["M"], Value::Int(64));
        for (family, column, value) in [
            ("", "M", "1"),
            ("a b", "M", "1"),
            ("a", "M=", "1"),
            ("a", "M", ""),
            ("a", "M", "1 N=2"),
            ("a", "M", "1,2"),
        ] {
            assert!(new(family, column, value).is_err(), "{family} {column} {value}");
        }
        let twice = vec![("M".to_string(), "1".to_string()); 2];
        assert!(AiterProblem::new("a".to_string(), twice).is_err());
    }
}
