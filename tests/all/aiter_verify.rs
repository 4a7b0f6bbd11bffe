//! `bluefin verify` of aiter's CSV files, with a stand-in for its tuners that fails in the ways in which they fail.

use std::path::{Path, PathBuf};
use std::process::Command;

use bluefin_stand_ins::wrap;
use serde_json::Value;

use crate::common::{bluefin, expect, json, text, write};

/// Operators without a row take 450 us there.
const FILE: &str = "gfx,cu_num,M,N,K,q_dtype_w,kernelId,splitK,us,kernelName,tflops,bw,errRatio
gfx942,304,1,64,128,torch.int8,1,0,400.0,fast,0,0,0.0
gfx942,304,2,64,128,torch.int8,1,0,500.0,slow,0,0,0.0
gfx942,304,4,64,128,torch.int8,1,0,450.0,same,0,0,0.0
gfx950,256,4,64,128,torch.int8,1,0,999.0,other,0,0,0.0
gfx942,304,1,64,128,torch.int8,2,0,1.0,again,0,0,0.0
";

struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("aiter");
        let script = root.join("csrc/ck_gemm_a8w8/gemm_a8w8_tune.py");
        std::fs::create_dir_all(script.parent().unwrap()).unwrap();
        std::fs::write(&script, include_str!("../stand-ins/aiter/tuner.py")).unwrap();
        std::fs::create_dir_all(root.join("aiter/jit")).unwrap();
        let core =
            "x = self.get_config_file(\"AITER_CONFIG_GEMM_A8W8\", AITER_CONFIG_GEMM_A8W8, \"a8w8_tuned_gemm\")\n";
        write(&root.join("aiter/jit"), "core.py", core);
        write(folder.path(), "a8w8_tuned_gemm.csv", FILE);
        std::fs::create_dir_all(folder.path().join("state")).unwrap();
        Self { folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("a8w8_tuned_gemm.csv")
    }

    fn verify(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Command {
        let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
        let program = PathBuf::from(text(&asked.stdout).trim());
        let state = self.folder.path().join("state");
        let own =
            [("STAND_IN_STATE", state.to_str().unwrap()), ("STAND_IN_GPU", "gfx942-304"), ("STAND_IN_NOISE", "0.02")];
        let python = wrap(&self.folder.path().join("python"), &program, &[&own, variables].concat());
        let mut command = bluefin();
        command.current_dir(self.folder.path()).args(["verify", "a8w8_tuned_gemm.csv", "--python"]).arg(python);
        let gpu: &[&str] = if arguments.contains(&"--gpu") { &[] } else { &["--gpu", "gfx942-304"] };
        command.args(gpu).args(arguments);
        command
    }
}

