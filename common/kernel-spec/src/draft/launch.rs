//! How a kernel is launched, as far as its text tells: the axes that it uses, and how many elements are along each.

use std::collections::BTreeMap;

use super::Parameter;
use super::grid::{Site, may_be_size};
use super::lengths::{SIDE, THREADS};
use crate::host_code::Token;

/// What the text of a kernel says of its launch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// x, y and z.
    pub axes: [Axis; 3],
    /// Whether a launch says how much shared memory it has.
    pub has_shared: bool,
    /// Words that may say how large a block is: names first, then numbers, each by how often it stands there.
    pub words: Vec<String>,
    /// What bounds the threads of a block: a number, or a name that stands for one.
    pub bound: Option<String>,
    /// Threads along each axis of a block, as the file launches it.
    pub said: Option<Vec<i64>>,
    /// The same in words: what is a parameter of the draft is named.
    pub said_as: Vec<String>,
    /// What sizes of the kernel are by which its blocks are as large as they may be.
    pub sizes: BTreeMap<String, i64>,
    /// What the file's launch gives sizes of the kernel, where that is a number.
    pub given: BTreeMap<String, i64>,
    /// Blocks along each axis, as the file launches it, by the kernel's sizes and such parameters.
    pub grid: Option<Vec<String>>,
    /// Launches of the kernel in the file, of which that is one.
    pub launches: usize,
    /// Another launch than that, which was found by trying, and what came of that one.
    pub tried: Option<(Launch, String)>,
}

/// Blocks of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Threads along each axis.
    pub block: Vec<i64>,
    /// Whether there is but one.
    pub is_one: bool,
}

/// Launches that are tried at most where that of a draft does not end well.
const MOST_LAUNCHES: usize = 14;
/// Threads that a block may have.
pub(super) const MOST_THREADS: i64 = 1024;
/// Numbers of the text that are taken for those of a block at most.
const MOST_NUMBERS: usize = 4;

/// One axis of the grid and its blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Axis {
    /// Whether the text asks which thread of its block one is.
    pub threads: bool,
    /// Whether it asks for the block.
    pub blocks: bool,
    /// What an index along it is held to be less than: an expression of whole numbers that the kernel takes.
    pub bound: Option<String>,
    /// Whether that is the number of blocks: the index has nothing of the thread in it.
    pub by_block: bool,
}

/// Tokens of a bound at most.
const MOST: usize = 16;

