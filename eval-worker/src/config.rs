//! What an eval worker is told.

use std::time::Duration;

use bluefin_common::target::Target;

use crate::supervisor::ChildConfig;
use crate::timing::Limits;

/// What evaluates.
#[derive(Clone, Debug)]
pub enum DeviceSpec {
    /// The CPU, through a child process.
    Host(ChildConfig),
    /// Nothing: a candidate's time follows from its name. All else is as it always is: for measuring and testing the
    /// pipeline.
    Noop(Target),
}

impl DeviceSpec {
    /// What it runs code for.
    #[must_use]
    pub fn target(&self) -> Target {
        match self {
            Self::Host(_) => Target::Host,
            Self::Noop(target) => target.clone(),
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
}

impl Config {
    /// The usual values.
    #[must_use]
    pub fn new(worker: impl Into<String>, device: DeviceSpec) -> Self {
        let prefetch = match device {
            DeviceSpec::Host(_) => 4,
            DeviceSpec::Noop(_) => 128,
        };
        Self {
            worker: worker.into(),
            device,
            prefetch,
            limits: Limits::default(),
            artifact_cache_bytes: 256 << 20,
            patience: Duration::from_secs(300),
            grace: Duration::from_secs(25),
        }
    }
}
