//! Heads of blocks and declarations: what the words in front of a brace make of it.

use std::collections::BTreeSet;

use super::{Token, is_word};

/// Words that make a function one of the device, or may. Those of PyTorch's are in no file of a spec.
pub(super) const KEEPING: [&str; 11] = [
    "__global__",
    "__device__",
    "C10_DEVICE",
    "C10_HOST_DEVICE",
    "constexpr",
    "consteval",
    "auto",
    "operator",
    "__attribute__",
    "decltype",
    "concept",
];
/// Those of them that make it one of the device.
const OF_DEVICE: [&str; 4] = ["__global__", "__device__", "C10_DEVICE", "C10_HOST_DEVICE"];
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

/// What the words of a head have in front of a brace: each is looked at once, however many braces there are in the head.
#[derive(Default)]
pub(super) struct Values {
    head: usize,
    at: usize,
    depth: i32,
    /// Of a `template <...>` in front: how many of its brackets are open.
    template: Option<usize>,
    /// Whether there is something behind each `template <...>`.
    is_plain: bool,
    is_of_class: bool,
    has_parameters: bool,
    /// Where the values of a constructor's members begin, `A::A(int n) : n(n)`.
    initializes: Option<usize>,
}

impl Values {
    /// Whether the brace at `at` holds a value within a head, which begins at `head`, rather than a block: a parameter's, `f(int n = {})`, or
    /// that of a member that a constructor begins with, `A::A() : n{1}`.
    pub(super) fn is_behind(&mut self, tokens: &[Token<'_>], head: usize, at: usize) -> bool {
        if self.head != head {
            *self = Self { head, at: head, ..Self::default() };
        }
        for at in self.at..at {
            self.pass(tokens, at);
        }
        self.at = at;
        let is_name = |text: &str| text == ">" || is_word(text);
        let last = at.checked_sub(1).filter(|last| *last >= head).and_then(|last| tokens.get(last));
        self.depth > 0 || last.is_some_and(|last| is_name(last.text)) && !self.is_of_class && self.initializes.is_some()
    }

    /// Where a constructor begins with values of members, as far as its head was looked at.
    pub(super) fn initializers(&self) -> Option<usize> {
        self.initializes.filter(|_| !self.is_of_class)
    }

    fn pass(&mut self, tokens: &[Token<'_>], at: usize) {
        let text = |at: Option<usize>| at.and_then(|at| tokens.get(at)).map_or("", |token| token.text);
        let word = text(Some(at));
        match word {
            "(" => self.depth += 1,
            ")" => (self.depth, self.has_parameters) = (self.depth - 1, true),
            // Behind a macro's call in a class there may be the accessibility of what follows.
            ":" if self.has_parameters && self.depth == 0 => {
                let before = text(at.checked_sub(1).filter(|before| *before >= self.head));
                let is_other = matches!(before, ":" | "public" | "private" | "protected");
                if !is_other && text(Some(at + 1)) != ":" {
                    self.initializes = self.initializes.or(Some(at));
                }
            }
            _ => {}
        }
        if self.is_plain {
            self.is_of_class |= matches!(word, "class" | "struct" | "union" | "enum");
            return;
        }
        self.template = match (self.template, word) {
            (None, "template") => Some(0),
            (None, _) => {
                self.is_plain = true;
                self.is_of_class = matches!(word, "class" | "struct" | "union" | "enum");
                None
            }
            (Some(open), "<") => Some(open + 1),
            (Some(open), ">") => Some(open.saturating_sub(1)).filter(|open| *open > 0),
            (Some(open), _) => Some(open).filter(|open| *open > 0),
        };
    }
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
        return if head.iter().any(|token| OF_DEVICE.contains(&token.text)) { Block::Kept } else { Block::Scope };
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
