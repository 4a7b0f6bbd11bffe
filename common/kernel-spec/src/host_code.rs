//! Host code of HIP and CUDA files: people's kernels lie beside a `main`, which needs a runtime's whole interface and what it is linked
//! to. Host functions are blanked, so that nothing in them has to be known, while each line keeps its number. What is not
//! plainly a host function stays: a macro may make it one for the device, and so may `constexpr`.

mod constants;
mod heads;
mod marks;
mod namespaces;
mod ptx;
mod reached;
mod sides;

use std::collections::BTreeSet;
use std::ops::Range;

pub(super) use constants::{Given, constants, given, value_of};
use heads::{Block, KEEPING, Values, block_behind, is_specialisation, without_template};
pub(super) use marks::{host_macros, marks, without_calls};
pub(super) use namespaces::{namespace_macros, namespaces, with_namespace_macros, with_namespaces};
pub(super) use ptx::with_ptx;
pub(super) use reached::unreached;
use reached::{parentheses, without_arguments};
pub(super) use sides::{one_sided, without_host};

/// A word, a sign, or a literal of a source.
#[derive(Clone, Debug)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    at: usize,
}

impl<'a> Token<'a> {
    pub(super) fn instead(&self, text: &'a str) -> Self {
        Self { text, at: self.at }
    }
}

/// A source taken apart: its tokens, and where its preprocessor's lines are.
struct Parts<'a> {
    tokens: Vec<Token<'a>>,
    directives: Vec<Range<usize>>,
}

fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Where what begins at `at` ends, which is no token: a blank, a comment; `None` for others.
fn skipped(text: &str, at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    if rest.starts_with("//") {
        return Some(line_end(text, at));
    }
    if rest.starts_with("/*") {
        return Some(rest.get(2..)?.find("*/").map_or(text.len(), |end| at + end + 4));
    }
    rest.starts_with(|first: char| first.is_whitespace()).then(|| at + rest.chars().next().map_or(1, char::len_utf8))
}

/// The end of the line, and of those that continue it.
fn line_end(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let mut end = at;
    while let Some(byte) = bytes.get(end) {
        match byte {
            b'\n' if !is_continued(text, end) => break,
            _ => end += 1,
        }
    }
    end
}

/// Whether the line that ends at `at` goes on in the next one.
fn is_continued(text: &str, at: usize) -> bool {
    text.get(..at).is_some_and(|before| before.ends_with('\\') || before.ends_with("\\\r"))
}

/// The end of a preprocessor's line; a comment in it may go on.
fn directive_end(text: &str, at: usize) -> usize {
    let end = line_end(text, at);
    let line = text.get(at..end).unwrap_or_default();
    let open = line.rfind("/*").filter(|open| !line.get(*open..).is_some_and(|rest| rest.contains("*/")));
    match open.filter(|open| !line.get(..*open).is_some_and(|before| before.contains("//"))) {
        Some(open) => {
            let closed = text.get(at + open..).and_then(|rest| rest.find("*/"));
            closed.map_or(text.len(), |closed| line_end(text, at + open + closed))
        }
        None => end,
    }
}

/// The end of the literal that begins at `at`, which is a quotation mark.
fn literal_end(text: &str, at: usize, quote: char) -> usize {
    let mut escaped = false;
    for (index, found) in text.get(at + 1..).unwrap_or_default().char_indices() {
        match found {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            // What is not closed ends with its line.
            '\n' => return at + 1 + index,
            found if found == quote => return at + 2 + index,
            _ => {}
        }
    }
    text.len()
}

/// The end of a raw string whose quotation mark is at `at`.
fn raw_end(text: &str, at: usize) -> usize {
    let rest = text.get(at + 1..).unwrap_or_default();
    let Some(open) = rest.find('(') else { return text.len() };
    let close = format!("){}\"", rest.get(..open).unwrap_or_default());
    rest.find(&close).map_or(text.len(), |found| at + 1 + found + close.len())
}

