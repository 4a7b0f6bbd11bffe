//! `bluefin verify` of an engine's files: rows that lose are told, replaced and searched for anew, and a workflow does so each week.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use yaml_rust2::YamlLoader;

use super::Bench;
use crate::common::{expect, json, text};

/// A file's name, and rows of it: one that runs, and one with 32 warps, which are more threads than a block may have.
pub(super) const VERIFIED: &str = "E=2,N=16,device_name=AMD_Instinct_MI300X.json";
pub(super) const RUNS: (u32, u32) = (2, 1);
const FAILS: (u32, u32) = (4, 32);

/// Rows for so many tokens, with so many warps.
pub(super) fn rows_of(rows: &[(u32, u32)]) -> String {
    let row = |(tokens, warps): &(u32, u32)| {
        format!(
            "\"{tokens}\": {{\"BLOCK_SIZE_M\": 16, \"BLOCK_SIZE_N\": 16, \"BLOCK_SIZE_K\": 16, \"GROUP_SIZE_M\": 1, \
             \"num_warps\": {warps}, \"num_stages\": 2}}"
        )
    };
    format!("{{{}}}\n", rows.iter().map(row).collect::<Vec<_>>().join(", "))
}

impl Bench {
    pub(super) fn verify(&self, more: &[&str]) -> Command {
        let verify = ["verify", VERIFIED, "--hidden", "16", "--topk", "1", "--device", "gpu"];
        self.command(&[&verify[..], more].concat())
    }

    pub(super) fn verified(&self) -> Value {
        serde_json::from_str(&std::fs::read_to_string(self.folder().join(VERIFIED)).unwrap()).unwrap()
    }
}

#[test]
fn a_row_that_loses_to_the_default_is_told_and_replaced() {
    let Some(bench) = Bench::new() else { return };
    let rows = rows_of(&[RUNS, FAILS]);
    std::fs::write(bench.folder().join(VERIFIED), &rows).unwrap();
    let told = json(&expect(&mut bench.verify(&["--json"]), 1));
    let judged = told[0]["rows"].as_array().unwrap();
    assert_eq!((&told[0]["replaced"], judged.len()), (&false.into(), 2), "{told:#}");
    let timed = &judged[0];
    assert!(["faster", "tied", "slower"].contains(&timed["verdict"].as_str().unwrap()), "{told:#}");
    assert!(timed["time"]["median_ms"].is_number() && timed["default"]["median_ms"].is_number(), "{told:#}");
    assert!(timed["regret"].as_f64().unwrap() >= 0.0, "{told:#}");
    assert_eq!((&judged[1]["verdict"], &judged[1]["tokens"]), (&"fails".into(), &4.into()), "{told:#}");
    assert_eq!(std::fs::read_to_string(bench.folder().join(VERIFIED)).unwrap(), rows);

    std::fs::write(bench.folder().join(VERIFIED), rows_of(&[FAILS])).unwrap();
    let said = text(&expect(&mut bench.verify(&["--fix"]), 0).stdout);
    assert!(said.contains("4 FAILS   16x16x16 g1 w32 s2: - us, default "), "{said}");
    assert!(said.contains("; now "), "{said}");
    let fixed = bench.verified();
    assert_eq!((&fixed["4"]["BLOCK_SIZE_K"], &fixed["4"]["SPLIT_K"]), (&128.into(), &1.into()), "{fixed}");

    // A folder stands for the files in it.
    std::fs::create_dir(bench.folder().join("tuned")).unwrap();
    std::fs::write(bench.folder().join("tuned").join(VERIFIED), rows_of(&[RUNS])).unwrap();
    let in_folder = ["verify", "tuned", "--hidden", "16", "--topk", "1", "--device", "gpu", "--fix"];
    let said = text(&expect(&mut bench.command(&in_folder), 0).stdout);
    assert!(said.starts_with(&format!("tuned/{VERIFIED}:\n")), "{said}");

    // What its reader can launch nothing by fails, and is replaced too.
    std::fs::write(bench.folder().join(VERIFIED), "{\"4\": {}}\n").unwrap();
    let said = text(&expect(&mut bench.verify(&["--fix"]), 0).stdout);
    assert!(said.contains("4 FAILS ") && said.contains(": found no BLOCK_SIZE_M, expected it in every row"), "{said}");
    assert_eq!(bench.verified()["4"]["BLOCK_SIZE_K"], 128);
    std::fs::write(bench.folder().join(VERIFIED), "{}\n").unwrap();
    let error = text(&expect(&mut bench.verify(&[]), 1).stderr);
    assert!(error.contains(".json: found no rows, expected one for each batch size"), "{error}");

    let of_other = VERIFIED.replace("AMD_Instinct_MI300X", "NVIDIA_H200");
    std::fs::write(bench.folder().join(&of_other), &rows).unwrap();
    let error = text(
        &expect(&mut bench.command(&["verify", &of_other, "--hidden", "16", "--topk", "1", "--device", "gpu"]), 2)
            .stderr,
    );
    assert!(error.contains("found a file for NVIDIA_H200, a GPU of sm_90, expected one of gfx942"), "{error}");
    std::fs::write(bench.folder().join(VERIFIED), &rows).unwrap();

    let stranger = format!("triton_3_6_0/{VERIFIED}");
    std::fs::create_dir(bench.folder().join("triton_3_6_0")).unwrap();
    std::fs::write(bench.folder().join(&stranger), &rows).unwrap();
    let error = text(&expect(&mut bench.verify(&[&stranger]), 1).stderr);
    assert!(error.contains("found a file of sglang, expected one of vllm as the first is"), "{error}");
}

