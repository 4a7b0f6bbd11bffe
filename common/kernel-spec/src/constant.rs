//! Constants of a kernel's language, with their kind.

use bluefin_common::value::Value;
use serde::{Deserialize, Serialize};

use crate::format::{RawConstant, RawNamed};

/// The text that means Python's `None` where a value is chosen for a constexpr or a launch option.
const NONE: &str = "None";

/// A value as Python has it: what a `tl.constexpr` is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Constant {
    /// An `int`.
    Int(i64),
    /// A `float`, as a text that reads as the same number.
    Float(String),
    Bool(bool),
    /// A `str`.
    Text(String),
    Tuple(Vec<Constant>),
    /// A type of elements, by the name that the compiler has for it.
    Dtype(String),
    None,
}

impl Constant {
    /// What the spec says; `Err` with the text that names no type.
    pub(super) fn of(raw: &RawConstant) -> Result<Self, String> {
        Ok(match raw {
            RawConstant::Bool(bool) => Self::Bool(*bool),
            RawConstant::Int(int) => Self::Int(*int),
            RawConstant::Float(float) => Self::Float(format!("{float:?}")),
            RawConstant::Text(text) => Self::Text(text.clone()),
            RawConstant::Tuple(parts) => Self::Tuple(parts.iter().map(Self::of).collect::<Result<_, _>>()?),
            RawConstant::Named(RawNamed::Dtype(name)) => {
                let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
                if !plain || name.is_empty() || name.len() > 64 {
                    return Err(name.chars().take(80).collect());
                }
                Self::Dtype(name.clone())
            }
            RawConstant::Named(RawNamed::None(true)) => Self::None,
            RawConstant::Named(RawNamed::None(false)) => return Err("none = false".to_string()),
        })
    }

    /// What a param's value means beside the integers and texts that any toolchain has: a truth value, or none at all.
    pub(super) fn of_param(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(bool) => Some(Self::Bool(*bool)),
            Value::Text(text) if text == NONE => Some(Self::None),
            Value::Int(_) | Value::Text(_) => None,
        }
    }
}
