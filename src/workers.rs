//! `bluefin compile-worker` and `bluefin eval-worker`, and the two processes that they start.

pub mod list;

mod named;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bluefin_campaign::admin::AdminArgs;
use bluefin_campaign::known::known;
use bluefin_campaign::machine::evaluators::{FinArgs, ToolArgs};
use bluefin_campaign::machine::itself;
use bluefin_campaign::machine::local::OPEN_FILES;
use bluefin_campaign::ports::{self, FleetArgs};
use bluefin_common::delivery::Leave;
use bluefin_common::metrics::PipelineMetrics;
use bluefin_common::target::Target;
use bluefin_common::waiting::{Guard, On, Waiting};
use bluefin_common::{limits, roster, shutdown};
use bluefin_compile_worker as compile_worker;
use bluefin_compile_worker::sandbox;
use bluefin_compile_worker::toolchain::{Programs, Toolchain};
use bluefin_eval_worker as eval_worker;
use bluefin_eval_worker::child as device_child;
use bluefin_eval_worker::timing::{Cache, Limits, Load};
use bluefin_eval_worker::{Deadlines, Evaluator, inventory, nvrtc};
use humantime::parse_duration;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use bluefin_campaign::machine::devices;

/// Before compilers are tried again on a machine that is at its end.
const PROBE_AGAIN: Duration = Duration::from_secs(5);

/// Exit code of an eval worker none of whose devices worked at the end.
const ALL_QUARANTINED: u8 = 3;

/// Compile jobs from RabbitMQ, until stopped
#[derive(clap::Args)]
#[command(after_help = "Example:\n  bluefin compile-worker --admin-addr 0.0.0.0:9101\n\n\
    SIGTERM drains: what is under way is finished within the grace period, the rest goes back to its queue.")]
pub struct CompileWorkerArgs {
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', help = toolchain_help())]
    toolchain: Vec<String>,
    #[command(flatten)]
    fin: FinArgs,
    /// Compilers to run at a time [default: one for each CPU, but those kept for this machine's GPUs]
    #[arg(long, value_name = "N")]
    slots: Option<usize>,
    /// Device classes to compile for, such as gfx90a-104 [default: those of all sessions]
    #[arg(long, alias = "device", value_name = "TARGET,...", value_delimiter = ',')]
    target: Vec<Target>,
    /// Wall-clock time of one compile
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    compile_timeout: Duration,
    /// Compile nothing more for a device class while more jobs than this wait for its evaluation
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    high_water: u64,
    /// How long a drain may take
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    grace: Duration,
    #[command(flatten)]
    leave: LeaveArgs,
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
    SIGTERM drains: the job on the device is finished within the grace period, the rest goes back to its queue. \
    A device that stops working is quarantined and tried again; the others go on. Exit code 3: all were quarantined at the end.")]
pub struct EvalWorkerArgs {
    #[arg(long, value_name = "DEVICE,...", help = device_help())]
    device: Option<String>,
    /// How often a quarantined device is tried again
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    reprobe: Duration,
    #[command(flatten)]
    tools: ToolArgs,
    /// CPU that the process of each device runs on [default: one for each, near it; the last one for the host device]
    #[arg(long, value_name = "N")]
    cpu: Option<u32>,
    /// Time on the device for the samples of one candidate
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_duration)]
    sample_budget: Duration,
    #[command(flatten)]
    conditions: ConditionsArgs,
    /// How long a kernel may be silent before it counts as hung, a reference twelve times as long; slow kernels get 20
    /// times the best time of their problem
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    deadline: Duration,
    /// How long a drain may take
    #[arg(long, value_name = "TIME", default_value = "25s", value_parser = parse_duration)]
    grace: Duration,
    #[command(flatten)]
    leave: LeaveArgs,
    /// Name in the log [default: host name and process id]
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    admin: AdminArgs,
    #[command(flatten)]
    fleet: FleetArgs,
}

/// When a worker ends by itself, as batch systems want it.
#[derive(clap::Args)]
struct LeaveArgs {
    /// End when no job came for this long
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    exit_when_idle: Option<Duration>,
    /// End after this many jobs
    #[arg(long, value_name = "N")]
    max_jobs: Option<u64>,
}

