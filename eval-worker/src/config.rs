//! What an eval worker is told.

use std::sync::Arc;
use std::time::Duration;

use bluefin_common::miopen::Tool;
use bluefin_common::target::Target;
use tokio::sync::Mutex;

use crate::miopen::MiopenDevice;
use crate::supervisor::ChildConfig;
use crate::timing::Limits;

/// What evaluates.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for each device")]
pub enum DeviceSpec {
    /// A device, through a child process. `device`: as it is named in logs and metrics.
    Child { device: String, target: Target, child: ChildConfig },
    /// Nothing: a candidate's time follows from its name. All else is as it always is: for measuring and testing the
    /// pipeline.
    Noop(Target),
    /// A GPU through one of MIOpen's tools, for the jobs of that tool.
    Miopen(Box<MiopenDevice>),
}

impl DeviceSpec {
    /// The CPU.
    #[must_use]
    pub fn host(child: ChildConfig) -> Self {
        Self::Child { device: "host".to_string(), target: Target::Host, child }
    }

    /// The name of the device.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Child { device, .. } => device,
            Self::Noop(_) => "noop",
            Self::Miopen(device) => device.tool().name(),
        }
    }

    /// What it runs code for.
    #[must_use]
    pub fn target(&self) -> Target {
        match self {
            Self::Child { target, .. } | Self::Noop(target) => target.clone(),
            Self::Miopen(device) => device.target().clone(),
        }
    }

    /// The tool of MIOpen's whose jobs it is for, if it is for such.
    #[must_use]
    pub fn tool(&self) -> Option<Tool> {
        match self {
            Self::Child { .. } | Self::Noop(_) => None,
            Self::Miopen(device) => Some(device.tool()),
        }
    }
}

/// An eval worker: one device, one queue.
#[derive(Clone, Debug)]
pub struct Config {
    /// For logs.
    pub worker: String,
    pub device: DeviceSpec,
    /// Jobs held at a time: one on the device, the others on their way to it or to the store.
    pub prefetch: u16,
    pub limits: Limits,
    /// Artifacts kept in memory, in bytes.
    pub artifact_cache_bytes: u64,
    /// How long a store or broker that is away is waited for with a job in hand.
    pub patience: Duration,
    /// How long a drain may take; the job on the device is finished if it ends in that time.
    pub grace: Duration,
    /// Held by the job that is on the device: workers that share a device share this.
    pub turn: Arc<Mutex<()>>,
    /// How often a device that does not work is tried again; without it, the worker ends.
    pub reprobe: Option<Duration>,
}

impl Config {
    /// The usual values.
    #[must_use]
    pub fn new(worker: impl Into<String>, device: DeviceSpec) -> Self {
        let prefetch = match device {
            DeviceSpec::Child { .. } => 4,
            DeviceSpec::Noop(_) => 128,
            // One on the GPU, one with its kernels on their way.
            DeviceSpec::Miopen(_) => 2,
        };
        Self {
            worker: worker.into(),
            device,
            prefetch,
            limits: Limits::default(),
            artifact_cache_bytes: 256 << 20,
            patience: Duration::from_secs(300),
            grace: Duration::from_secs(25),
            turn: Arc::default(),
            reprobe: None,
        }
    }
}
