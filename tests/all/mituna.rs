//! MITuna's command lines, as its tutorial has them.

use std::path::Path;
use std::process::Command;

use bluefin_test_support::data;

use crate::common::{bluefin, expect, json, text, write};

fn run(folder: &Path, line: &[&str]) -> Command {
    let mut command = bluefin();
    command.current_dir(folder).env_remove("BLUEFIN_FIN").args(line);
    command
}

#[test]
fn the_tutorial_runs_as_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("resnet50.txt"), data("driver/resnet50.txt")).unwrap();
    let said = |line: &[&str], code| {
        let output = expect(&mut run(folder, line), code);
        (text(&output.stdout), text(&output.stderr))
    };
    assert!(said(&["miopen", "--add_tables"], 0).1.contains("made when it is first used"));
    let (_, notes) = said(&["miopen", "import_configs", "--add_model", "Resnet50", "--md_version", "1"], 0);
    assert_eq!(notes.lines().count(), 2, "{notes}");
    let import =
        ["miopen", "import_configs", "-t", "resnet50", "--mark_recurrent", "-f", "resnet50.txt", "-m", "Resnet50"];
    let (imported, notes) = said(&import, 0);
    assert!(imported.contains("0 lines rejected"), "{imported}");
    assert!(notes.contains("-m: ignored") && notes.contains("MIOpen tunes nothing for pool"), "{notes}");
    assert!(said(&["miopen", "--update_solvers"], 0).1.contains("no session of MIOpen's solvers yet"));
    assert_eq!(said(&["miopen", "--init_session", "-l", "reason", "-a", "gfx90a", "-n", "104", "-i", "3"], 0).0, "1\n");
    write(folder, "solvers.json", "");
    // fin is where the environment says, for every verb that asks it.
    for verb in ["--update_solvers", "--update_applicability"] {
        let line = ["miopen", verb, "--session_id", "1"];
        let output = expect(run(folder, &line).env("BLUEFIN_FIN", "/nowhere/fin"), 1);
        let said = text(&[output.stdout, output.stderr].concat());
        assert!(said.contains("/nowhere/fin"), "{verb}: {said}");
    }
    let load = ["miopen", "load_job", "-t", "resnet50", "-l", "reason", "--session_id", "1", "-o"];
    let (_, refused) = said(&load, 2);
    assert!(refused.contains("-o: ignored"), "{refused}");
    assert!(refused.contains("BLUEFIN_REDIS_URL"), "{refused}");
    let (_, refused) = said(&["miopen", "update_golden", "--golden_v", "2", "--session_id", "1", "-o"], 1);
    assert!(refused.contains("--overwrite: "), "{refused}");
}

#[test]
fn a_budget_without_effect_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (tuner, target, flag, code) in [
        ("kernels", "host", "--solver-budget=10m", 2),
        ("kernels", "host", "--tuning-time=1s", 2),
        ("kernels", "host", "--problem-budget=10m", 0),
        ("aiter", "gfx942-304", "--session-budget=10m", 2),
        ("aiter", "gfx942-304", "--solver-budget=10m", 0),
        ("fin", "gfx942-304", "--tuning-time=1s", 0),
        ("miopendriver", "gfx942-304", "--problem-budget=10m", 0),
    ] {
        let line = ["session", "new", "-l", &flag[2..], "--target", target, "--tuner", tuner, flag];
        let output = expect(&mut run(folder.path(), &line), code);
        assert!(code == 0 || text(&output.stderr).contains("has no effect"), "{line:?}: {}", text(&output.stderr));
    }
    let listed = json(&expect(&mut run(folder.path(), &["session", "list", "--json"]), 0));
    assert_eq!(listed.as_array().unwrap().len(), 4);
}
