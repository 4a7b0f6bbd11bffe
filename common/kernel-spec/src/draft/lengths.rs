//! How long buffers are, from how far kernels went in them.

use std::collections::BTreeMap;

use super::{Draft, Kernel, Parameter, ParameterKind};

/// The size of kernels that have none.
pub(super) const NAME: &str = "n";
/// What the only size of a draft is.
pub(super) const SIZE: i64 = 1000;
/// What the first of several is: its blocks are several.
const FIRST: i64 = 8 * 67;
/// What the others are, of [`EIGHTHS`]. No product of some of them is that of others, nor a power of two.
const OTHERS: [i64; 14] = [11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61];
const EIGHTHS: i64 = 8;
/// The same where there are more than [`FEW`], whose product a grid may have: of [`QUARTERS`], the first as well.
const FEW: usize = 3;
const QUARTERS: i64 = 4;
/// Threads of a block of the draft.
pub(super) const THREADS: i64 = 256;
/// The same along an axis, of a block that has two.
const SIDE: u64 = 16;
/// How many times as long as a product of sizes a buffer may be, or how many elements of it may be one.
const TIMES: u64 = 16;
/// Elements that make one: those of a block first, then those of vectors and others.
const PARTS: [u64; 10] = [THREADS as u64, 2, 4, 8, 16, 32, 64, 128, 512, 1024];

/// The sizes of `kernels`, in the order of their parameters, with a value each.
pub(super) fn sizes(kernels: &[Kernel]) -> BTreeMap<String, i64> {
    let mut order: Vec<&str> = Vec::new();
    for name in kernels.iter().flat_map(names) {
        if !order.contains(&name) {
            order.push(name);
        }
    }
    let other = |at: usize, times: i64| OTHERS.get(at % OTHERS.len()).map_or(SIZE, |part| times * part);
    let value = |at: usize| match at.checked_sub(1) {
        _ if order.len() == 1 => SIZE,
        _ if order.len() > FEW => other(at, QUARTERS),
        None => FIRST,
        Some(behind) => other(behind, EIGHTHS),
    };
    order.iter().enumerate().map(|(at, name)| ((*name).to_string(), value(at))).collect()
}

/// What a size is called: a name that no buffer has.
pub(super) fn free_name(name: &str, is_buffer: impl Fn(&str) -> bool) -> String {
    if is_buffer(name) { format!("{name}_size") } else { name.to_string() }
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

    /// Makes buffers as long as kernels went in them: elements by the name of the buffer, of each kernel that was executed [alone](Self::alone).
    pub fn set_reach<'a>(&mut self, reach: impl IntoIterator<Item = &'a BTreeMap<String, u64>>) {
        let mut longest: BTreeMap<&str, u64> = BTreeMap::new();
        for (name, elements) in reach.into_iter().flatten() {
            let known = longest.entry(name).or_default();
            *known = (*known).max(*elements);
        }
        longest.retain(|_, elements| *elements > 0);
        if longest.is_empty() {
            return;
        }
        self.sizes = self.trial_sizes();
        let parameters = || self.kernels.iter().flat_map(|kernel| &kernel.parameters).flat_map(Parameter::values);
        let is_buffer = |name: &str| parameters().any(|one| one.is_buffer() && one.name == name);
        let sizes: Vec<(String, i64)> =
            self.sizes.iter().map(|(name, value)| (free_name(name, is_buffer), *value)).collect();
        let sizes: Vec<(&str, i64)> = sizes.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let lengths = longest.into_iter().map(|(name, elements)| (name.to_string(), expression(elements, &sizes)));
        self.lengths = lengths.collect();
    }

    fn trial_sizes(&self) -> BTreeMap<String, i64> {
        if !self.sizes.is_empty() {
            return self.sizes.clone();
        }
        let mut sizes = sizes(&self.kernels);
        if sizes.is_empty() {
            sizes.insert(NAME.to_string(), SIZE);
        }
        sizes
    }
}

