//! A value of a problem's variable, as kernel specs see it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a variable of a spec expression, or a parameter of a tuning space, can hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Value {
    /// A 64-bit integer.
    Int(i64),
    /// A text, such as a layout or a type name.
    Text(String),
    /// A truth value.
    Bool(bool),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => write!(f, "{value}"),
            Self::Text(value) => f.write_str(value),
            Self::Bool(value) => write!(f, "{value}"),
        }
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Int(i64::from(value))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_string())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_without_decoration() {
        let printed: Vec<String> =
            [Value::from(-3_i64), Value::from("NCHW"), Value::from(true)].iter().map(Value::to_string).collect();
        assert_eq!(printed, ["-3", "NCHW", "true"]);
    }
}
