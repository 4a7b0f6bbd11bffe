//! What tuning gained: means over problems, each once and each as often as it is asked for.

use serde::Serialize;

use super::Row;
use crate::summary::{Summary, Winner, ratio};

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
    /// Of half the logarithmic widths of their ranges, squared.
    #[serde(skip)]
    doubt: f64,
    #[serde(skip)]
    weighted_logs: f64,
    #[serde(skip)]
    weight: f64,
}

impl Gain {
    /// `range` is that in which the true speedup lies with little doubt.
    pub(super) fn add(&mut self, speedup: Option<f64>, range: Option<(f64, f64)>, after_ms: f64, count: u64) {
        let Some(speedup) = speedup.filter(|speedup| speedup.is_finite() && *speedup > 0.0) else { return };
        let half =
            range.filter(|(low, high)| *low > 0.0 && high.is_finite()).map(|(low, high)| (high / low).ln() / 2.0);
        self.doubt += half.unwrap_or(0.0).powi(2);
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
        self.doubt += other.doubt;
        self.weighted_logs += other.weighted_logs;
        self.weight += other.weight;
    }

    /// Geometric mean over problems.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.problems > 0).then(|| (self.logs / self.problems as f64).exp())
    }

    /// In which the true mean lies with little doubt. Problems are in doubt apart from each other, so theirs add up as squares.
    #[must_use]
    pub fn range(&self) -> Option<(f64, f64)> {
        let mean = self.mean()?;
        let half = self.doubt.sqrt() / self.problems as f64;
        Some((mean * (-half).exp(), mean * half.exp()))
    }

    /// The mean with its uncertainty, as each problem's is told: `1.93x ± 0.02`.
    #[must_use]
    pub fn told(&self) -> Option<String> {
        Some(ratio(self.mean()?, self.range()))
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
    /// Problems that came to an end without a winner.
    pub without_winner: u64,
    /// Problems that have no winner yet.
    pub under_way: u64,
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
        if row.under_way {
            self.under_way += 1;
        } else {
            self.count(&row.summary, row.count);
        }
    }

    fn count(&mut self, summary: &Summary, count: u64) {
        let Some(winner) = &summary.winner else {
            self.without_winner += 1;
            return;
        };
        let Winner { speedup_over_default_range: of_default, speedup_over_reference_range: of_reference, .. } = winner;
        self.default.add(winner.speedup_over_default, *of_default, winner.median_ms, count);
        self.reference.add(winner.speedup_over_reference, *of_reference, winner.median_ms, count);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.default.merge(&other.default);
        self.reference.merge(&other.reference);
        self.without_winner += other.without_winner;
        self.under_way += other.under_way;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_weigh() {
        let mut gain = Gain::default();
        gain.add(Some(2.0), Some((2.0 / 1.1, 2.0 * 1.1)), 1.0, 3);
        gain.add(None, None, 9.0, 1);
        let mut other = Gain::default();
        other.add(Some(8.0), None, 1.0, 1);
        gain.merge(&other);
        assert!((gain.mean().unwrap() - 4.0).abs() < 1e-9);
        assert!((gain.weighted_mean().unwrap() - 2.0_f64.powf(1.5)).abs() < 1e-9);
        assert_eq!((gain.problems, gain.before_ms, gain.after_ms), (2, 14.0, 4.0));
        // Half of what is in doubt of one of two.
        assert_eq!(gain.told().unwrap(), "4.00x ± 0.20");
        assert_eq!((Gain::default().mean(), Gain::default().told()), (None, None));
    }
}
