//! What an answer says of the solver that it was asked about: a result, or a failure with its kind.

use std::collections::HashSet;

use crate::fin::answer::{Answer, Item};
use crate::fin::request::Step;
use crate::kernel::needs_kernels;
use crate::key::FindDbKey;
use crate::solver;
use bluefin_common::artifact::CodeObject;
use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::problem::Problem;

/// What a compile step made of a solver.
#[derive(Clone, Debug, PartialEq)]
pub struct CompiledSolver {
    /// With the prefix of its direction.
    pub algorithm: String,
    /// Bytes; 0 in the perf stage, which does not say.
    pub workspace: u64,
    pub tunable: bool,
    /// Each with its bzip2 stream, checked; none twice.
    pub kernels: Vec<(CodeObject, Vec<u8>)>,
}

/// What an eval step measured of a solver.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluated {
    /// Those that ran; empty for a solver without.
    pub params: String,
    pub time_ms: f64,
    /// Bytes.
    pub workspace: u64,
    pub algorithm: Option<String>,
    pub tunable: Option<bool>,
}

/// Reads the answer to a compile step.
///
/// # Errors
/// Whatever is not a success, by kind.
pub fn compiled(step: Step, answer: Answer, problem: &Problem, solver: &str) -> Result<CompiledSolver, Failure> {
    let item = item(step, answer, problem, solver)?;
    let done = match step {
        Step::FindCompile | Step::FindEval => item.find_compiled,
        Step::PerfCompile | Step::PerfEval => item.perf_compiled,
    };
    match item.reason.as_deref() {
        Some("Success") | None if done == Some(true) => {}
        Some(reason) if reason != "Success" => return Err(of_reason(reason)),
        _ => {
            let detail = format!("{}: neither compiled nor a reason why not", step.name());
            return Err(Failure::new(FailureKind::MalformedOutput, detail));
        }
    }
    let algorithm = item.algorithm.filter(|name| !name.is_empty()).ok_or_else(|| missing(step, "algorithm"))?;
    let mut known = HashSet::new();
    let mut kernels = Vec::new();
    for kernel in item.kernel_objects.unwrap_or_default() {
        let (kernel, stream) = kernel.open()?;
        if known.insert(kernel.clone()) {
            kernels.push((kernel, stream));
        }
    }
    if kernels.is_empty() && needs_kernels(solver) {
        let detail = format!("{}: no kernels, though {solver} is made of them", step.name());
        return Err(Failure::new(FailureKind::MissingArtifact, detail));
    }
    let tunable = item.tunable.unwrap_or(matches!(step, Step::PerfCompile | Step::PerfEval));
    Ok(CompiledSolver { algorithm, workspace: item.workspace.unwrap_or(0), tunable, kernels })
}

/// Reads the answer to an eval step.
///
/// # Errors
/// Whatever is not a success, by kind.
pub fn evaluated(step: Step, answer: Answer, problem: &Problem, solver: &str) -> Result<Evaluated, Failure> {
    let item = item(step, answer, problem, solver)?;
    let invalid = |detail: String| Failure::new(FailureKind::InvalidTime, detail);
    if let Some(reason) = &item.reson {
        return Err(invalid(format!("{reason} (time: found {:?})", item.time)));
    }
    match (item.evaluated, item.reason.as_deref()) {
        (Some(true), Some("Success") | None) => {}
        (_, Some("Success")) => {
            let detail = format!("{}: success, but not evaluated", step.name());
            return Err(Failure::new(FailureKind::MalformedOutput, detail));
        }
        (_, Some(reason)) => return Err(of_reason(reason)),
        // The reason is lost on its way where a kernel can not be loaded.
        (_, None) => return Err(Failure::new(FailureKind::LoadError, "not evaluated, without a reason")),
    }
    let time_ms = item.time.ok_or_else(|| missing(step, "time"))?;
    if !time_ms.is_finite() || time_ms <= 0.0 {
        return Err(invalid(format!("time: found {time_ms} ms, expected more than 0")));
    }
    Ok(Evaluated {
        params: item.params.unwrap_or_default(),
        time_ms,
        workspace: item.workspace.unwrap_or(0),
        algorithm: item.algorithm,
        tunable: item.tunable,
    })
}

