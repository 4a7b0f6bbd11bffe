//! Which shapes are to be tuned.

use std::path::PathBuf;

use bluefin_aiter::coverage::{Shape, gathered, lacking, measured, shapes_of, spelled};
use bluefin_aiter::{Error, Family, Key, Sheet, SheetKind, Value, read_all, sheets_of};
use bluefin_common::failure::FailureKind;
use bluefin_common::problem::{AiterProblem, Problem};
use bluefin_common::target::Target;

use super::report::Failed;

/// What is to be tuned.
pub struct AskedShapes {
    /// A shape each.
    pub problems: Vec<Problem>,
    /// Shapes that have rows, and are left out.
    pub tuned: usize,
    /// Shapes of which too little is told.
    pub untold: Vec<Failed>,
}

/// The shapes of `untuned` files, or of those among `sheets`, that are of `families` and, unless `all`, have no row of `target`. Files of no known
/// family are told to `passed_over`.
pub fn asked(
    families: &[&'static Family],
    sheets: &[Sheet],
    untuned: &[PathBuf],
    target: &Target,
    all: bool,
    mut passed_over: impl FnMut(&Error),
) -> anyhow::Result<AskedShapes> {
    let mut found: Vec<Shape> = Vec::new();
    if untuned.is_empty() {
        let base = |sheet: &&Sheet| {
            let name = sheet.path().file_name().map(|name| name.to_string_lossy().into_owned());
            name == Some(sheet.family.untuned_file())
        };
        found.extend(sheets.iter().filter(|sheet| sheet.kind == SheetKind::Untuned).filter(base).flat_map(shapes_of));
    } else {
        // A file of sizes alone is of the one family that is asked for.
        let only = (families.len() == 1).then(|| families.first().copied()).flatten();
        let read = read_all(untuned, None, &mut passed_over)?;
        if let Some(torn) = read.torn.into_iter().next() {
            return Err(torn.into());
        }
        for sheet in read.sheets {
            let family = if sheet.is_of_any_gemm() { only.unwrap_or(sheet.family) } else { sheet.family };
            if sheet.is_of_any_gemm() && only.is_none() {
                passed_over(&Error::AnyGemm { path: sheet.path().to_path_buf() });
            }
            let sheet = Sheet { family, ..sheet };
            // Of what is asked for; aiter's tuner would miss it amid a campaign.
            if families.iter().any(|asked| asked.name == family.name)
                && let Some(lacks) = lacking(&sheet)
            {
                return Err(lacks.into());
            }
            found.extend(shapes_of(&sheet));
        }
    }
    found.retain(|shape| families.iter().any(|family| family.name == shape.family.name));
    for shape in &mut found {
        shape.key = complete(shape);
    }
    let mut untold = Vec::new();
    let mut shapes = gathered(found.into_iter().flat_map(|shape| expanded(shape, sheets, &mut untold)));
    let before = shapes.len();
    if !all {
        let mut tuned = measured(sheets, &shapes, target).into_iter();
        shapes.retain(|_| !tuned.next().unwrap_or(false));
    }
    let problem = |shape: &Shape| {
        let cells = shape.key.0.iter().map(|(column, value)| (column.to_string(), spelled(column, value)));
        AiterProblem::new(shape.family.name.to_string(), cells.collect()).map(Problem::Aiter)
    };
    let problems = shapes.iter().map(problem).collect::<Result<Vec<_>, _>>()?;
    Ok(AskedShapes { problems, tuned: before - shapes.len(), untold })
}

/// The family whose untuned files tell of many shapes what they have in common. aiter's tuner tunes those that aiter's tests have, and
/// writes a row for each.
const IN_COMMON: &str = "gdn_k5";

/// The shapes that `shape` stands for: of [`IN_COMMON`] those that rows of any GPU have, which are those that the tuner writes rows for.
fn expanded(shape: Shape, sheets: &[Sheet], untold: &mut Vec<Failed>) -> Vec<Shape> {
    let family = shape.family;
    let is_whole = family.shape.iter().all(|column| shape.key.get(column).is_some());
    if family.name != IN_COMMON || is_whole {
        return vec![shape];
    }
    let rows = sheets_of(sheets, family).flat_map(Sheet::views).map(|view| {
        let value = |column: &&'static str| Some((*column, Value::of(view.cell(column)?)));
        Key(family.shape.iter().filter_map(value).collect())
    });
    let is_of = |key: &Key| shape.key.0.iter().all(|(column, value)| key.get(column) == Some(value));
    let shapes: Vec<Shape> = rows.filter(is_of).map(|key| Shape { key, ..shape.clone() }).collect();
    if shapes.is_empty() {
        untold.push(Failed {
            shape: format!("aiter {} {}", family.name, shape.key),
            kind: FailureKind::NotApplicable,
            reason: "no row of any GPU says which sequences there are of it: name an untuned file with all columns"
                .to_string(),
        });
    }
    shapes
}

/// All columns of the family's shape, and those of some files that are told: what a file does not tell is what it stands for.
fn complete(shape: &Shape) -> Key {
    let family = shape.family;
    let value = |column: &'static str| {
        let told = shape.key.get(column).cloned();
        told.or_else(|| Some(family.default(column)).filter(|default| !default.is_empty()).map(Value::of))
    };
    let told = family.sometimes.iter().filter(|column| shape.key.get(column).is_some());
    Key(family.shape.iter().chain(told).filter_map(|column| Some((*column, value(column)?))).collect())
}
