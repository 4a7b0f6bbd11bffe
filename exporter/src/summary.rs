//! What came of each problem, for people and for `winners.json`.

use std::collections::BTreeMap;

use bluefin_common::candidate::Candidate;
use bluefin_common::decision::Decision;
use bluefin_common::job::GroupId;
use bluefin_common::outcome::Outcome;
use bluefin_common::session::{Session, Stage};
use bluefin_common::store::Store;
use bluefin_common::value::Value;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::error::ExportError;
use crate::fold::{Fold, Group, Warnings};
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
    pub winner: Option<Winner>,
    /// Candidates of the perf stage.
    pub tried: u64,
    /// Candidates that failed in any stage, by kind of failure.
    pub failed: BTreeMap<String, u64>,
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
    /// Bytes.
    pub workspace: u64,
    /// Useful work per second; 0 for a user's own kernel, whose work is not known.
    pub gflops: f64,
    /// Other candidates of the play-off, those of the same solver included, that can not be told apart from the fastest.
    pub ties: usize,
    /// Against the same solver with its default params. This and the next two compare times of the perf stage, where
    /// all candidates were timed alike.
    pub speedup_over_default: Option<f64>,
    /// Against the slowest candidate of the problem, those that were only probed included.
    pub speedup_over_worst: Option<f64>,
    /// Against the spec's reference solver, where there is one.
    pub speedup_over_reference: Option<f64>,
}

fn by_name<S: Serializer>(params: &[(String, Value)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(params.len()))?;
    for (name, value) in params {
        match value {
            Value::Int(value) => map.serialize_entry(name, value)?,
            Value::Text(value) => map.serialize_entry(name, value)?,
            Value::Bool(value) => map.serialize_entry(name, value)?,
        }
    }
    map.end()
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
        for outcome in group.outcomes {
            if outcome.job.stage == Stage::Perf {
                tried += outcome.candidates.len() as u64;
            }
            for failure in outcome.candidates.iter().filter_map(|candidate| candidate.result.as_ref().err()) {
                *failed.entry(failure.kind.name().to_string()).or_default() += 1;
            }
        }
        Self {
            problem: group.problem.canonical(),
            label: group.problem.label(),
            spec: group.description.library.clone(),
            winner: group.decision.as_ref().and_then(|decision| winner(group, decision)),
            tried,
            failed,
        }
    }
}

fn winner(group: &Group<'_>, decision: &Decision<'_>) -> Option<Winner> {
    let winner = decision.winner()?;
    let candidate = &winner.outcome.candidate;
    let solver = group.description.solver(&candidate.solver);
    let name = |index: usize| solver.and_then(|solver| solver.params.get(index)).cloned();
    let params = candidate.params.iter().enumerate();
    let params = params.map(|(index, value)| (name(index).unwrap_or_else(|| index.to_string()), value.clone()));
    let default = solver.and_then(|solver| solver.default.clone());
    let default = default.map(|params| Candidate { solver: candidate.solver.clone(), params });
    let perf = PerfTimes(group.outcomes);
    let own = perf.of(candidate);
    let over = |other: Option<f64>| Some(other? / own?);
    Some(Winner {
        solver: candidate.solver.clone(),
        params: params.collect(),
        median_ms: winner.timing.median_ms,
        spread_ms: winner.timing.spread_ms,
        workspace: winner.workspace(),
        gflops: group.problem.flops() / (winner.timing.median_ms * 1e6),
        ties: decision.ties,
        speedup_over_default: over(default.and_then(|default| perf.of(&default))),
        speedup_over_worst: over(perf.worst()),
        speedup_over_reference: over(group.description.reference.as_ref().and_then(|reference| perf.of(reference))),
    })
}

/// Medians of the perf stage, those of mere probes included.
struct PerfTimes<'a>(&'a [Outcome]);

impl<'a> PerfTimes<'a> {
    fn all(&self) -> impl Iterator<Item = (&'a Candidate, f64)> {
        let perf = self.0.iter().filter(|outcome| outcome.job.stage == Stage::Perf);
        perf.flat_map(|outcome| &outcome.candidates).filter_map(|candidate| {
            let median = candidate.result.as_ref().ok()?.median_ms;
            (median > 0.0).then_some((&candidate.candidate, median))
        })
    }

    fn of(&self, wanted: &Candidate) -> Option<f64> {
        self.all().filter(|(candidate, _)| *candidate == wanted).map(|(_, median)| median).min_by(f64::total_cmp)
    }

    fn worst(&self) -> Option<f64> {
        self.all().map(|(_, median)| median).max_by(f64::total_cmp)
    }
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

/// Summaries of `groups`, in their order. A group without outcomes has none.
///
/// # Errors
/// If the store fails, or a kernel spec in it can not be used.
pub async fn summaries(store: &dyn Store, session: &Session, groups: &[GroupId]) -> Result<Vec<Summary>, ExportError> {
    let Summaries(all) = stream::fold(store, session, groups, None, Summaries::default).await?.records;
    Ok(all)
}
