//! The timing protocol: when to sample, how often, when to stop, and what the samples say. Knows no device and reads no
//! clock: whoever implements [`Sampler`] does.
//!
//! A candidate is probed, then sampled until its median is known well enough or its budget is spent. Probes that are
//! clearly slower than the best known of the problem end it there: most candidates of a tuning space are hopeless.

mod measure;
mod play_off;
mod rotation;
#[cfg(test)]
mod simulated;
mod statistics;
mod warm_up;

use serde::{Deserialize, Serialize};

pub use measure::measure;
pub use play_off::play_off;
pub use rotation::{copies, is_cold};
pub use statistics::{Summary, mad, median, summarize};
pub use warm_up::{MAX_IDLE, warm_up};

/// Version of everything in this module that shapes a number. Raised with every change of it.
pub const PROTOCOL_VERSION: u16 = 1;

/// Probes of a candidate before it may be given up.
const PROBES: usize = 3;
/// Samples below which a median is trusted only because the budget is spent.
const MIN_SAMPLES: usize = 10;
/// Probes slower than this many times the incumbent end a candidate.
const PRUNE: f64 = 1.5;
/// The same for short kernels, whose probes are noisier.
const PRUNE_SHORT: f64 = 2.0;
/// Below this a kernel counts as short, in milliseconds.
const SHORT_MS: f64 = 0.05;
/// A first probe slower than this many times the incumbent needs no second.
const HOPELESS: f64 = 10.0;
/// Kernels faster than this are timed in batches, in milliseconds.
const BATCH_BELOW_MS: f64 = 0.02;
/// What one sample of a batch should take, in milliseconds: enough to drown the timer's own cost.
const BATCH_MS: f64 = 1.0;
/// Launches in one sample.
const MAX_BATCH: u32 = 16_384;
/// Sampling stops when the standard deviation is below this share of the median.
const STABLE: f64 = 0.005;

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub ms: f64,
    /// Clock of the device meanwhile; `None` where it is not measured.
    pub clock_mhz: Option<f32>,
}

/// Runs one candidate and says how long it took.
pub trait Sampler {
    type Error;

    /// Runs the candidate `batch` times back to back; the milliseconds of one run, averaged.
    ///
    /// # Errors
    /// If the device refuses; ends the measurement.
    fn sample(&mut self, batch: u32) -> Result<f64, Self::Error>;
}

/// What a measurement may cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Time on the device for the samples of one candidate, in milliseconds. The probes are taken in any case.
    pub sample_budget_ms: f64,
    /// Memory for the copies of a problem's buffers that keep the cache cold, in bytes.
    pub rotation_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { sample_budget_ms: 100.0, rotation_bytes: 512 << 20 }
    }
}
