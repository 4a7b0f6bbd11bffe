//! What a round of a play-off has in common: a clock that a power limit moves, heat, the other work of a machine. All samples of a
//! round are as much slower or faster by it, so it says nothing of who is the fastest, and is taken out.
//!
//! In logarithms a sample is that of its candidate, plus what its round has in common, plus noise. How much of the variance is the round's is
//! the intraclass correlation (Fisher, 1925; Shrout and Fleiss, 1979): where there is none, samples stay what they are.

use super::statistics::{MAD_TO_SIGMA, mad, median};

/// Robust standard deviations that a sample counts for at most, as for outliers.
const FAR: f64 = 3.5;

/// In which round each sample of each candidate was taken.
pub(super) struct Marks {
    round: usize,
    of: Vec<Vec<Option<usize>>>,
}

impl Marks {
    /// No rounds yet of `count` candidates.
    pub(super) fn new(count: usize) -> Self {
        Self { round: 0, of: vec![Vec::new(); count] }
    }

    /// A round ended, in which each of these candidates had a sample. `samples` are how many one has now.
    pub(super) fn end_round(&mut self, places: &[usize], samples: impl Fn(usize) -> usize) {
        for &place in places {
            let Some(marks) = self.of.get_mut(place) else { continue };
            // What was taken before the first round is of none; what was forgotten is not there any more.
            let count = samples(place);
            marks.resize(count.saturating_sub(1), None);
            marks.resize(count, Some(self.round));
        }
        self.round += 1;
    }

    /// Takes out of the `samples` of all candidates what rounds have in common, as `running` tell it, which have one in each of the last.
    /// The median of what is taken out is none, and noise is as large as before: medians are those of the device as it mostly was, and
    /// can be told apart as if nothing had moved it.
    pub(super) fn even_out(&self, running: &[usize], samples: &mut [&mut Vec<f64>]) {
        let Some(evening) = Evening::of(&self.in_rounds(running, samples)) else { return };
        for (marks, samples) in self.of.iter().zip(samples) {
            // What is known of no round stays as it is.
            let shared = |round: &Option<usize>| round.and_then(|round| *evening.shared.get(round)?);
            let evened = marks.iter().zip(samples.iter()).map(|(round, ms)| Some(ms.ln() - shared(round)?));
            let evened: Vec<Option<f64>> = evened.collect();
            let center = median(&evened.iter().copied().flatten().collect::<Vec<_>>());
            for (ms, evened) in samples.iter_mut().zip(evened) {
                *ms = evened.map_or(*ms, |evened| (center + evening.stretch * (evened - center)).exp());
            }
        }
    }

    /// Logarithms of the samples of each round, in the order of `running`; `None` where one of these has no sample.
    fn in_rounds(&self, running: &[usize], samples: &[&mut Vec<f64>]) -> Vec<Option<Vec<f64>>> {
        let mut rounds = vec![Vec::new(); self.round];
        for &place in running {
            let taken =
                self.of.get(place).into_iter().flatten().zip(samples.get(place).into_iter().flat_map(|of| of.iter()));
            for (round, ms) in taken {
                round
                    .and_then(|round| rounds.get_mut(round))
                    .into_iter()
                    .for_each(|round: &mut Vec<f64>| round.push(ms.ln()));
            }
        }
        let is_whole = |round: &Vec<f64>| round.len() == running.len() && round.iter().all(|ln| ln.is_finite());
        rounds.into_iter().map(|round| Some(round).filter(is_whole)).collect()
    }
}

/// What comes out of the logarithm of each sample.
struct Evening {
    /// By round; `None` where nothing is known of it.
    shared: Vec<Option<f64>>,
    /// What is left is that much smaller than the noise was, since each sample had its part in what its round has in common.
    stretch: f64,
}

