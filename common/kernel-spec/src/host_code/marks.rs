//! Macros that may make a function one of the device, by what they stand for: `DEVICE`, but not the number or the check that has a function's name.

use std::collections::BTreeSet;

use super::{KEEPING, Token, blank, directives, is_forced, tokens};

/// How statements begin, which stand in functions alone.
const STATEMENTS: [&str; 6] = ["{", "do", "if", "for", "while", "return"];

/// The macros of `texts` that stand for such a word, for another such macro, or for more than is understood.
pub(crate) fn marks<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    standing_for(texts, |words| has(words, &KEEPING) || is_open(words))
}

/// The macros of `texts` that stand for more than words of one declaration, or for another such macro.
pub(super) fn shapes<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    standing_for(texts, is_open)
}

/// The macros of `texts` that stand for an instance of a template which is asked for, `template void f<type>(type*);`, or begin with such a macro.
pub(super) fn instances<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let mut waiting: Vec<(String, Vec<String>)> = texts.flat_map(directives).filter_map(definition).collect();
    waiting.retain(|(_, words)| !has(words, &["{", "}"]));
    let mut found: BTreeSet<String> = BTreeSet::new();
    loop {
        let asks = |words: &[String]| match words {
            [first, second, ..] => first == "template" && second != "<" || found.contains(first),
            _ => false,
        };
        let (new, others): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(_, words)| asks(words));
        if new.is_empty() {
            return found;
        }
        found.extend(new.into_iter().map(|(name, _)| name));
        waiting = others;
    }
}

/// Macros by what their calls outside of functions make.
pub(crate) struct HostMacros {
    /// Those that stand for functions of the host.
    functions: BTreeSet<String>,
    /// Those that stand for a word which makes a function one of the device.
    of_device: BTreeSet<String>,
    /// Those that stand for a body: what is in front of a call is in front of no other call behind it.
    bodies: BTreeSet<String>,
}

/// The macros of `texts` that stand for functions of the host: what they launch, or what they name of PyTorch's, no kernel can.
pub(crate) fn host_macros<'a>(texts: impl Iterator<Item = &'a str>) -> HostMacros {
    let definitions: Vec<(String, Vec<String>)> = texts.flat_map(directives).filter_map(definition).collect();
    let of_device = standing_for_of(definitions.clone(), |words| has(words, &KEEPING));
    let of_kernels = standing_for_of(definitions.clone(), |words| has(words, &["__global__", "__device__"]));
    let bodies = standing_for_of(definitions.clone(), |words| has(words, &["{"]));
    // Where one stands outside of all braces, what it begins with is a function.
    let is_function = |words: &[String]| {
        let open = words.iter().position(|word| word == "{");
        let ends = open.and_then(|open| words.get(open.checked_sub(1)?)).is_some_and(|end| end == ")");
        let is_of_both = words.iter().any(|word| of_device.contains(word)) || has(words, &KEEPING);
        let names_class = words.first().is_some_and(|first| first == "class");
        let names_first = words.first().is_some_and(|first| !STATEMENTS.contains(&first.as_str()) && first != "(");
        // That of `template <class T>` is a parameter.
        let is_class = words
            .windows(2)
            .any(|pair| matches!(pair, [before, word] if word == "class" && !matches!(before.as_str(), "<" | ",")));
        let is_other = is_class || names_class || has(words, &["struct", "union", "namespace", "enum", "using"]);
        ends && names_first && !is_of_both && !is_other
    };
    // One of several definitions may be the device's.
    let is_of_host = |(name, words): &(String, Vec<String>)| {
        let follow = |first: &str, second: &str| words.windows(2).any(|pair| pair == [first, second]);
        let named = ["torch", "at", "c10", "py", "pybind11"].iter().any(|name| follow(name, ":"));
        has(words, &["{"])
            && !of_kernels.contains(name)
            && (named
                || words.windows(3).any(|three| three == ["<"; 3])
                || !of_device.contains(name) && is_function(words))
    };
    let functions = definitions.iter().filter(|one| is_of_host(one)).map(|(name, _)| name.clone()).collect();
    HostMacros { functions, of_device, bodies }
}

