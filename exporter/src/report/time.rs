//! Where time went: who was busy when, how long jobs waited, and what devices were like meanwhile.

use std::collections::BTreeMap;

use bluefin_common::idle::{Courses, Idle};
use bluefin_common::outcome::Outcome;
use bluefin_common::session::Stage;
use serde::Serialize;

use crate::bias::{Bias, Pairs, device_of, timed};

/// Workers, and devices, that are told of by name; the rest is one.
const LANES: usize = 48;
/// Most pieces that a time is cut into.
const BINS: u64 = 240;
/// The name of all that are not told of by name.
const OTHERS: &str = "others";

/// Time of a session. Milliseconds, since the Unix epoch where it is when.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Time {
    /// Workers that compiled, by name.
    pub compilers: BTreeMap<String, Lane>,
    /// Workers that evaluated, by name, and by device where they did not say who they are.
    pub evaluators: BTreeMap<String, Lane>,
    pub devices: BTreeMap<String, Device>,
    /// Of all jobs: from being enqueued to a compile worker, and from being compiled to a device.
    pub waited_to_compile_ms: u64,
    pub waited_to_evaluate_ms: u64,
    pub compiled_ms: u64,
    pub evaluated_ms: u64,
    /// Jobs whose course is known.
    pub known: u64,
    /// How many times as long a candidate took in the play-off as in the perf stage, in percent less than or above.
    pub drift: BTreeMap<i64, u64>,
    /// Lowest and highest clock of candidates, by the name of their stage; medians of their samples.
    pub clock_mhz: BTreeMap<&'static str, (u32, u32)>,
    #[serde(skip)]
    pairs: Pairs,
    #[serde(skip)]
    courses: Courses,
}

/// When somebody was busy.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Lane {
    pub jobs: u64,
    pub busy_ms: u64,
    pub bins: Bins,
}

/// Amounts by time: pieces of equal width, as wide as it takes to need few.
#[derive(Clone, Debug, Serialize)]
pub struct Bins {
    pub width_ms: u64,
    /// By the number of the piece since the Unix epoch.
    pub bins: BTreeMap<u64, u64>,
}

impl Default for Bins {
    fn default() -> Self {
        Self { width_ms: 100, bins: BTreeMap::new() }
    }
}

impl Bins {
    fn widen(&mut self, width_ms: u64) {
        if width_ms <= self.width_ms {
            return;
        }
        let by = width_ms / self.width_ms;
        let mut wide = BTreeMap::new();
        for (at, amount) in &self.bins {
            *wide.entry(at / by).or_default() += amount;
        }
        (self.width_ms, self.bins) = (width_ms, wide);
    }

    fn fit(&mut self, begin_ms: u64, end_ms: u64) {
        loop {
            let first = self.bins.keys().next().copied().unwrap_or(u64::MAX).min(begin_ms / self.width_ms);
            let last = self.bins.keys().next_back().copied().unwrap_or(0).max(end_ms / self.width_ms);
            if last - first < BINS {
                return;
            }
            self.widen(self.width_ms * 2);
        }
    }

    fn add(&mut self, begin_ms: u64, end_ms: u64) {
        let end_ms = end_ms.max(begin_ms);
        self.fit(begin_ms, end_ms);
        let width = self.width_ms;
        for bin in begin_ms / width..=end_ms / width {
            let busy = end_ms.min((bin + 1) * width) - begin_ms.max(bin * width);
            *self.bins.entry(bin).or_default() += busy;
        }
    }

    fn merge(&mut self, mut other: Self) {
        let width = self.width_ms.max(other.width_ms);
        self.widen(width);
        other.widen(width);
        for (at, amount) in other.bins {
            *self.bins.entry(at).or_default() += amount;
        }
        if let (Some((first, _)), Some((last, _))) = (self.bins.first_key_value(), self.bins.last_key_value()) {
            let (first, last) = (first * self.width_ms, last * self.width_ms);
            self.fit(first, last);
        }
    }
}

