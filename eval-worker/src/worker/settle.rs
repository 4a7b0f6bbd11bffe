//! The end of a delivery.

use std::time::Duration;

use bluefin_common::broker::Delivery;
use bluefin_common::job::Stage;
use bluefin_common::metrics::{Settled, Step};

use super::Worker;
use super::patience::GivenUp;
use crate::supervisor::DeviceError;

/// Before a job is offered again whose worker has lost its store: longer than that takes to end.
const LOST: Duration = Duration::from_secs(5);

/// What is to become of a delivery.
#[derive(Debug)]
pub(super) enum Verdict {
    /// What it caused is durable.
    Ack(Settled),
    /// Not this worker's, or not now.
    HandBack(Duration),
    /// It failed for a reason outside the job.
    Retry(String),
    /// Given up; an outcome says so.
    Dead(String),
}

/// Ends the way of a job early.
pub(super) enum Stop {
    Settle(Verdict),
    /// The device is gone. The job is handed back.
    Device(DeviceError),
}

impl From<GivenUp> for Stop {
    fn from(given_up: GivenUp) -> Self {
        Self::Settle(match given_up {
            GivenUp::Expired => Verdict::HandBack(Duration::ZERO),
            GivenUp::Lost => Verdict::HandBack(LOST),
            GivenUp::Failed(reason) => Verdict::Retry(reason),
        })
    }
}

impl From<DeviceError> for Stop {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

impl From<Verdict> for Stop {
    fn from(verdict: Verdict) -> Self {
        Self::Settle(verdict)
    }
}

impl Worker {
    /// Settles a delivery of a job of `stage`.
    pub(super) async fn settle(&self, delivery: Delivery, stage: Stage, verdict: Verdict) {
        let message = delivery.message_id.clone();
        let (settled, result) = match verdict {
            Verdict::Ack(settled) => (settled, delivery.ack().await),
            Verdict::HandBack(delay) => (Settled::HandedBack, delivery.hand_back(delay).await),
            Verdict::Retry(reason) => {
                tracing::warn!(message, attempt = delivery.attempt, reason, "job failed, to be tried again");
                (Settled::Retried, delivery.retry().await)
            }
            Verdict::Dead(reason) => {
                tracing::error!(message, reason, "job given up");
                (Settled::Dead, delivery.dead(&reason).await)
            }
        };
        match result {
            Ok(()) => self.metrics.pipeline.settled(Step::Eval, stage, settled),
            // It comes again; what it caused is found to be done then.
            Err(error) => tracing::warn!(message, %error, "delivery not settled"),
        }
    }
}
