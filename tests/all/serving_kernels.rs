//! The kernels of mixtures of experts, with the Python that BLUEFIN_TEST_PYTHON names: executed for AMD's GPUs, and tuned on a made-up one.

mod engines;
mod verified;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use bluefin_test_support::hip::HipMachine;
use bluefin_test_support::triton_python;
use serde_json::Value;

use self::engines::{HEAD, SGLANGS, SGLANGS_OF_GROUPS};
use self::verified::{RUNS, VERIFIED, rows_of};
use crate::common::fleet::on_servers;
use crate::common::{bluefin, expect, json, text};

/// A folder in which a kernel is checked or tuned.
struct Bench {
    python: std::ffi::OsString,
    machine: HipMachine,
}

impl Bench {
    /// Nothing on a machine without Triton.
    fn new() -> Option<Self> {
        let python = triton_python()?;
        Some(Self { python, machine: HipMachine::new("gfx942-304") })
    }

    fn folder(&self) -> &Path {
        self.machine.folder()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = bluefin();
        command.current_dir(self.folder()).args(arguments).env("BLUEFIN_PYTHON", &self.python);
        command.envs(self.machine.environment()).env("BLUEFIN_STANDIN_BACKEND", "executed");
        command.env("BLUEFIN_STANDIN_MEMORY", (64 << 20).to_string());
        command
    }

    /// The spec of a layer, whose kernel is that of `more` if it names one.
    fn spec(&self, sizes: &str, more: &[&str]) -> PathBuf {
        self.spec_of("vllm", sizes, more)
    }

    fn spec_of(&self, engine: &str, sizes: &str, more: &[&str]) -> PathBuf {
        let kernels = [
            "serving",
            "kernels",
            "--engine",
            engine,
            "--gpu",
            "AMD Instinct MI300X",
            "--moe",
            sizes,
            "--json",
            "-o",
            "moe",
        ];
        let told = json(&expect(self.command(&kernels).args(more), 0));
        self.folder().join(told[0]["spec"].as_str().unwrap())
    }

    /// How many candidates of each solver are right for so many tokens, and how many there are.
    fn checked(&self, spec: &Path, tokens: u32, budget: u32) -> (usize, usize) {
        let size = format!("tokens={tokens}");
        let mut command =
            self.command(&["check", "--target", "gfx942", "--json", "--size", &size, "--budget", &budget.to_string()]);
        let output = command.arg("--kernel").arg(spec).output().unwrap();
        let report = json(&output);
        let candidates = report["candidates"].as_array().unwrap();
        let right = candidates.iter().filter(|one| one["result"] == "right").count();
        (right, candidates.len())
    }
}

#[test]
fn every_config_is_checked_against_plain_sums() {
    let Some(bench) = Bench::new() else { return };
    let spec = bench.spec("16,64,64,2", &["--routing", "zipf:1.2", "--tokens", "1,8"]);
    // One token is sent to two of 16 experts, so that nothing is sorted: another kernel.
    for tokens in [1, 8] {
        assert_eq!(bench.checked(&spec, tokens, 4), (5, 5), "{tokens}");
    }
    for more in [&["--dtype", "fp16"][..], &["--dtype", "fp8_w8a8"], &["--dtype", "fp8_w8a8", "--block-shape", "64,64"]]
    {
        let spec = bench.spec("4,64,128,2", &[more, &["--tokens", "8"]].concat());
        assert_eq!(bench.checked(&spec, 8, 3), (4, 4), "{more:?}");
    }
    let of_integers = [
        &["--dtype", "int8_w8a16"][..],
        &["--dtype", "int8_w8a8"],
        &["--dtype", "int8_w8a8", "--block-shape", "64,64"],
    ];
    for more in of_integers.into_iter().chain([&["--dtype", "fp8_w8a8", "--per-channel"][..]]) {
        let spec = bench.spec("4,64,128,2", &[more, &["--tokens", "8"]].concat());
        assert_eq!(bench.checked(&spec, 8, 1), (2, 2), "{more:?}");
    }
    // Experts without a gate: the first product has half the columns.
    for more in [&["--ungated"][..], &["--ungated", "--dtype", "fp8_w8a8", "--block-shape", "64,64"]] {
        let spec = bench.spec("4,64,128,2", &[more, &["--tokens", "8"]].concat());
        assert!(std::fs::read_to_string(&spec).unwrap().contains("\"wide = intermediate\""));
        assert_eq!(bench.checked(&spec, 8, 1), (2, 2), "{more:?}");
    }
    // A tile of the wrong expert is found, whatever the rounding.
    let source = spec.parent().unwrap().join("fused_moe.py");
    let wrong =
        std::fs::read_to_string(&source).unwrap().replace("expert_ids_ptr + block)", "expert_ids_ptr + block // 2)");
    std::fs::write(&source, wrong).unwrap();
    let (right, of) = bench.checked(&spec, 8, 4);
    assert!(right < of, "{right} of {of}");
}