impl Shape {
    /// Of a kernel with this body.
    pub(super) fn of(body: &[Token<'_>], parameters: &[Parameter]) -> Self {
        let mut axes = ["x", "y", "z"].map(|axis| Axis::of(axis, body, parameters));
        // `(blockIdx.x + blockIdx.y * gridDim.x) * blockDim.x`: all blocks are of one line.
        let is_of_line = |pair: &[Token<'_>]| {
            let words: Vec<&str> = pair.iter().map(|token| token.text).collect();
            let (first, second) = (["blockIdx", ".", "y"], ["gridDim", ".", "x"]);
            let of = |one: [&str; 3], other: [&str; 3]| [one.as_slice(), &["*"], &other].concat() == words;
            of(first, second) || of(second, first)
        };
        if body.windows(7).any(is_of_line)
            && let [x, y, _] = &mut axes
            && x.bound == y.bound
        {
            (y.bound, y.by_block) = (None, false);
        }
        let has_shared = body.windows(2).any(|pair| is_pair(pair, "extern", "__shared__"));
        Self {
            axes,
            has_shared,
            words: words(body),
            bound: None,
            said: None,
            said_as: Vec::new(),
            sizes: BTreeMap::new(),
            given: BTreeMap::new(),
            grid: None,
            launches: 0,
            tried: None,
        }
    }

    /// Whose blocks a spec has, where the file says them.
    pub(super) fn whose(&self) -> String {
        match self.launches {
            0 | 1 => ", as the file launches it".to_string(),
            several => format!(", as one of the file's {several} launches has it"),
        }
    }

    /// Threads along each axis of a block.
    #[must_use]
    pub fn block(&self) -> Vec<i64> {
        if let Some((tried, _)) = &self.tried {
            return tried.block.clone();
        }
        self.said.clone().unwrap_or_else(|| self.usual())
    }

    /// The same where nothing is said of it.
    fn usual(&self) -> Vec<i64> {
        match self.dimensions() {
            1 => vec![THREADS],
            2 => vec![SIDE, SIDE],
            _ => vec![8, 8, 4],
        }
    }

    /// The axes up to the last along which there are threads.
    pub(super) fn dimensions(&self) -> usize {
        self.axes.iter().rposition(|axis| axis.threads).map_or(1, |last| last + 1)
    }

    /// What else may launch it, by what the words of its text stand for: other blocks, and one block alone.
    pub(super) fn others(&self, number: impl Fn(&str) -> Option<i64>) -> Vec<Launch> {
        let is_size = |number: &i64| (2..=MOST_THREADS).contains(number);
        let mut numbers: Vec<i64> = Vec::new();
        for found in self.words.iter().filter_map(|word| number(word)).filter(is_size) {
            if !numbers.contains(&found) {
                numbers.push(found);
            }
        }
        numbers.truncate(MOST_NUMBERS);
        let all = |side: i64| vec![side; self.dimensions()];
        // As a block that loads two tiles has it, or that has a square one.
        let is_line = self.dimensions() == 1;
        let twice = numbers.iter().map(|number| 2 * number).filter(|_| is_line);
        let squares = numbers.iter().map(|number| number * number).filter(|_| is_line);
        let said: Vec<Vec<i64>> = numbers.iter().copied().chain(twice).chain(squares).map(all).collect();
        let usual: Vec<Vec<i64>> = match self.dimensions() {
            1 => vec![vec![64], vec![32], vec![1024]],
            2 => vec![vec![32, 32], vec![32, 8], vec![8, 8]],
            _ => vec![vec![8, 8, 8], vec![4, 4, 4]],
        };
        let of = |is_one: bool| move |block: &Vec<i64>| Launch { block: block.clone(), is_one };
        let own = self.block();
        let several = said.iter().map(of(false));
        let alone = [&own].into_iter().chain(&said).map(of(true));
        let drafted = self.usual();
        let usual = [&drafted].into_iter().chain(&usual);
        let others = usual.clone().map(of(false)).chain(usual.map(of(true)));
        let drafted_so = Launch { block: own.clone(), is_one: false };
        let mut found = vec![drafted_so.clone()];
        // Beside the blocks that the file launches there are those that the kernel's text tells.
        found.extend(self.grid.is_some().then_some(drafted_so));
        for launch in several.chain(alone).chain(others) {
            if launch.block.iter().product::<i64>() <= MOST_THREADS && !found.contains(&launch) {
                found.push(launch);
            }
        }
        found.into_iter().skip(1).take(MOST_LAUNCHES).collect()
    }
}

impl Axis {
    fn of(axis: &str, body: &[Token<'_>], parameters: &[Parameter]) -> Self {
        let mut found = Self::default();
        let text = |at: usize| body.get(at).map_or("", |token| token.text);
        let is_size = |name: &str| parameters.iter().any(|one| one.name == name && may_be_size(&one.kind));
        // `x[blockIdx.x * n + i]`: a block has a row of n.
        let (mut rows, mut parts) = (false, false);
        for at in 0..body.len() {
            let is_member = text(at + 1) == "." && text(at + 2) == axis;
            let is_hip = |name: &str| text(at).strip_prefix(name).and_then(|rest| rest.strip_prefix('_')) == Some(axis);
            let threads = text(at) == "threadIdx" && is_member || is_hip("hipThreadIdx");
            let blocks = matches!(text(at), "blockIdx" | "gridDim") && is_member
                || is_hip("hipBlockIdx")
                || is_hip("hipGridDim");
            found.threads |= threads;
            found.blocks |= blocks;
            if text(at) == "blockIdx" && is_member {
                let times = |before: bool| match at.checked_sub(2) {
                    Some(behind) if before => text(at - 1) == "*" && is_size(text(behind)),
                    _ => !before && text(at + 3) == "*" && is_size(text(at + 4)),
                };
                rows |= times(true) || times(false);
                let is_end = |token: &&Token<'_>| matches!(token.text, ";" | "{" | "}" | "[" | "]" | "(" | ")" | "=");
                let before = body.get(..at).unwrap_or_default().iter().rev().take_while(|token| !is_end(token));
                let behind = body.get(at..).unwrap_or_default().iter().take_while(|token| !is_end(token));
                parts |= before.chain(behind).any(|token| is_of_thread(token.text));
            }
            if blocks && found.bound.is_none() {
                let (bound, by_block) = bound(body, at, parameters).unzip();
                (found.bound, found.by_block) = (bound, by_block.unwrap_or_default());
            }
        }
        found.by_block |= found.bound.is_none() && rows && !parts;
        found
    }
}

/// What the variable is held to be less than that the block at `at` goes into, and whether nothing of the thread does.
fn bound(body: &[Token<'_>], at: usize, parameters: &[Parameter]) -> Option<(String, bool)> {
    let before = body.get(..at)?;
    let begin = before.iter().rposition(|token| matches!(token.text, ";" | "{" | "}")).map_or(0, |at| at + 1);
    let statement = body.get(begin..at)?;
    // The last that is given a value, as in `int column = ..., row = ...`.
    let last = statement.len().checked_sub(2).and_then(|at| assigned(statement.get(at..)?));
    let name = last.or_else(|| statement.windows(3).rev().find_map(assigned))?;
    let given = body.get(at..)?.iter().take_while(|token| !matches!(token.text, ";" | ","));
    let given = statement.iter().rev().take_while(|token| token.text != "=").chain(given);
    let by_block = !given.into_iter().any(|token| is_of_thread(token.text));
    let is_compared = |at: &usize| {
        let text = |at: usize| body.get(at).map_or("", |token| token.text);
        let is_member = at.checked_sub(1).is_some_and(|before| text(before) == ".");
        text(*at) == name && !is_member
    };
    let bound = (0..body.len()).filter(is_compared).find_map(|at| {
        let text = |at: usize| body.get(at).map_or("", |token| token.text);
        let from = match (text(at + 1), text(at + 2)) {
            (">", "=") => at + 3,
            ("<", second) if !matches!(second, "=" | "<") => at + 2,
            _ => return None,
        };
        expression(body, from, parameters)
    })?;
    Some((bound, by_block))
}

/// The words of a body that may be numbers or stand for one.
fn words(body: &[Token<'_>]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for token in body.iter().filter(|token| is_name(token.text) || token.text.parse::<i64>().is_ok()) {
        *counts.entry(token.text).or_default() += 1;
    }
    let mut words: Vec<(&str, usize)> = counts.into_iter().collect();
    // A name says more than a number.
    words.sort_by_key(|(word, count)| (!is_name(word), std::cmp::Reverse(*count)));
    words.into_iter().map(|(word, _)| word.to_string()).collect()
}

/// Whether a word tells threads of a block apart, or how many there are.
fn is_of_thread(word: &str) -> bool {
    matches!(word, "threadIdx" | "blockDim") || word.starts_with("hipThreadIdx_") || word.starts_with("hipBlockDim_")
}

fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// The name that these tokens give a value to.
fn assigned<'a>(tokens: &[Token<'a>]) -> Option<&'a str> {
    match tokens {
        [name, equals, behind @ ..]
            if equals.text == "=" && is_name(name.text) && behind.iter().all(|one| one.text != "=") =>
        {
            Some(name.text)
        }
        _ => None,
    }
}

