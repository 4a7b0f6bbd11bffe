//! The samples of one candidate, and whether they are enough.

use bluefin_common::outcome::Timing;

use super::clock::{ClockWatch, Verdict};
use super::statistics::{Estimator, median};
use super::{
    AT_ONCE, AT_ONCE_MS, BATCH_MS, Cache, LOAD_MS, Limits, MAX_BATCH, SHORT_BATCH_MS, SHORT_MS, Sample, Sampler,
    StopRule, Taken, Trial,
};

/// Below this probes are noisy, in milliseconds.
const NOISY_MS: f64 = 0.05;
/// Samples that a stop for stable noise looks back on.
const NOISE_WINDOW: usize = 10;
/// How little the noise and the median may have moved in that window, relative to themselves.
const NOISE_STABLE: f64 = 0.05;
/// Samples in a row that may be taken again because the kernel was stopped. After those it is taken as it is.
const STOPS: u32 = 8;
/// A first sample that took longer was not stopped, but is slow, in milliseconds.
const LONG_STOP_MS: f64 = 1000.0;

/// The samples of one candidate so far.
pub(super) struct Series {
    /// The candidate's place among those that are measured together.
    candidate: usize,
    rule: StopRule,
    /// The best median known, in milliseconds.
    best_ms: Option<f64>,
    /// Launches in one sample.
    batch: u32,
    /// Milliseconds of one launch.
    pub(super) samples: Vec<f64>,
    /// Some sample did not wait: the kernel never does by itself.
    runs_through: bool,
    /// Samples in a row that were taken for nothing, because something stopped the kernel.
    stopped: u32,
    /// Where the device has a clock, what it was in each sample.
    clocks_mhz: Vec<f64>,
    throttled: u32,
    /// Milliseconds on the device, with all that was done between samples.
    spent_ms: f64,
    /// What the last sample took of that.
    last_ms: f64,
    /// Relative standard deviation after each sample from the second on, and the median then.
    noise: Vec<(f64, f64)>,
}

impl Series {
    /// No samples yet of the candidate at this place.
    pub(super) fn new(candidate: usize, rule: StopRule) -> Self {
        Self {
            candidate,
            rule,
            best_ms: None,
            batch: 1,
            samples: Vec::new(),
            runs_through: false,
            stopped: 0,
            clocks_mhz: Vec::new(),
            throttled: 0,
            spent_ms: 0.0,
            last_ms: 0.0,
            noise: Vec::new(),
        }
    }

    /// The same for a candidate of which it is known how fast the best is.
    pub(super) fn against(self, best_ms: Option<f64>) -> Self {
        Self { best_ms, ..self }
    }

    /// Takes the first sample, and finds out how many launches a sample needs.
    pub(super) fn start<S: Sampler>(&mut self, sampler: &mut S, watch: &mut ClockWatch) -> Result<(), S::Error> {
        self.take(1, sampler, watch)?;
        // Of the first it is not known whether the kernel waits by itself or was stopped.
        if !self.runs_through && self.last_ms <= LONG_STOP_MS {
            self.take(1, sampler, watch)?;
        }
        // A single short launch is mostly the timer's own cost and overestimates, so one batch may not be enough to
        // learn the batch. Samples of another batch are not comparable, and are forgotten.
        for _ in 0..2 {
            let estimate = self.samples.first().copied().unwrap_or_default();
            let batch = batch_for(estimate);
            if f64::from(batch) < 1.5 * f64::from(self.batch) {
                break;
            }
            self.batch = batch;
            self.samples.clear();
            self.clocks_mhz.clear();
            self.take(1, sampler, watch)?;
        }
        Ok(())
    }

    /// Takes `count` samples at once.
    pub(super) fn take<S: Sampler>(
        &mut self,
        count: usize,
        sampler: &mut S,
        watch: &mut ClockWatch,
    ) -> Result<(), S::Error> {
        take(std::slice::from_mut(self), &vec![0; count], sampler, watch)
    }

    /// Whether the kernel was stopped in this sample, so that it says nothing, and another one may be better. One that waits in every
    /// sample does so by itself.
    fn is_stopped(&mut self, reading: Sample) -> bool {
        if !reading.waited {
            if !self.runs_through && !self.samples.is_empty() {
                self.samples.clear();
                self.clocks_mhz.clear();
                self.noise.clear();
                self.spent_ms = 0.0;
            }
            (self.runs_through, self.stopped) = (true, 0);
            return false;
        }
        self.stopped += 1;
        self.runs_through && self.stopped <= STOPS
    }

