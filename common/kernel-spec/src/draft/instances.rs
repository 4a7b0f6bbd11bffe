//! Instances of templates as the host code of a file launches them, `sum<256, Add<T>><<<grid, block>>>`: what a signature does not say.

use std::collections::{BTreeMap, BTreeSet};

use super::c::{self, parts_of};
use super::{Kernel, TemplateParameter};
use crate::host_code::{self, Given, Token, tokens};

/// Launches of a kernel that are looked at, and tokens in front of one.
const MOST_LAUNCHES: usize = 64;
const MOST_TOKENS: usize = 8192;

/// Types of C++ that consist of these words, or of those that elements of buffers have and their vectors, are known everywhere.
const BUILT_IN: [&str; 4] = ["signed", "half2", "__half2", "__nv_bfloat162"];

/// Namespaces of which types are known everywhere.
const LIBRARIES: [&str; 4] = ["at", "c10", "std", "thrust"];

/// Instances of a template that are kept.
const MOST_INSTANCES: usize = 4;
/// Constants within the values of others.
const MOST_CONSTANTS: usize = 6;
/// Templates within templates through which an argument is followed.
const MOST_DEPTH: usize = 3;

/// Gives the templates among `kernels`, which are of `own`, the arguments of the first launch in `texts` whose arguments are known where the kernel
/// is.
pub(super) fn as_launched<'a>(
    mut kernels: Vec<&mut Kernel>,
    own: impl Iterator<Item = &'a str> + Clone,
    texts: impl Iterator<Item = &'a str>,
) {
    kernels.retain(|kernel| !kernel.template.is_empty());
    if kernels.is_empty() {
        return;
    }
    let declaring: Vec<Vec<Token<'a>>> = own.clone().map(tokens).collect();
    let (texts, mut numbers): (Vec<&'a str>, _) = (texts.collect(), BTreeMap::new());
    texts.iter().copied().chain(own.clone()).for_each(|text| numbers.extend(host_code::constants(text)));
    let files: Vec<Vec<Token<'a>>> = texts.into_iter().map(tokens).collect();
    let known = Known::of(&declaring, own, &files, numbers);
    for kernel in kernels {
        let mut launches: Vec<Launch<'a, '_>> = known.launches(kernel.plain_name()).collect();
        if launches.is_empty() {
            launches = known.files.iter().flat_map(|tokens| deduced(tokens, kernel)).take(MOST_LAUNCHES).collect();
        }
        let said = |arguments: &Vec<Option<String>>| arguments.iter().flatten().count();
        let mut usable: Vec<Vec<Option<String>>> = Vec::new();
        for arguments in launches.iter().map(|launch| known.usable(&kernel.template, launch)) {
            if !usable.contains(&arguments) {
                usable.push(arguments);
            }
        }
        // Of several the one that says most, and the first of these.
        usable.sort_by_key(|arguments| std::cmp::Reverse(said(arguments)));
        let most = usable.first().map_or(0, said);
        usable.retain(|arguments| said(arguments) == most);
        usable.truncate(MOST_INSTANCES);
        kernel.instances = usable;
        set(kernel, 0);
    }
}

/// Makes a kernel the instance that one of its launches says. Whether there is that.
pub(super) fn set(kernel: &mut Kernel, at: usize) -> bool {
    let Some(arguments) = kernel.instances.get(at).cloned() else { return false };
    for (parameter, argument) in kernel.template.iter_mut().zip(arguments) {
        parameter.is_said |= argument.is_some();
        parameter.default = argument.or(parameter.default.take());
    }
    true
}

/// Types of `texts` that stand behind `kernel` among the arguments of a macro that launches it, `LAUNCH(kernel, Type)`.
pub(super) fn types_beside<'a>(kernel: &str, texts: impl Iterator<Item = &'a str> + Clone) -> Vec<&'a str> {
    let files: Vec<Vec<Token<'a>>> = texts.clone().map(tokens).collect();
    let known = Known::of(&files, texts, &files, BTreeMap::new());
    let mut found: Vec<&'a str> = Vec::new();
    for words in files.iter().flat_map(|tokens| tokens.windows(4)) {
        let [name, comma, type_, end] = words else { continue };
        let is_argument = name.text == kernel && comma.text == "," && matches!(end.text, "," | ")");
        if is_argument && known.types.contains_key(type_.text) && !found.contains(&type_.text) {
            found.push(type_.text);
        }
    }
    found
}

/// A launch, or a mention where a macro launches it.
struct Launch<'a, 'b> {
    /// The file.
    tokens: &'b [Token<'a>],
    /// Where the name stands.
    at: usize,
    arguments: Vec<&'b [Token<'a>]>,
}

/// The arguments of each launch of `kernel`, or of each mention of it where a macro launches it.
fn launches<'a, 'b>(tokens: &'b [Token<'a>], kernel: &str) -> Vec<Launch<'a, 'b>> {
    let named = tokens.iter().enumerate().filter(|(_, token)| token.text == kernel);
    let launch = named.filter_map(|(at, _)| {
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
        let is_list = behind.get(end)?.text == ">" && !arguments.is_empty();
        is_list.then_some(Launch { tokens, at, arguments })
    });
    launch.collect()
}

