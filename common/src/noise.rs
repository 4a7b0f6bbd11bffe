//! Winners whose time is in doubt, because the machine did other work while they were timed.

use std::fmt;

use crate::decision::decide;
use crate::outcome::{CandidateOutcome, Disturbance, Outcome, Timing};
use crate::session::Session;

/// A time with this spread, as a share of it, is noisy. No winner of a tuned model had more than 4 % on an idle machine.
pub const SPREAD: f64 = 0.1;

/// All times of a job are too long where the device took so many times as long as usual for the same work.
pub const SLOWDOWN: f32 = 1.1;

/// A share of the time that is worth a word.
const SHARE: f32 = 0.02;

/// Why a time is in doubt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Spread of the samples as a share of their median.
    pub spread: f64,
    /// What the device says.
    pub disturbance: Option<Disturbance>,
}

impl Noise {
    /// Why `timing`, of a candidate of `outcome`, is in doubt; `None` if it is not.
    #[must_use]
    pub fn of(timing: &Timing, outcome: &Outcome) -> Option<Self> {
        let disturbance = outcome.device_state.disturbance;
        let spread = timing.spread_ms / timing.median_ms.max(f64::MIN_POSITIVE);
        let slow = disturbance.is_some_and(|disturbance| disturbance.slowdown >= SLOWDOWN);
        (spread >= SPREAD || slow).then_some(Self { spread, disturbance })
    }

    /// Why the time of `candidate`, which is one of `outcomes`, is in doubt.
    #[must_use]
    pub fn of_candidate(candidate: &CandidateOutcome, outcomes: &[Outcome]) -> Option<Self> {
        let timing = candidate.result.as_ref().ok()?;
        let has = |outcome: &&Outcome| outcome.candidates.iter().any(|one| std::ptr::eq(one, candidate));
        Self::of(timing, outcomes.iter().find(has)?)
    }

    /// Why the time of the winner of a group, which came to `outcomes`, is in doubt.
    #[must_use]
    pub fn of_winner(session: &Session, outcomes: &[Outcome]) -> Option<Self> {
        let decision = decide(session, outcomes)?;
        Self::of_candidate(decision.winner()?.outcome, outcomes)
    }
}

/// `spread 34 %; other programs had the CPU for 41 % of the time`.
impl fmt::Display for Noise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spread {:.0} %", 100.0 * self.spread)?;
        let Some(Disturbance { waiting, stolen, slowdown }) = self.disturbance else { return Ok(()) };
        if slowdown >= SLOWDOWN {
            write!(f, "; the device was {slowdown:.1} times as slow as usual")?;
        }
        if waiting >= SHARE {
            write!(f, "; other programs had its CPU for {:.0} % of the time", 100.0 * waiting)?;
        }
        if stolen >= SHARE {
            write!(f, "; other machines of its host had {:.0} % of the time", 100.0 * stolen)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_disturbed_is_said() {
        let of = |waiting, stolen, slowdown| Noise {
            spread: 0.337,
            disturbance: Some(Disturbance { waiting, stolen, slowdown }),
        };
        assert_eq!(of(0.0, 0.0, 1.0).to_string(), "spread 34 %");
        assert_eq!(
            of(0.41, 0.1, 1.44).to_string(),
            "spread 34 %; the device was 1.4 times as slow as usual; other programs had its CPU for 41 % of the time; \
             other machines of its host had 10 % of the time"
        );
    }
}
