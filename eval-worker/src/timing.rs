//! The timing protocol: when to sample, how often, when to stop, and what the samples say. Knows no device and reads no
//! clock: whoever implements [`Sampler`] does.
//!
//! A candidate is probed, then sampled until its median is known well enough or its budget is spent. Probes that are
//! clearly slower than the best known of the problem end it there: most candidates of a tuning space are hopeless.
//!
//! What version 9 of the protocol is, and whom each rule is from:
//!
//! | rule | here | from |
//! | --- | --- | --- |
//! | warm-up of the device only after 0.5 s of idle time: spin until three readings of the clock agree, at most 1 s | [`warm_up`] | clocks of an MI300 take 400 ms to rise (composable_kernel issue 1241) |
//! | one launch of each candidate is not timed, and is what is checked | the child | MIOpen issue 1993: first launches take 100 times as long |
//! | three probes, the last two at once; the end if the fastest is 1.5 times the incumbent, 2 times below 50 µs | [`measure`] | MIOpen issues 1536, 2833, 3294: one probe rejects good candidates, short kernels need more tolerance |
//! | the end after one probe of 10 times the incumbent | [`measure`] | OpenTuner's limit on the time of a trial |
//! | cold caches: buffers rotate, or their copies are evicted outside of the timed span | [`Cooling`] | hipBLASLt's rotating buffers, Triton's `do_bench`, nvbench |
//! | samples are queued on the device before the first is waited for, as many as take 50 ms | [`measure`], [`play_off`] | Triton's `do_bench`: the host's launch is no part of a time, and no pause lets the clock fall |
//! | kernels below 20 µs in batches of 1 ms, others in batches of at least 0.3 ms | [`measure`] | rocMLIR issue 2119 |
//! | five samples of a kernel of 50 µs or more whose fastest is 1.15 times the incumbent: who is so far behind is not in the play-off | [`measure`] | Hyperband: no more is spent on what can not win |
//! | ten samples or more, until their deviation is below 0.5 %, or does not change any more, or the budget is spent | [`measure`] | nvbench's criterion `stdrel` |
//! | the budget is of the device's time: evictions, rests and pauses count | [`Limits`] | nvbench's `timeout`, Google Benchmark's `use_real_time` |
//! | median and MAD of the samples whose modified z-score is at most 3.5; all samples are kept | [`Estimator`] | Iglewicz and Hoaglin; MIOpen pull request 3515 |
//! | a sample below 75 % of the reference clock is taken again, after a pause of 50 ms that grows to 0.5 s | [`ClockWatch`] | nvbench's throttle detection |
//! | no pause for a clock of 60 % or more that is a candidate's usual one, nor a third where the second changed nothing: it is that of a power limit | [`ClockWatch`] | an H200's clock under matrix products is 1,400 to 1,800 of 1,980 MHz |
//! | under sustained load: 200 ms of a candidate's own launches before its samples, unless a probe was 1.1 times the incumbent | [`Load`] | power limits: after tens of milliseconds the clock of a GPU falls, for each kernel to another one |
//! | a kernel of one thread that never waits is timed by the CPU time of its thread; a sample in which it was stopped is taken again | [`measure`], [`play_off`] | a busy machine: preempted for a third of its time, a kernel is no slower |
//! | one probe of 10 times the incumbent is followed by a second where the device may have been disturbed | [`measure`] | one disturbed sample is not the kernel's fault |
//! | finalists in rounds, in random order within each; nobody gets the copy of the buffers that was used last | [`play_off`] | Google Benchmark's random interleaving |
//! | what the samples of a round have in common, a clock above all, is taken out of them, as far as it is more than chance | [`play_off`] | the two-way layout without replications, by intraclass correlation (Shrout and Fleiss, 1979) |
//! | no more than ten samples of a finalist whose fastest is 1.1 times that of the fastest | [`play_off`] | racing (Maron and Moore, 1997): who can not win any more is not measured on |

mod clock;
mod cooling;
mod do_bench;
mod measure;
mod paired;
mod play_off;
mod recorded;
mod series;
#[cfg(test)]
mod simulated;
mod statistics;
mod warm_up;

use std::fmt;
use std::time::Duration;

use bluefin_common::failure::Attempt;
use bluefin_common::outcome::Timing;
use serde::{Deserialize, Serialize};

