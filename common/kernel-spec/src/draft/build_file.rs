//! Macros that a source needs from the command line of its compiler: those that a build file beside it gives a value, `-DREAL=double`, and those
//! without which something is not there, `#ifdef USE_CUDA`. Of the latter one is defined only where nothing else could be meant and where it takes no
//! line away: what a build chooses between may differ in a check.

mod branches;
mod folders;
mod variables;

use std::collections::{BTreeMap, BTreeSet};

use self::branches::{Branch, directive, takes_lines, walk, words};
pub use self::folders::include_folders;
use self::variables::Variables;
use super::Draft;
use crate::{host_code, shim};

/// Build files, the first of which that is there is read.
const NAMES: [&str; 4] = ["GNUmakefile", "makefile", "Makefile", "CMakeLists.txt"];

/// What is in names of macros that take something away, such as a check: none of these is defined unless a build file does.
const TAKING_AWAY: [&str; 12] =
    ["CHECK", "BOUND", "SAFE", "GUARD", "ASSERT", "OMIT", "IGNORE", "ASSUME", "SKIP", "DISABLE", "WITHOUT", "NDEBUG"];

/// Under which macros something is that no compiler sees without them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Declared {
    /// Under none that a build defines.
    Nowhere,
    /// Under these, which are defined now.
    Under(Vec<String>),
    /// Where a build defines one of these, or some, which only it can choose: none is defined.
    Chosen(Vec<String>),
}

/// Macros, each with something of it.
type Macros = Vec<(String, String)>;

/// The macros that the build file `beside` gives a value, and those that all kernels of the source `text` ask for, and why the latter are defined;
/// `files` are all that are compiled.
pub(super) fn of(
    beside: impl Fn(&str) -> Option<String>,
    text: &str,
    files: &BTreeMap<String, String>,
) -> (Macros, BTreeMap<String, String>) {
    let build_file = NAMES.iter().find_map(|name| beside(name)).unwrap_or_default();
    let mut found = defines(&build_file, files.values().map(String::as_str));
    let Declared::Under(around) = around_kernels(text, files, |name| is_known(name, files, &found)) else {
        return (found, BTreeMap::new());
    };
    found.extend(around.iter().map(|name| (name.clone(), "1".to_string())));
    (found, around.into_iter().map(|name| (name, "around all kernels of its source".to_string())).collect())
}

/// Whether somebody defines the macro `name`.
fn is_known(name: &str, files: &BTreeMap<String, String>, defines: &[(String, String)]) -> bool {
    let of_files =
        || files.values().filter(|text| text.contains(name)).any(|text| host_code::macros(text).any(|one| one == name));
    defines.iter().any(|(known, _)| known == name) || shim::defines(name) || of_files()
}

/// The texts of files as branches are looked for in them.
fn plain(files: &BTreeMap<String, String>) -> Vec<String> {
    files.values().map(|text| plain_text(text)).collect()
}

fn plain_text(text: &str) -> String {
    host_code::without_disabled(&host_code::without_comments(text))
}

impl Draft {
    fn is_known(&self, name: &str) -> bool {
        is_known(name, &self.files, &self.defines)
    }

    /// Defines `found` and says in the spec why.
    fn define(&mut self, found: Declared, why: &str) -> Declared {
        if let Declared::Under(names) = &found {
            self.defines.extend(names.iter().map(|name| (name.clone(), "1".to_string())));
            self.whys.extend(names.iter().map(|name| (name.clone(), why.to_string())));
        }
        found
    }

    /// Defines the macros under which alone its files declare `name`, as a build does.
    pub fn define_for(&mut self, name: &str) -> Declared {
        if !self.files.values().any(|text| text.contains(name)) {
            return Declared::Nowhere;
        }
        let found = declared(&plain(&self.files), name, |name| self.is_known(name));
        self.define(found, &format!("under which {name} is declared"))
    }

    /// Defines the macros without which alone its file `name` refuses to be compiled, as its line `line` says by `#error`.
    pub fn define_against(&mut self, name: &str, line: usize) -> Declared {
        let Some(text) = self.files.get(name) else { return Declared::Nowhere };
        let places = refusing(&plain_text(text), line, |name| self.is_known(name));
        let found = choose(&places, || plain(&self.files));
        self.define(found, &format!("without which {name} says that it is not to be compiled"))
    }

