//! What a row of a file is held against.

use bluefin_common::arch::{self, Architecture, Fp8, Operand};

use super::{Findings, Rule};
use crate::coverage::is_dropped;
use crate::family::{Column, Reading, Rounding, ShapeWork};
use crate::lookup::LookUp;
use crate::sheet::{SheetKind, View};
use crate::{Value, exceeds};

/// How far computed numbers may be from written ones: `us` is rounded after they were computed from it, and some files keep
/// one decimal.
const SLACK: f64 = 0.005;
const ROUNDED: f64 = 0.051;

/// Holds a row against all rules that ask for nothing but itself.
pub(super) fn check(view: &View<'_>, look_up: &LookUp<'_>, findings: &mut Findings<'_>) {
    cells(view, findings);
    reachable(view, findings);
    if view.sheet.kind == SheetKind::Tuned {
        compared(view, look_up, findings);
    }
    compute_units(view, findings);
    if view.sheet.kind == SheetKind::Tuned {
        dead(view, findings);
        time(view, findings);
        error(view, findings);
        rates(view, findings);
    }
}

/// As many as columns, each of its column's type.
fn cells(view: &View<'_>, findings: &mut Findings<'_>) {
    let (sheet, line) = (view.sheet, view.row.line);
    let columns = sheet.table.columns();
    if view.cells.iter().skip(columns.len()).any(|cell| !cell.is_empty()) {
        findings.add(Rule::Cells, line, || format!("found {} cells, expected {}", view.cells.len(), columns.len()));
    }
    // Kernels that do not run have no name, and what the tuner of grouped MoE leaves out has its default.
    let may_be_empty = |column: &str| Column::of(column) == Column::Text && column != "libtype";
    let needed = |column: &str| {
        let found = |column: &str| sheet.family.results.contains(&column) && !may_be_empty(column);
        let asked = sheet.family.gpu.contains(&column) || found(column);
        sheet.family.shape.contains(&column) || (sheet.kind == SheetKind::Tuned && asked)
    };
    if let Some(rest) = columns.get(view.cells.len()..).filter(|rest| !rest.is_empty()) {
        match rest.iter().find(|column| needed(column)) {
            Some(column) => findings.add(Rule::Cells, line, || {
                format!("found {} cells, expected {}: there is no {column}", view.cells.len(), columns.len())
            }),
            None => findings.add(Rule::Short, line, || {
                format!("found {} cells, expected {}: {} are left out", view.cells.len(), columns.len(), rest.join(","))
            }),
        }
    }
    for (column, cell) in columns.iter().zip(&view.cells).filter(|(column, _)| !column.is_empty()) {
        if cell.is_empty() || *cell == "Null" {
            if needed(column) {
                findings.add(Rule::Value, line, || format!("{column}: found nothing, expected a value"));
            }
        } else if let Err(expected) = Column::of(column).read(cell) {
            let found: String = cell.chars().take(64).collect();
            findings.add(Rule::Value, line, || format!("{column}: found {found:?}, expected {expected}"));
        }
    }
}

