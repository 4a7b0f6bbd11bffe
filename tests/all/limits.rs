//! Limits that others set on `bluefin`: batch systems, shells. None of it needs root.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{bluefin, expect, files, json, text, write};

const PROBLEM: &str = "conv -n 1 -c 8 -H 8 -W 8 -k 8 -y 1 -x 1 -F 1\n";

/// `bluefin` in `folder` under `limits`, as prlimit(1) takes them.
fn limited(folder: &Path, limits: &[&str]) -> Command {
    let bluefin = bluefin();
    let mut command = Command::new("prlimit");
    command.current_dir(folder).args(limits).arg(bluefin.get_program());
    for (variable, value) in bluefin.get_envs() {
        match value {
            Some(value) => command.env(variable, value),
            None => command.env_remove(variable),
        };
    }
    command
}

fn tune(folder: &Path, limits: &[&str]) -> Command {
    write(folder, "problems.txt", PROBLEM);
    let mut command = limited(folder, limits);
    command.args(["tune", "problems.txt", "--budget", "2", "--session", "it", "--json"]);
    command
}

/// The one line that says what is wrong.
fn error(output: &Output) -> String {
    let said = text(&output.stderr);
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("error: ") || line.contains("WARN")).collect();
    assert_eq!(errors.len(), 1, "{said}");
    errors[0].to_string()
}

#[test]
fn tunes_under_hard_limits_below_its_own_and_with_few_open_files() {
    let folder = tempfile::tempdir().unwrap();
    // Of the files the soft limit is too low, and raised.
    let output = expect(&mut tune(folder.path(), &["--as=2000000000", "--nofile=10:24"]), 0);
    let problem = &json(&output)["problems"][0];
    assert!(problem["winner"].is_object() && problem["failed"].as_object().unwrap().is_empty(), "{problem}");
}

#[test]
fn too_few_open_files_are_told_before_anything_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let output = expect(&mut tune(folder.path(), &["--nofile=23"]), 1);
    assert_eq!(error(&output), "error: limit of open files (RLIMIT_NOFILE, ulimit -n): found 23, expected at least 24");
    assert_eq!(files(folder.path()).into_keys().collect::<Vec<_>>(), ["problems.txt"]);
}

#[test]
fn a_state_file_that_may_not_grow_is_an_error_and_stays_whole() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "problems.txt", PROBLEM);
    let import = |limit: &str| {
        let mut command = limited(folder.path(), &[limit]);
        command.args(["problems", "import", "-t", "tag", "-f", "problems.txt", "--state", "state.db"]);
        command
    };
    for bytes in ["1000", "20000"] {
        let output = expect(&mut import(&format!("--fsize={bytes}")), 1);
        let error = error(&output);
        let limit = format!("limit of file size (RLIMIT_FSIZE, ulimit -f): found {bytes} bytes, which is not enough");
        assert!(error.contains("state.db: ") && error.ends_with(&limit), "{error}");
        assert_eq!(files(folder.path()).into_keys().collect::<Vec<_>>(), ["problems.txt"], "nothing is half-written");
    }
    let output = expect(&mut tune(folder.path(), &["--fsize=300000"]), 1);
    assert!(error(&output).contains("RLIMIT_FSIZE"));
    // What fitted is there, and can be read.
    let mut list = bluefin();
    let output =
        expect(list.current_dir(folder.path()).args(["session", "list", "--state", "bluefin.db", "--json"]), 0);
    assert!(text(&output.stdout).contains("\"it\""), "{}", text(&output.stdout));
}

#[test]
fn compilers_that_may_not_write_enough_are_no_candidates_fault() {
    let folder = tempfile::tempdir().unwrap();
    // A compiler that needs room for its work, but not when it is tried.
    let compiler =
        "#!/bin/sh\ncase \"$*\" in *unit.out*) head -c 9000000 /dev/zero >room || exit 1;; esac\nexec cc \"$@\"\n";
    let compiler = write(folder.path(), "compiler", compiler);
    std::fs::set_permissions(&compiler, Permissions::from_mode(0o755)).unwrap();
    let mut command = tune(folder.path(), &["--fsize=4000000"]);
    let output = expect(command.env("BLUEFIN_CC", &compiler), 1);
    let told =
        "error: compiling: limit of file size (RLIMIT_FSIZE, ulimit -f): found 4000000 bytes, which is not enough";
    assert_eq!(error(&output), told);

    // Where the limit is higher the same work goes on, and no candidate has failed.
    let output = expect(tune(folder.path(), &["--fsize=400000000"]).env("BLUEFIN_CC", &compiler), 0);
    let problem = &json(&output)["problems"][0];
    assert!(problem["winner"].is_object() && problem["failed"].as_object().unwrap().is_empty(), "{problem}");

    // An export writes all of its files or none.
    let mut export = limited(folder.path(), &["--fsize=10000"]);
    let output = expect(export.args(["export", "--session", "it", "--state", "bluefin.db", "--out", "again"]), 1);
    assert!(error(&output).ends_with("found 10000 bytes, which is not enough"), "{}", error(&output));
    assert!(files(&folder.path().join("again")).is_empty());
}
