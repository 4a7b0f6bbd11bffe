//! What the kernels of a spec do not reach: classes and variables of the host whose types nobody has, device functions in another vendor's assembly. A
//! declaration is reached by its name, from the spec or from what is reached itself; nothing is known here of scopes and overloads.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::{
    Block, Token, Values, block_behind, closing, is_specialisation, is_word, marks, take_apart, without_template,
};

/// Words whose parentheses hold no parameters.
const ATTRIBUTES: [&str; 6] =
    ["__launch_bounds__", "__attribute__", "__align__", "__builtin_align__", "alignas", "__declspec"];
const CLASSES: [&str; 3] = ["class", "struct", "union"];
/// Words of declarations that are needed without being named.
const KEPT: [&str; 9] =
    ["operator", "decltype", "concept", "requires", "static_assert", "enum", "friend", "namespace", "auto"];

/// Braces of one declaration, for each of which its head is looked at again: with more a text is not understood.
const MOST_BRACES: usize = 16;

/// How macros begin that are bluefin's: they are in no file of a spec.
const OWN_MACROS: [&str; 5] = ["HIP_", "C10_", "CUDA_", "BLUEFIN_", "__"];
/// Others of bluefin's.
const OWN_WORDS: [&str; 2] = ["SHARED", "SHARED_SPACE"];

/// Whether a word is spelled as macros are.
fn is_macro_of_words(word: &str) -> bool {
    is_word(word) && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// What reaches instances that a macro asks for: nothing has this name.
const INSTANCE: &str = "template <>";

/// A declaration outside of classes and functions.
struct Declaration<'a> {
    /// In its text; nothing where it stays.
    range: Option<Range<usize>>,
    /// What reaches it; nothing of one that is needed whatever is named.
    names: Vec<&'a str>,
    words: Vec<&'a str>,
    /// Whether it is what a template is for some arguments: `template <> int cast<int>(float)`.
    is_specialisation: bool,
}

/// Macros of all texts.
struct Macros {
    /// Those that stand for more than words of one declaration.
    shapes: BTreeSet<String>,
    /// Those that ask for instances of templates.
    instances: BTreeSet<String>,
    /// All.
    names: BTreeSet<String>,
}

impl Macros {
    fn of(texts: &BTreeMap<String, String>) -> Self {
        let texts = || texts.values().map(String::as_str);
        let names = texts().flat_map(super::macros).collect();
        Self { shapes: marks::shapes(texts()), instances: marks::instances(texts()), names }
    }

