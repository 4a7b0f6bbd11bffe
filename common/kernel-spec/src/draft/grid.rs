//! Blocks of a launch as a file's own host code has them: `(n + 255) / 256`, `dim3(n / 16, m)`, by what the kernel takes.

use std::collections::BTreeMap;

use super::ParameterKind;
use super::chains::first_branch;
use crate::expression::MAX_DEPTH;
use crate::host_code::Token;

/// Tokens in front of a launch among which a variable is looked for.
const MOST_TOKENS: usize = 8192;
/// Variables within variables, and how long what they come to may be.
const MOST_DEPTH: usize = 8;
const MOST_EXPRESSION: usize = 4096;
/// What people call a quotient that is rounded up, without capitals and underscores.
const ROUNDED_UP: [&str; 12] = [
    "ceildiv",
    "divup",
    "cdiv",
    "divceil",
    "updiv",
    "idivup",
    "ceilingdiv",
    "divideup",
    "divroundup",
    "rounduptodiv",
    "divideroundup",
    "ceildivide",
];
/// Types that a number is converted to.
const NUMBERS: [&str; 12] = [
    "int", "unsigned", "float", "double", "size_t", "long", "int32_t", "uint32_t", "int64_t", "uint64_t", "uint",
    "const",
];

/// What the host code around a launch means to its kernel.
pub(super) struct Site<'a, 'b> {
    /// In front of the launch.
    pub before: &'b [Token<'a>],
    /// What the host passes, and the size of the kernel that takes it.
    pub passed: Vec<(Vec<&'a str>, String)>,
    /// Macros and constants that are whole numbers.
    pub numbers: &'b BTreeMap<String, i64>,
    /// What of these is a parameter of the draft, and its name there.
    pub params: &'b BTreeMap<String, String>,
    /// Threads along each axis of a block, and the variable that has them.
    pub block: (&'b [String], Option<&'a str>),
}

