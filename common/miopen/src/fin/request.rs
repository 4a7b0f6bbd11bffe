//! What fin is asked.

use serde::Serialize;

use crate::fin::config::{ConvConfig, Inexpressible, of_batch_norm};
use crate::kernel::WireKernel;
use bluefin_common::problem::Problem;
use bluefin_common::target::Target;

/// A step that compiles or evaluates solvers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    PerfCompile,
    PerfEval,
    FindCompile,
    FindEval,
}

impl Step {
    pub const ALL: [Self; 4] = [Self::PerfCompile, Self::PerfEval, Self::FindCompile, Self::FindEval];

    /// fin's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PerfCompile => "miopen_perf_compile",
            Self::PerfEval => "miopen_perf_eval",
            Self::FindCompile => "miopen_find_compile",
            Self::FindEval => "miopen_find_eval",
        }
    }

    /// Whether it needs a build without a GPU; the others need one with.
    #[must_use]
    pub fn compiles(self) -> bool {
        matches!(self, Self::PerfCompile | Self::FindCompile)
    }
}

/// One element of the document.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Request {
    steps: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_cu: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config_tuna_id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    direction: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dynamic_only: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<Config>,
    #[serde(skip_serializing_if = "Option::is_none")]
    solvers: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    miopen_find_compile_result: Option<Vec<CompiledItem>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    miopen_perf_compile_result: Option<Vec<CompiledItem>>,
}

/// The problem of a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum Config {
    Conv(ConvConfig),
    BatchNorm(serde_json::Value),
}

/// What an eval step is told of a compiled solver.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CompiledItem {
    pub solver_name: String,
    pub algorithm: String,
    pub workspace: u64,
    pub tunable: bool,
    #[serde(flatten)]
    pub done: Done,
    pub kernel_objects: Vec<WireKernel>,
}

/// `find_compiled` or `perf_compiled`, which is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Done {
    #[serde(rename = "find_compiled")]
    Find(bool),
    #[serde(rename = "perf_compiled")]
    Perf(bool),
}

impl Request {
    /// Lists the solvers of the library.
    #[must_use]
    pub fn get_solvers() -> Self {
        Self {
            steps: vec!["get_solvers"],
            arch: None,
            num_cu: None,
            config_tuna_id: None,
            direction: None,
            dynamic_only: None,
            config: None,
            solvers: None,
            miopen_find_compile_result: None,
            miopen_perf_compile_result: None,
        }
    }

    /// Which solvers apply to `problem`; `id` comes back with the answer.
    ///
    /// # Errors
    /// A problem that fin has no way to describe.
    pub fn applicability(target: &Target, problem: &Problem, id: u64) -> Result<Self, Inexpressible> {
        let mut request = Self::about(target, problem)?;
        request.steps = vec!["applicability"];
        // Whatever follows the name would not be what MIOpen's own test is asked.
        request.arch = Some(target.arch().to_string());
        request.config_tuna_id = Some(id);
        Ok(request)
    }

    /// Compiles `solver` for `problem`.
    ///
    /// # Errors
    /// A problem that fin has no way to describe.
    pub fn compile(step: Step, target: &Target, problem: &Problem, solver: &str) -> Result<Self, Inexpressible> {
        let mut request = Self::about(target, problem)?;
        request.steps = vec![step.name()];
        request.dynamic_only = Some(false);
        request.solvers = Some(vec![solver.to_string()]);
        Ok(request)
    }

    /// Evaluates what a compile step made of a solver.
    ///
    /// # Errors
    /// A problem that fin has no way to describe.
    pub fn evaluate(step: Step, target: &Target, problem: &Problem, item: CompiledItem) -> Result<Self, Inexpressible> {
        let mut request = Self::about(target, problem)?;
        request.steps = vec!["alloc_buf", "fill_buf", step.name()];
        request.dynamic_only = Some(false);
        request.solvers = Some(vec![item.solver_name.clone()]);
        let items = Some(vec![item]);
        match step {
            Step::PerfCompile | Step::PerfEval => request.miopen_perf_compile_result = items,
            Step::FindCompile | Step::FindEval => request.miopen_find_compile_result = items,
        }
        Ok(request)
    }

