//! How long buffers are, from how far kernels went in them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Draft, Kernel, Parameter, ParameterKind, Usage};
use crate::expression::is_name;
use crate::rules::TARGET;

/// The size of kernels that have none.
pub(super) const NAME: &str = "n";
/// What a size of a draft is that nothing was executed of.
pub(super) const SIZE: i64 = 1000;
/// What the first is of those that kernels are executed with: its blocks are several, and its parts no powers of two.
const FIRST: i64 = 8 * 149;
/// What the others are, of [`EIGHTHS`]. No product of some of them is that of others, nor a power of two.
const OTHERS: [i64; 30] = [
    11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127,
    131, 137, 139,
];
const EIGHTHS: i64 = 8;
/// The same where there are more than [`FEW`], the first as well: their product may be how many threads there are.
const FEW: usize = 3;
const PARTS_OF_MANY: [i64; 2] = [4, 2];
/// The same of the smallest that are tried.
const SMALLEST: [i64; 30] = [
    3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109,
    113, 127,
];
/// The same where there are at least [`MANY`], in turn: loops along some of them are within others. Products may be alike.
const LEAST: [i64; 3] = [3, 5, 7];
const MANY: usize = 8;
/// Threads of a block of the draft.
pub(super) const THREADS: i64 = 256;
/// The same along an axis, of a block that has two.
pub(super) const SIDE: i64 = 16;
/// Sizes that are multiplied at most where a length is not just their product.
const MOST_FACTORS: usize = 3;
/// How many times as long as a product of sizes a buffer may be, or how many elements of it may be one.
const TIMES: u64 = 16;
/// Elements that make one: those of a block first, then those of vectors and others.
const PARTS: [u64; 8] = [THREADS as u64, 2, 4, 8, 16, 32, 64, 128];
/// Elements of what is a number of its own as a rule.
const FEW_ELEMENTS: u64 = 4;

/// The sizes of `kernels`, in the order of their parameters, with a value each.
pub(super) fn sizes(kernels: &[Kernel]) -> BTreeMap<String, i64> {
    let mut order: Vec<&str> = Vec::new();
    for name in kernels.iter().flat_map(names) {
        if !order.contains(&name) {
            order.push(name);
        }
    }
    // Of the kernel with the most that has it.
    let beside = |name: &str| {
        let counts = kernels.iter().map(|kernel| names(kernel).collect::<BTreeSet<&str>>());
        counts.filter(|sizes| sizes.contains(name)).map(|sizes| sizes.len()).max().unwrap_or(1)
    };
    let other = |at: usize, times: i64| OTHERS.get(at % OTHERS.len()).map_or(SIZE, |part| times * part);
    let value = |at: usize, name: &str| match (beside(name).checked_sub(FEW + 1), at.checked_sub(1)) {
        (Some(more), _) => other(at, PARTS_OF_MANY.get(more).copied().unwrap_or(1)),
        (None, None) => FIRST,
        (None, Some(_)) => other(at, EIGHTHS),
    };
    let usual = order.iter().enumerate().map(|(at, name)| ((*name).to_string(), value(at, name))).collect();
    of_launches(usual, kernels)
}

/// `sizes`, where those that say how many threads a block of `kernels` has are as many as one may have.
fn of_launches(mut sizes: BTreeMap<String, i64>, kernels: &[Kernel]) -> BTreeMap<String, i64> {
    for (name, threads) in kernels.iter().flat_map(|kernel| &kernel.shape.sizes) {
        sizes.get_mut(name).into_iter().for_each(|size| *size = *threads);
    }
    sizes
}

/// Threads of a block, or elements of a tile, that whole tiles are multiples of.
const TILE: i64 = 128;
/// The same for kernels that want whole tiles: multiples of these, a prime number of tiles each, so that no two products are alike.
const TILES: [i64; 6] = [TILE * 3, TILE * 5, 64 * 7, 64 * 11, 64 * 13, 64 * 17];
/// What a line of those is that a kernel goes along by a size of its own: more than any of [`TILES`].
const LEADING: [i64; 6] = [64 * 19, 64 * 23, 64 * 29, 64 * 31, 64 * 37, 64 * 41];
/// What a size is at most that is as the file's launch gives it.
const MOST_GIVEN: i64 = 1 << 14;