/// The entry of `solver`, once the answer is known to be about `problem`.
fn item(step: Step, answer: Answer, problem: &Problem, solver: &str) -> Result<Item, Failure> {
    if let Problem::Conv(conv) = problem {
        let expected = FindDbKey::from(conv).to_string();
        let found = answer.db_key.as_deref().ok_or_else(|| missing(step, "db_key"))?;
        if found != expected {
            let found: String = found.chars().take(200).collect();
            return Err(Failure::new(FailureKind::KeyMismatch, format!("db_key: found {found}, expected {expected}")));
        }
    }
    let items = match step {
        Step::PerfCompile => answer.miopen_perf_compile_result,
        Step::PerfEval => answer.miopen_perf_eval_result,
        Step::FindCompile => answer.miopen_find_compile_result,
        Step::FindEval => answer.miopen_find_eval_result,
    };
    let no_result = |detail: String| Failure::new(FailureKind::NoResult, detail);
    let items = items.ok_or_else(|| no_result(format!("no {}_result", step.name())))?;
    let wanted = solver::spelling(solver);
    let found = items.into_iter().find(|item| item.solver().is_some_and(|name| solver::spelling(name) == wanted));
    found.ok_or_else(|| no_result(format!("{}_result: no entry for {solver}", step.name())))
}

fn missing(step: Step, field: &str) -> Failure {
    Failure::new(FailureKind::MalformedOutput, format!("{}: no {field}", step.name()))
}

