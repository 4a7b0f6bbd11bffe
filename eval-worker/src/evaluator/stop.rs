//! Ways of a job to end early.

use std::fmt;
use std::time::Duration;

use bluefin_common::delivery::{GivenUp, Verdict};

use crate::supervisor::DeviceError;

/// Ends the way of a job before there is an outcome of its candidates.
#[derive(Debug)]
pub enum Stop {
    /// It is settled, and that is all.
    Settle(Verdict),
    /// It makes no sense, and is given up with an outcome that says why.
    Bury(String),
    /// What it was compiled into is gone: it is compiled again.
    SendBack,
    /// The device is gone. The job is handed back, and the worker ends.
    Device(DeviceError),
}

impl Stop {
    /// The job failed for a reason outside of it.
    pub fn retry(reason: impl fmt::Display) -> Self {
        Self::Settle(Verdict::Retry(reason.to_string()))
    }

    /// The worker ends before it got to the job, or through it.
    #[must_use]
    pub fn drained() -> Self {
        Self::Settle(Verdict::HandBack(Duration::ZERO))
    }
}

impl From<Verdict> for Stop {
    fn from(verdict: Verdict) -> Self {
        Self::Settle(verdict)
    }
}

impl From<GivenUp> for Stop {
    fn from(given_up: GivenUp) -> Self {
        Self::Settle(given_up.into())
    }
}

impl From<DeviceError> for Stop {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}