impl LeaveArgs {
    fn leave(&self) -> Leave {
        Leave { when_idle: self.exit_when_idle, after_jobs: self.max_jobs }
    }
}

fn toolchain_help() -> String {
    let told = known().toolchains.usual();
    let told: Vec<String> = told.map(|known| format!("{} ({})", known.name, known.about)).collect();
    format!("Toolchains to serve: {} [default: those found on this machine]", told.join(", "))
}

fn device_help() -> String {
    format!(
        "Devices to evaluate on: host (the CPU), gpu (all), or indices, UUIDs or targets as `bluefin devices` shows them; or \
         {} [default: all GPUs, host if there is none]",
        named::help()
    )
}

/// Under which conditions kernels are timed, where they are not the usual ones.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct ConditionsArgs {
    /// Time kernels on warm caches, which hold what the launch before left there [default: on cold ones]
    #[arg(long)]
    pub warm: bool,
    #[command(flatten)]
    pub load: LoadArgs,
}

/// What a GPU does before a sample.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct LoadArgs {
    /// Time kernels while they keep the GPU busy, at the clock that its power limit allows then [default: at the highest]
    #[arg(long)]
    pub sustained: bool,
}

impl ConditionsArgs {
    pub fn limits(self) -> Limits {
        let cache = if self.warm { Cache::Warm } else { Cache::Cold };
        Limits { cache, ..self.load.limits() }
    }
}

impl LoadArgs {
    pub fn limits(self) -> Limits {
        Limits { load: if self.sustained { Load::Sustained } else { Load::Light }, ..Limits::default() }
    }
}

/// Carries out the verbs that are, or become, a compiler, if one of them is asked for. They are on the path of every compile: not even
/// the words of other verbs are made for them.
pub fn compile() -> Option<anyhow::Result<ExitCode>> {
    let mut arguments = std::env::args_os().skip(1);
    let carry_out = match arguments.next()?.to_str()? {
        "sandbox-exec" => sandbox::main,
        "nvrtc" => nvrtc::main,
        _ => return None,
    };
    let survives = limits::survive_file_size().context("SIGXFSZ");
    Some(survives.map(|()| carry_out(arguments.collect())))
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
        let shutdown = shutdown::on_signal()?;
        let waiting = Waiting::default();
        let Some(toolchains) = self.toolchains(&waiting, &shutdown).await? else { return Ok(ExitCode::SUCCESS) };
        for target in &self.target {
            let refusals: Option<Vec<String>> = toolchains.iter().map(|toolchain| toolchain.refusal(target)).collect();
            if let Some(refusals) = refusals {
                tracing::warn!("{target} is not served: {}", refusals.join("; "));
            }
        }
        let mut admin = self.admin.start().await?;
        let pipeline = PipelineMetrics::register(&admin.registry)?;
        let metrics = compile_worker::Metrics::register(&admin.registry, pipeline.clone())?;
        let Some((broker, store)) = self.fleet.once_there(&shutdown).await? else {
            admin.stop().await;
            return Ok(ExitCode::SUCCESS);
        };
        // The worker looks at its own queues, which come and go with sessions.
        admin.watch(pipeline, (broker.clone(), store.clone()), waiting.clone(), Vec::new());

        let left = inventory::cpus_left(&inventory::cpus_of_gpus());
        let slots = self.slots.unwrap_or_else(|| left.iter().map(Vec::len).fold(itself::cpus(), usize::min));
        let mut config = compile_worker::Config::new(worker_name(self.name), toolchains, slots);
        config.launcher = Some(itself::command("sandbox-exec")?);
        config.strategies = known().searches.clone();
        config.limits.time = self.compile_timeout;
        config.limits.cpus = left.unwrap_or_default();
        config.high_water = self.high_water;
        config.grace = self.grace;
        config.targets = (!self.target.is_empty()).then_some(self.target);
        config.leave = self.leave.leave();
        config.waiting = waiting;
        config.on_roster = Some(roster::EVERY);
        let result = compile_worker::run(config, broker.clone(), store, metrics, shutdown).await;
        broker.close().await;
        admin.stop().await;
        result?;
        Ok(ExitCode::SUCCESS)
    }

    /// The named toolchains, or all that work here, once this machine can try them; `None` if `shutdown` comes first.
    async fn toolchains(
        &self,
        waiting: &Waiting,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<Option<Vec<Arc<dyn Toolchain>>>> {
        let programs = self.fin.programs()?;
        let mut exhausted: Option<Guard> = None;
        loop {
            match self.probe(&programs).await {
                Err(error) if error.is_exhausted() => match &exhausted {
                    Some(guard) => guard.still(error.to_string()),
                    None => exhausted = Some(waiting.on(On::Machine, error.to_string())),
                },
                probed => return Ok(Some(probed?)),
            }
            if shutdown.run_until_cancelled(sleep(PROBE_AGAIN)).await.is_none() {
                return Ok(None);
            }
        }
    }

    async fn probe(&self, programs: &Programs) -> Result<Vec<Arc<dyn Toolchain>>, compile_worker::Error> {
        if self.toolchain.is_empty() {
            return known().toolchains.probe_all(programs).await;
        }
        let mut named = Vec::with_capacity(self.toolchain.len());
        for name in &self.toolchain {
            named.push(known().toolchains.probe(name, programs).await?);
        }
        Ok(named)
    }
}

