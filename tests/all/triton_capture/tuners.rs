//! Subclasses of Triton's `Autotuner`, which libraries of kernels have.

use serde_json::Value;

use super::Program;
use crate::common::{expect, text};

#[test]
fn a_tuner_of_a_programs_own_is_captured_and_given_what_was_found() {
    let Some(program) = Program::new() else { return };
    for jit in [&[][..], &["--jit"]] {
        let _ = std::fs::remove_dir_all(program.folder.path().join("kernels"));
        let capture = [&["capture", "--triton", "-o", "kernels", "--json"], jit].concat();
        let output = expect(&mut program.run(&capture, "tuners.py", &[]), 0);
        assert!(
            text(&output.stdout).ends_with("counted 1 tried 0 benchmarked 0\n"),
            "it tuned: {}",
            text(&output.stdout)
        );
        let report: Value = serde_json::from_str(text(&output.stderr).lines().last().unwrap()).unwrap();
        let kernels = report["kernels"].as_array().unwrap().iter();
        let told: Vec<_> =
            kernels.map(|one| (one["function"].as_str().unwrap(), &one["configs"], &one["calls"])).collect();
        assert_eq!(told, [("counted", &2.into(), &1.into()), ("rounded", &2.into(), &2.into())], "{report:#}");
    }
    let (_, mut tuned) = program.tuned(&[]);
    // A config that is in no list of the program's, so that it must have been told.
    for kernel in tuned["kernels"].as_array_mut().unwrap() {
        kernel["kwargs"]["BLOCK"]["int"] = 256.into();
    }
    std::fs::write(program.folder.path().join("out/triton-tuned.json"), tuned.to_string()).unwrap();
    let apply = |size| {
        let apply = ["apply", "--triton", "out"];
        let output = expect(&mut program.run(&apply, "tuners.py", &[("STAND_IN_SIZE", size)]), 0);
        (text(&output.stdout), text(&output.stderr))
    };
    for (size, own) in [("300", "2 tuning keys had the config that was found"), ("310", "2 that of the nearest key")] {
        let (printed, said) = apply(size);
        assert!(
            printed.matches("rounded BLOCK: 256").count() == 2 && printed.contains("counted BLOCK: 256"),
            "{printed}"
        );
        assert!(printed.ends_with("counted 1 tried 0 benchmarked 0\n") && said.contains(own), "{printed}{said}");
    }
}

#[test]
fn a_tuner_in_the_place_of_tritons_is_named() {
    let Some(program) = Program::new() else { return };
    let capture = ["capture", "--triton", "-o", "kernels"];
    let said = text(&expect(&mut program.run(&capture, "replaced.py", &[]), 0).stderr);
    let reason = "Autotuner.run";
    assert!(said.contains(reason) && said.contains("the program put this in the place of Triton's own"), "{said}");
    assert!(said.contains("replaced.py:8"), "{said}");
}
