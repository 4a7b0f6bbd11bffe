//! What came of each problem, for people and for `winners.json`.

use std::collections::BTreeMap;

use bluefin_common::candidate::Candidate;
use bluefin_common::decision::Decision;
use bluefin_common::description::Description;
use bluefin_common::digest::Digest;
use bluefin_common::job::GroupId;
use bluefin_common::noise::Noise;
use bluefin_common::outcome::{CandidateOutcome, Outcome, Timing};
use bluefin_common::session::{Session, Stage};
use bluefin_common::store::Store;
use bluefin_common::value::Value;
use serde::Serialize;

use crate::error::ExportError;
use crate::fold::{Fold, Group, Warnings};
use crate::results::by_name;
use crate::searched::Searched;
use crate::stream;

/// What came of one problem with one kernel spec.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Canonical form.
    pub problem: String,
    /// Short name for tables.
    pub label: String,
    /// Name of the kernel spec, or of the tool of MIOpen's.
    pub spec: String,
    /// Digest of the kernel spec, of which an edited one has another; absent where there is no spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec_digest: Option<String>,
    /// When the last of its outcomes was finished: milliseconds since the Unix epoch. Not in files, which are the same whenever the
    /// same came out.
    #[serde(skip)]
    pub tuned_ms: u64,
    pub winner: Option<Winner>,
    /// Candidates of the perf stage.
    pub tried: u64,
    /// Candidates that failed in any stage, by kind of failure.
    pub failed: BTreeMap<String, u64>,
    /// There are tunable solvers, and every candidate of theirs failed: what won has no params.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub nothing_tuned: bool,
    /// How the search of each solver ended, in the order of the spec; none where nobody searched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub searched: Vec<Searched>,
    /// Where nothing won: the words of the first failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The candidate that won, and by how much.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Winner {
    pub solver: String,
    /// By name, in the order of the spec.
    #[serde(serialize_with = "by_name")]
    pub params: Vec<(String, Value)>,
    pub median_ms: f64,
    pub spread_ms: f64,
    /// Why its time is in doubt, where it is: other work of the machine. `--remeasure` measures it again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise: Option<String>,
    /// Bytes.
    pub workspace: u64,
    /// Useful work per second, in 10^9 operations; `null` where neither the problem nor its spec says how much it is.
    pub gflops: Option<f64>,
    /// 10^9 bytes a second, where the spec says how many bytes there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gbytes_per_s: Option<f64>,
    /// Other candidates of the play-off, those of the same solver included, that can not be told apart from the fastest.
    pub ties: usize,
    /// Against the same solver with its default params. This and the next compare times of one job, the play-off where there is
    /// one: what was not timed side by side, or only probed, is no ratio.
    pub speedup_over_default: Option<f64>,
    /// In which the true ratio lies with little doubt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speedup_over_default_range: Option<(f64, f64)>,
    /// Against the spec's reference solver, where there is one.
    pub speedup_over_reference: Option<f64>,
    /// In which the true ratio lies with little doubt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speedup_over_reference_range: Option<(f64, f64)>,
}

impl Winner {
    /// What it gained over default params: `3.20x ± 0.11`.
    #[must_use]
    pub fn over_default(&self) -> Option<String> {
        Some(ratio(self.speedup_over_default?, self.speedup_over_default_range))
    }

    /// What it gained over the reference.
    #[must_use]
    pub fn over_reference(&self) -> Option<String> {
        Some(ratio(self.speedup_over_reference?, self.speedup_over_reference_range))
    }
}

/// `3.20x ± 0.11`; the uncertainty only where the two digits show it. Where that is more than half of the factor, the range, which is
/// lopsided then: `8.84x (4.20 to 18.54)`.
pub(crate) fn ratio(factor: f64, range: Option<(f64, f64)>) -> String {
    let half = |(low, high): (f64, f64)| (high - factor).max(factor - low);
    match range.map(|range| (range, half(range))).filter(|(_, half)| *half >= 0.005) {
        None => format!("{factor:.2}x"),
        Some(((low, high), half)) if half > factor / 2.0 => format!("{factor:.2}x ({low:.2} to {high:.2})"),
        Some((_, half)) => format!("{factor:.2}x ± {half:.2}"),
    }
}

/// Summarizes the outcomes of one group. `None` if there are none.
#[must_use]
pub fn summarize(session: &Session, outcomes: &[Outcome]) -> Option<Summary> {
    Some(Summary::of(&Group::new(session, outcomes)?))
}

impl Summary {
    /// Summarizes a group.
    #[must_use]
    pub fn of(group: &Group<'_>) -> Self {
        let mut tried = 0;
        let mut failed: BTreeMap<String, u64> = BTreeMap::new();
        let mut reason = None;
        for outcome in group.outcomes {
            if outcome.job.stage == Stage::Perf {
                tried += outcome.candidates.len() as u64;
            }
            for failure in outcome.candidates.iter().filter_map(|candidate| candidate.result.as_ref().err()) {
                *failed.entry(failure.kind.name().to_string()).or_default() += 1;
                if reason.is_none() && !failure.detail.is_empty() {
                    reason = Some(failure.detail.clone());
                }
            }
        }
        let winner = group.decision.as_ref().and_then(|decision| winner(group, decision));
        Self {
            problem: group.problem.canonical(),
            label: group.problem.label(),
            spec: group.description.library.clone(),
            spec_digest: (group.spec != Digest::of(b"")).then(|| group.spec.to_string()),
            tuned_ms: group.outcomes.iter().map(|outcome| outcome.finished_ms).max().unwrap_or_default(),
            reason: reason.filter(|_| winner.is_none()),
            winner,
            tried,
            failed,
            searched: Searched::all(group),
            nothing_tuned: nothing_tuned(group),
        }
    }
}

