//! GPUs through HIP, from the loader to a fleet's outcomes, on machines that have none: see tests/hip-stand-in.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bluefin_test_support::hip::{Code, Effect, Fault, HipMachine};
use bluefin_test_support::{Redis, RedisOptions, Vhost, wait_until};
use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::common::fleet::Fleet;
use crate::common::{Running, bluefin, expect, files, json, text};

const PATIENCE: Duration = Duration::from_secs(120);

/// What `bluefin devices` says of HIP: its GPUs, and why there are no others.
fn devices(machine: &HipMachine, library: Option<&Path>) -> (Vec<Value>, Vec<String>) {
    let mut command = bluefin();
    // Where test runners let the loader find the stand-in, whatever library is named.
    command.env_remove("LD_LIBRARY_PATH");
    command.envs(machine.environment()).args(["devices", "--json"]);
    command.envs(library.map(|library| ("BLUEFIN_HIP_LIBRARY", library)));
    let output = command.output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    let found = json(&output);
    let gpus = found["gpus"].as_array().unwrap().iter();
    let notes = found["notes"].as_array().unwrap().iter().filter_map(Value::as_str);
    (
        gpus.filter(|gpu| gpu["device"].as_str().unwrap().starts_with("hip:")).cloned().collect(),
        notes.filter(|note| note.starts_with("hip:")).map(str::to_string).collect(),
    )
}

#[test]
fn each_reason_why_there_is_no_gpu_is_one_plain_line() {
    let machine = HipMachine::new("gfx90a-104");
    let path = |library: &Path| library.display().to_string();

    let absent = machine.folder().join("libabsent.so");
    let lacking = machine.library_without("hipModuleLaunchKernel");
    let text = machine.folder().join("libtext.so");
    std::fs::write(&text, "no library").unwrap();
    for (library, reason) in [
        (&absent, "cannot open shared object file"),
        (&lacking, "lacks hipModuleLaunchKernel"),
        (&text, "file too short"),
    ] {
        let (gpus, notes) = devices(&machine, Some(library));
        let lines: Vec<&String> = notes.iter().filter(|note| note.contains(&path(library))).collect();
        assert!(gpus.is_empty() && lines.len() == 1 && lines[0].contains(reason), "{reason}: {notes:?}");
    }

    for (fault, reason) in [
        (Fault::call("hipInit", Effect::Error(Code::NOT_INITIALIZED)), "init: hipErrorNotInitialized"),
        (Fault::call("hipGetDeviceCount", Effect::Error(Code::UNKNOWN)), "hipErrorUnknown"),
        (Fault::lost(0), "hipErrorNoDevice"),
    ] {
        machine.set_faults(&[fault]);
        let (gpus, notes) = devices(&machine, None);
        let lines = notes.iter().filter(|note| note.contains(reason)).count();
        assert!(gpus.is_empty() && lines == 1, "{reason}: {notes:?}");
    }

    let (gpus, notes) = devices(&HipMachine::new(""), None);
    assert!(gpus.is_empty() && notes.iter().any(|note| note.contains("it finds no device")), "{notes:?}");
}

/// A virtual host, two Redis servers, a fleet around them, and a worker that compiles for the stand-in.
fn fleet() -> (Fleet, Running, Vhost, Redis, Redis) {
    let vhost = Vhost::fresh();
    let redis = Redis::start(RedisOptions::DURABLE);
    let cache = Redis::start(RedisOptions::cache(64 << 20));
    let fleet = Fleet::new(vhost.url(), redis.url(), cache.url());
    let clang = kernels().join("clang-for-stand-in").into_os_string();
    let compile = fleet.worker_with(&["compile-worker", "--toolchain", "clang"], [("BLUEFIN_CLANG", clang)]);
    (fleet, compile, vhost, redis, cache)
}

fn kernels() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels")
}

/// So many problems for a `gfx90a-104`.
fn enqueue(fleet: &Fleet, problems: u32) {
    let mut enqueue = fleet.bluefin(&["enqueue", "--session", "gpus", "--target", "gfx90a-104", "--budget", "4"]);
    enqueue.arg("--kernel").arg(kernels().join("stand_in.toml"));
    for problem in 1..=problems {
        enqueue.arg("--size").arg(format!("n={}", problem * 10_000));
    }
    expect(&mut enqueue, 0);
}

fn eval_worker(fleet: &Fleet, machine: &HipMachine, arguments: &[&str]) -> Running {
    let arguments = [&["eval-worker", "--sample-budget", "20ms"], arguments].concat();
    fleet.worker_with(&arguments, machine.environment())
}

/// How often a GPU was taken into service.
fn served(fleet: &Fleet) -> usize {
    fleet.logged().lines().filter(|line| line.contains("evaluating") && line.contains("gfx90a-104")).count()
}

