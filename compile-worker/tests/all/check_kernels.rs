//! tests/gpu/check_kernels.py names each candidate that fails, goes on with the others, and its exit code says whether one
//! did: on stand-ins for the driver and for compute-sanitizer.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::json;

/// Runs the program, and complains once for each line of it that is a complaint.
const SANITIZER: &str = r#"#!/bin/sh
while [ "$1" != --error-exitcode ]; do shift; done
code=$2
shift 2
"$@" | tee "$0.$$"
found=$(grep -c '^========= Invalid' "$0.$$")
echo "========= ERROR SUMMARY: $found errors"
[ "$found" -eq 0 ] || exit "$code"
"#;

/// The exit code and what was printed, of one problem with a candidate of each of these kernels behind the reference.
fn check(kernels: &[&str]) -> (i32, String) {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/gpu");
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let cc = Command::new("cc")
        .args(["-shared", "-fPIC", "-w", "-o"])
        .arg(at("libcuda.so.1"))
        .arg(scripts.join("stand_in_driver.c"))
        .status()
        .unwrap();
    assert!(cc.success());
    std::fs::write(at("sanitizer"), SANITIZER).unwrap();
    std::fs::set_permissions(at("sanitizer"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let case = |kernel: &&str| {
        std::fs::write(at(kernel), kernel.as_bytes()).unwrap();
        let arguments = json!([{ "buffer": 0 }, { "i32": 16 }]);
        let launch =
            json!({ "entry": "f", "grid": [1, 1, 1], "block": [1, 1, 1], "shared": 0, "arguments": arguments });
        json!({ "candidate": format!("K:{kernel}"), "file": kernel, "workspace": 0, "launches": [launch] })
    };
    let problem = json!({
        "problem": "some problem",
        "buffers": [{ "name": "y", "type": "FP32", "length": 16, "role": "output" }],
        "tolerance": { "absolute": 1e-3, "relative": 0.0 },
        "cases": std::iter::once(&"right").chain(kernels).map(case).collect::<Vec<_>>(),
        "refused": [],
    });
    std::fs::write(at("cases.json"), json!([problem]).to_string()).unwrap();
    let ran = Command::new("python3")
        .arg(scripts.join("check_kernels.py"))
        .arg(folder.path())
        .args(["--tools", "memcheck", "--limit", "3", "--jobs", "2", "--sanitizer"])
        .arg(at("sanitizer"))
        .env("LD_LIBRARY_PATH", folder.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("python3, which tests/run installs");
    let text = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    (ran.status.code().unwrap(), text)
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    let (code, text) = check(&["right", "right"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("memcheck: 3 candidates, 0 failed") && text.ends_with("all is well\n"), "{text}");
}

#[test]
fn every_way_to_fail_is_named_and_the_rest_goes_on() {
    let kernels = ["right", "wrong", "hang", "right", "fault", "right", "dies", "careless", "unknown", "right"];
    let (code, text) = check(&kernels);
    assert_eq!(code, 1, "{text}");
    let failed: Vec<&str> = text.lines().filter(|line| line.starts_with("FAILED")).collect();
    let expected = [
        ("alone", "wrong", "wrong: 3e+04 of what is allowed"),
        ("alone", "hang", "hangs: not done after 3 s, twice"),
        ("alone", "fault", "cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS"),
        ("alone", "dies", "its process ended with -6: "),
        ("memcheck", "careless", "Invalid __global__ read of size 4 bytes; ERROR SUMMARY: 1 errors"),
        ("alone", "unknown", "cuModuleLoadDataEx: CUDA_ERROR_INVALID_IMAGE: no such kernel"),
    ];
    for (tool, kernel, why) in expected {
        let line = format!("FAILED {tool}: some problem: K:{kernel}: {why}");
        assert!(failed.contains(&line.as_str()), "{line}: {text}");
    }
    assert_eq!(failed.len(), expected.len(), "{text}");
    assert!(
        text.contains("alone: 11 candidates, 5 failed") && text.contains("memcheck: 6 candidates, 1 failed"),
        "{text}"
    );
    assert!(text.ends_with("6 failures\n"), "{text}");
}
