//! Values as a kernel spec's TOML has them, and as Triton's cache does.

use serde_json::{Value as Json, json};

use crate::captured::Typed;

/// A text in quotes. JSON's escapes are TOML's.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A number that TOML reads as one with a fraction.
pub(crate) fn float(value: f64) -> String {
    format!("{value:?}")
}

/// A value of a `tl.constexpr`, with its kind.
pub(crate) fn constant(value: &Typed) -> String {
    match value {
        Typed::Int(value) => value.to_string(),
        Typed::Float(value) => float(*value),
        Typed::Bool(value) => value.to_string(),
        Typed::Str(value) => quoted(value),
        Typed::None(_) => "{ none = true }".to_string(),
        Typed::Dtype(name) => format!("{{ dtype = {} }}", quoted(name)),
        Typed::Tuple(values) => {
            format!("[{}]", values.iter().map(constant).collect::<Vec<_>>().join(", "))
        }
    }
}

/// A value as Triton's cache has it; nothing for a type, which JSON has no word for.
pub(crate) fn plain(value: &Typed) -> Option<Json> {
    Some(match value {
        Typed::Int(value) => json!(value),
        Typed::Float(value) => json!(value),
        Typed::Bool(value) => json!(value),
        Typed::Str(value) => json!(value),
        Typed::None(_) => Json::Null,
        Typed::Tuple(parts) => Json::Array(parts.iter().map(plain).collect::<Option<_>>()?),
        Typed::Dtype(_) => return None,
    })
}

/// A value of a tuning space: what expressions can compare as well.
pub(crate) fn point(value: &Typed) -> Option<String> {
    match value {
        Typed::Int(value) => Some(value.to_string()),
        Typed::Bool(value) => Some(value.to_string()),
        Typed::Str(value) => Some(quoted(value)),
        Typed::None(_) => Some(quoted("None")),
        Typed::Float(_) | Typed::Dtype(_) | Typed::Tuple(_) => None,
    }
}