#[test]
fn two_gpus_serve_a_fleet() {
    let (fleet, _compile, _vhost, _redis, _cache) = fleet();
    let machine = HipMachine::new("gfx90a-104,gfx90a-104");
    // Nothing goes wrong, but it is counted.
    let uses = [0, 1].map(|gpu| Fault::kernel("*", Effect::Slow(0.0)).on(gpu));
    machine.set_faults(&uses);
    let eval = eval_worker(&fleet, &machine, &[]);
    wait_until(PATIENCE, "both GPUs to be served", || served(&fleet) == 2);
    enqueue(&fleet, 8);
    fleet.wait_complete("gpus", PATIENCE);
    let status = fleet.told("gpus");
    assert!(status["candidates"]["failed"].is_null(), "{status:#}\n{}", fleet.logged());
    assert!(uses.iter().all(|uses| machine.hits(uses) > 0), "both had work");
    let out = files(&fleet.export("gpus", "out"));
    assert!(out.contains_key("winners.json"), "{:?}", out.keys());
    eval.signal(Signal::TERM);
    assert_eq!(eval.wait(Duration::from_secs(60)), Some(0), "{}", fleet.logged());
}

#[test]
fn a_lost_gpu_costs_no_job_and_comes_back() {
    let (fleet, _compile, _vhost, _redis, _cache) = fleet();
    let machine = HipMachine::new("gfx90a-104,gfx90a-104");
    let eval = eval_worker(&fleet, &machine, &["--reprobe", "300ms"]);
    wait_until(PATIENCE, "both GPUs to be served", || served(&fleet) == 2);
    let lost = Fault::lost(1);
    machine.set_faults(std::slice::from_ref(&lost));
    enqueue(&fleet, 8);
    fleet.wait_complete("gpus", PATIENCE);
    let status = fleet.told("gpus");
    assert!(status["candidates"]["failed"].is_null(), "{status:#}\n{}", fleet.logged());
    assert!(machine.hits(&lost) > 0, "it was in use");
    wait_until(PATIENCE, "the quarantine", || fleet.logged().contains("is quarantined"));
    machine.set_faults(&[]);
    wait_until(PATIENCE, "the GPU to be served again", || served(&fleet) == 3);
    eval.signal(Signal::TERM);
    assert_eq!(eval.wait(Duration::from_secs(60)), Some(0), "{}", fleet.logged());
}

