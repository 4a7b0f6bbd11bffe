//! Measures one candidate.

use bluefin_common::outcome::Timing;

use super::do_bench::do_bench;
use super::series::Series;
use super::{ClockWatch, Limits, Load, Rule, Sampler, StopRule};

/// Times the one candidate of `sampler`. `incumbent_ms` is the best median known for its problem: a candidate that is clearly slower is
/// only probed, and its timing is marked as pruned.
///
/// # Errors
/// The first one of `sampler`.
pub fn measure<S: Sampler>(
    sampler: &mut S,
    watch: &mut ClockWatch,
    incumbent_ms: Option<f64>,
    limits: &Limits,
) -> Result<Timing, S::Error> {
    match limits.rule {
        Rule::Protocol => measure_by(&StopRule::under(limits), sampler, watch, incumbent_ms, limits),
        Rule::DoBench => do_bench(sampler, limits),
    }
}

/// Times the one candidate of `sampler` as the protocol does, but stops by `rule`.
///
/// # Errors
/// The first one of `sampler`.
pub fn measure_by<S: Sampler>(
    rule: &StopRule,
    sampler: &mut S,
    watch: &mut ClockWatch,
    incumbent_ms: Option<f64>,
    limits: &Limits,
) -> Result<Timing, S::Error> {
    let mut series = Series::new(0, *rule).against(incumbent_ms);
    series.start(sampler, watch)?;
    if incumbent_ms.is_some_and(|best| series.is_hopeless(best)) {
        series.confirm(sampler, watch, limits)?;
    }
    if !incumbent_ms.is_some_and(|best| series.is_hopeless(best)) {
        while let missing @ 1.. = rule.probes.saturating_sub(series.samples.len()) {
            series.take(missing.min(series.at_once()), sampler, watch)?;
        }
    }
    if incumbent_ms.is_some_and(|best| series.is_slow(best)) {
        return Ok(series.timing(true, limits));
    }
    // The clock of a device under load is what it is.
    let mut any_clock = ClockWatch::default();
    let watch = if limits.load == Load::Sustained { &mut any_clock } else { watch };
    if limits.load == Load::Sustained {
        series.forget();
        series.put_under_load(sampler)?;
    }
    while !series.is_done(limits) {
        series.take(series.next_count(limits), sampler, watch)?;
    }
    Ok(series.timing(false, limits))
}

#[cfg(test)]
mod tests {
    use super::super::simulated::{LIMITS, Simulated, noise};
    use super::super::{Cache, MAX_BATCH};
    use super::*;

