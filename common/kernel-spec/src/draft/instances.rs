//! Instances of templates as the host code of a file launches them, `sum<256, Add<T>><<<grid, block>>>`: what a signature does not say.

use std::collections::{BTreeMap, BTreeSet};

use super::{Kernel, TemplateParameter, c, parts_of};
use crate::host_code::{self, Token, tokens};

/// Launches of a kernel that are looked at.
const MOST_LAUNCHES: usize = 64;

/// Types of C++ that consist of these words, or of those that elements of buffers have, are known everywhere.
const BUILT_IN: [&str; 9] =
    ["signed", "float2", "float4", "int2", "int4", "double2", "half2", "__half2", "__nv_bfloat162"];

/// Gives the templates among `kernels` the arguments of the first launch in `texts` whose arguments are known where the kernel is.
pub(super) fn as_launched<'a>(kernels: &mut [Kernel], texts: impl Iterator<Item = &'a str> + Clone) {
    if kernels.iter().all(|kernel| kernel.template.is_empty()) {
        return;
    }
    let files: Vec<Vec<Token<'a>>> = texts.clone().map(tokens).collect();
    let known = Known::of(&files, texts);
    for kernel in kernels.iter_mut().filter(|kernel| !kernel.template.is_empty()) {
        let launches = files.iter().flat_map(|tokens| launches(tokens, kernel.plain_name()));
        let launches: Vec<_> = launches.take(MOST_LAUNCHES).collect();
        let usable = launches.iter().rev().map(|arguments| known.usable(&kernel.template, arguments));
        // Of several the one that says most, and the first of these: the last is what this takes.
        let Some(best) = usable.max_by_key(|arguments| arguments.iter().flatten().count()) else { continue };
        for (parameter, argument) in kernel.template.iter_mut().zip(best) {
            parameter.is_said |= argument.is_some();
            parameter.default = argument.or(parameter.default.take());
        }
    }
}

