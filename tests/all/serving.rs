//! `bluefin serving` as a person or a script meets it, on the files that vLLM and SGLang ship.

use std::path::Path;
use std::process::{Command, Output};

use bluefin_test_support::data_text;

use crate::common::{bluefin, expect};

fn serving(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bluefin")).arg("serving").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs a verb that must end with `code`. Returns what it printed, both streams.
fn ends(code: i32, arguments: &[&str]) -> (String, String) {
    let output = serving(arguments);
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {out}{err}");
    (out, err)
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let output = serving(&[arguments, &["--json"]].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)))
}

/// A folder with all files of an engine.
fn installed(list: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let list = data_text(list);
    let mut rest = list.as_str();
    while let Some((head, body)) = rest.split_once('\n') {
        let (path, length) = head.strip_prefix("# ").unwrap().rsplit_once(' ').unwrap();
        let (text, after) = body.split_at(length.parse().unwrap());
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        rest = after.strip_prefix('\n').unwrap();
    }
    folder
}

fn file(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path.display().to_string()
}

const DEEPSEEK: &str = r#"{"architectures": ["DeepseekV3ForCausalLM"], "hidden_size": 7168, "intermediate_size": 18432,
    "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8,
    "num_attention_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
    "v_head_dim": 128, "first_k_dense_replace": 3,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}"#;

#[test]
fn shapes_are_told_with_their_files() {
    let folder = tempfile::tempdir().unwrap();
    let config = file(folder.path(), "config.json", DEEPSEEK);
    let (out, _) = ends(0, &["shapes", &config, "--engine", "vllm", "--tp", "8,16", "--gpu", "NVIDIA H200 NVL"]);
    let expected = "DeepseekV3ForCausalLM tp=8 ep=1: E=256 N=256 K=7168 topk=8 fp8_w8a8 block 128x128\n  \
        E=256,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json\n\
        DeepseekV3ForCausalLM tp=16 ep=1: E=256 N=128 K=7168 topk=8 fp8_w8a8 block 128x128\n  \
        E=256,N=128,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json\n";
    assert_eq!(out, expected);
    // What a command says of blocks goes before what the model's config says.
    let smaller = ends(0, &["shapes", &config, "--engine", "vllm", "--tp", "8", "--block-shape", "64,64"]).0;
    assert!(smaller.ends_with("fp8_w8a8 block 64x64\n"), "{smaller}");
    // Pairs that the engine has not are left out, and each layer is there once.
    let shapes = json(&["shapes", &config, "--engine", "sglang", "--tp", "1,8", "--ep", "1,8", "--gemms"]);
    let told: Vec<_> = shapes
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (&one["tp"], &one["ep"], &one["moe"]["E"], &one["moe"]["N"]))
        .collect();
    assert_eq!(
        format!("{told:?}"),
        "[(Number(1), Number(1), Number(257), Number(2048)), (Number(8), Number(1), Number(257), Number(256)), (Number(8), Number(8), Number(32), Number(2048))]"
    );
    assert_eq!(
        shapes[1]["gemms"][0],
        serde_json::json!({"layer": "fused_qkv_a_proj", "N": 2112, "K": 7168, "block_shape": [128, 128]})
    );
    let sizes = ["shapes", "--moe", "8,14336,4096,2", "--engine", "vllm", "--tp", "2", "--dtype", "fp8_w8a8"];
    assert_eq!(ends(0, &sizes).0, "8,14336,4096,2 tp=2 ep=1: E=8 N=7168 K=4096 topk=2 fp8_w8a8\n");
    // Two of 4 bits lie in a byte, and SGLang's loader counts bytes.
    let of_engine = |engine| {
        let groups = ["--dtype", "int4_w4a16", "--group-size", "64", "--tp", "2", "--gpu", "NVIDIA H200"];
        ends(0, &[&["shapes", "--moe", "8,14336,4096,2", "--engine", engine], &groups[..]].concat()).0
    };
    let shape = "8,14336,4096,2 tp=2 ep=1: E=8 N=7168 K=4096 topk=2 int4_w4a16 groups of 64\n  ";
    assert_eq!(of_engine("vllm"), format!("{shape}E=8,N=7168,device_name=NVIDIA_H200,dtype=int4_w4a16.json\n"));
    assert_eq!(of_engine("sglang"), format!("{shape}E=8,N=3584,device_name=NVIDIA_H200,dtype=int4_w4a16.json\n"));
    let grouped = ends(2, &["shapes", &config, "--engine", "vllm", "--dtype", "fp8_w8a8", "--group-size", "64"]).1;
    assert!(grouped.contains("--group-size: expected --dtype int4_w4a16 or int8_w8a16 with it"), "{grouped}");
}

