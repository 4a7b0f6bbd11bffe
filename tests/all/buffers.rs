//! What buffers hold, for every toolchain: a reference that knows it, and candidates that read it and fault where a buffer that they
//! write is not as it was.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bluefin_test_support::hip::HipMachine;
use bluefin_test_support::triton_python;
use serde_json::Value;

use crate::common::fleet::on_servers;
use crate::common::{bluefin, expect, json, text, write};

const PATIENCE: Duration = Duration::from_secs(280);

/// Of the buffers `index` and `c`.
const N: usize = 200;

/// All of a spec but its head, its solvers' names and launches.
const BUFFERS: &str = r#"
reference = "Expected"
[[buffer]]
name = "x"
type = "FP16"
length = 200
role = "input"
low = 3
high = 3
[[buffer]]
name = "range"
type = "FP32"
length = 1000
role = "input"
low = -3.5
high = 2.5
[[buffer]]
name = "index"
type = "INT32"
length = 200
role = "input"
data = "index.bin.zst"
[[buffer]]
name = "u"
type = "UINT64"
length = 200
role = "input"
fill = 7
[[buffer]]
name = "b"
type = "BOOL"
length = 200
role = "input"
fill = 1
[[buffer]]
name = "c"
type = "FP32"
length = 200
role = "inout"
fill = 0.25
[[buffer]]
name = "out"
type = "FP32"
length = 200
role = "output"
[tolerance.FP32]
absolute = 0
relative = 0
"#;

/// `index[i]` is `i * i % 97`; `part` begins at element 100 of it.
const C: &str = r"
#ifndef BLOCK
KERNEL expected(float *c, float *out, int n) {
    FOR(i) {
        c[i] = 1.25f;
        out[i] = (float)(i * i % 97 + (i + 100 < n ? (i + 100) * (i + 100) % 97 : 0) + 1 + 1 + 7 + 1 + 1 + 3);
    }
}
#else
KERNEL found(const unsigned short *x, const float *range, const int *index, const int *part, const unsigned long *u,
             const unsigned char *b, float *c, float *out, int n, BOOLEAN yes, unsigned big, unsigned long bigger) {
    FOR(i) {
        int inside = 1, low = 0, high = 0;
        for (int j = 0; j < 1000; ++j) {
            inside = inside && range[j] >= -3.5f && range[j] <= 2.5f;
            low = low || range[j] < -3.4f;
            high = high || range[j] > 2.4f;
        }
        if (c[i] != 0.25f) FAULT(c);
        c[i] += 1;
        out[i] = (float)(index[i] + (i + 100 < n ? part[i] : 0) + (x[i] == 0x4200) + (inside && low && high) + (int)u[i] + b[i] +
                         (MODE == 1) + yes + (big == 4294967295u) + (bigger == 18446744073709551615ul));
    }
}
#endif
";

fn head(toolchain: &str, target: &str, source: &str, includes: &str) -> String {
    format!(
        "name = \"buffers\"\nproblem = \"kernel\"\ntoolchain = \"{toolchain}\"\ntargets = [\"{target}\"]\nsource = \"{source}\"\nincludes = [{includes}]\n"
    )
}

fn solvers(geometry: &str) -> String {
    format!(
        r#"
[[solver]]
name = "Expected"
algorithm = "Direct"
candidate = false
  [[solver.launch]]
  entry = "expected"
  arguments = ["c", "out", {{ i32 = 200 }}]
  {geometry}
[[solver]]
name = "Found"
algorithm = "Direct"
points = [{{ BLOCK = 64, MODE = true }}, {{ BLOCK = 1, MODE = true }}, {{ BLOCK = 64, MODE = true }}]
  [[solver.launch]]
  entry = "found"
  arguments = ["x", "range", "index", {{ buffer = "index", offset = "BLOCK * 0 + 100" }}, "u", "b", "c", "out", {{ i32 = 200 }}, {{ i1 = true }}, {{ u32 = 4294967295 }}, {{ u64 = "18446744073709551615" }}]
  {geometry}
"#
    )
}

