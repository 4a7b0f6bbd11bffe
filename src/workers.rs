//! `bluefin compile-worker` and `bluefin eval-worker`, and the two processes that they start.

mod local;

use std::ffi::OsString;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;
use bluefin_common::job::{compile_queue, eval_queue};
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::shutdown;
use bluefin_common::target::Target;
use bluefin_compile_worker as compile_worker;
use bluefin_compile_worker::{Toolchain, sandbox};
use bluefin_eval_worker as eval_worker;
use bluefin_eval_worker::timing::Cache;
use bluefin_eval_worker::{ChildConfig, Deadlines, DeviceSpec, child};
use humantime::parse_duration;

use crate::admin::AdminArgs;
use crate::ports::FleetArgs;

pub use local::{Compilers, LocalDevice, Ports, Running};

/// Compile jobs from RabbitMQ, until stopped
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin compile-worker --admin-addr 0.0.0.0:9101\n\n\
    SIGTERM drains: what is under way is finished within the grace period, the rest goes back to its queue.")]
pub struct CompileWorkerArgs {
    /// Toolchains to serve: cc (C for the CPU), clang (GPUs) [default: those found on this machine]
    #[arg(long, value_name = "cc,clang", value_delimiter = ',')]
    toolchain: Vec<String>,
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
    /// Device to evaluate on: host (the CPU)
    #[arg(long, default_value = "host")]
    device: DeviceName,
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
}

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix("noop:") {
            Some(target) => target.parse().map(Self::Noop).map_err(|error| format!("{error}")),
            None if text == "host" => Ok(Self::Host),
            None => Err("expected host".to_string()),
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
        let toolchains = self.toolchains()?;
        let shutdown = shutdown::on_signal()?;
        let mut admin = self.admin.start().await?;
        let pipeline = PipelineMetrics::register(&admin.registry)?;
        let metrics = compile_worker::Metrics::register(&admin.registry, pipeline.clone())?;
        let (broker, store) = (self.fleet.broker().await?, self.fleet.store().await?);
        let queues = toolchains.iter().map(|toolchain| compile_queue(toolchain.name())).collect();
        admin.watch(pipeline, broker.clone(), store.clone(), queues);

        let mut config =
            compile_worker::Config::new(worker_name(self.name), toolchains, self.slots.unwrap_or_else(cpus));
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
    fn toolchains(&self) -> anyhow::Result<Vec<Toolchain>> {
        if !self.toolchain.is_empty() {
            return self.toolchain.iter().map(|name| Ok(Toolchain::probe(name)?)).collect();
        }
        let mut found = Vec::new();
        for name in ["cc", "clang"] {
            match Toolchain::probe(name) {
                Ok(toolchain) => found.push(toolchain),
                Err(error) => tracing::warn!(%error, "toolchain {name} is not served"),
            }
        }
        anyhow::ensure!(!found.is_empty(), "no toolchain works on this machine");
        Ok(found)
    }
}

impl EvalWorkerArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let shutdown = shutdown::on_signal()?;
        let mut admin = self.admin.start().await?;
        let pipeline = PipelineMetrics::register(&admin.registry)?;
        let metrics = eval_worker::Metrics::register(&admin.registry, pipeline.clone())?;
        let (broker, store) = (self.fleet.broker().await?, self.fleet.store().await?);
        let device = match self.device {
            DeviceName::Host => {
                let mut child = host_child()?;
                child.cpu = self.cpu;
                child.deadlines.step = self.deadline;
                DeviceSpec::Host(child)
            }
            DeviceName::Noop(target) => DeviceSpec::Noop(target),
        };
        admin.watch(pipeline, broker.clone(), store.clone(), vec![eval_queue(&device.target(), None)]);

        let mut config = eval_worker::Config::new(worker_name(self.name), device);
        config.limits.sample_budget_ms = self.sample_budget.as_secs_f64() * 1000.0;
        config.limits.cache = cache(self.warm);
        config.grace = self.grace;
        let result = eval_worker::run(config, broker.clone(), store, metrics, shutdown).await;
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
