//! Workers in the process of `bluefin tune` or `bluefin run`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bluefin_common::limits;
use bluefin_common::metrics::{PipelineMetrics, Step};
use bluefin_common::roster::Presence;
use bluefin_common::target::Target;
use bluefin_common::waiting::Waiting;
use bluefin_compile_worker as compile_worker;
use bluefin_compile_worker::toolchain::{Programs, Toolchain};
use bluefin_eval_worker as eval_worker;
use bluefin_eval_worker::DeviceChild;
use bluefin_eval_worker::inventory::{self, Inventory};
use bluefin_eval_worker::timing::{Cache, Limits, Load, PROTOCOL_VERSION};
use prometheus::Registry;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::known::known;
use crate::machine::{devices, itself};
use crate::ports::Ports;
use crate::{config, usage};

/// Files that a process with one compiler and one device has open at a time, such as its state and the pipes to both.
pub const OPEN_FILES: u64 = 24;
/// What each further compiler adds.
const OPEN_FILES_OF_COMPILER: u64 = 3;
/// What each further process of a device adds.
const OPEN_FILES_OF_CHILD: u64 = 4;

/// What workers of this process do now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnderWay {
    /// Candidates that compilers were run for.
    pub compiled: u64,
    /// Problems of the jobs that are evaluated, in short, the oldest first.
    pub tuning: Vec<String>,
}

/// How long somebody who interrupts waits for what is on a device or in a compiler.
pub(crate) const GRACE: Duration = Duration::from_secs(3);

/// Workers that run in this process, and where they meet.
pub(crate) struct Crew {
    pub(crate) ports: Ports,
    pub(crate) registry: Registry,
    pub(crate) pipeline: PipelineMetrics,
    /// Ends them.
    pub(crate) stop: CancellationToken,
    /// What the one that compiles counts.
    pub(crate) compiling: Option<compile_worker::Metrics>,
    /// What those that evaluate have in hand.
    pub(crate) evaluating: Presence,
    pub(crate) running: JoinSet<anyhow::Result<()>>,
}

impl Crew {
    /// One of nobody yet.
    pub(crate) fn new(ports: Ports, registry: Registry, stop: CancellationToken) -> anyhow::Result<Self> {
        let pipeline = PipelineMetrics::register(&registry)?;
        let evaluating = Presence::unlisted(Step::Eval, &Waiting::default());
        Ok(Self { ports, registry, pipeline, stop, compiling: None, evaluating, running: JoinSet::new() })
    }

    /// What its workers do now. `None`: it has none.
    pub(crate) fn under_way(&self) -> Option<UnderWay> {
        if self.running.is_empty() {
            return None;
        }
        let compiled = self.compiling.as_ref().map_or(0, |metrics| metrics.compiled().0);
        let mut tuning: Vec<String> = self.evaluating.doing().into_iter().map(|doing| doing.problem).collect();
        tuning.dedup();
        Some(UnderWay { compiled, tuning })
    }
}

/// The compilers of this machine for a run, each tried.
#[derive(Clone)]
pub struct Compilers {
    toolchains: Vec<Arc<dyn Toolchain>>,
    slots: usize,
}

impl Compilers {
    /// How many run at a time.
    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// Finds those of these names. As many run at a time as there are `slots`, or else CPUs.
    pub async fn probe(names: &[&str], slots: Option<usize>) -> anyhow::Result<Self> {
        Self::probe_with(names, &itself::programs()?, slots).await
    }

    /// The same, with tools that are named.
    pub async fn probe_with(names: &[&str], programs: &Programs, slots: Option<usize>) -> anyhow::Result<Self> {
        let mut toolchains = Vec::with_capacity(names.len());
        for name in names {
            toolchains.push(known().toolchains.probe(name, programs).await?);
        }
        Ok(Self { toolchains, slots: slots.unwrap_or_else(itself::cpus) })
    }