/// Writes the spec, and the data beside it.
fn kernel(folder: &Path, spec: &str, source: (&str, &str)) {
    let index: Vec<u8> = (0..N as i32).flat_map(|i| (i * i % 97).to_le_bytes()).collect();
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("index.bin.zst"), zstd::encode_all(index.as_slice(), 3).unwrap()).unwrap();
    write(folder, "spec.toml", spec);
    write(folder, source.0, source.1);
}

/// Both points were right, and timed.
fn both_are_timed(run: impl Fn(&[&str]) -> Command, more: &[&str]) {
    let tuned =
        expect(run(&["tune", "--triton", "kernels", "--json", "--state", "state.db", "--out", "out"]).args(more), 0);
    let problem = &json(&tuned)["problems"][0];
    assert_eq!((&problem["tried"], problem["failed"].as_object().unwrap().len()), (&2.into(), 0), "{problem}");
    assert_eq!(problem["winner"]["solver"], "Found", "{problem}");
    assert_eq!(problem["winner"]["params"]["MODE"], true, "{problem}");
    let rows = expect(&mut run(&["results", "--state", "state.db", "--json"]), 0);
    assert!(!text(&rows.stdout).contains("not deterministic"), "{}", text(&rows.stdout));
}

fn in_folder(folder: &Path) -> impl Fn(&[&str]) -> Command {
    let folder = folder.to_path_buf();
    move |arguments| {
        let mut command = bluefin();
        command.current_dir(&folder).args(arguments);
        command
    }
}

#[test]
fn buffers_of_the_host_hold_what_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let source = format!(
        "#include <stdlib.h>\n#define KERNEL void\n#define BOOLEAN _Bool\n#define FOR(i) for (int i = 0; i < n; ++i)\n#define FAULT(c) abort()\n{C}"
    );
    let spec = [&head("cc", "host", "kernel.c", ""), BUFFERS, &solvers("")].concat();
    kernel(&folder.path().join("kernels/one"), &spec, ("kernel.c", &source));
    both_are_timed(in_folder(folder.path()), &[]);
    // Another data file is another kernel, and one of another size an error.
    std::fs::write(folder.path().join("kernels/one/index.bin.zst"), zstd::encode_all(&[0; 796][..], 3).unwrap())
        .unwrap();
    let wrong = expect(&mut in_folder(folder.path())(&["tune", "--triton", "kernels", "--state", "state.db"]), 1);
    let said = text(&wrong.stderr);
    assert!(said.contains("index.bin.zst: found 796 bytes, expected 800, which is 200 elements of INT32"), "{said}");
    let none = expect(&mut in_folder(folder.path())(&["tune", "--triton", "kernels/one"]), 2);
    assert!(text(&none.stderr).contains("--triton kernels/one: found no kernels"), "{none:?}");
}

