//! Why a delivery goes no further than it has come.

use std::fmt::Display;
use std::time::Duration;

use super::{GivenUp, LOST, OTHER_VERSION, STOOD_STILL, STUCK};

/// Why a delivery goes no further.
#[derive(Debug)]
pub enum Halt {
    /// All of it was done before, or nobody wants it any more.
    NothingToDo,
    /// Not this worker's, or not now: handed back, and offered again after so long.
    Later(Duration),
    /// Nobody will ever do it, for this reason.
    Hopeless(String),
    /// Something killed what worked on it, and nobody knows who: handed back and counted, and given up in the end.
    Suspect(String),
}

impl Halt {
    /// Not now, for a reason outside the job that is worth a line in the log.
    pub fn later(delay: Duration, reason: impl Display) -> Self {
        tracing::warn!(%reason, again_in = delay.as_secs(), "job handed back");
        Self::Later(delay)
    }
}

impl From<GivenUp> for Halt {
    fn from(given_up: GivenUp) -> Self {
        match given_up {
            GivenUp::Expired => Self::Later(Duration::ZERO),
            GivenUp::Lost => Self::Later(LOST),
            GivenUp::OtherVersion => Self::Later(OTHER_VERSION),
            GivenUp::TooLong(reason) => Self::later(STOOD_STILL, reason),
            GivenUp::Failed(reason) => {
                tracing::error!(reason, again_in = STUCK.as_secs(), "job handed back: somebody has to mend this");
                Self::Later(STUCK)
            }
        }
    }
}
