//! Where MIOpen's tools are, and what they can do here.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use bluefin_common::isolation::Isolation;
use bluefin_common::kfd;
use bluefin_common::target::Target;
use bluefin_compile_worker::Programs;
use bluefin_compile_worker::sandbox::SandboxLimits;
use bluefin_eval_worker::{Evaluator, MiopenDevice, Probe};
use bluefin_miopen::Tool;
use bluefin_miopen::detect::{self, ROCM};

use crate::machine::itself;

/// Largest file that one of the tools may write: a kernel cache, or an answer of fin's.
const MAX_FILE: u64 = 4 << 30;

/// Which fin compiles.
#[derive(clap::Args)]
pub struct FinArgs {
    /// MIOpen's fin, built without a GPU [default: the one of ROCm, or in PATH]
    #[arg(long, value_name = "PATH", env = "BLUEFIN_FIN")]
    fin: Option<PathBuf>,
}

impl FinArgs {
    /// What toolchains are told of it.
    pub fn programs(&self) -> anyhow::Result<Programs> {
        Ok(Programs { fin: self.fin.clone(), launcher: launcher(Some(Isolation::default()))?, ..itself::programs()? })
    }
}

/// Which tools evaluate, and on which GPU.
#[derive(clap::Args)]
pub struct MiopenArgs {
    /// MIOpen's fin, built for GPUs [default: the one of ROCm, or in PATH]
    #[arg(long, value_name = "PATH", env = "BLUEFIN_FIN")]
    fin: Option<PathBuf>,
    /// MIOpenDriver [default: the one of ROCm, or in PATH]
    #[arg(long, value_name = "PATH", env = "BLUEFIN_MIOPEN_DRIVER")]
    miopen_driver: Option<PathBuf>,
    /// GPU for MIOpen's tools and aiter's, by number or UUID as HIP_VISIBLE_DEVICES takes it [default: the first]
    #[arg(long, value_name = "GPU")]
    gpu: Option<String>,
}

impl MiopenArgs {
    /// As flags of these values.
    pub fn of(fin: Option<PathBuf>, miopen_driver: Option<PathBuf>, gpu: Option<String>) -> Self {
        Self { fin, miopen_driver, gpu }
    }

    /// The GPU that was named.
    pub fn gpu(&self) -> Option<&str> {
        self.gpu.as_deref()
    }

    /// An evaluator for each tool that works here.
    pub async fn evaluators(&self, target: Option<Target>) -> anyhow::Result<Vec<Arc<dyn Evaluator>>> {
        let target = match target {
            Some(target) => target,
            None => self.target()?,
        };
        let mut evaluators: Vec<Arc<dyn Evaluator>> = Vec::new();
        for (tool, named) in [(Tool::Fin, &self.fin), (Tool::MiopenDriver, &self.miopen_driver)] {
            let Some(program) = detect::find(tool, named.as_deref(), Path::new(ROCM)) else {
                ensure!(named.is_none(), missing(tool, named.as_deref(), "its flag"));
                continue;
            };
            let (gpu, topology) = (self.gpu.as_deref(), &*kfd::topology());
            let probe =
                Probe { tool, program: &program, launcher: launcher(None)?, target: target.clone(), gpu, topology };
            match MiopenDevice::probe(probe).await {
                Ok(device) => {
                    let library = device.identity();
                    tracing::info!(program = %program.display(), library, backend = "HIP", %target, "MIOpen's tool evaluates");
                    evaluators.push(Arc::new(device));
                }
                Err(error) if named.is_none() => tracing::warn!(%error, "tool {} is not served", tool.name()),
                Err(error) => return Err(error.into()),
            }
        }
        ensure!(
            !evaluators.is_empty(),
            "neither fin nor MIOpenDriver works on this machine: name one with --fin or --miopen-driver"
        );
        Ok(evaluators)
    }

    /// What the GPU is, as the kernel driver describes it.
    fn target(&self) -> anyhow::Result<Target> {
        let gpus = detect::gpus(&kfd::topology());
        let name = self.gpu.as_deref().unwrap_or("0");
        let gpu = gpus.iter().find(|gpu| gpu.index.to_string() == name || gpu.uuid == name);
        let gpu = gpu.with_context(|| {
            let topology = kfd::topology();
            let topology = topology.display();
            format!(
                "GPU {name}: not in {topology}; say what it is: --device miopen:<target>, such as miopen:gfx90a-104"
            )
        })?;
        Ok(gpu.target.clone())
    }
}

/// What starts the inner side of the sandbox in front of a tool: it ends with its worker, and fills no disk. One that works on a GPU
/// keeps what drivers may need, one that compiles is isolated.
pub fn launcher(isolation: Option<Isolation>) -> anyhow::Result<Vec<OsString>> {
    let limits = SandboxLimits { file_bytes: Some(MAX_FILE), isolation, ..SandboxLimits::default() };
    Ok(itself::command("sandbox-exec")?.into_iter().chain(limits.to_args()).collect())
}

fn missing(tool: Tool, named: Option<&Path>, flag: &str) -> String {
    match named {
        Some(named) => format!("{}: no file", named.display()),
        None => format!("{}: not in {ROCM}/bin and not in PATH: name it with {flag}", tool.program()),
    }
}