#[test]
fn what_is_no_such_model_is_one_error() {
    let folder = tempfile::tempdir().unwrap();
    let of = |name: &str, content: &str| file(folder.path(), name, content);
    let error = |code, config: &str, more: &[&str]| {
        let (_, err) = ends(code, &[&["shapes", config, "--engine", "vllm"], more].concat());
        assert_eq!(err.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{err}");
        err
    };
    let dense = error(1, &of("dense.json", r#"{"architectures": ["BertModel"]}"#), &[]);
    assert!(dense.contains("architectures: found \"BertModel\", expected one that is known"), "{dense}");
    assert!(dense.contains("--moe E,N,K,TOPK says experts, intermediate size of one"), "{dense}");
    let torn = error(1, &of("torn.json", "{\"architectures\": ["), &[]);
    assert!(torn.contains("torn.json:1:19: found EOF while parsing a list, expected JSON: the file is torn"), "{torn}");
    let marked = error(1, &of("marked.json", "\u{feff}{}"), &[]);
    assert!(marked.contains("marked.json:1:1: found a byte order mark"), "{marked}");
    let config = of("config.json", DEEPSEEK);
    let odd = error(2, &config, &["--tp", "3"]);
    assert!(odd.contains("found intermediate size 2048 on 3 ranks, expected one that 3 divides"), "{odd}");
    let engine = ends(2, &["shapes", &config, "--engine", "tgi"]).1;
    assert!(engine.contains("found \"tgi\", expected vllm or sglang"), "{engine}");
    let sizes = ends(2, &["shapes", "--moe", "8,64", "--engine", "vllm"]).1;
    assert!(sizes.contains("expected four whole numbers from 1 on, as in 8,14336,4096,2"), "{sizes}");
    let topk = ends(2, &["shapes", "--moe", "8,64,64,9", "--engine", "vllm"]).1;
    assert!(topk.contains("found 9 experts a token, expected at most 8, all of them"), "{topk}");
    let none = ends(2, &["shapes", "--engine", "vllm"]).1;
    assert!(none.contains("found no model, expected a config.json, or the sizes of a layer: --moe"), "{none}");
    let gpu = ends(2, &["shapes", &config, "--engine", "vllm", "--gpu", ""]).1;
    assert!(gpu.contains("a value is required for '--gpu <NAME>'"), "{gpu}");
}

/// Qwen3-32B-FP8's sizes.
const DENSE: &str = r#"{"architectures": ["Qwen3ForCausalLM"], "hidden_size": 5120, "intermediate_size": 25600, "head_dim": 128,
    "num_attention_heads": 64, "num_key_value_heads": 8, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}"#;

#[test]
fn products_of_a_dense_model_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let config = file(folder.path(), "config.json", DENSE);
    let ask = ["shapes", &config, "--engine", "vllm", "--tp", "4"];
    let (out, _) = ends(0, &[&ask[..], &["--gemms", "--gpu", "NVIDIA H200"]].concat());
    let products = "qkv_proj: N=2560 K=5120\n  o_proj: N=5120 K=2048\n  gate_up_proj: N=12800 K=5120\n  down_proj: N=5120 K=6400\n  ";
    let name = "N=2560,K=5120,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json\n";
    assert!(out.starts_with(&format!("Qwen3ForCausalLM tp=4: no experts\n  {products}{name}")), "{out}");
    let without = ends(2, &ask).1;
    assert!(
        without.contains("Qwen3ForCausalLM: found no experts, expected some; bluefin serving shapes --gemms tells"),
        "{without}"
    );
    let odd = ends(2, &["shapes", &config, "--engine", "vllm", "--tp", "3", "--gemms"]).1;
    assert!(odd.contains("found 64 as attention heads on 3 ranks, expected a number that 3 divides"), "{odd}");
    let plain = file(folder.path(), "plain.json", &DENSE.replace("quantization_config", "other"));
    let plain = ends(2, &["shapes", &plain, "--engine", "vllm", "--gemms"]).1;
    assert!(plain.contains("found no products with block-quantised weights, expected FP8 in blocks"), "{plain}");
}

fn ask_of_vllm<'a>(config: &'a str, configs: &'a str) -> [&'a str; 10] {
    ["coverage", config, "--engine", "vllm", "--tp", "8", "--configs", configs, "--gpu", "NVIDIA H200"]
}