/// Whether a name says that a size leads from one line to the next: `lda`, `pitch`, `row_stride`.
fn leads(name: &str) -> bool {
    let name = name.to_lowercase();
    let is_of_blas = name.strip_prefix("ld").is_some_and(|rest| rest.len() <= 1);
    is_of_blas || ["stride", "pitch", "leading"].iter().any(|word| name.contains(word))
}

/// Sizes that are still several, and no products of each other; `None` if these are the smallest.
pub(super) fn smaller(sizes: &BTreeMap<String, i64>) -> Option<BTreeMap<String, i64>> {
    let least = |value: i64| (value % 2 == 0).then_some(value / 2);
    let mut smaller: BTreeMap<String, i64> =
        sizes.iter().map(|(name, value)| (name.clone(), least(*value).unwrap_or(*value))).collect();
    // Those of a kernel that has many are no multiples of two.
    if smaller == *sizes {
        let mut order: Vec<&mut i64> = smaller.values_mut().collect();
        order.sort();
        order.into_iter().zip(SMALLEST).for_each(|(value, least)| *value = least.min(*value));
    }
    if smaller == *sizes && sizes.len() >= MANY {
        let values = smaller.values_mut().zip(LEAST.into_iter().cycle());
        values.for_each(|(value, least)| *value = least.min(*value));
    }
    (smaller != *sizes).then_some(smaller)
}

/// What a size is called: a name that no buffer has and that means nothing else in expressions.
pub(super) fn free_name(name: &str, is_buffer: impl Fn(&str) -> bool) -> String {
    let is_taken = is_buffer(name) || TARGET.contains(&name) || !is_name(name);
    if is_taken { format!("{name}_size") } else { name.to_string() }
}

/// The size by which buffers are long of which nothing is known.
pub(super) fn main(kernels: &[Kernel]) -> Option<&str> {
    kernels.iter().flat_map(names).min()
}

/// The sizes of a kernel, in the order of its parameters; those that say how many elements a vector has are others.
pub(super) fn names(kernel: &Kernel) -> impl Iterator<Item = &str> {
    let is_size = |one: &&Parameter| matches!(one.kind, ParameterKind::I32 | ParameterKind::I64);
    let values = kernel.parameters.iter().flat_map(|one| match &one.kind {
        ParameterKind::Structure { fields, .. } => {
            fields.iter().filter(|field| field.size.is_none()).map(|field| &field.value).collect()
        }
        _ => vec![one],
    });
    values.filter(is_size).map(|one| one.name.as_str())
}

impl Draft {
    /// A draft of its kernel `kernel` alone, with the sizes of this one.
    #[must_use]
    pub fn alone(&self, kernel: usize) -> Self {
        let kernels = self.kernels.get(kernel).cloned().into_iter().collect();
        Self { kernels, sizes: self.trial_sizes(), main: main(&self.kernels).map(str::to_string), ..self.clone() }
    }

    /// What the size is, as kernels are executed, by which buffers are long of which nothing is known.
    #[must_use]
    pub fn main_size(&self) -> u64 {
        let size = main(&self.kernels).and_then(|name| self.trial_sizes().get(name).copied());
        size.unwrap_or(FIRST).unsigned_abs()
    }

