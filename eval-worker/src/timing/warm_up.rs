//! Clocks fall while a device idles, and take their time to rise.

use std::time::Duration;

/// After this much idle time a device is warmed up.
pub const MAX_IDLE: Duration = Duration::from_millis(500);

/// Readings that must agree.
const AGREE: usize = 3;
/// How well, relative to each other.
const WITHIN: f64 = 0.02;
/// Given up after this many milliseconds: a noisy machine is as warm as it gets.
const CAP_MS: f64 = 1000.0;

/// Runs `spin`, which does a fixed amount of work and says how many milliseconds it took, until three readings in a row
/// agree within 2 %, for at most a second. Returns the milliseconds spent.
///
/// # Errors
/// The first one of `spin`.
pub fn warm_up<E>(mut spin: impl FnMut() -> Result<f64, E>) -> Result<f64, E> {
    let mut spent = 0.0;
    let mut recent = [f64::INFINITY; AGREE];
    loop {
        let reading = spin()?;
        spent += reading.max(f64::MIN_POSITIVE);
        recent.rotate_left(1);
        if let Some(last) = recent.last_mut() {
            *last = reading;
        }
        let low = recent.iter().copied().fold(f64::INFINITY, f64::min);
        let high = recent.iter().copied().fold(0.0, f64::max);
        if high - low <= WITHIN * low || spent >= CAP_MS {
            return Ok(spent);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn run(readings: impl IntoIterator<Item = f64>) -> (f64, usize) {
        let mut readings = readings.into_iter();
        let mut count = 0;
        let spent = warm_up(|| {
            count += 1;
            Ok::<_, Infallible>(readings.next().unwrap())
        });
        (spent.unwrap(), count)
    }

    #[test]
    fn stops_when_the_clock_is_up() {
        let (spent, count) = run([4.0, 3.0, 2.0, 1.0, 1.01, 1.0, 1.0]);
        assert_eq!(count, 6);
        assert!((spent - 12.01).abs() < 1e-9);
    }

    #[test]
    fn a_noisy_machine_is_given_up_after_a_second() {
        let (spent, count) = run((0..).map(|i| if i % 2 == 0 { 10.0 } else { 15.0 }));
        assert!((1000.0..1020.0).contains(&spent));
        assert!(count < 100);
    }

    #[test]
    fn an_error_ends_it() {
        assert_eq!(warm_up(|| Err::<f64, _>("no")), Err("no"));
    }
}