/// `elements` by the sizes: what is just as many, else the least product of sizes that is more.
fn expression(elements: u64, sizes: &[(&str, i64)]) -> String {
    let mut products = vec![(1_u64, String::new())];
    let mut last = products.clone();
    for _ in 0..3 {
        last = last.iter().flat_map(|one| sizes.iter().filter_map(|size| times(one, size))).collect();
        products.extend(last.iter().cloned());
    }
    products.remove(0);
    let exact = |value: u64| value == elements;
    if let Some((_, text)) = products.iter().find(|(value, _)| exact(*value)) {
        return text.clone();
    }
    // Threads that nothing holds back: as many as the blocks have.
    let to_threads = |(name, value): &(&str, i64), threads: u64| {
        ((*value as u64).next_multiple_of(threads), format!("ceil_div({name}, {threads}) * {threads}"))
    };
    let rounded: Vec<(u64, String)> = [THREADS as u64, SIDE]
        .into_iter()
        .flat_map(|threads| sizes.iter().map(move |size| to_threads(size, threads)))
        .collect();
    let of_rounded = rounded.iter().flat_map(|one| sizes.iter().filter_map(|size| times(one, size)));
    if let Some((_, text)) = rounded.iter().cloned().chain(of_rounded).find(|(value, _)| exact(*value)) {
        return text;
    }
    if elements == 1 {
        return "1".to_string();
    }
    // Less than any size is a number of its own.
    if sizes.iter().all(|(_, value)| elements < *value as u64 / 2) && elements > 4 || sizes.is_empty() {
        return elements.to_string();
    }
    let of_all = products.iter().chain(&rounded);
    let whole = of_all.clone().find_map(|(value, text)| {
        (2..=TIMES).find(|times| exact(value * times)).map(|times| format!("{times} * {text}"))
    });
    let next = || of_all.clone().find(|(value, _)| exact(value + 1)).map(|(_, text)| format!("{text} + 1"));
    let part = || {
        let of_part =
            |part: &u64| products.iter().find(|(value, _)| exact(value.div_ceil(*part))).map(|(_, text)| (text, *part));
        PARTS.iter().find_map(of_part).map(|(text, part)| format!("ceil_div({text}, {part})"))
    };
    if let Some(text) = whole.or_else(next).or_else(part) {
        return text;
    }
    if elements <= 4 {
        return elements.to_string();
    }
    let least = of_all.filter(|(value, _)| *value >= elements).min_by_key(|(value, _)| *value);
    least.map_or_else(|| elements.to_string(), |(_, text)| text.clone())
}

/// A product and one size more, which comes behind those that it has.
fn times((value, text): &(u64, String), (name, size): &(&str, i64)) -> Option<(u64, String)> {
    if text.is_empty() {
        return Some((*size as u64, (*name).to_string()));
    }
    let last = text.rsplit(" * ").next().unwrap_or_default();
    (last <= *name || last.parse::<u64>().is_ok())
        .then(|| Some((value.checked_mul(*size as u64)?, format!("{text} * {name}"))))
        .flatten()
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
            (768, "ceil_div(m, 256) * 256"),
            (768 * 104, "ceil_div(m, 256) * 256 * n"),
            (4 * 536, "4 * m"),
            (537, "m + 1"),
            (134, "ceil_div(m, 4)"),
            (3, "ceil_div(m, 256)"),
            (1, "1"),
            (32, "32"),
            // Not the last ones of each row.
            (88 * 536 - 5, "k * m"),
            (500, "m"),
        ] {
            assert_eq!(expression(elements, &sizes), expected, "{elements}");
        }
        assert_eq!(expression(77, &[]), "77");
        assert_eq!(expression(1 << 40, &[("n", 1000)]), (1_u64 << 40).to_string());
    }

    #[test]
    fn no_two_products_of_sizes_are_alike() {
        let values: Vec<i64> = [FIRST].into_iter().chain(OTHERS.map(|part| EIGHTHS * part)).collect();
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