    /// Makes buffers as long as kernels went in them: elements by the name of the buffer, of each kernel in its order, as it was executed
    /// [alone](Self::alone), and whether it ended well.
    pub fn set_reach<'a>(&mut self, reach: impl IntoIterator<Item = (&'a BTreeMap<String, u64>, bool)>) {
        self.sizes = self.trial_sizes();
        let reach: Vec<(&BTreeMap<String, u64>, bool)> = reach.into_iter().collect();
        self.kernels.iter_mut().zip(&reach).for_each(|(kernel, (_, well))| kernel.fails = !well);
        let mut longest: BTreeMap<&str, (u64, BTreeSet<&str>)> = BTreeMap::new();
        let mut guesses = BTreeSet::new();
        for (kernel, (reach, well)) in self.kernels.iter().zip(&reach) {
            for (name, elements) in reach.iter().filter(|(_, elements)| **elements > 0) {
                let (known, sizes) = longest.entry(name).or_default();
                *known = (*known).max(*elements);
                sizes.extend(names(kernel));
                guesses.extend((!well).then_some(name.as_str()));
            }
        }
        let parameters = || self.kernels.iter().flat_map(|kernel| &kernel.parameters).flat_map(Parameter::values);
        let is_buffer = |name: &str| parameters().any(|one| one.is_buffer() && one.name == name);
        let main = main(&self.kernels).unwrap_or(NAME);
        let length = |(name, (elements, own)): (&str, (u64, BTreeSet<&str>))| {
            // Of kernels that have none of their own, blocks are as many as the draft's says.
            let own = if own.is_empty() { BTreeSet::from([main]) } else { own };
            let known = own.into_iter().filter_map(|size| Some((free_name(size, is_buffer), *self.sizes.get(size)?)));
            let known: Vec<(String, i64)> = known.collect();
            let sizes: Vec<(&str, i64)> = known.iter().map(|(name, value)| (name.as_str(), *value)).collect();
            let (text, is_exact) = expression(elements, &sizes);
            (name.to_string(), Length { text, elements, is_exact: is_exact && !guesses.contains(name) })
        };
        self.lengths = longest.into_iter().map(length).collect();
        if reach.iter().all(|(_, well)| *well) {
            self.set_untouched();
        }
    }

    /// Buffers that no kernel names and none touches are no outputs, where others are.
    fn set_untouched(&mut self) {
        let is_touched = |value: &Parameter| self.lengths.contains_key(&value.name);
        let is_written = |value: &Parameter| value.is_buffer() && value.usage.written && is_touched(value);
        let parameters = self.kernels.iter().flat_map(|kernel| &kernel.parameters);
        if !parameters.flat_map(Parameter::values).any(is_written) {
            return;
        }
        for value in self.kernels.iter_mut().flat_map(|kernel| &mut kernel.parameters).flat_map(Parameter::values_mut) {
            if value.is_buffer() && value.usage == Usage::default() && !self.lengths.contains_key(&value.name) {
                value.usage = Usage { read: true, written: false, ..value.usage };
            }
        }
    }

    /// The same with sizes that are whole tiles, by which kernels may end well that do not by the usual ones; `None` where there are too many.
    #[must_use]
    pub fn of_tiles(&self) -> Option<Self> {
        let usual = self.trial_sizes();
        let sizes = of_launches(usual.keys().cloned().zip(TILES).collect(), &self.kernels);
        (usual.len() <= TILES.len()).then(|| Self { sizes, ..self.clone() })
    }

    /// The same where blocks are wider than those tiles: sizes are whole ones of these.
    #[must_use]
    pub fn of_blocks(&self) -> Option<Self> {
        let said = self.kernels.iter().flat_map(|kernel| kernel.shape.said.iter().flatten());
        let widest = said.copied().filter(|threads| *threads > TILE && threads % TILE == 0).max()?;
        let mut tiled = self.of_tiles()?;
        // Two sizes of the widest blocks are too many threads.
        let tiles = if tiled.sizes.len() > 1 { 2 } else { widest / TILE };
        tiled.sizes.values_mut().filter(|size| **size % TILE == 0).for_each(|size| *size *= tiles);
        Some(tiled)
    }

    /// The same with sizes that are whole tiles, and those whose names say that they lead from line to line larger than all lines; `None` where there
    /// are none.
    #[must_use]
    pub fn of_lines(&self) -> Option<Self> {
        let mut tiled = self.of_tiles()?;
        let mut leading = LEADING.into_iter();
        let of_lines = tiled.sizes.iter_mut().filter(|(name, _)| leads(name));
        of_lines.for_each(|(_, value)| *value = leading.next().unwrap_or(*value));
        (leading.len() < LEADING.len()).then_some(tiled)
    }

    /// The same with what the file's launches give their kernels, where that is small enough to be executed, and `fewer` than usual if that is asked
    /// for; `None` where they give no such numbers.
    #[must_use]
    pub fn of_given(&self, fewer: bool) -> Option<Self> {
        let mut sizes = self.trial_sizes();
        let given = self.kernels.iter().flat_map(|kernel| &kernel.shape.given);
        for (name, value) in given.filter(|(_, value)| (1..=MOST_GIVEN).contains(*value)) {
            let replaced = sizes.get_mut(name).filter(|size| !fewer || *value < **size);
            replaced.into_iter().for_each(|size| *size = *value);
        }
        (sizes != self.trial_sizes()).then(|| Self { sizes, ..self.clone() })
    }

    /// The same where the others are whole tiles; `None` where there are too many.
    #[must_use]
    pub fn of_given_tiles(&self) -> Option<Self> {
        let (usual, mut given) = (self.trial_sizes(), self.of_given(false)?);
        let others = || given.sizes.iter().filter(|(name, size)| usual.get(*name) == Some(size));
        let tiles: BTreeMap<String, i64> = others().map(|(name, _)| name.clone()).zip(TILES).collect();
        if tiles.is_empty() || others().count() > TILES.len() {
            return None;
        }
        given.sizes.extend(tiles);
        Some(given)
    }

    pub(super) fn trial_sizes(&self) -> BTreeMap<String, i64> {
        if !self.sizes.is_empty() {
            return self.sizes.clone();
        }
        let mut sizes = sizes(&self.kernels);
        if sizes.is_empty() {
            sizes.insert(NAME.to_string(), FIRST);
        }
        sizes
    }
}

