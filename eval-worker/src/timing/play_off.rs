//! Measures finalists against each other.

use bluefin_common::outcome::Timing;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::series::Series;
use super::{ClockWatch, Limits, PROBES, Sampler};

/// Times `samplers` in rounds: each round takes one sample of each, in an order drawn anew from `seed`, so that a drift of
/// the machine hits all alike, and sample `i` of one is the pair of sample `i` of another. All get the same number of
/// samples, but one that is hopeless (10 times the fastest) gets at most three, and only as long as its own budget lasts:
/// what it would cost is worth nothing.
///
/// Nothing is pruned: each solver's time is wanted.
pub fn play_off<S: Sampler>(
    samplers: &mut [S],
    watch: &mut ClockWatch,
    seed: u64,
    limits: &Limits,
) -> Vec<Result<Timing, S::Error>> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut entries: Vec<_> =
        samplers.iter_mut().map(|sampler| Entry { series: Series::start(sampler, watch), sampler }).collect();
    let best_ms = entries.iter().filter_map(|entry| entry.series.as_ref().ok()).map(Series::min);
    let best_ms = best_ms.fold(f64::INFINITY, f64::min);

    let (mut contenders, hopeless): (Vec<_>, Vec<_>) =
        (0..entries.len()).partition(|&index| entries.get(index).is_some_and(|entry| !entry.is_hopeless(best_ms)));
    for index in hopeless {
        let Some(entry) = entries.get_mut(index) else { continue };
        while entry.is_hopeless(best_ms) && entry.may_probe(limits) {
            entry.take(watch);
        }
        // One disturbed sample is not the kernel's fault.
        if let Ok(series) = &mut entry.series
            && !series.is_hopeless(best_ms)
        {
            series.keep_last();
            contenders.push(index);
        }
    }
    while contenders.iter().filter_map(|&index| entries.get(index)).any(|entry| entry.wants_more(limits)) {
        contenders.shuffle(&mut random);
        for &index in &contenders {
            if let Some(entry) = entries.get_mut(index) {
                entry.take(watch);
            }
        }
        if is_spent(&entries, &contenders, limits) {
            break;
        }
    }
    entries.into_iter().map(|entry| entry.series.map(|series| series.timing(false, limits))).collect()
}

struct Entry<'a, S: Sampler> {
    sampler: &'a mut S,
    series: Result<Series, S::Error>,
}

impl<S: Sampler> Entry<'_, S> {
    fn take(&mut self, watch: &mut ClockWatch) {
        if let Ok(series) = &mut self.series
            && let Err(error) = series.take(self.sampler, watch)
        {
            self.series = Err(error);
        }
    }

    fn is_hopeless(&self, best_ms: f64) -> bool {
        self.series.as_ref().is_ok_and(|series| series.is_hopeless(best_ms))
    }

    fn may_probe(&self, limits: &Limits) -> bool {
        self.series.as_ref().is_ok_and(|series| series.samples.len() < PROBES && !series.is_spent(limits))
    }

    fn wants_more(&self, limits: &Limits) -> bool {
        self.series.as_ref().is_ok_and(|series| !series.is_done(limits))
    }
}