#[test]
fn the_kernel_is_the_installed_engines_with_what_it_imports_stood_in_for() {
    let Some(bench) = Bench::new() else { return };
    let spec = bench.spec("4,64,64,2", &["--tokens", "8"]);
    let own = std::fs::read_to_string(spec.parent().unwrap().join("fused_moe.py")).unwrap();
    let kernel = own.split_once("@triton.jit").unwrap().1;
    let file = bench.folder().join("site-packages/vllm/model_executor/layers/fused_moe/fused_moe.py");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::create_dir(bench.folder().join("site-packages/vllm-0.33.0.dist-info")).unwrap();
    std::fs::write(&file, format!("{HEAD}@triton.jit{kernel}")).unwrap();
    let spec = bench.spec("4,64,64,2", &["--tokens", "8", "--installed", "site-packages/vllm"]);
    assert!(std::fs::read_to_string(&spec).unwrap().starts_with("# The kernel is vllm 0.33.0.\n"));
    assert_eq!(bench.checked(&spec, 8, 2), (3, 3));

    // Nothing is named where the Python with Triton has the engine.
    let (python, site) = (bench.folder().join("python"), bench.folder().join("site-packages"));
    let real = std::path::absolute(&bench.python).unwrap();
    std::fs::write(&python, format!("#!/bin/sh\nPYTHONPATH='{}' exec '{}' \"$@\"\n", site.display(), real.display()))
        .unwrap();
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
    let kernels = ["serving", "kernels", "--engine", "vllm", "--gpu", "NVIDIA H200", "--moe", "4,64,64,2", "-o", "moe"];
    let said =
        |more: &[&str]| text(&expect(bench.command(&kernels).args(more).env("BLUEFIN_PYTHON", &python), 0).stderr);
    assert!(said(&[]).contains(&format!("the kernel is vllm 0.33.0, in {}/vllm", site.display())));
    assert!(said(&["--installed", "own"]).contains("the kernel is a kernel of bluefin's own"));

    std::fs::write(&file, std::fs::read_to_string(&file).unwrap().replace("stride_ask, ", "")).unwrap();
    let error = |more: &[&str], code| text(&expect(bench.command(&kernels).args(more), code).stderr);
    let other = error(&["--installed", "site-packages/vllm"], 1);
    assert!(other.contains("argument 23 of fused_moe_kernel: found stride_bse, expected stride_ask"), "{other}");
    let none = error(&["--installed", "site-packages"], 1);
    assert!(none.contains("site-packages: installed: found no kernel of vllm, expected model_executor/"), "{none}");
    let routing = error(&["--routing", "even"], 2);
    assert!(
        routing.contains("--routing: found \"even\", expected uniform, zipf, zipf:EXPONENT up to 16, or counts:FILE"),
        "{routing}"
    );
    for (counts, expected) in [
        ("[5]", "found 1 in the list of --routing, counts.json, expected 4, one for each expert of a rank"),
        (
            "[9, 0, 0, 0]",
            "found 1 that are taken in the list of --routing, counts.json, expected at least 2, as a token has so many experts",
        ),
    ] {
        std::fs::write(bench.folder().join("counts.json"), counts).unwrap();
        let wrong = error(&["--routing", "counts:counts.json"], 2);
        assert!(wrong.contains(expected), "{wrong}");
    }
    // A rank of four has one expert, two of which a token would take.
    let few = error(&["--ep", "4"], 2);
    assert!(few.contains("found 2 experts a token, expected at most 1: a rank has no more (--ep)"), "{few}");
    let dtype = error(&["--dtype", "int4_w4a16"], 2);
    assert!(dtype.contains("found weights of int4_w4a16, expected 16 bits, fp8_w8a8 or int8_w8a8"), "{dtype}");
}