/// The processes of one GPU of the machine. Nobody but root sees what they see.
fn children_of(machine: &HipMachine, gpu: usize) -> Vec<Pid> {
    let (own, uuid) = (machine.folder().as_os_str().as_encoded_bytes(), format!("={}", machine.uuid(gpu)));
    let is_its = |process: &Path| {
        let read = |file| std::fs::read(process.join(file)).unwrap_or_default();
        let (command, environment) = (read("cmdline"), read("environ"));
        let sees = |what: &[u8]| environment.windows(what.len()).any(|part| part == what);
        text(&command).contains("eval-child") && sees(own) && sees(uuid.as_bytes())
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| is_its(&entry.path()));
    processes.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// One is lost, one runs no kernel to its end any more, the processes of one are killed again and again, one is slow: the other four do
/// the work, and nothing is the fault of a candidate.
#[test]
fn one_gpu_of_eight_costs_its_own_share_alone() {
    let (fleet, _compile, _vhost, _redis, _cache) = fleet();
    let machine = HipMachine::new(&["gfx90a-104"; 8].join(","));
    let uses: Vec<Fault> = (0..8).map(|gpu| Fault::kernel("*", Effect::Slow(0.0)).on(gpu)).collect();
    machine.set_faults(&uses);
    let eval = eval_worker(&fleet, &machine, &["--reprobe", "2s", "--deadline", "1s"]);
    wait_until(PATIENCE, "all GPUs to be served", || served(&fleet) == 8);
    enqueue(&fleet, 16);
    fleet.wait_complete("gpus", PATIENCE);
    assert!(uses.iter().all(|uses| machine.hits(uses) > 0), "all had work");

    let hangs = Fault::kernel("*", Effect::Hang).on(5);
    let slow = Fault::kernel("*", Effect::Slow(20.0)).on(7);
    let sound = [0, 1, 3, 4].map(|gpu| Fault::kernel("*", Effect::Slow(0.1)).on(gpu));
    machine.set_faults(&[&[Fault::lost(2), hangs.clone(), slow], &sound[..]].concat());
    enqueue(&fleet, 48);
    let mut killed = 0;
    wait_until(PATIENCE, "the session to complete", || {
        for child in children_of(&machine, 6) {
            killed += usize::from(rustix::process::kill_process(child, Signal::KILL).is_ok());
        }
        fleet.status("gpus").is_some_and(|status| status["complete"] == true)
    });
    let status = fleet.told("gpus");
    assert!(status["candidates"]["failed"].is_null(), "{status:#}\n{}", fleet.logged());
    assert!(sound.iter().chain([&hangs]).all(|uses| machine.hits(uses) > 0), "all had work");
    assert!(killed > 0 || !rustix::process::geteuid().is_root());
    let no_more = "the device no longer does what it did before: killed after";
    wait_until(PATIENCE, "the quarantine", || fleet.logged().contains(no_more));
    eval.signal(Signal::TERM);
    eval.wait(Duration::from_secs(60));
}

/// What was compiled for two GPUs is timed on the one that is named, and on none of another target.
#[test]
fn what_was_compiled_is_evaluated_on_the_devices_that_are_named() {
    let machine = HipMachine::new("gfx90a-104,gfx90a-104");
    let uses = [0, 1].map(|gpu| Fault::kernel("*", Effect::Slow(0.0)).on(gpu));
    machine.set_faults(&uses);
    let tune = |arguments: &[&str]| {
        let mut command = bluefin();
        command.current_dir(machine.folder()).envs(machine.environment());
        command.env("BLUEFIN_CLANG", kernels().join("clang-for-stand-in"));
        command.arg("tune").args(arguments);
        command
    };
    let kernel = kernels().join("stand_in.toml").display().to_string();
    let compile = ["--kernel", &kernel, "--size", "n=10000", "--budget", "4", "--device", "gpu", "--stage", "compile"];
    expect(&mut tune(&compile), 0);
    let other = expect(&mut tune(&["--stage", "eval", "--device", "host"]), 1);
    let said = text(&other.stderr);
    assert!(said.contains("found a device of host") && said.contains("expected gfx90a-104"), "{said}");
    expect(&mut tune(&["--stage", "eval", "--device", "1"]), 0);
    assert_eq!(uses.each_ref().map(|uses| machine.hits(uses) > 0), [false, true]);
}

/// A gfx942 whose code is executed.
fn executed() -> (HipMachine, impl Fn(&[&str]) -> std::process::Command) {
    let machine = HipMachine::new("gfx942-304");
    let (folder, environment) = (machine.folder().to_path_buf(), machine.environment());
    let tune = move |arguments: &[&str]| {
        let mut command = bluefin();
        command.current_dir(&folder).envs(environment.clone()).env("BLUEFIN_STANDIN_BACKEND", "executed");
        // Too little for what evicts its Infinity Cache, so that nobody writes half a gigabyte again and again.
        command.env("BLUEFIN_STANDIN_MEMORY", (64 << 20).to_string());
        command.args(["tune", "--device", "gpu", "--json"]).args(arguments);
        command
    };
    (machine, tune)
}

/// Real compilers, real code, all of HIP's calls, the play-off and the databases. Its times are counts of instructions.
#[test]
fn a_campaign_with_code_for_a_gfx942_ends_in_databases_that_hold_it() {
    let (machine, tune) = executed();
    std::fs::write(
        machine.folder().join("problems.txt"),
        "convfp16 -n 1 -c 5 -H 6 -W 7 -k 9 -y 3 -x 3 -p 1 -q 1 -F 1\n",
    )
    .unwrap();
    let tuned = json(&expect(&mut tune(&["problems.txt", "--budget", "1"]), 0));
    let winner = &tuned["problems"][0]["winner"];
    assert!(winner["median_ms"].as_f64().unwrap() > 0.01, "{tuned:#}");
    assert_eq!(tuned["problems"][0]["failed"], serde_json::json!({}), "{tuned:#}");
    let out = machine.folder().join("out");
    let files = files(&out);
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    assert_eq!(names, ["gfx942130.HIP.fdb.txt", "gfx942130.db", "gfx942130.db.txt", "gfx942130.kdb", "winners.json"]);
    for name in &names[..4] {
        expect(bluefin().args(["db", "check", "--allow", "own-solver"]).arg(out.join(name)), 0);
    }
    // A second run finds everything done.
    let again = expect(&mut tune(&["problems.txt", "--budget", "1"]), 0);
    assert!(text(&again.stderr).contains("nothing to do"), "{again:?}");
}

#[test]
fn an_address_that_nobody_has_is_the_devices_error() {
    let (machine, tune) = executed();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let source = std::fs::read_to_string(examples.join("row_sums.hip")).unwrap();
    let (from, to) = ("sum += row[column];", "sum += row[column + (UNROLL == 4 ? 0 : 1 << 30)];");
    assert!(source.contains(from));
    std::fs::write(machine.folder().join("row_sums.hip"), source.replace(from, to)).unwrap();
    std::fs::copy(examples.join("row_sums.toml"), machine.folder().join("row_sums.toml")).unwrap();
    let tuned =
        json(&expect(&mut tune(&["--kernel", "row_sums.toml", "--size", "rows=3,columns=70", "--budget", "4"]), 0));
    let problem = &tuned["problems"][0];
    // Each cost its child and nothing else.
    assert!(problem["winner"].is_object() && problem["failed"]["fault"].as_u64().unwrap() >= 1, "{tuned:#}");
}
