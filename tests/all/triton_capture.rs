//! Kernels of a program that nobody edits: captured by a hook, tuned, and given back. The program, its torch and its GPU are in
//! `tests/stand-ins/triton`, Triton is real.

mod carried;
mod descriptors;
mod graphs;
mod named;
mod tuners;
mod wild;

use std::path::{Path, PathBuf};
use std::process::Command;

use bluefin_test_support::hip::HipMachine;
use bluefin_test_support::triton_python;
use serde_json::Value;

use crate::common::{bluefin, expect, json, text};

const ALL: &str = "products 48 40 72, sums 500";

/// A folder with the program's captures, and the Python that made them; nothing on a machine without Triton.
struct Program {
    python: PathBuf,
    folder: tempfile::TempDir,
}

impl Program {
    fn new() -> Option<Self> {
        let python = triton_python()?;
        Some(Self { python: python.into(), folder: tempfile::tempdir().unwrap() })
    }

    fn bluefin(&self) -> Command {
        let mut command = bluefin();
        command.env("BLUEFIN_PYTHON", &self.python).current_dir(self.folder.path());
        command
    }

    /// A verb that runs the program.
    fn run(&self, arguments: &[&str], program: &str, environment: &[(&str, &str)]) -> Command {
        let stand_ins = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stand-ins/triton");
        let mut command = self.bluefin();
        command.args(arguments).arg("--").arg(&self.python).args(["-W", "ignore"]).arg(stand_ins.join(program));
        command.envs(environment.iter().copied()).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("TRITON_CACHE_DIR", self.folder.path().join("triton"));
        command.env("TORCHINDUCTOR_CACHE_DIR", self.folder.path().join("inductor"));
        command
    }

    /// The same without bluefin.
    fn alone(&self, program: &str, environment: &[(&str, &str)]) -> String {
        let mut command = Command::new(&self.python);
        command
            .args(["-W", "ignore"])
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stand-ins/triton").join(program));
        command.current_dir(self.folder.path()).env("PYTHONDONTWRITEBYTECODE", "1").envs(environment.iter().copied());
        text(&expect(&mut command, 0).stdout)
    }

    fn captured(&self, kernels: &str) -> Value {
        let kernels = [("STAND_IN_KERNELS", kernels)];
        let output =
            expect(&mut self.run(&["capture", "--triton", "-o", "kernels", "--json"], "program.py", &kernels), 0);
        let printed = text(&output.stdout);
        assert!(printed.ends_with("benchmarked 0\n"), "it tuned: {printed}");
        serde_json::from_str(text(&output.stderr).lines().last().unwrap()).unwrap()
    }

    /// Tunes what was captured on a stand-in for a GPU. Returns what it said, and `triton-tuned.json`.
    fn tuned(&self, more: &[&str]) -> (String, Value) {
        let machine = HipMachine::new("gfx942-304");
        let mut tune = self.bluefin();
        tune.args(["tune", "--triton", "kernels", "--device", "gpu"]).args(more).envs(machine.environment());
        tune.env("BLUEFIN_STANDIN_BACKEND", "executed").env("BLUEFIN_STANDIN_MEMORY", (64 << 20).to_string());
        let said = text(&expect(&mut tune, 0).stderr);
        let path = self.folder.path().join("out/triton-tuned.json");
        (said, serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap())
    }

    fn spec(&self, report: &Value, function: &str, at: usize) -> String {
        let names = report["kernels"].as_array().unwrap().iter().filter(|one| one["function"] == function);
        let name = names.map(|one| one["name"].as_str().unwrap()).nth(at).unwrap();
        std::fs::read_to_string(self.folder.path().join("kernels").join(name).join("spec.toml")).unwrap()
    }
}

