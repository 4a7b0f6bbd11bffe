//! Tells samples of a throttled device from others.

use std::time::Duration;

use super::Sample;

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
    /// Pauses since the last sample that was good.
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

    /// Whether a sample counts. One of a throttled device does where waiting has not helped.
    pub(super) fn judge(&mut self, reading: Sample) -> Verdict {
        if !self.is_throttled(reading) {
            self.strikes = 0;
            return Verdict::Good;
        }
        if self.strikes >= PAUSES { Verdict::AsGoodAsItGets } else { Verdict::Throttled }
    }

    /// The pause before what was throttled is tried again.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = FIRST_PAUSE * 2_u32.pow(self.strikes.min(PAUSES));
        self.strikes += 1;
        pause.min(LONGEST_PAUSE)
    }
}

/// What becomes of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Good,
    /// It is to be taken again, after a pause.
    Throttled,
    /// Throttled, and there is no hope for better.
    AsGoodAsItGets,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(clock_mhz: f32) -> Sample {
        Sample { ms: 1.0, clock_mhz: Some(clock_mhz) }
    }

    #[test]
    fn a_throttled_sample_is_taken_again_after_a_pause() {
        let mut watch = ClockWatch::new(Some(2000.0));
        assert_eq!(watch.judge(sample(1499.0)), Verdict::Throttled);
        assert_eq!(watch.pause().as_millis(), 50);
        assert_eq!(watch.judge(sample(1400.0)), Verdict::Throttled);
        assert_eq!(watch.pause().as_millis(), 100);
        assert_eq!(watch.judge(sample(1500.0)), Verdict::Good);
    }

    #[test]
    fn a_device_that_stays_throttled_is_waited_for_once() {
        let mut watch = ClockWatch::new(Some(2000.0));
        for pause in [50, 100, 200, 400, 500, 500] {
            assert_eq!(watch.judge(sample(900.0)), Verdict::Throttled);
            assert_eq!(watch.pause().as_millis(), pause);
        }
        // Not again for the next candidate.
        for _ in 0..3 {
            assert_eq!(watch.judge(sample(900.0)), Verdict::AsGoodAsItGets);
        }
        // Hope comes back with the clock.
        assert_eq!(watch.judge(sample(1900.0)), Verdict::Good);
        assert_eq!(watch.judge(sample(900.0)), Verdict::Throttled);
    }

    #[test]
    fn without_a_clock_nothing_is_rejected() {
        let mut watch = ClockWatch::new(Some(2000.0));
        assert_eq!(watch.judge(Sample { ms: 1.0, clock_mhz: None }), Verdict::Good);
        assert_eq!(ClockWatch::new(None).judge(sample(1.0)), Verdict::Good);
    }
}
