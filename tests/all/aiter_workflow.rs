//! The workflows of `examples/github`, from end to end: their steps run in a repository with files of aiter's and the stand-in tuner.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use bluefin_test_support::data;
use yaml_rust2::{Yaml, YamlLoader};

use crate::common::{text, write};

const GPU: &str = "gfx942-304";

/// Tuners of aiter.
const TUNERS: [&str; 10] = [
    "csrc/ck_gemm_a8w8/gemm_a8w8_tune.py",
    "csrc/ck_gemm_a8w8_bpreshuffle/gemm_a8w8_bpreshuffle_tune.py",
    "csrc/ck_gemm_a8w8_blockscale/gemm_a8w8_blockscale_tune.py",
    "csrc/ck_gemm_a4w4_blockscale/gemm_a4w4_blockscale_tune.py",
    "csrc/ck_batched_gemm_a8w8/batched_gemm_a8w8_tune.py",
    "csrc/ck_batched_gemm_bf16/batched_gemm_bf16_tune.py",
    "csrc/gemm_a16w16/gemm_tuner.py",
    "csrc/ck_gemm_moe_2stages_codegen/gemm_moe_tune.py",
    "csrc/gdn_k5/chunk_gdn_h_opt_tune.py",
    "csrc/opus_gemm/opus_bmm_mxscale_tune.py",
];

/// Its tests, all in one folder, as the version has them whose files these are.
const TESTS: [&str; 6] = [
    "test_gemm_a8w8.py",
    "test_gemm_a8w8_blockscale.py",
    "test_batched_gemm_a8w8.py",
    "test_batched_gemm_bf16.py",
    "test_gemm_a16w16.py",
    "test_moe.py",
];

/// Files of it. The tuned file of grouped products has a key twice, and that of experts a column less than others: as aiter ships them.
const CONFIGS: [&str; 9] = [
    "a8w8_blockscale_untuned_gemm.csv",
    "a8w8_bpreshuffle_tuned_gemm.csv",
    "a8w8_bpreshuffle_untuned_gemm.csv",
    "a8w8_tuned_batched_gemm.csv",
    "a8w8_untuned_batched_gemm.csv",
    "bf16_tuned_gemm.csv",
    "tuned_grouped_fmoe.csv",
    "untuned_fmoe.csv",
    "model_configs/dsv3_fp4_tuned_fmoe.csv",
];

/// Stands in for Python: notes that aiter is built, and refuses to tune what is not.
const PYTHON: &str = r#"#!/bin/sh
if [ "$1 $2" = "-m pip" ]; then echo "$@" > "$BUILT"; exit 0; fi
case "$1" in *tune*.py) [ -f "$BUILT" ] || { echo "aiter is not built"; exit 3; };; esac
exec "$REAL_PYTHON" "$@"
"#;

/// Stands in for GitHub's program.
const GH: &str = "#!/bin/sh\necho \"$@\" > \"$PULL_REQUEST\"\n";

struct Runner {
    folder: tempfile::TempDir,
}

impl Runner {
    fn new() -> Self {
        let runner = Self { folder: tempfile::tempdir().unwrap() };
        let tree = runner.tree();
        let put = |name: &str, content: &[u8]| {
            let path = tree.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        };
        TUNERS.iter().for_each(|name| put(name, include_bytes!("../stand-ins/aiter/tuner.py")));
        TESTS.iter().for_each(|name| put(&format!("op_tests/{name}"), b"print('fine')\n"));
        CONFIGS.iter().for_each(|name| put(&format!("aiter/configs/{name}"), &data(&format!("aiter/{name}"))));
        for (name, script) in [("python3", PYTHON), ("gh", GH)] {
            let path = runner.folder.path().join("bin").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, script).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::fs::create_dir_all(runner.path("state")).unwrap();
        runner.git(&["init", "-q", "--bare", runner.path("origin").to_str().unwrap()]);
        for line in [
            &["init", "-q", "-b", "main"][..],
            &["add", "."],
            &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "aiter"],
            &["remote", "add", "origin", runner.path("origin").to_str().unwrap()],
            &["push", "-q", "origin", "main"],
        ] {
            runner.git(line);
        }
        runner
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn tree(&self) -> PathBuf {
        self.path("aiter")
    }

    fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git").arg("-C").arg(self.tree()).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The steps of a workflow that are scripts, as a runner takes them. Returns what each came to.
    fn run(&self, workflow: &str, inputs: &[(&str, &str)]) -> BTreeMap<String, Output> {
        let documents = YamlLoader::load_from_str(workflow).unwrap();
        let job = &documents[0]["jobs"]["tune"];
        let filled = |text: &str| filled(text, inputs);
        let variables: Vec<(String, String)> = job["env"]
            .as_hash()
            .unwrap()
            .iter()
            .map(|(name, value)| (name.as_str().unwrap().to_string(), filled(value.as_str().unwrap())))
            .collect();
        let (mut failed, mut outputs) = (false, BTreeMap::new());
        for step in job["steps"].as_vec().unwrap() {
            let (Some(name), Some(script)) = (step["name"].as_str(), step["run"].as_str()) else { continue };
            if failed && step["if"].as_str() != Some("always()") {
                continue;
            }
            let output = self.step(&filled(script), &variables);
            failed |= !output.status.success() && step["continue-on-error"] != Yaml::Boolean(true);
            outputs.insert(name.to_string(), output);
        }
        outputs
    }

