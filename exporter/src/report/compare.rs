//! Two tunings compared: the fastest of each problem before and after.

use std::collections::{BTreeMap, HashMap};

use bluefin_common::digest::Digest;
use bluefin_common::problem::Problem;
use bluefin_common::session::SessionName;
use bluefin_common::store::Store;
use bluefin_common::value::Value;
use bluefin_miopen::db::find_db::FindDb;
use bluefin_miopen::key::FindDbKey;
use serde::Serialize;

use super::Gain;
use crate::db::diff::Diff;
use crate::error::ExportError;
use crate::export::gather;
use crate::fold::{Fold, Group, Warnings};
use crate::summary::{likely_ms, named_params, ratio};

/// Changes that are listed.
const LISTED: usize = 500;

/// The fastest known of one problem.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Best {
    pub solver: String,
    pub time_ms: f64,
    /// In which the true time lies with little doubt. A find db has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range_ms: Option<(f64, f64)>,
    /// In the solver's order. A find db has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub params: Vec<(String, Value)>,
}

/// The fastest of each problem, by what names problems on this side: their canonical form, or their key in a find db.
#[derive(Clone, Debug, Default)]
pub struct Side {
    pub best: BTreeMap<String, Best>,
    /// How often problems are asked for, where that is known.
    counts: HashMap<String, u64>,
    /// Short words for problems that have some.
    labels: HashMap<String, String>,
}

/// A problem before and after.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    pub problem: String,
    /// The problem in short, where it has such words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    pub count: u64,
    pub before: Option<Best>,
    pub after: Option<Best>,
    /// Time before by time after: above 1 is faster.
    pub speedup: Option<f64>,
    /// In which the true ratio lies with little doubt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speedup_range: Option<(f64, f64)>,
}

impl Change {
    /// The speedup with its uncertainty: `3.20x ± 0.11`.
    #[must_use]
    pub fn told(&self) -> Option<String> {
        Some(ratio(self.speedup?, self.speedup_range))
    }
}

/// How one problem that both have changed, for a picture.
#[derive(Clone, Debug)]
pub struct Speedup {
    /// What the problem is called.
    pub name: String,
    pub times: f64,
    pub range: Option<(f64, f64)>,
}

impl Speedup {
    /// With its uncertainty: `3.20x ± 0.11`.
    #[must_use]
    pub fn told(&self) -> String {
        ratio(self.times, self.range)
    }
}

/// How two tunings differ.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Comparison {
    /// Problems that both have.
    pub common: u64,
    pub faster: u64,
    pub slower: u64,
    pub tied: u64,
    pub new: u64,
    pub gone: u64,
    pub switched: u64,
    /// Geometric means of speedups: each problem once, and as often as it is asked for.
    pub mean_speedup: Option<f64>,
    /// In which the true mean lies with little doubt.
    pub mean_speedup_range: Option<(f64, f64)>,
    pub weighted_speedup: Option<f64>,
    /// Those that changed most first, slower ones before faster ones.
    pub changes: Vec<Change>,
    pub left_out: usize,
    /// Of all problems that both have, the largest first.
    #[serde(skip)]
    pub speedups: Vec<Speedup>,
}

impl Comparison {
    /// The mean speedup with its uncertainty: `3.20x ± 0.11`.
    #[must_use]
    pub fn told(&self) -> Option<String> {
        Some(ratio(self.mean_speedup?, self.mean_speedup_range))
    }
}

/// What is compared, and what came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    pub before: String,
    pub after: String,
    /// Times that differ by less are tied.
    pub noise: f64,
    pub winners: Option<Comparison>,
    /// Databases without times, by file.
    pub files: Vec<(String, Diff)>,
}

/// What a session's winners are called on its side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    Canonical,
    /// Problems that no find db can hold are left out.
    FindDb,
}

struct Winners {
    names: Names,
    counts: HashMap<Digest, u64>,
    side: Side,
}

impl Winners {
    fn name(&self, problem: &Problem) -> Option<String> {
        match (self.names, problem) {
            (Names::Canonical, problem) => Some(problem.canonical()),
            (Names::FindDb, Problem::Conv(conv)) => Some(FindDbKey::from(conv).to_string()),
            (Names::FindDb, _) => None,
        }
    }
}

impl Fold for Winners {
    fn add(&mut self, group: &Group<'_>, _: &mut Warnings) {
        let (Some(winner), Some(name)) =
            (group.decision.as_ref().and_then(|decision| decision.winner()), self.name(group.problem))
        else {
            return;
        };
        if let Some(count) = self.counts.get(&group.problem.digest()) {
            self.side.counts.insert(name.clone(), *count);
        }
        let params = named_params(&group.description, &winner.outcome.candidate);
        let (time_ms, range_ms) = (winner.timing.median_ms, Some(likely_ms(winner.timing)));
        let best = Best { solver: winner.solver().to_string(), time_ms, range_ms, params };
        self.side.labels.insert(name.clone(), group.problem.label());
        self.side.add(name, best);
    }

    fn merge(&mut self, other: Self, _: &mut Warnings) {
        self.side.counts.extend(other.side.counts);
        self.side.labels.extend(other.side.labels);
        other.side.best.into_iter().for_each(|(name, best)| self.side.add(name, best));
    }
}