/// An expression of whole numbers that the kernel takes, which ends where a condition does, from `at` on.
fn expression(body: &[Token<'_>], at: usize, parameters: &[Parameter]) -> Option<String> {
    let mut depth = 0_usize;
    let end = body.iter().skip(at).take(MOST).position(|token| {
        let is_end = depth == 0 && matches!(token.text, ")" | ";" | "&" | "|" | "?" | "," | "{");
        match token.text {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            _ => {}
        }
        is_end
    })?;
    let tokens = body.get(at..at + end)?;
    let sizes = parameters.iter().flat_map(Parameter::values).filter(|one| may_be_size(&one.kind));
    let passed: Vec<(Vec<&str>, String)> = sizes.map(|one| (vec![one.name.as_str()], one.name.clone())).collect();
    let nothing = (BTreeMap::new(), BTreeMap::new());
    let site = Site { before: body, passed, numbers: &nothing.0, params: &nothing.1, block: (&[], None) };
    let found = site.whole(tokens, at)?;
    let only = if tokens.len() == 1 { found.strip_prefix("( ").and_then(|text| text.strip_suffix(" )")) } else { None };
    let found = only.unwrap_or(&found);
    // A number alone is where a loop begins, or which of the threads does something.
    let has_size = found.split(' ').any(|word| site.passed.iter().any(|(_, name)| name == word));
    has_size.then(|| found.to_string())
}

fn is_pair(pair: &[Token<'_>], first: &str, second: &str) -> bool {
    matches!(pair, [one, two] if (one.text, two.text) == (first, second))
}

#[cfg(test)]
mod tests {
    use super::super::{Draft, Language};
    use super::*;

    fn shape(parameters: &str, body: &str) -> Shape {
        let text = format!("__global__ void k({parameters}) {{ {body} }}");
        Draft::new(Language::Gpu, "k.cu", &text, |_| None).kernels[0].shape.clone()
    }

    #[test]
    fn what_an_index_is_less_than_is_how_many_there_are() {
        for (body, expected) in [
            ("int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] = 1;", Some("n")),
            (
                "int i = hipBlockIdx_x * hipBlockDim_x + hipThreadIdx_x; if (i >= n * m) return; p[i] = 1;",
                Some("n * m"),
            ),
            ("for (int i = blockIdx.x; i < n; i += gridDim.x) p[i] = 1;", Some("n")),
            ("int i = blockIdx.x; int all = n * m; if (i < all && p) p[i] = 1;", Some("n * m")),
            ("int i = blockIdx.x; int all = n * m; if (i < all * 2) p[i] = 1;", Some("( n * m ) * 2")),
            ("int i = blockIdx.x; int all = n * (m + 1); if (i < all) p[i] = 1;", Some("n * ( m + 1 )")),
            ("int i = blockIdx.x; if (i < a[0]) p[i] = 1;", None),
            ("int i = blockIdx.x; while (i < n--) p[i] = 1;", None),
            ("int i = blockIdx.x; if (i < q.n) p[i] = 1;", None),
            ("if (m <= blockIdx.x) return; int i = 1 << n;", None),
            ("float* q = p + blockIdx.x * m; for (int i = threadIdx.x; i < n; ++i) q[i] = 1;", None),
            ("int i = blockIdx.x; if (i << 2 == n) p[i] = 1;", None),
            ("p[blockIdx.x] = 1;", None),
            ("int i = threadIdx.x + blockIdx.x; if (i < 32) p[i] = 1;", None),
        ] {
            let shape = shape("float* p, const int* a, int n, int m", body);
            assert_eq!(shape.axes[0].bound.as_deref(), expected, "{body}");
            assert!(shape.axes[0].blocks && !shape.axes[1].blocks && !shape.has_shared, "{body}");
        }
    }

    #[test]
    fn other_launches_are_those_that_the_text_says_first() {
        let launches = |parameters: &str, body: &str| {
            let text = format!("#define SIDE 16\n__global__ void k({parameters}) {{ {body} }}");
            let launches = Draft::new(Language::Gpu, "k.cu", &text, |_| None).launches(0);
            launches.into_iter().map(|Launch { block, is_one }| (block, is_one)).collect::<Vec<_>>()
        };
        let of = launches("float* p", "__shared__ float s[SIDE]; s[threadIdx.x] = p[threadIdx.x + SIDE * 40];");
        assert_eq!(of[..3], [(vec![16], false), (vec![40], false), (vec![32], false)]);
        assert_eq!((of[4].clone(), of.len()), ((vec![256], true), 13));
        let of = launches("float* p", "p[threadIdx.y * SIDE + threadIdx.x] = blockIdx.y * 64;");
        // 64 by 64 are more threads than a block may have, and 16 by 16 are the draft's own.
        assert_eq!(of[..3], [(vec![16, 16], true), (vec![32, 32], false), (vec![32, 8], false)]);
    }

    #[test]
    fn axes_are_told_apart() {
        let body = "extern __shared__ float s[]; int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y; \
            if (row < m && col < n) p[row * n + col] = s[row];";
        let Shape { axes: [x, y, z], has_shared, .. } = shape("float* p, int m, int n", body);
        assert!(has_shared);
        let of = |bound: &str| Axis { threads: true, blocks: true, bound: Some(bound.to_string()), by_block: false };
        assert_eq!(x, of("n"));
        assert_eq!(y, of("m"));
        assert_eq!(z, Axis::default());
        let rows = "int row = blockIdx.x; if (row >= m) return; for (int i = threadIdx.x; i < n; i += blockDim.x) p[row * n + i] = 1;";
        let [x, ..] = shape("float* p, int m, int n", rows).axes;
        assert_eq!((x.bound.as_deref(), x.by_block), (Some("m"), true));
        let line = "int i = (blockIdx.x + blockIdx.y * gridDim.x) * blockDim.x + threadIdx.x; if (i >= m * n) return; p[i] = 1;";
        let [x, y, _] = shape("float* p, int m, int n", line).axes;
        assert_eq!((x.bound.as_deref(), y.bound, y.blocks), (Some("m * n"), None, true));
        for (body, by_block) in [
            ("for (int i = threadIdx.x; i < n; i += blockDim.x) p[blockIdx.x * n + i] = 1;", true),
            ("for (int i = threadIdx.x; i < n; i += blockDim.x) p[n * blockIdx.x + i] = 1;", true),
            ("int i = threadIdx.x; p[blockIdx.x * 32 + i] = 1;", false),
            ("p[blockIdx.x * n + threadIdx.x] = 1;", false),
        ] {
            let [x, ..] = shape("float* p, int m, int n", body).axes;
            assert_eq!((x.bound, x.by_block), (None, by_block), "{body}");
        }
    }
}