    fn step(&self, script: &str, variables: &[(String, String)]) -> Output {
        let program = Path::new(env!("CARGO_BIN_EXE_bluefin"));
        let mut paths = vec![self.path("bin"), program.parent().unwrap().to_path_buf()];
        paths.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
        let python = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
        let mut command = Command::new("bash");
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("BLUEFIN_")) {
            command.env_remove(name);
        }
        command
            .current_dir(self.tree())
            .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script])
            .env("PATH", std::env::join_paths(paths).unwrap())
            .env("REAL_PYTHON", text(&python.stdout).trim())
            .env("BUILT", self.path("built"))
            .env("PULL_REQUEST", self.path("pull-request"))
            .env("STAND_IN_GPU", GPU)
            .env("STAND_IN_STATE", self.path("state"))
            .env("GITHUB_RUN_ID", "7")
            .env("GITHUB_STEP_SUMMARY", self.path("summary.md"))
            .envs(variables.iter().map(|(name, value)| (name, value)));
        command.output().unwrap()
    }
}

/// The text with what stands for expressions.
fn filled(text: &str, inputs: &[(&str, &str)]) -> String {
    let mut parts = text.split("${{");
    let mut filled = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let (expression, rest) = part.split_once("}}").unwrap();
        let expression = expression.trim();
        let value = match expression.strip_prefix("inputs.") {
            Some(name) => inputs.iter().find(|(input, _)| *input == name).unwrap().1,
            None if expression.starts_with("secrets.") => "",
            None => "7",
        };
        filled.push_str(value);
        filled.push_str(rest);
    }
    filled
}

