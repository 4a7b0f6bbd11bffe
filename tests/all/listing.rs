//! `--list`: how many candidates there are, and which, while nothing is done about them.

use serde_json::Value;

use crate::common::{bluefin, expect, files, json, text, write};

const PROBLEMS: &str = "conv -n 1 -c 8 -H 9 -W 9 -k 8 -y 3 -x 3 -p 1 -q 1 -F 1\ngemm -m 64 -n 64 -k 64\n";

/// A run in a folder of its own, which is as it was after it.
fn run(code: i32, arguments: &[&str]) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "problems.txt", PROBLEMS);
    write(folder.path(), "sizes.yaml", "- {'M': 512, 'N': 512, 'K': 256, 'rowMajorA': 'T', 'rowMajorB': 'N'}\n");
    let before = files(folder.path());
    let mut command = bluefin();
    // Nothing is there to be started or connected to.
    command
        .env("PATH", "/nowhere")
        .env("BLUEFIN_AMQP_URL", "amqp://nowhere")
        .env("BLUEFIN_REDIS_URL", "redis://nowhere");
    command.env("BLUEFIN_KFD_TOPOLOGY", folder.path());
    let output = expect(command.current_dir(folder.path()).args(arguments), code);
    assert_eq!(files(folder.path()), before, "{arguments:?}");
    (text(&output.stdout), text(&output.stderr))
}

fn list(arguments: &[&str]) -> Value {
    serde_json::from_str(&run(0, &[arguments, &["--list", "--json"]].concat()).0).unwrap()
}

#[test]
fn verbs_list_the_same_candidates_and_do_nothing() {
    let tune = list(&["tune", "problems.txt", "--device", "gfx942-304"]);
    assert_eq!(list(&["enqueue", "problems.txt", "--session", "s", "--target", "gfx942-304"]), tune);
    assert_eq!(list(&["check", "problems.txt", "--target", "gfx942"]), tune);
    assert_eq!((&tune["target"], tune["problems"].as_array().unwrap().len()), (&Value::from("gfx942-304"), 2));
    let mut candidates = 0;
    for problem in tune["problems"].as_array().unwrap() {
        for solver in problem["solvers"].as_array().unwrap() {
            let configs = solver["configs"].as_array().unwrap();
            assert_eq!(solver["candidates"], configs.len());
            assert!(solver["valid_candidates"].as_u64() >= solver["candidates"].as_u64(), "{solver}");
            candidates += configs.len();
        }
    }
    assert_eq!(tune["candidates"], candidates);
    let solvers = tune["problems"][1]["solvers"].as_array().unwrap();
    let tiled = solvers.iter().find(|solver| solver["solver"] == "BluefinGemmGpuTiled").unwrap();
    assert_eq!((tiled["candidates"].as_u64(), &tiled["exact"]), (Some(16), &Value::Bool(true)), "{tiled}");
    assert!(
        tiled["configs"][0].as_object().unwrap().values().all(|value| value.is_number() || value.is_boolean()),
        "{tiled}"
    );
    let all = list(&["tune", "problems.txt", "--device", "gfx942-304", "--budget", "all"]);
    assert_eq!((&all["candidates"], &all["valid_candidates"]), (&tune["valid_candidates"], &tune["valid_candidates"]));

    let (table, _) = run(0, &["tune", "problems.txt", "--device", "gfx942-304", "--list"]);
    let line =
        format!("2 problems for gfx942-304: {candidates} of {} candidates at budget normal", tune["valid_candidates"]);
    assert!(table.contains("BluefinConvFwdGpuDirect") && table.contains(&line), "{table}");
    let (table, _) = run(0, &["tune", "problems.txt", "--list"]);
    assert!(table.contains("2 problems for host: "), "{table}");
}

/// As many as a run plans that tunes them.
#[test]
fn what_is_listed_is_what_is_planned() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "one.txt", "gemm -m 8 -n 8 -k 8\n");
    let run = |more: &[&str]| {
        let arguments = [&["tune", "one.txt", "--device", "host", "--budget", "3", "--json"][..], more].concat();
        json(&expect(bluefin().current_dir(folder.path()).args(arguments), 0))
    };
    let (listed, tuned) = (run(&["--list"]), run(&[]));
    for count in ["candidates", "valid_candidates", "jobs"] {
        assert_eq!(listed[count], tuned["plan"][count], "{count}");
    }
}

#[test]
fn the_space_of_a_product_is_listed() {
    let sizes = ["tune-gemm", "--gemm_size_file", "sizes.yaml", "--device", "gfx942"];
    let listed = list(&sizes);
    let solver = &listed["problems"][0]["solvers"][0];
    assert_eq!((&solver["solver"], &listed["candidates"]), (&Value::from("TritonGemm"), &listed["valid_candidates"]));
    assert_eq!(solver["configs"].as_array().unwrap().len() as u64, listed["candidates"].as_u64().unwrap());
    for name in ["BLOCK_SIZE_M", "SPLIT_K", "kpack", "matrix_instr_nonkdim", "num_warps", "waves_per_eu"] {
        assert!(solver["configs"][0][name].is_number(), "{name}: {solver}");
    }
    let few = list(&[&sizes[..], &["--budget", "8"]].concat());
    // Of a large space a part is looked at.
    let (few, all) = (&few["problems"][0]["solvers"][0], &listed["problems"][0]["solvers"][0]);
    assert_eq!(
        (&few["candidates"], &few["exact"], &all["exact"]),
        (&Value::from(8), &Value::from(false), &Value::from(true))
    );
}

#[test]
fn what_can_not_be_listed_says_why() {
    for (reason, arguments) in [
        ("--tuner fin alone knows", &["tune", "problems.txt", "--tuner", "fin", "--list"][..]),
        ("since no driver is asked", &["tune", "problems.txt", "--device", "cuda:0", "--list"]),
        ("plan no candidates", &["tune", "--stage", "eval", "--list"]),
        ("--list connects to no store", &["enqueue", "-t", "resnet50", "--session", "s", "--list"]),
        ("which can not be executed", &["check", "problems.txt", "--target", "gfx906", "--list"]),
        (
            "has no config",
            &["tune-gemm", "--benchmark", "--gemm_size_file", "sizes.yaml", "--device", "gfx942", "--list"],
        ),
    ] {
        let (_, error) = run(2, arguments);
        assert!(error.contains(reason), "{arguments:?}: {error}");
    }
    let (_, error) = run(1, &["tune", "--kernel", "missing.toml", "--list"]);
    assert!(error.contains("missing.toml"), "{error}");
}