impl EvalWorkerArgs {
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        limits::expect_open_files(OPEN_FILES)?;
        let shutdown = shutdown::on_signal()?;
        let (evaluators, in_turn) = self.evaluators().await?;
        let mut admin = self.admin.start().await?;
        let pipeline = PipelineMetrics::register(&admin.registry)?;
        let metrics = eval_worker::Metrics::register(&admin.registry, pipeline.clone())?;
        let Some((broker, store)) = self.fleet.once_there(&shutdown).await? else {
            admin.stop().await;
            return Ok(ExitCode::SUCCESS);
        };
        let waiting = Waiting::default();
        let mut queues: Vec<String> = evaluators.iter().map(|evaluator| evaluator.queue()).collect();
        queues.sort_unstable();
        queues.dedup();
        admin.watch(pipeline, (broker.clone(), store.clone()), waiting.clone(), queues);

        let name = worker_name(self.name);
        let turn = Arc::default();
        let config = |evaluator| {
            let mut config = eval_worker::Config::new(name.clone(), evaluator);
            config.limits =
                Limits { sample_budget_ms: self.sample_budget.as_secs_f64() * 1000.0, ..self.conditions.limits() };
            config.grace = self.grace;
            config.reprobe = Some(self.reprobe);
            config.leave = self.leave.leave();
            config.waiting = waiting.clone();
            config.on_roster = Some(roster::EVERY);
            if in_turn {
                config.turn = Arc::clone(&turn);
            }
            config
        };
        let configs: Vec<_> = evaluators.into_iter().map(config).collect();
        let broker = if configs.len() > 1 { ports::for_devices(broker) } else { broker };
        let result = eval_worker::run_all(configs, broker.clone(), store, metrics, shutdown).await;
        broker.close().await;
        admin.stop().await;
        match result {
            Err(eval_worker::Error::Quarantined { .. }) => Ok(ExitCode::from(ALL_QUARANTINED)),
            result => Ok(result.map(|()| ExitCode::SUCCESS)?),
        }
    }

    /// What was named, or all GPUs, or the host; and whether they share one device.
    async fn evaluators(&self) -> anyhow::Result<(Vec<Arc<dyn Evaluator>>, bool)> {
        if let Some(found) = named::named(self.device.as_deref().unwrap_or_default(), &self.tools) {
            return Ok((found.await?, true));
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
        let mut child = itself::child()?;
        child.cpu = self.cpu;
        child.deadlines = Deadlines::of(self.deadline);
        let devices = devices::serve(&inventory, &selected, &child)?;
        Ok((devices.into_iter().map(|device| Arc::new(device) as Arc<dyn Evaluator>).collect(), false))
    }
}

fn worker_name(given: Option<String>) -> String {
    given.unwrap_or_else(|| {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        format!("{}-{}", host.trim(), std::process::id())
    })
}
