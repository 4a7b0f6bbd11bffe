//! Files and folders that are named on a command line.

use std::path::{Path, PathBuf};

use crate::{Error, Family, Kind, Sheet};

/// What lies below aiter's folder of files: those of models.
const OF_MODELS: &str = "model_configs";

/// Reads files, and of folders all CSV files and those of their `model_configs`, in the order of their names.
///
/// # Errors
/// If one can not be read, or its family is not told.
pub fn read_all(paths: &[PathBuf], family: Option<&'static Family>) -> Result<Vec<Sheet>, Error> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let before = files.len();
            files.extend(csv_files(path)?);
            let models = path.join(OF_MODELS);
            if models.is_dir() {
                files.extend(csv_files(&models)?);
            }
            if files.len() == before {
                return Err(Error::NoFile { path: path.clone() });
            }
        } else {
            files.push(path.clone());
        }
    }
    files.iter().map(|path| Sheet::read(path, family)).collect()
}

/// The CSV files of a folder.
fn csv_files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = folder.read_dir().map_err(Error::at(folder))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(Error::at(folder))?.path();
        if path.extension().is_some_and(|extension| extension == "csv") && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Those that aiter puts together into one table: all tuned ones of a family.
pub fn sheets_of<'a>(sheets: &'a [Sheet], family: &'static Family) -> impl Iterator<Item = &'a Sheet> {
    sheets.iter().filter(move |sheet| sheet.family.name == family.name && sheet.kind == Kind::Tuned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_stands_for_its_files_and_those_of_models() {
        let folder = tempfile::tempdir().unwrap();
        let error = read_all(&[folder.path().to_path_buf()], None).unwrap_err().to_string();
        assert!(error.ends_with(": found no CSV file, expected some"), "{error}");
        let models = folder.path().join("model_configs");
        std::fs::create_dir(&models).unwrap();
        std::fs::write(folder.path().join("b_tuned_fmoe.csv"), "us\n").unwrap();
        std::fs::write(folder.path().join("notes.txt"), "us\n").unwrap();
        std::fs::write(models.join("a_untuned_fmoe.csv"), "token\n").unwrap();
        let sheets = read_all(&[folder.path().to_path_buf()], None).unwrap();
        let names: Vec<_> = sheets.iter().map(|sheet| sheet.path().file_name().unwrap()).collect();
        assert_eq!(names, ["b_tuned_fmoe.csv", "a_untuned_fmoe.csv"]);
        assert_eq!(sheets_of(&sheets, sheets[0].family).count(), 1);
    }
}
