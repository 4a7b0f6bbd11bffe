//! How a file's own host code launches its kernels, and the functions by which they have dynamic shared memory.

use std::collections::{BTreeMap, BTreeSet};

use super::c::parts_of;
use super::chains::first_branch;
use super::grid::{Site, arguments, may_be_size};
use super::launch::MOST_THREADS;
use super::{Kernel, Number, dimensions, pointers};
use crate::expression::number;
use crate::host_code::{self, Token, closing, tokens};

/// Launches of a kernel that are looked at, and tokens in front of one among which its block is looked for.
const MOST_LAUNCHES: usize = 64;
const MOST_TOKENS: usize = 8192;

/// Sets what `texts` say of the launches of `kernels`: the block of the first whose threads are known where the kernel is, and whether a helper
/// that has `extern __shared__` gives it memory. `macros` are parameters of the draft, as numbers of templates are: what they shape has their
/// names. `defines` are those of the build file.
pub(super) fn set<'a, 'k>(
    kernels: impl IntoIterator<Item = &'k mut Kernel>,
    texts: impl Iterator<Item = &'a str> + Clone,
    macros: &[(String, i64)],
    defines: &[(String, String)],
) {
    let mut numbers: BTreeMap<String, i64> = texts.clone().flat_map(host_code::constants).collect();
    numbers.extend(defines.iter().filter_map(|(name, value)| Some((name.clone(), value.parse().ok()?))));
    let files: Vec<Vec<Token<'a>>> = texts.map(|text| dimensions::joined(tokens(text))).collect();
    let helpers: BTreeSet<&str> = files.iter().flat_map(|tokens| helpers(tokens)).collect();
    for kernel in kernels {
        kernel.shape.has_shared |= kernel.shape.words.iter().any(|word| helpers.contains(word.as_str()));
        let name = kernel.name.rsplit("::").next().unwrap_or_default();
        let most = |block: &[i64]| {
            let threads = block.iter().try_fold(1_i64, |all, threads| all.checked_mul(*threads));
            threads.is_some_and(|threads| (1..=MOST_THREADS).contains(&threads))
        };
        // A bound is what a kernel is launched by as a rule.
        let template = |word: &str| {
            kernel
                .template
                .iter()
                .find(|one| one.name == word && one.number == Some(Number::Whole))
                .map(|one| kernel.number_of(one))
        };
        let bound = kernel.shape.bound.as_deref();
        let bound =
            bound.and_then(|word| word.parse().ok().or_else(|| template(word)).or_else(|| numbers.get(word).copied()));
        let is_plain = kernel.shape.dimensions() == 1;
        let bounded = bound.filter(|_| is_plain).map(|threads| vec![threads]).filter(|block| most(block));
        let found = {
            let of = Of { kernel: &*kernel, numbers: &numbers, macros, most: &most };
            of.launches(&files, |_| BTreeSet::from([name]))
                .or_else(|| of.launches(&files, |tokens| pointers::launched(tokens, name)))
        };
        let found = found.unwrap_or_default();
        let shape = &mut kernel.shape;
        (shape.said_as, shape.grid) = (found.words, found.grid);
        (shape.sizes, shape.given, shape.launches) = (found.sizes, found.given, found.launches);
        let block = Some(found.block).filter(|block| !block.is_empty());
        shape.said = block.or(bounded).map(|mut block| {
            block.resize(block.len().max(shape.dimensions()), 1);
            block
        });
    }
}

/// What a launch says.
#[derive(Default)]
struct Said {
    /// Threads along each axis of a block.
    block: Vec<i64>,
    /// The same in words.
    words: Vec<String>,
    grid: Option<Vec<String>>,
    /// Sizes of the kernel of which the block is, and what they are then.
    sizes: BTreeMap<String, i64>,
    /// What it gives sizes of the kernel.
    given: BTreeMap<String, i64>,
    /// How many launches there are.
    launches: usize,
}

/// What sizes are tried as of which a block is: as large as any is, or else whole waves.
const USUAL: i64 = 1200;
const SIZES: [i64; 8] = [USUAL, 64, 32, 16, 8, 4, 2, 1];

