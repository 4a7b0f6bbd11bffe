//! A grid is a function of a program's. Here it is cases: what it said for values of the params that it depends on. An
//! expression says the same, of all cases.

use std::collections::{BTreeMap, BTreeSet};

use crate::captured::Typed;
use crate::text::point;

/// Longest expression that a kernel spec takes.
const LONGEST: usize = 1_000;
/// Cases of which each is named, at most.
const MOST: usize = 24;

/// What one dimension was for each case.
pub(crate) type Cases = Vec<(BTreeMap<String, Typed>, u64)>;

/// An expression that says of every case what the grid was; nothing if there is none that is short enough. `sizes` are numbers that the
/// program was called with, which it may have divided into blocks.
pub(crate) fn expression(cases: &Cases, sizes: &BTreeSet<u64>) -> Option<String> {
    let first = cases.first()?.1;
    if cases.iter().all(|(_, size)| *size == first) {
        return Some(first.to_string());
    }
    let read: BTreeSet<String> = cases.iter().flat_map(|(values, _)| values.keys().cloned()).collect();
    let alone = read.iter().map(|name| vec![name.clone()]);
    let pairs =
        read.iter().flat_map(|one| read.range(one.clone()..).skip(1).map(move |two| vec![one.clone(), two.clone()]));
    alone.chain(pairs).find_map(|names| blocks(cases, &names, sizes)).or_else(|| listed(cases, &needed(cases, read)))
}

/// The params without which cases of the same values would have other sizes.
fn needed(cases: &Cases, read: BTreeSet<String>) -> Vec<String> {
    let mut needed: Vec<String> = read.into_iter().collect();
    let mut at = 0;
    while at < needed.len() {
        let mut fewer = needed.clone();
        fewer.remove(at);
        let mut seen = BTreeMap::new();
        let tells = cases.iter().all(|(values, size)| {
            let key: Vec<String> = fewer.iter().map(|name| format!("{:?}", values.get(name))).collect();
            *seen.entry(key).or_insert(*size) == *size
        });
        if tells { needed = fewer } else { at += 1 }
    }
    needed
}

/// `factor * ceil_div(size, BLOCK) * ...` over these params, one or two.
fn blocks(cases: &Cases, names: &[String], sizes: &BTreeSet<u64>) -> Option<String> {
    let value = |values: &BTreeMap<String, Typed>, name: &String| match values.get(name) {
        Some(Typed::Int(value)) if *value > 0 => u64::try_from(*value).ok(),
        _ => None,
    };
    let rows: Option<Vec<(Vec<u64>, u64)>> = cases
        .iter()
        .map(|(values, size)| Some((names.iter().map(|name| value(values, name)).collect::<Option<_>>()?, *size)))
        .collect();
    let rows = rows?;
    let fits = |chosen: &[u64]| -> Option<u64> {
        let count = |blocks: &[u64]| {
            chosen
                .iter()
                .zip(blocks)
                .try_fold(1_u64, |product, (size, block)| product.checked_mul(size.div_ceil(*block)))
        };
        let (blocks, size) = rows.first()?;
        let factor = size.checked_div(count(blocks)?)?;
        rows.iter()
            .all(|(blocks, size)| count(blocks).and_then(|n| n.checked_mul(factor)) == Some(*size))
            .then_some(factor)
    };
    let found = match names {
        [_] => sizes.iter().find_map(|size| Some((vec![*size], fits(&[*size])?))),
        _ => sizes
            .iter()
            .flat_map(|one| sizes.iter().map(move |two| [*one, *two]))
            .find_map(|pair| Some((pair.to_vec(), fits(&pair)?))),
    };
    let (chosen, factor) = found?;
    let parts = chosen.iter().zip(names).map(|(size, name)| format!("ceil_div({size}, {name})"));
    let parts: Vec<String> = (factor != 1).then(|| factor.to_string()).into_iter().chain(parts).collect();
    Some(parts.join(" * "))
}

/// Every case by name.
fn listed(cases: &Cases, names: &[String]) -> Option<String> {
    let mut distinct: Vec<(Vec<String>, u64)> = Vec::new();
    for (values, size) in cases {
        let tests = names.iter().map(|name| Some(format!("{name} == {}", point(values.get(name)?)?)));
        let tests = tests.collect::<Option<Vec<_>>>()?;
        match distinct.iter().find(|(known, _)| *known == tests) {
            Some((_, known)) if known != size => return None,
            Some(_) => {}
            None => distinct.push((tests, *size)),
        }
    }
    let (last, others) = distinct.split_last()?;
    if others.len() > MOST {
        return None;
    }
    let tail = last.1.to_string();
    let text = others
        .iter()
        .rev()
        .fold(tail, |rest, (tests, size)| format!("if {} {{ {size} }} else {{ {rest} }}", tests.join(" && ")));
    (text.len() <= LONGEST).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases(rows: &[(&[(&str, i64)], u64)]) -> Cases {
        let values = |values: &[(&str, i64)]| {
            values.iter().map(|(name, value)| ((*name).to_string(), Typed::Int(*value))).collect()
        };
        rows.iter().map(|(given, size)| (values(given), *size)).collect()
    }

    fn sizes(sizes: &[u64]) -> BTreeSet<u64> {
        sizes.iter().copied().collect()
    }

    #[test]
    fn blocks_of_two_sizes() {
        let rows: Vec<([(&str, i64); 2], u64)> = [(64, 32), (128, 32), (64, 64), (128, 128)]
            .map(|(m, n)| ([("BM", m), ("BN", n)], 1000_u64.div_ceil(m as u64) * 513_u64.div_ceil(n as u64)))
            .into();
        let rows: Vec<(&[(&str, i64)], u64)> = rows.iter().map(|(values, size)| (values.as_slice(), *size)).collect();
        let found = expression(&cases(&rows), &sizes(&[1000, 513, 7])).unwrap();
        assert_eq!(found, "ceil_div(1000, BM) * ceil_div(513, BN)");
    }

    #[test]
    fn a_factor_is_what_no_param_changes() {
        let found = expression(&cases(&[(&[("B", 16)], 24), (&[("B", 64)], 6)]), &sizes(&[128]));
        assert_eq!(found.unwrap(), "3 * ceil_div(128, B)");
    }

    #[test]
    fn what_follows_no_rule_is_listed() {
        let found = expression(&cases(&[(&[("B", 16)], 5), (&[("B", 32)], 7), (&[("B", 64)], 1)]), &sizes(&[128]));
        assert_eq!(found.unwrap(), "if B == 16 { 5 } else { if B == 32 { 7 } else { 1 } }");
        assert_eq!(expression(&cases(&[(&[("B", 16)], 9), (&[("B", 32)], 9)]), &sizes(&[])).unwrap(), "9");
    }
}
