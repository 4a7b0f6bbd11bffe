//! What samples say: a median and a spread that a few disturbed samples do not move.

/// Modified z-scores beyond this are outliers (Iglewicz and Hoaglin, "How to Detect and Handle Outliers", 1993).
const OUTLIER: f64 = 3.5;
/// Scales a median absolute deviation to the standard deviation of a normal distribution.
pub(super) const MAD_TO_SIGMA: f64 = 1.4826;
/// Scales a mean absolute deviation to it; used where more than half of the samples are equal.
const MEAN_AD_TO_SIGMA: f64 = 1.2533;

/// What is left of samples without their outliers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    pub median: f64,
    /// Median absolute deviation times 1.4826.
    pub spread: f64,
    /// Standard deviation: unlike the spread it sees that samples come in two kinds, fast and slow.
    pub deviation: f64,
    /// Samples that were not rejected.
    pub kept: usize,
}

/// The median; the mean of the two in the middle for an even number. 0 for none.
#[must_use]
pub fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.get(middle.wrapping_sub(1)), sorted.get(middle)) {
        (Some(low), Some(high)) if sorted.len().is_multiple_of(2) => f64::midpoint(*low, *high),
        (_, Some(high)) => *high,
        _ => 0.0,
    }
}

/// Median absolute deviation from `center`, not scaled.
#[must_use]
pub fn mad(samples: &[f64], center: f64) -> f64 {
    let deviations: Vec<f64> = samples.iter().map(|sample| (sample - center).abs()).collect();
    median(&deviations)
}

/// How samples become a median and a spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimator {
    /// Median and MAD of the samples whose modified z-score is at most 3.5. Where more than half of the samples are equal,
    /// the mean absolute deviation takes the place of the MAD.
    Robust,
    /// What MIOpen does since its pull request 3515 (2025-02): the first run is a warm-up, then the median of the samples
    /// whose modified z-score is at most 3.5. For comparisons with its figures.
    MiopenCompat,
}

impl Estimator {
    /// What `samples` say, in the order they were taken.
    #[must_use]
    pub fn summarize(self, samples: &[f64]) -> Summary {
        let samples = match (self, samples) {
            (Self::MiopenCompat, [_warm_up, rest @ ..]) if !rest.is_empty() => rest,
            _ => samples,
        };
        let center = median(samples);
        let sigma = match self {
            Self::Robust => sigma(samples, center),
            Self::MiopenCompat => MAD_TO_SIGMA * mad(samples, center),
        };
        let kept: Vec<f64> =
            samples.iter().copied().filter(|sample| (sample - center).abs() <= OUTLIER * sigma).collect();
        let median = median(&kept);
        Summary { median, spread: MAD_TO_SIGMA * mad(&kept, median), deviation: deviation(&kept), kept: kept.len() }
    }
}

fn deviation(samples: &[f64]) -> f64 {
    let count = samples.len().max(1) as f64;
    let mean = samples.iter().sum::<f64>() / count;
    (samples.iter().map(|sample| (sample - mean).powi(2)).sum::<f64>() / count).sqrt()
}

fn sigma(samples: &[f64], center: f64) -> f64 {
    let mad = mad(samples, center);
    if mad > 0.0 {
        return MAD_TO_SIGMA * mad;
    }
    let total: f64 = samples.iter().map(|sample| (sample - center).abs()).sum();
    MEAN_AD_TO_SIGMA * total / samples.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn summarize(samples: &[f64]) -> Summary {
        Estimator::Robust.summarize(samples)
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert_eq!(median(&[9.0, 1.0, 2.0]), 2.0);
        assert_eq!(mad(&[1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0], 2.0), 1.0);
    }

    #[test]
    fn one_slow_first_run_counts_for_nothing() {
        let summary = summarize(&[97.0, 1.00, 1.01, 0.99, 1.00, 1.02, 0.98]);
        assert_eq!(summary.kept, 6);
        assert!((summary.median - 1.0).abs() < 1e-9);
        assert!(summary.spread < 0.03);
    }

    #[test]
    fn equal_samples_do_not_make_the_rest_outliers_at_once() {
        // The MAD is 0 here: without the fallback 1.001 would be infinitely far out.
        let summary = summarize(&[1.0, 1.0, 1.0, 1.0, 1.001, 1.001]);
        assert_eq!(summary.kept, 6);
        // But something far out is still one.
        let mut samples = vec![1.0; 19];
        samples.push(50.0);
        assert_eq!(summarize(&samples).kept, 19);
    }

    #[test]
    fn miopen_leaves_out_the_first_and_has_no_second_measure_of_spread() {
        let samples = [97.0, 1.0, 1.0, 1.0, 1.0, 1.001];
        let summary = Estimator::MiopenCompat.summarize(&samples);
        assert_eq!((summary.median, summary.kept), (1.0, 4));
        assert_eq!(summarize(&samples).kept, 5);
        assert_eq!(Estimator::MiopenCompat.summarize(&[2.0]).median, 2.0);
        assert_eq!(Estimator::MiopenCompat.summarize(&[2.0, 1.0]).median, 1.0);
    }

    proptest! {
        #[test]
        fn a_summary_lies_within_its_samples(samples in prop::collection::vec(1e-4..1e4f64, 1..64)) {
            let summary = summarize(&samples);
            let low = samples.iter().copied().fold(f64::INFINITY, f64::min);
            let high = samples.iter().copied().fold(0.0, f64::max);
            prop_assert!(summary.median >= low && summary.median <= high);
            prop_assert!(summary.spread >= 0.0 && summary.spread <= 1.4826 * (high - low));
            prop_assert!(2 * summary.kept >= samples.len());
        }

        #[test]
        fn scaling_the_samples_scales_the_summary(samples in prop::collection::vec(0.5..2.0f64, 3..40)) {
            let scaled: Vec<f64> = samples.iter().map(|sample| sample * 4.0).collect();
            let (a, b) = (summarize(&samples), summarize(&scaled));
            prop_assert_eq!(a.kept, b.kept);
            prop_assert!((a.median * 4.0 - b.median).abs() < 1e-9);
        }
    }
}