/// Reads launches of a kernel.
struct Of<'b> {
    kernel: &'b Kernel,
    /// Macros and constants that are whole numbers.
    numbers: &'b BTreeMap<String, i64>,
    macros: &'b [(String, i64)],
    /// Whether a block has no more threads than there may be.
    most: &'b dyn Fn(&[i64]) -> bool,
}

impl Of<'_> {
    /// What the first launch says, by one of the `names` that a file has for the kernel, whose threads are known; else the first whose threads are
    /// known by the kernel's sizes.
    fn launches<'a, 'n>(
        &self,
        files: &[Vec<Token<'a>>],
        names: impl Fn(&[Token<'a>]) -> BTreeSet<&'n str>,
    ) -> Option<Said> {
        let mut all: Vec<(&[Token<'a>], Launched<'a, '_>)> = Vec::new();
        for tokens in files {
            for name in names(tokens) {
                let of_name = launches(tokens, name).into_iter().take(MOST_LAUNCHES);
                let of_name =
                    of_name.filter(|launch| name == self.kernel.plain_name() || launch.may_be_of(self.kernel));
                all.extend(of_name.filter_map(|launch| Some((tokens.get(..launch.at)?, launch))));
            }
        }
        let mut known = all.iter().filter_map(|(before, launch)| self.in_numbers(launch, before));
        let by_sizes = || all.iter().find_map(|(before, launch)| self.in_sizes(launch, before));
        let found = known.find(|said| (self.most)(&said.block)).or_else(by_sizes)?;
        Some(Said { launches: all.len(), ..found })
    }

    fn in_numbers(&self, launch: &Launched<'_, '_>, before: &[Token<'_>]) -> Option<Said> {
        let numbers = launch.numbers(self.kernel, self.numbers);
        let block = threads(launch.block, before, &numbers)?;
        let name = if let [name] = launch.block { Some(name.text) } else { None };
        let params = launch.params(self.kernel, self.macros);
        let words = in_words(launch, before, (&numbers, &params), &block);
        // Where a block has its numbers, its grid has no other.
        let params = if words.is_some() { params } else { BTreeMap::new() };
        let words = words.unwrap_or_else(|| block.iter().map(ToString::to_string).collect());
        let passed = launch.passed(self.kernel);
        let site = Site { before, passed, numbers: &numbers, params: &params, block: (&words, name) };
        let grid = site.blocks(launch.grid);
        // The kernel is told how many threads a block has.
        let size = name.and_then(|name| site.size_of(name)).map(str::to_string).zip(block.first().copied());
        let words = if let Some((size, _)) = &size { vec![size.clone()] } else { words.clone() };
        let given = launch.given(self.kernel, before, &numbers);
        Some(Said { block, words, grid, sizes: size.into_iter().collect(), given, launches: 1 })
    }

    fn in_sizes(&self, launch: &Launched<'_, '_>, before: &[Token<'_>]) -> Option<Said> {
        let numbers = launch.numbers(self.kernel, self.numbers);
        let params = launch.params(self.kernel, self.macros);
        let passed = launch.passed(self.kernel);
        let site = Site { before, passed, numbers: &numbers, params: &params, block: (&[], None) };
        let words = site.blocks(launch.block)?;
        let all = || words.iter().flat_map(|one| one.split(' '));
        let own: BTreeSet<&str> =
            site.passed.iter().map(|(_, size)| size.as_str()).filter(|size| all().any(|word| word == *size)).collect();
        let values: BTreeMap<&str, i64> =
            params.iter().filter_map(|(name, param)| Some((param.as_str(), *numbers.get(name)?))).collect();
        let threads = |size: i64| -> Option<Vec<i64>> {
            let value = |word: &str| if own.contains(word) { Some(size) } else { values.get(word).copied() };
            let word = |word: &str| value(word).map_or_else(|| word.to_string(), |value| value.to_string());
            let one = |words: &String| number(&words.split(' ').map(word).collect::<Vec<_>>().join(" "));
            words.iter().map(one).collect()
        };
        let fits = |size: &i64| Some((*size, threads(*size).filter(|block| (self.most)(block))?));
        let (size, block) = SIZES.iter().filter(|_| !own.is_empty()).find_map(fits)?;
        let name = if let [name] = launch.block { Some(name.text) } else { None };
        let grid = Site { passed: site.passed.clone(), block: (&words, name), ..site }.blocks(launch.grid);
        let sizes = own.iter().filter(|_| size != USUAL).map(|name| ((*name).to_string(), size)).collect();
        let given = launch.given(self.kernel, before, &numbers);
        Some(Said { block, words: words.clone(), grid, sizes, given, launches: 1 })
    }
}

/// What is in `extern __shared__` within functions and classes that are no kernels: the names of these.
fn helpers<'a>(tokens: &[Token<'a>]) -> Vec<&'a str> {
    let mut found = Vec::new();
    let (mut head, mut at) = (0, 0);
    while let Some(token) = tokens.get(at) {
        if matches!(token.text, ";" | "}") {
            head = at + 1;
        } else if token.text == "__shared__" {
            // Of the whole file.
            let behind = tokens.get(at..).unwrap_or_default().iter().take_while(|token| token.text != ";");
            let names: Vec<&'a str> = behind.map(|token| token.text).collect();
            let bracket = names.iter().position(|word| *word == "[");
            found.extend(bracket.and_then(|bracket| names.get(bracket.checked_sub(1)?)).copied());
        } else if token.text == "{" {
            let words = tokens.get(head..at).unwrap_or_default();
            let has = |word: &str| words.iter().any(|token| token.text == word);
            head = at + 1;
            if !has("namespace") && !has("extern") {
                let end = closing(tokens, at).unwrap_or(tokens.len());
                let body = tokens.get(at..end).unwrap_or_default();
                let is_shared = body.windows(2).any(|pair| {
                    matches!(pair, [one, two] if one.text == "extern" && two.text == "__shared__")
                        || matches!(pair, [one, _] if one.text == "HIP_DYNAMIC_SHARED")
                });
                found.extend(named(words).filter(|_| is_shared && !has("__global__")));
                at = end;
                head = end + 1;
            }
        }
        at += 1;
    }
    found
}

/// The name of the function or class that `head` begins.
fn named<'a>(head: &[Token<'a>]) -> Option<&'a str> {
    let class = head.iter().rposition(|token| matches!(token.text, "struct" | "class"));
    // That of `template <class T>` is a parameter.
    let class = class.filter(|at| {
        head.get(at + 2).is_none_or(|token| matches!(token.text, "<" | ":" | "final")) && head.get(at + 1).is_some()
    });
    if let Some(at) = class {
        return head.get(at + 1).map(|token| token.text);
    }
    let open = head.iter().position(|token| token.text == "(")?;
    head.get(open.checked_sub(1)?).map(|token| token.text)
}

