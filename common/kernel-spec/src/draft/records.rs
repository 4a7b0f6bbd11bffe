//! Structures that buffers hold, where all of their fields are of one type: such a buffer is one of that type.

use std::collections::{BTreeMap, BTreeSet};

use bluefin_common::problem::DataType;

use super::c::{self, parts_of};
use super::{Draft, Kernel, Parameter, ParameterKind};
use crate::host_code::{Token, closing, tokens};

/// Structures by name: what their fields are, and how many.
pub(super) type Records = BTreeMap<String, (DataType, u32)>;

/// Words that begin what is no field.
const OTHERS: [&str; 6] = ["using", "typedef", "static", "friend", "public", "private"];
/// Tokens between what says that it is one and its fields, attributes among them.
const MOST_HEAD: usize = 12;
/// Fields of a structure at most.
const MOST: u32 = 64;

/// The structures that `tokens` declare.
pub(super) fn of(tokens: &[Token<'_>]) -> Records {
    let mut found = Records::new();
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    for at in (0..tokens.len()).filter(|at| text(*at) == "struct") {
        let Some(open) = (at + 1..tokens.len()).take(MOST_HEAD).find(|at| matches!(text(*at), "{" | ";" | ":")) else {
            continue;
        };
        let Some(close) = closing(tokens, open).filter(|_| text(open) == "{") else { continue };
        // Of a template fields may be anything.
        let is_template = at.checked_sub(1).is_some_and(|before| text(before) == ">");
        let Some(record) = fields(tokens.get(open + 1..close).unwrap_or_default()).filter(|_| !is_template) else {
            continue;
        };
        let is_alias = at.checked_sub(1).is_some_and(|before| text(before) == "typedef");
        let names = [(open > at + 1).then(|| text(open - 1)), is_alias.then(|| text(close + 1))];
        let is_name = |name: &&str| name.starts_with(|first: char| first.is_alphabetic() || first == '_');
        found.extend(names.into_iter().flatten().filter(is_name).map(|name| (name.to_string(), record)));
    }
    found
}

/// The structures and classes that `tokens` declare with pointers among their fields.
fn with_pointers<'a>(tokens: &[Token<'a>]) -> BTreeSet<&'a str> {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let classes = (0..tokens.len()).filter(|at| matches!(text(*at), "struct" | "class"));
    let found = classes.filter_map(|at| {
        let open = (at + 1..tokens.len()).take(MOST_HEAD).find(|at| matches!(text(*at), "{" | ";"))?;
        let close = closing(tokens, open).filter(|_| text(open) == "{")?;
        let mut body = tokens.get(open + 1..close)?.split(|token| matches!(token.text, ";" | "{" | "}"));
        let is_pointer = |words: &[Token<'_>]| {
            let has = |word: &str| words.iter().any(|token| token.text == word);
            has("*") && !has("(") && !has("=") && words.len() > 2
        };
        let head = tokens.get(at + 1..open)?;
        let end = head.iter().position(|token| matches!(token.text, ":" | "final")).unwrap_or(head.len());
        let name = match head.get(end.checked_sub(1)?) {
            Some(name) => name.text,
            None => text(close + 1),
        };
        body.any(is_pointer).then_some(name)
    });
    found.collect()
}

impl Draft {
    /// The buffers of a kernel whose elements are pointers or hold some, and what these are in the source.
    #[must_use]
    pub fn of_pointers(&self, kernel: usize) -> Vec<(&str, &str)> {
        let files: Vec<Vec<Token<'_>>> = self.texts.iter().map(|text| tokens(text)).collect();
        let classes: BTreeSet<&str> = files.iter().flat_map(|tokens| with_pointers(tokens)).collect();
        let values =
            self.kernels.get(kernel).into_iter().flat_map(|kernel| &kernel.parameters).flat_map(Parameter::values);
        let holding = values.filter_map(|value| match &value.kind {
            ParameterKind::Pointer { element: None, spelled, .. } => {
                let name = spelled.rsplit("::").next().unwrap_or_default();
                (spelled.ends_with('*') || classes.contains(name)).then_some((value.name.as_str(), spelled.as_str()))
            }
            _ => None,
        });
        holding.collect()
    }
}

