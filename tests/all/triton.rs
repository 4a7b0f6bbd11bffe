//! Triton's kernels, with the Python that BLUEFIN_TEST_PYTHON names, as `tests/run` makes one: their code objects for AMD's GPUs are
//! executed.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bluefin_test_support::hip::HipMachine;
use bluefin_test_support::triton_python;
use serde_json::Value;

use crate::common::{bluefin, expect, json, text};

/// `bluefin` with Triton; nothing on a machine without it.
fn with_triton() -> Option<Command> {
    let python = triton_python()?;
    let mut command = bluefin();
    command.env("BLUEFIN_PYTHON", python);
    Some(command)
}

fn spec(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// How many candidates of each solver were executed; all were right.
fn right(spec: &Path, sizes: &str, target: &str, budget: u32) -> Option<usize> {
    let mut command = with_triton()?;
    command.args(["check", "--json", "--target", target, "--size", sizes, "--kernel"]).arg(spec);
    let report = json(&expect(command.arg("--budget").arg(budget.to_string()), 0));
    let candidates = report["candidates"].as_array().unwrap();
    let wrong: Vec<&Value> = candidates.iter().filter(|one| one["result"] != "right").collect();
    assert!(wrong.is_empty(), "{target} {sizes}: {wrong:#?}");
    Some(candidates.len())
}

#[test]
fn the_example_is_right_on_amd_gpus() {
    // Debian's clang does not know gfx950, and is not asked.
    for target in ["gfx90a", "gfx942", "gfx950", "gfx1100"] {
        let Some(count) = right(&spec("examples/softmax.toml"), "rows=5,columns=301", target, 6) else { return };
        assert_eq!(count, 7, "{target}");
    }
}

/// As Triton's JIT has it, a function is compiled for each set of types, and of numbers that are compiled in.
#[test]
fn a_function_is_launched_for_several_types_and_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let source = "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef copy(x, y, n, times, BLOCK: tl.constexpr):\n    \
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    tl.store(y + at, tl.load(x + at, mask=at < n) * times, mask=at < n)\n";
    std::fs::write(folder.path().join("copy.py"), source).unwrap();
    let buffers = [("a", "FP32", "input"), ("b", "FP32", "output"), ("c", "INT32", "input"), ("d", "INT32", "output")];
    let buffers = buffers.map(|(name, element, role)| {
        format!("[[buffer]]\nname = \"{name}\"\ntype = \"{element}\"\nlength = \"n\"\nrole = \"{role}\"\n")
    });
    let launch = |from: &str, to: &str, times: u32| {
        format!(
            "  [[solver.launch]]\n  entry = \"copy\"\n  arguments = [\"{from}\", \"{to}\", {{ i32 = \"n\" }}, {{ i32 = {times} }}]\n  \
             grid = [\"ceil_div(n, BLOCK)\"]\n"
        )
    };
    let spec = format!(
        "name = \"copy\"\nproblem = \"kernel\"\ntoolchain = \"triton\"\ntargets = [\"amd\", \"nvidia\"]\nsource = \"copy.py\"\nreference = \"Copy\"\n\
         sizes = {{ n = 100 }}\n{}[tolerance.FP32]\nabsolute = 0.0\nrelative = 0.0\n[tolerance.INT32]\nabsolute = 0.0\nrelative = 0.0\n\
         [[solver]]\nname = \"Copy\"\nalgorithm = \"Direct\"\n  [[solver.param]]\n  name = \"BLOCK\"\n  values = [32, 64]\n  default = 32\n{}{}{}",
        buffers.concat(),
        launch("a", "b", 1),
        launch("c", "d", 17),
        launch("a", "b", 3)
    );
    let path = folder.path().join("copy.toml");
    std::fs::write(&path, spec).unwrap();
    for target in ["gfx942", "gfx1100"] {
        let Some(count) = right(&path, "n=77", target, 4) else { return };
        assert_eq!(count, 2, "{target}");
    }
}

