//! A device that takes the times it is told.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Cache, Limits, Load, Rule, Sample, Sampler, Taken, Trial};

/// The usual limits.
pub(super) const LIMITS: Limits =
    Limits { sample_budget_ms: 100.0, rotation_bytes: 0, cache: Cache::Cold, load: Load::Light, rule: Rule::Protocol };

/// A kernel whose launches take the given times.
pub(super) struct Simulated {
    times_ms: Box<dyn Iterator<Item = f64>>,
    clocks_mhz: Box<dyn Iterator<Item = f32>>,
    waits: Box<dyn Iterator<Item = bool>>,
    timer_ms: f64,
    eviction_ms: f64,
    fails_after: usize,
    breaks: bool,
    broken: bool,
    pub(super) launches: u64,
    pub(super) batches: Vec<u32>,
    pub(super) rests: Vec<Duration>,
}

impl Simulated {
    pub(super) fn new(times_ms: impl IntoIterator<Item = f64, IntoIter: 'static>) -> Self {
        Self {
            times_ms: Box::new(times_ms.into_iter()),
            clocks_mhz: Box::new(std::iter::empty()),
            waits: Box::new(std::iter::empty()),
            timer_ms: 0.0,
            eviction_ms: 0.0,
            fails_after: usize::MAX,
            breaks: false,
            broken: false,
            launches: 0,
            batches: Vec::new(),
            rests: Vec::new(),
        }
    }

    pub(super) fn constant(time_ms: f64) -> Self {
        Self::new(std::iter::repeat(time_ms))
    }

    /// Every sample takes `timer_ms` on top.
    pub(super) fn with_timer_ms(self, timer_ms: f64) -> Self {
        Self { timer_ms, ..self }
    }

    /// Before every sample the device needs `eviction_ms` to cool down.
    pub(super) fn with_eviction_ms(self, eviction_ms: f64) -> Self {
        Self { eviction_ms, ..self }
    }

    /// The device has a clock, which reads this in each sample; none any more at their end.
    pub(super) fn with_clocks(self, clocks_mhz: impl IntoIterator<Item = f32, IntoIter: 'static>) -> Self {
        Self { clocks_mhz: Box::new(clocks_mhz.into_iter()), ..self }
    }

    /// In which samples the kernel was off its CPU; in none any more at their end.
    pub(super) fn with_waits(self, waits: impl IntoIterator<Item = bool, IntoIter: 'static>) -> Self {
        Self { waits: Box::new(waits.into_iter()), ..self }
    }

    pub(super) fn failing_after(self, samples: usize) -> Self {
        Self { fails_after: samples, ..self }
    }

    /// Its failure is the last thing that the device does.
    pub(super) fn breaking_the_device(self) -> Self {
        Self { breaks: true, ..self }
    }
}

impl Simulated {
    fn run(&mut self, batch: u32) -> Result<Sample, &'static str> {
        if self.batches.len() >= self.fails_after {
            self.broken = self.breaks;
            return Err("the device is gone");
        }
        self.batches.push(batch);
        self.launches += u64::from(batch);
        let time_ms = self.times_ms.next().unwrap_or_default();
        let waited = self.waits.next().unwrap_or_default();
        Ok(Sample { ms: time_ms + self.timer_ms / f64::from(batch), clock_mhz: self.clocks_mhz.next(), waited })
    }
}

impl Sampler for Simulated {
    type Error = &'static str;

    fn sample(&mut self, trials: &[Trial]) -> Result<Taken, Self::Error> {
        take(trials, |trial| Ok((self.run(trial.batch)?, self.eviction_ms)))
    }

    fn is_broken(&self) -> bool {
        self.broken
    }

    fn rest(&mut self, time: Duration) -> Result<(), Self::Error> {
        self.rests.push(time);
        Ok(())
    }
}

/// Runs `trials`; each gives its sample, and the milliseconds that were spent before it.
fn take(
    trials: &[Trial],
    mut run: impl FnMut(&Trial) -> Result<(Sample, f64), &'static str>,
) -> Result<Taken, &'static str> {
    let mut taken = Taken::default();
    for trial in trials {
        let (sample, eviction_ms) = run(trial)?;
        taken.wall_ms += eviction_ms + sample.ms * f64::from(trial.batch);
        taken.samples.push(sample);
    }
    Ok(taken)
}

/// Several kernels.
pub(super) struct Panel<'a>(pub(super) &'a mut [Simulated]);

impl Sampler for Panel<'_> {
    type Error = &'static str;

    fn sample(&mut self, trials: &[Trial]) -> Result<Taken, Self::Error> {
        if self.is_broken() {
            return Err("the device was broken");
        }
        take(trials, |trial| {
            let kernel = &mut self.0[trial.candidate];
            Ok((kernel.run(trial.batch)?, kernel.eviction_ms))
        })
    }

    fn is_broken(&self) -> bool {
        self.0.iter().any(|kernel| kernel.broken)
    }

    fn rest(&mut self, time: Duration) -> Result<(), Self::Error> {
        self.0.iter_mut().try_for_each(|kernel| kernel.rest(time))
    }
}

/// Times around `center` with a relative width of `width`, and a slow one now and then, as real ones are.
pub(super) fn noise(center: f64, width: f64, seed: u64) -> impl Iterator<Item = f64> + 'static {
    let mut random = StdRng::seed_from_u64(seed);
    std::iter::from_fn(move || {
        let disturbed = if random.random_range(0..40) == 0 { 3.0 } else { 1.0 };
        Some(center * disturbed * (1.0 + width * random.random_range(-1.0..1.0)))
    })
}
