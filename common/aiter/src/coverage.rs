//! Which shapes have rows that a look-up finds, on which GPU.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use bluefin_common::target::Target;
use serde::Serialize;

use crate::family::Column;
use crate::table::Row;
use crate::{Family, Key, Kind, Sheet, Table, Value, padded, sheets_of};

/// A shape that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// The operator.
    pub family: &'static Family,
    /// What is told of it; columns that are not match any row.
    pub key: Key,
    /// How often it is asked for.
    pub times: u64,
}

/// The shapes of an untuned file, each once.
#[must_use]
pub fn shapes_of(sheet: &Sheet) -> Vec<Shape> {
    let keys = sheet.views().map(|view| (view.told(), 1));
    gathered(keys.map(|(key, times)| Shape { family: sheet.family, key, times }))
}

/// The same shapes, each once, in the order in which they first come.
#[must_use]
pub fn gathered(shapes: impl IntoIterator<Item = Shape>) -> Vec<Shape> {
    let mut places: HashMap<(&str, Key), usize> = HashMap::new();
    let mut all: Vec<Shape> = Vec::new();
    for shape in shapes {
        let place = *places.entry((shape.family.name, shape.key.clone())).or_insert(all.len());
        match all.get_mut(place) {
            Some(known) => known.times += shape.times,
            None => all.push(shape),
        }
    }
    all
}

/// How a shape is looked up with success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// There is a row for it.
    Exact,
    /// There is a row for this many rows of A, which aiter falls back to.
    Padded(i64),
    /// There is none: aiter takes its default.
    Missing,
}

/// A shape on a GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Covered {
    /// Name of the family.
    pub family: &'static str,
    /// What was asked for.
    pub key: Key,
    /// How often.
    pub times: u64,
    /// The GPU, such as `gfx942-304`; `any` for files that name none.
    pub gpu: String,
    /// Whether there is a row for it.
    pub presence: Presence,
}

/// Holds shapes against tuned files, for each of `gpus`, or for each that the files of their family name.
#[must_use]
pub fn coverage(tuned: &[Sheet], shapes: &[Shape], gpus: &[Target]) -> Vec<Covered> {
    let mut indices: HashMap<(&str, Vec<&str>), BTreeSet<Key>> = HashMap::new();
    let mut named: HashMap<&str, Vec<Gpu>> = HashMap::new();
    let mut all = Vec::new();
    for shape in shapes {
        let family = shape.family;
        let columns: Vec<&str> = shape.key.0.iter().map(|(column, _)| *column).collect();
        let asked: Vec<&str> = columns.iter().filter(|column| !family.gpu.contains(column)).copied().collect();
        let index = indices.entry((family.name, asked.clone())).or_insert_with(|| index(tuned, family, &asked));
        let named = named.entry(family.name).or_insert_with(|| named_gpus(tuned, family, gpus));
        for gpu in named.iter().filter(|gpu| gpu.is_meant_by(&shape.key)) {
            let found =
                |key: &Key| index.contains(&Key(gpu.key.0.iter().chain(&key.without(family.gpu).0).cloned().collect()));
            all.push(Covered {
                family: family.name,
                key: shape.key.without(family.gpu),
                times: shape.times,
                gpu: gpu.name.clone(),
                presence: presence(shape, found),
            });
        }
    }
    all
}

fn presence(shape: &Shape, found: impl Fn(&Key) -> bool) -> Presence {
    if found(&shape.key) {
        return Presence::Exact;
    }
    let size = |names: [&'static str; 2]| {
        names.into_iter().find_map(|name| match shape.key.get(name) {
            Some(Value::Integer(size)) => Some((name, *size)),
            _ => None,
        })
    };
    let (Some((name, m)), Some((_, n)), true) = (size(["M", "m"]), size(["N", "n"]), shape.family.pads) else {
        return Presence::Missing;
    };
    let hit = padded(m, n).into_iter().find(|m| found(&shape.key.clone().with(name, Value::Integer(*m))));
    hit.map_or(Presence::Missing, Presence::Padded)
}

/// A GPU as rows name it.
struct Gpu {
    name: String,
    key: Key,
}

impl Gpu {
    fn of(key: Key) -> Self {
        let values: Vec<String> = key.0.iter().map(|(_, value)| value.to_string()).collect();
        Self { name: if values.is_empty() { "any".to_string() } else { values.join("-") }, key }
    }

    /// Whether a shape that may tell its GPU is for this one.
    fn is_meant_by(&self, shape: &Key) -> bool {
        self.key.0.iter().all(|(column, value)| shape.get(column).is_none_or(|told| told == value))
    }
}

/// Those that are asked for, otherwise those that files of the family name, in order.
fn named_gpus(tuned: &[Sheet], family: &'static Family, gpus: &[Target]) -> Vec<Gpu> {
    let of_target = |target: &Target| {
        let all = [("gfx", Value::of(target.arch())), ("cu_num", Value::Integer(i64::from(target.cus())))];
        Key(all.into_iter().filter(|(column, _)| family.gpu.contains(column)).collect())
    };
    let named: BTreeSet<Key> = match gpus {
        [] => sheets_of(tuned, family).flat_map(Sheet::views).map(|view| view.key().only(family.gpu)).collect(),
        gpus => gpus.iter().map(of_target).collect(),
    };
    named.into_iter().map(Gpu::of).collect()
}

/// The keys of usable rows, in the columns of the GPU and `asked`.
fn index(tuned: &[Sheet], family: &'static Family, asked: &[&str]) -> BTreeSet<Key> {
    let timed = |view: &crate::sheet::View<'_>| family.time().is_none() || view.us().is_some();
    // In the order in which shapes tell them.
    let ordered = |key: Key| {
        let columns = family.gpu.iter().chain(asked);
        Key(columns.filter_map(|column| key.0.iter().find(|(name, _)| name == column).cloned()).collect())
    };
    sheets_of(tuned, family).flat_map(Sheet::views).filter(timed).map(|view| ordered(view.key())).collect()
}

