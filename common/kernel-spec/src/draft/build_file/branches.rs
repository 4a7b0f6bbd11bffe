//! Branches of the preprocessor's: under which conditions lines are compiled, and which lines a macro takes away.

use std::collections::VecDeque;

/// A branch that lines are in.
#[derive(Clone, Debug, Default)]
pub(super) struct Branch {
    /// Conditions of those before it, which do not hold.
    pub(super) before: Vec<String>,
    /// Its own; empty where it is what is left.
    pub(super) condition: String,
}

/// Calls `see` with the number of each line of `text`, the line, and the branches that it is in; not with those that open or close branches.
pub(super) fn walk<'a>(text: &'a str, mut see: impl FnMut(usize, &'a str, &[Branch])) {
    let mut open: Vec<Branch> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let (word, behind) = directive(line);
        let name = words(behind).next().unwrap_or_default();
        let condition = match word {
            "if" | "elif" => behind.trim().to_string(),
            "ifdef" | "elifdef" => format!("defined({name})"),
            "ifndef" | "elifndef" => format!("!defined({name})"),
            _ => String::new(),
        };
        match word {
            "if" | "ifdef" | "ifndef" => open.push(Branch { condition, ..Branch::default() }),
            "else" | "elif" | "elifdef" | "elifndef" => {
                if let Some(branch) = open.last_mut() {
                    branch.before.push(std::mem::replace(&mut branch.condition, condition));
                }
            }
            "endif" => _ = open.pop(),
            _ => see(number, line, &open),
        }
    }
}

/// Macros that depend on another one.
struct Dependent {
    /// Those that are defined with it, itself the first.
    defined: Vec<String>,
    /// Those that are another thing with it.
    changed: Vec<String>,
}

impl Dependent {
    fn is_named(&self, condition: &str) -> bool {
        words(condition).any(|word| self.defined.iter().chain(&self.changed).any(|name| name == word))
    }

    /// Whether `branch` depends on one of them.
    fn is_of(&self, branch: &Branch) -> bool {
        branch.before.iter().chain([&branch.condition]).any(|condition| self.is_named(condition))
    }

    /// Whether what is in these branches may be compiled without the macro and not with it.
    fn take(&self, branches: &[Branch]) -> bool {
        let without = |name: &str| self.defined.first().filter(|first| *first == name).map(|_| false);
        let is_in = |names: &[String], name: &str| names.iter().any(|one| one == name);
        let with = |name: &str| (is_in(&self.defined, name) && !is_in(&self.changed, name)).then_some(true);
        let is_never = branches.iter().any(|branch| is_taken(branch, &without) == Some(false));
        !is_never && branches.iter().any(|branch| self.is_of(branch) && is_taken(branch, &with) != Some(true))
    }

    /// Adds the macro that `line` defines where the macro is; whether it was unknown.
    fn learn(&mut self, line: &str) -> bool {
        let (word, behind) = directive(line);
        let Some(name) = words(behind).next() else { return false };
        let value = behind.trim_start().get(name.len()..).unwrap_or_default().trim().trim_matches(['(', ')']);
        let names = match word {
            "define" if !matches!(value, "0" | "false") => &mut self.defined,
            "define" | "undef" => &mut self.changed,
            _ => return false,
        };
        let is_new = names.iter().all(|known| known != name);
        if is_new {
            names.push(name.to_string());
        }
        is_new
    }
}

/// Whether one of `texts`, which have no comments, has a line that may be compiled without the macro `name` and not with it, be it by way of another
/// macro. Lines that include something and those that refuse to be compiled do not count.
pub(super) fn takes_lines(texts: &[String], name: &str) -> bool {
    let mut all = Dependent { defined: vec![name.to_string()], changed: Vec::new() };
    let (mut takes, mut is_more) = (false, true);
    while is_more && !takes {
        is_more = false;
        for text in texts {
            walk(text, |_, line, branches| {
                let counts = !line.trim().is_empty() && !matches!(directive(line).0, "error" | "include");
                takes |= counts && all.take(branches);
                is_more |= branches.iter().any(|branch| all.is_of(branch)) && all.learn(line);
            });
        }
    }
    takes
}

/// Whether a branch is compiled, as far as `is_defined` knows.
fn is_taken(branch: &Branch, is_defined: &dyn Fn(&str) -> Option<bool>) -> Option<bool> {
    let own = if branch.condition.is_empty() { Some(true) } else { holds(&branch.condition, is_defined) };
    branch.before.iter().fold(own, |all, one| both(all, holds(one, is_defined).map(|holds| !holds)))
}

/// Whether a condition holds, where a macro that is defined is 1.
fn holds(condition: &str, is_defined: &dyn Fn(&str) -> Option<bool>) -> Option<bool> {
    let spelled = [("&&", " and "), ("||", " or "), ("!=", " = "), ("!", " not ")];
    let spelled = spelled.iter().fold(condition.to_string(), |text, (sign, word)| text.replace(sign, word));
    let mut reader = Reader { rest: parts(&spelled), is_defined };
    let value = reader.any();
    // What has another sign at the end, or asks for one of two things, is not understood.
    if reader.rest.is_empty() && !condition.contains('?') { value } else { None }
}

