//! What is said of files whose rows other programs launch: where those programs are, on which GPU, and how often they do.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use bluefin_common::arch::{self, Vendor};
use bluefin_common::kfd;
use bluefin_common::target::Target;
use bluefin_eval_worker::GpuLock;
use bluefin_miopen::detect::{self, Gpu, HIP_VISIBLE, HIP_VISIBLE_ELSE, ROCR_VISIBLE};
use humantime::parse_duration;

use crate::machine::evaluators::AiterArgs;
use crate::usage;

/// The flags that say it.
#[derive(clap::Args)]
pub struct ToolArgs {
    #[command(flatten)]
    pub(super) aiter: AiterArgs,
    /// MIOpenDriver [default: that of /opt/rocm, or else in PATH]
    #[arg(long, value_name = "PATH", env = "BLUEFIN_MIOPEN_DRIVER")]
    pub(super) miopen_driver: Option<PathBuf>,
    /// The GPU whose rows are judged, such as gfx942-304 [default: that of this machine]
    #[arg(long, value_name = "GPU")]
    gpu: Option<Target>,
    /// Processes that time each side of a row, in turns [default: 7]
    #[arg(long, value_name = "TIMES", value_parser = clap::value_parser!(u32).range(6..=99))]
    turns: Option<u32>,
    /// Longest time of a shape in a process of its own; several in one have twice that [default: 30m]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    limit: Option<Duration>,
}

/// A GPU, and what shows it to a process.
#[derive(Clone)]
pub(super) struct Shown {
    pub target: Target,
    /// What [`HIP_VISIBLE`] is to be, where that is known.
    pub devices: Option<OsString>,
    /// Whoever works on it has it.
    pub lock: GpuLock,
}

impl ToolArgs {
    /// The first of its flags that is there.
    #[must_use]
    pub fn given(&self) -> Option<&'static str> {
        let flags =
            [("--gpu", self.gpu.is_some()), ("--turns", self.turns.is_some()), ("--limit", self.limit.is_some())];
        flags.into_iter().find_map(|(flag, given)| given.then_some(flag))
    }

    pub(super) fn turns(&self) -> u32 {
        self.turns.unwrap_or(7)
    }

    pub(super) fn limit(&self) -> Duration {
        self.limit.unwrap_or(Duration::from_secs(1800))
    }

    /// The GPU that is named, else the first that this machine has and shows.
    ///
    /// # Errors
    /// If it is not AMD's, this machine has others alone, or none is known.
    pub(super) fn gpu(&self) -> anyhow::Result<Shown> {
        let named = self.gpu.as_ref();
        if let Some(named) = named.filter(|named| arch::vendor(named.arch()) != Some(Vendor::Amd)) {
            return Err(usage(format!("--gpu: found {named}, expected a GPU of AMD's, such as gfx942-304")));
        }
        let variable = |name| std::env::var_os(name).filter(|text| !text.is_empty());
        let all = detect::gpus(&kfd::topology());
        // Set and empty it shows none.
        let below = std::env::var_os(ROCR_VISIBLE);
        let (name, said) = match variable(HIP_VISIBLE) {
            None => (HIP_VISIBLE_ELSE, variable(HIP_VISIBLE_ELSE)),
            said => (HIP_VISIBLE, said),
        };
        let text = |said: &Option<OsString>| said.as_ref().map(|said| said.to_string_lossy().into_owned());
        let here = detect::visible(&all, text(&below).as_deref(), text(&said).as_deref());
        if here.is_empty() && !all.is_empty() {
            let is_below = detect::visible(&all, text(&below).as_deref(), None).is_empty();
            let (name, said) = if is_below { (ROCR_VISIBLE, below) } else { (name, said) };
            let said = said.unwrap_or_default();
            return Err(usage(format!("{name}: found {}, expected GPUs of this machine", said.to_string_lossy())));
        }
        let devices = |gpu: &Gpu| if gpu.uuid.is_empty() { gpu.index.to_string() } else { gpu.uuid.clone() };
        let of = |gpu: &Gpu| Shown {
            target: gpu.target.clone(),
            devices: Some(devices(gpu).into()),
            lock: GpuLock::among(&all, &gpu.uuid),
        };
        match (named, here.first()) {
            (None, Some(first)) => Ok(of(first)),
            (None, None) => {
                let place = kfd::topology();
                Err(usage(format!(
                    "--gpu: found none of AMD's in {}, expected what it is, such as gfx942-304",
                    place.display()
                )))
            }
            (Some(named), None) => Ok(Shown { target: named.clone(), devices: said, lock: GpuLock::of("") }),
            (Some(named), Some(_)) => here.iter().find(|gpu| gpu.target == *named).map(of).ok_or_else(|| {
                let found: Vec<String> = here.iter().map(|gpu| gpu.target.to_string()).collect();
                usage(format!("--gpu: found {named}, expected one of this machine: {}", found.join(", ")))
            }),
        }
    }
}

fn some_time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    if time.is_zero() { Err("expected some time".to_string()) } else { Ok(time) }
}
