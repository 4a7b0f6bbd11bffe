//! The samples of one candidate, and whether they are enough.

use bluefin_common::outcome::Timing;

use super::statistics::{Estimator, median};
use super::{
    BATCH_BELOW_MS, BATCH_MS, Cache, ClockWatch, HOPELESS, Limits, MAX_BATCH, MIN_SAMPLES, PROBES, PRUNE, PRUNE_SHORT,
    SHORT_MS, STABLE, Sampler,
};

/// Samples that a stop for stable noise looks back on.
const NOISE_WINDOW: usize = 10;
/// How little the noise and the median may have moved in that window, relative to themselves.
const NOISE_STABLE: f64 = 0.05;

/// The samples of one candidate so far.
pub(super) struct Series {
    /// Launches in one sample.
    batch: u32,
    /// Milliseconds of one launch.
    pub(super) samples: Vec<f64>,
    /// Where the device has a clock, what it was in each sample.
    clocks_mhz: Vec<f64>,
    throttled: u32,
    /// Milliseconds on the device.
    spent_ms: f64,
    /// Relative standard deviation after each sample from the second on, and the median then.
    noise: Vec<(f64, f64)>,
}

impl Series {
    /// Takes the first sample, and finds out how many launches a sample needs.
    pub(super) fn start<S: Sampler>(sampler: &mut S, watch: &mut ClockWatch) -> Result<Self, S::Error> {
        let mut series = Self {
            batch: 1,
            samples: Vec::new(),
            clocks_mhz: Vec::new(),
            throttled: 0,
            spent_ms: 0.0,
            noise: Vec::new(),
        };
        series.take(sampler, watch)?;
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
            series.clocks_mhz.clear();
            series.take(sampler, watch)?;
        }
        Ok(series)
    }

    pub(super) fn take<S: Sampler>(&mut self, sampler: &mut S, watch: &mut ClockWatch) -> Result<(), S::Error> {
        let (reading, throttled, spent_ms) = watch.sample(sampler, self.batch)?;
        self.throttled = self.throttled.saturating_add(throttled);
        self.spent_ms += spent_ms;
        self.clocks_mhz.extend(reading.clock_mhz.map(f64::from));
        self.samples.push(reading.ms);
        if self.samples.len() > 1 {
            let summary = Estimator::Robust.summarize(&self.samples);
            self.noise.push((summary.deviation / summary.median.max(f64::MIN_POSITIVE), summary.median));
        }
        Ok(())
    }

    /// Forgets all samples but the last.
    pub(super) fn keep_last(&mut self) {
        self.samples.drain(..self.samples.len().saturating_sub(1));
        self.clocks_mhz.drain(..self.clocks_mhz.len().saturating_sub(1));
        self.noise.clear();
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
    pub(super) fn is_slow(&self, best_ms: f64) -> bool {
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

    /// What the samples amount to.
    pub(super) fn timing(&self, pruned: bool, limits: &Limits) -> Timing {
        let summary = Estimator::Robust.summarize(&self.samples);
        Timing {
            median_ms: summary.median,
            spread_ms: summary.spread,
            samples_ms: self.samples.iter().take(Timing::MAX_SAMPLES).map(|sample| *sample as f32).collect(),
            pruned,
            cold: limits.cache == Cache::Cold,
            throttled: self.throttled,
            clock_mhz: median(&self.clocks_mhz).round() as u32,
        }
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
