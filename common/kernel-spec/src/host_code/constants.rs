//! Numbers that a text gives to names, by macros and by constants.

use std::collections::BTreeMap;

use super::{Token, directives, is_word, take_apart};
use crate::expression::number;

/// Words of a value at most.
const MOST_WORDS: usize = 48;

/// A constant that is given a value.
pub(in super::super) struct Given<'a, 'b> {
    /// Where its name stands.
    pub(in super::super) at: usize,
    pub(in super::super) name: &'a str,
    pub(in super::super) value: &'b [Token<'a>],
}

/// The numbers that a text gives to names, by macros and by constants.
pub(in super::super) fn constants(text: &str) -> BTreeMap<String, i64> {
    let macros: BTreeMap<String, i64> = numbers(text).collect();
    let mut found = macros.clone();
    for Given { name, value, .. } in given(&take_apart(text).tokens) {
        let value = value_of(value, &|name| found.get(name).copied()).filter(|_| !macros.contains_key(name));
        found.extend(value.map(|value| (name.to_string(), value)));
    }
    found
}

/// Macros of a text that are whole numbers.
pub(in super::super) fn numbers(text: &str) -> impl Iterator<Item = (String, i64)> {
    directives(text).filter_map(|line| {
        let mut words = line.strip_prefix("define")?.split_whitespace();
        let (name, value) = (words.next()?, words.next()?);
        Some((name.to_string(), value.trim_matches(['(', ')']).parse().ok()?))
    })
}

/// The constants of `tokens` in their order, `const int a = 8, b = a * 2;` and `constexpr unsigned c{4}`.
pub(in super::super) fn given<'a, 'b>(tokens: &'b [Token<'a>]) -> Vec<Given<'a, 'b>> {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let (mut found, mut is_constant) = (Vec::new(), false);
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            ";" | "{" | "}" => is_constant = false,
            "const" | "constexpr" => is_constant = true,
            // What a function takes is no constant.
            "(" => is_constant = false,
            name if is_constant && is_word(name) => {
                let closing = match (text(at + 1), text(at + 2)) {
                    ("=", "=") => continue,
                    ("=", _) => ";",
                    ("{", _) => "}",
                    _ => continue,
                };
                let begin = at + 2;
                let mut depth = 0_usize;
                let behind = tokens.get(begin..).unwrap_or_default().iter().take(MOST_WORDS);
                let end = behind.map(|token| token.text).position(|word| {
                    let is_end = depth == 0 && (word == closing || word == ",");
                    match word {
                        "(" | "[" | "{" => depth += 1,
                        ")" | "]" | "}" => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                    is_end
                });
                let value = end.and_then(|end| tokens.get(begin..begin + end));
                found.extend(value.map(|value| Given { at, name, value }));
            }
            _ => {}
        }
    }
    found
}

/// The whole number that `words` are, where names are what `known` says.
pub(in super::super) fn value_of(words: &[Token<'_>], known: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
    let one = |token: &Token<'_>| match token.text {
        sign @ ("+" | "-" | "*" | "/" | "%" | "(" | ")") => Some(sign.to_string()),
        name if is_word(name) => known(name).map(|value| value.to_string()),
        literal => {
            let digits = literal.trim_end_matches(['u', 'U', 'l', 'L']);
            digits.parse::<i64>().ok().map(|value| value.to_string())
        }
    };
    let text: Vec<String> = words.iter().map(one).collect::<Option<_>>()?;
    match text.as_slice() {
        [alone] => alone.parse().ok(),
        _ => number(&text.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_be_of_other_constants() {
        let found = constants(
            "#define WARP 32\nvoid f(const int d = 3) { const uint a = 64u, b = 8; constexpr unsigned c{a * b / WARP};\n\
             constexpr int e = (c + 1) % 5; const int f = g(2); static const float h = 1.5f; int i = 4; if (a == 2) { } }\n\
             const int WARP = 7;",
        );
        let expected = [("WARP", 32), ("a", 64), ("b", 8), ("c", 16), ("e", 2)];
        assert_eq!(found, expected.map(|(name, value)| (name.to_string(), value)).into());
    }
}