pub use clock::ClockWatch;
pub use cooling::{Caches, Cooling};
pub use measure::{measure, measure_by};
pub(crate) use play_off::NEW_BEGINNINGS;
pub use play_off::{Rounds, play_off};
pub use recorded::Recorded;
pub use statistics::{Estimator, Summary, mad, median};
pub use warm_up::{MAX_IDLE, Warmth, warm_up};

/// Version of everything in this module that shapes a number. Raised with every change of it.
pub const PROTOCOL_VERSION: u16 = 9;

/// Launches of a candidate before its samples under sustained load, in milliseconds. On an H200 that was idle the power limit shows
/// after 40 to 80 ms, and the clock stays from 150 ms on.
const LOAD_MS: f64 = 200.0;
/// Probes slower than this many times the incumbent end a candidate under sustained load: at the lower clock to come it would only be
/// slower.
const PRUNE_SUSTAINED: f64 = 1.1;
/// What one sample takes at least, in milliseconds: kernels that are faster are timed in batches. A launch on its own takes a
/// microsecond or two more than one of a batch. From here on that is less than what no two runs of one kernel agree on, so it
/// does not matter which of two equal kernels falls on which side.
const BATCH_MS: f64 = 0.3;
/// Below this a kernel is short, in milliseconds.
const SHORT_MS: f64 = 0.02;
/// What one sample of a short kernel should take, in milliseconds: enough to drown the timer's own cost.
const SHORT_BATCH_MS: f64 = 1.0;
/// Launches in one sample.
const MAX_BATCH: u32 = 16_384;
/// What samples that are taken at once should take, in milliseconds.
const AT_ONCE_MS: f64 = 50.0;
/// Samples of one candidate that are taken at once, once there are enough to decide by.
const AT_ONCE: usize = 5;

/// When a candidate is given up, and when enough is known of it. The protocol's are the default; others are for replays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StopRule {
    /// Probes of a candidate before it may be given up.
    pub probes: usize,
    /// Probes slower than this many times the incumbent end a candidate.
    pub prune: f64,
    /// What takes the place of `prune` for kernels below 0.05 ms, whose probes are noisier.
    pub prune_short: f64,
    /// A first probe slower than this many times the incumbent needs no second.
    pub hopeless: f64,
    /// Samples below which a median is trusted only because the budget is spent.
    pub min_samples: usize,
    /// A candidate whose fastest sample is this many times the incumbent needs only [`Self::samples_behind`]; not below 0.05 ms.
    pub behind: f64,
    /// Samples that are enough of one that is far behind.
    pub samples_behind: usize,
    /// A finalist whose fastest sample is this many times that of the fastest one is beaten: its median is known well enough by
    /// [`Self::min_samples`].
    pub beaten: f64,
    /// Sampling stops when the standard deviation is below this share of the median.
    pub stable: f64,
}

impl StopRule {
    /// That of the protocol under `limits`.
    fn under(limits: &Limits) -> Self {
        match limits.load {
            Load::Light => Self::default(),
            Load::Sustained => Self { prune: PRUNE_SUSTAINED, ..Self::default() },
        }
    }
}

impl Default for StopRule {
    fn default() -> Self {
        Self {
            probes: 3,
            prune: 1.5,
            prune_short: 2.0,
            hopeless: 10.0,
            min_samples: 10,
            behind: 1.15,
            samples_behind: 5,
            beaten: 1.1,
            stable: 0.005,
        }
    }
}

/// What warming up a device, waiting for its clock and loading it may take before a candidate, at most: one second, two, and less than
/// one.
pub const MAX_PREPARATION: Duration = Duration::from_secs(4);

/// What a device says of one sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Milliseconds of one run.
    pub ms: f64,
    /// The device's clock meanwhile, in MHz; `None` where it can not be measured.
    pub clock_mhz: Option<f32>,
    /// Whether the thread that ran it was off its CPU for a reason other than the scheduler's: it waited, or it was stopped. Such a
    /// sample is a wall-clock time; any other of a CPU is the time that the thread had the CPU. Never on a GPU.
    pub waited: bool,
}

impl Sample {
    /// A time, of a device that says no more.
    #[must_use]
    pub fn of(ms: f64) -> Self {
        Self { ms, clock_mhz: None, waited: false }
    }
}

/// What one sample is taken of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Its place among those that are measured together.
    pub candidate: usize,
    /// Runs back to back, whose mean the sample is.
    pub batch: u32,
}

