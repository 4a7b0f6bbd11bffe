//! Expressions of a spec: integers, texts and truth values, parsed once when the spec is loaded.
//!
//! Specs come from users, so the language is fenced in before the parser sees a byte: [`gate`] admits only literals,
//! known names, a few operators and functions, and bounds length and nesting. What is left cannot loop, assign, print or
//! call anything else.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use rhai::{AST, Dynamic, Engine, EvalAltResult, ImmutableString, OptimizationLevel};

use crate::error::SpecError;
use crate::place::FieldPlace;
use bluefin_common::value::Value;

const MAX_LENGTH: usize = 1024;
pub(crate) const MAX_DEPTH: usize = 32;
/// Operators and functions in one expression: their nesting is recursion in the parser.
const MAX_OPERATORS: usize = 128;
const MAX_DIGITS: usize = 18;
/// The same of a number with a fraction: the smallest of 32 bits has 46.
const MAX_FRACTION: usize = 64;
/// Longest text that a literal or a variable can hold.
pub(super) const MAX_TEXT: usize = 64;

const FUNCTIONS: [&str; 5] = ["min", "max", "ceil_div", "round_up", "gcd"];
const KEYWORDS: [&str; 4] = ["if", "else", "true", "false"];
const OPERATORS: [&str; 17] =
    ["&&", "||", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "<", ">", "!", "(", ")", ","];

type Checked<T> = Result<T, Box<EvalAltResult>>;

/// Values by name, in the form in which expressions are evaluated.
pub(super) type Values = rhai::Scope<'static>;

/// A parsed expression and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Expression {
    place: FieldPlace,
    text: String,
    ast: AST,
}