#[test]
fn coverage_finds_what_the_loader_finds() {
    let (vllm, sglang) = (installed("serving/vllm-0.33.0.txt"), installed("serving/sglang-0.5.23.txt"));
    let models = tempfile::tempdir().unwrap();
    let config = file(models.path(), "config.json", DEEPSEEK);
    let configs = vllm.path().display().to_string();
    let gpus = ["--gpu", "NVIDIA H200", "--gpu", "NVIDIA H100 80GB HBM3"];
    let ask = [&["coverage", &config, "--engine", "vllm", "--tp", "8", "--configs", &configs], &gpus[..]].concat();
    let (out, _) = ends(0, &ask);
    let name = |gpu: &str| format!("E=256,N=256,device_name={gpu},dtype=fp8_w8a8,block_shape=[128,128].json");
    let (there, missing) = (name("NVIDIA_H200"), name("NVIDIA_H100_80GB_HBM3"));
    let lines: Vec<&str> = out.lines().collect();
    let of = "(DeepseekV3ForCausalLM tp=8 ep=1)";
    assert_eq!(lines, [format!("{there} {of}: tuned: {configs}/{there}"), format!("{missing} {of}: missing")]);
    assert_eq!(ends(1, &[&ask[..], &["--missing"]].concat()).0, format!("{missing} {of}: missing\n"));
    // SGLang's of the Triton at hand first, then those of the newest.
    let configs = sglang.path().display().to_string();
    let ask = ["coverage", &config, "--engine", "sglang", "--tp", "8", "--configs", &configs, "--gpu", "NVIDIA H200"];
    let of = |triton: &str| {
        let covered = json(&[&ask[..], &["--triton", triton]].concat());
        (covered[0]["presence"].clone(), covered[0]["triton"].clone())
    };
    assert_eq!(of("3.2.0"), ("tuned".into(), "3.2.0".into()));
    assert_eq!(of("3.6.0"), ("other-triton".into(), "3.5.1".into()));
    let with_down = json(&[&ask[..], &["--triton", "3.5.1", "--down"]].concat());
    assert!(with_down[1]["name"].as_str().unwrap().ends_with("block_shape=[128, 128]_down.json"), "{with_down}");
    assert_eq!((&with_down[0]["presence"], &with_down[1]["presence"]), (&"gaps".into(), &"gaps".into()), "{with_down}");
    // What says of no Triton is not known to be of another one.
    let covered =
        json(&[&ask_of_vllm(&config, &vllm.path().display().to_string())[..], &["--triton", "3.6.0"]].concat());
    assert_eq!((&covered[0]["presence"], &covered[0]["triton"]), (&"tuned".into(), &serde_json::Value::Null));
    std::fs::write(vllm.path().join(&there), "{").unwrap();
    let torn = ends(0, &ask_of_vllm(&config, &vllm.path().display().to_string())).0;
    assert!(
        torn.trim_end().ends_with(": the file: line 1, column 1: found EOF while parsing an object, expected JSON"),
        "{torn}"
    );
    let none = ends(2, &["coverage", &config, "--engine", "sglang", "--configs", &configs]).1;
    assert!(none.contains("--gpu: found none, expected the name of a GPU"), "{none}");
}