    /// The macros around all kernels of its source that only a build can choose.
    #[must_use]
    pub fn chosen_around(&self) -> Vec<String> {
        let text = self.files.get(&self.source).map(String::as_str).unwrap_or_default();
        match around_kernels(text, &self.files, |name| self.is_known(name)) {
            Declared::Chosen(names) => names,
            Declared::Nowhere | Declared::Under(_) => Vec::new(),
        }
    }
}

/// The macros that are asked for at one place and that nobody defines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Place {
    names: Vec<String>,
    /// Whether others, or other values of these, would do as well.
    is_open: bool,
}

impl Place {
    fn of<'a>(conditions: impl Iterator<Item = &'a str>, is_known: impl Fn(&str) -> bool) -> Self {
        let mut place = Self::default();
        for condition in conditions {
            let all = asked(condition);
            let names = if all.is_empty() { named(condition) } else { all.clone() };
            for name in names.into_iter().filter(|name| !is_known(name)) {
                place.is_open |= all.is_empty();
                place.names.push(name.to_string());
            }
        }
        // Of a compiler's own none has to be chosen where there are others.
        if !place.names.iter().all(|name| name.starts_with("__")) {
            place.names.retain(|name| !name.starts_with("__"));
        }
        place.names.dedup();
        place
    }
}

/// What to do about something that is at `places` alone: it is the one principle by which macros are defined. `texts` are of all files.
fn choose(places: &[Place], texts: impl FnOnce() -> Vec<String>) -> Declared {
    let mut all: Vec<String> = places.iter().flat_map(|place| place.names.iter().cloned()).collect();
    // Those of compilers and systems begin like this.
    if all.iter().all(|name| name.starts_with('_')) {
        return Declared::Nowhere;
    }
    if let [Place { names, is_open: false }] = places
        && !names.iter().any(|name| name.starts_with('_') || sounds_as_taking(name))
    {
        let texts = texts();
        if !names.iter().any(|name| takes_lines(&texts, name)) {
            return Declared::Under(all);
        }
    }
    let mut seen = BTreeSet::new();
    all.retain(|name| seen.insert(name.clone()));
    Declared::Chosen(all)
}

/// Whether a macro is called as if it took something away.
fn sounds_as_taking(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    name.starts_with("NO")
        || name.split('_').any(|part| part == "NO")
        || TAKING_AWAY.iter().any(|word| name.contains(word))
}

/// The branches of a condition behind whose last one the `line` of `text` refuses to be compiled: `#if defined(A)`, `#elif B`, `#else`, `#error`.
fn refusing(text: &str, line: usize, is_known: impl Fn(&str) -> bool) -> Vec<Place> {
    let mut found = Vec::new();
    walk(text, |number, text, branches| {
        if number == line
            && directive(text).0 == "error"
            && let Some(Branch { before, .. }) = branches.last().filter(|branch| branch.condition.is_empty())
        {
            found = before.iter().map(|one| Place::of([one.as_str()].into_iter(), &is_known)).collect();
        }
    });
    found
}

