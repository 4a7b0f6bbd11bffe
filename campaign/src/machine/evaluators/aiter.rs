//! Where aiter is, and on which GPUs of this machine it tunes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use bluefin_common::kfd;
use bluefin_common::target::Target;
use bluefin_eval_worker::{AiterDevice, Evaluator};
use bluefin_miopen::detect::{self, Gpu};

use super::miopen::launcher;

/// Where aiter is.
#[derive(clap::Args)]
pub struct AiterArgs {
    /// aiter's repository, built
    #[arg(long, value_name = "DIR", env = "BLUEFIN_AITER", default_value = "aiter")]
    pub aiter: PathBuf,
    /// The Python that has what aiter needs
    #[arg(long, value_name = "PATH", env = "BLUEFIN_PYTHON", default_value = "python3")]
    pub python: OsString,
}

impl AiterArgs {
    /// The Python, for processes that run in aiter's folder: a path is one from here.
    #[must_use]
    pub fn program(&self) -> OsString {
        let path = Path::new(&self.python);
        let is_name = path.components().count() < 2;
        let from_here = (!is_name).then(|| std::path::absolute(path).ok()).flatten();
        from_here.map_or_else(|| self.python.clone(), PathBuf::into_os_string)
    }

    /// aiter on one GPU, for an eval worker.
    pub async fn evaluators(
        &self,
        target: Option<Target>,
        gpu: Option<&str>,
    ) -> anyhow::Result<Vec<Arc<dyn Evaluator>>> {
        let target = match target {
            Some(target) => target,
            None => self.gpus(gpu)?.into_iter().next().context("no AMD GPU in this machine")?.target,
        };
        let device = self.device(target.clone(), gpu.map(str::to_string)).await?;
        tracing::info!(identity = device.identity(), %target, "aiter's tuners evaluate");
        Ok(vec![Arc::new(device)])
    }

    /// aiter on a GPU.
    pub async fn device(&self, target: Target, gpu: Option<String>) -> anyhow::Result<AiterDevice> {
        let topology = &kfd::topology();
        let found = AiterDevice::find(&self.aiter, self.program(), launcher(None)?, target, gpu, topology).await;
        found.map_err(|error| anyhow::anyhow!("--aiter: {error}"))
    }

    /// The GPUs of this machine that the runtime shows, or the one of that number or UUID, as the kernel driver describes them.
    pub fn gpus(&self, named: Option<&str>) -> anyhow::Result<Vec<Gpu>> {
        let mut gpus = detect::shown_here(&kfd::topology());
        if let Some(name) = named {
            gpus.retain(|gpu| gpu.index.to_string() == name || gpu.uuid == name);
        }
        anyhow::ensure!(
            !gpus.is_empty(),
            "GPU {}: not in {}; say what it is, such as gfx942-304",
            named.unwrap_or("of AMD's"),
            kfd::topology().display()
        );
        Ok(gpus)
    }
}