#[test]
fn a_reference_that_differs_from_itself_is_said_to() {
    let folder = tempfile::tempdir().unwrap();
    let source = "#ifndef STEP\nvoid expected(float *out) { static int runs; out[0] = 8 + runs++ * 0.5f; out[1] = 3; }\n#else\n\
        void found(float *out) { out[0] = 8 + STEP; out[1] = 3; }\n#endif\n";
    let spec = head("cc", "host", "kernel.c", "")
        + "reference = \"Expected\"\n[[buffer]]\nname = \"out\"\ntype = \"FP32\"\nlength = 2\nrole = \"output\"\n\
           [tolerance.FP32]\nabsolute = 0\nrelative = 0\n\
           [[solver]]\nname = \"Expected\"\nalgorithm = \"Direct\"\ncandidate = false\n[[solver.launch]]\nentry = \"expected\"\narguments = [\"out\"]\n\
           [[solver]]\nname = \"Found\"\nalgorithm = \"Direct\"\npoints = [{ STEP = 2 }, { STEP = -2 }, { STEP = 3 }]\n\
           [[solver.launch]]\nentry = \"found\"\narguments = [\"out\"]\n";
    kernel(&folder.path().join("kernels/one"), &spec, ("kernel.c", source));
    let run = in_folder(folder.path());
    let tuned = expect(&mut run(&["tune", "--triton", "kernels", "--json", "--state", "state.db"]), 0);
    let problem = &json(&tuned)["problems"][0];
    assert_eq!((&problem["tried"], &problem["failed"]["wrong_result"]), (&3.into(), &1.into()), "{problem}");
    let rows = expect(&mut run(&["results", "--state", "state.db", "--json"]), 0);
    let rows = text(&rows.stdout);
    let said = "not deterministic: two runs of the reference differ in out";
    let timed: Vec<&str> = rows.lines().filter(|row| row.contains("\"timed\"")).collect();
    assert!(!timed.is_empty() && timed.iter().all(|row| row.contains(said)), "{rows}");
}

/// `bluefin` on a made-up gfx942 that executes code, in a folder of its own.
fn on_gpu() -> (HipMachine, impl Fn(&[&str]) -> Command) {
    let machine = HipMachine::new("gfx942-304");
    let (folder, environment) = (machine.folder().to_path_buf(), machine.environment());
    let run = move |arguments: &[&str]| {
        let mut command = in_folder(&folder)(arguments);
        command.envs(environment.clone()).env("BLUEFIN_STANDIN_BACKEND", "executed");
        command.env("BLUEFIN_STANDIN_MEMORY", (64 << 20).to_string());
        command
    };
    (machine, run)
}

fn all_are_right(checked: &Value, count: usize) {
    let candidates = checked["candidates"].as_array().unwrap();
    let wrong: Vec<&Value> = candidates.iter().filter(|one| one["result"] != "right").collect();
    assert!(wrong.is_empty() && candidates.len() == count, "{checked:#}");
}

#[test]
fn buffers_of_a_gpu_hold_what_is_said() {
    let (machine, run) = on_gpu();
    let source = format!(
        "#include \"prelude.h\"\n#define BOOLEAN bool\n#define FOR(i) for (int i = block_x() * 64 + thread_x(); i < n; i += 1 << 30)\n\
         #define FAULT(c) c[1 << 28] = 0\n{}",
        C.replace("KERNEL ", "KERNEL BLOCK_OF(64) ")
    );
    let geometry = "grid = [4]\n  block = [64]";
    let spec = [&head("clang", "gfx942", "kernel.hip", "\"prelude.h\""), BUFFERS, &solvers(geometry)].concat();
    kernel(&machine.folder().join("kernels/one"), &spec, ("kernel.hip", &source));
    let checked = expect(&mut run(&["check", "--triton", "kernels", "--target", "gfx942", "--json"]), 0);
    all_are_right(&json(&checked), 2);
    both_are_timed(&run, &["--device", "gpu"]);
}

const TRITON: &str = r#"
import torch
import numpy as np
import triton
import triton.language as tl
from .pkg.parts import in_range
from einops import rearrange

WIDE = torch.cuda.get_device_capability()[0] >= 9


@triton.jit
def expected(c, out, n, BLOCK: tl.constexpr = 256):
    i = tl.arange(0, BLOCK)
    mask = i < n
    j = i + 100
    tl.store(c + i, 1.25, mask=mask)
    value = i * i % 97 + tl.where(j < n, j * j % 97, 0) + 1 + 1 + 7 + 1 + 1 + 3
    tl.store(out + i, (value + 63).to(tl.float32), mask=mask)