    fn push(&mut self, reading: Sample) {
        self.clocks_mhz.extend(reading.clock_mhz.map(f64::from));
        self.samples.push(reading.ms);
        if self.samples.len() > 1 {
            let summary = Estimator::Robust.summarize(&self.samples);
            self.noise.push((summary.deviation / summary.median.max(f64::MIN_POSITIVE), summary.median));
        }
    }

    /// Samples to take at once: as many as are needed to decide, or a few more than there are.
    pub(super) fn next_count(&self, limits: &Limits) -> usize {
        let count = self.samples.len();
        let wanted = self.enough().checked_sub(count).filter(|missing| *missing > 0).unwrap_or(AT_ONCE);
        // A float that is too large becomes the largest integer.
        let affordable = ((limits.sample_budget_ms - self.spent_ms) / self.cost_ms()).ceil() as usize;
        let affordable = affordable.max(self.rule.probes.saturating_sub(count));
        wanted.min(Timing::MAX_SAMPLES - count.min(Timing::MAX_SAMPLES)).min(affordable).min(self.at_once()).max(1)
    }

    /// Samples that a device may be left alone with.
    pub(super) fn at_once(&self) -> usize {
        // A float that is too large becomes the largest integer.
        ((AT_ONCE_MS / self.cost_ms()) as usize).max(1)
    }

    /// What a sample takes of the device's time, in milliseconds.
    pub(super) fn cost_ms(&self) -> f64 {
        (median(&self.samples) * f64::from(self.batch)).max(self.last_ms).max(f64::MIN_POSITIVE)
    }

    /// Launches that nobody counts, until a device has been busy for as long as it takes to show what its clock is then.
    pub(super) fn put_under_load<S: Sampler>(&self, sampler: &mut S) -> Result<(), S::Error> {
        let trial = Trial { candidate: self.candidate, batch: self.batch };
        let mut left_ms = LOAD_MS;
        while left_ms > 0.0 {
            // A float that is too large becomes the largest integer.
            let count = ((left_ms / self.cost_ms()).ceil() as usize).clamp(1, self.at_once());
            left_ms -= sampler.sample(&vec![trial; count])?.wall_ms.max(self.cost_ms() * count as f64);
        }
        Ok(())
    }

    /// Forgets all samples, what they cost, and how often the device was throttled; not what a sample takes.
    pub(super) fn forget(&mut self) {
        self.last_ms = self.cost_ms();
        self.samples.clear();
        self.clocks_mhz.clear();
        self.noise.clear();
        (self.spent_ms, self.throttled) = (0.0, 0);
    }

    /// Forgets all samples but the last.
    pub(super) fn keep_last(&mut self) {
        self.samples.drain(..self.samples.len().saturating_sub(1));
        self.clocks_mhz.drain(..self.clocks_mhz.len().saturating_sub(1));
        self.noise.clear();
    }

    /// The clock of its samples, where there are enough to tell.
    fn usual_mhz(&self) -> Option<f32> {
        (self.clocks_mhz.len() >= self.rule.probes).then(|| median(&self.clocks_mhz) as f32)
    }

    pub(super) fn spent_ms(&self) -> f64 {
        self.spent_ms
    }