/// Words and signs.
fn parts(text: &str) -> VecDeque<&str> {
    let is_of_word = |found: char| found.is_ascii_alphanumeric() || found == '_';
    let ends = text.split_inclusive(|found: char| !is_of_word(found));
    ends.flat_map(|part| {
        let word = part.trim_end_matches(|found: char| !is_of_word(found));
        [word, part.get(word.len()..).unwrap_or_default().trim()]
    })
    .filter(|part| !part.is_empty())
    .collect()
}

/// Reads a condition; `None` is what is not known.
struct Reader<'a> {
    rest: VecDeque<&'a str>,
    is_defined: &'a dyn Fn(&str) -> Option<bool>,
}

impl Reader<'_> {
    fn is_next(&mut self, word: &str) -> bool {
        let is_next = self.rest.front().is_some_and(|next| *next == word);
        if is_next {
            self.rest.pop_front();
        }
        is_next
    }

    fn any(&mut self) -> Option<bool> {
        let mut value = self.all();
        while self.is_next("or") {
            value = both(value.map(|one| !one), self.all().map(|one| !one)).map(|neither| !neither);
        }
        value
    }

    fn all(&mut self) -> Option<bool> {
        let mut value = self.compared();
        while self.is_next("and") {
            value = both(value, self.compared());
        }
        value
    }

    /// One thing; what it is compared to is skipped, and makes it unknown.
    fn compared(&mut self) -> Option<bool> {
        let mut value = self.one();
        let mut depth = 0_usize;
        while let Some(next) = self.rest.front().filter(|next| depth > 0 || !matches!(**next, "and" | "or" | ")")) {
            match *next {
                "(" => depth += 1,
                ")" => depth -= 1,
                _ => {}
            }
            value = None;
            self.rest.pop_front();
        }
        value
    }

    fn one(&mut self) -> Option<bool> {
        match self.rest.pop_front()? {
            "not" => self.one().map(|value| !value),
            "(" => {
                let value = self.any();
                if self.is_next(")") { value } else { None }
            }
            "defined" => {
                let is_open = self.is_next("(");
                let name = self.rest.pop_front()?;
                let is_closed = !is_open || self.is_next(")");
                (self.is_defined)(name).filter(|_| is_closed)
            }
            "0" | "false" => Some(false),
            "1" | "true" => Some(true),
            name => (self.is_defined)(name),
        }
    }
}

/// Whether two things are.
fn both(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

/// The word of a line of the preprocessor's, and what is behind it; nothing of others.
pub(super) fn directive(line: &str) -> (&str, &str) {
    let directive = line.trim_start().strip_prefix('#').unwrap_or_default().trim_start();
    let end = directive.find(|found: char| !found.is_ascii_alphabetic()).unwrap_or(directive.len());
    directive.split_at(end)
}

/// The words of a text, those of its preprocessor's lines among them.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|found: char| !found.is_ascii_alphanumeric() && found != '_').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_a_macro_takes_away() {
        let check = "if (i < n)\n";
        for (text, expected) in [
            (format!("#ifndef M\n{check}#endif"), true),
            (format!("#if !defined(M)\n{check}#endif"), true),
            (format!("#ifdef M\n#else\n{check}#endif"), true),
            (format!("#ifdef M\n#elif defined(_DEBUG)\n{check}#endif"), true),
            (format!("#ifdef M\n#elif defined(B) || defined(__B__)\n{check}#endif"), true),
            (format!("#ifdef M\n#elifdef B\n{check}#endif"), true),
            (format!("#if defined(B)\n#elifndef M\n{check}#endif"), true),
            (format!("#if X && !(defined(M) && Y)\n{check}#endif"), true),
            (format!("#if M == 0\n{check}#endif"), true),
            (format!("#if M ? 0 : 1\n{check}#endif"), true),
            (format!("#if not defined M\n{check}#endif"), true),
            // By way of another one.
            (format!("#ifdef M\n#define FAST\n#endif\n#ifndef FAST\n{check}#endif"), true),
            (format!("#define LIMITS 1\n#ifdef M\n#undef LIMITS\n#endif\n#if LIMITS\n{check}#endif"), true),
            (format!("#ifdef M\n#define LIMITS 0\n#endif\n#if LIMITS\n{check}#endif"), true),
            (format!("#ifdef M\n{check}#endif"), false),
            (format!("#ifdef M\n#ifndef TILE\n#define TILE 16\n#endif\n{check}#endif"), false),
            (format!("#ifndef M\n#error M\n#else\n{check}#endif"), false),
            ("#ifdef M\n#include \"a.h\"\n#else\n\n#include \"b.h\"\n#endif".to_string(), false),
            (format!("#if (defined(M) || X) && M\n{check}#endif\n#if defined(M) && X > 2\n{check}#endif"), false),
            (format!("#ifdef OTHER\n#else\n{check}#endif\n#ifndef A_H\n{check}#endif"), false),
        ] {
            assert_eq!(takes_lines(std::slice::from_ref(&text), "M"), expected, "{text}");
        }
    }
}
