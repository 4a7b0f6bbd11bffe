//! Kernels that a host launches by way of a pointer: a variable that is given one, what a function returns, a parameter of a function.

use std::collections::BTreeSet;

use super::grid::arguments;
use crate::host_code::Token;

/// Words in front of a parenthesis that begin no function.
const STATEMENTS: [&str; 5] = ["if", "for", "while", "switch", "catch"];

/// The names, other than its own, by which the text of `tokens` launches `kernel`.
pub(super) fn launched<'a>(tokens: &[Token<'a>], kernel: &str) -> BTreeSet<&'a str> {
    let text = Text { tokens };
    let is_launched = |name: &&str| (0..tokens.len()).any(|at| text.at(at) == *name && text.is_launch(at + 1));
    let all = (0..tokens.len()).filter(|at| text.is_value(*at, kernel)).flat_map(|at| text.holders(at, true));
    all.filter(|name| *name != kernel).filter(is_launched).collect()
}

/// The tokens of a file.
struct Text<'a, 'b> {
    tokens: &'b [Token<'a>],
}

impl<'a, 'b> Text<'a, 'b> {
    fn at(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    fn is_launch(&self, at: usize) -> bool {
        (at..at + 3).all(|at| self.at(at) == "<")
    }

    fn part(&self, from: usize, to: usize) -> &'b [Token<'a>] {
        self.tokens.get(from..to).unwrap_or_default()
    }

    /// Whether `kernel` is named at `at` as a value: neither launched nor declared there.
    fn is_value(&self, at: usize, kernel: &str) -> bool {
        let before = at.checked_sub(1).map_or("", |before| self.at(before));
        if self.at(at) != kernel || !matches!(before, "=" | "(" | "," | "return" | "&" | "?" | ":" | "{") {
            return false;
        }
        let mut end = at + 1;
        if self.at(end) == "<" && !self.is_launch(end) {
            let mut depth = 0_i32;
            let close = (end..self.tokens.len()).find(|at| {
                match self.at(*at) {
                    "<" => depth += 1,
                    ">" => depth -= 1,
                    _ => {}
                }
                depth == 0 || matches!(self.at(*at), ";" | "{")
            });
            end = close.map_or(end, |close| close + 1);
        }
        matches!(self.at(end), ";" | ")" | "," | ":" | "}")
    }

    /// The variables and parameters that have what is named at `at`. What a function returns is followed where `follows`.
    fn holders(&self, at: usize, follows: bool) -> Vec<&'a str> {
        let before = self.part(0, at);
        let begin = before.iter().rposition(|token| matches!(token.text, ";" | "{" | "}")).map_or(0, |at| at + 1);
        let statement = self.part(begin, at);
        // The parentheses that are open there.
        let mut open: Vec<usize> = Vec::new();
        for (offset, token) in statement.iter().enumerate() {
            match token.text {
                "(" => open.push(begin + offset),
                ")" => _ = open.pop(),
                _ => {}
            }
        }
        if statement.iter().any(|token| token.text == "return") {
            let function = self.function_around(at).filter(|_| follows);
            let calls = |name: &'a str| (0..self.tokens.len()).filter(move |at| self.at(*at) == name);
            let is_call = |at: &usize| self.at(at + 1) == "(";
            return function
                .into_iter()
                .flat_map(calls)
                .filter(is_call)
                .flat_map(|at| self.holders(at, false))
                .collect();
        }
        if let Some(equals) = statement.iter().position(|token| token.text == "=") {
            return self.assigned(statement.get(..equals).unwrap_or_default()).into_iter().collect();
        }
        let call = open.pop().and_then(|open| Some((self.callee(open)?, arguments(self.part(open + 1, at)).len())));
        let parameter = |(name, count): (&'a str, usize)| self.parameters(name, count.saturating_sub(1));
        call.map(parameter).unwrap_or_default()
    }

    /// What is given a value: `void (*pointer)(float*)`, `auto pointer`.
    fn assigned(&self, declared: &[Token<'a>]) -> Option<&'a str> {
        let pointer = declared.windows(3).find_map(|words| match words {
            [open, star, name] if open.text == "(" && star.text == "*" => Some(name.text),
            _ => None,
        });
        pointer.or_else(|| Some(declared.last()?.text))
    }

    /// The function that the parenthesis at `open` calls, behind what its template may be given.
    fn callee(&self, open: usize) -> Option<&'a str> {
        let mut at = open.checked_sub(1)?;
        if self.at(at) == ">" {
            let mut depth = 0_i32;
            at = (0..=at).rev().find(|at| {
                match self.at(*at) {
                    ">" => depth += 1,
                    "<" => depth -= 1,
                    _ => {}
                }
                depth == 0
            })?;
            at = at.checked_sub(1)?;
        }
        Some(self.at(at))
    }

    /// The parenthesis that closes the one at `open`.
    fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0_i32;
        (open..self.tokens.len()).find(|at| {
            match self.at(*at) {
                "(" => depth += 1,
                ")" => depth -= 1,
                _ => {}
            }
            depth == 0
        })
    }

    /// The names of the parameter behind `before` others, in each definition of the function `name`.
    fn parameters(&self, name: &str, before: usize) -> Vec<&'a str> {
        let opens = (0..self.tokens.len()).filter(|at| self.at(*at) == name && self.at(at + 1) == "(");
        let named = opens.filter_map(|at| {
            let close = self.closing(at + 1)?;
            (self.at(close + 1) == "{").then_some(())?;
            let parameters = arguments(self.part(at + 2, close));
            self.assigned(parameters.get(before)?)
        });
        named.collect()
    }

    /// The name of the function whose body has the token at `at`.
    fn function_around(&self, at: usize) -> Option<&'a str> {
        let mut closed = 0_usize;
        for open in (0..at).rev() {
            match self.at(open) {
                "}" => closed += 1,
                "{" if closed > 0 => closed -= 1,
                "{" => {
                    let before = self.part(0, open);
                    let begin = before.iter().rposition(|token| matches!(token.text, ";" | "{" | "}"));
                    let head = self.part(begin.map_or(0, |begin| begin + 1), open);
                    let name =
                        head.iter().position(|token| token.text == "(").and_then(|at| head.get(at.checked_sub(1)?));
                    if let Some(name) = name.filter(|name| !STATEMENTS.contains(&name.text)) {
                        return Some(name.text);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_code::tokens;

    #[test]
    fn pointers_are_followed_to_their_launches() {
        for (host, expected) in [
            ("void f() { auto run = k<float, true>; run<<<1, 2>>>(p); }", vec!["run"]),
            ("void f() { void (*run)(float*) = nullptr; run = b ? &k : other; run<<<1, 2>>>(p); }", vec!["run"]),
            (
                "kernel pick(int n) { if (n > 2) { return k<2>; } return k<1>; }\nvoid f() { kernel run = pick(3); run<<<1, 2>>>(p); }",
                vec!["run"],
            ),
            (
                "template <class K> void go(int n, K one) { one<<<n, 2>>>(p); }\nvoid f() { go(2, k<float>); go<int>(3, k); }",
                vec!["one"],
            ),
            ("void f() { auto run = k; other<<<1, 2>>>(p); }", vec![]),
            ("void f() { k<<<1, 2>>>(p); other<<<1, 2>>>(k); }", vec![]),
        ] {
            let found = launched(&tokens(host), "k");
            assert_eq!(found.into_iter().collect::<Vec<_>>(), expected, "{host}");
        }
    }
}
