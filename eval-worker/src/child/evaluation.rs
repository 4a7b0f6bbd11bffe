//! Loads, checks and times candidates.

use std::thread;
use std::time::Duration;

use bluefin_common::artifact::{Launch, Prepared, Task};
use bluefin_common::digest::Digest;
use bluefin_common::outcome::{Failure, FailureKind};

use super::posed::{Finding, Posed};
use super::reporter::Reporter;
use crate::device::{Device, DeviceError, MAX_RUNS, Run};
use crate::protocol::{Activity, Step};
use crate::timing::{Cooling, Limits, Sample, Sampler, Trial};

/// Launches that one sample is the mean of, where each needs a flush that takes longer than itself.
const MAX_FLUSHES: u32 = 16;

/// A candidate that is loaded, bound to all copies of the buffers, and right.
pub(super) struct Checked<D: Device> {
    bound: D::Bound,
    /// Its place within the request.
    index: u32,
}

/// Loads the reference of a task and asks it for the answer. `workspace` is as large as it wants.
pub(super) fn pose<D: Device>(
    device: &D,
    (key, task, seed): (Digest, Task, u64),
    code: &[u8],
    workspace: Option<&D::Memory>,
    limits: &Limits,
    reporter: &Reporter,
) -> Result<Posed<D>, Failure> {
    let module = device.load(code)?;
    Posed::new(device, &module, (key, task, seed), limits, |posed| {
        let launches = launches_of(&posed.task.reference)?;
        let bound = device.bind(&module, launches, &posed.buffers(), workspace)?;
        reporter.working(Activity { step: Step::Check, candidate: Some(0) })?;
        Ok(device.run(&bound, 0)?)
    })
}

/// Loads a candidate, runs it once, and compares what it did with what the reference did.
pub(super) fn check<D: Device>(
    device: &D,
    posed: &Posed<D>,
    (index, candidate): (u32, &Prepared),
    code: &[u8],
    workspace: Option<&D::Memory>,
    reporter: &Reporter,
) -> Result<Checked<D>, Finding> {
    let say = |step| reporter.working(Activity { step, candidate: Some(index) });
    say(Step::Load)?;
    let launches = launches_of(candidate)?;
    let module = device.load(code)?;
    let bound = device.bind(&module, launches, &posed.buffers(), workspace)?;
    let run = || {
        say(Step::Check)?;
        posed.reset(device)?;
        Ok(device.run(&bound, 0)?)
    };
    let check = || {
        run()?;
        posed.judge(device, run)
    };
    if posed.is_checked_on_device() { reporter.on_device(check) } else { check() }?;
    // The first copy is warm now.
    posed.next.set(1 % posed.cooling().copies());
    Ok(Checked { bound, index })
}

fn launches_of(prepared: &Prepared) -> Result<&[Launch], Failure> {
    if prepared.launches.is_empty() {
        return Err(Failure::new(FailureKind::InvalidLaunch, "found no launch, expected at least one"));
    }
    Ok(&prepared.launches)
}

/// Times candidates of one task.
pub(super) struct Stand<'a, D: Device> {
    pub(super) device: &'a D,
    pub(super) posed: &'a Posed<D>,
    pub(super) candidates: &'a [Checked<D>],
    pub(super) reporter: &'a Reporter,
}

impl<D: Device> Stand<'_, D> {
    /// Samples of as many trials as a device takes at once.
    fn at_once(&self, trials: &[Trial]) -> Result<Vec<Sample>, Failure> {
        let cooling = self.posed.cooling();
        let chosen: Vec<&Checked<D>> = trials.iter().filter_map(|trial| self.candidates.get(trial.candidate)).collect();
        let index = chosen.first().map(|first| first.index);
        // Of several it is not known which one is on the device.
        let candidate = index.filter(|index| chosen.iter().all(|one| one.index == *index));
        self.reporter.working(Activity { step: Step::Time, candidate })?;
        let mut runs = Vec::new();
        for (one, trial) in chosen.into_iter().zip(trials) {
            let first = self.posed.next.get();
            self.posed.next.set((first + trial.batch as usize) % cooling.copies());
            runs.push(Run { bound: &one.bound, first, count: trial.batch, flush: cooling == Cooling::Flush });
        }
        let samples = self.reporter.on_device(|| self.device.time(&runs))?;
        self.reporter.sampled(samples.iter().map(|sample| sample.ms).sum());
        Ok(samples)
    }

    /// Where each launch needs a flush of its own: the mean of some.
    fn flushed(&self, trial: Trial) -> Result<Sample, Failure> {
        let launches = trial.batch.clamp(1, MAX_FLUSHES);
        let samples = self.at_once(&vec![Trial { batch: 1, ..trial }; launches as usize])?;
        let ms = samples.iter().map(|sample| sample.ms).sum::<f64>() / f64::from(launches);
        Ok(Sample { ms, clock_mhz: samples.last().and_then(|sample| sample.clock_mhz) })
    }
}

impl<D: Device> Sampler for Stand<'_, D> {
    type Error = Failure;

    fn sample(&mut self, trials: &[Trial]) -> Result<Vec<Sample>, Failure> {
        if self.posed.cooling() == Cooling::Flush && trials.iter().any(|trial| trial.batch > 1) {
            return trials.iter().map(|trial| self.flushed(*trial)).collect();
        }
        let mut samples = Vec::new();
        for trials in trials.chunks(MAX_RUNS) {
            samples.extend(self.at_once(trials)?);
        }
        let mean =
            |(sample, trial): (Sample, &Trial)| Sample { ms: sample.ms / f64::from(trial.batch.max(1)), ..sample };
        Ok(samples.into_iter().zip(trials).map(mean).collect())
    }

    fn is_broken(&self) -> bool {
        self.device.is_broken()
    }

    fn rest(&mut self, time: Duration) -> Result<(), Failure> {
        self.reporter.working(Activity { step: Step::Time, candidate: None })?;
        thread::sleep(time);
        Ok(())
    }
}

impl From<DeviceError> for Finding {
    fn from(error: DeviceError) -> Self {
        Failure::from(error).into()
    }
}
