//! `bluefin aiter tune` with a stand-in for aiter's tuners, which fails in the ways in which they fail.

mod lock;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use bluefin_stand_ins::wrap;
use bluefin_test_support::{Redis, RedisOptions, Vhost, data};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rustix::process::Signal;
use serde_json::Value;

use crate::common::fleet::Fleet;
use crate::common::{Running, bluefin, expect, files, json, text, write};

const GPU: &str = "gfx942-304";

const SCRIPTS: [&str; 7] = [
    "csrc/ck_gemm_a8w8/gemm_a8w8_tune.py",
    "csrc/ck_gemm_a8w8_bpreshuffle/gemm_a8w8_bpreshuffle_tune.py",
    "csrc/ck_gemm_a8w8_blockscale/gemm_a8w8_blockscale_tune.py",
    "csrc/ck_batched_gemm_a8w8/batched_gemm_a8w8_tune.py",
    "csrc/ck_batched_gemm_bf16/batched_gemm_bf16_tune.py",
    "csrc/gemm_a16w16/gemm_tuner.py",
    "csrc/ck_gemm_moe_2stages_codegen/gemm_moe_tune.py",
];

/// aiter as far as it is needed: tuners, a test, and the files of a few families.
fn aiter(root: &Path) {
    let tuner = include_str!("../stand-ins/aiter/tuner.py");
    for script in SCRIPTS {
        let path = root.join(script);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, tuner).unwrap();
    }
    let tests = root.join("op_tests/gemm");
    std::fs::create_dir_all(&tests).unwrap();
    std::fs::write(tests.join("test_gemm_a8w8.py"), "print('fine')\n").unwrap();
    std::fs::write(tests.join("test_gemm_a8w8_blockscale.py"), "raise SystemExit('broken before and after')\n")
        .unwrap();
    let configs = root.join("aiter/configs");
    std::fs::create_dir_all(&configs).unwrap();
    for name in [
        "a8w8_untuned_gemm.csv",
        "a8w8_blockscale_untuned_gemm.csv",
        "a8w8_bpreshuffle_untuned_gemm.csv",
        "a8w8_bpreshuffle_tuned_gemm.csv",
        "bf16_untuned_gemm.csv",
        "bf16_tuned_gemm.csv",
        "untuned_fmoe.csv",
    ] {
        std::fs::write(configs.join(name), data(&format!("aiter/{name}"))).unwrap();
    }
}

/// The Python of this machine, whatever stands in front of it, with the stand-in's variables.
fn python(folder: &Path, name: &str, variables: &[(&str, &str)]) -> PathBuf {
    let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
    let program = PathBuf::from(text(&asked.stdout).trim());
    let state = folder.join("state");
    std::fs::create_dir_all(&state).unwrap();
    let all = [variables, &[("STAND_IN_STATE", state.to_str().unwrap())]].concat();
    wrap(&folder.join(name), &program, &all)
}

/// aiter and a folder to work in, on one machine.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        aiter(&folder.path().join("aiter"));
        Self { folder }
    }

    /// `bluefin aiter tune` with these variables of the stand-in.
    fn tune(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Command {
        let python = python(self.folder.path(), "python", &[variables, &[("STAND_IN_GPU", GPU)]].concat());
        let mut command = bluefin();
        command.current_dir(self.folder.path()).args(["aiter", "tune", "--json", "--python"]).arg(python);
        command.args(arguments);
        command
    }

    fn configs(&self) -> PathBuf {
        self.folder.path().join("aiter/aiter/configs")
    }

    fn untuned(&self, shapes: &[u32]) {
        let rows: String = shapes.iter().map(|m| format!("{m}, 1536, 7168\n")).collect();
        write(&self.configs(), "a8w8_blockscale_untuned_gemm.csv", &format!("M,N,K\n{rows}"));
    }
}

fn rows(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().skip(1).map(str::to_string).collect()
}