/// `text` with blanks where one of `macros` stands for a function of the host: outside of all braces, and without a word of the device's in front of
/// it or among its arguments.
pub(crate) fn without_calls(text: &str, macros: &HostMacros) -> String {
    if macros.functions.is_empty() || is_forced(text) {
        return text.to_string();
    }
    let tokens = tokens(text);
    let is_of_device = |token: &Token<'_>| KEEPING.contains(&token.text) || macros.of_device.contains(token.text);
    // Of the braces that are open, whether they are a namespace's.
    let (mut open, mut found) = (Vec::new(), Vec::new());
    let (mut head, mut at) = (0, 0);
    while let Some(token) = tokens.get(at) {
        let is_outside = open.iter().all(|is_namespace| *is_namespace);
        let is_call = macros.bodies.contains(token.text) && tokens.get(at + 1).is_some_and(|open| open.text == "(");
        match token.text {
            "{" => {
                let words = tokens.get(head..at).unwrap_or_default();
                open.push(words.iter().any(|word| matches!(word.text, "namespace" | "extern")));
            }
            "}" => _ = open.pop(),
            _ if is_outside && is_call => {
                let mut depth = 0_usize;
                let end = (at + 1..tokens.len()).find(|at| {
                    match tokens.get(*at).map_or("", |token| token.text) {
                        "(" => depth += 1,
                        ")" => depth -= 1,
                        _ => {}
                    }
                    depth == 0
                });
                let Some((end, close)) = end.and_then(|end| Some((end, tokens.get(end)?))) else { break };
                let (before, arguments) = (tokens.get(head..at), tokens.get(at + 1..end));
                let is_kept = before.into_iter().chain(arguments).flatten().any(is_of_device);
                if macros.functions.contains(token.text) && !is_kept {
                    found.push(token.at..close.at + 1);
                }
                at = end;
                head = end + 1;
            }
            _ => {}
        }
        if matches!(token.text, ";" | "{" | "}") {
            head = at + 1;
        }
        at += 1;
    }
    blank(text, found)
}

fn standing_for<'a>(texts: impl Iterator<Item = &'a str>, is_one: impl Fn(&[String]) -> bool) -> BTreeSet<String> {
    standing_for_of(texts.flat_map(directives).filter_map(definition).collect(), is_one)
}

/// The same of macros that are taken apart.
fn standing_for_of(mut waiting: Vec<(String, Vec<String>)>, is_one: impl Fn(&[String]) -> bool) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    loop {
        let is_found = |words: &[String]| is_one(words) || words.iter().any(|word| found.contains(word));
        let (new, others): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(_, words)| is_found(words));
        if new.is_empty() {
            return found;
        }
        found.extend(new.into_iter().map(|(name, _)| name));
        waiting = others;
    }
}

/// The name of a macro and the words that it stands for.
pub(super) fn definition(line: &str) -> Option<(String, Vec<String>)> {
    let text = line.strip_prefix("define")?.trim_start().replace("\\\r\n", " ").replace("\\\n", " ");
    let end = text.find(|found: char| !found.is_alphanumeric() && found != '_').unwrap_or(text.len());
    let (name, mut rest) = text.split_at(end);
    if rest.starts_with('(') {
        rest = rest.split_once(')').map_or("", |(_, rest)| rest);
    }
    Some((name.to_string(), tokens(rest.trim_start()).iter().map(|token| token.text.to_string()).collect()))
}

fn has(words: &[String], wanted: &[&str]) -> bool {
    words.iter().any(|word| wanted.contains(&word.as_str()))
}

/// Whether words are more than a part of one declaration: several of them, or names that are put together.
fn is_open(words: &[String]) -> bool {
    let is_statement = words.first().is_some_and(|first| STATEMENTS.contains(&first.as_str()));
    has(words, &["#"]) || !is_statement && has(words, &["{", "}", ";"])
}
