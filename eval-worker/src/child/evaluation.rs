//! Loads, checks and times candidates.

use std::cell::Cell;
use std::thread;
use std::time::Duration;

use bluefin_common::artifact::{ArtifactRef, Prepared};
use bluefin_common::outcome::{Failure, FailureKind};

use super::posed::{Finding, Posed};
use super::reporter::Reporter;
use crate::device::{Device, DeviceError};
use crate::protocol::{Activity, Step};
use crate::timing::{Cooling, Sample, Sampler};

/// Launches that one sample is the mean of, where each needs a flush that takes longer than itself.
const MAX_FLUSHES: u32 = 16;

/// A candidate that is loaded, bound to all copies of the buffers, and right.
pub(super) struct Checked<'a, D: Device> {
    device: &'a D,
    bound: D::Bound,
    cooling: Cooling,
    /// The copy that the next launch uses, whichever candidate's it is: one that came right after another's on the same
    /// copy would find its data in the cache.
    next: &'a Cell<usize>,
    reporter: &'a Reporter,
    activity: Activity,
}

/// Loads `code` and runs it once on the first copy of `posed`.
fn first_run<D: Device>(
    device: &D,
    posed: &Posed<D>,
    candidate: &Prepared,
    code: &[u8],
    workspace: Option<&D::Memory>,
    reporter: &Reporter,
    before_run: impl FnOnce() -> Result<(), Failure>,
) -> Result<D::Bound, Failure> {
    let found = ArtifactRef::of(code);
    if found != candidate.artifact {
        let detail =
            format!("artifact: found {} of {} bytes, expected {}", found.digest, found.size, candidate.artifact.digest);
        return Err(Failure::new(FailureKind::LoadError, detail));
    }
    if candidate.launches.is_empty() {
        return Err(Failure::new(FailureKind::InvalidLaunch, "found no launch, expected at least one"));
    }
    let module = device.load(code, &candidate.launches)?;
    let bound = device.bind(&module, &candidate.launches, &posed.buffers()?, workspace)?;
    before_run()?;
    reset(device, posed, reporter)?;
    reporter.on_device(|| device.run(&bound, 0))?;
    Ok(bound)
}

fn reset<D: Device>(device: &D, posed: &Posed<D>, reporter: &Reporter) -> Result<(), Failure> {
    let reset = || posed.reset(device);
    if posed.is_checked_on_device() { reporter.on_device(reset) } else { reset() }
}

/// Runs the reference of `posed` and keeps its answer.
pub(super) fn ask_reference<D: Device>(
    device: &D,
    posed: &mut Posed<D>,
    code: &[u8],
    workspace: Option<&D::Memory>,
    reporter: &Reporter,
) -> Result<(), Failure> {
    first_run(device, posed, &posed.task.reference, code, workspace, reporter, || Ok(()))?;
    posed.check_intact(device).map_err(|finding| finding.failure)?;
    posed.keep_answer(device, code)
}

/// Loads a candidate, runs it once, and compares what it did with what the reference did.
pub(super) fn check<'a, D: Device>(
    device: &'a D,
    posed: &'a Posed<D>,
    index: u32,
    candidate: &Prepared,
    code: &[u8],
    workspace: Option<&D::Memory>,
    reporter: &'a Reporter,
) -> Result<Checked<'a, D>, Finding> {
    let say = |step| reporter.working(Activity { step, candidate: index });
    say(Step::Load)?;
    let bound = first_run(device, posed, candidate, code, workspace, reporter, || say(Step::Check))?;
    let again = || {
        posed.reset(device)?;
        Ok(device.run(&bound, 0)?)
    };
    let judge = || posed.judge(device, again);
    let judged = if posed.is_checked_on_device() { reporter.on_device(judge) } else { judge() };
    judged?;
    let cooling = posed.cooling();
    // The first copy was just checked, so it is warm.
    posed.next.set(1 % cooling.copies());
    Ok(Checked { device, bound, cooling, next: &posed.next, reporter, activity: Activity { step: Step::Time, candidate: index } })
}

impl<D: Device> Sampler for Checked<'_, D> {
    type Error = Failure;

    fn sample(&mut self, batch: u32) -> Result<Sample, Failure> {
        self.reporter.working(self.activity)?;
        match self.cooling {
            Cooling::Rotate(copies) => {
                let Sample { ms, clock_mhz } =
                    self.reporter.on_device(|| self.device.time(&self.bound, self.next.get(), batch))?;
                self.reporter.sampled(ms);
                self.next.set((self.next.get() + batch as usize) % copies);
                Ok(Sample { ms: ms / f64::from(batch.max(1)), clock_mhz })
            }
            Cooling::Flush => {
                let launches = batch.clamp(1, MAX_FLUSHES);
                let mut mean = Sample { ms: 0.0, clock_mhz: None };
                for _ in 0..launches {
                    self.reporter.working(self.activity)?;
                    let one = self.reporter.on_device(|| {
                        self.device.flush()?;
                        self.device.time(&self.bound, 0, 1)
                    })?;
                    self.reporter.sampled(one.ms);
                    mean = Sample { ms: mean.ms + one.ms / f64::from(launches), ..one };
                }
                Ok(mean)
            }
        }
    }

    fn rest(&mut self, time: Duration) -> Result<(), Failure> {
        self.reporter.working(self.activity)?;
        thread::sleep(time);
        Ok(())
    }
}

impl From<DeviceError> for Finding {
    fn from(error: DeviceError) -> Self {
        Failure::from(error).into()
    }
}
