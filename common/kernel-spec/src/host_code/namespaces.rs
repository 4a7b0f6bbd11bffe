//! Namespaces that a file uses and that a header of its host would have declared.

use std::collections::BTreeSet;

use super::{Token, tokens};

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
