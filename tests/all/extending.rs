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
    assert!(said.contains("the search backwards tries up to 10 for each solver"), "{said}");
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