fn take_apart(text: &str) -> Parts<'_> {
    let (mut tokens, mut directives) = (Vec::new(), Vec::new());
    let mut at = 0;
    let mut fresh_line = true;
    while let Some(first) = text.get(at..).and_then(|rest| rest.chars().next()) {
        if let Some(end) = skipped(text, at) {
            fresh_line |= first == '\n' && !is_continued(text, at);
            at = end;
            continue;
        }
        if first == '#' && fresh_line {
            let end = directive_end(text, at);
            directives.push(at..end);
            at = end;
            continue;
        }
        fresh_line = false;
        let end = match first {
            '"' | '\'' => literal_end(text, at, first),
            _ if first.is_ascii_digit() => {
                // Digits may have marks between them.
                let number = |found: char| found.is_ascii_alphanumeric() || matches!(found, '\'' | '.' | '_');
                at + text.get(at..).and_then(|rest| rest.find(|found| !number(found))).unwrap_or(text.len() - at)
            }
            _ if first.is_alphanumeric() || first == '_' => {
                let word = |found: char| found.is_alphanumeric() || found == '_';
                let end =
                    at + text.get(at..).and_then(|rest| rest.find(|found| !word(found))).unwrap_or(text.len() - at);
                let raw = text.get(at..end).is_some_and(|word| word.ends_with('R'))
                    && text.get(end..).is_some_and(|rest| rest.starts_with('"'));
                if raw { raw_end(text, end) } else { end }
            }
            _ => at + first.len_utf8(),
        };
        if let Some(found) = text.get(at..end) {
            tokens.push(Token { text: found, at });
        }
        at = end.max(at + 1);
    }
    Parts { tokens, directives }
}

/// The tokens of a text, without its preprocessor's lines.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    take_apart(text).tokens
}

/// A text without what is under `#if 0`, whose lines stay as empty ones.
pub(super) fn without_disabled(text: &str) -> String {
    let mut depth = 0_usize;
    let mut disabled: Option<usize> = None;
    let mut changed = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let directive = line.trim_start().strip_prefix('#').map_or("", str::trim_start);
        let ends = directive.starts_with("endif");
        if directive.starts_with("if") {
            depth += 1;
            let condition =
                directive.strip_prefix("if").unwrap_or_default().split(['/', '&', '|']).next().unwrap_or_default();
            if disabled.is_none() && matches!(condition.trim(), "0" | "false" | "(0)") {
                disabled = Some(depth);
            }
        } else if disabled == Some(depth) && (ends || directive.starts_with("el")) {
            disabled = None;
        }
        if ends {
            depth = depth.saturating_sub(1);
        }
        changed.push_str(if disabled.is_some() && directive.is_empty() { "\n" } else { line });
    }
    changed
}

/// A text without comments: of the preprocessor's lines those that go on are in the first of them, and the others stay as empty ones.
pub(super) fn without_comments(text: &str) -> String {
    let parts = take_apart(text);
    let tokens = parts.tokens.iter().map(|token| (token.at..token.at + token.text.len(), false));
    let mut all: Vec<_> = tokens.chain(parts.directives.into_iter().map(|range| (range, true))).collect();
    all.sort_by_key(|(range, _)| range.start);
    let (mut plain, mut from) = (String::with_capacity(text.len()), 0);
    let mut lines = 0;
    for (range, is_directive) in all.into_iter().chain([(text.len()..text.len(), false)]) {
        let between = text.get(from..range.start).unwrap_or_default();
        lines += between.matches('\n').count();
        plain.push_str(if lines == 0 && !between.is_empty() { " " } else { "" });
        plain.extend(std::iter::repeat_n('\n', std::mem::take(&mut lines)));
        let mut rest = text.get(range.clone()).unwrap_or_default();
        from = range.end;
        if !is_directive {
            plain.push_str(rest);
            continue;
        }
        lines = rest.matches('\n').count();
        while let Some(first) = rest.chars().next() {
            let comment = skipped(rest, 0).filter(|_| first == '/');
            let (part, behind) = rest.split_at(comment.unwrap_or(first.len_utf8()).min(rest.len()));
            let is_blank = comment.is_some() || matches!(first, '\\' | '\r' | '\n');
            plain.push_str(if is_blank { " " } else { part });
            rest = behind;
        }
    }
    plain
}