/// What a device was like.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Device {
    pub jobs: u64,
    pub driver: String,
    /// Lowest and highest; absent where it does not tell.
    pub celsius: Option<(i16, i16)>,
    pub watts: Option<(u32, u32)>,
    /// Medians of candidates.
    pub clock_mhz: Option<(u32, u32)>,
    /// What samples were held against.
    pub reference_clock_mhz: Option<(u32, u32)>,
    /// Samples that were dropped since the clock was throttled.
    pub throttled: u64,
    /// How much longer it takes than others for the same kernels; absent where too few were timed on both.
    pub bias: Option<Bias>,
    /// What it waited for; absent where courses are not known.
    pub idle: Option<Idle>,
}

/// The range that has `value` in it as well.
pub(super) fn widened<T: Ord + Copy>(range: Option<(T, T)>, value: Option<T>) -> Option<(T, T)> {
    let Some(value) = value else { return range };
    Some(range.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
}

/// The range that has both in it.
fn joined<T: Ord + Copy>(one: Option<(T, T)>, other: Option<(T, T)>) -> Option<(T, T)> {
    let Some((low, high)) = other else { return one };
    widened(widened(one, Some(low)), Some(high))
}

impl Device {
    fn merge(&mut self, other: Self) {
        self.jobs += other.jobs;
        self.throttled += other.throttled;
        if self.driver.is_empty() {
            self.driver = other.driver;
        }
        self.celsius = joined(self.celsius, other.celsius);
        self.watts = joined(self.watts, other.watts);
        self.clock_mhz = joined(self.clock_mhz, other.clock_mhz);
        self.reference_clock_mhz = joined(self.reference_clock_mhz, other.reference_clock_mhz);
    }
}

/// The one of that name, or of all others where there are enough.
fn of<'a, T: Default>(all: &'a mut BTreeMap<String, T>, name: &str) -> &'a mut T {
    let name = if all.len() < LANES || all.contains_key(name) { name } else { OTHERS };
    all.entry(name.to_string()).or_default()
}

fn lane(lanes: &mut BTreeMap<String, Lane>, name: &str, begun_ms: u64, ended_ms: u64) {
    let lane = of(lanes, name);
    lane.jobs += 1;
    lane.busy_ms += ended_ms.saturating_sub(begun_ms);
    lane.bins.add(begun_ms, ended_ms);
}

impl Time {
    pub(super) fn add(&mut self, outcomes: &[Outcome]) {
        outcomes.iter().for_each(|outcome| self.add_one(outcome));
        for percent in drifts(outcomes) {
            *self.drift.entry(percent).or_default() += 1;
        }
        self.pairs.add(outcomes);
        outcomes.iter().for_each(|outcome| self.courses.add(device_of(outcome).as_deref(), &outcome.course));
    }

    /// Adds what only all outcomes together tell; of devices that are off, a line each.
    pub(super) fn settle(&mut self) -> Vec<String> {
        for (name, idle) in self.courses.devices() {
            if let Some(device) = self.devices.get_mut(&name) {
                device.idle = Some(idle);
            }
        }
        let mut off = Vec::new();
        for (name, bias) in self.pairs.biases() {
            if bias.is_off() {
                off.push(format!("{name}: against the other devices {bias}"));
            }
            if let Some(device) = self.devices.get_mut(&name) {
                device.bias = Some(bias);
            }
        }
        off
    }

