//! Macros that a source needs from the command line of its compiler: those that a build file beside it gives a value, `-DREAL=double`, and those
//! without which it has no kernel, `#ifdef USE_CUDA`.

use std::collections::{BTreeMap, BTreeSet};

use super::Draft;
use crate::{host_code, shim};

/// Build files, the first of which that is there is read.
pub(super) const NAMES: [&str; 4] = ["GNUmakefile", "makefile", "Makefile", "CMakeLists.txt"];

/// The macros that `build_file` gives a value, and those that all kernels of the source `text` ask for; `files` are all that are compiled.
pub(super) fn of(build_file: &str, text: &str, files: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let mut found = defines(build_file, files.values().map(String::as_str));
    let around = around_kernels(&host_code::without_disabled(text), |name| is_known(name, files, &found));
    found.extend(around.into_iter().map(|name| (name, "1".to_string())));
    found
}

/// Whether somebody defines the macro `name`.
fn is_known(name: &str, files: &BTreeMap<String, String>, defines: &[(String, String)]) -> bool {
    let of_files =
        || files.values().filter(|text| text.contains(name)).any(|text| host_code::macros(text).any(|one| one == name));
    defines.iter().any(|(known, _)| known == name) || shim::defines(name) || of_files()
}

impl Draft {
    /// Defines the macros without which none of its files declares `name`, as a build does. Those that it defines now; none where nothing of it helps.
    pub fn define_for(&mut self, name: &str) -> Vec<String> {
        let known = |name: &str| is_known(name, &self.files, &self.defines);
        let naming = self.files.values().filter(|text| text.contains(name));
        let around = |text: &String| around_declaration(&host_code::without_disabled(text), name, known);
        let found = naming.map(around).find(|around| !around.is_empty()).unwrap_or_default();
        self.defines.extend(found.iter().map(|name| (name.clone(), "1".to_string())));
        found
    }

    /// The same draft with each of the macros of which the file `name` wants one, as its line `line` says by `#error`, and what these are.
    #[must_use]
    pub fn defined_for(&self, name: &str, line: usize) -> Vec<(Self, Vec<String>)> {
        let text = self.files.get(name).map(String::as_str).unwrap_or_default();
        let known = |name: &str| is_known(name, &self.files, &self.defines);
        let wanted = refusing(text, line).into_iter().map(|names| unknown(names, known));
        let defined = wanted.filter(|names| !names.is_empty()).map(|names| {
            let more = names.iter().map(|name| (name.clone(), "1".to_string()));
            (Self { defines: self.defines.iter().cloned().chain(more).collect(), ..self.clone() }, names)
        });
        defined.collect()
    }
}

/// The macros of each condition behind whose last one the `line` of `text` refuses to be compiled: `#if defined(A)`, `#elif B`, `#else`, `#error`.
fn refusing(text: &str, line: usize) -> Vec<Vec<&str>> {
    let mut open: Vec<Vec<Vec<&str>>> = Vec::new();
    for (at, words) in (1..=line).zip(text.lines().map(directive)) {
        match words {
            ("if", condition) => open.push(vec![asked(condition)]),
            ("ifdef", name) => open.push(vec![words_of(name)]),
            ("ifndef", _) => open.push(Vec::new()),
            ("elif", condition) => open.iter_mut().last().into_iter().for_each(|chain| chain.push(asked(condition))),
            ("endif", _) => _ = open.pop(),
            ("error", _) if at == line => return open.pop().unwrap_or_default(),
            _ => {}
        }
    }
    Vec::new()
}

