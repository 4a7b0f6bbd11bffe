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

/// Macros by which files write their namespaces.
pub(crate) struct NamespaceMacros {
    /// Those that open one or close one, `#define BEGIN namespace own {`, and what they stand for.
    opening: BTreeMap<String, String>,
    /// What those stand for that are a name, `#define NAME own`.
    names: BTreeMap<String, String>,
}

/// Names that stand for names that stand for names.
const MOST_NAMES: usize = 4;

/// The macros of `texts` that stand for namespaces, where all definitions of one say the same and nothing takes one back. Those that close one are
/// others' words where none opens one.
pub(crate) fn namespace_macros<'a>(texts: impl Iterator<Item = &'a str>) -> NamespaceMacros {
    let (mut opening, mut names) = (BTreeMap::new(), BTreeMap::new());
    let mut ended = BTreeSet::new();
    for line in texts.flat_map(directives) {
        ended.extend(line.strip_prefix("undef").map(|name| name.trim().to_string()));
        let Some((name, words)) = definition(line) else { continue };
        let has_arguments = line.split_once(name.as_str()).is_some_and(|(_, behind)| behind.starts_with('('));
        let is_plain = |word: &String| is_word(word) || matches!(word.as_str(), ":" | "{" | "}");
        let has = |wanted: &str| words.iter().any(|word| word == wanted);
        let is_one = !has_arguments && words.iter().all(is_plain);
        let opens = is_one && (has("{") && has("namespace") || has("}") && !has("{"));
        let is_name = is_one && !words.is_empty() && !has("{") && !has("}");
        for (found, is_it) in [(&mut opening, opens), (&mut names, is_name)] {
            let body = is_it.then(|| words.join(" ").replace(": :", "::").replace(" :: ", "::"));
            let known: &mut Option<String> = found.entry(name.clone()).or_insert_with(|| body.clone());
            if *known != body {
                *known = None;
            }
        }
    }
    let known = |found: BTreeMap<String, Option<String>>| -> BTreeMap<String, String> {
        found
            .into_iter()
            .filter_map(|(name, body)| Some((name, body?)))
            .filter(|(name, _)| !ended.contains(name))
            .collect()
    };
    let mut macros = NamespaceMacros { opening: known(opening), names: known(names) };
    let opening = macros.opening.iter().map(|(name, body)| (name.clone(), macros.with_names(body)));
    macros.opening = opening.collect();
    if !macros.opening.values().any(|body| body.contains('{')) {
        macros.opening.clear();
    }
    macros
}

impl NamespaceMacros {
    /// `body` in which names of namespaces are those that macros stand for.
    fn with_names(&self, body: &str) -> String {
        let mut last = "";
        let word = |word| {
            let before = std::mem::replace(&mut last, word);
            if before == "namespace" { self.name(word) } else { word }
        };
        body.split(' ').map(word).collect::<Vec<_>>().join(" ")
    }

    /// What a name behind `namespace` stands for.
    fn name<'a>(&'a self, word: &'a str) -> &'a str {
        (0..MOST_NAMES).fold(word, |name, _| self.names.get(name).map_or(name, String::as_str))
    }
}

/// `text` with what such `macros` stand for in their place, by which its braces are all there, and its namespaces have the names of their symbols.
pub(crate) fn with_namespace_macros(text: &str, macros: &NamespaceMacros) -> String {
    let mut changed = String::with_capacity(text.len());
    let (mut from, mut last) = (0, "");
    for token in tokens(text) {
        let name = if last == "namespace" { macros.name(token.text) } else { token.text };
        let body = macros.opening.get(token.text).map_or(name, String::as_str);
        if body != token.text {
            changed.push_str(text.get(from..token.at).unwrap_or_default());
            changed.push_str(body);
            from = token.at + token.text.len();
        }
        last = token.text;
    }
    changed + text.get(from..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_open_namespaces() {
        let text = "#define INNER own\n#define BEGIN namespace INNER { namespace a::b {\n#define END } }\n#define OTHER {\n#define CALL(x) namespace x {\n\
            #define TWO namespace one {\n#define TWO namespace two {\nBEGIN inline int f() { return 1; } END\nnamespace INNER { int INNER; }\n";
        let macros = namespace_macros([text].into_iter());
        assert_eq!(macros.opening.keys().collect::<Vec<_>>(), ["BEGIN", "END"]);
        let changed = with_namespace_macros(text, &macros);
        assert!(
            changed.ends_with(
                "\nnamespace own { namespace a::b { inline int f() { return 1; } } }\nnamespace own { int INNER; }\n"
            ),
            "{changed}"
        );
        assert_eq!(changed.lines().count(), text.lines().count());
        // A word of one file that is taken back, and one where no macro opens a namespace.
        for other in [
            "#define END } }\n#undef END\n#define BEGIN namespace a {\nenum { END = 3 };\n",
            "#define END }\nenum { END = 3 };\n",
        ] {
            assert_eq!(with_namespace_macros(other, &namespace_macros([other].into_iter())), other);
        }
    }
}
