//! Macros that a source needs from the command line of its compiler: those that a build file beside it gives a value, `-DREAL=double`, and those
//! without which it has no kernel, `#ifdef USE_CUDA`.

use std::collections::{BTreeMap, BTreeSet};

use super::Draft;
use crate::{host_code, shim};

/// Build files, the first of which that is there is read.
const NAMES: [&str; 4] = ["GNUmakefile", "makefile", "Makefile", "CMakeLists.txt"];

/// Words of macros that take something away, such as a check: none of these is defined unless a build file does.
const TAKING_AWAY: [&str; 8] = ["NO", "DISABLE", "DISABLED", "UNSAFE", "UNCHECKED", "SKIP", "WITHOUT", "NDEBUG"];

/// Where a name is declared that clang does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Declared {
    /// Under no macro that a build defines.
    Nowhere,
    /// Under these macros, which are defined now.
    Under(Vec<String>),
    /// Where a build defines one of these, which only it can choose: none is defined.
    Chosen(Vec<String>),
}

/// The macros that the build file `beside` gives a value, and those that all kernels of the source `text` ask for; `files` are all that are
/// compiled.
pub(super) fn of(
    beside: impl Fn(&str) -> Option<String>,
    text: &str,
    files: &BTreeMap<String, String>,
) -> Vec<(String, String)> {
    let build_file = NAMES.iter().find_map(|name| beside(name)).unwrap_or_default();
    let mut found = defines(&build_file, files.values().map(String::as_str));
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
    /// Defines the macros under which alone its files declare `name`, as a build does.
    pub fn define_for(&mut self, name: &str) -> Declared {
        let known = |name: &str| is_known(name, &self.files, &self.defines);
        let naming =
            self.files.values().filter(|text| text.contains(name)).map(|text| host_code::without_disabled(text));
        let found = declared(&naming.collect::<Vec<_>>(), name, known);
        if let Declared::Under(names) = &found {
            self.defines.extend(names.iter().map(|name| (name.clone(), "1".to_string())));
            self.tell_why(names, &format!("under which {name} is declared"));
        }
        found
    }

    /// Says in the spec why these macros are defined.
    pub fn tell_why(&mut self, names: &[String], why: &str) {
        self.whys.extend(names.iter().map(|name| (name.clone(), why.to_string())));
    }

    /// The same draft with each of the macros of which the file `name` wants one, as its line `line` says by `#error`, and what these are.
    #[must_use]
    pub fn defined_for(&self, name: &str, line: usize) -> Vec<(Self, Vec<String>)> {
        let text = self.files.get(name).map(String::as_str).unwrap_or_default();
        let known = |name: &str| is_known(name, &self.files, &self.defines);
        let wanted = refusing(text, line).into_iter().map(|names| unknown(names, known));
        let defined = wanted.filter(|names| !names.is_empty() && !takes_away(names)).map(|names| {
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
    for line in conditional(text).filter(|line| words(line.text).any(|word| word == "__global__")) {
        match &mut around {
            Some(all) => all.retain(|name| line.asked.contains(name)),
            none => *none = Some(line.asked),
        }
    }
    let around = unknown(around.unwrap_or_default(), is_known);
    if takes_away(&around) { Vec::new() } else { around }
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

/// Where one of `texts` seems to declare `name`, as far as macros are concerned that a build defines. Of several places only a build says which is
/// taken, and they may differ in a check.
fn declared(texts: &[String], name: &str, is_known: impl Fn(&str) -> bool) -> Declared {
    let declaring =
        |line: &Line<'_>| declares(line.text, name) && words(line.text).any(|word| DECLARING.contains(&word));
    let mut found: Vec<(Vec<String>, bool)> = Vec::new();
    for line in texts.iter().flat_map(|text| conditional(text)).filter(declaring) {
        let [mut names, open] = [line.asked, line.open].map(|names| unknown(names, &is_known));
        let is_open = !open.is_empty();
        names.extend(open);
        let one = (names, is_open);
        if !one.0.is_empty() && !found.contains(&one) {
            found.push(one);
        }
    }
    match found.as_slice() {
        [] => Declared::Nowhere,
        [(names, false)] if !takes_away(names) => Declared::Under(names.clone()),
        several => Declared::Chosen(several.iter().map(|(names, _)| names.join(" ")).collect()),
    }
}

/// Whether a line has `name` where it is declared, and not as the type of something else: `real* x`, `real x`.
fn declares(line: &str, name: &str) -> bool {
    let is_of_word = |found: char| found.is_ascii_alphanumeric() || found == '_';
    line.match_indices(name).any(|(at, _)| {
        let (before, after) = (line.get(..at).unwrap_or_default(), line.get(at + name.len()..).unwrap_or_default());
        if before.ends_with(is_of_word) || after.starts_with(is_of_word) {
            return false;
        }
        let last = before.trim_end().rsplit(|found| !is_of_word(found)).next().unwrap_or_default();
        let is_named = ["define", "using", "struct", "class", "enum", "namespace"].contains(&last);
        let after = after.trim_start();
        let is_end =
            after.is_empty() || after.starts_with(['(', '=', ';', '{', '[', ',', '/', ':']) && !after.starts_with("::");
        is_named || is_end
    })
}

/// Whether one of these macros takes something away.
fn takes_away(names: &[String]) -> bool {
    let takes = |part: &str| TAKING_AWAY.iter().any(|word| part.eq_ignore_ascii_case(word));
    names.iter().any(|name| name.split('_').any(takes))
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

/// A line of a text.
struct Line<'a> {
    text: &'a str,
    /// Macros that have to be defined for it.
    asked: Vec<&'a str>,
    /// Macros of conditions that are not read here, on whose values it depends besides.
    open: Vec<&'a str>,
}

/// The lines of `text`.
fn conditional(text: &str) -> impl Iterator<Item = Line<'_>> {
    let mut open: Vec<[Vec<&str>; 2]> = Vec::new();
    text.lines().map(move |text| {
        let (word, condition) = directive(text);
        if matches!(word, "else" | "elif" | "endif") {
            open.pop();
        }
        match word {
            "ifdef" => open.push([words_of(condition), Vec::new()]),
            "if" | "elif" => open.push([asked(condition), not_read(condition)]),
            "ifndef" | "else" => open.push([Vec::new(), Vec::new()]),
            _ => {}
        }
        let of = |at: usize| open.iter().filter_map(|both| both.get(at)).flatten().copied().collect();
        Line { text, asked: of(0), open: of(1) }
    })
}

/// The macros of a condition that `asked` has none of, such as `MODE == 2`. None of those that a compiler may grant, nor of what has to be undefined.
fn not_read(condition: &str) -> Vec<&str> {
    let condition = condition.split("//").next().unwrap_or_default();
    let is_granted = |part: &str| !part.contains('!') && words(part).any(|word| word.starts_with('_'));
    if !asked(condition).is_empty() || condition.contains("||") && condition.split("||").any(is_granted) {
        return Vec::new();
    }
    let parts = condition.split("&&").filter(|part| !part.trim_start().starts_with('!'));
    parts.flat_map(words).filter(|word| is_word(word) && *word != "defined").collect()
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
        for (name, expected) in [("real", under("A")), ("other", under("B")), ("near", Declared::Nowhere)] {
            assert_eq!(declared(&[text.to_string()], name, |_| false), expected, "{name}");
        }
    }

    fn under(name: &str) -> Declared {
        Declared::Under(vec![name.to_string()])
    }

    /// What a build has to choose is not chosen here: one of them may have no check.
    #[test]
    fn no_macro_is_defined_that_may_take_a_check_away() {
        let chosen = |names: &[&str]| Declared::Chosen(names.iter().map(ToString::to_string).collect());
        let of = |text: &str| declared(&[text.to_string()], "INSIDE", |name| name == "KNOWN");
        let (bare, whole) = ("#define INSIDE(at, n) true\n", "#define INSIDE(at, n) ((at) < (n))\n");
        assert_eq!(
            of(&format!("#ifdef QUICK\n{bare}#elif defined(CAREFUL)\n{whole}#endif")),
            chosen(&["QUICK", "CAREFUL"])
        );
        assert_eq!(of(&format!("#ifdef QUICK\n{bare}#elif LEVEL == 2\n{whole}#endif")), chosen(&["QUICK", "LEVEL"]));
        assert_eq!(of(&format!("#ifdef NO_LIMITS\n{bare}#endif")), chosen(&["NO_LIMITS"]));
        assert_eq!(
            of(&format!("#ifdef CAREFUL\n#ifdef __HIPCC__\n{bare}#else\n{whole}#endif\n#endif")),
            under("CAREFUL")
        );
        assert_eq!(of("#ifdef ONE\nstruct INSIDE {};\n#endif\n#ifdef TWO\nstatic INSIDE* x;\n#endif"), under("ONE"));
        assert!(around_kernels("#ifdef SKIP_CHECKS\n__global__ void k() { }\n#endif", |_| false).is_empty());
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
