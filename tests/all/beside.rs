//! Triton's matrix product beside bluefin's own (`--with triton`), with the Python that BLUEFIN_TEST_PYTHON names: candidates of both are
//! executed for AMD's GPUs, checked by one reference, and meet in one play-off.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use bluefin_adapters::sqlite::SqliteStore;
use bluefin_common::session::Stage;
use bluefin_common::store::Work as _;
use bluefin_test_support::hip::HipMachine;
use bluefin_test_support::{triton_python, wait_until};
use rustix::process::Signal;
use serde_json::Value;

use crate::common::fleet::on_servers;
use crate::common::{Running, bluefin, expect, json, text, write};

/// Both orders of operands, both layouts, and a sum that is cut into parts.
const PRODUCTS: &str =
    "gemmfp16 -m 33 -n 40 -k 48 -v 1\ngemmbfp16 -m 24 -n 37 -k 20 -u 1 -C 1 -b 3\ngemm -m 20 -n 24 -k 1056 -b 2\n";

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
#[tokio::test]
async fn both_meet_in_one_play_off_here() {
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

    // Play-offs whose code is gone are compiled again, by both compilers in one job.
    let store = SqliteStore::open(&state).await.unwrap();
    let session = "it".parse().unwrap();
    let outcomes = store.outcomes(&session, &store.groups(&session).await.unwrap()).await.unwrap();
    for outcome in outcomes.iter().filter(|outcome| outcome.job.stage == Stage::Find) {
        assert!(store.retract_outcome(outcome).await.unwrap());
    }
    drop(store);
    rusqlite::Connection::open(&state)
        .unwrap()
        .execute_batch("DELETE FROM cache; UPDATE cache_total SET size = 0")
        .unwrap();
    expect(&mut bench.tune(&[]), 0);
    let rows = text(&expect(&mut results, 0).stdout);
    met(&results, &rows, &bench.machine.folder().join("out"));
    // What is shown at 80 columns names one winner a problem.
    let shown = text(&expect(&mut bench.tune(&[]), 0).stdout);
    assert_eq!(shown.lines().filter(|line| line.starts_with("gemm ")).count(), 3, "{shown}");
}

/// Types of a, b and c that bluefin's own kernels do not have, right on a GPU that has them.
#[test]
fn other_types_are_tritons_alone() {
    let Some(bench) = Bench::new() else { return };
    let types = "gemmfp8 -m 20 -n 17 -k 33\ngemmbfp8 -m 20 -n 17 -k 33 -u 1 -C 1 --b_type FP8 --c_type FP16\n\
        gemmint8 -m 20 -n 17 -k 33 -v 1 -b 2\ngemmfp16 -m 20 -n 17 -k 33 -C 1 --c_type FP32\n";
    write(bench.machine.folder(), "types.txt", types);
    let check = ["check", "types.txt", "--with", "triton", "--target", "gfx942", "--budget", "2", "--json"];
    let checked = json(&expect(&mut bench.bluefin(&check), 0));
    let checked = checked["candidates"].as_array().unwrap();
    let problems: BTreeSet<&str> = checked.iter().map(|one| one["problem"].as_str().unwrap()).collect();
    assert_eq!((problems.len(), checked.len()), (4, 8), "{checked:#?}");
    assert!(checked.iter().all(|one| one["solver"] == "TritonGemm"), "{checked:#?}");
    let mut without = bench.bluefin(&["check", "types.txt", "--target", "gfx942", "--json"]);
    let without = text(&expect(&mut without, 1).stderr);
    assert!(without.contains("gemm-gpu"), "{without}");
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
    let _alone = fleet.worker(&["compile-worker", "--toolchain", "clang"]);
    let expected = "jobs wait in bluefin.compile.clang+triton.gfx90a-104, and no worker takes from it";
    wait_until(Duration::from_secs(60), "a word on what is missing", || {
        fleet.told("it")["why"].to_string().contains(expected)
    });
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
    assert_eq!(again["enqueued"], 0, "{again:#}");
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

/// Kernels of both languages for one problem of a user's own.
const TWICE: &str = r#"
name = "twice"
problem = "kernel"
toolchain = "clang"
targets = ["amd", "nvidia"]
source = "twice.hip"
flags = ["-ffast-math"]
reference = "Twice"
[sizes]
n = 300
[defines]
FACTOR = 2
[beside]
toolchain = "triton"
source = "twice.py"
[[buffer]]
name = "x"
type = "FP32"
length = "n"
role = "input"
[[buffer]]
name = "y"
type = "FP32"
length = "n"
role = "output"
[tolerance.FP32]
absolute = 0.0
relative = 0.0
[[solver]]
name = "Twice"
algorithm = "Direct"
[[solver.param]]
name = "BLOCK"
values = [64, 128]
default = 64
[[solver.launch]]
entry = "twice"
arguments = ["x", "y", { i32 = "n" }]
grid = ["ceil_div(n, BLOCK)"]
block = ["BLOCK"]
[[solver]]
name = "TwiceInTriton"
toolchain = "triton"
algorithm = "Direct"
[[solver.param]]
name = "BLOCK"
values = [64, 128]
default = 64
[[solver.launch]]
entry = "twice"
arguments = ["x", "y", { i32 = "n" }]
grid = ["ceil_div(n, BLOCK)"]
"#;

const TWICE_HIP: &str = "#include <hip/hip_runtime.h>
__global__ void twice(const float *x, float *y, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) y[i] = FACTOR * x[i];
}
";