impl Evening {
    /// `None` where rounds have nothing in common, or there are no two candidates or samples.
    fn of(rounds: &[Option<Vec<f64>>]) -> Option<Self> {
        let whole: Vec<&Vec<f64>> = rounds.iter().flatten().collect();
        let count = whole.first()?.len();
        if count < 2 || whole.len() < 2 {
            return None;
        }
        let lns = |one: usize| whole.iter().filter_map(move |round| round.get(one).copied());
        // By candidate, then by round: how far a sample is from the median of its candidate, at first as far as that is usual, then as far as
        // it is from the others of its round.
        let off: Vec<Vec<f64>> =
            (0..count).map(|one| lns(one).collect()).map(|lns: Vec<f64>| away(&lns, median(&lns))).collect();
        let near = |off: &Vec<f64>| off.iter().map(|off_by| within(*off_by, FAR * deviation(off))).collect();
        let first = means(&off.iter().map(near).collect::<Vec<_>>());
        let near = |off: &Vec<f64>| {
            let own: Vec<f64> = off.iter().zip(&first).map(|(off, mean)| off - mean).collect();
            let far = FAR * deviation(&own);
            own.iter().zip(&first).map(|(own, mean)| mean + within(*own, far)).collect()
        };
        let off: Vec<Vec<f64>> = off.iter().map(near).collect();
        let means = means(&off);
        let all = off.iter().map(|off| variance(off)).sum::<f64>() / count as f64;
        let share = 1.0 / count as f64;
        // Means of independent samples have that share of their variance already.
        let correlation = (variance(&means) / all - share) / (1.0 - share);
        if correlation.is_nan() || correlation <= 0.0 {
            return None;
        }
        let believed = correlation / (correlation + (1.0 - correlation) * share);
        let usual = median(&means);
        let mut means = means.into_iter();
        let mut shared = |_: &Vec<f64>| means.next().map(|mean| believed * (mean - usual));
        let shared = rounds.iter().map(|round| round.as_ref().and_then(&mut shared)).collect();
        let stretch = 1.0 / (1.0 - 2.0 * believed * share + believed * believed * share).sqrt();
        Some(Self { shared, stretch })
    }
}

fn away(values: &[f64], center: f64) -> Vec<f64> {
    values.iter().map(|value| value - center).collect()
}

/// Not more than `far` from zero.
fn within(value: f64, far: f64) -> f64 {
    value.max(-far).min(far)
}

/// Robust standard deviation.
fn deviation(values: &[f64]) -> f64 {
    MAD_TO_SIGMA * mad(values, median(values))
}

/// The mean of each round.
fn means(candidates: &[Vec<f64>]) -> Vec<f64> {
    let rounds = candidates.first().map_or(0, Vec::len);
    let of = |round: usize| candidates.iter().filter_map(|of| of.get(round)).sum::<f64>() / candidates.len() as f64;
    (0..rounds).map(of).collect()
}