impl Expression {
    /// Parses `text`, in which the names of `known` may occur.
    pub(super) fn parse(text: &str, place: FieldPlace, known: &BTreeSet<String>) -> Result<Self, SpecError> {
        let fail = |reason: String| SpecError::Expression {
            place: place.clone(),
            expression: text.chars().take(200).collect(),
            reason,
        };
        gate(text, known).map_err(fail)?;
        let ast = engine().compile_expression(text).map_err(|error| fail(error.to_string()))?;
        Ok(Self { place, text: text.to_string(), ast })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn place(&self) -> &FieldPlace {
        &self.place
    }

    /// Whether all names in it are among `names`.
    pub(super) fn knows(&self, names: &BTreeSet<String>) -> bool {
        gate(&self.text, names).is_ok()
    }

    /// An error of this expression's value.
    pub(super) fn error(&self, reason: impl Into<String>) -> SpecError {
        SpecError::Expression { place: self.place.clone(), expression: self.text.clone(), reason: reason.into() }
    }

    fn dynamic(&self, values: &mut Values) -> Result<Dynamic, SpecError> {
        let result = engine().eval_ast_with_scope::<Dynamic>(values, &self.ast);
        result.map_err(|error| self.error(error.to_string().chars().take(300).collect::<String>()))
    }

    pub(super) fn value(&self, values: &mut Values) -> Result<Value, SpecError> {
        let value = self.dynamic(values)?;
        if let Ok(int) = value.as_int() {
            Ok(Value::Int(int))
        } else if let Ok(bool) = value.as_bool() {
            Ok(Value::Bool(bool))
        } else if value.is_string() {
            Ok(Value::Text(value.to_string()))
        } else {
            Err(self.error(format!("found {}, expected an integer, a text or a bool", kind(&value))))
        }
    }

    pub(super) fn int(&self, values: &mut Values) -> Result<i64, SpecError> {
        let value = self.dynamic(values)?;
        value.as_int().map_err(|_| self.error(format!("found {}, expected an integer", kind(&value))))
    }

    /// An integer from `least` to `most`.
    pub(super) fn bounded(&self, values: &mut Values, least: u64, most: u64) -> Result<u64, SpecError> {
        let found = self.int(values)?;
        match u64::try_from(found) {
            Ok(value) if (least..=most).contains(&value) => Ok(value),
            _ => Err(self.error(format!("found {found}, expected {least} to {most}"))),
        }
    }

    pub(super) fn float(&self, values: &mut Values) -> Result<f64, SpecError> {
        let value = self.dynamic(values)?;
        // Integers beyond 2^53 lose their last bits, as they would in a float argument of any language.
        let found = value.as_int().map(|int| int as f64).or_else(|_| value.as_float());
        match found {
            Ok(found) if found.is_finite() => Ok(found),
            Ok(found) => Err(self.error(format!("found {found}, expected a finite number"))),
            Err(_) => Err(self.error(format!("found {}, expected a number", kind(&value)))),
        }
    }

    pub(super) fn bool(&self, values: &mut Values) -> Result<bool, SpecError> {
        let value = self.dynamic(values)?;
        value.as_bool().map_err(|_| self.error(format!("found {}, expected a bool", kind(&value))))
    }
}

fn kind(value: &Dynamic) -> String {
    match value.type_name() {
        "i64" => format!("the integer {value}"),
        "f64" => format!("the float {value}"),
        "bool" => format!("the bool {value}"),
        "string" => format!("the text {:?}", value.to_string()),
        "()" => "nothing (an if without else)".to_string(),
        other => other.to_string(),
    }
}

/// Adds `name` to `values`.
pub(super) fn push(values: &mut Values, name: &str, value: &Value) {
    match value {
        Value::Int(int) => values.push(name, *int),
        Value::Bool(bool) => values.push(name, *bool),
        Value::Text(text) => values.push(name, ImmutableString::from(text.as_str())),
    };
}

/// Whether expressions can use `name` as a variable: an identifier that means nothing else.
pub(super) fn is_name(name: &str) -> bool {
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && name.bytes().any(|b| b.is_ascii_alphabetic())
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.len() <= MAX_TEXT;
    let free = !FUNCTIONS.contains(&name) && !KEYWORDS.contains(&name);
    // The parser's own reserved words do not compile as a variable.
    plain && free && engine().compile_expression(name).is_ok()
}

/// The whole number that an expression without variables is.
pub(super) fn number(text: &str) -> Option<i64> {
    gate(text, &BTreeSet::new()).ok()?;
    engine().eval_expression(text).ok()
}

/// Admits what an expression may consist of, names what it may not.
fn gate(text: &str, known: &BTreeSet<String>) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err("found nothing, expected an expression".to_string());
    }
    if text.len() > MAX_LENGTH {
        return Err(format!("found {} bytes, expected at most {MAX_LENGTH}", text.len()));
    }
    let (mut rest, mut depth, mut operators) = (text, 0_usize, 0_usize);
    while let Some(first) = rest.chars().next() {
        let word_end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let taken = if first.is_ascii_whitespace() {
            1
        } else if first == '"' {
            let end = rest[1..].find('"').ok_or("a text without its closing quote")?;
            let inside = &rest[1..=end];
            if inside.len() > MAX_TEXT || !inside.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'\\') {
                return Err(format!("a text that is not 0 to {MAX_TEXT} printable characters without \\"));
            }
            end + 2
        } else if first.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let number = &rest[..end];
            let next_is_word = rest[end..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
            let points = number.matches('.').count();
            let most = if points == 0 { MAX_DIGITS } else { MAX_FRACTION };
            if next_is_word || number.len() > most || points > 1 || number.ends_with('.') {
                return Err(format!(
                    "found {:?}, expected a decimal number of at most {MAX_DIGITS} digits",
                    &rest[..end.max(word_end)]
                ));
            }
            end
        } else if word_end > 0 {
            let word = &rest[..word_end];
            let is_call = rest[word_end..].trim_start().starts_with('(');
            if is_call && !KEYWORDS.contains(&word) {
                if !FUNCTIONS.contains(&word) {
                    return Err(format!("unknown function {word}, expected one of {}", FUNCTIONS.join(" ")));
                }
                operators += 1;
            } else if !KEYWORDS.contains(&word) && !known.contains(word) {
                let names: Vec<&str> = known.iter().map(String::as_str).collect();
                return Err(format!("unknown variable {word}, expected one of {}", names.join(" ")));
            }
            word_end
        } else if matches!(first, '(' | '{') {
            depth += 1;
            1
        } else if matches!(first, ')' | '}') {
            depth = depth.saturating_sub(1);
            1
        } else {
            let operator = OPERATORS.iter().find(|operator| rest.starts_with(**operator));
            let operator =
                operator.ok_or_else(|| format!("unexpected {first:?}, expected one of {}", OPERATORS.join(" ")))?;
            // Two operators in a row would make one that is not admitted, such as `**`, or open a comment.
            let run: String = rest.chars().take_while(|c| "&|=<>+*/%".contains(*c)).collect();
            if run.len() > operator.len() {
                return Err(format!("unexpected operator {run:?}, expected one of {}", OPERATORS.join(" ")));
            }
            operators += usize::from(*operator != ",");
            operator.len()
        };
        if depth > MAX_DEPTH {
            return Err(format!("brackets nested deeper than {MAX_DEPTH}"));
        }
        if operators > MAX_OPERATORS {
            return Err(format!("more than {MAX_OPERATORS} operators"));
        }
        rest = &rest[taken..];
    }
    Ok(())
}