/// Look-ups compare what is meant. Columns of several types, and tables that are not read, are told elsewhere, once.
fn compared(view: &View<'_>, look_up: &LookUp<'_>, findings: &mut Findings<'_>) {
    let family = view.sheet.family;
    // Where no row is of the GPU's number of compute units, grouped experts take another's.
    let is_asked = |column: &&str| {
        family.asks_for(column) && (*column != "cu_num" || family.rounding != Rounding::TokensOfAnyUnits)
    };
    for column in family.key().filter(is_asked) {
        let (Some(cell), Some(bare)) = (view.cell(column), view.bare_cell(column)) else { continue };
        let meant = if column == "gfx" { view.value(column) } else { Value::of(cell) };
        let found = look_up.value(view, column);
        let is_lost = look_up.is_lost && family.reading == Reading::Converted && Column::of(column) == Column::Size;
        if cell.is_empty() || found == meant || is_lost || look_up.mixed(column).is_some() {
            continue;
        }
        let written = look_up.written(view, column).unwrap_or_default();
        findings.add(Rule::Unreachable, view.row.line, || match (family.reading, &found) {
            (Reading::Typed, Value::Text(text)) if **text == *bare => {
                format!("{column}: found white space around {cell:?}, expected none: look-ups compare it")
            }
            (Reading::Typed, Value::Text(text)) if text.is_empty() => {
                format!("{column}: found {cell:?}, expected a value: pandas takes it for none")
            }
            _ if look_up.several && *written != *cell => {
                format!("{column}: found {cell:?}, expected {meant}: look-ups compare the text {written:?} that aiter writes \
                    when it puts the files together")
            }
            (Reading::Converted, Value::Integer(_)) => format!(
                "{column}: found {cell:?}, expected True or False: the look-up takes all but the text True for false"
            ),
            _ => format!("{column}: found {cell:?}, expected {meant}: look-ups compare the text"),
        });
    }
}

/// Operators infer the architecture where there is none, and ask for the types of their own GPU.
fn reachable(view: &View<'_>, findings: &mut Findings<'_>) {
    let (sheet, line) = (view.sheet, view.row.line);
    let gfx = view.key().get("gfx").map(ToString::to_string).unwrap_or_default();
    let needs_gfx = sheet.family.gpu.contains(&"gfx") && sheet.family.reading != Reading::Texts;
    if sheet.kind == SheetKind::Tuned && needs_gfx && gfx.is_empty() {
        let cus = view.cell("cu_num").unwrap_or_default();
        findings.add(Rule::Unreachable, line, || {
            format!("cu_num: found {cus:?} and no gfx, expected 256, 80 or 304, from which it is inferred")
        });
    }
    for column in sheet.family.key() {
        let Some(cell) = view.cell(column) else { continue };
        // A row says whether there are such instructions; of what has none it is not known.
        let multiplies = |known: &&Architecture| !known.has_row() || known.has(Operand::Fp8);
        let eight_bits = match arch::of(&gfx).filter(multiplies).map(|known| known.fp8) {
            Some(Fp8::Fnuz) if cell == "torch.float8_e4m3fn" => Some("torch.float8_e4m3fnuz"),
            Some(Fp8::Ocp) if cell == "torch.float8_e4m3fnuz" => Some("torch.float8_e4m3fn"),
            _ => None,
        };
        if let Some(expected) = eight_bits {
            findings.add(Rule::Unreachable, line, || {
                format!("{column}: found {cell} for {gfx}, whose type of 8 bits is {expected}")
            });
        }
    }
}

/// Look-ups of mixtures of experts round before they ask, and leave some rows out.
fn dead(view: &View<'_>, findings: &mut Findings<'_>) {
    if !view.sheet.family.rounding.is_of_tokens() {
        return;
    }
    let line = view.row.line;
    if let Value::Integer(tokens) = view.value("token") {
        let asked = findings.strictness.rules.tokens(tokens);
        if asked != tokens {
            findings.add(Rule::Dead, line, || {
                format!("token: found {tokens}, expected a number that look-ups round to: {asked}")
            });
        }
    }
    if is_dropped(view, &findings.strictness.rules) {
        findings.add(Rule::Dead, line, || {
            "_tag: found flydsl_fallback, expected none: look-ups leave such rows out".to_string()
        });
    }
}

