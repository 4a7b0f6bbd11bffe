//! Loads, checks and times candidates.

use std::thread;
use std::time::{Duration, Instant};

use bluefin_common::artifact::{Built, Launch};
use bluefin_common::digest::Digest;
use bluefin_common::failure::{Failure, FailureKind};
use bluefin_common::task::Task;

use super::posed::{Finding, Posed};
use super::reporter::Reporter;
use crate::device::{Device, DeviceError, MAX_RUNS, Run};
use crate::protocol::{Activity, Phase};
use crate::timing::{Cooling, Limits, Sample, Sampler, Taken, Trial};

/// Evictions for one sample at most, where each may take longer than the launches that follow it.
const MAX_EVICTIONS: usize = 16;

/// A candidate that is loaded, bound to all copies of the buffers, and right.
pub(super) struct Checked<D: Device> {
    bound: D::Bound,
    /// Its place within the request.
    index: u32,
}

/// What is loaded of a candidate.
pub(super) struct Loaded<'a, D: Device> {
    pub(super) code: &'a [u8],
    /// As large as it wants; `None` if it wants none.
    pub(super) workspace: Option<&'a D::Memory>,
}

/// Loads the reference of a task and asks it for the answer.
pub(super) fn pose<D: Device>(
    device: &D,
    (key, task, seed): (Digest, Task, u64),
    data: &[Vec<u8>],
    loaded: &Loaded<'_, D>,
    limits: &Limits,
    reporter: &Reporter,
) -> Result<Posed<D>, Failure> {
    let module = device.load(loaded.code)?;
    Posed::new(device, &module, (key, task, seed), data, limits, |posed| {
        let launches = launches_of(&posed.task.reference)?;
        let bound = device.bind(&module, launches, &posed.buffers(), loaded.workspace)?;
        reporter.working(Activity { phase: Phase::Check, candidate: Some(0) })?;
        let started = Instant::now();
        device.run(&bound, 0)?;
        Ok(started.elapsed())
    })
}

/// Loads a candidate, runs it once, and compares what it did with what the reference did.
pub(super) fn check<D: Device>(
    device: &D,
    posed: &Posed<D>,
    (index, candidate): (u32, &Built),
    loaded: &Loaded<'_, D>,
    reporter: &Reporter,
) -> Result<Checked<D>, Finding> {
    let say = |phase| reporter.working(Activity { phase, candidate: Some(index) });
    say(Phase::Load)?;
    let launches = launches_of(candidate)?;
    let module = device.load(loaded.code)?;
    let bound = device.bind(&module, launches, &posed.buffers(), loaded.workspace)?;
    if let Some(resources) = device.resources(&bound) {
        reporter.loaded(index, resources)?;
    }
    // Alone: what the draw that is compared leaves out may have been written for the one before it.
    let last = posed.task.last_draw(candidate);
    let alone = (last.len() < launches.len())
        .then(|| device.bind(&module, last, &posed.buffers(), loaded.workspace))
        .transpose()?;
    let check = || {
        for bound in alone.iter().chain([&bound]) {
            let run = || {
                posed.reset(device)?;
                // From here on the parent waits for the candidate alone.
                say(Phase::Check)?;
                device.run(bound, 0)?;
                say(Phase::Compare)
            };
            run()?;
            posed.judge(device, run)?;
        }
        Ok::<(), Finding>(())
    };
    if posed.is_checked_on_device() { reporter.on_device(check) } else { check() }?;
    if let Cooling::Rotate(copies) = posed.cooling() {
        // The first copy is warm now.
        posed.next.set(1 % copies);
    }
    Ok(Checked { bound, index })
}

fn launches_of(built: &Built) -> Result<&[Launch], Failure> {
    if built.launches.is_empty() {
        return Err(Failure::new(FailureKind::InvalidLaunch, "found no launch, expected at least one"));
    }
    Ok(&built.launches)
}

/// Times candidates of one task.
pub(super) struct Stand<'a, D: Device> {
    pub(super) device: &'a D,
    pub(super) posed: &'a Posed<D>,
    pub(super) candidates: &'a [Checked<D>],
    pub(super) reporter: &'a Reporter,
}

