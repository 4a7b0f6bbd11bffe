//! Measures finalists against each other.

use bluefin_common::outcome::Timing;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::paired::Marks;
use super::series::{Series, take};
use super::statistics::median;
use super::{AT_ONCE, AT_ONCE_MS, ClockWatch, Limits, Load, Results, Sampler, StopRule};

/// How many times as long, or as short, the last rounds of a contender may be as its first ones: between those lies what a power limit or
/// heat does to a clock, and one that was beaten in the first rounds has none of the last.
const DRIFT: f64 = 1.03;
/// How often a play-off begins anew over that.
pub(crate) const NEW_BEGINNINGS: u32 = 2;

/// In which way the rounds of a play-off are made.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Of the order in each of them.
    pub seed: u64,
    /// One sample is taken at a time, so that it is known whose failure it was if there is one.
    pub careful: bool,
}

/// Times the `count` candidates of `sampler` in rounds: each round takes one sample of each, in an order drawn anew, so that a
/// drift of the machine hits all alike. What the samples of a round have in common is taken out of them in the end. All that may
/// win get the same number of samples. One whose fastest is 1.1 times that of the fastest gets no more once there are enough for its median;
/// one that is hopeless (10 times the fastest) gets at most [`Timing::EVIDENCE`], and only as
/// long as its own budget lasts: those are for a gain over it, which it can not lose. Where the device turns out to be slower or faster than it
/// was when one was beaten, all but the hopeless begin anew, at most twice.
///
/// Under sustained load a round takes some samples of each, after the load of its own: clocks are not the same for all then.
///
/// Nothing is pruned: each solver's time is wanted. A candidate that breaks the device ends it for all: the others have no
/// result then.
///
/// # Errors
/// That of a round, which is nobody's in particular; be careful the next time.
pub fn play_off<S: Sampler>(
    sampler: &mut S,
    count: usize,
    watch: &mut ClockWatch,
    Rounds { seed, careful }: Rounds,
    limits: &Limits,
) -> Result<Results<S::Error>, S::Error> {
    let rule = StopRule::default();
    let mut random = StdRng::seed_from_u64(seed);
    let mut series: Vec<Series> = (0..count).map(|candidate| Series::new(candidate, rule)).collect();
    let mut failed: Vec<Option<S::Error>> = (0..count).map(|_| None).collect();
    for (one, failed) in series.iter_mut().zip(&mut failed) {
        if !sampler.is_broken() {
            *failed = one.start(sampler, watch).err();
        }
    }
    let best_ms = series.iter().map(Series::min).fold(f64::INFINITY, f64::min);
    let mut contenders = Vec::new();
    for (place, (one, failed)) in series.iter_mut().zip(&mut failed).enumerate() {
        let first = one.samples.len();
        let may_probe = |one: &Series| one.samples.len() < Timing::EVIDENCE && !one.is_spent(limits);
        while failed.is_none() && !sampler.is_broken() && one.is_hopeless(best_ms) && may_probe(one) {
            *failed = one.take(1, sampler, watch).err();
        }
        if failed.is_none() && !one.is_hopeless(best_ms) {
            // One disturbed sample is not the kernel's fault.
            if one.samples.len() > first {
                one.keep_last();
            }
            contenders.push(place);
        }
    }
    // The clock of a device under load is what it is.
    let mut any_clock = ClockWatch::default();
    let loaded = limits.load == Load::Sustained;
    let watch = if loaded { &mut any_clock } else { watch };
    if loaded {
        series.iter_mut().enumerate().filter(|(place, _)| contenders.contains(place)).for_each(|(_, one)| one.forget());
    }
    let admitted = contenders.clone();
    let mut marks = Marks::new(count);
    let mut beginnings = 0;
    while !sampler.is_broken() {
        let fastest = contenders.iter().filter_map(|&place| series.get(place)).map(Series::min);
        let best_ms = fastest.fold(f64::INFINITY, f64::min);
        contenders.retain(|&place| series.get(place).is_some_and(|one| !one.is_beaten(best_ms)));
        let running: Vec<&Series> = contenders.iter().filter_map(|&place| series.get(place)).collect();
        if running.iter().all(|one| one.is_done(limits)) || is_spent(&running, &rule, limits) {
            let is_beaten = |place: &&usize| !contenders.contains(place) && matches!(failed.get(**place), Some(None));
            let beaten = admitted.iter().filter(is_beaten);
            let beaten = beaten.filter_map(|&place| series.get(place)).map(|one| one.samples.len());
            if beginnings == NEW_BEGINNINGS || !beaten.min().is_some_and(|first| has_drifted(&running, first)) {
                break;
            }
            beginnings += 1;
            contenders = admitted.iter().copied().filter(|place| matches!(failed.get(*place), Some(None))).collect();
            contenders.iter().for_each(|&place| series.get_mut(place).into_iter().for_each(Series::forget));
            continue;
        }
        let at_once = if careful { 1 } else { at_once(&running) };
        contenders.shuffle(&mut random);
        let orders: Vec<Vec<usize>> = if loaded {
            contenders.iter().map(|&place| vec![place; AT_ONCE]).collect()
        } else {
            contenders.chunks(at_once).map(<[usize]>::to_vec).collect()
        };
        for order in &orders {
            if sampler.is_broken() {
                break;
            }
            let only = order.first().copied().filter(|first| order.iter().all(|place| place == first));
            let ready = match only.filter(|_| loaded).and_then(|place| series.get(place)) {
                Some(one) => one.put_under_load(sampler),
                None => Ok(()),
            };
            match (ready.and_then(|()| take(&mut series, order, sampler, watch)), only) {
                (Ok(()), _) => {}
                (Err(error), Some(place)) => {
                    if let Some(failed) = failed.get_mut(place) {
                        *failed = Some(error);
                    }
                }
                (Err(error), None) => return Err(error),
            }
        }
        contenders.retain(|&place| matches!(failed.get(place), Some(None)));
        let samples = |place: usize| series.get(place).map_or(0, |one| one.samples.len());
        marks.end_round(&contenders, samples);
    }
    // Under load each has a clock of its own.
    if !loaded {
        marks.even_out(&contenders, &mut series.iter_mut().map(|one| &mut one.samples).collect::<Vec<_>>());
    }
    let broken = sampler.is_broken();
    let result = |(one, failed): (Series, Option<S::Error>)| match failed {
        Some(error) => Some(Err(error)),
        None if broken => None,
        None => Some(Ok(one.timing(false, limits))),
    };
    Ok(series.into_iter().zip(failed).map(result).collect())
}

