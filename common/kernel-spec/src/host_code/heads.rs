//! Heads of blocks and declarations: what the words in front of a brace make of it.

use std::collections::BTreeSet;

use super::Token;

/// Words that make a function one of the device, or may.
pub(super) const KEEPING: [&str; 9] =
    ["__global__", "__device__", "constexpr", "consteval", "auto", "operator", "__attribute__", "decltype", "concept"];
/// Words that begin statements: where one heads a block outside of functions, the text was not understood.
const STATEMENTS: [&str; 9] = ["if", "else", "for", "while", "do", "switch", "return", "try", "catch"];

/// What the braces hold behind a head.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// Declarations, as of a namespace or a class.
    Scope,
    /// A host function's body.
    Host,
    Kept,
    NotUnderstood,
}

/// Whether a brace behind `words` holds a value within a head rather than a block: a parameter's, `f(int n = {})`, or that of a member that a
/// constructor begins with, `A::A() : n{1}`.
pub(super) fn is_value_behind(words: &[Token<'_>]) -> bool {
    let mut depth = 0_i32;
    for word in words {
        match word.text {
            "(" => depth += 1,
            ")" => depth -= 1,
            _ => {}
        }
    }
    let is_name = |word: &Token<'_>| word.text.starts_with(|first: char| first.is_alphabetic() || first == '_');
    let is_member = words.last().is_some_and(|last| is_name(last) || last.text == ">");
    let is_of_class =
        without_template(words).iter().any(|word| matches!(word.text, "class" | "struct" | "union" | "enum"));
    depth > 0 || is_member && !is_of_class && initializes(words)
}

/// Whether a head is that of a constructor with values of members, `A::A(int n) : n(n)`.
fn initializes(head: &[Token<'_>]) -> bool {
    let (mut depth, mut is_behind) = (0_i32, false);
    head.iter().enumerate().any(|(at, word)| {
        match word.text {
            "(" => depth += 1,
            ")" => (depth, is_behind) = (depth - 1, true),
            _ => {}
        }
        let is_colon = |at: Option<usize>| at.and_then(|at| head.get(at)).is_some_and(|word| word.text == ":");
        is_behind && depth == 0 && word.text == ":" && !is_colon(at.checked_sub(1)) && !is_colon(Some(at + 1))
    })
}

pub(super) fn block_behind(head: &[Token<'_>], macros: &BTreeSet<String>) -> Block {
    if head.iter().any(|token| STATEMENTS.contains(&token.text)) {
        return Block::NotUnderstood;
    }
    let head = without_template(head);
    let (mut depth, mut angles) = (0_usize, 0_usize);
    let mut outer: Vec<&str> = Vec::new();
    let mut parentheses = false;
    for token in head {
        match token.text {
            "(" => {
                parentheses = true;
                depth += 1;
            }
            ")" => depth = depth.saturating_sub(1),
            "<" if depth == 0 => angles += 1,
            ">" if depth == 0 => angles = angles.saturating_sub(1),
            text if depth == 0 && angles == 0 => outer.push(text),
            _ => {}
        }
    }
    let has = |word: &str| outer.contains(&word);
    if has("enum") || has("=") {
        return Block::Kept;
    }
    if has("namespace") || has("struct") || has("class") || has("union") {
        // A function that returns one of these is taken for a class, in whose body there are statements.
        return if head.iter().any(|token| token.text == "__global__" || token.text == "__device__") {
            Block::Kept
        } else {
            Block::Scope
        };
    }
    if !parentheses {
        return if has("extern") || outer.is_empty() { Block::Scope } else { Block::Kept };
    }
    let keeping = |token: &Token<'_>| KEEPING.contains(&token.text) || macros.contains(token.text);
    let keeps = head.iter().any(keeping);
    if keeps { Block::Kept } else { Block::Host }
}

/// `head` without `template <...>` in front.
pub(super) fn without_template<'a, 'b>(mut head: &'b [Token<'a>]) -> &'b [Token<'a>] {
    while head.first().is_some_and(|first| first.text == "template") {
        let mut depth = 0_usize;
        let mut end = head.len();
        for (index, token) in head.iter().enumerate().skip(1) {
            match token.text {
                "<" => depth += 1,
                ">" => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                end = index + 1;
                break;
            }
        }
        head = head.get(end..).unwrap_or_default();
    }
    head
}

/// Whether a declaration says what a template is for some arguments.
pub(super) fn is_specialisation(words: &[Token<'_>]) -> bool {
    matches!(words, [first, second, third, ..] if (first.text, second.text, third.text) == ("template", "<", ">"))
}
