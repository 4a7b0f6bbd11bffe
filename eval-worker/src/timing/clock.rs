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

/// From this share of the reference clock on it may be a power limit's, which is there as soon as a kernel runs, and which no pause
/// lifts.
const POWER_LIMIT: f32 = 0.6;
/// A clock that is usual for a candidate is at least this share of the median of its samples'.
const USUAL: f32 = 0.85;
/// Pauses before it counts that they change nothing.
const HOPES: u32 = 2;
/// A pause after which a clock is no more than this many times what it was has changed nothing.
const RISEN: f32 = 1.02;

/// Watches the clock of a device over all of its candidates.
#[derive(Clone, Debug, Default)]
pub struct ClockWatch {
    reference_mhz: Option<f32>,
    /// Pauses since the last sample that was good.
    strikes: u32,
    /// The highest clock of a throttled sample since the last pause, in MHz.
    throttled_mhz: f32,
    /// What that was at the last pause.
    before_mhz: f32,
}

impl ClockWatch {
    /// Holds samples against `reference_mhz`; without it all are good.
    #[must_use]
    pub fn new(reference_mhz: Option<f32>) -> Self {
        Self { reference_mhz, ..Self::default() }
    }

    /// The clock that samples are held against, in MHz.
    #[must_use]
    pub fn reference_mhz(&self) -> Option<f32> {
        self.reference_mhz
    }

    /// Whether a sample counts. One of a throttled device does where waiting has not helped, or where its clock is what a power limit
    /// leaves to the candidate, whose clock is usually `usual_mhz`.
    pub(super) fn judge(&mut self, reading: Sample, usual_mhz: Option<f32>) -> Verdict {
        let clocks = reading.clock_mhz.zip(self.reference_mhz);
        let Some((clock, reference)) = clocks.filter(|(clock, reference)| *clock < THROTTLED * reference) else {
            self.strikes = 0;
            return Verdict::Good;
        };
        let is_usual = usual_mhz.is_some_and(|usual| clock >= USUAL * usual);
        let is_lasting = self.strikes >= HOPES && clock <= RISEN * self.before_mhz;
        if self.strikes >= PAUSES || clock >= POWER_LIMIT * reference && (is_usual || is_lasting) {
            return Verdict::AsGoodAsItGets;
        }
        self.throttled_mhz = self.throttled_mhz.max(clock);
        Verdict::Throttled
    }

    /// The pause before what was throttled is tried again.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = FIRST_PAUSE * 2_u32.pow(self.strikes.min(PAUSES));
        self.strikes += 1;
        self.before_mhz = std::mem::take(&mut self.throttled_mhz);
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
        Sample { clock_mhz: Some(clock_mhz), ..Sample::of(1.0) }
    }

    #[test]
    fn a_throttled_sample_is_taken_again_after_a_pause() {
        let mut watch = ClockWatch::new(Some(2000.0));
        assert_eq!(watch.judge(sample(1499.0), None), Verdict::Throttled);
        assert_eq!(watch.pause().as_millis(), 50);
        assert_eq!(watch.judge(sample(1400.0), None), Verdict::Throttled);
        assert_eq!(watch.pause().as_millis(), 100);
        assert_eq!(watch.judge(sample(1500.0), None), Verdict::Good);
    }

    #[test]
    fn a_device_that_stays_throttled_is_waited_for_once() {
        let mut watch = ClockWatch::new(Some(2000.0));
        for pause in [50, 100, 200, 400, 500, 500] {
            assert_eq!(watch.judge(sample(900.0), None), Verdict::Throttled);
            assert_eq!(watch.pause().as_millis(), pause);
        }
        // Not again for the next candidate.
        for _ in 0..3 {
            assert_eq!(watch.judge(sample(900.0), None), Verdict::AsGoodAsItGets);
        }
        // Hope comes back with the clock.
        assert_eq!(watch.judge(sample(1900.0), None), Verdict::Good);
        assert_eq!(watch.judge(sample(900.0), None), Verdict::Throttled);
    }

    #[test]
    fn a_power_limit_is_told_by_a_pause_that_changed_nothing() {
        let mut watch = ClockWatch::new(Some(2000.0));
        for clock in [1400.0, 1400.0, 1450.0] {
            assert_eq!(watch.judge(sample(clock), None), Verdict::Throttled);
            watch.pause();
        }
        // It does not rise any more.
        assert_eq!(watch.judge(sample(1460.0), None), Verdict::AsGoodAsItGets);
        // Where it is a candidate's usual clock nobody waits, unless it is far below the reference.
        let mut watch = ClockWatch::new(Some(2000.0));
        assert_eq!(watch.judge(sample(1400.0), Some(1600.0)), Verdict::AsGoodAsItGets);
        assert_eq!(watch.judge(sample(1300.0), Some(1600.0)), Verdict::Throttled);
        assert_eq!(watch.judge(sample(900.0), Some(900.0)), Verdict::Throttled);
    }

    #[test]
    fn without_a_clock_nothing_is_rejected() {
        let mut watch = ClockWatch::new(Some(2000.0));
        assert_eq!(watch.judge(Sample::of(1.0), None), Verdict::Good);
        assert_eq!(ClockWatch::new(None).judge(sample(1.0), None), Verdict::Good);
    }
}
