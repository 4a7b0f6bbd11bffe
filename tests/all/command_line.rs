//! The command line as a person or a script meets it: help, exit codes, standard output and nothing else on it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Output, Stdio};

use crate::common::bluefin;

const COMMAND: &str = "conv -n 1 -c 4 -H 5 -W 5 -k 4 -F 1";

fn run(arguments: &[&str]) -> Output {
    // Nobody's state file is there.
    let folder = tempfile::tempdir().unwrap();
    bluefin().args(arguments).current_dir(&folder).output().unwrap()
}

fn fails(code: i32, reason: &str, arguments: &[&str]) {
    let output = run(arguments);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
    assert!(error.contains(reason), "{arguments:?}: {error}");
    assert!(output.stdout.is_empty(), "{arguments:?}: {:?}", output.stdout);
}

#[test]
fn wrong_usage_and_failures_have_their_own_exit_codes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (list, state) = (path("list.txt"), path("state.db"));
    std::fs::write(&list, format!("{COMMAND}\n")).unwrap();
    fails(2, "unrecognized subcommand", &["nope"]);
    fails(2, "nothing to tune", &["tune"]);
    fails(2, "expected quick", &["tune", &list, "--budget", "0"]);
    fails(2, "1..=2147483647", &["tune", &list, "--batchsize", "0"]);
    fails(2, "expected F, B or W", &["tune", &list, "--direction", "Q"]);
    fails(2, "BLUEFIN_REDIS_URL", &["status"]);
    fails(2, "expected perf or find", &["enqueue", &list, "--session", "a", "--stage", "fund"]);
    fails(2, "found the character \\u{1b}", &["enqueue", &list, "--session", "a", "--label", "\x1b[2J"]);
    let missing = path("missing.txt");
    let reason = format!("error: {missing}: No such file or directory (os error 2)\n");
    fails(1, &reason, &["problems", "list", &missing]);
    fails(1, "not a bluefin state file", &["status", "--state", &list]);
    fails(1, "found a folder", &["status", "--state", &path("")]);
    fails(1, &format!("--kernel {list}"), &["tune", "--kernel", &list]);
    fails(1, &format!("--out {list}"), &["tune", &list, "--out", &list, "--state", &state]);
    assert!(!std::path::Path::new(&state).exists(), "what cannot be written is found out before anything is done");
}

#[test]
fn lines_that_cannot_be_read_are_reported_and_the_others_taken() {
    let mut child = bluefin()
        .args(["problems", "list", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    write!(child.stdin.take().unwrap(), "{COMMAND}\nbogus\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let problem: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(problem["line"], 1);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.lines().any(|line| line.starts_with("-:2: found neither ")), "{said}");
}

#[test]
fn a_reader_that_has_enough_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list.txt");
    // Far more than a pipe holds.
    let text: String = (1..5000).map(|n| format!("conv -n {n} -c 4 -H 5 -W 5 -k 4 -F 1\n")).collect();
    std::fs::write(&list, text).unwrap();
    for verb in ["list", "keys"] {
        let mut child = bluefin()
            .args(["problems", verb])
            .arg(&list)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("conv -n 1 "), "{line}");
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        assert!(output.status.success(), "{verb}: {:?}", output.status);
    }
}

#[test]
fn the_keys_of_real_commands_are_those_of_miopen() {
    let table = bluefin_test_support::data_text("miopen/keys.tsv");
    let (_, rows) = table.split_once('\n').unwrap();
    let commands: String = rows.lines().map(|row| format!("{}\n", row.split('\t').next().unwrap())).collect();
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("list.txt");
    std::fs::write(&list, commands).unwrap();
    let output = run(&["problems", "keys", list.to_str().unwrap()]);
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), rows);
}