/// Launches of `kernel` that leave its template to what it is given, `k<<<grid, block>>>(Add<4>(n), p)`: what says a type is what makes a value of it.
fn deduced<'a, 'b>(tokens: &'b [Token<'a>], kernel: &Kernel) -> Vec<Launch<'a, 'b>> {
    let named = tokens.iter().enumerate().filter(|(_, token)| token.text == kernel.plain_name());
    let launch = named.filter_map(|(at, _)| {
        let is = |at: usize, signs: &str| {
            signs.chars().zip(tokens.get(at..)?).all(|(sign, token)| token.text.starts_with(sign)).then_some(())
        };
        is(at + 1, "<<<")?;
        let open = (at + 4..tokens.len()).take(MOST_TOKENS).find(|at| is(*at, ">>>(").is_some())? + 3;
        let mut depth = 0_usize;
        let behind = tokens.get(open..)?;
        let end = behind.iter().position(|token| {
            match token.text {
                "(" => depth += 1,
                ")" => depth -= 1,
                _ => {}
            }
            depth == 0
        })?;
        let given = parts_of(behind.get(1..end)?);
        (given.len() == kernel.parameters.len()).then_some(())?;
        let argument = |parameter: &TemplateParameter| -> Option<&'b [Token<'a>]> {
            let words = *given.get(parameter.value?)?;
            let end = words.iter().position(|word| matches!(word.text, "(" | "{"))?;
            words.get(..end)
        };
        let arguments = kernel.template.iter().map(|one| argument(one).unwrap_or_default()).collect();
        Some(Launch { tokens, at, arguments })
    });
    launch.collect()
}

/// The function template within which the token at `at` stands: its name and its parameters.
fn function_around<'a>(tokens: &[Token<'a>], at: usize) -> Option<(&'a str, Vec<TemplateParameter>)> {
    let mut closed = 0_usize;
    for open in (0..at).rev() {
        match tokens.get(open)?.text {
            "}" => closed += 1,
            "{" if closed > 0 => closed -= 1,
            "{" => {
                let before = tokens.get(..open)?;
                let is_end = |token: &Token<'_>| matches!(token.text, ";" | "}" | "{");
                let head = before.get(before.iter().rposition(is_end).map_or(0, |end| end + 1)..)?;
                let template = c::template(head);
                if !template.is_empty() {
                    let name = head.iter().position(|token| token.text == "(")?.checked_sub(1)?;
                    return Some((head.get(name)?.text, template));
                }
            }
            _ => {}
        }
    }
    None
}

