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
    let (_, refused) = said(&[&load[..], &["--state", "s.db"]].concat(), 2);
    assert!(refused.contains("jobs are enqueued for a fleet") && refused.contains("bluefin run"), "{refused}");
    let (_, refused) = said(&["miopen", "load_job", "-t", "resnet50", "--session_id", "1", "--direction", "F"], 2);
    assert!(refused.contains("those of a tag stay as they are"), "{refused}");
    let (_, refused) = said(&["miopen", "update_golden", "--golden_v", "2", "--session_id", "1", "-o"], 1);
    assert!(refused.contains("--overwrite: "), "{refused}");
}

/// What MITuna does with files: problems without a tag, and its scripts for databases.
#[test]
fn files_are_imported_and_merged_as_they_are_written() {
    const KEY: &str = "64-56-56-1x1-64-56-56-16-0x0-1x1-1x1-0-NCHW-FP32-F";
    let record = |solver: &str, time: f32| format!("{KEY}={solver}:{time},0,miopenConvolutionFwdAlgoDirect\n");
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "recurrent.txt", "MIOpenDriver conv -n 1 -c 8 -H 9 -W 9 -k 8 -y 3 -x 3 -F 1 -t \n");
    write(folder, "mine.fdb.txt", &record("ConvAsm1x1U", 0.5));
    std::fs::create_dir(folder.join("master")).unwrap();
    write(&folder.join("master"), "gfx90a68.HIP.fdb.txt", &record("ConvDirectNaiveConvFwd", 9.0));
    let said = |line: &[&str]| {
        let output = expect(&mut run(folder, line), 0);
        (text(&output.stdout), text(&output.stderr))
    };
    let (imported, notes) = said(&["import_configs", "-f", "recurrent.txt", "--batchsize", "4"]);
    assert!(imported.contains("tag recurrent: 1 problem"), "{imported}");
    assert!(notes.contains("-t is not given") && notes.contains("\"-t\" has no value"), "{notes}");
    assert!(said(&["problems", "list", "-t", "recurrent"]).0.starts_with("conv -n 1 -c 8 -H 9 -W 9 -k 8 -y 3 -x 3 "));
    let (imported, _) = said(&["import_db", "-t", "mine.fdb.txt", "--rocm_v", "6.3", "--miopen_v", "3.3"]);
    assert!(imported.contains("tag mine: 1 problem"), "{imported}");
    for (flag, solvers) in [("--keep_keys", 2), ("-c", 1)] {
        said(&["merge_db", "-f", flag, "-m", "master/gfx90a68.HIP.fdb.txt", "-t", "mine.fdb.txt"]);
        let merged = std::fs::read_to_string(folder.join("gfx90a68.HIP.fdb.txt")).unwrap();
        assert_eq!((merged.lines().count(), merged.matches(":").count()), (1, solvers), "{merged}");
        std::fs::remove_file(folder.join("gfx90a68.HIP.fdb.txt")).unwrap();
    }
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
