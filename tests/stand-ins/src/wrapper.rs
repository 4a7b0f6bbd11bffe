//! How tests come by a stand-in that behaves as they want: a script that sets its variables and starts it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The path of a stand-in, `fin` or `MIOpenDriver`: beside the running test, and built where nobody has yet.
///
/// # Panics
/// If it can not be built.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of the running test");
    let folder = test.ancestors().find(|folder| folder.ends_with("debug") || folder.ends_with("release"));
    let folder = folder.expect("a test in Cargo's target folder").to_path_buf();
    let program = folder.join(name);
    if !program.is_file() {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--quiet", "--package", "bluefin-stand-ins", "--bins"]);
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo runs");
        assert!(status.success() && program.is_file(), "{} was not built", program.display());
    }
    program
}

/// An executable in `folder` that is `program` with `variables` in its environment. `bin/fin` in it makes `folder` an
/// installation.
///
/// # Panics
/// If it can not be written.
#[must_use]
pub fn wrap(folder: &Path, program: &Path, variables: &[(&str, &str)]) -> PathBuf {
    let name = program.file_name().expect("a program");
    let path = folder.join("bin").join(name);
    std::fs::create_dir_all(folder.join("bin")).expect("a folder for the wrapper");
    let mut script = "#!/bin/sh\n".to_string();
    for (name, value) in variables {
        assert!(!value.contains('\''), "{name}: no quotes in {value}");
        script.push_str(&format!("{name}='{value}'\nexport {name}\n"));
    }
    script.push_str(&format!("exec '{}' \"$@\"\n", program.display()));
    // Put in its place whole: the one that is there may be about to be executed.
    let new = path.with_extension("new");
    std::fs::write(&new, script).expect("the wrapper is written");
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).expect("the wrapper is executable");
    std::fs::rename(&new, &path).expect("the wrapper is put in its place");
    path
}
