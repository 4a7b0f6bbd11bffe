//! Rows of whole families in the files of a folder.

use std::collections::HashMap;
use std::path::Path;

use super::{Merged, Terms, merge};
use crate::table::Row;
use crate::{Error, Key, Sheet, Table, sheets_of};

/// Merges rows into the files of a folder: each into the file that has its key, so that no key is there twice, and what is new into
/// the file of its family. Returns the files that are other than they were, what became of each row, and why a file of `newer` was
/// not merged: the others are.
#[must_use]
pub fn into_folder(
    folder: &Path,
    sheets: &[Sheet],
    newer: &[Sheet],
    terms: Terms,
) -> (Vec<Sheet>, Vec<Merged>, Vec<Error>) {
    let (mut changed, mut told, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    for new in newer {
        match one_family(folder, sheets, new, terms) {
            Ok((files, rows)) => {
                changed.extend(files);
                told.extend(rows);
            }
            Err(error) => failed.push(error),
        }
    }
    (changed, told, failed)
}

fn one_family(folder: &Path, sheets: &[Sheet], new: &Sheet, terms: Terms) -> Result<(Vec<Sheet>, Vec<Merged>), Error> {
    let own = folder.join(new.family.tuned_file());
    let mut files: Vec<Sheet> = sheets_of(sheets, new.family).cloned().collect();
    if !files.iter().any(|sheet| sheet.path() == own) {
        // All that the tuner writes.
        let table = Table::new(&own, new.table.columns().iter().map(String::as_str));
        files.push(Sheet { table, ..new.clone() });
    }
    let mut places: HashMap<Key, usize> = HashMap::new();
    for (place, sheet) in files.iter().enumerate() {
        sheet.views().for_each(|view| {
            places.entry(view.key()).or_insert(place);
        });
    }
    let base = files.iter().position(|sheet| sheet.path() == own).unwrap_or_default();
    let (mut changed, mut told) = (Vec::new(), Vec::new());
    for (place, file) in files.into_iter().enumerate() {
        let mut part = new.clone();
        let belongs = |row: &Row| places.get(&new.view(row).key()).copied().unwrap_or(base) == place;
        part.table.rows.retain(|row| !row.is_blank() && belongs(row));
        if part.table.rows.is_empty() {
            continue;
        }
        let before = file.table.to_bytes();
        let (merged, rows) = merge(file, &[part], terms)?;
        told.extend(rows);
        if merged.table.to_bytes() != before {
            changed.push(merged);
        }
    }
    Ok((changed, told))
}