    /// How many of `words`, which stand outside of functions, are a call of a macro that is not needed: one that asks for instances of templates, is given
    /// one that does, or is in no file, as of a library that registers something.
    fn idle_call(&self, words: &[Token<'_>]) -> Option<usize> {
        let [name, open, ..] = words else { return None };
        let is_macro = open.text == "(" && is_macro_of_words(name.text);
        let mut depth = 0_usize;
        let close = words.iter().skip(1).position(|word| {
            match word.text {
                "(" => depth += 1,
                ")" => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0
        });
        let close = close.filter(|_| is_macro)? + 1;
        let asks = |word: &Token<'_>| self.instances.contains(word.text);
        // Those that bluefin's headers have make something.
        let is_own = OWN_WORDS.contains(&name.text) || OWN_MACROS.iter().any(|own| name.text.starts_with(own));
        let is_elsewhere = !self.names.contains(name.text) && !is_own;
        let behind = match words.get(close + 1..)? {
            [] => true,
            [next, ..] if matches!(next.text, "template" | "namespace") => true,
            [next, open, ..] => is_macro_of_words(next.text) && open.text == "(",
            [_] => false,
        };
        let is_idle = words.get(..close)?.iter().any(asks) || is_elsewhere;
        (is_idle && behind).then_some(close + 1)
    }
}

/// Where in each of `texts` that is not reached from the words of `named` stands: nothing where a text is not understood. What a macro may
/// put together is reached.
pub(crate) fn unreached(texts: &BTreeMap<String, String>, named: &str) -> BTreeMap<String, Vec<Range<usize>>> {
    let (mut found, mut names) = (Vec::new(), Vec::new());
    // The name of a file reaches nothing that is called like it.
    let is_file = |token: &Token<'_>| texts.contains_key(token.text.trim_matches('"'));
    let roots =
        || super::tokens(named).into_iter().filter(|token| !is_file(token)).flat_map(|token| words_of(token.text));
    let mut reached: BTreeSet<&str> = roots().chain(roots().flat_map(mangled)).collect();
    // What range-based loops call.
    reached.extend(["begin", "end"]);
    let macros = Macros::of(texts);
    for (name, text) in texts {
        names.extend(super::directives(text).flat_map(pasted));
        found.extend(super::directives(text).map(|line| (name, of_directive(line))));
        match declarations(text, &macros) {
            Some(declarations) => found.extend(declarations.into_iter().map(|one| (name, one))),
            None => reached.extend(super::tokens(text).iter().map(|token| token.text)),
        }
    }
    stay_of_others(&mut found);
    loop {
        // A macro that nothing calls puts no name together.
        let called: Vec<&Pasted<'_>> =
            names.iter().filter(|pasted: &&Pasted<'_>| reached.contains(pasted.by)).collect();
        let is_named = |name: &&str| reached.contains(name) || called.iter().any(|pasted| pasted.may_be(name));
        let is_reached = |one: &Declaration<'_>| one.names.is_empty() || one.names.iter().any(is_named);
        let (new, rest): (Vec<_>, Vec<_>) = found.into_iter().partition(|(_, one)| is_reached(one));
        found = rest;
        if new.is_empty() {
            break;
        }
        // A macro's own name is none of its words, and may have been put together.
        reached.extend(new.into_iter().flat_map(|(_, one)| one.words.into_iter().chain(one.names)));
    }
    let mut ranges: BTreeMap<String, Vec<Range<usize>>> = BTreeMap::new();
    for (name, one) in found {
        ranges.entry(name.clone()).or_default().extend(one.range);
    }
    ranges
}

/// Specialisations of templates that no text has may be what others need: they stay.
fn stay_of_others(found: &mut [(&String, Declaration<'_>)]) {
    let own = found.iter().filter(|(_, one)| !one.is_specialisation).flat_map(|(_, one)| &one.names);
    let own: BTreeSet<String> = own.map(ToString::to_string).collect();
    for (_, one) in found.iter_mut().filter(|(_, one)| one.is_specialisation) {
        if !one.names.iter().all(|name| own.contains(*name)) {
            one.names.clear();
        }
    }
}

/// A line of the preprocessor: what a macro stands for is reached with it.
fn of_directive(line: &str) -> Declaration<'_> {
    // What is in a comment reaches nothing, nor does a file's name.
    let words: Vec<&str> = super::tokens(line).into_iter().flat_map(|token| words_of(token.text)).collect();
    let (names, words) = match words.as_slice() {
        ["define", name, words @ ..] => (vec![*name], words.to_vec()),
        ["include" | "error" | "warning", ..] => Default::default(),
        words => (Vec::new(), words.to_vec()),
    };
    Declaration { range: None, names, words, is_specialisation: false }
}

/// A name that a macro puts together, of which these parts are known.
struct Pasted<'a> {
    /// The macro.
    by: &'a str,
    begin: &'a str,
    end: &'a str,
    /// What is known may be in the middle.
    is_part: bool,
}

impl Pasted<'_> {
    fn may_be(&self, name: &str) -> bool {
        if self.is_part {
            return name.contains(self.begin) && name.contains(self.end);
        }
        name.starts_with(self.begin) && name.ends_with(self.end)
    }
}

/// The names that a line of the preprocessor puts together.
fn pasted(line: &str) -> Vec<Pasted<'_>> {
    let is_word = |found: char| found.is_alphanumeric() || found == '_';
    let is_blank = |found: char| found.is_whitespace() || found == '\\';
    let Some(defined) = line.strip_prefix("define").map(|defined| defined.trim_start_matches(is_blank)) else {
        return Vec::new();
    };
    let (by, value) = defined.split_at(defined.find(|found| !is_word(found)).unwrap_or(defined.len()));
    let params = value.strip_prefix('(').and_then(|value| value.split_once(')')).map_or("", |(params, _)| params);
    let params: Vec<&str> = words_of(params).collect();
    let parts: Vec<&str> = line.split("##").collect();
    let pairs = parts.windows(2).filter_map(|pair| {
        let [before, behind] = pair else { return None };
        let (before, behind) = (before.trim_end(), behind.trim_start());
        let begin = before.rsplit(|found| !is_word(found)).next().unwrap_or_default();
        let end = behind.split(|found| !is_word(found)).next().unwrap_or_default();
        let begin = if params.contains(&begin) { "" } else { begin };
        let end = if params.contains(&end) { "" } else { end };
        // Of three parts the second is two times beside a sign.
        let is_part = [before, behind].iter().any(|part| part.chars().all(is_word));
        (end != "__VA_ARGS__").then_some(Pasted { by, begin, end, is_part })
    });
    pairs.collect()
}

/// The names in a text of whatever kind, such as a literal of the spec that holds an entry.
fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|found: char| !found.is_alphanumeric() && found != '_').filter(|word| !word.is_empty())
}

