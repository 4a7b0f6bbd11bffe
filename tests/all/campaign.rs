//! A campaign over MIOpen's solvers up to the queues: library, session, solvers, applicability, jobs. What stands in for fin
//! here is a script that answers these two questions.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use bluefin_test_support::{Redis, RedisOptions, Vhost};

use crate::common::fleet::Fleet;
use crate::common::{bluefin, expect, json, text, write};

/// Answers `get_solvers` and `applicability`: two solvers apply to everything, one to batches of 7 only. A batch of 13 kills it.
const FIN: &str = r#"#!/bin/sh
if grep -q get_solvers "$2"; then
  printf '[{"process_env":["SECRET=x"]},{"all_solvers":[
    {"id":"2","name":"ConvAsm1x1U","tunable":"1","dynamic":"0","type":"convolution"},
    {"id":"60","name":"ConvWinograd3x3MultipassWrW<3, 4>","tunable":"0","dynamic":"1","type":"convolution"},
    {"id":"91","name":"GemmFwdRest","tunable":"0","dynamic":"1","type":"convolution"}]}]' > "$4"
  exit 0
fi
grep -q '"batchsize":13' "$2" && exit 134
printf '[{"process_env":["SECRET=x"]}' > "$4"
{ sed 's/},{/}\n{/g' "$2"; echo; } | while read -r job; do
  id=$(echo "$job" | grep -o '"config_tuna_id":[0-9]*')
  [ -n "$id" ] || continue
  more=
  case $job in *'"batchsize":7,'*) more=',"ConvWinograd3x3MultipassWrW<3, 4>"' ;; esac
  printf ',{"applicable_solvers":["ConvAsm1x1U","GemmFwdRest"%s],%s}' "$more" "$id"
done >> "$4"
echo ']' >> "$4"
"#;

fn stand_in(folder: &Path) -> PathBuf {
    let path = write(folder, "fin", FIN);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// `bluefin` in a folder of its own, with its state there.
fn run(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = bluefin();
    command.current_dir(folder).args(arguments);
    command
}

#[test]
fn solvers_and_applicability_are_kept_for_a_session() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let fin = stand_in(folder).display().to_string();
    let fails = |code, reason: &str, arguments: &[&str]| {
        let output = expect(&mut run(folder, arguments), code);
        assert!(text(&output.stderr).contains(reason), "{arguments:?}: {}", text(&output.stderr));
    };
    let list = "conv -n 1 -c 8 -k 8 -F 1\nconv -n 7 -c 8 -k 8 -F 4\nconv -n 13 -c 8 -k 8 -F 1\ngemm -m 8\n";
    write(folder, "net.txt", list);
    fails(1, "bluefin session new --name 1", &["solvers", "update", "--session", "1", "--fin", &fin]);
    expect(&mut run(folder, &["session", "new", "-l", "x", "--target", "gfx90a-104"]), 0);
    fails(1, "bluefin solvers update --session 1", &["solvers", "list", "--session", "1"]);
    fails(1, "/nowhere/fin: No such file", &["solvers", "update", "--session", "1", "--fin", "/nowhere/fin"]);
    fails(1, "bluefin problems import", &["applicability", "update", "--session", "1", "--fin", &fin]);
    expect(&mut run(folder, &["problems", "import", "-t", "net", "-f", "net.txt"]), 0);

    let update = ["solvers", "update", "--session", "1", "--fin", &fin, "--json"];
    assert_eq!(
        json(&expect(&mut run(folder, &update), 0)),
        serde_json::json!({ "solvers": 3, "tunable": 1, "gone": 0 })
    );
    // An answer that was kept does as well, and what it does not list goes.
    let kept = r#"[{"process_env":[]},{"all_solvers":[{"id":"2","name":"ConvAsm1x1U","tunable":"1","dynamic":"0","type":"convolution"}]}]"#;
    write(folder, "solvers.json", kept);
    let update = ["update_solvers", "--session_id", "1", "--from", "solvers.json", "--json"];
    assert_eq!(json(&expect(&mut run(folder, &update), 0))["gone"], 2);
    expect(&mut run(folder, &["update_solvers", "--session", "1", "--fin", &fin]), 0);
    let listed = text(&expect(&mut run(folder, &["list_solvers", "--session", "1"]), 0).stdout);
    assert!(listed.contains("ConvWinograd3x3MultipassWrW<3-4>") && listed.contains("Winograd"), "{listed}");
    fails(1, "net.txt: line 1", &["solvers", "update", "--session", "1", "--from", "net.txt"]);

    // The problem that kills it is found out, and costs the others nothing. Nobody asks about the product.
    let update =
        ["applicability", "update", "--session", "1", "-t", "net", "--fin", &fin, "--processes", "2", "--json"];
    let output = expect(&mut run(folder, &update), 1);
    let report = json(&output);
    assert_eq!((&report["asked"], &report["applicable"]), (&2.into(), &5.into()), "{report}");
    assert_eq!(report["failed"].as_array().unwrap().len(), 2, "{report}");
    assert!(!text(&output.stderr).contains("SECRET"));
    let report = json(&expect(&mut run(folder, &update), 1));
    assert_eq!((&report["asked"], &report["present"]), (&0.into(), &2.into()));
    let again = [update.as_slice(), &["--again"]].concat();
    assert_eq!(json(&expect(&mut run(folder, &again), 1))["asked"], 2);
    let shown = json(&expect(&mut run(folder, &["applicability", "show", "--session", "1", "--json"]), 0));
    let counts = serde_json::json!({ "ConvAsm1x1U": 2, "ConvWinograd3x3MultipassWrW<3-4>": 1, "GemmFwdRest": 2 });
    assert_eq!((&shown["problems"], &shown["solvers"]), (&2.into(), &counts));
    let shown = text(&expect(&mut run(folder, &["applicability", "show", "--session", "1", "-t", "net"]), 1).stdout);
    assert_eq!(shown.lines().filter(|line| line.ends_with("\tnot known")).count(), 2, "{shown}");
}

