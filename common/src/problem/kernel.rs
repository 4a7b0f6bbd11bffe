//! Users' own kernels: a name and sizes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::ProblemError;
use crate::value::Value;

const MAX_NAME: usize = 64;
const MAX_SIZES: usize = 64;

/// A kernel by the name of its spec, with the sizes that the spec leaves open.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct KernelProblem {
    /// Name of the spec: 1 to 64 of `a-z 0-9 -`.
    pub kernel: String,
    /// By name, an identifier each; at most 64.
    pub sizes: BTreeMap<String, i64>,
}

/// The same fields before they are checked.
#[derive(Deserialize)]
struct Unchecked {
    kernel: String,
    sizes: BTreeMap<String, i64>,
}

impl TryFrom<Unchecked> for KernelProblem {
    type Error = ProblemError;

    fn try_from(fields: Unchecked) -> Result<Self, Self::Error> {
        Self::new(fields.kernel, fields.sizes)
    }
}

impl KernelProblem {
    /// Checks the names: they are words of the canonical form, so they hold no space and no `=`.
    ///
    /// # Errors
    /// A kernel name outside `[a-z0-9-]+`, a size name that is no identifier, or too much of either.
    pub fn new(kernel: String, sizes: BTreeMap<String, i64>) -> Result<Self, ProblemError> {
        let quoted = |text: &str| format!("{:?}", text.chars().take(MAX_NAME).collect::<String>());
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if kernel.is_empty() || kernel.len() > MAX_NAME || !kernel.chars().all(plain) {
            let expected = format!("1 to {MAX_NAME} of a-z, 0-9 and -");
            return Err(ProblemError::new("kernel name", quoted(&kernel), expected));
        }
        if sizes.len() > MAX_SIZES {
            return Err(ProblemError::new("sizes", sizes.len(), format!("at most {MAX_SIZES}")));
        }
        for name in sizes.keys() {
            let identifier = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            if !identifier || name.len() > MAX_NAME {
                let expected = format!("an identifier of at most {MAX_NAME} characters");
                return Err(ProblemError::new("size name", quoted(name), expected));
            }
        }
        Ok(Self { kernel, sizes })
    }

    /// `kernel NAME a=1 b=2`, the sizes by name.
    #[must_use]
    pub fn canonical(&self) -> String {
        let mut text = format!("kernel {}", self.kernel);
        for (name, size) in &self.sizes {
            // Writing to a String cannot fail.
            let _ = write!(text, " {name}={size}");
        }
        text
    }

    /// The sizes, by their names.
    #[must_use]
    pub fn variables(&self) -> BTreeMap<String, Value> {
        self.sizes.iter().map(|(name, size)| (name.clone(), Value::Int(*size))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_forge_another_problem() {
        let new = |kernel: &str, size: &str| KernelProblem::new(kernel.into(), [(size.to_string(), 1)].into());
        assert_eq!(new("saxpy", "n").unwrap().canonical(), "kernel saxpy n=1");
        for (kernel, size) in [("saxpy a=1", "n"), ("", "n"), ("Saxpy", "n"), ("saxpy", "n=1"), ("saxpy", "1n")] {
            assert!(new(kernel, size).is_err(), "{kernel} {size}");
        }
    }
}
