//! Files and folders that are named on a command line.

use std::path::{Path, PathBuf};

use crate::{Error, Family, Sheet, SheetKind};

/// What lies below aiter's folder of files: those of models.
const OF_MODELS: &str = "model_configs";

/// Files that were named together.
#[derive(Debug, Default)]
pub struct Files {
    /// Those that were read.
    pub sheets: Vec<Sheet>,
    /// Why the others can not be: they are torn.
    pub torn: Vec<Error>,
}

/// Reads files, and of folders all CSV files and those of their `model_configs`, in the order of their names. What is of no family, and
/// what is empty, is told to `passed_over`, and the rest goes on: aiter's folders hold files of operators that are not known here.
///
/// # Errors
/// If the system does not let one be read, or there is none of a family.
pub fn read_all(
    paths: &[PathBuf],
    family: Option<&'static Family>,
    mut passed_over: impl FnMut(&Error),
) -> Result<Files, Error> {
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
    let (mut found, mut first) = (Files::default(), None);
    for path in &files {
        match Sheet::read(path, family) {
            Ok(sheet) => found.sheets.push(sheet),
            Err(error) if error.is_torn() => found.torn.push(error),
            Err(error) if error.is_no_sheet() => {
                passed_over(&error);
                first = first.or(Some(error));
            }
            Err(error) => return Err(error),
        }
    }
    first.filter(|_| found.sheets.is_empty() && found.torn.is_empty()).map_or(Ok(found), Err)
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
    sheets.iter().filter(move |sheet| sheet.family.name == family.name && sheet.kind == SheetKind::Tuned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_stands_for_its_files_and_those_of_models() {
        let folder = tempfile::tempdir().unwrap();
        let error = read_all(&[folder.path().to_path_buf()], None, |_| {}).unwrap_err().to_string();
        assert!(error.ends_with(": found no CSV file, expected some"), "{error}");
        let models = folder.path().join("model_configs");
        std::fs::create_dir(&models).unwrap();
        std::fs::write(folder.path().join("b_tuned_fmoe.csv"), "us\n").unwrap();
        std::fs::write(folder.path().join("notes.txt"), "us\n").unwrap();
        std::fs::write(models.join("a_untuned_fmoe.csv"), "token\n").unwrap();
        std::fs::write(models.join("of_another_operator.csv"), "M,N,colour\n1,2,3\n").unwrap();
        std::fs::write(models.join("empty.csv"), "").unwrap();
        let mut told = Vec::new();
        std::fs::write(models.join("torn_tuned_fmoe.csv"), "token,us\n1,\"2\n").unwrap();
        let Files { sheets, torn } =
            read_all(&[folder.path().to_path_buf()], None, |error| told.push(error.to_string())).unwrap();
        let torn: Vec<_> = torn.iter().map(|error| (error.path().file_name().unwrap(), error.to_string())).collect();
        assert!(torn.len() == 1 && torn[0].0 == "torn_tuned_fmoe.csv", "{torn:?}");
        assert!(torn[0].1.ends_with(":2: found a quote that is not closed, expected one record a line"), "{torn:?}");
        assert!(told[0].ends_with("empty.csv: found an empty file, expected the names of columns"), "{told:?}");
        assert!(told[1].contains("of_another_operator.csv: family: found columns M,N,colour"), "{told:?}");
        let names: Vec<_> = sheets.iter().map(|sheet| sheet.path().file_name().unwrap()).collect();
        assert_eq!(names, ["b_tuned_fmoe.csv", "a_untuned_fmoe.csv"]);
        assert_eq!(sheets_of(&sheets, sheets[0].family).count(), 1);
    }
}
