//! One problem: its row, and what is told of it at length.

use std::collections::BTreeMap;

use bluefin_common::candidate::Candidate;
use bluefin_common::decision::ranked;
use bluefin_common::digest::Digest;
use bluefin_common::outcome::Outcome;
use bluefin_common::session::Stage;
use serde::Serialize;

use super::Failures;
use super::time::{drifts, widened};
use crate::fold::Group;
use crate::shared::named;
use crate::summary::Summary;

/// Candidates that are shown one by one.
const FINALISTS: usize = 12;
/// Times of a solver that are shown as points.
const POINTS: usize = 80;
/// Solvers that are shown.
const SOLVERS: usize = 24;
/// Improvements that are shown: the last ones.
const STEPS: usize = 60;
/// Params that are shown, those that matter most.
const PARAMS: usize = 12;
/// Values of a param that are shown.
const VALUES: usize = 16;

/// A problem in the list.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Names it among all problems.
    pub digest: Digest,
    /// How often it is asked for.
    pub count: u64,
    /// It has no winner yet, and work is left.
    pub under_way: bool,
    #[serde(flatten)]
    pub summary: Summary,
}

impl Row {
    /// `is_open`: it has work left.
    pub(super) fn of(group: &Group<'_>, digest: Digest, count: u64, is_open: bool) -> Self {
        let summary = Summary::of(group);
        Self { digest, count, under_way: is_open && summary.winner.is_none(), summary }
    }
}

/// A problem at length.
#[derive(Clone, Debug, Serialize)]
pub struct Detail {
    pub row: Row,
    /// Fastest first.
    pub solvers: Vec<Spread>,
    pub solvers_left_out: usize,
    /// The stage that decided, fastest first.
    pub finalists: Vec<Finalist>,
    /// In the order in which they were evaluated.
    pub best_so_far: Vec<Step>,
    /// Candidates with a time, among which those steps are.
    pub timed: usize,
    /// Lowest and highest clock of candidates, where devices tell.
    pub clock_mhz: Option<(u32, u32)>,
    /// How much longer candidates took in the play-off than in the perf stage, in percent: least and most.
    pub drift: Option<(i64, i64)>,
    /// Of the winner's solver, those that matter most first.
    pub params: Vec<ParamEffect>,
    pub params_left_out: usize,
    pub failures: Failures,
}

/// Times of a solver's candidates in milliseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Spread {
    pub solver: String,
    pub timed: usize,
    /// Of those, only probed.
    pub pruned: usize,
    /// Least, quartiles, most.
    pub quantiles: [f64; 5],
    pub default_ms: Option<f64>,
    /// Some of them, evenly by rank, the fastest among them.
    pub points: Vec<Point>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Point {
    pub ms: f64,
    pub params: String,
}

/// A candidate of the stage that decided.
#[derive(Clone, Debug, Serialize)]
pub struct Finalist {
    pub solver: String,
    pub params: String,
    pub median_ms: f64,
    pub spread_ms: f64,
    pub samples: usize,
    /// There is a winner, and it can not be told apart from the fastest.
    pub ties: bool,
    pub is_winner: bool,
}

/// A candidate that was faster than all before.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Counted from 1.
    pub candidate: usize,
    pub ms: f64,
    pub solver: String,
    pub params: String,
}

/// What a param does to the time.
#[derive(Clone, Debug, Serialize)]
pub struct ParamEffect {
    pub name: String,
    /// The best time of its worst value by that of its best.
    pub effect: f64,
    /// By value; the fastest ones where there are many.
    pub values: Vec<ValueEffect>,
    pub values_left_out: usize,
}

#[derive(Clone, Debug, Serialize)]
pub struct ValueEffect {
    pub value: String,
    pub candidates: usize,
    pub best_ms: f64,
    pub median_ms: f64,
}

/// A candidate of the perf stage with its time.
struct Timed<'a> {
    candidate: &'a Candidate,
    ms: f64,
    pruned: bool,
}

impl Detail {
    pub(super) fn of(group: &Group<'_>, row: &Row) -> Self {
        let timed = timed(group.outcomes);
        let mut solvers = spreads(group, &timed);
        let solvers_left_out = solvers.len().saturating_sub(SOLVERS);
        solvers.truncate(SOLVERS);
        let mut params = effects(group, row, &timed);
        let params_left_out = params.len().saturating_sub(PARAMS);
        params.truncate(PARAMS);
        Self {
            row: row.clone(),
            solvers,
            solvers_left_out,
            finalists: finalists(group),
            best_so_far: steps(group, &timed),
            timed: timed.len(),
            clock_mhz: clocks(group.outcomes).fold(None, |range, mhz| widened(range, Some(mhz))),
            drift: drifts(group.outcomes).fold(None, |range, percent| widened(range, Some(percent))),
            params,
            params_left_out,
            failures: Failures::of(group),
        }
    }
}

/// Of candidates with a time, medians of their samples.
fn clocks(outcomes: &[Outcome]) -> impl Iterator<Item = u32> {
    let candidates = outcomes.iter().flat_map(|outcome| &outcome.candidates);
    let timings = candidates.filter_map(|candidate| candidate.result.as_ref().ok());
    timings.map(|timing| timing.clock_mhz).filter(|mhz| *mhz > 0)
}

/// In the order in which they were evaluated; of a session without a perf stage those of the other.
fn timed(outcomes: &[Outcome]) -> Vec<Timed<'_>> {
    let has_perf = outcomes.iter().any(|outcome| outcome.job.stage == Stage::Perf);
    let stage = if has_perf { Stage::Perf } else { Stage::Find };
    let mut of_stage: Vec<_> = outcomes.iter().filter(|outcome| outcome.job.stage == stage).collect();
    of_stage.sort_by_key(|outcome| outcome.finished_ms);
    let all = of_stage.into_iter().flat_map(|outcome| &outcome.candidates).filter_map(|one| {
        let timing = one.result.as_ref().ok().filter(|timing| timing.median_ms > 0.0)?;
        Some(Timed { candidate: &one.candidate, ms: timing.median_ms, pruned: timing.pruned })
    });
    all.collect()
}

