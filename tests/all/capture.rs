//! `bluefin capture` around small applications: shell scripts that log as MIOpen does.

use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

const FIRST: &str = "MIOpen(HIP): Command [LogCmdFindConvolution] ./bin/MIOpenDriver conv -n 16 -c 64 -H 56 -W 56 -k 64 \
    -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 1 -t 1";
const SECOND: &str = "MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver convfp16 -n 8 -c 64 -H 56 -W 56 -k 64 \
    -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 --in_layout NHWC --fil_layout NHWC --out_layout NHWC -m conv -g 1 -F 2 -t 1";

fn capture(folder: &Path, script: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bluefin"));
    command.current_dir(folder).args(["capture", "-t", "net", "-o", "out/net.txt", "--", "sh", "-c", script]);
    command.env("FIRST", FIRST).env("SECOND", SECOND).stdin(Stdio::null());
    command
}

fn run(folder: &Path, script: &str) -> (Output, String) {
    let output = capture(folder, script).output().unwrap();
    (output, std::fs::read_to_string(folder.join("out/net.txt")).unwrap_or_default())
}

#[test]
fn the_application_does_not_notice() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"test "$MIOPEN_ENABLE_LOGGING_CMD" = 1 || exit 3
        echo to stdout; printf 'no newline \377' >&2; printf '\n%s\n%s\n%s\n' "$FIRST" "$SECOND" "$FIRST" >&2; exit 7"#;
    let (output, list) = run(folder.path(), script);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(output.stdout, b"to stdout\n");
    let expected = [b"no newline \xff\n", format!("{FIRST}\n{SECOND}\n{FIRST}\n").as_bytes()].concat();
    assert!(output.stderr.starts_with(&expected), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 5, "{list}");
    assert_eq!((lines[0], lines[1], lines[3]), ("# net: 2 problems of 3 commands", "# count 2", "# count 1"));
    assert!(lines[2].starts_with("conv -n 16 ") && lines[4].starts_with("convfp16 -n 8 "), "{list}");

    // What it writes is what the other verbs read.
    let keys = Command::new(env!("CARGO_BIN_EXE_bluefin"))
        .args(["problems", "keys"])
        .arg(folder.path().join("out/net.txt"))
        .output()
        .unwrap();
    let keys = String::from_utf8(keys.stdout).unwrap();
    assert!(keys.contains("\t64-56-56-1x1-64-56-56-16-0x0-1x1-1x1-0-NCHW-FP32-F\t"), "{keys}");
}

#[test]
fn death_by_a_signal_is_passed_on_and_what_was_captured_is_kept() {
    for signal in [6, 9, 11, 15] {
        let folder = tempfile::tempdir().unwrap();
        let (output, list) = run(folder.path(), &format!(r#"printf '%s\n' "$FIRST" >&2; kill -{signal} $$"#));
        assert_eq!(output.status.signal(), Some(signal), "{:?}", output.status);
        assert!(list.contains("\nconv -n 16 "), "{signal}: {list}");
    }
}

#[test]
fn a_signal_reaches_the_application() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"trap 'printf "%s\n" "$SECOND" >&2; exit 5' TERM; echo ready; while :; do sleep 0.05; done"#;
    let mut child = capture(folder.path(), script).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut ready = [0; 6];
    child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let list = std::fs::read_to_string(folder.path().join("out/net.txt")).unwrap();
    assert!(list.contains("\nconvfp16 -n 8 "), "{list}");
}

#[test]
fn many_writers_at_once_lose_nothing_unnoticed() {
    let folder = tempfile::tempdir().unwrap();
    // Each line in three writes, as a logger without a buffer does it.
    let script = r#"for writer in 1 2 3 4; do
        ( for n in 1 2 3 4 5 6 7 8 9 10; do
            printf 'MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpen' >&2
            printf 'Driver conv -n %d%d -c 64 -H 56 -W 56 -k 64 -y 1 -x 1' $writer $n >&2
            printf ' -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 1 -t 1\n' >&2
        done ) & done; wait"#;
    let output = capture(folder.path(), script).output().unwrap();
    assert!(output.status.success());
    let list = std::fs::read_to_string(folder.path().join("out/net.txt")).unwrap();
    let allowed: Vec<String> = (1..=4).flat_map(|writer| (1..=10).map(move |n| format!("{writer}{n}"))).collect();
    let mut commands = 0;
    for pair in list.lines().skip(1).collect::<Vec<_>>().chunks(2) {
        commands += pair[0].strip_prefix("# count ").unwrap().parse::<u64>().unwrap();
        let batch = pair[1].split(' ').nth(2).unwrap();
        assert!(allowed.iter().any(|n| n == batch), "made up: {}", pair[1]);
    }
    let report = String::from_utf8(output.stderr).unwrap();
    assert!(commands > 0 && (commands == 40 || report.contains("torn or not understood")), "{commands}: {report}");
}

#[test]
fn without_a_file_problems_go_to_the_library() {
    let folder = tempfile::tempdir().unwrap();
    let bluefin = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bluefin"));
        command.current_dir(folder.path()).args(arguments).env("FIRST", FIRST).env_remove("BLUEFIN_REDIS_URL");
        command.output().unwrap()
    };
    let script = r#"printf '%s\n%s\n' "$FIRST" "$FIRST" >&2"#;
    let captured = bluefin(&["capture", "-t", "net", "--state", "s.db", "--", "sh", "-c", script]);
    assert!(captured.status.success(), "{captured:?}");
    let listed = bluefin(&["problems", "list", "-t", "net", "--state", "s.db"]);
    let text = String::from_utf8(listed.stdout).unwrap();
    assert!(text.contains("conv -n 16 -c 64"), "{text}{}", String::from_utf8_lossy(&listed.stderr));
}

#[test]
fn what_can_not_work_is_said_before_the_application_runs() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("out"), "").unwrap();
    let (output, _) = run(folder.path(), "touch ran");
    assert_eq!(output.status.code(), Some(1));
    assert!(!folder.path().join("ran").exists());
    let missing = Command::new(env!("CARGO_BIN_EXE_bluefin"))
        .current_dir(folder.path())
        .args(["capture", "-t", "net", "-o", "net.txt", "--", "./no-such-program"])
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("./no-such-program"));
    assert!(!folder.path().join("net.txt").exists());
}

#[test]
fn nothing_captured_is_said_with_what_it_may_come_from() {
    let folder = tempfile::tempdir().unwrap();
    for (script, reason) in [
        ("true", "the application asked MIOpen for nothing"),
        (
            "echo 'MIOpen(HIP): Command [LogCmdPooling] ./bin/MIOpenDriver pool -W 1x1' >&2",
            "none of the commands is of",
        ),
    ] {
        let output = capture(folder.path(), script).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("no problem was captured: ") && said.contains(reason), "{said}");
    }
}
