//! Kernels that are told apart by more than their names, and what `export` makes of them.

use serde_json::Value;

use super::Program;
use crate::common::{expect, text};

#[test]
fn functions_of_one_name_and_equal_constants_are_told_apart() {
    let Some(program) = Program::new() else { return };
    let capture = ["capture", "--triton", "-o", "kernels", "--json"];
    let output = expect(&mut program.run(&capture, "named.py", &[]), 0);
    assert!(text(&output.stdout).ends_with("benchmarked 0\n"), "{}", text(&output.stdout));
    let report: Value = serde_json::from_str(text(&output.stderr).lines().last().unwrap()).unwrap();
    let kernels = report["kernels"].as_array().unwrap().iter();
    let mut told: Vec<_> = kernels.map(|one| (one["function"].as_str().unwrap(), one["calls"].as_u64())).collect();
    told.sort_unstable();
    let (added, joined, scale) = (("added", Some(3)), ("joined", Some(3)), ("scale", Some(1)));
    assert_eq!(told, [added, added, added, joined, joined, joined, scale, scale], "{report:#}");
    program.tuned(&["--session", "named"]);
    let output = expect(&mut program.run(&["apply", "--triton", "out"], "named.py", &[]), 0);
    let applied = text(&output.stderr);
    assert!(
        text(&output.stdout).ends_with("benchmarked 0\n") && applied.contains("8 tuning keys had the config"),
        "{applied}"
    );

    // What programs read is written again from the results of the session.
    let export = |out: &str, more: &[&str], code: i32| {
        let arguments = ["export", "--state", "bluefin.db", "--session", "named", "-o", out];
        text(&expect(program.bluefin().args(arguments).args(more), code).stderr)
    };
    let refused = export("none", &["--format", "triton-cache"], 2);
    assert!(
        refused.contains("--format triton-cache: name the folders of bluefin capture --triton by --triton"),
        "{refused}"
    );
    let has = |file: &str| program.folder.path().join(file).exists();
    assert!(!has("none"));
    for (out, format) in [("cache", "triton-cache"), ("winners", "winners")] {
        let said = export(out, &["--format", format, "--triton", "kernels"], 0);
        assert!(said.contains(&format!("TRITON_CACHE_DIR={out}/triton-cache")), "{said}");
        assert!(has(&format!("{out}/triton-tuned.json")) && has(&format!("{out}/triton-cache")));
        assert_eq!(has(&format!("{out}/winners.json")), format == "winners");
    }
    let cache = program.folder.path().join("cache/triton-cache").display().to_string();
    let printed = program.alone("named.py", &[("TRITON_CACHE_AUTOTUNING", "1"), ("TRITON_CACHE_DIR", &cache)]);
    assert!(printed.ends_with("benchmarked 0\n"), "{printed}");

    // Nothing is said to be there that is not whole.
    let blocked = program.folder.path().join("blocked");
    std::fs::create_dir(&blocked).unwrap();
    std::fs::write(blocked.join("triton-cache"), "").unwrap();
    let said = export("blocked", &["--triton", "kernels", "--format", "triton-cache"], 1);
    assert!(said.contains("blocked/triton-cache/") && !has("blocked/triton-tuned.json"), "{said}");
}
