//! Samples that were taken once, drawn again: what another rule would have made of them, without a device.

use std::convert::Infallible;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::{Sample, Sampler, Taken, Trial};

/// Draws samples at random from those of each candidate, with replacement.
pub struct Recorded<'a> {
    /// Samples of each candidate in milliseconds.
    samples_ms: Vec<&'a [f32]>,
    random: StdRng,
    spent_ms: f64,
}

impl<'a> Recorded<'a> {
    /// `samples_ms`: of each candidate.
    #[must_use]
    pub fn new(samples_ms: Vec<&'a [f32]>, seed: u64) -> Self {
        Self { samples_ms, random: StdRng::seed_from_u64(seed), spent_ms: 0.0 }
    }

    /// Draws from other candidates from now on.
    pub fn load(&mut self, samples_ms: Vec<&'a [f32]>) {
        self.samples_ms = samples_ms;
    }

    /// What the samples that were drawn would have taken on the device, in milliseconds.
    #[must_use]
    pub fn spent_ms(&self) -> f64 {
        self.spent_ms
    }
}

impl Sampler for Recorded<'_> {
    type Error = Infallible;

    fn sample(&mut self, trials: &[Trial]) -> Result<Taken, Infallible> {
        let before_ms = self.spent_ms;
        let mut draw = |trial: &Trial| {
            let samples = self.samples_ms.get(trial.candidate).copied().unwrap_or_default();
            let ms = samples.choose(&mut self.random).copied().map_or(0.0, f64::from);
            self.spent_ms += ms * f64::from(trial.batch);
            Sample::of(ms)
        };
        let samples = trials.iter().map(&mut draw).collect();
        Ok(Taken { samples, wall_ms: self.spent_ms - before_ms })
    }

    fn is_broken(&self) -> bool {
        false
    }

    fn rest(&mut self, _time: Duration) -> Result<(), Infallible> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ClockWatch, Limits, StopRule, measure_by};
    use super::*;

    fn measure(samples: &[f32], incumbent_ms: f64, rule: StopRule) -> (usize, bool, f64) {
        let mut recorded = Recorded::new(vec![samples], 1);
        let Ok(timing) =
            measure_by(&rule, &mut recorded, &mut ClockWatch::default(), Some(incumbent_ms), &Limits::default());
        (timing.samples_ms.len(), timing.pruned, recorded.spent_ms())
    }

    #[test]
    fn another_rule_makes_something_else_of_the_same_samples() {
        let protocol = StopRule::default();
        assert_eq!(measure(&[1.25], 1.0, protocol), (5, false, 6.25));
        assert_eq!(measure(&[1.25], 1.0, StopRule { behind: 2.0, ..protocol }), (10, false, 12.5));
        assert_eq!(measure(&[1.25], 1.0, StopRule { prune: 1.2, ..protocol }), (3, true, 3.75));
        assert_eq!(measure(&[1.25], 1.0, StopRule { prune: 1.2, probes: 1, ..protocol }), (1, true, 1.25));
        assert_eq!(measure(&[1.25], 1.0, StopRule { min_samples: 4, ..protocol }), (4, false, 5.0));
    }

    #[test]
    fn nothing_recorded_is_no_endless_loop() {
        assert!(measure(&[], 1.0, StopRule::default()).0 <= 64);
    }
}
