//! Sums and differences that leave a carry for the next instruction of their statement, of which numbers of many words are made.

use super::operands::{Operands, type_of};

/// What holds the carry in C++, and its declaration, which stands in front of a statement.
pub(super) const DECLARED: &str = "unsigned bluefin_carry = 0; ";

/// How an instruction's words say that it leaves a carry.
pub(super) const LEAVES: &str = "cc";

/// Whether an instruction of these words takes a carry, or leaves one, or computes the upper half of a product and a sum.
pub(super) fn is_one(words: &[&str]) -> bool {
    let Some(name) = words.first() else { return false };
    takes(name) || words.contains(&LEAVES) || *name == "mad" && words.contains(&"hi")
}

/// Whether the instruction of that name takes the carry of one before it.
pub(super) fn takes(name: &str) -> bool {
    matches!(name, "addc" | "subc" | "madc")
}

/// `addc.cc.u32 d, a, b`, `mad.hi.cc.u32 d, a, b, c`
pub(super) fn carried(words: &[&str], given: &[&str], all: &Operands) -> Option<String> {
    let has = |word: &str| words.contains(&word);
    let (name, type_) = (*words.first()?, type_of(words.last()?)?);
    let plain = if type_.ends_with("long long") { "unsigned long long" } else { "unsigned" };
    let read = |at: usize, type_: &str| all.read(given.get(at)?, type_);
    let (a, b, count) = match name.trim_end_matches('c') {
        "mad" => {
            let of_product = if has("hi") { type_ } else { plain };
            let (a, b) = (read(1, of_product)?, read(2, of_product)?);
            let product = match (has("hi"), has("lo")) {
                (true, false) => format!("({plain})bluefin_upper({a}, {b})"),
                (false, true) => format!("{a} * {b}"),
                _ => return None,
            };
            (product, read(3, plain)?, 4)
        }
        _ => (read(1, plain)?, read(2, plain)?, 3),
    };
    if given.len() != count {
        return None;
    }
    let function = if name.starts_with("sub") { "bluefin_difference" } else { "bluefin_sum" };
    let before = if takes(name) { "bluefin_carry" } else { "0" };
    let written = all.write(given.first()?, plain, &format!("{function}<{plain}>({a}, {b}, bluefin_c)"))?;
    let left = if has(LEAVES) { "bluefin_carry = bluefin_c; " } else { "" };
    Some(format!("{{ unsigned bluefin_c = {before}; {written}{left}}}"))
}
