//! Templates of functions whose specialisations are for the host as well, where they themselves are the device's alone, and declarations without marks of
//! functions that have some: nvcc takes these, and clang does not.

mod redeclared;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::marks::definition;
use super::{Token, directives, function_name, is_specialisation, tokens};

/// Where heads of function templates are among `tokens`, up to their bodies or semicolons.
fn heads(tokens: &[Token<'_>]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut from = 0;
    for (at, token) in tokens.iter().enumerate() {
        if matches!(token.text, "{" | "}" | ";") {
            let head = tokens.get(from..at).unwrap_or_default();
            if let Some(template) = head.iter().position(|word| word.text == "template") {
                found.push(from + template..at);
            }
            from = at + 1;
        }
    }
    found
}

/// Function templates that are the device's alone, and functions that are marked where they have their bodies.
pub(crate) struct OneSided {
    names: BTreeSet<String>,
    /// The marks of functions, by name.
    marked: BTreeMap<String, &'static str>,
    /// Macros that stand for `__host__ __device__`.
    both: BTreeSet<String>,
}

/// The function templates of `texts` that are specialised and of which some declarations are the device's alone, and others of both sides.
pub(crate) fn one_sided<'a>(texts: impl Iterator<Item = &'a str> + Clone) -> OneSided {
    let marked = redeclared::marked(texts.clone());
    let is_both =
        |words: &[String]| ["__host__", "__device__"].iter().all(|side| words.iter().any(|word| word == side));
    let both = texts.clone().flat_map(directives).filter_map(definition).filter(|(_, words)| is_both(words));
    let both: BTreeSet<String> = both.map(|(name, _)| name).collect();
    // Whether one is of the device alone, one of both, and one a specialisation.
    let mut known: BTreeMap<String, [bool; 3]> = BTreeMap::new();
    let is_marked = |text: &&str| ["__host__", "__device__"].iter().any(|side| text.contains(side));
    for text in texts.filter(|text| is_marked(text) || both.iter().any(|name| text.contains(name.as_str()))) {
        let tokens = tokens(text);
        for head in heads(&tokens).into_iter().filter_map(|head| tokens.get(head)) {
            let has = |word: &str| head.iter().any(|token| token.text == word);
            let is_both = has("__host__") || head.iter().any(|token| both.contains(token.text));
            let Some(name) = function_name(head).filter(|_| is_both || has("__device__")) else { continue };
            let [alone, of_both, special] = known.entry(name.to_string()).or_default();
            *alone |= !is_both;
            *of_both |= is_both;
            *special |= is_specialisation(head);
        }
    }
    let names = known.into_iter().filter(|(_, has)| *has == [true; 3]).map(|(name, _)| name).collect();
    OneSided { names, marked, both }
}

/// `text` with the templates of `one_sided` for the device alone, and its marks in front of functions that are declared without.
pub(crate) fn without_host(text: &str, one_sided: &OneSided) -> String {
    let OneSided { names, marked, both } = one_sided;
    let text = &redeclared::with_marks(text, marked);
    if names.is_empty() {
        return text.clone();
    }
    let tokens = tokens(text);
    let heads = heads(&tokens).into_iter().filter_map(|head| tokens.get(head));
    let is_it = |head: &&[Token<'_>]| function_name(head).is_some_and(|name| names.contains(name));
    let is_of_device = |head: &[Token<'_>]| head.iter().any(|token| token.text == "__device__");
    let mut changed = String::with_capacity(text.len());
    let mut from = 0;
    for head in heads.filter(is_it) {
        for token in head {
            let instead = match token.text {
                "__host__" if is_of_device(head) => "        ",
                macro_of_both if both.contains(macro_of_both) => "__device__",
                _ => continue,
            };
            changed.push_str(text.get(from..token.at).unwrap_or_default());
            changed.push_str(instead);
            from = token.at + token.text.len();
        }
    }
    changed + text.get(from..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_of_one_side_have_specialisations_of_it() {
        let text = "template <class T> __device__ T last(T v) { return v; }\n\
            template <> inline __host__ __device__ float last(float v) { return v; }\n\
            template <class T> __host__ __device__ T both(T v) { return v; }\n\
            template <> __host__ __device__ int both(int v) { return v; }\n\
            template <class T> __device__ T plain(T v) { return v; }\n\
            #define BOTH __host__ __device__\ntemplate <class T> inline BOTH float of(T v);\ntemplate <> inline __device__ float of(int v) { return v; }\n";
        let found = one_sided(std::iter::once(text));
        assert_eq!(found.names, BTreeSet::from(["last".to_string(), "of".to_string()]));
        let expected = text.replace("inline __host__ ", "inline          ").replace("inline BOTH", "inline __device__");
        assert_eq!(without_host(text, &found), expected);
    }
}
