//! A build that was extended, through its command line: `tests/extended` hands in one toy of each kind, and nothing is wired here.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bluefin_test_support::wait_until;
use serde_json::Value;

use crate::common::fleet::{Fleet, on_servers};
use crate::common::{bluefin, expect, json, other, text, write};

const PATIENCE: Duration = Duration::from_secs(60);

/// Built beside `bluefin`.
fn extended() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_bluefin")).with_file_name("bluefin-extended")
}

fn in_fleet(fleet: &Fleet, arguments: &[&str]) -> Command {
    fleet.program(&extended(), arguments)
}

#[test]
fn a_campaign_of_things_that_are_not_shipped() {
    let (fleet, _vhost, _redis, _cache) = on_servers();
    let new = ["session", "new", "-l", "words", "--name", "words", "--target", "gfx000-1", "--tuner", "scales"];
    expect(&mut in_fleet(&fleet, &new), 0);
    let refused = text(&expect(&mut fleet.bluefin(&new), 2).stderr);
    assert!(refused.contains("scales"), "one that is shipped does not know it: {refused}");
    write(fleet.folder.path(), "words.txt", "conv -n 1 -c 8 -k 8 -F 1\nconv -n 2 -c 8 -k 8 -F 1\n");
    let planned = json(&expect(&mut in_fleet(&fleet, &["enqueue", "words.txt", "--session", "words", "--json"]), 0));
    assert_eq!((&planned["problems"], &planned["enqueued"]), (&2.into(), &2.into()));

    let _compile = fleet.worker_of(&extended(), &["compile-worker", "--toolchain", "press"]);
    let _eval = fleet.worker_of(&extended(), &["eval-worker", "--device", "scales:gfx000-1"]);
    wait_until(PATIENCE, "the session to complete", || {
        let status = in_fleet(&fleet, &["status", "--json", "--session", "words"]).output().unwrap();
        status.status.success() && json(&status)["sessions"][0]["complete"] == true
    });

    let status: Value = json(&expect(&mut in_fleet(&fleet, &["session", "show", "words", "--json"]), 0));
    assert_eq!(status["progress"]["done"], serde_json::json!({ "find": 2, "perf": 2 }), "each was played off");
    assert_eq!((&status["pins"]["toolchain.press"], &status["pins"]["scales"]), (&"1".into(), &"1".into()));
    expect(&mut in_fleet(&fleet, &["export", "--session", "words", "--out", "out", "--format", "lines"]), 0);
    let lines = std::fs::read_to_string(fleet.folder.path().join("out/lines.txt")).unwrap();
    assert_eq!(lines.lines().count(), 2);
    assert!(lines.lines().all(|line| line.ends_with(": \"\" of dictionary")), "{lines}");
}

