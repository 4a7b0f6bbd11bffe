//! Sessions, as their users make and see them.

use std::path::Path;
use std::process::Command;

use crate::common::{bluefin, expect, json, text};

/// `bluefin` in a folder of its own, with its state there.
fn run(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = bluefin();
    command.current_dir(folder).args(arguments);
    command
}

#[test]
fn sessions_are_numbered_made_once_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let new = [
        "session",
        "new",
        "-l",
        "release",
        "--arch",
        "gfx90a",
        "--num-cu",
        "104",
        "-B",
        "FFT,winograd",
        "--find-mode",
        "3",
        "--solver-budget",
        "10m",
        "--tuning-patience",
        "100",
        "--ticket",
        "T-1",
    ];
    assert_eq!(text(&expect(&mut run(folder, &new), 0).stdout), "1\n");
    let output = expect(&mut run(folder, &new), 0);
    assert_eq!(text(&output.stdout), "1\n");
    assert!(text(&output.stderr).contains("there already"), "{}", text(&output.stderr));
    // By MITuna's name and flags.
    let old = ["init_session", "-l", "release", "-a", "gfx90a", "-n", "110", "--rocm_v", "6.3", "--docker_name", "i"];
    assert_eq!(text(&expect(&mut run(folder, &old), 0).stdout), "2\n");
    let driver =
        ["session", "new", "-l", "d", "--target", "gfx942-304", "--tuner", "miopendriver", "--name", "drv", "--json"];
    let made = json(&expect(&mut run(folder, &driver), 0));
    assert_eq!((&made["new"], &made["session"]["stages"]), (&true.into(), &serde_json::json!(["find"])));

    let listed = json(&expect(&mut run(folder, &["session", "list", "--json"]), 0));
    let names: Vec<&str> = listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["1", "2", "drv"]);
    let shown = json(&expect(&mut run(folder, &["session", "show", "1", "--json"]), 0));
    let environment = serde_json::json!({
        "MIOPEN_DEBUG_CONV_FFT": "0", "MIOPEN_DEBUG_CONV_WINOGRAD": "0", "MIOPEN_FIND_MODE": "3"
    });
    assert_eq!((&shown["environment"], &shown["tuner"]), (&environment, &"fin".into()));
    assert_eq!((&shown["budget"]["solver_ms"], &shown["pins"]["ticket"]), (&600_000.into(), &"T-1".into()));
    let shown = text(&expect(&mut run(folder, &["session", "show", "1"]), 0).stdout);
    for line in ["session 1: empty", "target   gfx90a-104", "budget   of a solver 10m 00s", "pinned   ticket = T-1"] {
        assert!(shown.contains(line), "{line} in {shown}");
    }
}

#[test]
fn an_exhaustive_session_says_so_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let new = ["session", "new", "-l", "d", "--target", "gfx942-304", "--tuner", "miopendriver"];
    let exhaustive = [&new[..], &["--exhaustive"]].concat();
    assert_eq!(text(&expect(&mut run(folder, &exhaustive), 0).stdout), "1\n");
    assert_eq!(text(&expect(&mut run(folder, &exhaustive), 0).stdout), "1\n");
    assert_eq!(text(&expect(&mut run(folder, &new), 0).stdout), "2\n");
    let shown = text(&expect(&mut run(folder, &["session", "show", "1"]), 0).stdout);
    assert!(shown.contains("tuner    miopendriver, exhaustive\n") && !shown.contains("MIOPEN_FIND_ENFORCE"), "{shown}");
    let listed = text(&expect(&mut run(folder, &["session", "list"]), 0).stdout);
    assert_eq!(
        listed,
        "1  gfx942-304  miopendriver, exhaustive  empty  0 B  d\n2  gfx942-304  miopendriver  empty  0 B  d\n"
    );
}

#[test]
fn what_makes_no_session_is_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, reason) in [
        (&["-l", "x"][..], "--target"),
        (&["-l", "x", "--arch", "gfx90a"], "--num-cu"),
        (&["-l", "x", "--target", "host", "--tuner", "fin"], "MIOpen has no solvers for host"),
        (&["-l", "x", "--target", "host", "--tuner", "tensile"], "kernels, fin, miopendriver"),
        (
            &["-l", "x", "--target", "gfx90a-104", "--tuner", "miopendriver", "--stage", "perf"],
            "tunes and finds at once",
        ),
        (&["-l", "x", "--target", "gfx90a-104", "--exhaustive"], "--exhaustive is for"),
        (&["-l", "x", "--target", "host", "--stage", "find"], "needs perf"),
        (&["-l", "x", "--target", "gfx90a-104", "-B", "CUDNN"], "possible values"),
        (&["-l", "x", "--target", "host", "-B", "FFT"], "for MIOpen's solvers"),
        (&["-l", "x", "--target", "gfx90a-104", "--solver-budget", "ten"], "--solver-budget"),
    ] {
        let output = expect(run(folder.path(), &["session", "new"]).args(arguments), 2);
        assert!(text(&output.stderr).contains(reason), "{arguments:?}: {}", text(&output.stderr));
    }
    let output = expect(&mut run(folder.path(), &["session", "show", "nope"]), 2);
    assert!(text(&output.stderr).contains("bluefin.db"), "{}", text(&output.stderr));
    assert!(!folder.path().join("bluefin.db").exists(), "looking makes nothing");
}