/// Whether contenders take another time in as many rounds at the end as in their `first` ones, where they had twice as many.
fn has_drifted(running: &[&Series], first: usize) -> bool {
    let drift = |one: &&Series| {
        let later = one.samples.len().checked_sub(first).filter(|later| *later >= first && first > 0)?;
        Some(median(one.samples.get(later..)?) / median(one.samples.get(..first)?))
    };
    let drifts: Vec<f64> = running.iter().filter_map(drift).collect();
    !drifts.is_empty() && !(1.0 / DRIFT..=DRIFT).contains(&median(&drifts))
}

/// How many of a round a device may be left alone with.
fn at_once(running: &[&Series]) -> usize {
    let slowest = running.iter().map(|one| one.cost_ms()).fold(f64::MIN_POSITIVE, f64::max);
    // A float that is too large becomes the largest integer.
    ((AT_ONCE_MS / slowest) as usize).max(1)
}

/// The contenders share their budgets: a slow one may use what fast ones leave, since all need the same rounds.
fn is_spent(running: &[&Series], rule: &StopRule, limits: &Limits) -> bool {
    let spent: f64 = running.iter().map(|series| series.spent_ms()).sum();
    let probed = running.iter().all(|series| series.samples.len() >= rule.probes);
    let full = running.iter().any(|series| series.samples.len() >= Timing::MAX_SAMPLES);
    full || probed && spent >= limits.sample_budget_ms * running.len() as f64
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::time::Duration;

    use super::super::simulated::{LIMITS, Panel, Simulated, noise};
    use super::super::{Taken, Trial};
    use super::*;

    fn play_off(finalists: &mut [Simulated], seed: u64, limits: &Limits) -> Vec<Result<Timing, &'static str>> {
        let count = finalists.len();
        let results = super::play_off(
            &mut Panel(finalists),
            count,
            &mut ClockWatch::default(),
            Rounds { seed, careful: false },
            limits,
        );
        results.unwrap().into_iter().map(Option::unwrap).collect()
    }

    fn counts(timings: &[Result<Timing, &'static str>]) -> Vec<usize> {
        timings.iter().map(|timing| timing.as_ref().map_or(0, |timing| timing.samples_ms.len())).collect()
    }

    #[test]
    fn all_get_the_same_rounds() {
        let mut finalists =
            [Simulated::constant(1.0), Simulated::new(noise(1.1, 0.1, 3)), Simulated::new(noise(1.05, 0.05, 4))];
        let timings = play_off(&mut finalists, 7, &Limits { sample_budget_ms: 40.0, ..LIMITS });
        let counts = counts(&timings);
        assert!(counts[0] > 10 && counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    }

    #[test]
    fn one_that_is_beaten_has_enough_with_those_for_its_median() {
        let noisy = |ms, seed| Simulated::new(noise(ms, 0.02, seed));
        let mut finalists = [noisy(1.0, 3), noisy(1.04, 4), noisy(1.3, 5), noisy(4.0, 6)];
        let timings = play_off(&mut finalists, 7, &Limits { sample_budget_ms: 40.0, ..LIMITS });
        let counts = counts(&timings);
        assert!(counts[0] > 20 && counts[1] == counts[0] && counts[2..] == [10, 10], "{counts:?}");
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

    /// The clock of a power limit wanders by a fifth, and two that are 0.7 % apart are told apart as if it did not.
    #[test]
    fn a_clock_that_wanders_hides_nobody() {
        let taken = Rc::new(Cell::new(0_u32));
        let under_limit = |ms: f64, seed| {
            let taken = Rc::clone(&taken);
            Simulated::new(noise(ms, 0.004, seed).map(move |ms| {
                taken.set(taken.get() + 1);
                ms * (1.0 + 0.1 * (f64::from(taken.get()) / 25.0).sin())
            }))
        };
        let mut finalists = [under_limit(1.0, 3), under_limit(1.007, 4), under_limit(1.02, 5)];
        let timings = play_off(&mut finalists, 11, &Limits { sample_budget_ms: 100.0, ..LIMITS });
        let timings: Vec<Timing> = timings.into_iter().map(Result::unwrap).collect();
        let medians: Vec<f64> = timings.iter().map(|timing| timing.median_ms).collect();
        for (median, expected) in medians.iter().zip([1.0, 1.007, 1.02]) {
            assert!((median / medians[0] / expected - 1.0).abs() < 0.002, "{medians:?}");
            assert!((median / expected - 1.0).abs() < 0.1, "{medians:?}");
        }
        let ends: Vec<(f64, f64)> = timings.iter().map(|timing| timing.interval_ms().unwrap()).collect();
        assert!(ends[0].1 < ends[1].0 && ends[1].1 < ends[2].0, "{ends:?}");
    }

    /// The clock falls by 14 % when two of three have been found to be near each other.
    #[test]
    fn a_clock_that_falls_makes_nobody_win_who_was_beaten_before() {
        let taken = Rc::new(Cell::new(0));
        let under_limit = |ms: f64, seed| {
            let taken = Rc::clone(&taken);
            Simulated::new(noise(ms, 0.02, seed).map(move |ms| {
                taken.set(taken.get() + 1);
                if taken.get() > 40 { ms * 1.16 } else { ms }
            }))
        };
        let mut finalists = [under_limit(1.0, 3), under_limit(1.01, 4), under_limit(1.14, 5)];
        let timings = play_off(&mut finalists, 11, &Limits { sample_budget_ms: 40.0, ..LIMITS });
        let medians: Vec<f64> = timings.iter().map(|timing| timing.as_ref().unwrap().median_ms).collect();
        for (median, expected) in medians.iter().zip([1.16, 1.01 * 1.16, 1.14 * 1.16]) {
            assert!((median / expected - 1.0).abs() < 0.03, "{medians:?}");
        }
        assert!(counts(&timings)[2] < counts(&timings)[0], "it is beaten again");
        // One that never comes to rest ends nevertheless.
        let slower = Rc::new(Cell::new(1.0));
        let drifting = |ms: f64| {
            let slower = Rc::clone(&slower);
            Simulated::new(std::iter::from_fn(move || {
                slower.set(slower.get() * 1.003);
                Some(slower.get() * ms)
            }))
        };
        let timings = play_off(&mut [drifting(1.0), drifting(1.3)], 11, &LIMITS);
        assert!(counts(&timings).iter().all(|count| *count >= 10));
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
        assert_eq!(counts(&timings), [10, 1, 5]);
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

    /// Of 2 ms, and of 2.1; once the device has been busy with one of them for 50 ms, the first is the slower one.
    #[test]
    fn under_sustained_load_each_is_timed_by_its_own_clock() {
        let kernel = |ms: f64, under_load: f64| {
            let busy = (50.0 / ms) as usize;
            Simulated::new((0..).map(move |place| if place < busy { ms } else { under_load }))
        };
        for (load, expected) in [(Load::Light, [2.0, 2.1]), (Load::Sustained, [2.4, 2.2])] {
            let mut finalists = [kernel(2.0, 2.4), kernel(2.1, 2.2)];
            let timings = play_off(&mut finalists, 3, &Limits { load, ..LIMITS });
            assert_eq!(counts(&timings), [10, 10]);
            assert_eq!([0, 1].map(|place: usize| timings[place].as_ref().unwrap().median_ms), expected);
        }
    }

    #[test]
    fn slow_finalists_get_three_rounds() {
        let mut finalists = [Simulated::constant(900.0), Simulated::constant(1000.0)];
        assert_eq!(counts(&play_off(&mut finalists, 1, &LIMITS)), [3, 3]);
    }

    #[test]
    fn the_failure_of_one_costs_only_that_one_if_that_is_known() {
        let finalists = || {
            [
                Simulated::constant(1.0),
                Simulated::constant(1.0).failing_after(4),
                Simulated::constant(1.0).failing_after(0),
            ]
        };
        let run = |careful| {
            let mut finalists = finalists();
            let mut panel = Panel(&mut finalists);
            super::play_off(&mut panel, 3, &mut ClockWatch::default(), Rounds { seed: 1, careful }, &LIMITS)
        };
        assert!(run(false).is_err(), "a round that fails is nobody's");
        let timings: Vec<_> = run(true).unwrap().into_iter().map(Option::unwrap).collect();
        assert_eq!(counts(&timings), [10, 0, 0]);
        assert!(timings[1].is_err() && timings[2].is_err());
    }

    #[test]
    fn whoever_breaks_the_device_takes_nobody_with_it() {
        for after in [0, 1, 4] {
            let mut finalists = [
                Simulated::constant(1.0),
                Simulated::constant(1.1).failing_after(after).breaking_the_device(),
                Simulated::constant(1.2),
            ];
            let results = super::play_off(
                &mut Panel(&mut finalists),
                3,
                &mut ClockWatch::default(),
                Rounds { seed: 1, careful: true },
                &LIMITS,
            )
            .unwrap();
            assert!(matches!(results.as_slice(), [None, Some(Err(_)), None]), "after {after}: {results:?}");
        }
    }

    #[test]
    fn rounds_are_taken_at_once_unless_they_take_long() {
        let largest = |ms: f64, careful| {
            let mut finalists = [Simulated::constant(ms), Simulated::constant(ms), Simulated::constant(ms)];
            let mut panel = Counting { panel: Panel(&mut finalists), largest: 0 };
            super::play_off(&mut panel, 3, &mut ClockWatch::default(), Rounds { seed: 1, careful }, &LIMITS).unwrap();
            panel.largest
        };
        assert_eq!(
            [largest(1.0, false), largest(20.0, false), largest(900.0, false), largest(1.0, true)],
            [3, 2, 1, 1]
        );
    }

    /// Notes how many samples were asked for at once.
    struct Counting<'a> {
        panel: Panel<'a>,
        largest: usize,
    }

    impl Sampler for Counting<'_> {
        type Error = &'static str;

        fn sample(&mut self, trials: &[Trial]) -> Result<Taken, Self::Error> {
            self.largest = self.largest.max(trials.len());
            self.panel.sample(trials)
        }

        fn is_broken(&self) -> bool {
            self.panel.is_broken()
        }

        fn rest(&mut self, time: Duration) -> Result<(), Self::Error> {
            self.panel.rest(time)
        }
    }

    #[test]
    fn nobody_at_all() {
        assert!(play_off(&mut [], 1, &LIMITS).is_empty());
    }
}