#[test]
fn sglangs_kernel_is_launched_as_sglang_launches_it() {
    let Some(bench) = Bench::new() else { return };
    let own = bench.spec("4,64,64,2", &["--tokens", "8"]);
    let own = std::fs::read_to_string(own.parent().unwrap().join("fused_moe.py")).unwrap();
    let kernel = own.split_once("@triton.jit").unwrap().1.replace("def fused_moe_kernel(", "def own(");
    let file = bench.folder().join("site-packages/sglang/kernels/ops/moe/fused_moe_triton_kernels.py");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let head = "import torch\nimport triton\nimport triton.language as tl\nfrom sglang.srt.utils import is_hip\n\n_is_hip = is_hip()\n\n\n";
    std::fs::write(&file, format!("{head}@triton.jit{kernel}{SGLANGS}")).unwrap();
    let more = ["--tokens", "1,8", "--installed", "site-packages/sglang"];
    for dtype in [&["--dtype", "bf16"][..], &["--dtype", "fp8_w8a8", "--block-shape", "64,64"]] {
        let spec = bench.spec_of("sglang", "16,64,64,2", &[&more, dtype].concat());
        for tokens in [1, 8] {
            assert_eq!(bench.checked(&spec, tokens, 4), (5, 5), "{dtype:?} {tokens}");
        }
    }
}

#[test]
fn weights_in_groups_are_unpacked_and_checked() {
    let Some(bench) = Bench::new() else { return };
    let int4 = ["--dtype", "int4_w4a16", "--group-size", "32"];
    // One token: vLLM chooses other tiles for the second product.
    let spec = bench.spec("4,64,128,2", &[&int4[..], &["--tokens", "1,8"]].concat());
    for tokens in [1, 8] {
        assert_eq!(bench.checked(&spec, tokens, 2), (3, 3), "{tokens}");
    }
    for more in [["--dtype", "int8_w8a16", "--group-size", "64"], int4] {
        let spec = bench.spec("4,64,128,2", &[&more[..], &["--zero-points", "--tokens", "8"]].concat());
        assert_eq!(bench.checked(&spec, 8, 1), (2, 2), "{more:?}");
    }
    // Both halves of a byte count, and so does the group.
    let folder = spec.parent().unwrap();
    let own = std::fs::read_to_string(folder.join("fused_moe.py")).unwrap();
    for (from, to) in
        [("(k % PACK * BITS)", "((k + 1) % PACK * BITS)"), ("(n % PACK * BITS)", "(n * 0)"), ("// group_size", "// 64")]
    {
        std::fs::write(folder.join("fused_moe.py"), own.replace(from, to)).unwrap();
        assert_eq!(bench.checked(&folder.join("spec.toml"), 8, 1).0, 0, "{from}");
    }

    let file = bench.folder().join("site-packages/sglang/kernels/ops/moe/fused_moe_triton_kernels.py");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let renamed = own
        .replace("def fused_moe_kernel_gptq_awq(", "def own_of_groups(")
        .replace("def fused_moe_kernel(", "def own(");
    std::fs::write(&file, format!("{renamed}{SGLANGS}{SGLANGS_OF_GROUPS}")).unwrap();
    let installed = ["--installed", "site-packages/sglang", "--tokens", "8"];
    let spec = bench.spec_of("sglang", "4,64,128,2", &[&int4[..], &installed].concat());
    assert_eq!(bench.checked(&spec, 8, 3), (4, 4));
    std::fs::write(&file, format!("{renamed}{SGLANGS}{}", SGLANGS_OF_GROUPS.replace("even_Ks: tl", "is_even: tl")))
        .unwrap();
    let kernels = [
        "serving",
        "kernels",
        "--engine",
        "sglang",
        "--gpu",
        "AMD Instinct MI300X",
        "--moe",
        "4,64,128,2",
        "-o",
        "moe",
    ];
    let error = text(&expect(bench.command(&kernels).args(int4).args(installed), 2).stderr);
    assert!(
        error.contains("found is_even in sglang of unknown version: argument 38 of fused_moe_kernel_gptq_awq"),
        "{error}"
    );
}