impl Side {
    fn add(&mut self, name: String, best: Best) {
        match self.best.get_mut(&name) {
            Some(known) if known.time_ms <= best.time_ms => {}
            Some(known) => *known = best,
            None => _ = self.best.insert(name, best),
        }
    }

    /// The winners of a session.
    ///
    /// # Errors
    /// If it does not exist, or the store fails.
    pub async fn of_session(
        store: &dyn Store,
        session: &SessionName,
        names: Names,
        counts: &HashMap<Digest, u64>,
    ) -> Result<Self, ExportError> {
        let empty = || Winners { names, counts: counts.clone(), side: Self::default() };
        Ok(gather(store, session, None, empty).await?.records.side)
    }

    /// The fastest entries of a find db.
    #[must_use]
    pub fn of_find_db(db: &FindDb) -> Self {
        let mut side = Self::default();
        for (key, entries) in &db.records {
            for entry in entries.iter().filter(|entry| entry.time_ms > 0.0) {
                let (solver, time_ms) = (entry.solver.to_string(), f64::from(entry.time_ms));
                side.add(key.clone(), Best { solver, time_ms, range_ms: None, params: Vec::new() });
            }
        }
        side
    }
}

/// Compares two sides that name problems alike. Times whose ratio is at most `1 + noise`, either way, are tied.
#[must_use]
pub fn compare(before: &Side, after: &Side, noise: f64) -> Comparison {
    let mut all = Comparison::default();
    let mut gain = Gain::default();
    let mut names: Vec<&String> = before.best.keys().chain(after.best.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let (a, b) = (before.best.get(name), after.best.get(name));
        let count = after.counts.get(name).or_else(|| before.counts.get(name)).copied().unwrap_or(1);
        let label = after.labels.get(name).or_else(|| before.labels.get(name)).cloned();
        let (mut speedup, mut speedup_range) = (None, None);
        let mut is_listed = true;
        match (a, b) {
            (Some(a), Some(b)) => {
                let times = a.time_ms / b.time_ms;
                let range = a.range_ms.zip(b.range_ms).map(|(a, b)| (a.0 / b.1, a.1 / b.0));
                (speedup, speedup_range) = (Some(times), range);
                all.common += 1;
                gain.add(speedup, range, b.time_ms, count);
                let name = label.as_ref().unwrap_or(name).clone();
                all.speedups.push(Speedup { name, times, range });
                let switched = a.solver != b.solver;
                all.switched += u64::from(switched);
                if times > 1.0 + noise {
                    all.faster += 1;
                } else if times < 1.0 / (1.0 + noise) {
                    all.slower += 1;
                } else {
                    all.tied += 1;
                    is_listed = switched;
                }
            }
            (None, _) => all.new += 1,
            (_, None) => all.gone += 1,
        }
        if is_listed {
            let (before, after) = (a.cloned(), b.cloned());
            all.changes.push(Change { problem: name.clone(), label, count, before, after, speedup, speedup_range });
        }
    }
    (all.mean_speedup, all.mean_speedup_range) = (gain.mean(), gain.range());
    all.weighted_speedup = gain.weighted_mean();
    all.speedups.sort_by(|a, b| b.times.total_cmp(&a.times));
    let order = |change: &Change| change.speedup.unwrap_or(1.0);
    all.changes.sort_by(|a, b| order(a).total_cmp(&order(b)).then_with(|| a.problem.cmp(&b.problem)));
    all.left_out = all.changes.len().saturating_sub(LISTED);
    if all.left_out > 0 {
        // What is in the middle changed least.
        all.changes.drain(LISTED / 2..LISTED / 2 + all.left_out);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_is_counted_weighed_and_listed() {
        let side = |times: &[(&str, f64)]| {
            let mut side = Side::default();
            for (name, time_ms) in times {
                let (solver, time_ms) = ("s".to_string(), *time_ms);
                let range_ms = Some((0.9 * time_ms, 1.1 * time_ms));
                side.add((*name).to_string(), Best { solver, time_ms, range_ms, params: Vec::new() });
            }
            side
        };
        let before = side(&[("a", 4.0), ("b", 1.0), ("c", 1.0), ("gone", 1.0)]);
        let mut after = side(&[("a", 1.0), ("b", 2.0), ("c", 1.01), ("new", 1.0)]);
        after.counts.insert("a".to_string(), 3);
        let found = compare(&before, &after, 0.05);
        assert_eq!((found.faster, found.slower, found.tied, found.new, found.gone), (1, 1, 1, 1, 1));
        let listed: Vec<&str> = found.changes.iter().map(|change| change.problem.as_str()).collect();
        assert_eq!(listed, ["b", "gone", "new", "a"]);
        assert!((found.mean_speedup.unwrap() - (2.0_f64 / 1.01).powf(1.0 / 3.0)).abs() < 1e-9);
        let (low, high) = found.changes[0].speedup_range.unwrap();
        assert!((low - 0.5 * 0.9 / 1.1).abs() < 1e-9 && (high - 0.5 * 1.1 / 0.9).abs() < 1e-9, "{low} {high}");
        assert_eq!(found.changes[0].told().unwrap(), "0.50x ± 0.11");
        assert_eq!(found.told().unwrap(), "1.26x ± 0.15");
        assert!((found.weighted_speedup.unwrap() - (32.0_f64 / 1.01).powf(0.2)).abs() < 1e-9);
    }
}