/// Compilers that no problem needs are not asked, neither for the target nor for their names: a session goes on without them.
#[test]
fn only_the_compilers_of_the_problems_are_asked() {
    let folder = tempfile::tempdir().unwrap();
    let tune = |rest: &[&str]| {
        let mut command = with_triton()?;
        command.current_dir(folder.path()).args(["tune", "--state", "s.db", "--stage", "compile"]).args(rest);
        Some(command)
    };
    let softmax = spec("examples/softmax.toml");
    let kernel = ["--kernel", softmax.to_str().unwrap(), "--size", "rows=5,columns=301", "--budget", "3"];
    for target in ["gfx950", "gfx90a"] {
        let Some(mut command) = tune(&[&kernel[..], &["--device", target, "--session", target]].concat()) else {
            return;
        };
        let output = expect(&mut command, 0);
        assert!(text(&output.stderr).contains("compiled in"), "{target}: {}", text(&output.stderr));
    }
    // What was left of other problems of the session waits for its own compilers, and is not waited for.
    std::fs::write(folder.path().join("conv.txt"), "conv -n 1 -c 8 -H 7 -W 7 -k 8 -y 1 -x 1 -F 1\n").unwrap();
    for rest in [&["conv.txt"][..], &kernel] {
        let mut command = tune(&[rest, &["--device", "gfx90a", "--session", "both"]].concat()).unwrap();
        expect(&mut command, 0);
    }
}

#[test]
fn a_triton_that_is_too_old_says_which_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let (package, python) = (folder.path().join("triton"), folder.path().join("python"));
    std::fs::create_dir(&package).unwrap();
    std::fs::write(package.join("__init__.py"), "__version__ = '3.2.0'\n").unwrap();
    let script = format!("#!/bin/sh\nPYTHONPATH={} exec python3 \"$@\"\n", folder.path().display());
    std::fs::write(&python, script).unwrap();
    std::fs::set_permissions(&python, Permissions::from_mode(0o755)).unwrap();
    let mut command = bluefin();
    let softmax = spec("examples/softmax.toml");
    command.env("BLUEFIN_PYTHON", &python).args(["check", "--size", "rows=5,columns=301", "--target", "gfx942"]);
    let output = expect(command.arg("--kernel").arg(softmax), 1);
    let told = text(&output.stderr);
    assert!(told.contains("found Triton 3.2.0, expected 3.3 or later") && !told.contains("Traceback"), "{told}");
}

/// The line is that of the Python file, also where a function of its own is called.
#[test]
fn a_fault_names_the_line() {
    let Some(mut command) = with_triton() else { return };
    let folder = tempfile::tempdir().unwrap();
    let source = std::fs::read_to_string(spec("examples/softmax.py")).unwrap();
    let (mask, wider) = ("mask = (row < rows) & (at < columns)", "mask = (row < rows) & (at <= columns)");
    assert_eq!(source.matches(mask).count(), 1);
    let source = source.replace(mask, wider);
    std::fs::write(folder.path().join("softmax.py"), &source).unwrap();
    std::fs::copy(spec("examples/softmax.toml"), folder.path().join("softmax.toml")).unwrap();
    command.args([
        "check",
        "--json",
        "--target",
        "gfx942",
        "--size",
        "rows=5,columns=300",
        "--budget",
        "1",
        "--kernel",
    ]);
    let report = json(&expect(command.arg(folder.path().join("softmax.toml")), 1));
    let candidates = report["candidates"].as_array().unwrap();
    let fault = candidates.iter().find(|one| one["result"] == "fault").unwrap_or_else(|| panic!("{report:#}"));
    let line =
        1 + source.lines().position(|line| line.contains("value = tl.load(matrix + base + at, mask=mask")).unwrap();
    let detail = fault["detail"].as_str().unwrap();
    assert!(detail.contains("out of bounds: read") && detail.contains(&format!("(softmax.py:{line})")), "{detail}");
}

/// Sizes that divide by nothing, all types, both orders, K in parts, bias.
#[test]
fn matrix_products_are_right_on_amd_gpus() {
    let gemm = spec("common/kernel-spec/kernels/triton/gemm.toml");
    let typed = |a: &str, c: &str| format!("m=37,n=45,k=53,a_type={a},b_type={a},c_type={c}");
    for (target, sizes, budget, least) in [
        ("gfx90a", "m=37,n=45,k=53".to_string(), 2, 2),
        ("gfx90a", typed("BF16", "BF16") + ",row_a=false,row_b=true,bias=true", 1, 1),
        ("gfx90a", typed("FP32", "FP32"), 1, 1),
        ("gfx90a", typed("INT8", "INT32"), 1, 1),
        ("gfx942", "m=37,n=45,k=53".to_string(), 3, 3),
        ("gfx942", typed("BF16", "BF16") + ",row_a=false,row_b=true,bias=true", 1, 1),
        ("gfx942", typed("FP32", "FP32"), 1, 1),
        ("gfx942", typed("FP32", "FP32") + ",ieee=true", 1, 1),
        ("gfx942", typed("INT8", "INT32"), 1, 1),
        // FP8 and BF8, which gfx942 encodes in its own way, also one by the other.
        ("gfx942", typed("FP8", "FP16"), 1, 1),
        ("gfx942", typed("BF8", "BF8"), 1, 1),
        ("gfx942", "m=37,n=45,k=53,a_type=FP8,b_type=BF8,c_type=FP8,bias=true".to_string(), 1, 1),
        ("gfx942", "m=33,n=45,k=1088,bias=true".to_string(), 1, 2),
        ("gfx942", "m=67,n=45,k=128,space=v2".to_string(), 1, 1),
    ] {
        let Some(count) = right(&gemm, &sizes, target, budget) else { return };
        assert!(count >= least, "{target} {sizes}: {count}");
    }
}

