//! What is tuned: types of elements, and which configs are tried.

use std::collections::BTreeMap;

use anyhow::Context as _;
use bluefin_common::arch::Vendor;
use bluefin_common::candidate::Candidate;
use bluefin_common::target::Target;
use bluefin_common::value::Value;
use bluefin_kernel_spec::Param;
use bluefin_producer::specs::LoadedSpec;
use clap::ValueEnum;

/// The values of a config, by the names of [`super::files::CONFIG`].
pub type Config = BTreeMap<String, i64>;

/// Types of elements, as the script calls them.
#[expect(missing_docs, reason = "docs of values are a part of the help text")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Dtype {
    Fp16,
    Bf16,
    Fp32,
    Int8,
    Int32,
    /// e4m3, fnuz on gfx94x
    Fp8,
    /// e5m2, fnuz on gfx94x
    Bf8,
}

/// Which configs are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Space {
    /// tune_gemm.py v3.4
    #[value(name = "v3.4")]
    V3,
    /// tune_gemm.py v2
    V2,
    /// Larger tiles, deeper pipelines, for NVIDIA's GPUs
    Cuda,
}

impl Space {
    /// As the spec calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::V3 => "v3",
            Self::V2 => "v2",
            Self::Cuda => "cuda",
        }
    }

    /// Names of its solvers, with K in one piece and in parts.
    pub(super) fn solvers(self) -> [&'static str; 2] {
        match self {
            Self::V3 => ["TritonGemm", "TritonGemmSplit"],
            Self::V2 => ["TritonGemmV2", "TritonGemmSplitV2"],
            Self::Cuda => ["TritonGemmCuda", "TritonGemmSplitCuda"],
        }
    }
}

impl Dtype {
    /// As the spec calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fp16 => "FP16",
            Self::Bf16 => "BF16",
            Self::Fp32 => "FP32",
            Self::Int8 => "INT8",
            Self::Int32 => "INT32",
            Self::Fp8 => "FP8",
            Self::Bf8 => "BF8",
        }
    }
}

/// The candidate that a config is.
pub fn candidate(loaded: &LoadedSpec, space: Space, config: &Config, target: &Target) -> anyhow::Result<Candidate> {
    let [whole, parts] = space.solvers();
    let name = if config.get("SPLIT_K").copied() == Some(1) { whole } else { parts };
    let solver = loaded.spec.solver(name).with_context(|| format!("solver {name}"))?;
    let nvidia = target.vendor() == Some(Vendor::Nvidia);
    let param = |param: &Param| match (param.name.as_str(), config.get(&param.name)) {
        // AMD's matrix instructions are nothing to NVIDIA's compiler.
        ("matrix_instr_nonkdim", _) if nvidia => Value::Int(16),
        ("kpack", _) if nvidia => Value::Int(1),
        (_, Some(value)) => Value::Int(*value),
        (_, None) => param.default.clone(),
    };
    Ok(Candidate { solver: name.to_string(), params: solver.params.iter().map(param).collect() })
}
