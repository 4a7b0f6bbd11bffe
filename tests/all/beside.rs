//! Triton's matrix product beside bluefin's own (`--with triton`), with the Python that BLUEFIN_TEST_PYTHON names: candidates of both are
//! executed for AMD's GPUs, checked by one reference, and meet in one play-off.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use bluefin_test_support::hip::HipMachine;
use bluefin_test_support::{triton_python, wait_until};
use rustix::process::Signal;
use serde_json::Value;

use crate::common::fleet::on_servers;
use crate::common::{Running, bluefin, expect, json, text, write};

/// Both orders of operands, both layouts, and a sum that is cut into parts.
const PRODUCTS: &str =
    "gemmfp16 -m 33 -n 40 -k 48 -v 1\ngemmbfp16 -m 24 -n 37 -k 20 -u 1 -C 1\ngemm -m 20 -n 24 -k 1056\n";

/// What an executed GPU has beside the machine's own environment.
fn executed() -> [(&'static str, OsString); 2] {
    [("BLUEFIN_STANDIN_BACKEND", "executed".into()), ("BLUEFIN_STANDIN_MEMORY", "67108864".into())]
}

/// A gfx90a in a folder with the problems; nothing on a machine without Triton.
struct Bench {
    python: OsString,
    machine: HipMachine,
}

impl Bench {
    fn new() -> Option<Self> {
        let bench = Self { python: triton_python()?, machine: HipMachine::new("gfx90a-104") };
        write(bench.machine.folder(), "products.txt", PRODUCTS);
        Some(bench)
    }

    fn bluefin(&self, arguments: &[&str]) -> Command {
        let mut command = bluefin();
        command.current_dir(self.machine.folder()).args(arguments).env("BLUEFIN_PYTHON", &self.python);
        command.envs(self.machine.environment()).envs(executed());
        command
    }

    fn tune(&self, more: &[&str]) -> Command {
        let tune = ["tune", "products.txt", "--with", "triton", "--device", "gpu", "--budget", "2", "--state", "s.db"];
        self.bluefin(&[&tune[..], &["--session", "it"], more].concat())
    }
}

/// Solvers by the problems of the rows of a stage, and how often each problem has a winner.
fn told(rows: &str, stage: &str) -> BTreeMap<String, (BTreeSet<String>, usize)> {
    let mut told: BTreeMap<String, (BTreeSet<String>, usize)> = BTreeMap::new();
    for row in rows.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        assert_eq!(row["failure"], Value::Null, "{row}");
        let (solvers, winners) = told.entry(row["problem"].as_str().unwrap().to_string()).or_default();
        if row["stage"] == stage {
            solvers.insert(row["solver"].as_str().unwrap().to_string());
            *winners += usize::from(row["winner"] == true);
        }
    }
    told
}

/// Each problem has one winner in `out`, and its play-off had candidates of both toolchains.
fn met(results: &Command, rows: &str, out: &Path) {
    let winners: Value = serde_json::from_slice(&std::fs::read(out.join("winners.json")).unwrap()).unwrap();
    let winners = winners["problems"].as_array().unwrap();
    let problems: BTreeSet<&str> = winners.iter().map(|one| one["problem"].as_str().unwrap()).collect();
    assert_eq!((winners.len(), problems.len()), (3, 3), "{winners:#?}");
    for winner in winners {
        assert!(winner["winner"]["median_ms"].as_f64().unwrap() > 0.0, "{winner:#}");
        assert_eq!(winner["failed"], serde_json::json!({}), "{winner:#}");
    }
    let finals = told(rows, "find");
    assert_eq!(finals.len(), 3, "{results:?}");
    for (problem, (solvers, winners)) in finals {
        assert_eq!(winners, 1, "{problem}: {solvers:?}");
        for solver in ["TritonGemm", "BluefinGemmGpuTiled", "BluefinGemmGpuReference"] {
            assert!(solvers.contains(solver), "{problem}: {solvers:?}");
        }
        assert_eq!(solvers.contains("TritonGemmSplit"), problem.contains("-k 1056"), "{problem}: {solvers:?}");
    }
}