/// The value below which `share` of the sorted `times` are.
fn quantile(times: &[f64], share: f64) -> f64 {
    let at = share * times.len().saturating_sub(1) as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    match (times.get(low), times.get(high)) {
        (Some(a), Some(b)) => a + (b - a) * (at - low as f64),
        _ => 0.0,
    }
}

fn spreads(group: &Group<'_>, timed: &[Timed<'_>]) -> Vec<Spread> {
    let mut by_solver: BTreeMap<&str, Vec<&Timed<'_>>> = BTreeMap::new();
    for one in timed {
        by_solver.entry(&one.candidate.solver).or_default().push(one);
    }
    let spread = |(solver, mut all): (&str, Vec<&Timed<'_>>)| {
        all.sort_by(|a, b| a.ms.total_cmp(&b.ms));
        let times: Vec<f64> = all.iter().map(|one| one.ms).collect();
        let default = group.description.solver(solver).and_then(|solver| solver.default.as_ref());
        let default_ms = default.and_then(|default| all.iter().find(|one| one.candidate.params == *default));
        let every = all.len().div_ceil(POINTS).max(1);
        let points = all.iter().step_by(every);
        Spread {
            solver: solver.to_string(),
            timed: all.len(),
            pruned: all.iter().filter(|one| one.pruned).count(),
            quantiles: [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| quantile(&times, share)),
            default_ms: default_ms.map(|one| one.ms),
            points: points.map(|one| Point { ms: one.ms, params: named(group, one.candidate) }).collect(),
        }
    };
    let mut spreads: Vec<Spread> = by_solver.into_iter().map(spread).collect();
    spreads.sort_by(|a, b| {
        let best = |spread: &Spread| spread.quantiles[0];
        best(a).total_cmp(&best(b)).then_with(|| a.solver.cmp(&b.solver))
    });
    spreads
}

fn finalists(group: &Group<'_>) -> Vec<Finalist> {
    let winner = group.decision.as_ref().and_then(|decision| decision.winner());
    let has_find = group.outcomes.iter().any(|outcome| outcome.job.stage == Stage::Find);
    let ranked = ranked(group.outcomes, if has_find { Stage::Find } else { Stage::Perf });
    let Some(fastest) = ranked.first().copied() else { return Vec::new() };
    let finalist = |timed: &bluefin_common::decision::Timed<'_>| Finalist {
        solver: timed.solver().to_string(),
        params: named(group, &timed.outcome.candidate),
        median_ms: timed.timing.median_ms,
        spread_ms: timed.timing.spread_ms,
        samples: timed.timing.samples_ms.len(),
        ties: winner.is_some() && timed.ties_with(&fastest),
        is_winner: winner
            .is_some_and(|winner| winner.outcome.candidate == timed.outcome.candidate && winner.timing == timed.timing),
    };
    ranked.iter().take(FINALISTS).map(finalist).collect()
}

fn steps(group: &Group<'_>, timed: &[Timed<'_>]) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (index, one) in timed.iter().enumerate() {
        if steps.last().is_none_or(|best| one.ms < best.ms) {
            let params = named(group, one.candidate);
            steps.push(Step { candidate: index + 1, ms: one.ms, solver: one.candidate.solver.clone(), params });
        }
    }
    steps.split_off(steps.len().saturating_sub(STEPS))
}

fn effects(group: &Group<'_>, row: &Row, timed: &[Timed<'_>]) -> Vec<ParamEffect> {
    let Some(winner) = &row.summary.winner else { return Vec::new() };
    let own: Vec<_> = timed.iter().filter(|one| one.candidate.solver == winner.solver).collect();
    let names = group.description.solver(&winner.solver).map_or(&[][..], |solver| &solver.params);
    let effect = |(index, name): (usize, &String)| {
        let mut by_value: BTreeMap<_, Vec<f64>> = BTreeMap::new();
        for one in &own {
            by_value.entry(one.candidate.params.get(index)?).or_default().push(one.ms);
        }
        let mut values: Vec<ValueEffect> = Vec::new();
        for (value, mut times) in by_value {
            times.sort_by(f64::total_cmp);
            let (best_ms, median_ms) = (quantile(&times, 0.0), quantile(&times, 0.5));
            values.push(ValueEffect { value: value.to_string(), candidates: times.len(), best_ms, median_ms });
        }
        let best = values.iter().map(|value| value.best_ms).min_by(f64::total_cmp)?;
        let worst = values.iter().map(|value| value.best_ms).max_by(f64::total_cmp)?;
        let values_left_out = values.len().saturating_sub(VALUES);
        if values_left_out > 0 {
            values.sort_by(|a, b| a.best_ms.total_cmp(&b.best_ms));
            values.truncate(VALUES);
        }
        Some(ParamEffect { name: name.clone(), effect: worst / best, values, values_left_out })
    };
    let mut effects: Vec<_> = names.iter().enumerate().filter_map(effect).collect();
    effects.retain(|effect| effect.values.len() > 1);
    effects.sort_by(|a, b| b.effect.total_cmp(&a.effect));
    effects
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between() {
        let times = [1.0, 2.0, 4.0];
        assert_eq!([0.0, 0.25, 0.5, 1.0].map(|share| quantile(&times, share)), [1.0, 1.5, 2.0, 4.0]);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}