    /// The same, unless one of them does not compile for `target`.
    pub fn all_for(self, target: &Target) -> anyhow::Result<Self> {
        match self.toolchains.iter().find_map(|toolchain| toolchain.refusal(target)) {
            Some(refusal) => anyhow::bail!("{target}: {refusal}"),
            None => Ok(self),
        }
    }

    /// Those that were found.
    pub fn toolchains(&self) -> &[Arc<dyn Toolchain>] {
        &self.toolchains
    }

    /// What shapes their output, as text.
    pub fn versions(&self) -> String {
        self.toolchains.iter().map(|toolchain| toolchain.identity()).collect::<Vec<_>>().join("\n")
    }

    /// Starts a compile worker for `target` in `crew`, which leaves the CPUs in `taken` to kernels that are timed.
    pub(crate) fn spawn(self, crew: &mut Crew, target: &Target, taken: &[u32]) -> anyhow::Result<()> {
        let metrics = compile_worker::Metrics::register(&crew.registry, crew.pipeline.clone())?;
        crew.compiling = Some(metrics.clone());
        let mut config = compile_worker::Config::new("tune", self.toolchains, self.slots);
        config.grace = GRACE;
        config.launcher = Some(itself::command("sandbox-exec")?);
        config.strategies = known().searches.clone();
        config.targets = Some(vec![target.clone()]);
        config.alone = true;
        let more = limits::open_files().saturating_sub(OPEN_FILES) / OPEN_FILES_OF_COMPILER;
        config.slots = config.slots.min(usize::try_from(more).unwrap_or(usize::MAX).saturating_add(1));
        // Where nothing is timed here, somebody else may time on this machine's GPUs.
        let taken = if taken.is_empty() { inventory::cpus_of_gpus() } else { taken.to_vec() };
        if let Some(left) = inventory::cpus_left(&taken) {
            // A few compilers more than CPUs, as some wait for files: 15 for two rounds of eight would take twice as long as 16.
            config.slots = config.slots.min(left.len() + left.len() / 8);
            config.limits.cpus = left;
        }
        let (Ports { store, broker }, stop) = (crew.ports.clone(), crew.stop.clone());
        crew.running.spawn(async move { Ok(compile_worker::run(config, broker, store, metrics, stop).await?) });
        Ok(())
    }
}

/// The devices of this machine for a run, all of one target.
#[derive(Clone)]
pub struct LocalDevice {
    /// What all of them are.
    pub target: Target,
    /// As the driver names the first of them.
    pub name: String,
    devices: Vec<DeviceChild>,
    /// Models and driver versions.
    identity: String,
    limits: Limits,
}

impl LocalDevice {
    /// Finds the devices that `text` names, as `--device` does.
    pub async fn find(text: &str, limits: Limits) -> anyhow::Result<Self> {
        Self::in_inventory(&devices::inventory().await?, text, limits)
    }

    /// The same; where nothing is named, the GPUs of this machine, or its CPU if it has none. What somebody may not expect of that is
    /// told to `say`.
    pub async fn chosen(text: Option<&str>, limits: Limits, say: impl FnOnce(&str)) -> anyhow::Result<Self> {
        let inventory = devices::inventory().await?;
        let usual = if inventory.gpus.is_empty() { "host" } else { "gpu" };
        let text = text.or(config::get().device.as_deref());
        match (text, inventory.gpus.first()) {
            (Some("host"), Some(gpu)) => {
                say(&format!(
                    "tuning for the CPU, as --device host says; this machine has a GPU: {} ({})",
                    gpu.name, gpu.target
                ));
            }
            (None, Some(gpu)) => say(&format!("tuning for {} ({}); --device host is the CPU", gpu.name, gpu.target)),
            _ => {}
        }
        Self::in_inventory(&inventory, text.unwrap_or(usual), limits)
    }