/// The macros with their values in a build file, of those that one of `texts` names and none defines anew. What is under a condition
/// is for some builds alone and left out, and so is a value that is no number and no name.
fn defines<'a>(build_file: &str, texts: impl Iterator<Item = &'a str> + Clone) -> Vec<(String, String)> {
    let mut conditions = 0_usize;
    let mut found: Vec<(String, String)> = Vec::new();
    for line in build_file.lines() {
        let line = line.split('#').next().unwrap_or_default().trim_start();
        let lower = line.to_lowercase();
        if lower.starts_with("endif") {
            conditions = conditions.saturating_sub(1);
        } else if lower.starts_with("if") {
            conditions += 1;
        }
        if conditions > 0 {
            continue;
        }
        let words = line.split(|found: char| found.is_whitespace() || matches!(found, '(' | ')' | '"'));
        let words = words.filter_map(|word| word.strip_prefix("-D")?.split_once('='));
        for (name, value) in words.filter(|(name, value)| is_word(name) && is_value(value)) {
            if !found.iter().any(|(known, _)| known == name) {
                found.push((name.to_string(), value.to_string()));
            }
        }
    }
    let named: BTreeSet<&str> = texts.clone().flat_map(words).collect();
    let defined: BTreeSet<String> = texts.clone().flat_map(host_code::macros).collect();
    let defaults: BTreeSet<String> = texts.flat_map(host_code::defaults).map(|(name, _)| name).collect();
    let wanted = |name: &String| named.contains(name.as_str()) && (!defined.contains(name) || defaults.contains(name));
    found.retain(|(name, _)| wanted(name));
    found
}

/// The macros that are asked for around all kernels of `text`, and that nobody defines as `is_known` says: a build does.
fn around_kernels(text: &str, is_known: impl Fn(&str) -> bool) -> Vec<String> {
    let mut around: Option<Vec<&str>> = None;
    for (_, here) in conditional(text).filter(|(line, _)| words(line).any(|word| word == "__global__")) {
        match &mut around {
            Some(all) => all.retain(|name| here.contains(name)),
            none => *none = Some(here),
        }
    }
    unknown(around.unwrap_or_default(), is_known)
}

/// Words of which one is in a line that declares something.
const DECLARING: [&str; 12] = [
    "using",
    "typedef",
    "struct",
    "class",
    "enum",
    "namespace",
    "define",
    "const",
    "constexpr",
    "inline",
    "__device__",
    "static",
];

/// The macros that are asked for around the first of the lines of `text` that seem to declare `name` for which there are any.
fn around_declaration(text: &str, name: &str, is_known: impl Fn(&str) -> bool) -> Vec<String> {
    let declaring = |(line, _): &(&str, Vec<&str>)| {
        words(line).any(|word| word == name) && words(line).any(|word| DECLARING.contains(&word))
    };
    let found = conditional(text).filter(declaring).map(|(_, around)| unknown(around, &is_known));
    found.into_iter().find(|around| !around.is_empty()).unwrap_or_default()
}

/// Those of `names` that a build defines.
fn unknown(mut names: Vec<&str>, is_known: impl Fn(&str) -> bool) -> Vec<String> {
    // Those of compilers and systems begin like this.
    names.retain(|name| !name.starts_with('_') && !is_known(name));
    names.dedup();
    names.into_iter().map(str::to_string).collect()
}

/// The word of a line of the preprocessor's, and what is behind it; nothing of others.
fn directive(line: &str) -> (&str, &str) {
    let directive = line.trim_start().strip_prefix('#').unwrap_or_default().trim_start();
    let end = directive.find(|found: char| !found.is_ascii_alphabetic()).unwrap_or(directive.len());
    directive.split_at(end)
}

/// The name behind `#ifdef`.
fn words_of(name: &str) -> Vec<&str> {
    words(name).take(1).collect()
}

/// The lines of `text`, each with the macros that have to be defined for it.
fn conditional(text: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    let mut open: Vec<Vec<&str>> = Vec::new();
    text.lines().map(move |line| {
        let (word, condition) = directive(line);
        if matches!(word, "else" | "elif" | "endif") {
            open.pop();
        }
        match word {
            "ifdef" => open.push(words_of(condition)),
            "if" | "elif" => open.push(asked(condition)),
            "ifndef" | "else" => open.push(Vec::new()),
            _ => {}
        }
        (line, open.iter().flatten().copied().collect())
    })
}