fn said(output: &Output) -> String {
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_night_builds_tunes_checks_and_opens_a_pull_request() {
    let runner = Runner::new();
    let nightly = include_str!("../../examples/github/aiter-nightly.yaml");
    let outputs = runner.run(nightly, &[]);
    let all: String = outputs.iter().map(|(name, output)| format!("== {name}\n{}", said(output))).collect();
    assert_eq!(
        outputs.keys().map(String::as_str).collect::<Vec<_>>(),
        ["Build aiter", "Check", "Pull request", "Summary", "Tune"]
    );
    assert!(outputs.values().all(|output| output.status.success()), "{all}");
    for test in TESTS {
        assert_eq!(all.matches(&format!("test: op_tests/{test}")).count(), 2, "{test}: {all}");
    }
    let request = std::fs::read_to_string(runner.path("pull-request")).unwrap();
    assert_eq!(
        request,
        format!("pr create --title configs: tuned for {GPU} --body-file tuned/summary.md --head tuned/nightly-7\n")
    );
    let pushed = runner.git(&[
        "--git-dir",
        runner.path("origin").to_str().unwrap(),
        "diff",
        "--stat",
        "main",
        "tuned/nightly-7",
    ]);
    assert!(pushed.contains("aiter/configs/a8w8_blockscale_tuned_gemm.csv"), "{pushed}");
    assert!(!pushed.contains("tuned_grouped_fmoe") && !pushed.contains("op_tests"), "{pushed}");
    let summary = std::fs::read_to_string(runner.path("summary.md")).unwrap();
    assert!(summary.contains(&format!("## aiter, tuned for {GPU}")) && !summary.contains("not tested"), "{summary}");
}

/// What nothing came of opens none; what has no test is said and no success.
#[test]
fn a_family_without_a_test_is_no_success() {
    let runner = Runner::new();
    std::fs::remove_file(runner.tree().join("op_tests/test_moe.py")).unwrap();
    let by_hand = include_str!("../../examples/github/aiter-tune.yaml");
    let inputs = |shapes, all| [("shapes", shapes), ("gpu", GPU), ("arguments", "--libtype all"), ("all", all)];
    let outputs = runner.run(by_hand, &inputs("ck_gemm_moe_2stages_codegen,ck_gemm_a8w8_bpreshuffle", "false"));
    let tune = &outputs["Tune"];
    assert_eq!(tune.status.code(), Some(1), "{}", said(tune));
    let text = "not tested: ck_gemm_moe_2stages_codegen: op_tests and its folders have no test_moe.py";
    assert!(said(tune).contains(text), "{}", said(tune));
    assert!(outputs["Summary"].status.success());
    assert!(std::fs::read_to_string(runner.path("summary.md")).unwrap().contains(text));

    // Rows that are there are tuned again where that is asked for, and else not.
    let again = runner.run(by_hand, &inputs("ck_gemm_a8w8_bpreshuffle", "false"));
    assert!(
        again["Tune"].status.success() && said(&again["Tune"]).contains("0 shapes to tune"),
        "{}",
        said(&again["Tune"])
    );
    let again = runner.run(by_hand, &inputs("ck_gemm_a8w8_bpreshuffle", "true"));
    assert!(
        again["Tune"].status.success() && !said(&again["Tune"]).contains("0 shapes to tune"),
        "{}",
        said(&again["Tune"])
    );
}

/// A path of a Python is one from where bluefin was called, not from aiter's folder; and those families are tuned that aiter's CI leaves out.
#[test]
fn all_families_with_tuners_are_tuned_by_the_python_of_the_caller() {
    let runner = Runner::new();
    let folder = runner.folder.path();
    std::fs::write(runner.path("built"), "").unwrap();
    for (family, gpu, name, row) in [
        (
            "batched_gemm_a8w8_mxscale",
            "gfx950-256",
            "batched_gemm_a8w8_blockscale_mxscale_untuned.csv",
            "b,m,n,k\n2,3,1024,4096\n",
        ),
        (
            "grouped_fmoe",
            "gfx1250-256",
            "untuned_grouped_fmoe.csv",
            "token,model_dim,inter_dim,expert,topk,act_type,dtype,q_dtype_a,q_dtype_w,q_type,use_g1u1,doweight_stage1,gate_mode\n\
             1,3072,3072,128,4,ActivationType.Swiglu,torch.bfloat16,torch.float4_e2m1fn_x2,torch.float4_e2m1fn_x2,\
             QuantType.per_1x32,1,0,GateMode.SEPARATED\n",
        ),
        (
            "gdn_k5",
            "gfx942-304",
            "chunk_gdn_h_opt_untuned.csv",
            "dtype,K,V,BT,H,Hg,is_varlen,use_h0,store_fs\ntorch.bfloat16,128,128,64,32,16,False,True,False\n",
        ),
    ] {
        if family == "gdn_k5" {
            // A row tells of many shapes what they have in common: they are those that rows of another GPU have.
            let rows = "gfx,cu_num,dtype,K,V,BT,H,Hg,is_varlen,use_h0,store_fs,snapshot_bf16,state_bf16,T_flat,N,total_chunks,\
                max_seq_chunks,BV,us\n\
                gfx942,80,torch.bfloat16,128,128,64,32,16,False,True,False,True,False,2048,1,32,32,64,147.9\n\
                gfx942,80,torch.bfloat16,128,128,64,4,2,False,True,False,False,False,2048,1,32,32,64,149.0\n";
            write(&runner.tree().join("aiter/configs"), "chunk_gdn_h_opt_tuned.csv", rows);
        }
        write(folder, name, row);
        let script = format!(
            "cd .. && bluefin aiter tune --aiter aiter --python bin/python3 --shapes {family} --gpu {gpu} --untuned {name} \
             --out out-{family} --state {family}.db"
        );
        let gpu = [("STAND_IN_GPU".to_string(), gpu.to_string())];
        let output = runner.step(&script, &gpu);
        assert!(output.status.success(), "{family}: {}", said(&output));
        assert!(said(&output).contains("1 shapes: 1 rows are new"), "{family}: {}", said(&output));
    }
    // The tuner hears of columns that only some files have.
    let script = "cd .. && bluefin aiter tune --aiter aiter --python bin/python3 --shapes grouped_fmoe --gpu gfx1250-256 --all \
        --untuned untuned_grouped_fmoe.csv --out faulty --state faulty.db";
    let faulty = [("STAND_IN_GPU", "gfx1250-256"), ("STAND_IN_FAULTS", "unsupported:gate_mode=GateMode.SEPARATED")];
    let output = runner.step(script, &faulty.map(|(name, value)| (name.to_string(), value.to_string())));
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let tuned = std::fs::read_to_string(runner.tree().join("aiter/configs/chunk_gdn_h_opt_tuned.csv")).unwrap();
    let row = "gfx942,304,torch.bfloat16,128,128,64,32,16,False,True,False,True,False,2048,1,32,32,";
    assert_eq!(tuned.lines().filter(|line| line.starts_with(row)).count(), 1, "{tuned}");
    // Where no row tells of them, that is said.
    write(
        folder,
        "other.csv",
        "dtype,K,V,BT,H,Hg,is_varlen,use_h0,store_fs\ntorch.bfloat16,128,128,64,99,16,False,True,False\n",
    );
    let script = "cd .. && bluefin aiter tune --aiter aiter --shapes gdn_k5 --gpu gfx942-304 --untuned other.csv --state other.db";
    let output = runner.step(script, &[]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("no row of any GPU says which sequences there are"), "{}", said(&output));
    // A shape that is cut off is named before anything is begun.
    write(folder, "short.csv", "M,N,K\n16,32,64\n16,32\n");
    let script = "cd .. && bluefin aiter tune --aiter aiter --shapes ck_gemm_a8w8_blockscale --gpu gfx942-304 --untuned short.csv \
        --state short.db";
    let output = runner.step(script, &[]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let expected = "short.csv:3: column \"K\": found nothing, expected M,N,K of ck_gemm_a8w8_blockscale";
    assert!(said(&output).contains(expected) && !folder.join("short.db").exists(), "{}", said(&output));
}