#[test]
fn check_names_file_row_and_what_was_expected() {
    let sglang = installed("serving/sglang-0.5.23.txt");
    let folder = sglang.path().display().to_string();
    let (out, _) = ends(1, &["check", &folder, "--allow", "gap"]);
    let wrong = "triton_3_5_1/E=512,N=256,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8,block_shape=[128, 128].json";
    let line = format!(
        "{folder}/{wrong}: 64, 128, 256, 512: error block: BLOCK_SIZE_K: found 256, expected a divisor of the block of 128"
    );
    assert!(out.lines().any(|one| one == line), "{out}");
    assert_eq!(out.lines().filter(|line| line.contains(": error ")).count(), 5);
    assert!(out.ends_with("\n390 files, 6971 rows: 8 errors, 0 warnings, 10 notes\n"), "{out}");
    let rules = ["gap", "block", "memory", "name"].join(",");
    ends(0, &["check", &folder, "--allow", &rules]);
    ends(1, &["check", &folder, "--allow", &rules, "--triton", "3.6.0"]);
    let rules = ends(0, &["check", "--rules"]).0;
    assert!(rules.contains("unknown-key    error") && rules.lines().all(|line| line.len() <= 80), "{rules}");

    // Drivers call many GPUs so.
    let many = "device: found AMD_Radeon_Graphics, expected the name of one GPU, or --target: memory is not checked";
    assert_eq!(out.lines().filter(|line| line.ends_with(many)).count(), 7);
    let target = ends(1, &["check", &folder, "--allow", "gap", "--target", "gfx1201"]).0;
    assert_eq!(target.lines().filter(|line| line.contains(": error ")).count(), 6);
    let none = ends(2, &["check", &folder, "--target", "x90"]).1;
    assert!(none.contains("expected an architecture, such as gfx942 or sm_90"), "{none}");

    let torn = file(sglang.path(), "E=8,N=64,device_name=NVIDIA_H200.json", "{\"1\": {");
    let report = json(&["check", &torn]);
    assert_eq!(
        report[0]["findings"][0]["message"],
        "line 1, column 7: found EOF while parsing an object, expected JSON"
    );
    let none = ends(1, &["check", "/nowhere.json"]).1;
    assert!(none.starts_with("error: /nowhere.json: "), "{none}");
}

/// SGLang's loader puts folders in the order of the numbers in their names.
#[test]
fn a_folder_of_no_version_stops_sglang() {
    let folder = tempfile::tempdir().unwrap();
    for version in ["triton_3_6_0", "triton_abc"] {
        std::fs::create_dir(folder.path().join(version)).unwrap();
    }
    let name = "E=8,N=7168,device_name=NVIDIA_H200.json";
    file(&folder.path().join("triton_3_6_0"), name, ROWS);
    let configs = folder.path().display().to_string();
    let out = ends(1, &["check", &configs, "--allow", "gap"]).0;
    assert!(
        out.contains("triton_abc: folder: error version: found a name that is no version, expected one such as"),
        "{out}"
    );
    let of = |triton: &str| {
        let ask = ["coverage", "--moe", "8,14336,4096,2", "--engine", "sglang", "--tp", "2", "--gpu", "NVIDIA H200"];
        json(&[&ask[..], &["--configs", &configs, "--triton", triton]].concat())[0]["presence"].clone()
    };
    assert_eq!((of("3.6.0"), of("3.7.0")), ("gaps".into(), "broken".into()));
}

/// Each size of a rank has a file of its own where vLLM spreads experts unevenly, and pairs that do not go are said.
#[test]
fn ranks_that_do_not_go_are_said_and_the_rest_is_there() {
    let ask = ["shapes", "--moe", "60,1408,2048,4", "--engine", "vllm"];
    let (out, err) = ends(0, &[&ask[..], &["--tp", "2,3", "--gpu", "NVIDIA H200"]].concat());
    assert!(out.contains("tp=2 ep=1: E=60 N=704") && !out.contains("tp=3"), "{out}");
    assert!(err.contains("left out: tp=3 ep=1: 60,1408,2048,4: found intermediate size 1408 on 3 ranks"), "{err}");
    let (out, _) = ends(0, &[&ask[..], &["--tp", "8", "--ep", "8", "--ungated"]].concat());
    let of = |experts| format!("60,1408,2048,4 tp=8 ep=8: E={experts} N=1408 K=2048 topk=4 without a gate 16 bits\n");
    assert_eq!(out, [of(8), of(7)].concat());
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.json");
    let glm = r#"{"architectures": ["Glm4vMoeForConditionalGeneration"], "hidden_size": 64, "moe_intermediate_size": 32,
        "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2}"#;
    std::fs::write(&config, glm).unwrap();
    let two = ["shapes", config.to_str().unwrap(), "--engine", "sglang", "--gpu", "NVIDIA H200"];
    let two = ends(2, &[&two[..], &["--gpu", "AMD Instinct MI300X"]].concat()).1;
    assert!(two.contains("--gpu: found GPUs on which sglang spreads a model otherwise"), "{two}");
    let (out, _) = ends(0, &[&ask[..], &["--tp", "4", "--ep", "4", "--redundant-experts", "4"]].concat());
    assert_eq!(out, "60,1408,2048,4 tp=4 ep=4: E=16 N=1408 K=2048 topk=4 16 bits\n");
    let wrong = ends(2, &[&ask[..], &["--dtype", "bf16", "--block-shape", "128,128"]].concat()).1;
    assert!(wrong.contains("--block-shape: found weights of 16 bits, expected --dtype fp8_w8a8"), "{wrong}");
}