/// A kernel that works in place on fewer elements than it has lanes: all lanes load what few of them store.
const IN_PLACE: &str = r#"
name = "in-place"
problem = "kernel"
toolchain = "triton"
targets = ["gfx90a", "gfx942", "gfx1100"]
source = "in_place.py"
reference = "Reference"
[sizes]
count = 70
[[buffer]]
name = "values"
type = "FP32"
length = "count"
role = "inout"
[tolerance.FP32]
absolute = 1e-6
relative = 1e-6
[[solver]]
name = "Reference"
algorithm = "Direct"
  [solver.constants]
  BLOCK = 128
  num_warps = 1
  [[solver.launch]]
  entry = "in_place"
  arguments = ["values", { i32 = "count" }]
  grid = ["(count + 127) / 128"]
[[solver]]
name = "Small"
algorithm = "Direct"
  [[solver.param]]
  name = "BLOCK"
  values = [16, 32]
  default = 16
  [[solver.param]]
  name = "num_warps"
  values = [4, 8]
  default = 4
  [[solver.launch]]
  entry = "in_place"
  arguments = ["values", { i32 = "count" }]
  grid = ["(count + BLOCK - 1) / BLOCK"]
"#;

const IN_PLACE_SOURCE: &str = r#"
import triton
import triton.language as tl

@triton.jit
def in_place(values, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(values + at, mask=at < count)
    tl.store(values + at, value * 2 + 1, mask=at < count)
"#;

#[test]
fn kernels_that_work_in_place_are_right_on_amd_gpus() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("in_place.py"), IN_PLACE_SOURCE).unwrap();
    let path = folder.path().join("in_place.toml");
    std::fs::write(&path, IN_PLACE).unwrap();
    for target in ["gfx90a", "gfx942", "gfx1100"] {
        let Some(count) = right(&path, "count=70", target, 4) else { return };
        assert_eq!(count, 5, "{target}");
    }
}

/// `bluefin` on a made-up gfx942 that executes code, in a folder of its own.
fn on_gpu() -> Option<(HipMachine, impl Fn(&[&str]) -> Command)> {
    with_triton()?;
    let machine = HipMachine::new("gfx942-304");
    let (folder, environment) = (machine.folder().to_path_buf(), machine.environment());
    let run = move |arguments: &[&str]| {
        // There is one: it was asked above.
        let mut command = with_triton().unwrap();
        command.current_dir(&folder).envs(environment.clone()).args(arguments);
        command.env("BLUEFIN_STANDIN_BACKEND", "executed").env("BLUEFIN_STANDIN_MEMORY", (64 << 20).to_string());
        command
    };
    Some((machine, run))
}