const TWICE_PY: &str = "import triton
import triton.language as tl


@triton.jit
def twice(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)
";

/// The winner is written as what it is.
#[test]
fn kernels_of_ones_own_meet_as_well() {
    let Some(bench) = Bench::new() else { return };
    for (name, text) in [("twice.toml", TWICE), ("twice.hip", TWICE_HIP), ("twice.py", TWICE_PY)] {
        write(bench.machine.folder(), name, text);
    }
    let check = ["check", "--kernel", "twice.toml", "--target", "gfx90a", "--json"];
    let checked = json(&expect(&mut bench.bluefin(&check), 0));
    let solvers: BTreeSet<&str> =
        checked["candidates"].as_array().unwrap().iter().map(|one| one["solver"].as_str().unwrap()).collect();
    assert_eq!(solvers, BTreeSet::from(["Twice", "TwiceInTriton"]), "{checked:#}");
    // What loses is slow for a reason that everybody sees.
    let slow_hip =
        TWICE_HIP.replace("if (i < n) ", "for (int again = 0; again < 999; again++) __syncthreads();\n    if (i < n) ");
    let slow_py = TWICE_PY.replace(
        "    tl.store",
        "    for again in range(0, n):\n        tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)\n    tl.store",
    );
    for (slow, text, winner, written) in [
        ("twice.py", slow_py, "Twice", ["twice.h", "winners.json"]),
        ("twice.hip", slow_hip, "TwiceInTriton", ["triton.json", "winners.json"]),
    ] {
        write(bench.machine.folder(), "twice.hip", TWICE_HIP);
        write(bench.machine.folder(), "twice.py", TWICE_PY);
        write(bench.machine.folder(), slow, &text);
        let tune =
            ["tune", "--kernel", "twice.toml", "--device", "gpu", "--state", winner, "--out", written[0], "--json"];
        let tuned = json(&expect(&mut bench.bluefin(&tune), 0));
        assert_eq!(tuned["problems"][0]["winner"]["solver"], winner, "{tuned:#}");
        let files = crate::common::files(&bench.machine.folder().join(written[0]));
        let told: Vec<&str> =
            ["triton.json", "twice.h", "winners.json"].into_iter().filter(|name| files.contains_key(*name)).collect();
        assert_eq!(told, written, "{winner}");
    }
}