const ROWS: &str = "{\n    \"1\": {\n        \"BLOCK_SIZE_M\": 16,\n        \"BLOCK_SIZE_N\": 64,\n        \"BLOCK_SIZE_K\": 128,\n        \
    \"GROUP_SIZE_M\": 1,\n        \"num_warps\": 4,\n        \"num_stages\": 3\n    }\n}\n";

#[test]
fn rows_are_compared_and_brought_together() {
    let folder = tempfile::tempdir().unwrap();
    let name = "E=8,N=7168,device_name=NVIDIA_H200.json";
    let base = file(folder.path(), name, ROWS);
    let newer = ROWS.replace("\"1\": {", "\"2\": {").replace(": 16,", ": 32,");
    std::fs::create_dir(folder.path().join("new")).unwrap();
    let other = file(&folder.path().join("new"), name, &newer);
    let (out, _) = ends(1, &["diff", &base, &other]);
    let expected = format!(
        "       0 the same\nREMOVED {name} 1: 16x64x128 g1 w4 s3 -> none\nNEW {name} 2: none -> 32x64x128 g1 w4 s3\n"
    );
    assert_eq!(out, expected);
    assert_eq!(ends(0, &["diff", &base, &base]).0, "       1 the same\n");

    assert_eq!(ends(0, &["merge", &base, &other, "--dry-run"]).0, "2 rows; 1 added\n");
    assert_eq!(std::fs::read_to_string(&base).unwrap(), ROWS);
    let merged = folder.path().join("merged.json").display().to_string();
    ends(0, &["merge", &base, &other, "--out", &merged]);
    let both = ROWS.replace("    }\n}\n", &format!("    }},\n{}", newer.strip_prefix("{\n").unwrap()));
    assert_eq!(std::fs::read_to_string(&merged).unwrap(), both);
    ends(0, &["merge", &base, &other]);
    assert_eq!(std::fs::read_to_string(&base).unwrap(), both);

    let wrong = file(&folder.path().join("new"), name, &newer.replace("num_warps", "num_wraps"));
    let (out, err) = ends(1, &["merge", &base, &wrong]);
    assert_eq!(out, "2 rows; 1 refused\n");
    assert!(err.starts_with(&format!("refused: {wrong}: 2: found \"num_wraps\", expected BLOCK_SIZE_M")), "{err}");
    let stranger = file(&folder.path().join("new"), "E=8,N=64,device_name=NVIDIA_H200.json", ROWS);
    let err = ends(1, &["merge", &base, &stranger]).1;
    assert!(err.contains("expected a file of the same layer and GPU as E=8,N=7168"), "{err}");
}

#[test]
fn a_fleet_without_its_servers_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = ["serving", "tune", "--moe", "8,128,64,2", "--engine", "vllm", "--fleet", "--device", "gfx942-304"];
    let gpu = ["--gpu", "AMD Instinct MI300X"];
    let output = expect(bluefin().current_dir(folder.path()).args(fleet).args(gpu), 2);
    assert!(text(&output.stderr).contains("BLUEFIN_REDIS_URL is not set"), "{output:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn configs_of_aiters_triton_kernels_are_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "gfx942-GEMM-A16W16.json", r#"{"M_LEQ_64": {"BLOCK_SIZE_M": 16}, "any": {}}"#);
    let said = "found a config of aiter's Triton kernels, expected one of vLLM's or SGLang's: those are not read";
    let (out, _) = ends(1, &["check", &path]);
    assert_eq!(out, format!("{path}: name: error name: {said}\n1 file, 0 rows: 1 error, 0 warnings, 0 notes\n"));
    let output = expect(bluefin().args(["verify", &path]), 2);
    assert_eq!(text(&output.stderr), format!("error: {path}: {said}\n"));
}