/// The arguments of each launch of `kernel`, or of each mention of it where a macro launches it.
fn launches<'a, 'b>(tokens: &'b [Token<'a>], kernel: &str) -> Vec<Vec<&'b [Token<'a>]>> {
    let named = tokens.iter().enumerate().filter(|(_, token)| token.text == kernel);
    let arguments = named.filter_map(|(at, _)| {
        let behind = tokens.get(at + 1..)?;
        // `kernel<<<` is no template's argument list.
        (behind.first()?.text == "<" && behind.get(1)?.text != "<").then_some(())?;
        let mut depth = 0_usize;
        let end = behind.iter().position(|token| {
            match token.text {
                "<" => depth += 1,
                ">" => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 || matches!(token.text, ";" | "{")
        })?;
        let arguments = parts_of(behind.get(1..end)?);
        (behind.get(end)?.text == ">" && !arguments.is_empty()).then_some(arguments)
    });
    arguments.collect()
}

/// What names mean to a whole file.
struct Known<'a, 'b> {
    /// Types that it declares, and where.
    types: BTreeMap<&'a str, (&'b [Token<'a>], usize)>,
    /// Macros, which may stand for types.
    macros: BTreeSet<String>,
    /// Parameters of its templates, which are float here.
    parameters: BTreeSet<&'a str>,
    /// Macros and constants that are whole numbers.
    numbers: BTreeMap<String, i64>,
}

impl<'a, 'b> Known<'a, 'b> {
    fn of(files: &'b [Vec<Token<'a>>], texts: impl Iterator<Item = &'a str> + Clone) -> Self {
        let (mut types, mut parameters) = (BTreeMap::new(), BTreeSet::new());
        let pairs = |tokens: &'b [Token<'a>]| tokens.iter().zip(tokens.iter().skip(1)).enumerate();
        let pairs = files.iter().flat_map(|tokens| pairs(tokens).map(move |(at, pair)| (tokens.as_slice(), at, pair)));
        let (mut before, mut in_alias) = ("", false);
        for (tokens, at, (first, second)) in pairs {
            let mut is_type = |name: &'a str| _ = types.entry(name).or_insert((tokens, at));
            match first.text {
                "typename" | "class" if matches!(before, "<" | ",") => _ = parameters.insert(second.text),
                // A template that is a parameter.
                "class" if before == ">" => {}
                "struct" | "class" | "enum" | "using" => is_type(second.text),
                "typedef" => in_alias = true,
                ";" => in_alias = false,
                name if in_alias && second.text == ";" => is_type(name),
                _ => {}
            }
            before = first.text;
        }
        let macros = texts.clone().flat_map(host_code::macros).collect();
        Self { types, macros, parameters, numbers: texts.flat_map(host_code::constants).collect() }
    }

    /// The arguments of a launch as an instance can have them anywhere; `None` for each that names what only its function knows.
    fn usable(&self, template: &[TemplateParameter], arguments: &[&[Token<'a>]]) -> Vec<Option<String>> {
        let pairs = template.iter().zip(arguments);
        pairs
            .map(|(parameter, words)| if parameter.number.is_some() { self.number(words) } else { self.type_(words) })
            .collect()
    }

    fn number(&self, words: &[Token<'a>]) -> Option<String> {
        let [word] = words else { return None };
        let digits = word.text.trim_end_matches(['u', 'U', 'l', 'L']);
        match word.text {
            "true" | "false" => Some(word.text.to_string()),
            _ if digits.parse::<i64>().is_ok() => Some(digits.to_string()),
            name => self.numbers.get(name).map(ToString::to_string),
        }
    }

    fn type_(&self, words: &[Token<'a>]) -> Option<String> {
        let is_known = |name: &str| {
            c::element(name).is_some()
                || BUILT_IN.contains(&name)
                || self.types.contains_key(name)
                || self.macros.contains(name)
        };
        let is_word = |text: &str| text.starts_with(|first: char| first.is_alphanumeric() || first == '_');
        let mut spelled = String::new();
        for word in words {
            let text = match word.text {
                name if self.parameters.contains(name) => "float",
                name if is_known(name) || !name.starts_with(|first: char| first.is_alphabetic() || first == '_') => {
                    name
                }
                _ => return None,
            };
            if is_word(text) && spelled.ends_with(|last: char| last.is_alphanumeric() || last == '_') {
                spelled.push(' ');
            }
            // An instance is asked for outside of all namespaces.
            if !spelled.ends_with("::") {
                let place = self.types.get(text).and_then(|(tokens, at)| tokens.get(..*at));
                spelled.push_str(&place.map(c::namespaces).unwrap_or_default());
            }
            spelled.push_str(text);
        }
        // A parameter alone says nothing.
        words.iter().any(|word| !self.parameters.contains(word.text)).then_some(spelled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel of `text` is called.
    fn instance(text: &str) -> String {
        let mut kernels = c::kernels(text);
        as_launched(&mut kernels, std::iter::once(text));
        kernels.first().map(Kernel::instance).unwrap_or_default()
    }

    #[test]
    fn arguments_are_those_of_a_launch() {
        let head = "enum Mode { A, B };\n#define TILE (32)\ntemplate <class T> struct Add { };\ntypedef double real;\n\
            template <typename Op, typename T, int N, bool Exact, Mode mode> __global__ void sum(T* out, T n) { }\n";
        for (launch, expected) in [
            ("", "sum<float, float, 256, 1, static_cast<Mode>(0)>"),
            (
                "template <class T> void f() { sum<Add<T>, T, TILE, false, B><<<1, 2>>>(p, n); }",
                "sum<Add<float>, float, 32, 0, static_cast<Mode>(0)>",
            ),
            (
                "void f() { auto n = 3; sum<Local, real, n, true, A><<<1, 2>>>(p, n); }",
                "sum<float, real, 256, 1, static_cast<Mode>(0)>",
            ),
            (
                "void f() { constexpr unsigned int size = 16; sum<Local, real, size, true, A><<<1, 2>>>(p, n); }",
                "sum<float, real, 16, 1, static_cast<Mode>(0)>",
            ),
            (
                "void f() { hipLaunchKernelGGL((sum<Add<int>, int, 64u, true, A>), 1, 2, 0, 0, p); }",
                "sum<Add<int>, int, 64, 1, static_cast<Mode>(0)>",
            ),
            ("void f() { sum<<<1, 2>>>(p, n); }", "sum<float, float, 256, 1, static_cast<Mode>(0)>"),
        ] {
            assert_eq!(instance(&format!("{head}{launch}\n")), expected, "{launch}");
        }
        let within = "namespace a { namespace { struct Add { }; template <class T> __global__ void sum(T* out) { }\nvoid f() { sum<Add><<<1, 2>>>(p); } } }";
        assert_eq!(instance(within), "a::sum<a::Add>");
    }
}