@triton.autotune(configs=[triton.Config({"BLOCK": 64})], key=["n"])
@triton.heuristics({"EVEN": lambda arguments: True})
@triton.jit
def found(x, values, index, part, u, b, c, out, nothing, n, yes, big, bigger, BLOCK: tl.constexpr, MODE: tl.constexpr,
          TEXT: tl.constexpr, SCALE: tl.constexpr, GROUP: tl.constexpr, SHAPE: tl.constexpr, OUT: tl.constexpr, NONE: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    before = tl.load(c + i, mask=mask, other=0.25)
    tl.store(c + i + (1 << 28), 0.0, mask=before != 0.25)
    tl.store(c + i, before + 1, mask=mask)
    value = tl.load(index + i, mask=mask, other=0) + tl.load(part + i, mask=mask & (i + 100 < n), other=0)
    value += (tl.load(x + i, mask=mask, other=0.0) == 3.0).to(tl.int32) + in_range(values)
    value += tl.load(u + i, mask=mask, other=0).to(tl.int32) + tl.load(b + i, mask=mask, other=0).to(tl.int32)
    if MODE is True:
        value += 1
    if yes:
        value += 1
    if nothing is None:
        value += (big == 4294967295).to(tl.int32) + ((bigger >> 32) == 4294967295).to(tl.int32)
    if TEXT == "" and SCALE == 0.125:
        value += 32
    if GROUP == 8 and SHAPE[1] == 2:
        value += 16
    if NONE is None and OUT == tl.float16:
        value += 15
    tl.store(out + i, value.to(OUT).to(tl.float32), mask=mask)


class Function(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda")
    def forward(ctx, x: torch.Tensor, dtype: "torch.dtype | None" = torch.float16) -> torch.Tensor:
        return found[(4,)](x)


apply = Function.apply
"#;

const PARTS: &str = r"
import torch
import triton
import triton.language as tl
from ..helpers import both


@triton.jit
def in_range(values):
    j = tl.arange(0, 1024)
    loaded = tl.load(values + j, mask=j < 1000, other=0.0)
    least, most = tl.min(loaded, 0), tl.max(loaded, 0)
    return both((least >= -3.5) & (least < -3.4), (most <= 2.5) & (most > 2.4)).to(tl.int32)
";

const HELPERS: &str = "import triton\n\n\n@triton.jit\ndef both(a, b):\n    return a & b\n";

fn triton_spec() -> String {
    let solvers = solvers("grid = [\"1\"]").replacen("grid = [\"1\"]", "grid = [1]", 1);
    let solvers = solvers.replacen("grid = [\"1\"]", "grid = [\"if BLOCK == 64 { 4 } else { 2 }\"]", 1);
    let solvers = solvers
        .replace("BLOCK = 1,", "maxnreg = \"None\", num_warps = 2, BLOCK = 128,")
        .replace("{ BLOCK = 64,", "{ maxnreg = \"None\", num_warps = 1, BLOCK = 64,")
        .replace("\"out\", { i32 = 200 }, { i1", "\"out\", \"none\", { i32 = 200 }, { i1")
        .replace("algorithm = \"Direct\"\npoints", "algorithm = \"Direct\"\nconstants = { TEXT = \"\", SCALE = 0.125, GROUP = 8, SHAPE = [1, 2], OUT = { dtype = \"fp16\" }, NONE = { none = true } }\npoints");
    let includes = "\"pkg/__init__.py\", \"pkg/parts.py\", \"helpers.py\"";
    [&head("triton", "amd", "kernel.py", includes), BUFFERS, &solvers].concat()
}

#[test]
fn buffers_and_constants_of_triton_hold_what_is_said() {
    let Some(python) = triton_python() else { return };
    let (machine, run) = on_gpu();
    let run = |arguments: &[&str]| {
        let mut command = run(arguments);
        command.env("BLUEFIN_PYTHON", &python);
        command
    };
    let folder = machine.folder().join("kernels/one");
    kernel(&folder, &triton_spec(), ("kernel.py", TRITON));
    std::fs::create_dir(folder.join("pkg")).unwrap();
    write(&folder, "pkg/__init__.py", "");
    write(&folder, "pkg/parts.py", PARTS);
    write(&folder, "helpers.py", HELPERS);
    for target in ["gfx90a", "gfx942", "gfx1100"] {
        let checked = expect(&mut run(&["check", "--triton", "kernels", "--target", target, "--json"]), 0);
        all_are_right(&json(&checked), 2);
    }

    // What a kernel itself uses is missed, with who asks for it.
    write(&folder, "kernel.py", &TRITON.replace("(value + 63).to(tl.float32)", "(value + 63).to(torch.float32)"));
    let checked = expect(&mut run(&["check", "--triton", "kernels", "--target", "gfx942"]), 1);
    let said = text(&checked.stdout);
    let expected =
        "torch.float32, of torch, which is not installed here and not among the includes: kernel.py line 2 asks for it";
    assert!(said.contains(expected), "{said}");
    // A statement that fails for want of a module is left out, and told of where the kernel lacks what it would have made.
    let source =
        TRITON.replace("WIDE = ", "WIDE = tl.constexpr(int(np.pi)) # ").replace("(value + 63)", "(value + 63 + WIDE)");
    write(&folder, "kernel.py", &source);
    let checked = expect(&mut run(&["check", "--triton", "kernels", "--target", "gfx942"]), 1);
    let said = text(&checked.stdout);
    assert!(
        said.contains("WIDE is not defined") && said.contains("kernel.py line 9 was left out: TypeError"),
        "{said}"
    );
}

/// A kernel of Triton whose tuning space is a list: a small one, as the stand-in executes every instruction of what makes and
/// compares its buffers.
fn listed(folder: &Path) {
    let source = "import torch\nimport triton\nimport triton.language as tl\n\n\n@triton.jit\ndef expected(c):\n    tl.store(c + tl.arange(0, 256), 3.25)\n\n\n\
        @triton.jit\ndef found(x, c, BLOCK: tl.constexpr, MODE: tl.constexpr):\n    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    \
        before = tl.load(c + i)\n    tl.store(c + i + (1 << 28), 0.0, mask=before != 0.25)\n    \
        if MODE is True:\n        tl.store(c + i, before + tl.load(x + i))\n";
    let spec = head("triton", "amd", "kernel.py", "")
        + "reference = \"Expected\"\n[[buffer]]\nname = \"x\"\ntype = \"FP16\"\nlength = 256\nrole = \"input\"\nlow = 3\nhigh = 3\n\
           [[buffer]]\nname = \"c\"\ntype = \"FP32\"\nlength = 256\nrole = \"inout\"\nfill = 0.25\n\
           [tolerance.FP32]\nabsolute = 0\nrelative = 0\n\
           [[solver]]\nname = \"Expected\"\nalgorithm = \"Direct\"\ncandidate = false\n[[solver.launch]]\nentry = \"expected\"\narguments = [\"c\"]\ngrid = [1]\n\
           [[solver]]\nname = \"Found\"\nalgorithm = \"Direct\"\npoints = [{ BLOCK = 256, MODE = true, maxnreg = \"None\" }, { BLOCK = 64, num_warps = 1, MODE = true, maxnreg = \"None\" }]\n\
           [[solver.launch]]\nentry = \"found\"\narguments = [\"x\", \"c\"]\ngrid = [\"256 / BLOCK\"]\n";
    let spec = spec.replace("{ BLOCK = 256,", "{ BLOCK = 256, num_warps = 4,");
    kernel(folder, &spec, ("kernel.py", source));
}

/// The first config is the winner, with what is no number in it.
fn is_triton_config(path: &Path) {
    let config = std::fs::read_to_string(path).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    let config = &config["kernels"]["buffers"][""];
    assert_eq!((&config["kwargs"]["MODE"], &config["maxnreg"]), (&true.into(), &Value::Null), "{config}");
}

#[test]
fn a_list_of_configs_of_triton_is_tuned_on_a_gpu() {
    let Some(python) = triton_python() else { return };
    let (machine, run) = on_gpu();
    let run = |arguments: &[&str]| {
        let mut command = run(arguments);
        command.env("BLUEFIN_PYTHON", &python);
        command
    };
    listed(&machine.folder().join("kernels/one"));
    both_are_timed(run, &["--device", "gpu"]);
    is_triton_config(&machine.folder().join("out/triton.json"));
}

/// The folder goes to the fleet as it is: the compile worker has Triton and no GPU, the eval worker a GPU and no Triton.
#[test]
fn a_fleet_tunes_a_folder_of_kernels_of_triton() {
    let Some(python) = triton_python() else { return };
    let (fleet, _vhost, _redis, _cache) = on_servers();
    let machine = HipMachine::new("gfx942-304");
    listed(&fleet.folder.path().join("kernels/one"));
    let enqueue = ["enqueue", "--session", "s", "--target", "gfx942-304", "--triton", "kernels"];
    expect(&mut fleet.bluefin(&enqueue), 0);
    let _compile = fleet.worker_with(&["compile-worker", "--toolchain", "triton"], [("BLUEFIN_PYTHON", python)]);
    let executed = [("BLUEFIN_STANDIN_BACKEND", "executed".into()), ("BLUEFIN_STANDIN_MEMORY", "67108864".into())];
    let _eval = fleet
        .worker_with(&["eval-worker", "--sample-budget", "20ms"], machine.environment().into_iter().chain(executed));
    fleet.wait_complete("s", PATIENCE);
    let results = expect(&mut fleet.bluefin(&["results", "--session", "s", "--json"]), 0);
    let rows: Vec<Value> = text(&results.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.len() == 4 && rows.iter().all(|row| row["result"] == "timed"), "both, in both stages: {rows:#?}");
    let out = fleet.folder.path().join("out");
    let export = ["export", "--session", "s", "--format", "triton,winners", "--out", "out"];
    expect(&mut fleet.bluefin(&export), 0);
    is_triton_config(&out.join("triton.json"));
    // What was enqueued is known: the same folder again is nothing new.
    let again = expect(&mut fleet.bluefin(&enqueue), 0);
    assert!(fleet.told("s")["complete"].as_bool().unwrap(), "{}", text(&again.stdout));
}

#[test]
fn atomics_of_triton_are_not_deterministic() {
    let Some(python) = triton_python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let source = "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef total(x, out, BLOCK: tl.constexpr):\n    \
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    tl.atomic_add(out, tl.sum(tl.load(x + i), 0))\n";
    let spec = head("triton", "amd", "kernel.py", "")
        + "reference = \"Total\"\n[[buffer]]\nname = \"x\"\ntype = \"FP32\"\nlength = 4096\nrole = \"input\"\nlow = -1000\nhigh = 1000\n\
           [[buffer]]\nname = \"out\"\ntype = \"FP32\"\nlength = 1\nrole = \"inout\"\nfill = 0\n\
           [tolerance.FP32]\nabsolute = 0\nrelative = 0\n\
           [[solver]]\nname = \"Total\"\nalgorithm = \"Direct\"\npoints = [{ BLOCK = 64 }, { BLOCK = 128 }]\n\
           [[solver.launch]]\nentry = \"total\"\narguments = [\"x\", \"out\"]\ngrid = [\"4096 / BLOCK\"]\n";
    kernel(&folder.path().join("kernels/one"), &spec, ("kernel.py", source));
    let mut check = in_folder(folder.path())(&["check", "--triton", "kernels", "--target", "gfx942", "--json"]);
    let checked = json(&check.env("BLUEFIN_PYTHON", python).output().unwrap());
    for candidate in checked["candidates"].as_array().unwrap() {
        assert_eq!(candidate["not_deterministic"], serde_json::json!(["out"]), "{checked:#}");
    }
}
