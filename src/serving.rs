//! `bluefin serving`: config files of vLLM and SGLang for their Triton kernels.

mod check;
mod coverage;
mod diff;
mod kernels;
pub(crate) mod layer;
mod merge;
mod shapes;
mod tune;

use std::process::ExitCode;

use clap::Subcommand;

/// Look after the config files by which vLLM and SGLang launch their Triton kernels
#[derive(Subcommand)]
#[command(after_help = "Example:\n  bluefin serving shapes config.json --engine vllm --tp 8 --gpu 'NVIDIA H200'\n\n\
    A file's engine is told by its place and its name, SGLang's lie in folders such as triton_3_6_0; --engine says it where they do not.")]
pub enum ServingVerb {
    Shapes(shapes::ShapesArgs),
    Coverage(coverage::CoverageArgs),
    Check(check::CheckArgs),
    Diff(diff::DiffArgs),
    Merge(merge::MergeArgs),
    Kernels(kernels::KernelsArgs),
    Tune(Box<tune::TuneArgs>),
}

impl ServingVerb {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let work: Box<dyn FnOnce() -> anyhow::Result<ExitCode> + Send> = match self {
            Self::Shapes(args) => Box::new(|| args.run()),
            Self::Coverage(args) => Box::new(|| args.run()),
            Self::Check(args) => Box::new(|| args.run()),
            Self::Diff(args) => Box::new(|| args.run()),
            Self::Merge(args) => Box::new(|| args.run()),
            Self::Kernels(args) => Box::new(|| args.run()),
            Self::Tune(args) => return args.run().await,
        };
        tokio::task::spawn_blocking(work).await?
    }
}