/// A launch in host code.
struct Launched<'a, 'b> {
    /// Where the kernel is named.
    at: usize,
    /// Arguments of its template.
    template: Vec<&'b [Token<'a>]>,
    grid: &'b [Token<'a>],
    block: &'b [Token<'a>],
    /// What the kernel is given.
    arguments: Vec<&'b [Token<'a>]>,
}

impl<'a> Launched<'a, '_> {
    /// `numbers` with what names stand for that are arguments of the template: that is what the instance has.
    fn numbers(&self, kernel: &Kernel, numbers: &BTreeMap<String, i64>) -> BTreeMap<String, i64> {
        let mut numbers = numbers.clone();
        for (parameter, words) in kernel.template.iter().zip(&self.template) {
            if let ([word], true) = (*words, parameter.number == Some(Number::Whole) && parameter.is_said) {
                numbers.entry(word.text.to_string()).or_insert_with(|| kernel.number_of(parameter));
            }
        }
        numbers
    }

    /// What names that are parameters of the draft are called there: macros, and arguments of the template.
    fn params(&self, kernel: &Kernel, macros: &[(String, i64)]) -> BTreeMap<String, String> {
        let mut params: BTreeMap<_, _> = macros.iter().map(|(name, _)| (name.clone(), name.clone())).collect();
        for (parameter, words) in kernel.template.iter().zip(&self.template) {
            if let ([word], true) = (*words, parameter.number == Some(Number::Whole))
                && word.text.starts_with(|first: char| first.is_alphabetic() || first == '_')
            {
                params.insert(word.text.to_string(), kernel.macro_of(parameter));
            }
        }
        params
    }

    /// Whether what it launches by way of a pointer may be `kernel`: it is given as much, or what a function is given.
    fn may_be_of(&self, kernel: &Kernel) -> bool {
        let is_pack = |words: &[Token<'_>]| words.iter().any(|word| word.text == ".");
        self.arguments.len() == kernel.parameters.len() || self.arguments.iter().any(|words| is_pack(words))
    }

    /// The sizes of `kernel` that are numbers here.
    fn given(&self, kernel: &Kernel, before: &[Token<'_>], numbers: &BTreeMap<String, i64>) -> BTreeMap<String, i64> {
        let site = Site { before, passed: Vec::new(), numbers, params: &BTreeMap::new(), block: (&[], None) };
        let pairs = self.arguments.iter().zip(&kernel.parameters).filter(|(_, one)| may_be_size(&one.kind));
        let all = self.arguments.len() == kernel.parameters.len();
        let value = |words: &[Token<'_>]| number(&site.whole(words, before.len()).filter(|_| all)?);
        pairs.filter_map(|(words, one)| Some((one.name.clone(), value(words)?))).collect()
    }

    /// What the host has in the place of each size of `kernel`.
    fn passed(&self, kernel: &Kernel) -> Vec<(Vec<&'a str>, String)> {
        if self.arguments.len() != kernel.parameters.len() {
            return Vec::new();
        }
        let pairs = self.arguments.iter().zip(&kernel.parameters);
        let sizes = pairs.filter(|(_, one)| may_be_size(&one.kind));
        let is_name = |words: &[Token<'_>]| {
            let computes = words.iter().zip(words.iter().skip(1)).any(|(one, next)| match one.text {
                "-" => next.text != ">",
                sign => matches!(sign, "+" | "*" | "/" | "%"),
            });
            let begins =
                |first: &Token<'_>| first.text.starts_with(|found: char| found.is_alphabetic() || found == '_');
            !computes && words.first().is_some_and(begins)
        };
        let texts = |words: &[Token<'a>]| words.iter().map(|word| word.text).collect();
        sizes.filter(|(words, _)| is_name(words)).map(|(words, one)| (texts(words), one.name.clone())).collect()
    }
}

/// The launches of `kernel`: `kernel<T><<<grid, block>>>(...)`, or by a macro of HIP.
fn launches<'a, 'b>(tokens: &'b [Token<'a>], kernel: &str) -> Vec<Launched<'a, 'b>> {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let is_open = |at: usize| ["<", "<", "<"].iter().enumerate().all(|(index, sign)| text(at + index) == *sign);
    let is_close = |at: usize| [">", ">", ">"].iter().enumerate().all(|(index, sign)| text(at + index) == *sign);
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        if matches!(text(at), "hipLaunchKernelGGL" | "hipLaunchKernel") && text(at + 1) == "(" {
            let end = (at + 2..tokens.len()).find(|end| text(*end) == ";").unwrap_or(tokens.len());
            let parts = arguments(tokens.get(at + 2..end).unwrap_or_default());
            if let [of, grid, block, _, _, given @ ..] = parts.as_slice()
                && of.iter().any(|token| token.text == kernel)
            {
                let mut arguments = given.to_vec();
                // The parenthesis of the macro.
                if let Some(last) = arguments.last_mut() {
                    *last = last.split_last().map_or(*last, |(_, words)| words);
                }
                found.push(Launched { at, template: Vec::new(), grid, block, arguments });
            }
        }
        if text(at) != kernel {
            continue;
        }
        // Template arguments may be in between.
        let statement = (at + 1..tokens.len()).take_while(|at| !matches!(text(*at), ";" | "{" | "}"));
        let Some(open) = statement.clone().find(|at| is_open(*at)) else { continue };
        let between = tokens.get(at + 1..open).unwrap_or_default();
        let ends = between.first().zip(between.last()).map(|(first, last)| (first.text, last.text));
        if ends.is_some_and(|ends| ends != ("<", ">")) {
            continue;
        }
        let Some(close) = (open + 3..tokens.len()).find(|at| is_close(*at)) else { continue };
        let begin = close + 4;
        let end = (begin..tokens.len()).find(|end| text(*end) == ";").unwrap_or(tokens.len());
        let given = tokens.get(begin..end.saturating_sub(1).max(begin)).unwrap_or_default();
        let given = if given.is_empty() { Vec::new() } else { arguments(given) };
        if let [grid, block, ..] = arguments(tokens.get(open + 3..close).unwrap_or_default()).as_slice() {
            let template = parts_of(between.get(1..between.len().saturating_sub(1)).unwrap_or_default());
            found.push(Launched { at, template, grid, block, arguments: given });
        }
    }
    found
}

/// The threads of a block as a launch says them: a number, `dim3(16, 16)`, or the name of a variable that was made either last `before` it.
fn threads(block: &[Token<'_>], before: &[Token<'_>], numbers: &BTreeMap<String, i64>) -> Option<Vec<i64>> {
    let site = Site { before, passed: Vec::new(), numbers, params: &BTreeMap::new(), block: (&[], None) };
    let computed = |tokens: &[Token<'_>]| number(&site.whole(tokens, before.len())?);
    let one = |tokens: &[Token<'_>]| computed(tokens).or_else(|| whole(tokens, numbers));
    let of_list = |inner: &[Token<'_>]| parts_of(inner).into_iter().map(one).collect::<Option<Vec<i64>>>();
    let of_dimensions = |tokens: &[Token<'_>]| match tokens {
        [kind, open, inner @ .., close]
            if kind.text == "dim3" && matches!((open.text, close.text), ("(", ")") | ("{", "}")) =>
        {
            of_list(inner)
        }
        _ => one(tokens).map(|threads| vec![threads]),
    };
    if let Some(found) = of_dimensions(block) {
        return Some(found);
    }
    let [name] = block else { return None };
    let text = |at: usize| before.get(at).map_or("", |token| token.text);
    let end = |from: usize, sign: &str| (from..before.len()).find(|at| text(*at) == sign);
    for at in (1..before.len()).rev().take(MOST_TOKENS).filter(|at| text(*at) == name.text) {
        match text(at + 1) {
            "=" if text(at + 2) != "=" => {
                let at = first_branch(before, at).unwrap_or(at);
                return of_dimensions(before.get(at + 2..end(at + 2, ";")?)?);
            }
            // One of a list of variables ends with its own bracket.
            "(" if is_declared(before, at) => return of_list(before.get(at + 2..end(at + 2, ")")?)?),
            "{" if is_declared(before, at) => return of_list(before.get(at + 2..end(at + 2, "}")?)?),
            _ => {}
        }
    }
    None
}

/// The threads of a block in words, where these come to `block`: what is a parameter is named.
fn in_words(
    launch: &Launched<'_, '_>,
    before: &[Token<'_>],
    (numbers, params): (&BTreeMap<String, i64>, &BTreeMap<String, String>),
    block: &[i64],
) -> Option<Vec<String>> {
    let site = Site { before, passed: Vec::new(), numbers, params, block: (&[], None) };
    let values: BTreeMap<&str, i64> =
        params.iter().filter_map(|(name, param)| Some((param.as_str(), *numbers.get(name)?))).collect();
    let in_numbers = |words: &String| {
        let word = |word: &str| values.get(word).map_or_else(|| word.to_string(), ToString::to_string);
        number(&words.split(' ').map(word).collect::<Vec<_>>().join(" "))
    };
    let words = site.blocks(launch.block)?;
    words.iter().map(in_numbers).eq(block.iter().copied().map(Some)).then_some(words)
}

/// Whether the name at `at` is one that a `dim3` declares: `dim3 grid(1), block(2)`.
fn is_declared(tokens: &[Token<'_>], at: usize) -> bool {
    let before = tokens.get(..at).unwrap_or_default();
    let begin = before.iter().rposition(|token| matches!(token.text, ";" | "{" | "}")).map_or(0, |at| at + 1);
    before.get(begin..).is_some_and(|statement| statement.iter().any(|token| token.text == "dim3"))
}

/// A product or quotient of whole numbers and names of some.
fn whole(tokens: &[Token<'_>], numbers: &BTreeMap<String, i64>) -> Option<i64> {
    let number = |word: &str| {
        let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
        digits.parse::<i64>().ok().or_else(|| numbers.get(word).copied())
    };
    let (first, rest) = tokens.split_first()?;
    let mut value = number(first.text)?;
    for pair in rest.chunks(2) {
        let [operator, word] = pair else { return None };
        let other = number(word.text)?;
        value = match operator.text {
            "*" => value.checked_mul(other)?,
            "/" => value.checked_div(other)?,
            _ => return None,
        };
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::super::c;
    use super::*;

    fn said(kernel: &str, host: &str) -> (Option<Vec<i64>>, bool) {
        let text = format!("{kernel}\n{host}");
        let mut kernels = c::kernels(&text);
        set(&mut kernels, std::iter::once(text.as_str()), &[], &[]);
        let shape = &kernels.first().unwrap().shape;
        (shape.said.clone(), shape.has_shared)
    }

    #[test]
    fn blocks_are_those_of_the_first_launch_that_says_them() {
        let kernel = "template <class T> __global__ void k(T* p) { p[threadIdx.x] = threadIdx.y; }";
        for (host, expected) in [
            ("int main() { k<<<1, 128>>>(p); }", Some(vec![128, 1])),
            ("int main() { k<float><<<n / 3, dim3(8, 4), 0, s>>>(p); }", Some(vec![8, 4])),
            (
                "#define N (32)\nint main() { dim3 grid(1), block(N / 2, 4u); k<<<grid, block>>>(p); }",
                Some(vec![16, 4]),
            ),
            (
                "void a() { dim3 block(2); }\nvoid b() { dim3 block(64); k<<<1, block>>>(p); }\nvoid c() { dim3 block(8); }",
                Some(vec![64, 1]),
            ),
            ("void a() { dim3 block(2); }\nvoid b(int n) { dim3 block(n); k<<<1, block>>>(p); }", None),
            ("int main() { k<<<1, dim3(4294967296, 4294967296)>>>(p); }", None),
            ("#define N (32)\nint main() { dim3 block(N / 2, 4u); k<<<1, block>>>(p); }", Some(vec![16, 4])),
            ("int main() { const int threads = 64; k<<<1, threads>>>(p); }", Some(vec![64, 1])),
            ("int main() { dim3 block = dim3(2, 2, 2); k<<<1, block>>>(p); }", Some(vec![2, 2, 2])),
            ("int main() { k<<<1, n>>>(p); k<<<1, 32>>>(p); }", Some(vec![32, 1])),
            (
                "const int W = 8;\nint main() { const uint W = 64; int t = (W * W) / 16; dim3 block(t / 2); k<<<1, block>>>(p); }",
                Some(vec![128, 1]),
            ),
            ("int main() { int t = 64; t = n; k<<<1, (t)>>>(p); }", None),
            (
                "int main() { hipLaunchKernelGGL(HIP_KERNEL_NAME(k<float>), dim3(1), dim3(4, 4), 0, 0, p); }",
                Some(vec![4, 4]),
            ),
            ("int main() { k<<<1, 4096>>>(p); other<<<1, 2>>>(k); }", None),
            ("__constant__ float c[2]; int main() { cudaMemcpyToSymbol(c, p, 8); }", None),
            ("int main() { if (k < 3) other<<<1, 2>>>(p); }", None),
        ] {
            assert_eq!(said(kernel, host).0, expected, "{host}");
        }
    }

    #[test]
    fn shared_memory_may_be_that_of_a_helper() {
        let helper = "template <class T> struct Memory { __device__ operator T*() { extern __shared__ int m[]; return (T*)m; } };\n\
            __device__ float* scratch() { extern __shared__ float s[]; return s; }\n\
            __global__ void other(float* p) { extern __shared__ float s[]; p[0] = s[0]; }";
        for (kernel, expected) in [
            ("namespace a { __global__ void k(float* p) { float* s = Memory<float>(); } }", true),
            ("__global__ void k(float* p) { float* s = scratch(); }", true),
            ("__global__ void k(float* p) { p[0] = 1; }", false),
        ] {
            assert_eq!(said(kernel, helper).1, expected, "{kernel}");
        }
    }
}
