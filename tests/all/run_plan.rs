//! A campaign from a plan file, in one process and with nothing installed.

use std::path::Path;
use std::process::Command;

use crate::common::{bluefin, expect, files, json, text, write};

/// `bluefin` in a folder of its own, with its state there.
fn run(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = bluefin();
    command.current_dir(folder).args(arguments);
    command
}

const PLAN: &str = r#"
[[import]]
tag = "forward"
files = ["forward.txt"]

[[import]]
tag = "weights"
files = ["weights.txt"]
batches = [2]

[session]
label = "a plan"
target = "host"

[enqueue]
candidates = "2"

[export]
out = "out"
files = ["find_db", "perf_db", "winners"]

[check]
allow = ["unknown-solver"]
"#;

#[test]
fn a_plan_is_carried_out_once() {
    let folder = tempfile::tempdir().unwrap();
    let plans = folder.path().join("plans");
    std::fs::create_dir(&plans).unwrap();
    write(&plans, "plan.toml", PLAN);
    write(&plans, "forward.txt", "conv -n 1 -c 8 -H 8 -W 8 -k 8 -y 1 -x 1 -F 1\n");
    write(&plans, "weights.txt", "conv -n 1 -c 8 -H 8 -W 8 -k 8 -y 1 -x 1 -F 4\n");
    let folder = folder.path();
    let described = text(&expect(&mut run(folder, &["run", "plans/plan.toml", "--dry-run"]), 0).stdout);
    let steps: Vec<&str> = described.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(steps, ["import", "import", "session", "enqueue", "wait", "export", "check"]);
    assert!(!folder.join("bluefin.db").exists(), "a dry run does nothing");

    let report = json(&expect(&mut run(folder, &["run", "plans/plan.toml", "--json"]), 0));
    assert_eq!((&report["session"]["name"], &report["enqueue"]["problems"]), (&"1".into(), &2.into()));
    assert_eq!(report["import"][1]["files"][0]["new"], 1);
    assert_eq!(report["wait"]["unsettled_groups"], 0);
    let first = files(&plans.join("out"));
    assert_eq!(text(&first["host.HOST.fdb.txt"]).lines().count(), 2);

    // The same again finds everything done, and writes the same.
    let report = json(&expect(&mut run(folder, &["run", "plans/plan.toml", "--json"]), 0));
    assert_eq!((&report["session"]["name"], &report["enqueue"]["enqueued"]), (&"1".into(), &0.into()));
    assert_eq!(report["import"][1]["files"][0]["new"], 0);
    assert_eq!(files(&plans.join("out")), first);

    // One tag of it, under another name, by MITuna's name of the verb.
    let export = [
        "export_db",
        "--state",
        "bluefin.db",
        "--session_id",
        "1",
        "-f",
        "--config_tag",
        "weights",
        "--filename",
        "w",
        "--out",
        "w",
    ];
    expect(&mut run(folder, &export), 0);
    let only = files(&folder.join("w"));
    assert_eq!(only.keys().collect::<Vec<_>>(), ["w.HOST.fdb.txt"]);
    let line = text(&only["w.HOST.fdb.txt"]);
    assert!(line.starts_with("8-8-8-1x1-8-8-8-2-") && line.contains("-W="), "{line}");
    let output = expect(run(folder, &export).args(["--arch", "gfx90a"]), 2);
    assert!(text(&output.stderr).contains("session 1 is for host"), "{}", text(&output.stderr));
}

#[test]
fn a_plan_with_nothing_to_tune_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "plan.toml", PLAN);
    for name in ["forward.txt", "weights.txt"] {
        write(folder, name, "convfp16 -n 1 -c 8 -H 8 -W 8 -k 8 -y 1 -x 1 -F 1\n");
    }
    for _ in 0..2 {
        let output = expect(&mut run(folder, &["run", "plan.toml", "--json"]), 1);
        let said = text(&output.stderr);
        assert!(
            said.contains("conv-fwd-host needs (in_type == \"FP32\" || in_type == \"BF16\") (in_type is FP16)"),
            "{said}"
        );
        let report = json(&output);
        assert_eq!((&report["enqueue"]["jobs"], &report["export"]), (&0.into(), &serde_json::Value::Null));
        assert!(!folder.join("out").exists());
    }
}

#[test]
fn mistakes_are_found_before_anything_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (name, plan, code, reason) in [
        ("twice.toml", format!("{PLAN}\n[check]\n"), 1, "duplicate key"),
        ("unknown.toml", format!("{PLAN}\nalow = []\n"), 1, "unknown field `alow`"),
        ("target.toml", PLAN.replace("\"host\"", "\"mars\""), 1, "target: found \"mars\""),
        ("fin.toml", PLAN.replace("\"host\"", "\"host\"\ntuner = \"fin\""), 2, "MIOpen has no solvers for host"),
    ] {
        write(folder, name, &plan);
        let output = expect(&mut run(folder, &["run", name]), code);
        let message = text(&output.stderr);
        assert!(message.contains(reason), "{name}: {message}");
        assert!(code == 2 || message.contains(name) && message.contains("line "), "{message}");
    }
    assert!(!folder.join("bluefin.db").exists());
    // MIOpen's solvers need a machine that has MIOpen.
    let plan = PLAN.replace("\"host\"", "\"gfx90a-104\"\ntuner = \"miopendriver\"");
    write(folder, "fleet.toml", &plan);
    write(folder, "forward.txt", "conv -F 1\n");
    write(folder, "weights.txt", "conv -F 4\n");
    let output = expect(&mut run(folder, &["run", "fleet.toml"]), 1);
    assert!(
        text(&output.stderr).contains("neither fin nor MIOpenDriver works on this machine"),
        "{}",
        text(&output.stderr)
    );
}

/// A plan that ends after a time, and one that begins with what the first one found.
#[test]
fn a_plan_may_have_a_time_and_begin_with_winners() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "one.txt", "conv -n 1 -c 8 -H 8 -W 8 -k 8 -y 1 -x 1 -F 1\n");
    write(folder, "two.txt", "conv -n 1 -c 8 -H 16 -W 16 -k 8 -y 1 -x 1 -F 1\n");
    let plan = |name: &str, session: &str, enqueue: &str| {
        let text = format!(
            "[[import]]\ntag = \"{name}\"\nfiles = [\"{name}.txt\"]\n[session]\nlabel = \"{name}\"\ntarget = \"host\"\n{session}\n\
             [enqueue]\n{enqueue}\n[export]\nout = \"{name}\"\nfiles = [\"winners\"]\n"
        );
        write(folder, &format!("{name}.toml"), &text);
        run(folder, &["run", &format!("{name}.toml"), "--json"])
    };
    let timed = expect(&mut plan("one", "search = \"bayes\"", "time = \"1ms\""), 0);
    assert!(text(&timed.stderr).contains("problems in"), "{}", text(&timed.stderr));
    let begun = expect(&mut plan("two", "from = \"one/winners.json\"", "candidates = \"2\""), 0);
    let said = text(&begun.stderr);
    assert!(said.contains("1 of 1 known candidate"), "{said}");
    let refused = expect(&mut plan("two", "search = \"fixed:8\"", "time = \"1s\""), 2);
    assert!(text(&refused.stderr).contains("expected a search in rounds"), "{}", text(&refused.stderr));
}
