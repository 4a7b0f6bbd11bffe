//! How a child is started, and how long it is waited for.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::proven::Proven;
use crate::timing::{Limits, MAX_PREPARATION, NEW_BEGINNINGS};

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
    /// What the device did, whichever child of it.
    pub proven: Proven,
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
            proven: Proven::default(),
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
    /// In a first run, where that is less than a step: so long, and beside that the multiples below of what is known.
    pub first_run: Duration,
}

/// Times of the reference's first run that a candidate's may take longer.
const OF_REFERENCE: u32 = 100;
/// Times that it may take longer than it took to load it: drivers may do a part of that when it is first launched.
pub(super) const OF_LOADING: u32 = 10;

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(20),
            reference: Duration::from_secs(120),
            step: Duration::from_secs(10),
            step_of_incumbent: 20.0,
            first_run: Duration::from_millis(500),
        }
    }
}

impl Deadlines {
    /// For a kernel that may be silent for `step`. A reference, which may be naive, has as many times that as by default.
    #[must_use]
    pub fn of(step: Duration) -> Self {
        Self { reference: step.saturating_mul(12), step, ..Self::default() }
    }

    fn step(&self, incumbent_ms: Option<f64>) -> Duration {
        let of_incumbent = incumbent_ms.unwrap_or_default() * self.step_of_incumbent / 1000.0;
        Duration::try_from_secs_f64(of_incumbent).map_or(self.step, |of_incumbent| self.step.max(of_incumbent))
    }

    pub(super) fn of_start(&self) -> Wait {
        Wait::of(self.start, self.start)
    }

    pub(super) fn of_translation(&self) -> Wait {
        Wait::of(self.reference, self.reference)
    }

    /// Inputs are made, then the reference runs.
    pub(super) fn of_reference(&self) -> Wait {
        Wait::of(self.reference, self.reference * 2)
    }

    /// Of one candidate, or of `together` candidates whose results come at the same time. `reference`: how long the first run of
    /// theirs took, if that is known.
    pub(super) fn of_candidates(
        &self,
        together: usize,
        incumbent_ms: Option<f64>,
        reference: Option<Duration>,
        limits: &Limits,
    ) -> Wait {
        let silence = self.step(incumbent_ms);
        let budget = Duration::try_from_secs_f64(limits.sample_budget_ms / 1000.0).unwrap_or_default();
        // A play-off may begin anew.
        let budget = budget.saturating_mul(1 + NEW_BEGINNINGS);
        let one = silence.saturating_mul(STEPS).saturating_add(budget).saturating_add(MAX_PREPARATION);
        let known = |reference: Duration| self.first_run.saturating_add(reference.saturating_mul(OF_REFERENCE));
        let first_run = reference.map_or(silence, known).min(silence);
        Wait { silence, first_run, result: one.saturating_mul(u32::try_from(together).unwrap_or(u32::MAX)) }
    }
}

/// How long a child is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// The longest time without a sign of life.
    pub(super) silence: Duration,
    /// The longest first run of a candidate that took no time to load, while it has the device or its share of the CPU.
    pub(super) first_run: Duration,
    /// The longest time to the next result, whatever the signs: who is busy need not get anywhere.
    pub(super) result: Duration,
}

impl Wait {
    fn of(silence: Duration, result: Duration) -> Self {
        Self { silence, first_run: silence, result }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_run_has_what_is_known_of_the_problem() {
        let deadlines = Deadlines::default();
        let of = |reference, incumbent_ms| {
            let reference = Duration::from_secs_f64(reference);
            deadlines.of_candidates(1, incumbent_ms, Some(reference), &Limits::default()).first_run.as_secs_f64()
        };
        assert!((of(0.0001, None) - 0.51).abs() < 1e-9);
        assert!((of(0.05, None) - 5.5).abs() < 1e-9);
        // Never more than a step.
        assert!((of(1.0, None) - 10.0).abs() < 1e-9);
        assert!((of(1.0, Some(2000.0)) - 40.0).abs() < 1e-9);
        let unknown = deadlines.of_candidates(1, None, None, &Limits::default());
        assert_eq!(unknown.first_run, unknown.silence);
    }

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
        let seconds = |together, limits| deadlines.of_candidates(together, None, None, &limits).result.as_secs_f64();
        assert_eq!([1, 4].map(|together| seconds(together, limits)), [14.5, 58.0]);
        assert_eq!(seconds(1, Limits { sample_budget_ms: f64::INFINITY, ..limits }), 13.0);
        assert!(seconds(usize::MAX, limits) > 1e6);
    }
}
