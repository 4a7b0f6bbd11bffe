//! What came of a job: for each candidate a timing or a failure.

mod previous;

use serde::{Deserialize, Serialize};

use crate::artifact::Built;
use crate::candidate::Candidate;
use crate::course::Course;
use crate::description::Description;
use crate::digest::Digest;
use crate::failure::{Attempt, Failure, FailureKind};
use crate::job::{EvalJob, GroupId, Job, JobId};
use crate::wire::{Body, Message, WireError};

/// Times of one candidate. All in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Median of the samples that were kept.
    pub median_ms: f64,
    /// Spread: median absolute deviation, scaled by 1.4826 to estimate a standard deviation.
    pub spread_ms: f64,
    /// Samples in the order they were taken, outliers included, at most [`Timing::MAX_SAMPLES`].
    pub samples_ms: Vec<f32>,
    /// Only probed: clearly slower than the best known of its problem, so not measured to the end.
    pub pruned: bool,
    /// Whether the caches of the device were cold before each sample.
    pub cold: bool,
    /// Samples at less than three quarters of the reference clock: taken again, or kept where a power limit leaves no more.
    pub throttled: u32,
    /// Median clock of the device during the samples in MHz; 0 where it is not measured.
    pub clock_mhz: u32,
}

impl Timing {
    /// Samples kept.
    pub const MAX_SAMPLES: usize = 64;

    /// Samples from which on their order bounds the median: it lies between the smallest and the largest of six with 97 %.
    pub const EVIDENCE: usize = 6;

    /// The interval in which the true median lies, in milliseconds, and at least 0.3 percent to either side: medians of one kernel
    /// under two names are up to twice that apart.
    ///
    /// Between two order statistics of the samples that are no outliers, with a confidence of 95 %, whatever their distribution (David
    /// and Nagaraja, "Order Statistics", 2003, 7.1). `None` for fewer than [`Timing::EVIDENCE`] of those.
    #[must_use]
    pub fn interval_ms(&self) -> Option<(f64, f64)> {
        let mut samples: Vec<f32> = self.samples_ms.iter().copied().filter(|ms| self.is_usual(*ms)).collect();
        samples.sort_by(f32::total_cmp);
        if samples.len() < Self::EVIDENCE {
            return None;
        }
        let outside = samples_outside(samples.len());
        let (low, high) = (samples.get(outside)?, samples.get(samples.len() - 1 - outside)?);
        let floor = 0.003 * self.median_ms;
        Some((f64::from(*low).min(self.median_ms - floor), f64::from(*high).max(self.median_ms + floor)))
    }

    /// Whether a sample is no outlier, as for the median, see the timing protocol; of samples that are nearly all the same none is.
    fn is_usual(&self, ms: f32) -> bool {
        let usual_ms = if self.spread_ms > 0.0 { 3.5 * self.spread_ms } else { f64::INFINITY };
        (f64::from(ms) - self.median_ms).abs() <= usual_ms
    }

    /// As many samples, of few different times, which decide ties and finalists as its own do: outliers, and the ends of its range and
    /// of its interval. The rest is the median.
    #[must_use]
    pub fn summary_ms(&self) -> Vec<f32> {
        let mut samples = self.samples_ms.clone();
        samples.sort_by(f32::total_cmp);
        let usual = samples.iter().filter(|ms| self.is_usual(**ms)).count();
        let first = samples.iter().position(|ms| self.is_usual(*ms)).unwrap_or_default();
        let outside = samples_outside(usual);
        let at = |place: usize| samples.get(first + place).copied().unwrap_or(self.median_ms as f32);
        let (low, high) = (at(outside), at(usual.saturating_sub(1 + outside)));
        let summary = |(index, ms): (usize, f32)| match index.checked_sub(first).filter(|place| *place < usual) {
            None => ms,
            Some(place) if place == 0 || place + 1 == usual => ms,
            Some(place) if place <= outside => low,
            Some(place) if place + 1 + outside >= usual => high,
            Some(_) => self.median_ms as f32,
        };
        samples.iter().copied().enumerate().map(summary).collect()
    }