#[test]
fn a_ladder_of_four_bits_is_tuned_and_verified() {
    let Some(bench) = Bench::new() else { return };
    let more =
        ["--gpu", "AMD Instinct MI300X", "--json", "--device", "gpu", "--dtype", "int4_w4a16", "--group-size", "32"];
    let tune = TUNE.map(|argument| if argument == "2,16,16,1" { "2,32,64,2" } else { argument });
    let told = json(&expect(bench.command(&tune).args(more), 0));
    let name = "E=2,N=32,device_name=AMD_Instinct_MI300X,dtype=int4_w4a16.json";
    assert_eq!(told[0]["file"], format!("tuned/{name}"));
    let written = std::fs::read_to_string(bench.folder().join("tuned").join(name)).unwrap();
    let file: Value = serde_json::from_str(&written).unwrap();
    assert!(file["1"]["SPLIT_K"] == 1 && file["2"]["SPLIT_K"] == 1, "{written}");
    let path = format!("tuned/{name}");
    let verify =
        ["verify", &path, "--hidden", "64", "--topk", "2", "--device", "gpu", "--group-size", "32", "--json", "--fix"];
    let judged: Value = serde_json::from_slice(&expect(&mut bench.command(&verify), 0).stdout).unwrap();
    let rows = judged[0]["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["time"]["median_ms"].is_number()), "{judged:#}");
    // Another kernel of the same file, as no name says that groups have zero points.
    let zeros: Value =
        serde_json::from_slice(&expect(bench.command(&verify[..11]).arg("--zero-points"), 0).stdout).unwrap();
    assert!(zeros[0]["rows"][0]["time"]["median_ms"].is_number(), "{zeros:#}");
    std::fs::write(bench.folder().join(VERIFIED), rows_of(&[RUNS])).unwrap();
    let error = text(&expect(&mut bench.verify(&["--group-size", "32"]), 1).stderr);
    assert!(error.contains(".json: expected a file for int4_w4a16 or int8_w8a16"), "{error}");
}

#[test]
fn second_products_are_tuned_beside_the_first_and_verified() {
    let Some(bench) = Bench::new() else { return };
    let tune = TUNE.map(|argument| if argument == "vllm" { "sglang" } else { argument });
    let more = ["--gpu", "AMD Instinct MI300X", "--json", "--device", "gpu", "--down"];
    let told = json(&expect(bench.command(&tune).args(more), 0));
    let read = |at: usize| -> (String, Value) {
        let path = told[at]["file"].as_str().unwrap();
        (path.to_string(), serde_json::from_slice(&std::fs::read(bench.folder().join(path)).unwrap()).unwrap())
    };
    let ((first, up), (second, down)) = (read(0), read(1));
    assert!(first.starts_with("tuned/configs/triton_3_"), "{first}");
    assert_eq!(first.replace(".json", "_down.json"), second);
    for size in ["1", "2"] {
        assert_eq!(up[size]["BLOCK_SIZE_M"], down[size]["BLOCK_SIZE_M"], "{up} {down}");
        assert!(down[size]["BLOCK_SIZE_M"].is_number() && down[size].get("USE_TMA").is_none(), "{down}");
    }
    let rows = told[1]["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["median_ms"].is_number() && row["failed"] == serde_json::json!({})), "{told}");
    expect(&mut bench.command(&["serving", "check", "tuned/configs", "--allow", "gap"]), 0);
    let verify = ["verify", &second, "--hidden", "16", "--topk", "1", "--device", "gpu", "--json", "--fix"];
    let judged: Value = serde_json::from_slice(&expect(&mut bench.command(&verify), 0).stdout).unwrap();
    assert!(
        judged[0]["rows"].as_array().unwrap().iter().all(|row| row["default"]["median_ms"].is_number()),
        "{judged:#}"
    );
    let vllm = text(&expect(bench.command(&TUNE).args(more), 2).stderr);
    assert!(vllm.contains("--down: found vllm, expected sglang"), "{vllm}");
}

/// A ladder of two batch sizes.
const TUNE: [&str; 10] =
    ["serving", "tune", "--moe", "2,16,16,1", "--engine", "vllm", "--tokens", "1,2", "--budget", "1"];

#[test]
fn a_ladder_is_tuned_and_written_as_the_engine_reads_it() {
    let Some(bench) = Bench::new() else { return };
    let tune = [&TUNE[..], &["--gpu", "AMD Instinct MI300X"]].concat();
    let told = json(&expect(bench.command(&tune).args(["--json", "--device", "gpu"]), 0));
    let name = "E=2,N=16,device_name=AMD_Instinct_MI300X.json";
    assert_eq!(told[0]["file"], format!("tuned/{name}"));
    let rows = told[0]["rows"].as_array().unwrap();
    assert_eq!(rows.iter().map(|row| &row["tokens"]).collect::<Vec<_>>(), [1, 2], "{told}");
    assert!(rows.iter().all(|row| row["median_ms"].is_number() && row["failed"] == serde_json::json!({})), "{told}");
    let path = bench.folder().join("tuned").join(name);
    let written = std::fs::read_to_string(&path).unwrap();
    let file: Value = serde_json::from_str(&written).unwrap();
    for row in rows {
        assert_eq!(file[row["tokens"].to_string()], row["row"], "{written}");
    }
    assert!(written.starts_with("{\n    \"triton_version\": \"3.") && written.ends_with("    }\n}\n"), "{written}");
    // Once more there is nothing to do, and the file is the same.
    std::fs::remove_file(&path).unwrap();
    let again = json(&expect(bench.command(&tune).args(["--json", "--device", "gpu"]), 0));
    assert_eq!((&again, std::fs::read_to_string(&path).unwrap()), (&told, written));
    // One batch size again: the others keep their rows.
    let one = [&tune[..4], &["--engine", "vllm", "--tokens", "1", "--budget", "1", "--device", "gpu"]].concat();
    expect(bench.command(&one).args(["--gpu", "AMD Instinct MI300X"]), 0);
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!((&kept["2"], &kept["triton_version"]), (&file["2"], &file["triton_version"]), "{kept}");
    // Two layers with one file are refused before anything is tuned.
    let two = text(&expect(bench.command(&tune).args(["--moe", "2,16,32,1", "--device", "gpu"]), 2).stderr);
    assert!(
        two.contains(&format!("{name}: found it for two layers, 2,16,16,1 tp=1 ep=1 (K=16 topk=1 16 bits)")),
        "{two}"
    );
    // What is told of it works as it stands.
    let said = text(&expect(bench.command(&tune).args(["--device", "gpu"]), 0).stdout);
    let results = said.trim_end().rsplit_once("every candidate: bluefin ").unwrap().1.to_string();
    assert!(text(&expect(&mut bench.command(&results.split(' ').collect::<Vec<_>>()), 0).stdout).contains("Searched"));
    let other = text(&expect(bench.command(&TUNE).args(["--device", "gpu", "--gpu", "NVIDIA H200"]), 2).stderr);
    assert!(other.contains("--gpu \"NVIDIA H200\": found a GPU of sm_90, expected one of gfx942"), "{other}");
    // Rows beside the space of the engine's tuner are another session's.
    let widened = json(&expect(bench.command(&tune).args(["--json", "--device", "gpu", "--widen"]), 0));
    assert!(widened[0]["rows"][1]["median_ms"].is_number(), "{widened}");
    assert_ne!(widened[0]["session"], told[0]["session"]);
    let host = text(&expect(bench.command(&tune).args(["--device", "host"]), 1).stderr);
    assert!(host.contains("does not compile for host, expected a GPU"), "{host}");
}

#[test]
fn a_fleet_tunes_a_ladder_too() {
    let Some(bench) = Bench::new() else { return };
    let (fleet, _vhost, _redis, _cache) = on_servers();
    let python = [("BLUEFIN_PYTHON", bench.python.clone())];
    let _compile = fleet.worker_with(&["compile-worker", "--toolchain", "triton"], python);
    let executed = [("BLUEFIN_STANDIN_BACKEND", "executed".into()), ("BLUEFIN_STANDIN_MEMORY", "67108864".into())];
    let environment = bench.machine.environment().into_iter().chain(executed);
    let _eval = fleet.worker_with(&["eval-worker", "--sample-budget", "20ms"], environment);
    let tune = [&TUNE[..], &["--json", "--fleet"]].concat();
    let for_it = ["--device", "gfx942-304", "--gpu", "AMD Instinct MI300X"];
    let told = json(&expect(fleet.bluefin(&tune).args(for_it), 0));
    let rows = told[0]["rows"].as_array().unwrap();
    assert!(rows.len() == 2 && rows.iter().all(|row| row["median_ms"].is_number()), "{told}");
    let file = |folder: &Path| std::fs::read_to_string(folder.join(told[0]["file"].as_str().unwrap())).unwrap();
    let written = file(fleet.folder.path());
    assert!(written.starts_with("{\n    \"triton_version\": \"3."), "the workers' own: {written}");
    // The same again asks nothing of anybody.
    assert_eq!(json(&expect(fleet.bluefin(&tune).args(for_it), 0)), told);
    assert_eq!(file(fleet.folder.path()), written);
    let unnamed = text(&expect(fleet.bluefin(&tune).args(["--device", "gfx942-304"]), 2).stderr);
    assert!(unnamed.contains("--gpu"), "{unnamed}");
    let no_target =
        text(&expect(fleet.bluefin(&tune).args(["--device", "0", "--gpu", "AMD Instinct MI300X"]), 2).stderr);
    assert!(no_target.contains("--device"), "{no_target}");
}
