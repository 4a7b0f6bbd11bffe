//! How far devices are apart on the same kernels: those that were timed on one in the perf stage and on another in the play-off.

use std::collections::BTreeMap;
use std::fmt;

use bluefin_common::candidate::Candidate;
use bluefin_common::outcome::Outcome;
use bluefin_common::session::Stage;
use bluefin_common::spelled::counted;
use serde::Serialize;

/// Kernels that say something of a device, at least; also of one stage against the other.
const EVIDENCE: u64 = 8;
/// Sweeps over all devices, each of which is told by those that it shares kernels with. Two are apart for good after one.
const SWEEPS: usize = 200;
/// Percent that a device may be off and is not named for.
const LIMIT: f64 = 3.0;

/// What a device takes longer than the others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bias {
    /// Longer than the mean of the devices that it shares kernels with, in percent; negative where it takes less.
    pub percent: f64,
    /// Kernels that were timed on it and on another.
    pub kernels: u64,
}

impl Bias {
    /// Whether its times are not to be held against those of others.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.percent.abs() > LIMIT
    }
}

/// `+2.3 % (53 kernels)`.
impl fmt::Display for Bias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:+.1} % ({})", self.percent, counted(self.kernels, "kernel"))
    }
}

/// The name of the device that an outcome is of, where it got to one.
#[must_use]
pub(crate) fn device_of(outcome: &Outcome) -> Option<String> {
    let uuid = outcome.device_state.uuid.as_str();
    let name = if uuid.is_empty() { outcome.device.clone() } else { format!("{} {uuid}", outcome.device) };
    (!outcome.device.is_empty()).then_some(name)
}

/// Candidates of a stage with their times and where they are from, those that were only probed aside.
pub(crate) fn timed(outcomes: &[Outcome], stage: Stage) -> impl Iterator<Item = (&Candidate, f64, &Outcome)> {
    let of_stage = outcomes.iter().filter(move |outcome| outcome.job.stage == stage);
    let all = of_stage.flat_map(|outcome| outcome.candidates.iter().map(move |one| (outcome, one)));
    all.filter_map(|(outcome, one)| {
        let timing = one.result.as_ref().ok().filter(|timing| timing.median_ms > 0.0 && !timing.pruned)?;
        Some((&one.candidate, timing.median_ms, outcome))
    })
}

/// How much longer the play-off was than the perf stage, as logarithms in thousandths, and how often.
type Shifts = BTreeMap<i64, u64>;

/// The shifts of kernels, by the devices of the perf stage and of the play-off.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairs(BTreeMap<(String, String), Shifts>);

/// The kernels of one pair of devices: which, their median shift, and their number.
struct Pair {
    perf: usize,
    find: usize,
    shift: f64,
    kernels: u64,
}

impl Pair {
    fn is_of_one(&self) -> bool {
        self.perf == self.find
    }

    fn has(&self, device: usize) -> bool {
        self.perf == device || self.find == device
    }
}