/// The evaluator: nothing but checked arithmetic, comparisons and our five functions.
fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let mut engine = Engine::new_raw();
        engine
            .set_optimization_level(OptimizationLevel::None)
            // Else the comparisons below would be bypassed.
            .set_fast_operators(false)
            .set_max_expr_depths(MAX_OPERATORS + 2 * MAX_DEPTH)
            .set_max_operations(10_000)
            .set_max_string_size(2 * MAX_TEXT);
        engine
            .register_fn("-", |a: i64| a.checked_neg().ok_or_else(|| overflow("-")))
            .register_fn("-", |a: f64| -a)
            .register_fn("!", |a: bool| !a)
            .register_fn("min", |a: i64, b: i64| a.min(b))
            .register_fn("max", |a: i64, b: i64| a.max(b))
            .register_fn("ceil_div", ceil_div)
            .register_fn("round_up", |a: i64, b: i64| {
                ceil_div(a, b)?.checked_mul(b).ok_or_else(|| overflow("round_up"))
            })
            .register_fn("gcd", gcd);
        // Values of different types are never equal: a comparison of them is a mistake, so it is an error.
        for name in ["==", "!="] {
            engine
                .register_fn(name, |_: i64, _: ImmutableString| mixed("an integer", "a text"))
                .register_fn(name, |_: ImmutableString, _: i64| mixed("a text", "an integer"))
                .register_fn(name, |_: i64, _: bool| mixed("an integer", "a bool"))
                .register_fn(name, |_: bool, _: i64| mixed("a bool", "an integer"))
                .register_fn(name, |_: bool, _: ImmutableString| mixed("a bool", "a text"))
                .register_fn(name, |_: ImmutableString, _: bool| mixed("a text", "a bool"));
        }
        engine
    })
}

fn ceil_div(a: i64, b: i64) -> Checked<i64> {
    if b <= 0 {
        return Err(format!("ceil_div or round_up by {b}, expected more than 0").into());
    }
    Ok(a.div_euclid(b) + i64::from(a.rem_euclid(b) != 0))
}

/// The greatest common divisor; that of zero and another number is the other.
fn gcd(a: i64, b: i64) -> Checked<i64> {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).map_err(|_| overflow("gcd"))
}

fn overflow(what: &str) -> Box<EvalAltResult> {
    format!("overflow in {what}").into()
}

