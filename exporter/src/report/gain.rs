//! What tuning gained: means over problems, each once and each as often as it is asked for.

use serde::Serialize;

use super::Row;
use crate::summary::Summary;

/// How much faster winners are than something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Gain {
    /// Problems for which both times are known.
    pub problems: u64,
    /// Milliseconds of all of them, each as often as it is asked for, before and after.
    pub before_ms: f64,
    pub after_ms: f64,
    #[serde(skip)]
    logs: f64,
    #[serde(skip)]
    weighted_logs: f64,
    #[serde(skip)]
    weight: f64,
}

impl Gain {
    pub(super) fn add(&mut self, speedup: Option<f64>, after_ms: f64, count: u64) {
        let Some(speedup) = speedup.filter(|speedup| speedup.is_finite() && *speedup > 0.0) else { return };
        let weight = count as f64;
        self.problems += 1;
        self.before_ms += weight * after_ms * speedup;
        self.after_ms += weight * after_ms;
        self.logs += speedup.ln();
        self.weighted_logs += weight * speedup.ln();
        self.weight += weight;
    }

    fn merge(&mut self, other: &Self) {
        self.problems += other.problems;
        self.before_ms += other.before_ms;
        self.after_ms += other.after_ms;
        self.logs += other.logs;
        self.weighted_logs += other.weighted_logs;
        self.weight += other.weight;
    }

    /// Geometric mean over problems.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.problems > 0).then(|| (self.logs / self.problems as f64).exp())
    }

    /// The same, each problem as often as it is asked for.
    #[must_use]
    pub fn weighted_mean(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| (self.weighted_logs / self.weight).exp())
    }
}

/// Gains against all that a session knows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Gains {
    /// Against the winner's solver with its default params.
    pub default: Gain,
    /// Against the spec's reference.
    pub reference: Gain,
    /// Problems without a winner.
    pub without_winner: u64,
}

impl Gains {
    /// Of `summaries`, each problem once.
    #[must_use]
    pub fn of(summaries: &[Summary]) -> Self {
        let mut gains = Self::default();
        summaries.iter().for_each(|summary| gains.count(summary, 1));
        gains
    }

    pub(super) fn add(&mut self, row: &Row) {
        self.count(&row.summary, row.count);
    }

    fn count(&mut self, summary: &Summary, count: u64) {
        let Some(winner) = &summary.winner else {
            self.without_winner += 1;
            return;
        };
        self.default.add(winner.speedup_over_default, winner.median_ms, count);
        self.reference.add(winner.speedup_over_reference, winner.median_ms, count);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.default.merge(&other.default);
        self.reference.merge(&other.reference);
        self.without_winner += other.without_winner;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_weigh() {
        let mut gain = Gain::default();
        gain.add(Some(2.0), 1.0, 3);
        gain.add(None, 9.0, 1);
        let mut other = Gain::default();
        other.add(Some(8.0), 1.0, 1);
        gain.merge(&other);
        assert!((gain.mean().unwrap() - 4.0).abs() < 1e-9);
        assert!((gain.weighted_mean().unwrap() - 2.0_f64.powf(1.5)).abs() < 1e-9);
        assert_eq!((gain.problems, gain.before_ms, gain.after_ms), (2, 14.0, 4.0));
        assert_eq!(Gain::default().mean(), None);
    }
}
