//! How long something takes that is only simulated.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bluefin_common::digest::Digest;

/// A distribution of times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    shape: Shape,
    /// The mean; of a uniform one half of the longest.
    mean: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Constant,
    Uniform,
    Exponential,
}

/// Texts and what they stand for.
const SHAPES: [(&str, Shape); 2] = [("uniform:", Shape::Uniform), ("exponential:", Shape::Exponential)];

impl Times {
    pub fn mean(&self) -> Duration {
        self.mean
    }

    /// What the job of that id takes: the same in every run of it.
    pub fn of(&self, id: Digest) -> Duration {
        let [a, b, c, d, ..] = id.0;
        // Strictly between 0 and 1.
        let share = (f64::from(u32::from_le_bytes([a, b, c, d])) + 0.5) / (f64::from(u32::MAX) + 1.0);
        match self.shape {
            Shape::Constant => self.mean,
            Shape::Uniform => self.mean.mul_f64(2.0 * share),
            Shape::Exponential => self.mean.mul_f64(-share.ln()),
        }
    }
}

/// `100ms`, `uniform:100ms`, `exponential:100ms`: the time is the mean.
impl FromStr for Times {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = SHAPES.into_iter().find_map(|(name, shape)| Some((text.strip_prefix(name)?, shape)));
        let (mean, shape) = found.unwrap_or((text, Shape::Constant));
        let expected = "expected a time such as 100ms, uniform:100ms (0 to 200 ms) or exponential:100ms";
        let mean = humantime::parse_duration(mean).map_err(|_| format!("found {text:?}, {expected}"))?;
        if mean.is_zero() {
            return Err(format!("found no time, {expected}"));
        }
        Ok(Self { shape, mean })
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = SHAPES.iter().find(|(_, shape)| *shape == self.shape).map_or("", |(name, _)| name);
        write!(f, "{name}{}", humantime::format_duration(self.mean))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read() {
        for text in ["100ms", "uniform:1s 500ms", "exponential:20ms"] {
            assert_eq!(text.parse::<Times>().unwrap().to_string(), text);
        }
        assert!("normal:1s".parse::<Times>().is_err() && "0s".parse::<Times>().is_err());
    }

    #[test]
    fn means_are_as_they_are_said_to_be() {
        for text in ["100ms", "uniform:100ms", "exponential:100ms"] {
            let times: Times = text.parse().unwrap();
            let drawn = (0..10_000_u32).map(|n| times.of(Digest::of(&n.to_le_bytes())));
            let mean = drawn.map(|time| time.as_secs_f64()).sum::<f64>() / 10_000.0;
            assert!((mean - 0.1).abs() < 0.003, "{text}: {mean}");
        }
    }
}
