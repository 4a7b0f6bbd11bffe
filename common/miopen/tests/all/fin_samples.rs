//! fin's documents as other people's programs left them: both generations are read, and nothing of the environment that
//! they repeat goes any further.

use bluefin_common::problem::{ConvProblem, ConvShape, DataType, Direction, Problem};
use bluefin_miopen::fin::{Answer, Step, compiled, evaluated, parse};
use bluefin_miopen::kernel::{WireKernel, check, to_wire};
use bluefin_test_support::data_text;

/// What the samples' environments hold.
const SECRET: &str = "must-never-leave-the-worker";

fn sample(name: &str) -> (String, Answer) {
    let text = data_text(&format!("fin/{name}"));
    assert!(text.contains(SECRET), "{name}: a sample without a secret proves nothing");
    let [answer] = parse(text.as_bytes(), 1).unwrap().try_into().unwrap();
    assert!(!format!("{answer:?}").contains(SECRET));
    (text, answer)
}

/// The problem of most samples.
fn strided() -> Problem {
    let shape = ConvShape {
        n: 128,
        c: 1024,
        k: 2048,
        input: [1, 14, 14],
        stride: [1, 2, 2],
        ..ConvShape::plain(Direction::BackwardData, DataType::Fp32)
    };
    Problem::Conv(ConvProblem::new(shape).unwrap())
}

#[test]
fn applicability() {
    let (_, answer) = sample("fin_output_applicability.json");
    assert_eq!(answer.id, Some(125_733));
    let solvers = answer.applicable_solvers.unwrap();
    assert_eq!((solvers.len(), solvers[1].as_str()), (11, "ConvAsm1x1UV2"));
}

#[test]
fn a_compiled_solver_and_its_kernel() {
    let (_, answer) = sample("fin_output_find_compile-2.json");
    let solver = compiled(Step::FindCompile, answer, &strided(), "ConvAsm1x1UV2").unwrap();
    assert_eq!(solver.algorithm, "miopenConvolutionBwdDataAlgoDirect");
    assert!(solver.tunable);
    let [(kernel, stream)] = solver.kernels.as_slice() else { panic!("{} kernels", solver.kernels.len()) };
    assert_eq!((kernel.file.as_str(), kernel.packed.as_ref().unwrap().size), ("conv1x1u_stride2.s", 138_496));
    assert!(kernel.options.starts_with(" -Wa,-defsym,") && stream.starts_with(b"BZh9"));
    check(kernel, stream).unwrap();
    assert!(check(kernel, &stream[..stream.len() - 9]).is_err());
}

#[test]
fn evaluated_solvers() {
    let (_, answer) = sample("fin_output_find_eval.json");
    let result = evaluated(Step::FindEval, answer, &strided(), "ConvAsm1x1UV2").unwrap();
    assert_eq!((result.params.as_str(), result.workspace), ("32,1,16,2,1,1,2,4,4,1", 0));
    assert!((result.time_ms - 2.859_683_990_478_515_6).abs() < 1e-12);
    let (_, answer) = sample("fin_output_perf_eval.json");
    let shape = ConvShape {
        n: 32,
        c: 128,
        k: 128,
        input: [1, 28, 28],
        filter: [1, 3, 3],
        pad: [0, 1, 1],
        ..ConvShape::plain(Direction::Forward, DataType::Bf16)
    };
    let problem = Problem::Conv(ConvProblem::new(shape).unwrap());
    let result = evaluated(Step::PerfEval, answer, &problem, "ConvHipImplicitGemmV4R1Fwd").unwrap();
    assert_eq!(result.params, "16,64,8,2,2,2,4,4,4,4,8,2,16,1,4,64");
}

/// The kernels that the samples repeat in what they were asked.
#[test]
fn every_kernel_of_the_samples_checks_out() {
    for (name, list, count) in [
        ("fin_output_perf_eval.json", "miopen_perf_compile_result", 33),
        ("fin_output_find_eval.json", "miopen_find_compile_result", 1),
    ] {
        let (text, _) = sample(name);
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let kernels = document[1]["input"][list][0]["kernel_objects"].clone();
        let kernels: Vec<WireKernel> = serde_json::from_value(kernels).unwrap();
        assert_eq!(kernels.len(), count, "{name}");
        for wire in kernels {
            let (kernel, stream) = wire.open().unwrap();
            assert_eq!(to_wire(&kernel, &stream).unwrap(), wire);
        }
    }
}