    fn add_one(&mut self, outcome: &Outcome) {
        let course = &outcome.course;
        let mut waiting_since = course.enqueued_ms;
        if let Some(work) = course.compiled.as_ref().filter(|work| work.begun_ms > 0) {
            lane(&mut self.compilers, &work.worker, work.begun_ms, work.ended_ms);
            self.compiled_ms += work.ended_ms.saturating_sub(work.begun_ms);
            if waiting_since > 0 {
                self.waited_to_compile_ms += work.begun_ms.saturating_sub(waiting_since);
            }
            waiting_since = work.ended_ms;
        }
        match course.evaluated.as_ref().filter(|work| work.begun_ms > 0) {
            Some(work) => {
                self.known += 1;
                lane(&mut self.evaluators, &work.worker, work.begun_ms, work.ended_ms);
                self.evaluated_ms += work.ended_ms.saturating_sub(work.begun_ms);
                if waiting_since > 0 {
                    self.waited_to_evaluate_ms += work.begun_ms.saturating_sub(waiting_since);
                }
            }
            // Of a release that did not say who: the device did.
            None if !outcome.device.is_empty() && outcome.finished_ms > 0 => {
                let begun_ms = outcome.finished_ms.saturating_sub(outcome.busy_ms);
                lane(&mut self.evaluators, &outcome.device, begun_ms, outcome.finished_ms);
                self.evaluated_ms += outcome.busy_ms;
            }
            None => {}
        }
        let Some(name) = device_of(outcome) else { return };
        let state = &outcome.device_state;
        let device = of(&mut self.devices, &name);
        let mut seen = Device {
            jobs: 1,
            driver: state.driver.clone(),
            celsius: widened(None, state.temperature_c),
            watts: widened(None, state.power_w),
            clock_mhz: None,
            reference_clock_mhz: widened(None, state.reference_clock_mhz),
            throttled: 0,
            bias: None,
            idle: None,
        };
        for timing in outcome.candidates.iter().filter_map(|candidate| candidate.result.as_ref().ok()) {
            seen.throttled += u64::from(timing.throttled);
            seen.clock_mhz = widened(seen.clock_mhz, Some(timing.clock_mhz).filter(|mhz| *mhz > 0));
        }
        let stage = outcome.job.stage.name();
        if let Some(range) = joined(self.clock_mhz.get(stage).copied(), seen.clock_mhz) {
            self.clock_mhz.insert(stage, range);
        }
        device.merge(seen);
    }

    pub(super) fn merge(&mut self, other: Self) {
        for (mine, theirs) in [(&mut self.compilers, other.compilers), (&mut self.evaluators, other.evaluators)] {
            for (name, from) in theirs {
                let lane = of(mine, &name);
                lane.jobs += from.jobs;
                lane.busy_ms += from.busy_ms;
                lane.bins.merge(from.bins);
            }
        }
        for (name, from) in other.devices {
            of(&mut self.devices, &name).merge(from);
        }
        for (percent, count) in other.drift {
            *self.drift.entry(percent).or_default() += count;
        }
        for (stage, range) in other.clock_mhz {
            let range = joined(self.clock_mhz.get(stage).copied(), Some(range)).unwrap_or(range);
            self.clock_mhz.insert(stage, range);
        }
        self.waited_to_compile_ms += other.waited_to_compile_ms;
        self.waited_to_evaluate_ms += other.waited_to_evaluate_ms;
        self.compiled_ms += other.compiled_ms;
        self.evaluated_ms += other.evaluated_ms;
        self.known += other.known;
        self.pairs.merge(other.pairs);
        self.courses.merge(other.courses);
    }
}

/// How much longer each candidate that was timed in both stages took in the play-off, in percent.
pub(super) fn drifts(outcomes: &[Outcome]) -> impl Iterator<Item = i64> {
    let perf: BTreeMap<_, f64> = timed(outcomes, Stage::Perf).map(|(candidate, ms, _)| (candidate, ms)).collect();
    timed(outcomes, Stage::Find).filter_map(move |(candidate, ms, _)| {
        let before = perf.get(&candidate)?;
        Some((100.0 * (ms / before - 1.0)).round().clamp(-100.0, 100.0) as i64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_widen_and_lose_nothing() {
        let mut bins = Bins::default();
        bins.add(1_000_050, 1_000_250);
        assert_eq!(bins.bins, BTreeMap::from([(10_000, 50), (10_001, 100), (10_002, 50)]));
        let mut other = Bins::default();
        other.add(2_000_000, 2_003_000);
        bins.merge(other);
        assert_eq!(bins.bins.values().sum::<u64>(), 3200);
        assert!(bins.bins.len() as u64 <= BINS && bins.width_ms > 100);
        // A clock that was wrong costs no more.
        bins.add(0, u64::from(u32::MAX) * 1000);
        assert!(bins.bins.len() as u64 <= BINS);
    }

    #[test]
    fn a_device_is_told_of_by_ranges() {
        let seen = |mhz, reference| Device {
            jobs: 1,
            clock_mhz: widened(None, mhz),
            reference_clock_mhz: widened(None, Some(reference)),
            ..Device::default()
        };
        let mut device = seen(None, 1750);
        device.merge(seen(Some(1700), 1755));
        device.merge(seen(Some(1400), 1750));
        assert_eq!((device.clock_mhz, device.reference_clock_mhz), (Some((1400, 1700)), Some((1750, 1755))));
    }
}
