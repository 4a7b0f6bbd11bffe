//! Triton's functions in the text of a Python file. Pointers have no types there: a parameter that loads and stores begin with is one.

use std::collections::{BTreeMap, BTreeSet};

use super::{Kernel, Parameter, ParameterKind, Usage};

/// Functions under `@triton.jit` that a program launches: those that return something, take no pointer, or that others call and nothing
/// launches are parts of them.
pub(super) fn kernels(text: &str) -> Vec<Kernel> {
    let all = functions(text);
    let is_pointer = |one: &Parameter| matches!(one.kind, ParameterKind::Pointer { .. });
    // `tl.sum(` calls Triton's, whatever the file has under this name; `ops.sum[grid]` launches it.
    let calls = |body: &str, name: &str| {
        let call = format!("{name}(");
        let mut all = body.match_indices(&call).map(|(at, _)| body.get(..at).unwrap_or_default());
        all.any(|before| !before.ends_with('.') && !is_within_name(before))
    };
    let launches = |name: &str| {
        let launch = format!("{name}[");
        let mut all = text.match_indices(&launch).map(|(at, _)| text.get(..at).unwrap_or_default());
        all.any(|before| !is_within_name(before))
    };
    let is_called = |name: &str| all.iter().any(|(_, body)| calls(body, name)) && !launches(name);
    let returns = |body: &str| {
        let mut values = body.lines().filter_map(|line| line.trim_start().strip_prefix("return "));
        values.any(|value| !matches!(value.split('#').next().unwrap_or_default().trim(), "" | "None"))
    };
    let is_launched = |(kernel, body): &&(Kernel, String)| {
        kernel.parameters.iter().any(is_pointer) && !returns(body) && !is_called(&kernel.name)
    };
    let mut found: Vec<Kernel> = all.iter().filter(is_launched).map(|(kernel, _)| kernel.clone()).collect();
    if found.is_empty() {
        found = all.into_iter().map(|(kernel, _)| kernel).collect();
    }
    found
}

/// Whether a name goes on behind `before`.
fn is_within_name(before: &str) -> bool {
    before.ends_with(|last: char| last.is_alphanumeric() || last == '_')
}

/// Functions under `@triton.jit`, with their bodies.
fn functions(text: &str) -> Vec<(Kernel, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut marked = false;
    let mut depth = 0_i32;
    for (at, line) in lines.iter().enumerate() {
        let plain = line.trim_start();
        if depth == 0 && plain.starts_with('@') {
            let name = plain.trim_start_matches('@').split(['(', '#']).next().unwrap_or_default().trim();
            marked |= matches!(name, "triton.jit" | "jit");
        } else if depth == 0 && plain.starts_with("def ") {
            if marked {
                found.extend(function(&lines, at));
            }
            marked = false;
        }
        // Decorators may go on over several lines.
        depth += opened(line);
    }
    found
}

/// Brackets that a line opens and does not close.
fn opened(line: &str) -> i32 {
    let code = line.split('#').next().unwrap_or_default();
    let count = |signs: [char; 3]| i32::try_from(code.matches(signs).count()).unwrap_or(0);
    count(['(', '[', '{']) - count([')', ']', '}'])
}

fn function(lines: &[&str], at: usize) -> Option<(Kernel, String)> {
    let first = lines.get(at)?;
    let margin = first.len() - first.trim_start().len();
    let mut head = String::new();
    let mut next = at;
    loop {
        let line = lines.get(next)?.split('#').next().unwrap_or_default();
        head.push_str(line);
        head.push(' ');
        next += 1;
        if opened(&head) == 0 {
            break;
        }
    }
    let body: Vec<&str> = lines
        .get(next..)?
        .iter()
        .copied()
        .take_while(|line| {
            line.trim().is_empty()
                || line.len() - line.trim_start().len() > margin
                || line.trim_start().starts_with(')')
        })
        .collect();
    let (name, rest) = head.trim_start().strip_prefix("def ")?.split_once('(')?;
    let list = rest.rsplit_once(')')?.0;
    let body = body.join("\n");
    let uses = Uses::of(&body);
    let parameters = split(list).into_iter().filter_map(|part| parameter(&part, &uses)).collect();
    Some((Kernel { name: name.trim().to_string(), parameters, ..Kernel::default() }, body))
}

