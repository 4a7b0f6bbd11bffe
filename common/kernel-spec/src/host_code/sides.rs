//! Templates of functions whose specialisations are for the host as well, where they themselves are the device's alone: nvcc takes these, and clang does not.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::{Token, blank, function_name, is_specialisation, tokens};

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

/// The function templates of `texts` that are specialised and of which some declarations are the device's alone, and others of both sides.
pub(crate) fn one_sided<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    // Whether one is of the device alone, one of both, and one a specialisation.
    let mut known: BTreeMap<String, [bool; 3]> = BTreeMap::new();
    for text in texts.filter(|text| text.contains("__host__") || text.contains("__device__")) {
        let tokens = tokens(text);
        for head in heads(&tokens).into_iter().filter_map(|head| tokens.get(head)) {
            let has = |word: &str| head.iter().any(|token| token.text == word);
            let Some(name) = function_name(head).filter(|_| has("__device__")) else { continue };
            let [alone, both, special] = known.entry(name.to_string()).or_default();
            *alone |= !has("__host__");
            *both |= has("__host__");
            *special |= is_specialisation(head);
        }
    }
    known.into_iter().filter(|(_, has)| *has == [true; 3]).map(|(name, _)| name).collect()
}

/// `text` with the templates `names` for the device alone.
pub(crate) fn without_host(text: &str, names: &BTreeSet<String>) -> String {
    if names.is_empty() {
        return text.to_string();
    }
    let tokens = tokens(text);
    let heads = heads(&tokens).into_iter().filter_map(|head| tokens.get(head));
    let is_of_device = |head: &&[Token<'_>]| {
        function_name(head).is_some_and(|name| names.contains(name))
            && head.iter().any(|token| token.text == "__device__")
    };
    let marks = heads.filter(is_of_device).flatten().filter(|token| token.text == "__host__");
    blank(text, marks.map(|token| token.at..token.at + token.text.len()).collect())
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
            template <class T> __device__ T plain(T v) { return v; }\n";
        let names = one_sided(std::iter::once(text));
        assert_eq!(names, BTreeSet::from(["last".to_string()]));
        assert_eq!(without_host(text, &names), text.replace("inline __host__ ", "inline          "));
    }
}