/// Whether candidates with params were tried, and none of them has a time.
fn nothing_tuned(group: &Group<'_>) -> bool {
    let candidates = group.outcomes.iter().flat_map(|outcome| &outcome.candidates);
    let mut tunable = candidates.filter(|one| !one.candidate.params.is_empty()).peekable();
    tunable.peek().is_some() && tunable.all(|one| one.result.is_err())
}

/// The params of `candidate` with their names, or their numbers where those are not known.
pub(crate) fn named_params(description: &Description, candidate: &Candidate) -> Vec<(String, Value)> {
    let solver = description.solver(&candidate.solver);
    let name = |index: usize| solver.and_then(|solver| solver.params.get(index)).cloned();
    let params = candidate.params.iter().enumerate();
    params.map(|(index, value)| (name(index).unwrap_or_else(|| index.to_string()), value.clone())).collect()
}

fn winner(group: &Group<'_>, decision: &Decision<'_>) -> Option<Winner> {
    let winner = decision.winner()?;
    let candidate = &winner.outcome.candidate;
    let solver = group.description.solver(&candidate.solver);
    let default = solver.and_then(|solver| solver.default.clone());
    let default = default.map(|params| Candidate { solver: candidate.solver.clone(), params });
    let over =
        |other: Option<Candidate>| Some(speedup(winner.timing, beside(group.outcomes, winner.outcome, &other?)?));
    let over_default = over(default);
    let over_reference = over(group.description.reference.clone());
    let rate = |amount: Option<f64>| Some(amount? / (winner.timing.median_ms * 1e6));
    Some(Winner {
        solver: candidate.solver.clone(),
        params: named_params(&group.description, candidate),
        median_ms: winner.timing.median_ms,
        spread_ms: winner.timing.spread_ms,
        noise: Noise::of_candidate(winner.outcome, group.outcomes).map(|noise| noise.to_string()),
        workspace: winner.workspace(),
        gflops: rate(group.flops()),
        gbytes_per_s: rate(group.bytes()),
        ties: decision.ties,
        speedup_over_default: over_default.map(|(ratio, _)| ratio),
        speedup_over_default_range: over_default.map(|(_, range)| range),
        speedup_over_reference: over_reference.map(|(ratio, _)| ratio),
        speedup_over_reference_range: over_reference.map(|(_, range)| range),
    })
}

/// The times of `wanted` in the job that `winner` was timed in, unless it was only probed there.
fn beside<'a>(outcomes: &'a [Outcome], winner: &CandidateOutcome, wanted: &Candidate) -> Option<&'a Timing> {
    let job = outcomes.iter().find(|outcome| outcome.candidates.iter().any(|one| std::ptr::eq(one, winner)))?;
    let mut timings =
        job.candidates.iter().filter(|one| one.candidate == *wanted).filter_map(|one| one.result.as_ref().ok());
    timings.find(|timing| !timing.pruned && timing.median_ms > 0.0)
}

/// Between which times the true one is with little doubt.
pub(crate) fn likely_ms(timing: &Timing) -> (f64, f64) {
    timing.interval_ms().unwrap_or_else(|| {
        // Few samples say little: their range, and a tenth to either side.
        let (low, high) = timing.range_ms();
        (0.9 * low, 1.1 * high)
    })
}

/// How many times as fast `own` is as `other`, and between which ratios that is with little doubt.
fn speedup(own: &Timing, other: &Timing) -> (f64, (f64, f64)) {
    let ((low, high), (other_low, other_high)) = (likely_ms(own), likely_ms(other));
    // A winner is compared with itself where it has its default params.
    let range = if std::ptr::eq(own, other) { (1.0, 1.0) } else { (other_low / high, other_high / low) };
    (other.median_ms / own.median_ms, range)
}

/// Summaries in the order of their groups.
#[derive(Default)]
struct Summaries(Vec<Summary>);

impl Fold for Summaries {
    fn add(&mut self, group: &Group<'_>, _: &mut Warnings) {
        self.0.push(Summary::of(group));
    }

    fn merge(&mut self, other: Self, _: &mut Warnings) {
        self.0.extend(other.0);
    }
}

/// Those of the newest spec of each name, for each problem: an edited spec leaves what came of the older one behind.
#[must_use]
pub fn newest(mut summaries: Vec<Summary>) -> Vec<Summary> {
    let mut last: BTreeMap<(String, String), u64> = BTreeMap::new();
    for Summary { problem, spec, tuned_ms, .. } in &summaries {
        let newest = last.entry((problem.clone(), spec.clone())).or_default();
        *newest = (*newest).max(*tuned_ms);
    }
    summaries.retain(|Summary { problem, spec, tuned_ms, .. }| {
        last.get(&(problem.clone(), spec.clone())).is_none_or(|newest| newest == tuned_ms)
    });
    summaries
}

/// Summaries of `groups`, in their order. A group without outcomes has none.
///
/// # Errors
/// If the store fails, or a kernel spec in it can not be used.
pub async fn summaries(store: &dyn Store, session: &Session, groups: &[GroupId]) -> Result<Vec<Summary>, ExportError> {
    let Summaries(all) = stream::fold(store, session, groups, None, Summaries::default).await?.records;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::ratio;

    #[test]
    fn uncertainty_is_told_and_never_goes_below_zero() {
        let told = [None, Some((3.199, 3.202)), Some((3.1, 3.31)), Some((1.6, 6.4)), Some((0.2, 12.9))];
        let told = told.map(|range| ratio(3.2, range));
        assert_eq!(told, ["3.20x", "3.20x", "3.20x ± 0.11", "3.20x (1.60 to 6.40)", "3.20x (0.20 to 12.90)"]);
    }
}