/// The verdicts of a report, in the order of the file.
fn verdicts(report: &Value) -> Vec<String> {
    let rows = report[0]["rows"].as_array().unwrap();
    rows.iter().map(|row| row["verdict"].as_str().unwrap().to_string()).collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn rows_are_held_against_operators_without_them() {
    let machine = Machine::new();
    let output = expect(&mut machine.verify(&[], &["--json", "--turns", "6"]), 1);
    let report = json(&output);
    assert_eq!(verdicts(&report), ["faster", "slower", "tied", "unknown"]);
    let rows = &report[0]["rows"];
    assert_eq!((report[0]["kernel"].as_str(), rows[0]["M"].as_str()), (Some("ck_gemm_a8w8"), Some("1")));
    let [time, low, high] = ["median_ms", "low_ms", "high_ms"].map(|key| rows[0]["time"][key].as_f64().unwrap());
    assert!(low < time && time < high && 0.39 < low && high < 0.41, "{low} {time} {high}");
    assert_eq!(rows[3]["reason"].as_str(), Some("another row of the file has its shape"));
    assert!(text(&output.stderr).contains("note: a8w8_tuned_gemm.csv: 1 rows of other GPUs are left aside"));
    assert!(text(&output.stderr).contains("0 of 18 turns; turn 1 of 6, by the file's rows: 3 shapes\n"));
    // A side is built once, by its rows: 4 of the GPU, and none.
    let mut built: Vec<String> =
        read(&machine.folder.path().join("state/rebuilt")).lines().map(str::to_string).collect();
    built.sort();
    assert_eq!(built, ["0 rows", "4 rows"]);
    assert_eq!(read(&machine.file()), FILE, "nothing is written without --fix");

    let told = text(&expect(&mut machine.verify(&[], &["--fix"]), 0).stdout);
    assert!(told.contains("SLOWER  slow: ") && told.contains("now no row, so that aiter chooses"), "{told}");
    let slow = "gfx942,304,2,64,128,torch.int8,1,0,500.0,slow,0,0,0.0\n";
    assert_eq!(read(&machine.file()), FILE.replace(slow, ""), "all else keeps its bytes");
}

#[test]
fn each_batch_of_shapes_is_built_by_the_rows_of_its_side() {
    let machine = Machine::new();
    let (header, _) = FILE.split_once('\n').unwrap();
    let rows: String = (1..=25).map(|n| format!("gfx942,304,1,{n},128,torch.int8,1,0,400.0,fast,0,0,0.0\n")).collect();
    write(machine.folder.path(), "a8w8_tuned_gemm.csv", &format!("{header}\n{rows}"));
    let report = json(&expect(&mut machine.verify(&[], &["--json", "--turns", "6"]), 0));
    assert_eq!(verdicts(&report), ["faster"; 25]);
    let mut built: Vec<String> =
        read(&machine.folder.path().join("state/rebuilt")).lines().map(str::to_string).collect();
    built.sort();
    assert_eq!(built, ["0 rows", "0 rows", "25 rows", "25 rows"]);
}

#[test]
fn the_rows_of_another_file_are_timed_as_well() {
    let machine = Machine::new();
    let other = FILE.replace(",450.0,same", ",300.0,best").replace(",500.0,slow", ",440.0,better");
    write(machine.folder.path(), "known.csv", &other);
    let report = json(&expect(&mut machine.verify(&[], &["--json", "--known", "known.csv"]), 1));
    assert_eq!(verdicts(&report), ["faster", "slower", "tied", "unknown"]);
    let row = &report[0]["rows"][2];
    assert!(row["regret"].as_f64().unwrap() > 0.4 && row["known"]["median_ms"].as_f64().unwrap() < 0.31, "{row}");
}

#[test]
fn a_row_that_ends_its_process_fails_alone() {
    let cases = [
        ("fault:M=4", "fails", "SIGABRT"),
        ("mismatch:M=4", "fails", "mismatch: err_ratio=0.5"),
        ("stuck:M=4", "unknown", "killed after"),
        // It may be the machine's.
        ("reap:M=4", "unknown", "SIGKILL"),
        ("mismatch:M=4@once", "unknown", "1 of 6 processes failed: "),
        ("fault:M=4@twice", "unknown", "it runs by its row alone; with the others: aiter did not measure"),
    ];
    for (fault, verdict, reason) in cases {
        let machine = Machine::new();
        let arguments = ["--json", "--turns", "6", "--limit", "2s"];
        let report = json(&expect(&mut machine.verify(&[("STAND_IN_FAULTS", fault)], &arguments), 1));
        assert_eq!(verdicts(&report), ["faster", "slower", verdict, "unknown"], "{fault}");
        let told = report[0]["rows"][2]["reason"].as_str().unwrap();
        assert!(told.contains(reason), "{fault}: {told}");
    }
    // Nothing is known of what no table tells of.
    let machine = Machine::new();
    let output = expect(&mut machine.verify(&[("STAND_IN_FAULTS", "babble,bare-babble")], &["--json", "--fix"]), 1);
    assert_eq!(verdicts(&json(&output)), ["unknown"; 4]);
    let told = json(&output)[0]["rows"][0]["reason"].as_str().unwrap().to_string();
    assert!(told.starts_with("aiter did not measure the operator: exit code 0: "), "{told}");
    assert!(text(&output.stderr).contains("a8w8_tuned_gemm.csv: no row can be judged"));
    // What fails on all sides says nothing of rows.
    let none = text(&expect(&mut machine.verify(&[("STAND_IN_FAULTS", "torch")], &["--fix"]), 1).stderr);
    assert!(none.contains("nothing runs, with its rows or without: aiter did not measure the operator: exit code 1: "));
    assert!(none.contains("No module named 'torch'"), "{none}");
    assert_eq!(read(&machine.file()), FILE);
}

/// A file of these M, kernels and times.
fn file_of(rows: &[(u32, u32, u32)]) -> String {
    let (header, _) = FILE.split_once('\n').unwrap();
    let row = |(m, kernel, us): &(u32, u32, u32)| {
        format!("gfx942,304,{m},64,128,torch.int8,{kernel},0,{us}.0,kernel,0,0,0.0\n")
    };
    format!("{header}\n{}", rows.iter().map(row).collect::<String>())
}

#[test]
fn a_row_that_is_not_built_goes_alone() {
    let machine = Machine::new();
    let fix = ["--json", "--turns", "6", "--fix"];
    let good = [(1, 1, 400), (2, 1, 410), (4, 1, 450)];
    write(machine.folder.path(), "a8w8_tuned_gemm.csv", &file_of(&[&good[..], &[(8, 999, 1)]].concat()));
    let report = json(&expect(&mut machine.verify(&[], &fix), 0));
    assert_eq!(verdicts(&report), ["faster", "faster", "tied", "fails"]);
    let reason = |at: usize| report[0]["rows"][at]["reason"].as_str().unwrap();
    assert!(reason(0).starts_with("timed by its row alone; with the others: "), "{report}");
    assert!(reason(3).contains("build module_gemm_a8w8 failed"), "{report}");
    assert_eq!(read(&machine.file()), file_of(&good));
    // Where none is built, it may be that here nothing is.
    for bad in [&[(8, 999, 1)][..], &[(1, 999, 1), (2, 999, 1), (4, 999, 1)]] {
        write(machine.folder.path(), "a8w8_tuned_gemm.csv", &file_of(bad));
        let told = text(&expect(&mut machine.verify(&[], &fix), 1).stderr);
        assert!(told.contains("nothing runs with any of its rows, and nothing is known of them: "), "{told}");
        assert_eq!(read(&machine.file()), file_of(bad));
    }
    // What is built one by one, and not together, is no row's own fault.
    let both = file_of(&[(1, 997, 500), (2, 998, 500)]);
    write(machine.folder.path(), "a8w8_tuned_gemm.csv", &both);
    let report = json(&expect(&mut machine.verify(&[], &fix), 1));
    assert_eq!(verdicts(&report), ["unknown", "unknown"]);
    assert_eq!(read(&machine.file()), both);
}

#[test]
fn without_a_row_aiter_takes_that_of_more_rows() {
    let machine = Machine::new();
    let fix = |rows: &[(u32, u32, u32)], code| {
        write(machine.folder.path(), "a8w8_tuned_gemm.csv", &file_of(rows));
        let report = json(&expect(&mut machine.verify(&[], &["--json", "--turns", "6", "--fix"]), code));
        let reason = report[0]["rows"][0]["reason"].as_str().map(str::to_string);
        (verdicts(&report), read(&machine.file()), reason)
    };
    // aiter's own choice takes 450.
    let (found, left, _) = fix(&[(12, 1, 430), (16, 1, 400)], 0);
    assert_eq!((found, left), (vec!["slower".to_string(), "faster".to_string()], file_of(&[(16, 1, 400)])));
    let (found, left, _) = fix(&[(12, 1, 500), (16, 1, 600)], 0);
    assert_eq!((found, left), (vec!["faster".to_string(), "slower".to_string()], file_of(&[(12, 1, 500)])));
    // Against what is there without both nothing was timed.
    let (found, left, reason) = fix(&[(12, 1, 700), (16, 1, 600)], 1);
    assert_eq!((found, left), (vec!["slower".to_string(); 2], file_of(&[(12, 1, 700)])));
    let reason = reason.unwrap();
    assert!(reason.starts_with("aiter takes the row of 16 in its place, which loses too"), "{reason}");
    assert_eq!(fix(&[(12, 1, 700)], 0).1, file_of(&[]));
}

#[test]
fn rows_stay_where_the_default_does_not_run() {
    let fault = |fault: &str, code| {
        let machine = Machine::new();
        let arguments = ["--json", "--turns", "6", "--fix"];
        let report = json(&expect(&mut machine.verify(&[("STAND_IN_FAULTS", fault)], &arguments), code));
        let reason = report[0]["rows"][1]["reason"].as_str().unwrap().to_string();
        assert_eq!(read(&machine.file()), FILE, "{fault}: nothing is better");
        (verdicts(&report), reason)
    };
    let (verdicts, reason) = fault("bare-mismatch:M=2", 0);
    assert_eq!(verdicts, ["faster", "faster", "tied", "unknown"]);
    assert_eq!(reason, "without it: mismatch: err_ratio=0.5(>--errRatio=0.05)");
    let (verdicts, reason) = fault("bare-mismatch:M=2@twice", 0);
    assert_eq!(verdicts, ["faster", "unknown", "tied", "unknown"]);
    assert!(reason.starts_with("without it: 2 of 6 processes failed: mismatch"), "{reason}");
    let (verdicts, reason) = fault("mismatch:M=2,bare-mismatch:M=2", 0);
    assert_eq!(verdicts, ["faster", "unknown", "tied", "unknown"]);
    assert!(reason.starts_with("no side runs: mismatch"), "{reason}");
}

#[test]
fn tables_with_long_logs_between_their_rows_are_read_whole() {
    let machine = Machine::new();
    let (header, _) = FILE.split_once('\n').unwrap();
    let rows: String = (1..=20).map(|n| format!("gfx942,304,1,{n},128,torch.int8,1,0,400.0,fast,0,0,0.0\n")).collect();
    let file = format!("{header}\n{rows}");
    write(machine.folder.path(), "a8w8_tuned_gemm.csv", &file);
    let output = expect(&mut machine.verify(&[("STAND_IN_LOG", "1600")], &["--json", "--turns", "6", "--fix"]), 0);
    assert_eq!(verdicts(&json(&output)), ["faster"; 20]);
    assert_eq!(read(&machine.file()), file);
    // Sides without a table of their own are one process a turn.
    assert_eq!(read(&machine.folder.path().join("state/turns")).len(), 2 * 6);
}

#[test]
fn all_rows_of_a_shape_that_loses_go() {
    let machine = Machine::new();
    let file = FILE
        .replace(",2,0,1.0,again", ",1,0,400.0,fast")
        .replace("304,1,64,128,torch.int8,1,0,400.0", "304,2,64,128,torch.int8,2,0,480.0");
    write(machine.folder.path(), "a8w8_tuned_gemm.csv", &file);
    let output = expect(&mut machine.verify(&[], &["--json", "--turns", "6", "--fix"]), 0);
    let report = json(&output);
    let rows = report[0]["rows"].as_array().unwrap();
    let gone = rows.iter().filter(|row| row["replaced_by"].is_string()).count();
    let left = read(&machine.file()).lines().count();
    assert_eq!((gone, left), (3, 3), "{report}");
    assert!(text(&output.stderr).contains("3 rows replaced"));
}

#[test]
fn what_can_not_be_judged_is_one_error() {
    let machine = Machine::new();
    let ends = |code, command: &mut Command| text(&expect(command, code).stderr);
    let none = ends(1, &mut machine.verify(&[], &["--gpu", "gfx90a-104"]));
    assert!(none.contains("found no row for gfx90a-104 among 5, expected some"), "{none}");
    for gpu in ["h100", "host"] {
        let other = ends(2, &mut machine.verify(&[], &["--gpu", gpu]));
        assert!(other.contains("expected a GPU of AMD's, such as gfx942-304"), "{gpu}: {other}");
    }
    for flag in [["--device", "gpu:5"], ["--state", "x.db"]] {
        let told = ends(2, &mut machine.verify(&[], &flag));
        let expected =
            format!("{}: found a file of aiter's, expected files whose rows bluefin launches itself", flag[0]);
        assert!(told.contains(&expected), "{told}");
    }
    assert!(ends(2, &mut machine.verify(&[], &["--limit", "0s"])).contains("expected some time"));
    write(machine.folder.path(), "E=8,N=7168,device_name=X.json", "{}");
    let mut layer = bluefin();
    layer.current_dir(machine.folder.path()).args(["verify", "E=8,N=7168,device_name=X.json", "--turns", "9"]);
    assert!(ends(2, &mut layer).contains("--turns: found a config file of vLLM or SGLang, expected a file of aiter's"));
    let retune = ends(2, &mut machine.verify(&[], &["--retune"]));
    assert!(retune.contains("--retune: found a file of aiter's, expected another one"), "{retune}");
    let hidden = ends(2, &mut machine.verify(&[], &["--hidden", "64"]));
    assert!(hidden.contains("--hidden: found a file of aiter's, expected a config file of vLLM or SGLang"), "{hidden}");
    write(&machine.folder.path().join("aiter/aiter/jit"), "core.py", "nothing\n");
    let old = ends(1, &mut machine.verify(&[], &[]));
    assert!(old.contains("found no variable for files of a8w8_tuned_gemm"), "{old}");
    write(machine.folder.path(), "a8w8_tuned_gemm.csv", "M,N,K\n1,2,3\n");
    let untuned = ends(1, &mut machine.verify(&[], &[]));
    assert!(untuned.contains("expected a tuned file of a family"), "{untuned}");
}
