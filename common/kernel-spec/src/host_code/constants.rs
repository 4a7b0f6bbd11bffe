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
    let mut macros: BTreeMap<String, i64> = numbers(text).collect();
    for (name, value) in directives(text).filter_map(defined) {
        let value = value_of(&take_apart(value).tokens, &|name| macros.get(name).copied());
        value.into_iter().for_each(|value| _ = macros.insert(name.to_string(), value));
    }
    let mut found = macros.clone();
    for Given { name, value, .. } in given(&take_apart(text).tokens) {
        let value = value_of(value, &|name| found.get(name).copied()).filter(|_| !macros.contains_key(name));
        found.extend(value.map(|value| (name.to_string(), value)));
    }
    found
}

/// The name of a macro without parameters, and its value.
fn defined(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.strip_prefix("define")?.trim_start().split_once([' ', '\t'])?;
    (!name.contains('(')).then_some((name, value))
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
        sign @ ("+" | "-" | "*" | "/" | "%" | "(" | ")" | "<") => Some(sign.to_string()),
        name if is_word(name) => known(name).map(|value| value.to_string()),
        literal => {
            let digits = literal.trim_end_matches(['u', 'U', 'l', 'L']);
            digits.parse::<i64>().ok().map(|value| value.to_string())
        }
    };
    let text: Vec<String> = without_casts(words).map(one).collect::<Option<_>>()?;
    let text = shifted(&text);
    match text.as_slice() {
        [alone] => alone.parse().ok(),
        _ => number(&text.join(" ")),
    }
}

/// `words` without what converts numbers: `(size_t)64`.
fn without_casts<'a, 'b>(words: &'b [Token<'a>]) -> impl Iterator<Item = &'b Token<'a>> {
    let text = |at: usize| words.get(at).map_or("", |token| token.text);
    let is_type = |word: &str| {
        matches!(word, "int" | "unsigned" | "long" | "size_t")
            || word.ends_with("int_t")
            || word.ends_with("32_t")
            || word.ends_with("64_t")
    };
    let is_cast = move |at: usize| {
        let end = (at + 1..words.len()).find(|end| !is_type(text(*end)))?;
        (text(at) == "(" && end > at + 1 && text(end) == ")").then_some(end)
    };
    let mut behind = 0;
    words.iter().enumerate().filter_map(move |(at, token)| {
        behind = is_cast(at).map_or(behind, |end| end + 1);
        (at >= behind).then_some(token)
    })
}

/// `words` with numbers in the place of those that are shifted and nothing else, `1 << 20`, in parentheses or alone.
fn shifted(words: &[String]) -> Vec<String> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(word) = words.get(at) {
        let is_open = found.last().is_none_or(|last| last == "(");
        let is_closed = words.get(at + 4).is_none_or(|next| next == ")");
        if let (true, true, Some([one, first, second, by])) = (is_open, is_closed, words.get(at..at + 4))
            && (first.as_str(), second.as_str()) == ("<", "<")
            && let (Ok(one), Ok(by)) = (one.parse::<i64>(), by.parse::<u32>())
            && let Some(value) = 1_i64.checked_shl(by).filter(|_| by < 62).and_then(|times| one.checked_mul(times))
        {
            found.push(value.to_string());
            at += 4;
        } else {
            found.push(word.clone());
            at += 1;
        }
    }
    found
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
        let macros = constants(
            "#define T ((size_t)64) // threads\n#define ROWS (T * (25/5))\n#define N (1 << 20)\n#define M 4 * 8\n#define F(x) x\n\
             #define S 1 + (2 << 3)\n#define H 1.5f\nconst int k = 1 << 4;",
        );
        let expected = [("M", 32), ("N", 1 << 20), ("ROWS", 320), ("S", 17), ("T", 64), ("k", 16)];
        assert_eq!(macros, expected.map(|(name, value)| (name.to_string(), value)).into());
        let expected = [("WARP", 32), ("a", 64), ("b", 8), ("c", 16), ("e", 2)];
        assert_eq!(found, expected.map(|(name, value)| (name.to_string(), value)).into());
    }
}
