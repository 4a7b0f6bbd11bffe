//! Loads, checks and times candidates.

use bluefin_common::artifact::{ArtifactRef, Prepared};
use bluefin_common::outcome::{Failure, FailureKind};

use super::posed::{Finding, Posed};
use super::reporter::Reporter;
use crate::device::{Device, DeviceError};
use crate::protocol::{Activity, Step};
use crate::timing::{self, Sampler};

/// A candidate that is loaded, bound to all copies of the buffers, and right.
pub(super) struct Checked<'a, D: Device> {
    device: &'a D,
    bound: D::Bound,
    copies: usize,
    /// The copy that the next launch uses.
    next: usize,
    /// The copies do not keep the cache cold.
    flushes: bool,
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
    posed.reset(device)?;
    before_run()?;
    device.run(&bound, 0)?;
    Ok(bound)
}

/// Runs the reference of `posed` and keeps its answer.
pub(super) fn ask_reference<D: Device>(
    device: &D,
    posed: &mut Posed<D>,
    code: &[u8],
    workspace: Option<&D::Memory>,
) -> Result<(), Failure> {
    first_run(device, posed, &posed.task.reference, code, workspace, || Ok(()))?;
    posed.check_intact(device).map_err(|finding| finding.failure)?;
    posed.keep_answer(device)
}

/// Loads a candidate, runs it once, and compares what it did with what the reference did.
pub(super) fn check<'a, D: Device>(
    device: &'a D,
    posed: &Posed<D>,
    index: u32,
    candidate: &Prepared,
    code: &[u8],
    workspace: Option<&D::Memory>,
    reporter: &'a Reporter,
) -> Result<Checked<'a, D>, Finding> {
    let say = |step| reporter.working(Activity { step, candidate: index });
    say(Step::Load)?;
    let bound = first_run(device, posed, candidate, code, workspace, || say(Step::Check))?;
    posed.check_intact(device)?;
    posed.check_outputs(device)?;
    let (copies, stride) = posed.buffers().map(|buffers| (buffers.copies, buffers.stride))?;
    // The first copy was just checked, so it is warm.
    let next = 1 % copies;
    let flushes = !timing::is_cold(stride, copies, device.description().cache_bytes);
    let activity = Activity { step: Step::Time, candidate: index };
    Ok(Checked { device, bound, copies, next, flushes, reporter, activity })
}

impl<D: Device> Sampler for Checked<'_, D> {
    type Error = Failure;

    fn sample(&mut self, batch: u32) -> Result<f64, Failure> {
        self.reporter.working(self.activity)?;
        // A batch is warm whatever comes before it, unless the copies rotate.
        if self.flushes && batch == 1 {
            self.device.flush()?;
        }
        let all = self.device.time(&self.bound, self.next, batch)?;
        self.next = (self.next + batch as usize) % self.copies;
        Ok(all.ms / f64::from(batch.max(1)))
    }
}

impl From<DeviceError> for Finding {
    fn from(error: DeviceError) -> Self {
        Failure::from(error).into()
    }
}