#[test]
fn jobs_are_planned_once_and_as_they_are_chosen() {
    let vhost = Vhost::fresh();
    let redis = Redis::start(RedisOptions::DURABLE);
    let fleet = Fleet::new(vhost.url(), redis.url(), redis.url());
    let folder = fleet.folder.path();
    let fin = stand_in(folder).display().to_string();
    write(folder, "net.txt", "conv -n 1 -c 8 -k 8 -F 1\nconv -n 7 -c 8 -k 8 -F 4\n");
    let run = |arguments: &[&str], code| expect(&mut fleet.bluefin(arguments), code);
    run(&["import_configs", "-t", "net", "-f", "net.txt"], 0);
    for label in ["a", "b"] {
        run(&["init_session", "-l", label, "-a", "gfx90a", "-n", "104"], 0);
    }
    let enqueue = |session: &str, choice: &[&str]| {
        let words = ["enqueue", "--session", session, "-t", "net", "--json"];
        let plan = json(&run(&[words.as_slice(), choice].concat(), 0));
        ["jobs", "enqueued", "waiting"].map(|field| plan[field].as_u64().unwrap())
    };
    let fails = |code, reason: &str, choice: &[&str]| {
        let output = run(&[&["enqueue", "--session", "1"], choice].concat(), code);
        assert!(text(&output.stderr).contains(reason), "{choice:?}: {}", text(&output.stderr));
    };
    fails(1, "bluefin problems import -t nope", &["-t", "nope"]);
    fails(1, "bluefin solvers update --session 1", &["-t", "net"]);
    for session in ["1", "2"] {
        run(&["solvers", "update", "--session", session, "--fin", &fin], 0);
    }
    fails(1, "bluefin applicability update --session 1 -t net", &["-t", "net"]);
    for session in ["1", "2"] {
        run(&["applicability", "update", "--session", session, "-t", "net", "--fin", &fin], 0);
    }
    fails(2, "MIOpen has no Nope", &["-t", "net", "-s", "Nope"]);
    fails(2, "session 1 is for gfx90a-104", &["-t", "net", "--target", "gfx942-304"]);

    // Nothing is left of what applies: that is told, and no job will ever be done.
    fails(1, "ConvAsm1x1U (algorithm Direct), ", &["-t", "net", "-A", "FFT"]);
    fails(1, "nothing to do", &["-t", "net", "-A", "FFT"]);
    fails(1, "GemmFwdRest (not tunable)", &["-t", "net", "--tunable", "-s", "GemmFwdRest"]);

    // One perf job a problem; three find jobs of what is not tunable.
    assert_eq!(enqueue("1", &["--stage", "perf"]), [2, 2, 0]);
    assert_eq!(enqueue("1", &["-A", "Winograd"]), [1, 1, 0]);
    assert_eq!(enqueue("1", &[]), [5, 2, 3]);
    assert_eq!(enqueue("1", &[]), [5, 0, 5]);
    // MITuna's flags.
    let old =
        ["load_job", "--session_id", "2", "-t", "net", "--fin_steps", "miopen_find_compile,miopen_find_eval", "--json"];
    assert_eq!(json(&run(&[old.as_slice(), &["--only_dynamic"]].concat(), 0))["jobs"], 3);
    let both = "ConvAsm1x1U,ConvWinograd3x3MultipassWrW<3, 4>";
    assert_eq!(json(&run(&[old.as_slice(), &["-s", both]].concat(), 0))["jobs"], 3);
    assert_eq!(json(&run(&[old.as_slice(), &["--tunable"]].concat(), 0))["enqueued"], 0);

    let status = json(&run(&["status", "--json"], 0));
    assert_eq!(status["queues"]["bluefin.compile.fin.gfx90a-104"], 5 + 5, "{status}");
    // MIOpenDriver needs to know nothing, and one job a problem.
    run(&["session", "new", "-l", "d", "--target", "gfx90a-104", "--tuner", "miopendriver", "--name", "drv"], 0);
    assert_eq!(enqueue("drv", &[]), [2, 2, 0]);
    let status = json(&run(&["status", "--json", "--session", "drv"], 0));
    assert_eq!(status["queues"]["bluefin.eval.gfx90a-104.miopendriver"], 2, "{status}");
}
