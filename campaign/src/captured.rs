//! Kernels that are captured from a program that uses Triton: a folder for each, with its spec, its sources and its data.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use anyhow::Context as _;
use bluefin_compile_worker::toolchain::triton;
use bluefin_producer::capture::run_with;
use bluefin_triton::{Captured, Contents, Hook, LISTED, Left, Mode, Process, WIDENED};
use serde_json::{Value as Json, json};

use crate::kernels::own_spec;
use crate::usage;

/// How often kernels were launched, and for how long.
const CALLS: &str = "calls.json";

/// What a program left.
pub struct Capture {
    /// How it ended.
    pub status: ExitStatus,
    /// One for each tuning key, each in a folder of its own.
    pub kernels: Vec<Captured>,
    /// What its process counted.
    pub process: Process,
    /// Functions that were not captured, and why.
    pub left: Vec<Left>,
}

/// Runs `command`, and leaves a folder for each key that it tuned in `folder`: with the elements of tensors that `contents` names, and,
/// with `jit`, of functions without an autotuner as well.
///
/// # Errors
/// If the program can not be started, or the folder not be written.
pub async fn capture(
    folder: &Path,
    (contents, jit): (Contents, bool),
    (program, arguments): (&OsString, &[OsString]),
) -> anyhow::Result<Capture> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let hook = Hook::new()?;
    let environment = hook.environment(Mode::Capture { folder, contents, jit })?;
    let status = run_with(program, arguments, environment).await?;
    let process = Process::take(folder)?;
    let mut left = process.left.clone();
    let mut kernels = Vec::new();
    for name in process.kernels.keys() {
        let captured = Captured::read(&folder.join(name))?;
        match captured.write_specs()? {
            Ok(()) => kernels.push(captured),
            Err(reason) => {
                let at = format!("{}:{}", captured.file, captured.line);
                left.push(Left { function: captured.function, at, reason });
            }
        }
    }
    add_calls(&folder.join(CALLS), &process)?;
    Ok(Capture { status, kernels, process, left })
}

/// Adds to what earlier captures counted.
fn add_calls(path: &Path, process: &Process) -> anyhow::Result<()> {
    let before = std::fs::read_to_string(path).ok();
    let before = before.and_then(|text| serde_json::from_str::<BTreeMap<String, Json>>(&text).ok());
    let mut all = before.unwrap_or_default();
    for (name, counts) in &process.kernels {
        let calls = all.get(name).and_then(|one| one["calls"].as_u64()).unwrap_or_default() + counts.calls;
        all.insert(name.clone(), json!({ "calls": calls, "ms": counts.ms }));
    }
    if !all.is_empty() {
        std::fs::write(path, serde_json::to_string_pretty(&all)? + "\n").with_context(|| path.display().to_string())?;
    }
    Ok(())
}

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

/// Those of `specs` that can be loaded, and of each of the others why it can not be: it keeps nobody from the rest.
///
/// # Errors
/// None can be loaded.
pub fn sound(specs: Vec<PathBuf>) -> anyhow::Result<(Vec<PathBuf>, Vec<String>)> {
    let (mut sound, mut broken) = (Vec::new(), Vec::new());
    for spec in specs {
        match own_spec(&spec) {
            Ok(_) => sound.push(spec),
            Err(error) => broken.push(error),
        }
    }
    match broken.pop() {
        Some(error) if sound.is_empty() => Err(error),
        last => Ok((sound, broken.into_iter().chain(last).map(|error| format!("{error:#}")).collect())),
    }
}

/// What there is to say of captures in `folder` that another Triton made than the one which compiles here.
#[must_use]
pub fn of_another_triton(folder: &Path) -> Option<String> {
    let captures = Captured::read_all(folder).ok()?;
    let here = triton::installed()?;
    let other = captures.iter().map(|one| &one.triton).find(|of| **of != here)?;
    let folder = folder.display();
    Some(format!(
        "{folder}: captured from Triton {other}, compiled by {here}: what is found may not be so there, and its cache has other names"
    ))
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
