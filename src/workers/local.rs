//! The workers of `bluefin tune`, in its own process.

use std::sync::Arc;

use bluefin_common::broker::Broker;
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::store::Store;
use bluefin_common::target::Target;
use bluefin_compile_worker as compile_worker;
use bluefin_compile_worker::Toolchain;
use bluefin_eval_worker as eval_worker;
use bluefin_eval_worker::DeviceSpec;
use bluefin_producer::plan::LoadedSpec;
use prometheus::Registry;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{cpus, host_child, self_command};

/// What this machine has for a run: compilers and a device, each tried.
pub struct LocalWorkers {
    toolchains: Vec<Toolchain>,
    slots: usize,
    device: DeviceSpec,
    device_identity: String,
}

impl LocalWorkers {
    /// Finds the compilers that `specs` need and the device for `target`.
    pub fn probe(target: &Target, specs: &[LoadedSpec], slots: Option<usize>) -> anyhow::Result<Self> {
        if *target != Target::Host {
            return Err(crate::usage(format!("--device {target}: this machine's devices are: host")));
        }
        let mut names: Vec<&str> = specs.iter().map(|spec| spec.spec.toolchain.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let toolchains = names.into_iter().map(Toolchain::probe).collect::<Result<Vec<_>, _>>()?;
        let device_identity = eval_worker::host_identity();
        let device = DeviceSpec::Host(host_child()?);
        Ok(Self { toolchains, slots: slots.unwrap_or_else(cpus), device, device_identity })
    }

    /// Everything that shapes results, as text.
    pub fn versions(&self) -> String {
        let compilers: Vec<&str> = self.toolchains.iter().map(Toolchain::identity).collect();
        format!(
            "{}\n{}\nprotocol {}",
            compilers.join("\n"),
            self.device_identity,
            eval_worker::timing::PROTOCOL_VERSION
        )
    }
}

/// Starts a compile worker and an eval worker that run until `stop`.
pub fn run_local(
    local: LocalWorkers,
    store: Arc<dyn Store>,
    broker: Arc<dyn Broker>,
    registry: &Registry,
    stop: CancellationToken,
) -> anyhow::Result<JoinSet<anyhow::Result<()>>> {
    let pipeline = PipelineMetrics::register(registry)?;
    let compile_metrics = compile_worker::Metrics::register(registry, pipeline.clone())?;
    let eval_metrics = eval_worker::Metrics::register(registry, pipeline)?;
    let mut compile = compile_worker::Config::new("tune", local.toolchains, local.slots);
    compile.launcher = Some(self_command("sandbox-exec")?);
    // Kernels are timed on the last CPU: compilers keep off it where there is another.
    if cpus() > 1 {
        compile.limits.cpus = (0..cpus() - 1).collect();
        compile.slots = compile.slots.min(cpus() - 1).max(1);
    }
    let eval = eval_worker::Config::new("tune", local.device);
    let mut running = JoinSet::new();
    let (compile_broker, compile_store, compile_stop) = (broker.clone(), store.clone(), stop.clone());
    running.spawn(async move {
        Ok(compile_worker::run(compile, compile_broker, compile_store, compile_metrics, compile_stop).await?)
    });
    running.spawn(async move { Ok(eval_worker::run(eval, broker, store, eval_metrics, stop).await?) });
    Ok(running)
}
