//! Arguments that are no tensors, numbers or texts, and tensors that are no tensors of torch's.

use serde_json::Value;

use super::Program;
use crate::common::{expect, json, text};

/// A machine whose files are ASCII unless a program says otherwise.
const PLAIN: [(&str, &str); 3] = [("LC_ALL", "C"), ("PYTHONUTF8", "0"), ("PYTHONCOERCECLOCALE", "0")];

#[test]
fn what_a_spec_has_no_words_for_is_written_in_python_and_right() {
    let Some(program) = Program::new() else { return };
    let capture = ["capture", "--triton", "--jit", "-o", "kernels", "--json"];
    let output = expect(&mut program.run(&capture, "carried.py", &PLAIN), 0);
    let report: Value = serde_json::from_str(text(&output.stderr).lines().last().unwrap()).unwrap();
    let left = report["left"].as_array().unwrap();
    let reasons: Vec<_> = left.iter().map(|one| one["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["argument x: found a Bare, which does not say what memory it is in"], "{report:#}");
    for (function, part) in [
        ("carried", "arguments = [\"x\", \"pair_0\", { i32 = 3 }, \"out\", { i32 = 100 }]"),
        // All of the memory that a row of it may lead to.
        ("gathered", "name = \"x\"\ntype = \"FP32\"\nlength = 4000"),
        ("reversed", "{ buffer = \"x\", offset = 99 }"),
        ("widened", "name = \"x\"\ntype = \"BF8\"\nlength = 100"),
        ("masked", "[tolerance.FP32]\nabsolute = 0.000"),
        ("warps", "{ BLOCK = 32, num_stages = 3, num_warps = 2 }"),
        ("staged", "{ num_stages = "),
        ("stepped", "name = \"out\"\ntype = \"FP32\"\nlength = 100\nrole = \"output\""),
    ] {
        let spec = program.spec(&report, function, 0);
        assert!(spec.contains(part), "{part}\nin\n{spec}");
    }
    for target in ["gfx942", "gfx1100"] {
        let check = ["check", "--triton", "kernels", "--json", "--target", target];
        let checked = json(&expect(program.bluefin().args(check), 0));
        let candidates = checked["candidates"].as_array().unwrap();
        let results: Vec<_> = candidates.iter().map(|one| &one["result"]).collect();
        assert_eq!(results, ["right"; 10], "{target}: {checked:#}");
    }
}