/// What the fields in a structure's body are, where that is one type.
fn fields(body: &[Token<'_>]) -> Option<(DataType, u32)> {
    let (mut element, mut count) = (None, 0_u32);
    let (mut from, mut at) = (0, 0);
    while let Some(token) = body.get(at) {
        let words = body.get(from..at)?;
        match token.text {
            "{" => {
                // A function has parentheses; a structure within one, or a value, is left to others.
                words.iter().any(|word| word.text == "(").then_some(())?;
                at = closing(body, at)?;
                from = at + 1;
            }
            ";" => {
                from = at + 1;
                let is_field = !words.iter().any(|word| word.text == "(")
                    && words.first().is_some_and(|first| !OTHERS.contains(&first.text));
                if is_field {
                    let (of, number) = declared(words)?;
                    (*element.get_or_insert(of) == of).then_some(())?;
                    count = count.checked_add(number).filter(|count| *count <= MOST)?;
                }
            }
            _ => {}
        }
        at += 1;
    }
    Some((element?, count))
}

/// What a declaration of fields, `float x, y[4]`, has, and how many.
fn declared(words: &[Token<'_>]) -> Option<(DataType, u32)> {
    let parts = parts_of(words);
    let (first, rest) = parts.split_first()?;
    let bracket = first.iter().position(|word| word.text == "[").unwrap_or(first.len());
    let spelled: Vec<&str> = first.get(..bracket.checked_sub(1)?)?.iter().map(|word| word.text).collect();
    let ParameterKind::Pointer { element, lanes, .. } = c::kind(&format!("{} *", spelled.join(" "))) else {
        return None;
    };
    let number = |part: &&[Token<'_>]| {
        let bracket = part.iter().position(|word| word.text == "[").unwrap_or(part.len());
        let lengths = part.get(bracket..)?.split(|word| word.text == "[").filter(|length| !length.is_empty());
        lengths.map(|length| length.first()?.text.parse::<u32>().ok()).try_fold(lanes, |all, one| all.checked_mul(one?))
    };
    let count = std::iter::once(first).chain(rest).map(number).try_fold(0_u32, |all, one| all.checked_add(one?))?;
    (!spelled.contains(&"*")).then_some((element?, count))
}

/// Says of the buffers of a kernel that hold such structures what these consist of.
pub(super) fn set(kernel: &mut Kernel, records: &Records) {
    for value in kernel.parameters.iter_mut().flat_map(Parameter::values_mut) {
        if let ParameterKind::Pointer { element: element @ None, spelled, lanes, .. } = &mut value.kind
            && let Some((of, count)) = records.get(spelled.as_str())
        {
            (*element, *lanes) = (Some(*of), *count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_of_one_type_are_that_type() {
        let text = "struct Node { int first; int count; };\ntypedef struct tag { float x, y[2]; float4 v; } Body;\n\
            struct __align__(8) Pair { double a; __device__ Pair() { a = 1; } double norm() const; };\n\
            struct Mixed { int a; float b; };\nstruct Linked { Node* next; };\nstruct Child : Node { int a; };\n\
            template <class T> struct Of { int a; };\nstruct Later;\nstruct Sized { int a[N]; };\n";
        let found = of(&tokens(text));
        let expected = [
            ("Body", (DataType::Fp32, 7)),
            ("Node", (DataType::Int32, 2)),
            ("Pair", (DataType::Fp64, 1)),
            ("tag", (DataType::Fp32, 7)),
        ];
        assert_eq!(found, expected.map(|(name, record)| (name.to_string(), record)).into());
        let text = format!(
            "{text}class Graph final : Base {{ int* at() {{ return 0; }} float *rows, *columns; }};\nstruct Call {{ int* (*f)(int*); }};"
        );
        assert_eq!(with_pointers(&tokens(&text)), ["Graph", "Linked"].into());
    }
}
