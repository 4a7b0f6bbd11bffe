//! How a child is started, and how long it is waited for.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::timing::{Limits, MAX_PREPARATION};

/// Tries to start a child, to run a reference, or to go on where memory was short, before it is given up.
pub(super) const TRIES: u32 = 3;

/// Children in a row that somebody else may end without a result in between before the job is put aside.
pub(super) const ENDS: u32 = 2;

/// How to start a child, and how long to wait for it.
#[derive(Clone, Debug)]
pub struct ChildConfig {
    /// Program and arguments: something that calls [`crate::child::main`].
    pub command: Vec<OsString>,
    /// The CPU that it runs on; the last one allowed by default.
    pub cpu: Option<u32>,
    /// CPUs that children of this machine run on: all others are for translators.
    pub taken_cpus: Vec<u32>,
    /// Processes that compile code ahead; none for a device that loads what compile workers make at once.
    pub translators: usize,
    /// Variables of the child's environment that are set, or removed: which devices it sees. Of this process's it gets what
    /// drivers need, and no others.
    pub environment: Vec<(&'static str, Option<String>)>,
    /// UUID of the device that it must have; empty if any will do.
    pub uuid: String,
    pub deadlines: Deadlines,
    /// What the files that tell of control groups are below: `/`.
    pub root: PathBuf,
}

impl ChildConfig {
    /// A child that needs nothing said.
    #[must_use]
    pub fn new(command: Vec<OsString>, deadlines: Deadlines) -> Self {
        Self {
            command,
            cpu: None,
            taken_cpus: Vec::new(),
            translators: 0,
            environment: Vec::new(),
            uuid: String::new(),
            deadlines,
            root: PathBuf::from("/"),
        }
    }
}

/// Times that a candidate may take as long as it may be silent: to be loaded, to run, to run again where something is wrong, and
/// for the six samples that are taken whatever the budget.
const STEPS: u32 = 9;

/// How long a child may be silent. How long it may take for a result follows from that and from the timing protocol.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    /// After it was started.
    pub start: Duration,
    /// While it makes inputs and runs the reference, which may be slow.
    pub reference: Duration,
    /// While it loads a candidate, or between two of its launches.
    pub step: Duration,
    /// What takes its place if it is longer: this many times the best known time.
    pub step_of_incumbent: f64,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(20),
            reference: Duration::from_secs(120),
            step: Duration::from_secs(10),
            step_of_incumbent: 20.0,
        }
    }
}

impl Deadlines {
    fn step(&self, incumbent_ms: Option<f64>) -> Duration {
        let of_incumbent = incumbent_ms.unwrap_or_default() * self.step_of_incumbent / 1000.0;
        Duration::try_from_secs_f64(of_incumbent).map_or(self.step, |of_incumbent| self.step.max(of_incumbent))
    }

    pub(super) fn of_start(&self) -> Wait {
        Wait { silence: self.start, result: self.start }
    }

    pub(super) fn of_translation(&self) -> Wait {
        Wait { silence: self.reference, result: self.reference }
    }

    /// Inputs are made, then the reference runs.
    pub(super) fn of_reference(&self) -> Wait {
        Wait { silence: self.reference, result: self.reference * 2 }
    }

    /// Of one candidate, or of `together` candidates whose results come at the same time.
    pub(super) fn of_candidates(&self, together: usize, incumbent_ms: Option<f64>, limits: &Limits) -> Wait {
        let silence = self.step(incumbent_ms);
        let budget = Duration::try_from_secs_f64(limits.sample_budget_ms / 1000.0).unwrap_or_default();
        let one = silence.saturating_mul(STEPS).saturating_add(budget).saturating_add(MAX_PREPARATION);
        Wait { silence, result: one.saturating_mul(u32::try_from(together).unwrap_or(u32::MAX)) }
    }
}

/// How long a child is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// The longest time without a sign of life.
    pub(super) silence: Duration,
    /// The longest time to the next result, whatever the signs: who is busy need not get anywhere.
    pub(super) result: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_grow_with_the_incumbent() {
        let deadlines = Deadlines::default();
        assert_eq!(deadlines.step(None), Duration::from_secs(10));
        assert_eq!(deadlines.step(Some(1.0)), Duration::from_secs(10));
        assert_eq!(deadlines.step(Some(2000.0)), Duration::from_secs(40));
        assert_eq!(deadlines.step(Some(f64::NAN)), Duration::from_secs(10));
    }

    #[test]
    fn a_candidate_has_a_limit_that_follows_from_the_protocol() {
        let deadlines = Deadlines { step: Duration::from_secs(1), ..Deadlines::default() };
        let limits = Limits { sample_budget_ms: 500.0, ..Limits::default() };
        let seconds = |together, limits| deadlines.of_candidates(together, None, &limits).result.as_secs_f64();
        assert_eq!([1, 4].map(|together| seconds(together, limits)), [13.5, 54.0]);
        assert_eq!(seconds(1, Limits { sample_budget_ms: f64::INFINITY, ..limits }), 13.0);
        assert!(seconds(usize::MAX, limits) > 1e6);
    }
}