fn compute_units(view: &View<'_>, findings: &mut Findings<'_>) {
    let Some(cus) = view.number("cu_num").map(|cus| cus as u32) else { return };
    let gfx = view.key().get("gfx").map(ToString::to_string).unwrap_or_default();
    let line = view.row.line;
    match &findings.strictness.gpu {
        Some(gpu) if gpu.arch() == gfx && gpu.cus() != cus => {
            let expected = gpu.cus();
            findings.add(Rule::Cus, line, || format!("cu_num: found {cus} for {gfx}, expected {expected}"));
        }
        Some(_) => {}
        None => {
            // Of whole GPUs, not of their partitions.
            let mut known: Vec<u32> =
                arch::of(&gfx).map_or(&[][..], |known| known.products).iter().map(|(_, units)| *units).collect();
            known.sort_unstable();
            known.dedup();
            // What aiter's look-ups count are compute units; its tuners count as HIP does, where two may be one.
            let counted = arch::of(&gfx).map_or(1, |known| known.cus_of_unit.max(1));
            if !known.is_empty() && !known.contains(&cus) && !known.iter().any(|units| units * counted == cus) {
                let expected = known.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
                findings.add(Rule::Cus, line, || format!("cu_num: found {cus} for {gfx}, expected {expected}"));
            }
        }
    }
}

fn time(view: &View<'_>, findings: &mut Findings<'_>) {
    let Some(column) = view.sheet.family.time() else { return };
    // One that is no number is a finding already.
    if let (Some(us), None) = (view.number(column), view.us()) {
        findings.add(Rule::Time, view.row.line, || format!("{column}: found {us}, expected more than 0 and finite"));
    }
}

fn error(view: &View<'_>, findings: &mut Findings<'_>) {
    let family = view.sheet.family;
    let limit = findings.strictness.error_limit.unwrap_or(family.error_limit);
    for column in family.errors {
        if !view.number(column).is_some_and(|error| exceeds(error, limit)) {
            continue;
        }
        findings.add(Rule::ErrorRatio, view.row.line, || {
            let found = view.cell(column).unwrap_or_default();
            format!("{column}: found {found}, expected at most {limit}")
        });
    }
}

/// `tflops` and `bw` of the time.
fn rates(view: &View<'_>, findings: &mut Findings<'_>) {
    let Some(us) = view.us() else { return };
    let (tflops, bandwidths) = expected(view, us);
    for (rule, column, expected, unit) in
        [(Rule::Tflops, "tflops", tflops.as_slice(), "TFLOPS"), (Rule::Bandwidth, "bw", bandwidths.as_slice(), "GB/s")]
    {
        let (Some(found), Some(first)) = (view.number(column), expected.first()) else { continue };
        if expected.iter().all(|expected| exceeds((found - expected).abs(), ROUNDED + SLACK * expected)) {
            findings.add(rule, view.row.line, || {
                format!("{column}: found {found}, expected {first:.2} {unit} for {us} us")
            });
        }
    }
}

/// What follows from a shape and its time, as far as that is known; each as it is counted now, and as it was.
fn expected(view: &View<'_>, us: f64) -> (Vec<f64>, Vec<f64>) {
    let size = |column: &str| view.number(column).or_else(|| view.number(&column.to_lowercase()));
    match view.sheet.family.work {
        ShapeWork::Gemm { bytes, before } => {
            let (Some(m), Some(n), Some(k)) = (size("M"), size("N"), size("K")) else { return Default::default() };
            let batch = size("B").unwrap_or(1.0);
            let moved = |bytes: [f64; 3]| m * k * bytes[0] + n * k * bytes[1] + m * n * bytes[2];
            let bandwidths = std::iter::once(bytes).chain(before).map(|bytes| batch * moved(bytes) / us / 1e3);
            (vec![2.0 * batch * m * n * k / us / 1e6], bandwidths.collect())
        }
        ShapeWork::Moe => {
            let sizes = ["token", "topk", "model_dim", "inter_dim"].map(size);
            let gates = size("use_g1u1").map(|gated| 2.0 + gated);
            let product = sizes.into_iter().chain([gates]).try_fold(2.0, |product, size| Some(product * size?));
            (product.map(|flops| flops / us / 1e6).into_iter().collect(), Vec::new())
        }
        ShapeWork::Unknown => Default::default(),
    }
}
