//! How searches ended, as results tell it: of each solver of a problem, and of each of its candidates.

use bluefin_common::search_end::SearchEnd;
use serde::Serialize;

use crate::fold::Group;

/// How the search of a solver ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Searched {
    pub solver: String,
    /// Its candidates that were tried.
    pub tried: u64,
    /// Points of its tuning space; an estimate of a large one.
    pub of: u64,
    /// Why no more were tried: all were, the budget or the session's patience was at its end, or other solvers are much faster.
    pub ended: &'static str,
    /// By how much the best time is expected to fall if as many candidates are tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_gain_percent: Option<f64>,
}

impl Searched {
    /// The share of the space that was tried, in percent.
    #[must_use]
    pub fn share_percent(&self) -> f64 {
        100.0 * self.tried as f64 / self.of.max(1) as f64
    }

    /// How the searches of a group's solvers ended.
    #[must_use]
    pub fn all(group: &Group<'_>) -> Vec<Self> {
        let ends = group.search.map_or(&[][..], |SearchEnd(ends)| ends);
        let told = ends.iter().map(|end| Self {
            solver: end.solver.clone(),
            tried: end.tried,
            of: end.valid,
            ended: end.why.name(),
            expected_gain_percent: end.left.map(|hundredths| f64::from(hundredths) / 100.0),
        });
        told.collect()
    }
}
