//! What is said of files whose rows other programs launch: where those programs are, and how often they do.

use std::path::PathBuf;
use std::time::Duration;

use bluefin_common::target::Target;
use humantime::parse_duration;

use crate::aiter::tune::local_target;
use crate::machine::evaluators::AiterArgs;

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
    /// Processes that time each side of a row, in turns
    #[arg(long, value_name = "TIMES", default_value_t = 7, value_parser = clap::value_parser!(u32).range(6..=99))]
    pub(super) turns: u32,
    /// Longest time of a shape in a process
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = parse_duration)]
    pub(super) limit: Duration,
}

impl ToolArgs {
    /// The GPU.
    pub(super) fn target(&self) -> anyhow::Result<Target> {
        self.gpu.clone().map_or_else(|| local_target(&self.aiter), Ok)
    }
}