#[test]
fn products_are_tuned_and_what_was_found_is_benchmarked() {
    let Some((machine, run)) = on_gpu() else { return };
    let sizes = "- {'M': 17, 'N': 24, 'K': 32, 'rowMajorA': 'T', 'rowMajorB': 'N'}\n";
    std::fs::write(machine.folder().join("sizes.yaml"), sizes).unwrap();
    let read = |name: &str| std::fs::read_to_string(machine.folder().join(name)).unwrap();
    let tune = ["tune-gemm", "--gemm_size_file", "sizes.yaml", "--o", "tuned.yaml", "--budget", "2", "--jobs", "8"];
    let output = expect(&mut run(&tune), 0);
    assert!(text(&output.stderr).contains("--jobs is not needed"), "{output:?}");
    let tuned = read("tuned.yaml");
    let start = "- {'M': 17, 'N': 24, 'K': 32, 'rowMajorA': 'T', 'rowMajorB': 'N', 'BLOCK_SIZE_M': ";
    assert!(tuned.starts_with(start) && tuned.lines().count() == 1, "{tuned}");
    assert!(
        tuned.contains("'instruction_sched_variant': 'none'} # TFLOPS: ") && tuned.contains(" time(us): "),
        "{tuned}"
    );
    // The reference is no config, so that it can not win.
    let tried = expect(&mut run(&["results", "--state", "tune-gemm.db", "--csv"]), 0);
    let tried = text(&tried.stdout);
    assert!(tried.contains("TritonGemm") && !tried.contains("TritonGemmReference"), "{tried}");
    // Nothing is tuned again.
    let again = expect(&mut run(&tune), 0);
    assert!(!text(&again.stderr).contains("tuned in"), "{again:?}");
    assert_eq!(read("tuned.yaml"), tuned);

    let benchmark = ["tune-gemm", "--benchmark", "--gemm_size_file", "tuned.yaml"];
    // The stand-in counts instructions, so that a config is as fast as itself.
    let same = expect(run(&benchmark).args(["--reference", "tuned.yaml"]), 0);
    assert!(text(&same.stdout).contains("geometric mean 1.000 of 1 configs, 0 below 0.98"), "{same:?}");
    assert!(read("gemm-performance-report.yaml").starts_with("- config: {'M': 17, "));

    // What is given is timed again, whoever was timed before.
    let again = expect(run(&benchmark).args(["--o", "times.csv"]), 0);
    assert!(text(&again.stderr).contains("tuned; "), "{again:?}");
    assert!(read("times.csv").starts_with("trans,M,N,K,TFLOPS,us\nTN,17,24,32,"), "{}", read("times.csv"));

    // What was tuned begins the search of another size.
    let other =
        ["tune-gemm", "-m", "24", "-n", "24", "-k", "32", "-col_b", "--budget", "2", "--o", "other.yaml", "--from"];
    let begun = expect(run(&other).arg("tuned.yaml"), 0);
    assert!(text(&begun.stderr).contains("1 of 1 known candidate begin the searches of 1 solver"), "{begun:?}");
    let none = expect(run(&other).arg("sizes.yaml"), 1);
    assert!(text(&none.stderr).contains("--from sizes.yaml: found 1 sizes without a config"), "{none:?}");

    // Floats of 8 bits are made and compared where they are, as the architecture has them.
    let eight = ["-m", "17", "-n", "24", "-k", "32", "-col_b", "-dtype_a", "fp8", "-dtype_b", "bf8", "-dtype_c", "fp8"];
    expect(run(&["tune-gemm", "--budget", "1", "--o", "eight.yaml"]).args(eight), 0);
    assert_eq!(read("eight.yaml").lines().count(), 1);

    // One that was killed amid other sizes keeps nobody waiting.
    let mut killed = run(&["tune-gemm", "-m", "40", "-n", "24", "-k", "32", "-col_b"]).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(5));
    killed.kill().unwrap();
    killed.wait().unwrap();
    expect(&mut run(&tune), 0);
    assert_eq!(read("tuned.yaml"), tuned);

    let without = expect(&mut run(&["tune-gemm", "--benchmark", "--gemm_size_file", "sizes.yaml"]), 2);
    assert!(text(&without.stderr).contains("17 x 24 x 32 has no config"), "{without:?}");
}

/// A line of a file of tune_gemm.py: M, N and K, blocks, warps and stages.
fn tuned([m, n, k]: [u32; 3], [block_m, block_n, block_k]: [u32; 3], warps: u32, stages: u32) -> String {
    format!(
        "- {{'M': {m}, 'N': {n}, 'K': {k}, 'rowMajorA': 'T', 'rowMajorB': 'N', 'BLOCK_SIZE_M': {block_m}, 'BLOCK_SIZE_N': {block_n}, \
         'BLOCK_SIZE_K': {block_k}, 'GROUP_SIZE_M': 1, 'SPLIT_K': 1, 'num_warps': {warps}, 'num_stages': {stages}, 'waves_per_eu': 0, \
         'matrix_instr_nonkdim': 16, 'kpack': 1, 'mine': 'x'}} # TFLOPS: 9.00 time(us): 1.00\n"
    )
}