/// Of each family and GPU, how many shapes have a row, one with more rows of A, and none.
#[must_use]
pub fn summary(covered: &[Covered]) -> BTreeMap<(&'static str, String), [u64; 3]> {
    let mut counts: BTreeMap<(&'static str, String), [u64; 3]> = BTreeMap::new();
    for one in covered {
        let [exact, padded, missing] = counts.entry((one.family, one.gpu.clone())).or_default();
        *match one.presence {
            Presence::Exact => exact,
            Presence::Padded(_) => padded,
            Presence::Missing => missing,
        } += 1;
    }
    counts
}

/// Adds shapes to an untuned file, those that it has left out. Returns how many are new.
pub fn extend(table: &mut Table, family: &'static Family, shapes: &[&Shape]) -> u64 {
    let columns: Vec<String> = table.columns().to_vec();
    let told = |key: &Key| Key(key.0.iter().filter(|(name, _)| columns.iter().any(|c| c == name)).cloned().collect());
    let sheet = Sheet { table: table.clone(), family, kind: Kind::Untuned };
    let mut known: BTreeSet<Key> = sheet.views().map(|view| told(&view.told())).collect();
    let mut added = 0;
    for shape in shapes {
        let key = told(&shape.key.without(family.gpu));
        if known.insert(key.clone()) {
            let cell = |column: &String| key.get(column).map_or(String::new(), |value| spelled(column, value));
            let cells: Vec<String> = columns.iter().map(cell).collect();
            table.rows.push(Row::of(cells.iter().map(String::as_str)));
            added += 1;
        }
    }
    added
}

/// An untuned file of no shape.
#[must_use]
pub fn untuned(path: &Path, family: &'static Family) -> Table {
    Table::new(path, family.shape.iter().copied())
}

/// As aiter's own files spell it.
#[must_use]
pub fn spelled(column: &str, value: &Value) -> String {
    match (Column::of(column), value) {
        // Those of MoE are numbers.
        (Column::Flag, Value::Integer(flag)) if !matches!(column, "use_g1u1" | "doweight_stage1") => {
            (if *flag == 0 { "False" } else { "True" }).to_string()
        }
        (_, value) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet(name: &str, text: &str) -> Sheet {
        Sheet::of(Table::parse(Path::new(name), text.as_bytes().to_vec()).unwrap(), None).unwrap()
    }

    const TUNED: &str = "gfx,cu_num,M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,libtype,solidx,splitK,us,kernelName,err_ratio,tflops,bw
gfx942,304,32,512,512,False,torch.bfloat16,torch.bfloat16,False,False,asm,1,0,5.0,k,0.0,1,1
gfx942,304,4,512,512,False,torch.bfloat16,torch.bfloat16,False,False,asm,1,0,-1,k,0.0,1,1
gfx950,256,64,512,512,False,torch.bfloat16,torch.bfloat16,False,False,asm,1,0,5.0,k,0.0,1,1
";

    #[test]
    fn shapes_are_found_as_aiter_looks_them_up() {
        let tuned = [sheet("bf16_tuned_gemm.csv", TUNED)];
        // A file of a model that tells less, with sizes that are padded, and one that was never measured.
        let untuned = sheet(
            "llama_untuned_gemm_bf16.csv",
            "M,N,K,bias,dtype,outdtype,scaleAB\n32, 512,512,False,torch.bfloat16,torch.bfloat16,False\n\n\
            20,512,512,0,torch.bfloat16,torch.bfloat16,False\n4,512,512,False,torch.bfloat16,torch.bfloat16,False\n",
        );
        let shapes = shapes_of(&untuned);
        let covered = coverage(&tuned, &shapes, &[]);
        let of = |gpu: &str| covered.iter().filter(|one| one.gpu == gpu).map(|one| one.presence).collect::<Vec<_>>();
        assert_eq!(of("gfx942-304"), [Presence::Exact, Presence::Padded(32), Presence::Missing]);
        assert_eq!(of("gfx950-256"), [Presence::Missing; 3]);
        assert_eq!(summary(&covered)[&("gemm_a16w16", "gfx942-304".to_string())], [1, 1, 1]);
        let asked = coverage(&tuned, &shapes, &["gfx942-80".parse().unwrap()]);
        assert!(asked.iter().all(|one| one.presence == Presence::Missing && one.gpu == "gfx942-80"));
    }

    #[test]
    fn what_is_new_is_added_and_spelled_as_aiter_does() {
        let family = sheet("bf16_untuned_gemm.csv", "M,N,K").family;
        let shape = |m: &str| Shape {
            family,
            key: Key(vec![
                ("gfx", Value::of("gfx942")),
                ("M", Value::of(m)),
                ("N", Value::of("8")),
                ("K", Value::of("8")),
                ("bias", Value::of("False")),
            ]),
            times: 2,
        };
        let mut table = Table::parse(Path::new("x.csv"), b"M,N,K,bias\n1, 8,8,False".to_vec()).unwrap();
        assert_eq!(extend(&mut table, family, &[&shape("1"), &shape("2"), &shape("2")]), 1);
        assert_eq!(table.to_bytes(), b"M,N,K,bias\n1, 8,8,False\n2,8,8,False\n");
        assert_eq!(gathered([shape("1"), shape("2"), shape("1")]).iter().map(|s| s.times).collect::<Vec<_>>(), [4, 2]);
    }
}