/// How long a buffer is, as kernels were executed.
#[derive(Clone, Debug)]
pub(super) struct Length {
    /// An expression of the sizes.
    pub text: String,
    /// How far kernels went.
    pub elements: u64,
    /// Whether it is just as many elements.
    pub is_exact: bool,
}

impl Length {
    /// What a remark says of it.
    pub(super) fn how(&self) -> String {
        match self {
            Self { is_exact: false, elements, .. } => format!("a guess: the kernels go {elements} elements far in it"),
            Self { text, .. } if text.ends_with(" + 1") => {
                "how far the kernels go in it, one more than a size".to_string()
            }
            Self { .. } => "how far the kernels go in it".to_string(),
        }
    }
}

/// `elements` by the sizes: what is just as many, else the least product of sizes that is more. Whether it is just as many.
fn expression(elements: u64, sizes: &[(&str, i64)]) -> (String, bool) {
    let mut products: Vec<Product> = sizes.iter().enumerate().map(|(at, size)| Product::of(size, at)).collect();
    let mut last = products.clone();
    for _ in 1..MOST_FACTORS {
        last = last.iter().flat_map(|one| one.times(sizes)).collect();
        products.extend(last.iter().cloned());
    }
    let exact = |value: u64| value == elements;
    if let Some(text) = factors(elements, sizes) {
        return (text, true);
    }
    // Threads that nothing holds back: as many as the blocks have.
    let rounded = [THREADS, SIDE].into_iter().flat_map(|threads| {
        let rounded = move |(name, value): &(&str, i64)| Product {
            value: (*value as u64).next_multiple_of(threads as u64),
            text: format!("round_up({name}, {threads})"),
            last: 0,
            count: 1,
        };
        sizes.iter().map(rounded)
    });
    let rounded: Vec<Product> = rounded.collect();
    let of_rounded = rounded.iter().flat_map(|one| one.times(sizes));
    if let Some(Product { text, .. }) = rounded.iter().cloned().chain(of_rounded).find(|one| exact(one.value)) {
        return (text, true);
    }
    let of_all = products.iter().chain(&rounded);
    let several = of_all.clone().find_map(|Product { value, text, .. }| {
        (2..=TIMES).find(|times| exact(value * times)).map(|times| format!("{times} * {text}"))
    });
    let next = || of_all.clone().find(|one| exact(one.value + 1)).map(|one| format!("{} + 1", one.text));
    let part = || {
        // So few are rather one of each block than part of a vector.
        let parts = if elements <= FEW_ELEMENTS { PARTS.get(..1) } else { Some(&PARTS[..]) };
        let of_part = |part: &u64| {
            let one = products.iter().find(|one| one.count < MOST_FACTORS && exact(one.value.div_ceil(*part)))?;
            Some(format!("ceil_div({}, {part})", one.text))
        };
        parts?.iter().filter(|_| elements > 1).find_map(of_part)
    };
    if let Some(text) = several.or_else(next).or_else(part) {
        return (text, true);
    }
    // Less than any size is a number of its own.
    if elements <= FEW_ELEMENTS || sizes.iter().all(|(_, value)| elements < *value as u64 / 2) {
        return (elements.to_string(), true);
    }
    // Some of it was skipped: what is hardly more, else so many of a size.
    let least = of_all.filter(|one| one.value >= elements).min_by_key(|one| one.value);
    let near = least.filter(|one| one.value < 2 * elements).map(|one| one.text.clone());
    // What is many times as much says nothing.
    let is_like = |one: &Product| one.value / TIMES <= elements;
    let several = || {
        let several = |one: &Product| {
            let times = elements.div_ceil(one.value);
            (times <= TIMES && is_like(one)).then(|| (times * one.value, format!("{times} * {}", one.text)))
        };
        products.iter().filter_map(several).min_by_key(|(value, _)| *value).map(|(_, text)| text)
    };
    let least = least.filter(|one| is_like(one));
    let least = || least.map_or_else(|| elements.to_string(), |one| one.text.clone());
    (near.or_else(several).unwrap_or_else(least), false)
}

