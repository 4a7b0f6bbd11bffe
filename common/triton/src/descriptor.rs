//! Tensor descriptors among the arguments of a captured launch, whose blocks follow from the config.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::captured::{Argument, ArgumentKind, Typed};
use crate::grid;
use crate::text::quoted;

/// What a block may be of a param: as it is, halves and quarters of it, or twice as much.
const SHARES: [(u64, u64, &str); 4] = [(1, 1, ""), (1, 2, " / 2"), (1, 4, " / 4"), (2, 1, " * 2")];

/// The params of each case, and the blocks of descriptors there by the argument's name.
pub(crate) type Blocks = Vec<(BTreeMap<String, Typed>, BTreeMap<String, Vec<u64>>)>;

/// A descriptor as a launch has it; nothing for what is none.
///
/// # Errors
/// Its block follows no rule that a spec can say.
pub(crate) fn descriptor(argument: &Argument, blocks: &Blocks) -> Result<Option<String>, String> {
    let ArgumentKind::Descriptor { buffer, offset, shape, strides, nan, tf32 } = &argument.kind else {
        return Ok(None);
    };
    let name = &argument.name;
    let of = |dimension| {
        let said = block(name, dimension, blocks);
        said.map(|said| quoted(&said)).ok_or_else(|| format!("{name}: its block follows no rule that a spec can say"))
    };
    let block = (0..shape.len()).map(of).collect::<Result<Vec<_>, _>>()?.join(", ");
    let mut text = format!("{{ descriptor = {}", quoted(buffer));
    if *offset > 0 {
        let _ = write!(text, ", offset = {offset}");
    }
    let _ = write!(text, ", shape = {shape:?}, strides = {strides:?}, block_shape = [{block}]");
    if *nan {
        text.push_str(", padding = \"nan\"");
    }
    if *tf32 {
        text.push_str(", round_f32_to_tf32 = true");
    }
    text.push_str(" }");
    Ok(Some(text))
}

/// A dimension of the block of a descriptor, as an expression that says it of every case.
fn block(name: &str, dimension: usize, blocks: &Blocks) -> Option<String> {
    let size = |(values, blocks): &(BTreeMap<String, Typed>, BTreeMap<String, Vec<u64>>)| {
        Some((values.clone(), blocks.get(name)?.get(dimension).copied()?))
    };
    let cases: grid::Cases = blocks.iter().map(size).collect::<Option<_>>()?;
    let first = cases.first()?.1;
    if cases.iter().all(|(_, size)| *size == first) {
        return Some(first.to_string());
    }
    let params: BTreeSet<&String> = cases.iter().flat_map(|(values, _)| values.keys()).collect();
    let is_it = |param: &str, times: u64, by: u64| {
        cases.iter().all(|(values, size)| match values.get(param) {
            Some(Typed::Int(value)) => {
                u64::try_from(*value).is_ok_and(|value| value.saturating_mul(times) / by == *size)
            }
            _ => false,
        })
    };
    let ruled = params.iter().find_map(|param| {
        let share = SHARES.iter().find(|(times, by, _)| is_it(param, *times, *by));
        share.map(|(_, _, text)| format!("{param}{text}"))
    });
    ruled.or_else(|| grid::expression(&cases, &BTreeSet::new()))
}