impl<'a> Site<'a, '_> {
    /// Blocks along each axis, as expressions of the kernel's sizes with a blank between words; `None` where what they name is not known to it.
    pub(super) fn blocks(&self, grid: &[Token<'a>]) -> Option<Vec<String>> {
        let all = |inner: &[Token<'a>], end: usize| {
            let blocks = arguments(inner).into_iter().map(|one| self.whole(one, end));
            // What is nothing yet is said later on.
            let blocks = blocks.collect::<Option<Vec<String>>>().filter(|blocks| blocks.iter().all(|one| one != "0"));
            blocks.filter(|blocks| (1..=3).contains(&blocks.len()))
        };
        let of_dimensions = |tokens: &[Token<'a>], end: usize| match tokens {
            [kind, open, inner @ .., close]
                if kind.text == "dim3" && matches!((open.text, close.text), ("(", ")") | ("{", "}")) =>
            {
                all(inner, end)
            }
            _ => all(tokens, end),
        };
        if let [name] = grid
            && let Some(param) = self.params.get(name.text)
        {
            return Some(vec![param.clone()]);
        }
        if let [name] = grid
            && let Some((at, value)) = self.variable(name.text, self.before.len())
        {
            // One whose members are given values later is more than that.
            let later: Vec<&str> = self.before.get(at..).unwrap_or_default().iter().map(|token| token.text).collect();
            let is_changed = later.windows(5).any(|words| match words {
                [one, ".", _, "=", next] => *one == name.text && *next != "=",
                [one, ".", _, sign, "="] => *one == name.text && !matches!(*sign, "<" | ">" | "!" | "="),
                _ => false,
            });
            let given = if is_changed { None } else { of_dimensions(value, at) };
            return given.or_else(|| of_dimensions(grid, self.before.len()).filter(|_| self.is_passed(name.text)));
        }
        of_dimensions(grid, self.before.len())
    }

    /// Whether the kernel is given what is called `name`.
    pub(super) fn is_passed(&self, name: &str) -> bool {
        self.size_of(name).is_some()
    }

    /// The size that the kernel is given `name` as.
    pub(super) fn size_of(&self, name: &str) -> Option<&str> {
        let mut passed = self.passed.iter();
        passed.find(|(words, _)| *words == [name]).map(|(_, size)| size.as_str())
    }

    /// Where `name` is given a value last in front of `end`, and that.
    fn variable(&self, name: &str, end: usize) -> Option<(usize, &[Token<'a>])> {
        let before = self.before.get(..end)?;
        let text = |at: usize| before.get(at).map_or("", |token| token.text);
        let until = |from: usize, signs: &[&str]| {
            let mut depth = 0_i32;
            (from..before.len()).find(|at| {
                let found = text(*at);
                let is_end = depth == 0 && signs.contains(&found);
                match found {
                    "(" | "{" | "[" => depth += 1,
                    ")" | "}" | "]" => depth -= 1,
                    _ => {}
                }
                is_end
            })
        };
        // Braces that are closed between here and the launch.
        let mut closed = 0_usize;
        for at in (1..before.len()).rev().take(MOST_TOKENS) {
            let (last, next, behind) = (text(at - 1), text(at + 1), text(at + 2));
            match text(at) {
                "}" => closed += 1,
                "{" => closed = closed.saturating_sub(1),
                found if found == name && !matches!(last, "." | ">") => {
                    let is_typed = last != "return" && is_word(last);
                    let is_given = next == "=" && behind != "=";
                    let is_sum = |sign: &str| matches!(sign, "+" | "-" | "*" | "/" | "%");
                    let is_counted = at.checked_sub(2).is_some_and(|first| is_sum(last) && text(first) == last);
                    let is_changed = is_sum(next) && (behind == "=" || behind == next) || is_counted;
                    match () {
                        // Of another scope.
                        () if closed > 0 && is_typed => {}
                        () if is_changed => return None,
                        // On one way to the launch, and not on others, or on each another one.
                        () if is_given && (closed > 0 || matches!(last, ")" | "else")) => {
                            let at = first_branch(before, at)?;
                            return Some((at, before.get(at + 2..until(at + 2, &[";", ","])?)?));
                        }
                        () if is_given => return Some((at, before.get(at + 2..until(at + 2, &[";", ","])?)?)),
                        () if matches!(last, "dim3" | "," | "const") && matches!(next, "(" | "{") => {
                            let end = if next == "(" { ")" } else { "}" };
                            return Some((at, before.get(at + 2..until(at + 2, &[end])?)?));
                        }
                        // A parameter of the function, or a variable without a value.
                        () if is_typed && matches!(next, "," | ")" | ";") => return None,
                        () => {}
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// What `tokens` are as an expression of the kernel's sizes, where variables have what they are given last in front of `end`.
    pub(super) fn whole(&self, tokens: &[Token<'a>], end: usize) -> Option<String> {
        Reader { site: self, tokens, at: 0, end, depth: 0, nested: 0 }.all()
    }
}

fn is_word(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Parts at commas outside of parentheses and braces; signs that compare open nothing.
pub(super) fn arguments<'a, 'b>(tokens: &'b [Token<'a>]) -> Vec<&'b [Token<'a>]> {
    let mut depth = 0_i32;
    let parts = tokens.split(|token| {
        match token.text {
            "(" | "{" => depth += 1,
            ")" | "}" => depth -= 1,
            _ => {}
        }
        token.text == "," && depth == 0
    });
    parts.collect()
}

/// An expression without the blanks at its parentheses.
pub(super) fn plain(expression: &str) -> String {
    expression
        .replace("( ", "(")
        .replace(" )", ")")
        .replace(" ,", ",")
        .replace("div (", "div(")
        .replace("min (", "min(")
        .replace("max (", "max(")
}

fn in_parentheses(expression: &str) -> String {
    if expression.contains(' ') { format!("( {expression} )") } else { expression.to_string() }
}

/// Whether a parameter may be a size: the type of one may have another name.
pub(super) fn may_be_size(kind: &ParameterKind) -> bool {
    matches!(kind, ParameterKind::I32 | ParameterKind::I64 | ParameterKind::Other { .. })
}

/// Reads an expression of C as one of a spec.
struct Reader<'a, 'b> {
    site: &'b Site<'a, 'b>,
    tokens: &'b [Token<'a>],
    at: usize,
    /// Variables are looked for in front of this.
    end: usize,
    /// Variables that this is within.
    depth: usize,
    /// Operands that this is within: a spec's expression has no more parentheses than that, and the reader no more calls.
    nested: usize,
}

impl<'a> Reader<'a, '_> {
    fn text(&self, ahead: usize) -> &'a str {
        self.tokens.get(self.at + ahead).map_or("", |token| token.text)
    }

    fn all(mut self) -> Option<String> {
        let found = self.sum()?;
        (self.at == self.tokens.len()).then_some(found)
    }

    /// What `tokens` are, which the operand that is read stands for or has within it.
    fn within<'t>(&'t self, tokens: &'t [Token<'a>], end: usize) -> Reader<'a, 't> {
        Reader { site: self.site, tokens, at: 0, end, depth: self.depth + 1, nested: self.nested }
    }

    fn take(&mut self, wanted: &str) -> Option<()> {
        (self.text(0) == wanted).then(|| self.at += 1)
    }

    fn sum(&mut self) -> Option<String> {
        self.chain(&["+", "-"], Self::product)
    }

    fn product(&mut self) -> Option<String> {
        self.chain(&["*", "/", "%"], Self::operand)
    }

    fn chain(&mut self, signs: &[&str], mut one: impl FnMut(&mut Self) -> Option<String>) -> Option<String> {
        let mut found = one(self)?;
        while signs.contains(&self.text(0)) {
            let sign = self.text(0);
            self.at += 1;
            let next = one(self)?;
            found = format!("{found} {sign} {next}");
            if found.len() > MOST_EXPRESSION {
                return None;
            }
        }
        Some(found)
    }

    fn operand(&mut self) -> Option<String> {
        if self.nested == MAX_DEPTH {
            return None;
        }
        self.nested += 1;
        let found = self.one()?;
        self.nested -= 1;
        Some(found)
    }

    fn one(&mut self) -> Option<String> {
        let rest = self.tokens.get(self.at..)?;
        let is_passed = |words: &[&str]| {
            rest.len() >= words.len() && rest.iter().zip(words).all(|(found, word)| found.text == *word)
        };
        let passed = self.site.passed.iter().filter(|(words, _)| is_passed(words)).max_by_key(|(words, _)| words.len());
        if let Some((words, name)) = passed {
            self.at += words.len();
            return Some(name.clone());
        }
        let first = self.text(0);
        match first {
            "(" if NUMBERS.contains(&self.text(1)) => {
                let types = rest.iter().skip(1).take_while(|token| NUMBERS.contains(&token.text)).count();
                self.at += 1 + types;
                self.take(")")?;
                self.operand()
            }
            "(" | "{" => {
                self.at += 1;
                let inner = self.sum()?;
                self.take(if first == "(" { ")" } else { "}" })?;
                Some(format!("( {inner} )"))
            }
            "static_cast" => {
                self.at += rest.iter().position(|token| token.text == ">")? + 1;
                self.operand()
            }
            _ if NUMBERS.contains(&first) && self.text(1) == "(" => {
                self.at += 1;
                self.operand()
            }
            "std" if self.text(1) == ":" && self.text(2) == ":" => {
                self.at += 3;
                self.operand()
            }
            _ if first.starts_with(|found: char| found.is_ascii_digit()) => {
                self.at += 1;
                let digits = first.trim_end_matches(['u', 'U', 'l', 'L', 'f', 'F']);
                let digits =
                    digits.trim_end_matches(if digits.contains('.') { &['0'][..] } else { &[] }).trim_end_matches('.');
                digits.parse::<u32>().ok().map(|number| number.to_string())
            }
            _ if self.text(1) == "(" => self.call(first),
            name => {
                self.at += 1;
                if self.take(".").is_some() {
                    let axis = ["x", "y", "z"].iter().position(|axis| *axis == self.text(0))?;
                    self.at += 1;
                    let (threads, block) = self.site.block;
                    let threads = threads.get(axis).map_or_else(|| "1".to_string(), |threads| in_parentheses(threads));
                    return (block == Some(name)).then_some(threads);
                }
                if let Some(param) = self.site.params.get(name) {
                    return Some(param.clone());
                }
                // A constant of the function goes before those of others.
                let given = self.site.variable(name, self.end).filter(|_| self.depth < MOST_DEPTH);
                let inner = given.and_then(|(at, value)| self.within(value, at).all());
                let number = || self.site.numbers.get(name).map(ToString::to_string);
                inner.map(|inner| in_parentheses(&inner)).or_else(number)
            }
        }
    }

    fn call(&mut self, name: &str) -> Option<String> {
        let plain: String = name.to_lowercase().chars().filter(|found| *found != '_').collect();
        let rest = self.tokens.get(self.at + 1..)?;
        let mut depth = 0_usize;
        let end = rest.iter().position(|token| {
            match token.text {
                "(" => depth += 1,
                ")" => depth -= 1,
                _ => {}
            }
            depth == 0
        })?;
        let inner = rest.get(1..end)?;
        self.at += end + 2;
        let whole = |tokens: &[Token<'a>]| self.within(tokens, self.end).all();
        let parts = arguments(inner);
        match (plain.as_str(), parts.as_slice()) {
            ("min" | "max", [one, two]) => Some(format!("{plain} ( {} , {} )", whole(one)?, whole(two)?)),
            (name, [one, two]) if ROUNDED_UP.contains(&name) => {
                Some(format!("ceil_div ( {} , {} )", whole(one)?, whole(two)?))
            }
            // `ceil(n / 256.0)`, `ceil((float)n / 256)`; a quotient of whole numbers is rounded down before.
            ("ceil" | "ceilf", [one]) => {
                let is_fraction =
                    |token: &Token<'_>| token.text.contains('.') || matches!(token.text, "float" | "double");
                if !one.iter().any(is_fraction) {
                    return whole(one);
                }
                let mut reader = self.within(one, self.end);
                let above = reader.operand()?;
                reader.take("/")?;
                let below = reader.operand()?;
                (reader.at == one.len()).then(|| format!("ceil_div ( {above} , {below} )"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Draft, Language};
    use super::MAX_DEPTH;
    use crate::{Bundle, KernelSpec};

    #[test]
    fn what_is_tried_is_named_where_it_shapes_a_launch() {
        let draft = |host: &str| {
            let text = format!(
                "#ifndef TILE\n#define TILE 32\n#endif\n#define ROWS 8\ntemplate <int LOADS> __global__ void k(float* x, int n) {{ \
                 x[blockIdx.x * n + threadIdx.x] = threadIdx.y + LOADS; }}\nvoid host(float* p, int len) {{ {host} }}"
            );
            let draft = Draft::new(Language::Gpu, "k.cu", &text, |_| None);
            let (shape, spec) = (draft.kernels[0].shape.clone(), draft.spec());
            let bundle = Bundle { toml: spec.clone(), ..draft.bundle() };
            KernelSpec::load(&bundle).unwrap_or_else(|error| panic!("{error}\n{spec}"));
            let lines = ["grid", "block"].map(|name| {
                let line = spec.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap_or_default();
                line.split_once(']').unwrap_or_default().0.trim_start_matches(" = [").to_string()
            });
            (shape.said, lines)
        };
        for (host, threads, grid, block) in [
            (
                "dim3 block(TILE, ROWS); dim3 const grid((len + TILE - 1) / TILE, len / block.y); k<4><<<grid, block>>>(p, len);",
                [32, 8],
                r#""(n + TILE - 1) / TILE", "n / 8""#,
                r#""TILE", 8"#,
            ),
            (
                "const int t = TILE * TILE; dim3 b(t / 2, 1); k<4><<<(len + b.x - 1) / b.x, b>>>(p, len);",
                [512, 1],
                r#""(n + ((TILE * TILE) / 2) - 1) / ((TILE * TILE) / 2)""#,
                r#""(TILE * TILE) / 2", 1"#,
            ),
            (
                "constexpr int L = 4; k<L><<<len / (L * 64), 64 * L>>>(p, len);",
                [256, 1],
                r#""n / (K_LOADS * 64)""#,
                r#""64 * K_LOADS", 1"#,
            ),
            (
                "const int B = 128; k<B><<<(len + B - 1) / B, B>>>(p, len);",
                [128, 1],
                r#""(n + K_LOADS - 1) / K_LOADS""#,
                r#""K_LOADS", 1"#,
            ),
            ("k<4><<<len / 64, 64>>>(p, len);", [64, 1], r#""n / 64""#, "64, 1"),
        ] {
            assert_eq!(draft(host), (Some(threads.to_vec()), [grid.to_string(), block.to_string()]), "{host}");
        }
    }

    fn grid(host: &str) -> Option<Vec<String>> {
        let kernel = "__global__ void k(float* x, int rows, int n) { x[blockIdx.x * n + threadIdx.x] = rows; }";
        let text = format!("#define TILE 16\n{kernel}\nvoid host(float* p, int m, int len) {{ {host} }}");
        Draft::new(Language::Gpu, "k.cu", &text, |_| None).kernels[0].shape.grid.clone()
    }

    #[test]
    fn what_the_build_file_defines_is_a_number_of_the_launch() {
        let text = "#ifndef TILE\n#define TILE 32\n#endif\n__global__ void k(float* x, int n) { x[blockIdx.x * n + threadIdx.x] = TILE; }\n\
            void host(float* p, int len) { k<<<(len + TILE - 1) / TILE, TILE>>>(p, len); }";
        let draft = Draft::new(Language::Gpu, "k.cu", text, |name| {
            (name == "Makefile").then(|| "NVCCFLAGS = -DTILE=16\n".to_string())
        });
        let spec = draft.spec();
        let bundle = Bundle { toml: spec.clone(), ..draft.bundle() };
        KernelSpec::load(&bundle).unwrap_or_else(|error| panic!("{error}\n{spec}"));
        assert!(spec.contains("grid = [\"(n + 16 - 1) / 16\"]") && spec.contains("block = [16]"), "{spec}");
    }

    #[test]
    fn variables_that_double_are_given_up() {
        let sums: String = (1..30).map(|at| format!("int v{at} = v{0} + v{0} + v{0} + v{0};", at - 1)).collect();
        assert_eq!(grid(&format!("int v0 = 1; {sums} k<<<v7, 32>>>(p, m, len);")), None);
    }

    #[test]
    fn what_is_nested_too_deep_is_not_understood() {
        for (open, close) in [("(", ")"), ("(int)", ""), ("std::", ""), ("min(m, ", ")"), ("ceil(", ")"), ("int(", ")")]
        {
            let nested =
                |times: usize| format!("k<<<{}m{}, 64>>>(p, m, len);", open.repeat(times), close.repeat(times));
            assert_eq!(grid(&nested(20_000)), None, "{open}");
        }
        let nested = |times: usize| format!("k<<<{}m{}, 64>>>(p, m, len);", "(".repeat(times), ")".repeat(times));
        assert!(grid(&nested(MAX_DEPTH - 1)).is_some());
        assert_eq!(grid(&nested(MAX_DEPTH)), None);
    }

    #[test]
    fn blocks_are_those_of_the_files_own_launch() {
        for (host, expected) in [
            ("dim3 grid(m); dim3 block(128); k<<<grid, block>>>(p, m, len);", Some(&["rows"][..])),
            ("int b = 256; int g = (len + b - 1) / b; k<<<g, b>>>(p, m, len);", Some(&["( n + 256 - 1 ) / 256"])),
            ("k<<<ceil_div(len, TILE), TILE>>>(p, m, len);", Some(&["ceil_div ( n , 16 )"])),
            (
                "dim3 t(16, 8), g((len + t.x - 1) / t.x, m / t.y); k<<<g, t>>>(p, m, len);",
                Some(&["( n + 16 - 1 ) / 16", "rows / 8"]),
            ),
            ("k<<<dim3(m, 2), 64>>>(p, m, len);", Some(&["rows", "2"])),
            ("k<<<ceil(len / 256.0), 256>>>(p, m, len);", Some(&["ceil_div ( n , 256 )"])),
            ("k<<<(int)ceil((float)len / 32), 32>>>(p, m, len);", Some(&["ceil_div ( n , 32 )"])),
            ("k<<<std::min(m, 65535), 64>>>(p, m, len);", Some(&["min ( rows , 65535 )"])),
            ("auto q = size(p); k<<<q.numel() / 64, 64>>>(p, m, q.numel());", Some(&["n / 64"])),
            ("hipLaunchKernelGGL(k, dim3(m), dim3(64), 0, 0, p, m, len);", Some(&["rows"])),
            ("const int all = 4 * len; k<<<all, 64>>>(p, m, len);", Some(&["4 * n"])),
            ("int all = {len + 1}; k<<<all, 64>>>(p, m, len);", Some(&["( n + 1 )"])),
            ("k<<<other(m), 64>>>(p, m, len);", None),
            ("int b = 0; ask(&b); k<<<b, 64>>>(p, m, len);", None),
            ("int b = len / 256; if (len % 256) b++; k<<<b, 256>>>(p, m, len);", None),
            ("int b = len / 256; b += 1; k<<<b, 256>>>(p, m, len);", None),
            ("int b = len; if (b > 99) b = 99; k<<<b, 64>>>(p, m, len);", None),
            ("int b; if (len) { b = 99; } k<<<b, 64>>>(p, m, len);", None),
            ("{ int b = 4; } k<<<b, 64>>>(p, m, len);", None),
            ("dim3 g(m), t(64); k<<<dim3(g.x, 2), t>>>(p, m, len);", None),
            ("k<<<2 * len + 1, 64>>>(p, m, len + 1);", None),
            ("k<<<ceil((float)len / 2 + 1), 64>>>(p, m, len);", None),
            ("k<<<ceil(len / 32), 32>>>(p, m, len);", Some(&["n / 32"])),
            ("dim3 g(m); g.y = 2; k<<<g, 64>>>(p, m, len);", Some(&["rows", "2"])),
            ("dim3 g(m); g.x *= 2; k<<<g, 64>>>(p, m, len);", None),
            ("dim3 g(m); if (g.x <= 9 || g.y == 2) return; k<<<g, 64>>>(p, m, len);", Some(&["rows"])),
            ("k<<<m, threads>>>(p, m, len);", None),
        ] {
            let expected = expected.map(|blocks| blocks.iter().map(ToString::to_string).collect::<Vec<_>>());
            assert_eq!(grid(host), expected, "{host}");
        }
    }
}