    /// The fastest sample and the slowest, in milliseconds; the median where there are none.
    #[must_use]
    pub fn range_ms(&self) -> (f64, f64) {
        let samples = self.samples_ms.iter().copied().map(f64::from);
        samples.fold((self.median_ms, self.median_ms), |(low, high), ms| (low.min(ms), high.max(ms)))
    }

    /// A single sample of `ms`, by somebody who says no more.
    #[must_use]
    pub fn single(ms: f64) -> Self {
        Self {
            median_ms: ms,
            spread_ms: 0.0,
            samples_ms: vec![ms as f32],
            pruned: false,
            cold: false,
            throttled: 0,
            clock_mhz: 0,
        }
    }
}

/// How many of `count` samples lie below an interval that covers the median with 95 %, and as many above: the median is beyond the
/// `k`-th of them with the probability that a fair coin falls on one side fewer than `k` times.
fn samples_outside(count: usize) -> usize {
    let mut term = 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX));
    let (mut below, mut outside) = (term, 0);
    while outside < count / 2 {
        term *= (count - outside) as f64 / (outside + 1) as f64;
        below += term;
        if below > 0.025 {
            break;
        }
        outside += 1;
    }
    outside
}

/// The state of a device while a job was on it. Empty or absent: the device does not tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceState {
    /// As the driver tells one GPU from all others.
    pub uuid: String,
    /// Versions of driver and runtime.
    pub driver: String,
    /// Degrees Celsius when the job ended.
    pub temperature_c: Option<i16>,
    /// Watts when the job ended.
    pub power_w: Option<u32>,
    /// Clock in MHz that samples were held against.
    pub reference_clock_mhz: Option<u32>,
    /// What else it did while the job was on it.
    pub disturbance: Option<Disturbance>,
}

/// What kept a device from a job while that was on it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// Share of the time in which the job's kernels could have run that other programs had their CPU: 0 to 1.
    pub waiting: f32,
    /// Share of the machine's time that a hypervisor gave to other machines: 0 to 1.
    pub stolen: f32,
    /// How many times as long as usual the device took for the same fixed work when the job ended: a lower clock, a shared core or
    /// memory, a limit of heat. 1 or more.
    pub slowdown: f32,
}

/// What came of one candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CandidateOutcome {
    /// As the job has it; with the params that a tool found, where a tool searched.
    pub candidate: Candidate,
    /// What ran; absent where it did not compile.
    pub built: Option<Built>,
    /// Its times, or why there are none.
    pub result: Attempt<Timing>,
    /// What it takes of a device, where a driver said so before it ran.
    pub resources: Option<Resources>,
}

/// What a kernel takes of a GPU, as the driver says of what it loaded; of several launches the most of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Of a thread.
    pub registers: u32,
    /// Bytes that a thread has in memory instead: what did not fit into registers, and arrays that are indexed.
    pub spilled: u32,
    /// Bytes of shared memory, or of LDS, of a block.
    pub shared: u32,
    /// Blocks that a multiprocessor, or compute unit, has room for at a time. `None`: the driver does not say.
    pub resident: Option<u32>,
}

impl Resources {
    /// Those of both, launched one after the other.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            registers: self.registers.max(other.registers),
            spilled: self.spilled.max(other.spilled),
            shared: self.shared.max(other.shared),
            resident: self.resident.zip(other.resident).map(|(a, b)| a.min(b)),
        }
    }
}

