//! What configs that were found give a program: runs of it with and without them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value as Json;

use crate::Applied;

/// One run of the program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Of all of it.
    pub seconds: f64,
    /// In the first launches of each tuning key: tuning, compiling.
    pub first_s: f64,
    /// Milliseconds of launches, by function and key: a launch's, times how many there were.
    pub kernels: BTreeMap<String, f64>,
}

impl Run {
    /// One that took so long, and what its hook measured.
    #[must_use]
    pub fn of(seconds: f64, applied: &Applied) -> Self {
        let mut run = Self { seconds, ..Self::default() };
        for one in &applied.timed {
            run.first_s += one["first_s"].as_f64().unwrap_or_default();
            let times: Vec<f64> = one["ms"].as_array().into_iter().flatten().filter_map(Json::as_f64).collect();
            let calls = one["calls"].as_f64().unwrap_or_default();
            if let Some(middle) = times.get(times.len() / 2) {
                let name = shown(one["function"].as_str().unwrap_or_default(), one["key"].as_str().unwrap_or_default());
                *run.kernels.entry(name).or_default() += middle * calls;
            }
        }
        run
    }

    /// Milliseconds of all launches. `None`: none was measured.
    fn launches(&self) -> Option<f64> {
        (!self.kernels.is_empty()).then(|| self.kernels.values().sum())
    }
}

/// A function with the numbers of its tuning key, without types.
fn shown(function: &str, key: &str) -> String {
    let parts = key.trim_matches(['(', ')']).split(", ").filter(|part| !part.is_empty() && !part.contains("torch."));
    format!("{function} {}", parts.collect::<Vec<_>>().join(", "))
}

/// The middle of some numbers, with the least and the most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub least: f64,
    pub middle: f64,
    pub most: f64,
}

impl Spread {
    /// Of what `of` says of each run. `None`: it says nothing.
    fn of(runs: &[Run], of: impl Fn(&Run) -> Option<f64>) -> Option<Self> {
        let mut values: Vec<f64> = runs.iter().filter_map(of).collect();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        Some(Self { least, middle: *values.get(values.len() / 2)?, most })
    }

    /// How many times as much as `other` it is: at the least the least over the most. `None`: the other one is nothing.
    fn over(self, other: Self) -> Option<Self> {
        let ratio = |one: f64, other: f64| (other > 0.0).then(|| one / other);
        Some(Self {
            least: ratio(self.least, other.most)?,
            middle: ratio(self.middle, other.middle)?,
            most: ratio(self.most, other.least)?,
        })
    }
}

/// Something that was measured without the configs and with them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gained {
    /// A start, all launches, or a function with its tuning key.
    pub what: String,
    /// `s` or `ms`.
    pub unit: &'static str,
    pub without: Option<Spread>,
    pub with: Option<Spread>,
    /// The first over the second.
    pub gain: Option<Spread>,
    /// Of a kernel in all launches.
    pub share: Option<f64>,
}

/// The runs of a program.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// With an empty cache of Triton's, without and with the configs.
    pub cold: [Vec<Run>; 2],
    /// With what the cold ones left.
    pub warm: [Vec<Run>; 2],
}

impl Runs {
    /// What is compared: starts, all launches, then kernels, that with the largest share first.
    #[must_use]
    pub fn gained(&self) -> Vec<Gained> {
        let mut rows = Vec::new();
        for (start, [without, with]) in [("cold start", &self.cold), ("warm start", &self.warm)] {
            let row = |what: String, of: fn(&Run) -> Option<f64>| {
                Gained::of(what, "s", Spread::of(without, of), Spread::of(with, of))
            };
            rows.push(row(start.to_string(), |run| Some(run.seconds)));
            rows.push(row(format!("{start}: tuning, compiling"), |run| Some(run.first_s)));
        }
        let [without, with] = &self.warm;
        let of = |of: &dyn Fn(&Run) -> Option<f64>| (Spread::of(without, of), Spread::of(with, of));
        let launches = of(&Run::launches);
        let total = launches.0.map_or(0.0, |all| all.middle);
        let of_all = |gained: Gained| {
            let share = gained.without.filter(|_| total > 0.0).map(|one| one.middle / total);
            Gained { share, ..gained }
        };
        rows.push(of_all(Gained::of("launches".to_string(), "ms", launches.0, launches.1)));
        let names = without.first().into_iter().flat_map(|run| run.kernels.keys());
        let mut kernels: Vec<Gained> = names
            .map(|name| {
                let (without, with) = of(&|run: &Run| run.kernels.get(name).copied());
                of_all(Gained::of(name.clone(), "ms", without, with))
            })
            .collect();
        kernels.sort_by(|one, other| other.share.unwrap_or_default().total_cmp(&one.share.unwrap_or_default()));
        rows.extend(kernels);
        rows
    }
}

impl Gained {
    fn of(what: String, unit: &'static str, without: Option<Spread>, with: Option<Spread>) -> Self {
        let gain = without.zip(with).and_then(|(without, with)| without.over(with));
        Self { what, unit, without, with, gain, share: None }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(seconds: f64, kernels: &[(&str, f64)]) -> Run {
        Run {
            seconds,
            first_s: seconds / 2.0,
            kernels: kernels.iter().map(|(name, ms)| (name.to_string(), *ms)).collect(),
        }
    }

    #[test]
    fn a_kernel_counts_as_often_as_it_is_launched() {
        let timed = json!([
            { "function": "f", "key": "(64, 128, 'torch.float16')", "first_s": 2.0, "calls": 10, "ms": [1.0, 2.0, 9.0] },
            { "function": "f", "key": "(64, 128, 'torch.float32')", "first_s": 0.5, "calls": 2, "ms": [3.0] },
            { "function": "g", "key": "()", "first_s": 0.25, "calls": 7, "ms": [] },
        ]);
        let applied =
            Applied { given: BTreeMap::new(), left: BTreeMap::new(), timed: timed.as_array().unwrap().clone() };
        let expected = Run { seconds: 5.0, first_s: 2.75, kernels: [("f 64, 128".to_string(), 26.0)].into() };
        assert_eq!(Run::of(5.0, &applied), expected);
    }

    #[test]
    fn a_gain_has_the_least_and_the_most_that_it_may_be() {
        let without = vec![run(8.0, &[("f", 3.0), ("g", 9.0)]), run(10.0, &[("f", 4.0), ("g", 8.0)])];
        let with = vec![run(4.0, &[("f", 2.0), ("g", 9.0)]), run(5.0, &[("f", 1.0), ("g", 9.0)])];
        let rows = Runs { cold: [without.clone(), with.clone()], warm: [without, with] }.gained();
        let names: Vec<&str> = rows.iter().map(|row| row.what.as_str()).collect();
        let starts = ["cold start", "cold start: tuning, compiling", "warm start", "warm start: tuning, compiling"];
        assert_eq!((&names[..4], &names[4..]), (&starts[..], &["launches", "g", "f"][..]));
        assert_eq!(rows[0].gain, Some(Spread { least: 8.0 / 5.0, middle: 2.0, most: 2.5 }));
        assert_eq!(rows[6].gain, Some(Spread { least: 1.5, middle: 2.0, most: 4.0 }));
        assert_eq!((rows[4].share, rows[5].share), (Some(1.0), Some(9.0 / 12.0)));
        let nothing = Runs { cold: Default::default(), warm: [vec![run(1.0, &[])], Vec::new()] }.gained();
        assert!(nothing.iter().all(|row| row.gain.is_none() && row.share.is_none()));
    }
}
