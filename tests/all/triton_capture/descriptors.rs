//! Kernels with tensor descriptors.

use serde_json::Value;

use super::Program;
use crate::common::{expect, json, text};

fn capture(program: &Program) -> Value {
    let output =
        expect(&mut program.run(&["capture", "--triton", "-o", "kernels", "--json"], "descriptors.py", &[]), 0);
    let printed = text(&output.stdout);
    assert_eq!(printed, "product 32 [32, 16]\nmade 8\nbenchmarked 0\n");
    let report: Value = serde_json::from_str(text(&output.stderr).lines().last().unwrap()).unwrap();
    assert_eq!(report["left"], Value::Array(Vec::new()));
    report
}

#[test]
fn descriptors_are_captured_with_the_block_of_each_config() {
    let Some(program) = Program::new() else { return };
    let report = capture(&program);
    let product = program.spec(&report, "product", 0);
    for part in [
        "name = \"c\"\ntype = \"FP16\"\nlength = 7680\nrole = \"output\"",
        "{ descriptor = \"a\", shape = [80, 64], strides = [64, 1], block_shape = [\"BLOCK_M\", \"BLOCK_K\"] }",
        "{ descriptor = \"b\", shape = [96, 64], strides = [64, 1], block_shape = [\"BLOCK_N\", \"BLOCK_K\"] }",
        "block_shape = [\"BLOCK_M\", \"if ",
    ] {
        assert!(product.contains(part), "{part}\nin\n{product}");
    }
    // Right where the hardware knows no descriptors, and none reaches beyond its tensor.
    for target in ["gfx942", "gfx1100"] {
        let checked =
            json(&expect(program.bluefin().args(["check", "--triton", "kernels", "--json", "--target", target]), 0));
        let candidates = checked["candidates"].as_array().unwrap();
        let wrong: Vec<&Value> = candidates.iter().filter(|one| one["result"] != "right").collect();
        assert!(wrong.is_empty() && candidates.len() == 5, "{target}: {candidates:#?}");
    }
}

/// What is found is given back with the program's own hook.
#[test]
fn descriptors_get_the_block_of_what_is_applied() {
    let Some(program) = Program::new() else { return };
    capture(&program);
    let (_, mut tuned) = program.tuned(&[]);
    for kernel in tuned["kernels"].as_array_mut().unwrap() {
        let is_product = kernel["function"] == "product";
        kernel["config"]["kwargs"] = match is_product {
            true => {
                serde_json::json!({ "BLOCK_M": { "int": 64 }, "BLOCK_N": { "int": 32 }, "BLOCK_K": { "int": 16 }, "HALVES": { "bool": false } })
            }
            false => serde_json::json!({ "ROWS": { "int": 16 } }),
        };
    }
    std::fs::write(program.folder.path().join("out/triton-tuned.json"), tuned.to_string()).unwrap();
    let output = expect(&mut program.run(&["apply", "--triton", "out"], "descriptors.py", &[]), 0);
    assert_eq!(text(&output.stdout), "product 64 [64, 32]\nmade 16\nbenchmarked 0\n");
}

/// Blocks that the program itself sets stay as they are, and tell launches apart; a wider space has the blocks that the hook says there.
#[test]
fn descriptors_are_widened_by_their_hook_alone() {
    let Some(program) = Program::new() else { return };
    let capture = ["capture", "--triton", "--jit", "-o", "kernels", "--json"];
    let output = expect(&mut program.run(&capture, "descriptors.py", &[]), 0);
    let report: Value = serde_json::from_str(text(&output.stderr).lines().last().unwrap()).unwrap();
    let names: Vec<&str> =
        report["kernels"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    let doubled = names.iter().filter(|name| name.starts_with("doubled")).count();
    assert_eq!(doubled, 2, "{names:?}");
    let widen = ["check", "--triton", "kernels", "--widen", "--json", "--target", "gfx942", "--budget", "12"];
    let checked = json(&expect(program.bluefin().args(widen), 0));
    let candidates = checked["candidates"].as_array().unwrap();
    let wrong: Vec<&Value> = candidates.iter().filter(|one| one["result"] != "right").collect();
    assert!(wrong.is_empty() && candidates.len() > 24, "{wrong:#?}");
    let sets_block = |one: &&Value| one["solver"] == "doubled" && one["params"].get("BLOCK").is_some();
    assert!(!candidates.iter().any(|one| sets_block(&one)), "{candidates:#?}");
}