#[test]
fn what_is_better_is_taken_and_nothing_is_tuned_twice() {
    let machine = Machine::new();
    machine.untuned(&[16, 32, 64]);
    let arguments = ["--shapes", "ck_gemm_a8w8_blockscale,ck_gemm_a8w8", "--gpu", GPU, "--test"];
    let report = json(&expect(&mut machine.tune(&[], &arguments), 0));
    assert_eq!((&report["shapes"], &report["diff"]["counts"]["NEW"]), (&Value::from(69), &Value::from(69)), "{report}");
    let told = |when: &str| {
        let tests = report[when].as_array().unwrap().iter();
        tests.map(|test| test["passed"].as_bool().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((told("before"), told("after")), (vec![false, true], vec![false, true]), "{report}");
    let tuned = machine.configs().join("a8w8_blockscale_tuned_gemm.csv");
    let first = rows(&tuned);
    assert_eq!(first.len(), 3);
    assert!(first[0].starts_with("gfx942,304,16,1536,7168,"), "{first:?}");
    expect(bluefin().args(["aiter", "check"]).arg(&tuned), 0);
    let summary = std::fs::read_to_string(machine.folder.path().join("tuned/summary.md")).unwrap();
    assert!(summary.contains("69 shapes: 69 rows are new, 0 stand in place"), "{summary}");
    assert!(machine.folder.path().join("tuned/configs/a8w8_tuned_gemm.csv").is_file());

    // All has a row: there is nothing to do, and nothing is written.
    let again = json(&expect(&mut machine.tune(&[], &arguments), 0));
    assert_eq!((&again["shapes"], again["diff"]["changes"].as_array().unwrap().len()), (&Value::from(0), 0), "{again}");
    // A new version is 2 % faster, which is not enough; then 10 %.
    for (factor, replaced) in [("0.98", false), ("0.9", true)] {
        let arguments =
            ["--shapes", "ck_gemm_a8w8_blockscale", "--gpu", GPU, "--all", "--session", &format!("s{factor}")];
        expect(&mut machine.tune(&[("STAND_IN_BETTER", factor)], &arguments), 0);
        assert_eq!(rows(&tuned) != first, replaced, "{factor}");
    }
}

/// What an operator logs between its row of the table and the keys is more than the last words of a process.
#[test]
fn operators_that_log_much_are_compared() {
    let machine = Machine::new();
    machine.untuned(&[16]);
    let arguments = ["--shapes", "ck_gemm_a8w8_blockscale", "--gpu", GPU, "--compare"];
    let report = json(&expect(&mut machine.tune(&[("STAND_IN_LOG", "20000")], &arguments), 0));
    assert_eq!(report["operators"].as_array().unwrap().len(), 1);
    assert_eq!(rows(&machine.configs().join("a8w8_blockscale_tuned_gemm.csv")).len(), 1, "{report}");
}

/// Rows are taken by what the whole operator takes with them, whatever their kernels take; and an operator that crashes with one
/// costs no other.
#[test]
fn operators_are_compared_and_decide() {
    let machine = Machine::new();
    machine.untuned(&[16, 32, 64, 128]);
    let arguments = ["--shapes", "ck_gemm_a8w8_blockscale", "--gpu", GPU, "--compare"];
    let faults = [("STAND_IN_FAULTS", "slower:M=32,mismatch:M=64,fault:M=128"), ("STAND_IN_BUILD", "0")];
    let report = json(&expect(&mut machine.tune(&faults, &arguments), 1));
    let tuned = machine.configs().join("a8w8_blockscale_tuned_gemm.csv");
    let rows = rows(&tuned);
    assert!(rows.len() == 1 && rows[0].starts_with("gfx942,304,16,"), "{rows:?}");
    let reasons: Vec<&str> =
        report["merged"].as_array().unwrap().iter().filter_map(|row| row["reason"].as_str()).collect();
    assert_eq!(reasons.len(), 3, "{report}");
    for (reason, expected) in reasons.iter().zip([
        "with it the operator takes 500 us, without it 450 us",
        "with it mismatch: err_ratio=0.5(>--errRatio=0.05)",
        "with it aiter did not measure the operator: killed by SIGABRT",
    ]) {
        assert!(reason.starts_with(expected), "{reason}");
    }
    assert_eq!(report["operators"].as_array().unwrap().len(), 4);
    let summary = std::fs::read_to_string(machine.folder.path().join("tuned/summary.md")).unwrap();
    assert!(
        summary.contains("1 rows are new, 0 stand in place of slower ones, 3 are not better by enough"),
        "{summary}"
    );
    assert!(summary.contains("Whole operators, from end to end"), "{summary}");
    assert!(summary.contains("| ck_gemm_a8w8_blockscale | M=32 N=1536 K=7168 | 450 | 500 | 0.900 |  |"), "{summary}");

    // What was built for it is gone, and aiter's own folder has the tuner's module alone.
    let jit = machine.folder.path().join("aiter/aiter/jit");
    let modules = std::fs::read_dir(&jit).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let built: Vec<String> = modules.filter(|name| name.ends_with(".so")).collect();
    assert_eq!(built, ["module_gemm_a8w8_blockscale_tune.so"]);
    let noted = std::fs::read_to_string(machine.folder.path().join("state/builds")).unwrap();
    let elsewhere = |name: &str, side: &str| {
        noted.lines().any(|line| line.starts_with(&format!("{name}.py in ")) && line.ends_with(side))
    };
    assert!(
        elsewhere("gemm_a8w8_blockscale", "/before") && elsewhere("gemm_a8w8_blockscale_tuned", "/after"),
        "{noted}"
    );
}

#[test]
fn each_fault_costs_its_shape_and_says_why() {
    let machine = Machine::new();
    let faults = [
        ("hang", "hang", "killed after 8 s"),
        ("kill", "tool_crash", "killed by SIGKILL"),
        ("unsupported", "not_applicable", "12 do not take the shape"),
        ("inf", "hang", "12 did not end or crashed"),
        ("wrong", "wrong_result", "12 differ too much"),
        ("zero", "invalid_time", "us: found \"0\", expected more than 0 and finite"),
        ("gpu", "wrong_target", "found a row of \"gfx950\", expected gfx942"),
        ("half", "malformed_output", "found a row that ends before it"),
    ];
    let shapes: Vec<u32> = (0..faults.len() as u32).map(|index| 16 * (index + 1)).collect();
    let good = [1000, 2000, 3000];
    machine.untuned(&[shapes.as_slice(), &good].concat());
    let injected: Vec<String> = faults.iter().zip(&shapes).map(|((fault, ..), m)| format!("{fault}:M={m}")).collect();
    // A duplicate, an exit code and a column that nobody knows do no harm.
    let injected = injected.join(",") + ",duplicate:M=1000,exit:M=2000,column:M=3000";
    let arguments = ["--shapes", "ck_gemm_a8w8_blockscale", "--gpu", GPU, "--limit", "4s"];
    let report = json(&expect(&mut machine.tune(&[("STAND_IN_FAULTS", &injected)], &arguments), 1));
    let failed = report["failed"].as_array().unwrap();
    for ((fault, kind, reason), m) in faults.iter().zip(&shapes) {
        let shape = format!("aiter ck_gemm_a8w8_blockscale M={m} N=1536 K=7168");
        let found = failed.iter().find(|one| one["shape"] == shape).unwrap_or_else(|| panic!("{fault}: {report}"));
        assert_eq!(found["kind"], *kind, "{fault}: {found}");
        assert!(found["reason"].as_str().unwrap().contains(reason), "{fault}: {found}");
    }
    assert_eq!(failed.len(), faults.len(), "{report}");
    let crash = failed.iter().find(|one| one["kind"] == "tool_crash").unwrap();
    assert!(crash["reason"].as_str().unwrap().contains("Memory access fault by GPU"), "its last words: {crash}");
    let path = machine.configs().join("a8w8_blockscale_tuned_gemm.csv");
    let tuned = rows(&path);
    assert_eq!(tuned.len(), good.len(), "{tuned:?}");
    let header = std::fs::read_to_string(path).unwrap().lines().next().unwrap().to_string();
    assert!(header.ends_with(",errRatio,mood"), "{header}");
    assert!(tuned.iter().any(|row| row.contains(",3000,") && row.ends_with(",good")), "{tuned:?}");
}

const MOE: &str =
    "token,model_dim,inter_dim,expert,topk,act_type,dtype,q_dtype_a,q_dtype_w,q_type,use_g1u1,doweight_stage1";
const EXPERTS: &str = "4096,512,8,2,ActivationType.Silu,torch.bfloat16,torch.bfloat16,torch.bfloat16,QuantType.No,1,0";

/// What a kernel is to be called with is in columns that only some files have; a file from before there was a column `gfx` gets it.
#[test]
fn columns_of_winners_are_the_tuners_own() {
    let machine = Machine::new();
    write(&machine.configs(), "untuned_fmoe.csv", &format!("{MOE}\n64,{EXPERTS}\n"));
    let results = "block_m,ksplit,us1,kernelName1,err1,us2,kernelName2,err2,us,run_1stage";
    let old = "32,0,9.0,k,0.0%,0.0,,0.0%,9.0,1";
    write(
        &machine.configs(),
        "tuned_fmoe.csv",
        &format!("cu_num,{MOE},{results},tflops,bw,_tag\n80,64,{EXPERTS},{old},0,0,\n256,64,{EXPERTS},{old},0,0,\n"),
    );
    expect(&mut machine.tune(&[], &["--shapes", "ck_gemm_moe_2stages_codegen", "--gpu", GPU]), 0);
    let text = std::fs::read_to_string(machine.configs().join("tuned_fmoe.csv")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], format!("gfx,cu_num,{MOE},{results},xbf16,flat,tflops,bw,_tag"));
    assert_eq!(lines[1], format!("gfx942,80,64,{EXPERTS},{old},0,0,0,0,"));
    assert_eq!(lines[3], format!("gfx950,256,64,{EXPERTS},{old},0,0,0,0,"));
    let new: Vec<&str> = lines[2].split(',').collect();
    assert!(lines[2].starts_with(&format!("gfx942,304,64,{EXPERTS},32,0,")), "{text}");
    assert_eq!((new[23..26].to_vec(), lines.len()), (vec!["1", "1", "2"], 4), "run_1stage, xbf16 and flat: {text}");
}

#[test]
fn what_can_not_be_merged_is_told_and_nothing_measured_is_lost() {
    let machine = Machine::new();
    machine.untuned(&[16]);
    let stuck = machine.configs().join("a8w8_blockscale_tuned_gemm.csv");
    std::fs::create_dir_all(stuck.join("something")).unwrap();
    let arguments = ["--shapes", "ck_gemm_a8w8_blockscale,ck_gemm_a8w8", "--gpu", GPU];
    let report = json(&expect(&mut machine.tune(&[], &arguments), 1));
    let unmerged = report["unmerged"].as_array().unwrap();
    assert_eq!(unmerged.len(), 1, "{report}");
    assert!(unmerged[0].as_str().unwrap().contains("a8w8_blockscale_tuned_gemm.csv"), "{unmerged:?}");
    assert_eq!(rows(&machine.configs().join("a8w8_tuned_gemm.csv")).len(), 66, "the other family is merged");
    let out = machine.folder.path().join("tuned");
    for kept in ["rows/a8w8_blockscale_tuned_gemm.csv", "configs/a8w8_blockscale_tuned_gemm.csv"] {
        assert_eq!(rows(&out.join(kept)).len(), 1, "{kept}");
    }
    assert!(std::fs::read_to_string(out.join("summary.md")).unwrap().contains("- not merged: "));
}

#[test]
fn a_torn_file_costs_its_own_family() {
    let machine = Machine::new();
    machine.untuned(&[16]);
    let torn = machine.configs().join("x_a8w8_blockscale_tuned_gemm.csv");
    std::fs::write(&torn, "gfx,cu_num,M,N,K,us\ngfx942,304,1,2,\"3\n").unwrap();
    let arguments = ["--shapes", "ck_gemm_a8w8_blockscale,ck_gemm_a8w8", "--gpu", GPU];
    let report = json(&expect(&mut machine.tune(&[], &arguments), 1));
    let expected = "x_a8w8_blockscale_tuned_gemm.csv:2: found a quote that is not closed, expected one record a line: \
        ck_gemm_a8w8_blockscale is not tuned";
    assert!(report["torn"][0].as_str().unwrap().ends_with(expected), "{report}");
    assert_eq!(report["shapes"], 66, "{report}");
    assert_eq!(rows(&machine.configs().join("a8w8_tuned_gemm.csv")).len(), 66, "the other family is tuned");
    assert!(!machine.configs().join("a8w8_blockscale_tuned_gemm.csv").exists());
    assert!(std::fs::read_to_string(machine.folder.path().join("tuned/summary.md")).unwrap().contains("- not read: "));
    // One that is not asked for costs nothing.
    let report = json(&expect(&mut machine.tune(&[], &["--shapes", "ck_gemm_a8w8", "--gpu", GPU]), 0));
    assert_eq!((&report["torn"], &report["shapes"]), (&serde_json::json!([]), &Value::from(0)), "{report}");
}

/// What stands in a file is no row where no look-up finds it.
#[test]
fn shapes_whose_rows_look_ups_do_not_find_are_tuned() {
    let machine = Machine::new();
    let shape = "M,N,K,q_dtype_w\n16,1536,7168,torch.int8\n";
    write(&machine.configs(), "a8w8_untuned_gemm.csv", shape);
    let header = "gfx,cu_num,M,N,K,q_dtype_w,kernelId,splitK,us,kernelName,tflops,bw,errRatio";
    for (kind, shapes) in [("torch.int8", 0), (" torch.int8", 1)] {
        let row = format!("gfx942,304,16,1536,7168,{kind},3,0,5.0,k,70.46,2213.0,0.0");
        write(&machine.configs(), "a8w8_tuned_gemm.csv", &format!("{header}\n{row}\n"));
        let report = json(&expect(&mut machine.tune(&[], &["--shapes", "ck_gemm_a8w8", "--gpu", GPU]), 0));
        assert_eq!(report["shapes"], shapes, "{kind:?}: {report}");
    }
}

#[test]
fn names_that_are_no_families_are_refused_with_the_list() {
    let machine = Machine::new();
    let said = text(&expect(&mut machine.tune(&[], &["--shapes", "ck_gemm", "--gpu", GPU]), 2).stderr);
    assert!(said.contains("family: found \"ck_gemm\", expected one of ck_gemm_a8w8, "), "{said}");
    let said = text(&expect(&mut machine.tune(&[], &["--shapes", "fhmoe", "--gpu", GPU]), 2).stderr);
    assert!(said.contains("--shapes: found fhmoe, expected any of ck_gemm_a8w8, "), "{said}");
    let said = text(&expect(&mut machine.tune(&[], &["--gpu", GPU, "--aiter", "nowhere"]), 1).stderr);
    assert!(said.contains("nowhere/aiter/configs"), "{said}");
}

/// Two hosts, and a third that comes later: each family is built once, and what was evicted once more.
#[test]
fn the_kernels_of_a_family_are_built_on_one_host() {
    let (vhost, redis) = (Vhost::fresh(), Redis::start(RedisOptions::DURABLE));
    let fleet = Fleet::new(vhost.url(), redis.url(), redis.url());
    let folder = fleet.folder.path().to_path_buf();
    std::fs::create_dir_all(folder.join("bin")).unwrap();
    let git = write(&folder, "bin/git", "#!/bin/sh\necho 4f3c1a\n");
    std::fs::set_permissions(&git, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", git.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let python = python(&folder, "python", &[("STAND_IN_GPU", GPU), ("STAND_IN_BUILD", "1")]).display().to_string();
    let device = format!("aiter:{GPU}");
    let host = |name: &str| {
        aiter(&folder.join(name));
        let arguments = ["eval-worker", "--device", &device, "--aiter", name, "--python", &python];
        fleet.worker_with(&arguments, [("PATH", path.clone().into())])
    };
    let tune = |session: &str, families: &str, more: &[&str]| {
        let mut command = fleet.bluefin(&["aiter", "tune", "--aiter", "one", "--gpu", GPU, "--all", "--json"]);
        command.args(["--shapes", families, "--session", session]).args(more).env("PATH", &path);
        json(&expect(&mut command, 0))
    };
    let builds = || {
        let noted = std::fs::read_to_string(folder.join("state/builds")).unwrap();
        let mut families: Vec<String> = noted.lines().map(|line| line.split(' ').next().unwrap().to_string()).collect();
        families.sort_unstable();
        families
    };
    let families = ["gemm_a8w8_blockscale_tune.py", "gemm_a8w8_tune.py"];
    let hosts = [host("one"), host("two")];
    tune("first", "ck_gemm_a8w8,ck_gemm_a8w8_blockscale", &[]);
    assert_eq!(builds(), families, "{}", fleet.logged());
    drop(hosts);
    let third = host("three");
    tune("second", "ck_gemm_a8w8,ck_gemm_a8w8_blockscale", &[]);
    assert_eq!(builds(), families, "{}", fleet.logged());
    let module = "aiter/jit/module_gemm_a8w8_tune.so";
    assert_eq!(std::fs::read(folder.join("three").join(module)).unwrap(), b"kernels of gemm_a8w8_tune.py\n");

    // What the cache has lost is built again, and is there again.
    let redis_cli = |arguments: &[&str]| {
        text(&Command::new("redis-cli").args(["-u", &redis.url()]).args(arguments).output().unwrap().stdout)
    };
    let artifacts = redis_cli(&["KEYS", "bluefin:cas:*"]);
    assert!(artifacts.lines().count() >= 2, "{artifacts}");
    artifacts.lines().for_each(|key| assert_eq!(redis_cli(&["DEL", key]).trim(), "1"));
    drop(third);
    let fourth = host("four");
    tune("third", "ck_gemm_a8w8", &[]);
    assert_eq!(builds(), ["gemm_a8w8_blockscale_tune.py", "gemm_a8w8_tune.py", "gemm_a8w8_tune.py"]);
    drop(fourth);
    let fifth = host("five");
    tune("fourth", "ck_gemm_a8w8", &[]);
    assert_eq!(builds().len(), 3);
    drop(fifth);

    // So is what somebody has changed: a module's bytes, the record of another family in the place of one, a record that is none.
    let records = |field: &str| redis_cli(&["HGET", "bluefin:shelf:modules", field]);
    let fields = redis_cli(&["HKEYS", "bluefin:shelf:modules"]);
    let [one, other] = fields.lines().collect::<Vec<_>>().try_into().unwrap();
    let (of_one, of_other) = (records(one).trim().to_string(), records(other).trim().to_string());
    let poison: [&dyn Fn(); 3] = [
        &|| {
            for key in redis_cli(&["KEYS", "bluefin:cas:*"]).lines() {
                redis_cli(&["SETRANGE", key, "3", "evil"]);
            }
        },
        &|| {
            redis_cli(&["HSET", "bluefin:shelf:modules", one, &of_other, other, &of_one]);
        },
        &|| {
            redis_cli(&["HSET", "bluefin:shelf:modules", one, r#"{"state":"built","files":[{"#, other, ""]);
        },
    ];
    for (turn, poisoned) in poison.iter().enumerate() {
        poisoned();
        let (name, session) = (format!("poisoned-{turn}"), format!("poisoned{turn}"));
        let worker = host(&name);
        tune(&session, "ck_gemm_a8w8", &[]);
        assert_eq!(builds().len(), 4 + turn, "{}", fleet.logged());
        assert_eq!(std::fs::read(folder.join(name).join(module)).unwrap(), b"kernels of gemm_a8w8_tune.py\n");
        drop(worker);
    }
    let _last = host("last");

    // Over a fleet, too, each operator is measured before and after, in the job of its shape.
    let report = tune("compared", "ck_gemm_a8w8", &["--compare"]);
    let operators = report["operators"].as_array().unwrap();
    assert_eq!(Value::from(operators.len()), report["shapes"], "{report}");
    assert!(operators.iter().all(|one| one["before"]["us"] == 450.0 && one["after"]["us"].is_f64()), "{report}");
}

/// A campaign over a fleet of three eval workers, some of which are killed on the way. Returns the files.
fn campaign(faults: &str, kills: u32, random: &mut StdRng) -> BTreeMap<String, Vec<u8>> {
    let vhost = Vhost::fresh();
    let redis = Redis::start(RedisOptions::DURABLE);
    let fleet = Fleet::new(vhost.url(), redis.url(), redis.url());
    let folder = fleet.folder.path();
    aiter(&folder.join("aiter"));
    let variables = [("STAND_IN_GPU", GPU), ("STAND_IN_FAULTS", faults), ("STAND_IN_SECONDS", "0.02")];
    let python = python(folder, "python", &variables).display().to_string();
    let device = format!("aiter:{GPU}");
    let eval = ["eval-worker", "--device", &device, "--aiter", "aiter", "--python", &python];
    let mut workers: Vec<Running> = (0..3).map(|_| fleet.worker(&eval)).collect();

    let began = Instant::now();
    let families = "ck_gemm_a8w8,ck_gemm_a8w8_blockscale,ck_gemm_a8w8_bpreshuffle,gemm_a16w16";
    let arguments = ["aiter", "tune", "--shapes", families, "--gpu", GPU, "--limit", "2s", "--session", "c", "--json"];
    let tune = fleet.bluefin(&arguments).stdout(std::process::Stdio::piped()).spawn().unwrap();
    for _ in 0..kills {
        std::thread::sleep(Duration::from_millis(random.random_range(300..1500)));
        let victim = random.random_range(0..workers.len());
        workers[victim].signal(Signal::KILL);
        workers[victim] = fleet.worker(&eval);
    }
    let output = tune.wait_with_output().unwrap();
    let took = began.elapsed();
    assert_eq!(output.status.code(), Some(1), "some shapes fail: {}", fleet.logged());
    let report = json(&output);

    // Every shape is accounted for.
    let (shapes, failed) = (report["shapes"].as_u64().unwrap(), report["failed"].as_array().unwrap());
    let merged = report["merged"].as_array().unwrap();
    assert_eq!(shapes, (failed.len() + merged.len()) as u64, "{report}");
    let status = fleet.told("c");
    assert_eq!((&status["done"]["find"], status["complete"].as_bool()), (&Value::from(shapes), Some(true)), "{status}");
    println!("{shapes} shapes, {} failed, {kills} kills: {:.1} s", failed.len(), took.as_secs_f64());
    let mut kinds: BTreeMap<String, u32> = BTreeMap::new();
    for one in failed {
        *kinds.entry(one["kind"].as_str().unwrap().to_string()).or_default() += 1;
    }
    println!("{kinds:?}");
    println!(
        "{}",
        text(&std::fs::read(folder.join("tuned/summary.md")).unwrap()).lines().take(12).collect::<Vec<_>>().join("\n")
    );
    let mut out = files(&folder.join("aiter/aiter/configs"));
    for one in failed {
        let known = out.entry("failed".to_string()).or_default();
        known.extend(format!("{} {}\n", one["shape"].as_str().unwrap(), one["kind"].as_str().unwrap()).bytes());
    }
    out
}

#[test]
fn a_campaign_with_faults_ends_in_the_same_files_whoever_is_killed() {
    let seed = std::env::var("BLUEFIN_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(rand::random);
    println!("BLUEFIN_TEST_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    // Some shapes always fail, others once.
    let faults = "kill:M=192,hang:M=20480,wrong:M=48,unsupported:M=96,zero:M=384,gpu:M=4096,half:M=512,exit:N=7168,\
        duplicate:N=4096,kill:N=576@once,exit:M=128@once,half:N=2112@once";
    let undisturbed = campaign(faults, 0, &mut random);
    let disturbed = campaign(faults, 8, &mut random);
    for (name, bytes) in &undisturbed {
        assert!(disturbed.get(name) == Some(bytes), "{name}: killed workers changed it");
    }
    assert_eq!(undisturbed.len(), disturbed.len());
}
