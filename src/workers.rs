//! `bluefin compile-worker` and `bluefin eval-worker`, and the two processes that they start.

mod local;
mod miopen;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bluefin_common::job::{compile_queue, eval_queue};
use bluefin_common::limits;
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::shutdown;
use bluefin_compile_worker as compile_worker;
use bluefin_compile_worker::{FinToolchain, Toolchain, sandbox};
use bluefin_eval_worker as eval_worker;
use bluefin_eval_worker::child as device_child;
use bluefin_eval_worker::timing::Cache;
use bluefin_eval_worker::{ChildConfig, Deadlines, DeviceSpec, inventory};
use humantime::parse_duration;

use crate::admin::AdminArgs;
use crate::devices;
use crate::ports::FleetArgs;

use miopen::{FinArgs, MiopenArgs};

pub use local::{Compilers, LocalDevice, OPEN_FILES, Ports, Running};

/// Exit code of an eval worker none of whose devices worked at the end.
const ALL_QUARANTINED: u8 = 3;

/// Compile jobs from RabbitMQ, until stopped
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin compile-worker --admin-addr 0.0.0.0:9101\n\n\
    SIGTERM drains: what is under way is finished within the grace period, the rest goes back to its queue.")]
pub struct CompileWorkerArgs {
    /// Toolchains to serve: cc (C for the CPU), clang (GPUs), fin (MIOpen's own kernels) [default: those found on this machine]
    #[arg(long, value_name = "cc,clang,fin", value_delimiter = ',')]
    toolchain: Vec<String>,
    #[command(flatten)]
    fin: FinArgs,
    /// Compilers to run at a time [default: the number of CPUs]
    #[arg(long, value_name = "N")]
    slots: Option<usize>,
    /// Wall-clock time of one compile
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    compile_timeout: Duration,
    /// Pause while more jobs than this wait for evaluation
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    high_water: u64,
    /// How long a drain may take
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    grace: Duration,
    /// Name in the log [default: host name and process id]
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    fleet: FleetArgs,
}

/// Evaluate jobs from RabbitMQ on devices of this machine, until stopped
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  bluefin eval-worker --admin-addr 0.0.0.0:9102\n  \
    bluefin eval-worker --device gfx90a-104\n  bluefin eval-worker --device host\n\n\
    SIGTERM drains: the job on the device is finished within the grace period, the rest goes back to its queue.\n\
    A device that stops working is quarantined and tried again; the others go on. Exit code 3: all were quarantined at the end.")]
pub struct EvalWorkerArgs {
    /// Devices to evaluate on: host (the CPU), gpu (all), or indices, UUIDs or targets as `bluefin devices` shows them; or
    /// miopen, miopen:<target>, for a GPU through MIOpen's own tools [default: all GPUs, host if there is none]
    #[arg(long, value_name = "DEVICE,...")]
    device: Option<String>,
    /// How often a quarantined device is tried again
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    reprobe: Duration,
    #[command(flatten)]
    miopen: MiopenArgs,
    /// CPU that the process of each device runs on [default: one for each, near it; the last one for the host device]
    #[arg(long, value_name = "N")]
    cpu: Option<u32>,
    /// Time on the device for the samples of one candidate
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_duration)]
    sample_budget: Duration,
    /// Time kernels on warm caches, which hold what the launch before left there [default: on cold ones]
    #[arg(long)]
    warm: bool,
    /// How long a kernel may be silent before it counts as hung; slow ones get 20 times the best time of their problem
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    deadline: Duration,
    /// How long a drain may take
    #[arg(long, value_name = "TIME", default_value = "25s", value_parser = parse_duration)]
    grace: Duration,
    /// Name in the log [default: host name and process id]
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    fleet: FleetArgs,
}

/// What `--warm` asks for.
pub fn cache(warm: bool) -> Cache {
    if warm { Cache::Warm } else { Cache::Cold }
}

/// Arguments of the hidden verb that becomes a compiler.
#[derive(clap::Args)]
pub struct SandboxExecArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl SandboxExecArgs {
    pub fn run(self) -> ExitCode {
        match sandbox::exec_from_args(self.arguments) {
            Ok(never) => match never {},
            Err(error) => {
                eprintln!("bluefin sandbox-exec: {error}");
                // As a shell says that a command can not be run.
                ExitCode::from(126)
            }
        }
    }
}

/// Arguments of the hidden verb that is a device's child.
#[derive(clap::Args)]
pub struct EvalChildArgs {
    #[arg(long, required_unless_present = "list", default_value = "")]
    device: String,
    /// Print the devices of cuda, hip or host instead
    #[arg(long)]
    list: Option<String>,
}

impl EvalChildArgs {
    pub fn run(self) -> ExitCode {
        match &self.list {
            Some(interface) => inventory::print(interface),
            None => device_child::main(&self.device),
        }
    }
}

