//! Tells samples of a throttled device from others.

use std::time::Duration;

use super::{Sample, Sampler};

/// A sample at less than this share of the reference clock does not count.
const THROTTLED: f32 = 0.75;
/// The first pause after such a sample; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// Pauses in a row, about 2 s. A device that is no faster after them is as fast as it gets today: its samples are taken as
/// they are, and counted.
const PAUSES: u32 = 6;

/// Watches the clock of a device over all of its candidates.
#[derive(Clone, Debug, Default)]
pub struct ClockWatch {
    reference_mhz: Option<f32>,
    /// Throttled samples in a row.
    strikes: u32,
}

impl ClockWatch {
    /// Holds samples against `reference_mhz`; without it all are good.
    #[must_use]
    pub fn new(reference_mhz: Option<f32>) -> Self {
        Self { reference_mhz, strikes: 0 }
    }

    /// The clock that samples are held against, in MHz.
    #[must_use]
    pub fn reference_mhz(&self) -> Option<f32> {
        self.reference_mhz
    }

    fn is_throttled(&self, reading: Sample) -> bool {
        reading.clock_mhz.zip(self.reference_mhz).is_some_and(|(clock, reference)| clock < THROTTLED * reference)
    }

    /// Takes a sample, again and again while the device is throttled and there is hope. Returns it with the number of those
    /// that were throttled, and the milliseconds that all took.
    pub(super) fn sample<S: Sampler>(&mut self, sampler: &mut S, batch: u32) -> Result<(Sample, u32, f64), S::Error> {
        let mut throttled = 0;
        let mut spent_ms = 0.0;
        loop {
            let reading = sampler.sample(batch)?;
            spent_ms += reading.ms * f64::from(batch);
            if !self.is_throttled(reading) {
                self.strikes = 0;
                return Ok((reading, throttled, spent_ms));
            }
            throttled += 1;
            if self.strikes >= PAUSES {
                return Ok((reading, throttled, spent_ms));
            }
            sampler.rest((FIRST_PAUSE * 2_u32.pow(self.strikes)).min(LONGEST_PAUSE))?;
            self.strikes += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::simulated::Simulated;
    use super::*;

    fn milliseconds(pauses: &[Duration]) -> Vec<u128> {
        pauses.iter().map(Duration::as_millis).collect()
    }

    #[test]
    fn a_throttled_sample_is_taken_again_after_a_pause() {
        let mut kernel = Simulated::new([2.0, 1.9, 1.0]).with_clocks([1000.0, 1400.0, 1500.0]);
        let mut watch = ClockWatch::new(Some(2000.0));
        let (reading, throttled, spent_ms) = watch.sample(&mut kernel, 1).unwrap();
        assert_eq!((reading.ms, throttled), (1.0, 2));
        assert!((spent_ms - 4.9).abs() < 1e-9);
        assert_eq!(milliseconds(&kernel.rests), [50, 100]);
    }

    #[test]
    fn a_device_that_stays_throttled_is_waited_for_once() {
        let mut kernel = Simulated::constant(1.0).with_clocks(std::iter::repeat(900.0));
        let mut watch = ClockWatch::new(Some(2000.0));
        let (reading, throttled, _) = watch.sample(&mut kernel, 1).unwrap();
        assert_eq!((reading.clock_mhz, throttled), (Some(900.0), 7));
        assert_eq!(milliseconds(&kernel.rests), [50, 100, 200, 400, 500, 500]);
        // Not again for the next candidate.
        assert_eq!(watch.sample(&mut kernel, 1).unwrap().1, 1);
        assert_eq!(kernel.rests.len(), 6);
    }

    #[test]
    fn hope_comes_back_with_the_clock() {
        let low = std::iter::repeat_n(900.0, 7);
        let mut kernel = Simulated::constant(1.0).with_clocks(low.chain([1900.0, 900.0, 1900.0]));
        let mut watch = ClockWatch::new(Some(2000.0));
        for throttled in [7, 0, 1] {
            assert_eq!(watch.sample(&mut kernel, 1).unwrap().1, throttled);
        }
    }

    #[test]
    fn without_a_clock_nothing_is_rejected() {
        let mut watch = ClockWatch::new(Some(2000.0));
        assert_eq!(watch.sample(&mut Simulated::constant(1.0), 1).unwrap().1, 0);
        let mut kernel = Simulated::constant(1.0).with_clocks([1.0]);
        assert_eq!(ClockWatch::new(None).sample(&mut kernel, 1).unwrap().1, 0);
    }
}
