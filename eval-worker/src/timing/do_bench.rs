//! The rule of Triton's `do_bench` (`python/triton/testing.py`), to compare the protocol with.

use bluefin_common::outcome::Timing;

use super::statistics::{MAD_TO_SIGMA, mad, median};
use super::{Cache, Limits, Sampler, Trial};

/// Launches for the first estimate.
const ESTIMATE: u32 = 5;
const WARM_UP_MS: f64 = 25.0;
const REPEAT_MS: f64 = 100.0;
/// Against kernels that take no time at all.
const MAX_LAUNCHES: u32 = 1 << 20;

/// Times a candidate. The median, as Triton's autotuner takes it; of the samples only the first are kept.
///
/// # Errors
/// The first one of `sampler`.
pub(super) fn do_bench<S: Sampler>(sampler: &mut S, limits: &Limits) -> Result<Timing, S::Error> {
    let mut sample = |count: u32| sampler.sample(&vec![Trial { candidate: 0, batch: 1 }; count as usize]);
    sample(1)?;
    let mut estimate_ms = 0.0;
    for _ in 0..ESTIMATE {
        estimate_ms += sample(1)?.samples.iter().map(|sample| sample.ms).sum::<f64>() / f64::from(ESTIMATE);
    }
    // A float that is too large becomes the largest integer.
    let launches = |ms: f64| ((ms / estimate_ms.max(f64::MIN_POSITIVE)) as u32).clamp(1, MAX_LAUNCHES);
    sample(launches(WARM_UP_MS))?;
    let samples = sample(launches(REPEAT_MS))?.samples;
    let clocks_mhz: Vec<f64> = samples.iter().filter_map(|sample| sample.clock_mhz).map(f64::from).collect();
    let samples: Vec<f64> = samples.iter().map(|sample| sample.ms).collect();
    let median_ms = median(&samples);
    Ok(Timing {
        median_ms,
        spread_ms: MAD_TO_SIGMA * mad(&samples, median_ms),
        samples_ms: samples.iter().take(Timing::MAX_SAMPLES).map(|sample| *sample as f32).collect(),
        pruned: false,
        cold: limits.cache != Cache::Warm,
        throttled: 0,
        clock_mhz: median(&clocks_mhz).round() as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::super::simulated::{LIMITS, Simulated, noise};
    use super::*;

    #[test]
    fn a_millisecond_takes_131_launches() {
        let mut kernel = Simulated::constant(1.0);
        let timing = do_bench(&mut kernel, &LIMITS).unwrap();
        assert_eq!((kernel.launches, timing.samples_ms.len(), timing.median_ms), (131, 64, 1.0));
    }

    #[test]
    fn a_slow_kernel_takes_eight_and_a_fast_one_ends() {
        let mut slow = Simulated::new(noise(500.0, 0.1, 1));
        do_bench(&mut slow, &LIMITS).unwrap();
        assert_eq!(slow.launches, 8);
        let mut fast = Simulated::constant(0.001);
        do_bench(&mut fast, &LIMITS).unwrap();
        assert!((124_990..125_020).contains(&fast.launches), "{}", fast.launches);
    }
}
