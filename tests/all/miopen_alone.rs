//! MIOpen's own solvers on one machine, without broker and store: `tune --tuner` and `run`.

use std::path::Path;
use std::process::Command;

use bluefin_stand_ins::{program, wrap};

use crate::common::{bluefin, expect, files, json, text, write};

const PROBLEMS: &str =
    "conv -n 16 -c 64 -H 28 -W 28 -k 64 -y 1 -x 1 -F 1\nconv -n 16 -c 32 -H 14 -W 14 -k 64 -y 1 -x 1 -F 4\n";

/// A tool of a build for `backend`.
fn tool(folder: &Path, name: &str, backend: &str) -> String {
    let variables = [("STAND_IN_BACKEND", backend), ("STAND_IN_ARCH", "gfx90a"), ("STAND_IN_SEED", "5")];
    wrap(&folder.join(backend), &program(name), &variables).display().to_string()
}

fn alone(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = bluefin();
    command.current_dir(folder).args(arguments);
    command
}

#[test]
fn miopendriver_tunes_in_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "net.txt", PROBLEMS);
    let driver = tool(folder, "MIOpenDriver", "HIP");
    let tune = ["tune", "net.txt", "--tuner", "miopendriver", "--device", "gfx90a-104", "--json"];
    let report = json(&expect(alone(folder, &tune).env("BLUEFIN_MIOPEN_DRIVER", &driver), 0));
    assert_eq!(report["wait"]["unsettled_groups"], 0, "{report}");
    let out = files(&folder.join("out"));
    assert_eq!(text(&out["gfx90a68.HIP.fdb.txt"]).lines().count(), 2);
    // The same again has nothing left to do.
    let again = json(&expect(alone(folder, &tune).env("BLUEFIN_MIOPEN_DRIVER", &driver), 0));
    assert_eq!((&again["session"]["name"], &again["enqueue"]["enqueued"]), (&report["session"]["name"], &0.into()));
    assert_eq!(files(&folder.join("out")), out);
}

#[test]
fn fin_compiles_and_evaluates_in_one_process() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "net.txt", PROBLEMS);
    let [nogpu, gpu] = ["HIPNOGPU", "HIP"].map(|backend| tool(folder, "fin", backend));
    let plan = format!(
        "[[import]]\ntag = \"a\"\nfiles = [\"net.txt\"]\n[session]\nlabel = \"x\"\ntarget = \"gfx90a-104\"\ntuner = \"fin\"\n\
         [solvers]\nfin = \"{nogpu}\"\n[applicability]\nfin = \"{nogpu}\"\n[wait]\nfin = \"{gpu}\"\n[export]\nout = \"out\"\n"
    );
    write(folder, "plan.toml", &plan);
    let report = json(&expect(&mut alone(folder, &["run", "plan.toml", "--json"]), 0));
    assert_eq!(report["wait"]["unsettled_groups"], 0, "{report}");
    let out = files(&folder.join("out"));
    assert_eq!(text(&out["gfx90a68.HIP.fdb.txt"]).lines().count(), 2);
    assert!(!text(&out["gfx90a68.db.txt"]).is_empty());
    // And without a plan: the two builds of fin are named in the environment.
    let tune = ["tune", "net.txt", "--tuner", "fin", "--device", "gfx90a-104", "--state", "t.db", "--out", "tuned"];
    expect(alone(folder, &tune).env("BLUEFIN_FIN", &nogpu).env("BLUEFIN_FIN_GPU", &gpu), 0);
    assert_eq!(files(&folder.join("tuned")), out);
}

#[test]
fn what_miopens_tools_do_not_know_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "net.txt", PROBLEMS);
    for (flags, reason) in [
        (&["--device", "gfx90a-104", "--warm"][..], "--warm: has no effect on MIOpen's tools"),
        (&["--device", "gfx90a-104", "--direction", "F"], "--direction: has no effect"),
        (&["--device", "host"], "host"),
    ] {
        let tune = [&["tune", "net.txt", "--tuner", "miopendriver"], flags].concat();
        let said = text(&expect(&mut alone(folder.path(), &tune), 2).stderr);
        assert!(said.contains(reason), "{said}");
    }
    assert!(!folder.path().join("bluefin.db").exists());
}