impl Pairs {
    /// `outcomes` are those of a group.
    pub(crate) fn add(&mut self, outcomes: &[Outcome]) {
        let of = |stage| timed(outcomes, stage).filter_map(|(one, ms, outcome)| Some((one, (ms, device_of(outcome)?))));
        let perf: BTreeMap<&Candidate, (f64, String)> = of(Stage::Perf).collect();
        for (candidate, (ms, find)) in of(Stage::Find) {
            let Some((before_ms, perf)) = perf.get(candidate) else { continue };
            let shift = (1000.0 * (ms / before_ms).ln()).round().clamp(-1000.0, 1000.0) as i64;
            *self.0.entry((perf.clone(), find)).or_default().entry(shift).or_default() += 1;
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (devices, shifts) in other.0 {
            let own = self.0.entry(devices).or_default();
            shifts.into_iter().for_each(|(shift, count)| *own.entry(shift).or_default() += count);
        }
    }

    /// That of each device that shares kernels enough with others. The play-off takes longer or shorter than the perf stage by itself: by
    /// how much is what kernels say that had one device in both.
    pub(crate) fn biases(&self) -> BTreeMap<String, Bias> {
        let names: Vec<&String> = {
            let mut names: Vec<_> = self.0.keys().flat_map(|(perf, find)| [perf, find]).collect();
            names.sort();
            names.dedup();
            names
        };
        let place = |name: &String| names.binary_search(&name).unwrap_or_default();
        let pairs = self.0.iter().map(|((perf, find), shifts)| Pair {
            perf: place(perf),
            find: place(find),
            shift: median(shifts),
            kernels: shifts.values().sum(),
        });
        let (alone, shared): (Vec<Pair>, Vec<Pair>) = pairs.partition(Pair::is_of_one);
        if alone.iter().map(|pair| pair.kernels).sum::<u64>() < EVIDENCE {
            return BTreeMap::new();
        }
        let stage = mean(alone.iter().map(|pair| (pair.shift, pair.kernels)));
        let off = settled(&shared, stage, names.len());
        let kernels = |device| shared.iter().filter(|pair| pair.has(device)).map(|pair| pair.kernels).sum::<u64>();
        let told = names.iter().zip(off).enumerate().filter_map(|(device, (name, off))| {
            let kernels = kernels(device);
            (kernels >= EVIDENCE).then(|| ((*name).clone(), Bias { percent: 100.0 * (off / 1000.0).exp_m1(), kernels }))
        });
        told.collect()
    }
}

/// How much longer each of `count` devices takes than the mean of those that it is connected with, as the kernels that they share say with the least squares.
fn settled(shared: &[Pair], stage: f64, count: usize) -> Vec<f64> {
    let mut off = vec![0.0; count];
    for _ in 0..SWEEPS {
        for device in 0..count {
            let told = shared.iter().filter(|pair| pair.has(device)).map(|pair| {
                let shift = pair.shift - stage;
                let is_find = pair.find == device;
                let other = off.get(if is_find { pair.perf } else { pair.find }).copied().unwrap_or_default();
                (if is_find { other + shift } else { other - shift }, pair.kernels)
            });
            let own = mean(told);
            off.iter_mut().skip(device).take(1).for_each(|off| *off = own);
        }
    }
    // Of those that share kernels with each other, by whatever ways.
    let sets = sets(shared, count);
    let middle = |set: usize| mean(sets.iter().zip(&off).filter(|(of, _)| **of == set).map(|(_, off)| (*off, 1)));
    sets.iter().zip(&off).map(|(set, off)| off - middle(*set)).collect()
}

/// A number for each of `count` devices, the same for those that pairs connect.
fn sets(shared: &[Pair], count: usize) -> Vec<usize> {
    let mut sets: Vec<usize> = (0..count).collect();
    for pair in shared {
        let of = |device: usize| sets.get(device).copied().unwrap_or_default();
        let (one, other) = (of(pair.perf), of(pair.find));
        sets.iter_mut().filter(|set| **set == other).for_each(|set| *set = one);
    }
    sets
}

/// Of values with weights; 0 of none.
fn mean(of: impl Iterator<Item = (f64, u64)>) -> f64 {
    let (sum, weight) = of.fold((0.0, 0), |(sum, weight), (value, count)| (sum + value * count as f64, weight + count));
    if weight == 0 { 0.0 } else { sum / weight as f64 }
}

fn median(shifts: &Shifts) -> f64 {
    let half = shifts.values().sum::<u64>().div_ceil(2);
    let mut below = 0;
    let found = shifts.iter().find(|(_, count)| {
        below += **count;
        below >= half
    });
    found.map_or(0.0, |(shift, _)| *shift as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs of devices that take these times longer than others, `kernels` each: the play-off takes 2 % less by itself.
    fn pairs(of: &[(&str, &str)], slower: &[(&str, f64)], kernels: u64) -> Pairs {
        let slower = |name: &str| slower.iter().find(|(known, _)| *known == name).map_or(0.0, |(_, by)| by.ln());
        let mut all = Pairs::default();
        for (perf, find) in of {
            let shift = 1000.0 * (slower(find) - slower(perf) + 0.98_f64.ln());
            let shifts = Shifts::from([(shift.round() as i64, kernels), (400, 1)]);
            all.merge(Pairs([((perf.to_string(), find.to_string()), shifts)].into()));
        }
        all
    }

    fn told(pairs: &Pairs) -> Vec<(String, i64, u64)> {
        let biases = pairs.biases().into_iter();
        biases.map(|(name, bias)| (name, (10.0 * bias.percent).round() as i64, bias.kernels)).collect()
    }

    #[test]
    fn a_device_is_off_by_what_shared_kernels_say() {
        let of = [("a", "a"), ("a", "b"), ("b", "a"), ("c", "b"), ("d", "d"), ("e", "f")];
        let all = pairs(&of, &[("b", 1.06), ("d", 3.0), ("e", 1.1)], 40);
        // d shares none, and nobody is held against it; e and f are held against each other alone.
        let expected = [("a", -20, 82), ("b", 39, 123), ("c", -20, 41), ("e", 51, 41), ("f", -48, 41)];
        let near = |(name, percent, kernels): &(String, i64, u64)| {
            expected.iter().any(|(n, p, k)| n == name && (p - percent).abs() <= 2 && k == kernels)
        };
        let told = told(&all);
        assert!(told.len() == 5 && told.iter().all(near), "{told:?}");
    }

    #[test]
    fn too_few_kernels_say_nothing() {
        let of = [("a", "a"), ("a", "b")];
        assert_eq!(told(&pairs(&of, &[("b", 1.06)], 5)), []);
        // Nothing tells a slow play-off from a slow device.
        assert_eq!(told(&pairs(&[("a", "b"), ("b", "a")], &[("b", 1.06)], 40)), []);
        assert_eq!(told(&Pairs::default()), []);
    }
}
