//! What aiter's look-ups find for a shape where its own row is not there: they round the rows of A, or tokens, and find those of others.

use std::collections::{BTreeMap, BTreeSet};

use bluefin_aiter::coverage::{Presence, Shape, coverage};
use bluefin_aiter::{Key, Row, Rules, Sheet, Table, Value, View};
use bluefin_common::target::Target;

/// Columns that look-ups round.
const ROUNDED: [&str; 3] = ["M", "m", "token"];
/// Columns in which what they fall back to is other.
const OTHER: [&str; 6] = ["M", "m", "token", "act_type", "gfx", "cu_num"];

/// Rows that aiter takes in the place of a shape's own.
#[derive(Debug, Default)]
pub(super) struct Fallback {
    /// Their lines.
    pub lines: BTreeSet<u64>,
    /// Their shapes, of those that are for the GPU.
    pub keys: BTreeSet<Key>,
    /// Their number of rows of A, or tokens, for people.
    pub size: String,
}

/// What takes the place of each shape of the GPU that has such rows in the sheet.
pub(super) fn fallbacks(sheet: &Sheet, target: &Target, rules: &Rules) -> BTreeMap<Key, Fallback> {
    let own: BTreeMap<u64, Key> = of_gpu(sheet, target).map(|(row, key)| (row.line, key)).collect();
    let mut alike: BTreeMap<Key, Vec<View<'_>>> = BTreeMap::new();
    for view in sheet.views() {
        alike
            .entry(view.told().without(&OTHER).without(sheet.family.unasked).without(sheet.family.aside))
            .or_default()
            .push(view);
    }
    let mut all: BTreeMap<Key, Fallback> = BTreeMap::new();
    for (view, views) in alike.values().flat_map(|views| views.iter().map(move |view| (view, views))) {
        let Some(key) = own.get(&view.row.line).filter(|key| !all.contains_key(*key)) else { continue };
        let is_other = |other: &&View<'_>| own.get(&other.row.line) != Some(key);
        let others: Vec<&View<'_>> = views.iter().filter(is_other).collect();
        if let Some(found) = fallback(view, &others, &own, target, rules) {
            all.insert(key.clone(), found);
        }
    }
    all
}

/// Which of `others` is found for the shape of a row.
fn fallback(
    view: &View<'_>,
    others: &[&View<'_>],
    own: &BTreeMap<u64, Key>,
    target: &Target,
    rules: &Rules,
) -> Option<Fallback> {
    let (sheet, first) = (view.sheet, others.first()?);
    let mut table = Table::new(first.sheet.path(), sheet.table.columns().iter().map(String::as_str));
    table.rows.extend(others.iter().map(|other| other.row.clone()));
    let without = [Sheet { table, family: sheet.family, kind: sheet.kind }];
    let shape = [Shape { family: sheet.family, key: view.told(), times: 1 }];
    let presence = coverage(&without, &shape, std::slice::from_ref(target), rules).first()?.presence;
    let size = match presence {
        Presence::Missing => return None,
        Presence::Exact => rounded(view),
        Presence::Padded(size) | Presence::OtherActivation(size) | Presence::OtherUnits(size) => {
            Some(Value::Integer(size))
        }
    };
    let is_here = |other: &View<'_>| own.contains_key(&other.row.line);
    let is_any = matches!(presence, Presence::OtherUnits(_));
    let taken: Vec<_> = others.iter().filter(|other| rounded(other) == size && (is_any || is_here(other))).collect();
    Some(Fallback {
        lines: taken.iter().map(|other| other.row.line).collect(),
        keys: taken.iter().filter_map(|other| own.get(&other.row.line).cloned()).collect(),
        size: size.map_or_else(String::new, |size| size.to_string()),
    })
}

/// What look-ups round of a row.
fn rounded(view: &View<'_>) -> Option<Value> {
    ROUNDED.iter().find_map(|column| view.cell(column)).map(Value::of)
}

/// The rows of a sheet that are for a GPU, with the keys of their shapes.
pub(super) fn of_gpu<'a>(sheet: &'a Sheet, target: &'a Target) -> impl Iterator<Item = (&'a Row, Key)> {
    let family = sheet.family;
    let is_here = |view: &View<'_>| {
        family.gpu.iter().all(|column| match *column {
            "gfx" => view.value(column) == Value::of(target.arch()),
            "cu_num" => view.value(column) == Value::of(&target.cus().to_string()),
            _ => true,
        })
    };
    sheet.views().filter(move |view| is_here(view)).map(move |view| (view.row, shape_key(&view)))
}

/// What tells a row's shape from others, as a tuner prints it.
fn shape_key(view: &View<'_>) -> Key {
    let family = view.sheet.family;
    let told: Vec<&str> = family.untuned_columns().collect();
    let is_told = |column: &&'static str| told.contains(column) && !family.gpu.contains(column);
    let value = |column: &'static str| Some((column, Value::of(view.cell(column).filter(|cell| !cell.is_empty())?)));
    Key(family.key().filter(is_told).filter_map(value).collect())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_row_that_a_size_is_rounded_to_takes_its_place() {
        let row = |m: u32, k: u32, gpu: &str| format!("{gpu},{m},64,{k},torch.int8,1,0,1.0,kernel,0,0,0.0\n");
        let (here, there) = ("gfx942,304", "gfx950,256");
        let rows =
            [row(12, 128, here), row(16, 128, here), row(12, 256, here), row(16, 256, there), row(40, 128, here)];
        let header = "gfx,cu_num,M,N,K,q_dtype_w,kernelId,splitK,us,kernelName,tflops,bw,errRatio\n";
        let text = format!("{header}{}", rows.concat());
        let table = Table::parse(Path::new("a8w8_tuned_gemm.csv"), text.into_bytes()).unwrap();
        let sheet = Sheet::of(table, None).unwrap();
        let found = fallbacks(&sheet, &"gfx942-304".parse().unwrap(), &Rules::default());
        let told: Vec<_> =
            found.iter().map(|(key, of)| (key.get("M").cloned(), &of.lines, of.keys.len(), &*of.size)).collect();
        assert_eq!(told, [(Some(Value::Integer(12)), &BTreeSet::from([3]), 1, "16")]);
    }
}