/// What the preprocessor's lines of a text say, each without its `#`.
fn directives(text: &str) -> impl Iterator<Item = &str> {
    let lines = take_apart(text).directives.into_iter();
    lines.filter_map(|line| text.get(line)?.strip_prefix('#').map(str::trim_start))
}

/// The names that a text includes.
pub(super) fn includes(text: &str) -> impl Iterator<Item = String> {
    directives(text).filter_map(|line| {
        let name = line.strip_prefix("include")?.trim_start();
        let close = match name.chars().next()? {
            '<' => '>',
            '"' => '"',
            _ => return None,
        };
        Some(name.get(1..)?.split_once(close)?.0.trim().to_string())
    })
}

/// A text with other names in what it includes: `name` says what becomes of each. Nothing: the line is left out, with a remark.
pub(super) fn with_includes(text: &str, name: impl Fn(&str) -> Include) -> String {
    let mut changed = String::with_capacity(text.len());
    let mut from = 0;
    for line in take_apart(text).directives {
        let spelled = text.get(line.clone()).unwrap_or_default();
        let Some(found) = includes(spelled).next() else { continue };
        let quoted = spelled.contains('"');
        let instead = match name(&found) {
            Include::Kept => continue,
            Include::Renamed(other) => format!("#include \"{other}\""),
            Include::NotBeside { .. } if quoted => format!("{LEFT_OUT}{found}"),
            Include::NotBeside { machine } => format!("#include \"{machine}\""),
        };
        changed.push_str(text.get(from..line.start).unwrap_or_default());
        changed.push_str(&instead);
        from = line.end;
    }
    changed.push_str(text.get(from..).unwrap_or_default());
    changed
}

/// A text that asks for nvcc as one that asks for any compiler of CUDA's.
pub(super) fn for_any_compiler(text: &str) -> String {
    if !text.contains(NVCC) {
        return text.to_string();
    }
    let mut changed = String::with_capacity(text.len());
    let mut from = 0;
    for line in take_apart(text).directives {
        changed.push_str(text.get(from..line.start).unwrap_or_default());
        changed.push_str(&text.get(line.clone()).unwrap_or_default().replace(NVCC, "__CUDACC__"));
        from = line.end;
    }
    changed.push_str(text.get(from..).unwrap_or_default());
    changed
}

/// The macro of nvcc alone.
const NVCC: &str = "__NVCC__";

/// What stands in the place of an include that was left out.
pub(super) const LEFT_OUT: &str = "// left out: ";

/// What becomes of an include.
pub(super) enum Include {
    Kept,
    /// A file of another name has it.
    Renamed(String),
    /// No file of the spec has it: in quotation marks it may be for the host alone, otherwise a file that is called like this asks the machine.
    NotBeside {
        machine: String,
    },
}

/// The macros that a text defines.
pub(super) fn macros(text: &str) -> impl Iterator<Item = String> {
    directives(text).filter_map(|line| {
        let name = line.strip_prefix("define")?.trim_start();
        let end = name.find(|found: char| !found.is_alphanumeric() && found != '_').unwrap_or(name.len());
        name.get(..end).map(ToString::to_string)
    })
}

/// Macros that a text gives a number unless they have one: `#ifndef X`, `#define X 1`.
pub(super) fn defaults(text: &str) -> Vec<(String, i64)> {
    let lines: Vec<&str> = directives(text).collect();
    let one = |(first, second): (&&str, &&str)| {
        let name = first.strip_prefix("ifndef")?.trim();
        let mut words = second.strip_prefix("define")?.split_whitespace();
        let same = words.next() == Some(name);
        let value = words.next()?.trim_matches(['(', ')']).parse().ok()?;
        same.then(|| (name.to_string(), value))
    };
    lines.iter().zip(lines.iter().skip(1)).filter_map(one).collect()
}