/// The contenders share their budgets: a slow one may use what fast ones leave, since all need the same rounds.
fn is_spent<S: Sampler>(entries: &[Entry<'_, S>], contenders: &[usize], limits: &Limits) -> bool {
    let running: Vec<_> = contenders
        .iter()
        .filter_map(|&index| entries.get(index))
        .filter_map(|entry| entry.series.as_ref().ok())
        .collect();
    let spent: f64 = running.iter().map(|series| series.spent_ms()).sum();
    let probed = running.iter().all(|series| series.samples.len() >= PROBES);
    let full = running.iter().any(|series| series.samples.len() >= Timing::MAX_SAMPLES);
    full || probed && spent >= limits.sample_budget_ms * running.len() as f64
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::super::simulated::{LIMITS, Simulated, noise};
    use super::*;

    fn play_off(finalists: &mut [Simulated], seed: u64, limits: &Limits) -> Vec<Result<Timing, &'static str>> {
        super::play_off(finalists, &mut ClockWatch::default(), seed, limits)
    }

    fn counts(timings: &[Result<Timing, &'static str>]) -> Vec<usize> {
        timings.iter().map(|timing| timing.as_ref().map_or(0, |timing| timing.samples_ms.len())).collect()
    }

    #[test]
    fn all_get_the_same_rounds() {
        let mut finalists =
            [Simulated::constant(1.0), Simulated::new(noise(1.1, 0.1, 3)), Simulated::new(noise(4.0, 0.05, 4))];
        let timings = play_off(&mut finalists, 7, &LIMITS);
        let counts = counts(&timings);
        assert!(counts[0] >= 10 && counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    }

    #[test]
    fn a_drift_hits_all_alike() {
        // The machine slows down by 0.3 % with every sample; measured one after the other, the second of two equal
        // kernels would look 3 % slower or more.
        let clock = Rc::new(Cell::new(1.0));
        let drifting = || {
            let clock = Rc::clone(&clock);
            Simulated::new(std::iter::from_fn(move || {
                clock.set(clock.get() * 1.003);
                Some(clock.get())
            }))
        };
        let mut finalists = [drifting(), drifting(), drifting()];
        let timings = play_off(&mut finalists, 11, &Limits { sample_budget_ms: 40.0, ..LIMITS });
        let medians: Vec<f64> = timings.iter().map(|timing| timing.as_ref().unwrap().median_ms).collect();
        for median in &medians {
            assert!((median / medians[0] - 1.0).abs() < 0.015, "{medians:?}");
        }
    }

    #[test]
    fn the_order_comes_from_the_seed() {
        let order = |seed| {
            let log = Rc::new(Cell::new(Vec::new()));
            let mut finalists: Vec<_> = (0..4)
                .map(|name| {
                    let log = Rc::clone(&log);
                    Simulated::new(std::iter::from_fn(move || {
                        let mut entries = log.take();
                        entries.push(name);
                        log.set(entries);
                        Some(1.0)
                    }))
                })
                .collect();
            play_off(&mut finalists, seed, &LIMITS);
            log.take()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let rounds = order(1);
        assert!(rounds[4..].chunks(4).any(|round| round != &rounds[4..8]), "the order changes from round to round");
    }

    #[test]
    fn a_hopeless_one_is_time_boxed_but_timed() {
        let mut finalists = [Simulated::constant(1.0), Simulated::constant(5000.0), Simulated::constant(20.0)];
        let timings = play_off(&mut finalists, 1, &LIMITS);
        assert_eq!(counts(&timings), [10, 1, 3]);
        assert!(timings.iter().all(|timing| !timing.as_ref().unwrap().pruned));
        assert_eq!(timings[1].as_ref().unwrap().median_ms, 5000.0);
    }

    #[test]
    fn one_disturbed_sample_makes_nobody_hopeless() {
        let disturbed = Simulated::new([30.0].into_iter().chain(std::iter::repeat(1.5)));
        let timings = play_off(&mut [Simulated::constant(1.0), disturbed], 1, &LIMITS);
        assert_eq!(counts(&timings), [10, 10]);
        assert_eq!(timings[1].as_ref().unwrap().median_ms, 1.5);
    }

    #[test]
    fn slow_finalists_get_three_rounds() {
        let mut finalists = [Simulated::constant(900.0), Simulated::constant(1000.0)];
        assert_eq!(counts(&play_off(&mut finalists, 1, &LIMITS)), [3, 3]);
    }

    #[test]
    fn the_failure_of_one_costs_only_that_one() {
        let mut finalists = [
            Simulated::constant(1.0),
            Simulated::constant(1.0).failing_after(4),
            Simulated::constant(1.0).failing_after(0),
        ];
        let timings = play_off(&mut finalists, 1, &LIMITS);
        assert_eq!(counts(&timings), [10, 0, 0]);
        assert!(timings[1].is_err() && timings[2].is_err());
    }

    #[test]
    fn nobody_at_all() {
        assert!(play_off(&mut [], 1, &LIMITS).is_empty());
    }
}