    fn in_inventory(inventory: &Inventory, text: &str, limits: Limits) -> anyhow::Result<Self> {
        let selected = inventory.select(text).map_err(|error| usage(format!("--device: {error}")))?;
        let devices = devices::serve(inventory, &selected, &itself::child()?)?;
        let mut targets: Vec<Target> = devices.iter().map(|device| device.target.clone()).collect();
        targets.dedup();
        let [target] = targets.as_slice() else {
            let names: Vec<String> = targets.iter().map(ToString::to_string).collect();
            let names = names.join(", ");
            return Err(usage(format!("--device {text}: found devices of {names}, expected those of one target")));
        };
        let children = devices.iter().map(|device| 1 + device.child.translators as u64);
        let more = children.sum::<u64>().saturating_sub(1);
        limits::expect_open_files(OPEN_FILES + more * OPEN_FILES_OF_CHILD)?;
        let versions = selected.iter().map(|device| format!("{} {} {}", device.name, device.driver, device.runtime));
        let mut identities: Vec<String> = versions.map(|text| text.trim_end().to_string()).collect();
        identities.dedup();
        let name = selected.first().map_or_else(String::new, |device| device.name.to_string());
        Ok(Self { target: target.clone(), name, devices, identity: identities.join("\n"), limits })
    }

    /// Whether there is but one: what it hands back no other takes.
    pub fn is_one(&self) -> bool {
        self.devices.len() == 1
    }

    /// CPUs that its children run on.
    pub fn cpus(&self) -> Vec<u32> {
        self.devices.iter().filter_map(|device| device.child.cpu).collect()
    }

    /// What shapes its times, as text.
    pub fn versions(&self) -> String {
        let warm = if self.limits.cache == Cache::Warm { ", warm" } else { "" };
        let sustained = if self.limits.load == Load::Sustained { ", sustained load" } else { "" };
        format!("{}\nprotocol {PROTOCOL_VERSION}{warm}{sustained}", self.identity)
    }

    /// Starts an eval worker for each device in `crew`; what they do meanwhile.
    pub(crate) fn spawn(self, crew: &mut Crew) -> anyhow::Result<Utilisation> {
        let metrics = eval_worker::Metrics::register(&crew.registry, crew.pipeline.clone())?.keeping_courses();
        let utilisation = Utilisation { devices: self.devices.len(), metrics: metrics.clone() };
        let config = |device| {
            let mut config = eval_worker::Config::new("tune", Arc::new(device));
            config.limits = self.limits;
            config.grace = GRACE;
            config.seen_by = crew.evaluating.clone();
            config
        };
        let configs = self.devices.into_iter().map(config).collect();
        let (Ports { store, broker }, stop) = (crew.ports.clone(), crew.stop.clone());
        crew.running.spawn(async move { Ok(eval_worker::run_all(configs, broker, store, metrics, stop).await?) });
        Ok(utilisation)
    }
}

/// How busy the devices of a run are.
pub struct Utilisation {
    devices: usize,
    metrics: eval_worker::Metrics,
}

/// Percent of the time from which on it is said that devices had no job, and why.
const WORTH_A_WORD: f64 = 10.0;

/// Empty before the first job.
impl fmt::Display for Utilisation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(eval_worker::Utilisation { span, candidates, idle }) = self.metrics.utilisation() else {
            return Ok(());
        };
        let whole = (span.as_secs_f64() * self.devices as f64).max(1e-9);
        let busy = 100.0 * candidates.as_secs_f64() / whole;
        let (span, plural) = (span.as_secs_f64(), if self.devices == 1 { "" } else { "s" });
        write!(
            f,
            "; {span:.1} s from the first job on the device{plural} to the last, {busy:.0} % of it busy with candidates"
        )?;
        match idle.filter(|idle| idle.percent() >= WORTH_A_WORD) {
            Some(idle) => write!(f, "; without a job {idle}"),
            None => Ok(()),
        }
    }
}