/// What names mean to a whole file.
struct Known<'a, 'b> {
    /// Those with launches.
    files: &'b [Vec<Token<'a>>],
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
    fn of(
        own: &'b [Vec<Token<'a>>],
        texts: impl Iterator<Item = &'a str>,
        files: &'b [Vec<Token<'a>>],
        numbers: BTreeMap<String, i64>,
    ) -> Self {
        let (mut types, mut parameters) = (BTreeMap::new(), BTreeSet::new());
        let pairs = |tokens: &'b [Token<'a>]| tokens.iter().zip(tokens.iter().skip(1)).enumerate();
        let pairs = own.iter().flat_map(|tokens| pairs(tokens).map(move |(at, pair)| (tokens.as_slice(), at, pair)));
        let (mut before, mut in_alias) = ("", false);
        for (tokens, at, (first, second)) in pairs {
            let mut is_type = |name: &'a str| _ = types.entry(name).or_insert((tokens, at));
            match first.text {
                "typename" | "class" if matches!(before, "<" | ",") => _ = parameters.insert(second.text),
                // A template that is a parameter.
                "class"
                    if before == ">" && tokens.get(at + 2).is_some_and(|next| matches!(next.text, "," | ">" | "=")) => {
                }
                "struct" | "class" | "enum" | "using" => is_type(second.text),
                "typedef" => in_alias = true,
                ";" => in_alias = false,
                name if in_alias && second.text == ";" => is_type(name),
                _ => {}
            }
            before = first.text;
        }
        Self { files, types, macros: texts.flat_map(host_code::macros).collect(), parameters, numbers }
    }

    fn launches(&self, kernel: &str) -> impl Iterator<Item = Launch<'a, 'b>> {
        self.files.iter().flat_map(move |tokens| launches(tokens, kernel)).take(MOST_LAUNCHES)
    }

    /// The arguments of a launch as an instance can have them anywhere; `None` for each that names what only its function knows.
    fn usable(&self, template: &[TemplateParameter], launch: &Launch<'a, '_>) -> Vec<Option<String>> {
        let one = |(parameter, words): (&TemplateParameter, &&[Token<'a>])| {
            let is_number = parameter.number.is_some();
            self.argument(is_number, words, launch, MOST_DEPTH)
        };
        template.iter().zip(&launch.arguments).map(one).collect()
    }

    fn argument(&self, is_number: bool, words: &[Token<'a>], launch: &Launch<'a, '_>, depth: usize) -> Option<String> {
        let found = if is_number { self.number(words, launch) } else { self.type_(words) };
        // What the function around it is a template of is what that is called with.
        let followed = || {
            let ([word], Some(depth)) = (words, depth.checked_sub(1)) else { return None };
            let (function, template) = function_around(launch.tokens, launch.at)?;
            let at = template.iter().position(|one| one.name == word.text)?;
            let called = self.launches(function).find_map(|call| {
                let words = call.arguments.get(at).copied()?;
                self.argument(is_number, words, &call, depth)
            });
            called.or_else(|| template.into_iter().nth(at)?.default)
        };
        found.or_else(followed)
    }

    fn number(&self, words: &[Token<'a>], launch: &Launch<'a, '_>) -> Option<String> {
        if let [word] = words
            && matches!(word.text, "true" | "false")
        {
            return Some(word.text.to_string());
        }
        let before = launch.tokens.get(launch.at.saturating_sub(MOST_TOKENS)..launch.at)?;
        let known = |name: &str| self.constant(before, name, MOST_CONSTANTS);
        host_code::value_of(words, &known).map(|value| value.to_string())
    }

    /// What the constant `name` is behind `before`: one of the function goes before those of others.
    fn constant(&self, before: &[Token<'a>], name: &str, depth: usize) -> Option<i64> {
        let of_others = || self.numbers.get(name).copied();
        let Some(depth) = depth.checked_sub(1) else { return of_others() };
        let own = host_code::given(before).into_iter().rev().find(|given| given.name == name);
        let own = own.and_then(|Given { at, value, .. }| {
            host_code::value_of(value, &|name| self.constant(before.get(..at)?, name, depth))
        });
        own.or_else(of_others)
    }

    fn type_(&self, words: &[Token<'a>]) -> Option<String> {
        let is_known = |name: &str| {
            c::element(c::lanes(name).0).is_some()
                || BUILT_IN.contains(&name)
                || self.types.contains_key(name)
                || self.macros.contains(name)
        };
        let is_word = |text: &str| text.starts_with(|first: char| first.is_alphanumeric() || first == '_');
        let mut spelled = String::new();
        for (at, word) in words.iter().enumerate() {
            let is_namespace = LIBRARIES.contains(&word.text) && words.get(at + 1).is_some_and(|next| next.text == ":");
            let before = at.checked_sub(3).and_then(|first| words.get(first..at));
            let is_theirs =
                matches!(before, Some([library, colon, _]) if colon.text == ":" && LIBRARIES.contains(&library.text));
            let text = match word.text {
                name if is_namespace || is_theirs => name,
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
        as_launched(kernels.iter_mut().collect(), std::iter::once(text), std::iter::once(text));
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
                "void f() { sum<double3, uchar4, n, true, A><<<1, 2>>>(p, n); }",
                "sum<double3, uchar4, 256, 1, static_cast<Mode>(0)>",
            ),
            (
                "void f() { hipLaunchKernelGGL((sum<Add<int>, int, 64u, true, A>), 1, 2, 0, 0, p); }",
                "sum<Add<int>, int, 64, 1, static_cast<Mode>(0)>",
            ),
            (
                "void f() { const int rows = 4, all = rows * 2; sum<Local, real, (all + TILE) / rows, true, A><<<1, 2>>>(p, n); }",
                "sum<float, real, 10, 1, static_cast<Mode>(0)>",
            ),
            ("void f() { sum<<<1, 2>>>(p, n); }", "sum<float, float, 256, 1, static_cast<Mode>(0)>"),
            (
                "template <class U, int Size, bool E = false> void f(U* p) { if (p) { sum<Add<int>, U, Size, E, A><<<1, 2>>>(p, n); } }\n\
                 void g() { const int size = 8; f<double, size>(p); }\nvoid h() { const int size = 4; }",
                "sum<Add<int>, double, 8, 0, static_cast<Mode>(0)>",
            ),
        ] {
            assert_eq!(instance(&format!("{head}{launch}\n")), expected, "{launch}");
        }
        let given = "template <int N> class Scale { int by; };\n\
            template <class F, class T> __global__ void apply(F f, T* out, int n) { }\n\
            void g() { apply<<<dim3(2, 1), 64>>>(Scale<8>{3}, p, size(n, 2)); }";
        assert_eq!(instance(given), "apply<Scale<8>, float>");
        let pointed =
            "template <typename T> __global__ void sum(T out) { }\nvoid f() { sum<at::Half *><<<1, 2>>>(p); }";
        assert_eq!(instance(pointed), "sum<at::Half*>");
        let within = "namespace API a { namespace { struct Add { }; template <class T> __global__ void sum(T* out) { }\nvoid f() { sum<Add><<<1, 2>>>(p); } } }";
        assert_eq!(instance(within), "a::sum<a::Add>");
    }
}