/// The macros that have to be defined for a condition: `defined(A) && B`, and of `defined(A) || defined(B)` the first. Nothing of one that is
/// anything else, or that a compiler may grant.
fn asked(condition: &str) -> Vec<&str> {
    let condition = condition.split("//").next().unwrap_or_default();
    if condition.contains("||") {
        let all: Vec<Vec<&str>> = condition.split("||").map(asked).collect();
        let is_granted = |names: &Vec<&str>| names.is_empty() || names.iter().any(|name| name.starts_with('_'));
        return if all.iter().any(is_granted) { Vec::new() } else { all.into_iter().next().unwrap_or_default() };
    }
    let parts: Vec<&str> = condition.split("&&").collect();
    let is_plain = |part: &&str| part.chars().all(|found| found.is_ascii_alphanumeric() || "_() ".contains(found));
    if !parts.iter().all(is_plain) {
        return Vec::new();
    }
    parts.iter().filter_map(|part| words(part).find(|word| *word != "defined")).filter(|word| is_word(word)).collect()
}

/// The words of a text, those of its preprocessor's lines among them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|found: char| !found.is_ascii_alphanumeric() && found != '_').filter(|word| !word.is_empty())
}

fn is_word(text: &str) -> bool {
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    plain && text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

fn is_value(text: &str) -> bool {
    is_word(text) || text.parse::<i64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_that_all_kernels_ask_for() {
        let kernel = "__global__ void k() { }";
        for (text, expected) in [
            (format!("#ifdef USE_CUDA\n{kernel}\n#endif"), &["USE_CUDA"][..]),
            (
                format!("#ifndef A_H\n#define A_H\n#if defined(USE_GPU) && FAST // both\n{kernel}\n#endif\n#endif"),
                &["USE_GPU", "FAST"],
            ),
            (format!("#ifdef X\n#ifdef Y\n{kernel}\n#endif\n{kernel}\n#endif"), &["X"]),
            (format!("#ifdef X\n{kernel}\n#endif\n{kernel}"), &[]),
            (format!("#if defined(X) || defined(Y)\n{kernel}\n#endif"), &["X"]),
            (format!("#if defined(X) || defined(__CUDACC__)\n{kernel}\n#endif"), &[]),
            (format!("#ifdef X\n#else\n{kernel}\n#endif"), &[]),
            (format!("#if X > 2 || !defined(Y)\n{kernel}\n#endif"), &[]),
            (format!("#ifdef __HIPCC__\n#if KNOWN\n{kernel}\n#endif\n#endif"), &[]),
        ] {
            assert_eq!(around_kernels(&text, |name| name == "KNOWN"), expected, "{text}");
        }
        let text = "#ifndef H\n#if X > 1\n#elif defined(A)\n#if B\n#endif\n#elif defined(C) && D\n#else\n#error one of A, C\n#endif\n#endif";
        assert_eq!(refusing(text, 8), [&[][..], &["A"], &["C", "D"]]);
        assert!(refusing(text, 7).is_empty());
        let text = "using near = real;\n#if defined(A)\nusing real = float;\n#elif defined(B)\nusing other = double;\n#endif\n";
        for (name, expected) in [("real", &["A"][..]), ("other", &["B"]), ("near", &[])] {
            assert_eq!(around_declaration(text, name, |_| false), expected, "{name}");
        }
    }

    #[test]
    fn macros_of_a_build_file() {
        let build = "CFLAGS := $(EXTRA) -DREAL=double -DN=64 -DUNKNOWN=1 -DOWN=2 -DTEXT=\\\"a\\\" -DPLAIN -DPATH=a/b # -DM=1\n\
            ifeq ($(DEBUG),yes)\n  CFLAGS += -DM=3\nendif\nadd_definitions(-DTILE=8)\nCFLAGS += -DN=1\n";
        let texts = ["REAL x[N]; OWN TEXT PATH PLAIN\n#define OWN 1\n", "#ifndef TILE\n#define TILE 16\n#endif\nM"];
        let pairs = [("REAL", "double"), ("N", "64"), ("TILE", "8")];
        let expected: Vec<(String, String)> = pairs.map(|(name, value)| (name.into(), value.into())).into();
        assert_eq!(defines(build, texts.into_iter()), expected);
    }
}