/// The names in a mangled name, each behind its length: `scale` in `_Z5scalePfi`.
fn mangled(word: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = word.strip_prefix("_Z").unwrap_or_default();
    while let Some(at) = rest.find(|found: char| found.is_ascii_digit()) {
        let behind = rest.get(at..).unwrap_or_default();
        let name = behind.trim_start_matches(|found: char| found.is_ascii_digit());
        let digits = behind.get(..behind.len() - name.len()).unwrap_or_default();
        match digits.parse().ok().and_then(|length: usize| name.split_at_checked(length)) {
            Some((name, behind)) => {
                found.push(name);
                rest = behind;
            }
            None => rest = name,
        }
    }
    found
}

/// The declarations of a text; `None` if it is not understood.
fn declarations<'a>(text: &'a str, macros: &Macros) -> Option<Vec<Declaration<'a>>> {
    let tokens = take_apart(text).tokens;
    let mut found = Vec::new();
    let (mut head, mut at, mut scopes) = (0, 0, 0_usize);
    let (mut values, mut braces) = (Values::default(), 0_usize);
    while let Some(token) = tokens.get(at) {
        if matches!(token.text, ";" | "}" | "{") {
            while let Some(count) = macros.idle_call(tokens.get(head..at)?) {
                let end = match (head + count == at, token.text) {
                    // What a brace is behind is no call alone.
                    (true, "{") => break,
                    (true, ";") => at + 1,
                    _ => head + count,
                };
                let call = declaration(tokens.get(head..end - 1)?, tokens.get(end - 1..end)?, macros);
                found.push(Declaration { names: vec![INSTANCE], ..call });
                head = end;
                if end > at {
                    break;
                }
            }
            if head > at {
                at += 1;
                continue;
            }
        }
        let words = tokens.get(head..at)?;
        let mut end = None;
        match token.text {
            ";" => end = Some(at),
            "}" => {
                scopes = scopes.checked_sub(1)?;
                head = at + 1;
            }
            "{" if values.is_behind(&tokens, head, at) => at = closing(&tokens, at)?,
            "{" => match block_behind(words, &macros.shapes) {
                Block::NotUnderstood => return None,
                // A body behind what was taken for one.
                _ if words.is_empty() => return None,
                _ if is_function(words) => end = Some(closing(&tokens, at)?),
                Block::Scope if !is_class(words) => {
                    found.push(declaration(words, &[], macros));
                    scopes += 1;
                    head = at + 1;
                }
                _ if braces == MOST_BRACES => return None,
                // What is declared goes on to the semicolon.
                _ => (at, braces) = (closing(&tokens, at)?, braces + 1),
            },
            _ => {}
        }
        if let Some(end) = end {
            found.push(declaration(tokens.get(head..end)?, tokens.get(end..=end)?, macros));
            at = end;
            (head, braces) = (end + 1, 0);
        }
        at += 1;
    }
    (scopes == 0 && head == tokens.len()).then_some(found)
}