/// Samples that were taken together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    /// In the order in which they were asked for.
    pub samples: Vec<Sample>,
    /// Milliseconds that they kept the device from other work, with what was done before and between them.
    pub wall_ms: f64,
}

/// Runs candidates and says how long they took.
pub trait Sampler {
    type Error;

    /// Takes a sample for each of `trials`, in their order and one right after the other.
    ///
    /// # Errors
    /// If the device refuses one of them. None of their samples is known then.
    fn sample(&mut self, trials: &[Trial]) -> Result<Taken, Self::Error>;

    /// Whether an error broke the device, so that whatever is asked next fails as well.
    fn is_broken(&self) -> bool;

    /// Leaves the device alone for `time`, so that it may cool.
    ///
    /// # Errors
    /// If nobody waits for the measurement any more; ends it.
    fn rest(&mut self, time: Duration) -> Result<(), Self::Error>;
}

/// The better of the best time so far and that of `result`, where it was measured to the end; milliseconds.
#[must_use]
pub fn better(best_ms: Option<f64>, result: &Attempt<Timing>) -> Option<f64> {
    match result {
        Ok(timing) if !timing.pruned => Some(best_ms.map_or(timing.median_ms, |best| best.min(timing.median_ms))),
        _ => best_ms,
    }
}

/// A result for each candidate; none for those of which nothing is known.
pub type Results<E> = Vec<Option<Result<Timing, E>>>;

/// What a launch finds in the caches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cache {
    /// None of its data, as in a program that does something else in between.
    #[default]
    Cold,
    /// What the launch before it left there.
    Warm,
    /// None of its data, by rotating through copies where they fit, also where the device could evict them. To compare with.
    Rotated,
}

/// What the device does before a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Load {
    /// What the protocol comes to: little enough for the highest clock.
    #[default]
    Light,
    /// The same launches, until a power limit shows in the clock: as in a program that does little else.
    Sustained,
}

/// When to sample, and when to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rule {
    /// The protocol of this module.
    #[default]
    Protocol,
    /// Triton's `do_bench`, with a flush before each launch: five launches for an estimate, 25 ms of warm-up, 100 ms of
    /// repeats, whatever is known of other candidates. To compare with.
    DoBench,
}

/// What a measurement may cost, and under which conditions it is made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Time that the device has for the samples of one candidate, in milliseconds: launches, and all evictions, rests and pauses
    /// between them. The probes are taken in any case.
    pub sample_budget_ms: f64,
    /// Memory for the copies of a problem's buffers that keep the cache cold, in bytes.
    pub rotation_bytes: u64,
    pub cache: Cache,
    pub load: Load,
    pub rule: Rule,
}

impl Limits {
    /// The budget times the draws that a sample computes one after the other, so that there are as many samples as of one draw.
    #[must_use]
    pub fn of_draws(self, draws: u32) -> Self {
        Self { sample_budget_ms: self.sample_budget_ms * f64::from(draws.max(1)), ..self }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sample_budget_ms: 100.0,
            rotation_bytes: 512 << 20,
            cache: Cache::Cold,
            load: Load::Light,
            rule: Rule::Protocol,
        }
    }
}

/// What shapes a number: `protocol 8, cold, 100 ms`, and what is not as it usually is.
impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sample_budget_ms, rotation_bytes, cache, load, rule } = self;
        let cache = match cache {
            Cache::Cold => "cold",
            Cache::Warm => "warm",
            Cache::Rotated => "rotated",
        };
        write!(f, "protocol {PROTOCOL_VERSION}, {cache}, {sample_budget_ms} ms")?;
        if *rotation_bytes != Self::default().rotation_bytes {
            write!(f, ", rotating {rotation_bytes} bytes")?;
        }
        if *load == Load::Sustained {
            f.write_str(", sustained load")?;
        }
        match rule {
            Rule::Protocol => Ok(()),
            Rule::DoBench => f.write_str(", do_bench"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_say_what_shapes_a_number() {
        let usual = Limits::default();
        assert_eq!(usual.to_string(), format!("protocol {PROTOCOL_VERSION}, cold, 100 ms"));
        let other = Limits {
            sample_budget_ms: 2.5,
            rotation_bytes: 7,
            cache: Cache::Warm,
            load: Load::Sustained,
            rule: Rule::DoBench,
        };
        assert!(other.to_string().ends_with("warm, 2.5 ms, rotating 7 bytes, sustained load, do_bench"), "{other}");
    }
}
