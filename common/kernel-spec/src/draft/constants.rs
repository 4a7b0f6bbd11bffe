//! Constants of Triton's kernels in a draft: what an autotuner tries, what a signature says, and guesses by names.

use std::fmt::Write as _;

use super::python::is_fraction;
use super::{Kernel, Parameter, ParameterKind};

/// What the words before a name's first `_` are of names that say yes or no.
const BOOLS: [&str; 16] = [
    "use",
    "has",
    "is",
    "even",
    "do",
    "with",
    "no",
    "need",
    "causal",
    "transpose",
    "trans",
    "store",
    "apply",
    "enable",
    "return",
    "allow",
];

/// A constant's value in a spec.
enum Value {
    /// A param with one value, which others may join.
    Param(String),
    /// A constant with its kind.
    Constant(String),
}

/// Writes the params and constants of `kernel`: its autotuner's configs as a list of points, and the others.
pub(super) fn write(text: &mut String, kernel: &Kernel) -> std::fmt::Result {
    let names: Vec<&str> = kernel.configs.iter().flatten().map(|(name, _)| name.as_str()).collect();
    let mut constants = String::new();
    let mut params = Vec::new();
    for Parameter { name, kind, .. } in &kernel.parameters {
        let ParameterKind::Constant { default } = kind else { continue };
        if names.contains(&name.as_str()) {
            continue;
        }
        let said = default.as_deref().and_then(value);
        let is_guess = said.is_none();
        match said.unwrap_or_else(|| guess(name)) {
            Value::Param(value) => params.push((name, value, is_guess)),
            Value::Constant(value) => {
                writeln!(constants, "  {name} = {value}{}", if is_guess { "  # a guess" } else { "" })?;
            }
        }
    }
    // A list of points has no params beside it.
    if kernel.configs.is_empty() {
        for (name, value, is_guess) in params {
            let remark = if is_guess { "a guess; those that are tried" } else { "those that are tried" };
            writeln!(
                text,
                "  [[solver.param]]\n  name = \"{name}\"\n  values = [{value}]  # {remark}\n  default = {value}"
            )?;
        }
    } else {
        writeln!(text, "points = [  # what @triton.autotune tries")?;
        for config in &kernel.configs {
            let values: Vec<String> = config.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            writeln!(text, "  {{ {} }},", values.join(", "))?;
        }
        writeln!(text, "]")?;
        for (name, value, is_guess) in params {
            writeln!(constants, "  {name} = {value}{}", if is_guess { "  # a guess" } else { "" })?;
        }
    }
    if !constants.is_empty() {
        write!(text, "  [solver.constants]\n{constants}")?;
    }
    Ok(())
}

/// What a default of Python's is in a spec; `None` for one that is computed.
fn value(default: &str) -> Option<Value> {
    let text = default.trim();
    let quoted = |quote: char| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    if let Some(inner) = quoted('"').or_else(|| quoted('\'')) {
        return Some(Value::Constant(format!("{inner:?}")));
    }
    if let Some(name) = text.strip_prefix("tl.") {
        let short = name.replace("bfloat", "bf").replace("float", "fp");
        let is_type =
            short.starts_with("fp") || short.starts_with("bf") || short.trim_start_matches('u').starts_with("int");
        return is_type.then(|| Value::Constant(format!("{{ dtype = \"{short}\" }}")));
    }
    match text {
        "True" => Some(Value::Constant("true".to_string())),
        "False" => Some(Value::Constant("false".to_string())),
        "None" => Some(Value::Constant("{ none = true }".to_string())),
        _ if text.parse::<i64>().is_ok() => Some(Value::Param(text.to_string())),
        _ => text
            .parse::<f64>()
            .ok()
            .filter(|value| value.is_finite())
            .map(|value| Value::Constant(format!("{value:?}"))),
    }
}

/// By the name alone.
fn guess(name: &str) -> Value {
    let plain = name.to_lowercase();
    let first = plain.split('_').find(|word| !word.is_empty()).unwrap_or_default();
    match () {
        () if plain.contains("dtype") => Value::Constant("{ dtype = \"fp32\" }".to_string()),
        () if BOOLS.contains(&first) || plain.contains("_is_") => Value::Constant("false".to_string()),
        () if is_fraction(name) => Value::Constant("1.0".to_string()),
        () if first == "group" => Value::Param("8".to_string()),
        () => Value::Param("128".to_string()),
    }
}

/// The param by which a program's part of the work is long, if there is just one of its kind.
pub(super) fn block(kernel: &Kernel) -> Option<&str> {
    let is_param = |name: &str, default: Option<&String>| match kernel.configs.first() {
        Some(config) => config.iter().any(|(of, _)| of == name),
        None => matches!(default.and_then(|default| value(default)).unwrap_or_else(|| guess(name)), Value::Param(_)),
    };
    let mut blocks = kernel.parameters.iter().filter_map(|one| match &one.kind {
        ParameterKind::Constant { default } => {
            let name = one.name.as_str();
            (name.to_lowercase().contains("block") && is_param(name, default.as_ref())).then_some(name)
        }
        _ => None,
    });
    blocks.next().filter(|_| blocks.next().is_none())
}

/// The last stride of each tensor: of neighbours whose names differ in their last letter, `stride_am, stride_ak`. It is 1 as a rule.
pub(super) fn unit_strides(kernel: &Kernel) -> Vec<&str> {
    let tensor = |name: &str| {
        let mut letters = name.chars();
        letters.next_back();
        name.to_lowercase().contains("stride").then(|| letters.as_str().to_string())
    };
    let numbers = kernel.parameters.iter().filter(|one| matches!(one.kind, ParameterKind::I32 | ParameterKind::I64));
    let names: Vec<&str> = numbers.map(|one| one.name.as_str()).collect();
    let of = |at: usize| names.get(at).and_then(|name| tensor(name));
    let is_last = |at: &usize| {
        let own = of(*at);
        own.is_some() && of(at + 1) != own && at.checked_sub(1).is_some_and(|before| of(before) == own)
    };
    (0..names.len()).filter(is_last).filter_map(|at| names.get(at).copied()).collect()
}
