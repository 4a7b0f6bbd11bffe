//! `bluefin compile-worker` and `bluefin eval-worker`, and the two processes that they start.

mod local;
mod miopen;

use std::ffi::OsString;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bluefin_common::job::{compile_queue, eval_queue};
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::shutdown;
use bluefin_common::target::Target;
use bluefin_compile_worker as compile_worker;
use bluefin_compile_worker::{FinToolchain, Toolchain, sandbox};
use bluefin_eval_worker as eval_worker;
use bluefin_eval_worker::timing::Cache;
use bluefin_eval_worker::{ChildConfig, Deadlines, DeviceSpec, child};
use humantime::parse_duration;
use tokio::task::JoinSet;

use crate::admin::AdminArgs;
use crate::ports::FleetArgs;

use miopen::{FinArgs, MiopenArgs};

pub use local::{Compilers, LocalDevice, Ports, Running};

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

/// Evaluate jobs from RabbitMQ on a device of this machine, until stopped
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin eval-worker --device host --admin-addr 0.0.0.0:9102\n\n\
    SIGTERM drains: the job on the device is finished within the grace period, the rest goes back to its queue.")]
pub struct EvalWorkerArgs {
    /// Device to evaluate on: host (the CPU); miopen, or miopen:<target>, for a GPU through MIOpen's own tools
    #[arg(long, default_value = "host")]
    device: DeviceName,
    #[command(flatten)]
    miopen: MiopenArgs,
    /// CPU that the host device runs on [default: the last one]
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

/// A device as it is named on the command line.
#[derive(Clone, Debug)]
enum DeviceName {
    Host,
    /// `noop:<target>`: runs nothing, for tests of a fleet.
    Noop(Target),
    /// `miopen` or `miopen:<target>`: the tools of MIOpen that are here.
    Miopen(Option<Target>),
}

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "miopen" {
            return Ok(Self::Miopen(None));
        }
        if let Some(target) = text.strip_prefix("miopen:") {
            return target.parse().map(|target| Self::Miopen(Some(target))).map_err(|error| format!("{error}"));
        }
        match text.strip_prefix("noop:") {
            Some(target) => target.parse().map(Self::Noop).map_err(|error| format!("{error}")),
            None if text == "host" => Ok(Self::Host),
            None => Err("expected host, miopen or miopen:<target>".to_string()),
        }
    }
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
    #[arg(long)]
    device: String,
}

impl EvalChildArgs {
    pub fn run(self) -> ExitCode {
        child::main(&self.device)
    }
}

impl CompileWorkerArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
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
        let shutdown = shutdown::on_signal()?;
        let mut admin = self.admin.start().await?;
        let pipeline = PipelineMetrics::register(&admin.registry)?;
        let metrics = eval_worker::Metrics::register(&admin.registry, pipeline.clone())?;
        let (broker, store) = (self.fleet.broker().await?, self.fleet.store().await?);
        let devices = match &self.device {
            DeviceName::Host => {
                let mut child = host_child()?;
                child.cpu = self.cpu;
                child.deadlines.step = self.deadline;
                vec![DeviceSpec::Host(child)]
            }
            DeviceName::Noop(target) => vec![DeviceSpec::Noop(target.clone())],
            DeviceName::Miopen(target) => self.miopen.devices(target.as_ref()).await?,
        };
        let queues = devices.iter().map(|device| eval_queue(&device.target(), device.tool())).collect();
        admin.watch(pipeline, broker.clone(), store.clone(), queues);

        let name = worker_name(self.name);
        let turn = Arc::default();
        let mut running = JoinSet::new();
        // One that ends takes the others along: they share its device.
        let stop = shutdown.child_token();
        for device in devices {
            let mut config = eval_worker::Config::new(name.clone(), device);
            config.limits.sample_budget_ms = self.sample_budget.as_secs_f64() * 1000.0;
            config.limits.cache = cache(self.warm);
            config.grace = self.grace;
            config.turn = Arc::clone(&turn);
            let (broker, store, metrics, stop) = (broker.clone(), store.clone(), metrics.clone(), stop.clone());
            running.spawn(async move {
                let result = eval_worker::run(config, broker, store, metrics, stop.clone()).await;
                stop.cancel();
                result
            });
        }
        let mut result = Ok(());
        while let Some(ended) = running.join_next().await {
            result = result.and(ended.context("an eval worker").and_then(|ended| Ok(ended?)));
        }
        broker.close().await;
        admin.stop().await;
        result?;
        Ok(ExitCode::SUCCESS)
    }
}

/// A child for the host device.
fn host_child() -> anyhow::Result<ChildConfig> {
    child_of("host")
}

/// A child for the device of that name: this program again.
pub fn child_of(device: &str) -> anyhow::Result<ChildConfig> {
    let mut command = self_command("eval-child")?;
    command.extend(["--device".into(), device.into()]);
    Ok(ChildConfig { command, cpu: None, deadlines: Deadlines::default() })
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

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