/// The token that closes the brace at `open`.
pub(super) fn closing(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(index);
        }
    }
    None
}

/// What stands in the place of a part of a text, behind blanks.
type Instead = (Range<usize>, &'static str);

/// Where host functions are, but for those that `macros` may make the device's: outside of classes they are left out whole, in classes their bodies are, as others may name them; and variables
/// that one of those that are left out begins with. `None` if the text is not understood.
fn host_functions(tokens: &[Token<'_>], macros: &BTreeSet<String>) -> Option<Vec<Instead>> {
    let mut found = Vec::new();
    let (mut head, mut at, mut values) = (0, 0, Values::default());
    // Which of the scopes that are open are classes.
    let mut scopes = Vec::new();
    let (mut left_out, mut kept) = (BTreeSet::new(), BTreeSet::new());
    let (mut variables, mut specialisations) = (Vec::new(), Vec::new());
    let is_mark = |word: &Token<'_>| word.text.starts_with("__") || macros.contains(word.text);
    while let Some(token) = tokens.get(at) {
        let is_member = scopes.last().is_some_and(|is_class| *is_class);
        match token.text {
            ";" => {
                let words = tokens.get(head..at)?;
                if is_host_instance(words, macros) {
                    found.push((words.first()?.at..token.at + 1, ""));
                }
                variables.extend((!is_member).then_some((words, token.at + 1)));
                head = at + 1;
            }
            "}" => {
                scopes.pop()?;
                head = at + 1;
            }
            "{" if values.is_behind(tokens, head, at) => at = closing(tokens, at)?,
            "{" => {
                let words = tokens.get(head..at)?;
                let kind = match block_behind(words, macros) {
                    Block::Kept if is_host_operator(words, macros) => Block::Host,
                    kind => kind,
                };
                match kind {
                    Block::NotUnderstood => return None,
                    Block::Scope => {
                        scopes.push(words.iter().any(|word| matches!(word.text, "class" | "struct" | "union")))
                    }
                    kind => {
                        let close = closing(tokens, at)?;
                        let end = tokens.get(close)?.at;
                        match kind {
                            // Nothing says which members a constructor that is only declared begins with.
                            // An operator may be named in what is kept.
                            Block::Host if is_member || words.iter().any(|word| word.text == "operator") => {
                                match values.initializers().and_then(|at| tokens.get(at)) {
                                    Some(colon) => found.push((colon.at..end + 1, ";")),
                                    None => found.push((token.at + 1..end, "")),
                                }
                            }
                            Block::Host => {
                                found.push((words.first()?.at..end + 1, ""));
                                left_out.extend(function_name(words));
                            }
                            // The semicolon that ends it stays, and means nothing.
                            _ if words.iter().any(|word| word.text == "=") && !is_member => {
                                variables.push((tokens.get(head..close)?, end + 1));
                            }
                            _ if is_specialisation(words) && !words.iter().any(is_mark) => {
                                let range = words.first()?.at..end + 1;
                                specialisations.extend(function_name(words).map(|name| (name, range)));
                            }
                            _ => kept.extend(function_name(words)),
                        }
                        at = close;
                    }
                }
                head = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    let gone: BTreeSet<&str> = left_out.difference(&kept).copied().collect();
    // What a template of the host's is for some arguments may be a constant.
    found.extend(specialisations.into_iter().filter(|(name, _)| gone.contains(name)).map(|(_, range)| (range, "")));
    let variables = variables.into_iter().filter(|(words, _)| begins_with(words, &gone, macros));
    found.extend(variables.filter_map(|(words, end)| Some((words.first()?.at..end, ""))));
    found.sort_by_key(|(range, _)| range.start);
    scopes.is_empty().then_some(found)
}

/// The name in front of a head's first parenthesis, without the arguments of a template. None of a constructor or destructor: others name
/// their class.
fn function_name<'a>(head: &[Token<'a>]) -> Option<&'a str> {
    let head = without_template(head);
    let open = *parentheses(head).first()?;
    let (name, before) = without_arguments(head.get(..open)?)?.split_last()?;
    let is_of_class = match before {
        [.., sign] if sign.text == "~" => true,
        [class @ .., first, second] if first.text == ":" && second.text == ":" => {
            without_arguments(class).and_then(|class| class.last()).is_some_and(|class| class.text == name.text)
        }
        _ => false,
    };
    (is_word(name.text) && !is_of_class).then_some(name.text)
}

/// Whether `words` declare a variable of the host that one of `functions` is the value of, or yields it.
fn begins_with(words: &[Token<'_>], functions: &BTreeSet<&str>, macros: &BTreeSet<String>) -> bool {
    let Some(equals) = words.iter().position(|token| token.text == "=") else { return false };
    let (declared, value) = words.split_at(equals);
    let keeping = |token: &Token<'_>| {
        KEEPING.contains(&token.text) || token.text == "__constant__" || macros.contains(token.text)
    };
    !declared.iter().any(keeping) && value.iter().any(|token| functions.contains(token.text))
}

/// Whether a function is an operator of the host: nothing of the device calls it.
fn is_host_operator(words: &[Token<'_>], macros: &BTreeSet<String>) -> bool {
    let keeps =
        |token: &Token<'_>| token.text != "operator" && (KEEPING.contains(&token.text) || macros.contains(token.text));
    words.iter().any(|token| token.text == "operator") && !words.iter().any(keeps)
}

/// Whether words in front of a semicolon ask for an instance of a host function's template.
fn is_host_instance(words: &[Token<'_>], macros: &BTreeSet<String>) -> bool {
    let begins = words.first().is_some_and(|first| first.text == "template")
        && words.get(1).is_some_and(|next| next.text != "<");
    begins && block_behind(words.get(1..).unwrap_or_default(), macros) == Block::Host
}

/// `text` with blanks in the place of host functions, but for the preprocessor's lines. A text that is not understood stays.
pub(super) fn without(text: &str, macros: &BTreeSet<String>) -> String {
    if is_forced(text) {
        return text.to_string();
    }
    host_functions(&tokens(text), macros).map_or_else(|| text.to_string(), |functions| with_instead(text, functions))
}

/// Whether a pragma makes functions of both sides of all that follow.
fn is_forced(text: &str) -> bool {
    directives(text).any(|line| line.contains("force_cuda"))
}

/// `text` with blanks in `ranges`, but for the preprocessor's lines that are no pragmas, as those speak of what is around them.
pub(super) fn blank(text: &str, ranges: Vec<Range<usize>>) -> String {
    with_instead(text, ranges.into_iter().map(|range| (range, "")).collect())
}

/// The same with something behind the blanks. The parts are in their order.
fn with_instead(text: &str, parts: Vec<Instead>) -> String {
    let directives = take_apart(text).directives;
    let mut blanked = String::with_capacity(text.len());
    let mut from = 0;
    for (body, instead) in parts {
        blanked.push_str(text.get(from..body.start).unwrap_or_default());
        let mut at = body.start;
        let is_of_body = |line: &&Range<usize>| text.get((*line).clone()).is_some_and(|line| line.contains("pragma"));
        let first = directives.partition_point(|line| line.start < body.start);
        let within = directives.iter().skip(first).take_while(|line| line.start < body.end);
        for line in within.filter(|line| !is_of_body(line)).chain([&(body.end..body.end)]) {
            let plain = text.get(at..line.start).unwrap_or_default();
            blanked.extend(plain.chars().map(|found| if found == '\n' { '\n' } else { ' ' }));
            blanked.push_str(text.get(line.clone()).unwrap_or_default());
            at = line.end;
        }
        blanked.push_str(instead);
        from = body.end;
    }
    blanked.push_str(text.get(from..).unwrap_or_default());
    blanked
}

#[cfg(test)]
#[path = "host_code_tests.rs"]
mod tests;