/// `elements` as a product of sizes, however many they are: each has a prime of its own.
fn factors(elements: u64, sizes: &[(&str, i64)]) -> Option<String> {
    let (mut left, mut names) = (elements, Vec::new());
    for (name, value) in sizes {
        while left > 1 && *value > 1 && left.is_multiple_of(*value as u64) {
            left /= *value as u64;
            names.push(*name);
        }
    }
    (left == 1 && !names.is_empty()).then(|| names.join(" * "))
}

/// Some sizes, multiplied.
#[derive(Clone)]
struct Product {
    value: u64,
    text: String,
    /// Where the last of them is: no other order of them is looked at.
    last: usize,
    /// How many they are.
    count: usize,
}

impl Product {
    fn of((name, value): &(&str, i64), at: usize) -> Self {
        Self { value: *value as u64, text: (*name).to_string(), last: at, count: 1 }
    }

    /// The same and one of `sizes` more.
    fn times(&self, sizes: &[(&str, i64)]) -> impl Iterator<Item = Self> {
        sizes.iter().enumerate().skip(self.last).filter_map(|(at, (name, size))| {
            let value = self.value.checked_mul(*size as u64)?;
            Some(Self { value, text: format!("{} * {name}", self.text), last: at, count: self.count + 1 })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_products_of_sizes_where_they_are() {
        let sizes = [("k", 88), ("m", 536), ("n", 104)];
        for (elements, expected) in [
            (536, "m"),
            (88 * 536, "k * m"),
            (104 * 104, "n * n"),
            (88 * 536 * 104, "k * m * n"),
            (88 * 88 * 536 * 104, "k * k * m * n"),
            (768, "round_up(m, 256)"),
            (768 * 104, "round_up(m, 256) * n"),
            (4 * 536, "4 * m"),
            (537, "m + 1"),
            (134, "ceil_div(m, 4)"),
            (3, "ceil_div(m, 256)"),
            (1, "1"),
            (2, "2"),
            (32, "32"),
            // Not the last ones of each row.
            (88 * 536 - 5, "k * m"),
            (500, "m"),
            (2 * 536 - 1, "2 * m"),
        ] {
            assert_eq!(expression(elements, &sizes).0, expected, "{elements}");
        }
        let only = [("n", FIRST)];
        for (elements, expected) in
            [(298, "ceil_div(n, 4)"), (32, "32"), (5, "ceil_div(n, 256)"), (1280, "round_up(n, 256)")]
        {
            assert_eq!(expression(elements, &only).0, expected, "{elements}");
        }
        assert_eq!(expression(77, &[]).0, "77");
        assert_eq!(expression(1 << 25, &only).0, (1 << 25).to_string());
        assert_eq!(expression(1 << 40, &[("n", 1000)]).0, (1_u64 << 40).to_string());
        let is_exact = |elements: u64| expression(elements, &only).1;
        assert!(is_exact(FIRST as u64 + 1) && is_exact(32) && !is_exact(FIRST as u64 - 100));
    }

    #[test]
    fn many_sizes_become_few() {
        let sizes = |count: usize| OTHERS.into_iter().take(count).map(|size| (format!("s{size}"), size)).collect();
        let least = |mut sizes: BTreeMap<String, i64>| {
            while let Some(other) = smaller(&sizes) {
                sizes = other;
            }
            sizes.into_values().max()
        };
        assert_eq!(least(sizes(14)), Some(7));
        assert_eq!(least(sizes(4)), Some(11));
    }

    #[test]
    fn no_two_products_of_sizes_are_alike() {
        // As they are before they are multiplied.
        let values: Vec<i64> = [FIRST / EIGHTHS].into_iter().chain(OTHERS).collect();
        let mut products: Vec<i64> = values.clone();
        for (at, a) in values.iter().enumerate() {
            for (behind, b) in values[at..].iter().enumerate() {
                products.push(a * b);
                products.extend(values[at + behind..].iter().map(|c| a * b * c));
            }
        }
        let count = products.len();
        products.sort_unstable();
        products.dedup();
        assert_eq!(products.len(), count);
    }
}