/// A server's processes end by signals, and children of multiprocessing without Python's exit.
#[test]
fn kernels_of_processes_that_end_by_themselves_are_captured() {
    let Some(program) = Program::new() else { return };
    let output = program.run(&["capture", "--triton", "-o", "kernels", "--json"], "ends.py", &[]).output().unwrap();
    let report: Value = serde_json::from_str(text(&output.stderr).lines().last().unwrap()).unwrap();
    let kernels = report["kernels"].as_array().unwrap();
    let told: Vec<_> = kernels.iter().map(|one| (one["function"].as_str().unwrap(), &one["calls"])).collect();
    assert_eq!(told, [("prints", &1.into()), ("rounds", &1.into())], "{report:#}");
    // What prints does so nowhere; a cast too many is more than sums in another order come to.
    let mut check = program.bluefin();
    check.args(["check", "--triton", "kernels", "--target", "gfx942", "--json"]);
    let checked = json(&expect(&mut check, 1));
    let results = |solver: &str| {
        let all = checked["candidates"].as_array().unwrap().iter().filter(|one| one["solver"] == solver);
        all.map(|one| one["result"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(results("prints"), ["right", "right"], "{checked:#}");
    assert_eq!(results("rounds"), ["right", "wrong_result"], "{checked:#}");
    // Another Triton made them, which is said.
    let kernels = program.folder.path().join("kernels");
    for entry in std::fs::read_dir(kernels).unwrap().flatten() {
        let path = entry.path().join("capture.json");
        if let Ok(text) = std::fs::read_to_string(&path) {
            let mut document: Value = serde_json::from_str(&text).unwrap();
            document["triton"] = "3.0.9".into();
            std::fs::write(path, document.to_string()).unwrap();
        }
    }
    let said = text(&check.output().unwrap().stderr);
    assert!(said.contains("kernels: captured from Triton 3.0.9, compiled by "), "{said}");
    // What was found is read before the program is started.
    std::fs::write(program.folder.path().join("triton-tuned.json"), "{").unwrap();
    let said = text(&expect(&mut program.run(&["apply", "--triton", "."], "ends.py", &[]), 1).stderr);
    assert!(said.contains("triton-tuned.json: expected what `bluefin tune --triton` writes"), "{said}");
}

#[test]
fn a_program_is_captured_without_tuning() {
    let Some(program) = Program::new() else { return };
    let report = program.captured(ALL);
    assert_eq!(report["left"], Value::Array(Vec::new()));
    let kernels = report["kernels"].as_array().unwrap();
    let told: Vec<_> =
        kernels.iter().map(|one| (one["function"].as_str().unwrap(), &one["configs"], &one["calls"])).collect();
    let (three, four, one, two) = (3.into(), 4.into(), 1.into(), 2.into());
    assert_eq!(told, [("gather", &three, &one), ("product", &four, &two), ("product", &four, &two)], "{report}");
    // Roles by what the code does, contents of integers, a view that begins amid its memory, and what is zeroed.
    let gather = program.spec(&report, "gather", 0);
    for part in [
        "name = \"places\"\ntype = \"INT32\"\nlength = 500\nrole = \"input\"\ndata = \"places.bin\"",
        "name = \"sums\"\ntype = \"FP32\"\nlength = 16\nrole = \"inout\"\nfill = 0.0",
        "grid = [\"ceil_div(500, BLOCK)\"]",
    ] {
        assert!(gather.contains(part), "{part}\nin\n{gather}");
    }
    let product = [program.spec(&report, "product", 0), program.spec(&report, "product", 1)];
    assert!(product.iter().any(|spec| spec.contains("\"c\", \"none\", { i32 = 48 }")), "{product:?}");
    assert!(product.iter().any(|spec| spec.contains("\"c\", \"bias\", { i32 = 48 }")), "{product:?}");
    for part in
        ["role = \"output\"", "EVEN = false", "ACTIVATION = \"leaky\"", "OUT = { dtype = \"fp32\" }", "{ i1 = true }"]
    {
        assert!(product[0].contains(part), "{part}\nin\n{}", product[0]);
    }
    // A second time is the same, and counts on.
    program.captured(ALL);
    let calls = std::fs::read_to_string(program.folder.path().join("kernels/calls.json")).unwrap();
    let calls: Value = serde_json::from_str(&calls).unwrap();
    assert_eq!(calls.as_object().unwrap().values().map(|one| one["calls"].as_u64().unwrap()).sum::<u64>(), 10);
}

#[test]
fn what_was_captured_is_right_on_amd_gpus() {
    let Some(program) = Program::new() else { return };
    program.captured(ALL);
    for target in ["gfx90a", "gfx942"] {
        let report =
            json(&expect(program.bluefin().args(["check", "--triton", "kernels", "--json", "--target", target]), 0));
        let candidates = report["candidates"].as_array().unwrap();
        let wrong: Vec<&Value> = candidates.iter().filter(|one| one["result"] != "right").collect();
        assert!(wrong.is_empty() && candidates.len() == 11, "{target}: {} candidates, {wrong:#?}", candidates.len());
    }
}

/// What is found comes back by the hook and by Triton's own cache: the program takes it and benchmarks nothing.
#[test]
fn what_was_found_comes_back_into_the_program() {
    let Some(program) = Program::new() else { return };
    program.captured("sums 64");
    let machine = HipMachine::new("gfx942-304");
    let mut tune = program.bluefin();
    tune.args(["tune", "--triton", "kernels", "--device", "gpu"]).envs(machine.environment());
    tune.env("BLUEFIN_STANDIN_BACKEND", "executed").env("BLUEFIN_STANDIN_MEMORY", (64 << 20).to_string());
    let said = text(&expect(&mut tune, 0).stderr);
    assert!(said.contains("bluefin apply --triton out"), "{said}");
    // A config that is in no list of the program's, so that it must have been told.
    let folder = program.folder.path().join("out");
    let of = |path: PathBuf| serde_json::from_str::<Value>(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut tuned = of(folder.join("triton-tuned.json"));
    let found = tuned["kernels"][0]["kwargs"]["BLOCK"]["int"].as_u64().unwrap();
    assert!([64, 128, 256].contains(&found), "{tuned}");
    tuned["kernels"][0]["kwargs"]["BLOCK"]["int"] = 512.into();
    std::fs::write(folder.join("triton-tuned.json"), tuned.to_string()).unwrap();
    let apply = |environment: &[(&str, &str)]| {
        let output = expect(&mut program.run(&["apply", "--triton", "out"], "program.py", environment), 0);
        (text(&output.stdout), text(&output.stderr))
    };
    let kernels = |kernels| ("STAND_IN_KERNELS", kernels);
    let (printed, said) = apply(&[kernels("sums 64")]);
    assert!(printed.contains("gather BLOCK: 512") && printed.ends_with("benchmarked 0\n"), "{printed}");
    assert!(said.contains("1 tuning key had the config that was found"), "{said}");
    // Another size has that of the nearest key, another function and another GPU none.
    let (printed, said) = apply(&[kernels("sums 100, products 16 16 16")]);
    assert!(printed.contains("gather BLOCK: 512") && printed.ends_with("benchmarked 8\n"), "{printed}");
    assert!(
        said.contains("0 tuning keys had the config that was found, 1 that of the nearest key, 2 left to Triton"),
        "{said}"
    );
    assert!(said.contains("it was not tuned"), "{said}");
    let (printed, said) = apply(&[kernels("sums 64"), ("STAND_IN_TARGET", "hip gfx90a 64")]);
    assert!(printed.ends_with("benchmarked 3\n") && said.contains("what was found is for gfx942"), "{printed}{said}");
    // And without bluefin: the choice is in Triton's own cache.
    let cache = [("TRITON_CACHE_AUTOTUNING", "1"), ("TRITON_CACHE_DIR", "out/triton-cache"), kernels("sums 64")];
    let printed = program.alone("program.py", &cache);
    assert!(printed.contains(&format!("gather BLOCK: {found}")) && printed.ends_with("benchmarked 0\n"), "{printed}");
}

/// A kernel that PyTorch's Inductor wrote is captured, checked, tuned and given back as the program's own are, by the hook and by Inductor's
/// own cache: it benchmarks nothing, and compiles one config.
#[test]
fn a_kernel_of_inductors_goes_the_same_way() {
    let Some(program) = Program::new() else { return };
    let capture = ["capture", "--triton", "-o", "kernels", "--json"];
    for descends in [&[][..], &[("STAND_IN_DESCENDS", "1")]] {
        let _ = std::fs::remove_dir_all(program.folder.path().join("kernels"));
        let output = expect(&mut program.run(&capture, "compiled.py", descends), 0);
        let printed = text(&output.stdout);
        assert!(printed.starts_with("add XBLOCK: 64") && printed.ends_with("benchmarked 0\n"), "{printed}");
        let report: Value = serde_json::from_str(text(&output.stderr).lines().last().unwrap()).unwrap();
        // What is only weighed does not count.
        assert_eq!(report["kernels"][0]["calls"], 3, "{report}");
        let spec = program.spec(&report, "triton_poi_fused_add_clone_embedding_gelu_mean_mul_native_layer_norm_0", 0);
        assert!(spec.contains("grid = [\"ceil_div(500, XBLOCK)\"]") && spec.contains("role = \"inout\""), "{spec}");
        let check = ["check", "--triton", "kernels", "--json", "--target", "gfx1100"];
        let checked = json(&expect(program.bluefin().args(check), 0));
        let results: Vec<_> = checked["candidates"].as_array().unwrap().iter().map(|one| &one["result"]).collect();
        assert_eq!(results, ["right"; 3]);
        let (said, mut tuned) = program.tuned(&["--budget", "thorough"]);
        assert!(
            said.contains("  or without bluefin: TORCHINDUCTOR_CACHE_DIR=out/inductor-cache python3 PROGRAM"),
            "{said}"
        );
        let path = program.folder.path().join("out/triton-tuned.json");
        let found = tuned["kernels"][0]["kwargs"]["XBLOCK"]["int"].as_u64().unwrap();
        let cache = ("TORCHINDUCTOR_CACHE_DIR", "out/inductor-cache");
        let printed = program.alone("compiled.py", &[descends, &[cache]].concat());
        assert!(printed.contains(&format!("add XBLOCK: {found}")) && printed.ends_with("benchmarked 0\n"), "{printed}");
        // One that is in no list, so that it must have been told; for another size, which is in the same file, that of the nearest.
        tuned["kernels"][0]["kwargs"]["XBLOCK"]["int"] = 512.into();
        std::fs::write(&path, tuned.to_string()).unwrap();
        for (size, said) in [("500", "1 tuning key had the config"), ("900", "1 that of the nearest key")] {
            let environment = [descends, &[("STAND_IN_SIZE", size)]].concat();
            let output = expect(&mut program.run(&["apply", "--triton", "out"], "compiled.py", &environment), 0);
            let (printed, told) = (text(&output.stdout), text(&output.stderr));
            assert!(printed.starts_with("add XBLOCK: 512") && printed.ends_with("benchmarked 0\n"), "{printed}");
            assert!(told.contains(said), "{told}");
        }
        let other = [("STAND_IN_TARGET", "hip gfx90a 64")];
        let output = expect(&mut program.run(&["apply", "--triton", "out"], "compiled.py", &other), 0);
        assert!(text(&output.stderr).contains("what was found is for gfx942"), "{}", text(&output.stderr));
    }
}

/// A matrix product for which Inductor chooses between a library and a template is captured as one kernel, tuned, and given back as times, by
/// the hook and in Inductor's own cache: nothing is timed, and the library is taken where it is faster.
#[test]
fn a_template_of_inductors_is_chosen_by_times() {
    let Some(program) = Program::new() else { return };
    for (library, takes) in [("100", "triton_mm"), ("0.001", "mm")] {
        let _ = std::fs::remove_dir_all(program.folder.path().join("kernels"));
        let library = [("STAND_IN_LIBRARY", library)];
        let capture = ["capture", "--triton", "-o", "kernels", "--json"];
        let output = expect(&mut program.run(&capture, "templates.py", &library), 0);
        let report: Value = serde_json::from_str(text(&output.stderr).lines().last().unwrap()).unwrap();
        let mut configs: Vec<_> =
            report["kernels"].as_array().unwrap().iter().map(|one| one["configs"].as_u64().unwrap()).collect();
        configs.sort_unstable();
        assert_eq!((configs, &report["left"]), (vec![2, 4], &Value::Array(Vec::new())));
        // Two libraries, the first config, which does not compile, and the next; then the first of another question.
        let printed = text(&output.stdout);
        assert!(printed.contains(&format!("took {takes} ")) && printed.ends_with("compiled 0 timed 5\n"), "{printed}");
        let specs = program.spec(&report, "triton_mm", 0) + program.spec(&report, "triton_mm", 1).as_str();
        let last = "{ BLOCK_M = 16, BLOCK_N = 128, EVEN_N = false, num_stages = 1, num_warps = 4 }";
        assert!(specs.contains(last), "{specs}");
        let checked =
            json(&expect(program.bluefin().args(["check", "--triton", "kernels", "--json", "--target", "gfx1100"]), 0));
        let results: Vec<_> = checked["candidates"].as_array().unwrap().iter().map(|one| &one["result"]).collect();
        assert_eq!(results, ["right"; 6]);
        let (_, tuned) = program.tuned(&["--budget", "thorough"]);
        let rows = tuned["kernels"].as_array().unwrap().iter();
        let ms = |row: &&Value| row["median_ms"].as_f64().unwrap();
        let fastest = rows.min_by(|one, other| ms(one).total_cmp(&ms(other))).unwrap();
        let found = fastest["kwargs"]["BLOCK_M"]["int"].as_u64().unwrap();
        let takes = if takes == "mm" { "took mm \n".to_string() } else { format!("took triton_mm BLOCK_M={found}, ") };
        let cache = ("TORCHINDUCTOR_CACHE_DIR", "out/inductor-cache");
        let printed = program.alone("templates.py", &[cache]);
        assert!(printed.starts_with(&takes) && printed.ends_with("compiled 0 timed 0\n"), "{printed}");
        let output = expect(&mut program.run(&["apply", "--triton", "out"], "templates.py", &[]), 0);
        let (printed, told) = (text(&output.stdout), text(&output.stderr));
        assert!(printed.starts_with(&takes) && printed.ends_with("compiled 0 timed 0\n"), "{printed}");
        assert!(told.contains("1 tuning key had the config"), "{told}");
        // Captured again with that cache, it goes on with what won, and meets what comes behind it.
        let again = ["capture", "--triton", "-o", "again"];
        let mut again = program.run(&again, "templates.py", &[]);
        let printed = text(&expect(again.env(cache.0, cache.1), 0).stdout);
        assert!(printed.starts_with(&takes) && printed.ends_with("compiled 0 timed 5\n"), "{printed}");
        let other = [("STAND_IN_TARGET", "hip gfx90a 64")];
        let output = expect(&mut program.run(&["apply", "--triton", "out"], "templates.py", &other), 0);
        let (printed, told) = (text(&output.stdout), text(&output.stderr));
        assert!(printed.ends_with("compiled 14 timed 14\n") && told.contains("what was found is for gfx942"), "{told}");
    }
}

/// What is tuned on another GPU than the one it was captured on is for that other one alone, and Triton finds it there.
#[test]
fn what_is_tuned_on_another_gpu_is_for_that_one() {
    let Some(program) = Program::new() else { return };
    program.captured("sums 64");
    let (captured_for, other) = (HipMachine::new("gfx942-304"), HipMachine::new("gfx90a-104"));
    let on = |machine: &HipMachine, args: &[&str]| {
        let mut command = program.bluefin();
        command.args(args).args(["--triton", "kernels", "--device", "gpu"]).envs(machine.environment());
        command.env("BLUEFIN_STANDIN_BACKEND", "executed").env("BLUEFIN_STANDIN_MEMORY", (64 << 20).to_string());
        command
    };
    let said = text(&expect(&mut on(&other, &["tune"]), 0).stderr);
    assert!(said.contains("TRITON_CACHE_DIR=out/triton-cache"), "{said}");
    let alone = |target: &str| {
        let out = program.folder.path().join("out");
        // A copy: the program keeps there what it finds by itself.
        let cache = program.folder.path().join(format!("cache-{target}"));
        expect(Command::new("cp").arg("-r").arg(out.join("triton-cache")).arg(&cache), 0);
        let (cache, target) = (cache.display().to_string(), format!("hip {target} 64"));
        let asked = [("TRITON_CACHE_AUTOTUNING", "1"), ("TRITON_CACHE_DIR", cache.as_str())];
        let stand_in = [("STAND_IN_TARGET", target.as_str()), ("STAND_IN_KERNELS", "sums 64")];
        program.alone("program.py", &[asked, stand_in].concat())
    };
    for (target, benchmarked) in [("gfx90a", 0), ("gfx942", 3)] {
        let printed = alone(target);
        assert!(printed.ends_with(&format!("benchmarked {benchmarked}\n")), "{target}: {printed}");
    }
    let applied = |target: &str| {
        let target = format!("hip {target} 64");
        let environment = [("STAND_IN_KERNELS", "sums 64"), ("STAND_IN_TARGET", target.as_str())];
        text(&expect(&mut program.run(&["apply", "--triton", "out"], "program.py", &environment), 0).stderr)
    };
    for (target, said) in
        [("gfx90a", "1 tuning key had the config that was found"), ("gfx942", "what was found is for gfx90a")]
    {
        let told = applied(target);
        assert!(told.contains(said), "{target}: {told}");
    }
    expect(&mut on(&other, &["verify", "out/triton-cache"]), 0);
    let refused = text(&expect(&mut on(&captured_for, &["verify", "out/triton-cache"]), 1).stderr);
    assert!(refused.contains("out/triton-cache: found choices for gfx90a, expected some for gfx942"), "{refused}");
}

/// The choices in Triton's cache are held against the config that the program runs by without it.
#[test]
fn choices_that_lose_to_the_programs_own_are_told_and_replaced() {
    let Some(program) = Program::new() else { return };
    program.captured("sums 64");
    let machine = HipMachine::new("gfx942-304");
    let verify = |more: &[&str]| {
        let mut verify = program.bluefin();
        verify.args(["verify", "cache", "--triton", "kernels", "--device", "gpu"]).args(more);
        verify.envs(machine.environment()).env("BLUEFIN_STANDIN_BACKEND", "executed");
        verify.env("BLUEFIN_STANDIN_MEMORY", (64 << 20).to_string());
        verify
    };
    let kernels = program.folder.path().join("kernels");
    let capture = std::fs::read_dir(&kernels).unwrap().map(|entry| entry.unwrap().path().join("capture.json"));
    let capture = capture.into_iter().find(|path| path.is_file()).unwrap();
    let capture: Value = serde_json::from_str(&std::fs::read_to_string(capture).unwrap()).unwrap();
    let place = |part: &str| capture["cache"][part].as_str().unwrap();
    let folder = program.folder.path().join("cache").join(place("folder"));
    std::fs::create_dir_all(program.folder.path().join("cache")).unwrap();
    let none = text(&expect(&mut verify(&[]), 1).stderr);
    assert!(none.contains("cache: found no choice for a kernel of kernels, expected files such as cache/"), "{none}");
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join(place("file"));
    let put = |block: u32, warps: u32| {
        let config = format!(
            "{{\"kwargs\": {{\"BLOCK\": {block}}}, \"num_warps\": {warps}, \"num_ctas\": 1, \"num_stages\": 3, \"maxnreg\": null, \
             \"pre_hook\": null, \"ir_override\": null}}"
        );
        std::fs::write(&path, format!("{{\"key\": [64], \"configs_timings\": [[{config}, [1.0, 1.0, 1.0]]]}}"))
            .unwrap();
    };
    let kept = || -> Value { serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap() };
    // In the program's list, and beside it.
    for (block, warps) in [(256, 4), (512, 8)] {
        put(block, warps);
        let told = json(&expect(&mut verify(&["--json"]), 1));
        let row = &told[0]["rows"][0];
        assert_eq!((&row["function"], &row["verdict"]), (&"gather".into(), &"slower".into()), "{told:#}");
        assert_eq!((&row["row"]["kwargs"]["BLOCK"], &told[0]["replaced"]), (&block.into(), &false.into()), "{told:#}");
    }
    let said = text(&expect(&mut verify(&["--fix"]), 0).stdout);
    assert!(said.contains(" SLOWER  BLOCK=512 num_warps=8 num_stages=3: "), "{said}");
    let fixed = kept();
    assert_eq!(
        (&fixed["key"], &fixed["configs_timings"][0][0]["kwargs"]["BLOCK"]),
        (&serde_json::json!([64]), &64.into())
    );
    let said = text(&expect(&mut verify(&[]), 0).stdout);
    assert!(said.contains(" DEFAULT "), "{said}");
    // The program takes it.
    let mut alone = Command::new(&program.python);
    alone.args(["-W", "ignore"]).arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stand-ins/triton/program.py"));
    alone.env("TRITON_CACHE_AUTOTUNING", "1").env("TRITON_CACHE_DIR", program.folder.path().join("cache"));
    alone.env("PYTHONDONTWRITEBYTECODE", "1").env("STAND_IN_KERNELS", "sums 64");
    let printed = text(&expect(&mut alone, 0).stdout);
    assert!(printed.contains("gather BLOCK: 64") && printed.ends_with("benchmarked 0\n"), "{printed}");

    put(256, 4);
    expect(&mut verify(&["--retune"]), 0);
    assert_ne!(kept()["configs_timings"][0][0]["kwargs"]["BLOCK"], 256);
}

/// A function without an autotuner is captured if that is asked, and launched with what was found for it.
#[test]
fn a_launch_without_an_autotuner_is_one_config() {
    let Some(program) = Program::new() else { return };
    let kernels = [("STAND_IN_KERNELS", "shifts 300, sums 64")];
    let capture = ["capture", "--triton", "--jit", "-o", "kernels", "--json"];
    let said = text(&expect(&mut program.run(&capture, "program.py", &kernels), 0).stderr);
    let report: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    let told = |one: &Value| (one["function"].clone(), one["configs"].clone(), one["calls"].clone());
    let told: Vec<_> = report["kernels"].as_array().unwrap().iter().map(told).collect();
    // What an autotuner launches is the autotuner's.
    assert_eq!(told, [("gather".into(), 3.into(), 1.into()), ("shift".into(), 1.into(), 3.into())], "{report}");
    let spec = program.spec(&report, "shift", 0);
    for part in ["ROUNDS = 3", "{ BLOCK = 128, num_stages = 2, num_warps = 2 }", "grid = [\"3\"]"] {
        assert!(spec.contains(part), "{part}\nin\n{spec}");
    }
    let report = json(&expect(
        program.bluefin().args(["check", "--triton", "kernels", "--widen", "--json", "--target", "gfx942"]),
        0,
    ));
    let of_shift = report["candidates"].as_array().unwrap().iter().filter(|one| one["solver"] == "shift");
    assert_eq!(of_shift.count(), 16, "blocks, warps and stages beside its own: {report}");
    let (_, mut tuned) = program.tuned(&[]);
    for kernel in tuned["kernels"].as_array_mut().unwrap().iter_mut().filter(|one| one["function"] == "shift") {
        assert_eq!(kernel["jit"], true);
        kernel["kwargs"]["BLOCK"]["int"] = 256.into();
        kernel["options"]["num_warps"]["int"] = 8.into();
    }
    std::fs::write(program.folder.path().join("out/triton-tuned.json"), tuned.to_string()).unwrap();
    let apply = |kernels| {
        let environment = [("STAND_IN_KERNELS", kernels)];
        let output = expect(&mut program.run(&["apply", "--triton", "out"], "program.py", &environment), 0);
        (text(&output.stdout), text(&output.stderr))
    };
    let (printed, said) = apply("shifts 300");
    assert!(printed.contains("shift warps 8 shape [256]"), "{printed}");
    assert!(said.contains("1 tuning key had the config that was found"), "{said}");
    let (printed, said) = apply("shifts 1000");
    assert!(
        printed.contains("shift warps 8 shape [256]") && said.contains("1 that of the nearest key"),
        "{printed}{said}"
    );
}

#[test]
fn what_a_program_may_do_is_said() {
    let Some(program) = Program::new() else { return };
    let capture = &["capture", "--triton", "-o", "kernels"];
    let odd = expect(&mut program.run(capture, "odd.py", &[]), 3);
    let said = text(&odd.stderr);
    for part in [
        "hooked",
        "its pre_hook does more to out than to set it to zero: clone",
        "described",
        "its pre_hook sets out.shape",
        "interpreted",
        "its function is a Plain, expected one of @triton.jit",
        "addressed",
        "it reads addresses out of memory",
        "nameless",
        "uses a lambda (",
        "worded",
        "found a constexpr that is a Word",
    ] {
        assert!(said.contains(part), "{part}\nin\n{said}");
    }
    let none = expect(program.bluefin().args(capture).args(["--", "true"]), 0);
    assert!(text(&none.stderr).contains("no kernel was captured"), "{}", text(&none.stderr));
    let none = expect(program.bluefin().args(["tune", "--triton", "kernels"]), 2);
    assert!(text(&none.stderr).contains("kernels"), "{}", text(&none.stderr));
    let none = expect(program.bluefin().args(["apply", "--triton", "out", "--", "true"]), 1);
    assert!(text(&none.stderr).contains("triton-tuned.json"), "{}", text(&none.stderr));
}