fn variance(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::simulated::noise;
    use super::*;

    /// Samples of candidates, given candidate by candidate, with what comes out.
    fn evened(mut samples: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
        let places: Vec<usize> = (0..samples.len()).collect();
        let mut marks = Marks::new(samples.len());
        for round in 0..samples[0].len() {
            marks.end_round(&places, |_| round + 1);
        }
        marks.even_out(&places, &mut samples.iter_mut().collect::<Vec<_>>());
        samples
    }

    fn spread(samples: &[f64]) -> f64 {
        MAD_TO_SIGMA * mad(samples, median(samples)) / median(samples)
    }

    /// A clock that wanders by a fifth, and kernels with 1 % of noise of their own.
    fn wandering(medians: &[f64], rounds: usize) -> Vec<Vec<f64>> {
        let clock = |round: usize| 1.0 + 0.1 * (round as f64 / 4.0).sin();
        let of = |(place, ms): (usize, &f64)| {
            noise(*ms, 0.01, place as u64 + 1).take(rounds).enumerate().map(|(round, ms)| ms * clock(round)).collect()
        };
        medians.iter().enumerate().map(of).collect()
    }

    #[test]
    fn what_rounds_have_in_common_is_gone_and_noise_is_what_it_was() {
        for medians in [vec![1.0, 1.02], vec![1.0, 1.02, 3.0], vec![1.0, 1.02, 1.04, 1.5, 2.0, 1.1, 1.0, 1.0]] {
            let samples = evened(wandering(&medians, 100));
            for (of, ms) in samples.iter().zip(&medians) {
                assert!((median(of) / ms - 1.0).abs() < 0.02, "{medians:?}: {} of {ms}", median(of));
                assert!((0.004..0.016).contains(&spread(of)), "{medians:?}: {}", spread(of));
            }
            let ratio = median(&samples[1]) / median(&samples[0]);
            assert!((ratio / 1.02 - 1.0).abs() < 0.003, "{medians:?}: {ratio}");
        }
    }

    #[test]
    fn where_nothing_is_in_common_little_changes() {
        let samples: Vec<Vec<f64>> = (0..4).map(|place| noise(1.0, 0.01, place + 1).take(50).collect()).collect();
        for (before, after) in samples.iter().zip(evened(samples.clone())) {
            assert!((median(before) / median(&after) - 1.0).abs() < 0.002);
            assert!((spread(before) / spread(&after) - 1.0).abs() < 0.35, "{} {}", spread(before), spread(&after));
        }
    }

    #[test]
    fn one_that_is_disturbed_says_little_of_the_others() {
        let mut samples = wandering(&[1.0, 2.0], 40);
        samples[1][7] = 50.0;
        let samples = evened(samples);
        assert!(samples[1][7] > 20.0);
        assert!((0.8..1.25).contains(&samples[0][7]), "{}", samples[0][7]);
    }

    #[test]
    fn samples_of_no_round_and_of_one_candidate_stay() {
        assert_eq!(evened(vec![vec![1.0, 2.0, 1.5]]), [[1.0, 2.0, 1.5]]);
        assert_eq!(evened(vec![vec![1.0, 1.0], vec![2.0, 2.0]]), [[1.0, 1.0], [2.0, 2.0]]);
        let mut marks = Marks::new(2);
        let (mut first, mut second) = (vec![7.0], vec![]);
        for round in [1.0, 1.1, 0.9, 1.05, 1.0] {
            first.push(round);
            second.push(2.0 * round);
            marks.end_round(&[0, 1], |place| [first.len(), second.len()][place]);
        }
        marks.even_out(&[0, 1], &mut [&mut first, &mut second]);
        assert!(first[0] == 7.0 && first[1..].iter().all(|ms| (ms - 1.0).abs() < 1e-6), "{first:?}");
        assert!(second.iter().all(|ms| (ms - 2.0).abs() < 1e-6), "{second:?}");
    }

    /// As where a kernel turns out not to wait by itself.
    #[test]
    fn samples_that_were_forgotten_amid_a_play_off_belong_to_no_round() {
        let mut marks = Marks::new(2);
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for (round, clock) in [1.0, 1.2, 0.9, 1.1, 1.0, 1.05].into_iter().enumerate() {
            if round == 2 {
                first.clear();
            }
            first.push(clock);
            second.push(2.0 * clock);
            marks.end_round(&[0, 1], |place| [first.len(), second.len()][place]);
        }
        marks.even_out(&[0, 1], &mut [&mut first, &mut second]);
        assert!(first.iter().all(|ms| (ms / first[0] - 1.0).abs() < 1e-6), "{first:?}");
        assert_eq!(second[..2], [2.0, 2.4], "one had no sample in these rounds");
        assert!(second[2..].iter().all(|ms| (ms / (2.0 * first[0]) - 1.0).abs() < 1e-6), "{second:?}");
    }

    proptest! {
        #[test]
        fn all_stay_times(samples in prop::collection::vec(prop::collection::vec(1e-3..1e3f64, 12), 1..6)) {
            for ms in evened(samples).into_iter().flatten() {
                prop_assert!(ms.is_finite() && ms > 0.0);
            }
        }
    }
}