/// A list's parts, at commas outside of brackets.
pub(super) fn split(list: &str) -> Vec<String> {
    let mut depth = 0_i32;
    let parts = list.split(|found: char| {
        match found {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        found == ',' && depth == 0
    });
    parts.map(|part| part.trim().to_string()).filter(|part| !part.is_empty()).collect()
}

fn parameter(part: &str, uses: &Uses) -> Option<Parameter> {
    let (declared, default) = match part.split_once('=') {
        Some((declared, default)) => (declared.trim(), Some(default.trim().to_string())),
        None => (part, None),
    };
    let (name, annotation) = match declared.split_once(':') {
        Some((name, annotation)) => (name.trim(), annotation.trim()),
        None => (declared.trim(), ""),
    };
    if name.starts_with('*') || name == "/" {
        return None;
    }
    let kind = if annotation.ends_with("constexpr") {
        ParameterKind::Constant { default }
    } else if uses.pointers.contains(name) || name.to_lowercase().contains("ptr") {
        ParameterKind::Pointer { element: None, spelled: String::new(), lanes: 1, written: uses.stored.contains(name) }
    } else if annotation.contains("float") || is_fraction(name) {
        ParameterKind::F32
    } else {
        ParameterKind::I32
    };
    Some(Parameter { name: name.to_string(), kind, usage: Usage::default(), spelled: String::new() })
}

/// Words that people name fractions by.
const FRACTIONS: [&str; 17] = [
    "eps",
    "epsilon",
    "alpha",
    "beta",
    "beta1",
    "beta2",
    "scale",
    "dropout",
    "prob",
    "lr",
    "momentum",
    "slope",
    "smoothing",
    "softcap",
    "temperature",
    "decay",
    "theta",
];

/// Whether a number of this name is a fraction as a rule.
pub(super) fn is_fraction(name: &str) -> bool {
    let name = name.to_lowercase();
    let counts = ["stride", "block", "num", "size"].iter().any(|word| name.contains(word));
    let last = name.rsplit('_').next().unwrap_or_default();
    !counts && (name == "p" || FRACTIONS.contains(&last) || name.starts_with("dropout"))
}

/// What a body does with its names.
struct Uses {
    pointers: BTreeSet<String>,
    stored: BTreeSet<String>,
}

impl Uses {
    fn of(body: &str) -> Self {
        let mut begins: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for line in body.lines() {
            let Some((name, value)) = line.split_once('=') else { continue };
            let name = name.trim().trim_end_matches(['+', '-']).trim();
            if is_name(name) && !value.starts_with('=') {
                begins.entry(name).or_default().extend(first_name(value));
            }
        }
        let mut uses = Self { pointers: BTreeSet::new(), stored: BTreeSet::new() };
        for (call, writes) in
            [("tl.load(", false), ("tl.store(", true), ("tl.atomic_", true), ("tl.make_block_ptr(", false)]
        {
            for (at, _) in body.match_indices(call) {
                let rest = body.get(at + call.len()..).unwrap_or_default();
                let rest = if call.ends_with('(') { rest } else { rest.split_once('(').map_or("", |(_, rest)| rest) };
                uses.follow(first_name(rest.trim_start()), writes, &begins);
            }
        }
        uses
    }

    /// Where a pointer comes from, through the names that it was given.
    fn follow(&mut self, name: Option<String>, writes: bool, begins: &BTreeMap<&str, BTreeSet<String>>) {
        let mut waiting: Vec<String> = name.into_iter().collect();
        let mut seen = BTreeSet::new();
        while let Some(name) = waiting.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            waiting.extend(begins.get(name.as_str()).into_iter().flatten().cloned());
            if writes {
                self.stored.insert(name.clone());
            }
            self.pointers.insert(name);
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|found| found.is_alphanumeric() || found == '_')
}

/// The name that an expression begins with.
fn first_name(expression: &str) -> Option<String> {
    let begin = expression.trim_start().trim_start_matches('(');
    let end = begin.find(|found: char| !found.is_alphanumeric() && found != '_').unwrap_or(begin.len());
    let name = begin.get(..end)?;
    (is_name(name) && !name.starts_with(|first: char| first.is_ascii_digit())).then(|| name.to_string())
}