impl<D: Device> Stand<'_, D> {
    /// What a device takes at once of `parts`, each of which is a part of a trial.
    fn at_once(&self, parts: &[Trial]) -> Result<Vec<Sample>, Failure> {
        let cooling = self.posed.cooling();
        let chosen: Vec<&Checked<D>> = parts.iter().filter_map(|part| self.candidates.get(part.candidate)).collect();
        let index = chosen.first().map(|first| first.index);
        // Of several it is not known which one is on the device.
        let candidate = index.filter(|index| chosen.iter().all(|one| one.index == *index));
        self.reporter.working(Activity { phase: Phase::Time, candidate })?;
        let refill = self.posed.refill();
        let mut runs = Vec::new();
        for (one, part) in chosen.into_iter().zip(parts) {
            let (first, evict) = cooling.turn(&self.posed.next, part.batch as usize);
            runs.push(Run { bound: &one.bound, first, count: part.batch, refill, evict });
        }
        let samples = self.reporter.on_device(|| self.device.time(&runs))?;
        self.reporter.sampled(samples.iter().map(|sample| sample.ms).sum());
        Ok(samples)
    }
}

/// A trial in parts that are run without a pause: where copies are evicted, or filled, each has as many launches as there are copies.
fn parts(trial: Trial, cooling: Cooling, refilled: bool) -> Vec<Trial> {
    let batch = trial.batch.max(1);
    let most = match cooling {
        Cooling::Rotate(_) if !refilled => batch,
        Cooling::Rotate(copies) | Cooling::Evict(copies) => u32::try_from(copies).unwrap_or(batch).clamp(1, batch),
    };
    let starts = (0..batch).step_by(most as usize).take(MAX_EVICTIONS);
    starts.map(|start| Trial { batch: most.min(batch - start), ..trial }).collect()
}

impl<D: Device> Sampler for Stand<'_, D> {
    type Error = Failure;

    fn sample(&mut self, trials: &[Trial]) -> Result<Taken, Failure> {
        let start = Instant::now();
        let cooling = self.posed.cooling();
        let refilled = self.posed.refill().is_some();
        // A trial counts draws, and a run computes several.
        let draws = self.posed.task.draws();
        let runs = |trial: &Trial| Trial { batch: trial.batch.div_ceil(draws), ..*trial };
        let parts: Vec<Vec<Trial>> = trials.iter().map(|trial| parts(runs(trial), cooling, refilled)).collect();
        let all: Vec<Trial> = parts.iter().flatten().copied().collect();
        let mut readings = Vec::new();
        for parts in all.chunks(MAX_RUNS) {
            readings.extend(self.at_once(parts)?);
        }
        let mut readings = readings.into_iter();
        let sample = |parts: &Vec<Trial>| {
            let readings: Vec<Sample> = readings.by_ref().take(parts.len()).collect();
            let launches = parts.iter().map(|part| part.batch.saturating_mul(draws)).fold(0, u32::saturating_add);
            let ms = readings.iter().map(|reading| reading.ms).sum::<f64>() / f64::from(launches.max(1));
            let waited = readings.iter().any(|reading| reading.waited);
            Sample { ms, clock_mhz: readings.last().and_then(|reading| reading.clock_mhz), waited }
        };
        let samples = parts.iter().map(sample).collect();
        Ok(Taken { samples, wall_ms: start.elapsed().as_secs_f64() * 1000.0 })
    }

    fn is_broken(&self) -> bool {
        self.device.is_broken()
    }

    fn rest(&mut self, time: Duration) -> Result<(), Failure> {
        self.reporter.working(Activity { phase: Phase::Time, candidate: None })?;
        thread::sleep(time);
        Ok(())
    }
}

impl From<DeviceError> for Finding {
    fn from(error: DeviceError) -> Self {
        Failure::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_is_made_in_parts_of_as_many_launches_as_there_are_copies() {
        let parts_of = |batch, cooling, refilled| {
            let parts = parts(Trial { candidate: 3, batch }, cooling, refilled);
            assert!(parts.iter().all(|part| part.candidate == 3));
            parts.into_iter().map(|part| part.batch).collect::<Vec<_>>()
        };
        let parts = |batch, cooling| parts_of(batch, cooling, false);
        assert_eq!(parts_of(5, Cooling::Rotate(1), true), [1; 5]);
        assert_eq!(parts(1000, Cooling::Rotate(7)), [1000]);
        assert_eq!(parts(1000, Cooling::Evict(4096)), [1000]);
        assert_eq!(parts(1000, Cooling::Evict(400)), [400, 400, 200]);
        assert_eq!(parts(1000, Cooling::Evict(1)), [1; MAX_EVICTIONS]);
        assert_eq!(parts(0, Cooling::Evict(1)), [1]);
    }
}