/// vLLM calls files for both kinds of scales the same.
#[test]
fn scales_of_channels_are_asked_for() {
    let Some(bench) = Bench::new() else { return };
    let name = VERIFIED.replace(".json", ",dtype=fp8_w8a8.json");
    let verify = |name: &str, more: &[&str], code| {
        std::fs::write(bench.folder().join(name), rows_of(&[RUNS])).unwrap();
        let verify = ["verify", name, "--hidden", "16", "--topk", "1", "--device", "gpu"];
        expect(&mut bench.command(&[&verify[..], more].concat()), code)
    };
    let told: Value = serde_json::from_slice(&verify(&name, &["--per-channel", "--json", "--fix"], 0).stdout).unwrap();
    assert!(told[0]["rows"][0]["time"]["median_ms"].is_number(), "{told:#}");
    let error = text(&verify(VERIFIED, &["--per-channel"], 1).stderr);
    assert!(error.contains(".json: expected a file for fp8_w8a8 without blocks"), "{error}");
}

/// What its rows are worth makes no difference while no loader asks for it.
#[test]
fn a_file_that_no_loader_asks_for_is_told() {
    let Some(bench) = Bench::new() else { return };
    let verify = |name: &str, more: &[&str], code| {
        std::fs::write(bench.folder().join(name), rows_of(&[RUNS])).unwrap();
        let verify = ["verify", name, "--hidden", "16", "--topk", "1", "--device", "gpu", "--fix"];
        text(&expect(&mut bench.command(&[&verify[..], more].concat()), code).stderr)
    };
    let blank = verify(&VERIFIED.replace('_', " ").replace("device name", "device_name"), &[], 1);
    assert!(blank.contains(&format!("found a name that vllm's loader never builds, expected {VERIFIED}")), "{blank}");
    let integers = verify(&VERIFIED.replace(".json", ",dtype=int8_w8a8.json"), &[], 1);
    assert!(integers.contains("found a file of a type or a variant that vllm's loader never asks for"), "{integers}");
    // vLLM's names do not tell int8_w8a8 from 16 bits.
    let plain = "note: E=2,N=16,device_name=AMD_Instinct_MI300X.json: the name has no type: taken for bf16; --dtype int8_w8a8 says";
    assert!(verify(VERIFIED, &[], 0).contains(plain));
    assert!(!verify(VERIFIED, &["--dtype", "int8_w8a8"], 0).contains("taken for"));
    assert!(!verify(VERIFIED, &["--ungated"], 0).contains("error"));
    let named = verify(&VERIFIED.replace(".json", ",dtype=fp8_w8a8.json"), &["--dtype", "int8_w8a8"], 1);
    assert!(named.contains("expected a name without a type for --dtype int8_w8a8"), "{named}");
}

/// The rest keeps its row.
#[test]
fn for_a_row_that_loses_another_is_searched_for() {
    let Some(bench) = Bench::new() else { return };
    let rows = rows_of(&[RUNS, FAILS]).replacen('{', "{\"triton_version\": \"3.0.0\", ", 1);
    std::fs::write(bench.folder().join(VERIFIED), rows).unwrap();
    let output = expect(&mut bench.verify(&["--retune", "--budget", "1", "--json"]), 0);
    let (told, said) = (json(&output), text(&output.stderr));
    assert!(said.contains("made with Triton 3.0.0, timed with 3."), "{said}");
    let retuned = bench.verified();
    assert_ne!(retuned["triton_version"], "3.0.0", "the one that all its rows were timed by: {retuned}");
    assert!(told[0]["rows"][1]["replaced_by"].as_str().unwrap().contains(" g"), "{told:#}");
    assert_ne!(retuned["4"]["num_warps"], 32, "{retuned}");
    if told[0]["rows"][0]["verdict"] != "slower" {
        assert_eq!(retuned["2"]["num_warps"], 1, "{retuned}");
    }
}