fn is_class(head: &[Token<'_>]) -> bool {
    without_template(head).iter().any(|word| CLASSES.contains(&word.text))
}

fn is_function(head: &[Token<'_>]) -> bool {
    let head = without_template(head);
    let head = head.get(..assigned(head)).unwrap_or(head);
    !parentheses(head).is_empty()
}

/// Where the value of a declaration begins, or its body: neither the sign of an operator's name nor one in a template's arguments. All of it
/// where there is none.
fn assigned(head: &[Token<'_>]) -> usize {
    let (mut depth, mut of_operator) = (0_i32, false);
    let is_end = |word: &Token<'_>| {
        match word.text {
            "operator" => of_operator = true,
            "(" | "[" => (depth, of_operator) = (depth + 1, false),
            "<" if !of_operator => depth += 1,
            ")" | "]" => depth -= 1,
            ">" if !of_operator => depth = (depth - 1).max(0),
            _ => {}
        }
        word.text == "{" || word.text == "=" && depth == 0 && !of_operator
    };
    head.iter().position(is_end).unwrap_or(head.len())
}

/// Where parentheses begin in the head of a function: those of its parameters, and of macros that may stand for attributes.
pub(super) fn parentheses(head: &[Token<'_>]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut depth = 0_i32;
    for (at, word) in head.iter().enumerate() {
        match word.text {
            "{" => break,
            "(" => {
                let before = at.checked_sub(1).and_then(|before| head.get(before));
                if depth == 0 && before.is_some_and(|before| !ATTRIBUTES.contains(&before.text)) {
                    found.push(at);
                }
                depth += 1;
            }
            "<" | "[" => depth += 1,
            ">" | ")" | "]" => depth = (depth - 1).max(0),
            _ => {}
        }
    }
    found
}

/// A declaration that consists of `words` and ends with `last`.
fn declaration<'a>(words: &[Token<'a>], last: &[Token<'a>], macros: &Macros) -> Declaration<'a> {
    let range = words.first().zip(last.first()).map(|(first, last)| first.at..last.at + last.text.len());
    let names = names(words, macros).filter(|_| range.is_some());
    let is_specialisation = is_specialisation(words);
    let words = words.iter().map(|word| word.text).collect();
    Declaration { range, names: names.unwrap_or_default(), words, is_specialisation }
}

/// What reaches a declaration; `None` of one that stays.
fn names<'a>(words: &[Token<'a>], macros: &Macros) -> Option<Vec<&'a str>> {
    let plain = match words {
        // Nobody asks for an instance but who needs it.
        [first, ..] if macros.instances.contains(first.text) => return Some(Vec::from([INSTANCE])),
        // An instance that is asked for.
        [first, second, ..] if first.text == "template" && second.text != "<" => words.get(1..)?,
        _ if is_specialisation(words) => {
            let plain = words.get(3..)?;
            // Which classes a class's arguments are is not looked at.
            if !is_function(plain) {
                return None;
            }
            plain
        }
        _ => without_template(words),
    };
    let until = assigned(plain);
    let declared = plain.get(..until)?;
    if declared.first()?.text == "namespace" && plain.get(until)?.text == "=" {
        return Some(vec![declared.get(1)?.text]);
    }
    let stays = |word: &Token<'_>| KEPT.contains(&word.text) || macros.shapes.contains(word.text);
    // An operator is found by nobody's name, unless it is a class's.
    if let Some(at) = declared.iter().position(|word| word.text == "operator")
        && let Some([class @ .., first, second]) = declared.get(..at)
        && first.text == ":"
        && second.text == ":"
    {
        return name_of_function(class).filter(|_| !declared.iter().any(|word| macros.shapes.contains(word.text)));
    }
    let opens = parentheses(declared);
    let is_pointer = |open: &usize| {
        declared.get(open + 1).is_some_and(|inner| matches!(inner.text, "*" | "&" | "(" | "__restrict__"))
    };
    let names = match opens.as_slice() {
        _ if declared.iter().any(stays) => return None,
        // A pointer to a function has its name within.
        [first, ..] if is_pointer(first) => return None,
        // Which of them are its parameters is not known where macros stand for attributes.
        [first, further @ ..] => {
            let mut names = name_of_function(declared.get(..*first)?)?;
            let further = further.iter().filter_map(|open| declared.get(open.checked_sub(1)?));
            names.extend(further.map(|word| word.text).filter(|text| is_word(text)));
            names
        }
        [] if has_further(plain.get(until..)?) => return None,
        [] if declared.first()?.text == "using" && plain.get(until).is_some_and(|sign| sign.text == "=") => {
            vec![declared.get(1)?.text]
        }
        [] => match declared.iter().position(|word| CLASSES.contains(&word.text)) {
            Some(class) => {
                let named = declared.get(class + 1..)?.iter().take_while(|word| !matches!(word.text, ":" | "<"));
                // Objects and other names of the class.
                let close = plain.iter().rposition(|word| word.text == "}").unwrap_or(plain.len());
                named.chain(plain.get(close..)?).map(|word| word.text).filter(|text| is_word(text)).collect()
            }
            None => vec![name_of_variable(declared)?],
        },
    };
    (!names.is_empty()).then_some(names)
}

