//! Words that stand for values of a tuning space which is no number, no truth value and no identifier: types, fractions, tuples, other texts.
//! A kernel spec says what they stand for, and winners come back by them.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::captured::{Captured, Typed};
use crate::text::plain;

/// Characters of a value that its word has.
const LONGEST: usize = 40;

/// By param the values that have a word, each with its own.
pub(crate) struct Words(BTreeMap<String, Vec<(Typed, String)>>);

impl Words {
    /// Of all that the configs of a capture set, and that lies around them.
    pub(crate) fn of(captured: &Captured) -> Self {
        let points = captured.configs.iter().flat_map(|config| captured.point(config));
        let beside = captured.widened.iter().flat_map(|widened| &widened.params);
        let beside = beside.flat_map(|(name, values)| values.iter().map(|value| (name.clone(), value.clone())));
        let mut all: BTreeMap<String, Vec<Typed>> = BTreeMap::new();
        for (name, value) in points.chain(beside) {
            let values = all.entry(name).or_default();
            if !values.contains(&value) {
                values.push(value);
            }
        }
        Self(all.into_iter().map(|(name, values)| (name, words(values))).collect())
    }

    /// A value as a param has it: its word, or itself.
    pub(crate) fn worded(&self, name: &str, value: &Typed) -> Typed {
        let of = |words: &Vec<(Typed, String)>| words.iter().find(|(of, _)| of == value).map(|(_, word)| word.clone());
        self.0.get(name).and_then(of).map_or_else(|| value.clone(), Typed::Str)
    }

    /// What a text of a param stands for.
    pub(crate) fn value(&self, name: &str, word: &str) -> Option<&Typed> {
        self.0.get(name)?.iter().find(|(_, known)| known == word).map(|(value, _)| value)
    }

    /// The word for a value as Triton's cache has it.
    pub(crate) fn of_cached(&self, name: &str, value: &Json) -> Option<&str> {
        self.0.get(name)?.iter().find(|(of, _)| plain(of).as_ref() == Some(value)).map(|(_, word)| word.as_str())
    }

    /// The words of each of these params that has some, as a kernel spec has them.
    pub(crate) fn text(&self, params: &[&String]) -> String {
        let mut text = String::new();
        for (name, words) in self.0.iter().filter(|(name, words)| params.contains(name) && !words.is_empty()) {
            text.push_str(&format!("  [solver.words.{name}]\n"));
            for (value, word) in words {
                text.push_str(&format!("  {word} = {}\n", crate::text::constant(value)));
            }
        }
        text
    }
}

/// Those of `values` that need a word, each with one that no other value has.
fn words(values: Vec<Typed>) -> Vec<(Typed, String)> {
    let taken = |value: &Typed| match value {
        Typed::Str(text) if !needs_word(value) => Some(text.clone()),
        _ => None,
    };
    let mut taken: Vec<String> = values.iter().filter_map(taken).collect();
    let mut words = Vec::new();
    for value in values.into_iter().filter(needs_word) {
        let stem = stem(&value);
        let numbered = (2..).map(|count: u32| format!("{stem}_{count}"));
        let free = std::iter::once(stem.clone()).chain(numbered).find(|word| !taken.contains(word));
        let word = free.unwrap_or(stem);
        taken.push(word.clone());
        words.push((value, word));
    }
    words
}

/// Whether a param can not have it as it is.
fn needs_word(value: &Typed) -> bool {
    match value {
        Typed::Int(_) | Typed::Bool(_) | Typed::None(_) => false,
        Typed::Float(_) | Typed::Dtype(_) | Typed::Tuple(_) => true,
        Typed::Str(text) => {
            let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            let begins = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
            // The three that mean something else.
            !plain || !begins || text.len() > LONGEST || matches!(text.as_str(), "None" | "true" | "false")
        }
    }
}

/// An identifier that reads like a value.
fn stem(value: &Typed) -> String {
    let text = match value {
        Typed::Str(text) if text.is_empty() => "empty".to_string(),
        Typed::Str(text) => format!("text_{text}"),
        Typed::Dtype(name) => name.clone(),
        Typed::Float(value) => format!("float_{value:?}"),
        Typed::Tuple(parts) => {
            let parts =
                parts.iter().map(|part| if let Typed::Int(part) = part { part.to_string() } else { stem(part) });
            std::iter::once("tuple".to_string()).chain(parts).collect::<Vec<_>>().join("_")
        }
        Typed::Int(value) => format!("int_{value}"),
        Typed::Bool(value) => value.to_string(),
        Typed::None(_) => "none".to_string(),
    };
    text.chars().take(LONGEST).map(|one| if one.is_ascii_alphanumeric() { one } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_a_word_of_its_own() {
        let text = |text: &str| Typed::Str(text.to_string());
        let values = vec![
            Typed::Int(64),
            text("tf32x3"),
            text(""),
            text("a-b"),
            text("a_b"),
            text("a+b"),
            text("None"),
            text("fp16"),
            Typed::Dtype("fp16".to_string()),
            Typed::Float(-0.5),
            Typed::Tuple(vec![Typed::Int(2), Typed::None(true)]),
            Typed::None(true),
        ];
        let words = Words([("P".to_string(), words(values))].into());
        let known: Vec<&str> = words.0["P"].iter().map(|(_, word)| word.as_str()).collect();
        let expected = ["empty", "text_a_b", "text_a_b_2", "text_None", "fp16_2", "float__0_5", "tuple_2_none"];
        assert_eq!(known, expected);
        assert_eq!(words.worded("P", &text("a+b")), text("text_a_b_2"));
        assert_eq!((words.worded("P", &text("fp16")), words.worded("Q", &text(""))), (text("fp16"), text("")));
        assert_eq!(words.value("P", "fp16_2"), Some(&Typed::Dtype("fp16".to_string())));
        assert_eq!((words.value("P", "fp16"), words.of_cached("P", &Json::from(""))), (None, Some("empty")));
    }
}