#[test]
fn a_search_is_chosen_on_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "one.txt", "conv -n 1 -c 8 -H 8 -W 8 -k 8 -y 1 -x 1 -F 1\n");
    let tune = |program: &Path, search: &str, code: i32| {
        let mut command = other(program);
        command.current_dir(folder.path()).args(["tune", "one.txt", "--device", "host", "--search", search]);
        expect(&mut command, code)
    };
    let shipped = Path::new(env!("CARGO_BIN_EXE_bluefin"));
    let refused = text(&tune(shipped, "backwards:10", 2).stderr);
    assert!(refused.contains("found strategy \"backwards\", expected one of fixed"), "{refused}");
    let said = text(&tune(&extended(), "backwards:10", 0).stderr);
    assert!(
        said.contains("the search backwards goes on from what they come to, within at most 10 of each solver"),
        "{said}"
    );
    tune(shipped, "fixed:10", 0);

    // Two sessions, which tried ten of each tunable solver, in two rounds of other candidates.
    let results = |search: &str| -> Vec<Value> {
        let state = rusqlite::Connection::open(folder.path().join("bluefin.db")).unwrap();
        let mut names = state.prepare("SELECT name FROM sessions ORDER BY name").unwrap();
        let names: Vec<String> = names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        assert_eq!(names.len(), 2, "a search has a session of its own");
        let of = names.iter().find_map(|name| {
            let shown = json(&expect(
                bluefin().current_dir(folder.path()).args(["session", "show", name, "--state", "bluefin.db", "--json"]),
                0,
            ));
            (shown["search"]["strategy"] == search).then(|| name.clone())
        });
        let mut command = bluefin();
        command.current_dir(folder.path()).args([
            "results",
            "--state",
            "bluefin.db",
            "--json",
            "--session",
            &of.unwrap(),
        ]);
        text(&expect(&mut command, 0).stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let tried = |search: &str| {
        let perf = results(search)
            .into_iter()
            .filter(|result| result["stage"] == "perf" && result["solver"] == "BluefinConvFwdHostDirect");
        perf.map(|result| result["params"].to_string()).collect::<std::collections::BTreeSet<_>>()
    };
    let (fixed, backwards) = (tried("fixed"), tried("backwards"));
    assert_eq!((fixed.len(), backwards.len()), (10, 10));
    assert!(fixed.is_disjoint(&backwards), "from either end");
}

const TRANSPOSE: &str = r#"
name = "NAME"
problem = "transpose"
toolchain = "cc"
targets = ["host"]
source = "transpose.c"
reference = "NAMEReference"
[sizes]
rows = 64
columns = 64
[[buffer]]
name = "x"
type = "FP32"
length = "rows * columns"
role = "input"
[[buffer]]
name = "y"
type = "FP32"
length = "rows * columns"
role = "output"
[tolerance.FP32]
absolute = 0.0
relative = 0.0
[[solver]]
name = "NAMEReference"
algorithm = "Direct"
  [[solver.param]]
  name = "TILE"
  values = [1, 8]
  default = 1
  [[solver.launch]]
  entry = "transpose"
  arguments = ["x", "y", { i32 = "rows" }, { i32 = "columns" }]
"#;

#[test]
fn an_operator_has_commands_of_its_own_and_specs_of_anybody() {
    let folder = tempfile::tempdir().unwrap();
    let source = "void transpose(const float* x, float* y, int rows, int columns) {\n\
                  for (int t = 0; t < columns; t += TILE) for (int i = 0; i < rows; ++i)\n\
                  for (int j = t; j < t + TILE && j < columns; ++j) y[j * rows + i] = x[i * columns + j];\n}\n";
    write(folder.path(), "transpose.c", source);
    for name in ["one", "two"] {
        write(folder.path(), &format!("{name}.toml"), &TRANSPOSE.replace("NAME", name));
    }
    write(folder.path(), "list.txt", "transpose -r 30 -c 20\n");
    let tune = |program: &Path, list: &str, code: i32| {
        let mut command = other(program);
        command.current_dir(folder.path()).args(["tune", list, "--device", "host", "--state", "state.db"]);
        text(&expect(command.args(["--kernel", "one.toml", "--kernel", "two.toml"]), code).stderr)
    };
    let shipped = Path::new(env!("CARGO_BIN_EXE_bluefin"));
    let unknown = tune(shipped, "list.txt", 1);
    assert!(unknown.contains("list.txt:1: found neither a driver command nor a key"), "{unknown}");
    tune(&extended(), "list.txt", 0);
    // The problem itself is known to every build, and was tuned.
    write(folder.path(), "plain.txt", "kernel transpose rows=30 columns=20\n");
    let again = tune(shipped, "plain.txt", 0);
    assert!(again.contains("nothing to do"), "{again}");
    let mut results = bluefin();
    results.current_dir(folder.path()).args(["results", "--state", "state.db", "--stage", "perf", "--json"]);
    let tried: Vec<Value> =
        text(&expect(&mut results, 0).stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let solvers: Vec<&str> = tried.iter().filter_map(|one| one["solver"].as_str()).collect();
    assert_eq!(solvers.iter().filter(|name| **name == "oneReference").count(), 2, "{solvers:?}");
    assert_eq!(solvers.iter().filter(|name| **name == "twoReference").count(), 2, "{solvers:?}");
    assert!(tried.iter().all(|one| one["problem"] == "kernel transpose columns=20 rows=30"), "{tried:?}");
}