    pub(super) fn min(&self) -> f64 {
        self.samples.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Not worth a second probe.
    pub(super) fn is_hopeless(&self, best_ms: f64) -> bool {
        self.min() > self.rule.hopeless * best_ms
    }

    /// Another sample of one that seems hopeless, unless it costs more than all samples of a candidate may: the device may have been
    /// disturbed in the first. What no other sample contradicts stands.
    pub(super) fn confirm<S: Sampler>(
        &mut self,
        sampler: &mut S,
        watch: &mut ClockWatch,
        limits: &Limits,
    ) -> Result<(), S::Error> {
        if self.samples.len() == 1 && self.spent_ms + self.cost_ms() <= limits.sample_budget_ms {
            self.take(1, sampler, watch)?;
        }
        Ok(())
    }

    /// Clearly slower than the best: even its fastest probe is.
    pub(super) fn is_slow(&self, best_ms: f64) -> bool {
        let factor = if best_ms < NOISY_MS { self.rule.prune_short } else { self.rule.prune };
        self.min() > factor * best_ms
    }

    /// There are enough samples for a median, and even the fastest is too slow for a candidate that may win.
    pub(super) fn is_beaten(&self, best_ms: f64) -> bool {
        self.samples.len() >= self.rule.min_samples && self.min() > self.rule.beaten * best_ms
    }

    /// So much slower than the best that it matters little by how much.
    fn is_behind(&self) -> bool {
        self.best_ms.is_some_and(|best_ms| best_ms >= NOISY_MS && self.min() > self.rule.behind * best_ms)
    }

    /// Samples that are needed at least.
    fn enough(&self) -> usize {
        let StopRule { min_samples, samples_behind, .. } = self.rule;
        if self.is_behind() { min_samples.min(samples_behind) } else { min_samples }
    }

    /// Enough samples, or no more budget for them.
    pub(super) fn is_done(&self, limits: &Limits) -> bool {
        let count = self.samples.len();
        count >= Timing::MAX_SAMPLES
            || count >= self.rule.probes && self.is_spent(limits)
            || count >= self.enough() && self.is_behind()
            || count >= self.rule.min_samples && (self.is_quiet() || self.is_noise_stable())
    }

    pub(super) fn is_spent(&self, limits: &Limits) -> bool {
        self.spent_ms >= limits.sample_budget_ms
    }

    fn is_quiet(&self) -> bool {
        self.noise.last().is_some_and(|(noise, _)| *noise < self.rule.stable)
    }

    /// More samples would show the same noise around the same median.
    fn is_noise_stable(&self) -> bool {
        let Some(recent) = self.noise.len().checked_sub(NOISE_WINDOW).and_then(|start| self.noise.get(start..)) else {
            return false;
        };
        let (noises, medians): (Vec<f64>, Vec<f64>) = recent.iter().copied().unzip();
        is_steady(&noises, NOISE_STABLE) && is_steady(&medians, self.rule.stable)
    }

    /// What the samples amount to.
    pub(super) fn timing(&self, pruned: bool, limits: &Limits) -> Timing {
        let summary = Estimator::Robust.summarize(&self.samples);
        Timing {
            median_ms: summary.median,
            spread_ms: summary.spread,
            samples_ms: self.samples.iter().take(Timing::MAX_SAMPLES).map(|sample| *sample as f32).collect(),
            pruned,
            cold: limits.cache != Cache::Warm,
            throttled: self.throttled,
            clock_mhz: median(&self.clocks_mhz).round() as u32,
        }
    }
}

/// Takes a sample for each of the places in `series` that `order` names, in that order. What a throttled device gave is taken
/// again while there is hope.
pub(super) fn take<S: Sampler>(
    series: &mut [Series],
    order: &[usize],
    sampler: &mut S,
    watch: &mut ClockWatch,
) -> Result<(), S::Error> {
    let mut open = order.to_vec();
    while !open.is_empty() {
        let trials = open.iter().filter_map(|&place| series.get(place));
        let trials: Vec<Trial> = trials.map(|one| Trial { candidate: one.candidate, batch: one.batch }).collect();
        let Taken { samples: readings, wall_ms } = sampler.sample(&trials)?;
        let launches_ms: f64 =
            readings.iter().zip(&trials).map(|(reading, trial)| reading.ms * f64::from(trial.batch)).sum();
        // Whatever was done beside the launches is shared as they are.
        let share = |own_ms: f64| {
            if launches_ms > 0.0 { wall_ms * own_ms / launches_ms } else { wall_ms / readings.len() as f64 }
        };
        let (mut again, mut stopped) = (Vec::new(), Vec::new());
        for (&place, &reading) in open.iter().zip(&readings) {
            let Some(one) = series.get_mut(place) else { continue };
            // What stopped it is none of its cost.
            if one.is_stopped(reading) {
                stopped.push(place);
                continue;
            }
            let verdict = watch.judge(reading, one.usual_mhz());
            one.last_ms = share(reading.ms * f64::from(one.batch));
            one.spent_ms += one.last_ms;
            one.throttled = one.throttled.saturating_add(u32::from(verdict != Verdict::Good));
            if verdict == Verdict::Throttled {
                again.push(place);
            } else {
                one.push(reading);
            }
        }
        if !again.is_empty() {
            let pause = watch.pause();
            sampler.rest(pause)?;
            for place in &again {
                if let Some(one) = series.get_mut(*place) {
                    one.spent_ms += pause.as_secs_f64() * 1000.0;
                }
            }
        }
        again.append(&mut stopped);
        open = again;
    }
    Ok(())
}

fn is_steady(values: &[f64], within: f64) -> bool {
    let center = median(values);
    values.iter().all(|value| (value - center).abs() <= within * center)
}

/// Launches that make a sample long enough for the timer.
fn batch_for(estimate_ms: f64) -> u32 {
    if estimate_ms >= BATCH_MS {
        return 1;
    }
    let sample_ms = if estimate_ms < SHORT_MS { SHORT_BATCH_MS } else { BATCH_MS };
    let launches = (sample_ms / estimate_ms.max(f64::MIN_POSITIVE)).ceil();
    // A float that is too large becomes the largest integer.
    (launches as u32).clamp(1, MAX_BATCH)
}