/// Whether another variable follows the value of the first.
fn has_further(value: &[Token<'_>]) -> bool {
    let mut depth = 0_i32;
    value.first().is_some_and(|first| first.text == "=")
        && value.iter().any(|word| {
            match word.text {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            word.text == "," && depth == 0
        })
}

/// The name of the one variable that is declared, or of another name for a type.
fn name_of_variable<'a>(mut declared: &[Token<'a>]) -> Option<&'a str> {
    while declared.last()?.text == "]" {
        let open = declared.iter().rposition(|word| word.text == "[")?;
        declared = declared.get(..open)?;
    }
    let (name, before) = declared.split_last()?;
    let mut depth = 0_i32;
    let is_list = before.iter().any(|word| {
        match word.text {
            "<" => depth += 1,
            ">" => depth -= 1,
            _ => {}
        }
        word.text == "," && depth == 0
    });
    (!is_list && !before.is_empty() && is_word(name.text)).then_some(name.text)
}

/// The name in front of a function's parameters, and that of the class that it is a member of.
fn name_of_function<'a>(head: &[Token<'a>]) -> Option<Vec<&'a str>> {
    let mut names = Vec::new();
    let mut rest = head;
    loop {
        rest = without_arguments(rest)?;
        let (name, before) = rest.split_last()?;
        names.push(Some(name.text).filter(|text| is_word(text))?);
        match before {
            [outer @ .., first, second] if first.text == ":" && second.text == ":" => rest = outer,
            // A constructor has no type in front, nor has the call of a macro that is not in the file.
            [] if names.len() == 1 => return None,
            _ => return Some(names),
        }
    }
}

/// A name without the arguments of a template behind it.
pub(super) fn without_arguments<'a, 'b>(head: &'b [Token<'a>]) -> Option<&'b [Token<'a>]> {
    if head.last()?.text != ">" {
        return Some(head);
    }
    let mut depth = 0_usize;
    let open = head.iter().rposition(|word| {
        match word.text {
            ">" => depth += 1,
            "<" => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    head.get(..open)
}
