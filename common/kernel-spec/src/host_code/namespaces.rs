//! Namespaces that a file uses and that a header of its host would have declared, and those that macros open.

use std::collections::{BTreeMap, BTreeSet};

use super::marks::definition;
use super::{Token, directives, is_word, tokens};

/// Those of the C++ library and of what bluefin has a part of.
const KNOWN: [&str; 5] = ["std", "cub", "hipcub", "cooperative_groups", "thrust"];

/// The names that stand behind `namespace` in `texts`, where it declares one.
pub(crate) fn namespaces<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let of_text = |text: &'a str| {
        let tokens = tokens(text);
        let is_declared = |at: usize| at == 0 || tokens.get(at - 1).is_some_and(|before| before.text != "using");
        let marks = tokens.iter().enumerate().filter(|(at, token)| token.text == "namespace" && is_declared(*at));
        let mut found = Vec::new();
        for (at, _) in marks {
            let names = tokens.iter().skip(at + 1).take_while(|token| !matches!(token.text, "{" | "=" | ";"));
            found.extend(names.map(|token| token.text));
        }
        found
    };
    texts.flat_map(of_text).collect()
}

/// `text` in which each namespace that is used outside of all braces and is not among `declared` is declared in front of its use.
pub(crate) fn with_namespaces(text: &str, declared: &BTreeSet<&str>) -> String {
    let tokens = tokens(text);
    let mut changed = String::with_capacity(text.len());
    let (mut from, mut depth) = (0, 0_usize);
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            "using" if depth == 0 => {
                if let Some(name) = used(tokens.get(at + 1..).unwrap_or_default())
                    && !declared.contains(name)
                    && !KNOWN.contains(&name)
                {
                    changed.push_str(text.get(from..token.at).unwrap_or_default());
                    changed.push_str(&format!("namespace {name} {{}} "));
                    from = token.at;
                }
            }
            _ => {}
        }
    }
    changed + text.get(from..).unwrap_or_default()
}

/// The namespace of a directive behind `using`, if it is in none itself.
fn used<'a>(behind: &[Token<'a>]) -> Option<&'a str> {
    match behind {
        [namespace, name, end, ..] if namespace.text == "namespace" && end.text == ";" => Some(name.text),
        _ => None,
    }
}

/// The macros of `texts` that open a namespace or close one, `#define BEGIN namespace own {`, and what they stand for, where all definitions of one say the
/// same.
pub(crate) fn namespace_macros<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, Option<String>> = BTreeMap::new();
    for line in texts.flat_map(directives) {
        let Some((name, words)) = definition(line) else { continue };
        let has_arguments = line.split_once(name.as_str()).is_some_and(|(_, behind)| behind.starts_with('('));
        let is_plain = |word: &String| is_word(word) || matches!(word.as_str(), ":" | "{" | "}");
        let has = |wanted: &str| words.iter().any(|word| word == wanted);
        let is_one = !has_arguments
            && words.iter().all(is_plain)
            && (has("{") && words.iter().any(|word| word == "namespace") || has("}") && !has("{"));
        let body = is_one.then(|| words.join(" ").replace(": :", "::"));
        let known = found.entry(name).or_insert_with(|| body.clone());
        if *known != body {
            *known = None;
        }
    }
    found.into_iter().filter_map(|(name, body)| Some((name, body?))).collect()
}

/// `text` with what such `macros` stand for in their place, by which its braces are all there.
pub(crate) fn with_namespace_macros(text: &str, macros: &BTreeMap<String, String>) -> String {
    if macros.is_empty() {
        return text.to_string();
    }
    let mut changed = String::with_capacity(text.len());
    let mut from = 0;
    for token in tokens(text) {
        if let Some(body) = macros.get(token.text) {
            changed.push_str(text.get(from..token.at).unwrap_or_default());
            changed.push_str(body);
            from = token.at + token.text.len();
        }
    }
    changed + text.get(from..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_open_namespaces() {
        let text = "#define INNER own\n#define BEGIN namespace INNER { namespace a::b {\n#define END } }\n#define OTHER {\n#define CALL(x) namespace x {\n\
            #define TWO namespace one {\n#define TWO namespace two {\nBEGIN inline int f() { return 1; } END\n";
        let macros = namespace_macros([text].into_iter());
        assert_eq!(macros.keys().collect::<Vec<_>>(), ["BEGIN", "END"]);
        let changed = with_namespace_macros(text, &macros);
        assert!(
            changed.ends_with("\nnamespace INNER { namespace a :: b { inline int f() { return 1; } } }\n"),
            "{changed}"
        );
        assert_eq!(changed.lines().count(), text.lines().count());
    }
}