#[test]
fn configs_that_lose_to_the_default_are_told_and_replaced() {
    let Some((machine, run)) = on_gpu() else { return };
    let read = || std::fs::read_to_string(machine.folder().join("tuned.yaml")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(machine.folder().join(name), text).unwrap();
    let (default, odd) = (tuned([48, 48, 64], [64, 64, 64], 4, 2), tuned([40, 40, 64], [64, 64, 64], 4, 0));
    let slow = tuned([64, 64, 64], [64, 64, 16], 8, 2);
    let before = format!("# mine\n{}{default}{slow}{odd}", tuned([32, 32, 64], [32, 32, 64], 1, 2));
    write("tuned.yaml", &before);
    write("known.yaml", &tuned([64, 64, 64], [32, 32, 64], 1, 2));
    let told = json(&expect(&mut run(&["verify", "tuned.yaml", "--known", "known.yaml", "--json"]), 1));
    let rows = told[0]["rows"].as_array().unwrap();
    let verdicts: Vec<&str> = rows.iter().map(|row| row["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["faster", "default", "slower", "unknown"], "{told:#}");
    let slower = &rows[2];
    assert_eq!((&slower["size"]["m"], &slower["row"]["num_warps"]), (&64.into(), &8.into()), "{slower:#}");
    assert!(slower["known"]["median_ms"].is_number() && rows[0]["known"].is_null(), "{told:#}");
    assert!(slower["regret"].as_f64().unwrap() > 0.0 && told[0]["replaced"] == false, "{told:#}");
    assert!(rows[3]["reason"].as_str().unwrap().contains("num_stages: found 0, expected one of 2"), "{told:#}");
    assert_eq!(read(), before);

    let said = text(&expect(&mut run(&["verify", "tuned.yaml", "--fix"]), 0).stdout);
    assert!(said.contains("64x64x64 TN SLOWER  64x64x16 g1 w8 s2"), "{said}");
    let fixed = read();
    let row = fixed.lines().nth(3).unwrap();
    assert!(row.starts_with(tuned([64, 64, 64], [64, 64, 64], 4, 2).split(" # ").next().unwrap()), "{fixed}");
    assert!(!row.ends_with("time(us): 1.00"), "{fixed}");
    assert_eq!(fixed.replace(&format!("{row}\n"), &slow), before, "nothing else");
    let again = text(&expect(&mut run(&["verify", "tuned.yaml"]), 0).stdout);
    assert!(again.contains("64x64x64 TN DEFAULT"), "{again}");

    // What is searched for begins with what is there.
    write("tuned.yaml", &before);
    let retuned = expect(&mut run(&["verify", "tuned.yaml", "--retune", "--budget", "8"]), 0);
    assert!(text(&retuned.stderr).contains("known candidate"), "{retuned:?}");
    let again = text(&expect(&mut run(&["verify", "tuned.yaml"]), 0).stdout);
    assert!(!again.contains("SLOWER"), "{again}");
}

#[test]
fn what_is_verified_is_of_one_kind_with_its_own_flags() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.yaml", "b.json", "notes.txt"] {
        std::fs::write(folder.path().join(name), "- {'M': 1, 'N': 2, 'K': 3}\n").unwrap();
    }
    std::fs::create_dir(folder.path().join("cache")).unwrap();
    let said = |line: &str, code| {
        let arguments: Vec<&str> = line.split(' ').collect();
        text(&expect(bluefin().current_dir(folder.path()).arg("verify").args(arguments), code).stderr)
    };
    for (line, code, expected) in [
        (
            "a.yaml b.json",
            2,
            "b.json: found a config file of vLLM or SGLang, expected a file of tune_gemm.py as the first is",
        ),
        ("a.yaml --hidden 4", 2, "--hidden: found a file of tune_gemm.py, expected a config file of vLLM or SGLang"),
        (
            "b.json --dtype_a bf16",
            2,
            "--dtype_a: found a config file of vLLM or SGLang, expected a file of tune_gemm.py",
        ),
        ("b.json --triton kernels", 2, "--triton: found a config file of vLLM or SGLang, expected a cache of Triton's"),
        ("b.json --topk 2", 2, "name --hidden and --topk"),
        (
            "a.yaml --per-channel",
            2,
            "--per-channel: found a file of tune_gemm.py, expected a config file of vLLM or SGLang",
        ),
        ("cache", 2, "cache: found a folder without any, expected config files of an engine"),
        (
            "notes.txt",
            2,
            "notes.txt: found neither a folder nor a known extension, expected .json, .yaml, .csv, fdb.txt, db.txt, .db or a cache of Triton's",
        ),
        ("a.yaml", 1, "a.yaml: 1x2x3 TT: found no config, expected one for each size"),
        ("a.yaml --dtype_b int8", 2, "-dtype_a and -dtype_b: expected both fp16"),
    ] {
        let said = said(line, code);
        assert!(said.contains(expected), "{line}: {said}");
    }
}
