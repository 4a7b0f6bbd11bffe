//! Measures one candidate.

use bluefin_common::outcome::Timing;

use super::statistics::{median, summarize, timing};
use super::{
    BATCH_BELOW_MS, BATCH_MS, HOPELESS, Limits, MAX_BATCH, MIN_SAMPLES, PROBES, PRUNE, PRUNE_SHORT, SHORT_MS, STABLE,
    Sampler,
};

/// Samples that a stop for stable noise looks back on.
const NOISE_WINDOW: usize = 10;
/// How little the noise and the median may have moved in that window, relative to themselves.
const NOISE_STABLE: f64 = 0.05;

/// Times one candidate. `incumbent_ms` is the best median known for its problem: a candidate that is clearly slower is
/// only probed, and its timing is marked as pruned.
///
/// # Errors
/// The first one of `sampler`.
pub fn measure<S: Sampler>(sampler: &mut S, incumbent_ms: Option<f64>, limits: &Limits) -> Result<Timing, S::Error> {
    let mut series = Series::start(sampler)?;
    while series.samples.len() < PROBES && !incumbent_ms.is_some_and(|best| series.is_hopeless(best)) {
        series.take(sampler)?;
    }
    if incumbent_ms.is_some_and(|best| series.is_slow(best)) {
        return Ok(timing(&series.samples, true));
    }
    while !series.is_done(limits) {
        series.take(sampler)?;
    }
    Ok(timing(&series.samples, false))
}

/// The samples of one candidate so far.
pub(super) struct Series {
    /// Launches in one sample.
    batch: u32,
    /// Milliseconds of one launch.
    pub(super) samples: Vec<f64>,
    /// Milliseconds on the device.
    spent_ms: f64,
    /// Relative standard deviation after each sample from the second on, and the median then.
    noise: Vec<(f64, f64)>,
}

impl Series {
    /// Takes the first sample, and finds out how many launches a sample needs.
    pub(super) fn start<S: Sampler>(sampler: &mut S) -> Result<Self, S::Error> {
        let mut series = Self { batch: 1, samples: Vec::new(), spent_ms: 0.0, noise: Vec::new() };
        series.take(sampler)?;
        // A single short launch is mostly the timer's own cost and overestimates, so one batch may not be enough to
        // learn the batch. Samples of another batch are not comparable, and are forgotten.
        for _ in 0..2 {
            let estimate = series.samples.first().copied().unwrap_or_default();
            let batch = batch_for(estimate);
            if f64::from(batch) < 1.5 * f64::from(series.batch) {
                break;
            }
            series.batch = batch;
            series.samples.clear();
            series.take(sampler)?;
        }
        Ok(series)
    }

    pub(super) fn take<S: Sampler>(&mut self, sampler: &mut S) -> Result<(), S::Error> {
        let sample = sampler.sample(self.batch)?;
        self.spent_ms += sample * f64::from(self.batch);
        self.samples.push(sample);
        if self.samples.len() > 1 {
            let summary = summarize(&self.samples);
            self.noise.push((summary.deviation / summary.median.max(f64::MIN_POSITIVE), summary.median));
        }
        Ok(())
    }

    pub(super) fn spent_ms(&self) -> f64 {
        self.spent_ms
    }

    pub(super) fn min(&self) -> f64 {
        self.samples.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Not worth a second probe.
    pub(super) fn is_hopeless(&self, best_ms: f64) -> bool {
        self.min() > HOPELESS * best_ms
    }

    /// Clearly slower than the best: even its fastest probe is.
    fn is_slow(&self, best_ms: f64) -> bool {
        let factor = if best_ms < SHORT_MS { PRUNE_SHORT } else { PRUNE };
        self.min() > factor * best_ms
    }

    /// Enough samples, or no more budget for them.
    pub(super) fn is_done(&self, limits: &Limits) -> bool {
        let count = self.samples.len();
        count >= Timing::MAX_SAMPLES
            || count >= PROBES && self.is_spent(limits)
            || count >= MIN_SAMPLES && (self.is_quiet() || self.is_noise_stable())
    }

    pub(super) fn is_spent(&self, limits: &Limits) -> bool {
        self.spent_ms >= limits.sample_budget_ms
    }

    fn is_quiet(&self) -> bool {
        self.noise.last().is_some_and(|(noise, _)| *noise < STABLE)
    }

    /// More samples would show the same noise around the same median.
    fn is_noise_stable(&self) -> bool {
        let Some(recent) = self.noise.len().checked_sub(NOISE_WINDOW).and_then(|start| self.noise.get(start..)) else {
            return false;
        };
        let (noises, medians): (Vec<f64>, Vec<f64>) = recent.iter().copied().unzip();
        is_steady(&noises, NOISE_STABLE) && is_steady(&medians, STABLE)
    }
}

fn is_steady(values: &[f64], within: f64) -> bool {
    let center = median(values);
    values.iter().all(|value| (value - center).abs() <= within * center)
}

/// Launches that make a sample long enough for the timer.
fn batch_for(estimate_ms: f64) -> u32 {
    if estimate_ms >= BATCH_BELOW_MS {
        return 1;
    }
    let launches = (BATCH_MS / estimate_ms.max(f64::MIN_POSITIVE)).ceil();
    // A float that is too large becomes the largest integer.
    (launches as u32).clamp(1, MAX_BATCH)
}

#[cfg(test)]
mod tests {
    use super::super::simulated::{Simulated, noise};
    use super::*;

    const LIMITS: Limits = Limits { sample_budget_ms: 100.0, rotation_bytes: 0 };

