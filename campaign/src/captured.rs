//! Folders of captured kernels: a folder for each, with its spec, its sources and its data.

use std::path::{Path, PathBuf};

use bluefin_triton::{LISTED, WIDENED};

use crate::usage;

/// The specs of the kernels in `folder`, by name; with `widen` those of their larger spaces, where they have one.
///
/// # Errors
/// If it can not be read, or has none.
pub fn specs(folder: &Path, widen: bool) -> anyhow::Result<Vec<PathBuf>> {
    let fail = |what: &str| usage(format!("--triton {}: {what}", folder.display()));
    let entries = std::fs::read_dir(folder).map_err(|error| fail(&error.to_string()))?;
    let mut specs = Vec::new();
    for entry in entries {
        let kernel = entry.map_err(|error| fail(&error.to_string()))?.path();
        let names = if widen { &[WIDENED, LISTED][..] } else { &[LISTED] };
        specs.extend(names.iter().map(|name| kernel.join(name)).find(|spec| spec.is_file()));
    }
    specs.sort();
    if specs.is_empty() {
        return Err(fail("found no kernels, expected NAME/spec.toml as bluefin capture --triton writes it"));
    }
    Ok(specs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_folder_with_a_spec_is_a_kernel() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["b/spec.toml", "a/spec.toml", "a/widened.toml", "c/notes.txt"] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let found = |widen| {
            let specs = specs(folder.path(), widen).unwrap().into_iter();
            specs
                .map(|spec| spec.strip_prefix(folder.path()).unwrap().to_str().unwrap().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(found(false), ["a/spec.toml", "b/spec.toml"]);
        assert_eq!(found(true), ["a/widened.toml", "b/spec.toml"]);
        let error = specs(&folder.path().join("c"), false).unwrap_err().to_string();
        assert!(error.contains("found no kernels, expected NAME/spec.toml"), "{error}");
        assert!(specs(&folder.path().join("d"), false).unwrap_err().to_string().contains("--triton "));
    }
}