/// The kind of failure that a reason is.
fn of_reason(reason: &str) -> Failure {
    let said = reason.to_ascii_lowercase();
    let kind = match reason {
        "Empty Solver" => FailureKind::UnknownSolver,
        "Not Applicable" | "Not Dynamic" | "Skip Fused" => FailureKind::NotApplicable,
        "Invoker returned time = 0" => FailureKind::InvalidTime,
        // Of the generation of 2022.
        "Corrupt Binary" => FailureKind::CorruptArtifact,
        "No Kernels" => FailureKind::MissingArtifact,
        // MITuna took these for successes; they are solvers that MIOpen has given up.
        _ if said.contains("legacy") => FailureKind::NotApplicable,
        _ if ["out of memory", "outofmemory", "bad_alloc"].iter().any(|word| said.contains(word)) => {
            FailureKind::OutOfMemory
        }
        _ => FailureKind::SolverError,
    };
    Failure::new(kind, crate::scrub::scrub(reason).trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fin::parse;
    use bluefin_common::problem::{ConvProblem, ConvShape, DataType, Direction};

    fn problem() -> Problem {
        Problem::Conv(ConvProblem::new(ConvShape::plain(Direction::Forward, DataType::Fp32)).unwrap())
    }

    const KEY: &str = "1-1-1-1x1-1-1-1-1-0x0-1x1-1x1-0-NCHW-FP32-F";

    fn answer(key: &str, item: &str) -> Answer {
        let text = format!(r#"[{{}},{{"db_key":"{KEY}","{key}":[{item}]}}]"#);
        parse(text.as_bytes(), 1).unwrap().remove(0)
    }

    fn eval(item: &str) -> Result<Evaluated, Failure> {
        evaluated(Step::FindEval, answer("miopen_find_eval_result", item), &problem(), "GemmFwdRest")
    }

    /// Every row of the protocol's table of failures that an answer can hold.
    #[test]
    fn failures_of_an_evaluation() {
        let rows = [
            (r#""evaluated":false,"reason":"Empty Solver""#, FailureKind::UnknownSolver),
            (r#""evaluated":false,"reason":"Not Applicable""#, FailureKind::NotApplicable),
            (r#""evaluated":false,"reason":"Not Dynamic""#, FailureKind::NotApplicable),
            (r#""evaluated":false,"reason":"Skip Fused""#, FailureKind::NotApplicable),
            (r#""evaluated":false,"reason":"Invoker not implemented""#, FailureKind::SolverError),
            (r#""evaluated":false,"reason":"Invoker exception: x""#, FailureKind::SolverError),
            (r#""evaluated":false,"reason":"Invoker exeception: x""#, FailureKind::SolverError),
            (r#""evaluated":false,"reason":"Invoker exception: hipErrorOutOfMemory""#, FailureKind::OutOfMemory),
            (r#""evaluated":true,"reason":"Legacy Solver","time":1.0"#, FailureKind::NotApplicable),
            (r#""evaluated":true,"reason":"Invoker returned time = 0","time":0.0"#, FailureKind::InvalidTime),
            (r#""evaluated":true,"reason":"Success","time":0.0"#, FailureKind::InvalidTime),
            (r#""evaluated":true,"reason":"Success","time":-3.5"#, FailureKind::InvalidTime),
            (r#""evaluated":true,"reason":"Success","reson":"negative","time":-1.0"#, FailureKind::InvalidTime),
            (r#""evaluated":false"#, FailureKind::LoadError),
            (r#""evaluated":true,"reason":"Success""#, FailureKind::MalformedOutput),
            (r#""evaluated":false,"reason":"Success""#, FailureKind::MalformedOutput),
            (r#""evaluated":false,"reason":"Corrupt Binary""#, FailureKind::CorruptArtifact),
            (r#""evaluated":false,"reason":"No Kernels""#, FailureKind::MissingArtifact),
        ];
        for (fields, kind) in rows {
            let found = eval(&format!(r#"{{"solver_name":"GemmFwdRest",{fields}}}"#)).unwrap_err();
            assert_eq!(found.kind, kind, "{fields}: {}", found.detail);
        }
        assert_eq!(eval(r#"{"solver_name":"other","evaluated":true}"#).unwrap_err().kind, FailureKind::NoResult);
        assert_eq!(eval("").unwrap_err().kind, FailureKind::NoResult);
        let good =
            r#"{"solver_name":"GemmFwdRest","evaluated":true,"reason":"Success","time":1.5,"params":"","workspace":9}"#;
        let good = eval(good).unwrap();
        assert_eq!((good.time_ms, good.workspace, good.params.as_str()), (1.5, 9, ""));
    }

    #[test]
    fn failures_of_a_compilation() {
        let compile = |solver: &str, fields: &str| {
            let item = format!(r#"{{"solver_name":"{solver}",{fields}}}"#);
            compiled(Step::PerfCompile, answer("miopen_perf_compile_result", &item), &problem(), solver)
        };
        let kind = |fields: &str| compile("ConvAsm1x1U", fields).unwrap_err().kind;
        assert_eq!(kind(r#""perf_compiled":false,"reason":"Solver throws exceptionx""#), FailureKind::SolverError);
        assert_eq!(kind(r#""perf_compiled":false,"reason":"No solutions: x""#), FailureKind::SolverError);
        assert_eq!(kind(r#""perf_compiled":false,"reason":"Success""#), FailureKind::MalformedOutput);
        assert_eq!(kind(r#""perf_compiled":true"#), FailureKind::MalformedOutput);
        let done = r#""perf_compiled":true,"algorithm":"miopenConvolutionFwdAlgoDirect""#;
        assert_eq!(kind(done), FailureKind::MissingArtifact);
        let kernel = r#""kernel_objects":[{"md5_sum":"Failed to compress kernel","uncompressed_size":0,"blob":"",
            "kernel_file":"a.s","comp_options":""}]"#;
        assert_eq!(kind(&format!("{done},{kernel}")), FailureKind::Uncompressed);
        // In a library's own hands.
        let gemm = compile("GemmFwdRest", done).unwrap();
        assert!(gemm.kernels.is_empty() && gemm.tunable);
    }

    #[test]
    fn an_answer_about_something_else_is_refused() {
        let other = |key: &str| {
            let text = format!(r#"[{{}},{{{key}"miopen_find_eval_result":[]}}]"#);
            let answer = parse(text.as_bytes(), 1).unwrap().remove(0);
            evaluated(Step::FindEval, answer, &problem(), "x").unwrap_err().kind
        };
        assert_eq!(other(&format!("\"db_key\":\"{}\",", KEY.replace("FP32", "FP16"))), FailureKind::KeyMismatch);
        assert_eq!(other(""), FailureKind::MalformedOutput);
        let text = format!(r#"[{{}},{{"db_key":"{KEY}"}}]"#);
        let answer = parse(text.as_bytes(), 1).unwrap().remove(0);
        assert_eq!(evaluated(Step::FindEval, answer, &problem(), "x").unwrap_err().kind, FailureKind::NoResult);
    }

    #[test]
    fn the_template_solvers_are_found_by_either_spelling() {
        let item = r#"{"solver_name":"ConvWinograd3x3MultipassWrW<3, 4>","evaluated":true,"time":1}"#;
        let answer = answer("miopen_find_eval_result", item);
        assert!(evaluated(Step::FindEval, answer, &problem(), "ConvWinograd3x3MultipassWrW<3-4>").is_ok());
    }
}