/// The macros with their values in a build file, of those that one of `texts` names and none defines anew. What is under a condition
/// is for some builds alone and left out, and so is a value that is no number and no name.
fn defines<'a>(build_file: &str, texts: impl Iterator<Item = &'a str> + Clone) -> Vec<(String, String)> {
    let mut conditions = 0_usize;
    let mut found: Vec<(String, String)> = Vec::new();
    let lines = build_file.lines().map(|line| line.split('#').next().unwrap_or_default().trim_start());
    let lines: Vec<&str> = lines
        .filter(|line| {
            let lower = line.to_lowercase();
            if lower.starts_with("endif") {
                conditions = conditions.saturating_sub(1);
            } else if lower.starts_with("if") {
                conditions += 1;
            }
            conditions == 0
        })
        .collect();
    let variables = Variables::of(lines.iter().copied());
    for line in lines.into_iter().map(|line| variables.expanded(line)) {
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

/// Under which macros all kernels of `text` are, which is one of `files`.
fn around_kernels(text: &str, files: &BTreeMap<String, String>, is_known: impl Fn(&str) -> bool) -> Declared {
    let mut around: Option<Vec<String>> = None;
    walk(&plain_text(text), |_, line, branches| {
        if !words(line).any(|word| word == "__global__") {
            return;
        }
        let of = |condition: &String| match asked(condition).as_slice() {
            [] => vec![condition.clone()],
            all => all.iter().map(ToString::to_string).collect(),
        };
        let conditions: Vec<String> = branches.iter().flat_map(|branch| of(&branch.condition)).collect();
        match &mut around {
            Some(all) => all.retain(|one| conditions.contains(one)),
            none => *none = Some(conditions),
        }
    });
    let wanted = around.iter().flatten().filter(|one| !is_granted(one, &is_known));
    let place = Place::of(wanted.map(String::as_str), &is_known);
    if place.names.is_empty() { Declared::Nowhere } else { choose(&[place], || plain(files)) }
}

/// Whether a compiler may grant one of several things: that something is not defined, that one of its own macros is, or one that is known.
fn is_granted(condition: &str, is_known: impl Fn(&str) -> bool) -> bool {
    let is_granted = |part: &str| part.contains('!') || words(part).any(|word| word.starts_with('_') || is_known(word));
    condition.contains("||") && condition.split("||").any(is_granted)
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

/// Words in front of what is used.
const USING: [&str; 9] = ["return", "else", "case", "goto", "throw", "new", "delete", "co_return", "co_yield"];

/// Bytes of a statement that are looked at.
const MOST_BEGUN: usize = 1000;

/// Where `texts` seem to declare `name`, as far as macros are concerned that a build defines.
fn declared(texts: &[String], name: &str, is_known: impl Fn(&str) -> bool) -> Declared {
    let (mut found, mut is_any): (Vec<Place>, bool) = (Vec::new(), false);
    for text in texts {
        // What the statement begins with that a line goes on with.
        let mut begun = String::new();
        walk(text, |_, line, branches| {
            let is_directive = !directive(line).0.is_empty();
            let statement = if is_directive { line.to_string() } else { format!("{begun} {line}") };
            let is_declared = declares(line, name) && words(&statement).any(|word| DECLARING.contains(&word));
            // Its type may be all that is in front of it.
            if is_declared || !is_directive && is_behind_word(&statement, name) {
                let place = Place::of(branches.iter().map(|branch| branch.condition.as_str()), &is_known);
                is_any |= is_declared && !place.names.is_empty();
                if !place.names.is_empty() && !found.contains(&place) {
                    found.push(place);
                }
            }
            if !is_directive {
                match line.rfind([';', '{', '}']) {
                    Some(end) => begun = line.get(end + 1..).unwrap_or_default().to_string(),
                    None if statement.len() > MOST_BEGUN => begun = line.to_string(),
                    None => begun = statement,
                }
            }
        });
    }
    if is_any { choose(&found, || texts.to_vec()) } else { Declared::Nowhere }
}

/// Whether a statement has `name` behind a word that may be its type.
fn is_behind_word(statement: &str, name: &str) -> bool {
    let is_type = |before: &str| {
        let gap = before.trim_end();
        let word = words(gap).last().filter(|word| gap.len() < before.len() && gap.ends_with(*word));
        word.is_some_and(|word| is_word(word) && !USING.contains(&word))
    };
    declares(statement, name)
        && statement.match_indices(name).any(|(at, _)| is_type(statement.get(..at).unwrap_or_default()))
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

/// The macros that a condition names, none of those that it wants undefined.
fn named(condition: &str) -> Vec<&str> {
    let parts =
        condition.split("&&").flat_map(|part| part.split("||")).filter(|part| !part.trim_start().starts_with('!'));
    parts.flat_map(words).filter(|word| is_word(word) && *word != "defined").collect()
}

/// The macros that all have to be defined for a condition: `defined(A) && B`. Nothing of one that is anything else.
fn asked(condition: &str) -> Vec<&str> {
    let parts: Vec<&str> = condition.split("&&").collect();
    let is_plain = |part: &&str| part.chars().all(|found| found.is_ascii_alphanumeric() || "_() ".contains(found));
    if !parts.iter().all(is_plain) || words(condition).any(|word| matches!(word, "and" | "or" | "not")) {
        return Vec::new();
    }
    parts.iter().filter_map(|part| words(part).find(|word| *word != "defined")).filter(|word| is_word(word)).collect()
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

    fn under(names: &[&str]) -> Declared {
        Declared::Under(names.iter().map(ToString::to_string).collect())
    }

    fn chosen(names: &[&str]) -> Declared {
        Declared::Chosen(names.iter().map(ToString::to_string).collect())
    }

    fn around(text: &str) -> Declared {
        let files = BTreeMap::from([("k.cu".to_string(), text.to_string())]);
        around_kernels(text, &files, |name| name == "KNOWN")
    }

    fn of(text: &str) -> Declared {
        declared(&[plain_text(text)], "INSIDE", |name| name == "KNOWN")
    }

    #[test]
    fn macros_that_all_kernels_ask_for() {
        let kernel = "__global__ void k() { }";
        for (text, expected) in [
            (format!("#ifdef USE_CUDA\n{kernel}\n#endif"), under(&["USE_CUDA"])),
            (
                format!("#ifndef A_H\n#define A_H\n#if defined(USE_GPU) && FAST // both\n{kernel}\n#endif\n#endif"),
                under(&["USE_GPU", "FAST"]),
            ),
            (format!("#ifdef X\n#ifdef Y\n{kernel}\n#endif\n{kernel}\n#endif"), under(&["X"])),
            (format!("#ifdef X\n{kernel}\n#endif\n{kernel}"), Declared::Nowhere),
            // Only a build says which.
            (format!("#if defined(X) || defined(Y)\n{kernel}\n#endif"), chosen(&["X", "Y"])),
            (format!("#if defined(X) || \\\n    defined(Y)\n{kernel}\n#endif"), chosen(&["X", "Y"])),
            (format!("#if MODE == 2\n{kernel}\n#endif"), chosen(&["MODE"])),
            (
                "#if defined(QUICK) || defined(CAREFUL)\n__global__ void k() {\n#ifndef QUICK\nif (i < n)\n#endif\n}\n#endif".into(),
                chosen(&["QUICK", "CAREFUL"]),
            ),
            ("#ifdef QUICK\n__global__ void k() {\n#ifndef QUICK\nif (i < n)\n#endif\n}\n#endif".into(), under(&["QUICK"])),
            (format!("#ifdef X\n{kernel}\n#endif\n#ifndef X\n#define INSIDE(at, n) at < n\n#endif"), chosen(&["X"])),
            (format!("#if defined(X) || defined(__CUDACC__)\n{kernel}\n#endif"), Declared::Nowhere),
            (format!("#ifdef X\n#else\n{kernel}\n#endif"), Declared::Nowhere),
            (format!("#if X > 2 || !defined(Y)\n{kernel}\n#endif"), Declared::Nowhere),
            (format!("#ifdef __HIPCC__\n#if KNOWN\n{kernel}\n#endif\n#endif"), Declared::Nowhere),
            (format!("#ifdef SKIP_CHECKS\n{kernel}\n#endif"), chosen(&["SKIP_CHECKS"])),
        ] {
            assert_eq!(around(&text), expected, "{text}");
        }
    }

    /// The second of two branches refuses to be compiled, or the third of three.
    #[test]
    fn macros_that_a_file_refuses_to_do_without() {
        let refused =
            |text: &str, line| choose(&refusing(text, line, |name| name == "KNOWN"), || vec![text.to_string()]);
        let text = "#ifndef H\n#if X > 1\n#elif defined(A)\n#if B\n#endif\n#elif defined(C) && D\n#else\n#error one of A, C\n#endif\n#endif";
        assert_eq!(refused(text, 8), chosen(&["X", "A", "C", "D"]));
        assert_eq!(refused(text, 7), Declared::Nowhere);
        assert_eq!(refused("#if defined(C) && D\n#define STEP 1\n#else\n#error C\n#endif", 4), under(&["C", "D"]));
        assert_eq!(refused("#if defined(C) || D\n#else\n#error C\n#endif", 3), chosen(&["C", "D"]));
        let quick = "#define INSIDE(at, n) true\n#elif defined(CAREFUL)\n#define INSIDE(at, n) ((at) < (n))\n#else\n#error\n#endif";
        assert_eq!(refused(&format!("#ifdef QUICK\n{quick}"), 6), chosen(&["QUICK", "CAREFUL"]));
    }

    #[test]
    fn macros_under_which_a_name_is_declared() {
        // The first takes the line of the second away.
        let text = "using near = real;\n#if defined(A)\nusing real = float;\n#elif defined(B)\nusing other = double;\n#endif\n";
        for (name, expected) in [("real", chosen(&["A"])), ("other", under(&["B"])), ("near", Declared::Nowhere)] {
            assert_eq!(declared(&[text.to_string()], name, |_| false), expected, "{name}");
        }
    }

    /// What a build has to choose is not chosen here: one of them may have no check.
    #[test]
    fn no_macro_is_defined_that_may_take_a_check_away() {
        let (bare, whole) = ("#define INSIDE(at, n) true\n", "#define INSIDE(at, n) ((at) < (n))\n");
        let whole_of_lines = "__device__ bool\nINSIDE(int at, int n) { return at < n; }\n";
        for (text, expected) in [
            (format!("#ifdef QUICK\n{bare}#elif defined(CAREFUL)\n{whole}#endif"), chosen(&["QUICK", "CAREFUL"])),
            (format!("#ifdef QUICK\n{bare}#elif LEVEL == 2\n{whole}#endif"), chosen(&["QUICK", "LEVEL"])),
            (format!("#ifdef QUICK\n{bare}#elif defined(_DEBUG)\n{whole}#endif"), chosen(&["QUICK", "_DEBUG"])),
            (
                format!("#ifdef QUICK\n{bare}#elif defined(CAREFUL) || defined(__CAREFUL__)\n{whole}#endif"),
                chosen(&["QUICK", "CAREFUL"]),
            ),
            (
                format!("#ifdef QUICK\n{bare}#endif\n#if defined(CAREFUL) || defined(__CAREFUL__)\n{whole}#endif"),
                chosen(&["QUICK", "CAREFUL"]),
            ),
            (
                format!("#ifdef QUICK\n{bare}#elif defined(CAREFUL)\n{whole_of_lines}#endif"),
                chosen(&["QUICK", "CAREFUL"]),
            ),
            (
                format!("#ifdef QUICK\n{bare}#endif\n#ifdef CAREFUL\n{whole_of_lines}#endif"),
                chosen(&["QUICK", "CAREFUL"]),
            ),
            (
                format!("#ifdef QUICK\n{bare}#endif\n#ifdef CAREFUL\nHERE bool\nINSIDE(int at, int n);\n#endif"),
                chosen(&["QUICK", "CAREFUL"]),
            ),
            (format!("#ifdef QUICK\n{bare}#elifdef CAREFUL\n{whole}#endif"), chosen(&["QUICK", "CAREFUL"])),
            (format!("#ifdef NO_LIMITS\n{bare}#endif"), chosen(&["NO_LIMITS"])),
            (format!("#ifdef QUICK\n{bare}#endif\n#ifndef QUICK\nif (i < n)\n#endif"), chosen(&["QUICK"])),
            (format!("#ifdef CAREFUL\n#ifdef __HIPCC__\n{bare}#else\n{whole}#endif\n#endif"), under(&["CAREFUL"])),
            ("#ifdef ONE\nstruct INSIDE {};\n#endif\n#ifdef TWO\nstatic INSIDE* x;\n#endif".into(), under(&["ONE"])),
            ("#ifdef __HIPCC__\nstruct INSIDE {};\n#endif".into(), Declared::Nowhere),
        ] {
            assert_eq!(of(&text), expected, "{text}");
        }
        for name in
            ["NOCHECK", "NOBOUNDS", "OMIT_CHECKS", "IGNORE_BOUNDS", "ASSUME_IN_BOUNDS", "MY_NO_LIMITS", "UNSAFE"]
        {
            assert_eq!(of(&format!("#ifdef {name}\n{bare}#endif")), chosen(&[name]), "{name}");
        }
        assert_eq!(of(&format!("#ifdef WITH_NODES\n{bare}#endif")), under(&["WITH_NODES"]));
    }

    #[test]
    fn macros_of_a_build_file() {
        let build = "SIDE = 8\nCFLAGS := $(EXTRA) -DREAL=double -DSIDE=$(SIDE) -DN=64 -DUNKNOWN=1 -DOWN=2 -DTEXT=\\\"a\\\" -DPLAIN -DPATH=a/b # -DM=1\n\
            ifeq ($(DEBUG),yes)\n  CFLAGS += -DM=3\nendif\nadd_definitions(-DTILE=8)\nCFLAGS += -DN=1\n";
        let texts =
            ["REAL x[N]; SIDE OWN TEXT PATH PLAIN\n#define OWN 1\n", "#ifndef TILE\n#define TILE 16\n#endif\nM"];
        let pairs = [("REAL", "double"), ("SIDE", "8"), ("N", "64"), ("TILE", "8")];
        let expected: Vec<(String, String)> = pairs.map(|(name, value)| (name.into(), value.into())).into();
        assert_eq!(defines(build, texts.into_iter()), expected);
    }
}