/// What came of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// All of it, so that an outcome can be read without its plan.
    pub job: Job,
    /// The blob that the candidates were checked by, where there is one.
    pub task: Option<Digest>,
    /// What the job was sent with, and what the tool found out.
    pub description: Description,
    /// One for each candidate of the job, in its order; their params are those that a tool of MIOpen's found. MIOpenDriver
    /// finds solvers too: one for each of those.
    pub candidates: Vec<CandidateOutcome>,
    /// The device it was evaluated on, as the device names itself; empty where no candidate got that far.
    pub device: String,
    /// As it was when the job ended.
    pub device_state: DeviceState,
    /// Version of the timing protocol; 0 where a tool of MIOpen's measured.
    pub protocol: u16,
    /// Milliseconds of the eval worker's time that it took.
    pub busy_ms: u64,
    /// Milliseconds since the Unix epoch.
    pub finished_ms: u64,
    /// Who worked on it, and when.
    pub course: Course,
    /// Outputs in which two runs of the reference with the same inputs differed: candidates were compared within a tolerance that is
    /// as much wider.
    pub nondeterministic: Vec<String>,
}

impl Outcome {
    /// The key that the outcome is stored under: the first one of a job stands.
    #[must_use]
    pub fn job_id(&self) -> JobId {
        self.job.id()
    }

    /// What the store keeps outcomes by, and decides a winner in.
    #[must_use]
    pub fn group(&self) -> GroupId {
        self.job.group()
    }

    /// The outcome of a job that never reached a device.
    #[must_use]
    pub fn undone(job: &Job, description: Description, candidates: Vec<CandidateOutcome>, finished_ms: u64) -> Self {
        Self {
            job: job.clone(),
            task: None,
            description,
            candidates,
            device: String::new(),
            device_state: DeviceState::default(),
            protocol: 0,
            busy_ms: 0,
            finished_ms,
            course: Course::default(),
            nondeterministic: Vec::new(),
        }
    }

    /// What is said of a reference whose results differ, where they do.
    #[must_use]
    pub fn not_deterministic(&self) -> Option<String> {
        not_deterministic(&self.nondeterministic)
    }

    /// The outcome of a job that was given up: every candidate failed with [`FailureKind::Dead`] and `reason`.
    #[must_use]
    pub fn dead(job: &Job, reason: &str, finished_ms: u64) -> Self {
        let failure = Failure::new(FailureKind::Dead, reason);
        Self::undone(job, Description::default(), CandidateOutcome::all_failed(job, &failure), finished_ms)
    }

    /// The outcome of a compiled job that was given up.
    #[must_use]
    pub fn dead_compiled(eval_job: &EvalJob, reason: &str, finished_ms: u64) -> Self {
        let dead = Self::dead(&eval_job.job, reason, finished_ms);
        Self { description: eval_job.description.clone(), course: eval_job.course(None), ..dead }
    }
}

/// What is said of a reference whose results differ in `outputs`, where there are any.
#[must_use]
pub fn not_deterministic(outputs: &[String]) -> Option<String> {
    let said = || format!("not deterministic: two runs of the reference differ in {}", outputs.join(", "));
    (!outputs.is_empty()).then(said)
}

impl CandidateOutcome {
    /// That of a candidate of which nobody said what it takes of a device.
    #[must_use]
    pub fn of(candidate: Candidate, built: Option<Built>, result: Attempt<Timing>) -> Self {
        Self { candidate, built, result, resources: None }
    }

    /// The same failure for every candidate of `job`.
    #[must_use]
    pub fn all_failed(job: &Job, failure: &Failure) -> Vec<Self> {
        let failed = |candidate: &Candidate| Self::of(candidate.clone(), None, Err(failure.clone()));
        job.candidates.iter().map(failed).collect()
    }
}

impl Message for Outcome {
    const KIND: u8 = 3;
    const VERSION: u8 = 3;
    const NAME: &'static str = "outcome";
    const IS_PACKED: bool = true;

    /// What an outcome of version 2 has is written as it always was.
    fn version(&self) -> u8 {
        let built = self.candidates.iter().filter_map(|candidate| candidate.built.as_ref());
        built.map(Built::version).fold(2, u8::max)
    }

    fn of_previous(version: u8, body: &mut Body<'_>) -> Option<Result<Self, WireError>> {
        match version {
            1 => Some(body.read::<Self, previous::Outcome>().map(Self::from)),
            2 => Some(body.read::<Self, Self>()),
            _ => None,
        }
    }
}