    #[test]
    fn a_quiet_kernel_needs_ten_samples() {
        let mut kernel = Simulated::constant(1.0);
        let timing = measure(&mut kernel, None, &LIMITS).unwrap();
        assert_eq!((timing.median_ms, timing.spread_ms, timing.samples_ms.len()), (1.0, 0.0, 10));
        assert!(!timing.pruned);
        assert_eq!(kernel.launches, 10);
    }

    #[test]
    fn a_slow_kernel_costs_three_probes() {
        let mut kernel = Simulated::constant(2.0);
        let timing = measure(&mut kernel, Some(1.0), &LIMITS).unwrap();
        assert!(timing.pruned);
        assert_eq!(kernel.launches, 3);
        assert_eq!(timing.median_ms, 2.0);
    }

    #[test]
    fn a_hopeless_kernel_costs_one() {
        let mut kernel = Simulated::constant(11.0);
        assert!(measure(&mut kernel, Some(1.0), &LIMITS).unwrap().pruned);
        assert_eq!(kernel.launches, 1);
    }

    #[test]
    fn one_disturbed_probe_prunes_nothing() {
        let mut kernel = Simulated::new([10.0, 3.0, 1.2].into_iter().chain(std::iter::repeat(1.2)));
        // Past the time box (11.5) the first probe would decide.
        let timing = measure(&mut kernel, Some(1.15), &LIMITS).unwrap();
        assert!(!timing.pruned);
        assert!((timing.median_ms - 1.2).abs() < 1e-9);
    }

    #[test]
    fn slightly_slower_is_measured_to_the_end() {
        for (kernel_ms, best_ms, pruned) in
            [(1.4, 1.0, false), (1.6, 1.0, true), (0.038, 0.02, false), (0.042, 0.02, true), (0.9, 1.0, false)]
        {
            let timing = measure(&mut Simulated::constant(kernel_ms), Some(best_ms), &LIMITS).unwrap();
            assert_eq!(timing.pruned, pruned, "{kernel_ms} against {best_ms}");
        }
    }

    #[test]
    fn a_short_kernel_is_batched() {
        let mut kernel = Simulated::constant(0.001);
        let timing = measure(&mut kernel, None, &LIMITS).unwrap();
        assert_eq!(kernel.batches[0], 1);
        assert!(kernel.batches[1..].iter().all(|batch| *batch == 1000));
        assert_eq!(timing.samples_ms.len(), 10);
        assert!((timing.median_ms - 0.001).abs() < 1e-12);
    }

    #[test]
    fn the_batch_is_corrected_for_the_cost_of_the_timer() {
        // A launch of 100 ns under a timer that costs 400 ns.
        let mut kernel = Simulated::constant(0.0001).with_timer_ms(0.0004);
        let timing = measure(&mut kernel, None, &LIMITS).unwrap();
        let batch = *kernel.batches.last().unwrap();
        assert!(batch > 8000, "{batch}");
        assert!((timing.median_ms - 0.0001).abs() < 1e-6, "{}", timing.median_ms);
    }

    #[test]
    fn nothing_measurable_is_bounded() {
        let mut kernel = Simulated::constant(0.0);
        let timing = measure(&mut kernel, None, &LIMITS).unwrap();
        assert!(timing.samples_ms.len() <= Timing::MAX_SAMPLES);
        assert!(kernel.batches.iter().all(|batch| *batch <= MAX_BATCH));
    }

    #[test]
    fn the_budget_ends_a_noisy_kernel_and_three_samples_are_the_least() {
        let mut kernel = Simulated::new(noise(8.0, 0.2, 1));
        let timing = measure(&mut kernel, None, &LIMITS).unwrap();
        assert!((9..=16).contains(&timing.samples_ms.len()), "{}", timing.samples_ms.len());
        let mut slow = Simulated::new(noise(5000.0, 0.2, 2));
        assert_eq!(measure(&mut slow, None, &LIMITS).unwrap().samples_ms.len(), 3);
        assert_eq!(slow.launches, 3);
    }

    #[test]
    fn samples_are_bounded_whatever_the_noise() {
        let generous = Limits { sample_budget_ms: 1e9, ..LIMITS };
        for seed in 0..20 {
            let timing = measure(&mut Simulated::new(noise(1.0, 0.3, seed)), None, &generous).unwrap();
            assert!(timing.samples_ms.len() <= Timing::MAX_SAMPLES);
            assert!((timing.median_ms - 1.0).abs() < 0.15, "{}", timing.median_ms);
        }
    }

    #[test]
    fn stable_noise_is_not_sampled_forever() {
        // Two values in turn: the deviation never falls, and never changes either.
        let generous = Limits { sample_budget_ms: 1e9, ..LIMITS };
        let two = (0..).map(|i| if i % 2 == 0 { 0.999 } else { 1.011 });
        let mut kernel = Simulated::new(two);
        let timing = measure(&mut kernel, None, &generous).unwrap();
        assert!((11..40).contains(&timing.samples_ms.len()), "{}", timing.samples_ms.len());
        assert!((0.999..=1.011).contains(&timing.median_ms));
    }

    #[test]
    fn the_same_kernel_twice_is_within_its_spread() {
        let mut apart = 0;
        for seed in 0..100 {
            let a = measure(&mut Simulated::new(noise(1.0, 0.02, 2 * seed)), None, &LIMITS).unwrap();
            let b = measure(&mut Simulated::new(noise(1.0, 0.02, 2 * seed + 1)), None, &LIMITS).unwrap();
            apart += usize::from((a.median_ms - b.median_ms).abs() > a.spread_ms + b.spread_ms);
        }
        assert!(apart <= 5, "{apart} of 100");
    }

    #[test]
    fn an_error_of_the_device_ends_it() {
        let mut kernel = Simulated::constant(1.0).failing_after(5);
        assert!(measure(&mut kernel, None, &LIMITS).is_err());
        assert_eq!(kernel.batches.len(), 5);
    }
}