/// Ended amid its work by a signal that it can not answer, it goes on; what is done is done.
#[test]
fn both_meet_in_one_play_off_here() {
    let Some(bench) = Bench::new() else { return };
    let mut killed = bench.tune(&[]);
    let running = Running::start(killed.stdout(Stdio::null()).stderr(Stdio::null()));
    let state = bench.machine.folder().join("s.db");
    let some_are_done = || {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let count = rusqlite::Connection::open_with_flags(&state, flags)
            .and_then(|state| state.query_row("SELECT count(*) FROM outcomes", [], |row| row.get::<_, i64>(0)));
        count.is_ok_and(|count| count > 2)
    };
    wait_until(Duration::from_secs(120), "some outcomes", some_are_done);
    running.signal(Signal::KILL);
    assert_eq!(running.wait(Duration::from_secs(60)), None);
    let tuned = json(&expect(&mut bench.tune(&["--json"]), 0));
    assert_eq!(tuned["problems"].as_array().unwrap().len(), 3, "{tuned:#}");
    let mut results = bench.bluefin(&["results", "--state", "s.db", "--session", "it", "--json"]);
    let rows = text(&expect(&mut results, 0).stdout);
    met(&results, &rows, &bench.machine.folder().join("out"));
    let again = text(&expect(&mut bench.tune(&[]), 0).stderr);
    assert!(again.contains("nothing to do"), "{again}");
    // What is shown at 80 columns names one winner a problem.
    let shown = text(&expect(&mut bench.tune(&[]), 0).stdout);
    assert_eq!(shown.lines().filter(|line| line.starts_with("gemm ")).count(), 3, "{shown}");
}

/// Compiled on one machine, timed on another.
#[test]
fn both_travel_in_a_state_file() {
    let Some(bench) = Bench::new() else { return };
    let mut compile = bench.tune(&["--stage", "compile"]);
    let said = text(&expect(&mut compile, 0).stderr);
    assert!(said.contains("compiled in"), "{said}");
    expect(&mut bench.bluefin(&["tune", "--state", "s.db", "--stage", "eval"]), 0);
    expect(&mut bench.bluefin(&["tune", "--state", "s.db", "--stage", "export"]), 0);
    let mut results = bench.bluefin(&["results", "--state", "s.db", "--json"]);
    let rows = text(&expect(&mut results, 0).stdout);
    met(&results, &rows, &bench.machine.folder().join("out"));
}

/// Jobs of both toolchains are for workers that have both: one that has clang alone leaves them.
#[test]
fn both_meet_in_a_fleet() {
    let Some(bench) = Bench::new() else { return };
    let (fleet, _vhost, _redis, _cache) = on_servers();
    write(fleet.folder.path(), "products.txt", PRODUCTS);
    let enqueue = ["enqueue", "products.txt", "--with", "triton", "--target", "gfx90a-104", "--budget", "2"];
    let enqueue = [&enqueue[..], &["--session", "it", "--search", "bayes", "--json"]].concat();
    let plan = json(&expect(&mut fleet.bluefin(&enqueue), 0));
    assert_eq!(plan["problems"], 3, "{plan:#}");
    let queues = fleet.told("it")["queues"].to_string();
    assert!(queues.contains("bluefin.compile.clang+triton.gfx90a-104"), "{queues}");
    let _alone = fleet.worker(&["compile-worker", "--toolchain", "clang"]);
    let _eval = fleet.worker_with(
        &["eval-worker", "--sample-budget", "20ms"],
        bench.machine.environment().into_iter().chain(executed()),
    );
    let python = [("BLUEFIN_PYTHON", bench.python.clone())];
    let _both = fleet.worker_with(&["compile-worker", "--toolchain", "clang,triton"], python);
    fleet.wait_complete("it", Duration::from_secs(120));
    let out = fleet.export("it", "out");
    let mut results = fleet.bluefin(&["results", "--session", "it", "--json"]);
    let rows = text(&expect(&mut results, 0).stdout);
    met(&results, &rows, &out);
    // The same again asks nothing of anybody.
    let again = json(&expect(&mut fleet.bluefin(&enqueue), 0));
    assert_eq!(again["published"], 0, "{again:#}");
}

/// What can not be asked is said before anything is done.
#[test]
fn what_has_no_kernels_beside_is_said() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "products.txt", PRODUCTS);
    write(folder.path(), "conv.txt", "conv -n 1 -c 8 -H 7 -W 7 -k 8 -y 1 -x 1 -F 1\n");
    for (arguments, expected) in [
        (
            &["tune", "products.txt", "--with", "triton", "--device", "host"][..],
            "--with triton: its kernels are for GPUs",
        ),
        (
            &["check", "conv.txt", "--with", "triton", "--target", "gfx90a"],
            "are for matrix products, and none is named",
        ),
        (&["tune", "products.txt", "--with", "triton", "--tuner", "fin"], "--with: has no effect on MIOpen's tools"),
        (&["check", "products.txt", "--with", "tritan", "--target", "gfx90a"], "tritan"),
    ] {
        let output = expect(bluefin().current_dir(folder.path()).args(arguments), 2);
        assert!(text(&output.stderr).contains(expected), "{arguments:?}: {}", text(&output.stderr));
    }
}
