//! Which shapes are to be tuned.

use std::path::PathBuf;

use bluefin_aiter::coverage::{Shape, gathered, measured, shapes_of, spelled};
use bluefin_aiter::{Error, Family, Key, Kind, Sheet, Value, read_all};
use bluefin_common::problem::{AiterProblem, Problem};
use bluefin_common::target::Target;

/// What is to be tuned.
pub struct AskedShapes {
    /// A shape each.
    pub problems: Vec<Problem>,
    /// Shapes that have rows, and are left out.
    pub tuned: usize,
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
        found.extend(sheets.iter().filter(|sheet| sheet.kind == Kind::Untuned).filter(base).flat_map(shapes_of));
    } else {
        // A file of sizes alone is of the one family that is asked for.
        let only = (families.len() == 1).then(|| families.first().copied()).flatten();
        for sheet in read_all(untuned, None, &mut passed_over)? {
            let family = if sheet.is_of_any_gemm() { only.unwrap_or(sheet.family) } else { sheet.family };
            if sheet.is_of_any_gemm() && only.is_none() {
                passed_over(&Error::AnyGemm { path: sheet.path().to_path_buf() });
            }
            found.extend(shapes_of(&Sheet { family, ..sheet }));
        }
    }
    found.retain(|shape| families.iter().any(|family| family.name == shape.family.name));
    for shape in &mut found {
        shape.key = complete(shape);
    }
    let mut shapes = gathered(found);
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
    Ok(AskedShapes { problems, tuned: before - shapes.len() })
}

/// All columns of the family's shape: what a file does not tell is what it stands for.
fn complete(shape: &Shape) -> Key {
    let family = shape.family;
    let value = |column: &'static str| {
        let told = shape.key.get(column).cloned();
        told.or_else(|| Some(family.default(column)).filter(|default| !default.is_empty()).map(Value::of))
    };
    Key(family.shape.iter().filter_map(|column| Some((*column, value(column)?))).collect())
}
