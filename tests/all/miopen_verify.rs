//! `bluefin verify` of MIOpen's databases, find dbs here, with a stand-in for MIOpenDriver that fails in the ways in which it fails.

mod perfs;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bluefin_common::problem::{Direction, Problem, driver};
use bluefin_eval_worker::GpuLock;
use bluefin_miopen::key::FindDbKey;
use bluefin_stand_ins::{Registered, program, solvers, wrap};
use bluefin_test_support::hip::HipMachine;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

use crate::common::{bluefin, expect, json, other, text, write};

const SYSTEM: &str = "gfx90a68.HIP.fdb.txt";
const GPU: [&str; 2] = ["--gpu", "gfx90a-104"];
const USER: &str = "gfx90a68.HIP.3_3_0_stand-in.ufdb.txt";

/// The key of a convolution of that many pictures, and the solvers that the stand-in has for it, the first of which it takes by itself.
fn convolution(n: u32) -> (String, Vec<Registered>) {
    let words = format!("conv -n {n} -c 64 -H 14 -W 14 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1");
    let problems = driver::parse(&words, None).unwrap();
    let [Problem::Conv(problem)] = &problems[..] else { panic!("{words}") };
    (
        FindDbKey::from(problem).to_string(),
        solvers().filter(|solver| solver.applies(Direction::Forward, [3, 3])).collect(),
    )
}

fn line(key: &str, solver: &Registered) -> String {
    let Registered { name, .. } = solver;
    format!("{key}={name}:{:.6},0,{}\n", solver.time_ms(key, ""), solver.algorithm_for(Direction::Forward))
}

/// Rows that are faster than the stand-in's own choice, slower, and that choice.
fn rows() -> [String; 3] {
    let mut found: BTreeMap<&str, String> = BTreeMap::new();
    for n in 1..64 {
        let (key, solvers) = convolution(n);
        let own = solvers[0].time_ms(&key, "");
        let wanted = [("faster", 0.0..0.8 * own), ("slower", 1.2 * own..9.0)];
        let free = wanted.into_iter().find(|(name, _)| !found.contains_key(name));
        let Some((name, range)) = free else {
            found.insert("same", line(&key, &solvers[0]));
            break;
        };
        if let Some(solver) = solvers.iter().find(|solver| range.contains(&solver.time_ms(&key, ""))) {
            found.insert(name, line(&key, solver));
        }
    }
    ["faster", "slower", "same"].map(|name| found.remove(name).unwrap())
}

struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), name, &rows().concat());
        Self { folder }
    }

    fn verify(&self, name: &str, variables: &[(&str, &str)], arguments: &[&str]) -> Command {
        let driver = wrap(self.folder.path(), &program("MIOpenDriver"), variables);
        let mut command = bluefin();
        command.current_dir(self.folder.path()).args(["verify", name, "--gpu", "gfx90a-104", "--turns", "6"]);
        command.arg("--miopen-driver").arg(driver).args(arguments);
        command
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn verdicts(report: &Value) -> Vec<String> {
    let rows = report[0]["rows"].as_array().unwrap();
    rows.iter().map(|row| row["verdict"].as_str().unwrap().to_string()).collect()
}

#[test]
fn rows_are_held_against_what_miopen_chooses_without_them() {
    for name in [SYSTEM, USER] {
        let machine = Machine::new(name);
        let calls = machine.path("calls");
        let output = expect(&mut machine.verify(name, &[("STAND_IN_CALLS", calls.to_str().unwrap())], &["--json"]), 1);
        let report = json(&output);
        assert_eq!(verdicts(&report), ["faster", "slower", "default"], "{name}");
        assert_eq!(
            std::fs::read_to_string(calls).unwrap().lines().count(),
            3 * 2 * 6,
            "a process for each side and turn"
        );
        assert_eq!(text(&output.stderr).contains("this name is believed"), name == USER, "nothing says its version");
        let told = text(&expect(&mut machine.verify(name, &[], &["--fix"]), 0).stdout);
        assert!(told.contains("; now no row, so that MIOpen chooses"), "{told}");
        let [faster, _, same] = rows();
        assert_eq!(
            std::fs::read_to_string(machine.path(name)).unwrap(),
            [faster, same].concat(),
            "all else keeps its bytes"
        );
    }
}

#[test]
fn the_rows_of_another_file_are_timed_as_well() {
    let machine = Machine::new(SYSTEM);
    let [faster, slower, _] = rows();
    let (key, _) = slower.split_once('=').unwrap();
    let (_, solvers) = convolution(1);
    let best = solvers.iter().min_by(|a, b| a.time_ms(key, "").total_cmp(&b.time_ms(key, ""))).unwrap();
    write(machine.folder.path(), "known.fdb.txt", &[line(key, best), faster].concat());
    let report = json(&expect(&mut machine.verify(SYSTEM, &[], &["--json", "--known", "known.fdb.txt"]), 1));
    let row = &report[0]["rows"][1];
    let known = row["known"]["median_ms"].as_f64().unwrap();
    assert!((known - best.time_ms(key, "")).abs() < 1e-5 && row["regret"].as_f64().unwrap() > 0.1, "{row}");
}

#[test]
fn what_fails_is_told_and_what_says_nothing_is_unknown() {
    let machine = Machine::new(SYSTEM);
    let with = |faults: &str, code| {
        json(&expect(&mut machine.verify(SYSTEM, &[("STAND_IN_FAULTS", faults)], &["--json", "--limit", "2s"]), code))
    };
    let report = with("crash/driver-row", 1);
    assert_eq!(verdicts(&report), ["fails"; 3]);
    let reason = report[0]["rows"][0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("MIOpenDriver told no time: killed by SIGABRT"), "{report}");
    assert_eq!(verdicts(&with("hang/driver-immediate", 1)), ["unknown"; 3]);
    let report = with("empty-output/driver-immediate", 1);
    assert_eq!(verdicts(&report), ["unknown"; 3]);
    let reason = report[0]["rows"][0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("MIOpenDriver told no time: exit code 0: "), "{reason}");
    assert_eq!(verdicts(&with("negative-time/driver-immediate", 1)), ["unknown"; 3]);

    let crash = [("STAND_IN_FAULTS", "crash/driver-immediate")];
    let none = text(&expect(&mut machine.verify(SYSTEM, &crash, &["--fix"]), 1).stderr);
    assert!(none.contains("nothing runs, with its rows or without: MIOpenDriver told no time: killed by"), "{none}");

    let name = "gfx942130.HIP.fdb.txt";
    std::fs::rename(machine.path(SYSTEM), machine.path(name)).unwrap();
    let other = text(&expect(&mut machine.verify(name, &[], &[]), 1).stderr);
    assert!(
        other.contains(
            "found the name gfx942130.HIP.fdb.txt, expected gfx90a68.HIP.fdb.txt or gfx90a68.HIP.<version>.ufdb.txt"
        ),
        "{other}"
    );
    let retune = text(&expect(&mut machine.verify(name, &[], &["--retune"]), 2).stderr);
    assert!(retune.contains("--retune: found a find db, expected another one"), "{retune}");
    write(machine.folder.path(), SYSTEM, "");
    let empty = text(&expect(&mut machine.verify(SYSTEM, &[], &[]), 1).stderr);
    assert!(empty.contains("found no row, expected some"), "{empty}");
}

#[test]
fn rows_stay_where_a_failure_is_the_machines_or_the_defaults() {
    let machine = Machine::new(SYSTEM);
    let read = || std::fs::read_to_string(machine.path(SYSTEM)).unwrap();
    let default = [("STAND_IN_FAULTS", "crash/driver-default")];
    let report = json(&expect(&mut machine.verify(SYSTEM, &default, &["--json", "--fix"]), 0));
    assert_eq!(verdicts(&report), ["faster"; 3]);
    let reason = report[0]["rows"][1]["reason"].as_str().unwrap();
    assert!(reason.starts_with("without it: MIOpenDriver told no time: killed by SIGABRT"), "{reason}");
    std::fs::create_dir(machine.path("state")).unwrap();
    let state = machine.path("state");
    let once = [("STAND_IN_FAULTS", "disk-io/driver-row"), ("STAND_IN_STATE", state.to_str().unwrap())];
    let report = json(&expect(&mut machine.verify(SYSTEM, &once, &["--json", "--fix"]), 1));
    assert_eq!(verdicts(&report), ["unknown"; 3]);
    let reason = report[0]["rows"][0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("1 of 6 processes failed: "), "{reason}");
    assert_eq!(read(), rows().concat());
}

#[test]
fn all_lines_of_a_key_are_one_row() {
    let machine = Machine::new(SYSTEM);
    let [faster, slower, same] = rows();
    let file = [&*slower, &faster, &slower, &same].concat();
    write(machine.folder.path(), SYSTEM, &file);
    let output = expect(&mut machine.verify(SYSTEM, &[], &["--json", "--fix"]), 0);
    assert_eq!(verdicts(&json(&output)), ["slower", "faster", "default"]);
    assert!(text(&output.stderr).contains("1 keys come twice: MIOpen takes the first"));
    assert_eq!(std::fs::read_to_string(machine.path(SYSTEM)).unwrap(), [faster, same].concat());
}

#[test]
fn a_known_row_is_a_line_of_its_own() {
    let machine = Machine::new(SYSTEM);
    let [faster, slower, same] = rows();
    write(machine.folder.path(), SYSTEM, [&*faster, &slower, &same].concat().trim_end());
    let (key, _) = slower.split_once('=').unwrap();
    let (_, solvers) = convolution(1);
    let best = solvers.iter().min_by(|a, b| a.time_ms(key, "").total_cmp(&b.time_ms(key, ""))).unwrap();
    write(machine.folder.path(), "known.fdb.txt", &line(key, best));
    let report = json(&expect(&mut machine.verify(SYSTEM, &[], &["--json", "--known", "known.fdb.txt"]), 1));
    let known = report[0]["rows"][1]["known"]["median_ms"].as_f64().unwrap();
    assert!((known - best.time_ms(key, "")).abs() < 1e-5, "{report}");
}

#[test]
fn processes_see_the_gpu_and_all_that_is_installed() {
    let machine = Machine::new(SYSTEM);
    let seen = machine.path("seen");
    let real = wrap(machine.folder.path(), &program("MIOpenDriver"), &[]);
    let script = format!(
        "#!/bin/sh\n(echo gpu $HIP_VISIBLE_DEVICES; ls \"$MIOPEN_SYSTEM_DB_PATH\") > '{}'\nexec '{}' \"$@\"\n",
        seen.display(),
        real.display()
    );
    let driver = machine.path("bin/seen");
    std::fs::write(&driver, script).unwrap();
    std::fs::set_permissions(&driver, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::create_dir_all(machine.path("share/miopen/db")).unwrap();
    for name in ["gfx90a68.db.txt", "gfx90a_metadata.tn.model", SYSTEM] {
        write(&machine.path("share/miopen/db"), name, "");
    }
    let command = |name: &str| {
        let mut command = bluefin();
        command.current_dir(machine.folder.path()).args(["verify", name, "--turns", "6"]);
        command.arg("--miopen-driver").arg(&driver).env("HIP_VISIBLE_DEVICES", "3");
        command.env("BLUEFIN_KFD_TOPOLOGY", machine.path("none"));
        command.env_remove("ROCR_VISIBLE_DEVICES").env_remove("CUDA_VISIBLE_DEVICES");
        command
    };
    let told = text(&expect(command(SYSTEM).args(GPU), 1).stderr);
    assert!(told.contains("MIOpen's other files are those of ") && told.contains("share/miopen/db"), "{told}");
    let found = std::fs::read_to_string(&seen).unwrap();
    let expected = ["gpu 3", "gfx90a68.HIP.fdb.txt", "gfx90a68.db.txt", "gfx90a_metadata.tn.model"];
    assert!(expected.iter().all(|line| found.lines().any(|other| other == *line)), "{found}");

    // What is found in the machine is shown, and counts more than what is said.
    let two = HipMachine::new("gfx942-304,gfx90a-104");
    let here = |gpu: &str, visible: &str| {
        let mut command = command(SYSTEM);
        command.envs(two.environment()).env("HIP_VISIBLE_DEVICES", visible).args(["--gpu", gpu]);
        command
    };
    let twice = |gpu: &str, visible: &str| text(&expect(&mut here(gpu, visible), 2).stderr);
    assert!(
        twice("gfx950-256", "")
            .contains("--gpu: found gfx950-256, expected one of this machine: gfx942-304, gfx90a-104")
    );
    assert!(twice("gfx90a-104", "0").contains("--gpu: found gfx90a-104, expected one of this machine: gfx942-304"));
    assert!(twice("gfx90a-104", "7").contains("HIP_VISIBLE_DEVICES: found 7, expected GPUs of this machine"));
    let other = text(&expect(here("gfx90a-104", "").env("CUDA_VISIBLE_DEVICES", "0"), 2).stderr);
    assert!(other.contains("--gpu: found gfx90a-104, expected one of this machine: gfx942-304"), "{other}");
    let none = text(&expect(here("gfx90a-104", "").env("CUDA_VISIBLE_DEVICES", "7"), 2).stderr);
    assert!(none.contains("CUDA_VISIBLE_DEVICES: found 7, expected GPUs of this machine"), "{none}");
    // Behind the runtime's own variable GPUs are counted anew.
    let second = two.uuid(1);
    expect(here("gfx90a-104", "0").env("ROCR_VISIBLE_DEVICES", &second), 1);
    assert!(std::fs::read_to_string(&seen).unwrap().starts_with(&format!("gpu {second}\n")));
    let below = text(&expect(here("gfx90a-104", "1").env("ROCR_VISIBLE_DEVICES", &second), 2).stderr);
    assert!(below.contains("HIP_VISIBLE_DEVICES: found 1, expected GPUs of this machine"), "{below}");
    let none = text(&expect(here("gfx90a-104", "").env("ROCR_VISIBLE_DEVICES", "7"), 2).stderr);
    assert!(none.contains("ROCR_VISIBLE_DEVICES: found 7, expected GPUs of this machine"), "{none}");
    expect(&mut here("gfx90a-104", ""), 1);
    let found = std::fs::read_to_string(&seen).unwrap();
    assert!(found.starts_with(&format!("gpu {}\n", two.uuid(1))), "{found}");

    // Of users' files MIOpen reads those of its version.
    std::fs::create_dir_all(machine.path("include/miopen")).unwrap();
    let version = |minor: u32| {
        let fields = format!("_MAJOR 3\n#define MIOPEN_VERSION_MINOR {minor}\n#define MIOPEN_VERSION_PATCH 0");
        let header = format!("#define MIOPEN_VERSION{fields}\n#define MIOPEN_VERSION_TWEAK stand-in\n");
        write(&machine.path("include/miopen"), "version.h", &header);
    };
    write(machine.folder.path(), USER, &rows().concat());
    version(4);
    let other = text(&expect(command(USER).args(GPU), 1).stderr);
    assert!(
        other.contains("expected gfx90a68.HIP.3_4_0_stand-in.ufdb.txt: MIOpen 3.4.0.stand-in reads no other"),
        "{other}"
    );
    version(3);
    assert!(text(&expect(command(USER).args(GPU), 1).stdout).contains("FASTER"));
}

#[tokio::test]
async fn a_gpu_that_others_work_on_is_waited_for_and_turns_are_told() {
    let (machine, gpu) = (Machine::new(SYSTEM), HipMachine::new("gfx90a-104"));
    let held = GpuLock::of(&gpu.uuid(0)).hold().await;
    let calls = machine.path("calls");
    let mut verify = machine.verify(SYSTEM, &[("STAND_IN_CALLS", calls.to_str().unwrap())], &["--json"]);
    verify.envs(gpu.environment());
    verify.env_remove("ROCR_VISIBLE_DEVICES").env_remove("HIP_VISIBLE_DEVICES").env_remove("CUDA_VISIBLE_DEVICES");
    let running = verify.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!calls.exists(), "nothing is launched beside other work");
    drop(held);
    let output = running.wait_with_output().unwrap();
    assert_eq!(verdicts(&json(&output)), ["faster", "slower", "default"]);
    let told = text(&output.stderr);
    let (key, _) = rows()[0].split_once('=').map(|(key, _)| (key.to_string(), ())).unwrap();
    assert!(told.contains(&format!("0 of 18 turns; turn 1 of 6: {key}\n")), "{told}");
}

/// A `verify` whose MIOpenDriver hangs, and the number of that process.
fn hanging(machine: &Machine, gpu: &HipMachine) -> (Child, Pid) {
    let (numbered, number) = (machine.path("bin/numbered"), machine.path("number"));
    let real = wrap(machine.folder.path(), &program("MIOpenDriver"), &[("STAND_IN_FAULTS", "hang/driver-immediate")]);
    let script = format!(
        "#!/bin/sh\necho $$ > '{0}.new'\nmv '{0}.new' '{0}'\nexec '{1}' \"$@\"\n",
        number.display(),
        real.display()
    );
    std::fs::write(&numbered, script).unwrap();
    std::fs::set_permissions(&numbered, std::fs::Permissions::from_mode(0o755)).unwrap();
    // Whoever runs the tests may ignore what is sent here.
    let mut verify = other(Path::new("env"));
    verify.arg("--default-signal=HUP").arg(bluefin().get_program());
    verify.current_dir(machine.folder.path()).args(["verify", SYSTEM, "--limit", "60s"]);
    verify.arg("--miopen-driver").arg(&numbered).envs(gpu.environment());
    verify.env_remove("ROCR_VISIBLE_DEVICES").env_remove("HIP_VISIBLE_DEVICES").env_remove("CUDA_VISIBLE_DEVICES");
    let running = verify.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let text = wait_for(|| std::fs::read_to_string(&number).ok());
    (running, Pid::from_raw(text.trim().parse().unwrap()).unwrap())
}

fn wait_for<T>(mut is_there: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(there) = is_there() {
            return there;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_hangup_ends_what_it_launched() {
    let (machine, gpu) = (Machine::new(SYSTEM), HipMachine::new("gfx90a-104"));
    let (running, driver) = hanging(&machine, &gpu);
    kill_process(Pid::from_child(&running), Signal::HUP).unwrap();
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(text(&output.stderr).contains("nothing is kept, and nothing was written"));
    wait_for(|| test_kill_process(driver).is_err().then_some(()));
}

#[test]
fn a_second_signal_ends_what_it_launched_as_well() {
    for second in [Signal::HUP, Signal::TERM] {
        let (machine, gpu) = (Machine::new(SYSTEM), HipMachine::new("gfx90a-104"));
        let (running, driver) = hanging(&machine, &gpu);
        // One behind the other, as a service manager sends them.
        [Signal::TERM, second].into_iter().for_each(|signal| {
            let _ = kill_process(Pid::from_child(&running), signal);
        });
        let output = running.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        wait_for(|| test_kill_process(driver).is_err().then_some(()));
    }
}

#[tokio::test]
async fn what_is_launched_keeps_the_gpu_when_verify_is_killed() {
    let (machine, gpu) = (Machine::new(SYSTEM), HipMachine::new("gfx90a-104"));
    let (mut running, driver) = hanging(&machine, &gpu);
    running.kill().unwrap();
    running.wait().unwrap();
    let lock = GpuLock::of(&gpu.uuid(0));
    let free = tokio::time::timeout(Duration::from_millis(500), lock.hold()).await;
    assert!(free.is_err(), "the process of MIOpenDriver works on it still");
    kill_process(driver, Signal::KILL).unwrap();
    tokio::time::timeout(Duration::from_secs(30), lock.hold()).await.unwrap();
}
