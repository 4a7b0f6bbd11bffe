//! Kernels with what programs do besides calling a function with tensors and numbers.

use serde_json::Value;

use super::Program;
use crate::common::{expect, json, text};

impl Program {
    /// What `bluefin capture` says of `wild.py` with these kernels.
    fn captured_wild(&self, kernels: &str) -> Value {
        let capture = ["capture", "--triton", "--jit", "-o", "kernels", "--json"];
        let output = expect(&mut self.run(&capture, "wild.py", &[("STAND_IN_KERNELS", kernels)]), 0);
        let printed = text(&output.stdout);
        assert!(printed.ends_with("benchmarked 0\n"), "it tuned: {printed}");
        let report: Value = serde_json::from_str(text(&output.stderr).lines().last().unwrap()).unwrap();
        assert_eq!(report["left"], Value::Array(Vec::new()));
        report
    }

    /// What the program prints and bluefin says where it is given `tuned`.
    fn applied(&self, tuned: &Value, kernels: &str) -> (String, String) {
        std::fs::write(self.folder.path().join("out/triton-tuned.json"), tuned.to_string()).unwrap();
        let apply = ["apply", "--triton", "out"];
        let output = expect(&mut self.run(&apply, "wild.py", &[("STAND_IN_KERNELS", kernels)]), 0);
        (text(&output.stdout), text(&output.stderr))
    }
}

/// What a kernel spec has no words for: the spec says what words stand for, and what calls the kernel with the rest.
#[test]
fn what_programs_do_besides_is_captured_and_right() {
    let Some(program) = Program::new() else { return };
    let report =
        program.captured_wild("words guessed split backward joined partial_sums tuned_sums row_totals split_sums");
    for (function, at, parts) in [
        ("words", 0, &["MODE = \"empty\"", "[solver.words.SHAPE]\n  tuple_2_32 = [2, 32]"][..]),
        ("words", 0, &["fp64 = { dtype = \"fp64\" }", "float_0_125 = 0.125", "text_None = \"None\""]),
        // Each is computed from those that stand before it, and of the options the rule's own stands.
        ("guessed", 0, &["EVEN = true, ODD = false, ROWS = 16, num_stages = 3, num_warps = 1"]),
        ("guessed", 0, &["EVEN = false, ODD = true, ROWS = 32, num_stages = 3, num_warps = 2"]),
        ("split", 0, &["name = \"out\"\ntype = \"FP32\"\nlength = 1\nrole = \"inout\"\nfill = 0.0"]),
        (
            "backward",
            0,
            &[
                "# partial has a part for each ROWS: it is scratch memory",
                "workspace = 1024",
                "arguments = [\"x\", \"dy\", \"dx\", \"total\", \"workspace\", { i32",
            ],
        ),
        ("joined", 0, &["arguments = [\"inputs_0\", \"inputs_1_0\", { i32 = 3 }, \"out\", { i32 = 200 }]"]),
        // The program made memory for blocks of this size.
        ("partial_sums", 0, &["BLOCK = 128\n", "{ num_stages = 2, num_warps = 4 }"]),
        // Nothing else is written: what has other parts can not be compared.
        (
            "tuned_sums",
            0,
            &[
                "# Left out, with other partial sums than the config that ran: BLOCK: 64, num_warps: 2",
                "BLOCK = 32, num_stages = 3, num_warps = 2 },\n",
                "num_warps = 4 },\n]",
            ],
        ),
        (
            "row_totals",
            0,
            &["BLOCK = 32, num_stages = 3, num_warps = 1 },\n", "BLOCK = 64, num_stages = 3, num_warps = 2 },\n]"],
        ),
        (
            "split_sums",
            0,
            &["SPLIT = 1, num_stages = 3, num_warps = 1 },\n", "SPLIT = 2, num_stages = 3, num_warps = 1 },\n]"],
        ),
    ] {
        let spec = program.spec(&report, function, at);
        for part in parts {
            assert!(spec.contains(part), "{part}\nin\n{spec}");
        }
    }
    for target in ["gfx942", "gfx1100"] {
        let check = ["check", "--triton", "kernels", "--json", "--target", target];
        let report = json(&expect(program.bluefin().args(check), 0));
        let candidates = report["candidates"].as_array().unwrap();
        let wrong: Vec<&Value> = candidates.iter().filter(|one| one["result"] != "right").collect();
        assert!(wrong.is_empty() && candidates.len() == 25, "{target}: {} candidates, {wrong:#?}", candidates.len());
    }
}