fn mixed(left: &str, right: &str) -> Checked<bool> {
    Err(format!("compares {left} with {right}").into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn place() -> FieldPlace {
        FieldPlace { spec: "test".into(), field: "f".to_string(), line: 1 }
    }

    fn run(text: &str) -> Result<Value, String> {
        let mut values = Values::new();
        for (name, value) in
            [("n", Value::Int(7)), ("big", Value::Int(i64::MAX)), ("t", Value::from("NCHW")), ("b", Value::Bool(true))]
        {
            push(&mut values, name, &value);
        }
        let known = ["n", "big", "t", "b"].into_iter().map(String::from).collect();
        let expression = Expression::parse(text, place(), &known).map_err(|error| error.to_string())?;
        expression.value(&mut values).map_err(|error| error.to_string())
    }

    #[test]
    fn computes() {
        for (text, value) in [
            ("n * 2 + 1", Value::Int(15)),
            ("-n % 4", Value::Int(-3)),
            ("ceil_div(n, 2) * round_up(n, 4)", Value::Int(32)),
            ("gcd(n * 12, 8) + gcd(0, n) * 10 + gcd(-6, 4) * 100", Value::Int(274)),
            ("min(n, 3) + max(n, 3)", Value::Int(10)),
            ("if b { n } else { 0 }", Value::Int(7)),
            ("if n > 3 { 1 } else if b { 2 } else { 3 }", Value::Int(1)),
            ("t == \"NCHW\" && !(n == 3) || false", Value::Bool(true)),
            ("t", Value::from("NCHW")),
            ("b || n / 0 == 1", Value::Bool(true)),
            ("b == true", Value::Bool(true)),
            ("t != \"NHWC\"", Value::Bool(true)),
        ] {
            assert_eq!(run(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn mistakes_name_the_field_and_the_expression() {
        for (text, reason) in [
            ("big + 1", "overflow"),
            ("big * big", "overflow"),
            ("n / 0", "zero"),
            ("n % 0", "zero"),
            ("ceil_div(n, 0)", "expected more than 0"),
            ("round_up(big, 1000)", "overflow"),
            ("gcd(-big - 1, 0)", "overflow in gcd"),
            ("n + t", "+"),
            ("n && b", "bool"),
            ("n == t", "compares an integer with a text"),
            ("if !b { n }", "else"),
            ("m + 1", "unknown variable m"),
            ("len(t)", "unknown function len"),
            ("eval(t)", "unknown function eval"),
            ("print(t)", "unknown function print"),
            ("let x = 3", "unknown variable let"),
            ("n = 3", "unexpected"),
            ("n ** 2", "unexpected"),
            ("n << 2", "unexpected"),
            ("n += 2", "unexpected"),
            ("n; n", "unexpected"),
            ("t.len", "unexpected"),
            ("[n]", "unexpected"),
            ("`${n}`", "unexpected"),
            ("\"a", "closing quote"),
            ("0x10", "decimal number"),
            ("99999999999999999999", "decimal number"),
            ("n n", ""),
            ("n +", ""),
            ("(n", ""),
            ("", "found nothing"),
            ("1.5", "float"),
        ] {
            let error = run(text).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
            assert!(error.contains("kernel spec test, line 1: f") && error.contains(text), "{error}");
        }
    }

    #[test]
    fn depth_is_bounded_before_the_parser() {
        let nest = |count: usize| format!("{}n{}", "(".repeat(count), ")".repeat(count));
        assert_eq!(run(&nest(MAX_DEPTH)), Ok(Value::Int(7)));
        assert!(run(&nest(MAX_DEPTH + 1)).expect_err("deep").contains("nested deeper"));
        assert_eq!(run(&format!("n{}", "+n".repeat(MAX_OPERATORS))), Ok(Value::Int(7 * 129)));
        assert!(run(&format!("n{}", "+n".repeat(MAX_OPERATORS + 1))).expect_err("long").contains("operators"));
        assert!(run(&"!".repeat(1000)).is_err());
        assert!(run(&format!("{}b", "! ".repeat(MAX_OPERATORS))).is_ok());
        assert!(run(&" ".repeat(2000)).is_err());
    }

    #[test]
    fn reserved_words_are_no_names() {
        for name in ["n", "TILE_M", "_a", "fx"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "_", "1a", "if", "min", "true", "fn", "this", "while", "in", "a-b", "a b", "é", "eval"] {
            assert!(!is_name(name), "{name}");
        }
    }

    proptest! {
        /// Whatever the text is, it is a value or an error, and never a panic or an endless loop.
        #[test]
        fn any_text_is_a_value_or_an_error(text in "[nbt0-9+*/%<>=!&|(){},\" a-z.-]{0,80}") {
            let _ = run(&text);
        }

        #[test]
        fn any_unicode_is_a_value_or_an_error(text in "\\PC{0,40}") {
            let _ = run(&text);
        }

        #[test]
        fn integers_print_and_parse(a in 0..1_000_000_000_i64, b in 1..1_000_000_i64) {
            prop_assert_eq!(run(&format!("ceil_div({a}, {b})")), Ok(Value::Int((a + b - 1) / b)));
            prop_assert_eq!(run(&format!("{a} - {b}")), Ok(Value::Int(a - b)));
        }
    }
}
