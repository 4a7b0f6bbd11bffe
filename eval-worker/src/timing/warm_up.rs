//! Clocks fall while a device idles, and take their time to rise.

use std::time::Duration;

use super::{Sample, median};

/// After this much idle time a device is warmed up.
pub const MAX_IDLE: Duration = Duration::from_millis(500);

/// Readings that must agree.
const AGREE: usize = 3;
/// How well, relative to each other.
const WITHIN: f64 = 0.02;
/// Given up after this many milliseconds: a noisy machine is as warm as it gets.
const CAP_MS: f64 = 1000.0;

/// A device after its warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Warmth {
    /// Median time of the last three spins, in milliseconds: the same work each time, so it tells devices apart.
    pub spin_ms: f64,
    /// Their median clock in MHz, where it can be measured.
    pub clock_mhz: Option<f32>,
    /// Milliseconds spent.
    pub spent_ms: f64,
}

/// Runs `spin`, which does a fixed amount of work, until three readings in a row agree within 2 %, for at most a second:
/// readings of the device's clock, or of the time where there is no clock.
///
/// # Errors
/// The first one of `spin`.
pub fn warm_up<E>(mut spin: impl FnMut() -> Result<Sample, E>) -> Result<Warmth, E> {
    let mut spent_ms = 0.0;
    let mut readings: Vec<Sample> = Vec::new();
    loop {
        let reading = spin()?;
        spent_ms += reading.ms.max(f64::MIN_POSITIVE);
        if readings.len() == AGREE {
            readings.remove(0);
        }
        readings.push(reading);
        let times: Vec<f64> = readings.iter().map(|reading| reading.ms).collect();
        let clocks: Vec<f64> = readings.iter().filter_map(|reading| reading.clock_mhz).map(f64::from).collect();
        let has_clock = clocks.len() == readings.len();
        let agreed = readings.len() == AGREE && agree(if has_clock { &clocks } else { &times });
        if agreed || spent_ms >= CAP_MS {
            let clock_mhz = has_clock.then(|| median(&clocks) as f32);
            return Ok(Warmth { spin_ms: median(&times), clock_mhz, spent_ms });
        }
    }
}

fn agree(values: &[f64]) -> bool {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    high - low <= WITHIN * low
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn run(readings: impl IntoIterator<Item = (f64, Option<f32>)>) -> (Warmth, usize) {
        let mut readings = readings.into_iter();
        let mut count = 0;
        let warmth = warm_up(|| {
            count += 1;
            let (ms, clock_mhz) = readings.next().unwrap();
            Ok::<_, Infallible>(Sample { clock_mhz, ..Sample::of(ms) })
        });
        (warmth.unwrap(), count)
    }

    #[test]
    fn stops_when_the_times_agree() {
        let (warmth, count) = run([4.0, 3.0, 2.0, 1.0, 1.01, 1.0, 1.0].map(|ms| (ms, None)));
        assert_eq!(count, 6);
        assert!((warmth.spent_ms - 12.01).abs() < 1e-9);
        assert_eq!((warmth.spin_ms, warmth.clock_mhz), (1.0, None));
    }

    #[test]
    fn a_clock_counts_more_than_the_time() {
        let (warmth, count) =
            run([(1.0, 300.0), (1.0, 900.0), (1.0, 1500.0), (1.4, 1980.0), (1.0, 1965.0), (1.2, 1980.0)]
                .map(|(ms, clock)| (ms, Some(clock))));
        assert_eq!(count, 6);
        assert_eq!((warmth.spin_ms, warmth.clock_mhz), (1.2, Some(1980.0)));
    }

    #[test]
    fn a_noisy_machine_is_given_up_after_a_second() {
        let (warmth, count) = run((0..).map(|i| (if i % 2 == 0 { 10.0 } else { 15.0 }, None)));
        assert!((1000.0..1020.0).contains(&warmth.spent_ms));
        assert!(count < 100);
    }

    #[test]
    fn an_error_ends_it() {
        assert_eq!(warm_up(|| Err::<Sample, _>("no")), Err("no"));
    }
}
