//! MIOpen's tools as the workers of a run in one process.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use bluefin_common::isolation::Isolation;
use bluefin_common::kfd;
use bluefin_common::method::Method;
use bluefin_common::target::Target;
use bluefin_compile_worker::Programs;
use bluefin_eval_worker::Evaluator;
use bluefin_miopen::detect;

use crate::machine::evaluators::{MiopenArgs, launcher};
use crate::machine::itself;
use crate::machine::local::Compilers;

/// Where the tools are; what is not named is looked for.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    /// fin without a GPU, which compiles.
    pub fin: Option<PathBuf>,
    /// fin with one, which evaluates.
    pub fin_gpu: Option<PathBuf>,
    /// MIOpenDriver, which evaluates.
    pub miopen_driver: Option<PathBuf>,
}

impl Tools {
    /// What is not named is what the environment says. fin evaluates by the one that it has for GPUs, or else by the one that compiles.
    #[must_use]
    pub fn or_environment(self) -> Self {
        let from = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
        Self {
            fin: self.fin.or_else(|| from("BLUEFIN_FIN")),
            fin_gpu: self.fin_gpu.or_else(|| from("BLUEFIN_FIN_GPU")).or_else(|| from("BLUEFIN_FIN")),
            miopen_driver: self.miopen_driver.or_else(|| from("BLUEFIN_MIOPEN_DRIVER")),
        }
    }
}

/// Those that a method needs.
pub struct LocalTools {
    /// Where the method compiles apart.
    pub compilers: Option<Compilers>,
    /// One for each GPU.
    pub evaluators: Vec<Arc<dyn Evaluator>>,
}

impl LocalTools {
    /// Tries the tools that `method` needs: one that compiles, where the method compiles apart, and one for each GPU of `target`. Without any in
    /// the kernel driver's list, one for the GPU that the tool finds.
    pub async fn find(tools: Tools, method: Method, target: &Target, slots: Option<usize>) -> anyhow::Result<Self> {
        let Tools { fin, fin_gpu, miopen_driver } = tools;
        let compilers = match method.toolchains {
            [] => None,
            names => {
                let programs = Programs { fin, launcher: launcher(Some(Isolation::default()))?, ..itself::programs()? };
                Some(Compilers::probe_with(names, &programs, slots).await?)
            }
        };
        let gpus = detect::shown_here(&kfd::topology()).into_iter().filter(|gpu| gpu.target == *target);
        let mut named: Vec<Option<String>> = gpus.map(|gpu| Some(gpu.uuid)).collect();
        if named.is_empty() {
            named.push(None);
        }
        let mut evaluators = Vec::new();
        for gpu in named {
            let args = MiopenArgs::of(fin_gpu.clone(), miopen_driver.clone(), gpu);
            let found = args.evaluators(Some(target.clone())).await;
            evaluators.extend(found.with_context(|| {
                let needs = if method == Method::FIN { "fin built for GPUs, BLUEFIN_FIN_GPU" } else { method.name };
                format!("evaluating needs {needs}")
            })?);
        }
        evaluators.retain(|evaluator| evaluator.method() == method);
        ensure!(!evaluators.is_empty(), "no tool of MIOpen's evaluates for {method} on this machine");
        Ok(Self { compilers, evaluators })
    }
}
