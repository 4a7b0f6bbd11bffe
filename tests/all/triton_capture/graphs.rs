//! Programs that capture CUDA graphs.

use serde_json::Value;

use super::Program;
use crate::common::{expect, text};

/// What is left amid a CUDA graph is written down without a question to the GPU, which would end the graph.
#[test]
fn a_cuda_graph_is_not_spoilt() {
    let Some(program) = Program::new() else { return };
    let capture = ["capture", "--triton", "-o", "kernels", "--json"];
    let output = expect(&mut program.run(&capture, "graphs.py", &[]), 0);
    assert_eq!(text(&output.stdout), "spoilt 0\n");
    let report: Value = serde_json::from_str(text(&output.stderr).lines().last().unwrap()).unwrap();
    let left: Vec<_> = report["left"].as_array().unwrap().iter().map(|one| &one["reason"]).collect();
    assert_eq!(left, ["its first launch was captured into a CUDA graph"; 2], "{report:#}");
    assert_eq!(report["kernels"][0]["ms"], 0.25, "{report:#}");
}