/// Each kernel of a program is captured once, whichever of its threads launches it.
#[test]
fn threads_that_launch_at_once_are_captured() {
    let Some(program) = Program::new() else { return };
    let capture = ["capture", "--triton", "--jit", "-o", "kernels", "--json"];
    let kernels = "words guessed split joined partial_sums tuned_sums partial_sums";
    let threads = [("STAND_IN_KERNELS", kernels), ("STAND_IN_THREADS", "1")];
    let output = expect(&mut program.run(&capture, "wild.py", &threads), 0);
    let report: Value = serde_json::from_str(text(&output.stderr).lines().last().unwrap()).unwrap();
    assert_eq!(report["left"], Value::Array(Vec::new()));
    let captured = |of: &str| report["kernels"].as_array().unwrap().iter().filter(|one| one["function"] == of).count();
    // Those of `guessed` have three sets of constants, of which the arguments are a part.
    for (function, count) in
        [("words", 1), ("guessed", 3), ("split", 1), ("joined", 2), ("partial_sums", 1), ("tuned_sums", 1)]
    {
        assert_eq!(captured(function), count, "{function}: {report:#}");
    }
    let calls = report["kernels"].as_array().unwrap().iter().filter_map(|one| one["calls"].as_u64());
    assert_eq!(calls.sum::<u64>(), 4 + 7, "{report:#}");
}

/// Values come back as the program has them, each set of constants has a config of its own, and hooks stay.
#[test]
fn what_programs_do_besides_comes_back() {
    let Some(program) = Program::new() else { return };
    program.captured_wild("words guessed split");
    let mut tuned = program.tuned(&[]).1;
    let mut of = |function: &str, change: &dyn Fn(&mut Value)| {
        let kernels = tuned["kernels"].as_array_mut().unwrap();
        kernels.iter_mut().filter(|one| one["function"] == function).for_each(change);
    };
    of("words", &|kernel| {
        let accumulator = kernel["kwargs"]["ACC"]["dtype"].as_str().unwrap();
        assert!(["fp32", "fp64"].contains(&accumulator), "{kernel}");
        kernel["kwargs"]["MODE"]["str"] = "a-b".into();
        kernel["kwargs"]["SHAPE"] = serde_json::json!({ "tuple": [{ "int": 16 }, { "int": 32 }] });
        kernel["kwargs"]["BLOCK"]["int"] = 512.into();
        kernel["kwargs"]["BY"]["float"] = 0.0625.into();
    });
    of("guessed", &|kernel| {
        let rows = if kernel["constants"]["CAUSAL"]["bool"] == true { 64 } else { 128 };
        kernel["kwargs"]["ROWS"]["int"] = rows.into();
    });
    of("split", &|kernel| {
        kernel["kwargs"]["SPLIT"]["int"] = 4.into();
        kernel["kwargs"]["BLOCK"]["int"] = 128.into();
        kernel["options"]["num_warps"]["int"] = 2.into();
    });
    let (printed, said) = program.applied(&tuned, "words guessed split");
    for part in [
        "BLOCK: 512, BY: 0.0625",
        "MODE: a-b, SHAPE: (16, 32)",
        "guessed True ROWS: 64",
        "guessed False ROWS: 128",
        "split BLOCK: 128, SPLIT: 4, num_warps: 2",
        "zeroed 1",
        "benchmarked 0",
    ] {
        assert!(printed.contains(part), "{part}\nin\n{printed}{said}");
    }
    assert!(printed.matches("guessed True ROWS: 64").count() == 2, "{printed}");
    assert!(said.contains("5 tuning keys had the config that was found"), "{said}");
}
