//! Conditions of a spec: expressions that are true or false, and what can be said of one that is false.

use std::collections::BTreeSet;
use std::fmt;

use crate::error::SpecError;
use crate::expression::{Expression, Values};
use crate::place::FieldPlace;

/// Most characters of a condition, and most of its variables, that are told.
const MAX_TOLD: usize = 120;
const MAX_VALUES: usize = 6;

/// An expression that is true or false, and the parts that have to hold one and all for it to be true.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    whole: Expression,
    parts: Vec<Expression>,
}

impl Condition {
    pub(super) fn parse(text: &str, place: FieldPlace, known: &BTreeSet<String>) -> Result<Self, SpecError> {
        let whole = Expression::parse(text, place.clone(), known)?;
        let parts = conjuncts(text).into_iter().map(|part| Expression::parse(part, place.clone(), known));
        let parts = parts.collect::<Result<_, _>>().unwrap_or_else(|_| vec![whole.clone()]);
        Ok(Self { whole, parts })
    }

    pub(super) fn text(&self) -> &str {
        self.whole.text()
    }

    pub(super) fn holds(&self, values: &mut Values) -> Result<bool, SpecError> {
        self.whole.bool(values)
    }

    /// The first part that is false, and how many are; `None` if the condition holds. A part without a value, which one
    /// before it may have guarded, counts as false.
    pub(super) fn failure(&self, values: &mut Values) -> Option<(Unmet, usize)> {
        let failing: Vec<&Expression> = self.parts.iter().filter(|part| !part.bool(values).unwrap_or(false)).collect();
        Some((Unmet::new(failing.first()?.text(), values), failing.len()))
    }
}

/// A condition that is false, and the values that make it so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    pub condition: String,
    /// Its variables, in the order in which they occur.
    pub values: Vec<(String, String)>,
}

impl Unmet {
    fn new(text: &str, values: &Values) -> Self {
        let mut found: Vec<(String, String)> = Vec::new();
        for (_, word) in tokens(text) {
            if let Some(value) = values.get(word)
                && !found.iter().any(|(name, _)| name == word)
            {
                found.push((word.to_string(), value.to_string()));
            }
        }
        // One in several lines is told in one.
        Self { condition: text.split_whitespace().collect::<Vec<_>>().join(" "), values: found }
    }
}

/// `in_type == "FP32" (in_type is BFP16)`
impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.condition.char_indices().nth(MAX_TOLD) {
            Some((end, _)) => write!(f, "{}…", &self.condition[..end])?,
            None => f.write_str(&self.condition)?,
        }
        if self.values.is_empty() {
            return Ok(());
        }
        let told = self.values.iter().take(MAX_VALUES).map(|(name, value)| format!("{name} is {value}"));
        let more = if self.values.len() > MAX_VALUES { ", …" } else { "" };
        write!(f, " ({}{more})", told.collect::<Vec<_>>().join(", "))
    }
}

/// The parts between the `&&` of `text` that are in no brackets: all of it where it is no conjunction.
fn conjuncts(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (at, token) in tokens(text) {
        match token {
            "(" | "{" => depth += 1,
            ")" | "}" => depth = depth.saturating_sub(1),
            // These bind less than `&&` does.
            "||" | "if" if depth == 0 => return vec![text],
            "&&" if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + token.len();
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

/// Words, quoted texts and operators, each with where it begins.
fn tokens(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = &text[at..];
        let first = rest.chars().next()?;
        let length = match first {
            '"' => rest[1..].find('"').map_or(rest.len(), |end| end + 2),
            '&' | '|' if rest[1..].starts_with(first) => 2,
            _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let token = (at, &rest[..length]);
        at += length;
        Some(token)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::push;
    use bluefin_common::value::Value;

    #[test]
    fn a_conjunction_has_parts() {
        for (text, parts) in [
            ("a", &["a"][..]),
            ("a && b == 1 && !c", &["a", "b == 1", "!c"]),
            ("a \n  && (b || c && d)", &["a", "(b || c && d)"]),
            ("a && b || c", &["a && b || c"]),
            ("if a && b { c } else { d } && e", &["if a && b { c } else { d } && e"]),
            ("a && (if b && c { 1 } else { 2 }) == 1", &["a", "(if b && c { 1 } else { 2 }) == 1"]),
            ("t == \"x && y\" && b", &["t == \"x && y\"", "b"]),
        ] {
            assert_eq!(conjuncts(text), parts, "{text}");
        }
    }

    #[test]
    fn the_first_part_that_fails_is_told_with_its_values() {
        let mut values = Values::new();
        for (name, value) in [("n", Value::Int(7)), ("zero", Value::Int(0)), ("t", Value::from("NHWC"))] {
            push(&mut values, name, &value);
        }
        let known = ["n", "zero", "t"].into_iter().map(String::from).collect();
        let mut failure = |text: &str| {
            let place = FieldPlace { spec: "test".into(), field: "f".to_string(), line: 1 };
            let condition = Condition::parse(text, place, &known).unwrap();
            condition.failure(&mut values).map(|(unmet, count)| (unmet.to_string(), count))
        };
        assert_eq!(failure("n == 7 && t != \"NCHW\""), None);
        let text = "n == 7 && (t == \"NCHW\"\n || min(n, zero) > n) && zero != 0 && n / zero > 1";
        let told = "(t == \"NCHW\" || min(n, zero) > n) (t is NHWC, n is 7, zero is 0)";
        assert_eq!(failure(text), Some((told.to_string(), 3)));
        assert_eq!(failure("false"), Some(("false".to_string(), 1)));
        let (long, _) = failure(&format!("n == 1{}", " || n == 1".repeat(50))).unwrap();
        assert!(long.chars().count() < 150 && long.ends_with("… (n is 7)"), "{long}");
    }
}