/// Runs the steps of the workflow in `folder`, a repository, with stand-ins for what a runner has. Returns what they printed.
fn run_workflow(bench: &Bench, folder: &Path, workflow: &str) -> String {
    let workflow = &YamlLoader::load_from_str(workflow).unwrap()[0]["jobs"]["verify"];
    let bin = bench.folder().join("bin");
    std::fs::create_dir(&bin).unwrap();
    for (name, script) in [
        ("python3", format!("#!/bin/sh\necho {}\n", bench.folder().join("site-packages/vllm").display())),
        ("gh", format!("#!/bin/sh\necho \"$@\" > {}\n", bench.folder().join("pull-request").display())),
    ] {
        std::fs::write(bin.join(name), script).unwrap();
        std::fs::set_permissions(bin.join(name), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let program = Path::new(env!("CARGO_BIN_EXE_bluefin"));
    let mut paths = vec![bin, program.parent().unwrap().to_path_buf()];
    paths.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    let mut printed = String::new();
    for step in workflow["steps"].as_vec().unwrap() {
        let Some(script) = step["run"].as_str() else { continue };
        let mut command = bench.command(&[]);
        let environment: Vec<_> =
            command.get_envs().map(|(name, value)| (name.to_owned(), value.map(ToOwned::to_owned))).collect();
        command = Command::new("bash");
        for (name, value) in environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        for (name, value) in workflow["env"].as_hash().unwrap() {
            let value = value.as_str().map(|value| value.replace("${{ github.run_id }}", "7"));
            command.env(name.as_str().unwrap(), value.unwrap());
        }
        // As a runner calls it: without pipefail, unless the shell is named.
        let is_named = workflow["defaults"]["run"]["shell"].as_str() == Some("bash");
        let shell: &[&str] = if is_named { &["--noprofile", "--norc", "-eo", "pipefail"] } else { &["-e"] };
        command.current_dir(folder).args(shell).args(["-c", script]);
        command.env("PATH", std::env::join_paths(&paths).unwrap()).env("RUNNER_TEMP", bench.folder());
        command.env("HIDDEN", "16").env("TOPK", "1").env("GITHUB_STEP_SUMMARY", bench.folder().join("summary.md"));
        printed += &text(&expect(&mut command, 0).stdout);
    }
    printed
}

#[test]
fn a_workflow_replaces_what_loses_and_opens_a_pull_request() {
    let Some(bench) = Bench::new() else { return };
    let file = bench.folder().join("site-packages/vllm/model_executor/layers/fused_moe/fused_moe.py");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let spec = bench.spec("2,16,16,1", &["--tokens", "4"]);
    std::fs::copy(spec.parent().unwrap().join("fused_moe.py"), file).unwrap();
    let tree = bench.folder().join("tree");
    std::fs::create_dir_all(tree.join("configs")).unwrap();
    let row =
        "{\"BLOCK_SIZE_M\": 16, \"BLOCK_SIZE_N\": 16, \"BLOCK_SIZE_K\": 16, \"GROUP_SIZE_M\": 1, \"num_warps\": 32}";
    std::fs::write(tree.join("configs/E=2,N=16,device_name=AMD_Instinct_MI300X.json"), format!("{{\"4\": {row}}}\n"))
        .unwrap();
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]).args(arguments);
        text(&expect(command.current_dir(&tree), 0).stdout)
    };
    git(&["init", "-q", "--bare", "../origin"]);
    git(&["init", "-q"]);
    git(&["remote", "add", "origin", "../origin"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "configs"]);
    let printed = run_workflow(&bench, &tree, include_str!("../../../examples/github/vllm-verify.yaml"));
    assert!(printed.contains("4 FAILS   16x16x16 g1 w32: - us, default "), "{printed}");
    let request = std::fs::read_to_string(bench.folder().join("pull-request")).unwrap();
    assert_eq!(
        request,
        "pr create --title configs: the default where a row was slower --body-file verified.txt --head verified/7\n"
    );
    let pushed = git(&["--git-dir", "../origin", "show", "--stat", "verified/7"]);
    assert!(
        pushed.contains("E=2,N=16,device_name=AMD_Instinct_MI300X.json") && !pushed.contains("verified.txt"),
        "{pushed}"
    );
    assert!(std::fs::read_to_string(bench.folder().join("summary.md")).unwrap().contains("FAILS"));
}