impl CompileWorkerArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        limits::expect_open_files(OPEN_FILES)?;
        let (toolchains, fin) = self.toolchains().await?;
        let shutdown = shutdown::on_signal()?;
        let mut admin = self.admin.start().await?;
        let pipeline = PipelineMetrics::register(&admin.registry)?;
        let metrics = compile_worker::Metrics::register(&admin.registry, pipeline.clone())?;
        let (broker, store) = (self.fleet.broker().await?, self.fleet.store().await?);
        let names = toolchains.iter().map(Toolchain::name).chain(fin.iter().map(|_| "fin"));
        let queues = names.map(compile_queue).collect();
        admin.watch(pipeline, broker.clone(), store.clone(), queues);

        let mut config =
            compile_worker::Config::new(worker_name(self.name), toolchains, self.slots.unwrap_or_else(cpus));
        config.fin = fin;
        config.launcher = Some(self_command("sandbox-exec")?);
        config.limits.time = self.compile_timeout;
        config.high_water = self.high_water;
        config.grace = self.grace;
        let result = compile_worker::run(config, broker.clone(), store, metrics, shutdown).await;
        broker.close().await;
        admin.stop().await;
        result?;
        Ok(ExitCode::SUCCESS)
    }

    /// The named toolchains, or all that work here.
    async fn toolchains(&self) -> anyhow::Result<(Vec<Toolchain>, Option<FinToolchain>)> {
        if !self.toolchain.is_empty() {
            let (fin, kernels): (Vec<&String>, _) = self.toolchain.iter().partition(|name| *name == "fin");
            let kernels = kernels.into_iter().map(|name| Ok(Toolchain::probe(name)?)).collect::<anyhow::Result<_>>()?;
            let fin = if fin.is_empty() { None } else { Some(self.fin.toolchain().await?) };
            return Ok((kernels, fin));
        }
        let mut found = Vec::new();
        for name in ["cc", "clang"] {
            match Toolchain::probe(name) {
                Ok(toolchain) => found.push(toolchain),
                Err(error) => tracing::warn!(%error, "toolchain {name} is not served"),
            }
        }
        let fin = self.fin.toolchain_if_here().await?;
        anyhow::ensure!(!found.is_empty() || fin.is_some(), "no toolchain works on this machine");
        Ok((found, fin))
    }
}

impl EvalWorkerArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        limits::expect_open_files(OPEN_FILES)?;
        let devices = self.devices().await?;
        let shutdown = shutdown::on_signal()?;
        let mut admin = self.admin.start().await?;
        let pipeline = PipelineMetrics::register(&admin.registry)?;
        let metrics = eval_worker::Metrics::register(&admin.registry, pipeline.clone())?;
        let (broker, store) = (self.fleet.broker().await?, self.fleet.store().await?);
        let mut queues: Vec<String> =
            devices.iter().map(|device| eval_queue(&device.target(), device.tool())).collect();
        queues.sort_unstable();
        queues.dedup();
        admin.watch(pipeline, broker.clone(), store.clone(), queues);

        let name = worker_name(self.name);
        // MIOpen's tools share one GPU.
        let turn = Arc::default();
        let config = |device| {
            let shares = matches!(device, DeviceSpec::Miopen(_));
            let mut config = eval_worker::Config::new(name.clone(), device);
            config.limits.sample_budget_ms = self.sample_budget.as_secs_f64() * 1000.0;
            config.limits.cache = cache(self.warm);
            config.grace = self.grace;
            config.reprobe = Some(self.reprobe);
            if shares {
                config.turn = Arc::clone(&turn);
            }
            config
        };
        let configs = devices.into_iter().map(config).collect();
        let result = eval_worker::run_all(configs, broker.clone(), store, metrics, shutdown).await;
        broker.close().await;
        admin.stop().await;
        match result {
            Err(eval_worker::Error::Quarantined { .. }) => Ok(ExitCode::from(ALL_QUARANTINED)),
            result => Ok(result.map(|()| ExitCode::SUCCESS)?),
        }
    }

    /// What was named, or all GPUs, or the host.
    async fn devices(&self) -> anyhow::Result<Vec<DeviceSpec>> {
        let parse = |target: &str| target.parse().map_err(|error| crate::usage(format!("--device: {error}")));
        match self.device.as_deref().map(|text| text.split_once(':').unwrap_or((text, ""))) {
            Some(("noop", target)) => return Ok(vec![DeviceSpec::Noop(parse(target)?)]),
            Some(("miopen", "")) => return self.miopen.devices(None).await,
            Some(("miopen", target)) => return self.miopen.devices(Some(&parse(target)?)).await,
            _ => {}
        }
        let inventory = devices::inventory().await?;
        let chosen = match self.device.as_deref() {
            Some(text) => text,
            None if inventory.gpus.is_empty() => {
                inventory.notes.iter().for_each(|note| tracing::warn!("no GPU: {note}"));
                "host"
            }
            None => "gpu",
        };
        let selected = inventory.select(chosen).map_err(|error| crate::usage(format!("--device: {error}")))?;
        let mut child = child()?;
        child.cpu = self.cpu;
        child.deadlines.step = self.deadline;
        devices::serve(&inventory, &selected, &child)
    }
}

/// A child of a device, which is yet to be named: this program again.
pub fn child() -> anyhow::Result<ChildConfig> {
    Ok(ChildConfig::new(self_command("eval-child")?, Deadlines::default()))
}

/// A command line that runs `verb` of this program.
pub fn self_command(verb: &str) -> anyhow::Result<Vec<OsString>> {
    let program = std::env::current_exe().context("the path of this program")?;
    Ok(vec![program.into(), verb.into()])
}

fn worker_name(given: Option<String>) -> String {
    given.unwrap_or_else(|| {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        format!("{}-{}", host.trim(), std::process::id())
    })
}

pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
