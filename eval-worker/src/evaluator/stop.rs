//! Ways of a job to end early.

use std::time::Duration;

use bluefin_common::delivery::{GivenUp, Halt};

use crate::supervisor::DeviceError;

/// Ends the way of a job before there is an outcome of its candidates.
#[derive(Debug)]
pub enum Stop {
    /// What happens to deliveries of all workers.
    Halt(Halt),
    /// It makes no sense, and is given up with an outcome that says why.
    Bury(String),
    /// What it was compiled into is gone: it is compiled again.
    SendBack,
    /// This machine is in no state to work: a disk that is full, a tool that does not start. The job is handed back, and the
    /// worker stands still until the machine is mended.
    Machine(String),
    /// What worked on it was killed, and nobody knows by whom. The job is handed back; if it happens to it again and again it is
    /// given up.
    Suspect(String),
    /// The device is gone. The job is handed back, and the worker ends.
    Device(DeviceError),
}

impl Stop {
    /// The worker ends before it got to the job, or through it.
    #[must_use]
    pub fn drained() -> Self {
        Self::Halt(Halt::Later(Duration::ZERO))
    }
}

impl From<Halt> for Stop {
    fn from(halt: Halt) -> Self {
        Self::Halt(halt)
    }
}

impl From<GivenUp> for Stop {
    fn from(given_up: GivenUp) -> Self {
        Self::Halt(given_up.into())
    }
}

impl From<DeviceError> for Stop {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::Ended { .. } => Self::Suspect(error.to_string()),
            error => Self::Device(error),
        }
    }
}

/// A task of ours that panicked over what a job gave it.
impl From<tokio::task::JoinError> for Stop {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::Suspect(error.to_string())
    }
}