    /// Takes memory of the GPU for `problem`, and gives it back.
    ///
    /// # Errors
    /// A problem that fin has no way to describe.
    pub fn touch(target: &Target, problem: &Problem) -> Result<Self, Inexpressible> {
        let mut request = Self::about(target, problem)?;
        request.steps = vec!["alloc_buf"];
        Ok(request)
    }

    fn about(target: &Target, problem: &Problem) -> Result<Self, Inexpressible> {
        let (direction, config) = match problem {
            Problem::Conv(conv) => (conv.as_asked().direction.driver_bit(), Config::Conv(ConvConfig::new(conv)?)),
            Problem::BatchNorm(norm) => (norm.direction.bit(), Config::BatchNorm(of_batch_norm(norm))),
            _ => {
                let what = format!("{}, which is neither a convolution nor a batch norm", problem.label());
                return Err(Inexpressible::new(what));
            }
        };
        Ok(Self {
            arch: Some(target_id(target)),
            num_cu: Some(target.cus()),
            direction: Some(direction),
            config: Some(config),
            ..Self::get_solvers()
        })
    }
}

/// The architecture with the features that kernels of compile and eval jobs are built for.
#[must_use]
pub fn target_id(target: &Target) -> String {
    format!("{}{}", target.arch(), target.known().map_or("", |known| known.miopen_features))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bluefin_common::problem::{ConvProblem, ConvShape, DataType, Direction, GemmProblem};

    fn problem() -> Problem {
        let shape = ConvShape::plain(Direction::BackwardWeights, DataType::Fp32);
        Problem::Conv(ConvProblem::new(shape).unwrap())
    }

    fn json(request: &Request) -> serde_json::Value {
        serde_json::to_value(request).unwrap()
    }

    #[test]
    fn jobs_hold_what_their_step_needs_and_no_more() {
        let target = "gfx90a-104".parse().unwrap();
        assert_eq!(json(&Request::get_solvers()).to_string(), r#"{"steps":["get_solvers"]}"#);
        let compile = json(&Request::compile(Step::PerfCompile, &target, &problem(), "ConvAsm1x1U").unwrap());
        assert_eq!(compile["steps"].to_string(), r#"["miopen_perf_compile"]"#);
        assert_eq!(
            (compile["arch"].as_str(), compile["num_cu"].as_u64()),
            (Some("gfx90a:sram-ecc+:xnack-"), Some(104))
        );
        assert_eq!((compile["direction"].as_u64(), compile["config"]["direction"].as_str()), (Some(4), Some("W")));
        let item = CompiledItem {
            solver_name: "ConvAsm1x1U".to_string(),
            algorithm: "a".to_string(),
            workspace: 7,
            tunable: true,
            done: Done::Find(true),
            kernel_objects: Vec::new(),
        };
        let eval = json(&Request::evaluate(Step::FindEval, &target, &problem(), item).unwrap());
        assert_eq!(eval["steps"].to_string(), r#"["alloc_buf","fill_buf","miopen_find_eval"]"#);
        let item = &eval["miopen_find_compile_result"][0];
        assert_eq!((item["find_compiled"].as_bool(), item["solver_name"].as_str()), (Some(true), Some("ConvAsm1x1U")));
        let applicability = json(&Request::applicability(&target, &problem(), 9).unwrap());
        assert_eq!(
            (applicability["arch"].as_str(), applicability["config_tuna_id"].as_u64()),
            (Some("gfx90a"), Some(9))
        );
    }

    #[test]
    fn only_what_fin_knows() {
        let gemm = GemmProblem::plain([1, 2, 3], DataType::Bf16);
        let refused = Request::compile(Step::FindCompile, &"gfx90a-104".parse().unwrap(), &Problem::Gemm(gemm), "x");
        assert!(refused.unwrap_err().to_string().contains("neither a convolution"));
    }

    #[test]
    fn target_ids() {
        for (target, id) in
            [("gfx1030-36", "gfx1030"), ("gfx900-64", "gfx900:xnack-"), ("gfx942-304", "gfx942:sram-ecc+:xnack-")]
        {
            assert_eq!(target_id(&target.parse().unwrap()), id);
        }
    }
}