    fn measure(kernel: &mut Simulated, incumbent_ms: Option<f64>, limits: &Limits) -> Result<Timing, &'static str> {
        super::measure(kernel, &mut ClockWatch::default(), incumbent_ms, limits)
    }

    #[test]
    fn a_quiet_kernel_needs_ten_samples() {
        let mut kernel = Simulated::constant(1.0);
        let timing = measure(&mut kernel, None, &LIMITS).unwrap();
        assert_eq!((timing.median_ms, timing.spread_ms, timing.samples_ms.len()), (1.0, 0.0, 10));
        assert!(!timing.pruned);
        assert_eq!(kernel.launches, 10);
    }

    #[test]
    fn a_slow_kernel_costs_three_probes() {
        let mut kernel = Simulated::constant(2.0);
        let timing = measure(&mut kernel, Some(1.0), &LIMITS).unwrap();
        assert!(timing.pruned);
        assert_eq!(kernel.launches, 3);
        assert_eq!(timing.median_ms, 2.0);
    }

    #[test]
    fn a_hopeless_kernel_costs_two_or_one_that_is_expensive() {
        for (kernel_ms, launches) in [(11.0, 2), (60.0, 1)] {
            let mut kernel = Simulated::constant(kernel_ms);
            assert!(measure(&mut kernel, Some(1.0), &LIMITS).unwrap().pruned);
            assert_eq!(kernel.launches, launches);
        }
        // A machine that is busy for a moment.
        let mut disturbed = Simulated::new([30.0].into_iter().chain(std::iter::repeat(0.9)));
        assert!(!measure(&mut disturbed, Some(1.0), &LIMITS).unwrap().pruned);
    }

    #[test]
    fn a_kernel_that_was_stopped_is_taken_again() {
        let times = || [1.0, 400.0, 1.0, 400.0, 400.0].into_iter().chain(std::iter::repeat(1.0));
        let waits = || [false, true, false, true, true].into_iter().chain(std::iter::repeat(false));
        for skipped in 0..2 {
            let mut kernel = Simulated::new(times().skip(skipped)).with_waits(waits().skip(skipped));
            let timing = measure(&mut kernel, Some(0.9), &LIMITS).unwrap();
            assert_eq!((timing.samples_ms.len(), timing.pruned), (10, false), "from sample {skipped} on: {timing:?}");
            assert!(timing.samples_ms.iter().all(|ms| *ms == 1.0), "{timing:?}");
        }
        // One that waits by itself is timed as long as it takes.
        let mut waiting = Simulated::constant(4.0).with_waits(std::iter::repeat(true));
        assert_eq!(measure(&mut waiting, None, &LIMITS).unwrap().samples_ms, [4.0; 10]);
    }

    #[test]
    fn one_disturbed_probe_prunes_nothing() {
        let mut kernel = Simulated::new([10.0, 3.0, 1.2].into_iter().chain(std::iter::repeat(1.2)));
        // Past the time box (11.5) the first probe would decide.
        let timing = measure(&mut kernel, Some(1.15), &LIMITS).unwrap();
        assert!(!timing.pruned);
        assert!((timing.median_ms - 1.2).abs() < 1e-9);
    }

    #[test]
    fn slightly_slower_is_measured_to_the_end() {
        for (kernel_ms, best_ms, pruned) in
            [(1.4, 1.0, false), (1.6, 1.0, true), (0.038, 0.02, false), (0.042, 0.02, true), (0.9, 1.0, false)]
        {
            let timing = measure(&mut Simulated::constant(kernel_ms), Some(best_ms), &LIMITS).unwrap();
            assert_eq!(timing.pruned, pruned, "{kernel_ms} against {best_ms}");
        }
    }

    #[test]
    fn who_is_behind_needs_five_samples() {
        for (kernel_ms, best_ms, samples) in [(1.2, 1.0, 5), (1.1, 1.0, 10), (0.9, 1.0, 10), (0.048, 0.04, 10)] {
            let timing = measure(&mut Simulated::constant(kernel_ms), Some(best_ms), &LIMITS).unwrap();
            assert_eq!((timing.samples_ms.len(), timing.pruned), (samples, false), "{kernel_ms} against {best_ms}");
        }
        // Its fastest sample counts.
        let times = [1.3, 1.3, 1.3, 1.3, 1.1].into_iter().chain(std::iter::repeat(1.1));
        let timing = measure(&mut Simulated::new(times), Some(1.0), &LIMITS).unwrap();
        assert!(timing.samples_ms.len() >= 10, "{}", timing.samples_ms.len());
    }

    #[test]
    fn a_power_limit_is_waited_for_twice_and_not_at_all_where_it_is_usual() {
        // A clock of 70 %, whatever is done about it.
        let limited = || Simulated::constant(2.0).with_clocks(std::iter::repeat(1400.0));
        let watch = &mut ClockWatch::new(Some(1980.0));
        let mut kernel = limited();
        let generous = Limits { sample_budget_ms: 1000.0, ..LIMITS };
        let timing = super::measure(&mut kernel, watch, None, &generous).unwrap();
        assert_eq!((timing.samples_ms.len(), kernel.rests.len()), (10, 2));
        // It sinks below three quarters amid the samples.
        let clocks = (0..).map(|place| if place < 3 { 1600.0 } else { 1450.0 });
        let mut kernel = Simulated::constant(2.0).with_clocks(clocks);
        let timing = super::measure(&mut kernel, watch, None, &LIMITS).unwrap();
        assert_eq!((timing.samples_ms.len(), timing.throttled, kernel.rests.len()), (10, 7, 0));
    }

    #[test]
    fn a_short_kernel_is_batched() {
        let mut kernel = Simulated::constant(0.001);
        let timing = measure(&mut kernel, None, &LIMITS).unwrap();
        assert_eq!(kernel.batches[0], 1);
        assert!(kernel.batches[1..].iter().all(|batch| *batch == 1000));
        assert_eq!(timing.samples_ms.len(), 10);
        assert!((timing.median_ms - 0.001).abs() < 1e-12);
    }

    #[test]
    fn equal_kernels_agree_however_they_are_batched() {
        // An event costs 1.5 us, and the first launch is a little off: some are taken for shorter than others.
        for microseconds in [15.0, 17.0, 19.0, 21.0, 40.0, 95.0, 145.0, 270.0, 299.0, 305.0, 600.0] {
            let ms = microseconds / 1000.0;
            let medians = [0.9, 1.0, 1.1].map(|first| {
                let times = [first * ms].into_iter().chain(std::iter::repeat(ms));
                let mut kernel = Simulated::new(times).with_timer_ms(0.0015);
                measure(&mut kernel, None, &LIMITS).unwrap().median_ms
            });
            let apart = medians.iter().map(|median| (median / medians[1] - 1.0).abs()).fold(0.0, f64::max);
            assert!(apart < 0.005 && medians[1] < 1.006 * ms, "{microseconds} us: {medians:?}");
        }
    }

    #[test]
    fn the_batch_is_corrected_for_the_cost_of_the_timer() {
        // A launch of 100 ns under a timer that costs 400 ns.
        let mut kernel = Simulated::constant(0.0001).with_timer_ms(0.0004);
        let timing = measure(&mut kernel, None, &LIMITS).unwrap();
        let batch = *kernel.batches.last().unwrap();
        assert!(batch > 8000, "{batch}");
        assert!((timing.median_ms - 0.0001).abs() < 1e-6, "{}", timing.median_ms);
    }

    #[test]
    fn nothing_measurable_is_bounded() {
        let mut kernel = Simulated::constant(0.0);
        let timing = measure(&mut kernel, None, &LIMITS).unwrap();
        assert!(timing.samples_ms.len() <= Timing::MAX_SAMPLES);
        assert!(kernel.batches.iter().all(|batch| *batch <= MAX_BATCH));
    }

    #[test]
    fn the_budget_ends_a_noisy_kernel_and_three_samples_are_the_least() {
        let mut kernel = Simulated::new(noise(8.0, 0.2, 1));
        let timing = measure(&mut kernel, None, &LIMITS).unwrap();
        assert!((9..=16).contains(&timing.samples_ms.len()), "{}", timing.samples_ms.len());
        let mut slow = Simulated::new(noise(5000.0, 0.2, 2));
        assert_eq!(measure(&mut slow, None, &LIMITS).unwrap().samples_ms.len(), 3);
        assert_eq!(slow.launches, 3);
    }

    #[test]
    fn what_is_done_between_launches_is_paid_from_the_budget() {
        // Evictions of a second each, ten thousand times what the launch takes.
        let mut kernel = Simulated::constant(0.1).with_eviction_ms(1000.0);
        let timing = measure(&mut kernel, None, &LIMITS).unwrap();
        assert_eq!(
            (timing.samples_ms.len(), kernel.batches.len()),
            (3, 4),
            "three samples, and one that was too short"
        );
        // Some fit: 100 ms are 16 of 6 ms.
        let mut kernel = Simulated::new(noise(1.0, 0.2, 1)).with_eviction_ms(5.0);
        let timing = measure(&mut kernel, None, &LIMITS).unwrap();
        assert!((14..=18).contains(&timing.samples_ms.len()), "{}", timing.samples_ms.len());
    }

    #[test]
    fn pauses_are_paid_from_the_budget() {
        // Throttled every second time; without its pauses of 50 ms there would be budget for more.
        let clocks = (0..).map(|i| if i % 2 == 1 { 1000.0 } else { 1980.0 });
        let mut kernel = Simulated::new(noise(1.0, 0.2, 1)).with_clocks(clocks);
        let timing = super::measure(&mut kernel, &mut ClockWatch::new(Some(1980.0)), None, &LIMITS).unwrap();
        assert!((3..=5).contains(&timing.samples_ms.len()), "{}", timing.samples_ms.len());
    }

    #[test]
    fn samples_are_bounded_whatever_the_noise() {
        let generous = Limits { sample_budget_ms: 1e9, ..LIMITS };
        for seed in 0..20 {
            let timing = measure(&mut Simulated::new(noise(1.0, 0.3, seed)), None, &generous).unwrap();
            assert!(timing.samples_ms.len() <= Timing::MAX_SAMPLES);
            assert!((timing.median_ms - 1.0).abs() < 0.15, "{}", timing.median_ms);
        }
    }

    #[test]
    fn stable_noise_is_not_sampled_forever() {
        // Two values in turn: the deviation never falls, and never changes either.
        let generous = Limits { sample_budget_ms: 1e9, ..LIMITS };
        let two = (0..).map(|i| if i % 2 == 0 { 0.999 } else { 1.011 });
        let mut kernel = Simulated::new(two);
        let timing = measure(&mut kernel, None, &generous).unwrap();
        assert!((11..40).contains(&timing.samples_ms.len()), "{}", timing.samples_ms.len());
        assert!((0.999..=1.011).contains(&timing.median_ms));
    }

    #[test]
    fn the_same_kernel_twice_is_within_its_spread() {
        let mut apart = 0;
        for seed in 0..100 {
            let a = measure(&mut Simulated::new(noise(1.0, 0.02, 2 * seed)), None, &LIMITS).unwrap();
            let b = measure(&mut Simulated::new(noise(1.0, 0.02, 2 * seed + 1)), None, &LIMITS).unwrap();
            apart += usize::from((a.median_ms - b.median_ms).abs() > a.spread_ms + b.spread_ms);
        }
        assert!(apart <= 5, "{apart} of 100");
    }

    #[test]
    fn an_error_of_the_device_ends_it() {
        let mut kernel = Simulated::constant(1.0).failing_after(5);
        assert!(measure(&mut kernel, None, &LIMITS).is_err());
        assert_eq!(kernel.batches.len(), 5);
    }

    #[test]
    fn throttled_samples_are_no_samples() {
        let clocks = (0..).map(|i| if i % 4 == 3 { 1000.0 } else { 1980.0 });
        let times = (0..).map(|i| if i % 4 == 3 { 2.0 } else { 1.0 });
        let mut kernel = Simulated::new(times).with_clocks(clocks);
        let timing = super::measure(&mut kernel, &mut ClockWatch::new(Some(1980.0)), None, &LIMITS).unwrap();
        assert_eq!((timing.samples_ms.len(), timing.throttled, timing.clock_mhz), (10, 3, 1980));
        assert!(timing.samples_ms.iter().all(|sample| *sample == 1.0));
    }

    /// A device that is 20 % slower once it has been busy for 50 ms, as its clock says.
    fn limited_by_power(ms: f64) -> Simulated {
        let busy = (50.0 / ms) as usize;
        let factor = move |place: usize| if place < busy { 1.0 } else { 1.2 };
        let clocks = (0..).map(move |place| if place < busy { 1980.0 } else { 1400.0 });
        Simulated::new((0..).map(move |place| ms * factor(place))).with_clocks(clocks)
    }

    #[test]
    fn under_sustained_load_the_limit_of_power_is_in_the_time() {
        let sustained = Limits { load: Load::Sustained, ..LIMITS };
        for (limits, expected) in [(LIMITS, 2.0), (sustained, 2.4)] {
            let mut kernel = limited_by_power(2.0);
            let watch = &mut ClockWatch::new(Some(1980.0));
            let timing = super::measure(&mut kernel, watch, None, &limits).unwrap();
            assert!((timing.median_ms - expected).abs() < 1e-9, "{timing:?}");
            assert_eq!((timing.samples_ms.len(), timing.throttled, kernel.rests.len()), (10, 0, 0));
        }
    }

    #[test]
    fn what_is_slower_without_load_than_the_best_with_it_is_not_loaded() {
        let sustained = Limits { load: Load::Sustained, ..LIMITS };
        let mut kernel = limited_by_power(2.7);
        assert!(measure(&mut kernel, Some(2.4), &sustained).unwrap().pruned);
        assert_eq!(kernel.launches, 3);
        let mut kernel = limited_by_power(2.5);
        assert!(!measure(&mut kernel, Some(2.4), &sustained).unwrap().pruned);
    }

    #[test]
    fn load_is_made_of_batches_where_launches_are_short() {
        let sustained = Limits { load: Load::Sustained, ..LIMITS };
        let mut kernel = Simulated::constant(0.001);
        let timing = measure(&mut kernel, None, &sustained).unwrap();
        assert_eq!((timing.samples_ms.len(), timing.median_ms), (10, 0.001));
        let load = kernel.launches - 10 * 1000;
        assert!((190_000..220_000).contains(&load), "{load}");
    }

    #[test]
    fn the_label_says_what_the_cache_was() {
        for (cache, cold) in [(Cache::Cold, true), (Cache::Warm, false)] {
            let timing = measure(&mut Simulated::constant(1.0), None, &Limits { cache, ..LIMITS }).unwrap();
            assert_eq!((timing.cold, timing.clock_mhz), (cold, 0));
        }
    }
}
